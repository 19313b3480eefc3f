/* How a gemm kernel is launched, as data. */
#include <stdio.h>

#include "templates/gemm.h"

static const recipe_expr *axis(const ir_op *op, arena *a, int i) {
  return recipe_var(a, op->axes[i]);
}

static const recipe_expr *row_stride(const ir_op *op, arena *a, int tensor) {
  const char *name = arena_printf(a, "%s.stride0", op->tensors[tensor].name);
  return name ? recipe_var(a, name) : NULL;
}

/* ceildiv(axis, elements) */
static const recipe_expr *tiles(const ir_op *op, arena *a, int i, int64_t elements) {
  return recipe_binary(a, RECIPE_CEILDIV, axis(op, a, i), recipe_const(a, elements));
}

static const recipe_expr *units(const ir_op *op, const gemm_plan *plan, arena *a) {
  return recipe_binary(a, RECIPE_MUL, tiles(op, a, plan->match.m, (int64_t)plan->block_m * plan->cluster_m),
                       tiles(op, a, plan->match.n, (int64_t)plan->block_n * plan->cluster_n));
}

/* Clusters that the device holds at a time. */
static const recipe_expr *resident(const gemm_plan *plan, arena *a) {
  const recipe_expr *clusters = recipe_var(a, "SMS");
  if (plan->cluster == 1) return clusters;
  clusters = recipe_binary(a, RECIPE_DIV, clusters, recipe_const(a, plan->cluster));
  return recipe_binary(a, RECIPE_MAX, clusters, recipe_const(a, 1));
}

/* CTAs: one cluster a unit, or as many as the device holds. */
static const recipe_expr *grid(const ir_op *op, const gemm_plan *plan, arena *a) {
  const recipe_expr *clusters = units(op, plan, a);
  if (plan->stream || plan->even) {
    clusters = resident(plan, a);
  } else if (plan->persistent) {
    clusters = recipe_binary(a, RECIPE_MIN, resident(plan, a), clusters);
  }
  return plan->cluster == 1 ? clusters
                            : recipe_binary(a, RECIPE_MUL, clusters, recipe_const(a, plan->cluster));
}

/* STREAM_K: slots of all CTAs, then flags of their consumer groups, in whole CTAs of the kernel that clears
 * them. */
static const recipe_expr *slots_bytes(const ir_op *op, const gemm_plan *plan, arena *a) {
  return recipe_binary(a, RECIPE_MUL, grid(op, plan, a), recipe_const(a, plan->slot_bytes));
}

static const recipe_expr *clearing_ctas(const ir_op *op, const gemm_plan *plan, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV,
                       recipe_binary(a, RECIPE_MUL, grid(op, plan, a), recipe_const(a, plan->consumers)),
                       recipe_const(a, GEMM_CLEAR_THREADS));
}

static const recipe_expr *workspace_bytes(const ir_op *op, const gemm_plan *plan, arena *a) {
  return recipe_binary(
      a, RECIPE_ADD, slots_bytes(op, plan, a),
      recipe_binary(a, RECIPE_MUL, clearing_ctas(op, plan, a), recipe_const(a, GEMM_CLEAR_THREADS * 4)));
}

static recipe_param workspace_param(const recipe_expr *offset) {
  return (recipe_param){.kind = RECIPE_PARAM_WORKSPACE, .value = offset};
}

static int swizzle_number(gen_swizzle s) {
  switch (s) {
  case GEN_SWIZZLE_NONE: return 0;
  case GEN_SWIZZLE_32: return 1;
  case GEN_SWIZZLE_64: return 2;
  case GEN_SWIZZLE_128: return 3;
  }
  return 0;
}

enum { L2_PROMOTION_256 = 3, MAP_RANK = 2 };

/* A map over a row-major matrix whose axes are `rows` and `columns`. */
static recipe_param matrix_map(const ir_op *op, arena *a, int tensor, int rows, int columns, int box_columns,
                               int box_rows, gen_swizzle swizzle) {
  return (recipe_param){.kind = RECIPE_PARAM_TENSORMAP,
                        .tensor = tensor,
                        .map = {.rank = MAP_RANK,
                                .dim = {axis(op, a, columns), axis(op, a, rows)},
                                .stride = {NULL, row_stride(op, a, tensor)},
                                .box = {(uint32_t)box_columns, (uint32_t)box_rows},
                                .swizzle = swizzle_number(swizzle),
                                .l2_promotion = L2_PROMOTION_256}};
}

static recipe_param operand_map(const ir_op *op, arena *a, int tensor, const gemm_operand *o, int free,
                                int k) {
  int rows = o->k_major ? free : k, columns = o->k_major ? k : free;
  return matrix_map(op, a, tensor, rows, columns, o->panel_width, o->panel_height / o->shares, o->swizzle);
}

static recipe_param size_param(const ir_op *op, arena *a, int i) {
  return (recipe_param){.kind = RECIPE_PARAM_I32, .value = axis(op, a, i)};
}

static bool map_complete(const recipe_tensormap *m) {
  return m->dim[0] && m->dim[1] && m->stride[1];
}

static arke_status add_params(const ir_op *op, const gemm_plan *plan, arena *a, recipe_launch *l,
                              arke_error *err) {
  const gemm_match *match = &plan->match;
  l->n_params = plan->stream ? 8 : 6;
  l->params = ARENA_NEW_N(a, recipe_param, 8);
  if (!l->params) return error_memory(err, "generate");
  l->params[0] = operand_map(op, a, match->a, &plan->a, match->m, match->k);
  l->params[1] = operand_map(op, a, match->b, &plan->b, match->n, match->k);
  int rows = match->y_transposed ? match->n : match->m, columns = match->y_transposed ? match->m : match->n;
  l->params[2] =
      matrix_map(op, a, match->y, rows, columns, plan->store_width, plan->store_height, plan->store_swizzle);
  l->params[3] = size_param(op, a, match->m);
  l->params[4] = size_param(op, a, match->n);
  l->params[5] = size_param(op, a, match->k);
  if (plan->stream) {
    l->params[6] = workspace_param(recipe_const(a, 0));
    l->params[7] = workspace_param(slots_bytes(op, plan, a));
  }
  for (int i = 0; i < 3; i++) {
    if (!map_complete(&l->params[i].map)) return error_memory(err, "generate");
  }
  for (int i = 3; i < l->n_params; i++) {
    if (!l->params[i].value) return error_memory(err, "generate");
  }
  return ARKE_OK;
}

/* Rows at multiples of 16 bytes, 32-bit sizes with room to round up to tiles, and a grid the driver takes. */
static arke_status add_requirements(const ir_op *op, const gemm_plan *plan, arena *a, recipe *r,
                                    arke_error *err) {
  const gemm_match *match = &plan->match;
  int tensors[] = {match->a, match->b, match->y}, axes[] = {match->m, match->n, match->k};
  r->requirements = ARENA_NEW_N(a, recipe_requirement, 7);
  if (!r->requirements) return error_memory(err, "generate");
  for (int i = 0; i < 3; i++) {
    r->requirements[r->n_requirements++] =
        (recipe_requirement){.expr = row_stride(op, a, tensors[i]),
                             .divisor = 8,
                             .why = arena_printf(a, "rows of %s must start at multiples of 16 bytes",
                                                 op->tensors[tensors[i]].name)};
  }
  for (int i = 0; i < 3; i++) {
    r->requirements[r->n_requirements++] = (recipe_requirement){
        .expr = axis(op, a, axes[i]),
        .max = plan->stream && axes[i] == match->k ? GEMM_STREAM_MAX_K : INT32_MAX - 4096,
        .why = arena_printf(a, "%s must fit the kernel's 32-bit coordinates", op->axes[axes[i]])};
  }
  r->requirements[r->n_requirements++] =
      (recipe_requirement){.expr = units(op, plan, a),
                           .max = INT32_MAX / plan->cluster,
                           .why = "the output has more tiles than a grid can have blocks"};
  for (int i = 0; i < r->n_requirements; i++) {
    if (!r->requirements[i].expr || !r->requirements[i].why) return error_memory(err, "generate");
  }
  return ARKE_OK;
}

static void start_launch(recipe_launch *l, const char *kernel, const recipe_expr *ctas, int threads,
                         int cluster, arena *a) {
  l->kernel = kernel;
  l->early_start = true;
  l->grid[0] = ctas;
  l->grid[1] = l->grid[2] = recipe_const(a, 1);
  l->block[0] = (uint32_t)threads;
  l->cluster[0] = (uint32_t)cluster;
  l->block[1] = l->block[2] = l->cluster[1] = l->cluster[2] = 1;
}

static bool launch_complete(const recipe_launch *l) {
  return l->grid[0] && l->grid[1] && l->smem_bytes && l->params;
}

static arke_status add_clearing(const ir_op *op, const gemm_plan *plan, arena *a, recipe *r,
                                arke_error *err) {
  recipe_launch *l = &r->launches[r->n_launches++];
  start_launch(l, GEMM_CLEAR_NAME, clearing_ctas(op, plan, a), GEMM_CLEAR_THREADS, 1, a);
  l->smem_bytes = recipe_const(a, 0);
  l->n_params = 1;
  l->params = ARENA_NEW(a, recipe_param);
  if (!launch_complete(l)) return error_memory(err, "generate");
  l->params[0] = workspace_param(slots_bytes(op, plan, a));
  r->workspace_bytes = workspace_bytes(op, plan, a);
  return l->params[0].value && r->workspace_bytes ? ARKE_OK : error_memory(err, "generate");
}

arke_status gemm_recipe(const ir_op *op, const gemm_plan *plan, arena *a, recipe *r, arke_error *err) {
  *r = (recipe){.n_tensors = op->n_args};
  for (int i = 0; i < op->n_args; i++)
    r->tensors[i] = (recipe_tensor_rule){.alignment = 16, .contiguous_last = true};
  TRY(add_requirements(op, plan, a, r, err));
  r->launches = ARENA_NEW_N(a, recipe_launch, 2);
  if (!r->launches) return error_memory(err, "generate");
  if (plan->stream) TRY(add_clearing(op, plan, a, r, err));
  recipe_launch *l = &r->launches[r->n_launches++];
  start_launch(l, GEMM_KERNEL_NAME, grid(op, plan, a), plan->threads, plan->cluster, a);
  l->smem_bytes = recipe_const(a, plan->smem_bytes);
  TRY(add_params(op, plan, a, l, err));
  return launch_complete(l) ? ARKE_OK : error_memory(err, "generate");
}
