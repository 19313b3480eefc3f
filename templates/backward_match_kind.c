/* The arithmetic between scores and dS: exp(scale * product - l), under a softcap or not, and its derivative.
 */
#include <math.h>

#include "templates/backward_match.h"

static bool is_constant(const ir_problem *p, const ir_expr *e, double *v) {
  switch (e->node) {
  case IR_FLOAT: *v = e->number; return true;
  case IR_INT: *v = (double)e->integer; return true;
  case IR_ATTR: *v = p->attrs[e->id]; return true;
  default: return false;
  }
}

/* P = exp(score - l). */
static void find_lse(backward_match *m) {
  const ir_expr *e = m->weight;
  if (e->node != IR_CALL || (e->id != IR_FN_EXP && e->id != IR_FN_EXP2) ||
      !ir_is_operator(e->args[0], IR_OP_SUB))
    return;
  const ir_expr *l = e->args[0]->args[1];
  if (ir_reduces(l) || !backward_is_of_query(m, l)) return;
  m->lse = l;
  m->base2 = e->id == IR_FN_EXP2;
}

/* e without the constants that it is multiplied with or divided by, which are in `factor` then. */
static const ir_expr *without_constants(const ir_problem *p, const ir_expr *e, double *factor) {
  double v;
  *factor = 1;
  while (ir_is_operator(e, IR_OP_MUL) || ir_is_operator(e, IR_OP_DIV)) {
    bool product = e->id == IR_OP_MUL;
    int constant = product && is_constant(p, e->args[0], &v) ? 0 : 1;
    if (!is_constant(p, e->args[constant], &v)) break;
    *factor *= product ? v : 1 / v;
    e = e->args[1 - constant];
  }
  return e;
}

/* The score is a constant times the product, or times the tanh of that, which is `tanh` then. */
static bool find_scale(backward_match *m, const ir_expr **tanh) {
  const ir_expr *score = without_constants(m->form.problem, m->weight->args[0]->args[0], &m->scale);
  *tanh = NULL;
  if (score->node == IR_CALL && score->id == IR_FN_TANH) {
    *tanh = score;
    m->cap = m->scale;
    score = without_constants(m->form.problem, score->args[0], &m->scale);
  }
  return score == m->product && isfinite(m->scale) && isfinite(m->cap);
}

/* 1 - t * t */
static bool is_derivative(const ir_expr *e, const ir_expr *t) {
  if (!ir_is_operator(e, IR_OP_SUB) || !ir_is_operator(e->args[1], IR_OP_MUL)) return false;
  const ir_expr *one = e->args[0], *square = e->args[1];
  bool is_one = (one->node == IR_INT && one->integer == 1) || (one->node == IR_FLOAT && one->number == 1);
  return is_one && square->args[0] == t && square->args[1] == t;
}

/* P * (slope - e) */
static bool find_offset(backward_match *m, const ir_expr *e) {
  if (!ir_is_operator(e, IR_OP_MUL)) return false;
  int p = e->args[0] == m->weight ? 0 : 1;
  const ir_expr *difference = e->args[1 - p];
  if (e->args[p] != m->weight || !ir_is_operator(difference, IR_OP_SUB)) return false;
  m->offset = difference->args[1];
  return difference->args[0] == m->slope && backward_is_of_query(m, m->offset) &&
         (m->offset == m->dot || !ir_reduces(m->offset));
}

void backward_find_kind(backward_match *m) {
  const ir_expr *tanh, *e = m->gradient;
  find_lse(m);
  if (!m->lse || !find_scale(m, &tanh)) return;
  if (!tanh) {
    m->plain = find_offset(m, e);
  } else if (ir_is_operator(e, IR_OP_MUL)) {
    int factor = is_derivative(e->args[0], tanh) ? 0 : 1;
    m->capped = is_derivative(e->args[factor], tanh) && find_offset(m, e->args[1 - factor]);
  }
}
