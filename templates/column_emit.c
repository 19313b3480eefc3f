/* The bodies of a column reduction's kernels: rows into partial results, and those into outputs. */
#include "templates/column_emit.h"

#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"

static gen_value index_of(const column_emitter *e, gen_value x) {
  return e->p->wide_offsets ? gen_zext(e->b, x, GEN_I64) : x;
}

static gen_value index_imm(const column_emitter *e, int64_t x) {
  return e->p->wide_offsets ? gen_i64(e->b, x) : gen_i32(e->b, x);
}

static gen_value modulo(gen_builder *b, gen_value x, int y) {
  return gen_and(b, x, gen_i32(b, y - 1)); /* powers of two */
}

static gen_value quotient(gen_builder *b, gen_value x, int y) {
  return gen_lshr(b, x, gen_i32(b, __builtin_ctz((unsigned)y)));
}

/* --- rows of the operator --- */

static void set_places(const column_emitter *e, lanes *l) {
  lanes_set(l, e->m->v, e->column);
  for (int i = 0; i < e->m->n_kept; i++) lanes_set(l, e->m->kept[i], e->kept[i]);
}

static void set_row(const column_emitter *e, lanes *l, gen_value row) {
  for (int i = e->m->n_rows - 1; i >= 0; i--) {
    gen_value extent = i ? lanes_extent(l, e->m->rows[i]) : NULL;
    lanes_set(l, e->m->rows[i], i ? gen_urem(e->b, row, extent) : row);
    if (i) row = gen_udiv(e->b, row, extent);
  }
}

/* NaN is true: unordered comparison. */
static arke_status conditions_hold(column_emitter *e, lanes *l, const column_reduction *r, gen_value *holds,
                                   bool *always, arke_error *err) {
  *always = r->n_conditions == 0;
  for (int c = 0; c < r->n_conditions; c++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, r->conditions[c], values, &n, err));
    for (int j = 0; j < e->p->vector; j++) {
      gen_value v = column_as(e->b, values[n == 1 ? 0 : j], GEN_I1);
      holds[j] = c ? gen_and(e->b, holds[j], v) : v;
    }
  }
  return ARKE_OK;
}

static arke_status take_row(column_emitter *e, lanes *l, gen_value row, gen_value *states, arke_error *err) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const column_reduction *r = &e->m->reductions[k];
    gen_value values[LANES_MAX], holds[LANES_MAX], position = NULL;
    int n;
    bool always;
    TRY(conditions_hold(e, l, r, holds, &always, err));
    TRY(lanes_eval(l, r->body, values, &n, err));
    if (reduction_values(&r->r) == 2) position = column_as(e->b, row, r->r.position);
    for (int j = 0; j < e->p->vector; j++) {
      gen_value state[REDUCTION_VALUES];
      column_state_of(e, states, k, j, state);
      reduction_take(e->b, &r->r, state, column_as(e->b, values[n == 1 ? 0 : j], r->r.type), position,
                     always ? NULL : holds[j]);
      column_set_state(e, states, k, j, state);
    }
  }
  return ARKE_OK;
}

/* `count` rows, `down` apart, beginning with `first`: all loads are under way before the first is used. */
static arke_status take_rows(column_emitter *e, gen_value first, int count, gen_value *states,
                             arke_error *err) {
  lanes *l[8];
  gen_value rows[8];
  for (int i = 0; i < count; i++) {
    rows[i] = gen_add_imm(e->b, first, (int64_t)i * e->p->down);
    TRY(lanes_create(e->b, &e->m->form, &e->k->options, &e->k->slots, e->k->a, &l[i], err));
    set_places(e, l[i]);
    set_row(e, l[i], rows[i]);
    for (int k = 0; k < e->m->n_reductions; k++) {
      const column_reduction *r = &e->m->reductions[k];
      for (int c = 0; c < r->n_conditions; c++) TRY(lanes_load(l[i], r->conditions[c], err));
      if (r->n_conditions == 0) TRY(lanes_load(l[i], r->body, err));
    }
  }
  for (int i = 0; i < count; i++) TRY(take_row(e, l[i], rows[i], states, err));
  return ARKE_OK;
}

static arke_status row_loop(column_emitter *e, gen_value *row, gen_value end, int count, arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[COLUMN_MOST_VALUES + 1];
  gen_loop loop;
  int step = count * e->p->down;
  carried[0] = *row;
  for (int i = 0; i < e->n; i++) carried[i + 1] = e->states[i];
  gen_loop_begin(b, &loop, carried, e->n + 1);
  /* The last of the rows taken at once is one: rows count from 0, so the sum does not wrap. */
  gen_value last = gen_add_imm(b, carried[0], (int64_t)(count - 1) * e->p->down);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, last, end));
  TRY(take_rows(e, carried[0], count, carried + 1, err));
  carried[0] = gen_add_imm(b, carried[0], step);
  gen_loop_end(b, &loop);
  *row = carried[0];
  for (int i = 0; i < e->n; i++) e->states[i] = carried[i + 1];
  return ARKE_OK;
}

static arke_status take_operator_rows(column_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value row = index_of(e, e->down), end = gen_param(b, e->k->rows);
  if (e->p->split > 1) {
    gen_value each = gen_param(b, e->k->rows_per_split);
    gen_value begin = gen_mul(b, index_of(e, e->split), each);
    row = gen_add(b, row, begin);
    end = gen_umin(b, end, gen_add(b, begin, each));
  }
  if (e->p->unroll > 1) TRY(row_loop(e, &row, end, e->p->unroll, err));
  return row_loop(e, &row, end, 1, err);
}

/* --- results --- */

arke_status column_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  column_emitter *e = ((column_kernel *)user)->current;
  for (int k = 0; k < e->m->n_reductions; k++) {
    const column_reduction *r = &e->m->reductions[k];
    if (r->e != x) continue;
    for (int j = 0; j < e->p->vector; j++) {
      gen_value state[REDUCTION_VALUES];
      column_state_of(e, e->states, k, j, state);
      values[j] = reduction_result(&r->r, state);
      if (reduction_values(&r->r) == 2 && r->r.position == GEN_I32)
        values[j] = gen_sext(e->b, values[j], GEN_I64);
    }
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the column template did not match");
}

static arke_status store_outputs(column_emitter *e, arke_error *err) {
  const ir_form *form = &e->m->form;
  lanes *l;
  TRY(lanes_create(e->b, form, &e->k->options, &e->k->slots, e->k->a, &l, err));
  set_places(e, l);
  for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(l, form->outputs[o].value, err));
  for (int o = 0; o < form->n_outputs; o++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, form->outputs[o].value, values, &n, err));
    TRY(lanes_store(l, o, values, n, NULL, err));
  }
  return ARKE_OK;
}

/* The thread's position, and the loops' values there. */
static void find_position(column_emitter *e) {
  gen_builder *b = e->b;
  gen_value cta = gen_ctaid_x(b), tile = cta;
  if (e->p->cluster) {
    tile = gen_udiv(b, cta, gen_i32(b, e->p->split));
    e->split = gen_urem(b, cta, gen_i32(b, e->p->split));
  } else if (e->k->to_partials) {
    gen_value tiles = gen_param(b, e->k->tiles);
    tile = gen_urem(b, cta, tiles);
    e->split = gen_udiv(b, cta, tiles);
  }
  gen_value positions = gen_param(b, e->k->positions);
  gen_value p = gen_add(b, gen_mul_imm(b, index_of(e, tile), e->p->across), index_of(e, e->across));
  e->exists = gen_compare(b, GEN_ULT, p, positions);
  e->position = gen_umin(b, p, gen_sub(b, positions, index_imm(e, 1)));
  gen_value rest = e->position, chunks = gen_param(b, e->k->chunks);
  gen_value chunk = e->m->n_kept ? gen_urem(b, rest, chunks) : rest;
  if (e->m->n_kept) rest = gen_udiv(b, rest, chunks);
  e->column = gen_mul_imm(b, chunk, e->p->vector);
  for (int i = e->m->n_kept - 1; i >= 0; i--) {
    gen_value extent = i ? gen_param(b, e->k->kept[i]) : NULL;
    e->kept[i] = i ? gen_urem(b, rest, extent) : rest;
    if (i) rest = gen_udiv(b, rest, extent);
  }
}

arke_status column_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  column_kernel *k = user;
  column_emitter *e = arena_alloc(k->a, sizeof *e);
  if (!e) return error_memory(err, "generate");
  e->b = b;
  e->k = k;
  e->p = &k->plan;
  e->m = k->plan.m;
  k->current = e;
  gen_launches_release(b);
  e->thread = gen_tid_x(b);
  e->across = modulo(b, e->thread, e->p->across);
  e->down = quotient(b, e->thread, e->p->across);
  find_position(e);
  column_start(e);
  gen_launches_wait(b);
  if (k->from_partials) {
    column_take_partials(e);
  } else {
    TRY(take_operator_rows(e, err));
  }
  column_combine_in_warp(e);
  int narrow = e->p->across < 32;
  gen_value group = narrow ? quotient(b, e->thread, 32) : e->down;
  gen_value speaks =
      narrow ? gen_compare_imm(b, GEN_ULT, modulo(b, e->thread, 32), e->p->across) : gen_bool(b, true);
  gen_value shared = NULL;
  if (e->p->smem_bytes > 0)
    shared = gen_shared_static(b, k->from_partials ? "finished" : "partials", e->p->smem_bytes, 16);
  if (e->p->groups > 1) column_combine_in_cta(e, shared, group, speaks);
  gen_value has = gen_and(b, speaks, gen_compare_imm(b, GEN_EQ, group, 0));
  if (e->p->cluster) {
    column_combine_in_cluster(e, shared, has);
    has = gen_and(b, has, gen_compare_imm(b, GEN_EQ, e->split, 0));
  }
  gen_branch first;
  gen_if(b, &first, gen_and(b, e->exists, has), NULL, 0);
  if (k->to_partials) {
    column_store_partials(e);
  } else {
    TRY(store_outputs(e, err));
  }
  gen_if_end(b, &first);
  if (e->p->cluster) gen_cluster_wait(b);
  return ARKE_OK;
}
