#include "templates/contraction_groups.h"

#include "templates/lanes_index.h"

/* A loop, or "e + 1" of offsets, which have one element more than there are groups: inside, or the count
 * would have a condition that says so. */
static bool is_place_of(const ir_form *form, const ir_access *x, int loop) {
  const ir_expr *e = x->subscripts[0].e;
  if (e->node == IR_INDEX) return e->id == loop && lanes_in_range(form, x, 0);
  if (e->node != IR_OPERATOR || e->id != IR_OP_ADD) return false;
  return e->args[0]->node == IR_INDEX && e->args[0]->id == loop && e->args[1]->node == IR_INT;
}

/* ends[e], or cu[e + 1], of a tensor of one dimension. */
static bool is_end(const ir_form *form, const ir_expr *e, int loop) {
  if (e->node != IR_READ) return false;
  const ir_access *x = &form->accesses[e->id];
  const ir_tensor *t = &form->problem->op->tensors[x->tensor];
  dtype type = ir_tensor_dtype(form->problem, x->tensor);
  if (type != DTYPE_I32 && type != DTYPE_I64) return false;
  return t->role == IR_INPUT && !t->any_rank && t->rank == 1 && x->n == 1 && !x->other && !x->conditional &&
         is_place_of(form, x, loop);
}

static bool counts_ends(const ir_form *form, const ir_expr *e, contraction_groups *g) {
  if (e->id != IR_RED_SUM || e->n_args != 2 || e->args[0]->node != IR_INT || e->args[0]->integer != 1)
    return false;
  const ir_expr *c = e->args[1];
  if (c->node != IR_OPERATOR || (c->id != IR_OP_LE && c->id != IR_OP_GE)) return false;
  const ir_expr *end = c->args[c->id == IR_OP_LE ? 0 : 1];
  const ir_expr *row = lanes_without_index_casts(form, c->args[c->id == IR_OP_LE ? 1 : 0]);
  if (row->node != IR_INDEX || row->id == e->index || form->loops[row->id].leading) return false;
  if (!is_end(form, end, e->index)) return false;
  *g = (contraction_groups){.of = e, .ends = end->id, .loop = e->index, .row = row->id};
  return true;
}

/* The first that counts ends of a row `row`; -1: of any. */
static contraction_groups find_groups(const ir_form *form, int row) {
  const ir_expr *list[64];
  contraction_groups g = {.of = NULL};
  int n = ir_form_reductions(form, list, (int)COUNT_OF(list));
  for (int i = 0; i < n; i++)
    if (counts_ends(form, list[i], &g) && (row < 0 || g.row == row)) return g;
  return (contraction_groups){.of = NULL};
}

contraction_groups contraction_find_groups(const ir_form *form) {
  return find_groups(form, -1);
}

contraction_groups contraction_find_groups_of(const ir_form *form, int row) {
  return find_groups(form, row);
}

unsigned contraction_loops_without_group(const ir_form *form, const contraction_groups *g, const ir_expr *e) {
  unsigned loops = 0;
  if (!g->of) return ir_form_free(form, e);
  if (e == g->of) return 0;
  if (e->node == IR_INDEX) return 1u << e->id;
  for (int i = 0; i < e->n_args; i++) loops |= contraction_loops_without_group(form, g, e->args[i]);
  if (e->node == IR_REDUCE) return loops & ~(1u << e->index);
  if (e->node != IR_READ) return loops;
  const ir_access *x = &form->accesses[e->id];
  for (int i = 0; i < x->n; i++) loops |= contraction_loops_without_group(form, g, x->subscripts[i].e);
  return x->other ? loops | contraction_loops_without_group(form, g, x->other) : loops;
}

const ir_expr *contraction_in_group(const ir_form *form, const contraction_groups *g, const ir_expr *e) {
  if (!g->of || e->node != IR_OPERATOR || e->id != IR_OP_SELECT) return NULL;
  const ir_expr *c = e->args[0], *other = e->args[2];
  bool zero =
      (other->node == IR_INT && other->integer == 0) || (other->node == IR_FLOAT && other->number == 0);
  if (!zero || c->node != IR_OPERATOR || c->id != IR_OP_LT || c->args[1]->node != IR_SIZE) return NULL;
  const ir_loop *groups = &form->loops[g->loop];
  bool all = groups->n_dims == 1 && ir_dim_equal(groups->dims[0], ir_dim_axis(c->args[1]->id));
  const ir_expr *number = c->args[0]->node == IR_CAST ? c->args[0]->args[0] : c->args[0];
  return all && number == g->of ? e->args[1] : NULL;
}

bool contraction_is_inside_group(const ir_form *form, const contraction_groups *g, const ir_access *x) {
  bool grouped = false;
  for (int i = 0; i < x->n; i++) {
    bool is_group = x->subscripts[i].e == g->of;
    if (is_group) {
      ir_dim d = form->problem->op->tensors[x->tensor].dims[x->subscripts[i].first];
      const ir_loop *l = &form->loops[g->loop];
      if (l->n_dims != 1 || !ir_dim_equal(l->dims[0], d)) return false;
    }
    grouped = grouped || is_group;
    if (!is_group && !lanes_in_range(form, x, i)) return false;
  }
  return grouped && !x->other;
}
