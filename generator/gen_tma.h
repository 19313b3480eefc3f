/* Tensor copies between global and shared memory (PTX ISA, cp.async.bulk.tensor), issued by one thread.
 * `map` is a tensor map's generic address (a GEN_PARAM_TENSORMAP); at[i] is the element index in dimension i
 * of its `rank`. Loads complete on an mbarrier, by their full box, whatever the tensor's edge clips; stores
 * clip at the high edges. */
#ifndef ARKE_GENERATOR_GEN_TMA_H
#define ARKE_GENERATOR_GEN_TMA_H

#include "generator/gen_memory.h"

enum { GEN_TMA_MAX_RANK = 5 };

/* Fetches the descriptor before it is first needed. */
void gen_tma_prefetch_map(gen_builder *b, gen_value map);
/* `cta_mask` 0: into this CTA; else into the same offset of every CTA whose bit is set, each of whose
 * mbarriers at the offset of `mbarrier` counts the box's bytes. */
void gen_tma_load(gen_builder *b, gen_value shared, gen_value map, const gen_value *at, int rank,
                  gen_value mbarrier, unsigned cta_mask);
/* In two dimensions, into this CTA, with advice for the L2 cache. */
void gen_tma_load_2d_cached(gen_builder *b, gen_value shared, gen_value map, gen_value x, gen_value y,
                            gen_value mbarrier, gen_cache cache);
/* The map's box into the L2 cache: it completes without anybody's knowledge, and changes no result. */
void gen_tma_prefetch(gen_builder *b, gen_value map, const gen_value *at, int rank);
/* `bytes` contiguous ones, a multiple of 16, from global memory (i64) into this CTA. */
void gen_bulk_load(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value mbarrier);
/* The same with advice for the L2 cache. */
void gen_bulk_load_cached(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value mbarrier,
                          gen_cache cache);
/* Source bytes must have been made visible by gen_fence_async_shared and a barrier. */
void gen_tma_store(gen_builder *b, gen_value map, const gen_value *at, int rank, gen_value shared);
/* Adds `bytes` of f32 (a multiple of 16, as are both addresses), one after the other, to what global memory
 * (i64) has, element by element as atomics do. Bytes and groups as for stores. */
void gen_bulk_add(gen_builder *b, gen_value global, gen_value shared, int bytes);
/* Stores since the last commit of this thread form a group. */
void gen_tma_store_commit(gen_builder *b);
/* Waits, in the committing thread, until at most `pending` of its groups still read shared memory. */
void gen_tma_store_wait_read(gen_builder *b, int pending);
/* The same until they have written, too. */
void gen_tma_store_wait(gen_builder *b, int pending);

#endif
