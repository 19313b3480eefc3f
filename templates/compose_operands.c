/* Operands of products that would be computed again for every tile that multiplies them: as temporaries they
 * are computed once, and lie as matrix units and tensor copies take them. Both ways are right; the cost model
 * tells which is cheaper. */
#include <math.h>

#include "templates/compose_split.h"

static bool is_read(const ir_expr *e) {
  while (e->node == IR_CAST) e = e->args[0];
  return e->node == IR_READ;
}

/* A rounded value: only that can lie in memory without more bytes than what it is made of, or other results.
 * Of what is sliced there is never much. */
static bool is_rounded(const compose_plan *plan, const ir_expr *e) {
  return e->node == IR_CAST && dtype_bits(ir_cast_dtype(plan->p, e)) <= 16 && !is_read(e);
}

typedef struct operand_list {
  int n;
  const ir_expr *list[COMPOSE_TEMPORARIES];
} operand_list;

/* Factors of a term with loops `term` that have fewer: they are computed as often as the others have values.
 */
static void add_factors(const compose_plan *plan, const ir_expr *e, unsigned term, operand_list *found) {
  if (e->node == IR_OPERATOR && e->id == IR_OP_MUL) {
    add_factors(plan, e->args[0], term, found);
    add_factors(plan, e->args[1], term, found);
    return;
  }
  unsigned loops = ir_form_free(&plan->form, e);
  bool apart = is_rounded(plan, e) || (compose_avoids(plan, loops) && !is_read(e));
  if (!apart || (loops & term) == term) return;
  for (int i = 0; i < plan->n_cuts; i++)
    if (plan->cuts[i].node == e) return;
  for (int i = 0; i < found->n; i++)
    if (found->list[i] == e) return;
  if (found->n < COMPOSE_TEMPORARIES) found->list[found->n++] = e;
}

/* In sums with a condition a factor may stand where it is not defined without it. */
static bool list_operands(compose_splitter *s, const compose_target *targets, int n, operand_list *found) {
  compose_walker w = {.visit = compose_list_reductions};
  *found = (operand_list){0};
  if (!compose_walk(s, &w, NULL, targets, n)) return false;
  for (int i = 0; i < w.n; i++) {
    const ir_expr *e = w.list[i];
    if (e->id == IR_RED_SUM && e->n_args == 1)
      add_factors(s->plan, e->args[0], ir_form_free(&s->plan->form, e->args[0]), found);
  }
  return found->n > 0;
}

bool compose_has_operands(compose_splitter *s, const compose_target *targets, int n) {
  operand_list operands;
  return list_operands(s, targets, n, &operands);
}

bool compose_try_apart(compose_splitter *s, const compose_target *targets, int n, double most_ns) {
  compose_plan *plan = s->plan;
  operand_list operands;
  compose_target made[COMPOSE_TEMPORARIES];
  int n_stages = plan->n_stages, n_cuts = plan->n_cuts, n_made = 0;
  uint64_t before = plan->made;
  if (!list_operands(s, targets, n, &operands)) return false;
  bool apart = true;
  for (int i = 0; i < operands.n && apart; i++)
    apart = compose_add_cut(s, operands.list[i], NULL, &made[n_made++]);
  apart = apart && compose_solve(s, made, n_made);
  if (apart && plan->n_stages > n_stages) compose_share(s, plan->n_stages - 1, targets, n);
  apart = apart && (compose_try_whole(s, targets, n) || (isinf(most_ns) && n > 1 && s->status == ARKE_OK &&
                                                         compose_solve_apart(s, targets, n, compose_solve)));
  if (s->status != ARKE_OK) apart = false;
  double ns = 0;
  for (int i = n_stages; i < plan->n_stages; i++) ns += plan->stages[i]->ns;
  if (apart && ns < most_ns) return true;
  compose_undo(plan, n_stages, before);
  plan->n_cuts = n_cuts;
  return false;
}
