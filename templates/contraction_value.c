#include "templates/contraction_value.h"

static gen_value as_type(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, x, type);
  return from == GEN_I64 ? gen_trunc(b, x, type) : gen_sext(b, x, type);
}

static gen_type computed_in(dtype type) {
  switch (type) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_I64: return GEN_I64;
  default: return GEN_I32;
  }
}

/* Whether a condition is one of the outputs' loops, and not of a sum's terms. */
static bool is_of_outputs(const contraction *c, const ir_expr *condition) {
  return !(ir_form_free(&c->form, condition) & ~(c->batch.set | c->m.set | c->n.set));
}

arke_status contraction_sum_value(gen_builder *b, lanes *l, const contraction *c, const contraction_sum *s,
                                  int width, gen_value *values, arke_error *err) {
  gen_type type = computed_in(s->type);
  gen_value x[LANES_MAX];
  int n;
  for (int j = 0; j < width; j++) values[j] = as_type(b, values[j], type);
  for (int i = 0; i < s->n_scales; i++) {
    TRY(lanes_eval(l, s->scales[i], x, &n, err));
    for (int j = 0; j < width; j++) {
      gen_value factor = as_type(b, x[n == 1 ? 0 : j], type);
      values[j] = gen_is_float(b, factor) ? gen_fmul(b, values[j], factor) : gen_mul(b, values[j], factor);
    }
  }
  for (int i = 0; i < s->n_conditions; i++) {
    if (!is_of_outputs(c, s->conditions[i])) continue;
    TRY(lanes_eval(l, s->conditions[i], x, &n, err));
    for (int j = 0; j < width; j++)
      values[j] = gen_select(b, x[n == 1 ? 0 : j], values[j], as_type(b, gen_i32(b, 0), type));
  }
  return ARKE_OK;
}

arke_status contraction_load_sums(lanes *l, const contraction *c, arke_error *err) {
  for (int k = 0; k < c->n_sums; k++) {
    const contraction_sum *s = &c->sums[k];
    for (int i = 0; i < s->n_scales; i++) TRY(lanes_load(l, s->scales[i], err));
    for (int i = 0; i < s->n_conditions; i++)
      if (is_of_outputs(c, s->conditions[i])) TRY(lanes_load(l, s->conditions[i], err));
  }
  return ARKE_OK;
}
