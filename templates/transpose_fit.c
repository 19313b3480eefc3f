/* Which forms are transposes. */

#include "templates/in_place.h"
#include "templates/transpose.h"

/* The loop whose steps are one element of the access; -1: none, or two (X[i + j]). */
static int unit_loop(const ir_form *form, int access) {
  int found = -1;
  for (int l = 0; l < form->n_loops; l++) {
    if (ir_form_motion(form, access, l) != IR_MOTION_UNIT) continue;
    if (found >= 0) return -1;
    found = l;
  }
  return found;
}

static bool is_output_access(const ir_form *form, int access) {
  for (int i = 0; i < form->n_outputs; i++) {
    if (form->outputs[i].access == access) return true;
  }
  return false;
}

static bool outputs_are_plain(const ir_form *form, transpose_match *match, strbuf *detail) {
  match->v = -1;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    const ir_access *written = &form->accesses[out->access];
    unsigned seen = 0;
    if (out->update != IR_ASSIGN || out->positions >= 0)
      return template_say(detail, "the transpose template writes each element once");
    for (int s = 0; s < written->n; s++) {
      const ir_expr *e = written->subscripts[s].e;
      if (e->node != IR_INDEX || seen >> e->id & 1)
        return template_say(detail, "the transpose template writes each element once");
      seen |= 1u << e->id;
    }
    if (seen != (1u << form->n_loops) - 1)
      return template_say(detail,
                          "the transpose template has no reductions, and outputs over all of its loops");
    int v = unit_loop(form, out->access);
    if (v < 0 || (match->v >= 0 && match->v != v))
      return template_say(detail, "the outputs of a transpose run along one loop");
    match->v = v;
    for (int before = 0; before < o; before++) {
      if (form->accesses[form->outputs[before].access].tensor == written->tensor)
        return template_say(detail, "the transpose template writes each element once");
    }
  }
  return match->v >= 0;
}

bool transpose_match_form(const ir_form *form, transpose_match *match, strbuf *detail) {
  const ir_expr *reduction;
  *match = (transpose_match){.u = -1};
  if (ir_form_reductions(form, &reduction, 1) > 0)
    return template_say(detail, "the transpose template has no reductions");
  if (form->n_outputs == 0 || form->n_accesses > 64 || !outputs_are_plain(form, match, detail)) return false;
  for (int i = 0; i < form->n_accesses; i++) {
    if (is_output_access(form, i)) continue;
    int u = unit_loop(form, i);
    if (u < 0 || u == match->v || form->accesses[i].conditional || form->accesses[i].other) continue;
    if (ir_form_motion(form, i, match->v) == IR_MOTION_NONE) continue;
    if (match->u < 0) match->u = u;
    if (u == match->u) match->turned |= UINT64_C(1) << i;
  }
  if (match->u < 0) return template_say(detail, "every read runs along the loop that the outputs run along");
  if (!in_place_is_safe(form))
    return template_say(detail, "a tensor is read elsewhere than it is written in place");
  return true;
}

template_reason transpose_fit(const ir_problem *p, bool merged, arena *a, ir_form *form,
                              transpose_match *match, strbuf *detail) {
  ir_form plain, longer;
  if (ir_form_make(p, a, &plain, NULL) != ARKE_OK ||
      (merged && (ir_form_drop_ones(&plain, a, &longer, NULL) != ARKE_OK ||
                  ir_form_merge(&longer, a, form, NULL) != ARKE_OK))) {
    template_say(detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  if (!merged) *form = plain;
  for (int t = 0; t < p->op->n_args; t++) {
    if (dtype_bits(ir_tensor_dtype(p, t)) >= 8) continue;
    template_say(detail, "the transpose template takes no 4-bit elements");
    return TEMPLATE_DTYPE;
  }
  if (!transpose_match_form(form, match, detail)) return TEMPLATE_OPERATOR;
  for (int l = 0; l < form->n_loops; l++) {
    if (ir_form_extent(form, l) >= 1) continue;
    template_say(detail, "an axis is empty");
    return TEMPLATE_SIZE;
  }
  return TEMPLATE_OK;
}

template_reason transpose_fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t; /* shared memory and barriers are on every target */
  arena a = ARENA_INIT;
  ir_form form;
  transpose_match match;
  template_reason reason = transpose_fit(p, true, &a, &form, &match, detail);
  arena_release(&a);
  return reason;
}
