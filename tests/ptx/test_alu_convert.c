/* cvt: exhaustive over the small formats, tables of edge values elsewhere. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "emulator/alu_format.h"
#include "tests/ptx/nearest_code.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"
#include "tests/support/thinned.h"

static uint64_t of_float(double v) {
  float f = (float)v;
  uint32_t w;
  memcpy(&w, &f, sizeof w);
  return w;
}

static uint64_t of_double(double v) {
  uint64_t w;
  memcpy(&w, &v, sizeof w);
  return w;
}

static const struct {
  const char *text; /* from %r1, %d1, %h1 (all the same value) to one of register 0 */
  uint64_t in, expected;
} INTEGERS[] = {
    {"cvt.u64.u32 %d0, %r1;", 0xffffffff, 0xffffffff},
    {"cvt.s64.s32 %d0, %r1;", 0x80000000, 0xffffffff80000000},
    {"cvt.u32.u64 %r0, %d1;", 0x123456789abcdef0, 0x9abcdef0},
    {"cvt.u32.u16 %r0, %h1;", 0xffff, 0xffff},
    {"cvt.s32.s16 %r0, %h1;", 0x8000, 0xffff8000},
    {"cvt.s32.s8 %r0, %r1;", 0x1280, 0xffffff80},
    {"cvt.u32.u8 %r0, %r1;", 0x1280, 0x80},
    {"cvt.u16.u32 %h0, %r1;", 0x12345678, 0x5678},
    {"cvt.s8.s32 %r0, %r1;", 0x180, 0xffffff80}, /* extended to the register */
    {"cvt.u8.u32 %r0, %r1;", 0x180, 0x80},
    {"cvt.s64.s16 %d0, %h1;", 0xfffe, 0xfffffffffffffffe},
    {"cvt.sat.u8.s32 %r0, %r1;", 0xfffffff0, 0},
    {"cvt.sat.u8.s32 %r0, %r1;", 300, 255},
    {"cvt.sat.s8.s32 %r0, %r1;", 300, 127},
    {"cvt.sat.s8.s32 %r0, %r1;", 0xffffff00, 0xffffff80},
    {"cvt.sat.s32.s64 %r0, %d1;", 0x8000000000000000, 0x80000000},
    {"cvt.sat.u32.u64 %r0, %d1;", 0x100000000, 0xffffffff},
    {"cvt.sat.s32.u32 %r0, %r1;", 0xffffffff, 0x7fffffff},
    {"cvt.sat.u32.s32 %r0, %r1;", 0xffffffff, 0},
    {"cvt.sat.s64.u64 %d0, %d1;", 0xffffffffffffffff, 0x7fffffffffffffff},
    {"cvt.pack.sat.s16.s32 %r0, %r1, %r2;", 0x12345678, 0x7fff0002},
    {"cvt.pack.sat.u8.s32.b32 %r0, %r2, %r1, %r2;", 0xffffffff, 0x00020200},
    {"cvt.u32.u32 %r0, %tid.x;", 0, 3},
};

/* %r2 holds 2; lane 3 is looked at. */
static void check_one(const char *text, uint64_t in, uint64_t expected) {
  one_warp *w = one_warp_new(text);
  for (int l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%r1")[l] = in & 0xffffffff;
    one_warp_value(w, "%h1")[l] = in & 0xffff;
    one_warp_value(w, "%d1")[l] = in;
    one_warp_value(w, "%r2")[l] = 2;
  }
  one_warp_must_run(w, PTX_FULL_MASK);
  char name[4] = "%r0";
  const char *to = strchr(text, '%');
  name[1] = to[1];
  uint64_t got = one_warp_value(w, name)[3];
  ck_assert_msg(got == expected, "%s (%#lx): %#lx, expected %#lx", text, (unsigned long)in,
                (unsigned long)got, (unsigned long)expected);
  one_warp_free(w);
}

static void check_integer(int row) {
  check_one(INTEGERS[row].text, INTEGERS[row].in, INTEGERS[row].expected);
}

START_TEST(integers_to_integers) {
  for (int row = 0; row < (int)COUNT_OF(INTEGERS); row++) check_integer(row);
}
END_TEST

#define NAN32 0x7fc00000
static const struct {
  const char *text;
  double in; /* as f32 or f64, by the source register */
  uint64_t expected;
} TO_INTEGER[] = {
    {"cvt.rni.s32.f32 %r0, %r1;", 2.5, 2},
    {"cvt.rni.s32.f32 %r0, %r1;", 3.5, 4},
    {"cvt.rni.s32.f32 %r0, %r1;", -2.5, 0xfffffffe},
    {"cvt.rzi.s32.f32 %r0, %r1;", -2.9, 0xfffffffe},
    {"cvt.rmi.s32.f32 %r0, %r1;", -2.1, 0xfffffffd},
    {"cvt.rpi.s32.f32 %r0, %r1;", 2.1, 3},
    {"cvt.rzi.s32.f32 %r0, %r1;", 3e9, 0x7fffffff},
    {"cvt.rzi.s32.f32 %r0, %r1;", -3e9, 0x80000000},
    {"cvt.rzi.u32.f32 %r0, %r1;", -3, 0},
    {"cvt.rzi.u32.f32 %r0, %r1;", 3e9, 3000000000},
    {"cvt.rzi.u32.f32 %r0, %r1;", 1e10, 0xffffffff},
    {"cvt.rzi.u8.f32 %r0, %r1;", 300, 255},
    {"cvt.rzi.s8.f32 %r0, %r1;", -300, 0xffffff80},
    {"cvt.rzi.s32.f32 %r0, %r1;", NAN, 0},
    {"cvt.rzi.s64.f32 %d0, %r1;", NAN, 0x8000000000000000},
    {"cvt.rzi.s32.f64 %r0, %d1;", NAN, 0x80000000},
    {"cvt.rzi.u64.f64 %d0, %d1;", 1.8e19, 18000000000000000000u},
    {"cvt.rzi.u64.f64 %d0, %d1;", 1e20, 0xffffffffffffffff},
    {"cvt.rzi.s64.f64 %d0, %d1;", -9.3e18, 0x8000000000000000},
    {"cvt.rpi.ftz.s32.f32 %r0, %r1;", 1e-40, 0},
    {"cvt.rpi.s32.f32 %r0, %r1;", 1e-40, 1},
};

static void check_to_integer(int row) {
  bool wide = strstr(TO_INTEGER[row].text, "%d1") != NULL;
  check_one(TO_INTEGER[row].text, wide ? of_double(TO_INTEGER[row].in) : of_float(TO_INTEGER[row].in),
            TO_INTEGER[row].expected);
}

START_TEST(floats_to_integers) {
  for (int row = 0; row < (int)COUNT_OF(TO_INTEGER); row++) check_to_integer(row);
}
END_TEST

static const struct {
  const char *text;
  uint64_t in, expected;
} OTHERS[] = {
    {"cvt.rn.f32.s32 %r0, %r1;", 0xfffffffe, 0xc0000000},
    {"cvt.rn.f32.u32 %r0, %r1;", 0xffffffff, 0x4f800000},
    {"cvt.rz.f32.u32 %r0, %r1;", 0xffffffff, 0x4f7fffff},
    {"cvt.rm.f32.s32 %r0, %r1;", 0xfeffffff, 0xcb800001}, /* -(2^24 + 1) */
    {"cvt.rp.f32.s32 %r0, %r1;", 0xfeffffff, 0xcb800000},
    {"cvt.rn.f32.u64 %r0, %d1;", 0x8000008000000001, 0x5f000001}, /* a tie but for the last bit */
    {"cvt.rn.f32.u64 %r0, %d1;", 0x8000008000000000, 0x5f000000},
    {"cvt.rn.f64.s64 %d0, %d1;", 0x8000000000000000, 0xc3e0000000000000},
    {"cvt.rn.f64.u64 %d0, %d1;", 0xffffffffffffffff, 0x43f0000000000000},
    {"cvt.rz.f64.u64 %d0, %d1;", 0xffffffffffffffff, 0x43efffffffffffff},
    {"cvt.rn.f16.s32 %h0, %r1;", 100000, 0x7c00},
    {"cvt.rz.f16.s32 %h0, %r1;", 100000, 0x7bff},
    {"cvt.rn.bf16.s32 %h0, %r1;", 257, 0x4380},
    {"cvt.rn.f32.s8 %r0, %r1;", 0x80, 0xc3000000},
    {"cvt.f64.f32 %d0, %r1;", 0x3f800001, 0x3ff0000020000000},
    {"cvt.rn.f32.f64 %r0, %d1;", 0x3ff0000010000000, 0x3f800000},
    {"cvt.rn.f32.f64 %r0, %d1;", 0x3ff0000010000001, 0x3f800001},
    {"cvt.rz.f32.f64 %r0, %d1;", 0x3ff000001fffffff, 0x3f800000},
    {"cvt.rp.f32.f64 %r0, %d1;", 0x3ff0000000000001, 0x3f800001},
    {"cvt.rm.f32.f64 %r0, %d1;", 0xbff0000000000001, 0xbf800001},
    {"cvt.rn.f32.f64 %r0, %d1;", 0x47efffffffffffff, 0x7f800000},
    {"cvt.rz.f32.f64 %r0, %d1;", 0x7fefffffffffffff, 0x7f7fffff},
    {"cvt.rn.ftz.f32.f64 %r0, %d1;", 0x37f0000000000000, 0x00000000}, /* 2^-128 */
    {"cvt.rn.f32.f64 %r0, %d1;", 0x37f0000000000000, 0x00200000},
    {"cvt.rni.f32.f32 %r0, %r1;", 0x40200000, 0x40000000}, /* 2.5 -> 2 */
    {"cvt.rmi.f32.f32 %r0, %r1;", 0xbf000000, 0xbf800000},
    {"cvt.rpi.f32.f32 %r0, %r1;", 0xbf000000, 0x80000000},
    {"cvt.sat.f32.f32 %r0, %r1;", 0x40200000, 0x3f800000},
    {"cvt.ftz.f32.f32 %r0, %r1;", 0x80000001, 0x80000000},
    {"cvt.rn.bf16.f32 %h0, %r1;", 0x3f808000, 0x3f80}, /* tie to even */
    {"cvt.rn.bf16.f32 %h0, %r1;", 0x3f818000, 0x3f82},
    {"cvt.rn.bf16.f32 %h0, %r1;", 0x3f808001, 0x3f81},
    {"cvt.rz.bf16.f32 %h0, %r1;", 0x3f80ffff, 0x3f80},
    {"cvt.rn.bf16.f32 %h0, %r1;", 0x7f7fffff, 0x7f80},
    {"cvt.rn.satfinite.bf16.f32 %h0, %r1;", 0x7f7fffff, 0x7f7f},
    {"cvt.rn.bf16.f32 %h0, %r1;", 0xffc12345, 0x7fff},
    {"cvt.rn.relu.bf16.f32 %h0, %r1;", 0xbf800000, 0x0000},
    {"cvt.rn.f16.f32 %h0, %r1;", 0x477fefff, 0x7bff}, /* just below 65520 */
    {"cvt.rn.f16.f32 %h0, %r1;", 0x477ff000, 0x7c00},
    {"cvt.rn.f16.f32 %h0, %r1;", 0x33000000, 0x0000}, /* half the least subnormal ties to zero */
    {"cvt.rn.f16.f32 %h0, %r1;", 0x33000001, 0x0001},
    {"cvt.f32.bf16 %r0, %h1;", 0x8001, 0x80010000},
    {"cvt.f32.f16 %r0, %h1;", 0x7e00, 0x7fffffff},
    /* NaNs that an H200 keeps (alu_fidelity) */
    {"cvt.f64.f32 %d0, %r1;", 0xffb6874f, 0xfffed0e9e0000000},
    {"cvt.f64.f32 %d0, %r1;", 0x7fc00000, 0x7ff8000000000000},
    {"cvt.rn.f32.f64 %r0, %d1;", 0x7ffc9d8037eb16ff, 0x7fe4ec01},
    {"cvt.rn.f16.f64 %h0, %d1;", 0x7ff176f3953ef036, 0x7e5d},
    {"cvt.f32.bf16 %r0, %h1;", 0xff85, 0xff850000},
    {"cvt.rna.tf32.f32 %r0, %r1;", 0xffab1ef7, 0xffab0000},
    {"cvt.rna.tf32.f32 %r0, %r1;", 0x3f801000, 0x3f802000}, /* halfway goes away from zero */
    {"cvt.rna.tf32.f32 %r0, %r1;", 0x3f800fff, 0x3f800000},
    {"cvt.rn.tf32.f32 %r0, %r1;", 0x3f801000, 0x3f800000},
    {"cvt.rn.bf16x2.f32 %r0, %r1, %r2;", 0x3f800000,
     0x3f800000}, /* first operand above; 2 is subnormal dust */
    {"cvt.rn.f16x2.f32 %r0, %r2, %r1;", 0x40000000, 0x00004000},
    {"cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", 0x43e00000, 0x7e00}, /* 448 */
    {"cvt.rn.satfinite.e4m3x2.f32 %h0, %r2, %r1;", 0xc4000000, 0x00fe},
    {"cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", 0x7f800000, 0x7e00},
    {"cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", NAN32, 0x7f00},
    {"cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;", 0x7f800000, 0x7b00},
    {"cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;", NAN32, 0x7f00},
    {"cvt.rn.satfinite.relu.e4m3x2.f32 %h0, %r1, %r2;", 0xbf800000, 0x0000},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1;", 0x3c004000, 0x3840},
    {"cvt.rn.f16x2.e4m3x2 %r0, %h1;", 0x3840, 0x3c004000},
    {"cvt.rn.f16x2.e5m2x2 %r0, %h1;", 0xfc7b, 0xfc007b00},
    {"cvt.rn.f16x2.e4m3x2 %r0, %h1;", 0x7fff, 0x7fff7fff},
    {"cvt.rn.satfinite.e2m3x2.f32 %h0, %r1, %r2;", 0x40f00000, 0x1f00}, /* 7.5 */
    {"cvt.rn.satfinite.e3m2x2.f32 %h0, %r1, %r2;", 0x42000000, 0x1f00}, /* 32 -> 28 */
    {"cvt.rn.satfinite.e2m1x2.f32 %b0, %r1, %r2;", 0x40c00000, 0x70},   /* 6 */
    {"cvt.rn.satfinite.e2m1x2.f32 %b0, %r2, %r1;", 0xc1200000, 0x0f},
    {"cvt.rn.satfinite.e2m1x2.f32 %b0, %r1, %r2;", NAN32, 0x70},
    {"cvt.rp.satfinite.ue8m0x2.f32 %h0, %r1, %r2;", 0x3fc00000,
     0x8000}, /* 1.5 -> 2; the other operand -> 2^-127 */
    {"cvt.rz.satfinite.ue8m0x2.f32 %h0, %r1, %r2;", 0x3fc00000, 0x7f00},
    {"cvt.rp.satfinite.ue8m0x2.f32 %h0, %r1, %r2;", NAN32, 0xff00},
    {"cvt.rn.bf16x2.ue8m0x2 %r0, %h1;", 0x7f80, 0x3f804000},
};

static void check_other(int row) {
  check_one(OTHERS[row].text, OTHERS[row].in, OTHERS[row].expected);
}

START_TEST(floats_to_floats) {
  for (int row = 0; row < (int)COUNT_OF(OTHERS); row++) check_other(row);
}
END_TEST

static const struct {
  ptx_type type;
  const small_format *format;
} SMALL[] = {{PTX_TYPE_F16, &small_f16},   {PTX_TYPE_BF16, &small_bf16}, {PTX_TYPE_E4M3, &small_e4m3},
             {PTX_TYPE_E5M2, &small_e5m2}, {PTX_TYPE_E2M3, &small_e2m3}, {PTX_TYPE_E3M2, &small_e3m2},
             {PTX_TYPE_E2M1, &small_e2m1}};

START_TEST(every_code_round_trips) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  const alu_format *f = alu_format_of(SMALL[_i].type);
  for (uint32_t code = 0; code <= SMALL[_i].format->largest; code++) {
    double v = alu_decode(f, code);
    ck_assert(v == (double)small_value(SMALL[_i].format, code));
    for (int mode = PTX_ROUND_RN; mode <= PTX_ROUND_RNA; mode++) {
      ck_assert_uint_eq(alu_encode(f, v, (ptx_rounding)mode, false), code);
      uint64_t sign = 1ull << (f->exponent_bits + f->fraction_bits);
      ck_assert_uint_eq(alu_encode(f, -v, (ptx_rounding)mode, false), code | sign);
    }
  }
}
END_TEST

START_TEST(encoding_finds_the_nearest_code) {
  const alu_format *f = alu_format_of(SMALL[_i].type);
  const small_format *s = SMALL[_i].format;
  uint64_t state = 29;
  for (int round = 0; round < 5000; round++) {
    /* A code, the next, and something between them: often exactly halfway. */
    uint32_t code = (uint32_t)(next_random(&state) % s->largest);
    double low = (double)small_value(s, code), high = (double)small_value(s, code + 1), v;
    switch (round % 4) {
    case 0: v = low + (high - low) / 2; break;
    case 1: v = nextafter(low + (high - low) / 2, 0); break;
    case 2: v = nextafter(low + (high - low) / 2, INFINITY); break;
    default: v = low + (high - low) * (double)(next_random(&state) >> 11) * 0x1p-53; break;
    }
    ck_assert_uint_eq(alu_encode(f, v, PTX_ROUND_RN, true), nearest_code(s, v));
    ck_assert_uint_eq(alu_encode(f, v, PTX_ROUND_RZ, true), v == high ? code + 1 : code);
    ck_assert_uint_eq(alu_encode(f, v, PTX_ROUND_RP, true), v == low ? code : code + 1);
    ck_assert_uint_eq(alu_encode(f, v, PTX_ROUND_RNA, true), v >= low + (high - low) / 2 ? code + 1 : code);
  }
}
END_TEST

START_TEST(quick_paths_equal_the_general_one) {
  const alu_format *f16 = alu_format_of(PTX_TYPE_F16), *bf16 = alu_format_of(PTX_TYPE_BF16);
  uint64_t state = 31;
  for (uint32_t code = 0; code < 0x10000; code++) {
    float v;
    uint32_t bits = alu_f32_of_f16(code);
    memcpy(&v, &bits, sizeof v);
    double exact = alu_decode(f16, code);
    ck_assert(isnan(exact) ? isnan(v) : (double)v == exact && (signbit(v) != 0) == (signbit(exact) != 0));
  }
  for (int round = 0; round < 50000; round++) {
    uint32_t bits = (uint32_t)next_random(&state);
    if (round % 2 == 0) bits = (bits & 0x8fffffff) | 0x30000000; /* where f16 lives */
    float v;
    memcpy(&v, &bits, sizeof v);
    ck_assert_uint_eq(alu_f16_of_f32(bits), alu_encode(f16, (double)v, PTX_ROUND_RN, false));
    ck_assert_uint_eq(alu_bf16_of_f32(bits), alu_encode(bf16, (double)v, PTX_ROUND_RN, false));
  }
}
END_TEST

Suite *alu_convert_suite(void) {
  Suite *s = suite_create("alu_convert");
  TCase *t = tcase_create("conversions");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, integers_to_integers);
  tcase_add_test(t, floats_to_integers);
  tcase_add_test(t, floats_to_floats);
  tcase_add_loop_test(t, every_code_round_trips, 0, (int)COUNT_OF(SMALL));
  tcase_add_loop_test(t, encoding_finds_the_nearest_code, 0, (int)COUNT_OF(SMALL));
  tcase_add_test(t, quick_paths_equal_the_general_one);
  suite_add_tcase(s, t);
  return s;
}
