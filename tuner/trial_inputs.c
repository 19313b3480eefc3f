#include "tuner/trial_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/exact_outputs.h"
#include "tuner/trial_index.h"

#define STAGE "verify"
#define TABLE 65536 /* one draw of 64 random bits picks four entries */
#define SMALL 4096
#define BLOCK 8388593 /* elements drawn one by one; longer tensors repeat them */

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

/* --- tensors that index others -------------------------------------------------------------------------- */

/* Places that may come twice are drawn as other integers are. */
static bool is_filled_whole(const trial_index *x) {
  return x->kind != TRIAL_NONE && (x->kind != TRIAL_PLACES || x->once || x->skips);
}

int64_t tune_inputs_period(const ir_problem *p, int tensor, int64_t elements) {
  int64_t period = dtype_bits(ir_tensor_dtype(p, tensor)) < 8 ? 2 * (int64_t)BLOCK : BLOCK;
  trial_index index = trial_index_of(p, tensor);
  return elements <= period || is_filled_whole(&index) ? elements : period;
}

arke_status tune_inputs_fill(const ir_problem *p, int tensor, void *data, int64_t elements, uint64_t seed,
                             arke_error *err) {
  dtype t = ir_tensor_dtype(p, tensor);
  trial_index index = trial_index_of(p, tensor);
  if (is_filled_whole(&index)) {
    trial_index_fill(p, tensor, &index, data, elements, seed);
    return ARKE_OK;
  }
  int64_t bound = index.kind == TRIAL_PLACES ? index.most : INT64_MAX;
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
