/* Counts that follow from the definitions: operations, bytes, reduction lengths. */
#include <math.h>

#include "ir/ir_bounds.h"
#include "ir/ir_types.h"

typedef struct counter {
  const ir_problem *p;
  const ir_definition *def;
} counter;

static double dim_size(const ir_problem *p, ir_dim d) {
  return (double)d.factor * (d.axis >= 0 ? (double)p->sizes[d.axis] : 1);
}

static double lead_size(const ir_problem *p) {
  double n = 1;
  for (int i = 0; i < p->lead_rank; i++) n *= (double)p->lead[i];
  return n;
}

typedef struct least_size {
  const ir_problem *p;
  double size;
} least_size;

static bool note_size(const ir_bound *b, void *user) {
  least_size *least = user;
  if (b->tensor < 0) return true;
  double size = dim_size(least->p, least->p->op->tensors[b->tensor].dims[b->dim]);
  if (size < least->size) least->size = size;
  return true;
}

/* How many values an index takes: its axis, or for one that never stands alone the smallest dimension it
 * moves through; an index limited by its condition alone counts once. */
static double index_size(const counter *c, const ir_index *x, const ir_expr *reduce) {
  if (x->ranged) return dim_size(c->p, x->range);
  least_size least = {c->p, INFINITY};
  if (reduce != NULL) ir_bounds_visit(reduce, note_size, &least);
  return isfinite(least.size) ? least.size : 1;
}

/* Index arithmetic and constants are not counted: only what is computed from tensors. */
static bool has_data(const ir_expr *e) {
  if (e->node == IR_READ) return true;
  for (int i = 0; i < e->n_args; i++)
    if (has_data(e->args[i])) return true;
  return false;
}

static double operations(const counter *c, const ir_expr *e) {
  double n = 0;
  if (e->node == IR_READ) return e->has_else ? operations(c, e->args[e->n_args - 1]) : 0;
  for (int i = 0; i < e->n_args; i++) n += operations(c, e->args[i]);
  if (e->node == IR_REDUCE) {
    /* A sum of sums adds each term once. */
    bool nests = e->args[0]->node == IR_REDUCE && e->args[0]->id == e->id;
    return (n + !nests) * index_size(c, &c->def->indices[e->index], e);
  }
  if ((e->node == IR_OPERATOR || e->node == IR_CALL) && has_data(e))
    n += e->node == IR_CALL && e->id == IR_FN_FMA ? 2 : 1;
  return n;
}

/* Elements the left side covers. */
static double left_size(const counter *c) {
  double n = c->p->op->tensors[c->def->tensor].any_rank ? lead_size(c->p) : 1;
  for (int i = 0; i < c->def->n_indices; i++)
    if (!c->def->indices[i].reduced) n *= index_size(c, &c->def->indices[i], NULL);
  return n;
}

double ir_flops(const ir_problem *p) {
  double total = 0;
  for (int i = 0; i < p->op->n_definitions; i++) {
    counter c = {p, &p->op->definitions[i]};
    double each = operations(&c, c.def->value) + (c.def->update == IR_ASSIGN ? 0 : 1);
    if (c.def->tensor2 >= 0) { /* topk: one pass over the candidates serves all places of the order */
      const ir_expr *rank = c.def->subscripts[c.def->n_subscripts - 1];
      double places = index_size(&c, &c.def->indices[rank->id], NULL);
      if (places > 0) each /= places;
    }
    total += each * left_size(&c);
  }
  return total;
}

/* Elements of `tensor` that e reads, at most: the number of different values its subscripts can have. */
static double elements_read(const counter *c, const ir_expr *e, int tensor) {
  double n = 0;
  for (int i = 0; i < e->n_args; i++) n += elements_read(c, e->args[i], tensor);
  if (e->node != IR_READ || e->id != tensor) return n;
  double here = c->p->op->tensors[tensor].any_rank ? lead_size(c->p) : 1;
  for (int x = 0; x < c->def->n_indices; x++)
    for (int i = 0; i < e->n_args - e->has_else; i++)
      if (ir_expr_uses(e->args[i], x)) {
        here *= index_size(c, &c->def->indices[x], NULL);
        break;
      }
  return n + here;
}

double ir_min_bytes(const ir_problem *p) {
  const ir_op *op = p->op;
  double total = 0;
  for (int t = 0; t < op->n_args; t++) {
    double all = 1, touched = 0;
    int64_t shape[LIMIT_RANK];
    int rank = ir_tensor_shape(p, t, shape);
    for (int i = 0; i < rank; i++) all *= (double)shape[i];
    for (int i = 0; i < op->n_definitions; i++) {
      counter c = {p, &op->definitions[i]};
      if (op->tensors[t].role == IR_OUTPUT) {
        if (c.def->tensor == t || c.def->tensor2 == t) touched += left_size(&c);
        continue;
      }
      touched += elements_read(&c, c.def->value, t);
      for (int s = 0; s < c.def->n_subscripts; s++) touched += elements_read(&c, c.def->subscripts[s], t);
    }
    total += (touched < all ? touched : all) * dtype_bits(ir_tensor_dtype(p, t)) / 8;
  }
  return total;
}

/* Nested reductions multiply; of those side by side, and of those behind temporaries, the longest counts. */
static double longest(const counter *c, const ir_expr *e, const double *behind) {
  double n = 1;
  for (int i = 0; i < e->n_args; i++) n = fmax(n, longest(c, e->args[i], behind));
  if (e->node == IR_READ) return fmax(n, behind[e->id]);
  if (e->node != IR_REDUCE) return n;
  double size = index_size(c, &c->def->indices[e->index], e);
  for (const ir_expr *inner = e->args[0]; inner->node == IR_REDUCE; inner = inner->args[0])
    size *= index_size(c, &c->def->indices[inner->index], inner);
  return fmax(n, size);
}

int64_t ir_reduction_length(const ir_problem *p, int output) {
  double behind[4 * LIMIT_TENSORS] = {0};
  for (int i = 0; i < p->op->n_definitions; i++) {
    counter c = {p, &p->op->definitions[i]};
    double n = longest(&c, c.def->value, behind);
    behind[c.def->tensor] = fmax(behind[c.def->tensor], n);
    if (c.def->tensor2 >= 0) behind[c.def->tensor2] = behind[c.def->tensor];
  }
  double n = fmax(behind[output], 1);
  return n >= 0x1p62 ? 1ll << 62 : (int64_t)n;
}
