#include "generator/gen_expression.h"

#include <string.h>

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

/* A float literal is kept as a double until it meets a value: then it is f32 or f64 as that is. */
static bool is_float_literal(gen_builder *b, gen_value v) {
  return LLVMIsAConstantFP(v) != NULL && gen_type_of(b, v) == GEN_F64;
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
  if (is_float_literal(b, x) && !is_float_literal(b, y)) return ty == GEN_F64 ? GEN_F64 : GEN_F32;
  if (is_float_literal(b, y) && !is_float_literal(b, x)) return tx == GEN_F64 ? GEN_F64 : GEN_F32;
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

static gen_value arithmetic(gen_builder *b, ir_operator op, gen_accuracy accuracy, gen_value x, gen_value y) {
  join(b, &x, &y);
  bool floats = gen_is_float(b, x);
  switch (op) {
  case IR_OP_ADD: return floats ? gen_fadd(b, x, y) : gen_add(b, x, y);
  case IR_OP_SUB: return floats ? gen_fsub(b, x, y) : gen_sub(b, x, y);
  case IR_OP_MUL: return floats ? gen_fmul(b, x, y) : gen_mul(b, x, y);
  case IR_OP_DIV: return floats ? gen_divide(b, accuracy, x, y) : floor_division(b, x, y, false);
  default: return floats ? gen_float_modulo(b, x, y) : floor_division(b, x, y, true);
  }
}

static gen_value comparison(gen_builder *b, gen_comparison c, gen_value x, gen_value y) {
  join(b, &x, &y);
  return gen_compare(b, c, x, y);
}

static gen_value apply_operator(gen_builder *b, ir_operator op, gen_accuracy accuracy,
                                const gen_value *args) {
  gen_value x = args[0], y = args[1], z = args[2];
  switch (op) {
  case IR_OP_ADD:
  case IR_OP_SUB:
  case IR_OP_MUL:
  case IR_OP_DIV:
  case IR_OP_MOD: return arithmetic(b, op, accuracy, x, y);
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

struct gen_memo {
  arena *a;
  size_t n, capacity; /* a power of two */
  struct memo_entry {
    const ir_expr *e;
    gen_value value;
    gen_accuracy accuracy;
  } * entries;
};

static bool memo_grow(gen_memo *m, size_t capacity) {
  struct memo_entry *old = m->entries, *entries = ARENA_NEW_N(m->a, struct memo_entry, capacity);
  if (!entries) return false;
  memset(entries, 0, capacity * sizeof *entries);
  for (size_t i = 0; i < m->capacity; i++) {
    if (!old[i].e) continue;
    size_t at = ((uintptr_t)old[i].e >> 4) * 0x9E3779B1u & (capacity - 1);
    while (entries[at].e) at = (at + 1) & (capacity - 1);
    entries[at] = old[i];
  }
  m->entries = entries;
  m->capacity = capacity;
  return true;
}

gen_memo *gen_memo_create(arena *a) {
  gen_memo *m = ARENA_NEW(a, gen_memo);
  if (!m) return NULL;
  *m = (gen_memo){.a = a};
  return memo_grow(m, 64) ? m : NULL;
}

/* The entry of a node, or the empty one where it would stand. */
static struct memo_entry *memo_find(gen_memo *m, const ir_expr *e) {
  size_t at = ((uintptr_t)e >> 4) * 0x9E3779B1u & (m->capacity - 1);
  while (m->entries[at].e && m->entries[at].e != e) at = (at + 1) & (m->capacity - 1);
  return &m->entries[at];
}

/* A value of more accuracy serves where less is asked for. */
static gen_value remembered(const gen_expression_env *env, const ir_expr *e, gen_accuracy accuracy) {
  if (!env->memo) return NULL;
  const struct memo_entry *entry = memo_find(env->memo, e);
  return entry->e && entry->accuracy <= accuracy ? entry->value : NULL;
}

static void remember(const gen_expression_env *env, const ir_expr *e, gen_accuracy accuracy,
                     gen_value value) {
  gen_memo *m = env->memo;
  if (!m || (2 * m->n > m->capacity && !memo_grow(m, 2 * m->capacity)))
    return; /* it is only computed again */
  struct memo_entry *entry = memo_find(m, e);
  if (!entry->e) m->n++;
  *entry = (struct memo_entry){e, value, accuracy};
}

/* Arguments of a function in one type: floats unless all are integers and the function keeps them. */
static void join_arguments(gen_builder *b, ir_function f, gen_value *args, int n) {
  bool floats = !gen_math_takes_integers(f), f64 = false, i64 = false, integer = false,
       all_f64_literals = true;
  for (int i = 0; i < n; i++) {
    gen_type t = gen_type_of(b, args[i]);
    if (gen_is_float(b, args[i])) floats = true;
    if (is_float_literal(b, args[i])) continue;
    all_f64_literals = false;
    f64 = f64 || t == GEN_F64;
    if (is_literal(args[i])) continue;
    integer = true;
    i64 = i64 || t == GEN_I64;
  }
  gen_type type = floats            ? (f64 || all_f64_literals ? GEN_F64 : GEN_F32)
                  : i64 || !integer ? GEN_I64
                                    : GEN_I32;
  for (int i = 0; i < n; i++) args[i] = to_type(b, args[i], type);
}

static arke_status call(gen_builder *b, ir_function f, gen_accuracy accuracy, gen_value *args, int n,
                        gen_value *value, arke_error *err) {
  if (f == IR_FN_WHERE) {
    *value = apply_operator(b, IR_OP_SELECT, accuracy, args);
    return ARKE_OK;
  }
  join_arguments(b, f, args, n);
  return gen_math_to(b, f, accuracy, args, value, err);
}

static bool is_never_negative(const ir_expr *e) {
  switch (e->node) {
  case IR_FLOAT: return e->number >= 0;
  case IR_INT: return e->integer >= 0;
  case IR_CAST: return is_never_negative(e->args[0]);
  case IR_OPERATOR:
    switch ((ir_operator)e->id) {
    case IR_OP_MUL:
      if (e->args[0] == e->args[1]) return true;
      return is_never_negative(e->args[0]) && is_never_negative(e->args[1]);
    case IR_OP_ADD:
    case IR_OP_DIV: return is_never_negative(e->args[0]) && is_never_negative(e->args[1]);
    case IR_OP_SELECT: return is_never_negative(e->args[1]) && is_never_negative(e->args[2]);
    default: return false;
    }
  case IR_CALL:
    switch ((ir_function)e->id) {
    case IR_FN_ABS:
    case IR_FN_EXP:
    case IR_FN_EXP2:
    case IR_FN_SQRT:
    case IR_FN_RSQRT:
    case IR_FN_SIGMOID:
    case IR_FN_RELU:
    case IR_FN_SOFTPLUS: return true;
    default: return false;
    }
  default: return false;
  }
}

static bool keeps_relative_error(const ir_expr *e) {
  switch (e->node) {
  case IR_CAST: return true;
  case IR_REDUCE: /* terms of one sign do not cancel */
    if (e->id == IR_RED_SUM) return is_never_negative(e->args[0]);
    return e->id == IR_RED_MAX || e->id == IR_RED_MIN;
  case IR_OPERATOR:
    switch ((ir_operator)e->id) {
    case IR_OP_MUL:
    case IR_OP_DIV:
    case IR_OP_NEG:
    case IR_OP_SELECT: return true;
    default: return false;
    }
  case IR_CALL:
    switch ((ir_function)e->id) {
    case IR_FN_ABS:
    case IR_FN_NEG:
    case IR_FN_SQRT:
    case IR_FN_RSQRT:
    case IR_FN_RECIP:
    case IR_FN_MIN:
    case IR_FN_MAX:
    case IR_FN_RELU:
    case IR_FN_TANH: /* |x f'(x) / f(x)| <= 1 */
    case IR_FN_ERF:
    case IR_FN_WHERE: return true;
    default: return false;
    }
  default: return false;
  }
}

gen_accuracy gen_operand_accuracy(const ir_expr *e, gen_accuracy own) {
  bool function = e->node == IR_CALL;
  if (keeps_relative_error(e) || (own == GEN_ACCURACY_FAST && !function)) return own;
  return GEN_ACCURACY_FULL;
}

static arke_status lower(gen_builder *b, const gen_expression_env *env, const ir_expr *e,
                         gen_accuracy accuracy, gen_value *value, arke_error *err);

static arke_status lower_afresh(gen_builder *b, const gen_expression_env *env, const ir_expr *e,
                                gen_accuracy accuracy, gen_value *value, arke_error *err) {
  enum { MOST_ARGS = 3 };
  gen_value args[MOST_ARGS] = {NULL, NULL, NULL};
  bool own_args = e->node == IR_CALL || e->node == IR_OPERATOR || e->node == IR_CAST;
  if (own_args && e->n_args > MOST_ARGS) {
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a node of %d operands", e->n_args);
  }
  gen_accuracy inner = gen_operand_accuracy(e, accuracy);
  for (int i = 0; own_args && i < e->n_args; i++) TRY(lower(b, env, e->args[i], inner, &args[i], err));
  switch (e->node) {
  case IR_FLOAT: *value = LLVMConstReal(b->types[GEN_F64], e->number); return ARKE_OK;
  case IR_INT: *value = gen_i64(b, e->integer); return ARKE_OK;
  case IR_INDEX: *value = env->index(env->user, b, e->id); return ARKE_OK;
  case IR_SIZE: *value = env->size(env->user, b, e->id); return ARKE_OK;
  case IR_ATTR: /* a float is a literal: f32, or f64 beside one */
    *value = env->problem->op->attrs[e->id].kind == IR_ATTR_FLOAT
                 ? LLVMConstReal(b->types[GEN_F64], env->problem->attrs[e->id])
                 : env->attr(env->user, b, e->id);
    return ARKE_OK;
  case IR_CALL: return call(b, (ir_function)e->id, accuracy, args, e->n_args, value, err);
  case IR_OPERATOR: *value = apply_operator(b, (ir_operator)e->id, accuracy, args); return ARKE_OK;
  case IR_CAST: return cast(b, args[0], ir_cast_dtype(env->problem, e), value, err);
  case IR_READ:
  case IR_REDUCE:
    TRY(env->node(env->user, b, e, value, err));
    *value = widen(b, *value);
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a node of unknown kind %d", (int)e->node);
}

static arke_status lower(gen_builder *b, const gen_expression_env *env, const ir_expr *e,
                         gen_accuracy accuracy, gen_value *value, arke_error *err) {
  *value = remembered(env, e, accuracy);
  if (*value) return ARKE_OK;
  TRY(lower_afresh(b, env, e, accuracy, value, err));
  remember(env, e, accuracy, *value);
  return ARKE_OK;
}

arke_status gen_expression(gen_builder *b, const gen_expression_env *env, const ir_expr *e, gen_value *value,
                           arke_error *err) {
  TRY(lower(b, env, e, env->accuracy, value, err));
  if (is_float_literal(b, *value)) *value = gen_float_cast(b, *value, GEN_F32);
  return ARKE_OK;
}
