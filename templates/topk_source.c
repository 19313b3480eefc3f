/* Where candidates come from and winners go: elements of the expression, or winners of the CTAs before. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_math.h"
#include "templates/topk.h"

int topk_vector_lanes(const topk_kernel *k) {
  return k->e->merging ? 1 : k->p->vector;
}

arke_status topk_begin(topk_kernel *k, gen_builder *b, const topk_emitter *e, arke_error *err) {
  *k = (topk_kernel){.b = b, .e = e, .p = e->plan, .m = e->plan->match};
  gen_launches_wait(b);
  gen_launches_release(b);
  k->lane = gen_laneid(b);
  k->warp = k->p->warps > 1 ? gen_warp_index(b) : gen_i32(b, 0);
  k->thread = k->p->sharers == 32 ? k->lane : gen_tid_x(b);
  k->winners = gen_param(b, e->winners);
  for (int s = 0; s <= TOPK_GATHERED && !e->merging; s++) {
    if (s < k->p->strips || (s == TOPK_GATHERED && k->p->select != TOPK_BY_BUFFER))
      TRY(lanes_create(b, &k->m->form, &e->in, &e->in_slots, e->a, &k->vectors[s].in, err));
  }
  if (e->to_keys < 0) TRY(lanes_create(b, &k->m->form, &e->out, &e->out_slots, e->a, &k->out, err));
  return ARKE_OK;
}

static gen_value index_of(topk_kernel *k, gen_value i32) {
  return gen_zext(k->b, i32, GEN_I64);
}

void topk_set_row(topk_kernel *k, gen_value row, gen_value slice) {
  gen_builder *b = k->b;
  gen_value size = gen_param(b, k->e->size), rest = row;
  k->row = row;
  k->slice = slice;
  k->begin = slice ? gen_mul(b, slice, gen_param(b, k->e->part)) : gen_i32(b, 0);
  k->end = slice ? gen_umin(b, size, gen_add(b, k->begin, gen_param(b, k->e->part))) : size;
  if (slice) k->end = gen_umax(b, k->begin, k->end); /* parts behind the last one are empty */
  for (int i = k->m->n_outer - 1; i >= 0; i--) {
    gen_value value = rest;
    if (i > 0) {
      gen_value n = gen_param(b, k->e->outer_size[i]);
      value = gen_urem(b, rest, n);
      rest = gen_udiv(b, rest, n);
    }
    value = index_of(k, value);
    for (int s = 0; s <= TOPK_GATHERED; s++) {
      if (k->vectors[s].in) lanes_set(k->vectors[s].in, k->m->outer[i], value);
    }
    if (k->out) lanes_set(k->out, k->m->outer[i], value);
  }
}

/* Items of the row from `keys` on: its number times what each row has. */
static gen_value row_start(topk_kernel *k, int param, gen_value each, int bytes) {
  gen_builder *b = k->b;
  gen_value first = gen_mul(b, gen_zext(b, k->row, GEN_I64), gen_zext(b, each, GEN_I64));
  return gen_add(b, gen_param(b, param), gen_mul_imm(b, first, bytes));
}

static topk_item load_item(topk_kernel *k, gen_value index) {
  gen_value size = gen_param(k->b, k->e->size), places = NULL;
  if (k->p->wide_item) places = row_start(k, k->e->from_places, size, 4);
  return topk_item_load_global(k->b, k->p->wide_item, row_start(k, k->e->from_keys, size, 8), places,
                               gen_zext(k->b, index, GEN_I64));
}

static arke_status load_strip(topk_kernel *k, int s, arke_error *err) {
  TRY(lanes_load(k->vectors[s].in, k->m->value, err));
  return k->m->condition ? lanes_load(k->vectors[s].in, k->m->condition, err) : ARKE_OK;
}

/* What lies behind the row's candidates is read at its last ones instead. */
arke_status topk_load(topk_kernel *k, gen_value base, bool whole, arke_error *err) {
  gen_builder *b = k->b;
  int n_lanes = topk_vector_lanes(k);
  gen_value own = gen_add(b, base, gen_mul_imm(b, k->thread, n_lanes)), wide = index_of(k, own);
  gen_value last = gen_add_imm(b, gen_param(b, k->e->size), -n_lanes);
  for (int s = 0; s < k->p->strips; s++) {
    topk_vector *one = &k->vectors[s];
    int64_t apart = (int64_t)s * k->p->sharers * n_lanes;
    one->position = gen_add_imm(b, own, apart);
    one->active = whole ? gen_bool(b, true) : gen_compare(b, GEN_ULT, one->position, k->end);
    gen_value at = gen_umin(b, one->position, last);
    if (k->e->merging) {
      one->item = load_item(k, at);
    } else {
      /* Constants apart from one wide index: they become part of the accesses. */
      lanes_set(one->in, k->m->along, whole ? gen_add_imm(b, wide, apart) : index_of(k, at));
    }
  }
  for (int s = 0; s < k->p->strips && !k->e->merging; s++) TRY(load_strip(k, s, err));
  return ARKE_OK;
}

arke_status topk_load_gathered(topk_kernel *k, gen_value position, gen_value active, arke_error *err) {
  topk_vector *one = &k->vectors[TOPK_GATHERED];
  one->position = position;
  one->active = active;
  lanes_set(one->in, k->m->along, index_of(k, position));
  return load_strip(k, TOPK_GATHERED, err);
}

static gen_value as_compared(topk_kernel *k, gen_value v) {
  gen_builder *b = k->b;
  gen_type from = gen_type_of(b, v);
  if (from == k->m->type) return v;
  if (gen_is_float(b, v)) return gen_float_cast(b, v, k->m->type);
  if (from == GEN_I1) return gen_zext(b, v, k->m->type);
  return k->m->type == GEN_I64 ? gen_sext(b, v, GEN_I64) : gen_trunc(b, v, k->m->type);
}

static gen_value truth(gen_builder *b, gen_value v) {
  gen_type type = gen_type_of(b, v);
  if (type == GEN_I1) return v;
  if (!gen_is_float(b, v)) return gen_compare_imm(b, GEN_NE, v, 0);
  gen_value zero = gen_f32(b, 0);
  return gen_compare(b, GEN_NE, v, type == GEN_F64 ? gen_float_cast(b, zero, GEN_F64) : zero);
}

/* Below all values but those that are as low; for what does not count. */
gen_value topk_lowest(topk_kernel *k) {
  return topk_item_value(k->b, k->m, topk_item_none(k->b, k->m));
}

gen_value topk_larger(gen_builder *b, gen_value x, gen_value y) {
  return gen_is_float(b, x) ? gen_maximum(b, x, y) : gen_smax(b, x, y);
}

arke_status topk_compute(topk_kernel *k, int s, arke_error *err) {
  gen_builder *b = k->b;
  topk_vector *one = &k->vectors[s];
  gen_value conditions[LANES_MAX], values[LANES_MAX];
  int n, n_conditions = 0;
  if (k->e->merging) {
    one->any = gen_and(b, one->active, gen_xor(b, topk_item_is_none(b, one->item), gen_bool(b, true)));
    return ARKE_OK;
  }
  TRY(lanes_eval(one->in, k->m->value, values, &n, err));
  if (k->m->condition) TRY(lanes_eval(one->in, k->m->condition, conditions, &n_conditions, err));
  one->any = k->m->condition ? gen_bool(b, false) : one->active;
  for (int v = 0; v < k->p->vector; v++) {
    gen_value x = one->values[v] = as_compared(k, values[n == 1 ? 0 : v]);
    if (n_conditions) {
      one->allowed[v] = gen_and(b, one->active, truth(b, conditions[n_conditions == 1 ? 0 : v]));
      one->any = gen_or(b, one->any, one->allowed[v]);
      x = gen_select(b, one->allowed[v], x, topk_lowest(k));
    }
    one->most = v == 0 ? x : topk_larger(b, one->most, x);
  }
  return ARKE_OK;
}

/* 16-bit floats that are compared as they are read: two by one instruction. */
static bool in_pairs(const topk_kernel *k) {
  const ir_expr *e = k->m->value;
  if (e->node != IR_READ || k->m->condition || k->p->vector < 2) return false;
  dtype type = ir_tensor_dtype(k->m->form.problem, k->m->form.accesses[e->id].tensor);
  return type == DTYPE_F16 || type == DTYPE_BF16;
}

arke_status topk_compute_most(topk_kernel *k, int s, arke_error *err) {
  topk_vector *one = &k->vectors[s];
  gen_builder *b = k->b;
  if (!in_pairs(k)) return topk_compute(k, s, err);
  gen_value elements[LANES_MAX], most = NULL;
  int n, access = k->m->value->id;
  dtype type = ir_tensor_dtype(k->m->form.problem, k->m->form.accesses[access].tensor);
  TRY(lanes_elements(one->in, access, elements, &n, err));
  for (int v = 0; v < n; v += 2) {
    gen_value pair = n == 1 ? NULL : gen_vector(b, &elements[v], 2);
    most = v == 0 ? pair : gen_maximum(b, most, pair);
  }
  one->any = one->active;
  one->most = gen_widen(b, type, n == 1 ? elements[0] : gen_lane(b, most, 0));
  if (n > 1) one->most = gen_maximum(b, one->most, gen_widen(b, type, gen_lane(b, most, 1)));
  return ARKE_OK;
}

gen_value topk_not_below(topk_kernel *k, gen_value x, topk_item bound) {
  gen_builder *b = k->b;
  return gen_xor(b, gen_compare(b, GEN_SLT, x, topk_item_bound(b, k->m, bound)), gen_bool(b, true));
}

topk_item topk_below(topk_kernel *k, gen_value x) {
  return topk_item_floor(k->b, topk_item_make(k->b, k->m, x, gen_i32(k->b, 0)));
}

gen_value topk_some_may_pass(topk_kernel *k, int s, topk_item bound) {
  const topk_vector *one = &k->vectors[s];
  if (k->e->merging) return one->any;
  return gen_and(k->b, one->any, topk_not_below(k, one->most, bound));
}

gen_value topk_may_pass(topk_kernel *k, int s, int v, topk_item bound) {
  const topk_vector *one = &k->vectors[s];
  if (k->e->merging) return one->any;
  return gen_and(k->b, one->allowed[v] ? one->allowed[v] : one->active,
                 topk_not_below(k, one->values[v], bound));
}

topk_item topk_candidate(topk_kernel *k, int s, int v) {
  const topk_vector *one = &k->vectors[s];
  if (k->e->merging) return one->item;
  return topk_item_make(k->b, k->m, one->values[v], gen_add_imm(k->b, one->position, v));
}

topk_item topk_thread_most(topk_kernel *k) {
  gen_builder *b = k->b;
  topk_item x = topk_item_floor(b, k->vectors[0].item);
  return topk_item_select(b, k->vectors[0].any, x, topk_item_none(b, k->m));
}

arke_status topk_store(topk_kernel *k, topk_item x, gen_value rank, gen_value active, arke_error *err) {
  gen_builder *b = k->b;
  active = gen_and(b, active, gen_compare(b, GEN_ULT, rank, k->winners));
  if (k->e->to_keys >= 0) {
    gen_branch inside;
    gen_if(b, &inside, active, NULL, 0);
    gen_value number = gen_add(b, gen_mul(b, k->slice, k->winners), rank);
    gen_value each = gen_mul_imm(b, k->winners, k->p->split), places = NULL;
    if (x.place) places = row_start(k, k->e->to_places, each, 4);
    topk_item_store_global(b, x, row_start(k, k->e->to_keys, each, 8), places, gen_zext(b, number, GEN_I64));
    gen_if_end(b, &inside);
    return ARKE_OK;
  }
  const ir_form_output *out = &k->m->form.outputs[0];
  gen_value value = topk_item_value(b, k->m, x), position = topk_item_position(b, x);
  /* Places beyond the winners are those of the first one, which is not stored there. */
  lanes_set(k->out, k->m->rank, index_of(k, gen_select(b, active, rank, gen_i32(b, 0))));
  TRY(lanes_store_access(k->out, out->access, IR_ASSIGN, &value, 1, active, err));
  return lanes_store_access(k->out, out->positions, IR_ASSIGN, &position, 1, active, err);
}
