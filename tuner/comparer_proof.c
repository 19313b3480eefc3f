/* Planted differences: kernels that judge others are tried before they do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/compare.h"
#include "tuner/comparer.h"

#define STAGE   "verify"
#define COLUMNS TUNE_COMPARE_COLUMNS
#define DRAWS   1021 /* random values, which rows repeat */

/* Buffers of a proof, on both sides. */
typedef struct proof {
  const tune_comparer *c;
  arena arena;
  size_t bytes;
  int rows;
  char *x, *y;
  unsigned char *found;
  device_ptr device_x, device_y, device_found, limits;
} proof;

static arke_status make(const tune_comparer *c, int rows, size_t row_bytes, proof *p, arke_error *err) {
  const device_ops *ops = c->dev->ops;
  *p = (proof){.c = c, .rows = rows, .bytes = (size_t)rows * row_bytes};
  p->x = arena_alloc(&p->arena, p->bytes);
  p->y = arena_alloc(&p->arena, p->bytes);
  p->found = arena_alloc(&p->arena, (size_t)rows);
  if (!p->x || !p->y || !p->found) return error_memory(err, STAGE);
  TRY(ops->mem_alloc(c->dev, p->bytes, "proof", &p->device_x, err));
  TRY(ops->mem_alloc(c->dev, p->bytes, "proof", &p->device_y, err));
  TRY(ops->mem_alloc(c->dev, (size_t)rows, "proof", &p->device_found, err));
  return ops->mem_alloc(c->dev, 2 * sizeof(float), "limits", &p->limits, err);
}

static void release(proof *p) {
  const device_ptr list[] = {p->device_x, p->device_y, p->device_found, p->limits};
  for (size_t i = 0; i < COUNT_OF(list); i++)
    if (list[i]) p->c->dev->ops->mem_free(p->c->dev, list[i]);
  arena_release(&p->arena);
}

static arke_status upload(proof *p, arke_error *err) {
  const device_ops *ops = p->c->dev->ops;
  TRY(ops->copy_in(p->c->dev, p->device_x, p->x, p->bytes, err));
  TRY(ops->copy_in(p->c->dev, p->device_y, p->y, p->bytes, err));
  return ops->fill(p->c->dev, p->device_found, TUNE_POISON, (size_t)p->rows, err);
}

/* Runs a comparison and looks at what it found in each row. */
static arke_status judge(proof *p, const tune_launches *l, const char *type, const bool *differs,
                         arke_error *err) {
  device *dev = p->c->dev;
  TRY(tune_launches_enqueue(dev, l, NULL, err));
  TRY(dev->ops->synchronize(dev, err));
  TRY(dev->ops->copy_out(dev, p->found, p->device_found, (size_t)p->rows, err));
  for (int row = 0; row < p->rows; row++) {
    if (p->found[row] == (differs[row] ? 1 : 0)) continue;
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the kernel that compares %s %s (planted row %d)", type,
                     differs[row] ? "overlooks a difference" : "finds a difference where there is none", row);
  }
  return ARKE_OK;
}

/* --- elements ------------------------------------------------------------------------------------------- */

/* Rows of a proof: what is changed in X, beside the same values. */
typedef enum planted_row {
  ROW_SAME,
  ROW_WITHIN, /* every element is off by less than the limits */
  ROW_FIRST,
  ROW_LAST,
  ROW_ODD,
  ROW_NAN,
  ROW_INFINITE,
  ROW_COUNT,
} planted_row;

static void fill_row(dtype t, char *row) {
  static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  bool floats = dtype_class_of(t) == DTYPE_CLASS_FLOAT;
  double draws[DRAWS];
  for (int i = 0; i < DRAWS; i++) {
    double v = random_normal(1, (uint64_t)i);
    draws[i] = floats ? v : dtype_class_of(t) == DTYPE_CLASS_INT ? round(16 * v) : floor(fabs(8 * v));
  }
  for (int64_t i = 0; i < COLUMNS; i++) dtype_store(t, row, i, draws[i % DRAWS]);
  for (size_t i = 0; floats && i < COUNT_OF(special); i++)
    dtype_store(t, row, 100 + 601 * (int64_t)i, special[i]);
}

/* Another value than the one that is there, whatever the type and the limits. */
static void change(dtype t, char *row, int64_t at) {
  double v = dtype_load(t, row, at);
  dtype_store(t, row, at, v > 2 ? v - 3 : v + 4);
}

static void plant(dtype t, planted_row what, char *row, double relative) {
  const int64_t n = COLUMNS;
  switch (what) {
  case ROW_WITHIN:
    for (int64_t i = 0; i < n && relative > 0; i++)
      dtype_store(t, row, i, dtype_load(t, row, i) * (1 + relative / 2));
    break;
  case ROW_FIRST: change(t, row, 0); break;
  case ROW_LAST: change(t, row, n - 1); break;
  case ROW_ODD: change(t, row, n / 2 + 13); break;
  case ROW_NAN: dtype_store(t, row, n / 3, NAN); break;
  case ROW_INFINITE: dtype_store(t, row, n / 5, -INFINITY); break;
  case ROW_SAME:
  case ROW_COUNT: break;
  }
}

static arke_status prove_elements(proof *p, dtype t, arke_error *err) {
  size_t row_bytes = tune_comparer_row_bytes(t);
  double relative = 4 * dtype_roundoff(t), absolute = relative / 16; /* of integers 0 */
  bool differs[ROW_COUNT];
  float limits[2];
  fill_row(t, p->y);
  for (int row = 1; row < ROW_COUNT; row++) memcpy(p->y + (size_t)row * row_bytes, p->y, row_bytes);
  memcpy(p->x, p->y, p->bytes);
  for (int row = 0; row < ROW_COUNT; row++) {
    char *x = p->x + (size_t)row * row_bytes, *y = p->y + (size_t)row * row_bytes;
    plant(t, (planted_row)row, x, relative);
    differs[row] = tune_compare(t, x, y, COLUMNS, relative, absolute) >= 0;
    if (row >= ROW_FIRST && row <= ROW_ODD && !differs[row])
      return error_set(err, ARKE_ERR_INTERNAL, STAGE, "nothing was planted in a row of %s", dtype_name(t));
  }
  tune_comparer_limits(t, relative, absolute, limits);
  TRY(upload(p, err));
  TRY(p->c->dev->ops->copy_in(p->c->dev, p->limits, limits, sizeof limits, err));
  tune_launches *l = ARENA_NEW(&p->arena, tune_launches);
  if (!l) return error_memory(err, STAGE);
  TRY(tune_comparer_elements(p->c, t, p->device_x, p->device_y, ROW_COUNT, p->limits, p->device_found,
                             &p->arena, l, err));
  return judge(p, l, dtype_name(t), differs, err);
}

arke_status tune_comparer_prove_elements(const tune_comparer *c, dtype t, arke_error *err) {
  proof p;
  arke_status status = make(c, ROW_COUNT, tune_comparer_row_bytes(t), &p, err);
  if (status == ARKE_OK) status = prove_elements(&p, t, err);
  release(&p);
  return status;
}

/* --- words ---------------------------------------------------------------------------------------------- */

enum { WORD_ROWS = 4, PICKS = 3 };

static arke_status prove_words(proof *p, arke_error *err) {
  static const bool differs[WORD_ROWS] = {false, true, true, true};
  size_t row = tune_comparer_row_bytes(DTYPE_I64);
  for (size_t i = 0; i < p->bytes; i += 8) {
    uint64_t word = random_u64(1, i);
    memcpy(p->x + i, &word, 8);
  }
  memcpy(p->y, p->x, p->bytes);
  p->x[row] ^= 1;          /* the second row's first byte */
  p->x[3 * row - 1] ^= 64; /* the third row's last byte */
  p->y[3 * row + row / 2 + 5] ^= 16;
  TRY(upload(p, err));
  tune_launches *l = ARENA_NEW(&p->arena, tune_launches);
  if (!l) return error_memory(err, STAGE);
  TRY(tune_comparer_words(p->c, p->device_x, p->device_y, WORD_ROWS, p->device_found, &p->arena, l, err));
  return judge(p, l, "words", differs, err);
}

/* Picks from X, as it is on the device, into Y. */
static arke_status prove_pick(proof *p, arke_error *err) {
  device *dev = p->c->dev;
  int64_t words = (int64_t)p->bytes / 8, places[PICKS] = {words - 1, 0, 4097};
  char picked[PICKS * 8];
  TRY(dev->ops->copy_in(dev, p->device_y, places, sizeof places, err));
  tune_launches *l = ARENA_NEW(&p->arena, tune_launches);
  if (!l) return error_memory(err, STAGE);
  device_ptr to = p->device_y + 256;
  TRY(tune_comparer_pick(p->c, p->device_x, words, p->device_y, PICKS, to, &p->arena, l, err));
  TRY(tune_launches_enqueue(dev, l, NULL, err));
  TRY(dev->ops->synchronize(dev, err));
  TRY(dev->ops->copy_out(dev, picked, to, sizeof picked, err));
  for (int i = 0; i < PICKS; i++)
    if (memcmp(picked + i * 8, p->x + places[i] * 8, 8) != 0)
      return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the kernel that picks words takes wrong ones");
  return ARKE_OK;
}

arke_status tune_comparer_prove_words(const tune_comparer *c, arke_error *err) {
  proof p;
  arke_status status = make(c, WORD_ROWS, tune_comparer_row_bytes(DTYPE_I64), &p, err);
  if (status == ARKE_OK) status = prove_words(&p, err);
  if (status == ARKE_OK) status = prove_pick(&p, err);
  release(&p);
  return status;
}
