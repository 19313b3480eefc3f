/* A ring of shared-memory stages between one producer thread, which fills them by asynchronous copies, and
 * consumers, which read them: a full and an empty mbarrier for each stage.
 *
 * Protocol (parity rules of a fresh mbarrier make priming arrivals needless):
 *   producer: acquire (waits empty, expects the bytes) → copies that complete on `full` → advance
 *   consumer: wait (full) → read → release (empty) → advance
 * In a cluster whose CTAs multicast into each other's stages, a stage is free when the consumers of all CTAs
 * have released it, so a release arrives on the empty barrier of every CTA; all CTAs must then stay alive
 * until the last arrival: end the kernel with gen_cluster_sync. */
#ifndef ARKE_GENERATOR_GEN_PIPELINE_H
#define ARKE_GENERATOR_GEN_PIPELINE_H

#include "generator/gen_kernel.h"

typedef struct gen_pipeline {
  int stages;
  int consumers;         /* releases of a stage by each CTA */
  int cluster_ctas;      /* CTAs that share the stages; 1: no sharing */
  int fills;             /* arrivals that fill a stage: 1; to be set before gen_pipeline_init where more do */
  gen_value full, empty; /* i32 address of the first barrier of each kind */
} gen_pipeline;

/* Where a producer or a consumer stands. Both fields are i32 and are carried through loops. */
typedef struct gen_stage {
  gen_value index, parity;
} gen_stage;

/* Static barriers named after `name`. */
void gen_pipeline_create(gen_builder *b, gen_pipeline *p, const char *name, int stages, int consumers,
                         int cluster_ctas);
/* By one thread; the caller then fences (gen_mbarrier_init_fence) and synchronises. */
void gen_pipeline_init(gen_builder *b, const gen_pipeline *p);

gen_stage gen_pipeline_producer_start(gen_builder *b);
gen_stage gen_pipeline_consumer_start(gen_builder *b);
gen_stage gen_pipeline_advance(gen_builder *b, const gen_pipeline *p, gen_stage at);
/* Over `n` stages at once (i32), which another consumer takes. */
gen_stage gen_pipeline_skip(gen_builder *b, const gen_pipeline *p, gen_stage at, gen_value n);

/* Producer: waits until stage `at` is free, expects `bytes` in it and returns the barrier copies complete on.
 */
gen_value gen_pipeline_acquire(gen_builder *b, const gen_pipeline *p, gen_stage at, int bytes);
/* The two halves of that, between which the producer may write to memory that the stage guards: what it
 * writes is seen by consumers that have waited for the stage. */
void gen_pipeline_wait_free(gen_builder *b, const gen_pipeline *p, gen_stage at);
gen_value gen_pipeline_expect(gen_builder *b, const gen_pipeline *p, gen_stage at, int bytes);
/* The same where the kernel knows how many bytes (i32). */
gen_value gen_pipeline_acquire_some(gen_builder *b, const gen_pipeline *p, gen_stage at, gen_value bytes);
/* Consumer: waits until stage `at` is filled. */
void gen_pipeline_wait(gen_builder *b, const gen_pipeline *p, gen_stage at);
/* Consumer: gives back stage `index`. Executed by a whole warp group whose reads are done; `thread` (i32) is
 * the index in the group, of which one thread arrives in each CTA, where `predicate` (NULL: always) holds. */
void gen_pipeline_release(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value thread,
                          gen_value predicate);

/* A ring that warps fill by ordinary stores, for others that read it by ordinary loads. A writer waits until
 * stage `at` is free, writes, and tells by gen_pipeline_fill; a reader waits (gen_pipeline_wait), reads, and
 * tells by gen_pipeline_leave. A thread speaks for its warp after a gen_warp_sync, where `predicate` (NULL:
 * always) holds. In one CTA. */
void gen_pipeline_fill(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value predicate);
void gen_pipeline_leave(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value predicate);
/* A thread that fills a stage by copies of its own (gen_cp_async.h) arrives when they have ended. Matrix
 * units read such bytes after a gen_fence_async_shared of the reader. */
void gen_pipeline_fill_copied(gen_builder *b, const gen_pipeline *p, gen_value index);

#endif
