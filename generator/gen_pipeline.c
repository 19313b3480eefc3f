#include "generator/gen_pipeline.h"

#include <stdio.h>

#include "base/limits.h"
#include "generator/gen_barrier.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"

enum { MBARRIER_BYTES = 8 };

void gen_pipeline_create(gen_builder *b, gen_pipeline *p, const char *name, int stages, int consumers,
                         int cluster_ctas) {
  char text[LIMIT_NAME_BYTES];
  p->stages = stages;
  p->consumers = consumers;
  p->cluster_ctas = cluster_ctas;
  p->fills = 1;
  snprintf(text, sizeof text, "%s_full", name);
  p->full = gen_shared_static(b, text, stages * MBARRIER_BYTES, MBARRIER_BYTES);
  snprintf(text, sizeof text, "%s_empty", name);
  p->empty = gen_shared_static(b, text, stages * MBARRIER_BYTES, MBARRIER_BYTES);
}

void gen_pipeline_init(gen_builder *b, const gen_pipeline *p) {
  for (int s = 0; s < p->stages; s++) {
    gen_mbarrier_init(b, gen_add_imm(b, p->full, s * MBARRIER_BYTES), p->fills);
    gen_mbarrier_init(b, gen_add_imm(b, p->empty, s * MBARRIER_BYTES), p->consumers * p->cluster_ctas);
  }
}

/* A fresh barrier counts as having completed phase 1: the producer's first round finds every stage empty. */
gen_stage gen_pipeline_producer_start(gen_builder *b) {
  return (gen_stage){gen_i32(b, 0), gen_i32(b, 1)};
}

gen_stage gen_pipeline_consumer_start(gen_builder *b) {
  return (gen_stage){gen_i32(b, 0), gen_i32(b, 0)};
}

gen_stage gen_pipeline_advance(gen_builder *b, const gen_pipeline *p, gen_stage at) {
  gen_value next = gen_add_imm(b, at.index, 1);
  gen_value wraps = gen_compare_imm(b, GEN_EQ, next, p->stages);
  gen_value flipped = gen_xor(b, at.parity, gen_i32(b, 1));
  return (gen_stage){gen_select(b, wraps, gen_i32(b, 0), next), gen_select(b, wraps, flipped, at.parity)};
}

gen_stage gen_pipeline_skip(gen_builder *b, const gen_pipeline *p, gen_stage at, gen_value n) {
  gen_value stages = gen_i32(b, p->stages);
  gen_value sum = gen_add(b, at.index, n);
  gen_value rounds = gen_udiv(b, sum, stages);
  gen_value index = gen_sub(b, sum, gen_mul(b, rounds, stages));
  return (gen_stage){index, gen_and(b, gen_xor(b, at.parity, rounds), gen_i32(b, 1))};
}

static gen_value barrier_at(gen_builder *b, gen_value first, gen_value index) {
  return gen_add(b, first, gen_mul_imm(b, index, MBARRIER_BYTES));
}

void gen_pipeline_wait_free(gen_builder *b, const gen_pipeline *p, gen_stage at) {
  gen_mbarrier_wait(b, barrier_at(b, p->empty, at.index), at.parity);
}

gen_value gen_pipeline_expect(gen_builder *b, const gen_pipeline *p, gen_stage at, int bytes) {
  gen_value full = barrier_at(b, p->full, at.index);
  gen_mbarrier_arrive_expect(b, full, bytes);
  return full;
}

gen_value gen_pipeline_acquire(gen_builder *b, const gen_pipeline *p, gen_stage at, int bytes) {
  gen_pipeline_wait_free(b, p, at);
  return gen_pipeline_expect(b, p, at, bytes);
}

gen_value gen_pipeline_acquire_some(gen_builder *b, const gen_pipeline *p, gen_stage at, gen_value bytes) {
  gen_mbarrier_wait(b, barrier_at(b, p->empty, at.index), at.parity);
  gen_value full = barrier_at(b, p->full, at.index);
  gen_mbarrier_arrive_expect_some(b, full, bytes);
  return full;
}

void gen_pipeline_fill(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value predicate) {
  gen_mbarrier_arrive(b, barrier_at(b, p->full, index), predicate);
}

void gen_pipeline_fill_copied(gen_builder *b, const gen_pipeline *p, gen_value index) {
  gen_cp_async_arrive(b, barrier_at(b, p->full, index));
}

void gen_pipeline_leave(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value predicate) {
  gen_mbarrier_arrive(b, barrier_at(b, p->empty, index), predicate);
}

void gen_pipeline_wait(gen_builder *b, const gen_pipeline *p, gen_stage at) {
  gen_mbarrier_wait(b, barrier_at(b, p->full, at.index), at.parity);
}

void gen_pipeline_release(gen_builder *b, const gen_pipeline *p, gen_value index, gen_value thread,
                          gen_value predicate) {
  gen_value chosen = gen_compare_imm(b, GEN_ULT, thread, p->cluster_ctas);
  if (predicate) chosen = gen_and(b, chosen, predicate);
  gen_value empty = barrier_at(b, p->empty, index);
  if (p->cluster_ctas == 1) {
    gen_mbarrier_arrive(b, empty, chosen);
  } else {
    gen_mbarrier_arrive_remote(b, empty, thread, chosen); /* thread r arrives in CTA r */
  }
}
