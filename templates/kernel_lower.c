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

static int add(kernel_args *args, gen_param_kind kind, recipe_param param) {
  for (int i = 0; i < args->n; i++) {
    const recipe_param *known = &args->params[i];
    if (known->kind == param.kind && known->tensor == param.tensor && same_expr(known->value, param.value))
      return i;
  }
  if (args->n == LIMIT_KERNEL_ARGS) {
    args->too_many = true;
    return 0;
  }
  args->kinds[args->n] = kind;
  args->params[args->n] = param;
  return args->n++;
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

/* --- expressions --- */

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  if (x && x->op == RECIPE_CONST && x->value == 1) return y;
  if (y && y->op == RECIPE_CONST && y->value == 1) return x;
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *dim_size(const ir_op *op, ir_dim dim, arena *a) {
  const recipe_expr *factor = recipe_const(a, dim.factor);
  return dim.axis < 0 ? factor : product(a, factor, recipe_var(a, op->axes[dim.axis]));
}

const recipe_expr *kernel_extent(const ir_form *form, int loop, arena *a) {
  const ir_loop *l = &form->loops[loop];
  const recipe_expr *e = l->leading ? recipe_var(a, RECIPE_LEADING) : recipe_const(a, 1);
  for (int i = 0; i < l->n_dims; i++) e = product(a, e, dim_size(form->problem->op, l->dims[i], a));
  return e;
}

const recipe_expr *kernel_stride(const ir_form *form, const ir_access *access, int s, bool dense, arena *a) {
  const ir_op *op = form->problem->op;
  const ir_tensor *t = &op->tensors[access->tensor];
  int last = access->subscripts[s].first + access->subscripts[s].count - 1; /* -1: the leading axes */
  if (!dense)
    return recipe_var(a, last < 0 ? arena_printf(a, "%s.stride_lead", t->name)
                                  : arena_printf(a, "%s.stride%d", t->name, last));
  const recipe_expr *e = recipe_const(a, 1);
  for (int i = last + 1; i < t->rank; i++) e = product(a, e, dim_size(op, t->dims[i], a));
  return e;
}

/* --- the recipe --- */

static arke_status fill_launch(const kernel_launch *from, arena *a, recipe_launch *to, arke_error *err) {
  const kernel_args *args = &from->args;
  to->kernel = arena_strdup(a, from->name);
  to->n_params = args->n;
  to->params = ARENA_NEW_N(a, recipe_param, (size_t)args->n);
  to->smem_bytes = from->smem_bytes ? from->smem_bytes : recipe_const(a, 0);
  to->early_start = from->early_start;
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

static arke_status fill_recipe(const kernel_launch *launches, int n, const recipe *rules, int alternative,
                               arena *a, recipe *r, arke_error *err) {
  *r = *rules;
  r->n_launches = 0;
  r->otherwise = NULL;
  r->launches = ARENA_NEW_N(a, recipe_launch, (size_t)n);
  if (!r->launches) return error_memory(err, STAGE);
  for (int i = 0; i < n; i++) {
    if (launches[i].alternative == alternative)
      TRY(fill_launch(&launches[i], a, &r->launches[r->n_launches++], err));
  }
  return ARKE_OK;
}

static arke_status make_recipe(const kernel_launch *launches, int n, const recipe *rules, arena *a,
                               recipe *first, arke_error *err) {
  recipe *r = first;
  for (int alternative = 0;; alternative++) {
    TRY(fill_recipe(launches, n, rules, alternative, a, r, err));
    rules = rules->otherwise;
    if (!rules) break;
    recipe *next = ARENA_NEW(a, recipe);
    if (!next) return error_memory(err, STAGE);
    r->otherwise = next;
    r = next;
  }
  return recipe_check(first, err);
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

static arke_status check(const kernel_launch *launches, int n, arke_error *err) {
  for (int i = 0; i < n; i++) {
    if (launches[i].args.too_many)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "kernel %s would have more than %d parameters",
                       launches[i].name, LIMIT_KERNEL_ARGS);
  }
  return ARKE_OK;
}

static arke_status emit_all(gen_context *ctx, const kernel_launch *launches, int n, const target *t,
                            gen_builder **b, arke_error *err) {
  for (int i = 0; i < n; i++) {
    if (!launches[i].emit) continue;
    gen_kernel k = described(&launches[i]);
    if (*b) return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "an image of several kernels");
    TRY(gen_builder_create(ctx, t, &k, b, err));
    TRY(launches[i].emit(*b, t, launches[i].user, err));
  }
  return ARKE_OK;
}

arke_status kernel_lower(const kernel_launch *launches, int n, const recipe *rules, const target *t,
                         const lower_options *options, arena *a, lowered *out, arke_error *err) {
  gen_context *own = NULL, *ctx = options ? options->context : NULL;
  gen_builder *b = NULL;
  gen_output text = {0};
  *out = (lowered){0};
  arke_status status = check(launches, n, err);
  if (status == ARKE_OK && !ctx) {
    status = gen_context_create(&own, err);
    ctx = own;
  }
  if (status == ARKE_OK) status = emit_all(ctx, launches, n, t, &b, err);
  if (status == ARKE_OK) status = gen_builder_finish(b, options && options->keep_llvm_ir, a, &text, err);
  if (status == ARKE_OK) status = make_recipe(launches, n, rules, a, &out->recipe, err);
  if (status == ARKE_OK) {
    out->ptx = text.ptx;
    out->ptx_bytes = text.ptx_bytes;
    out->llvm_ir = text.llvm_ir;
  }
  gen_builder_destroy(b);
  gen_context_destroy(own);
  return status;
}
