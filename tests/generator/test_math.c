/* The functions against long double: every 16-bit argument, and a sample over all exponents of f32 and f64,
 * in units of the last place. ARKE_SHOW_ERRORS=1 prints the worst of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "generator/assemble.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "generator_suites.h"
#include "run_kernel.h"
#include "tests/support/thinned.h"

enum { THREADS = 256, MOST = 512 * 1024 };

typedef struct math_case {
  ir_function f;
  gen_accuracy accuracy;
  bool f64;
} math_case;

/* z[i] = f(x[i]) or f(x[i], y[i]). */
static void build_function(gen_builder *b, void *user) {
  const math_case *c = user;
  gen_value index = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS), gen_tid_x(b)), v;
  gen_value at = gen_mul_imm(b, gen_zext(b, index, GEN_I64), c->f64 ? 8 : 4);
  gen_type type = c->f64 ? GEN_F64 : GEN_F32;
  arke_error err = ARKE_ERROR_INIT;
  bool two = c->f == IR_FN_POW;
  gen_value args[] = {gen_load_global(b, type, 1, gen_add(b, gen_param(b, 1), at), true),
                      two ? gen_load_global(b, type, 1, gen_add(b, gen_param(b, 2), at), true) : NULL};
  ck_assert_msg(gen_math_to(b, c->f, c->accuracy, args, &v, &err) == ARKE_OK, "%s", err.text);
  gen_store_global(b, v, gen_add(b, gen_param(b, 0), at));
}

static void evaluate(const math_case *c, void *x, void *y, void *z, int n) {
  arena a = ARENA_INIT;
  int buffers_used = y ? 3 : 2;
  size_t bytes = (size_t)n * (c->f64 ? 8 : 4);
  gen_output k = make_kernel(build_function, (void *)c, buffers_used, THREADS, &a);
  ck_assert_ptr_null(strstr(k.ptx, "call"));
  ck_assert_ptr_null(strstr(k.ptx, ".local"));
  kernel_buffer buffers[] = {{z, bytes, true, false}, {x, bytes, false, false}, {y, bytes, false, false}};
  run_kernel(&k, buffers, buffers_used, n, n / THREADS, THREADS);
  arena_release(&a);
}

static const long double root_half = 0.707106781186547524400844362104849L;

static long double reference(ir_function f, long double x, long double y) {
  switch (f) {
  case IR_FN_EXP: return expl(x);
  case IR_FN_EXP2: return exp2l(x);
  case IR_FN_LOG: return logl(x);
  case IR_FN_LOG2: return log2l(x);
  case IR_FN_LOG1P: return log1pl(x);
  case IR_FN_SQRT: return sqrtl(x);
  case IR_FN_RSQRT: return 1 / sqrtl(x);
  case IR_FN_RECIP: return 1 / x;
  case IR_FN_SIN: return sinl(x);
  case IR_FN_COS: return cosl(x);
  case IR_FN_TANH: return tanhl(x);
  case IR_FN_SIGMOID: return 1 / (1 + expl(-x));
  case IR_FN_ERF: return erfl(x);
  case IR_FN_POW: return powl(x, y);
  case IR_FN_SILU: return x / (1 + expl(-x));
  case IR_FN_GELU: return x * (erfcl(-x * root_half) / 2);
  case IR_FN_GELU_TANH: {
    long double u = 0.797884560802865355879892119868764L * (x + 0.044715L * x * x * x);
    return x / (1 + expl(-2 * u));
  }
  default: return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
  }
}

/* The last place of a value of f32 or f64. */
static long double last_place(long double v, bool f64) {
  int e, digits = f64 ? 53 : 24, least = f64 ? -1074 : -149;
  frexpl(v, &e);
  e = v == 0 || e - digits < least ? least : e - digits;
  return ldexpl(1, e);
}

static double number(const void *data, int i, bool f64) {
  return f64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* What the type makes of the exact value, where that is past its end. */
static double rounded(long double v, bool f64) {
  return f64 ? (double)v : (double)(float)v;
}

typedef struct worst {
  double error; /* of the unit */
  double at, at_y, got, want;
} worst;

static const char *name_of(ir_function f) {
  static const char *const names[] = {
#define X(NAME, name, arity, reference, meaning) #name,
      IR_FUNCTIONS(X)
#undef X
  };
  return names[f];
}

/* Special results must be those of the type; the others within `ulp` places and `relative` and `absolute` of
 * the exact value. */
static void compare(const math_case *c, const void *x, const void *y, const void *z, int n, double ulp,
                    double relative, double absolute) {
  worst w = {0};
  for (int i = 0; i < n; i++) {
    double in = number(x, i, c->f64), in_y = y ? number(y, i, c->f64) : 0, got = number(z, i, c->f64);
    long double exact = reference(c->f, in, in_y);
    double want = rounded(exact, c->f64);
    if (isnan(want) || isinf(want) || isnan(got) || isinf(got)) {
      /* Just past the end, either side will do. */
      bool at_end = isinf(want) != isinf(got) && !isnan(want) && !isnan(got) &&
                    fabsl(exact) > (c->f64 ? 0x1.FFFFFFFFFFFp1023L : 0x1.FFFF0p127L);
      bool same = isnan(want) ? isnan(got) : got == want;
      if (!same && !at_end) /* an assertion each would write a file each */
        ck_abort_msg("%s(%.9g, %.9g) = %.9g instead of %.9g", name_of(c->f), in, in_y, got, want);
      continue;
    }
    if (want == 0 && got == 0 && in == 0 && signbit(want) != signbit(got))
      ck_abort_msg("%s(%g) has the wrong sign", name_of(c->f), in);
    long double unit = ulp > 0 ? last_place(exact, c->f64) : fabsl(exact) * (long double)relative;
    long double beyond = fabsl(got - exact) - (long double)absolute;
    double error = beyond <= 0 ? 0 : (double)(beyond / unit);
    if (error > w.error) w = (worst){error, in, in_y, got, want};
  }
  if (getenv("ARKE_SHOW_ERRORS"))
    fprintf(stderr, "%s %s %d: %.3f at %.9g %.9g (%.9g, not %.9g)\n", name_of(c->f), c->f64 ? "f64" : "f32",
            c->accuracy, w.error, w.at, w.at_y, w.got, w.want);
  ck_assert_msg(w.error <= (ulp > 0 ? ulp : 1), "%s is off by %.3f at %.17g, %.17g: %.17g instead of %.17g",
                name_of(c->f), w.error, w.at, w.at_y, w.got, w.want);
}

/* --- arguments --- */

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 11;
}

/* Every f16, every bf16, then all exponents with `per` fractions each, of both signs; then values around
 * those where functions bend. */
static int fill_f32(float *x) {
  int n = 0;
  for (int i = 0; i < 65536; i++) {
    uint16_t code = (uint16_t)i;
    x[n++] = (float)dtype_load(DTYPE_F16, &code, 0);
    x[n++] = (float)dtype_load(DTYPE_BF16, &code, 0);
  }
  uint64_t state = 1;
  for (int e = 0; e < 255; e++)
    for (int k = 0; k < 128; k++)
      for (int s = 0; s < 2; s++) {
        uint32_t fraction = k == 0 ? 0 : k == 1 ? 0x7FFFFF : (uint32_t)next_random(&state) & 0x7FFFFF;
        uint32_t bits = (uint32_t)s << 31 | (uint32_t)e << 23 | fraction;
        memcpy(&x[n++], &bits, 4);
      }
  for (int i = 0; i < 65536; i++) { /* where most arguments lie */
    double u = (double)next_random(&state) * 0x1p-53;
    x[n++] = (float)((u - 0.5) * (i % 4 == 0 ? 4 : i % 4 == 1 ? 32 : i % 4 == 2 ? 220 : 2e6));
  }
  for (int i = 0; i < 16384; i++) { /* the floats next to multiples of pi / 2, up to 10^6 and past it */
    double k = i < 8192 ? i : floor((double)next_random(&state) * 0x1p-53 * 1.3e6);
    x[n++] = (float)(k * 1.5707963267948966);
  }
  for (int i = 0; i < 4096; i++) x[n++] = nextafterf(1, 2) + (float)(i - 2048) * 0x1p-23f; /* around 1 */
  while (n % THREADS) x[n++] = 1;
  return n;
}

static int fill_f64(double *x) {
  int n = 0;
  uint64_t state = 2;
  static const double special[] = {0,          -0.0,      1,     -1,  INFINITY, -INFINITY, NAN, 0x1p-1074,
                                   -0x1p-1074, 0x1p-1022, 1e308, 0.5, 2,        3,         710, -746};
  for (size_t i = 0; i < COUNT_OF(special); i++) x[n++] = special[i];
  for (int e = 0; e < 2047; e += 1)
    for (int k = 0; k < 8; k++) {
      uint64_t bits = (next_random(&state) << 11 ^ next_random(&state)) & 0x800FFFFFFFFFFFFF;
      bits |= (uint64_t)e << 52;
      memcpy(&x[n++], &bits, 8);
    }
  for (int i = 0; i < 40000; i++) {
    double u = (double)next_random(&state) * 0x1p-53;
    x[n++] = (u - 0.5) * (i % 4 == 0 ? 4 : i % 4 == 1 ? 32 : i % 4 == 2 ? 1600 : 2e6);
  }
  for (int i = 0; i < 8192; i++)
    x[n++] = (i < 4096 ? i : floor((double)next_random(&state) * 0x1p-53 * 1e9)) * 1.5707963267948966;
  for (int i = 0; i < 4096; i++) x[n++] = 1 + (i - 2048) * 0x1p-52;
  while (n % THREADS) x[n++] = 1;
  return n;
}

static const ir_function functions[] = {
    IR_FN_EXP,   IR_FN_EXP2,  IR_FN_LOG,  IR_FN_LOG2,      IR_FN_LOG1P,    IR_FN_SQRT,
    IR_FN_RSQRT, IR_FN_RECIP, IR_FN_SIN,  IR_FN_COS,       IR_FN_TANH,     IR_FN_SIGMOID,
    IR_FN_ERF,   IR_FN_SILU,  IR_FN_GELU, IR_FN_GELU_TANH, IR_FN_SOFTPLUS,
};

START_TEST(f32_in_full) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  static float x[MOST], z[MOST];
  math_case c = {functions[_i], GEN_ACCURACY_FULL, false};
  double absolute, ulp = gen_math_error(c.f, false, &absolute);
  int n = fill_f32(x);
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, ulp, 0, absolute);
}
END_TEST

START_TEST(f64_in_full) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  static double x[MOST], z[MOST];
  math_case c = {functions[_i], GEN_ACCURACY_FULL, true};
  double absolute, ulp = gen_math_error(c.f, true, &absolute);
  int n = fill_f64(x);
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, ulp, 0, absolute);
}
END_TEST

/* What a 16-bit result needs: 2^-15 of the value. */
START_TEST(f32_for_narrow_results) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  static float x[MOST], z[MOST];
  math_case c = {functions[_i], GEN_ACCURACY_NARROW, false};
  int n = fill_f32(x);
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, 0, 0x1p-15, 0x1p-118);
}
END_TEST

/* Scores: 2^-20 of the value. */
START_TEST(f32_for_scores) {
  static float x[MOST], z[MOST];
  math_case c = {IR_FN_TANH, GEN_ACCURACY_SCORE, false};
  int n = fill_f32(x);
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, 0, 0x1p-20, 0x1p-118);
}
END_TEST

/* Terms of sums: (2 + |x|) 2^-23 of the value. */
START_TEST(f32_for_terms) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  static float all[MOST], x[MOST], z[MOST];
  math_case c = {_i % 2 ? IR_FN_EXP2 : IR_FN_EXP, GEN_ACCURACY_TERM, false};
  float most = _i < 2 ? 1 : 80;
  int n_all = fill_f32(all), n = 0;
  for (int i = 0; i < n_all; i++)
    if (fabsf(all[i]) <= most) x[n++] = all[i];
  while (n % THREADS) x[n++] = 1;
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, 0, (2 + (double)most) * 0x1p-23, 0x1p-118);
}
END_TEST

/* --- pow --- */

static int fill_pairs(void *x, void *y, bool f64, bool narrow) {
  static const double bases[] = {0,   1,    2,    0.5,   3,    10,       10000,    500000, 0.9999, 1.0001,
                                 1.5, 7.25, 1e-3, 1e-30, 1e30, 0x1p-140, INFINITY, NAN,    0.7071, 1.4143};
  static const double exponents[] = {0,        0.5,       1,        2,    3,        5,     7.5,
                                     0.333333, 0.0078125, 10,       31,   100,      127.5, 1e-5,
                                     1e10,     16777215,  16777216, 3e38, INFINITY, NAN};
  enum { B = (int)COUNT_OF(bases), E = (int)COUNT_OF(exponents) };
  int n = 0;
  uint64_t state = 3;
  for (int i = 0; i < 60000 || n % THREADS; i++) {
    double u, v;
    if (i < B * E * 4) {
      u = bases[i / 4 % B] * (i & 1 ? -1 : 1);
      v = exponents[i / 4 / B] * (i & 2 ? -1 : 1);
    } else { /* results over the whole range */
      u = exp2(((double)next_random(&state) * 0x1p-53 - 0.5) * (i % 3 == 0 ? 250 : i % 3 == 1 ? 20 : 0.1));
      v = ((double)next_random(&state) * 0x1p-53 - 0.5) * 2 * (f64 ? 1080 : 152) / fabs(log2(u));
      if (i % 5 == 0) u = -u, v = rint(v);
    }
    if (narrow && fabs(v) > 1e4 && !isinf(v)) v = 2;
    if (f64)
      ((double *)x)[n] = u, ((double *)y)[n] = v;
    else
      ((float *)x)[n] = (float)u, ((float *)y)[n] = (float)v;
    n++;
  }
  return n;
}

START_TEST(powers) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  static double x[MOST], y[MOST], z[MOST];
  bool f64 = _i == 1;
  math_case c = {IR_FN_POW, _i == 2 ? GEN_ACCURACY_NARROW : GEN_ACCURACY_FULL, f64};
  double absolute, ulp = gen_math_error(c.f, f64, &absolute);
  int n = fill_pairs(x, y, f64, _i == 2);
  evaluate(&c, x, y, z, n);
  if (_i == 2)
    compare(&c, x, y, z, n, 0, 0x1p-15, 0x1p-118);
  else
    compare(&c, x, y, z, n, ulp, 0, absolute);
}
END_TEST

/* --- in haste --- */

START_TEST(f32_in_haste) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  static const struct {
    ir_function f;
    double relative, absolute, most;
  } cases[] = {{IR_FN_TANH, 0x1p-10, 0, 1e30},       {IR_FN_SIN, 0, 0x1p-18, 100},
               {IR_FN_COS, 0, 0x1p-18, 100},         {IR_FN_LOG, 0x1p-20, 0x1p-21, 1e30},
               {IR_FN_LOG2, 0x1p-20, 0x1p-21, 1e30}, {IR_FN_EXP, 0x1p-15, 0x1p-118, 80}};
  static float x[MOST], z[MOST];
  math_case c = {cases[_i].f, GEN_ACCURACY_FAST, false};
  int all = fill_f32(x), n = 0;
  for (int i = 0; i < all; i++)
    if (fabsf(x[i]) <= (float)cases[_i].most && (c.f < IR_FN_LOG || x[i] > 0x1p-126f || c.f > IR_FN_LOG2))
      x[n++] = x[i];
  n -= n % THREADS;
  evaluate(&c, x, NULL, z, n);
  compare(&c, x, NULL, z, n, 0, cases[_i].relative > 0 ? cases[_i].relative : 0x1p-30, cases[_i].absolute);
}
END_TEST

/* All of them at once, as an assembler sees them: no stack, no calls. */
static void build_all(gen_builder *b, void *user) {
  const math_case *c = user;
  gen_type type = c->f64 ? GEN_F64 : GEN_F32;
  gen_value at = gen_mul_imm(b, gen_zext(b, gen_tid_x(b), GEN_I64), 8);
  gen_value x = gen_load_global(b, type, 1, gen_add(b, gen_param(b, 1), at), true);
  arke_error err = ARKE_ERROR_INIT;
  for (size_t i = 0; i <= COUNT_OF(functions); i++) {
    ir_function f = i < COUNT_OF(functions) ? functions[i] : IR_FN_POW;
    gen_value v;
    ck_assert_int_eq(gen_math_to(b, f, c->accuracy, (gen_value[]){x, x}, &v, &err), ARKE_OK);
    gen_value row = gen_add_imm(b, gen_param(b, 0), (int64_t)i * THREADS * 8);
    gen_store_global(b, v, gen_add(b, row, at));
  }
  gen_store_global(b, gen_float_modulo(b, x, x), gen_add(b, gen_param(b, 0), at));
}

START_TEST(all_assemble_without_a_stack) {
  assembler_kind kind = assembler_find();
  if (kind == ASSEMBLER_NONE) return;
  math_case c = {IR_FN_EXP, (gen_accuracy)(_i % 3), _i == 3};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  assembled out;
  gen_output k = make_kernel(build_all, &c, 2, THREADS, &a);
  ck_assert_ptr_null(strstr(k.ptx, ".local"));
  ck_assert_msg(assemble_ptx(kind, k.ptx, "sm_90a", &out, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_le(out.spill_bytes, 0);
  assembled_free(&out);
  arena_release(&a);
}
END_TEST

/* --- several quotients by one divisor --- */

enum { TOGETHER = 4 };

/* z[4 i + k] = x[4 i + k] / y[i]. */
static void build_quotients(gen_builder *b, void *user) {
  (void)user;
  gen_value index = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS), gen_tid_x(b));
  gen_value at = gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4), x[TOGETHER], z[TOGETHER];
  gen_value y = gen_load_global(b, GEN_F32, 1, gen_add(b, gen_param(b, 2), at), true);
  gen_value first = gen_mul_imm(b, at, TOGETHER);
  for (int k = 0; k < TOGETHER; k++)
    x[k] = gen_load_global(b, GEN_F32, 1, gen_add_imm(b, gen_add(b, gen_param(b, 1), first), k * 4), true);
  gen_divide_all(b, x, TOGETHER, y, z);
  for (int k = 0; k < TOGETHER; k++)
    gen_store_global(b, z[k], gen_add_imm(b, gen_add(b, gen_param(b, 0), first), k * 4));
}

static uint32_t any_bits(uint32_t *state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8 ^ *state << 13;
}

/* Any bits, or (in turn) a number near 1, one with few digits, one of the edges. */
static float any_number(uint32_t *state, int kind) {
  static const float edges[] = {
      0,         -0.0F,    INFINITY,      -INFINITY,     NAN,           0x1p-149F,      0x1p-126F, 0x1p-127F,
      0x1p-100F, 0x1p100F, -0x1p-101F,    0x1p127F,      0x1p-20F,      0x1p20F,        -1,        3,
      127,       448,      0x1.fffffep0F, 0x1.fffffcp0F, 0x1.000002p0F, 0x1.fffffep127F};
  uint32_t bits = any_bits(state);
  if (kind == 1) bits = (bits & 0x03ffffff) + 0x3e000000;
  if (kind == 2) bits = ((bits & 0x87ff0000) + 0x3c000000) & 0xffff0000;
  if (kind == 3) return edges[bits % COUNT_OF(edges)];
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

START_TEST(quotients_by_one_divisor) {
  enum { GROUPS = 128 * THREADS };
  static float x[GROUPS * TOGETHER], y[GROUPS], z[GROUPS * TOGETHER];
  uint32_t state = 7;
  arena a = ARENA_INIT;
  for (int i = 0; i < GROUPS; i++) {
    y[i] = any_number(&state, i % 4);
    for (int k = 0; k < TOGETHER; k++) {
      x[i * TOGETHER + k] = any_number(&state, i / 4 % 8 < 4 ? i / 4 % 4 : k);
      /* The neighbours of a product: what corrections exist for. */
      if (i / 32 % 4 == 1) {
        float product = y[i] * any_number(&state, 1);
        x[i * TOGETHER + k] = k % 2 ? nextafterf(product, INFINITY) : product;
      }
    }
  }
  gen_output kernel = make_kernel(build_quotients, NULL, 3, THREADS, &a);
  kernel_buffer buffers[] = {
      {z, sizeof z, true, false}, {x, sizeof x, false, false}, {y, sizeof y, false, false}};
  run_kernel(&kernel, buffers, 3, GROUPS, GROUPS / THREADS, THREADS);
  for (int i = 0; i < GROUPS * TOGETHER; i++) {
    float want = x[i] / y[i / TOGETHER];
    bool same = isnan(want) ? isnan(z[i]) : memcmp(&want, &z[i], sizeof want) == 0;
    ck_assert_msg(same, "%a / %a is %a, not %a", x[i], y[i / TOGETHER], want, z[i]);
  }
  arena_release(&a);
}
END_TEST

TCase *math_tests(void) {
  TCase *tests = tcase_create("functions");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, f32_in_full, 0, (int)COUNT_OF(functions));
  tcase_add_loop_test(tests, f64_in_full, 0, (int)COUNT_OF(functions));
  tcase_add_loop_test(tests, f32_for_narrow_results, 0, (int)COUNT_OF(functions));
  tcase_add_test(tests, f32_for_scores);
  tcase_add_loop_test(tests, f32_for_terms, 0, 4);
  tcase_add_loop_test(tests, powers, 0, 3);
  tcase_add_loop_test(tests, f32_in_haste, 0, 6);
  tcase_add_test(tests, quotients_by_one_divisor);
  tcase_add_loop_test(tests, all_assemble_without_a_stack, 0, 4);
  return tests;
}
