/* Tensor maps over a contraction's tensors, as data. */
#include "templates/copy_start.h"
#include "templates/gemm.h"

enum { L2_PROMOTION_256 = 3 };

static int swizzle_number(gen_swizzle s) {
  switch (s) {
  case GEN_SWIZZLE_NONE: return 0;
  case GEN_SWIZZLE_32: return 1;
  case GEN_SWIZZLE_64: return 2;
  case GEN_SWIZZLE_128: return 3;
  }
  return 0;
}

/* Elements of a dimension of the map: where a loop is the subscript as many as it has, so that copies read
 * zeros and write nothing past its end; else all there are. */
static const recipe_expr *elements(const ir_form *form, const ir_access *x, int s, arena *a) {
  const ir_expr *e = x->subscripts[s].e;
  return e->node == IR_INDEX ? kernel_extent(form, e->id, a) : kernel_size(form, x, s, a);
}

recipe_tensormap gemm_map(const gemm_match *match, const gemm_view *view, int width, int height,
                          gen_swizzle swizzle, arena *a) {
  const ir_form *form = &match->c->form;
  const ir_access *x = &form->accesses[view->access];
  recipe_tensormap map = {.rank = view->rank,
                          .box = {(uint32_t)width, (uint32_t)height, 1, 1, 1},
                          .swizzle = swizzle_number(swizzle),
                          .l2_promotion = L2_PROMOTION_256};
  for (int i = 0; i < view->rank; i++) {
    map.dim[i] = elements(form, x, view->subscript[i], a);
    if (i > 0) map.stride[i] = kernel_stride(form, x, view->subscript[i], false, a);
  }
  return map;
}

/* One dimension after the other of a subscript of several lies without gaps: the outer stride is the inner
 * one times the inner size. */
static void require_joined(const ir_form *form, const ir_access *x, int s, recipe *rules, arena *a) {
  const ir_op *op = form->problem->op;
  const ir_subscript *sub = &x->subscripts[s];
  const char *why =
      arena_printf(a, "axes of %s that are walked as one must lie without gaps", op->tensors[x->tensor].name);
  for (int d = sub->first + sub->count - 1; d > sub->first; d--) {
    bool leading = d - 1 < 0;
    const recipe_expr *outer =
        kernel_variable(op, x->tensor, leading ? "lead" : "stride", leading ? 0 : d - 1, a);
    const recipe_expr *inner = kernel_variable(op, x->tensor, "stride", d, a);
    inner = recipe_binary(a, RECIPE_MUL, inner, kernel_dim(op, op->tensors[x->tensor].dims[d], a));
    kernel_require(rules, a, recipe_binary(a, RECIPE_SUB, outer, inner), 0, 0, why);
    kernel_require(rules, a, recipe_binary(a, RECIPE_SUB, inner, outer), 0, 0, why);
  }
}

void gemm_require_view(const gemm_match *match, const gemm_view *view, recipe *rules, arena *a) {
  const ir_form *form = &match->c->form;
  const ir_access *x = &form->accesses[view->access];
  dtype type = ir_tensor_dtype(form->problem, x->tensor);
  recipe_tensor_rule *rule = &rules->tensors[x->tensor];
  if (rule->alignment < 16) rule->alignment = 16;
  rule->contiguous_last = true;
  for (int i = 0; i < view->rank; i++) {
    if (i > 0)
      kernel_require(rules, a, kernel_stride(form, x, view->subscript[i], false, a), 128 / dtype_bits(type),
                     0,
                     arena_printf(a, "rows of %s must start at multiples of 16 bytes",
                                  form->problem->op->tensors[x->tensor].name));
    if (match->merged) require_joined(form, x, view->subscript[i], rules, a);
  }
  copy_start_require(form, view->access, gemm_tile_loops(match), rules, a);
}
