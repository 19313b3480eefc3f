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

/* CTAs: one cluster a unit, or as many as the device holds. */
static const recipe_expr *grid(const ir_op *op, const gemm_plan *plan, arena *a) {
  const recipe_expr *clusters = units(op, plan, a);
  if (plan->persistent) {
    const recipe_expr *resident = recipe_var(a, "SMS");
    if (plan->cluster > 1) {
      resident = recipe_binary(a, RECIPE_DIV, resident, recipe_const(a, plan->cluster));
      resident = recipe_binary(a, RECIPE_MAX, resident, recipe_const(a, 1));
    }
    clusters = recipe_binary(a, RECIPE_MIN, resident, clusters);
  }
  return plan->cluster == 1 ? clusters
                            : recipe_binary(a, RECIPE_MUL, clusters, recipe_const(a, plan->cluster));
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
  l->n_params = 6;
  l->params = ARENA_NEW_N(a, recipe_param, 6);
  if (!l->params) return error_memory(err, "generate");
  l->params[0] = operand_map(op, a, match->a, &plan->a, match->m, match->k);
  l->params[1] = operand_map(op, a, match->b, &plan->b, match->n, match->k);
  l->params[2] =
      matrix_map(op, a, match->y, match->m, match->n, plan->panel_n, plan->group_rows, plan->store_swizzle);
  l->params[3] = size_param(op, a, match->m);
  l->params[4] = size_param(op, a, match->n);
  l->params[5] = size_param(op, a, match->k);
  for (int i = 0; i < 3; i++) {
    if (!map_complete(&l->params[i].map)) return error_memory(err, "generate");
  }
  for (int i = 3; i < 6; i++) {
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
        .max = INT32_MAX - 4096,
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

arke_status gemm_recipe(const ir_op *op, const gemm_plan *plan, arena *a, recipe *r, arke_error *err) {
  *r = (recipe){.n_tensors = op->n_args, .n_launches = 1};
  for (int i = 0; i < op->n_args; i++)
    r->tensors[i] = (recipe_tensor_rule){.alignment = 16, .contiguous_last = true};
  TRY(add_requirements(op, plan, a, r, err));
  recipe_launch *l = r->launches = ARENA_NEW(a, recipe_launch);
  if (!l) return error_memory(err, "generate");
  l->kernel = GEMM_KERNEL_NAME;
  l->early_start = true;
  l->grid[0] = grid(op, plan, a);
  l->grid[1] = recipe_const(a, 1);
  l->grid[2] = recipe_const(a, 1);
  l->block[0] = (uint32_t)plan->threads;
  l->block[1] = l->block[2] = 1;
  l->cluster[0] = (uint32_t)plan->cluster;
  l->cluster[1] = l->cluster[2] = 1;
  l->smem_bytes = recipe_const(a, plan->smem_bytes);
  if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->smem_bytes) return error_memory(err, "generate");
  return add_params(op, plan, a, l, err);
}
