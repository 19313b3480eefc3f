/* Which product computes a contraction's terms exactly enough, and what its operands are in shared memory. */
#include "templates/mma.h"

/* --- small integers --- */

/* What the absolute value of an integer expression does not exceed; INT64_MAX: not known. */
static int64_t bound_of(const ir_form *form, const ir_expr *e) {
  int64_t x, y, v;
  if (e->node == IR_INT) return e->integer < 0 ? -e->integer : e->integer;
  if (e->node == IR_READ) {
    const ir_access *a = &form->accesses[e->id];
    if (a->other && bound_of(form, a->other) > 128) return INT64_MAX;
    switch (ir_tensor_dtype(form->problem, a->tensor)) {
    case DTYPE_I4: return 8;
    case DTYPE_I8: return 128;
    case DTYPE_U8: return 255;
    case DTYPE_BOOL: return 1;
    default: return INT64_MAX;
    }
  }
  if (e->node == IR_CAST && dtype_class_of(ir_cast_dtype(form->problem, e)) != DTYPE_CLASS_BOOL)
    return dtype_bits(ir_cast_dtype(form->problem, e)) >= 16 ? bound_of(form, e->args[0]) : INT64_MAX;
  if (e->node != IR_OPERATOR || e->n_args < 1 || e->n_args > 2) return INT64_MAX;
  x = bound_of(form, e->args[0]);
  if (e->id == IR_OP_NEG) return x;
  y = bound_of(form, e->args[e->n_args - 1]);
  if (x == INT64_MAX || y == INT64_MAX) return INT64_MAX;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_SUB: return x + y;
  case IR_OP_MUL: return __builtin_mul_overflow(x, y, &v) ? INT64_MAX : v;
  default: return INT64_MAX;
  }
}

static int64_t operand_bound(const ir_form *form, const contraction_operand *o) {
  int64_t bound = 1;
  for (int i = 0; i < o->n_factors; i++) {
    int64_t x = bound_of(form, o->factors[i]);
    if (x == INT64_MAX || __builtin_mul_overflow(bound, x, &bound)) return INT64_MAX;
  }
  return bound;
}

/* --- kinds of operands --- */

typedef enum kind { KIND_BYTE, KIND_SMALL, KIND_FP8, KIND_HALF, KIND_BFLOAT, KIND_TF32, KIND_WHOLE } kind;

/* BYTE: what i8 or u8 hold. SMALL: what f16 and bf16 hold exactly. */
static kind kind_of(const ir_form *form, const contraction_operand *o) {
  if (o->tf32) return KIND_TF32;
  switch (o->type) {
  case DTYPE_I8:
  case DTYPE_U8:
  case DTYPE_I4:
    if (o->access >= 0) return KIND_BYTE;
    break;
  case DTYPE_E4M3:
  case DTYPE_E5M2: return KIND_FP8;
  case DTYPE_E2M1: return KIND_SMALL;
  case DTYPE_F16: return KIND_HALF;
  case DTYPE_BF16: return KIND_BFLOAT;
  default: break;
  }
  int64_t bound = operand_bound(form, o);
  if (bound <= 127) return KIND_BYTE;
  return bound <= 256 ? KIND_SMALL : KIND_WHOLE;
}

static gen_type sum_type(dtype type) {
  switch (type) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_I64: return GEN_I64;
  case DTYPE_I32: return GEN_I32;
  default: return GEN_F32;
  }
}

static dtype whole_type(gen_type sum) {
  switch (sum) {
  case GEN_F64: return DTYPE_F64;
  case GEN_I64: return DTYPE_I64;
  case GEN_I32: return DTYPE_I32;
  default: return DTYPE_F32;
  }
}

/* Rates beside that of warp-group products of 16-bit floats: mma.sync's was seen to be below two thirds of it
 * on an H200; f32 and f64 units are 128 and 64 lanes of an SM that multiplies 1024 f16 a clock. */
static const double mma_rate = 0.62, fma_rate = 1.0 / 16, fma_rate_64 = 1.0 / 32, integer_rate = 1.0 / 32;

static void multiply_one_by_one(const contraction *c, gen_type sum, mma_choice *x) {
  double rate = sum == GEN_F32 ? fma_rate : sum == GEN_F64 ? fma_rate_64 : integer_rate;
  x->product = (mma_product){.fma = true, .sum = sum, .k = 1, .rate = sum == GEN_I64 ? rate / 4 : rate};
  for (int i = 0; i < c->n_operands; i++) x->elements[i] = whole_type(sum);
}

static void multiply_bytes(const contraction *c, mma_choice *x) {
  x->product = (mma_product){.sum = GEN_I32, .k = 32, .rate = 2 * mma_rate};
  int64_t most[2] = {128, 128};
  for (int i = 0; i < c->n_operands; i++) {
    const contraction_operand *o = &c->operands[i];
    bool is_unsigned = o->access >= 0 && o->type == DTYPE_U8;
    x->elements[i] = is_unsigned ? DTYPE_U8 : DTYPE_I8;
    x->types[i] = is_unsigned ? GEN_MMA_U8 : GEN_MMA_S8;
    if (is_unsigned) most[o->side] = 255;
  }
  /* Sums of i32 wrap in the notation, too; those that become floats must not. */
  x->product.most_k = c->sums[0].type == DTYPE_I32 ? 0 : INT32_MAX / (most[0] * most[1]);
}

static void multiply_halves(const contraction *c, bool bfloat, mma_choice *x) {
  x->product = (mma_product){.sum = GEN_F32, .k = 16, .rate = mma_rate};
  for (int i = 0; i < c->n_operands; i++) {
    x->elements[i] = bfloat ? DTYPE_BF16 : DTYPE_F16;
    x->types[i] = bfloat ? GEN_MMA_BF16 : GEN_MMA_F16;
  }
}

static void multiply_fp8(const contraction *c, mma_choice *x) {
  x->product = (mma_product){.sum = GEN_F32, .k = 32, .rate = 2 * mma_rate};
  for (int i = 0; i < c->n_operands; i++) {
    x->elements[i] = c->operands[i].type;
    x->types[i] = c->operands[i].type == DTYPE_E4M3 ? GEN_MMA_E4M3 : GEN_MMA_E5M2;
  }
}

/* tf32 holds what the narrow types do, and f32 elements lie as they are: the instruction ignores their last
 * bits.
 */
static void multiply_tf32(const contraction *c, mma_choice *x) {
  x->product = (mma_product){.sum = GEN_F32, .k = 8, .rate = mma_rate / 2};
  for (int i = 0; i < c->n_operands; i++) {
    x->elements[i] = DTYPE_F32;
    x->types[i] = GEN_MMA_TF32;
  }
}

/* f32 values as three bf16, f16 ones as two, which is exact; products of late parts are left out. */
static void multiply_parts(const contraction *c, const kind *kinds, mma_choice *x) {
  multiply_halves(c, true, x);
  int most[2] = {1, 1}, products = 0;
  for (int i = 0; i < c->n_operands; i++) {
    contraction_side side = c->operands[i].side;
    x->parts[i] = kinds[i] == KIND_WHOLE ? 3 : kinds[i] == KIND_HALF ? 2 : 1;
    if (x->parts[i] > most[side]) most[side] = x->parts[i];
  }
  for (int i = 0; i < most[0]; i++)
    for (int j = 0; j < most[1]; j++) products += i + j < MMA_PARTS;
  x->product.rate = mma_rate / products;
}

/* Operands whose elements are what the product takes. */
static void choose_accesses(const contraction *c, mma_choice *x) {
  for (int i = 0; i < c->n_operands; i++) {
    const contraction_operand *o = &c->operands[i];
    bool same = o->type == x->elements[i] && x->parts[i] == 1;
    x->accesses[i] = !same ? -1 : x->types[i] == GEN_MMA_TF32 && !x->product.fma ? o->element : o->access;
  }
}

static bool outputs_are_narrow(const contraction *c) {
  for (int i = 0; i < c->form.n_outputs; i++) {
    dtype type = ir_tensor_dtype(c->form.problem, c->form.accesses[c->form.outputs[i].access].tensor);
    if (dtype_class_of(type) != DTYPE_CLASS_FLOAT || dtype_bits(type) > 16) return false;
  }
  return true;
}

template_reason mma_choose_product(const contraction *c, const target *t, mma_choice *x) {
  bool seen[KIND_WHOLE + 1] = {false};
  kind kinds[CONTRACTION_OPERANDS];
  gen_type sum = sum_type(c->sums[0].type);
  *x = (mma_choice){.product = {.k = 1}};
  for (int i = 1; i < c->n_sums; i++)
    if (c->sums[i].type != c->sums[0].type) return TEMPLATE_DTYPE;
  for (int i = 0; i < c->n_operands; i++) {
    kinds[i] = kind_of(&c->form, &c->operands[i]);
    seen[kinds[i]] = true;
    x->parts[i] = 1;
  }
  bool floats = sum == GEN_F32, whole = seen[KIND_WHOLE], tf32 = seen[KIND_TF32] && !whole;
  bool halves = seen[KIND_HALF], bfloats = seen[KIND_BFLOAT], fp8 = seen[KIND_FP8];
  bool bytes = !whole && !tf32 && !halves && !bfloats && !fp8 && !seen[KIND_SMALL];
  bool alike = !whole && !seen[KIND_TF32] && !(halves && bfloats);
  if (bytes && (floats || sum == GEN_I32)) {
    multiply_bytes(c, x);
  } else if (tf32 && floats) {
    multiply_tf32(c, x);
  } else if (!floats || (!alike && !outputs_are_narrow(c))) {
    multiply_one_by_one(c, sum, x);
  } else if (!alike) {
    multiply_parts(c, kinds, x);
  } else if (fp8 && !halves && !bfloats && !seen[KIND_BYTE] && !seen[KIND_SMALL] && t->has.convert_fp8) {
    multiply_fp8(c, x);
  } else {
    multiply_halves(c, bfloats, x);
  }
  choose_accesses(c, x);
  return TEMPLATE_OK;
}
