/* The evaluator of expressions over lanes: what it remembers, how exact nodes must be, and which lanes of a
 * node are alike. */
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
  if (!lanes_is_index_arithmetic(l, e)) return false;
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
  if (!(*m)->values[lane]) TRY(lanes_compute(l, e, lane, &(*m)->values[lane], err));
  *value = (*m)->values[lane];
  return ARKE_OK;
}

static bool is_literal_or_size(const ir_expr *e) {
  return lanes_is_literal(e) || e->node == IR_SIZE;
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
