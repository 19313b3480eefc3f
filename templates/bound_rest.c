#include "templates/bound_rest.h"
#include "generator/gen_bits.h"

enum { FAR = 1 << 30 }; /* past every row and column: sizes are below it */

static arke_status eval_wide(gen_builder *b, lanes *l, const ir_expr *e, gen_value *value, arke_error *err) {
  gen_value v[LANES_MAX];
  int n;
  TRY(lanes_eval(l, e, v, &n, err));
  *value = gen_type_of(b, v[0]) == GEN_I64 ? v[0] : gen_sext(b, v[0], GEN_I64);
  return ARKE_OK;
}

arke_status bound_rest(gen_builder *b, lanes *l, const attention_bound *bound, gen_value *value,
                       arke_error *err) {
  const lanes_sum *sum = &bound->rest;
  gen_value v;
  *value = gen_i64(b, sum->constant);
  for (int i = 0; i < sum->n; i++) {
    TRY(eval_wide(b, l, sum->terms[i].e, &v, err));
    *value = gen_add(b, *value, gen_mul_imm(b, v, sum->terms[i].coefficient));
  }
  if (!bound->times) return ARKE_OK;
  TRY(eval_wide(b, l, bound->times, &v, err));
  *value = gen_mul(b, *value, v);
  return ARKE_OK;
}

gen_value bound_at_row(gen_builder *b, const attention_bound *bound, gen_value rest, gen_value row) {
  gen_value v = rest;
  if (bound->query) v = gen_add(b, rest, gen_mul_imm(b, gen_sext(b, row, GEN_I64), bound->query));
  return gen_trunc(b, gen_smin(b, gen_smax(b, v, gen_i64(b, -FAR)), gen_i64(b, FAR)), GEN_I32);
}

bound_range bound_columns(gen_builder *b, const attention_bounds *bounds, const gen_value *at_first,
                          const gen_value *at_last, gen_value columns) {
  gen_value zero = gen_i32(b, 0);
  bound_range range = {zero, columns, zero, columns};
  for (int i = 0; i < bounds->n; i++) {
    bool grows = bounds->list[i].query >= 0;
    gen_value low = grows ? at_first[i] : at_last[i], high = grows ? at_last[i] : at_first[i];
    if (bounds->list[i].upper) {
      range.below = gen_smin(b, range.below, high);
      range.all_below = gen_smin(b, range.all_below, low);
    } else {
      range.from = gen_smax(b, range.from, low);
      range.all_from = gen_smax(b, range.all_from, high);
    }
  }
  return range;
}

static void find_values(gen_builder *b, const attention_bounds *bounds, const gen_value *rests, gen_value row,
                        gen_value *values) {
  for (int i = 0; i < bounds->n; i++) values[i] = bound_at_row(b, &bounds->list[i], rests[i], row);
}

void bound_columns_of_row(gen_builder *b, const attention_bounds *bounds, const gen_value *rests,
                          gen_value row, gen_value columns, gen_value *from, gen_value *below) {
  gen_value values[ATTENTION_BOUNDS];
  find_values(b, bounds, rests, row, values);
  bound_range seen = bound_columns(b, bounds, values, values, columns);
  *from = seen.from;
  *below = seen.below;
}

bound_range bound_columns_of_tile(gen_builder *b, const attention_bounds *bounds, const gen_value *rests,
                                  gen_value first, gen_value last, gen_value columns) {
  gen_value at_first[ATTENTION_BOUNDS], at_last[ATTENTION_BOUNDS];
  find_values(b, bounds, rests, first, at_first);
  find_values(b, bounds, rests, last, at_last);
  return bound_columns(b, bounds, at_first, at_last, columns);
}
