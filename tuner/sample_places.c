#include "tuner/sample_places.h"

#include "base/random.h"

#define RUN 8 /* places of one row */

static bool corner(const tune_tensor *x, int64_t k, int64_t coords[LIMIT_RANK]) {
  int64_t last = ((int64_t)1 << x->rank) - 1;
  int64_t ends = k == 0 ? 0 : k == 1 ? last : k - 1; /* by axis, the last one's bit is the lowest */
  bool twice = false;
  for (int i = 0; i < x->rank; i++) {
    bool end = (ends >> (x->rank - 1 - i)) & 1;
    coords[i] = end ? x->shape[i] - 1 : 0;
    twice = twice || (end && x->shape[i] == 1);
  }
  return !twice;
}

static int64_t anywhere(const tune_tensor *x, int axis, uint64_t seed, int64_t k) {
  return (int64_t)(random_uniform(seed, (uint64_t)(k * LIMIT_RANK + axis)) * (double)x->shape[axis]);
}

/* Fewer of a row where it is short: they would be the same ones. */
static int64_t run_length(const tune_tensor *x) {
  int64_t fourth = x->rank > 1 ? x->shape[x->rank - 1] / 4 : 1;
  return fourth < 1 ? 1 : fourth < RUN ? fourth : RUN;
}

bool tune_sample_place(const tune_tensor *x, bool whole, uint64_t seed, int64_t k,
                       int64_t coords[LIMIT_RANK]) {
  int64_t corners = (int64_t)1 << x->rank;
  if (k < corners) return corner(x, k, coords);
  k -= corners;
  for (int i = 0; i < x->rank && whole; i++) coords[i] = k / x->strides[i] % x->shape[i];
  if (whole) return true;
  int64_t row = k / run_length(x), turn = row % (4 * x->rank + 1);
  for (int i = 0; i < x->rank; i++) coords[i] = anywhere(x, i, seed, i < x->rank - 1 ? row : k);
  if (turn < x->rank) coords[turn] = x->shape[turn] - 1;
  return true;
}
