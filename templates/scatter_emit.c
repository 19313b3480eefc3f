/* The body of a kernel that scatters. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "templates/scatter.h"

typedef struct scatter_emitter {
  gen_builder *b;
  scatter_kernel *k;
  const scatter_plan *p;
  gen_value lane, outer[IR_FORM_LOOPS]; /* of the position at hand */
  gen_value owner;                      /* i32: which share of its elements the thread has */
} scatter_emitter;

static gen_value index_of(const scatter_emitter *e, gen_value x) {
  return e->p->wide_offsets ? gen_zext(e->b, x, GEN_I64) : x;
}

/* Splits `rest` into values of the loops, the last fastest. */
static void split(gen_builder *b, gen_value rest, const int *extents, int n, gen_value *values) {
  for (int i = n - 1; i >= 0; i--) {
    gen_value extent = i ? gen_param(b, extents[i]) : NULL;
    values[i] = i ? gen_urem(b, rest, extent) : rest;
    if (i) rest = gen_udiv(b, rest, extent);
  }
}

static void find_position(scatter_emitter *e, gen_value position) {
  gen_builder *b = e->b;
  const scatter_plan *p = e->p;
  if (p->lane >= 0) {
    gen_value chunks = gen_param(b, e->k->chunks);
    e->lane = gen_mul_imm(b, p->n_outer ? gen_urem(b, position, chunks) : position, p->width);
    if (p->n_outer) position = gen_udiv(b, position, chunks);
  }
  split(b, position, e->k->outer, p->n_outer, e->outer);
}

static arke_status make_lanes(scatter_emitter *e, lanes **l, arke_error *err) {
  const scatter_plan *p = e->p;
  TRY(lanes_create(e->b, p->form, &e->k->options, &e->k->slots, e->k->a, l, err));
  if (p->lane >= 0) lanes_set(*l, p->lane, e->lane);
  for (int i = 0; i < p->n_outer; i++) lanes_set(*l, p->outer[i], e->outer[i]);
  return ARKE_OK;
}

static arke_status load(scatter_emitter *e, lanes *l, arke_error *err) {
  const ir_form *form = e->p->form;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    if (!(e->p->part->outputs >> o & 1)) continue;
    for (int s = 0; s < x->n; s++) TRY(lanes_load(l, x->subscripts[s].e, err));
    TRY(lanes_load(l, form->outputs[o].value, err));
  }
  return ARKE_OK;
}

/* All values before any store: what is read in place is read before it is written. */
static arke_status store(scatter_emitter *e, lanes *l, gen_value active, arke_error *err) {
  const ir_form *form = e->p->form;
  gen_value values[LIMIT_TENSORS][LANES_MAX];
  int n[LIMIT_TENSORS];
  for (int o = 0; o < form->n_outputs && o < LIMIT_TENSORS; o++) {
    if (e->p->part->outputs >> o & 1) TRY(lanes_eval(l, form->outputs[o].value, values[o], &n[o], err));
  }
  for (int o = 0; o < form->n_outputs && o < LIMIT_TENSORS; o++) {
    if (e->p->part->outputs >> o & 1) TRY(lanes_store(l, o, values[o], n[o], active, err));
  }
  return ARKE_OK;
}

/* --- in any order --- */

static arke_status emit_points(scatter_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const scatter_plan *p = e->p;
  lanes *l[8];
  gen_value active[8];
  gen_value positions = gen_param(b, e->k->positions);
  gen_value first = gen_mul_imm(b, index_of(e, gen_ctaid_x(b)), (int64_t)p->threads * p->unroll);
  first = gen_add(b, first, index_of(e, gen_tid_x(b)));
  for (int i = 0; i < p->unroll; i++) {
    gen_value position = gen_add_imm(b, first, (int64_t)i * p->threads);
    active[i] = gen_compare(b, GEN_ULT, position, positions);
    find_position(e, gen_umin(b, position, gen_add_imm(b, positions, -1)));
    TRY(make_lanes(e, &l[i], err));
    TRY(load(e, l[i], err));
  }
  for (int i = 0; i < p->unroll; i++) TRY(store(e, l[i], active[i], err));
  return ARKE_OK;
}

/* --- in order --- */

static gen_value as_i32(gen_builder *b, gen_value x) {
  switch (gen_type_of(b, x)) {
  case GEN_I64: return gen_trunc(b, x, GEN_I32);
  case GEN_I32: return x;
  default: return gen_zext(b, x, GEN_I32);
  }
}

/* Whether the element is of this thread's share: by the sum of the subscripts that lead to it. */
static arke_status is_mine(scatter_emitter *e, lanes *l, gen_value *mine, arke_error *err) {
  const ir_form *form = e->p->form;
  gen_value sum = gen_i32(e->b, 0);
  *mine = NULL;
  if (e->p->owners == 1) return ARKE_OK;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    for (int s = 0; e->p->part->outputs >> o & 1 && s < x->n; s++) {
      gen_value values[LANES_MAX];
      int n;
      if (x->subscripts[s].e->node == IR_INDEX) continue;
      TRY(lanes_eval(l, x->subscripts[s].e, values, &n, err));
      sum = gen_add(e->b, sum, as_i32(e->b, values[0]));
    }
  }
  gen_value share = gen_and(e->b, sum, gen_i32(e->b, e->p->owners - 1));
  *mine = gen_compare(e->b, GEN_EQ, share, e->owner);
  return ARKE_OK;
}

/* `count` steps at once: their loads are under way together, their stores follow in order. */
static arke_status take_steps(scatter_emitter *e, gen_value step, int count, arke_error *err) {
  lanes *l[4];
  for (int i = 0; i < count; i++) {
    gen_value values[IR_FORM_LOOPS];
    TRY(make_lanes(e, &l[i], err));
    split(e->b, gen_add_imm(e->b, step, i), e->k->serial, e->p->n_serial, values);
    for (int s = 0; s < e->p->n_serial; s++) lanes_set(l[i], e->p->serial[s], values[s]);
    TRY(load(e, l[i], err));
  }
  for (int i = 0; i < count; i++) {
    gen_value mine;
    TRY(is_mine(e, l[i], &mine, err));
    TRY(store(e, l[i], mine, err));
  }
  return ARKE_OK;
}

static arke_status step_loop(scatter_emitter *e, gen_value *step, gen_value end, int count, arke_error *err) {
  gen_builder *b = e->b;
  gen_loop loop;
  gen_loop_begin(b, &loop, step, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, gen_add_imm(b, *step, count - 1), end));
  TRY(take_steps(e, *step, count, err));
  *step = gen_add_imm(b, *step, count);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

static arke_status emit_in_order(scatter_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const scatter_plan *p = e->p;
  gen_branch exists;
  gen_value thread =
      gen_add(b, gen_mul_imm(b, index_of(e, gen_ctaid_x(b)), p->threads), index_of(e, gen_tid_x(b)));
  int shift = __builtin_ctz((unsigned)p->owners);
  e->owner = gen_and(b, as_i32(b, thread), gen_i32(b, p->owners - 1));
  gen_value position = gen_lshr(b, thread, p->wide_offsets ? gen_i64(b, shift) : gen_i32(b, shift));
  gen_if(b, &exists, gen_compare(b, GEN_ULT, position, gen_param(b, e->k->positions)), NULL, 0);
  find_position(e, position);
  gen_value step = p->wide_offsets ? gen_i64(b, 0) : gen_i32(b, 0), end = gen_param(b, e->k->steps);
  arke_status status = step_loop(e, &step, end, 4, err);
  if (status == ARKE_OK) status = step_loop(e, &step, end, 1, err);
  gen_if_end(b, &exists);
  return status;
}

arke_status scatter_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  scatter_kernel *k = user;
  scatter_emitter e = {.b = b, .k = k, .p = &k->plan};
  gen_launches_release(b);
  gen_launches_wait(b);
  return k->plan.deterministic ? emit_in_order(&e, err) : emit_points(&e, err);
}
