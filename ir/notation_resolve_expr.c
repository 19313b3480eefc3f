#include <string.h>

#include "base/text.h"
#include "ir/ir_types.h"
#include "ir/notation_resolve.h"

static ir_expr *node_new(resolver *r, ir_node node, const syntax *s) {
  ir_expr *e = ARENA_NEW(r->arena, ir_expr);
  if (e == NULL) {
    r->faults->out_of_memory = true;
    return NULL;
  }
  e->node = node;
  e->line = s->line;
  e->column = s->column;
  e->depth = s->depth;
  return e;
}

const char *resolve_suggest(resolver *r, const char *name) {
  if (name[1] == '\0') return ""; /* every letter is near every other */
  const char *names[NOTATION_MOST_TENSORS + LIMIT_AXES + LIMIT_ATTRS + 64];
  size_t n = 0;
  for (int i = 0; i < r->op->n_tensors; i++) names[n++] = r->tensors[i].name;
  for (int i = 0; i < r->op->n_axes; i++) names[n++] = r->op->axes[i];
  for (int i = 0; i < r->op->n_attrs; i++) names[n++] = r->op->attrs[i].name;
  for (int i = 0; r->def != NULL && i < r->def->n_indices && i < 64; i++)
    if (r->places[i].visible) names[n++] = r->def->indices[i].name;
  const char *nearest = text_nearest(name, names, n);
  if (nearest == NULL) return "";
  const char *text = arena_printf(r->arena, " (did you mean %s?)", nearest);
  return text == NULL ? "" : text;
}

static int find_index(const resolver *r, const char *name) {
  for (int i = r->def == NULL ? -1 : r->def->n_indices - 1; i >= 0; i--)
    if (r->places[i].visible && strcmp(r->def->indices[i].name, name) == 0) return i;
  return -1;
}

/* All arguments are resolved even after a fault in one, to find the others' faults. */
static bool resolve_args(resolver *r, const syntax *s, ir_expr *e) {
  e->args = ARENA_NEW_N(r->arena, ir_expr *, (size_t)s->n_args);
  if (e->args == NULL) {
    r->faults->out_of_memory = true;
    return false;
  }
  bool whole = true;
  e->n_args = s->n_args;
  for (int i = 0; i < s->n_args; i++) {
    e->args[i] = resolve_expression(r, s->args[i]);
    if (e->args[i] == NULL) whole = false;
  }
  return whole;
}

static bool check_readable(resolver *r, const syntax *s, int number) {
  const ir_tensor *t = &r->tensors[number];
  if (r->def == NULL) {
    faults_add(r->faults, s->line, s->column,
               "a default cannot read '%s'; it may use sizes and other attributes", t->name);
    return false;
  }
  if (t->role == IR_INPUT) return true;
  if (r->first_write[number] < 0) {
    bool self = r->def->tensor == number || r->def->tensor2 == number;
    faults_add(r->faults, s->line, s->column, "'%s' is read %s", t->name,
               self ? "in its own definition" : "before it is defined");
    return false;
  }
  if (r->def->tensor == number || r->def->tensor2 == number) {
    faults_add(r->faults, s->line, s->column, "'%s' is read in its own definition", t->name);
    return false;
  }
  if (r->first_read[number] < 0) r->first_read[number] = r->current;
  return true;
}

static ir_expr *resolve_name(resolver *r, const syntax *s) {
  ir_node node = IR_INDEX;
  int id = find_index(r, s->name);
  if (id < 0) {
    node = IR_SIZE;
    id = resolve_find_axis(r, s->name);
  }
  if (id < 0) {
    node = IR_ATTR;
    id = resolve_find_attr(r, s->name);
    if (id >= 0 && r->op->attrs[id].kind == IR_ATTR_DTYPE) {
      faults_add(r->faults, s->line, s->column, "'%s' is a dtype, not a value; it can stand in cast<%s>(x)",
                 s->name, s->name);
      return NULL;
    }
  }
  if (id < 0) {
    node = IR_READ;
    id = resolve_find_tensor(r, s->name, false);
    if (id >= 0 && (r->tensors[id].rank > 0 || r->tensors[id].any_rank)) {
      faults_add(r->faults, s->line, s->column, "'%s' is read without its subscripts", s->name);
      return NULL;
    }
    if (id >= 0 && !check_readable(r, s, id)) return NULL;
  }
  bool is_integer = false;
  int64_t integer = 0;
  double number = 0;
  if (id < 0) {
    if (resolve_find_type(r, s->name) >= 0) {
      faults_add(r->faults, s->line, s->column, "'%s' is a type, not a value; it can stand in cast<%s>(x)",
                 s->name, s->name);
      return NULL;
    }
    if (!notation_constant(s->name, &is_integer, &integer, &number)) {
      faults_add(r->faults, s->line, s->column, "unknown name '%s'%s", s->name, resolve_suggest(r, s->name));
      return NULL;
    }
    node = is_integer ? IR_INT : IR_FLOAT;
    id = 0;
  }
  ir_expr *e = node_new(r, node, s);
  if (e == NULL) return NULL;
  e->id = id;
  e->integer = integer;
  e->number = number;
  return e;
}

static ir_expr *resolve_read(resolver *r, const syntax *s) {
  ir_expr *e = node_new(r, IR_READ, s);
  if (e == NULL) return NULL;
  e->id = resolve_find_tensor(r, s->name, s->after);
  e->has_else = s->has_else;
  bool whole = true;
  if (e->id >= 0 && s->after && r->tensors[e->id].alias < 0) {
    faults_add(r->faults, s->line, s->column, "'%s' is not written in place; it is read without a prime",
               s->name);
    whole = false;
  } else if (e->id < 0) {
    faults_add(r->faults, s->line, s->column, "unknown tensor '%s'%s", s->name, resolve_suggest(r, s->name));
    whole = false;
  } else {
    const ir_tensor *t = &r->tensors[e->id];
    int n = s->n_args - s->has_else;
    if (t->any_rank && !s->dots)
      faults_add(r->faults, s->line, s->column, "'%s' is declared with '...'; read it as %s[...%s]", t->name,
                 t->name, t->rank > 0 ? ",i" : "");
    else if (s->dots && !t->any_rank)
      faults_add(r->faults, s->line, s->column, "'%s' is read with '...' and declared without", t->name);
    else if (s->dots && r->def != NULL && r->def->tensor >= 0 && !r->tensors[r->def->tensor].any_rank)
      faults_add(r->faults, s->line, s->column, "'...' on the right needs '...' on the left");
    else if (n != t->rank)
      faults_add(r->faults, s->line, s->column, "'%s' has %d dimension%s, read with %d subscript%s", t->name,
                 t->rank, t->rank == 1 ? "" : "s", n, n == 1 ? "" : "s");
    whole = check_readable(r, s, e->id);
  }
  if (!resolve_args(r, s, e) || !whole) return NULL;
  for (int i = 0; i < e->n_args - e->has_else; i++)
    if (ir_expr_kind(r->op, e->args[i]).least >= LEVEL_F32)
      faults_add(r->faults, e->args[i]->line, e->args[i]->column,
                 "a floating-point subscript of '%s'; integers are accepted", s->name);
  return e;
}

static ir_expr *resolve_call(resolver *r, const syntax *s) {
  ir_function f;
  ir_expr *e = node_new(r, IR_CALL, s);
  if (e == NULL) return NULL;
  bool known = notation_function(s->name, &f);
  if (!known) {
    ir_reduction reduction;
    const char *nearest = notation_nearest_function(s->name);
    if (notation_reduction(s->name, &reduction))
      faults_add(r->faults, s->line, s->column, "'%s' reduces over an index: %s(k) X[k]", s->name, s->name);
    else
      faults_add(r->faults, s->line, s->column, "unknown function '%s'%s%s%s", s->name,
                 nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
                 nearest == NULL ? "" : "?)");
  } else if (notation_function_arity(f) != s->n_args) {
    int arity = notation_function_arity(f);
    faults_add(r->faults, s->line, s->column, "'%s' takes %d argument%s, %d given", s->name, arity,
               arity == 1 ? "" : "s", s->n_args);
    known = false;
  }
  if (!resolve_args(r, s, e) || !known) return NULL;
  e->id = (int)f;
  return e;
}

static ir_expr *resolve_cast(resolver *r, const syntax *s) {
  ir_expr *e = node_new(r, IR_CAST, s);
  if (e == NULL) return NULL;
  dtype t;
  int variable = resolve_find_type(r, s->name), attr = resolve_find_attr(r, s->name);
  bool known = true;
  if (dtype_from_name(s->name, &t)) {
    e->id = (int)t;
  } else if (variable >= 0) {
    e->id = -1 - variable;
  } else if (attr >= 0 && r->op->attrs[attr].kind == IR_ATTR_DTYPE) {
    e->id = DTYPE_COUNT + attr;
  } else {
    faults_add(r->faults, s->line, s->column,
               "cast<%s>: accepted are dtypes, the type variables of the tensors and dtype attributes",
               s->name);
    known = false;
  }
  return resolve_args(r, s, e) && known ? e : NULL;
}

static ir_expr *resolve_reduce(resolver *r, const syntax *s) {
  ir_expr *e = node_new(r, IR_REDUCE, s);
  if (e == NULL) return NULL;
  e->id = s->id;
  if (r->def == NULL) {
    faults_add(r->faults, s->line, s->column, "a default cannot reduce");
    return NULL;
  }
  const char *taken = find_index(r, s->name) >= 0                   ? "an index"
                      : resolve_find_axis(r, s->name) >= 0          ? "a size"
                      : resolve_find_attr(r, s->name) >= 0          ? "an attribute"
                      : resolve_find_tensor(r, s->name, false) >= 0 ? "a tensor"
                      : resolve_find_type(r, s->name) >= 0          ? "a type variable"
                      : notation_reserved(s->name)                  ? "a word of the notation"
                                                                    : NULL;
  if (taken != NULL) {
    faults_add(r->faults, s->line, s->column,
               "'%s' is already %s here; a reduction needs an index of its own", s->name, taken);
    return NULL;
  }
  e->index = resolve_index_add(r, s->name, true, s->line, s->column);
  if (e->index < 0) return NULL;
  bool whole = resolve_args(r, s, e);
  r->places[e->index].visible = false;
  return whole ? e : NULL;
}

ir_expr *resolve_expression(resolver *r, const syntax *s) {
  ir_expr *e;
  switch (s->kind) {
  case SYNTAX_FLOAT:
  case SYNTAX_INT:
    e = node_new(r, s->kind == SYNTAX_INT ? IR_INT : IR_FLOAT, s);
    if (e == NULL) return NULL;
    e->integer = s->integer;
    e->number = s->number;
    return e;
  case SYNTAX_NAME: return resolve_name(r, s);
  case SYNTAX_SUBSCRIPT: return resolve_read(r, s);
  case SYNTAX_CALL: return resolve_call(r, s);
  case SYNTAX_CAST: return resolve_cast(r, s);
  case SYNTAX_REDUCE: return resolve_reduce(r, s);
  case SYNTAX_OPERATOR:
    e = node_new(r, IR_OPERATOR, s);
    if (e == NULL) return NULL;
    e->id = s->id;
    return resolve_args(r, s, e) ? e : NULL;
  }
  return NULL;
}
