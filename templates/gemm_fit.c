#include "templates/gemm.h"

#include <string.h>

/* The index slot of a plain index subscript, -1 for anything else. */
static int plain_index(const ir_expr *e) {
  return e->node == IR_INDEX ? e->id : -1;
}

/* A read of a rank-2 input at two plain indices. */
static bool matrix_read(const ir_op *op, const ir_expr *e, int slots[2]) {
  if (e->node != IR_READ || e->has_else || e->n_args != 2) return false;
  const ir_tensor *t = &op->tensors[e->id];
  if (t->role != IR_INPUT || t->any_rank || t->rank != 2) return false;
  slots[0] = plain_index(e->args[0]);
  slots[1] = plain_index(e->args[1]);
  return slots[0] >= 0 && slots[1] >= 0;
}

/* An index that runs over a whole axis of the tensor, and not over a multiple or a part of it. */
static bool spans_axis(const ir_op *op, const ir_definition *d, int slot, int tensor, int dim) {
  const ir_dim *extent = &op->tensors[tensor].dims[dim];
  return extent->axis >= 0 && extent->factor == 1 && d->indices[slot].axis == extent->axis;
}

/* Whether `read` is a matrix over {free, k} in either order; *k_major: k comes last. */
static bool operand(const ir_op *op, const ir_definition *d, const ir_expr *read, int free, int k,
                    bool *k_major) {
  int slots[2];
  if (!matrix_read(op, read, slots)) return false;
  *k_major = slots[1] == k;
  int free_dim = *k_major ? 0 : 1, k_dim = *k_major ? 1 : 0;
  return slots[free_dim] == free && slots[k_dim] == k && spans_axis(op, d, free, read->id, free_dim) &&
         spans_axis(op, d, k, read->id, k_dim);
}

bool gemm_match_op(const ir_op *op, gemm_match *match) {
  if (op->n_definitions != 1 || op->n_args != 3 || op->n_inputs != 2 || op->n_tensors != 3) return false;
  const ir_definition *d = &op->definitions[0];
  const ir_expr *sum = d->value;
  if (d->update != IR_ASSIGN || d->tensor2 >= 0 || d->n_subscripts != 2) return false;
  if (sum->node != IR_REDUCE || sum->id != IR_RED_SUM || sum->n_args != 1) return false;
  const ir_expr *product = sum->args[0];
  if (product->node != IR_OPERATOR || product->id != IR_OP_MUL) return false;

  int m = plain_index(d->subscripts[0]), n = plain_index(d->subscripts[1]), k = sum->index;
  if (m < 0 || n < 0 || m == n || !spans_axis(op, d, m, d->tensor, 0) ||
      !spans_axis(op, d, n, d->tensor, 1)) {
    return false;
  }
  const ir_expr *x = product->args[0], *y = product->args[1];
  gemm_match found = {
      .y = d->tensor, .m = d->indices[m].axis, .n = d->indices[n].axis, .k = d->indices[k].axis};
  if (found.m == found.n || found.k == found.m || found.k == found.n) return false;
  if (!operand(op, d, x, m, k, &found.a_k_major) || !operand(op, d, y, n, k, &found.b_k_major)) {
    const ir_expr *swap = x; /* written as B * A */
    x = y;
    y = swap;
    if (!operand(op, d, x, m, k, &found.a_k_major) || !operand(op, d, y, n, k, &found.b_k_major))
      return false;
  }
  if (x->id == y->id) return false;
  found.a = x->id;
  found.b = y->id;
  *match = found;
  return true;
}

gemm_match gemm_match_swapped(const gemm_match *match) {
  return (gemm_match){.a = match->b,
                      .b = match->a,
                      .y = match->y,
                      .m = match->n,
                      .n = match->m,
                      .k = match->k,
                      .a_k_major = match->b_k_major,
                      .b_k_major = match->a_k_major,
                      .y_transposed = !match->y_transposed};
}

static void say(strbuf *detail, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(strbuf *detail, const char *format, ...) {
  if (!detail) return;
  va_list args;
  va_start(args, format);
  strbuf_vaddf(detail, format, args);
  va_end(args);
}

/* The copy unit takes row pitches that are multiples of 16 bytes. */
static bool rows_aligned(const ir_problem *p, int tensor, strbuf *detail) {
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(p, tensor, shape);
  int64_t bytes = dtype_bytes(ir_tensor_dtype(p, tensor), shape[rank - 1]);
  if (bytes % 16 == 0) return true;
  say(detail, "rows of %s are %lld bytes; the gemm template takes multiples of 16",
      p->op->tensors[tensor].name, (long long)bytes);
  return false;
}

template_reason gemm_fit(const ir_problem *p, const target *t, gemm_match *match, strbuf *detail) {
  if (!gemm_match_op(p->op, match)) {
    say(detail,
        "the gemm template takes Y[m,n] = sum(k) of a product of two matrices, one with m, one with n");
    return TEMPLATE_OPERATOR;
  }
  if (!t->has.tma || !t->has.wgmma || !t->has.stmatrix || !t->has.setmaxnreg) {
    say(detail, "%s has no warp-group matrix unit with tensor copies", t->name);
    return TEMPLATE_TARGET;
  }
  dtype type = ir_tensor_dtype(p, match->a);
  if ((type != DTYPE_BF16 && type != DTYPE_F16) || ir_tensor_dtype(p, match->b) != type ||
      ir_tensor_dtype(p, match->y) != type) {
    say(detail, "the gemm template takes bf16 or f16, the same for all three tensors");
    return TEMPLATE_DTYPE;
  }
  int axes[] = {match->m, match->n, match->k};
  for (size_t i = 0; i < COUNT_OF(axes); i++) {
    int64_t size = p->sizes[axes[i]];
    /* Coordinates and sizes are 32-bit in the kernel, and are rounded up to tiles there. */
    if (size < 1 || size > INT32_MAX - 4096) {
      say(detail, "axis %s is %lld; the gemm template takes 1 to %d", p->op->axes[axes[i]], (long long)size,
          INT32_MAX - 4096);
      return TEMPLATE_SIZE;
    }
  }
  if (!rows_aligned(p, match->a, detail) || !rows_aligned(p, match->b, detail) ||
      !rows_aligned(p, match->y, detail)) {
    return TEMPLATE_ALIGNMENT;
  }
  return TEMPLATE_OK;
}

template_reason gemm_fits(const ir_problem *p, const target *t, strbuf *detail) {
  gemm_match match;
  return gemm_fit(p, t, &match, detail);
}
