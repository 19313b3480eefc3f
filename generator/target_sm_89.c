#include "generator/target_list.h"

/* Ada: L4, L40S, RTX 40; its kernels run on every later GPU. Limits: the CUDA programming guide, compute
 * capability 8.9. Rates: the vendor's figures of an L40S, of which none was measured here; memory at nine
 * tenths of its pins' rate, as copies leave it, the L2 cache at a guess of 64 bytes a clock for 48 slices,
 * the launch as on an H200. PTX 8.4 is the least with 8-bit floats in mma.sync. */
const target target_sm_89 = {
    .name = "sm_89",
    .llvm_features = "+ptx84",
    .ptx_version = "8.4",
    .cc_major = 8,
    .cc_minor = 9,
    .exact_cc = false,
    .smem_per_block_bytes = 101376,
    .registers_per_sm = 65536,
    .max_threads_per_sm = 1536,
    .max_ctas_per_sm = 24,
    .max_threads_per_block = 1024,
    .max_registers_per_thread = 255,
    .has = {.cp_async = true, .mma_sync = true, .convert_fp8 = true},
    .rates = {.device = "NVIDIA L40S",
              .sm_count = 142,
              .clock_hz = 2.52e9,
              .boost_hz = 2.52e9,
              .dram_bytes_per_s = 7.8e11,
              .l2_bytes_per_s = 7.7e12,
              .l2_bytes = 100663296,
              .memory_bytes = 51539607552,
              .f16_flops_per_s = 3.62e14,
              .launch_ns = 2500},
};
