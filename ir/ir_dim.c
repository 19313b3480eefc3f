/* Dimensions: what they are equal to, how they print, and how many elements they have. */
#include "ir/ir.h"

ir_dim ir_dim_constant(int64_t n) {
  return (ir_dim){.axis = -1, .by = -1, .factor = n};
}

ir_dim ir_dim_axis(int axis) {
  return (ir_dim){.axis = axis, .by = -1, .factor = 1};
}

bool ir_dim_equal(ir_dim a, ir_dim b) {
  return a.axis == b.axis && a.by == b.by && a.factor == b.factor && a.more == b.more;
}

bool ir_dim_is_axis(ir_dim d) {
  return d.axis >= 0 && ir_dim_equal(d, ir_dim_axis(d.axis));
}

void ir_dim_print(const ir_op *op, ir_dim d, strbuf *out) {
  if (d.axis < 0) {
    strbuf_addf(out, "%lld", (long long)d.factor);
    return;
  }
  if (d.factor != 1) strbuf_addf(out, "%lld*", (long long)d.factor);
  strbuf_add(out, op->axes[d.axis]);
  if (d.by >= 0) strbuf_addf(out, "*%s", op->axes[d.by]);
  if (d.more != 0) strbuf_addf(out, "+%lld", (long long)d.more);
}

int64_t ir_dim_size(const ir_problem *p, ir_dim d) {
  int64_t n = d.factor;
  if (d.axis >= 0) n *= p->sizes[d.axis];
  if (d.by >= 0 && __builtin_mul_overflow(n, p->sizes[d.by], &n)) n = INT64_MAX - d.more;
  return n + d.more;
}
