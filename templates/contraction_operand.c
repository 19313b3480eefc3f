/* Operands of a contraction: the factors of a product that are one side of it, the dtype that holds them
 * exactly, and whether they are elements of a tensor as they are. */
#include "templates/contraction_match.h"

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

bool contraction_collect_factors(const ir_form *form, const ir_expr *e, contraction_factors *f) {
  e = without_casts(form, e);
  if (e->node == IR_OPERATOR && e->id == IR_OP_MUL)
    return contraction_collect_factors(form, e->args[0], f) &&
           contraction_collect_factors(form, e->args[1], f);
  if (f->n == CONTRACTION_FACTORS) return false;
  f->list[f->n++] = e;
  return true;
}

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

contraction_operand contraction_make_operand(const contraction *c, contraction_side side,
                                             const contraction_factors *f, unsigned chosen) {
  const ir_form *form = &c->form;
  contraction_operand o = {.side = side, .access = -1, .element = -1};
  for (int i = 0; i < f->n; i++) {
    if (!(chosen >> i & 1)) continue;
    o.factors[o.n_factors++] = f->list[i];
    o.accesses |= contraction_reads_of(c, f->list[i], NULL);
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

int contraction_add_operand(contraction *c, contraction_operand o) {
  for (int i = 0; i < c->n_operands; i++)
    if (same_operand(&c->operands[i], &o)) return i;
  c->operands[c->n_operands] = o;
  return c->n_operands++;
}
