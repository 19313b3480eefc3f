/* f32, f32x2 and f64 against the host's arithmetic, and against a second, integer implementation of rounding.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "emulator/alu_format.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"
#include "tests/support/thinned.h"

static float f32(uint64_t v) {
  uint32_t w = (uint32_t)v;
  float f;
  memcpy(&f, &w, sizeof f);
  return f;
}

static uint32_t bits32(float f) {
  uint32_t w;
  memcpy(&w, &f, sizeof w);
  return w;
}

static double f64(uint64_t v) {
  double d;
  memcpy(&d, &v, sizeof d);
  return d;
}

static const uint32_t EDGES[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x00800001,
    0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff, 0x3fc00000, 0x40490fdb, 0x7f7fffff, 0xff7fffff,
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x33800000, 0x4b000001, 0x7e800001, 0x7f000000,
};
enum { N_EDGES = sizeof EDGES / sizeof EDGES[0] };

/* Lanes: first every combination of edges, then random patterns. */
static uint32_t pick(uint64_t *state, long index, int operand) {
  if (index < (long)N_EDGES * N_EDGES) {
    if (operand < 2) return EDGES[operand == 0 ? index / N_EDGES : index % N_EDGES];
    return EDGES[(index * 7 + index / N_EDGES) % N_EDGES];
  }
  uint32_t v = (uint32_t)next_random(state);
  if (index % 3 == 0) return v;
  return (v & 0x80ffffff) | 0x3c000000 | (v & 0x03000000); /* near one, so that sums and products meet */
}

typedef enum basic { ADD, SUB, MUL, FMA, DIV, RCP, SQRT } basic;

static float host(basic op, float x, float y, float z) {
  switch (op) {
  case ADD: return x + y;
  case SUB: return x - y;
  case MUL: return x * y;
  case FMA: return fmaf(x, y, z);
  case DIV: return x / y;
  case RCP: return 1.0f / x;
  default: return sqrtf(x);
  }
}

static uint32_t flush(uint32_t v) {
  return (v & 0x7f800000) == 0 ? v & 0x80000000 : v;
}

static uint32_t canonical(uint32_t v) {
  return (v & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : v;
}

static const struct {
  const char *text;
  basic op;
  bool ftz, sat;
} NEAREST[] = {
    {"add.f32 %r0, %r1, %r2;", ADD, false, false},
    {"add.rn.ftz.f32 %r0, %r1, %r2;", ADD, true, false},
    {"sub.rn.f32 %r0, %r1, %r2;", SUB, false, false},
    {"sub.rn.sat.f32 %r0, %r1, %r2;", SUB, false, true},
    {"mul.rn.f32 %r0, %r1, %r2;", MUL, false, false},
    {"mul.ftz.f32 %r0, %r1, %r2;", MUL, true, false},
    {"fma.rn.f32 %r0, %r1, %r2, %r3;", FMA, false, false},
    {"fma.rn.ftz.sat.f32 %r0, %r1, %r2, %r3;", FMA, true, true},
    {"mad.rn.f32 %r0, %r1, %r2, %r3;", FMA, false, false},
    {"div.rn.f32 %r0, %r1, %r2;", DIV, false, false},
    {"rcp.rn.f32 %r0, %r1;", RCP, false, false},
    {"sqrt.rn.f32 %r0, %r1;", SQRT, false, false},
    {"sqrt.rn.ftz.f32 %r0, %r1;", SQRT, true, false},
};

START_TEST(nearest_equals_the_host) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  uint64_t state = 7;
  one_warp *w = one_warp_new(NEAREST[_i].text);
  uint64_t *d = one_warp_value(w, "%r0"), *a = one_warp_value(w, "%r1"), *b = one_warp_value(w, "%r2"),
           *c = one_warp_value(w, "%r3");
  for (long first = 0; first < 20000; first += PTX_LANES) {
    for (int l = 0; l < PTX_LANES; l++) {
      a[l] = pick(&state, first + l, 0);
      b[l] = pick(&state, first + l, 1);
      c[l] = pick(&state, first + l, 2);
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      uint32_t in[3] = {(uint32_t)a[l], (uint32_t)b[l], (uint32_t)c[l]};
      if (NEAREST[_i].ftz)
        for (int k = 0; k < 3; k++) in[k] = flush(in[k]);
      float r = host(NEAREST[_i].op, f32(in[0]), f32(in[1]), f32(in[2]));
      uint32_t expected = bits32(r);
      if (NEAREST[_i].ftz) expected = flush(expected);
      if (NEAREST[_i].sat) expected = isnan(r) || r < 0 ? 0 : r > 1 ? bits32(1.0f) : expected & 0x7fffffff;
      expected = canonical(expected);
      ck_assert_msg(d[l] == expected, "%s (%#lx, %#lx, %#lx): %#lx, expected %#x", NEAREST[_i].text,
                    (unsigned long)a[l], (unsigned long)b[l], (unsigned long)c[l], (unsigned long)d[l],
                    expected);
    }
  }
  one_warp_free(w);
}
END_TEST

static const struct {
  const char *format;
  basic op;
} DIRECTED[] = {{"add.%s.f32 %%r0, %%r1, %%r2;", ADD},
                {"sub.%s.f32 %%r0, %%r1, %%r2;", SUB},
                {"mul.%s.f32 %%r0, %%r1, %%r2;", MUL},
                {"fma.%s.f32 %%r0, %%r1, %%r2, %%r3;", FMA}};
static const struct {
  const char *text;
  ptx_rounding mode;
} MODES[] = {{"rn", PTX_ROUND_RN}, {"rz", PTX_ROUND_RZ}, {"rm", PTX_ROUND_RM}, {"rp", PTX_ROUND_RP}};

/* x·y + z as a double rounded to odd, then to 24 bits by integer arithmetic. A sum of zeros of both signs is
 * -0 when rounding down, which the double cannot know. */
START_TEST(directed_rounding_equals_integer_rounding) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  char text[96];
  uint64_t state = 11;
  int mode = _i % 4, which = _i / 4;
  snprintf(text, sizeof text, DIRECTED[which].format, MODES[mode].text);
  one_warp *w = one_warp_new(text);
  uint64_t *d = one_warp_value(w, "%r0"), *a = one_warp_value(w, "%r1"), *b = one_warp_value(w, "%r2"),
           *c = one_warp_value(w, "%r3");
  for (long first = 0; first < 20000; first += PTX_LANES) {
    for (int l = 0; l < PTX_LANES; l++) {
      a[l] = pick(&state, first + l, 0);
      b[l] = pick(&state, first + l, 1);
      c[l] = pick(&state, first + l, 2);
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      double x = (double)f32(a[l]), y = (double)f32(b[l]), z = (double)f32(c[l]), exact;
      switch (DIRECTED[which].op) {
      case ADD: exact = alu_fma_odd(x, 1, y); break;
      case SUB: exact = alu_fma_odd(x, 1, -y); break;
      case MUL: exact = x * y; break;
      default: exact = alu_fma_odd(x, y, z); break;
      }
      uint32_t expected =
          canonical((uint32_t)alu_encode(alu_format_of(PTX_TYPE_F32), exact, MODES[mode].mode, false));
      bool same = d[l] == expected || (exact == 0 && (d[l] & 0x7fffffff) == 0);
      ck_assert_msg(same, "%s (%#lx, %#lx, %#lx): %#lx, expected %#x", text, (unsigned long)a[l],
                    (unsigned long)b[l], (unsigned long)c[l], (unsigned long)d[l], expected);
    }
  }
  one_warp_free(w);
}
END_TEST

#define NAN32 0x7fc00000u
#define INF32 0x7f800000u
#define ZERO  0x00000000u
#define MZERO 0x80000000u
#define ONE   0x3f800000u
#define MONE  0xbf800000u
#define TWO   0x40000000u
#define MTWO  0xc0000000u
#define TINY  0x00000001u
#define CANON 0x7fffffffu

static const struct {
  const char *text;
  uint32_t a, b, c, expected;
} SINGLE[] = {
    {"min.f32 %r0, %r1, %r2;", ONE, TWO, 0, ONE},
    {"min.f32 %r0, %r1, %r2;", NAN32, TWO, 0, TWO},
    {"min.f32 %r0, %r1, %r2;", ONE, NAN32, 0, ONE},
    {"min.f32 %r0, %r1, %r2;", NAN32, NAN32, 0, CANON},
    {"min.f32 %r0, %r1, %r2;", ZERO, MZERO, 0, MZERO},
    {"min.f32 %r0, %r1, %r2;", MZERO, ZERO, 0, MZERO},
    {"max.f32 %r0, %r1, %r2;", ZERO, MZERO, 0, ZERO},
    {"max.f32 %r0, %r1, %r2;", MZERO, ZERO, 0, ZERO},
    {"max.f32 %r0, %r1, %r2;", MONE, NAN32, 0, MONE},
    {"max.NaN.f32 %r0, %r1, %r2;", MONE, NAN32, 0, CANON},
    {"min.ftz.f32 %r0, %r1, %r2;", TINY, ONE, 0, ZERO},
    {"min.xorsign.abs.f32 %r0, %r1, %r2;", MONE, TWO, 0, MONE},
    {"max.xorsign.abs.f32 %r0, %r1, %r2;", MONE, MTWO, 0, TWO},
    {"max.f32 %r0, %r1, %r2, %r3;", MONE, TWO, ONE, TWO},
    {"max.abs.f32 %r0, %r1, %r2, %r3;", ONE, TWO, 0xc0400000, 0x40400000},
    {"abs.f32 %r0, %r1;", MTWO, 0, 0, TWO},
    {"neg.f32 %r0, %r1;", ZERO, 0, 0, MZERO},
    {"neg.ftz.f32 %r0, %r1;", TINY, 0, 0, MZERO},
    {"copysign.f32 %r0, %r1, %r2;", MONE, TWO, 0, MTWO},
    {"add.rn.f32 %r0, %r1, %r2;", INF32, 0xff800000, 0, CANON},
    {"add.rn.sat.f32 %r0, %r1, %r2;", INF32, 0xff800000, 0, ZERO},
    {"add.rn.sat.f32 %r0, %r1, %r2;", MONE, ZERO, 0, ZERO},
    {"add.rn.sat.f32 %r0, %r1, %r2;", ONE, ONE, 0, ONE},
    {"rcp.approx.ftz.f32 %r0, %r1;", ZERO, 0, 0, INF32},
    {"rcp.approx.ftz.f32 %r0, %r1;", 0x80000001, 0, 0, 0xff800000},
    {"rcp.approx.ftz.f32 %r0, %r1;", 0x7f000000, 0, 0, ZERO}, /* 2^-127 is flushed */
    {"div.approx.f32 %r0, %r1, %r2;", ONE, 0x7f000000, 0, ZERO},
    {"div.approx.f32 %r0, %r1, %r2;", INF32, 0x7f000000, 0, CANON},
    {"div.approx.f32 %r0, %r1, %r2;", TWO, MONE, 0, MTWO},
    {"sqrt.approx.f32 %r0, %r1;", 0x40800000, 0, 0, TWO},
    {"sqrt.approx.f32 %r0, %r1;", MONE, 0, 0, CANON},
    {"rsqrt.approx.f32 %r0, %r1;", 0x40800000, 0, 0, 0x3f000000},
    {"rsqrt.approx.ftz.f32 %r0, %r1;", TINY, 0, 0, INF32},
    {"ex2.approx.ftz.f32 %r0, %r1;", 0xff800000, 0, 0, ZERO},
    {"ex2.approx.ftz.f32 %r0, %r1;", 0x40400000, 0, 0, 0x41000000},
    {"ex2.approx.ftz.f32 %r0, %r1;", 0xc3000000, 0, 0, ZERO}, /* 2^-128 is flushed */
    {"ex2.approx.f32 %r0, %r1;", 0xc3000000, 0, 0, 0x00200000},
    {"lg2.approx.f32 %r0, %r1;", 0x41000000, 0, 0, 0x40400000},
    {"lg2.approx.ftz.f32 %r0, %r1;", TINY, 0, 0, 0xff800000},
    {"lg2.approx.f32 %r0, %r1;", MONE, 0, 0, CANON},
    {"sin.approx.f32 %r0, %r1;", ZERO, 0, 0, ZERO},
    {"cos.approx.f32 %r0, %r1;", ZERO, 0, 0, ONE},
    {"tanh.approx.f32 %r0, %r1;", 0x42c80000, 0, 0, ONE},
    {"tanh.approx.f32 %r0, %r1;", INF32, 0, 0, ONE},
};

static void check_single(int row) {
  one_warp *w = one_warp_new(SINGLE[row].text);
  uint64_t *d = one_warp_value(w, "%r0");
  for (int l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%r1")[l] = SINGLE[row].a;
    one_warp_value(w, "%r2")[l] = SINGLE[row].b;
    one_warp_value(w, "%r3")[l] = SINGLE[row].c;
  }
  one_warp_must_run(w, PTX_FULL_MASK);
  ck_assert_msg(d[17] == SINGLE[row].expected, "%s (%#x, %#x, %#x): %#lx, expected %#x", SINGLE[row].text,
                SINGLE[row].a, SINGLE[row].b, SINGLE[row].c, (unsigned long)d[17], SINGLE[row].expected);
  one_warp_free(w);
}

START_TEST(single_values) {
  for (int row = 0; row < (int)COUNT_OF(SINGLE); row++) check_single(row);
}
END_TEST

static double rsqrt(double x) {
  return 1 / sqrt(x);
}

static double recip(double x) {
  return 1 / x;
}

static double third(double x) {
  return x / 3;
}

static const struct {
  const char *text;
  double (*exact)(double);
  double low, high, relative, absolute;
} APPROXIMATE[] = {
    {"ex2.approx.f32 %r0, %r1;", exp2, -120, 120, 0x1p-22, 0},
    {"lg2.approx.f32 %r0, %r1;", log2, 1e-30, 1e30, 0x1p-22, 0x1p-22},
    {"rsqrt.approx.f32 %r0, %r1;", rsqrt, 1e-30, 1e30, 0x1p-22, 0},
    {"sin.approx.f32 %r0, %r1;", sin, -3.14, 3.14, 0, 0x1p-20},
    {"cos.approx.f32 %r0, %r1;", cos, -3.14, 3.14, 0, 0x1p-20},
    {"tanh.approx.f32 %r0, %r1;", tanh, -9, 9, 0x1p-11, 0},
    {"rcp.approx.f32 %r0, %r1;", recip, 1e-30, 1e30, 0x1p-23, 0},
    {"sqrt.approx.f32 %r0, %r1;", sqrt, 1e-30, 1e30, 0x1p-23, 0},
    {"mov.b32 %r2, 0f40400000; div.full.f32 %r0, %r1, %r2;", third, -1e30, 1e30, 0x1p-22, 0},
};

/* Within the bound, and not nearer than the hardware may be: code must not rely on more. */
START_TEST(approximations_are_near_and_off) {
  one_warp *w = one_warp_new(APPROXIMATE[_i].text);
  uint64_t *d = one_warp_value(w, "%r0"), *a = one_warp_value(w, "%r1"), state = 3;
  double worst = 0;
  for (int round = 0; round < 100; round++) {
    for (int l = 0; l < PTX_LANES; l++) {
      double t = (double)(next_random(&state) >> 11) * 0x1p-53;
      a[l] = bits32((float)(APPROXIMATE[_i].low + t * (APPROXIMATE[_i].high - APPROXIMATE[_i].low)));
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      double exact = APPROXIMATE[_i].exact((double)f32(a[l])), got = (double)f32(d[l]);
      double error = fabs(got - exact) / (fabs(exact) * APPROXIMATE[_i].relative + APPROXIMATE[_i].absolute);
      worst = fmax(worst, error);
      ck_assert_msg(error <= 1, "%s (%g): %g, exactly %g", APPROXIMATE[_i].text, (double)f32(a[l]), got,
                    exact);
    }
  }
  ck_assert_double_ge(worst, 0.5);
  one_warp_free(w);
}
END_TEST

START_TEST(pairs_are_two_singles) {
  one_warp *w = one_warp_new("fma.rn.f32x2 %d0, %d1, %d2, %d3; add.rz.f32x2 %d4, %d1, %d2;"
                             "mov.b64 {%r1, %r4}, %d1; mov.b64 {%r2, %r5}, %d2; mov.b64 {%r3, %r6}, %d3;"
                             "fma.rn.f32 %r1, %r1, %r2, %r3; fma.rn.f32 %r4, %r4, %r5, %r6;"
                             "mov.b64 %d5, {%r1, %r4};");
  uint64_t state = 5;
  for (int l = 0; l < PTX_LANES; l++)
    for (int k = 1; k <= 3; k++) {
      char name[] = "%d0";
      name[2] = (char)('0' + k);
      one_warp_value(w, name)[l] = (uint64_t)pick(&state, 10001, k) << 32 | pick(&state, 10003, k);
    }
  one_warp_must_run(w, PTX_FULL_MASK);
  for (int l = 0; l < PTX_LANES; l++)
    ck_assert_uint_eq(one_warp_value(w, "%d0")[l], one_warp_value(w, "%d5")[l]);
  one_warp_free(w);
}
END_TEST

/* Rounding down and up enclose the nearest, one step apart when the result is inexact. */
START_TEST(double_rounding_modes_enclose) {
  static const char *const names[] = {"add", "sub", "mul", "div"};
  char text[256];
  uint64_t state = 13;
  int n = snprintf(text, sizeof text, "%s.rn.f64 %%d0, %%d1, %%d2; ", names[_i]);
  for (int k = 0; k < 3; k++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s.%s.f64 %%d%d, %%d1, %%d2; ", names[_i],
                  MODES[k + 1].text, k + 3);
  one_warp *w = one_warp_new(text);
  for (int round = 0; round < 50; round++) {
    for (int l = 0; l < PTX_LANES; l++)
      for (int k = 1; k <= 2; k++)
        one_warp_value(w, k == 1 ? "%d1" : "%d2")[l] =
            (next_random(&state) & 0x800fffffffffffff) | (1000 + next_random(&state) % 40) << 52;
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      double rn = f64(one_warp_value(w, "%d0")[l]), rz = f64(one_warp_value(w, "%d3")[l]),
             rm = f64(one_warp_value(w, "%d4")[l]), rp = f64(one_warp_value(w, "%d5")[l]);
      double x = f64(one_warp_value(w, "%d1")[l]), y = f64(one_warp_value(w, "%d2")[l]);
      double host = _i == 0 ? x + y : _i == 1 ? x - y : _i == 2 ? x * y : x / y;
      ck_assert(rn == host);
      ck_assert(rm <= rn && rn <= rp && (rm == rp || rp == nextafter(rm, INFINITY)));
      ck_assert(rz == (rn > 0 ? rm : rp));
    }
  }
  one_warp_free(w);
}
END_TEST

static const struct {
  const char *text;
  double a, b, c, expected;
} DOUBLES[] = {
    {"fma.rn.f64 %d0, %d1, %d2, %d3;", 1 + 0x1p-52, 1 - 0x1p-52, -1, -0x1p-104},
    {"rcp.rn.f64 %d0, %d1;", 3, 0, 0, 1.0 / 3},
    {"sqrt.rn.f64 %d0, %d1;", 2, 0, 0, 1.4142135623730951},
    {"min.f64 %d0, %d1, %d2;", 0.0, -0.0, 0, -0.0},
    {"max.f64 %d0, %d1, %d2;", NAN, -3, 0, -3},
    {"abs.f64 %d0, %d1;", -2.5, 0, 0, 2.5},
    {"neg.f64 %d0, %d1;", 2.5, 0, 0, -2.5},
    {"copysign.f64 %d0, %d1, %d2;", -1, 9, 0, -9},
    {"rsqrt.approx.f64 %d0, %d1;", 16, 0, 0, 0.25},
    {"add.f64 %d0, %d1, 0d3FF8000000000000;", 1, 0, 0, 2.5},
};

static void check_double(int row) {
  one_warp *w = one_warp_new(DOUBLES[row].text);
  const double in[3] = {DOUBLES[row].a, DOUBLES[row].b, DOUBLES[row].c};
  uint64_t bits[3], expected;
  memcpy(bits, in, sizeof bits);
  memcpy(&expected, &DOUBLES[row].expected, sizeof expected);
  for (int l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%d1")[l] = bits[0];
    one_warp_value(w, "%d2")[l] = bits[1];
    one_warp_value(w, "%d3")[l] = bits[2];
  }
  one_warp_must_run(w, PTX_FULL_MASK);
  ck_assert_uint_eq(one_warp_value(w, "%d0")[5], expected);
  one_warp_free(w);
}

START_TEST(double_values) {
  for (int row = 0; row < (int)COUNT_OF(DOUBLES); row++) check_double(row);
}
END_TEST

Suite *alu_float_suite(void) {
  Suite *s = suite_create("alu_float");
  TCase *t = tcase_create("floats");
  tcase_add_loop_test(t, nearest_equals_the_host, 0, (int)COUNT_OF(NEAREST));
  tcase_add_loop_test(t, directed_rounding_equals_integer_rounding, 0, 4 * (int)COUNT_OF(DIRECTED));
  tcase_add_test(t, single_values);
  tcase_add_loop_test(t, approximations_are_near_and_off, 0, (int)COUNT_OF(APPROXIMATE));
  tcase_add_test(t, pairs_are_two_singles);
  tcase_add_loop_test(t, double_rounding_modes_enclose, 0, 4);
  tcase_add_test(t, double_values);
  suite_add_tcase(s, t);
  return s;
}
