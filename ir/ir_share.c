#include "ir/ir_share.h"

#include <math.h>

#include "ir/ir_types.h"

enum { SAMPLES = 8192, MOST_INDICES = 16 };

/* Integers and truths of indices, sizes and attributes, also through temporaries. */
typedef struct sampler {
  const ir_problem *p;
  bool unknown; /* a tensor takes part */
} sampler;

static double value_of(sampler *s, const ir_expr *e, const double *indices);

static double temporary(sampler *s, const ir_expr *e, const double *indices) {
  const ir_op *op = s->p->op;
  double inner[MOST_INDICES] = {0};
  for (int i = 0; i < op->n_definitions && op->tensors[e->id].role == IR_TEMPORARY; i++) {
    const ir_definition *d = &op->definitions[i];
    if (d->tensor != e->id || d->n_indices > MOST_INDICES || d->n_subscripts != e->n_args) continue;
    for (int k = 0; k < d->n_subscripts; k++) {
      if (d->subscripts[k]->node != IR_INDEX) s->unknown = true;
      if (!s->unknown) inner[d->subscripts[k]->id] = value_of(s, e->args[k], indices);
    }
    return s->unknown ? 0 : value_of(s, d->value, inner);
  }
  s->unknown = true;
  return 0;
}

static double operator_value(sampler *s, const ir_expr *e, const double *indices) {
  double x = value_of(s, e->args[0], indices), y = 0;
  if (e->id == IR_OP_SELECT) return value_of(s, e->args[x != 0 ? 1 : 2], indices);
  if (e->n_args > 1) y = value_of(s, e->args[1], indices);
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: return x + y;
  case IR_OP_SUB: return x - y;
  case IR_OP_MUL: return x * y;
  case IR_OP_DIV: return y != 0 ? floor(x / y) : 0;
  case IR_OP_MOD: return y != 0 ? x - y * floor(x / y) : 0;
  case IR_OP_LT: return x < y;
  case IR_OP_LE: return x <= y;
  case IR_OP_GT: return x > y;
  case IR_OP_GE: return x >= y;
  case IR_OP_EQ: return x == y;
  case IR_OP_NE: return x != y;
  case IR_OP_AND: return x != 0 && y != 0;
  case IR_OP_OR: return x != 0 || y != 0;
  case IR_OP_NOT: return x == 0;
  case IR_OP_NEG: return -x;
  default: s->unknown = true; return 0;
  }
}

static double value_of(sampler *s, const ir_expr *e, const double *indices) {
  switch (e->node) {
  case IR_INT: return (double)e->integer;
  case IR_FLOAT: return e->number;
  case IR_INDEX: return indices[e->id];
  case IR_SIZE: return (double)s->p->sizes[e->id];
  case IR_ATTR: return s->p->attrs[e->id];
  case IR_OPERATOR: return operator_value(s, e, indices);
  case IR_READ: return temporary(s, e, indices);
  default: s->unknown = true; return 0;
  }
}

static void note_used(const ir_expr *e, bool *used) {
  if (e->node == IR_INDEX && e->id < MOST_INDICES) used[e->id] = true;
  for (int i = 0; i < e->n_args; i++) note_used(e->args[i], used);
}

/* Elements less one of a vector of offsets, one more than there are parts: what an index is compared with
 * that is in the part of another one, "k < cu[g[n] + 1]". 0: there is no such comparison. */
static int64_t parts_compared(const ir_problem *p, const ir_expr *e, int depth) {
  const ir_op *op = p->op;
  enum { MOST_DEPTH = 64 };
  if (depth > MOST_DEPTH) return 0;
  if (e->node == IR_OPERATOR && (e->id == IR_OP_LT || e->id == IR_OP_GT)) {
    const ir_expr *k = e->args[e->id == IR_OP_GT], *end = e->args[e->id == IR_OP_LT];
    const ir_tensor *t = end->node == IR_READ ? &op->tensors[end->id] : NULL;
    if (k->node == IR_INDEX && t && t->role == IR_INPUT && t->rank == 1 && t->dims[0].more == 1)
      return ir_dim_size(p, t->dims[0]) - 1;
  }
  for (int i = 0; i < e->n_args; i++) {
    int64_t parts = parts_compared(p, e->args[i], depth + 1);
    if (parts > 0) return parts;
  }
  for (int i = 0; e->node == IR_READ && op->tensors[e->id].role == IR_TEMPORARY && i < op->n_definitions; i++)
    if (op->definitions[i].tensor == e->id) return parts_compared(p, op->definitions[i].value, depth + 1);
  return 0;
}

double ir_condition_share(const ir_problem *p, const ir_definition *def, const ir_expr *reduce,
                          const double *sizes) {
  sampler s = {.p = p};
  bool used[MOST_INDICES] = {false};
  int hits = 0, n = 0;
  double root = 2;
  if (reduce->n_args < 2 || def->n_indices > MOST_INDICES) return 1;
  note_used(reduce->args[1], used);
  for (int k = 0; k < def->n_indices; k++) n += used[k];
  /* A lattice by the powers of a root of x^(n + 1) = x + 1, which fills a cube of n dimensions evenly. */
  for (int k = 0; k < 30; k++) root = pow(1 + root, 1 / ((double)n + 1));
  for (int i = 0; i < SAMPLES && !s.unknown; i++) {
    double indices[MOST_INDICES] = {0}, step = 1;
    for (int k = 0; k < def->n_indices; k++) {
      if (!used[k]) continue;
      step /= root;
      double at = (i + 0.5) * step;
      indices[k] = floor((at - floor(at)) * sizes[k]);
    }
    hits += value_of(&s, reduce->args[1], indices) != 0;
  }
  if (!s.unknown) return (double)hits / SAMPLES;
  int64_t parts = parts_compared(p, reduce->args[1], 0);
  return parts > 0 ? 1 / (double)parts : 1;
}
