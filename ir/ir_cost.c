/* Counts that follow from the definitions: operations, bytes, reduction lengths. */
#include <math.h>

#include "ir/ir_bounds.h"
#include "ir/ir_share.h"
#include "ir/ir_types.h"

enum { MOST_INDICES = 32 };

typedef struct counter {
  const ir_problem *p;
  const ir_definition *def;
  double sizes[MOST_INDICES]; /* values of each index */
} counter;

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
  double size = (double)ir_dim_size(least->p, least->p->op->tensors[b->tensor].dims[b->dim]);
  if (size < least->size) least->size = size;
  return true;
}

/* How many values an index takes: its axis, or for one that never stands alone the smallest dimension it
 * moves through; an index limited by its condition alone counts once. */
static double index_size(const counter *c, const ir_index *x, const ir_expr *reduce) {
  if (x->ranged) return (double)ir_dim_size(c->p, x->range);
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

static void note_sizes(counter *c, const ir_expr *e) {
  for (int i = 0; i < e->n_args; i++) note_sizes(c, e->args[i]);
  if (e->node == IR_REDUCE && e->index < MOST_INDICES)
    c->sizes[e->index] = index_size(c, &c->def->indices[e->index], e);
}

static counter counter_of(const ir_problem *p, const ir_definition *def) {
  counter c = {.p = p, .def = def};
  for (int i = 0; i < def->n_indices && i < MOST_INDICES; i++)
    c.sizes[i] = index_size(&c, &def->indices[i], NULL);
  note_sizes(&c, def->value);
  return c;
}

static double share_of(const counter *c, const ir_expr *reduce) {
  return c->def->n_indices > MOST_INDICES ? 1 : ir_condition_share(c->p, c->def, reduce, c->sizes);
}

static bool depends(const ir_expr *e, int index) {
  if (e->node == IR_INDEX) return e->id == index;
  if (e->node == IR_REDUCE && e->index == index) return false; /* it is bound there */
  for (int i = 0; i < e->n_args; i++)
    if (depends(e->args[i], index)) return true;
  return false;
}

/* What share of its own values a reduction's body is computed for. A condition over indices that the body has
 * not (h / 4 == g of a sum of heads) leaves none out: each value is let through for some of those. */
static double body_share(const counter *c, const ir_expr *reduce) {
  if (reduce->n_args < 2) return 1;
  for (int i = 0; i < c->def->n_indices; i++)
    if (i != reduce->index && depends(reduce->args[1], i) && !depends(reduce->args[0], i)) return 1;
  return share_of(c, reduce);
}

/* What share of a temporary's elements are needed at all: notes in `shares` that of each tensor read by e, of
 * which `share` is needed. */
static void note_shares(const counter *c, const ir_expr *e, double share, double *shares) {
  if (e->node == IR_READ) shares[e->id] = fmax(shares[e->id], share);
  if (e->node == IR_REDUCE) share *= body_share(c, e);
  /* The condition itself is needed everywhere. */
  for (int i = 0; i < e->n_args; i++)
    note_shares(c, e->args[i], e->node == IR_REDUCE && i == 1 ? 1 : share, shares);
}

/* Values that e is computed for: those of the indices it depends on, not of the others around it. */
static double values_of(const counter *c, const ir_expr *e) {
  double n = 1;
  for (int i = 0; i < c->def->n_indices && i < MOST_INDICES; i++)
    if (depends(e, i)) n *= c->sizes[i];
  return n;
}

/* Additions of a reduction. Where a condition on indices alone says which terms an element has (t <= j), a
 * term that is the same for several elements is added once: each of their sums goes on from another's. */
static double additions(const counter *c, const ir_expr *reduce, double share) {
  const ir_expr *term = reduce->args[0];
  double all = values_of(c, reduce) * c->sizes[reduce->index] * share * share_of(c, reduce);
  if (reduce->n_args < 2 || has_data(reduce->args[1])) return all;
  double terms = values_of(c, term) * (depends(term, reduce->index) ? 1 : c->sizes[reduce->index]) * share;
  return fmin(all, terms);
}

/* Over all indices. `reduce` is the reduction just around e, whose condition lets `share` of its values
 * through (and of those around that). */
static double operations(const counter *c, const ir_expr *e, double share, const ir_expr *reduce) {
  double n = 0, own = 0;
  if (e->node == IR_READ) return e->has_else ? operations(c, e->args[e->n_args - 1], share, reduce) : 0;
  if (reduce != NULL && !depends(e, reduce->index)) {
    share = 1;
    reduce = NULL;
  }
  if (e->node == IR_REDUCE) {
    double inner = share * body_share(c, e);
    for (int i = 0; i < e->n_args; i++) n += operations(c, e->args[i], i == 0 ? inner : share, e);
    /* A sum of sums adds each term once. */
    if (e->args[0]->node == IR_REDUCE && e->args[0]->id == e->id) return n;
    return n + additions(c, e, share);
  }
  for (int i = 0; i < e->n_args; i++) n += operations(c, e->args[i], share, reduce);
  if ((e->node == IR_OPERATOR || e->node == IR_CALL) && has_data(e))
    own = e->node == IR_CALL && e->id == IR_FN_FMA ? 2 : 1;
  return n + own * values_of(c, e) * share;
}

/* Elements the left side covers. */
static double left_size(const counter *c) {
  double n = c->p->op->tensors[c->def->tensor].any_rank ? lead_size(c->p) : 1;
  for (int i = 0; i < c->def->n_indices; i++)
    if (!c->def->indices[i].reduced) n *= index_size(c, &c->def->indices[i], NULL);
  return n;
}

double ir_flops(const ir_problem *p) {
  double total = 0, shares[4 * LIMIT_TENSORS] = {0};
  for (int i = p->op->n_definitions - 1; i >= 0; i--) {
    counter c = counter_of(p, &p->op->definitions[i]);
    bool temporary = p->op->tensors[c.def->tensor].role == IR_TEMPORARY;
    double share = temporary ? shares[c.def->tensor] : 1;
    note_shares(&c, c.def->value, share, shares);
    for (int s = 0; s < c.def->n_subscripts; s++) note_shares(&c, c.def->subscripts[s], 1, shares);
    double lead = p->op->tensors[c.def->tensor].any_rank ? lead_size(p) : 1;
    total += operations(&c, c.def->value, share, NULL) * lead;
    if (c.def->update != IR_ASSIGN) total += left_size(&c);
  }
  return total;
}

static int subscripts_using(const ir_expr *read, int index) {
  int n = 0;
  for (int i = 0; i < read->n_args - read->has_else; i++) n += ir_expr_uses(read->args[i], index);
  return n;
}

/* Different values of a subscript whose indices stand in no other subscript: no more than the dimension has
 * elements, "h / (H / G)" no more than G. The others' indices count in the first subscript that has them. */
static double values_of_subscript(const counter *c, const ir_expr *read, int sub) {
  double n = 1;
  bool alone = true;
  for (int x = 0; x < c->def->n_indices; x++) {
    if (!ir_expr_uses(read->args[sub], x)) continue;
    bool first = true;
    for (int i = 0; i < sub; i++) first = first && !ir_expr_uses(read->args[i], x);
    if (first) n *= index_size(c, &c->def->indices[x], NULL);
    alone = alone && subscripts_using(read, x) == 1;
  }
  double size = (double)ir_dim_size(c->p, c->p->op->tensors[read->id].dims[sub]);
  return alone && size < n ? size : n;
}

/* Elements of `tensor` that e reads, at most: the number of different values its subscripts can have. */
static double elements_read(const counter *c, const ir_expr *e, int tensor) {
  double n = 0;
  for (int i = 0; i < e->n_args; i++) n += elements_read(c, e->args[i], tensor);
  if (e->node != IR_READ || e->id != tensor) return n;
  double here = c->p->op->tensors[tensor].any_rank ? lead_size(c->p) : 1;
  for (int i = 0; i < e->n_args - e->has_else; i++) here *= values_of_subscript(c, e, i);
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
      counter c = {.p = p, .def = &op->definitions[i]};
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
    counter c = {.p = p, .def = &p->op->definitions[i]};
    double n = longest(&c, c.def->value, behind);
    behind[c.def->tensor] = fmax(behind[c.def->tensor], n);
    if (c.def->tensor2 >= 0) behind[c.def->tensor2] = behind[c.def->tensor];
  }
  double n = fmax(behind[output], 1);
  return n >= 0x1p62 ? 1ll << 62 : (int64_t)n;
}

double ir_argument_elements(const ir_problem *p) {
  double n = 0;
  for (int i = 0; i < p->op->n_args; i++) n += (double)ir_tensor_elements(p, i);
  return n;
}
