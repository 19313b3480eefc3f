/* f16 and bf16 arithmetic against a search for the nearest of all codes, in 113-bit arithmetic. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ptx/nearest_code.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"
#include "tests/support/thinned.h"

typedef enum operation { ADD, SUB, MUL, FMA } operation;

static const struct {
  const char *text;
  operation op;
  bool bf16, ftz, sat, relu;
} ROWS[] = {
    {"add.rn.f16 %h0, %h1, %h2;", ADD, false, false, false, false},
    {"add.ftz.f16 %h0, %h1, %h2;", ADD, false, true, false, false},
    {"sub.sat.f16 %h0, %h1, %h2;", SUB, false, false, true, false},
    {"mul.rn.f16 %h0, %h1, %h2;", MUL, false, false, false, false},
    {"mul.ftz.f16 %h0, %h1, %h2;", MUL, false, true, false, false},
    {"fma.rn.f16 %h0, %h1, %h2, %h3;", FMA, false, false, false, false},
    {"fma.rn.relu.f16 %h0, %h1, %h2, %h3;", FMA, false, false, false, true},
    {"add.rn.bf16 %h0, %h1, %h2;", ADD, true, false, false, false},
    {"sub.bf16 %h0, %h1, %h2;", SUB, true, false, false, false},
    {"mul.bf16 %h0, %h1, %h2;", MUL, true, false, false, false},
    {"fma.rn.bf16 %h0, %h1, %h2, %h3;", FMA, true, false, false, false},
    {"fma.rn.relu.bf16 %h0, %h1, %h2, %h3;", FMA, true, false, false, true},
};

static const uint32_t F16_EDGES[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00,
                                     0xbc00, 0x3c01, 0x3bff, 0x7bff, 0xfbff, 0x1400, 0x6c00, 0x0800};
/* With products halfway between two codes (1.5 · 1.0078125 ·…), and addends far below. */
static const uint32_t BF16_EDGES[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80,
                                      0x3f81, 0x3f8f, 0x7f7f, 0xff7f, 0x1f00, 0x9f00, 0x3fc0, 0x3fa0};

static uint32_t pick(uint64_t *state, bool bf16, long index, int operand) {
  const uint32_t *edges = bf16 ? BF16_EDGES : F16_EDGES;
  if (index < 4096) return edges[index >> (4 * operand) & 15];
  uint32_t v = (uint32_t)next_random(state) & 0xffff;
  if (bf16) /* exponents from 2^-27 to 2^36: exact sums fit 113 bits */
    return (v & 0x807f) | (100 + (v >> 7 & 63)) << 7;
  return (v & 0x7c00) == 0x7c00 ? v & 0xbfff : v;
}

static __float128 value_of(bool bf16, uint32_t code, bool ftz) {
  const small_format *f = bf16 ? &small_bf16 : &small_f16;
  uint32_t magnitude = code & 0x7fff;
  if (ftz && !bf16 && magnitude < 0x400) magnitude = 0;
  __float128 v = small_value(f, magnitude);
  return (code & 0x8000) != 0 ? -v : v;
}

/* -1: not to be compared (the sign of an exact zero is checked elsewhere). */
static long expected_code(int row, const uint32_t in[3]) {
  bool bf16 = ROWS[row].bf16, ftz = ROWS[row].ftz;
  __float128 x = value_of(bf16, in[0], ftz), y = value_of(bf16, in[1], ftz), z = value_of(bf16, in[2], ftz),
             r;
  switch (ROWS[row].op) {
  case ADD: r = x + y; break;
  case SUB: r = x - y; break;
  case MUL: r = x * y; break;
  default: r = x * y + z; break;
  }
  if (ROWS[row].relu && r < 0) r = 0;
  if (ROWS[row].sat) r = r < 0 ? 0 : r > 1 ? 1 : r;
  if (r == 0) return -1;
  uint32_t code = nearest_code(bf16 ? &small_bf16 : &small_f16, r);
  if (ftz && (code & 0x7fff) < 0x400) code &= 0x8000;
  return (long)code;
}

/* bf16 edges span more than 113 bits when a huge and a tiny one meet; the tiny one then only breaks ties,
 * which 113 bits still show unless the gap is beyond them. */
static bool comparable(int row, const uint32_t in[3]) {
  if (!ROWS[row].bf16) return true;
  int low = 1 << 20, high = -(1 << 20);
  int e[3];
  for (int k = 0; k < 3; k++) e[k] = (int)(in[k] >> 7 & 0xff);
  if (ROWS[row].op == MUL) return true;
  if (ROWS[row].op == FMA) {
    low = e[0] + e[1] - 127 < e[2] ? e[0] + e[1] - 127 : e[2];
    high = e[0] + e[1] - 127 > e[2] ? e[0] + e[1] - 127 : e[2];
  } else {
    low = e[0] < e[1] ? e[0] : e[1];
    high = e[0] > e[1] ? e[0] : e[1];
  }
  return high - low < 90;
}

START_TEST(halves_round_to_the_nearest_code) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  uint64_t state = 17;
  one_warp *w = one_warp_new(ROWS[_i].text);
  uint64_t *d = one_warp_value(w, "%h0"), *a = one_warp_value(w, "%h1"), *b = one_warp_value(w, "%h2"),
           *c = one_warp_value(w, "%h3");
  long compared = 0;
  for (long first = 0; first < 8000; first += PTX_LANES) {
    for (int l = 0; l < PTX_LANES; l++) {
      a[l] = pick(&state, ROWS[_i].bf16, first + l, 0);
      b[l] = pick(&state, ROWS[_i].bf16, first + l, 1);
      c[l] = pick(&state, ROWS[_i].bf16, first + l, 2);
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      uint32_t in[3] = {(uint32_t)a[l], (uint32_t)b[l], (uint32_t)c[l]};
      if (!comparable(_i, in)) continue;
      long expected = expected_code(_i, in);
      if (expected < 0) {
        ck_assert_uint_eq(d[l] & 0x7fff, 0);
        continue;
      }
      compared++;
      ck_assert_msg(d[l] == (uint64_t)expected, "%s (%#x, %#x, %#x): %#lx, expected %#lx", ROWS[_i].text,
                    in[0], in[1], in[2], (unsigned long)d[l], expected);
    }
  }
  ck_assert_int_gt(compared, 2500);
  one_warp_free(w);
}
END_TEST

static const struct {
  const char *text;
  uint32_t a, b, c, expected;
} SINGLE[] = {
    /* 1.5 times 1.0234375 lies halfway between two bf16 codes. */
    {"fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3fc0, 0x3f83, 0x0001, 0x3fc5}, /* up by a hair */
    {"fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3fc0, 0x3f83, 0x8001, 0x3fc4}, /* and down by a hair */
    {"fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3fc0, 0x3f83, 0x0000, 0x3fc4}, /* a tie goes to the even code */
    {"add.rn.bf16 %h0, %h1, %h2;", 0x7f7f, 0x7f7f, 0, 0x7f80},
    {"add.rn.f16 %h0, %h1, %h2;", 0x7bff, 0x4c00, 0, 0x7c00}, /* 65504 + 16 is the tie that overflows */
    {"add.rn.f16 %h0, %h1, %h2;", 0x7bff, 0x4bff, 0, 0x7bff},
    {"add.rn.f16 %h0, %h1, %h2;", 0x7c00, 0xfc00, 0, 0x7fff},
    {"add.rn.f16 %h0, %h1, %h2;", 0x8000, 0x8000, 0, 0x8000},
    {"add.rn.f16 %h0, %h1, %h2;", 0x8000, 0x0000, 0, 0x0000},
    {"mul.rn.f16 %h0, %h1, %h2;", 0x8000, 0x3c00, 0, 0x8000},
    {"mul.rn.bf16 %h0, %h1, %h2;", 0x7fc0, 0x3f80, 0, 0x7fff},
    {"min.f16 %h0, %h1, %h2;", 0x3c00, 0x7e00, 0, 0x3c00},
    {"min.NaN.f16 %h0, %h1, %h2;", 0x3c00, 0x7e00, 0, 0x7fff},
    {"max.f16 %h0, %h1, %h2;", 0x8000, 0x0000, 0, 0x0000},
    {"max.xorsign.abs.f16 %h0, %h1, %h2;", 0xbc00, 0x4000, 0, 0xc000},
    {"max.bf16 %h0, %h1, %h2;", 0xbf80, 0x4000, 0, 0x4000},
    {"neg.f16 %h0, %h1;", 0x3c00, 0, 0, 0xbc00},
    {"neg.bf16 %h0, %h1;", 0x8000, 0, 0, 0x0000},
    {"abs.bf16 %h0, %h1;", 0xbf80, 0, 0, 0x3f80},
    {"abs.ftz.f16 %h0, %h1;", 0x8001, 0, 0, 0x0000},
    {"ex2.approx.f16 %h0, %h1;", 0x4200, 0, 0, 0x4800},
    {"ex2.approx.ftz.bf16 %h0, %h1;", 0x4040, 0, 0, 0x4100},
    {"tanh.approx.bf16 %h0, %h1;", 0x42c8, 0, 0, 0x3f80},
    {"tanh.approx.f16 %h0, %h1;", 0x0000, 0, 0, 0x0000},
};

static void check_single(int row) {
  one_warp *w = one_warp_new(SINGLE[row].text);
  for (int l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%h1")[l] = SINGLE[row].a;
    one_warp_value(w, "%h2")[l] = SINGLE[row].b;
    one_warp_value(w, "%h3")[l] = SINGLE[row].c;
  }
  one_warp_must_run(w, PTX_FULL_MASK);
  uint64_t got = one_warp_value(w, "%h0")[9];
  ck_assert_msg(got == SINGLE[row].expected, "%s (%#x, %#x, %#x): %#lx, expected %#x", SINGLE[row].text,
                SINGLE[row].a, SINGLE[row].b, SINGLE[row].c, (unsigned long)got, SINGLE[row].expected);
  one_warp_free(w);
}

START_TEST(single_values) {
  for (int row = 0; row < (int)COUNT_OF(SINGLE); row++) check_single(row);
}
END_TEST

/* Each half of an x2 instruction is the scalar instruction. */
START_TEST(pairs_are_two_halves) {
  static const struct {
    const char *packed, *low, *high;
  } rows[] = {
      {"fma.rn.bf16x2 %r0, %r1, %r2, %r3;", "fma.rn.bf16 %h0, %h0, %h2, %h4;",
       "fma.rn.bf16 %h1, %h1, %h3, %h5;"},
      {"add.rn.f16x2 %r0, %r1, %r2;", "add.rn.f16 %h0, %h0, %h2;", "add.rn.f16 %h1, %h1, %h3;"},
      {"mul.bf16x2 %r0, %r1, %r2;", "mul.bf16 %h0, %h0, %h2;", "mul.bf16 %h1, %h1, %h3;"},
      {"max.f16x2 %r0, %r1, %r2;", "max.f16 %h0, %h0, %h2;", "max.f16 %h1, %h1, %h3;"},
      {"neg.bf16x2 %r0, %r1;", "neg.bf16 %h0, %h0;", "neg.bf16 %h1, %h1;"},
      {"ex2.approx.ftz.bf16x2 %r0, %r1;", "ex2.approx.ftz.bf16 %h0, %h0;", "ex2.approx.ftz.bf16 %h1, %h1;"},
  };
  char text[512];
  uint64_t state = 23;
  snprintf(text, sizeof text,
           "%s mov.b32 {%%h0, %%h1}, %%r1; mov.b32 {%%h2, %%h3}, %%r2; mov.b32 {%%h4, %%h5}, %%r3; %s %s "
           "mov.b32 %%r4, {%%h0, %%h1};",
           rows[_i].packed, rows[_i].low, rows[_i].high);
  one_warp *w = one_warp_new(text);
  for (int round = 0; round < 20; round++) {
    for (int l = 0; l < PTX_LANES; l++) {
      one_warp_value(w, "%r1")[l] = next_random(&state) & 0xffffffff;
      one_warp_value(w, "%r2")[l] = next_random(&state) & 0xffffffff;
      one_warp_value(w, "%r3")[l] = next_random(&state) & 0xffffffff;
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++)
      ck_assert_uint_eq(one_warp_value(w, "%r0")[l], one_warp_value(w, "%r4")[l]);
  }
  one_warp_free(w);
}
END_TEST

/* add.f32.bf16 and fma.f32.f16: the narrow operands are widened, the sum is f32's. */
START_TEST(mixed_precision) {
  one_warp *w = one_warp_new("add.rn.f32.bf16 %r0, %h1, %r1; fma.rn.f32.f16 %r2, %h2, %h3, %r1;"
                             "sub.f32.bf16 %r3, %h1, %r1;");
  for (int l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%h1")[l] = 0x3fc0;     /* 1.5 */
    one_warp_value(w, "%h2")[l] = 0x3c01;     /* 1 + 2^-10 */
    one_warp_value(w, "%h3")[l] = 0x4000;     /* 2 */
    one_warp_value(w, "%r1")[l] = 0x3e800000; /* 0.25 */
  }
  one_warp_must_run(w, PTX_FULL_MASK);
  ck_assert_uint_eq(one_warp_value(w, "%r0")[0], 0x3fe00000); /* 1.75 */
  ck_assert_uint_eq(one_warp_value(w, "%r2")[0], 0x40102000); /* 2.251953125 */
  ck_assert_uint_eq(one_warp_value(w, "%r3")[0], 0x3fa00000); /* 1.25 */
  one_warp_free(w);
}
END_TEST

Suite *alu_half_suite(void) {
  Suite *s = suite_create("alu_half");
  TCase *t = tcase_create("halves");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, halves_round_to_the_nearest_code, 0, (int)COUNT_OF(ROWS));
  tcase_add_test(t, single_values);
  tcase_add_loop_test(t, pairs_are_two_halves, 0, 6);
  tcase_add_test(t, mixed_precision);
  suite_add_tcase(s, t);
  return s;
}
