/* The tensors of one problem on a device: inputs filled once and kept for all candidates, outputs poisoned
 * before each run, guard zones around every buffer. On the host are only the values an input is made of;
 * where it is longer, they are repeated on the device. */
#ifndef ARKE_TUNER_TRIAL_TENSORS_H
#define ARKE_TUNER_TRIAL_TENSORS_H

#include "ir/ir.h"
#include "runtime/device.h"

#define TUNE_POISON      0xFF       /* every byte; a NaN in each float type that has one */
#define TUNE_GUARD_BYTES (64 << 10) /* on each side; a multiple of the 256-byte alignment */
#define TUNE_SETS_MAX    1024

/* Guarded allocations are a multiple of TUNE_GUARD_BYTES: guard, tensor, guard, and what fills it up,
 * poisoned like the guard. */

typedef struct tune_tensor {
  dtype type;
  bool output;
  int alias; /* an output in place: the input whose memory it has; else -1 */
  int rank;
  int64_t shape[LIMIT_RANK], strides[LIMIT_RANK]; /* elements; contiguous */
  int64_t elements;
  size_t bytes;
  void *host; /* an input's first `host_elements` values; what was last copied out of an output, else NULL */
  int64_t host_elements;
  device_ptr allocation; /* guard, set 0, guard */
  size_t allocation_bytes;
  device_ptr kept;   /* tune_tensors_keep; 0: none */
  device_ptr first;  /* set 0, the one that is verified */
  device_ptr others; /* sets 1.. in one block, `stride_bytes` apart; 0 with one set */
  size_t stride_bytes;
} tune_tensor;

/* Type, shape and size of a problem's tensor; no memory. */
void tune_tensor_describe(const ir_problem *p, int tensor, tune_tensor *x);

typedef struct tune_tensors {
  device *dev;
  const ir_problem *problem;
  size_t guard_bytes; /* 0 on the emulator, which checks every access against the exact allocation */
  int n, n_sets;
  tune_tensor list[LIMIT_TENSORS];
} tune_tensors;

/* `l2_bytes`: with more than 0, as many sets as make twice that many bytes (at least 2, but for sets that
 * fill the L2 many times over). The problem must outlive the tensors. Seeds differ by tensor. */
arke_status tune_tensors_create(device *dev, const ir_problem *p, bool guards, int64_t l2_bytes,
                                uint64_t seed, tune_tensors *t, arke_error *err);
void tune_tensors_release(tune_tensors *t);
/* Gives every tensor a second allocation on the device, laid out as its own: inputs are kept in it as they
 * are, for outputs it is poisoned and somebody's to fill. For guarded tensors. ARKE_ERR_MEMORY leaves none.
 */
arke_status tune_tensors_keep(tune_tensors *t, arke_error *err);
/* Whether the tensor or one in its place is an output. */
bool tune_tensors_is_written(const tune_tensors *t, int tensor);
device_ptr tune_tensors_address(const tune_tensors *t, int tensor, int set);

/* Whether so many bytes lie between two uses of a set that the L2 holds none of it any more. */
bool tune_tensors_are_cold(const tune_tensors *t, int64_t l2_bytes);

/* Poisons the outputs of set 0; those in place get their input's values. */
arke_status tune_tensors_poison(const tune_tensors *t, arke_error *err);
/* Copies the outputs of set 0 to their host buffers, which are made when first needed. */
arke_status tune_tensors_fetch(tune_tensors *t, arke_error *err);
/* ARKE_ERR_FAULT with what it means that byte `at` of the tensor is not what it was: before it (negative) and
 * behind it lie guard zones. */
arke_status tune_tensors_changed(const tune_tensors *t, int tensor, int64_t at, arke_error *err);
/* ARKE_ERR_FAULT, naming tensor and side, if a guard zone was written to; ARKE_ERR_FAULT if an input was
 * (looked at whole up to 1 MiB, else in 64 pieces). */
arke_status tune_tensors_check(const tune_tensors *t, arke_error *err);
/* Makes inputs and guard zones as they were, from the kept copies if there are some: after a candidate that
 * computed wrong values. */
arke_status tune_tensors_restore(const tune_tensors *t, arke_error *err);
/* The same from the host, and the kept copies too, those of outputs poisoned: after a candidate that wrote
 * where it should not, since it may have written anywhere. */
arke_status tune_tensors_remake(const tune_tensors *t, arke_error *err);

#endif
