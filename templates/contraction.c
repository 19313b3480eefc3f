/* Which forms are contractions: their outputs, rows and groups; sums are in contraction_sum.c. */
#include "templates/contraction.h"

#include "templates/contraction_match.h"
#include "templates/in_place.h"
#include "templates/kernel_lower.h"

uint64_t contraction_reads_of(const contraction *c, const ir_expr *e, bool *reduces) {
  const ir_form *form = &c->form;
  uint64_t set = 0;
  if (e->node == IR_REDUCE) {
    if (reduces && e != c->groups.of) *reduces = true;
    return 0;
  }
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    set |= UINT64_C(1) << e->id;
    for (int s = 0; s < x->n; s++) set |= contraction_reads_of(c, x->subscripts[s].e, reduces);
    if (x->other) set |= contraction_reads_of(c, x->other, reduces);
    return set;
  }
  for (int i = 0; i < e->n_args; i++) set |= contraction_reads_of(c, e->args[i], reduces);
  return set;
}

contraction_loops contraction_pick(unsigned set, const contraction_loops *order) {
  contraction_loops l = {.set = set};
  for (int i = 0; i < order->n; i++)
    if (set >> order->loops[i] & 1) l.loops[l.n++] = order->loops[i];
  return l;
}

/* --- outputs --- */

/* Loops of a subscript on the left that are no other's: an index, or a place that is read at indices. False:
 * it is something else. */
static bool take_left(contraction_matcher *w, const ir_expr *e, unsigned *seen, contraction_loops *order,
                      bool *gathered) {
  const ir_form *form = &w->c->form;
  if (e->node == IR_INDEX) {
    if (*seen >> e->id & 1) return false;
    *seen |= 1u << e->id;
    if (order) order->loops[order->n++] = e->id;
    return true;
  }
  if (!w->scattered || e->node != IR_READ) return false;
  const ir_access *x = &form->accesses[e->id];
  bool within = false;
  if (x->other || x->conditional) return false;
  for (int s = 0; s < x->n; s++)
    if (!take_left(w, x->subscripts[s].e, seen, order, &within) || within) return false;
  w->c->epilogue |= contraction_reads_of(w->c, e, NULL);
  *gathered = true;
  return true;
}

/* The loops of an output, in *order (NULL: they are not asked for); false: it is indexed by something else.
 */
static bool take_output(contraction_matcher *w, int output, contraction_loops *order, unsigned *seen,
                        bool *gathered) {
  const ir_form *form = &w->c->form;
  const ir_access *x = &form->accesses[form->outputs[output].access];
  *seen = 0;
  *gathered = false;
  for (int s = 0; s < x->n; s++)
    if (!take_left(w, x->subscripts[s].e, seen, order, gathered)) return false;
  if (order) order->set = *seen;
  return true;
}

/* The first output with all the loops that there are: where rows are whole, with their columns. */
static int leading_output(contraction_matcher *w) {
  const contraction_rows *rows = &w->c->rows;
  unsigned seen;
  bool gathered;
  for (int o = 0; o < w->c->form.n_outputs && rows->whole; o++)
    if (take_output(w, o, NULL, &seen, &gathered) && seen >> rows->column & 1) return o;
  return 0;
}

static bool match_outputs(contraction_matcher *w, contraction_loops *order) {
  const ir_form *form = &w->c->form;
  unsigned columns = w->c->rows.whole ? 1u << w->c->rows.column : 0, seen;
  int leading = leading_output(w);
  bool gathered;
  if (!take_output(w, leading, order, &seen, &gathered))
    return template_say(w->detail, "an output is not written once at each of its indices");
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    const ir_access *x = &form->accesses[out->access];
    bool known = take_output(w, o, NULL, &seen, &gathered);
    bool adds = out->update != IR_ASSIGN && gathered && form->problem->op->tensors[x->tensor].alias >= 0;
    if (!known || (out->update != IR_ASSIGN && !adds) || out->positions >= 0)
      return template_say(w->detail, "an output is not written once at each of its indices");
    for (int before = 0; before < o; before++)
      if (form->accesses[form->outputs[before].access].tensor == x->tensor)
        return template_say(w->detail, "an output is written twice");
    if ((seen | columns) != order->set) return template_say(w->detail, "outputs have different loops");
    w->c->epilogue |= contraction_reads_of(w->c, out->value, NULL);
  }
  w->outer = order->set;
  return true;
}

/* --- rows and groups --- */

/* Columns that rows are reduced over: as if the outputs had them, innermost. */
static bool match_rows(contraction_matcher *w, contraction_loops *order) {
  contraction *c = w->c;
  const contraction_rows *rows = &c->rows;
  if (rows->n == 0) return true;
  bool is_innermost = order->n > 0 && order->loops[order->n - 1] == rows->column;
  if (rows->whole && !is_innermost)
    return template_say(w->detail, "the columns of rows that are reduced are not the output's last axis");
  for (int i = 0; i < rows->n; i++) {
    const ir_expr *e = rows->list[i].e;
    if (ir_form_free(&c->form, e) & ~w->outer)
      return template_say(w->detail, "rows have loops that the outputs do not have");
    for (int k = 0; k < e->n_args; k++) c->epilogue |= contraction_reads_of(c, e->args[k], NULL);
  }
  if (rows->whole) return true;
  order->loops[order->n++] = rows->column;
  order->set |= 1u << rows->column;
  w->outer |= 1u << rows->column;
  return true;
}

/* Rows of each value of B's other loops are reduced for themselves. */
static void keep_column(contraction *c, const contraction_loops *order) {
  unsigned column = 1u << c->rows.column;
  if (!(c->n.set & column)) return;
  c->batch = contraction_pick(c->batch.set | (c->n.set & ~column), order);
  c->n = contraction_pick(column, order);
}

static bool match_groups(contraction_matcher *w) {
  const contraction *c = w->c;
  if (!c->groups.of) return true;
  if (!w->grouped) return template_say(w->detail, "rows have groups");
  return (c->m.n == 1 && c->m.loops[0] == c->groups.row) ||
         template_say(w->detail, "rows of groups are not the rows of the product");
}

/* --- all --- */

/* Nothing that operands read is written; the epilogue reads what is written in place where it is written. */
static bool is_safe(const contraction *c) {
  const ir_op *op = c->form.problem->op;
  if (!in_place_is_safe(&c->form)) return false;
  for (int o = 0; o < c->form.n_outputs; o++) {
    int alias = op->tensors[c->form.accesses[c->form.outputs[o].access].tensor].alias;
    for (int i = 0; alias >= 0 && i < c->n_operands; i++)
      for (int k = 0; k < c->form.n_accesses; k++)
        if (c->operands[i].accesses >> k & 1 && c->form.accesses[k].tensor == alias) return false;
  }
  return true;
}

template_reason contraction_match(const ir_problem *p, bool merged, arena *a, contraction *c, strbuf *detail,
                                  arke_status *status) {
  return contraction_match_more(p, merged, 0, a, c, detail, status);
}

template_reason contraction_match_more(const ir_problem *p, bool merged, unsigned allowed, arena *a,
                                       contraction *c, strbuf *detail, arke_status *status) {
  ir_form plain;
  contraction_matcher w = {.c = c,
                           .detail = detail,
                           .grouped = allowed & CONTRACTION_GROUPED,
                           .scattered = allowed & CONTRACTION_SCATTERED};
  contraction_loops order = {0};
  *c = (contraction){.n_operands = 0};
  arke_status made = ir_form_make(p, a, &plain, NULL);
  if (made == ARKE_OK && merged) made = ir_form_merge(&plain, a, &c->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) {
    template_say(w.detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  if (!merged) c->form = plain;
  if (c->form.n_outputs == 0 || c->form.n_accesses > 64) {
    template_say(w.detail, "there are too many reads");
    return TEMPLATE_OPERATOR;
  }
  const char *why;
  c->groups = contraction_find_groups(&c->form);
  if ((allowed & CONTRACTION_REDUCED) && !contraction_find_rows(&c->form, c->groups.of, &c->rows, &why)) {
    template_say(w.detail, "%s", why);
    return TEMPLATE_OPERATOR;
  }
  if (c->rows.whole && !(allowed & CONTRACTION_WHOLE_ROWS)) {
    template_say(w.detail, "a product is used beside its rows' reductions");
    return TEMPLATE_OPERATOR;
  }
  if (!match_outputs(&w, &order) || !match_rows(&w, &order) || !contraction_match_sums(&w, &order) ||
      !match_groups(&w))
    return TEMPLATE_OPERATOR;
  if (c->rows.whole) keep_column(c, &order);
  if (c->rows.n > 0 && (c->n.n != 1 || c->n.loops[0] != c->rows.column)) {
    template_say(w.detail, "rows are reduced over other loops than a product's columns");
    return TEMPLATE_OPERATOR;
  }
  if ((c->batch.set | c->m.set | c->n.set) != w.outer) {
    template_say(w.detail, "the output has loops that no operand has");
    return TEMPLATE_OPERATOR;
  }
  if (!is_safe(c)) {
    template_say(w.detail, "a tensor is read elsewhere than it is written in place");
    return TEMPLATE_OPERATOR;
  }
  for (int o = 0; o < c->form.n_outputs; o++) {
    int tensor = c->form.accesses[c->form.outputs[o].access].tensor;
    if (dtype_bits(ir_tensor_dtype(p, tensor)) >= 8) continue;
    template_say(w.detail, "outputs are stored one by one, and two elements of %s share a byte",
                 p->op->tensors[tensor].name);
    return TEMPLATE_DTYPE;
  }
  return TEMPLATE_OK;
}

/* --- questions --- */

int64_t contraction_extent(const contraction *c, const contraction_loops *loops) {
  int64_t n = 1;
  for (int i = 0; i < loops->n; i++) n *= ir_form_extent(&c->form, loops->loops[i]);
  return n;
}

const recipe_expr *contraction_extent_recipe(const contraction *c, const contraction_loops *loops, arena *a) {
  const recipe_expr *e = NULL;
  for (int i = 0; i < loops->n; i++) {
    const recipe_expr *extent = kernel_extent(&c->form, loops->loops[i], a);
    e = e ? recipe_binary(a, RECIPE_MUL, e, extent) : extent;
  }
  return e ? e : recipe_const(a, 1);
}
