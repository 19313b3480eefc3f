/* Memory as templates see it: shared memory objects and typed, possibly wide, loads and stores. */
#ifndef ARKE_GENERATOR_GEN_MEMORY_H
#define ARKE_GENERATOR_GEN_MEMORY_H

#include "generator/gen_kernel.h"

/* Base of dynamic shared memory, aligned to 1024 bytes (what 128-byte swizzles want), as an i32 address. */
gen_value gen_shared_dynamic(gen_builder *b);
/* A static shared object of the kernel; its i32 address. Names are unique within the kernel. */
gen_value gen_shared_static(gen_builder *b, const char *name, int bytes, int alignment);

/* Loads and stores of `lanes` elements (1: a plain value, else a vector) at an address that is a multiple of
 * their size. Global addresses are i64, shared ones i32. `constant`: nothing writes it while the kernel runs,
 * so the read-only path may serve it. */
gen_value gen_load_global(gen_builder *b, gen_type type, int lanes, gen_value address, bool constant);
void gen_store_global(gen_builder *b, gen_value value, gen_value address);

/* How caches are to treat an access: advice, which changes no result.
 * X(NAME, of loads, of stores, L2 policy) */
#define GEN_CACHES(X)                                                                                        \
  X(DEFAULT, "", "", NULL)                                                                                   \
  X(STREAM, ".L1::no_allocate", ".cs", NULL)              /* touched once */                                 \
  X(STREAM_128, ".L1::no_allocate.L2::128B", ".cs", NULL) /* once, and its neighbours soon */                \
  X(STREAM_256, ".L1::no_allocate.L2::256B", ".cs", NULL)                                                    \
  X(EVICT_FIRST, ".L1::no_allocate", "", "evict_first") /* first to leave L2 */                              \
  X(EVICT_LAST, "", "", "evict_last")                   /* last to leave L2: read again by other CTAs */

typedef enum gen_cache {
#define X(NAME, loads, stores, policy) GEN_CACHE_##NAME,
  GEN_CACHES(X)
#undef X
      GEN_CACHE_COUNT,
} gen_cache;

/* As above, with advice, and of 32 bytes where the target has that (access_32). */
gen_value gen_load_global_cached(gen_builder *b, gen_type type, int lanes, gen_value address, bool constant,
                                 gen_cache cache);
void gen_store_global_cached(gen_builder *b, gen_value value, gen_value address, gen_cache cache);
/* Where other threads of the GPU may store at the same time: one of them wins, and it is no data race
 * (st.relaxed, PTX ISA, "Memory Consistency Model"). Up to 16 bytes. */
void gen_store_global_relaxed(gen_builder *b, gen_value value, gen_value address);
/* `bytes` (4 … 32) as i32 words: what gen_unpack takes and gen_pack gives. `words` has one for each 4 bytes;
 * 1 or 2 bytes are the low part of one word. */
void gen_load_words(gen_builder *b, int bytes, gen_value address, bool constant, gen_cache cache,
                    gen_value *words);
/* The line of a global address (i64) into the L2 cache: it completes without anybody's knowledge, and changes
 * no result. */
void gen_prefetch_l2(gen_builder *b, gen_value address);
void gen_store_words(gen_builder *b, int bytes, const gen_value *words, gen_value address, gen_cache cache);
gen_value gen_load_shared(gen_builder *b, gen_type type, int lanes, gen_value address);
void gen_store_shared(gen_builder *b, gen_value value, gen_value address);

/* Two floats rounded to nearest even and packed into an i32, `low` in the low half; type is f16 or bf16. */
gen_value gen_pack_halves(gen_builder *b, dtype type, gen_value low, gen_value high);
/* Stores four 8x8 matrices of 16-bit elements from fragments: lane l names the address of row l % 8 of matrix
 * l / 8 (16 bytes, aligned); fragment j of lane l holds row l / 4, columns 2 * (l % 4) and the next of matrix
 * j (PTX ISA, stmatrix). A whole converged warp executes it. */
void gen_stmatrix_x4(gen_builder *b, gen_value address, const gen_value fragments[4]);
/* The same with each matrix transposed: lane l names the address of column l % 8 of matrix l / 8. */
void gen_stmatrix_x4_transposed(gen_builder *b, gen_value address, const gen_value fragments[4]);

#endif
