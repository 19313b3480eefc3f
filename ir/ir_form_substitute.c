/* Expressions of definitions as expressions of the form: indices become loops, temporaries what they are
 * computed from, reductions take loops. */
#include "ir/ir_bounds.h"
#include "ir/ir_form_build.h"

/* --- loops --- */

/* Two axes are two dimensions of a loop: the second walks fastest. */
static ir_loop loop_over(ir_dim d, const char *name) {
  ir_loop loop = {.name = name, .n_dims = 1, .dims = {d}};
  if (d.by >= 0) {
    loop.dims[0].by = -1;
    loop.dims[loop.n_dims++] = ir_dim_axis(d.by);
  }
  return loop;
}

static bool loop_is_over(const ir_loop *loop, const ir_loop *other) {
  bool same = !loop->leading && loop->n_dims == other->n_dims;
  for (int i = 0; same && i < loop->n_dims; i++) same = ir_dim_equal(loop->dims[i], other->dims[i]);
  return same;
}

int form_loop(form_builder *b, ir_dim range, unsigned taken, const char *name) {
  ir_form *form = b->form;
  if (range.axis < 0 && range.factor < 0) range.factor = 0;
  ir_loop loop = loop_over(range, name);
  for (int l = 0; l < form->n_loops; l++)
    if (!(taken >> l & 1) && loop_is_over(&form->loops[l], &loop)) return l;
  if (form->n_loops == IR_FORM_LOOPS) {
    form_fail(b, ARKE_ERR_UNSUPPORTED, "more than %d loops, counting reductions", IR_FORM_LOOPS);
    return -1;
  }
  form->loops[form->n_loops] = loop;
  return form->n_loops++;
}

/* --- which loops an expression of a definition depends on --- */

static const ir_definition *writer(const ir_op *op, int tensor, int *n) {
  const ir_definition *only = NULL;
  *n = 0;
  for (int i = 0; i < op->n_definitions; i++)
    if (op->definitions[i].tensor == tensor || op->definitions[i].tensor2 == tensor) {
      only = &op->definitions[i];
      ++*n;
    }
  return only;
}

static bool is_plain(const ir_definition *d) {
  for (int i = 0; i < d->n_subscripts; i++) {
    if (d->subscripts[i]->node != IR_INDEX) return false;
    for (int j = 0; j < i; j++)
      if (d->subscripts[j]->id == d->subscripts[i]->id) return false;
  }
  return true;
}

static unsigned depends(form_builder *b, int tensor);

/* Left indices of `def` that e depends on, by position. */
static unsigned positions(form_builder *b, const ir_definition *def, const ir_expr *e) {
  unsigned set = 0;
  if (e->node == IR_INDEX) {
    for (int i = 0; i < def->n_subscripts; i++)
      if (def->subscripts[i]->node == IR_INDEX && def->subscripts[i]->id == e->id) set |= 1u << i;
    return set;
  }
  unsigned used = ~0u;
  if (e->node == IR_READ) {
    used = depends(b, e->id);
    set = used & FORM_LEADING;
  }
  for (int i = 0; i < e->n_args; i++)
    if (e->node != IR_READ || (e->has_else && i == e->n_args - 1) || (used >> i & 1))
      set |= positions(b, def, e->args[i]);
  return set;
}

/* Positions of a tensor's subscripts that its elements depend on; all of an input's. */
static unsigned depends(form_builder *b, int tensor) {
  if (b->depends_known[tensor]) return b->depends[tensor];
  const ir_tensor *t = &b->p->op->tensors[tensor];
  int n;
  const ir_definition *def = writer(b->p->op, tensor, &n);
  unsigned set = FORM_LEADING - 1 + (t->any_rank ? FORM_LEADING : 0);
  if (t->role != IR_INPUT && n == 1 && is_plain(def)) set = positions(b, def, def->value);
  b->depends[tensor] = set;
  b->depends_known[tensor] = true;
  return set;
}

/* Loops that e would depend on, its own reductions' indices (unbound in env) left out. */
static unsigned free_under(form_builder *b, const form_env *env, const ir_expr *e) {
  if (e->node == IR_INDEX) return env->values[e->id] == NULL ? 0 : form_of(env->values[e->id])->free;
  unsigned set = 0, used = ~0u;
  if (e->node == IR_READ) {
    used = depends(b, e->id);
    if ((used & FORM_LEADING) != 0 && b->leading >= 0) set = 1u << b->leading;
  }
  for (int i = 0; i < e->n_args; i++)
    if (e->node != IR_READ || (e->has_else && i == e->n_args - 1) || (used >> i & 1))
      set |= free_under(b, env, e->args[i]);
  return set;
}

/* --- reads --- */

int form_access_make(form_builder *b, int tensor, const ir_expr *const *subscripts, int n,
                     const ir_expr *other, bool guarded) {
  const ir_tensor *t = &b->p->op->tensors[tensor];
  ir_access access = {.tensor = tensor};
  bool inside = true;
  if (t->any_rank) {
    if (b->leading < 0) {
      form_fail(b, ARKE_ERR_UNSUPPORTED, "'%s' has leading axes where nothing that is written has any",
                t->name);
      return -1;
    }
    access.subscripts[access.n++] =
        (ir_subscript){.leading = true, .first = -1, .count = 1, .e = form_index(b, b->leading)};
  }
  for (int i = 0; i < n; i++) {
    if (subscripts[i] == NULL) return -1;
    form_inside known = form_is_inside(b, subscripts[i], t->dims[i]);
    inside = inside && known.above && known.below;
    access.subscripts[access.n++] = (ir_subscript){.first = i, .count = 1, .e = subscripts[i]};
  }
  access.conditional = guarded && !inside;
  access.other = inside ? NULL : other;
  return b->status == ARKE_OK ? form_access(b, &access) : -1;
}

static const ir_expr *substitute(form_builder *b, const ir_expr *e, const ir_expr *const *subscripts, int n,
                                 form_place place) {
  const ir_op *op = b->p->op;
  const ir_tensor *t = &op->tensors[e->id];
  int n_writers;
  const ir_definition *def = writer(op, e->id, &n_writers);
  if (n_writers != 1 || def->update != IR_ASSIGN || !is_plain(def))
    return form_fail(b, ARKE_ERR_UNSUPPORTED,
                     "'%s' is written by %s and read again, which takes several kernels (%d:%d)", t->name,
                     n_writers > 1 ? "several definitions" : "an update or a scatter", e->line, e->column);
  if (def->tensor2 >= 0)
    return form_fail(b, ARKE_ERR_UNSUPPORTED, "'%s' is a result of topk and read again (%d:%d)", t->name,
                     e->line, e->column);
  ir_expr *args[LIMIT_RANK];
  for (int i = 0; i < n; i++) args[i] = (ir_expr *)subscripts[i];
  int flags = (place.guarded ? 2 : 0) + (place.subscript ? 1 : 0);
  form_node *remembered = (form_node *)form_intern(
      b, &(ir_expr){.node = IR_READ, .id = -1 - (4 * e->id + flags), .n_args = n, .args = args});
  if (remembered == NULL) return NULL;
  if (remembered->substituted != NULL) return remembered->substituted;

  form_env env = {.def = def, .values = ARENA_NEW_N(b->a, const ir_expr *, (size_t)def->n_indices)};
  if (env.values == NULL && def->n_indices > 0) return form_fail_memory(b);
  for (int i = 0; i < n; i++) env.values[def->subscripts[i]->id] = subscripts[i];
  const ir_expr *value = form_build(b, &env, def->value, place);
  if (value == NULL) return NULL;
  /* An output is read as stored, which changes nothing where it is what its value computes in; a temporary of
   * integers that no tensor has typed is i64. */
  ir_level level = form_of(value)->level;
  dtype cast = t->role == IR_OUTPUT ? ir_tensor_dtype(b->p, e->id) : DTYPE_I64;
  bool alike = (cast == DTYPE_F32 || cast == DTYPE_F64) && ir_level_dtype(level) == cast;
  if ((t->role == IR_OUTPUT && !alike) || (level == LEVEL_WEAK && !place.subscript && value->node != IR_INT))
    value = form_intern(b, &(ir_expr){.node = IR_CAST,
                                      .id = (int)cast,
                                      .n_args = 1,
                                      .args = (ir_expr *[]){(ir_expr *)value},
                                      .line = e->line,
                                      .column = e->column});
  remembered->substituted = value;
  return value;
}

static const ir_expr *build_read(form_builder *b, form_env *env, const ir_expr *e, form_place place) {
  const ir_tensor *t = &b->p->op->tensors[e->id];
  const ir_expr *subscripts[LIMIT_RANK], *other = NULL;
  int n = e->n_args - e->has_else;
  form_place inner = {place.guarded, true};
  for (int i = 0; i < n; i++) {
    subscripts[i] = form_build(b, env, e->args[i], inner);
    if (subscripts[i] == NULL) return NULL;
  }
  if (e->has_else) {
    form_place outside = {true, place.subscript};
    other = form_build(b, env, e->args[n], outside);
    if (other == NULL) return NULL;
  }
  if (t->role == IR_INPUT) {
    int access = form_access_make(b, e->id, subscripts, n, other, place.guarded);
    if (access < 0) return NULL;
    return form_intern(b, &(ir_expr){.node = IR_READ, .id = access, .line = e->line, .column = e->column});
  }
  const ir_expr *inside = NULL;
  for (int i = 0; e->has_else && i < n; i++)
    inside = form_and(b, inside, form_inside_condition(b, subscripts[i], t->dims[i]));
  if (inside == NULL) return substitute(b, e, subscripts, n, place);
  place.guarded = true;
  return form_select(b, inside, substitute(b, e, subscripts, n, place), other);
}

/* --- choices --- */

/* Only the side taken, where that does not depend on data and its type is what both have in common. */
static const ir_expr *build_select(form_builder *b, form_env *env, const ir_expr *e, form_place place) {
  const ir_expr *c = form_build(b, env, e->args[0], place);
  if (c == NULL) return NULL;
  int truth = form_truth(b, c);
  const ir_expr *taken = e->args[truth == 0 ? 2 : 1];
  if (truth >= 0 && ir_expr_level(b->p, taken) == ir_expr_level(b->p, e))
    return form_build(b, env, taken, place);
  place.guarded = true;
  const ir_expr *x = form_build(b, env, e->args[1], place), *y = form_build(b, env, e->args[2], place);
  return x == NULL || y == NULL ? NULL : form_select(b, c, x, y);
}

static const ir_expr *build_logic(form_builder *b, form_env *env, const ir_expr *e, form_place place) {
  bool is_and = e->id == IR_OP_AND;
  const ir_expr *x = form_build(b, env, e->args[0], place);
  if (x == NULL) return NULL;
  int truth = form_truth(b, x);
  if (truth >= 0 && truth == (is_and ? 0 : 1)) return form_bool(b, truth != 0);
  place.guarded = place.guarded || truth < 0;
  const ir_expr *y = form_build(b, env, e->args[1], place);
  if (y == NULL) return NULL;
  if (truth >= 0 && form_of(y)->level == LEVEL_BOOL) return y;
  int other = form_truth(b, y);
  if (other >= 0 && other != (is_and ? 0 : 1) && form_of(x)->level == LEVEL_BOOL) return x;
  return form_operator(b, (ir_operator)e->id, x, y);
}

/* --- reductions --- */

/* Comparisons that hold for every value of the loops go, like "r < size" where r ranges over size. */
static const ir_expr *without_known(form_builder *b, const ir_expr *c) {
  if (c == NULL || c->node != IR_OPERATOR) return c;
  if (c->id == IR_OP_AND) return form_and(b, without_known(b, c->args[0]), without_known(b, c->args[1]));
  bool mirrored = c->id == IR_OP_GT || c->id == IR_OP_GE;
  if (c->id != IR_OP_LT && c->id != IR_OP_LE && !mirrored) return c;
  const ir_expr *low = c->args[mirrored ? 1 : 0], *high = c->args[mirrored ? 0 : 1];
  return form_known_less(b, low, high, c->id == IR_OP_LE || c->id == IR_OP_GE) ? NULL : c;
}

const ir_expr *form_build_reduce(form_builder *b, form_env *env, const ir_expr *e, form_place place,
                                 unsigned forbidden) {
  ir_dim range;
  if (!form_reduction_range(b, env, e, &range)) return NULL;
  unsigned taken = forbidden;
  for (int i = 0; i < e->n_args; i++) taken |= free_under(b, env, e->args[i]);
  int loop = form_loop(b, range, taken, env->def->indices[e->index].name);
  if (loop < 0) return NULL;
  env->values[e->index] = form_index(b, loop);

  const ir_expr *condition = form_reads_inside(b, env, e);
  form_place inner = place;
  inner.subscript = false;
  inner.guarded = inner.guarded || condition != NULL;
  if (e->n_args == 2) {
    const ir_expr *written = form_build(b, env, e->args[1], inner);
    if (written == NULL) return NULL;
    if (form_truth(b, written) != 1) condition = form_and(b, condition, without_known(b, written));
    inner.guarded = inner.guarded || condition != NULL;
  }
  const ir_expr *body = form_build(b, env, e->args[0], inner);
  env->values[e->index] = NULL;
  if (b->status != ARKE_OK) return NULL;
  ir_expr *args[2] = {(ir_expr *)body, (ir_expr *)condition};
  return form_intern(b, &(ir_expr){.node = IR_REDUCE,
                                   .id = e->id,
                                   .index = loop,
                                   .n_args = condition == NULL ? 1 : 2,
                                   .args = args,
                                   .line = e->line,
                                   .column = e->column});
}

/* --- everything --- */

/* Functions that are operators under another name are those, so that they are one node. */
static const ir_expr *build_operands(form_builder *b, form_env *env, const ir_expr *e, form_place place) {
  ir_expr *args[LIMIT_RANK + 1];
  for (int i = 0; i < e->n_args; i++) {
    args[i] = (ir_expr *)form_build(b, env, e->args[i], place);
    if (args[i] == NULL) return NULL;
  }
  ir_expr key = {.node = e->node,
                 .id = e->node == IR_CAST ? (int)ir_cast_dtype(b->p, e) : e->id,
                 .n_args = e->n_args,
                 .args = args,
                 .line = e->line,
                 .column = e->column};
  if (e->node == IR_CALL && e->id == IR_FN_NEG) {
    key.node = IR_OPERATOR;
    key.id = IR_OP_NEG;
  }
  return place.subscript ? form_fold(b, &key) : form_intern(b, &key);
}

const ir_expr *form_build(form_builder *b, form_env *env, const ir_expr *e, form_place place) {
  if (b->status != ARKE_OK) return NULL;
  switch (e->node) {
  case IR_INDEX: return env->values[e->id];
  case IR_READ: return build_read(b, env, e, place);
  case IR_REDUCE: return form_build_reduce(b, env, e, place, 0);
  case IR_ATTR:
    if (place.subscript && b->p->op->attrs[e->id].kind == IR_ATTR_INT)
      return form_int(b, (int64_t)b->p->attrs[e->id]);
    break;
  case IR_OPERATOR:
    if (e->id == IR_OP_SELECT) return build_select(b, env, e, place);
    if (e->id == IR_OP_AND || e->id == IR_OP_OR) return build_logic(b, env, e, place);
    return build_operands(b, env, e, place);
  case IR_CALL:
    if (e->id == IR_FN_WHERE) return build_select(b, env, e, place);
    return build_operands(b, env, e, place);
  case IR_CAST: return build_operands(b, env, e, place);
  default: break;
  }
  ir_expr leaf = *e;
  leaf.n_args = 0;
  leaf.args = NULL;
  leaf.has_else = false;
  return form_intern(b, &leaf);
}
