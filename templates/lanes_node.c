/* The value of one node in one lane, from those of its operands: what is known of indices is folded, and what
 * all lanes divide by is divided by once. */
#include "generator/gen_expression.h"
#include "templates/lanes_internal.h"

#define STAGE "generate"

/* --- one node --- */

/* A node whose operands have been computed: they stand as reads, literals and attributes as they are, whose
 * type depends on what they meet. */
typedef struct application {
  const lanes *l;
  const gen_value *args;
} application;

static gen_value no_index(void *user, gen_builder *b, int slot) {
  (void)user;
  gen_misuse(b, "index or size %d is no operand", slot);
  return gen_i64(b, 0);
}

static gen_value attribute(void *user, gen_builder *b, int id) {
  const ir_problem *p = ((application *)user)->l->form->problem;
  switch (p->op->attrs[id].kind) {
  case IR_ATTR_INT: return gen_i64(b, (int64_t)p->attrs[id]);
  case IR_ATTR_BOOL: return gen_bool(b, p->attrs[id] != 0);
  default: return gen_f32(b, p->attrs[id]);
  }
}

static arke_status operand(void *user, gen_builder *b, const ir_expr *e, gen_value *value, arke_error *err) {
  (void)b, (void)err;
  *value = ((application *)user)->args[e->id];
  return ARKE_OK;
}

enum { MOST_ARGS = 3 };

static arke_status apply(lanes *l, const ir_expr *e, gen_accuracy accuracy, const gen_value *args,
                         gen_value *value, arke_error *err) {
  ir_expr node = *e, leaves[MOST_ARGS];
  ir_expr *operands[MOST_ARGS];
  application user = {l, args};
  gen_expression_env env = {.problem = l->form->problem,
                            .user = &user,
                            .index = no_index,
                            .size = no_index,
                            .attr = attribute,
                            .node = operand,
                            .accuracy = accuracy};
  for (int i = 0; i < e->n_args; i++) {
    leaves[i] = args[i] ? (ir_expr){.node = IR_READ, .id = i} : *e->args[i];
    operands[i] = &leaves[i];
  }
  node.args = operands;
  return gen_expression(l->b, &env, &node, value, err);
}

/* A choice's side as what both sides meet in. */
static arke_status side(lanes *l, const ir_expr *e, const ir_expr *taken, int lane, gen_value *value,
                        arke_error *err) {
  TRY(lanes_value(l, taken, lane, value, err));
  dtype type = ir_form_type(l->form, e);
  if (ir_form_type(l->form, taken) == type) return ARKE_OK;
  ir_expr *args[] = {(ir_expr *)taken};
  ir_expr cast = {.node = IR_CAST, .id = (int)type, .n_args = 1, .args = args};
  return apply(l, &cast, GEN_ACCURACY_FULL, value, value, err);
}

static arke_status apply_node(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  gen_value args[MOST_ARGS] = {NULL};
  if (e->n_args > MOST_ARGS)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a node of %d operands", e->n_args);
  for (int i = 0; i < e->n_args; i++) {
    if (!lanes_is_literal(e->args[i])) TRY(lanes_value(l, e->args[i], lane, &args[i], err));
  }
  return apply(l, e, l->accuracy[ir_form_number(l->form, e)], args, value, err);
}

/* --- kinds of node --- */

static arke_status comparison(lanes *l, const lanes_comparison *c, gen_value *value, arke_error *err) {
  gen_builder *b = l->b;
  if (c->known) {
    *value = gen_bool(b, c->truth);
    return ARKE_OK;
  }
  bool large = c->sum.constant > INT32_MAX / 2 || c->sum.constant < -INT32_MAX / 2;
  gen_value sum;
  TRY(lanes_sum_value(l, &c->sum, false, large ? GEN_I64 : l->index_type, &sum, err));
  gen_comparison how = c->equal ? (c->negated ? GEN_NE : GEN_EQ) : (c->negated ? GEN_SGE : GEN_SLT);
  *value = gen_compare_imm(b, how, sum, -c->sum.constant);
  return ARKE_OK;
}

bool lanes_is_index_arithmetic(const lanes *l, const ir_expr *e) {
  return ir_form_type(l->form, e) == DTYPE_I64 && !lanes_reads(l->form, e);
}

/* Sums of indices as such; false in *done: there is nothing to simplify. */
static arke_status index_arithmetic(lanes *l, const ir_expr *e, int lane, gen_value *value, bool *done,
                                    arke_error *err) {
  lanes_sum sum = lanes_sum_of(&l->scope, e, lane);
  *done = true;
  if (sum.n == 0) {
    *value = gen_i64(l->b, sum.constant); /* a literal takes the type of what it meets */
    return ARKE_OK;
  }
  bool itself = sum.n == 1 && sum.terms[0].e == e && !sum.terms[0].quotient && sum.terms[0].coefficient == 1;
  if (!itself) return lanes_sum_value(l, &sum, true, l->index_type, value, err);
  bool divides = e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD);
  if (divides && lanes_is_natural(e)) return lanes_divide(l, e, lane, value, err);
  *done = false;
  return ARKE_OK;
}

/* Dividends of all lanes by one divisor, in full accuracy; false in *done: not that. */
static arke_status divide_lanes(lanes *l, const ir_expr *e, int lane, gen_value *value, bool *done,
                                arke_error *err) {
  int number = ir_form_number(l->form, e);
  gen_value dividends[LANES_MAX], divisor;
  if (e->id != IR_OP_DIV || l->accuracy[number] >= GEN_ACCURACY_NARROW || l->o.width == 1) return ARKE_OK;
  if (!lanes_moves(&l->scope, e->args[0]) || lanes_moves(&l->scope, e->args[1])) return ARKE_OK;
  if (lanes_is_literal(e->args[1]) || ir_form_type(l->form, e) != DTYPE_F32) return ARKE_OK;
  TRY(lanes_value(l, e->args[1], 0, &divisor, err));
  bool singles = gen_type_of(l->b, divisor) == GEN_F32;
  for (int i = 0; i < l->o.width; i++) {
    TRY(lanes_value(l, e->args[0], i, &dividends[i], err));
    singles = singles && gen_type_of(l->b, dividends[i]) == GEN_F32;
  }
  if (!singles) return ARKE_OK;
  gen_divide_all(l->b, dividends, l->o.width, divisor, l->memo[number]->values);
  *value = l->memo[number]->values[lane];
  *done = true;
  return ARKE_OK;
}

static arke_status operator_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  lanes_comparison c;
  bool done = false;
  int truth = lanes_truth(&l->scope, e, lane);
  if (truth >= 0) {
    *value = gen_bool(l->b, truth != 0);
    return ARKE_OK;
  }
  if (e->id == IR_OP_SELECT) {
    truth = lanes_truth(&l->scope, e->args[0], lane);
    if (truth >= 0) return side(l, e, e->args[truth ? 1 : 2], lane, value, err);
  }
  if (lanes_compare(&l->scope, e, lane, &c)) return comparison(l, &c, value, err);
  if (lanes_is_index_arithmetic(l, e)) TRY(index_arithmetic(l, e, lane, value, &done, err));
  if (!done) TRY(divide_lanes(l, e, lane, value, &done, err));
  return done ? ARKE_OK : apply_node(l, e, lane, value, err);
}

static arke_status read_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  const ir_access *x = &l->form->accesses[e->id];
  TRY(lanes_element_of(l, e->id, lane, false, value, err));
  if (!x->other) return ARKE_OK;
  gen_value args[3] = {NULL, *value, NULL};
  TRY(lanes_inside(l, e->id, lane, &args[0], err));
  if (!lanes_is_literal(x->other)) TRY(lanes_value(l, x->other, lane, &args[2], err));
  ir_expr *operands[] = {(ir_expr *)e, (ir_expr *)e, (ir_expr *)x->other};
  ir_expr select = {.node = IR_OPERATOR, .id = IR_OP_SELECT, .n_args = 3, .args = operands};
  return apply(l, &select, GEN_ACCURACY_FULL, args, value, err);
}

static arke_status reduced_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  gen_value all[LANES_MAX] = {NULL};
  if (!l->o.reduce) return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "a reduction where none is computed");
  TRY(l->o.reduce(l->o.user, e, all, err));
  lanes_memo *m = l->memo[ir_form_number(l->form, e)];
  for (int i = 0; i < (lanes_moves(&l->scope, e) ? l->o.width : 1); i++) m->values[i] = all[i];
  *value = all[lane];
  return ARKE_OK;
}

arke_status lanes_compute(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  application user = {l, NULL};
  switch (e->node) {
  case IR_FLOAT: *value = gen_f32(l->b, e->number); return ARKE_OK;
  case IR_INT: *value = gen_i64(l->b, e->integer); return ARKE_OK;
  case IR_ATTR: *value = attribute(&user, l->b, e->id); return ARKE_OK;
  case IR_INDEX:
  case IR_SIZE: {
    lanes_sum sum = lanes_sum_of(&l->scope, e, lane);
    return lanes_sum_value(l, &sum, true, l->index_type, value, err);
  }
  case IR_READ: return read_value(l, e, lane, value, err);
  case IR_REDUCE: return reduced_value(l, e, lane, value, err);
  case IR_OPERATOR: return operator_value(l, e, lane, value, err);
  case IR_CALL:
  case IR_CAST: return apply_node(l, e, lane, value, err);
  }
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a node of unknown kind %d", (int)e->node);
}
