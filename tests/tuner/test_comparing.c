/* Comparing on a device: kernels against tune_compare, checks against those of the host. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "generator/target.h"
#include "tests/tuner/fake_gpu.h"
#include "tests/tuner/planted.h"
#include "tuner/compare.h"
#include "tuner/trial_inputs.h"
#include "tuner/trial_runner.h"

#define COLUMNS TUNE_COMPARE_COLUMNS

static device *open_emulator(void) {
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(device_open_emulator("sm_90a", 1, &d, &err) == ARKE_OK, "%s", err.text);
  return d;
}

#define OK(call) ck_assert_msg((call) == ARKE_OK, "%s", err.text)

static device_ptr allocate(device *d, const void *bytes, size_t n) {
  device_ptr p;
  arke_error err = ARKE_ERROR_INIT;
  OK(d->ops->mem_alloc(d, n, "test", &p, &err));
  OK(bytes ? d->ops->copy_in(d, p, bytes, n, &err) : d->ops->fill(d, p, 0x77, n, &err));
  return p;
}

/* --- kernels -------------------------------------------------------------------------------------------- */

/* Any bits of the type, and with them NaNs, infinities and subnormals. */
static void draw_bits(dtype t, char *row, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < dtype_bytes(t, n); i++) row[i] = (char)random_u64(seed, (uint64_t)i);
  if (t == DTYPE_BOOL)
    for (int64_t i = 0; i < n; i++) row[i] &= 1;
}

static void draw_normal(dtype t, char *row, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) dtype_store(t, row, i, 8 * random_normal(seed, (uint64_t)i));
}

static const double SPECIAL[] = {NAN,  INFINITY, -INFINITY, 0.0,   -0.0, 1.0,
                                 -1.0, 1e-40,    3e38,      -3e38, 448,  127};

/* Pairs of special values, one pair a row, at an odd place. */
static void plant_pair(dtype t, char *x, char *y, int pair) {
  dtype_store(t, x, 4097, SPECIAL[pair / (int)COUNT_OF(SPECIAL)]);
  dtype_store(t, y, 4097, SPECIAL[pair % (int)COUNT_OF(SPECIAL)]);
}

enum { PAIRS = COUNT_OF(SPECIAL) * COUNT_OF(SPECIAL), DRAWN = 8, ROWS = DRAWN + PAIRS };

/* The first rows: equal, all bits drawn, near and at the limits, one element changed; then pairs. */
static void draw_rows(dtype t, char *x, char *y, double relative, double absolute) {
  size_t bytes = tune_comparer_row_bytes(t);
  int64_t n = (int64_t)bytes * 8 / dtype_bits(t);
  for (int row = 0; row < ROWS; row++) {
    char *a = x + (size_t)row * bytes, *b = y + (size_t)row * bytes;
    if (row <= 1 || row == 5)
      draw_bits(t, b, n, 7);
    else
      draw_normal(t, b, n, 9);
    memcpy(a, b, bytes);
    if (row == 1) draw_bits(t, a, n, 8);
    for (int64_t i = 0; (row == 2 || row == 3) && i < n; i++) {
      double v = dtype_load(t, b, i), allowed = relative * fabs(v) + absolute;
      double off = allowed * random_uniform(3, (uint64_t)i) * (row == 2 ? 0.9 : 1.001);
      dtype_store(t, a, i, v + off);
    }
    if (row == 4) dtype_store(t, a, 0, dtype_load(t, b, 0) + 5);
    if (row == 5) dtype_store(t, a, n - 1, 1 - dtype_load(t, b, n - 1));
    if (row == 6) dtype_store(t, a, n / 2 + 77, dtype_load(t, b, n / 2 + 77) - 7);
    if (row >= DRAWN) plant_pair(t, a, b, row - DRAWN);
  }
}

/* Nothing that differs may be passed over; what is well within the limits must not be reported. */
static void check_rows(const tune_comparer *c, dtype t, double relative, double absolute) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  size_t bytes = tune_comparer_row_bytes(t);
  int64_t n = (int64_t)bytes * 8 / dtype_bits(t);
  char *x = malloc(bytes * ROWS), *y = malloc(bytes * ROWS);
  unsigned char found[ROWS];
  float limits[2];
  draw_rows(t, x, y, relative, absolute);
  tune_comparer_limits(t, relative, absolute, limits);
  device *d = c->dev;
  device_ptr dx = allocate(d, x, bytes * ROWS), dy = allocate(d, y, bytes * ROWS);
  device_ptr dl = allocate(d, limits, sizeof limits), df = allocate(d, NULL, ROWS);
  tune_launches l;
  OK(tune_comparer_elements(c, t, dx, dy, ROWS, dl, df, &a, &l, &err));
  OK(tune_launches_enqueue(d, &l, NULL, &err));
  OK(d->ops->copy_out(d, found, df, ROWS, &err));
  for (int row = 0; row < ROWS; row++) {
    char *at_x = x + (size_t)row * bytes, *at_y = y + (size_t)row * bytes;
    int64_t at = tune_compare(t, at_x, at_y, n, relative, absolute);
    ck_assert_int_le(found[row], 1);
    ck_assert_msg(at < 0 || found[row], "%s row %d element %lld is passed over", dtype_name(t), row,
                  (long long)at);
    bool exact = dtype_bits(t) < 8 || t == DTYPE_BOOL; /* bytes */
    if (tune_compare(t, at_x, at_y, n, relative * 0.99, absolute * 0.99) < 0 && !exact)
      ck_assert_msg(!found[row], "%s row %d agrees, and is reported", dtype_name(t), row);
    if (row == 0) ck_assert(!found[row]);
  }
  const device_ptr all[] = {dx, dy, dl, df};
  for (size_t i = 0; i < COUNT_OF(all); i++) d->ops->mem_free(d, all[i]);
  free(x);
  free(y);
  arena_release(&a);
}

START_TEST(kernels_agree_with_the_host) {
  dtype t = (dtype)_i;
  device *d = open_emulator();
  tune_comparer c;
  arke_error err = ARKE_ERROR_INIT;
  tune_comparer_open(d, target_find("sm_90a", NULL), 4, &c);
  OK(tune_comparer_lower(&c, &t, 1, &err));
  OK(tune_comparer_load(&c, &err));
  double roundoff = dtype_roundoff(t);
  check_rows(&c, t, 0, 0);
  check_rows(&c, t, 2 * roundoff, roundoff == 0 ? 1 : 1e-3 * roundoff);
  check_rows(&c, t, 8 * 0x1p-24, 0);
  tune_comparer_close(&c);
  d->ops->close(d);
}
END_TEST

/* --- a whole check, beside the host's ------------------------------------------------------------------- */

#define ROOMY  (INT64_C(1) << 30)
#define LITTLE (INT64_C(1) << 19)

typedef struct bench {
  device *d;
  arena a;
  ir_problem p;
  tune_tensors t;
  tune_expected on_device, on_host;
  tune_comparing c;
  int out; /* the first output */
} bench;

/* Values of the right outputs, which the test writes as a kernel would. */
static void write_right(bench *b) {
  arke_error err = ARKE_ERROR_INIT;
  OK(tune_tensors_poison(&b->t, &err));
  for (int i = 0; i < b->t.n; i++) {
    const tune_tensor *x = &b->t.list[i];
    if (x->output && x->alias < 0 && x->bytes > 0)
      OK(b->d->ops->copy(b->d, x->first, b->t.list[0].first, x->bytes, &err));
  }
}

static void open_bench_at(bench *b, device *d, const char *text, const char *bindings, int samples,
                          int64_t memory_bytes) {
  *b = (bench){.d = d};
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  tune_reference r = {.samples = samples, .limit_s = 10};
  OK(ir_op_parse(&b->a, text, &op, &err));
  OK(ir_problem_bind(op, bindings, &b->p, &err));
  b->out = op->n_inputs;
  tune_comparing_begin(&b->c, d, target_find("sm_90a", NULL), 4, &b->p);
  OK(tune_tensors_create(d, &b->p, true, 0, 3, &b->t, &err));
  tune_comparing_load(&b->c, &b->t, memory_bytes);
  OK(tune_expected_compute(&b->t, &r, 3, &b->on_device, &err));
  OK(tune_expected_compute(&b->t, &r, 3, &b->on_host, &err));
  OK(tune_comparing_end(&b->c, &b->t, &b->on_device, &err));
}

static void open_bench(bench *b, const char *text, const char *bindings, int samples) {
  open_bench_at(b, open_emulator(), text, bindings, samples, ROOMY);
  ck_assert_msg(b->c.active, "%s", b->c.why.text);
}

static void close_bench(bench *b) {
  tune_comparing_close(&b->c);
  tune_expected_release(&b->on_device);
  tune_expected_release(&b->on_host);
  tune_tensors_release(&b->t);
  arena_release(&b->a);
  b->d->ops->close(b->d);
}

static arke_status check_on_device(bench *b, tune_check *check, arke_error *err) {
  TRY(tune_comparing_wait(&b->c, err));
  return tune_device_check_outputs(&b->c.check, &b->on_device, &b->t, check, err);
}

static arke_status check_on_host(bench *b, tune_check *check, arke_error *err) {
  TRY(tune_tensors_check(&b->t, err));
  TRY(tune_tensors_fetch(&b->t, err));
  return tune_expected_check(&b->on_host, &b->t, check, err);
}

/* Both must say the same of what is on the device now, in the same words. */
static arke_status check_both(bench *b, arke_error *err) {
  arke_error host_err = ARKE_ERROR_INIT;
  tune_check on_device = {0}, on_host = {0};
  error_clear(err);
  arke_status status = check_on_device(b, &on_device, err), host = check_on_host(b, &on_host, &host_err);
  ck_assert_msg(status == host && strcmp(err->text, host_err.text) == 0, "device \"%s\", host \"%s\"",
                err->text, host_err.text);
  ck_assert_double_eq(on_device.error, on_host.error);
  ck_assert_double_eq(on_device.allowed, on_host.allowed);
  return status;
}

static void flip(bench *b, device_ptr at, unsigned char bits) {
  unsigned char byte;
  arke_error err = ARKE_ERROR_INIT;
  OK(b->d->ops->copy_out(b->d, &byte, at, 1, &err));
  byte ^= bits;
  OK(b->d->ops->copy_in(b->d, at, &byte, 1, &err));
}

/* Changes an element to one that differs in its type, beyond what bits that mean nothing do. */
static void spoil(bench *b, int tensor, int64_t at) {
  const tune_tensor *x = &b->t.list[tensor];
  int bits = dtype_bits(x->type);
  if (bits < 8)
    flip(b, x->first + (device_ptr)(at / 2), at % 2 ? 0x30 : 0x03);
  else if (x->type == DTYPE_BOOL)
    flip(b, x->first + (device_ptr)at, 1);
  else /* the highest exponent's bits, or the high bits of an integer */
    flip(b, x->first + (device_ptr)((at + 1) * bits / 8 - 1), 0x38);
}

static const char SAME[] = "same(X: T[M], R: T[M]) -> (Y: T[M]) { Y[i] = X[i] }";
static const int64_t SIZES[] = {1, 7, 8192, 20011};
static const char *const PLACE_TYPES[] = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2", "e2m1",
                                          "i64", "i32", "i16", "i8",   "u8",   "i4",   "bool"};

START_TEST(differences_are_found_at_their_places) {
  for (size_t k = 0; k < COUNT_OF(SIZES); k++) {
    int64_t n = SIZES[k];
    char bindings[64], place[64];
    bench b;
    arke_error err = ARKE_ERROR_INIT;
    snprintf(bindings, sizeof bindings, "T=%s M=%lld", PLACE_TYPES[_i], (long long)n);
    /* Few samples: corners and some more; what lies elsewhere only the first kernel's outputs tell. */
    open_bench(&b, SAME, bindings, 256);
    const tune_tensor *y = &b.t.list[b.out];
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
    const int64_t places[] = {0, n - 1, n / 2, n / 3 * 2 + (n > 100), n > 8192 ? 8192 : 0};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
      write_right(&b);
      spoil(&b, b.out, places[i]);
      ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_MISMATCH);
      snprintf(place, sizeof place, "Y[%lld] ", (long long)places[i]);
      ck_assert_msg(strncmp(err.text, place, strlen(place)) == 0, "%s is not told: %s", place, err.text);
    }
    write_right(&b); /* an element that was not written */
    OK(b.d->ops->fill(b.d, y->first + y->bytes - (size_t)(dtype_bits(y->type) + 7) / 8, TUNE_POISON,
                      (size_t)(dtype_bits(y->type) + 7) / 8, &err));
    arke_status unwritten = check_both(&b, &err);
    if (dtype_class_of(y->type) == DTYPE_CLASS_FLOAT) ck_assert_int_eq(unwritten, ARKE_ERR_MISMATCH);
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
    close_bench(&b);
  }
}
END_TEST

START_TEST(writes_outside_are_found_at_their_places) {
  for (size_t k = 0; k < COUNT_OF(SIZES); k++) {
    char bindings[64];
    bench b;
    arke_error err = ARKE_ERROR_INIT;
    snprintf(bindings, sizeof bindings, "T=%s M=%lld", _i ? "u8" : "f32", (long long)SIZES[k]);
    open_bench(&b, SAME, bindings, 64);
    for (int tensor = 0; tensor < b.t.n; tensor++) {
      const tune_tensor *x = &b.t.list[tensor];
      int64_t bytes = (int64_t)x->bytes, guard = TUNE_GUARD_BYTES;
      const int64_t before[] = {-1, -guard, -guard / 2 - 3}, behind[] = {0, 1, 255, 256, 1000, guard - 1};
      write_right(&b);
      ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
      for (size_t i = 0; i < COUNT_OF(before) + COUNT_OF(behind); i++) {
        int64_t at = i < COUNT_OF(before) ? before[i] : bytes + behind[i - COUNT_OF(before)];
        flip(&b, x->first + (device_ptr)at, 4);
        ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_FAULT);
        ck_assert_ptr_nonnull(strstr(err.text, at < 0 ? "before it changed" : "past it changed"));
        flip(&b, x->first + (device_ptr)at, 4);
      }
      for (int64_t at = 0; !x->output && at < bytes; at += bytes / 3 + 1) {
        flip(&b, x->first + (device_ptr)at, 1);
        tune_check check;
        error_clear(&err);
        ck_assert_int_eq(check_on_device(&b, &check, &err), ARKE_ERR_FAULT);
        char words[64];
        snprintf(words, sizeof words, "near byte %lld", (long long)at);
        ck_assert_msg(strstr(err.text, words) != NULL, "%s: %s", words, err.text);
        flip(&b, x->first + (device_ptr)at, 1);
      }
    }
    OK(tune_tensors_restore(&b.t, &err));
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
    close_bench(&b);
  }
}
END_TEST

/* An output in place starts from its input's values; its guards are the input's. */
START_TEST(outputs_in_place_are_checked) {
  bench b;
  arke_error err = ARKE_ERROR_INIT;
  open_bench(&b, "keep(D: T[M], R: T[M]) -> (D) { D[i] = D[i] }", "T=bf16 M=10001", 128);
  const tune_tensor *d = &b.t.list[b.out];
  for (int i = 0; i < 2; i++) {
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
  }
  spoil(&b, b.out, 5001);
  ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_MISMATCH);
  ck_assert_int_eq(strncmp(err.text, "D[5001] ", 8), 0);
  write_right(&b); /* and so are made good what a run left */
  ck_assert_int_eq(check_both(&b, &err), ARKE_OK);
  flip(&b, d->first + d->bytes, 1);
  ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_FAULT);
  /* Whoever wrote there may have spoilt what was kept, too. */
  OK(b.d->ops->fill(b.d, d->kept, 3, TUNE_GUARD_BYTES + d->bytes, &err));
  OK(b.d->ops->fill(b.d, b.t.list[0].kept, 4, TUNE_GUARD_BYTES + d->bytes, &err));
  tune_comparing_distrust(&b.c);
  OK(tune_tensors_remake(&b.t, &err));
  for (int i = 0; i < 2; i++) {
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
  }
  flip(&b, d->first - 1, 1);
  ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_FAULT);
  close_bench(&b);
}
END_TEST

/* Where the reference knows no element, the first kernel's values tell what sums are like. */
START_TEST(kernels_are_compared_without_samples) {
  bench b;
  arke_error err = ARKE_ERROR_INIT;
  open_bench(&b, "scaled(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] * 1.0 }", "T=f32 M=30000", 0);
  ck_assert_int_eq(b.on_device.n, 0);
  for (int i = 0; i < 2; i++) {
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
  }
  ck_assert_double_gt(b.on_device.magnitude[b.out], 4);
  ck_assert_double_eq(b.on_device.magnitude[b.out], b.on_host.magnitude[b.out]);
  flip(&b, b.t.list[b.out].first + 4 * 29999, 1); /* the last place: within the tolerance */
  ck_assert_int_eq(check_both(&b, &err), ARKE_OK);
  spoil(&b, b.out, 29999);
  ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_MISMATCH);
  close_bench(&b);
}
END_TEST

START_TEST(empty_tensors_have_nothing_to_compare) {
  bench b;
  arke_error err = ARKE_ERROR_INIT;
  open_bench(&b, SAME, "T=f16 M=0", 64);
  for (int i = 0; i < 2; i++) {
    write_right(&b);
    ck_assert_msg(check_both(&b, &err) == ARKE_OK, "%s", err.text);
  }
  flip(&b, b.t.list[b.out].first, 1);
  ck_assert_int_eq(check_both(&b, &err), ARKE_ERR_FAULT);
  close_bench(&b);
}
END_TEST

/* Long inputs: on the device the block that the host has is repeated. */
START_TEST(long_inputs_are_repeated_on_the_device) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  tune_tensors t;
  device *d = open_emulator();
  OK(ir_op_parse(&a, "same(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", &op, &err));
  OK(ir_problem_bind(op, _i ? "T=i4 M=40000003" : "T=bf16 M=20000003", &p, &err));
  OK(tune_tensors_create(d, &p, _i, 0, 5, &t, &err));
  const tune_tensor *x = &t.list[0];
  ck_assert_int_lt(x->host_elements, x->elements / 2);
  char *want = malloc(x->bytes), *got = malloc(x->bytes);
  OK(tune_inputs_fill(&p, 0, want, x->elements, random_u64(5, 0), &err));
  for (int i = 0; i < 2; i++) {
    OK(d->ops->copy_out(d, got, x->first, x->bytes, &err));
    ck_assert_mem_eq(got, want, x->bytes);
    OK(tune_tensors_check(&t, &err));
    OK(d->ops->fill(d, x->first + x->bytes / 2, 3, x->bytes / 2, &err));
    ck_assert_int_eq(tune_tensors_check(&t, &err), ARKE_ERR_FAULT);
    error_clear(&err);
    OK(tune_tensors_restore(&t, &err));
  }
  tune_reference r = {.samples = 512, .limit_s = 10};
  tune_expected e;
  OK(tune_expected_compute(&t, &r, 1, &e, &err));
  for (int k = 0; k < e.n; k++)
    ck_assert_double_eq(e.samples[k].value, dtype_load(x->type, want, e.samples[k].offset));
  tune_expected_release(&e);
  tune_tensors_release(&t);
  free(want);
  free(got);
  arena_release(&a);
  d->ops->close(d);
}
END_TEST

/* What ends it is work and not time, which differs from run to run. */
START_TEST(a_sample_that_is_cut_short_is_the_seeds) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  tune_tensors t;
  tune_expected e[3], longer;
  device *d = open_emulator();
  OK(ir_op_parse(&a, ir_catalogue_find("matmul", NULL)->text, &op, &err));
  OK(ir_problem_bind(op, "T=bf16 M=64 N=64 K=2000", &p, &err));
  OK(tune_tensors_create(d, &p, true, 0, 5, &t, &err));
  tune_reference r = {.samples = 2000, .limit_s = 0.02};
  for (int i = 0; i < 3; i++) OK(tune_expected_compute(&t, &r, 5, &e[i], &err));
  ck_assert_int_gt(e[0].n, 20);
  ck_assert_int_lt(e[0].n, 1900);
  for (int i = 1; i < 3; i++) {
    ck_assert_int_eq(e[i].n, e[0].n);
    ck_assert_double_eq(e[i].scale[2], e[0].scale[2]);
    ck_assert_double_eq(e[i].magnitude[2], e[0].magnitude[2]);
  }
  r.limit_s *= 2;
  OK(tune_expected_compute(&t, &r, 5, &longer, &err));
  ck_assert_int_gt(longer.n, e[0].n);
  for (int i = 0; i < 3; i++) tune_expected_release(&e[i]);
  tune_expected_release(&longer);
  tune_tensors_release(&t);
  arena_release(&a);
  d->ops->close(d);
}
END_TEST

/* --- what cannot be trusted ----------------------------------------------------------------------------- */

static const device_ops *plain; /* an emulator's */
static device_ops twisted;      /* the same, of which one is replaced */

static arke_status refuse_module(device *d, const void *image, size_t bytes, device_module **m,
                                 arke_error *err) {
  (void)d, (void)image, (void)bytes, (void)m;
  return error_set(err, ARKE_ERR_DRIVER, "test", "no module today");
}

static int launches_left; /* that do what they should */

static arke_status do_nothing_later(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  return launches_left-- > 0 ? plain->launch(d, k, l, err) : ARKE_OK;
}

static arke_status do_nothing(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  (void)d, (void)k, (void)l, (void)err;
  return ARKE_OK;
}

static int allocations_of_r;

/* The first is the tensor itself. */
static arke_status refuse_second_copy(device *d, size_t bytes, const char *name, device_ptr *p,
                                      arke_error *err) {
  if (strcmp(name, "R") == 0 && ++allocations_of_r == 2)
    return error_set(err, ARKE_ERR_MEMORY, "test", "no memory for R");
  return plain->mem_alloc(d, bytes, name, p, err);
}

/* As for a next problem: what failed once must not be trusted then. */
static void prepare_again(bench *b, int64_t memory_bytes) {
  arke_error err = ARKE_ERROR_INIT;
  tune_comparing_forget(&b->c);
  for (int i = 0; i < b->t.n; i++) {
    if (b->t.list[i].kept) b->d->ops->mem_free(b->d, b->t.list[i].kept);
    b->t.list[i].kept = 0;
  }
  tune_comparing_begin(&b->c, b->d, target_find("sm_90a", NULL), 4, &b->p);
  tune_comparing_load(&b->c, &b->t, memory_bytes);
  OK(tune_comparing_end(&b->c, &b->t, &b->on_device, &err));
}

START_TEST(what_fails_leaves_it_to_the_host) {
  static const char *const words[] = {"no module today", "the kernel that compares words", "no memory for R",
                                      "has no room", "the kernel that compares bf16"};
  device *d = open_emulator();
  bench b;
  plain = d->ops;
  twisted = *plain;
  if (_i == 0) twisted.module_load = refuse_module;
  if (_i == 1) twisted.launch = do_nothing; /* a kernel that finds nothing */
  if (_i == 2) twisted.mem_alloc = refuse_second_copy;
  if (_i == 4) {
    twisted.launch = do_nothing_later;
    launches_left = 2; /* words and picks */
  }
  d->ops = &twisted;
  open_bench_at(&b, d, SAME, "T=bf16 M=1000", 64, _i == 3 ? LITTLE : ROOMY);
  for (int again = 0; again < 2; again++) {
    ck_assert(!b.c.active);
    ck_assert_msg(strstr(b.c.why.text, words[_i]) != NULL, "%s", b.c.why.text);
    launches_left = 0; /* what was proven before is loaded */
    if (_i != 2) prepare_again(&b, _i == 3 ? LITTLE : ROOMY);
  }
  arke_error err = ARKE_ERROR_INIT;
  tune_check check;
  write_right(&b);
  OK(check_on_host(&b, &check, &err));
  close_bench(&b);
}
END_TEST

/* --- the runner ----------------------------------------------------------------------------------------- */

static const struct {
  planted_kind kind;
  arke_status status;
  const char *words;
} CANDIDATES[] = {
    {PLANTED_GOOD, ARKE_OK, ""},
    {PLANTED_WRONG, ARKE_ERR_MISMATCH, "Y[19999] is"},
    {PLANTED_UNWRITTEN, ARKE_ERR_MISMATCH, "Y[19999] was not written"},
    {PLANTED_PAST_END, ARKE_ERR_FAULT, "wrote outside Y: byte 0 past it changed"},
    {PLANTED_OVERWRITES, ARKE_ERR_FAULT, "changed its input X near byte"},
    {PLANTED_GOOD, ARKE_OK, ""},
};

START_TEST(runners_compare_on_the_device) {
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  tune_runner *r = calloc(1, sizeof *r);
  OK(fake_gpu_open(0, &d, &err));
  OK(tune_runner_open(r, d, &err));
  r->target = target_find("sm_90a", NULL);
  tune_runner_problem p = {.op_text = PLANTED_OPERATOR,
                           .bindings = "T=f32 M=20000",
                           .seed = 1,
                           .reference = {.samples = 64, .limit_s = 10}};
  OK(tune_runner_prepare(r, &p, &err));
  ck_assert_msg(r->comparing.active, "%s", r->comparing.why.text);
  for (size_t i = 0; i < COUNT_OF(CANDIDATES); i++) {
    arena a = ARENA_INIT;
    lowered code = {0};
    lower_options options = {0};
    strbuf text = STRBUF_INIT;
    tune_loaded *l;
    tune_verdict v;
    tune_quick q;
    config c = {{(int)CANDIDATES[i].kind, 64, 5}};
    OK(planted_templates.list[0]->lower(&r->problem, r->target, &c, &options, &a, &code, &err));
    OK(recipe_print(&code.recipe, &text, &err));
    OK(tune_runner_load(r, code.ptx, code.ptx_bytes, true, strbuf_text(&text), text.length, &l, &v, &err));
    error_clear(&err);
    ck_assert_int_eq(tune_runner_trial(&l, 0, &q, &v, &err), CANDIDATES[i].status);
    ck_assert_msg(strstr(err.text, CANDIDATES[i].words) != NULL, "%s", err.text);
    if (CANDIDATES[i].status == ARKE_OK) ck_assert_int_eq(v.outcome, CACHE_MEASURED);
    error_clear(&err);
    tune_runner_unload(l);
    strbuf_free(&text);
    arena_release(&a);
  }
  ck_assert_ptr_null(r->tensors.list[1].host); /* no output came to the host */
  tune_runner_close(r);
  free(r);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("comparing");
  TCase *c = tcase_create("comparing");
  tcase_set_timeout(c, 240);
  tcase_add_loop_test(c, kernels_agree_with_the_host, 0, DTYPE_COUNT);
  tcase_add_loop_test(c, differences_are_found_at_their_places, 0, COUNT_OF(PLACE_TYPES));
  tcase_add_loop_test(c, writes_outside_are_found_at_their_places, 0, 2);
  tcase_add_test(c, outputs_in_place_are_checked);
  tcase_add_test(c, kernels_are_compared_without_samples);
  tcase_add_test(c, empty_tensors_have_nothing_to_compare);
  tcase_add_loop_test(c, long_inputs_are_repeated_on_the_device, 0, 2);
  tcase_add_test(c, a_sample_that_is_cut_short_is_the_seeds);
  tcase_add_loop_test(c, what_fails_leaves_it_to_the_host, 0, 5);
  tcase_add_test(c, runners_compare_on_the_device);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
