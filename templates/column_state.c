/* States of a column reduction's columns, in registers, and as memory holds them. */
#include "templates/column_emit.h"

int column_slot(const column_emitter *e, int k, int j) {
  int at = j;
  for (int i = 0; i < k; i++) at += reduction_values(&e->m->reductions[i].r) * e->p->vector;
  return at;
}

void column_state_of(const column_emitter *e, const gen_value *states, int k, int j, gen_value *state) {
  for (int i = 0; i < reduction_values(&e->m->reductions[k].r); i++)
    state[i] = states[column_slot(e, k, j) + i * e->p->vector];
}

void column_set_state(const column_emitter *e, gen_value *states, int k, int j, const gen_value *state) {
  for (int i = 0; i < reduction_values(&e->m->reductions[k].r); i++)
    states[column_slot(e, k, j) + i * e->p->vector] = state[i];
}

void column_start(column_emitter *e) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    gen_value state[REDUCTION_VALUES];
    reduction_start(e->b, &e->m->reductions[k].r, state);
    for (int j = 0; j < e->p->vector; j++) column_set_state(e, e->states, k, j, state);
  }
  e->n = column_slot(e, e->m->n_reductions, 0);
}

void column_combine(const column_emitter *e, gen_value *into, const gen_value *from) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    for (int j = 0; j < e->p->vector; j++) {
      gen_value x[REDUCTION_VALUES], y[REDUCTION_VALUES];
      column_state_of(e, into, k, j, x);
      column_state_of(e, from, k, j, y);
      reduction_combine(e->b, &e->m->reductions[k].r, x, y);
      column_set_state(e, into, k, j, x);
    }
  }
}

gen_value column_stored(const column_emitter *e, gen_value x) {
  return gen_type_of(e->b, x) == GEN_I1 ? gen_zext(e->b, x, GEN_I32) : x;
}

gen_value column_loaded(const column_emitter *e, gen_value x, gen_type type) {
  return type == GEN_I1 ? gen_compare_imm(e->b, GEN_NE, x, 0) : x;
}

gen_type column_stored_type(gen_type type) {
  return type == GEN_I1 ? GEN_I32 : type;
}

gen_value column_as(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (type == GEN_I1) {
    return gen_is_float(b, x) ? gen_compare(b, GEN_NE, x, gen_float_cast(b, gen_f32(b, 0), from))
                              : gen_compare_imm(b, GEN_NE, x, 0);
  }
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I64) return gen_trunc(b, x, type);
  return from == GEN_I1 ? gen_zext(b, x, type) : gen_sext(b, x, type);
}
