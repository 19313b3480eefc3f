#include "generator/target_list.h"

/* Blackwell's data-centre part with its architecture-specific instructions (tcgen05): B200. Limits: the CUDA
 * programming guide, compute capability 10.0. Rates: the vendor's figures, of which none was measured here;
 * memory at nine tenths of its pins' rate, as copies leave it, the clock the one at which 8192 operations of
 * an SM give the vendor's 2.25 PFLOP/s, the boost clock as others report it, the L2 cache's rate and the
 * launch as on an H200. PTX 8.8 is the least with accesses of 32 bytes. */
const target target_sm_100a = {
    .name = "sm_100a",
    .llvm_features = "+ptx88",
    .ptx_version = "8.8",
    .cc_major = 10,
    .cc_minor = 0,
    .exact_cc = true,
    .smem_per_block_bytes = 232448,
    .registers_per_sm = 65536,
    .max_threads_per_sm = 2048,
    .max_ctas_per_sm = 32,
    .max_threads_per_block = 1024,
    .max_registers_per_thread = 255,
    .has = {.tma = true,
            .wgmma = false,
            .clusters = true,
            .tcgen05 = true,
            .cp_async = true,
            .mma_sync = true,
            .stmatrix = true,
            .setmaxnreg = true,
            .early_start = true,
            .access_32 = true,
            .bf16_arithmetic = true,
            .convert_fp8 = true,
            .convert_fp4 = true},
    .rates = {.device = "NVIDIA B200",
              .sm_count = 148,
              .clock_hz = 1.855e9,
              .boost_hz = 1.965e9,
              .dram_bytes_per_s = 7.2e12,
              .l2_bytes_per_s = 1.45e13,
              .l2_bytes = 132120576,
              .memory_bytes = 193273528320,
              .f16_flops_per_s = 2.25e15,
              .launch_ns = 2500},
};
