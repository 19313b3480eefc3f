/* Lowering the notation's expressions to values of a kernel: what fills a template's holes (bodies of maps,
 * epilogues, prologues).
 *
 * Arithmetic is the notation's: floats narrower than f32 and what meets them compute in f32, f64 in f64;
 * integers wrap in i32 or i64, whose divisions round down; conditions are I1. Integer literals take the type
 * of what they meet. Reductions and reads are the template's: it lowers those nodes itself, through the
 * environment. */
#ifndef ARKE_GENERATOR_GEN_EXPRESSION_H
#define ARKE_GENERATOR_GEN_EXPRESSION_H

#include "generator/gen_convert.h"
#include "generator/gen_kernel.h"
#include "generator/gen_math.h"
#include "ir/ir.h"

/* Values of nodes that were lowered before, for expressions that share nodes (forms): valid where they were
 * computed, so a template starts a new memo in each loop, branch and copy of a body. */
typedef struct gen_memo gen_memo;
/* Empty; memory is the arena's. NULL when that is out. */
gen_memo *gen_memo_create(arena *a);

/* What leaves of an expression mean in this kernel. A choice (?:, where, && and ||) evaluates all its sides:
 * the template makes reads on a side not taken safe, and an integer division by zero there has any value. */
typedef struct gen_expression_env {
  const ir_problem *problem;
  void *user;
  /* An index variable's or a size's value, I32 or I64. */
  gen_value (*index)(void *user, gen_builder *b, int slot);
  gen_value (*size)(void *user, gen_builder *b, int axis);
  /* An attribute as F32, I32, I64 or I1. */
  gen_value (*attr)(void *user, gen_builder *b, int id);
  /* A READ or REDUCE node. An element of any dtype, as I1, I8 and wider (sign- or zero-extended as the dtype
   * asks), F16, BF16, F32 or F64. ARKE_ERR_UNSUPPORTED when the template has no value for it. */
  arke_status (*node)(void *user, gen_builder *b, const ir_expr *e, gen_value *value, arke_error *err);
  gen_accuracy accuracy; /* of the result; 0 is in full */
  gen_memo *memo;        /* NULL: none */
} gen_expression_env;

/* The accuracy that operands of a node need for a result of accuracy `own`: a narrow result allows for narrow
 * operands only where it is no less exact than they are, which sums, exponents and angles are not; a fast one
 * is fast in sums too. */
gen_accuracy gen_operand_accuracy(const ir_expr *e, gen_accuracy own);

/* The value of `e`, of type I1, I32, I64, F32 or F64. ARKE_ERR_UNSUPPORTED names what is not lowered yet. */
arke_status gen_expression(gen_builder *b, const gen_expression_env *env, const ir_expr *e, gen_value *value,
                           arke_error *err);

#endif
