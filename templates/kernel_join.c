#include "templates/kernel_join.h"

#include <string.h>

#define STAGE "generate"

typedef struct joining {
  const ir_problem *whole;
  const kernel_stage *stages;
  int n_stages;
  const kernel_temporary *temporaries;
  int n_temporaries;
  arena *a;
} joining;

/* --- temporaries --- */

/* Elements from dimension `first` on; -1: those of the leading axes too. */
static const recipe_expr *elements_from(const ir_op *op, const ir_tensor *t, int first, arena *a) {
  const recipe_expr *e = first < 0 && t->any_rank ? recipe_var(a, RECIPE_LEADING) : recipe_const(a, 1);
  for (int i = first < 0 ? 0 : first; i < t->rank; i++)
    e = recipe_binary(a, RECIPE_MUL, e, kernel_dim(op, t->dims[i], a));
  return e;
}

static const recipe_expr *bytes_of(const joining *j, int temporary) {
  const kernel_temporary *t = &j->temporaries[temporary];
  if (!t->problem) return recipe_const(j->a, 0);
  const ir_op *op = t->problem->op;
  const recipe_expr *n = elements_from(op, &op->tensors[t->tensor], -1, j->a);
  int bits = dtype_bits(ir_tensor_dtype(t->problem, t->tensor));
  n = recipe_binary(j->a, RECIPE_MUL, n, recipe_const(j->a, bits < 8 ? 1 : bits / 8));
  n = recipe_binary(j->a, RECIPE_CEILDIV, n, recipe_const(j->a, 256));
  return recipe_binary(j->a, RECIPE_MUL, n, recipe_const(j->a, 256));
}

static const recipe_expr *offset_of(const joining *j, int temporary) {
  const recipe_expr *e = recipe_const(j->a, 0);
  for (int i = 0; i < temporary; i++) e = recipe_binary(j->a, RECIPE_ADD, e, bytes_of(j, i));
  return e;
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
  const ir_tensor *t = temporary_of(s, e->name, &what);
  if (!t) return e;
  const ir_op *op = s->problem->op;
  if (strncmp(what, "stride", 6) == 0) return elements_from(op, t, what[6] - '0' + 1, j->a);
  if (strncmp(what, "lead", 4) == 0) {
    const recipe_expr *stride = elements_from(op, t, 0, j->a);
    for (int i = 0; i < what[4] - '0'; i++) {
      char *axis = arena_printf(j->a, RECIPE_LEADING "%d", i);
      stride = recipe_binary(j->a, RECIPE_MUL, stride, axis ? recipe_var(j->a, axis) : NULL);
    }
    return stride;
  }
  return elements_from(op, t, -1, j->a); /* span */
}

static const recipe_expr *of_whole(const joining *j, const kernel_stage *s, const recipe_expr *e) {
  if (!e) return NULL;
  if (e->op == RECIPE_CONST) return e;
  if (e->op == RECIPE_VAR) return variable(j, s, e);
  return recipe_binary(j->a, e->op, of_whole(j, s, e->args[0]), of_whole(j, s, e->args[1]));
}

/* --- launches and rules --- */

static void place_param(const joining *j, const kernel_stage *s, const recipe_expr *workspace,
                        kernel_args *args, int i) {
  recipe_param *p = &args->params[i];
  switch (p->kind) {
  case RECIPE_PARAM_POINTER:
    if (!s->arguments) break;
    if (s->arguments[p->tensor] >= 0) {
      p->tensor = s->arguments[p->tensor];
    } else {
      *p = (recipe_param){.kind = RECIPE_PARAM_WORKSPACE, .value = offset_of(j, ~s->arguments[p->tensor])};
    }
    break;
  case RECIPE_PARAM_WORKSPACE: p->value = recipe_binary(j->a, RECIPE_ADD, workspace, p->value); break;
  case RECIPE_PARAM_I32:
  case RECIPE_PARAM_I64: p->value = of_whole(j, s, p->value); break;
  case RECIPE_PARAM_TENSORMAP:
    if (s->arguments && s->arguments[p->tensor] >= 0) {
      p->tensor = s->arguments[p->tensor];
    } else if (s->arguments) {
      p->kind = RECIPE_PARAM_WORKSPACE_MAP;
      p->type = ir_tensor_dtype(s->problem, p->tensor);
      p->value = offset_of(j, ~s->arguments[p->tensor]);
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

static arke_status join_launch(const joining *j, const kernel_stage *s, const kernel_launch *from, bool known,
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
  if (known) to->emit = NULL;
  return to->name && (!from->smem_bytes || to->smem_bytes) ? ARKE_OK : error_memory(err, STAGE);
}

static void join_rules(const joining *j, const kernel_stage *s, const recipe *from, recipe *to) {
  for (int i = 0; i < s->problem->op->n_args; i++) {
    int argument = s->arguments ? s->arguments[i] : i;
    if (argument < 0) continue; /* temporaries start at multiples of 256 bytes and have no gaps */
    recipe_tensor_rule *rule = &to->tensors[argument];
    if (from->tensors[i].alignment > rule->alignment) rule->alignment = from->tensors[i].alignment;
    rule->contiguous_last = rule->contiguous_last || from->tensors[i].contiguous_last;
    rule->dense = rule->dense || from->tensors[i].dense;
  }
  for (int i = 0; i < from->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    const recipe_requirement *r = from->requirements ? &from->requirements[i] : NULL;
    const recipe_expr *expr = r ? of_whole(j, s, r->expr) : NULL;
    if (r && r->exact)
      kernel_require_equal(to, j->a, expr, r->max, r->why);
    else
      kernel_require(to, j->a, expr, r ? r->divisor : 0, r ? r->max : 0, r ? r->why : NULL);
  }
}

static arke_status join_way(const joining *j, int way, kernel_way *out, arke_error *err) {
  int n = 0, total = 0;
  for (int i = 0; i < j->n_stages; i++) {
    const kernel_stage *s = &j->stages[i];
    total += s->ways[way < s->n ? way : s->n - 1].n;
  }
  kernel_launch *launches = ARENA_NEW_N(j->a, kernel_launch, (size_t)total);
  recipe *rules = ARENA_NEW(j->a, recipe);
  if (!launches || !rules) return error_memory(err, STAGE);
  rules->n_tensors = j->whole->op->n_args;
  const recipe_expr *workspace = offset_of(j, j->n_temporaries);
  for (int i = 0; i < j->n_stages; i++) {
    const kernel_stage *s = &j->stages[i];
    bool known = way >= s->n; /* its last way has been in the one before */
    const kernel_way *w = &s->ways[known ? s->n - 1 : way];
    for (int k = 0; k < w->n; k++)
      TRY(join_launch(j, s, &w->launches[k], known, workspace, &launches[n++], err));
    join_rules(j, s, w->rules, rules);
    /* Each stage's own workspace: the next stage may start while this one ends. */
    if (w->rules->workspace_bytes) {
      const recipe_expr *own = of_whole(j, s, w->rules->workspace_bytes);
      own = recipe_binary(j->a, RECIPE_CEILDIV, own, recipe_const(j->a, 256));
      own = recipe_binary(j->a, RECIPE_MUL, own, recipe_const(j->a, 256));
      workspace = recipe_binary(j->a, RECIPE_ADD, workspace, own);
    }
  }
  if (!workspace) return error_memory(err, STAGE);
  if (workspace->op != RECIPE_CONST) rules->workspace_bytes = workspace;
  *out = (kernel_way){.launches = launches, .n = total, .rules = rules};
  return ARKE_OK;
}

arke_status kernel_join(const ir_problem *whole, const kernel_stage *stages, int n_stages,
                        const kernel_temporary *temporaries, int n_temporaries, arena *a, kernel_way *ways,
                        int *n, arke_error *err) {
  joining j = {whole, stages, n_stages, temporaries, n_temporaries, a};
  int most = 1;
  for (int i = 0; i < n_stages; i++) most = stages[i].n > most ? stages[i].n : most;
  *n = most < KERNEL_MAX_WAYS ? most : KERNEL_MAX_WAYS;
  for (int i = 0; i < *n; i++) TRY(join_way(&j, i, &ways[i], err));
  return ARKE_OK;
}
