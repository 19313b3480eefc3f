#include "tuner/trial_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/exact_outputs.h"
#include "tuner/trial_ends.h"

#define STAGE "verify"
#define TABLE 65536 /* one draw of 64 random bits picks four entries */
#define SMALL 4096
#define BLOCK 8388593 /* elements drawn one by one; longer tensors repeat them */

/* --- the range of an index tensor ----------------------------------------------------------------------- */

static bool mentions(const ir_expr *e, int tensor) {
  if (e->node == IR_READ && e->id == tensor) return true;
  for (int i = 0; i < e->n_args; i++)
    if (mentions(e->args[i], tensor)) return true;
  return false;
}

static void narrow(const ir_problem *p, int read, int n_subscripts, ir_expr *const *subscripts, int tensor,
                   int64_t *bound) {
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(p, read, shape);
  for (int i = 0; i < n_subscripts && i < rank; i++)
    if (mentions(subscripts[i], tensor) && shape[i] < *bound) *bound = shape[i];
}

static void narrow_in(const ir_problem *p, const ir_expr *e, int tensor, int64_t *bound) {
  if (e->node == IR_READ) narrow(p, e->id, e->has_else ? e->n_args - 1 : e->n_args, e->args, tensor, bound);
  for (int i = 0; i < e->n_args; i++) narrow_in(p, e->args[i], tensor, bound);
}

int64_t tune_inputs_bound(const ir_problem *p, int tensor) {
  dtype_class c = dtype_class_of(ir_tensor_dtype(p, tensor));
  if (c != DTYPE_CLASS_INT && c != DTYPE_CLASS_UINT) return INT64_MAX;
  int64_t bound = INT64_MAX;
  for (int i = 0; i < p->op->n_definitions; i++) {
    const ir_definition *d = &p->op->definitions[i];
    narrow(p, d->tensor, d->n_subscripts, d->subscripts, tensor, &bound);
    narrow_in(p, d->value, tensor, &bound);
  }
  return bound;
}

/* --- values --------------------------------------------------------------------------------------------- */

/* Whether integers meet floats on their way to some output. Then they are positions or counts, which in use
 * are small: an angle of 10^9 has no digit left in f32. */
static bool meets_floats(const ir_problem *p) {
  for (int i = p->op->n_inputs; i < p->op->n_args; i++)
    if (tune_rounding_of(p, i).rounds) return true;
  return false;
}

/* `bound`: values stay below it; INT64_MAX: over the whole type. */
static double draw(dtype t, int64_t bound, uint64_t seed, uint64_t i) {
  if (dtype_class_of(t) == DTYPE_CLASS_FLOAT) return random_normal(seed, i);
  double u = random_uniform(seed, i);
  if (bound != INT64_MAX) return floor(u * (double)bound);
  if (dtype_class_of(t) == DTYPE_CLASS_BOOL) return u < 0.5 ? 0 : 1;
  double max = fmin(dtype_max(t), 0x1p31);
  return dtype_class_of(t) == DTYPE_CLASS_UINT ? floor(u * (max + 1)) : floor((2 * u - 1) * (max + 1));
}

/* Copies table entries of `size` bytes (or, for 4-bit types, whole bytes of two) to random places' order. */
static void scatter_table(const void *table, size_t size, char *data, int64_t n, uint64_t seed) {
  const char *entries = table;
  int64_t i = 0;
  for (uint64_t counter = 0; i < n; counter++) {
    uint64_t bits = random_u64(seed, counter);
    for (int k = 0; k < 4 && i < n; k++, i++, bits >>= 16) {
      const char *from = entries + (bits & (TABLE - 1)) * size;
      switch (size) { /* constant sizes, so that each copy is one move */
      case 1: data[i] = *from; break;
      case 2: memcpy(data + 2 * i, from, 2); break;
      case 4: memcpy(data + 4 * i, from, 4); break;
      default: memcpy(data + 8 * i, from, 8); break;
      }
    }
  }
}

/* The first BLOCK elements again and again. Its length is a prime, so that rows of no usual length are equal.
 */
static void repeat_block(char *data, size_t size, int64_t n) {
  for (int64_t done = BLOCK; done < n;) {
    int64_t piece = n - done < done ? n - done : done; /* doubles, in whole blocks but for the last */
    memcpy(data + (size_t)done * size, data, (size_t)piece * size);
    done += piece;
  }
}

/* --- places that are written once ----------------------------------------------------------------------- */

/* Whether some definition assigns to places that the tensor gives: of two that are equal the order of writes
 * decides, which no reference can tell. */
static bool places_writes(const ir_problem *p, int tensor) {
  for (int i = 0; i < p->op->n_definitions; i++) {
    const ir_definition *d = &p->op->definitions[i];
    for (int k = 0; k < d->n_subscripts && d->update == IR_ASSIGN; k++)
      if (mentions(d->subscripts[k], tensor)) return true;
  }
  return false;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Walks over all places in steps that have no divisor in common with their number, so that none comes twice
 * before all have come: over the whole tensor where it has no more elements than there are places, else over
 * each row, from a random start. */
static void fill_places(const ir_problem *p, int tensor, dtype t, void *data, int64_t elements, int64_t bound,
                        uint64_t seed) {
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(p, tensor, shape);
  int64_t row = elements <= bound || rank == 0 ? elements : shape[rank - 1];
  uint64_t places = (uint64_t)bound, step = places / 2 + 1 + random_u64(seed, 0) % (places / 3 + 1);
  while (common_divisor(step, places) != 1) step++;
  for (int64_t i = 0; i < elements; i++) {
    uint64_t start = random_u64(seed, 1 + (uint64_t)(i / row)) % places;
    unsigned __int128 far = (unsigned __int128)step * (uint64_t)(i % row) + start;
    dtype_store(t, data, i, (double)(uint64_t)(far % places));
  }
}

static bool comes_once(const ir_problem *p, int tensor, int64_t bound) {
  return bound != INT64_MAX && bound > 0 && places_writes(p, tensor);
}

int64_t tune_inputs_period(const ir_problem *p, int tensor, int64_t elements) {
  int64_t period = dtype_bits(ir_tensor_dtype(p, tensor)) < 8 ? 2 * (int64_t)BLOCK : BLOCK;
  if (elements <= period || comes_once(p, tensor, tune_inputs_bound(p, tensor))) return elements;
  if (trial_ends_rows(p, tensor) >= 0) return elements;
  return period;
}

arke_status tune_inputs_fill(const ir_problem *p, int tensor, void *data, int64_t elements, uint64_t seed,
                             arke_error *err) {
  dtype t = ir_tensor_dtype(p, tensor);
  int64_t bound = tune_inputs_bound(p, tensor), rows = trial_ends_rows(p, tensor);
  if (rows >= 0) {
    trial_ends_fill(t, data, elements, rows, seed);
    return ARKE_OK;
  }
  if (elements > 0 && comes_once(p, tensor, bound)) {
    fill_places(p, tensor, t, data, elements, bound, seed);
    return ARKE_OK;
  }
  if (bound == INT64_MAX && dtype_class_of(t) == DTYPE_CLASS_INT && dtype_bits(t) > 16 && meets_floats(p))
    bound = SMALL;
  bool packed = dtype_bits(t) < 8;
  int64_t entries = packed ? 2 * TABLE : TABLE; /* a packed table entry is a byte of two elements */
  void *table = malloc((size_t)dtype_bytes(t, entries));
  if (!table) return error_memory(err, STAGE);
  uint64_t table_seed = random_u64(seed, 0), place_seed = random_u64(seed, 1);
  for (int64_t i = 0; i < entries; i++) dtype_store(t, table, i, draw(t, bound, table_seed, (uint64_t)i));
  int64_t n = packed ? dtype_bytes(t, elements) : elements;
  size_t size = packed ? 1 : (size_t)dtype_bits(t) / 8;
  scatter_table(table, size, data, n < BLOCK ? n : BLOCK, place_seed);
  repeat_block(data, size, n);
  free(table);
  return ARKE_OK;
}
