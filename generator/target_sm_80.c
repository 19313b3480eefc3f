#include "generator/target_list.h"

/* Ampere's data-centre part: A100; its kernels run on every later GPU with as much shared memory. Limits: the
 * CUDA programming guide, compute capability 8.0. Rates: the vendor's figures of the 80 GB SXM card, of which
 * none was measured here; memory at nine tenths of its pins' rate, as copies leave it, the L2 cache at the
 * 5120 bytes a clock of the A100 whitepaper, the launch as on an H200. PTX 8.3 is the least with accesses of
 * 128 bits as one. */
const target target_sm_80 = {
    .name = "sm_80",
    .llvm_features = "+ptx83",
    .ptx_version = "8.3",
    .cc_major = 8,
    .cc_minor = 0,
    .exact_cc = false,
    .smem_per_block_bytes = 166912,
    .registers_per_sm = 65536,
    .max_threads_per_sm = 2048,
    .max_ctas_per_sm = 32,
    .max_threads_per_block = 1024,
    .max_registers_per_thread = 255,
    .has = {.cp_async = true, .mma_sync = true},
    .rates = {.device = "NVIDIA A100-SXM4-80GB",
              .sm_count = 108,
              .clock_hz = 1.41e9,
              .boost_hz = 1.41e9,
              .dram_bytes_per_s = 1.83e12,
              .l2_bytes_per_s = 7.2e12,
              .l2_bytes = 41943040,
              .memory_bytes = 85899345920,
              .f16_flops_per_s = 3.12e14,
              .launch_ns = 2500},
};
