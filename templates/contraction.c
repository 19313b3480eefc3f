/* Which forms are contractions, and what plays which part in them. */
#include "templates/contraction.h"

#include "templates/in_place.h"
#include "templates/kernel_lower.h"

typedef struct matcher {
  contraction *c;
  strbuf *detail;
  unsigned outer;  /* loops of the outputs */
  bool grouped;    /* groups of rows are taken */
  bool scattered;  /* outputs may be written at gathered places */
  uint64_t opened; /* by number in the list of reductions: part of a sum that was matched */
} matcher;

/* --- expressions --- */

/* Reads under `e`, as bits, not looking into REDUCE nodes; *reduces (may be NULL): there is one that is not
 * the group of a row. */
static uint64_t reads_of(const contraction *c, const ir_expr *e, bool *reduces) {
  const ir_form *form = &c->form;
  uint64_t set = 0;
  if (e->node == IR_REDUCE) {
    if (reduces && e != c->groups.of) *reduces = true;
    return 0;
  }
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    set |= UINT64_C(1) << e->id;
    for (int s = 0; s < x->n; s++) set |= reads_of(c, x->subscripts[s].e, reduces);
    if (x->other) set |= reads_of(c, x->other, reduces);
    return set;
  }
  for (int i = 0; i < e->n_args; i++) set |= reads_of(c, e->args[i], reduces);
  return set;
}

/* The same without what subscripts read. */
static uint64_t values_of(const ir_expr *e) {
  uint64_t set = e->node == IR_READ ? UINT64_C(1) << e->id : 0;
  for (int i = 0; e->node != IR_READ && i < e->n_args; i++) set |= values_of(e->args[i]);
  return set;
}

static bool holds_exactly(dtype wide, dtype narrow) {
  if (wide == narrow) return true;
  bool small = dtype_bits(narrow) <= 16 && narrow != DTYPE_BOOL;
  switch (wide) {
  case DTYPE_F64: return small || narrow == DTYPE_F32 || narrow == DTYPE_I32;
  case DTYPE_F32: return small;
  default: return false;
  }
}

static bool is_tf32(const ir_expr *e) {
  return e->node == IR_CALL && e->id == IR_FN_TF32;
}

/* Whether tf32 holds every value of the dtype. */
static bool fits_tf32(dtype type) {
  return dtype_class_of(type) == DTYPE_CLASS_FLOAT && dtype_bits(type) <= 16;
}

/* Without casts, and calls of tf32, that change no value. */
static const ir_expr *without_casts(const ir_form *form, const ir_expr *e) {
  if (is_tf32(e)) {
    const ir_expr *inner = without_casts(form, e->args[0]);
    bool narrow =
        inner->node == IR_READ && fits_tf32(ir_tensor_dtype(form->problem, form->accesses[inner->id].tensor));
    return narrow ? inner : e;
  }
  const ir_expr *inner = e;
  while (inner->node == IR_CAST) inner = inner->args[0];
  if (inner->node != IR_READ) {
    bool same = e->node == IR_CAST && ir_form_type(form, e->args[0]) == ir_cast_dtype(form->problem, e);
    return same ? without_casts(form, e->args[0]) : e;
  }
  dtype type = ir_tensor_dtype(form->problem, form->accesses[inner->id].tensor);
  for (const ir_expr *x = e; x != inner; x = x->args[0])
    if (!holds_exactly(ir_cast_dtype(form->problem, x), type)) return e;
  return inner;
}

typedef struct factors {
  int n;
  const ir_expr *list[CONTRACTION_FACTORS];
} factors;

static bool collect_factors(const ir_form *form, const ir_expr *e, factors *f) {
  e = without_casts(form, e);
  if (e->node == IR_OPERATOR && e->id == IR_OP_MUL)
    return collect_factors(form, e->args[0], f) && collect_factors(form, e->args[1], f);
  if (f->n == CONTRACTION_FACTORS) return false;
  f->list[f->n++] = e;
  return true;
}

/* --- operands --- */

static dtype exact_type(const ir_form *form, const contraction_operand *o) {
  const ir_expr *e = o->factors[0];
  if (o->access >= 0) return ir_tensor_dtype(form->problem, form->accesses[o->access].tensor);
  if (o->n_factors == 1 && e->node == IR_CAST) return ir_cast_dtype(form->problem, e);
  dtype type = ir_form_type(form, e);
  for (int i = 1; i < o->n_factors; i++) {
    dtype other = ir_form_type(form, o->factors[i]);
    bool floats = dtype_class_of(type) == DTYPE_CLASS_FLOAT;
    bool other_floats = dtype_class_of(other) == DTYPE_CLASS_FLOAT;
    bool wider = floats == other_floats ? dtype_bits(other) > dtype_bits(type) : other_floats;
    if (wider || type == DTYPE_BOOL) type = other;
  }
  return type;
}

/* The access whose elements a read is; -1: it may lie outside its tensor, or is no read. What is read by
 * group lies inside in the rows that are of one. */
static int plain_access(const contraction *c, const ir_expr *e) {
  if (e->node != IR_READ) return -1;
  const ir_access *x = &c->form.accesses[e->id];
  bool inside = !x->conditional && !x->other;
  return inside || contraction_is_inside_group(&c->form, &c->groups, x) ? e->id : -1;
}

static contraction_operand make_operand(const contraction *c, contraction_side side, const factors *f,
                                        unsigned chosen) {
  const ir_form *form = &c->form;
  contraction_operand o = {.side = side, .access = -1, .element = -1};
  for (int i = 0; i < f->n; i++) {
    if (!(chosen >> i & 1)) continue;
    o.factors[o.n_factors++] = f->list[i];
    o.accesses |= reads_of(c, f->list[i], NULL);
    o.values |= values_of(f->list[i]);
  }
  const ir_expr *e = o.factors[0];
  if (o.n_factors == 1) o.access = o.element = plain_access(c, e);
  o.type = exact_type(form, &o);
  if (o.n_factors > 1 || !is_tf32(e) || o.type != DTYPE_F32) return o;
  o.tf32 = true;
  o.element = plain_access(c, without_casts(form, e->args[0]));
  if (o.element >= 0 && ir_tensor_dtype(form->problem, form->accesses[o.element].tensor) != DTYPE_F32)
    o.element = -1;
  return o;
}

static bool same_operand(const contraction_operand *x, const contraction_operand *y) {
  if (x->side != y->side || x->n_factors != y->n_factors) return false;
  for (int i = 0; i < x->n_factors; i++)
    if (x->factors[i] != y->factors[i]) return false;
  return true;
}

static int add_operand(contraction *c, contraction_operand o) {
  for (int i = 0; i < c->n_operands; i++)
    if (same_operand(&c->operands[i], &o)) return i;
  c->operands[c->n_operands] = o;
  return c->n_operands++;
}

/* --- sides --- */

/* How the factors of a product fall into two sides: which are on the first, and the loops of each side that
 * are not reduced. */
typedef struct division {
  unsigned first, loops[2];
  bool first_is_b;
} division;

/* The best way to make two sides of the factors: the fewest loops in both, then the fewest factors beside a
 * read. */
static bool divide(const contraction *c, const factors *f, unsigned outer, division *best) {
  const ir_form *form = &c->form;
  bool found = false;
  int least = 0;
  for (unsigned first = 1; first + 1 < 1u << f->n; first += 2) { /* the first factor is on the first side */
    division d = {.first = first};
    int reads[2] = {0, 0};
    for (int i = 0; i < f->n; i++) {
      int side = first >> i & 1 ? 0 : 1;
      d.loops[side] |= contraction_loops_without_group(form, &c->groups, f->list[i]) & outer;
      reads[side] += f->list[i]->node == IR_READ && ir_form_type(form, f->list[i]) != DTYPE_BOOL;
    }
    int shared = __builtin_popcount(d.loops[0] & d.loops[1]);
    int penalty = 4 * shared + (reads[0] == 0) + (reads[1] == 0);
    if (found && penalty >= least) continue;
    found = true;
    least = penalty;
    *best = d;
  }
  return found;
}

static int innermost(unsigned set, const contraction_loops *order) {
  for (int i = order->n - 1; i >= 0; i--)
    if (set >> order->loops[i] & 1) return i;
  return -1;
}

static contraction_loops pick(unsigned set, const contraction_loops *order) {
  contraction_loops l = {.set = set};
  for (int i = 0; i < order->n; i++)
    if (set >> order->loops[i] & 1) l.loops[l.n++] = order->loops[i];
  return l;
}

/* Which side is which by the first sum, and whether those of later ones are the same. `order`: the loops of
 * the first output. */
static bool take_sides(matcher *w, const contraction_loops *order, division *d) {
  contraction *c = w->c;
  unsigned batch = d->loops[0] & d->loops[1], x = d->loops[0] & ~batch, y = d->loops[1] & ~batch;
  if (!x && !y)
    return template_say(w->detail, "both operands of a product have the same loops of the output");
  if (c->n_sums == 0) {
    bool swap = innermost(x, order) > innermost(y, order);
    c->batch = pick(batch, order);
    c->m = pick(swap ? y : x, order);
    c->n = pick(swap ? x : y, order);
  }
  d->first_is_b = x == c->n.set && y == c->m.set;
  bool same = d->first_is_b || (x == c->m.set && y == c->n.set);
  return (same && batch == c->batch.set) ||
         template_say(w->detail, "sums of products have different operands");
}

/* --- sums --- */

static bool open_sum(matcher *w, const ir_expr *e, const ir_expr **list, int n, contraction_sum *s,
                     const ir_expr **body) {
  const ir_form *form = &w->c->form;
  contraction_loops k = {0};
  *s = (contraction_sum){.e = e, .type = ir_form_type(form, e)};
  while (e->node == IR_REDUCE && e->id == IR_RED_SUM) {
    k.set |= 1u << e->index;
    k.loops[k.n++] = e->index;
    for (int i = 0; i < n; i++)
      if (list[i] == e) w->opened |= UINT64_C(1) << i;
    if (e->n_args > 1) {
      if (s->n_conditions == CONTRACTION_CONDITIONS)
        return template_say(w->detail, "a sum has too many conditions");
      s->conditions[s->n_conditions++] = e->args[1];
    }
    e = e->args[0];
  }
  *body = e;
  if (k.n == 0) return template_say(w->detail, "a reduction is not a sum");
  if (k.set & w->outer) return template_say(w->detail, "a sum is over a loop of the output");
  if (w->c->n_sums > 0 && k.set != w->c->k.set)
    return template_say(w->detail, "sums are over different loops");
  if (w->c->n_sums == 0) w->c->k = k;
  return true;
}

/* Factors that depend on a reduced loop, and the others. */
static bool sort_factors(matcher *w, const factors *all, factors *terms, contraction_sum *s) {
  const ir_form *form = &w->c->form;
  terms->n = 0;
  for (int i = 0; i < all->n; i++) {
    bool reduces = false;
    uint64_t reads = reads_of(w->c, all->list[i], &reduces);
    if (reduces) return template_say(w->detail, "a factor of a product needs a reduction of its own");
    if (ir_form_free(form, all->list[i]) & w->c->k.set) {
      terms->list[terms->n++] = all->list[i];
    } else {
      s->scales[s->n_scales++] = all->list[i];
      w->c->epilogue |= reads;
    }
  }
  return terms->n >= 2 || template_say(w->detail, "a sum is not one of products");
}

static bool check_loops(matcher *w, const contraction_sum *s) {
  const contraction *c = w->c;
  unsigned known = c->batch.set | c->m.set | c->n.set;
  for (int i = 0; i < s->n_scales; i++)
    if (ir_form_free(&c->form, s->scales[i]) & ~known)
      return template_say(w->detail, "a factor has loops of its own");
  for (int i = 0; i < s->n_conditions; i++) {
    bool reduces = false;
    reads_of(c, s->conditions[i], &reduces);
    if (reduces) return template_say(w->detail, "a condition needs a reduction");
    if (ir_form_free(&c->form, s->conditions[i]) & ~(known | c->k.set))
      return template_say(w->detail, "a condition has loops of its own");
  }
  return true;
}

static bool match_sum(matcher *w, const ir_expr *e, const ir_expr **list, int n,
                      const contraction_loops *order) {
  contraction *c = w->c;
  contraction_sum s;
  const ir_expr *body = NULL;
  factors all = {0}, terms;
  division d = {0};
  if (c->n_sums == CONTRACTION_SUMS)
    return template_say(w->detail, "there are more than %d sums", CONTRACTION_SUMS);
  if (!open_sum(w, e, list, n, &s, &body)) return false;
  if (!collect_factors(&c->form, body, &all))
    return template_say(w->detail, "a product has too many factors");
  if (!sort_factors(w, &all, &terms, &s)) return false;
  if (!divide(c, &terms, w->outer, &d) || !take_sides(w, order, &d) || !check_loops(w, &s)) return false;
  unsigned every = (1u << terms.n) - 1, chosen = d.first_is_b ? every & ~d.first : d.first;
  s.a = add_operand(c, make_operand(c, CONTRACTION_A, &terms, chosen));
  s.b = add_operand(c, make_operand(c, CONTRACTION_B, &terms, every & ~chosen));
  c->sums[c->n_sums++] = s;
  return true;
}

/* Reductions that are no sums of products. */
static bool is_elsewhere(const contraction *c, const ir_expr *e) {
  return e == c->groups.of || contraction_row_of(&c->rows, e) >= 0;
}

static bool match_sums(matcher *w, const contraction_loops *order) {
  const ir_form *form = &w->c->form;
  const ir_expr *list[64];
  int n = ir_form_reductions(form, list, COUNT_OF(list));
  if (n == 0) return template_say(w->detail, "nothing is reduced");
  if (n >= (int)COUNT_OF(list)) return template_say(w->detail, "there are too many reductions");
  /* Inner ones come first: what is opened from outside is not one of its own. */
  for (int i = n - 1; i >= 0; i--)
    if (!(w->opened >> i & 1) && !is_elsewhere(w->c, list[i]) && !match_sum(w, list[i], list, n, order))
      return false;
  return w->c->n_sums > 0 || template_say(w->detail, "nothing is reduced but to count ends");
}

/* Columns that rows are reduced over: as if the outputs had them, innermost. */
static bool match_rows(matcher *w, contraction_loops *order) {
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
    for (int k = 0; k < e->n_args; k++) c->epilogue |= reads_of(c, e->args[k], NULL);
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
  c->batch = pick(c->batch.set | (c->n.set & ~column), order);
  c->n = pick(column, order);
}

static bool match_groups(matcher *w) {
  const contraction *c = w->c;
  if (!c->groups.of) return true;
  if (!w->grouped) return template_say(w->detail, "rows have groups");
  return (c->m.n == 1 && c->m.loops[0] == c->groups.row) ||
         template_say(w->detail, "rows of groups are not the rows of the product");
}

/* --- outputs --- */

/* Loops of a subscript on the left that are no other's: an index, or a place that is read at indices. False:
 * it is something else. */
static bool take_left(matcher *w, const ir_expr *e, unsigned *seen, contraction_loops *order,
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
  w->c->epilogue |= reads_of(w->c, e, NULL);
  *gathered = true;
  return true;
}

/* The loops of an output, in *order (NULL: they are not asked for); false: it is indexed by something else.
 */
static bool take_output(matcher *w, int output, contraction_loops *order, unsigned *seen, bool *gathered) {
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
static int leading_output(matcher *w) {
  const contraction_rows *rows = &w->c->rows;
  unsigned seen;
  bool gathered;
  for (int o = 0; o < w->c->form.n_outputs && rows->whole; o++)
    if (take_output(w, o, NULL, &seen, &gathered) && seen >> rows->column & 1) return o;
  return 0;
}

static bool match_outputs(matcher *w, contraction_loops *order) {
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
    w->c->epilogue |= reads_of(w->c, out->value, NULL);
  }
  w->outer = order->set;
  return true;
}

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
  matcher w = {.c = c,
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
  if (!match_outputs(&w, &order) || !match_rows(&w, &order) || !match_sums(&w, &order) || !match_groups(&w))
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

static void print_loops(const contraction *c, const char *kind, const contraction_loops *loops, strbuf *out) {
  strbuf_add(out, kind);
  for (int i = 0; i < loops->n; i++) strbuf_addf(out, " %s", c->form.loops[loops->loops[i]].name);
  strbuf_add(out, "; ");
}

static void print_accesses(const contraction *c, uint64_t accesses, strbuf *out) {
  const ir_form *form = &c->form;
  for (int i = 0; i < form->n_accesses; i++)
    if (accesses >> i & 1) strbuf_addf(out, " %s", form->problem->op->tensors[form->accesses[i].tensor].name);
}

void contraction_print(const contraction *c, strbuf *out) {
  print_loops(c, "batch", &c->batch, out);
  print_loops(c, "m", &c->m, out);
  print_loops(c, "n", &c->n, out);
  print_loops(c, "k", &c->k, out);
  for (int i = 0; i < c->n_operands; i++) {
    const contraction_operand *o = &c->operands[i];
    strbuf_addf(out, "%s:", o->side == CONTRACTION_A ? "A" : "B");
    print_accesses(c, o->accesses, out);
    const char *how = o->access >= 0 ? "" : o->element >= 0 ? " as" : " computed";
    strbuf_addf(out, "%s %s; ", how, o->tf32 ? "tf32" : dtype_name(o->type));
  }
  for (int i = 0; i < c->n_sums; i++) {
    const contraction_sum *s = &c->sums[i];
    strbuf_addf(out, "sum %d*%d", s->a, s->b);
    if (s->n_scales > 0) strbuf_addf(out, " of %d scales", s->n_scales);
    if (s->n_conditions > 0) strbuf_addf(out, " under %d conditions", s->n_conditions);
    strbuf_addf(out, " %s; ", dtype_name(s->type));
  }
  strbuf_add(out, "epilogue:");
  print_accesses(c, c->epilogue, out);
  if (c->groups.of) {
    const ir_tensor *ends = &c->form.problem->op->tensors[c->form.accesses[c->groups.ends].tensor];
    strbuf_addf(out, "; groups by %s", ends->name);
  }
}
