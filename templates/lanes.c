#include "templates/lanes.h"

#include "generator/gen_expression.h"
#include "templates/lanes_internal.h"

#define STAGE "generate"

/* --- how exact nodes must be --- */

/* A node that several others need is as exact as the strictest of them wants it. Lower numbers are stricter.
 */
static void want_accuracy(lanes *l, const ir_expr *e, gen_accuracy accuracy) {
  int number = ir_form_number(l->form, e);
  if (l->visited[number] && l->accuracy[number] <= accuracy) return;
  l->visited[number] = 1;
  l->accuracy[number] = accuracy;
  for (int i = 0; i < e->n_args; i++) {
    gen_accuracy operand = gen_operand_accuracy(e, accuracy);
    bool sum = e->node == IR_REDUCE && e->id == IR_RED_SUM;
    bool term = sum && i == 0 && operand == GEN_ACCURACY_FULL && ir_maximum_above(e->args[0], e);
    want_accuracy(l, e->args[i], term ? GEN_ACCURACY_TERM : operand);
  }
  if (e->node != IR_READ) return;
  const ir_access *x = &l->form->accesses[e->id];
  if (x->other) want_accuracy(l, x->other, accuracy);
  for (int i = 0; i < x->n; i++) want_accuracy(l, x->subscripts[i].e, GEN_ACCURACY_FULL);
}

static void want_accuracies(lanes *l) {
  const ir_form *form = l->form;
  for (int i = 0; i < form->n_outputs; i++) {
    int tensor = form->accesses[form->outputs[i].access].tensor;
    gen_accuracy stored = gen_accuracy_for(ir_tensor_dtype(form->problem, tensor));
    want_accuracy(l, form->outputs[i].value, l->o.fast_math ? GEN_ACCURACY_FAST : stored);
  }
  for (int i = 0; i <= form->n_nodes; i++) l->visited[i] = 0;
}

void lanes_want(lanes *l, const ir_expr *e, gen_accuracy accuracy) {
  want_accuracy(l, e, l->o.fast_math ? GEN_ACCURACY_FAST : accuracy);
  for (int i = 0; i <= l->form->n_nodes; i++) l->visited[i] = 0;
}

/* --- the evaluator --- */

arke_status lanes_create(gen_builder *b, const ir_form *form, const lanes_options *o, const lanes_args *slots,
                         arena *a, lanes **out, arke_error *err) {
  size_t n_nodes = (size_t)form->n_nodes + 1, n_accesses = (size_t)form->n_accesses + 1;
  *out = NULL;
  if (o->width < 1 || o->width > LANES_MAX || (o->width & (o->width - 1)))
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "%d lanes", o->width);
  lanes *l = ARENA_NEW(a, lanes);
  if (!l) return error_memory(err, STAGE);
  *l = (lanes){.b = b, .form = form, .o = *o, .slots = slots, .a = a};
  l->scope = (lanes_scope){.form = form, .loop = o->loop, .width = o->width, .dense = o->dense};
  l->index_type = o->wide_offsets ? GEN_I64 : GEN_I32;
  l->memo = ARENA_NEW_N(a, lanes_memo *, n_nodes);
  l->first_equal = ARENA_NEW_N(a, signed char, n_nodes *LANES_MAX);
  l->visited = ARENA_NEW_N(a, unsigned, n_nodes *LANES_MAX);
  l->references = ARENA_NEW_N(a, lanes_reference, n_accesses * LANES_MAX);
  l->given = ARENA_NEW_N(a, gen_value, n_accesses * LANES_MAX);
  l->accuracy = ARENA_NEW_N(a, gen_accuracy, n_nodes);
  if (!l->accuracy || !l->memo || !l->first_equal || !l->visited || !l->references || !l->given)
    return error_memory(err, STAGE);
  want_accuracies(l);
  *out = l;
  return ARKE_OK;
}

static void forget_line(lanes_line *line) {
  line->address = line->offset = NULL;
  for (int i = 0; i < line->n; i++) {
    line->elements[i].wanted = false;
    line->elements[i].piece = NULL;
  }
}

static void forget_given(lanes *l, unsigned loops) {
  for (int i = 0; i < l->form->n_accesses; i++) {
    const ir_access *x = &l->form->accesses[i];
    unsigned free = 0;
    for (int s = 0; s < x->n; s++) free |= ir_form_free(l->form, x->subscripts[s].e);
    if (free & loops || loops == ~0u) l->given[i * LANES_MAX] = NULL;
  }
}

/* What depends on `loops`; ~0: everything. */
static void forget(lanes *l, unsigned loops) {
  for (int i = 0; i <= l->form->n_nodes; i++) {
    lanes_memo *m = l->memo[i];
    if (!m || (!(m->loops & loops) && loops != ~0u)) continue;
    for (int lane = 0; lane < LANES_MAX; lane++) m->values[lane] = NULL;
  }
  for (int i = 0; i < l->n_lines; i++) {
    if (l->lines[i]->loops & loops || loops == ~0u) forget_line(l->lines[i]);
  }
  if (l->o.given) forget_given(l, loops);
}

void lanes_forget(lanes *l) {
  forget(l, ~0u);
}

void lanes_set(lanes *l, int loop, gen_value value) {
  gen_builder *b = l->b;
  forget(l, 1u << loop);
  l->loops[loop] = value;
  if (l->o.dense || !l->form->loops[loop].leading) return;
  gen_value rest = value;
  for (int axis = 0; axis < LANES_LEAD; axis++) {
    gen_value extent = lanes_slot_value(l, l->slots->lead_extent[axis]);
    bool last = axis == LANES_LEAD - 1;
    l->lead[axis] = last ? rest : gen_urem(b, rest, extent);
    if (!last) rest = gen_udiv(b, rest, extent);
  }
}

void lanes_set_lead(lanes *l, const gen_value positions[LANES_LEAD]) {
  for (int i = 0; i < l->form->n_loops; i++) {
    if (l->form->loops[i].leading) forget(l, 1u << i);
  }
  for (int axis = 0; axis < LANES_LEAD; axis++) l->lead[axis] = positions[axis];
}

gen_value lanes_extent(lanes *l, int loop) {
  return lanes_slot_value(l, l->slots->extent[loop]);
}

gen_value lanes_lead_extent(lanes *l, int axis) {
  return lanes_slot_value(l, l->slots->lead_extent[axis]);
}

gen_accuracy lanes_accuracy(const lanes *l, const ir_expr *e) {
  return l->accuracy[ir_form_number(l->form, e)];
}

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

static bool is_literal(const ir_expr *e) {
  return e->node == IR_FLOAT || e->node == IR_INT || e->node == IR_ATTR;
}

static arke_status apply_node(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  gen_value args[MOST_ARGS] = {NULL};
  if (e->n_args > MOST_ARGS)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a node of %d operands", e->n_args);
  for (int i = 0; i < e->n_args; i++) {
    if (!is_literal(e->args[i])) TRY(lanes_value(l, e->args[i], lane, &args[i], err));
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

static bool is_index_arithmetic(const lanes *l, const ir_expr *e) {
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
  if (is_literal(e->args[1]) || ir_form_type(l->form, e) != DTYPE_F32) return ARKE_OK;
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
  if (is_index_arithmetic(l, e)) TRY(index_arithmetic(l, e, lane, value, &done, err));
  if (!done) TRY(divide_lanes(l, e, lane, value, &done, err));
  return done ? ARKE_OK : apply_node(l, e, lane, value, err);
}

static arke_status read_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  const ir_access *x = &l->form->accesses[e->id];
  TRY(lanes_element_of(l, e->id, lane, false, value, err));
  if (!x->other) return ARKE_OK;
  gen_value args[3] = {NULL, *value, NULL};
  TRY(lanes_inside(l, e->id, lane, &args[0], err));
  if (!is_literal(x->other)) TRY(lanes_value(l, x->other, lane, &args[2], err));
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

static arke_status compute(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
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

/* --- lanes of one value --- */

static int first_equal(lanes *l, const ir_expr *e, int lane);

static bool equal_in(lanes *l, const ir_expr *e, int x, int y) {
  return first_equal(l, e, x) == first_equal(l, e, y);
}

static bool equal_operands(lanes *l, const ir_expr *e, int x, int y) {
  if (e->node == IR_INDEX || e->node == IR_REDUCE) return false;
  for (int i = 0; i < e->n_args; i++) {
    if (!equal_in(l, e->args[i], x, y)) return false;
  }
  if (e->node != IR_READ) return true;
  const ir_access *a = &l->form->accesses[e->id];
  for (int i = 0; i < a->n; i++) {
    if (!equal_in(l, a->subscripts[i].e, x, y)) return false;
  }
  return !a->other || equal_in(l, a->other, x, y);
}

static bool equal_sums(lanes *l, const ir_expr *e, int x, int y) {
  if (!is_index_arithmetic(l, e)) return false;
  lanes_sum of_x = lanes_sum_of(&l->scope, e, x), of_y = lanes_sum_of(&l->scope, e, y);
  return of_x.constant == of_y.constant && lanes_same_terms(&of_x, &of_y);
}

static int first_equal(lanes *l, const ir_expr *e, int lane) {
  if (!lanes_moves(&l->scope, e)) return 0;
  signed char *known = &l->first_equal[ir_form_number(l->form, e) * LANES_MAX + lane];
  if (*known > 0) return *known - 1;
  int first = 0;
  while (first < lane && !equal_operands(l, e, first, lane) && !equal_sums(l, e, first, lane)) first++;
  *known = (signed char)(first + 1);
  return first;
}

arke_status lanes_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err) {
  if (lanes_is_outer(l, e)) return lanes_value(l->o.outer, e, lane, value, err);
  lane = first_equal(l, e, lane);
  lanes_memo **m = &l->memo[ir_form_number(l->form, e)];
  if (!*m) {
    *m = ARENA_NEW(l->a, lanes_memo);
    if (!*m) return error_memory(err, STAGE);
    (*m)->loops = ir_form_free(l->form, e);
  }
  if (!(*m)->values[lane]) TRY(compute(l, e, lane, &(*m)->values[lane], err));
  *value = (*m)->values[lane];
  return ARKE_OK;
}

static bool is_literal_or_size(const ir_expr *e) {
  return is_literal(e) || e->node == IR_SIZE;
}

arke_status lanes_prepare(lanes *l, const ir_expr *e, unsigned own, arke_error *err) {
  gen_value value;
  if (is_literal_or_size(e)) return ARKE_OK; /* whose type depends on what they meet */
  if (!(ir_form_free(l->form, e) & own)) {
    TRY(lanes_load(l, e, err));
    for (int lane = 0; lane < (lanes_moves(&l->scope, e) ? l->o.width : 1); lane++)
      TRY(lanes_value(l, e, lane, &value, err));
    return ARKE_OK;
  }
  for (int i = 0; i < e->n_args; i++) TRY(lanes_prepare(l, e->args[i], own, err));
  if (e->node != IR_READ) return ARKE_OK;
  const ir_access *x = &l->form->accesses[e->id];
  for (int i = 0; i < x->n; i++) TRY(lanes_prepare(l, x->subscripts[i].e, own, err));
  return x->other ? lanes_prepare(l, x->other, own, err) : ARKE_OK;
}

arke_status lanes_eval(lanes *l, const ir_expr *e, gen_value *values, int *n, arke_error *err) {
  gen_builder *b = l->b;
  bool alike = true;
  *n = lanes_moves(&l->scope, e) ? l->o.width : 1;
  for (int lane = 0; lane < *n; lane++) {
    TRY(lanes_value(l, e, lane, &values[lane], err));
    alike = alike && gen_type_of(b, values[lane]) == gen_type_of(b, values[0]);
  }
  /* Folded lanes of index arithmetic are literals, which are wider. */
  for (int lane = 0; !alike && lane < *n; lane++) {
    if (gen_type_of(b, values[lane]) == GEN_I32) values[lane] = gen_sext(b, values[lane], GEN_I64);
  }
  return ARKE_OK;
}
