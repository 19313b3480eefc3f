#include "generator/target_list.h"

/* Hopper with its architecture-specific instructions (wgmma, setmaxnreg): H100, H200, GH200. Limits: CUDA
 * driver attributes of an H200. Rates: measured on an H200 at its 700 W limit, where a long dense product
 * keeps the tensor cores below the boost clock. PTX 8.6 is the least that has every form the generator emits.
 */
const target target_sm_90a = {
    .name = "sm_90a",
    .llvm_features = "+ptx86",
    .ptx_version = "8.6",
    .cc_major = 9,
    .cc_minor = 0,
    .exact_cc = true,
    .smem_per_block_bytes = 232448,
    .registers_per_sm = 65536,
    .max_threads_per_sm = 2048,
    .max_ctas_per_sm = 32,
    .max_threads_per_block = 1024,
    .max_registers_per_thread = 255,
    .has = {.tma = true,
            .wgmma = true,
            .clusters = true,
            .tcgen05 = false,
            .cp_async = true,
            .mma_sync = true,
            .stmatrix = true,
            .setmaxnreg = true,
            .early_start = true,
            .access_32 = false,
            .bf16_arithmetic = true,
            .convert_fp8 = true,
            .convert_fp4 = false},
    .rates = {.device = "NVIDIA H200",
              .sm_count = 132,
              .clock_hz = 1.755e9,
              .boost_hz = 1.98e9,
              .dram_bytes_per_s = 4.2e12,
              .l2_bytes_per_s = 1.45e13,
              .l2_bytes = 62914560,
              .memory_bytes = 150109880320,
              .f16_flops_per_s = 9.67e14,
              .launch_ns = 2500},
};
