#include "ir/ir_bounds.h"
#include "ir/ir_functions.h"
#include "ir/ir_types.h"
#include "ir/reference.h"

typedef struct compiler {
  ref_machine *s;
  const ir_definition *def;
  int *level_of;       /* by index: the reduction that introduces it, 0 for the left side's */
  const ir_expr *term; /* the innermost sum's body */
  int deepest;
  int line; /* the left index that is the lanes of the outermost scope; -1: none */
} compiler;

static ref_node *compile(compiler *c, const ir_expr *e, int scope, bool wide);

/* Innermost reduction up to `scope` whose index occurs in e; inside gathers too, if asked. */
static int dependence(const compiler *c, const ir_expr *e, int scope, bool gathers) {
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

static bool finish(compiler *c, ref_node *n) {
  arena *a = &c->s->arena;
  n->varying = n->scope > 0 && n->depends == n->scope;
  size_t lanes = n->varying ? REF_LANES : 1;
  n->v = ARENA_NEW_N(a, ref_lane, lanes);
  if (n->sums) n->m = ARENA_NEW_N(a, double, lanes);
  return n->v != NULL && (!n->sums || n->m != NULL);
}

static bool add_split(compiler *c, ref_node *n) {
  if (n->varying) n->split = ARENA_NEW(&c->s->arena, ref_split);
  return !n->varying || n->split != NULL;
}

static ref_node *node_new(compiler *c, ref_op op, const ir_expr *e, int scope, int n_args) {
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

/* The operand, converted if the operation works on the other kind of number. */
static ref_node *coerce(compiler *c, ref_node *operand, ref_op conversion) {
  if (operand == NULL || (conversion == REF_TO_FLOAT && !operand->integer)) return operand;
  ref_node *n = node_new(c, conversion, operand->source, operand->scope, 1);
  if (n == NULL) return NULL;
  n->args[0] = operand;
  n->depends = operand->depends;
  n->outer = operand->outer;
  n->integer = conversion == REF_TRUTH;
  return finish(c, n) ? n : NULL;
}

static ref_node *compile_as(compiler *c, const ir_expr *e, int scope, bool wide, bool integer) {
  ref_node *n = compile(c, e, scope, wide);
  return integer ? n : coerce(c, n, REF_TO_FLOAT);
}

static bool tensor_sums(const compiler *c, int tensor) {
  const ir_op *op = c->s->p->op;
  for (int i = 0; i < op->n_definitions; i++) {
    const ref_definition *d = &c->s->definitions[i];
    if (d->value == NULL || (d->source->tensor != tensor && d->source->tensor2 != tensor)) continue;
    if (d->source->update == IR_ADD || d->value->sums) return true;
    if (d->value->op == REF_REDUCE && d->value->reduce->body->sums) return true;
  }
  return false;
}

static bool compile_read(compiler *c, ref_node *n, const ir_expr *e, int scope) {
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
    r->subs[i] = compile(c, sub, scope, true);
    if (r->subs[i] == NULL) return false;
  }
  if (c->line >= 0 && r->owner == 1) r->owner = 0; /* lanes of a line belong to no reduction */
  r->linear = true;
  for (int i = 0; i < r->rank; i++) r->linear = r->linear && r->subs[i]->linear;
  if (e->has_else) {
    r->other = compile_as(c, e->args[r->rank], scope, false, n->integer);
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
  if (!finish(c, n)) return false;
  bool along = n->varying && r->rank > 0 && r->subs[r->rank - 1]->varying && r->subs[r->rank - 1]->linear;
  if (!r->argument && along) s->line_wanted[e->id] = true;
  r->offsets = ARENA_NEW_N(&s->arena, int64_t, n->varying ? REF_LANES : 1);
  return r->offsets != NULL && add_split(c, n);
}

typedef struct bound_list {
  compiler *c;
  ref_reduce *reduce;
  int scope, capacity;
  bool failed;
} bound_list;

static bool count_bound(const ir_bound *b, void *user) {
  (void)b;
  ((bound_list *)user)->capacity++;
  return true;
}

static bool compile_bound(const ir_bound *b, void *user) {
  bound_list *list = user;
  compiler *c = list->c;
  ref_bound *out = &list->reduce->bounds[list->reduce->n_bounds];
  *out = (ref_bound){.relation = b->relation};
  if (ir_expr_level(c->s->p, b->sub) >= LEVEL_F32) return true;
  out->sub = compile(c, b->sub, list->scope, true);
  if (b->tensor >= 0) {
    int64_t shape[LIMIT_RANK];
    int lead = ir_tensor_shape(c->s->p, b->tensor, shape) - c->s->p->op->tensors[b->tensor].rank;
    out->size = shape[lead + b->dim];
  } else {
    if (ir_expr_level(c->s->p, b->other) >= LEVEL_F32) return true; /* the condition itself still filters */
    out->other = compile(c, b->other, list->scope, true);
  }
  list->failed = out->sub == NULL || (b->tensor < 0 && out->other == NULL);
  if (!list->failed) list->reduce->n_bounds++;
  return !list->failed;
}

static ref_lane over_nothing(ir_reduction r, ir_level level) {
  bool floats = level >= LEVEL_F32;
  switch (r) {
  case IR_RED_PROD: return floats ? (ref_lane){.f = 1} : (ref_lane){.i = 1};
  case IR_RED_ALL: return (ref_lane){.i = 1};
  case IR_RED_ARGMAX:
  case IR_RED_ARGMIN: return (ref_lane){.i = -1};
  case IR_RED_MAX:
    if (floats) return (ref_lane){.f = -INFINITY};
    return (ref_lane){.i = level == LEVEL_BOOL ? 0 : level == LEVEL_I32 ? INT32_MIN : INT64_MIN};
  case IR_RED_MIN:
    if (floats) return (ref_lane){.f = INFINITY};
    return (ref_lane){.i = level == LEVEL_BOOL ? 1 : level == LEVEL_I32 ? INT32_MAX : INT64_MAX};
  default: return floats ? (ref_lane){.f = 0} : (ref_lane){.i = 0};
  }
}

static bool is_narrow_cast(const ref_node *n) {
  return n->op == REF_CAST && n->sums && dtype_roundoff((dtype)n->id) > 0x1p-24;
}

/* Whether anything is cast in what a node or, behind it, a temporary is computed from. */
static bool has_casts(const compiler *c, const ref_node *n) {
  if (is_narrow_cast(n)) return true;
  for (int i = 0; n->op == REF_READ && !n->read->argument && i < c->s->p->op->n_definitions; i++) {
    const ref_definition *d = &c->s->definitions[i];
    bool writes =
        d->value != NULL && (d->source->tensor == n->read->tensor || d->source->tensor2 == n->read->tensor);
    if (writes && has_casts(c, d->value)) return true;
  }
  for (int i = 0; i < n->n_args && n->args[i] != NULL; i++)
    if (has_casts(c, n->args[i])) return true;
  return n->op == REF_REDUCE && has_casts(c, n->reduce->body);
}

/* Whether all that is cast varies with the index of this scope. */
static bool casts_vary(const compiler *c, const ref_node *n, int scope) {
  if (is_narrow_cast(n) || n->op == REF_READ) return n->depends == scope || !has_casts(c, n);
  for (int i = 0; i < n->n_args && n->args[i] != NULL; i++)
    if (!casts_vary(c, n->args[i], scope)) return false;
  return n->op != REF_REDUCE || casts_vary(c, n->reduce->body, scope);
}

static bool compile_reduce(compiler *c, ref_node *n, const ir_expr *e, int scope) {
  ref_reduce *r = n->reduce = ARENA_NEW(&c->s->arena, ref_reduce);
  if (r == NULL) return false;
  r->reduction = (ir_reduction)e->id;
  r->nothing = over_nothing(r->reduction, ir_expr_level(c->s->p, e));
  r->slot = e->index;
  int inside = scope + 1;
  c->level_of[e->index] = inside;
  if (inside > c->deepest) c->deepest = inside;
  bool truth = e->id == IR_RED_ANY || e->id == IR_RED_ALL;
  const ir_expr *outer = c->term;
  c->term = e->id == IR_RED_SUM ? e->args[0] : NULL;
  r->body = compile_as(c, e->args[0], inside, false,
                       n->integer || truth || e->id == IR_RED_ARGMAX || e->id == IR_RED_ARGMIN);
  c->term = outer;
  if (truth) r->body = r->body == NULL ? NULL : coerce(c, r->body, REF_TRUTH);
  if (r->body == NULL) return false;
  r->casts_apart = e->id == IR_RED_SUM && r->body->varying && casts_vary(c, r->body, inside);
  if (e->n_args == 2) {
    r->condition = compile(c, e->args[1], inside, false);
    r->condition = r->condition == NULL ? NULL : coerce(c, r->condition, REF_TRUTH);
    if (r->condition == NULL) return false;
  }
  bound_list list = {c, r, inside, 0, false};
  ir_bounds_visit(e, count_bound, &list);
  r->bounds = ARENA_NEW_N(&c->s->arena, ref_bound, (size_t)list.capacity);
  if (r->bounds == NULL) return false;
  ir_bounds_visit(e, compile_bound, &list);
  bool picks = e->id == IR_RED_MAX || e->id == IR_RED_MIN || e->id == IR_RED_PROD;
  n->sums = !n->integer && (e->id == IR_RED_SUM || (picks && r->body->sums));
  return !list.failed && finish(c, n);
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

static bool compile_operator(compiler *c, ref_node *n, const ir_expr *e, int scope, bool wide) {
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
    n->args[i] = compile_as(c, e->args[i], scope, wide, truth || integers);
    if (truth && n->args[i] != NULL) n->args[i] = coerce(c, n->args[i], REF_TRUTH);
    if (n->args[i] == NULL) return false;
  }
  bool some = false;
  for (int i = 0; i < e->n_args; i++) some = some || n->args[i]->sums;
  n->op = id == IR_OP_NOT ? REF_NOT : id == IR_OP_SELECT || logical ? REF_CHOICE : REF_ARITHMETIC;
  bool rounds = (id == IR_OP_MUL || id == IR_OP_DIV) && !is_in_term(c->term, e);
  n->sums = !n->integer && (id == IR_OP_ADD || id == IR_OP_SUB || rounds || (some && id != IR_OP_MOD));
  return finish(c, n) && (n->op != REF_CHOICE || add_split(c, n));
}

/* where(c, a, b) is c ? a : b. */
static bool compile_where(compiler *c, ref_node *n, const ir_expr *e, int scope) {
  ir_expr select = *e;
  select.node = IR_OPERATOR;
  select.id = IR_OP_SELECT;
  n->id = IR_OP_SELECT;
  return compile_operator(c, n, &select, scope, false);
}

static bool compile_call(compiler *c, ref_node *n, const ir_expr *e, int scope) {
  bool some = e->id == IR_FN_FMA || !is_in_term(c->term, e);
  for (int i = 0; i < e->n_args; i++) {
    n->args[i] = compile_as(c, e->args[i], scope, false, false);
    if (n->args[i] == NULL) return false;
    some = some || n->args[i]->sums;
  }
  n->sums = some && !n->integer;
  n->doubles = ir_expr_level(c->s->p, e) == LEVEL_F64;
  return finish(c, n);
}

static bool compile_node(compiler *c, ref_node *n, const ir_expr *e, int scope, bool wide) {
  switch (e->node) {
  case IR_FLOAT:
  case IR_INT:
  case IR_SIZE:
  case IR_ATTR:
    if (!finish(c, n)) return false;
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
  case IR_INDEX: return finish(c, n);
  case IR_READ: return compile_read(c, n, e, scope);
  case IR_CALL: return e->id == IR_FN_WHERE ? compile_where(c, n, e, scope) : compile_call(c, n, e, scope);
  case IR_OPERATOR: return compile_operator(c, n, e, scope, wide);
  case IR_REDUCE: return compile_reduce(c, n, e, scope);
  case IR_CAST:
    n->id = (int)ir_cast_dtype(c->s->p, e);
    n->args[0] = compile(c, e->args[0], scope, wide);
    if (n->args[0] == NULL) return false;
    n->sums = n->args[0]->sums && !n->integer;
    c->s->casts_inside = c->s->casts_inside || is_narrow_cast(n);
    return finish(c, n);
  }
  return false;
}

/* `wide`: inside a subscript, where integers are 64 bits whatever the operands' dtype. */
static ref_node *compile(compiler *c, const ir_expr *e, int scope, bool wide) {
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

/* Which left indices the plain subscripts bind; the rest of a scattering definition is searched. */
static bool find_free(compiler *c, ref_definition *d) {
  const ir_definition *def = c->def;
  d->free_slots = ARENA_NEW_N(&c->s->arena, int, (size_t)def->n_indices);
  if (d->free_slots == NULL) return false;
  d->plain = true;
  for (int i = 0; i < def->n_subscripts; i++) {
    if (def->subscripts[i]->node != IR_INDEX) d->plain = false;
    for (int j = 0; j < i; j++)
      if (def->subscripts[i]->node == IR_INDEX && def->subscripts[j]->node == IR_INDEX &&
          def->subscripts[i]->id == def->subscripts[j]->id)
        d->plain = false;
  }
  for (int x = 0; x < def->n_indices; x++) {
    bool bound = def->indices[x].reduced;
    for (int i = 0; i < def->n_subscripts; i++)
      bound = bound || (def->subscripts[i]->node == IR_INDEX && def->subscripts[i]->id == x);
    if (!bound) d->free_slots[d->n_free++] = x;
    if (def->indices[x].ranged) d->range[x] = ir_dim_size(c->s->p, def->indices[x].range);
  }
  return true;
}

/* A cast to what the output is stored as is the store's own rounding, which an element's value is before: a
 * result that lies between two representable ones is then told from one that does not. */
static const ir_expr *before_store(const compiler *c, const ir_definition *def) {
  const ir_problem *p = c->s->p;
  const ir_expr *e = def->value;
  bool stores = def->update == IR_ASSIGN && p->op->tensors[def->tensor].role == IR_OUTPUT;
  while (stores && e->node == IR_CAST && ir_cast_dtype(p, e) == ir_tensor_dtype(p, def->tensor))
    e = e->args[0];
  return e;
}

static bool compile_definition(compiler *c, ref_definition *d) {
  arena *a = &c->s->arena;
  const ir_definition *def = c->def;
  size_t n = (size_t)def->n_indices;
  int scope = c->line >= 0;
  d->source = def;
  d->index = ARENA_NEW_N(a, int64_t, n);
  d->range = ARENA_NEW_N(a, int64_t, n);
  d->subs = ARENA_NEW_N(a, ref_node *, (size_t)def->n_subscripts);
  c->level_of = ARENA_NEW_N(a, int, n);
  if (d->index == NULL || d->range == NULL || d->subs == NULL || c->level_of == NULL || !find_free(c, d))
    return false;
  for (int i = 0; i < def->n_subscripts; i++)
    if ((d->subs[i] = compile(c, def->subscripts[i], 0, true)) == NULL) return false;
  if (scope > 0) c->level_of[c->line] = c->deepest = scope;
  ref_node *value = compile(c, before_store(c, def), scope, false);
  if (value == NULL) return false;
  d->value = value;
  d->levels = ARENA_NEW_N(a, ref_level, (size_t)c->deepest + 1);
  if (d->levels == NULL) return false;
  if (scope > 0 && (d->lanes = ARENA_NEW_N(a, int16_t, REF_LANES)) == NULL) return false;
  for (int i = 1; i <= c->deepest; i++) {
    d->levels[i].k = ARENA_NEW_N(a, int64_t, REF_LANES);
    d->levels[i].dead = ARENA_NEW_N(a, uint8_t, REF_LANES);
    if (d->levels[i].k == NULL || d->levels[i].dead == NULL) return false;
  }
  return true;
}

static bool add_table(ref_machine *s, dtype t) {
  if (ir_level_of(t) < LEVEL_F32 || dtype_bits(t) > 8 || s->tables[t] != NULL) return true;
  int n = 1 << dtype_bits(t);
  s->tables[t] = ARENA_NEW_N(&s->arena, double, (size_t)n);
  if (s->tables[t] == NULL) return false;
  for (int i = 0; i < n; i++) {
    uint8_t byte = (uint8_t)i;
    s->tables[t][i] = dtype_load(t, &byte, 0);
  }
  return true;
}

ref_definition *ref_compile_line(ref_machine *s, const ir_definition *def) {
  compiler c = {.s = s, .def = def, .line = def->subscripts[def->n_subscripts - 1]->id};
  ref_definition *line = ARENA_NEW(&s->arena, ref_definition);
  return line != NULL && compile_definition(&c, line) ? line : NULL;
}

static void note_casts(ref_machine *s) {
  compiler c = {.s = s, .line = -1};
  for (int i = 0; i < s->p->op->n_definitions; i++) {
    const ref_definition *d = &s->definitions[i];
    bool casts = d->source->update != IR_ASSIGN || d->source->tensor2 >= 0 || has_casts(&c, d->value);
    s->casts_in[d->source->tensor] = s->casts_in[d->source->tensor] || casts;
    if (d->source->tensor2 >= 0) s->casts_in[d->source->tensor2] = true;
  }
}

bool ref_compile(ref_machine *s) {
  const ir_op *op = s->p->op;
  for (int i = 0; i < op->n_inputs; i++)
    if (!add_table(s, ir_tensor_dtype(s->p, i))) return false;
  s->definitions = ARENA_NEW_N(&s->arena, ref_definition, (size_t)op->n_definitions);
  if (s->definitions == NULL) return false;
  for (int i = 0; i < op->n_definitions; i++) {
    compiler c = {.s = s, .def = &op->definitions[i], .line = -1};
    if (!compile_definition(&c, &s->definitions[i])) return false;
  }
  note_casts(s);
  return ref_compile_lines(s);
}
