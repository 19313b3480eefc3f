/* A stand-in for libcuda.so.1: one GPU whose memory is the host's and whose kernels only leave a record. An
 * image is text, a line a kernel: "kernel NAME BYTES BYTES …", the sizes of its parameters. Reached like the
 * driver itself, by dlopen; tests look the functions below up in it. */
#ifndef ARKE_TESTS_FAKE_CUDA_H
#define ARKE_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

enum {
  FAKE_MAX_PARAMS = 32,
  FAKE_PARAM_BYTES = 128,
  FAKE_SMS = 132,
  FAKE_SMEM_BYTES = 232448,
};

/* What a 128-byte tensor map holds here. */
typedef struct fake_tensormap {
  uint64_t address;
  int32_t type, rank, swizzle, l2_promotion;
  uint64_t dim[5], stride_bytes[4];
  uint32_t box[5];
  uint32_t zero;
  uint64_t address_again; /* with split_maps: a second place that depends on the address */
} fake_tensormap;

typedef struct fake_launch {
  char kernel[64];
  uint32_t grid[3], block[3], cluster[3], smem_bytes;
  bool early_start;
  void *stream;
  int n_params;
  unsigned char params[FAKE_MAX_PARAMS][FAKE_PARAM_BYTES];
} fake_launch;

/* Switches and counters; tests change them while nothing runs. */
typedef struct fake_state {
  char fail_symbol[64]; /* the next call of this function returns fail_code, once */
  int fail_code;
  int n_devices;
  int cc_major, cc_minor;
  int contexts_retained, modules, streams, events, graphs, links, allocations; /* alive now */
  bool split_maps; /* tensor maps hold their address in more than one word */
  int replaced;    /* calls of cuTensorMapReplaceAddress, atomic */
  int launches;    /* so far, atomic */
} fake_state;

#define FAKE_FUNCTIONS(X)                                                                                    \
  X(fake_state *, fake_cuda_state, (void))                                                                   \
  X(const fake_launch *, fake_cuda_last_launch, (void)) /* of the calling thread */                          \
  X(int, fake_cuda_context_depth, (void))               /* of the calling thread's stack */

#endif
