/* The producer thread: copies the queries of a tile, then its keys and values, step by step from the last. */
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"

/* Copies a tile's panels; `loop` is the one over its rows, which begin at `row`. With several `sharers` this
 * CTA copies its share of them into all CTAs of the cluster. */
static arke_status load_tile(attention_emitter *e, const attention_tile *tile, gen_value map, int access,
                             int loop, gen_value row, gen_value shared, gen_value full, int sharers,
                             arke_error *err) {
  gen_builder *b = e->b;
  unsigned mask = sharers > 1 ? (1u << sharers) - 1 : 0;
  if (sharers > 1) {
    int rows = tile->rows / sharers;
    gen_value rank = gen_cluster_ctarank(b);
    row = gen_add(b, row, gen_mul_imm(b, rank, rows));
    shared = gen_add(b, shared, gen_mul_imm(b, rank, (int64_t)rows * 128));
  }
  const ir_access *x = &e->m->form.accesses[access];
  gen_value at[5];
  for (int s = 0; s < x->n; s++) {
    const ir_expr *sub = x->subscripts[s].e;
    gen_value v[LANES_MAX];
    int n;
    if (s == x->n - 1) {
      v[0] = gen_i32(b, 0);
    } else if (sub->node == IR_INDEX && sub->id == loop) {
      v[0] = row;
    } else {
      TRY(lanes_eval(e->l, sub, v, &n, err));
      if (gen_type_of(b, v[0]) == GEN_I64) v[0] = gen_trunc(b, v[0], GEN_I32);
    }
    at[x->n - 1 - s] = v[0];
  }
  for (int i = 0; i < tile->panels; i++) {
    at[0] = gen_i32(b, (int64_t)i * 64);
    gen_tma_load(b, gen_add_imm(b, shared, (int64_t)i * tile->panel_bytes), map, at, x->n, full, mask);
  }
  return ARKE_OK;
}

static arke_status load_step(attention_emitter *e, gen_value step, gen_stage *k, gen_stage *v,
                             arke_error *err) {
  gen_builder *b = e->b;
  const attention_plan *p = e->p;
  gen_value key = gen_mul_imm(b, step, p->block_n);
  gen_value full = gen_pipeline_acquire(b, &e->of_k, *k, p->k.bytes);
  gen_value shared = gen_add(b, e->smem_k, gen_mul_imm(b, k->index, p->k.bytes));
  TRY(load_tile(e, &p->k, e->map_k, e->m->k, e->m->key, key, shared, full, p->cluster, err));
  *k = gen_pipeline_advance(b, &e->of_k, *k);
  full = gen_pipeline_acquire(b, &e->of_v, *v, p->v.bytes);
  shared = gen_add(b, e->smem_v, gen_mul_imm(b, v->index, p->v.bytes));
  TRY(load_tile(e, &p->v, e->map_v, e->m->v, e->m->key, key, shared, full, p->cluster, err));
  *v = gen_pipeline_advance(b, &e->of_v, *v);
  return ARKE_OK;
}

arke_status attention_emit_producer(attention_emitter *e, arke_error *err) {
  enum { ITEM, Q_INDEX, Q_PARITY, K_INDEX, K_PARITY, V_INDEX, V_PARITY, CARRIED };
  gen_builder *b = e->b;
  gen_stage start = gen_pipeline_producer_start(b);
  gen_value c[CARRIED] = {
      [ITEM] = attention_first_item(e), [Q_INDEX] = start.index,   [Q_PARITY] = start.parity,
      [K_INDEX] = start.index,          [K_PARITY] = start.parity, [V_INDEX] = start.index,
      [V_PARITY] = start.parity};
  gen_loop items;
  gen_loop_begin(b, &items, c, CARRIED);
  gen_value item = attention_item_at(e, c[ITEM]);
  gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
  attention_place at;
  TRY(attention_locate(e, item, &at, err));
  gen_stage q = {c[Q_INDEX], c[Q_PARITY]};
  gen_value shared = gen_add(b, e->smem_q, gen_mul_imm(b, q.index, e->p->q.bytes));
  gen_value full = gen_pipeline_acquire(b, &e->of_q, q, e->p->q.bytes);
  TRY(load_tile(e, &e->p->q, e->map_q, e->m->q, e->m->query, at.first, shared, full, 1, err));

  enum { STEP, INNER = STEP + 5 };
  gen_value in[INNER] = {at.end, c[K_INDEX], c[K_PARITY], c[V_INDEX], c[V_PARITY]};
  gen_loop steps;
  gen_loop_begin(b, &steps, in, INNER);
  gen_value step = gen_add_imm(b, in[STEP], -1);
  gen_stage k = {in[1], in[2]}, v = {in[3], in[4]};
  TRY(load_step(e, step, &k, &v, err));
  in[STEP] = step;
  in[1] = k.index;
  in[2] = k.parity;
  in[3] = v.index;
  in[4] = v.parity;
  gen_loop_end_while(b, &steps, gen_compare(b, GEN_SGT, in[STEP], at.begin));
  c[ITEM] = attention_next_item(e, c[ITEM]);
  q = gen_pipeline_advance(b, &e->of_q, q);
  c[Q_INDEX] = q.index;
  c[Q_PARITY] = q.parity;
  for (int i = 0; i < 4; i++) c[K_INDEX + i] = in[1 + i];
  gen_loop_end(b, &items);
  return ARKE_OK;
}
