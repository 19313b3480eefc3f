#include "generator/gen_expression.h"

#include "generator/gen_internal.h"
#include "generator/gen_math.h"

/* --- types --- */

/* Narrow elements as what they compute in. */
static gen_value widen(gen_builder *b, gen_value v) {
  switch (gen_type_of(b, v)) {
  case GEN_I8:
  case GEN_I16: return gen_sext(b, v, GEN_I32);
  case GEN_F16:
  case GEN_BF16: return gen_float_cast(b, v, GEN_F32);
  default: return v;
  }
}

static bool is_literal(gen_value v) {
  return LLVMIsAConstantInt(v) != NULL;
}

/* To one of I32, I64, F32, F64, which holds every value of v's type that is narrower. */
static gen_value to_type(gen_builder *b, gen_value v, gen_type type) {
  gen_type from = gen_type_of(b, v);
  if (from == type) return v;
  bool to_float = type == GEN_F32 || type == GEN_F64;
  if (gen_is_float(b, v)) return gen_float_cast(b, v, type);
  if (to_float) return gen_int_to_float(b, v, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, v, type);
  return type == GEN_I64 ? gen_sext(b, v, GEN_I64) : gen_trunc(b, v, type);
}

/* The type two operands meet in. */
static gen_type joined(gen_builder *b, gen_value x, gen_value y) {
  gen_type tx = gen_type_of(b, x), ty = gen_type_of(b, y);
  if (tx == GEN_F64 || ty == GEN_F64) return GEN_F64;
  if (gen_is_float(b, x) || gen_is_float(b, y)) return GEN_F32;
  if (is_literal(x) && !is_literal(y)) return ty == GEN_I1 ? GEN_I32 : ty;
  if (is_literal(y) && !is_literal(x)) return tx == GEN_I1 ? GEN_I32 : tx;
  return tx == GEN_I64 || ty == GEN_I64 ? GEN_I64 : GEN_I32;
}

static void join(gen_builder *b, gen_value *x, gen_value *y) {
  gen_type type = joined(b, *x, *y);
  *x = to_type(b, *x, type);
  *y = to_type(b, *y, type);
}

static gen_value truth(gen_builder *b, gen_value v) {
  if (gen_type_of(b, v) == GEN_I1) return v;
  return gen_compare(b, GEN_NE, v, LLVMConstNull(LLVMTypeOf(v)));
}

/* --- arithmetic --- */

/* Quotient and remainder rounded toward minus infinity, from those rounded toward zero. */
static gen_value floor_division(gen_builder *b, gen_value x, gen_value y, bool remainder) {
  gen_value zero = LLVMConstNull(LLVMTypeOf(x));
  gen_value r = gen_srem(b, x, y);
  gen_value inexact = gen_compare(b, GEN_NE, r, zero);
  gen_value opposite = gen_compare(b, GEN_SLT, gen_xor(b, r, y), zero);
  gen_value adjust = gen_and(b, inexact, opposite);
  if (remainder) return gen_select(b, adjust, gen_add(b, r, y), r);
  gen_value q = gen_sdiv(b, x, y);
  return gen_select(b, adjust, gen_add_imm(b, q, -1), q);
}

/* x - y floor(x / y) would round; the exact remainder toward zero is corrected instead. */
static gen_value float_remainder(gen_builder *b, gen_value x, gen_value y) {
  gen_value zero = LLVMConstNull(LLVMTypeOf(x));
  gen_value r = LLVMBuildFRem(b->ir, x, y, "");
  gen_value opposite = gen_xor(b, gen_compare(b, GEN_SLT, r, zero), gen_compare(b, GEN_SLT, y, zero));
  gen_value adjust = gen_and(b, gen_compare(b, GEN_NE, r, zero), opposite);
  return gen_select(b, adjust, gen_fadd(b, r, y), r);
}

static gen_value arithmetic(gen_builder *b, ir_operator op, gen_value x, gen_value y) {
  join(b, &x, &y);
  bool floats = gen_is_float(b, x);
  switch (op) {
  case IR_OP_ADD: return floats ? gen_fadd(b, x, y) : gen_add(b, x, y);
  case IR_OP_SUB: return floats ? gen_fsub(b, x, y) : gen_sub(b, x, y);
  case IR_OP_MUL: return floats ? gen_fmul(b, x, y) : gen_mul(b, x, y);
  case IR_OP_DIV: return floats ? gen_fdiv(b, x, y) : floor_division(b, x, y, false);
  default: return floats ? float_remainder(b, x, y) : floor_division(b, x, y, true);
  }
}

static gen_value comparison(gen_builder *b, gen_comparison c, gen_value x, gen_value y) {
  join(b, &x, &y);
  return gen_compare(b, c, x, y);
}

static gen_value apply_operator(gen_builder *b, ir_operator op, const gen_value *args) {
  gen_value x = args[0], y = args[1], z = args[2];
  switch (op) {
  case IR_OP_ADD:
  case IR_OP_SUB:
  case IR_OP_MUL:
  case IR_OP_DIV:
  case IR_OP_MOD: return arithmetic(b, op, x, y);
  case IR_OP_LT: return comparison(b, GEN_SLT, x, y);
  case IR_OP_LE: return comparison(b, GEN_SLE, x, y);
  case IR_OP_GT: return comparison(b, GEN_SGT, x, y);
  case IR_OP_GE: return comparison(b, GEN_SGE, x, y);
  case IR_OP_EQ: return comparison(b, GEN_EQ, x, y);
  case IR_OP_NE: return comparison(b, GEN_NE, x, y);
  case IR_OP_AND: return gen_and(b, truth(b, x), truth(b, y));
  case IR_OP_OR: return gen_or(b, truth(b, x), truth(b, y));
  case IR_OP_NOT: return gen_xor(b, truth(b, x), gen_bool(b, true));
  case IR_OP_NEG:
    if (gen_is_float(b, x)) return LLVMBuildFNeg(b->ir, x, "");
    return gen_sub(b, LLVMConstNull(LLVMTypeOf(x)), x);
  case IR_OP_SELECT: join(b, &y, &z); return gen_select(b, truth(b, x), y, z);
  case IR_OP_COUNT: break;
  }
  return x;
}

/* The value of cast<type>(v) in further arithmetic: what a store and a load would give. */
static arke_status cast(gen_builder *b, gen_value v, dtype type, gen_value *value, arke_error *err) {
  TRY(gen_convert(b, v, type, value, err));
  *value = gen_widen(b, type, *value);
  return ARKE_OK;
}

/* --- the walk --- */

/* Arguments of a function in one type: floats unless all are integers and the function keeps them. */
static void join_arguments(gen_builder *b, ir_function f, gen_value *args, int n) {
  bool literals = true;
  for (int i = 0; i < n; i++) literals = literals && is_literal(args[i]);
  gen_type type = literals ? GEN_I64 : GEN_I32;
  for (int i = 0; i < n; i++) {
    gen_type t = gen_type_of(b, args[i]);
    if (t == GEN_F64 || type == GEN_F64) {
      type = GEN_F64;
    } else if (gen_is_float(b, args[i]) || type == GEN_F32) {
      type = GEN_F32;
    } else if (t == GEN_I64 && !is_literal(args[i])) {
      type = GEN_I64;
    }
  }
  if ((type == GEN_I32 || type == GEN_I64) && !gen_math_takes_integers(f)) type = GEN_F32;
  for (int i = 0; i < n; i++) args[i] = to_type(b, args[i], type);
}

static arke_status call(gen_builder *b, ir_function f, gen_value *args, int n, gen_value *value,
                        arke_error *err) {
  if (f == IR_FN_WHERE) {
    *value = apply_operator(b, IR_OP_SELECT, args);
    return ARKE_OK;
  }
  join_arguments(b, f, args, n);
  return gen_math(b, f, args, value, err);
}

arke_status gen_expression(gen_builder *b, const gen_expression_env *env, const ir_expr *e, gen_value *value,
                           arke_error *err) {
  enum { MOST_ARGS = 3 };
  gen_value args[MOST_ARGS] = {NULL, NULL, NULL};
  bool own_args = e->node == IR_CALL || e->node == IR_OPERATOR || e->node == IR_CAST;
  if (own_args && e->n_args > MOST_ARGS) {
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a node of %d operands", e->n_args);
  }
  for (int i = 0; own_args && i < e->n_args; i++) TRY(gen_expression(b, env, e->args[i], &args[i], err));
  switch (e->node) {
  case IR_FLOAT: *value = gen_f32(b, e->number); return ARKE_OK;
  case IR_INT: *value = gen_i64(b, e->integer); return ARKE_OK;
  case IR_INDEX: *value = env->index(env->user, b, e->id); return ARKE_OK;
  case IR_SIZE: *value = env->size(env->user, b, e->id); return ARKE_OK;
  case IR_ATTR: *value = env->attr(env->user, b, e->id); return ARKE_OK;
  case IR_CALL: return call(b, (ir_function)e->id, args, e->n_args, value, err);
  case IR_OPERATOR: *value = apply_operator(b, (ir_operator)e->id, args); return ARKE_OK;
  case IR_CAST: return cast(b, args[0], ir_cast_dtype(env->problem, e), value, err);
  case IR_READ:
  case IR_REDUCE:
    TRY(env->node(env->user, b, e, value, err));
    *value = widen(b, *value);
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a node of unknown kind %d", (int)e->node);
}
