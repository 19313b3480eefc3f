/* A gradient's kernel around its two roles: barriers, dispatch, and the evaluator of bounds. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/backward_emit.h"

enum { WARPS = 4 }; /* of a warp group: each gives a stage back for itself, since it reads l and e from it */

/* What setmaxnreg gives a thread of the producer's group and of each of so many consumers: together no more
 * than the CTA was started with, as many for each thread as a multiple of 8 allows. */
typedef struct register_split {
  int producer, consumer;
} register_split;

static register_split split_registers(const backward_pass *p) {
  if (p->consumers == 1) return (register_split){24, 232};
  if (p->consumers == 3) return (register_split){32, 160};
  return p->live_registers > 232 ? (register_split){24, 240} : (register_split){40, 232};
}

static void set_up_barriers(backward_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  for (int i = 0; i < 2; i++) {
    if (e->map_rows[i]) gen_tma_prefetch_map(b, e->map_rows[i]);
    gen_tma_prefetch_map(b, e->map_columns[i]);
    if (e->map_out[i]) gen_tma_prefetch_map(b, e->map_out[i]);
    gen_pipeline_init(b, &e->of_columns[i]);
  }
  gen_pipeline_init(b, &e->of_rows);
  gen_mbarrier_init_fence(b);
  gen_if_end(b, &first);
  gen_cta_sync(b);
}

/* A warp of the producer's group for each consumer, behind the first one. */
static arke_status emit_senders(backward_emitter *e, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  int consumers = e->p->consumers;
  gen_value warp = gen_warp_uniform(b, gen_lshr(b, thread, gen_i32(b, 5)));
  gen_value group = gen_add_imm(b, warp, -(int64_t)consumers * WARPS - 1);
  gen_branch sender;
  gen_if(b, &sender, gen_compare_imm(b, GEN_ULT, group, consumers), NULL, 0);
  TRY(backward_emit_sender(e, group, gen_and(b, thread, gen_i32(b, 31)), err));
  gen_if_end(b, &sender);
  return ARKE_OK;
}

static arke_status emit_roles(backward_emitter *e, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  int consumers = e->p->consumers;
  gen_value group = gen_warp_uniform(b, gen_lshr(b, thread, gen_i32(b, 7)));
  register_split split = split_registers(e->p);
  gen_branch producer, one_thread;
  gen_if(b, &producer, gen_compare_imm(b, GEN_EQ, group, consumers), NULL, 0);
  bool move_registers = consumers > 1 || e->p->resident > 1;
  if (move_registers) gen_registers_shrink(b, split.producer);
  gen_if(b, &one_thread, gen_compare_imm(b, GEN_EQ, thread, (int64_t)consumers * 128), NULL, 0);
  TRY(backward_emit_producer(e, err));
  gen_if_end(b, &one_thread);
  if (e->p->updates) TRY(emit_senders(e, thread, err));
  gen_else(b, &producer);
  if (move_registers) gen_registers_grow(b, split.consumer);
  TRY(backward_emit_consumer(e, group, gen_and(b, thread, gen_i32(b, 127)), err));
  gen_if_end(b, &producer);
  return ARKE_OK;
}

/* Rows, then the steps' operands, then what they need of l and e. */
static void place_shared(backward_emitter *e) {
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  int at = p->row_stages * (p->rows[0].bytes + p->rows[1].bytes);
  e->smem_rows = gen_shared_dynamic(b);
  for (int i = 0; i < 2; i++) {
    e->smem_columns[i] = gen_add_imm(b, e->smem_rows, at);
    at += p->stages * p->columns[i].bytes;
  }
  if (p->updates) {
    e->smem_slopes = gen_add_imm(b, e->smem_rows, at);
    at += 2 * backward_slopes_bytes(p);
    e->smem_update = gen_add_imm(b, e->smem_rows, at);
    at += backward_update_bytes(p);
  }
  for (int i = 0; i < 2; i++) {
    e->smem_statistics[i] = gen_add_imm(b, e->smem_rows, at);
    at += p->stages * p->block_columns * 4;
  }
}

arke_status backward_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const backward_kernel *k = user;
  const backward_pass *p = k->p;
  backward_emitter e = {.b = b, .k = k, .plan = k->plan, .p = p, .m = k->plan->match};
  TRY(lanes_create(b, &e.m->form, &k->plan->rows, &k->row_slots, k->a, &e.l, err));
  for (int i = 0; i < 2; i++) {
    if (p->rows[i].bytes) e.map_rows[i] = gen_param(b, k->map_rows[i]);
    e.map_columns[i] = gen_param(b, k->map_columns[i]);
    if (p->copied[i]) e.map_out[i] = gen_param(b, k->map_out[i]);
  }
  place_shared(&e);
  gen_pipeline_create(b, &e.of_rows, "rows", p->row_stages, p->consumers, 1);
  gen_pipeline_create(b, &e.of_columns[0], "first", p->stages, p->consumers * WARPS, 1);
  gen_pipeline_create(b, &e.of_columns[1], "second", p->stages, p->consumers * WARPS, 1);
  gen_value thread = gen_tid_x(b);
  set_up_barriers(&e, thread);
  /* All before this overlapped the end of the launch before; from here on memory is touched. */
  gen_launches_wait(b);
  gen_launches_release(b);
  return emit_roles(&e, thread, err);
}
