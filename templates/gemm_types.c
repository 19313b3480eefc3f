/* How warp groups multiply elements: which types of operands there are. */
#include "templates/gemm.h"

/* Pairs of element types that an instruction takes. */
static const struct {
  dtype a, b;
  double rate; /* beside that of 16-bit floats */
} pairs[] = {
    {DTYPE_BF16, DTYPE_BF16, 1}, {DTYPE_F16, DTYPE_F16, 1},   {DTYPE_F32, DTYPE_F32, 0.5}, /* tf32 */
    {DTYPE_E4M3, DTYPE_E4M3, 2}, {DTYPE_E4M3, DTYPE_E5M2, 2}, {DTYPE_E5M2, DTYPE_E4M3, 2},
    {DTYPE_E5M2, DTYPE_E5M2, 2}, {DTYPE_I8, DTYPE_I8, 2},     {DTYPE_I8, DTYPE_U8, 2},
    {DTYPE_U8, DTYPE_I8, 2},     {DTYPE_U8, DTYPE_U8, 2},
};

static dtype element_of(const contraction *c, int operand) {
  int read = gemm_read(c, operand);
  return read < 0 ? c->operands[operand].type
                  : ir_tensor_dtype(c->form.problem, c->form.accesses[read].tensor);
}

/* f32 is multiplied as tf32, where the operator says so. */
static bool same_elements(const contraction *c, contraction_side side, dtype type) {
  for (int i = 0; i < c->n_operands; i++) {
    const contraction_operand *o = &c->operands[i];
    if (o->side == side && (element_of(c, i) != type || o->tf32 != (type == DTYPE_F32))) return false;
  }
  return true;
}

static bool has_scales(const contraction *c) {
  for (int i = 0; i < c->n_operands; i++)
    if (c->operands[i].n_factors > 1) return true;
  return false;
}

template_reason gemm_choose_type(const contraction *c, gemm_type *type, strbuf *detail) {
  for (size_t i = 0; i < COUNT_OF(pairs); i++) {
    if (!same_elements(c, CONTRACTION_A, pairs[i].a) || !same_elements(c, CONTRACTION_B, pairs[i].b))
      continue;
    int bytes = dtype_bits(pairs[i].a) / 8;
    *type = (gemm_type){.a = pairs[i].a,
                        .b = pairs[i].b,
                        .bytes = bytes,
                        .k = gen_wgmma_k(pairs[i].a),
                        .transposes = bytes == 2,
                        .sum = has_scales(c) ? GEN_F32 : gen_wgmma_sum(pairs[i].a),
                        .rate = pairs[i].rate};
    bool sums = true;
    for (int s = 0; s < c->n_sums; s++)
      sums = sums && c->sums[s].type == (type->sum == GEN_F32 ? DTYPE_F32 : DTYPE_I32);
    if (sums) return TEMPLATE_OK;
  }
  if (detail)
    strbuf_add(detail, "the gemm template multiplies bf16, f16, tf32, 8-bit floats or 8-bit integers, all "
                       "operands of one kind");
  return TEMPLATE_DTYPE;
}
