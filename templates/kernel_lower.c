#include "templates/kernel_lower.h"

#include <string.h>

#define STAGE "generate"

/* --- parameters --- */

static bool same_expr(const recipe_expr *x, const recipe_expr *y) {
  if (x == y) return true;
  if (!x || !y || x->op != y->op) return false;
  if (x->op == RECIPE_CONST) return x->value == y->value;
  if (x->op == RECIPE_VAR) return strcmp(x->name, y->name) == 0;
  return same_expr(x->args[0], y->args[0]) && same_expr(x->args[1], y->args[1]);
}

static int append(kernel_args *args, gen_param_kind kind, recipe_param param) {
  if (args->n == LIMIT_KERNEL_ARGS) {
    args->too_many = true;
    return 0;
  }
  args->kinds[args->n] = kind;
  args->params[args->n] = param;
  return args->n++;
}

static int add(kernel_args *args, gen_param_kind kind, recipe_param param) {
  for (int i = 0; i < args->n; i++) {
    const recipe_param *known = &args->params[i];
    if (known->kind == param.kind && known->tensor == param.tensor && same_expr(known->value, param.value))
      return i;
  }
  return append(args, kind, param);
}

static int add_value(kernel_args *args, gen_param_kind kind, recipe_param_kind recipe_kind,
                     const recipe_expr *value) {
  if (!value) args->incomplete = true;
  return add(args, kind, (recipe_param){.kind = recipe_kind, .value = value});
}

int kernel_args_pointer(kernel_args *args, int tensor) {
  return add(args, GEN_PARAM_POINTER, (recipe_param){.kind = RECIPE_PARAM_POINTER, .tensor = tensor});
}

int kernel_args_i32(kernel_args *args, const recipe_expr *value) {
  return add_value(args, GEN_PARAM_I32, RECIPE_PARAM_I32, value);
}

int kernel_args_i64(kernel_args *args, const recipe_expr *value) {
  return add_value(args, GEN_PARAM_I64, RECIPE_PARAM_I64, value);
}

int kernel_args_workspace(kernel_args *args, const recipe_expr *offset_bytes) {
  return add_value(args, GEN_PARAM_POINTER, RECIPE_PARAM_WORKSPACE, offset_bytes);
}

int kernel_args_tensormap(kernel_args *args, int tensor, const recipe_tensormap *map) {
  for (int i = 0; i < map->rank; i++)
    if (!map->dim[i] || (i > 0 && !map->stride[i])) args->incomplete = true;
  return append(args, GEN_PARAM_TENSORMAP,
                (recipe_param){.kind = RECIPE_PARAM_TENSORMAP, .tensor = tensor, .map = *map});
}

/* --- expressions --- */

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  if (x && x->op == RECIPE_CONST && x->value == 1) return y;
  if (y && y->op == RECIPE_CONST && y->value == 1) return x;
  return recipe_binary(a, RECIPE_MUL, x, y);
}

const recipe_expr *kernel_dim(const ir_op *op, ir_dim dim, arena *a) {
  const recipe_expr *size = recipe_const(a, dim.factor);
  if (dim.axis >= 0) size = product(a, size, recipe_var(a, op->axes[dim.axis]));
  if (dim.by >= 0) size = product(a, size, recipe_var(a, op->axes[dim.by]));
  return dim.more == 0 ? size : recipe_binary(a, RECIPE_ADD, size, recipe_const(a, dim.more));
}

const recipe_expr *kernel_variable(const ir_op *op, int tensor, const char *what, int number, arena *a) {
  const char *name = op->tensors[tensor].name;
  return recipe_var(a, number < 0 ? arena_printf(a, "%s.%s", name, what)
                                  : arena_printf(a, "%s.%s%d", name, what, number));
}

const recipe_expr *kernel_extent(const ir_form *form, int loop, arena *a) {
  const ir_loop *l = &form->loops[loop];
  const recipe_expr *e = l->leading ? recipe_var(a, RECIPE_LEADING) : recipe_const(a, 1);
  for (int i = 0; i < l->n_dims; i++) e = product(a, e, kernel_dim(form->problem->op, l->dims[i], a));
  return e;
}

const recipe_expr *kernel_size(const ir_form *form, const ir_access *access, int s, arena *a) {
  const ir_op *op = form->problem->op;
  const ir_subscript *subscript = &access->subscripts[s];
  const recipe_expr *e = subscript->leading ? recipe_var(a, RECIPE_LEADING) : recipe_const(a, 1);
  for (int i = subscript->first < 0 ? 0 : subscript->first; i < subscript->first + subscript->count; i++)
    e = product(a, e, kernel_dim(op, op->tensors[access->tensor].dims[i], a));
  return e;
}

const recipe_expr *kernel_stride(const ir_form *form, const ir_access *access, int s, bool dense, arena *a) {
  const ir_op *op = form->problem->op;
  const ir_tensor *t = &op->tensors[access->tensor];
  int last = access->subscripts[s].first + access->subscripts[s].count - 1; /* -1: the leading axes */
  if (!dense)
    return kernel_variable(op, access->tensor, last < 0 ? "lead" : "stride", last < 0 ? 0 : last, a);
  const recipe_expr *e = recipe_const(a, 1);
  for (int i = last + 1; i < t->rank; i++)
    if (!ir_form_is_one(form, t->dims[i])) e = product(a, e, kernel_dim(op, t->dims[i], a));
  return e;
}

/* --- the recipe --- */

static arke_status fill_launch(const kernel_launch *from, const target *t, arena *a, recipe_launch *to,
                               arke_error *err) {
  const kernel_args *args = &from->args;
  to->kernel = arena_strdup(a, from->name);
  to->n_params = args->n;
  to->params = ARENA_NEW_N(a, recipe_param, (size_t)args->n);
  to->smem_bytes = from->smem_bytes ? from->smem_bytes : recipe_const(a, 0);
  to->early_start = from->early_start && t->has.early_start;
  if (args->incomplete || !to->kernel || !to->params || !to->smem_bytes) return error_memory(err, STAGE);
  memcpy(to->params, args->params, (size_t)args->n * sizeof *to->params);
  for (int i = 0; i < 3; i++) {
    to->grid[i] = from->grid[i] ? from->grid[i] : recipe_const(a, 1);
    to->block[i] = i == 0 ? (uint32_t)from->threads : 1;
    to->cluster[i] = from->cluster[i] > 0 ? (uint32_t)from->cluster[i] : 1;
    if (!to->grid[i]) return error_memory(err, STAGE);
  }
  return ARKE_OK;
}

static arke_status fill_recipe(const kernel_way *way, const target *t, arena *a, recipe *r, arke_error *err) {
  *r = *way->rules;
  r->n_launches = way->n;
  r->launches = ARENA_NEW_N(a, recipe_launch, (size_t)way->n);
  if (!r->launches || (r->n_requirements > 0 && !r->requirements)) return error_memory(err, STAGE);
  for (int i = 0; i < r->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    if (!r->requirements[i].expr || !r->requirements[i].why) return error_memory(err, STAGE);
  }
  for (int i = 0; i < way->n; i++) TRY(fill_launch(&way->launches[i], t, a, &r->launches[i], err));
  return ARKE_OK;
}

/* Each way is the `otherwise` of the one before it. */
static arke_status make_recipe(const kernel_way *ways, int n, const target *t, arena *a, recipe *first,
                               arke_error *err) {
  recipe *r = first;
  for (int i = 0; i < n; i++) {
    TRY(fill_recipe(&ways[i], t, a, r, err));
    r->otherwise = NULL;
    if (i + 1 == n) break;
    recipe *next = ARENA_NEW(a, recipe);
    if (!next) return error_memory(err, STAGE);
    r->otherwise = next;
    r = next;
  }
  return recipe_check(first, err);
}

static void add_requirement(recipe *rules, arena *a, const recipe_requirement *r) {
  if (!rules->requirements) rules->requirements = ARENA_NEW_N(a, recipe_requirement, RECIPE_MAX_REQUIREMENTS);
  if (rules->requirements && rules->n_requirements < RECIPE_MAX_REQUIREMENTS)
    rules->requirements[rules->n_requirements] = *r;
  rules->n_requirements++; /* recipe_check reports too many */
}

void kernel_require_equal(recipe *rules, arena *a, const recipe_expr *expr, int64_t value, const char *why) {
  recipe_requirement r = {.expr = expr, .exact = true, .max = value, .why = why};
  for (int i = 0; rules->requirements && i < rules->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    const recipe_requirement *known = &rules->requirements[i];
    if (expr && same_expr(known->expr, expr) && known->exact && known->max == value) return;
  }
  add_requirement(rules, a, &r);
}

void kernel_require(recipe *rules, arena *a, const recipe_expr *expr, int64_t divisor, int64_t max,
                    const char *why) {
  recipe_requirement r = {.expr = expr, .divisor = divisor, .max = max, .why = why};
  for (int i = 0; rules->requirements && i < rules->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    recipe_requirement *known = &rules->requirements[i];
    if (!expr || !same_expr(known->expr, expr) || (known->divisor == 0) != (divisor == 0)) continue;
    if (known->exact) continue;
    bool weaker = divisor == 0 ? max >= known->max : known->divisor % divisor == 0;
    bool stronger = divisor == 0 ? max < known->max : divisor % known->divisor == 0;
    if (stronger && !weaker) *known = r;
    if (stronger || weaker) return;
  }
  add_requirement(rules, a, &r);
}

void kernel_require_ones(recipe *rules, const ir_form *form, arena *a) {
  const ir_op *op = form->problem->op;
  for (int axis = 0; axis < op->n_axes; axis++) {
    if (!(form->ones >> axis & 1)) continue;
    kernel_require_equal(rules, a, recipe_var(a, op->axes[axis]), 1,
                         arena_printf(a, "the kernel is made for one element along %s", op->axes[axis]));
  }
}

void kernel_require_dense(recipe *rules, const ir_problem *p, arena *a) {
  (void)a;
  for (int i = 0; i < p->op->n_args; i++) rules->tensors[i].dense = true;
}

/* --- the image --- */

static gen_kernel described(const kernel_launch *l) {
  gen_kernel k = {.name = l->name,
                  .threads = l->threads,
                  .min_ctas_per_sm = l->min_ctas_per_sm > 0 ? l->min_ctas_per_sm : 1,
                  .n_params = l->args.n,
                  .params = l->args.kinds};
  for (int i = 0; i < 3; i++) k.cluster[i] = l->cluster[i] > 0 ? l->cluster[i] : 1;
  return k;
}

static arke_status emit_launch(gen_context *ctx, const kernel_launch *l, const target *t, gen_builder **b,
                               arke_error *err) {
  if (l->args.too_many)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "kernel %s would have more than %d parameters",
                     l->name, LIMIT_KERNEL_ARGS);
  if (!l->emit) return ARKE_OK;
  gen_kernel k = described(l);
  TRY(*b ? gen_builder_next_kernel(*b, &k, err) : gen_builder_create(ctx, t, &k, b, err));
  return l->emit(*b, t, l->user, err);
}

/* Whether a way before has the kernel: ways of joined stages share those that take anything, and any of them
 * may be left out. */
static bool is_emitted(const kernel_way *ways, int n, const kernel_launch *l) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < ways[i].n; k++) {
      const kernel_launch *known = &ways[i].launches[k];
      if (l->emit && known->emit == l->emit && known->user == l->user && strcmp(known->name, l->name) == 0)
        return true;
    }
  }
  return false;
}

static arke_status emit_all(gen_context *ctx, const kernel_way *ways, int n, const target *t, gen_builder **b,
                            arke_error *err) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < ways[i].n; k++) {
      const kernel_launch *l = &ways[i].launches[k];
      if (!is_emitted(ways, i, l)) TRY(emit_launch(ctx, l, t, b, err));
    }
  }
  return ARKE_OK;
}

arke_status kernel_lower_ways(const kernel_way *ways, int n, const target *t, const lower_options *options,
                              arena *a, lowered *out, arke_error *err) {
  gen_context *own = NULL, *ctx = options ? options->context : NULL;
  gen_builder *b = NULL;
  gen_output text = {0};
  arke_status status = ARKE_OK;
  *out = (lowered){.ways_left_out = options && options->first_way_only ? n - 1 : 0};
  n -= out->ways_left_out;
  if (!ctx) {
    status = gen_context_create(&own, err);
    ctx = own;
  }
  if (status == ARKE_OK) status = emit_all(ctx, ways, n, t, &b, err);
  if (status == ARKE_OK) status = gen_builder_finish(b, options && options->keep_llvm_ir, a, &text, err);
  if (status == ARKE_OK) status = make_recipe(ways, n, t, a, &out->recipe, err);
  if (status == ARKE_OK) {
    out->ptx = text.ptx;
    out->ptx_bytes = text.ptx_bytes;
    out->llvm_ir = text.llvm_ir;
  }
  gen_builder_destroy(b);
  gen_context_destroy(own);
  return status;
}

arke_status kernel_lower(const kernel_launch *launches, int n, const recipe *rules, const target *t,
                         const lower_options *options, arena *a, lowered *out, arke_error *err) {
  kernel_way way = {launches, n, rules};
  return kernel_lower_ways(&way, 1, t, options, a, out, err);
}
