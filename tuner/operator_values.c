#include "tuner/operator_values.h"

#include <math.h>

#include "base/random.h"

const char *operator_values_name(operator_values v) {
  static const char *const NAMES[] = {
#define X(NAME, name, meaning) #name,
      OPERATOR_VALUES(X)
#undef X
  };
  return NAMES[v];
}

/* The least value that may be a factor: below, f32 products vanish that the fp64 reference has. */
static double least(dtype t) {
  double x = 1;
  while (dtype_round(t, x / 2) != 0 && x > 0x1p-60) x /= 2;
  return x;
}

/* Squares of the largest stay inside f32, where the reference does not overflow either. */
static double special_float(const operator_filling *f, uint64_t random) {
  const double values[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e4, -1e4, 1e-4, 1, -1, 0.5, least(f->type)};
  return values[random % COUNT_OF(values)];
}

/* Rows of one kind each: such a row is where a reduction goes wrong. */
static double special_row(const operator_filling *f, int64_t element, uint64_t random, double normal) {
  int64_t row = element / f->row, column = element % f->row;
  int64_t place = (int64_t)(random_u64(f->seed ^ 0x5eed, (uint64_t)row) % (uint64_t)f->row);
  switch (row % 7) {
  case 0: return column == place ? NAN : normal;
  case 1: return -INFINITY;
  case 2: return 0;
  case 3: return column == place ? INFINITY : normal;
  case 4: return (double)(random % 3) - 1; /* ties */
  case 5: return special_float(f, random);
  default: return normal;
  }
}

static int64_t limited(const operator_filling *f, uint64_t random) {
  const operator_range *r = &f->range;
  int64_t span = r->below - r->from;
  if (r->has_other && random % 5 == 0) return r->other;
  return r->from + (int64_t)(random / 5 % (uint64_t)span);
}

double operator_value(const operator_filling *f, int64_t element) {
  uint64_t random = random_u64(f->seed, (uint64_t)element);
  dtype_class class = dtype_class_of(f->type);
  if (f->range.from < f->range.below) return (double)limited(f, random);
  if (class == DTYPE_CLASS_BOOL) return (double)(random & 1);
  double normal = random_normal(f->seed, (uint64_t)element);
  if (class == DTYPE_CLASS_FLOAT)
    return f->values == OPERATOR_NORMAL ? normal : special_row(f, element, random, normal);
  if (f->values == OPERATOR_NORMAL) return rint(normal * 8);
  const double values[] = {dtype_max(f->type), -dtype_max(f->type) - 1, 0, 1, -1};
  return random % 4 == 0 ? values[random / 4 % COUNT_OF(values)] : rint(normal * 2);
}
