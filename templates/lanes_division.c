/* Quotients and remainders of indices that cannot be negative. Consecutive lanes have consecutive dividends
 * (or equal ones), so that one lane's division gives the others': where the divisor is not less than what the
 * dividend advances by, the remainder wraps at most once. */
#include "templates/lanes_internal.h"

bool lanes_is_natural(const ir_expr *e) {
  if (e->node == IR_INDEX || e->node == IR_SIZE) return true;
  if (e->node == IR_INT) return e->integer >= 0;
  if (e->node != IR_OPERATOR || e->n_args != 2) return false;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_MUL:
  case IR_OP_DIV:
  case IR_OP_MOD: return lanes_is_natural(e->args[0]) && lanes_is_natural(e->args[1]);
  default: return false;
  }
}

/* --- what is known before the kernel --- */

/* What e has in a lane more than in lane 0, if that is a constant. */
static bool constant_advance(lanes_scope *s, const ir_expr *e, int lane, int64_t *more) {
  lanes_sum here = lanes_sum_of(s, e, lane), first = lanes_sum_of(s, e, 0);
  *more = here.constant - first.constant;
  return lanes_same_terms(&here, &first);
}

static bool is_division(const ir_expr *e) {
  return e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD);
}

/* The most that e has in a lane more than in lane 0, where it has no less; -1: not known. */
static int64_t advance(lanes_scope *s, const ir_expr *e, int lane) {
  int64_t more;
  if (constant_advance(s, e, lane, &more)) return more >= 0 ? more : -1;
  return is_division(e) && e->id == IR_OP_DIV && lanes_divides_by_steps(s, e, lane) ? 1 : -1;
}

bool lanes_divides_by_steps(lanes_scope *s, const ir_expr *e, int lane) {
  int64_t divisor;
  if (!is_division(e) || lane == 0 || !lanes_moves(s, e) || !lanes_is_natural(e)) return false;
  if (!lanes_static_value(s->form, e->args[1], &divisor) || divisor < s->width) return false;
  int64_t more = advance(s, e->args[0], lane);
  if (more < 0 || more > s->width) return false;
  lanes_note_least(s, e->args[1], s->width);
  return true;
}

/* --- values --- */

static arke_status operands(lanes *l, const ir_expr *e, int lane, gen_value args[2], arke_error *err) {
  for (int i = 0; i < 2; i++) {
    lanes_sum sum = lanes_sum_of(&l->scope, e->args[i], lane);
    TRY(lanes_sum_value(l, &sum, true, l->index_type, &args[i], err));
  }
  return ARKE_OK;
}

/* Both come of one division: equal instructions are found to be that. */
static void divide(gen_builder *b, const gen_value args[2], gen_value *quotient, gen_value *rest) {
  *quotient = gen_udiv(b, args[0], args[1]);
  *rest = gen_sub(b, args[0], gen_mul(b, *quotient, args[1]));
}

static arke_status by_steps(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  gen_builder *b = l->b;
  gen_value first[2], here[2], quotient, rest;
  int64_t more;
  TRY(operands(l, e, 0, first, err));
  divide(b, first, &quotient, &rest);
  if (constant_advance(&l->scope, e->args[0], lane, &more)) {
    rest = gen_add_imm(b, rest, more);
  } else {
    TRY(operands(l, e, lane, here, err));
    rest = gen_add(b, rest, gen_sub(b, here[0], first[0]));
  }
  gen_value wraps = gen_compare(b, GEN_ULE, first[1], rest);
  if (e->id == IR_OP_MOD) {
    *value = gen_select(b, wraps, gen_sub(b, rest, first[1]), rest);
  } else {
    *value = gen_select(b, wraps, gen_add_imm(b, quotient, 1), quotient);
  }
  return ARKE_OK;
}

arke_status lanes_divide(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  gen_value args[2], quotient, rest;
  if (lanes_divides_by_steps(&l->scope, e, lane)) return by_steps(l, e, lane, value, err);
  TRY(operands(l, e, lane, args, err));
  divide(l->b, args, &quotient, &rest);
  *value = e->id == IR_OP_DIV ? quotient : rest;
  return ARKE_OK;
}
