#include "templates/bound_rest.h"

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
