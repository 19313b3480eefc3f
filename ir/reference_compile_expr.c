/* Expressions as nodes of the evaluator: which index each depends on, whether it is an integer, and whether
 * it has a magnitude of its own. */
#include "ir/ir_types.h"
#include "ir/reference_compile.h"

/* Innermost reduction up to `scope` whose index occurs in e; inside gathers too, if asked. */
static int dependence(const ref_compiler *c, const ir_expr *e, int scope, bool gathers) {
  if (e->node == IR_INDEX) return c->level_of[e->id] <= scope ? c->level_of[e->id] : 0;
  if (e->node == IR_READ && !gathers) return 0;
  int deepest = 0;
  for (int i = 0; i < e->n_args; i++) {
    int d = dependence(c, e->args[i], scope, gathers);
    if (d > deepest) deepest = d;
  }
  return deepest;
}

static bool reads_inside(const ir_expr *e) {
  if (e->node == IR_READ) return true;
  for (int i = 0; i < e->n_args; i++)
    if (reads_inside(e->args[i])) return true;
  return false;
}

bool ref_finish(ref_compiler *c, ref_node *n) {
  arena *a = &c->s->arena;
  n->varying = n->scope > 0 && n->depends == n->scope;
  size_t lanes = n->varying ? REF_LANES : 1;
  n->v = ARENA_NEW_N(a, ref_lane, lanes);
  if (n->sums) n->m = ARENA_NEW_N(a, double, lanes);
  return n->v != NULL && (!n->sums || n->m != NULL);
}

static bool add_split(ref_compiler *c, ref_node *n) {
  if (n->varying) n->split = ARENA_NEW(&c->s->arena, ref_split);
  return !n->varying || n->split != NULL;
}

static ref_node *node_new(ref_compiler *c, ref_op op, const ir_expr *e, int scope, int n_args) {
  ref_node *n = ARENA_NEW(&c->s->arena, ref_node);
  if (n == NULL) return NULL;
  n->args = ARENA_NEW_N(&c->s->arena, ref_node *, (size_t)n_args);
  if (n->args == NULL) return NULL;
  n->op = op;
  n->source = e;
  n->scope = scope;
  n->depends = dependence(c, e, scope, true);
  n->outer = dependence(c, e, scope - 1, true);
  n->n_args = n_args;
  return n;
}

ref_node *ref_coerce(ref_compiler *c, ref_node *operand, ref_op conversion) {
  if (operand == NULL || (conversion == REF_TO_FLOAT && !operand->integer)) return operand;
  ref_node *n = node_new(c, conversion, operand->source, operand->scope, 1);
  if (n == NULL) return NULL;
  n->args[0] = operand;
  n->depends = operand->depends;
  n->outer = operand->outer;
  n->integer = conversion == REF_TRUTH;
  return ref_finish(c, n) ? n : NULL;
}

ref_node *ref_compile_as(ref_compiler *c, const ir_expr *e, int scope, bool wide, bool integer) {
  ref_node *n = ref_compile_expr(c, e, scope, wide);
  return integer ? n : ref_coerce(c, n, REF_TO_FLOAT);
}

static bool tensor_sums(const ref_compiler *c, int tensor) {
  const ir_op *op = c->s->p->op;
  for (int i = 0; i < op->n_definitions; i++) {
    const ref_definition *d = &c->s->definitions[i];
    if (d->value == NULL || (d->source->tensor != tensor && d->source->tensor2 != tensor)) continue;
    if (d->source->update == IR_ADD || d->value->sums) return true;
    if (d->value->op == REF_REDUCE && d->value->reduce->body->sums) return true;
  }
  return false;
}

static bool compile_read(ref_compiler *c, ref_node *n, const ir_expr *e, int scope) {
  ref_machine *s = c->s;
  const ir_op *op = s->p->op;
  ref_read *r = n->read = ARENA_NEW(&s->arena, ref_read);
  if (r == NULL) return false;
  r->tensor = e->id;
  r->rank = e->n_args - e->has_else;
  r->argument = op->tensors[e->id].role == IR_INPUT;
  r->type = ir_tensor_dtype(s->p, e->id);
  int64_t shape[LIMIT_RANK];
  int lead = ir_tensor_shape(s->p, e->id, shape) - r->rank;
  for (int i = 0; i < r->rank; i++) {
    const ir_expr *sub = e->args[i];
    r->size[i] = shape[lead + i];
    if (r->argument) r->stride[i] = s->tensors[e->id].strides[lead + i];
    r->gathered[i] = reads_inside(sub);
    int owner = dependence(c, sub, scope, false);
    if (owner > r->owner) r->owner = owner;
    r->subs[i] = ref_compile_expr(c, sub, scope, true);
    if (r->subs[i] == NULL) return false;
  }
  if (c->line >= 0 && r->owner == 1) r->owner = 0; /* lanes of a line belong to no reduction */
  r->linear = true;
  for (int i = 0; i < r->rank; i++) r->linear = r->linear && r->subs[i]->linear;
  if (e->has_else) {
    r->other = ref_compile_as(c, e->args[r->rank], scope, false, n->integer);
    if (r->other == NULL) return false;
    n->sums = r->other->sums;
  }
  if (!r->argument && !n->integer) n->sums = n->sums || tensor_sums(c, e->id);
  if (!r->argument && s->memos[e->id] == NULL) {
    int64_t elements = ir_tensor_elements(s->p, e->id);
    s->memo_size[e->id] = elements < REF_FEW ? REF_FEW : elements < REF_MEMO ? elements : REF_MEMO;
    if (elements == INT64_MAX) s->memo_size[e->id] = 0; /* its elements' numbers are not unique */
    s->memos[e->id] = ARENA_NEW_N(&s->arena, ref_memo, (size_t)s->memo_size[e->id]);
    if (s->memos[e->id] == NULL) return false;
  }
  if (!ref_finish(c, n)) return false;
  bool along = n->varying && r->rank > 0 && r->subs[r->rank - 1]->varying && r->subs[r->rank - 1]->linear;
  if (!r->argument && along) s->line_wanted[e->id] = true;
  r->offsets = ARENA_NEW_N(&s->arena, int64_t, n->varying ? REF_LANES : 1);
  return r->offsets != NULL && add_split(c, n);
}

static bool is_linear(const ref_node *n) {
  if (!n->varying) return true;
  if (n->op == REF_INDEX) return true;
  if (n->op != REF_ARITHMETIC || !n->integer) return false;
  for (int i = 0; i < n->n_args; i++)
    if (!n->args[i]->linear) return false;
  return n->id == IR_OP_ADD || n->id == IR_OP_SUB || n->id == IR_OP_NEG ||
         (n->id == IR_OP_MUL && (!n->args[0]->varying || !n->args[1]->varying));
}

/* Whether e is one of the products that a sum's term consists of. Their roundings are no more than the sum's
 * own, so that the term's absolute value does for its magnitude, which is the faster way; elsewhere a product
 * is rounded before a function may magnify that, as a sine does at a large angle. */
static bool is_in_term(const ir_expr *term, const ir_expr *e) {
  if (term == NULL || term == e) return term == e;
  if (term->node != IR_OPERATOR || (term->id != IR_OP_MUL && term->id != IR_OP_DIV)) return false;
  return is_in_term(term->args[0], e) || is_in_term(term->args[1], e);
}

static bool compile_operator(ref_compiler *c, ref_node *n, const ir_expr *e, int scope, bool wide) {
  ir_operator id = (ir_operator)e->id;
  bool logical = id == IR_OP_AND || id == IR_OP_OR || id == IR_OP_NOT;
  ir_level operands = LEVEL_WEAK;
  for (int i = 0; i < e->n_args; i++) {
    ir_level l = ir_expr_level(c->s->p, e->args[i]);
    if (l > operands) operands = l;
  }
  bool integers = id == IR_OP_SELECT ? n->integer : operands < LEVEL_F32;
  for (int i = 0; i < e->n_args; i++) {
    bool truth = logical || (id == IR_OP_SELECT && i == 0);
    n->args[i] = ref_compile_as(c, e->args[i], scope, wide, truth || integers);
    if (truth && n->args[i] != NULL) n->args[i] = ref_coerce(c, n->args[i], REF_TRUTH);
    if (n->args[i] == NULL) return false;
  }
  bool some = false;
  for (int i = 0; i < e->n_args; i++) some = some || n->args[i]->sums;
  n->op = id == IR_OP_NOT ? REF_NOT : id == IR_OP_SELECT || logical ? REF_CHOICE : REF_ARITHMETIC;
  bool rounds = (id == IR_OP_MUL || id == IR_OP_DIV) && !is_in_term(c->term, e);
  n->sums = !n->integer && (id == IR_OP_ADD || id == IR_OP_SUB || rounds || (some && id != IR_OP_MOD));
  return ref_finish(c, n) && (n->op != REF_CHOICE || add_split(c, n));
}

/* where(c, a, b) is c ? a : b. */
static bool compile_where(ref_compiler *c, ref_node *n, const ir_expr *e, int scope) {
  ir_expr select = *e;
  select.node = IR_OPERATOR;
  select.id = IR_OP_SELECT;
  n->id = IR_OP_SELECT;
  return compile_operator(c, n, &select, scope, false);
}

static bool compile_call(ref_compiler *c, ref_node *n, const ir_expr *e, int scope) {
  bool some = e->id == IR_FN_FMA || !is_in_term(c->term, e);
  for (int i = 0; i < e->n_args; i++) {
    n->args[i] = ref_compile_as(c, e->args[i], scope, false, false);
    if (n->args[i] == NULL) return false;
    some = some || n->args[i]->sums;
  }
  n->sums = some && !n->integer;
  n->doubles = ir_expr_level(c->s->p, e) == LEVEL_F64;
  return ref_finish(c, n);
}

static bool compile_node(ref_compiler *c, ref_node *n, const ir_expr *e, int scope, bool wide) {
  switch (e->node) {
  case IR_FLOAT:
  case IR_INT:
  case IR_SIZE:
  case IR_ATTR:
    if (!ref_finish(c, n)) return false;
    if (e->node == IR_FLOAT)
      n->v[0].f = e->number;
    else if (e->node == IR_INT)
      n->v[0].i = e->integer;
    else if (e->node == IR_SIZE)
      n->v[0].i = c->s->p->sizes[e->id];
    else if (n->integer)
      n->v[0].i = (int64_t)c->s->p->attrs[e->id];
    else
      n->v[0].f = c->s->p->attrs[e->id];
    return true;
  case IR_INDEX: return ref_finish(c, n);
  case IR_READ: return compile_read(c, n, e, scope);
  case IR_CALL: return e->id == IR_FN_WHERE ? compile_where(c, n, e, scope) : compile_call(c, n, e, scope);
  case IR_OPERATOR: return compile_operator(c, n, e, scope, wide);
  case IR_REDUCE: return ref_compile_reduce(c, n, e, scope);
  case IR_CAST:
    n->id = (int)ir_cast_dtype(c->s->p, e);
    n->args[0] = ref_compile_expr(c, e->args[0], scope, wide);
    if (n->args[0] == NULL) return false;
    n->sums = n->args[0]->sums && !n->integer;
    c->s->casts_inside = c->s->casts_inside || ref_is_narrow_cast(n);
    return ref_finish(c, n);
  }
  return false;
}

ref_node *ref_compile_expr(ref_compiler *c, const ir_expr *e, int scope, bool wide) {
  static const ref_op OPS[] = {
      [IR_FLOAT] = REF_CONSTANT, [IR_INT] = REF_CONSTANT,        [IR_INDEX] = REF_INDEX,
      [IR_SIZE] = REF_CONSTANT,  [IR_ATTR] = REF_CONSTANT,       [IR_READ] = REF_READ,
      [IR_CALL] = REF_CALL,      [IR_OPERATOR] = REF_ARITHMETIC, [IR_REDUCE] = REF_REDUCE,
      [IR_CAST] = REF_CAST};
  ref_node *n =
      node_new(c, OPS[e->node], e, scope, e->node == IR_REDUCE || e->node == IR_READ ? 0 : e->n_args);
  if (n == NULL) return NULL;
  ir_level level = ir_expr_level(c->s->p, e);
  n->id = e->id;
  n->integer = level < LEVEL_F32;
  n->wraps = level == LEVEL_I32 && !wide;
  if (!compile_node(c, n, e, scope, wide)) return NULL;
  n->linear = is_linear(n);
  return n;
}
