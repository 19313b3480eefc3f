/* The producer: copies the queries of a tile, then its keys and values, step by step from the last. One
 * thread issues the copies; where requests are packed its warp looks for the tiles. */
#include "generator/gen_bits.h"
#include "generator/gen_pipeline.h"
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"

/* --- tiles --- */

/* Coordinates of an access in the tile at hand: `given[s]` where it is there, the subscript's value
 * elsewhere. The last one is the panel's. */
static arke_status coordinates(attention_emitter *e, int access, const gen_value *given, gen_value *at,
                               arke_error *err) {
  gen_builder *b = e->b;
  const ir_access *x = &e->m->form.accesses[access];
  for (int s = 0; s + 1 < x->n; s++) {
    gen_value v[LANES_MAX] = {given[s]};
    int n;
    if (!v[0]) TRY(lanes_eval(e->l, x->subscripts[s].e, v, &n, err));
    if (gen_type_of(b, v[0]) == GEN_I64) v[0] = gen_trunc(b, v[0], GEN_I32);
    at[attention_map_dimension(e->p, access, s)] = v[0];
  }
  return ARKE_OK;
}

/* Panels of a tile that are copied from one tensor. */
typedef struct source {
  gen_value map;
  const attention_read *r; /* NULL: of Q */
  const attention_tile *tile;
  int first, panels; /* in the tile */
} source;

static void copy_panels(attention_emitter *e, const source *of, gen_value *at, int rank, gen_value shared,
                        gen_value full, unsigned mask) {
  for (int i = 0; i < of->panels; i++) {
    at[0] = gen_i32(e->b, (int64_t)i * attention_panel_columns(of->tile));
    gen_value to = gen_add_imm(e->b, shared, (int64_t)(of->first + i) * of->tile->panel_bytes);
    gen_tma_load(e->b, to, of->map, at, rank, full, mask);
  }
}

/* Consumers, who compute queries of what lies there, find it in the L2 cache. */
static void ask_for_panels(attention_emitter *e, const source *of, gen_value *at, int rank) {
  for (int i = 0; i < of->panels; i++) {
    at[0] = gen_i32(e->b, (int64_t)i * attention_panel_columns(of->tile));
    gen_tma_prefetch(e->b, of->map, at, rank);
  }
}

static arke_status load_queries(attention_emitter *e, gen_value first, gen_value shared, gen_value full,
                                arke_error *err) {
  const attention_plan *p = e->p;
  int panel = 0;
  for (int i = 0; i < p->n_parts; i++) {
    const ir_access *x = &e->m->form.accesses[p->parts[i]->q];
    gen_value given[LIMIT_RANK + 1] = {NULL}, at[GEN_TMA_MAX_RANK];
    for (int s = 0; s < x->n; s++)
      if (x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == e->m->query) given[s] = first;
    TRY(coordinates(e, p->parts[i]->q, given, at, err));
    source of = {.map = e->map_q[i], .tile = &p->q, .first = panel, .panels = p->part_panels[i]};
    if (p->makes_queries)
      ask_for_panels(e, &of, at, x->n);
    else
      copy_panels(e, &of, at, x->n, shared, full, 0);
    panel += of.panels;
  }
  return ARKE_OK;
}

/* A step of K or V, which begins at `key`. With several CTAs in a cluster this one copies its share of the
 * rows into all of them. */
static arke_status load_keys(attention_emitter *e, const source *of, gen_value key, gen_value shared,
                             gen_value full, arke_error *err) {
  gen_builder *b = e->b;
  const attention_read *r = of->r;
  int sharers = e->p->cluster;
  gen_value given[LIMIT_RANK + 1] = {NULL}, at[GEN_TMA_MAX_RANK];
  if (sharers > 1) {
    gen_value rank = gen_cluster_ctarank(b);
    key = gen_add(b, key, gen_mul_imm(b, rank, e->p->box_n));
    shared = gen_add(b, shared, gen_mul_imm(b, rank, (int64_t)e->p->box_n * 128));
  }
  given[r->row] = key;
  TRY(coordinates(e, r->access, given, at, err));
  copy_panels(e, of, at, e->m->form.accesses[r->access].n, shared, full,
              sharers > 1 ? (1u << sharers) - 1 : 0);
  return ARKE_OK;
}

/* --- pages --- */

/* The numbers of the pages of a step of K or V, one for each copy. */
typedef struct pages {
  int n;
  gen_value numbers[ATTENTION_MOST_BOXES];
} pages;

/* Of a step that begins at `key`, which may be below 0: then nothing is asked of them. Pages behind the last
 * key that is seen are not looked up but taken from outside the tensor, where copies give zeros. */
static arke_status look_up(attention_emitter *e, const attention_place *tile, const attention_read *r,
                           gen_value key, pages *p, arke_error *err) {
  gen_builder *b = e->b;
  const ir_expr *number = e->m->form.accesses[r->access].subscripts[r->page_of].e;
  gen_value zero = gen_i32(b, 0), last = gen_smax(b, gen_add_imm(b, tile->below, -1), zero);
  p->n = e->p->block_n / e->p->box_n;
  lanes_forget(e->l);
  for (int i = 0; i < p->n; i++) {
    gen_value at = gen_add_imm(b, key, (int64_t)i * e->p->box_n), v[LANES_MAX];
    int n;
    gen_value inside = gen_smin(b, gen_smax(b, at, zero), last);
    lanes_set(e->l, e->m->key, attention_index(e, inside));
    TRY(lanes_load(e->l, number, err));
    TRY(lanes_eval(e->l, number, v, &n, err));
    if (gen_type_of(b, v[0]) == GEN_I64) v[0] = gen_trunc(b, v[0], GEN_I32);
    p->numbers[i] = gen_select(b, gen_compare(b, GEN_SLT, at, tile->below), v[0], gen_i32(b, -1));
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

static arke_status load_pages(attention_emitter *e, const source *of, gen_value key, const pages *p,
                              gen_value shared, gen_value full, arke_error *err) {
  gen_builder *b = e->b;
  const attention_read *r = of->r;
  int rows = e->p->box_n, rank = e->m->form.accesses[r->access].n;
  gen_value given[LIMIT_RANK + 1] = {NULL}, at[GEN_TMA_MAX_RANK];
  given[r->row] = given[r->page_of] = gen_i32(b, 0);
  TRY(coordinates(e, r->access, given, at, err));
  for (int i = 0; i < p->n; i++) {
    gen_value first = gen_add_imm(b, key, (int64_t)i * rows);
    at[rank - 1 - r->row] = e->p->page == rows ? gen_i32(b, 0) : gen_urem(b, first, gen_i32(b, e->p->page));
    at[rank - 1 - r->page_of] = p->numbers[i];
    copy_panels(e, of, at, rank, gen_add_imm(b, shared, (int64_t)i * rows * 128), full, 0);
  }
  return ARKE_OK;
}

/* --- steps --- */

/* What a loop over a tile's steps carries: the pages of the next step are looked up while the ring has no
 * room for it. */
typedef struct steps {
  gen_value step;
  gen_stage k, v;
  pages of_k, of_v; /* of the next step; of_v has none where they are K's */
} steps;

static arke_status look_up_step(attention_emitter *e, const attention_place *at, gen_value step, steps *s,
                                arke_error *err) {
  gen_builder *b = e->b;
  if (!e->p->page) return ARKE_OK;
  gen_value key = gen_add(b, at->origin, gen_mul_imm(b, step, e->p->block_n));
  TRY(look_up(e, at, &e->p->parts[0]->k, key, &s->of_k, err));
  return attention_same_pages(e->m) ? ARKE_OK : look_up(e, at, &e->m->v, key, &s->of_v, err);
}

/* A tile of K or V, from `n` tensors. */
static arke_status load_operand(attention_emitter *e, const source *sources, int n, gen_value key,
                                const pages *p, gen_pipeline *of, gen_value smem, gen_stage *stage,
                                arke_error *err) {
  gen_builder *b = e->b;
  const attention_tile *tile = sources[0].tile;
  int bytes = tile == &e->p->k ? e->p->k_stage_bytes : tile->bytes;
  gen_value full = attention_acquire_copied(e, of, *stage, tile->bytes);
  gen_value shared = gen_add(b, smem, gen_mul_imm(b, stage->index, bytes));
  for (int i = 0; i < n; i++) {
    if (e->p->page)
      TRY(load_pages(e, &sources[i], key, p, shared, full, err));
    else
      TRY(load_keys(e, &sources[i], key, shared, full, err));
  }
  *stage = gen_pipeline_advance(b, of, *stage);
  return ARKE_OK;
}

static arke_status load_step(attention_emitter *e, const attention_place *at, steps *s, arke_error *err) {
  gen_builder *b = e->b;
  const attention_plan *p = e->p;
  gen_value key = gen_mul_imm(b, s->step, p->block_n);
  if (attention_has_origin(p)) key = gen_add(b, at->origin, key);
  pages of_k = s->of_k, of_v = p->page && !attention_same_pages(e->m) ? s->of_v : of_k;
  TRY(look_up_step(e, at, gen_add_imm(b, s->step, -1), s, err));
  /* What is converted is copied elsewhere, to half as many panels. */
  bool keys = p->copied_k.stages > 0, values = p->copied_v.stages > 0;
  const attention_tile *of_key = keys ? &p->copied_k.tile : &p->k,
                       *of_value = values ? &p->copied_v.tile : &p->v;
  source k[ATTENTION_PARTS],
      v = {.map = e->map_v, .r = &e->m->v, .tile = of_value, .panels = of_value->panels};
  int panel = 0;
  for (int i = 0; i < p->n_parts; i++) {
    int panels = keys ? (p->part_panels[i] + 1) / 2 : p->part_panels[i];
    k[i] = (source){e->map_k[i], &p->parts[i]->k, of_key, panel, panels};
    panel += panels;
  }
  TRY(load_operand(e, k, p->n_parts, key, &of_k, keys ? &e->of_copied_k : &e->of_k,
                   keys ? e->smem_copied_k : e->smem_k, &s->k, err));
  if (p->values_are_keys) return ARKE_OK;
  return load_operand(e, &v, 1, key, &of_v, values ? &e->of_copied_v : &e->of_v,
                      values ? e->smem_copied_v : e->smem_v, &s->v, err);
}

static int put(const steps *s, gen_value *to) {
  int n = 0;
  gen_value state[] = {s->step, s->k.index, s->k.parity, s->v.index, s->v.parity};
  for (size_t i = 0; i < COUNT_OF(state); i++) to[n++] = state[i];
  for (int i = 0; i < s->of_k.n; i++) to[n++] = s->of_k.numbers[i];
  for (int i = 0; i < s->of_v.n; i++) to[n++] = s->of_v.numbers[i];
  return n;
}

static void get(steps *s, const gen_value *from) {
  int n = 5;
  s->step = from[0];
  s->k = (gen_stage){from[1], from[2]};
  s->v = (gen_stage){from[3], from[4]};
  for (int i = 0; i < s->of_k.n; i++) s->of_k.numbers[i] = from[n++];
  for (int i = 0; i < s->of_v.n; i++) s->of_v.numbers[i] = from[n++];
}

/* --- tiles --- */

/* What the walk over tiles carries. */
enum { ITEM, Q_INDEX, Q_PARITY, K_INDEX, K_PARITY, V_INDEX, V_PARITY, CARRIED };

/* Of the queries that are copied. */
static int query_bytes(const attention_plan *p) {
  return p->makes_queries ? 0 : p->q.bytes;
}

static void next_queries(attention_emitter *e, gen_value *c) {
  gen_stage q = gen_pipeline_advance(e->b, &e->of_q, (gen_stage){c[Q_INDEX], c[Q_PARITY]});
  c[Q_INDEX] = q.index;
  c[Q_PARITY] = q.parity;
}

/* By all threads of the group, the first of which copies the queries. */
static arke_status gather_tile(attention_emitter *e, gen_value thread, const attention_place *at,
                               gen_value *c, arke_error *err) {
  gen_builder *b = e->b;
  gen_stage q = {c[Q_INDEX], c[Q_PARITY]}, k = {c[K_INDEX], c[K_PARITY]}, v = {c[V_INDEX], c[V_PARITY]};
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  gen_value shared = gen_add(b, e->smem_q, gen_mul_imm(b, q.index, e->p->q_stage_bytes));
  TRY(load_queries(e, at->first, shared, gen_pipeline_acquire(b, &e->of_q, q, e->p->q.bytes), err));
  gen_if_end(b, &first);
  TRY(attention_gather_steps(e, thread, at, &k, &v, err));
  gen_value state[] = {k.index, k.parity, v.index, v.parity};
  for (int i = 0; i < 4; i++) c[K_INDEX + i] = state[i];
  next_queries(e, c);
  return ARKE_OK;
}

static arke_status load_tile(attention_emitter *e, const attention_place *at, gen_value *c, arke_error *err) {
  gen_builder *b = e->b;
  gen_stage q = {c[Q_INDEX], c[Q_PARITY]};
  gen_value shared = gen_add(b, e->smem_q, gen_mul_imm(b, q.index, e->p->q_stage_bytes)), full;
  if (e->p->packed) { /* the barrier that the queries complete lets consumers read what is told before */
    gen_pipeline_wait_free(b, &e->of_q, q);
    attention_tell_request(e, q.index, at);
    full = gen_pipeline_expect(b, &e->of_q, q, query_bytes(e->p));
  } else {
    full = gen_pipeline_acquire(b, &e->of_q, q, query_bytes(e->p));
  }
  TRY(load_queries(e, at->first, shared, full, err));

  gen_value in[5 + 2 * ATTENTION_MOST_BOXES];
  gen_loop loop;
  steps s = {.step = at->steps, .k = {c[K_INDEX], c[K_PARITY]}, .v = {c[V_INDEX], c[V_PARITY]}};
  TRY(look_up_step(e, at, gen_add_imm(b, s.step, -1), &s, err));
  int n = put(&s, in);
  gen_loop_begin(b, &loop, in, n);
  get(&s, in);
  s.step = gen_add_imm(b, s.step, -1);
  TRY(load_step(e, at, &s, err));
  put(&s, in);
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_SGT, in[0], 0));
  for (int i = 0; i < 4; i++) c[K_INDEX + i] = in[1 + i];
  next_queries(e, c);
  return ARKE_OK;
}

static void start(attention_emitter *e, gen_value *c) {
  gen_stage start = gen_pipeline_producer_start(e->b);
  c[ITEM] = attention_first_item(e);
  c[Q_INDEX] = c[K_INDEX] = c[V_INDEX] = start.index;
  c[Q_PARITY] = c[K_PARITY] = c[V_PARITY] = start.parity;
}

static arke_status walk(attention_emitter *e, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  gen_value c[CARRIED];
  gen_loop items;
  start(e, c);
  gen_loop_begin(b, &items, c, CARRIED);
  gen_value item = attention_item_at(e, c[ITEM]);
  gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
  attention_place at;
  TRY(attention_locate(e, item, &at, err));
  if (e->p->gathered)
    TRY(gather_tile(e, thread, &at, c, err));
  else
    TRY(load_tile(e, &at, c, err));
  c[ITEM] = attention_next_item(e, c[ITEM]);
  gen_loop_end(b, &items);
  attention_end_copied(e, (gen_stage){c[K_INDEX], c[K_PARITY]}, (gen_stage){c[V_INDEX], c[V_PARITY]});
  return ARKE_OK;
}

/* By a warp, whose first lane does all but the search. */
static arke_status walk_requests(attention_emitter *e, gen_value first_lane, arke_error *err) {
  gen_builder *b = e->b;
  gen_value c[CARRIED];
  gen_loop items;
  gen_branch leader;
  /* Of all heads together the walk ends behind the last rank; else it takes the number of tiles to know
   * where a group of heads ends. */
  bool counted = !attention_is_ordered(e->p) || e->p->group > 0;
  gen_value all = NULL, exists;
  if (counted) {
    TRY(attention_count_tiles(e, err));
    all = gen_mul(b, e->tiles, gen_param(b, e->k->heads));
  }
  start(e, c);
  gen_loop_begin(b, &items, c, CARRIED);
  gen_value item = attention_item_at(e, c[ITEM]);
  if (counted) gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, all));
  attention_place at;
  TRY(attention_find_request(e, item, &at, &exists, err));
  if (!counted) gen_loop_while(b, &items, exists);
  gen_if(b, &leader, first_lane, c, CARRIED);
  TRY(load_tile(e, &at, c, err));
  gen_if_end(b, &leader);
  lanes_forget(e->l);
  c[ITEM] = attention_next_item(e, c[ITEM]);
  gen_loop_end(b, &items);
  gen_if(b, &leader, first_lane, NULL, 0);
  gen_stage q = {c[Q_INDEX], c[Q_PARITY]};
  gen_pipeline_wait_free(b, &e->of_q, q);
  attention_tell_end(e, q.index);
  gen_pipeline_expect(b, &e->of_q, q, 0);
  attention_end_copied(e, (gen_stage){c[K_INDEX], c[K_PARITY]}, (gen_stage){c[V_INDEX], c[V_PARITY]});
  gen_if_end(b, &leader);
  return ARKE_OK;
}

arke_status attention_emit_producer(attention_emitter *e, gen_value thread, arke_error *err) {
  gen_builder *b = e->b;
  gen_branch one;
  gen_value first = gen_compare_imm(b, GEN_EQ, thread, 0);
  if (e->p->packed) return walk_requests(e, first, err);
  if (e->p->gathered) return walk(e, thread, err);
  gen_if(b, &one, first, NULL, 0);
  TRY(walk(e, thread, err));
  gen_if_end(b, &one);
  return ARKE_OK;
}
