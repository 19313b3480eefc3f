#include "tuner/trial_shares.h"

const ir_expr *trial_value_behind(const ir_op *op, const ir_expr *e) {
  const ir_expr *value = e;
  int n = 0;
  if (e->node != IR_READ || op->tensors[e->id].role != IR_TEMPORARY) return e;
  for (int i = 0; i < op->n_definitions; i++) {
    if (op->definitions[i].tensor != e->id) continue;
    value = op->definitions[i].value;
    n++;
  }
  return n == 1 ? value : e;
}

/* A size or number; 0: neither. */
static int64_t constant(const ir_problem *p, const ir_expr *e) {
  return e->node == IR_SIZE ? p->sizes[e->id] : e->node == IR_INT ? e->integer : 0;
}

static bool is_integer_input(const ir_problem *p, int tensor, int rank) {
  dtype_class c = dtype_class_of(ir_tensor_dtype(p, tensor));
  return tensor < p->op->n_inputs && p->op->tensors[tensor].rank == rank &&
         (c == DTYPE_CLASS_INT || c == DTYPE_CLASS_UINT);
}

/* An input that is part of e's value with as many elements as the table has rows. */
static int lengths_in(const ir_problem *p, const ir_expr *e, const ir_dim *rows) {
  e = trial_value_behind(p->op, e);
  if (e->node == IR_REDUCE) return -1;
  if (e->node == IR_READ) {
    const ir_tensor *t = &p->op->tensors[e->id];
    bool lengths =
        is_integer_input(p, e->id, 1) && t->dims[0].axis == rows->axis && t->dims[0].more == rows->more;
    return lengths ? e->id : -1;
  }
  int found = -1;
  for (int i = 0; i < e->n_args && found < 0; i++) found = lengths_in(p, e->args[i], rows);
  return found;
}

/* "table[b,o / Z]" in e, where o depends on lengths of the table's rows. */
static bool find_table(const ir_problem *p, const ir_expr *e, trial_shares *s) {
  e = trial_value_behind(p->op, e);
  if (e->node == IR_REDUCE) return false;
  if (e->node == IR_READ && e->n_args >= 2 && is_integer_input(p, e->id, 2)) {
    const ir_dim *dims = p->op->tensors[e->id].dims;
    const ir_expr *at = trial_value_behind(p->op, e->args[1]);
    if (at->node != IR_OPERATOR || at->id != IR_OP_DIV) return false;
    *s = (trial_shares){.table = e->id,
                        .lengths = lengths_in(p, at->args[0], &dims[0]),
                        .rows = ir_dim_size(p, dims[0]),
                        .row = ir_dim_size(p, dims[1]),
                        .page = constant(p, at->args[1])};
    return s->lengths >= 0 && s->page > 0;
  }
  for (int i = 0; i < e->n_args; i++)
    if (find_table(p, e->args[i], s)) return true;
  return false;
}

bool trial_shares_find(const ir_problem *p, trial_shares *s) {
  for (int i = 0; i < p->op->n_definitions; i++) {
    const ir_definition *d = &p->op->definitions[i];
    const ir_tensor *t = &p->op->tensors[d->tensor];
    for (int k = 0; d->update == IR_ASSIGN && k < d->n_subscripts && k < t->rank; k++) {
      if (d->subscripts[k]->node == IR_INDEX || !find_table(p, d->subscripts[k], s)) continue;
      s->places = ir_dim_size(p, t->dims[k]);
      return s->row > 0 && s->places / s->row < s->rows;
    }
  }
  return false;
}

int64_t trial_share_of(const trial_shares *s, int64_t row) {
  int64_t share = s->places / s->rows + (row < s->places % s->rows ? 1 : 0);
  return share < s->row ? share : s->row;
}

int64_t trial_share_place(const trial_shares *s, int64_t row, int64_t element) {
  int64_t share = trial_share_of(s, row), each = s->places / s->rows, left = s->places % s->rows;
  return share == 0 ? element : row * each + (row < left ? row : left) + element % share;
}
