#include "tuner/trial_ends.h"

#include <math.h>

#include "base/random.h"

/* Rows of a condition "ends[e] <= r" or "r >= ends[e]". */
static int64_t rows_of(const ir_problem *p, const ir_definition *d, const ir_expr *c, int tensor) {
  if (c->node != IR_OPERATOR || (c->id != IR_OP_LE && c->id != IR_OP_GE)) return -1;
  const ir_expr *end = c->args[c->id == IR_OP_LE ? 0 : 1], *row = c->args[c->id == IR_OP_LE ? 1 : 0];
  if (end->node != IR_READ || end->id != tensor || row->node != IR_INDEX || !d->indices[row->id].ranged)
    return -1;
  ir_dim range = d->indices[row->id].range;
  return range.factor * (range.axis < 0 ? 1 : p->sizes[range.axis]);
}

static int64_t rows_in(const ir_problem *p, const ir_definition *d, const ir_expr *e, int tensor) {
  bool counts = e->node == IR_REDUCE && e->id == IR_RED_SUM && e->n_args == 2 && e->args[0]->node == IR_INT;
  int64_t rows = counts ? rows_of(p, d, e->args[1], tensor) : -1;
  for (int i = 0; i < e->n_args && rows < 0; i++) rows = rows_in(p, d, e->args[i], tensor);
  return rows;
}

int64_t trial_ends_rows(const ir_problem *p, int tensor) {
  dtype t = ir_tensor_dtype(p, tensor);
  int64_t rows = -1;
  for (int i = 0; i < p->op->n_definitions && rows < 0 && (t == DTYPE_I32 || t == DTYPE_I64); i++)
    rows = rows_in(p, &p->op->definitions[i], p->op->definitions[i].value, tensor);
  return rows;
}

/* Of a group: a chance beside that of others. */
static double chance(uint64_t seed, int64_t group) {
  return -log(1 - random_uniform(seed, (uint64_t)group));
}

void trial_ends_fill(dtype t, void *data, int64_t elements, int64_t rows, uint64_t seed) {
  double total = 0, sum = 0;
  for (int64_t i = 0; i < elements; i++) total += chance(seed, i);
  for (int64_t i = 0; i < elements; i++) {
    sum += chance(seed, i);
    double end = i + 1 == elements || total == 0 ? (double)rows : floor(sum / total * (double)rows);
    dtype_store(t, data, i, fmin(end, (double)rows));
  }
}
