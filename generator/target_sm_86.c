#include "generator/target_list.h"

/* Ampere's other parts: A10, A40, RTX 30. Limits: the CUDA programming guide, compute capability 8.6; they
 * are below those of sm_80. Rates: the vendor's figures of an A10, of which none was measured here; memory at
 * nine tenths of its pins' rate, as copies leave it, the L2 cache at a guess of 64 bytes a clock for 24
 * slices, the launch as on an H200. PTX 8.3 is the least with accesses of 128 bits as one. */
const target target_sm_86 = {
    .name = "sm_86",
    .llvm_features = "+ptx83",
    .ptx_version = "8.3",
    .cc_major = 8,
    .cc_minor = 6,
    .exact_cc = false,
    .smem_per_block_bytes = 101376,
    .registers_per_sm = 65536,
    .max_threads_per_sm = 1536,
    .max_ctas_per_sm = 16,
    .max_threads_per_block = 1024,
    .max_registers_per_thread = 255,
    .has = {.cp_async = true, .mma_sync = true},
    .rates = {.device = "NVIDIA A10",
              .sm_count = 72,
              .clock_hz = 1.695e9,
              .boost_hz = 1.695e9,
              .dram_bytes_per_s = 5.4e11,
              .l2_bytes_per_s = 2.6e12,
              .l2_bytes = 6291456,
              .memory_bytes = 25769803776,
              .f16_flops_per_s = 1.25e14,
              .launch_ns = 2500},
};
