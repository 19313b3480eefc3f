/* Signature, attributes and the order of definitions; expressions are in notation_resolve_expr.c, ranges in
 * notation_resolve_ranges.c. */
#include "ir/notation_resolve.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir_bounds.h"
#include "ir/ir_types.h"

int resolve_find_tensor(const resolver *r, const char *name, bool for_writing) {
  int found = -1;
  for (int i = 0; i < r->op->n_tensors; i++) {
    if (strcmp(r->tensors[i].name, name) != 0) continue;
    bool in_place = r->tensors[i].alias >= 0; /* read as the input, written as the output */
    if (in_place ? for_writing : found < 0) found = i;
  }
  return found;
}

int resolve_find_axis(const resolver *r, const char *name) {
  for (int i = 0; i < r->op->n_axes; i++)
    if (strcmp(r->op->axes[i], name) == 0) return i;
  return -1;
}

int resolve_find_attr(const resolver *r, const char *name) {
  for (int i = 0; i < r->op->n_attrs; i++)
    if (strcmp(r->op->attrs[i].name, name) == 0) return i;
  return -1;
}

int resolve_find_type(const resolver *r, const char *name) {
  for (int i = 0; i < r->op->n_types; i++)
    if (strcmp(r->op->type_vars[i], name) == 0) return i;
  return -1;
}

/* What a name already stands for, or NULL. */
static const char *taken_by(const resolver *r, const char *name) {
  if (resolve_find_tensor(r, name, true) >= 0) return "a tensor";
  if (resolve_find_axis(r, name) >= 0) return "a size";
  if (resolve_find_attr(r, name) >= 0) return "an attribute";
  if (resolve_find_type(r, name) >= 0) return "a type variable";
  if (notation_reserved(name)) return "a word of the notation";
  return NULL;
}

static bool check_free(resolver *r, const char *name, int line, int column) {
  const char *taken = taken_by(r, name);
  if (taken == NULL) return true;
  faults_add(r->faults, line, column, "'%s' is already %s; every name stands for one thing", name, taken);
  return false;
}

/* --- signature ------------------------------------------------------------------------------------------ */

/* One capital letter, digits may follow: what is longer is a misspelt dtype. */
static bool is_type_variable(const char *name) {
  return name[0] >= 'A' && name[0] <= 'Z' && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static const char *nearest_dtype(const char *name) {
  const char *names[DTYPE_COUNT];
  for (int i = 0; i < DTYPE_COUNT; i++) names[i] = dtype_name((dtype)i);
  return text_nearest(name, names, DTYPE_COUNT);
}

static void fault_dtype(resolver *r, const char *name, int line, int column) {
  const char *nearest = nearest_dtype(name);
  faults_add(r->faults, line, column,
             "unknown dtype '%s'%s%s%s; accepted: a dtype (f32, bf16, i64, …) or a type variable (T, U)",
             name, nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
             nearest == NULL ? "" : "?)");
}

static void resolve_type(resolver *r, const char *name, int line, int column, ir_type *type) {
  ir_op *op = r->op;
  *type = (ir_type){-1, DTYPE_F32, 0};
  if (dtype_from_name(name, &type->fixed)) return;
  type->variable = resolve_find_type(r, name);
  if (type->variable >= 0) return;
  if (!is_type_variable(name)) {
    fault_dtype(r, name, line, column);
  } else if (op->n_types == (int)COUNT_OF(op->type_vars)) {
    faults_add(r->faults, line, column, "more than %d type variables", (int)COUNT_OF(op->type_vars));
  } else if (check_free(r, name, line, column)) {
    type->variable = op->n_types;
    op->type_vars[op->n_types++] = name;
  }
}

static void resolve_dim(resolver *r, const syntax_dim *s, ir_dim *d) {
  *d = ir_dim_constant(s->factor);
  d->more = s->more;
  if (s->factor < 1)
    faults_add(r->faults, s->line, s->column, "a dimension of %lld; at least 1 is accepted",
               (long long)s->factor);
  if (s->axis == NULL) return;
  d->axis = resolve_find_axis(r, s->axis);
  if (d->axis >= 0) return;
  if (r->op->n_axes == LIMIT_AXES) {
    faults_add(r->faults, s->line, s->column, "more than %d size symbols", LIMIT_AXES);
  } else if (check_free(r, s->axis, s->line, s->column)) {
    d->axis = r->op->n_axes;
    r->op->axes[r->op->n_axes++] = s->axis;
  }
}

static void resolve_tensor(resolver *r, const syntax_tensor *s, ir_role role) {
  int number = r->op->n_tensors;
  ir_tensor *t = &r->tensors[number];
  *t = (ir_tensor){.name = s->name, .role = role, .any_rank = s->dots, .rank = s->rank, .alias = -1};
  for (int i = 0; i < LIMIT_RANK; i++) r->known[number][i] = true;
  if (s->type == NULL) { /* written in place */
    int input = resolve_find_tensor(r, s->name, false);
    for (int i = 0; i < number; i++)
      if (r->tensors[i].alias == input)
        faults_add(r->faults, s->line, s->column, "'%s' is already an output", s->name);
    *t = r->tensors[input];
    t->role = role;
    t->alias = input;
  } else {
    check_free(r, s->name, s->line, s->column);
    resolve_type(r, s->type, s->type_line, s->type_column, &t->type);
    for (int i = 0; i < s->rank; i++) resolve_dim(r, &s->dims[i], &t->dims[i]);
  }
  r->op->n_tensors++;
}

static void resolve_attr(resolver *r, const syntax_attr *s) {
  ir_attr a = {.name = s->name, .kind = s->kind, .has_default = s->value != NULL || s->type_default != NULL};
  check_free(r, s->name, s->line, s->column);
  dtype t;
  if (s->type_default != NULL) {
    if (dtype_from_name(s->type_default, &t))
      a.value = t;
    else
      fault_dtype(r, s->type_default, s->line, s->column);
  }
  if (s->value != NULL) {
    const ir_expr *e = resolve_expression(r, s->value);
    if (e != NULL) {
      const ir_expr *literal = e->node == IR_OPERATOR && e->id == IR_OP_NEG ? e->args[0] : e;
      double sign = literal == e ? 1 : -1;
      if (literal->node == IR_INT)
        a.value = sign * (double)literal->integer;
      else if (literal->node == IR_FLOAT)
        a.value = sign * literal->number;
      else
        a.formula = e;
      if (a.kind != IR_ATTR_FLOAT && ir_expr_kind(r->op, e).least >= LEVEL_F32)
        faults_add(r->faults, s->value->line, s->value->column, "the default of '%s' is not an integer",
                   s->name);
    }
  }
  r->op->attrs[r->op->n_attrs++] = a;
}

/* --- definitions ---------------------------------------------------------------------------------------- */

int resolve_index_add(resolver *r, const char *name, bool reduced, int line, int column) {
  ir_definition *d = r->def;
  if (d->n_indices == NOTATION_MOST_INDICES) {
    faults_add(r->faults, line, column, "more than %d indices in one definition", NOTATION_MOST_INDICES);
    return -1;
  }
  if (d->n_indices == r->index_capacity) {
    int capacity = r->index_capacity == 0 ? 8 : 2 * r->index_capacity;
    ir_index *indices = ARENA_NEW_N(r->arena, ir_index, (size_t)capacity);
    resolved_index *places = ARENA_NEW_N(r->arena, resolved_index, (size_t)capacity);
    if (indices == NULL || places == NULL) {
      r->faults->out_of_memory = true;
      return -1;
    }
    if (d->n_indices > 0) {
      memcpy(indices, d->indices, (size_t)d->n_indices * sizeof *indices);
      memcpy(places, r->places, (size_t)d->n_indices * sizeof *places);
    }
    d->indices = indices;
    r->places = places;
    r->index_capacity = capacity;
  }
  d->indices[d->n_indices] = (ir_index){.name = name, .axis = -1, .reduced = reduced};
  r->places[d->n_indices] = (resolved_index){line, column, true};
  return d->n_indices++;
}

/* A name on the left that means nothing yet is an index; so is one inside a gather, "Y[i, idx[i,j]]". */
static void collect_left_indices(resolver *r, const syntax *s, bool plain) {
  if (s->kind != SYNTAX_NAME) {
    for (int i = 0; i < s->n_args; i++) collect_left_indices(r, s->args[i], false);
    return;
  }
  for (int i = 0; i < r->def->n_indices; i++)
    if (strcmp(r->def->indices[i].name, s->name) == 0) return;
  const char *taken = taken_by(r, s->name);
  if (taken == NULL)
    resolve_index_add(r, s->name, false, s->line, s->column);
  else if (plain)
    faults_add(r->faults, s->line, s->column, "'%s' is %s; an index needs a name of its own", s->name, taken);
}

static bool is_plain(const ir_definition *d) {
  for (int i = 0; i < d->n_subscripts; i++) {
    if (d->subscripts[i]->node != IR_INDEX) return false;
    for (int j = 0; j < i; j++)
      if (d->subscripts[j]->id == d->subscripts[i]->id) return false;
  }
  return true;
}

/* Names of temporaries must be known before any definition is resolved, so that a read that comes too early
 * is told apart from a misspelling. */
static int declare_temporary(resolver *r, const syntax *left) {
  int number = resolve_find_tensor(r, left->name, true);
  if (number >= 0) return number;
  const char *taken = taken_by(r, left->name);
  if (taken != NULL) {
    faults_add(r->faults, left->line, left->column, "'%s' is %s and cannot be written", left->name, taken);
    return -1;
  }
  if (r->op->n_tensors == NOTATION_MOST_TENSORS) {
    faults_add(r->faults, left->line, left->column, "more than %d tensors and temporaries",
               NOTATION_MOST_TENSORS);
    return -1;
  }
  number = r->op->n_tensors++;
  r->tensors[number] = (ir_tensor){.name = left->name,
                                   .role = IR_TEMPORARY,
                                   .type = {-1, DTYPE_I64, 0},
                                   .any_rank = left->dots,
                                   .rank = left->n_args,
                                   .alias = -1};
  return number;
}

static void check_left(resolver *r, const syntax *left, int number) {
  const ir_tensor *t = &r->tensors[number];
  if (t->role == IR_INPUT)
    faults_add(r->faults, left->line, left->column,
               "'%s' is an input and cannot be written; declare it in place: -> (%s)", t->name, t->name);
  if (left->dots != t->any_rank)
    faults_add(r->faults, left->line, left->column, "'%s' is %s'...'", t->name,
               t->any_rank ? "declared with '...' and written without "
                           : "written with '...' and declared without ");
  if (left->n_args != t->rank)
    faults_add(r->faults, left->line, left->column, "'%s' has %d dimension%s, written with %d subscript%s",
               t->name, t->rank, t->rank == 1 ? "" : "s", left->n_args, left->n_args == 1 ? "" : "s");
}

static void check_order(resolver *r, const syntax *left, int number, bool plain) {
  bool assigned = r->first_write[number] >= 0;
  const ir_tensor *t = &r->tensors[number];
  if (r->first_read[number] >= 0)
    faults_add(r->faults, left->line, left->column, "'%s' is written after a definition has read it",
               t->name);
  else if (assigned && plain && r->def->update == IR_ASSIGN)
    faults_add(r->faults, left->line, left->column,
               "'%s' is defined twice; later writes scatter or use +=", t->name);
  else if (t->role == IR_TEMPORARY && !plain)
    faults_add(r->faults, left->line, left->column,
               "'%s' is a temporary: its subscripts must be plain, distinct indices", t->name);
  if (!assigned) r->first_write[number] = r->current;
}

static bool same_left(const syntax *a, const syntax *b) {
  if (a->n_args != b->n_args || a->dots != b->dots) return false;
  for (int i = 0; i < a->n_args; i++)
    if (a->args[i]->kind != SYNTAX_NAME || b->args[i]->kind != SYNTAX_NAME ||
        strcmp(a->args[i]->name, b->args[i]->name) != 0)
      return false;
  return true;
}

static void check_topk(resolver *r, const syntax_definition *s) {
  const syntax *left = s->left;
  if (!same_left(left, s->left2))
    faults_add(r->faults, s->left2->line, s->left2->column,
               "both results of topk take the same plain indices");
  else if (left->n_args == 0)
    faults_add(r->faults, left->line, left->column, "the last subscript of topk's results is the rank");
}

/* Levels of expressions behind a definition, through the temporaries and outputs it reads: the evaluator's
 * recursion is as deep. */
static int levels(const resolver *r, const ir_expr *e) {
  int deepest = e->node == IR_READ ? r->levels[e->id] : 0;
  for (int i = 0; i < e->n_args; i++) {
    int below = levels(r, e->args[i]);
    if (below > deepest) deepest = below;
  }
  return deepest + 1;
}

static void check_levels(resolver *r, const syntax_definition *s, const ir_definition *d) {
  int deepest = levels(r, d->value);
  for (int i = 0; i < d->n_subscripts; i++) {
    int below = levels(r, d->subscripts[i]);
    if (below > deepest) deepest = below;
  }
  if (deepest > NOTATION_MOST_LEVELS)
    faults_add(r->faults, s->left->line, s->left->column,
               "the definitions behind '%s' nest to %d levels; at most %d are accepted", s->left->name,
               deepest, NOTATION_MOST_LEVELS);
  if (deepest > NOTATION_MOST_LEVELS) return; /* one fault, not one for each that builds on it */
  if (deepest > r->levels[d->tensor]) r->levels[d->tensor] = deepest;
  if (d->tensor2 >= 0) r->levels[d->tensor2] = r->levels[d->tensor];
}

static void resolve_definition(resolver *r, const syntax_definition *s, ir_definition *d) {
  r->def = d;
  r->places = NULL;
  r->index_capacity = 0;
  d->update = s->update;
  d->tensor = declare_temporary(r, s->left);
  d->tensor2 = s->left2 == NULL ? -1 : declare_temporary(r, s->left2);
  if (d->tensor < 0 || (s->left2 != NULL && d->tensor2 < 0)) return;
  check_left(r, s->left, d->tensor);
  if (s->left2 != NULL) {
    check_left(r, s->left2, d->tensor2);
    check_topk(r, s);
  }
  for (int i = 0; i < s->left->n_args; i++) collect_left_indices(r, s->left->args[i], true);
  d->subscripts = ARENA_NEW_N(r->arena, ir_expr *, (size_t)s->left->n_args);
  if (d->subscripts == NULL) {
    r->faults->out_of_memory = true;
    return;
  }
  bool whole = true;
  for (int i = 0; i < s->left->n_args; i++) {
    ir_expr *e = resolve_expression(r, s->left->args[i]);
    if (e != NULL)
      d->subscripts[d->n_subscripts++] = e;
    else
      whole = false;
  }
  bool plain = whole && is_plain(d);
  d->skips = s->skips;
  if (plain && s->skips)
    faults_add(r->faults, s->left->line, s->left->column,
               "nothing of '%s' lies outside here; 'else skip' is for subscripts that may leave an axis",
               s->left->name);
  d->value = resolve_expression(r, s->value);
  r->all_places[r->current] = r->places;
  if (whole) check_order(r, s->left, d->tensor, plain);
  if (whole && d->tensor2 >= 0) check_order(r, s->left2, d->tensor2, plain);
  if (d->value == NULL || !whole) return;
  check_levels(r, s, d);
  if (d->tensor2 >= 0 && d->n_subscripts > 0) {
    const ir_expr *rank = d->subscripts[d->n_subscripts - 1];
    for (int i = 0; rank->node == IR_INDEX && i < d->value->n_args; i++)
      if (ir_expr_uses(d->value->args[i], rank->id))
        faults_add(r->faults, rank->line, rank->column,
                   "the last subscript of topk's results is the rank and cannot occur on the right");
  }
  for (int which = 0; which < 2; which++) {
    int number = which == 0 ? d->tensor : d->tensor2;
    if (number < 0 || r->tensors[number].role != IR_TEMPORARY) continue;
    ir_kind k = which == 0 ? ir_expr_kind(r->op, d->value) : (ir_kind){LEVEL_I64, 0};
    if (r->first_write[number] < r->current) k = ir_kind_join(k, ir_type_kind(r->tensors[number].type));
    r->tensors[number].type = ir_kind_type(k);
  }
}

static void check_outputs(resolver *r) {
  const syntax_operator *s = r->syntax;
  for (int i = 0; i < s->n_outputs; i++)
    if (r->first_write[s->n_inputs + i] < 0)
      faults_add(r->faults, s->outputs[i].line, s->outputs[i].column, "output '%s' is never defined",
                 s->outputs[i].name);
}

ir_op *notation_resolve(arena *a, const char *text, const syntax_operator *s, faults *f) {
  resolver *r = ARENA_NEW(a, resolver);
  ir_op *op = ARENA_NEW(a, ir_op);
  if (r == NULL || op == NULL) goto out_of_memory;
  *r = (resolver){.arena = a, .faults = f, .syntax = s, .op = op, .current = -1};
  op->tensors = r->tensors;
  op->name = s->name;
  op->text = arena_strdup(a, text);
  for (int i = 0; i < NOTATION_MOST_TENSORS; i++) r->first_write[i] = r->first_read[i] = -1;
  if (s->n_inputs + s->n_outputs > LIMIT_TENSORS)
    faults_add(f, s->line, s->column, "%d tensors; at most %d are accepted", s->n_inputs + s->n_outputs,
               LIMIT_TENSORS);
  for (int i = 0; i < s->n_inputs; i++) resolve_tensor(r, &s->inputs[i], IR_INPUT);
  op->n_inputs = op->n_tensors;
  for (int i = 0; i < s->n_outputs; i++) resolve_tensor(r, &s->outputs[i], IR_OUTPUT);
  op->n_args = op->n_tensors;
  if (s->n_outputs == 0) faults_add(f, s->line, s->column, "'%s' has no output", s->name);
  for (int i = 0; i < s->n_attrs; i++) resolve_attr(r, &s->attrs[i]);

  op->definitions = ARENA_NEW_N(a, ir_definition, (size_t)s->n_definitions);
  r->all_places = ARENA_NEW_N(a, resolved_index *, (size_t)s->n_definitions);
  if (op->text == NULL || op->definitions == NULL || r->all_places == NULL) goto out_of_memory;
  for (int i = 0; i < s->n_definitions; i++) {
    declare_temporary(r, s->definitions[i].left);
    if (s->definitions[i].left2 != NULL) declare_temporary(r, s->definitions[i].left2);
  }
  for (r->current = 0; r->current < s->n_definitions; r->current++)
    resolve_definition(r, &s->definitions[r->current], &op->definitions[op->n_definitions++]);
  check_outputs(r);
  if (f->n == 0 && !f->out_of_memory) resolve_ranges(r);

  op->tensors = ARENA_NEW_N(a, ir_tensor, (size_t)op->n_tensors);
  if (op->tensors == NULL) goto out_of_memory;
  memcpy(op->tensors, r->tensors, (size_t)op->n_tensors * sizeof *op->tensors);
  return op;

out_of_memory:
  f->out_of_memory = true;
  return NULL;
}
