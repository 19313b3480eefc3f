/* What is asked of expressions by all who match forms. */
#include "ir/ir_form.h"

bool ir_is_operator(const ir_expr *e, ir_operator o) {
  return e->node == IR_OPERATOR && e->id == (int)o;
}

const ir_expr *ir_condition_of(const ir_expr *reduce) {
  return reduce->n_args > 1 ? reduce->args[1] : NULL;
}

const ir_expr *ir_maximum_above(const ir_expr *e, const ir_expr *reduce) {
  if (e->node != IR_CALL || (e->id != IR_FN_EXP && e->id != IR_FN_EXP2)) return NULL;
  const ir_expr *difference = e->args[0];
  if (!ir_is_operator(difference, IR_OP_SUB)) return NULL;
  const ir_expr *most = difference->args[1];
  bool over_terms = most->node == IR_REDUCE && most->id == IR_RED_MAX && most->index == reduce->index &&
                    most->args[0] == difference->args[0] && ir_condition_of(most) == ir_condition_of(reduce);
  return over_terms ? most : NULL;
}

bool ir_reduces(const ir_expr *e) {
  if (e->node == IR_REDUCE) return true;
  for (int i = 0; i < e->n_args; i++)
    if (ir_reduces(e->args[i])) return true;
  return false;
}

const ir_expr *ir_form_as_read(const ir_form *form, const ir_expr *e) {
  while (e->node == IR_CAST && ir_cast_dtype(form->problem, e) == DTYPE_F32) e = e->args[0];
  return e->node == IR_READ ? e : NULL;
}
