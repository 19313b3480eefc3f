/* What the gradients' outputs and sums range over: the batch, heads that share keys, and which keys a query
 * sees. */
#include "templates/backward_match.h"

/* --- outputs --- */

/* The loops of an output beside its rows and columns, which are the innermost. */
static bool match_output(backward_matcher *w, const backward_sum *s, int row, int column,
                         contraction_loops *batch) {
  const ir_form *form = &w->m->form;
  const ir_form_output *out = &form->outputs[s->output];
  const ir_access *x = &form->accesses[out->access];
  unsigned seen = 0;
  if (out->update != IR_ASSIGN || out->positions >= 0 || form->problem->op->tensors[x->tensor].alias >= 0)
    return template_say(w->detail, "an output is not written once at each of its indices");
  *batch = (contraction_loops){0};
  for (int i = 0; i < x->n; i++) {
    const ir_expr *e = x->subscripts[i].e;
    if (e->node != IR_INDEX || (seen >> e->id & 1) || form->loops[e->id].leading)
      return template_say(w->detail, "an output is not written once at each of its indices");
    seen |= 1u << e->id;
    if (e->id == row || e->id == column) continue;
    batch->set |= 1u << e->id;
    batch->loops[batch->n++] = e->id;
  }
  return ((seen >> row & 1) && x->subscripts[x->n - 1].e->id == column) ||
         template_say(w->detail, "rows of an output do not run along the operand's");
}

/* Heads that share keys: those with h / (H / G) == g are summed. */
static bool match_heads(backward_matcher *w, const ir_expr *heads) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *c = ir_condition_of(heads);
  for (int side = 0; c && ir_is_operator(c, IR_OP_EQ) && side < 2; side++) {
    const ir_expr *quotient = c->args[side], *share = c->args[1 - side];
    while (lanes_is_index_cast(form, quotient)) quotient = quotient->args[0];
    while (lanes_is_index_cast(form, share)) share = share->args[0];
    if (share->node != IR_INDEX || !attention_is_share(form, quotient, &m->head, m->heads)) continue;
    const ir_loop *loop = &form->loops[share->id];
    m->share = share->id;
    if (m->head == heads->index && !loop->leading && loop->n_dims == 1 &&
        loop->dims[0].axis == m->heads[1].axis && loop->dims[0].factor == 1)
      return true;
  }
  return template_say(w->detail, "heads are not shared by h / (H / G)");
}

bool backward_match_batch(backward_matcher *w, const backward_sum *dq, const backward_sum *dk,
                          const backward_sum *dv) {
  backward_match *m = w->m;
  contraction_loops values;
  m->head = m->share = -1;
  if (dk->heads && !match_heads(w, dk->heads)) return false;
  if (!match_output(w, dq, m->query, m->depth, &m->batch[BACKWARD_QUERIES]) ||
      !match_output(w, dk, m->key, m->depth, &m->batch[BACKWARD_KEYS]) ||
      !match_output(w, dv, m->key, m->wide, &values))
    return false;
  unsigned queries = m->batch[BACKWARD_QUERIES].set, keys = m->batch[BACKWARD_KEYS].set;
  if (m->head >= 0) queries = (queries & ~(1u << m->head)) | 1u << m->share;
  if (queries != keys || keys != values.set)
    return template_say(w->detail, "outputs are over different loops");
  return true;
}

/* --- conditions --- */

/* The conjuncts of a condition as bounds on one side's columns. */
static bool add_conditions(const backward_match *m, const ir_expr *c, int side, attention_bounds *b) {
  int row = side == BACKWARD_QUERIES ? m->query : m->key,
      column = side == BACKWARD_QUERIES ? m->key : m->query;
  if (!attention_add_bounds(&m->form, &m->groups[side], row, column, c, b)) return false;
  for (int i = 0; i < b->n; i++)
    if (b->list[i].times) return false;
  return true;
}

/* A tile has one set of bounds for all the heads that it sums over. */
static bool check_heads(backward_matcher *w) {
  const backward_match *m = w->m;
  unsigned both = m->batch[BACKWARD_QUERIES].set & m->batch[BACKWARD_KEYS].set;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < m->seen[side].n; i++)
      for (int t = 0; t < m->seen[side].list[i].rest.n; t++)
        if (contraction_loops_without_group(&m->form, &m->groups[side],
                                            m->seen[side].list[i].rest.terms[t].e) &
            ~both)
          return template_say(w->detail, "which keys a query sees depends on its head");
  return true;
}

/* Where requests are packed, those of queries are found by other offsets than those of keys: that both sums
 * are over the same pairs is not seen, and each is over its own. */
bool backward_match_bounds(backward_matcher *w, const backward_sum *dq, const backward_sum *dk) {
  backward_match *m = w->m;
  const backward_sum *of[] = {dq, dk};
  attention_bounds inner = {0};
  bool packed = m->groups[BACKWARD_QUERIES].of || m->groups[BACKWARD_KEYS].of;
  for (int side = 0; side < 2; side++) {
    attention_bounds other = {0};
    if (!add_conditions(m, ir_condition_of(of[side]->inner), side, &m->seen[side]))
      return template_say(w->detail, "which keys a query sees is not told by comparisons of their indices");
    if (packed) continue;
    if (!add_conditions(m, ir_condition_of(of[!side]->inner), side, &other) ||
        !attention_same_bounds(&m->seen[side], &other))
      return template_say(w->detail, "sums are over different keys");
  }
  const ir_expr *products[] = {m->product, m->slope};
  for (int i = 0; i < 2; i++)
    if (!add_conditions(m, ir_condition_of(products[i]), BACKWARD_QUERIES, &inner) || inner.n > 0 ||
        inner.n_conditions > 0)
      return template_say(w->detail, "an inner sum has a condition");
  return check_heads(w);
}
