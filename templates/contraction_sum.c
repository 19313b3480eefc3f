/* Sums of a contraction: how the factors of each fall into two sides, and which loops those have. */
#include "templates/contraction_match.h"

/* --- sides --- */

/* How the factors of a product fall into two sides: which are on the first, and the loops of each side that
 * are not reduced. */
typedef struct division {
  unsigned first, loops[2];
  bool first_is_b;
} division;

/* The best way to make two sides of the factors: the fewest loops in both, then the fewest factors beside a
 * read. */
static bool divide(const contraction *c, const contraction_factors *f, unsigned outer, division *best) {
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

/* Which side is which by the first sum, and whether those of later ones are the same. `order`: the loops of
 * the first output. */
static bool take_sides(contraction_matcher *w, const contraction_loops *order, division *d) {
  contraction *c = w->c;
  unsigned batch = d->loops[0] & d->loops[1], x = d->loops[0] & ~batch, y = d->loops[1] & ~batch;
  if (!x && !y)
    return template_say(w->detail, "both operands of a product have the same loops of the output");
  if (c->n_sums == 0) {
    bool swap = innermost(x, order) > innermost(y, order);
    c->batch = contraction_pick(batch, order);
    c->m = contraction_pick(swap ? y : x, order);
    c->n = contraction_pick(swap ? x : y, order);
  }
  d->first_is_b = x == c->n.set && y == c->m.set;
  bool same = d->first_is_b || (x == c->m.set && y == c->n.set);
  return (same && batch == c->batch.set) ||
         template_say(w->detail, "sums of products have different operands");
}

/* --- sums --- */

static bool open_sum(contraction_matcher *w, const ir_expr *e, const ir_expr **list, int n,
                     contraction_sum *s, const ir_expr **body) {
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
static bool sort_factors(contraction_matcher *w, const contraction_factors *all, contraction_factors *terms,
                         contraction_sum *s) {
  const ir_form *form = &w->c->form;
  terms->n = 0;
  for (int i = 0; i < all->n; i++) {
    bool reduces = false;
    uint64_t reads = contraction_reads_of(w->c, all->list[i], &reduces);
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

static bool check_loops(contraction_matcher *w, const contraction_sum *s) {
  const contraction *c = w->c;
  unsigned known = c->batch.set | c->m.set | c->n.set;
  for (int i = 0; i < s->n_scales; i++)
    if (ir_form_free(&c->form, s->scales[i]) & ~known)
      return template_say(w->detail, "a factor has loops of its own");
  for (int i = 0; i < s->n_conditions; i++) {
    bool reduces = false;
    contraction_reads_of(c, s->conditions[i], &reduces);
    if (reduces) return template_say(w->detail, "a condition needs a reduction");
    if (ir_form_free(&c->form, s->conditions[i]) & ~(known | c->k.set))
      return template_say(w->detail, "a condition has loops of its own");
  }
  return true;
}

static bool match_sum(contraction_matcher *w, const ir_expr *e, const ir_expr **list, int n,
                      const contraction_loops *order) {
  contraction *c = w->c;
  contraction_sum s;
  const ir_expr *body = NULL;
  contraction_factors all = {0}, terms;
  division d = {0};
  if (c->n_sums == CONTRACTION_SUMS)
    return template_say(w->detail, "there are more than %d sums", CONTRACTION_SUMS);
  if (!open_sum(w, e, list, n, &s, &body)) return false;
  if (!contraction_collect_factors(&c->form, body, &all))
    return template_say(w->detail, "a product has too many factors");
  if (!sort_factors(w, &all, &terms, &s)) return false;
  if (!divide(c, &terms, w->outer, &d) || !take_sides(w, order, &d) || !check_loops(w, &s)) return false;
  unsigned every = (1u << terms.n) - 1, chosen = d.first_is_b ? every & ~d.first : d.first;
  s.a = contraction_add_operand(c, contraction_make_operand(c, CONTRACTION_A, &terms, chosen));
  s.b = contraction_add_operand(c, contraction_make_operand(c, CONTRACTION_B, &terms, every & ~chosen));
  c->sums[c->n_sums++] = s;
  return true;
}

/* Reductions that are no sums of products. */
static bool is_elsewhere(const contraction *c, const ir_expr *e) {
  return e == c->groups.of || contraction_row_of(&c->rows, e) >= 0;
}

bool contraction_match_sums(contraction_matcher *w, const contraction_loops *order) {
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
