/* Comparing tensors on a device: kernels of Arke's own making, lowered from the operator notation as any
 * other. They look at elements by rows of a fixed length and say of each row whether something in it needs a
 * second look; what they do not report is certain to agree. One comparer a device, for all its problems:
 * kernels stay loaded. Lowering uses no device, the rest one thread at a time. */
#ifndef ARKE_TUNER_COMPARER_H
#define ARKE_TUNER_COMPARER_H

#include "tuner/trial_launches.h"

struct gen_context;
struct target;

#define TUNE_COMPARE_COLUMNS 8192 /* elements of a row; of packed types, bytes */

typedef struct tune_comparer_kernel {
  const ir_op *op; /* NULL: not lowered */
  const char *ptx;
  size_t ptx_bytes;
  recipe recipe;
  device_module *module; /* NULL: not loaded and proven */
} tune_comparer_kernel;

typedef struct tune_comparer {
  device *dev;
  const struct target *target;
  int sm_count;
  arena arena;
  struct gen_context *context;
  tune_comparer_kernel words, pick, elements[DTYPE_COUNT];
} tune_comparer;

/* Nothing is compiled or loaded yet. */
void tune_comparer_open(device *dev, const struct target *t, int sm_count, tune_comparer *c);
void tune_comparer_close(tune_comparer *c); /* of a zeroed one too */

/* Compiles what comparing elements of these types takes, but for what is there already. */
arke_status tune_comparer_lower(tune_comparer *c, const dtype *types, int n, arke_error *err);
/* Loads what was lowered, and tries it on planted differences (comparer_proof.c): ARKE_ERR_INTERNAL where it
 * overlooks one, or finds one where there is none. */
arke_status tune_comparer_load(tune_comparer *c, arke_error *err);

/* Bytes of a row of such elements. */
size_t tune_comparer_row_bytes(dtype t);
/* Each makes a launch, whose arguments are the arena's; addresses are multiples of 16. `found` gets a byte a
 * row: 1 where something may differ, else 0. Words are of 8 bytes: a row is TUNE_GUARD_BYTES.
 * Elements are compared as by tune_compare, with limits {relative, absolute}, two floats on the device, which
 * are read when it runs. */
arke_status tune_comparer_words(const tune_comparer *c, device_ptr x, device_ptr y, int64_t rows,
                                device_ptr found, arena *a, tune_launches *l, arke_error *err);
arke_status tune_comparer_elements(const tune_comparer *c, dtype t, device_ptr x, device_ptr y, int64_t rows,
                                   device_ptr limits, device_ptr found, arena *a, tune_launches *l,
                                   arke_error *err);
/* to[i] = from[places[i]], of `words` words; places are i64. */
arke_status tune_comparer_pick(const tune_comparer *c, device_ptr from, int64_t words, device_ptr places,
                               int64_t n, device_ptr to, arena *a, tune_launches *l, arke_error *err);
/* The limits for tune_comparer_elements: a little less, so that rounding hides no difference. */
void tune_comparer_limits(dtype t, double relative, double absolute, float limits[2]);

/* Tries a kernel, of a type that is not packed; part of tune_comparer_load. */
arke_status tune_comparer_prove_elements(const tune_comparer *c, dtype t, arke_error *err);
arke_status tune_comparer_prove_words(const tune_comparer *c, arke_error *err);

#endif
