#include "templates/contraction_value.h"

#include "generator/gen_convert.h"

gen_value contraction_value_as(gen_builder *b, gen_value x, dtype computed) {
  gen_type type = gen_compute_type(computed), from = gen_type_of(b, x);
  if (from == type) return x;
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, x, type);
  return from == GEN_I64 ? gen_trunc(b, x, type) : gen_sext(b, x, type);
}

/* Whether a condition is one of the outputs' loops, and not of a sum's terms. */
static bool is_of_outputs(const contraction *c, const ir_expr *condition) {
  return !(ir_form_free(&c->form, condition) & ~(c->batch.set | c->m.set | c->n.set));
}

arke_status contraction_sum_value(gen_builder *b, lanes *l, const contraction *c, const contraction_sum *s,
                                  int width, gen_value *values, arke_error *err) {
  gen_value x[LANES_MAX];
  int n;
  for (int j = 0; j < width; j++) values[j] = contraction_value_as(b, values[j], s->type);
  for (int i = 0; i < s->n_scales; i++) {
    TRY(lanes_eval(l, s->scales[i], x, &n, err));
    for (int j = 0; j < width; j++) {
      gen_value factor = contraction_value_as(b, x[n == 1 ? 0 : j], s->type);
      values[j] = gen_is_float(b, factor) ? gen_fmul(b, values[j], factor) : gen_mul(b, values[j], factor);
    }
  }
  for (int i = 0; i < s->n_conditions; i++) {
    if (!is_of_outputs(c, s->conditions[i])) continue;
    TRY(lanes_eval(l, s->conditions[i], x, &n, err));
    for (int j = 0; j < width; j++)
      values[j] =
          gen_select(b, x[n == 1 ? 0 : j], values[j], contraction_value_as(b, gen_i32(b, 0), s->type));
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
