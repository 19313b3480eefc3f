#include "templates/plain_move.h"

#include <string.h>

static bool bits_of(dtype t, dtype *bits) {
  switch (t) {
  case DTYPE_F64: *bits = DTYPE_I64; return true;
  case DTYPE_F32: *bits = DTYPE_I32; return true;
  case DTYPE_F16:
  case DTYPE_BF16: *bits = DTYPE_I16; return true;
  case DTYPE_E4M3:
  case DTYPE_E5M2:
  case DTYPE_BOOL: *bits = DTYPE_U8; return true;
  default: *bits = t; return dtype_bits(t) >= 8;
  }
}

static const ir_expr *without_casts(const ir_problem *p, const ir_expr *e, dtype t) {
  while (e->node == IR_CAST && ir_cast_dtype(p, e) == t) e = e->args[0];
  return e;
}

/* The tensor that an output's elements come from; -1: they are computed. */
static int source(const ir_form *form, const ir_form_output *o) {
  const ir_problem *p = form->problem;
  dtype t = ir_tensor_dtype(p, form->accesses[o->access].tensor), bits;
  const ir_expr *value = without_casts(p, o->value, t);
  if (o->update != IR_ASSIGN || o->positions >= 0 || value->node != IR_READ || !bits_of(t, &bits)) return -1;
  const ir_access *read = &form->accesses[value->id];
  return !read->other && ir_tensor_dtype(p, read->tensor) == t ? read->tensor : -1;
}

bool plain_move(const ir_form *form, arena *a, ir_problem *moved) {
  const ir_problem *p = form->problem;
  const ir_op *from = p->op;
  ir_op *op = ARENA_NEW(a, ir_op);
  ir_tensor *tensors = ARENA_NEW_N(a, ir_tensor, (size_t)from->n_tensors);
  ir_definition *definitions = ARENA_NEW_N(a, ir_definition, (size_t)from->n_definitions);
  if (!op || !tensors || !definitions || from->n_definitions != form->n_outputs) return false;
  *op = *from;
  memcpy(tensors, from->tensors, (size_t)from->n_tensors * sizeof *tensors);
  memcpy(definitions, from->definitions, (size_t)from->n_definitions * sizeof *definitions);
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_form_output *o = &form->outputs[i];
    int ends[] = {form->accesses[o->access].tensor, source(form, o)};
    if (ends[1] < 0) return false;
    dtype t = ir_tensor_dtype(p, ends[0]), bits;
    bits_of(t, &bits);
    for (int k = 0; k < 2; k++) tensors[ends[k]].type = (ir_type){.variable = -1, .fixed = bits};
    int alias = tensors[ends[0]].alias;
    if (alias >= 0) tensors[alias].type = tensors[ends[0]].type;
    ir_definition *d = &definitions[o->definition];
    /* An output that is read again is cast as it is stored: not a definition of its own value. */
    const ir_expr *value = without_casts(p, d->value, t);
    if (value->node != IR_READ || from->tensors[value->id].role != IR_INPUT) return false;
    d->value = (ir_expr *)(uintptr_t)value;
  }
  op->tensors = tensors;
  op->definitions = definitions;
  *moved = *p;
  moved->op = op;
  return true;
}
