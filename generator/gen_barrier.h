/* Barriers: of the CTA, named ones, of the cluster, and mbarriers (PTX ISA, "Parallel Synchronization").
 * An mbarrier is known by its i32 shared address; it takes 8 bytes aligned to 8. */
#ifndef ARKE_GENERATOR_GEN_BARRIER_H
#define ARKE_GENERATOR_GEN_BARRIER_H

#include "generator/gen_kernel.h"

/* All threads of the CTA, each warp converged (barrier 0). */
void gen_cta_sync(gen_builder *b);
/* `threads` threads (a multiple of 32) meet at barrier `id` (i32, 1..15). */
void gen_named_sync(gen_builder *b, gen_value id, int threads);
/* The same without waiting for the others: they go on when `threads` have met or arrived. */
void gen_named_arrive(gen_builder *b, gen_value id, int threads);
/* All threads of all CTAs of the cluster; memory is ordered across. The threads of a warp may come apart. */
void gen_cluster_sync(gen_builder *b);

/* Programmatic dependent launch (PTX ISA, griddepcontrol). The wait ends when every launch before this one
 * has ended and its writes are visible: no access to memory that others use before it. The release lets the
 * next launch start when all CTAs have called it or ended. Both do nothing in an ordinary launch, and are
 * nothing on a target without early starts. */
void gen_launches_wait(gen_builder *b);
void gen_launches_release(gen_builder *b);

/* Makes generic writes to shared memory visible to copies (and wgmma); by each writing thread, before a
 * barrier. */
void gen_fence_async_shared(gen_builder *b);
/* The same for memory of every kind; also by a thread that has learnt of other threads' writes, before it
 * copies them. */
void gen_fence_async(gen_builder *b);

/* --- mbarriers --- */
/* `arrivals` complete a phase. One thread; then gen_mbarrier_init_fence by it, then a CTA or cluster barrier.
 */
void gen_mbarrier_init(gen_builder *b, gen_value barrier, int arrivals);
void gen_mbarrier_init_fence(gen_builder *b);
/* One arrival where `predicate` (i1; NULL: always) holds. */
void gen_mbarrier_arrive(gen_builder *b, gen_value barrier, gen_value predicate);
/* One arrival on the barrier at the same offset in CTA `rank` (i32) of the cluster. It orders no generic
 * accesses across CTAs, which would cost a fence each time: it tells that asynchronous reads (wgmma, copies)
 * have completed. */
void gen_mbarrier_arrive_remote(gen_builder *b, gen_value barrier, gen_value rank, gen_value predicate);
/* Expects `bytes` of copies, then arrives. */
void gen_mbarrier_arrive_expect(gen_builder *b, gen_value barrier, int bytes);
/* The same where the kernel knows how many (i32). */
void gen_mbarrier_arrive_expect_some(gen_builder *b, gen_value barrier, gen_value bytes);
/* Waits until the phase of `parity` (i32, 0 or 1) has completed; a fresh barrier counts as having completed
 * phase 1. */
void gen_mbarrier_wait(gen_builder *b, gen_value barrier, gen_value parity);

#endif
