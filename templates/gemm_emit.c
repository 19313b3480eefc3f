/* The kernel around its two roles: parameters, barriers, dispatch, and the end. */
#include "templates/gemm_emit.h"

#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"

enum { WARPS_OF_A_GROUP = 4 };
/* Of the producer's group, a thread of the warp behind those that bring scales. */
enum { READS_THREAD = 32 * (1 + GEMM_SCALE_WARPS) };

/* What the register file gives each role when two consumer groups share it with the producer's: 128 threads
 * of the one and 256 of the other may hold no more than 65536 registers. */
typedef struct register_split {
  int producer, consumer;
} register_split;

static register_split split_registers(const gemm_plan *plan) {
  bool tight = plan->accumulators + plan->part_n / 2 > 128 && !plan->scales_staged;
  if (plan->match.gathered) tight = false; /* places of rows */
  return tight ? (register_split){24, 240} : (register_split){40, 232};
}

/* Makes the barriers, and what else is in shared memory from the start, ready before any role or copy uses
 * them. */
static void set_up_barriers(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  if (e->map_a) gen_tma_prefetch_map(b, e->map_a);
  for (int i = 0; i < e->plan->match.n_sums; i++) gen_tma_prefetch_map(b, e->map_b[i]);
  if (e->map_y) gen_tma_prefetch_map(b, e->map_y);
  gen_pipeline_init(b, &e->pipeline);
  if (e->plan->scales_staged) gen_pipeline_init(b, &e->scale_ring);
  if (gemm_reads_apart(e->plan)) gen_pipeline_init(b, &e->reads);
  if (e->plan->pingpong) {
    gen_mbarrier_init(b, e->turns, WARPS_OF_A_GROUP);
    gen_mbarrier_init(b, gen_add_imm(b, e->turns, 8), WARPS_OF_A_GROUP);
  }
  gen_mbarrier_init_fence(b);
  if (e->plan->even) gemm_even_fill(e);
  gen_if_end(b, &first);
  if (e->plan->sharers > 1) {
    gen_cluster_sync(b);
  } else {
    gen_cta_sync(b);
  }
}

/* `thread`: counted from the warp behind the producer's. */
static void emit_scale_warps(gemm_emitter *e, gen_value thread) {
  gen_branch warps;
  gen_if(e->b, &warps, gen_compare_imm(e->b, GEN_ULT, thread, GEMM_SCALE_WARPS * 32), NULL, 0);
  gemm_emit_scales(e, thread);
  gen_if_end(e->b, &warps);
}

static void emit_roles(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value group = gen_warp_uniform(b, gen_lshr(b, thread, gen_i32(b, 7)));
  register_split split = split_registers(plan);
  bool move_registers = plan->consumers == 2;
  gen_branch producer, one_thread;
  gen_if(b, &producer, gen_compare_imm(b, GEN_EQ, group, plan->consumers), NULL, 0);
  if (move_registers) gen_registers_shrink(b, split.producer);
  if (plan->match.gathered) {
    gemm_emit_gatherer(e, gen_add_imm(b, thread, -plan->consumers * 128));
  } else {
    gen_if(b, &one_thread, gen_compare_imm(b, GEN_EQ, thread, plan->consumers * 128), NULL, 0);
    gemm_emit_producer(e);
    gen_if_end(b, &one_thread);
  }
  if (plan->scales_staged) emit_scale_warps(e, gen_add_imm(b, thread, -plan->consumers * 128 - 32));
  if (gemm_reads_apart(plan)) {
    gen_if(b, &one_thread, gen_compare_imm(b, GEN_EQ, thread, plan->consumers * 128 + READS_THREAD), NULL, 0);
    gemm_emit_reads(e);
    gen_if_end(b, &one_thread);
  }
  gemm_split_meet(e);
  gen_else(b, &producer);
  if (move_registers) gen_registers_grow(b, split.consumer);
  gemm_emit_consumer(e, group, gen_and(b, thread, gen_i32(b, 127)));
  gen_if_end(b, &producer);
  /* A CTA must not end while its peer still copies into it or arrives on its barriers. */
  if (plan->sharers > 1) gen_cluster_sync(b);
}

static void emit_kernel(gemm_emitter *e) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_kernel *k = e->kernel;
  if (!plan->match.gathered) e->map_a = gen_param(b, k->map_a);
  for (int i = 0; i < plan->match.n_sums; i++) e->map_b[i] = gen_param(b, k->map_b[i]);
  if (plan->match.y.rank > 0) e->map_y = gen_param(b, k->map_y);
  e->m = gen_param(b, k->m);
  e->n = gen_param(b, k->n);
  e->k = gen_param(b, k->k);
  if (plan->match.outer.n > 0) e->batches = gen_param(b, k->batches);
  if (plan->stream) {
    e->stream.slots = gen_param(b, k->slots);
    e->stream.flags = gen_param(b, k->flags);
  }
  e->smem = gen_shared_dynamic(b);
  /* Ping-pong: a stage belongs to the tile of one group. */
  gen_pipeline_create(b, &e->pipeline, "stage", plan->stages, plan->pingpong ? 1 : plan->consumers,
                      plan->sharers);
  if (plan->match.gathered) e->pipeline.fills += 128; /* threads of the producer's warp group */
  if (plan->scales_staged) gemm_scale_ring_declare(e);
  if (gemm_reads_apart(plan))
    gen_pipeline_create(b, &e->reads, "reads", plan->consumers * plan->read_places, 1, 1);
  if (plan->pingpong) e->turns = gen_shared_static(b, "turns", 16, 8);
  gen_value thread = gen_tid_x(b);
  gemm_tiles_init(e);
  set_up_barriers(e, thread);
  if (plan->even) e->units = gemm_even_units(e);
  /* All before this overlapped the end of the launch before; from here on memory is touched. */
  gen_launches_wait(b);
  gen_launches_release(b);
  if (plan->match.grouped) gemm_groups_init(e);
  emit_roles(e, thread);
}

bool gemm_note(gemm_emitter *e, arke_status status) {
  if (e->status == ARKE_OK) e->status = status;
  return status == ARKE_OK;
}

arke_status gemm_emit(gen_builder *b, const target *t, void *kernel, arke_error *err) {
  (void)t;
  gemm_kernel *k = kernel;
  gemm_emitter *e = ARENA_NEW(k->a, gemm_emitter);
  if (!e) return error_memory(err, "generate");
  *e = (gemm_emitter){.b = b, .kernel = k, .plan = k->plan, .err = err};
  k->current = e;
  emit_kernel(e);
  return e->status;
}

/* A flag a thread. */
arke_status gemm_emit_clear(gen_builder *b, const target *t, void *unused, arke_error *err) {
  (void)t, (void)unused, (void)err;
  gen_value index = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), GEMM_CLEAR_THREADS), gen_tid_x(b));
  gen_value address = gen_add(b, gen_param(b, 0), gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4));
  gen_launches_release(b);
  gen_launches_wait(b);
  gen_store_global(b, gen_i32(b, 0), address);
  return ARKE_OK;
}
