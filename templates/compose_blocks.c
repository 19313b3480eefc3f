/* An axis whose index is compared with another one, of which it is a small multiple here, as so many blocks
 * of that: d < F and d >= 2 * F over D, where D is 4 * F. A stage that has 4 * F in D's place is one that
 * maps take apart (ir_form_split): the choice is made for whole blocks, not for each element, and what two
 * blocks have in common, as the halves of a rotation do, is loaded once. */
#include <string.h>

#include "templates/compose_split.h"

#define STAGE "generate"

enum { MOST_BLOCKS = 8 };

typedef struct search {
  const ir_problem *p;
  const ir_definition *d;
  int axis, part; /* found; -1: not yet */
} search;

/* --- which axes --- */

static bool is_decided_by_blocks(const ir_expr *e) {
  return e->node == IR_OPERATOR && e->n_args == 2 &&
         ((e->id >= IR_OP_LT && e->id <= IR_OP_NE) || e->id == IR_OP_DIV || e->id == IR_OP_MOD);
}

/* The one axis (of sizes) or index that an expression mentions; -1: none, -2: several. */
static int only_one(const ir_expr *e, ir_node node) {
  int found = e->node == node ? e->id : -1;
  for (int i = 0; i < e->n_args; i++) {
    int of = only_one(e->args[i], node);
    if (of == -1) continue;
    found = found == -1 || found == of ? of : -2;
  }
  return found;
}

static void look(search *s, const ir_expr *e) {
  for (int i = 0; i < e->n_args; i++) look(s, e->args[i]);
  if (s->axis >= 0 || !is_decided_by_blocks(e)) return;
  int part = only_one(e, IR_SIZE), slot = only_one(e, IR_INDEX);
  if (part < 0 || slot < 0) return;
  const ir_index *index = &s->d->indices[slot];
  if (!index->ranged || index->reduced || !ir_dim_is_axis(index->range) || index->range.axis == part) return;
  int64_t whole = s->p->sizes[index->range.axis], size = s->p->sizes[part];
  if (size < 1 || whole % size || whole / size < 2 || whole / size > MOST_BLOCKS) return;
  s->axis = index->range.axis;
  s->part = part;
}

/* Reductions along the axis may keep it as it is, and dimensions of two axes do. */
static bool stays(const ir_op *op, const bool *definitions, bool reduced, int axis) {
  for (int i = 0; i < op->n_definitions && !reduced; i++) {
    const ir_definition *d = &op->definitions[i];
    for (int k = 0; definitions[i] && k < d->n_indices; k++)
      if (d->indices[k].reduced && d->indices[k].range.axis == axis) return true;
  }
  for (int t = 0; t < op->n_tensors; t++)
    for (int k = 0; k < op->tensors[t].rank; k++)
      if (op->tensors[t].dims[k].by == axis) return true;
  return false;
}

/* --- the operator --- */

typedef struct rewriter {
  arena *a;
  int axis, part;
  int64_t times;
} rewriter;

static ir_dim in_blocks(ir_dim d, const rewriter *block) {
  if (d.axis != block->axis) return d;
  d.axis = block->part;
  d.factor *= block->times;
  return d;
}

static ir_expr *leaf(arena *a, const ir_expr *like, ir_node node, int id, int64_t integer) {
  ir_expr *e = ARENA_NEW(a, ir_expr);
  if (e) *e = (ir_expr){.node = node, .id = id, .integer = integer, .depth = 1, .line = like->line};
  return e;
}

static ir_expr *product(const rewriter *block, const ir_expr *like) {
  ir_expr *e = leaf(block->a, like, IR_OPERATOR, IR_OP_MUL, 0);
  ir_expr **args = ARENA_NEW_N(block->a, ir_expr *, 2);
  if (!e || !args) return NULL;
  args[0] = leaf(block->a, like, IR_INT, 0, block->times);
  args[1] = leaf(block->a, like, IR_SIZE, block->part, 0);
  e->args = args;
  e->n_args = 2;
  e->depth = 2;
  return args[0] && args[1] ? e : NULL;
}

/* NULL: out of memory. */
static ir_expr *rewritten(const rewriter *block, const ir_expr *e) {
  if (e->node == IR_SIZE && e->id == block->axis) return product(block, e);
  ir_expr *copy = ARENA_NEW(block->a, ir_expr);
  if (!copy) return NULL;
  *copy = *e;
  if (e->n_args == 0) return copy;
  copy->args = ARENA_NEW_N(block->a, ir_expr *, (size_t)e->n_args);
  for (int i = 0; copy->args && i < e->n_args; i++) {
    copy->args[i] = rewritten(block, e->args[i]);
    if (!copy->args[i]) return NULL;
  }
  return copy->args ? copy : NULL;
}

static bool rewrite_definition(const rewriter *block, const ir_definition *from, ir_definition *to) {
  *to = *from;
  to->value = rewritten(block, from->value);
  to->subscripts = ARENA_NEW_N(block->a, ir_expr *, (size_t)from->n_subscripts + 1);
  to->indices = ARENA_NEW_N(block->a, ir_index, (size_t)from->n_indices + 1);
  if (!to->value || !to->subscripts || !to->indices) return false;
  for (int i = 0; i < from->n_subscripts; i++) {
    to->subscripts[i] = rewritten(block, from->subscripts[i]);
    if (!to->subscripts[i]) return false;
  }
  for (int i = 0; i < from->n_indices; i++) {
    to->indices[i] = from->indices[i];
    to->indices[i].range = in_blocks(from->indices[i].range, block);
    if (from->indices[i].axis == block->axis) to->indices[i].axis = -1;
  }
  return true;
}

static const ir_op *rewrite(const rewriter *block, const ir_op *op) {
  ir_op *to = ARENA_NEW(block->a, ir_op);
  ir_tensor *tensors = ARENA_NEW_N(block->a, ir_tensor, (size_t)op->n_tensors + 1);
  ir_definition *definitions = ARENA_NEW_N(block->a, ir_definition, (size_t)op->n_definitions + 1);
  if (!to || !tensors || !definitions) return NULL;
  *to = *op;
  to->tensors = tensors;
  to->definitions = definitions;
  for (int t = 0; t < op->n_tensors; t++) {
    tensors[t] = op->tensors[t];
    for (int k = 0; k < tensors[t].rank; k++) tensors[t].dims[k] = in_blocks(tensors[t].dims[k], block);
  }
  for (int i = 0; i < op->n_definitions; i++)
    if (!rewrite_definition(block, &op->definitions[i], &definitions[i])) return NULL;
  return to;
}

arke_status compose_in_blocks(const ir_problem *p, const bool *definitions, bool reduced, arena *a,
                              compose_block *block, const ir_op **op, arke_error *err) {
  search s = {.p = p, .axis = -1};
  *block = (compose_block){.times = 0};
  *op = p->op;
  for (int i = 0; i < p->op->n_definitions; i++) {
    s.d = &p->op->definitions[i];
    if (definitions[i]) look(&s, s.d->value);
  }
  if (s.axis < 0 || stays(p->op, definitions, reduced, s.axis)) return ARKE_OK;
  rewriter r = {a, s.axis, s.part, p->sizes[s.axis] / p->sizes[s.part]};
  *block = (compose_block){p->op->axes[s.axis], p->op->axes[s.part], r.times};
  *op = rewrite(&r, p->op);
  return *op ? ARKE_OK : error_memory(err, STAGE);
}

arke_status compose_require_blocks(const compose_block *block, arena *a, kernel_way *way, arke_error *err) {
  if (block->times == 0) return ARKE_OK;
  recipe *rules = ARENA_NEW(a, recipe);
  if (!rules) return error_memory(err, STAGE);
  *rules = *way->rules;
  way->rules = rules;
  const recipe_expr *blocks =
      recipe_binary(a, RECIPE_MUL, recipe_const(a, block->times), recipe_var(a, block->part));
  kernel_require_equal(rules, a, recipe_binary(a, RECIPE_SUB, recipe_var(a, block->axis), blocks), 0,
                       arena_printf(a, "the kernel is made for %s of %lld times %s", block->axis,
                                    (long long)block->times, block->part));
  return ARKE_OK;
}

static int number_of(const ir_op *op, const char *axis) {
  for (int i = 0; i < op->n_axes; i++)
    if (strcmp(op->axes[i], axis) == 0) return i;
  return -1;
}

bool compose_block_axes(const compose_block *block, const ir_op *op, int *axis, int *part) {
  if (block->times == 0) return false;
  *axis = number_of(op, block->axis);
  *part = number_of(op, block->part);
  return *axis >= 0 && *part >= 0;
}
