#include "templates/in_place.h"

bool in_place_same(const ir_access *x, const ir_access *y) {
  if (x->n != y->n) return false;
  for (int s = 0; s < x->n; s++) {
    if (x->subscripts[s].e != y->subscripts[s].e || x->subscripts[s].first != y->subscripts[s].first)
      return false;
  }
  return true;
}

bool in_place_is_safe(const ir_form *form) {
  const ir_op *op = form->problem->op;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *written = &form->accesses[form->outputs[o].access];
    int alias = op->tensors[written->tensor].alias;
    for (int i = 0; alias >= 0 && i < form->n_accesses; i++) {
      if (form->accesses[i].tensor == alias && !in_place_same(&form->accesses[i], written)) return false;
    }
  }
  return true;
}
