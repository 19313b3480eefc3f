/* GPU targets as data: a table of limits plus rates of the reference device. A target is one file. */
#ifndef ARKE_GENERATOR_TARGET_H
#define ARKE_GENERATOR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* What a target's instruction set offers; templates ask for these, never for a version number. */
typedef struct target_features {
  bool tma, wgmma, clusters, tcgen05, cp_async, mma_sync, stmatrix, setmaxnreg;
  bool early_start;              /* a launch may start before those before it have ended (griddepcontrol) */
  bool access_32;                /* global loads and stores of 32 bytes */
  bool bf16_arithmetic;          /* bf16 sums, in memory too, and conversions between it and integers */
  bool convert_fp8, convert_fp4; /* cvt to and from e4m3, e5m2; e2m1 */
} target_features;

/* Rates of the device the cost model stands for when none is measured (tags in docs/). */
typedef struct target_rates {
  const char *device; /* "NVIDIA H200" */
  int sm_count;
  double clock_hz;         /* sustained under tensor load */
  double boost_hz;         /* the highest there is */
  double dram_bytes_per_s; /* measured copy or read rate */
  double l2_bytes_per_s;
  int64_t l2_bytes;
  int64_t memory_bytes;   /* all that it has; 0: unknown */
  double f16_flops_per_s; /* dense, f32 sums: the most its matrix units were seen to do at clock_hz */
  double launch_ns;       /* least time of a kernel that does nothing */
} target_rates;

typedef struct target {
  const char *name;          /* "sm_90a": LLVM's -mcpu and ptxas' -arch */
  const char *llvm_features; /* "+ptx86" */
  const char *ptx_version;   /* "8.6", part of the cache key */
  int cc_major, cc_minor;
  bool exact_cc;            /* "a" targets run on that compute capability only */
  int smem_per_block_bytes; /* dynamic, opt-in */
  int registers_per_sm, max_threads_per_sm, max_ctas_per_sm;
  int max_threads_per_block, max_registers_per_thread;
  target_features has;
  target_rates rates;
} target;

/* f16_flops_per_s of a card that is cold enough for its highest clock: what no kernel can beat. */
static inline double target_boost_flops_per_s(const target_rates *r) {
  return r->f16_flops_per_s * r->boost_hz / r->clock_hz;
}

int target_count(void);
const target *target_get(int i);
/* NULL if unknown; *nearest (may be NULL) gets a suggestion. */
const target *target_find(const char *name, const char **nearest);
/* The best target for a GPU of this compute capability, or NULL. */
const target *target_for_cc(int major, int minor);

#endif
