#include "templates/kernel_join.h"

#include <string.h>

#define STAGE "generate"

/* A part of the workspace: temporaries and stages' own workspaces that are not needed at one time. */
typedef struct region {
  const recipe_expr *bytes;
  int last; /* the last stage that needs what lies in it */
} region;

enum { MAX_STAGES = LIMIT_LAUNCHES, MAX_TEMPORARIES = 64, MAX_REGIONS = MAX_STAGES + MAX_TEMPORARIES };

typedef struct joining {
  const ir_problem *whole;
  const kernel_stage *stages;
  int n_stages;
  const kernel_temporary *temporaries;
  int n_temporaries;
  const kernel_slices *slices; /* NULL: none */
  arena *a;
  /* Of the way at hand. */
  int n_regions;
  region regions[MAX_REGIONS];
  int of_temporary[MAX_TEMPORARIES], of_stage[MAX_STAGES]; /* regions; -1: none */
} joining;

/* --- slices --- */

static bool is_named(const recipe_expr *e, const char *name) {
  return e && e->op == RECIPE_VAR && strcmp(e->name, name) == 0;
}

/* Where a slice begins. */
static const recipe_expr *begin_of(const joining *j) {
  return recipe_binary(j->a, RECIPE_MUL, recipe_var(j->a, RECIPE_ROUND), recipe_const(j->a, j->slices->size));
}

static const recipe_expr *rounds_of(const joining *j) {
  return recipe_binary(j->a, RECIPE_CEILDIV, recipe_var(j->a, j->slices->whole),
                       recipe_const(j->a, j->slices->size));
}

/* A variable of slices in those of the whole; NULL: it is none. */
static const recipe_expr *of_slice(const joining *j, const recipe_expr *e) {
  if (!j->slices) return NULL;
  if (is_named(e, j->slices->begin)) return begin_of(j);
  if (!is_named(e, j->slices->axis)) return NULL;
  const recipe_expr *left = recipe_binary(j->a, RECIPE_SUB, recipe_var(j->a, j->slices->whole), begin_of(j));
  return recipe_binary(j->a, RECIPE_MIN, recipe_const(j->a, j->slices->size), left);
}

static bool mentions(const recipe_expr *e, const char *name) {
  if (!e || e->op == RECIPE_CONST) return false;
  if (e->op == RECIPE_VAR) return is_named(e, name);
  return mentions(e->args[0], name) || mentions(e->args[1], name);
}

static const recipe_expr *with_round(const joining *j, const recipe_expr *e, const recipe_expr *round) {
  if (!e || e->op == RECIPE_CONST) return e;
  if (e->op == RECIPE_VAR) return is_named(e, RECIPE_ROUND) ? round : e;
  return recipe_binary(j->a, e->op, with_round(j, e->args[0], round), with_round(j, e->args[1], round));
}

/* The first slice is the largest: what it has room in, others have too. */
static const recipe_expr *in_first_round(const joining *j, const recipe_expr *e) {
  return j->slices ? with_round(j, e, recipe_const(j->a, 0)) : e;
}

/* --- temporaries --- */

/* A dimension of a temporary in variables of the whole. */
static const recipe_expr *dim_of(const joining *j, const ir_op *op, ir_dim d) {
  const recipe_expr *e = kernel_dim(op, d, j->a), *slice = of_slice(j, e);
  return slice ? slice : e;
}

/* Elements from dimension `first` on; -1: those of the leading axes too. */
static const recipe_expr *elements_from(const joining *j, const ir_op *op, const ir_tensor *t, int first) {
  arena *a = j->a;
  const recipe_expr *e = first < 0 && t->any_rank ? recipe_var(a, RECIPE_LEADING) : recipe_const(a, 1);
  for (int i = first < 0 ? 0 : first; i < t->rank; i++)
    e = recipe_binary(a, RECIPE_MUL, e, dim_of(j, op, t->dims[i]));
  return e;
}

static const recipe_expr *bytes_of(const joining *j, int temporary) {
  const kernel_temporary *t = &j->temporaries[temporary];
  if (!t->problem) return recipe_const(j->a, 0);
  const ir_op *op = t->problem->op;
  const recipe_expr *n = in_first_round(j, elements_from(j, op, &op->tensors[t->tensor], -1));
  int bits = dtype_bits(ir_tensor_dtype(t->problem, t->tensor));
  n = recipe_binary(j->a, RECIPE_MUL, n, recipe_const(j->a, bits < 8 ? 1 : bits / 8));
  n = recipe_binary(j->a, RECIPE_CEILDIV, n, recipe_const(j->a, 256));
  return recipe_binary(j->a, RECIPE_MUL, n, recipe_const(j->a, 256));
}

static const recipe_expr *region_offset(const joining *j, int number) {
  const recipe_expr *e = recipe_const(j->a, 0);
  for (int i = 0; i < number; i++) e = recipe_binary(j->a, RECIPE_ADD, e, j->regions[i].bytes);
  return e;
}

static const recipe_expr *offset_of(const joining *j, int temporary) {
  return region_offset(j, j->of_temporary[temporary]);
}

/* --- expressions --- */

/* The temporary whose variable `name` is ("t0.stride1"); *what: what follows the dot. */
static const ir_tensor *temporary_of(const kernel_stage *s, const char *name, const char **what) {
  const ir_op *op = s->problem->op;
  const char *dot = strchr(name, '.');
  for (int i = 0; dot && s->arguments && i < op->n_args; i++) {
    const char *own = op->tensors[i].name;
    if (s->arguments[i] < 0 && strlen(own) == (size_t)(dot - name) && strncmp(own, name, strlen(own)) == 0) {
      *what = dot + 1;
      return &op->tensors[i];
    }
  }
  return NULL;
}

/* A temporary has no gaps: its strides are products of sizes. Its leading axes are one: the second and
 * further of those that others' collapse to are as in a tensor without gaps too. */
static const recipe_expr *variable(const joining *j, const kernel_stage *s, const recipe_expr *e) {
  const char *what;
  const recipe_expr *slice = of_slice(j, e);
  if (slice) return slice;
  const ir_tensor *t = temporary_of(s, e->name, &what);
  if (!t) return e;
  const ir_op *op = s->problem->op;
  if (strncmp(what, "stride", 6) == 0) return elements_from(j, op, t, what[6] - '0' + 1);
  if (strncmp(what, "lead", 4) == 0) {
    const recipe_expr *stride = elements_from(j, op, t, 0);
    for (int i = 0; i < what[4] - '0'; i++) {
      char *axis = arena_printf(j->a, RECIPE_LEADING "%d", i);
      stride = recipe_binary(j->a, RECIPE_MUL, stride, axis ? recipe_var(j->a, axis) : NULL);
    }
    return stride;
  }
  return elements_from(j, op, t, -1); /* span */
}

static const recipe_expr *of_whole(const joining *j, const kernel_stage *s, const recipe_expr *e) {
  if (!e) return NULL;
  if (e->op == RECIPE_CONST) return e;
  if (e->op == RECIPE_VAR) return variable(j, s, e);
  return recipe_binary(j->a, e->op, of_whole(j, s, e->args[0]), of_whole(j, s, e->args[1]));
}

/* --- launches and rules --- */

/* Bytes from where an argument of a stage lies to where its slice does; NULL: it is no slice. */
static const recipe_expr *slice_offset(const joining *j, const kernel_stage *s, int argument) {
  if (!s->repeated || s->sliced[argument] < 0) return NULL;
  const ir_op *op = s->problem->op;
  if (s->arguments[argument] < 0) {
    const kernel_temporary *t = &j->temporaries[~s->arguments[argument]];
    const ir_tensor *own = &t->problem->op->tensors[t->tensor];
    for (int i = 0; i < own->rank; i++) /* it holds one slice */
      if (is_named(kernel_dim(t->problem->op, own->dims[i], j->a), j->slices->axis)) return NULL;
  }
  int bits = dtype_bits(ir_tensor_dtype(s->problem, argument));
  const recipe_expr *stride =
      of_whole(j, s, kernel_variable(op, argument, "stride", s->sliced[argument], j->a));
  const recipe_expr *bytes =
      recipe_binary(j->a, RECIPE_MUL, stride, recipe_const(j->a, j->slices->size * bits / 8));
  return recipe_binary(j->a, RECIPE_MUL, recipe_var(j->a, RECIPE_ROUND), bytes);
}

static const recipe_expr *temporary_offset(const joining *j, const kernel_stage *s, int argument) {
  const recipe_expr *slice = slice_offset(j, s, argument);
  const recipe_expr *e = offset_of(j, ~s->arguments[argument]);
  return slice ? recipe_binary(j->a, RECIPE_ADD, e, slice) : e;
}

static void place_param(const joining *j, const kernel_stage *s, const recipe_expr *workspace,
                        kernel_args *args, int i) {
  recipe_param *p = &args->params[i];
  switch (p->kind) {
  case RECIPE_PARAM_POINTER:
    if (!s->arguments) break;
    if (s->arguments[p->tensor] >= 0) {
      p->value = slice_offset(j, s, p->tensor);
      p->tensor = s->arguments[p->tensor];
    } else {
      *p = (recipe_param){.kind = RECIPE_PARAM_WORKSPACE, .value = temporary_offset(j, s, p->tensor)};
    }
    break;
  case RECIPE_PARAM_WORKSPACE: p->value = recipe_binary(j->a, RECIPE_ADD, workspace, p->value); break;
  case RECIPE_PARAM_I32:
  case RECIPE_PARAM_I64: p->value = of_whole(j, s, p->value); break;
  case RECIPE_PARAM_TENSORMAP:
    if (s->arguments && s->arguments[p->tensor] >= 0) {
      p->value = slice_offset(j, s, p->tensor);
      p->tensor = s->arguments[p->tensor];
    } else if (s->arguments) {
      p->kind = RECIPE_PARAM_WORKSPACE_MAP;
      p->type = ir_tensor_dtype(s->problem, p->tensor);
      p->value = temporary_offset(j, s, p->tensor);
    }
    for (int d = 0; d < p->map.rank; d++) {
      p->map.dim[d] = of_whole(j, s, p->map.dim[d]);
      if (d > 0) p->map.stride[d] = of_whole(j, s, p->map.stride[d]);
      if (!p->map.dim[d] || (d > 0 && !p->map.stride[d])) args->incomplete = true;
    }
    break;
  case RECIPE_PARAM_WORKSPACE_MAP: /* stages are of one template, which maps tensors alone */
  case RECIPE_PARAM_F32: break;
  }
  bool valued =
      p->kind != RECIPE_PARAM_POINTER && p->kind != RECIPE_PARAM_TENSORMAP && p->kind != RECIPE_PARAM_F32;
  if (valued && !p->value) args->incomplete = true;
}

static arke_status join_launch(const joining *j, const kernel_stage *s, const kernel_launch *from,
                               const recipe_expr *workspace, kernel_launch *to, arke_error *err) {
  *to = *from;
  to->name = arena_printf(j->a, "%s%s", s->prefix, from->name);
  for (int i = 0; i < to->args.n; i++) {
    place_param(j, s, workspace, &to->args, i);
  }
  for (int i = 0; i < 3; i++) {
    to->grid[i] = of_whole(j, s, from->grid[i]);
    if (from->grid[i] && !to->grid[i]) return error_memory(err, STAGE);
  }
  to->smem_bytes = of_whole(j, s, from->smem_bytes);
  return to->name && (!from->smem_bytes || to->smem_bytes) ? ARKE_OK : error_memory(err, STAGE);
}

/* A slice of an argument's inner dimensions has gaps unless it is all of it. */
static void require_no_gaps(const joining *j, const kernel_stage *s, int argument, recipe *to) {
  bool outermost = s->sliced[argument] == 0 && !s->problem->op->tensors[argument].any_rank;
  if (!outermost && slice_offset(j, s, argument))
    kernel_require(to, j->a, recipe_var(j->a, j->slices->whole), 0, j->slices->size,
                   "the kernel takes rows of slices without gaps");
}

static void join_requirement(const joining *j, const recipe_requirement *r, const recipe_expr *e,
                             recipe *to) {
  if (r->exact)
    kernel_require_equal(to, j->a, e, r->max, r->why);
  else
    kernel_require(to, j->a, e, r->divisor, r->max, r->why);
}

/* What holds for all slices holds for the first, which is full unless it is the only one, and for the last.
 */
static void join_requirement_of_slices(const joining *j, const recipe_requirement *r, const recipe_expr *e,
                                       recipe *to) {
  const recipe_expr *one = recipe_const(j->a, 1);
  const recipe_expr *last = recipe_binary(j->a, RECIPE_MAX, one, rounds_of(j));
  join_requirement(j, r, with_round(j, e, recipe_const(j->a, 0)), to);
  join_requirement(j, r, with_round(j, e, recipe_binary(j->a, RECIPE_SUB, last, one)), to);
}

static void join_rules(const joining *j, const kernel_stage *s, const recipe *from, recipe *to) {
  for (int i = 0; i < s->problem->op->n_args; i++) {
    int argument = s->arguments ? s->arguments[i] : i;
    if (s->repeated && from->tensors[i].dense) require_no_gaps(j, s, i, to);
    if (argument < 0) continue; /* temporaries start at multiples of 256 bytes and have no gaps */
    recipe_tensor_rule *rule = &to->tensors[argument];
    if (from->tensors[i].alignment > rule->alignment) rule->alignment = from->tensors[i].alignment;
    rule->contiguous_last = rule->contiguous_last || from->tensors[i].contiguous_last;
    rule->dense = rule->dense || from->tensors[i].dense;
  }
  for (int i = 0; i < from->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    const recipe_requirement *r = from->requirements ? &from->requirements[i] : NULL;
    const recipe_expr *expr = r ? of_whole(j, s, r->expr) : NULL;
    if (!r || !expr)
      kernel_require(to, j->a, NULL, 0, 0, NULL); /* no memory: reported with the recipe */
    else if (mentions(expr, RECIPE_ROUND))
      join_requirement_of_slices(j, r, expr, to);
    else
      join_requirement(j, r, expr, to);
  }
}

/* --- the workspace --- */

/* Stages [*first, *last] run from when stage `i` first does to when it last does. */
static void widen(const joining *j, int i, int *first, int *last) {
  int from = i, to = i;
  while (j->stages[i].repeated && from > 0 && j->stages[from - 1].repeated) from--;
  while (j->stages[i].repeated && to + 1 < j->n_stages && j->stages[to + 1].repeated) to++;
  if (*first < 0 || from < *first) *first = from;
  if (to > *last) *last = to;
}

/* Puts what stages [first, last] need where something lies whose stages have ended: not just before, since
 * the next stage may start while one ends. Returns the region. */
static int put(joining *j, const recipe_expr *bytes, int first, int last) {
  int i = 0;
  while (i < j->n_regions && j->regions[i].last + 1 >= first) i++;
  bool is_new = i == j->n_regions;
  if (is_new) j->n_regions++;
  j->regions[i].bytes = is_new ? bytes : recipe_binary(j->a, RECIPE_MAX, j->regions[i].bytes, bytes);
  j->regions[i].last = last;
  return i;
}

static void put_temporary(joining *j, int temporary, int stage) {
  int first = -1, last = -1;
  for (int i = 0; i < j->n_stages; i++)
    for (int k = 0; k < j->stages[i].problem->op->n_args && j->stages[i].arguments; k++)
      if (j->stages[i].arguments[k] == ~temporary) widen(j, i, &first, &last);
  if (first == stage) j->of_temporary[temporary] = put(j, bytes_of(j, temporary), first, last);
}

static const kernel_way *way_of(const kernel_stage *s, int way) {
  return &s->ways[way < s->n ? way : s->n - 1];
}

/* Where everything lies, in the order it is needed. */
static void lay_out(joining *j, int way) {
  j->n_regions = 0;
  for (int i = 0; i < j->n_stages; i++) {
    const kernel_stage *s = &j->stages[i];
    const recipe_expr *own = way_of(s, way)->rules->workspace_bytes;
    int first = -1, last = -1;
    for (int t = 0; t < j->n_temporaries; t++) put_temporary(j, t, i);
    if (!own) continue;
    own = in_first_round(j, of_whole(j, s, own));
    own = recipe_binary(j->a, RECIPE_CEILDIV, own, recipe_const(j->a, 256));
    own = recipe_binary(j->a, RECIPE_MUL, own, recipe_const(j->a, 256));
    widen(j, i, &first, &last);
    j->of_stage[i] = put(j, own, first, last);
  }
}

static arke_status join_way(joining *j, int way, kernel_way *out, arke_error *err) {
  int n = 0, total = 0;
  for (int i = 0; i < j->n_stages; i++) total += way_of(&j->stages[i], way)->n;
  kernel_launch *launches = ARENA_NEW_N(j->a, kernel_launch, (size_t)total);
  recipe *rules = ARENA_NEW(j->a, recipe);
  if (!launches || !rules) return error_memory(err, STAGE);
  rules->n_tensors = j->whole->op->n_args;
  lay_out(j, way);
  recipe_repeat *repeat = &rules->repeats[0];
  for (int i = 0; i < j->n_stages; i++) {
    const kernel_stage *s = &j->stages[i];
    const kernel_way *w = way_of(s, way);
    const recipe_expr *workspace = w->rules->workspace_bytes ? region_offset(j, j->of_stage[i]) : NULL;
    if (s->repeated) {
      if (rules->n_repeats == 0) *repeat = (recipe_repeat){.first = n, .rounds = rounds_of(j)};
      rules->n_repeats = 1;
      repeat->n += w->n;
    }
    for (int k = 0; k < w->n; k++) TRY(join_launch(j, s, &w->launches[k], workspace, &launches[n++], err));
    join_rules(j, s, w->rules, rules);
  }
  const recipe_expr *workspace = region_offset(j, j->n_regions);
  if (!workspace) return error_memory(err, STAGE);
  if (workspace->op != RECIPE_CONST) rules->workspace_bytes = workspace;
  *out = (kernel_way){.launches = launches, .n = total, .rules = rules};
  return ARKE_OK;
}

arke_status kernel_join(const ir_problem *whole, const kernel_stage *stages, int n_stages,
                        const kernel_temporary *temporaries, int n_temporaries, const kernel_slices *slices,
                        arena *a, kernel_way *ways, int *n, arke_error *err) {
  joining *j = ARENA_NEW(a, joining);
  if (!j) return error_memory(err, STAGE);
  if (n_stages > MAX_STAGES || n_temporaries > MAX_TEMPORARIES)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "there are too many stages");
  *j = (joining){.whole = whole,
                 .stages = stages,
                 .n_stages = n_stages,
                 .temporaries = temporaries,
                 .n_temporaries = n_temporaries,
                 .slices = slices,
                 .a = a};
  int most = 1;
  for (int i = 0; i < n_stages; i++) most = stages[i].n > most ? stages[i].n : most;
  *n = most < KERNEL_MAX_WAYS ? most : KERNEL_MAX_WAYS;
  for (int i = 0; i < *n; i++) TRY(join_way(j, i, &ways[i], err));
  return ARKE_OK;
}
