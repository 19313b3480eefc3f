/* The kernel around its two roles: barriers, dispatch, and the evaluator of scores and bounds. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"

static arke_status score(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  attention_emitter *e = user;
  if (x == e->m->groups.of && e->group) {
    bool wide = ir_form_type(&e->m->form, x) == DTYPE_I64;
    values[0] = wide ? gen_sext(e->b, e->group, GEN_I64) : e->group;
    return ARKE_OK;
  }
  if (e->m->n_parts > 1 && x == e->m->parts[1].e) { /* all of the sum is the other's value */
    values[0] = gen_f32(e->b, 0);
    return ARKE_OK;
  }
  if (x != e->m->parts[0].e || !e->score)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that a score has not");
  values[0] = e->m->factor == 1 ? *e->score : gen_fmul(e->b, *e->score, gen_f32(e->b, e->m->factor));
  return ARKE_OK;
}

static void set_up_barriers(attention_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  for (int i = 0; i < e->p->n_parts; i++) {
    gen_tma_prefetch_map(b, e->map_q[i]);
    if (!e->p->gathered) gen_tma_prefetch_map(b, e->map_k[i]);
  }
  if (!e->p->values_are_keys && !e->p->gathered) gen_tma_prefetch_map(b, e->map_v);
  if (e->p->copied) gen_tma_prefetch_map(b, e->map_o);
  gen_pipeline_init(b, &e->of_q);
  gen_pipeline_init(b, &e->of_k);
  if (!e->p->values_are_keys) gen_pipeline_init(b, &e->of_v);
  attention_convert_init(e);
  gen_mbarrier_init_fence(b);
  gen_if_end(b, &first);
  if (e->p->cluster > 1) {
    gen_cluster_sync(b);
  } else {
    gen_cta_sync(b);
  }
}

/* Groups that exchange weights have programs of their own. */
static arke_status emit_consumers(attention_emitter *e, gen_value group, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  gen_branch second;
  if (!e->p->exchange) return attention_emit_consumer(e, group, 0, thread, err);
  gen_if(b, &second, gen_compare_imm(b, GEN_EQ, group, 0), NULL, 0);
  TRY(attention_emit_consumer(e, gen_i32(b, 0), 0, thread, err));
  gen_else(b, &second);
  TRY(attention_emit_consumer(e, gen_i32(b, 1), 1, thread, err));
  gen_if_end(b, &second);
  return ARKE_OK;
}

static arke_status emit_roles(attention_emitter *e, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  int consumers = e->p->consumers;
  gen_value group = gen_warp_uniform(b, gen_lshr(b, thread, gen_i32(b, 7)));
  gen_branch producer, one_warp;
  gen_if(b, &producer, gen_compare_imm(b, GEN_EQ, group, consumers), NULL, 0);
  bool move_registers = consumers > 1 || e->p->resident > 1;
  if (move_registers) gen_registers_shrink(b, attention_producer_registers(e->p));
  gen_value in_group = gen_sub(b, thread, gen_i32(b, (int64_t)consumers * 128));
  if (!e->p->gathered) gen_if(b, &one_warp, gen_compare_imm(b, GEN_ULT, in_group, 32), NULL, 0);
  TRY(attention_emit_producer(e, in_group, err));
  if (attention_converts(e->p)) {
    gen_else(b, &one_warp);
    attention_emit_converter(e, gen_add_imm(b, in_group, -32));
  }
  if (!e->p->gathered) gen_if_end(b, &one_warp);
  if (e->p->merge > 1) gen_cluster_sync(b); /* that of consumers, who meet what others have */
  gen_else(b, &producer);
  if (move_registers) gen_registers_grow(b, attention_registers(e->p));
  TRY(emit_consumers(e, group, gen_and(b, thread, gen_i32(b, 127)), err));
  gen_if_end(b, &producer);
  /* A CTA must not end while its peers still copy into it, arrive on its barriers or read what it has. */
  if (attention_ctas(e->p) > 1) gen_cluster_sync(b);
  return ARKE_OK;
}

arke_status attention_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const attention_kernel *k = user;
  const attention_plan *p = k->p;
  attention_emitter e = {.b = b, .k = k, .p = p, .m = p->match};
  lanes_options o = p->scores;
  o.user = &e;
  o.reduce = score;
  TRY(lanes_create(b, &p->match->form, &o, &k->score_slots, k->a, &e.l, err));
  lanes_want(e.l, p->match->body, GEN_ACCURACY_SCORE);
  for (int i = 0; i < p->n_parts; i++) {
    e.map_q[i] = gen_param(b, k->map_q[i]);
    if (!p->gathered) e.map_k[i] = gen_param(b, k->map_k[i]);
  }
  if (!p->values_are_keys && !p->gathered) e.map_v = gen_param(b, k->map_v);
  if (p->copied) e.map_o = gen_param(b, k->map_o);
  e.smem_q = gen_shared_dynamic(b);
  e.smem_k = gen_add_imm(b, e.smem_q, (int64_t)p->q_stages * p->q_stage_bytes);
  e.smem_v = p->values_are_keys ? e.smem_k : gen_add_imm(b, e.smem_k, (int64_t)p->stages * p->k_stage_bytes);
  gen_pipeline_create(b, &e.of_q, "q", p->q_stages, p->consumers, 1);
  gen_pipeline_create(b, &e.of_k, "k", p->stages, p->consumers, p->copied_k.stages ? 1 : p->cluster);
  if (!p->values_are_keys)
    gen_pipeline_create(b, &e.of_v, "v", p->stages, p->consumers, p->copied_v.stages ? 1 : p->cluster);
  attention_convert_create(&e);
  if (p->exchange) e.exchanged = gen_shared_static(b, "exchanged", attention_exchanged_bytes(), 16);
  if (p->gathered) {
    e.seen = gen_shared_static(b, "seen", attention_seen_bytes(p), 16);
    attention_gather_set_fills(&e);
  }
  if (p->packed) e.requests = gen_shared_static(b, "requests", p->q_stages * attention_request_bytes(p), 16);
  e.tiles = gen_param(b, k->tiles);
  gen_value thread = gen_tid_x(b);
  set_up_barriers(&e, thread);
  /* All before this overlapped the end of the launch before; from here on memory is touched. */
  gen_launches_wait(b);
  gen_launches_release(b);
  return emit_roles(&e, thread, err);
}
