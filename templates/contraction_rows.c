#include "templates/contraction_rows.h"

/* --- what is inside what --- */

/* Whether a REDUCE node other than `but` and those in `leaves` (may be NULL) is in e, subscripts left out. */
static bool reduces(const ir_expr *e, const ir_expr *but, const contraction_rows *leaves) {
  if (e == but || (leaves && contraction_row_of(leaves, e) >= 0)) return false;
  if (e->node == IR_REDUCE) return true;
  for (int i = 0; e->node != IR_READ && i < e->n_args; i++)
    if (reduces(e->args[i], but, leaves)) return true;
  return false;
}

/* Whether one of the reductions is in e. */
static bool needs(const ir_expr *e, const contraction_rows *rows) {
  if (contraction_row_of(rows, e) >= 0) return true;
  for (int i = 0; e->node != IR_READ && i < e->n_args; i++)
    if (needs(e->args[i], rows)) return true;
  return false;
}

int contraction_row_of(const contraction_rows *rows, const ir_expr *e) {
  for (int i = 0; i < rows->n; i++)
    if (rows->list[i].e == e) return i;
  return -1;
}

/* --- sums that follow their maximum --- */

/* sum(n) exp(x - max(n) x), which f32 holds as it does the maximum: of integers the difference is an integer.
 */
static bool follow(const contraction_rows *rows, contraction_row_reduction *r) {
  const ir_expr *e = r->e->args[0];
  if (r->kind != IR_RED_SUM || r->type != DTYPE_F32 || e->node != IR_CALL) return false;
  if (e->id != IR_FN_EXP && e->id != IR_FN_EXP2) return false;
  const ir_expr *difference = e->args[0];
  if (difference->node != IR_OPERATOR || difference->id != IR_OP_SUB || difference->n_args != 2) return false;
  int most = contraction_row_of(rows, difference->args[1]);
  if (most < 0 || rows->list[most].kind != IR_RED_MAX || rows->list[most].type != DTYPE_F32) return false;
  const ir_expr *maximum = rows->list[most].e;
  if (maximum->args[0] != difference->args[0] || ir_condition_of(maximum) != ir_condition_of(r->e))
    return false;
  r->maximum = most;
  r->exponential = e;
  r->exponent = difference->args[0];
  return true;
}

/* --- finding --- */

static bool is_compared(const ir_expr *e) {
  return e->id == IR_RED_ARGMAX || e->id == IR_RED_ARGMIN;
}

static bool add(const ir_form *form, const ir_expr *group, contraction_rows *rows, const ir_expr *e,
                const char **why) {
  *why = "there are too many reductions of a product's rows";
  if (rows->n == CONTRACTION_ROW_REDUCTIONS) return false;
  *why = "a product's rows are reduced over different loops";
  if (rows->n > 0 && e->index != rows->column) return false;
  *why = "a condition on a product's columns needs a reduction";
  if (ir_condition_of(e) && reduces(ir_condition_of(e), group, NULL)) return false;
  contraction_row_reduction r = {.e = e,
                                 .kind = (ir_reduction)e->id,
                                 .type = ir_form_type(form, is_compared(e) ? e->args[0] : e),
                                 .maximum = -1};
  *why = "a reduction of a product's rows needs another's result";
  if (needs(e->args[0], rows) && !follow(rows, &r)) return false;
  rows->column = e->index;
  rows->list[rows->n++] = r;
  return true;
}

/* A sum of sums of products is one sum over more terms, unless rows are reduced in other ways too. */
static bool is_sum_of_sums(const ir_expr *e, const ir_expr *group) {
  const ir_expr *body = e->args[0];
  return e->id == IR_RED_SUM && body->node == IR_REDUCE && body != group && body->id == IR_RED_SUM;
}

static bool is_over(const ir_form *form, const ir_access *y, int loop) {
  for (int s = 0; s < y->n; s++)
    if (ir_form_free(form, y->subscripts[s].e) >> loop & 1) return true;
  return false;
}

bool contraction_find_rows(const ir_form *form, const ir_expr *group, contraction_rows *rows,
                           const char **why) {
  const ir_expr *list[64];
  int n = ir_form_reductions(form, list, (int)COUNT_OF(list)), column = -1;
  *rows = (contraction_rows){.n = 0};
  *why = NULL;
  for (int i = 0; i < n && column < 0; i++)
    if (list[i] != group && reduces(list[i]->args[0], group, NULL) && !is_sum_of_sums(list[i], group))
      column = list[i]->index;
  for (int i = 0; i < n && column >= 0; i++) {
    if (list[i] == group || !reduces(list[i]->args[0], group, NULL)) continue;
    if (is_sum_of_sums(list[i], group) && list[i]->index != column) continue;
    if (!add(form, group, rows, list[i], why)) return false;
  }
  for (int o = 0; o < form->n_outputs && rows->n > 0; o++)
    rows->whole = rows->whole || reduces(form->outputs[o].value, group, rows) ||
                  is_over(form, &form->accesses[form->outputs[o].access], rows->column);
  return true;
}
