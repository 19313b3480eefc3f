#include "templates/lanes_index.h"

#include <stdlib.h>

bool lanes_is_index_cast(const ir_form *form, const ir_expr *e) {
  return e->node == IR_CAST && ir_cast_dtype(form->problem, e) == DTYPE_I64 &&
         ir_form_type(form, e->args[0]) == DTYPE_I64;
}

const ir_expr *lanes_without_index_casts(const ir_form *form, const ir_expr *e) {
  while (lanes_is_index_cast(form, e)) e = e->args[0];
  return e;
}

/* --- expressions of sizes --- */

static int64_t floor_div(int64_t x, int64_t y) {
  int64_t q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static bool static_operator(ir_operator o, int64_t x, int64_t y, int64_t *v) {
  switch (o) {
  case IR_OP_ADD: return !__builtin_add_overflow(x, y, v);
  case IR_OP_SUB: return !__builtin_sub_overflow(x, y, v);
  case IR_OP_MUL: return !__builtin_mul_overflow(x, y, v);
  case IR_OP_DIV:
  case IR_OP_MOD: /* as recipes divide */
    if (x < 0 || y <= 0) return false;
    *v = o == IR_OP_DIV ? x / y : x % y;
    return true;
  default: return false;
  }
}

bool lanes_static_value(const ir_form *form, const ir_expr *e, int64_t *value) {
  const ir_problem *p = form->problem;
  int64_t x, y;
  switch (e->node) {
  case IR_INT: *value = e->integer; return true;
  case IR_SIZE: *value = p->sizes[e->id]; return true;
  case IR_ATTR:
    *value = (int64_t)p->attrs[e->id];
    return p->op->attrs[e->id].kind == IR_ATTR_INT || p->op->attrs[e->id].kind == IR_ATTR_BOOL;
  case IR_OPERATOR:
    return e->n_args == 2 && lanes_static_value(form, e->args[0], &x) &&
           lanes_static_value(form, e->args[1], &y) && static_operator((ir_operator)e->id, x, y, value);
  case IR_CAST: return lanes_is_index_cast(form, e) && lanes_static_value(form, e->args[0], value);
  default: return false;
  }
}

const recipe_expr *lanes_static_recipe(const ir_form *form, const ir_expr *e, arena *a) {
  static const struct {
    ir_operator from;
    recipe_op to;
  } operators[] = {{IR_OP_ADD, RECIPE_ADD},
                   {IR_OP_SUB, RECIPE_SUB},
                   {IR_OP_MUL, RECIPE_MUL},
                   {IR_OP_DIV, RECIPE_DIV},
                   {IR_OP_MOD, RECIPE_MOD}};
  int64_t value;
  if (e->node == IR_SIZE) return recipe_var(a, form->problem->op->axes[e->id]);
  if (e->node == IR_CAST) return lanes_static_recipe(form, e->args[0], a);
  if (e->node != IR_OPERATOR) {
    return lanes_static_value(form, e, &value) ? recipe_const(a, value) : NULL;
  }
  for (size_t i = 0; i < COUNT_OF(operators); i++) {
    if ((int)operators[i].from == e->id)
      return recipe_binary(a, operators[i].to, lanes_static_recipe(form, e->args[0], a),
                           lanes_static_recipe(form, e->args[1], a));
  }
  return NULL;
}

/* --- sums --- */

bool lanes_moves(const lanes_scope *s, const ir_expr *e) {
  return s->loop >= 0 && (ir_form_free(s->form, e) >> s->loop & 1);
}

bool lanes_reads(const ir_form *form, const ir_expr *e) {
  bool is_data = e->node == IR_READ || e->node == IR_REDUCE || e->node == IR_CALL || e->node == IR_FLOAT;
  if (is_data || (e->node == IR_CAST && !lanes_is_index_cast(form, e))) return true;
  for (int i = 0; i < e->n_args; i++) {
    if (lanes_reads(form, e->args[i])) return true;
  }
  return false;
}

bool lanes_sum_reads(const ir_form *form, const lanes_sum *sum) {
  for (int i = 0; i < sum->n; i++) {
    if (lanes_reads(form, sum->terms[i].e)) return true;
  }
  return false;
}

static lanes_sum constant(int64_t c) {
  return (lanes_sum){.constant = c};
}

static lanes_sum atom(const ir_expr *e, int lane, bool quotient) {
  return (lanes_sum){.n = 1, .terms = {{e, lane, quotient, 1}}};
}

static bool same_atom(const lanes_term *x, const lanes_term *y) {
  return x->e == y->e && x->lane == y->lane && x->quotient == y->quotient;
}

/* sum += factor * term; false: too many terms. */
static bool add_term(lanes_sum *sum, lanes_term term, int64_t factor) {
  if (__builtin_mul_overflow(term.coefficient, factor, &term.coefficient)) return false;
  for (int i = 0; i < sum->n; i++) {
    if (!same_atom(&sum->terms[i], &term)) continue;
    if (__builtin_add_overflow(sum->terms[i].coefficient, term.coefficient, &sum->terms[i].coefficient))
      return false;
    if (sum->terms[i].coefficient == 0) sum->terms[i] = sum->terms[--sum->n];
    return true;
  }
  if (term.coefficient == 0) return true;
  if (sum->n == LANES_TERMS) return false;
  sum->terms[sum->n++] = term;
  return true;
}

static bool add_sum(lanes_sum *sum, const lanes_sum *more, int64_t factor) {
  int64_t scaled;
  if (__builtin_mul_overflow(more->constant, factor, &scaled) ||
      __builtin_add_overflow(sum->constant, scaled, &sum->constant))
    return false;
  for (int i = 0; i < more->n; i++) {
    if (!add_term(sum, more->terms[i], factor)) return false;
  }
  return true;
}

bool lanes_subtract(const lanes_sum *x, const lanes_sum *y, lanes_sum *difference) {
  *difference = *x;
  return add_sum(difference, y, -1);
}

bool lanes_same_terms(const lanes_sum *x, const lanes_sum *y) {
  if (x->n != y->n) return false;
  for (int i = 0; i < x->n; i++) {
    bool found = false;
    for (int j = 0; j < y->n && !found; j++)
      found = same_atom(&x->terms[i], &y->terms[j]) && x->terms[i].coefficient == y->terms[j].coefficient;
    if (!found) return false;
  }
  return true;
}

/* --- divisors --- */

int64_t lanes_power_in(int64_t v) {
  int64_t power = 1;
  while (power < LANES_MAX && v % (2 * power) == 0) power *= 2;
  return power;
}

/* A divisor of what a term stands for, coefficient left out. */
static int64_t atom_divisor(lanes_scope *s, const lanes_term *t) {
  int64_t value;
  if (s->width == 1) return 1; /* nothing is gained, so nothing shall be required */
  if (t->quotient) {
    lanes_sum inner = lanes_sum_of(s, t->e->args[0], t->lane), by = lanes_sum_of(s, t->e->args[1], t->lane);
    return lanes_power_in(lanes_divisor(s, &inner) / by.constant);
  }
  if (t->e->node == IR_INDEX && t->e->id == s->loop) return s->width;
  return lanes_static_value(s->form, t->e, &value) ? lanes_power_in(value) : 1;
}

int64_t lanes_divisor(lanes_scope *s, const lanes_sum *sum) {
  int64_t divisor = LANES_MAX;
  for (int i = 0; i < sum->n; i++) {
    int64_t of = lanes_power_in(sum->terms[i].coefficient);
    if (of < LANES_MAX) {
      of *= atom_divisor(s, &sum->terms[i]);
      if (of > LANES_MAX) of = LANES_MAX;
    }
    if (of < divisor) divisor = of;
  }
  return divisor;
}

static void note_need(lanes_scope *s, lanes_need need) {
  for (int i = 0; i < s->n_needs && i < LANES_NEEDS; i++) {
    lanes_need *known = &s->needs[i];
    if (known->e != need.e || !ir_dim_equal(known->dim, need.dim) ||
        (known->divisor == 0) != (need.divisor == 0))
      continue;
    if (known->divisor < need.divisor) known->divisor = need.divisor;
    if (known->least < need.least) known->least = need.least;
    return;
  }
  if (s->n_needs < LANES_NEEDS) s->needs[s->n_needs] = need;
  s->n_needs++; /* lanes_require reports too many */
}

void lanes_note_least(lanes_scope *s, const ir_expr *e, int64_t least) {
  if (s->needs && e->node != IR_INT) note_need(s, (lanes_need){.e = e, .least = least});
}

void lanes_rest_on(lanes_scope *s, const lanes_sum *sum, int64_t divisor) {
  int64_t value;
  if (!s->needs) return;
  for (int i = 0; i < sum->n; i++) {
    const lanes_term *t = &sum->terms[i];
    int64_t of = lanes_power_in(t->coefficient);
    if (of >= divisor) continue;
    if (t->quotient) {
      lanes_sum inner = lanes_sum_of(s, t->e->args[0], t->lane), by = lanes_sum_of(s, t->e->args[1], t->lane);
      lanes_rest_on(s, &inner, divisor / of * by.constant);
    } else if (lanes_static_value(s->form, t->e, &value)) {
      note_need(s, (lanes_need){.e = t->e, .divisor = divisor / of});
    }
  }
}

/* --- expressions as sums --- */

/* a / k or a % k for a constant k > 0, where a without its constant is a multiple of k. */
static bool divide(lanes_scope *s, const ir_expr *e, int lane, lanes_sum *result) {
  lanes_sum a = lanes_sum_of(s, e->args[0], lane), k = lanes_sum_of(s, e->args[1], lane);
  if (k.n > 0 || k.constant <= 0) return false;
  int64_t quotient = floor_div(a.constant, k.constant), rest = a.constant - quotient * k.constant;
  bool exact = true;
  for (int i = 0; i < a.n; i++) exact = exact && a.terms[i].coefficient % k.constant == 0;
  if (!exact) {
    if (k.constant > LANES_MAX || lanes_divisor(s, &a) % k.constant != 0) return false;
    for (int i = 0; i < a.n; i++) {
      if (a.terms[i].lane != 0) return false;
    }
    lanes_rest_on(s, &a, k.constant);
  }
  if (e->id == IR_OP_MOD) {
    *result = constant(rest);
    return true;
  }
  *result = constant(quotient);
  if (a.n == 0) return true;
  if (!exact) return add_term(result, (lanes_term){e, 0, true, 1}, 1);
  for (int i = 0; i < a.n; i++) a.terms[i].coefficient /= k.constant;
  a.constant = 0;
  return add_sum(result, &a, 1);
}

static bool operator_sum(lanes_scope *s, const ir_expr *e, int lane, lanes_sum *result) {
  lanes_sum x, y;
  switch ((ir_operator)e->id) {
  case IR_OP_NEG:
    x = lanes_sum_of(s, e->args[0], lane);
    *result = constant(0);
    return add_sum(result, &x, -1);
  case IR_OP_ADD:
  case IR_OP_SUB:
    *result = lanes_sum_of(s, e->args[0], lane);
    y = lanes_sum_of(s, e->args[1], lane);
    return add_sum(result, &y, e->id == IR_OP_ADD ? 1 : -1);
  case IR_OP_MUL:
    x = lanes_sum_of(s, e->args[0], lane);
    y = lanes_sum_of(s, e->args[1], lane);
    *result = constant(0);
    if (x.n > 0 && y.n > 0) return false;
    return x.n > 0 ? add_sum(result, &x, y.constant) : add_sum(result, &y, x.constant);
  case IR_OP_DIV:
  case IR_OP_MOD: return divide(s, e, lane, result);
  default: return false;
  }
}

lanes_sum lanes_sum_of(lanes_scope *s, const ir_expr *e, int lane) {
  const ir_problem *p = s->form->problem;
  lanes_sum sum;
  if (e->node == IR_INT) return constant(e->integer);
  if (e->node == IR_ATTR && p->op->attrs[e->id].kind == IR_ATTR_INT)
    return constant((int64_t)p->attrs[e->id]);
  if (e->node == IR_INDEX) {
    sum = atom(e, 0, false);
    if (e->id == s->loop) sum.constant = lane;
    return sum;
  }
  if (e->node == IR_OPERATOR && operator_sum(s, e, lane, &sum)) return sum;
  if (lanes_is_index_cast(s->form, e)) return lanes_sum_of(s, e->args[0], lane);
  return atom(e, lanes_moves(s, e) ? lane : 0, false);
}

/* --- comparisons --- */

/* Integers that no tensor has typed: arithmetic is exact there. */
static bool is_index_arithmetic(const lanes_scope *s, const ir_expr *e) {
  return ir_form_type(s->form, e) == DTYPE_I64 && !lanes_reads(s->form, e);
}

bool lanes_compare(lanes_scope *s, const ir_expr *e, int lane, lanes_comparison *c) {
  if (e->node != IR_OPERATOR || e->n_args != 2) return false;
  const ir_expr *low = e->args[0], *high = e->args[1];
  *c = (lanes_comparison){.equal = e->id == IR_OP_EQ || e->id == IR_OP_NE,
                          .negated = e->id == IR_OP_NE || e->id == IR_OP_LE || e->id == IR_OP_GE};
  switch ((ir_operator)e->id) {
  case IR_OP_LT:
  case IR_OP_GE: /* !(x < y) */
  case IR_OP_EQ:
  case IR_OP_NE: break;
  case IR_OP_GT:
  case IR_OP_LE: /* !(y < x) */ low = e->args[1], high = e->args[0]; break;
  default: return false;
  }
  if (!is_index_arithmetic(s, low) || !is_index_arithmetic(s, high)) return false;
  lanes_sum x = lanes_sum_of(s, low, lane), y = lanes_sum_of(s, high, lane);
  if (!lanes_subtract(&x, &y, &c->sum)) return false;
  bool truth = c->equal ? c->sum.constant == 0 : c->sum.constant < 0;
  c->known = c->sum.n == 0;
  if (!c->known && lanes_moves(s, e)) {
    int64_t divisor = lanes_divisor(s, &c->sum);
    if (!c->equal) {
      int64_t floor = floor_div(c->sum.constant, divisor) * divisor;
      if (floor != c->sum.constant) lanes_rest_on(s, &c->sum, divisor);
      c->sum.constant = floor;
    } else if (c->sum.constant % divisor != 0) {
      lanes_rest_on(s, &c->sum, divisor);
      c->known = true;
      truth = false;
    }
  }
  c->truth = truth != c->negated;
  return true;
}

int lanes_truth(lanes_scope *s, const ir_expr *e, int lane) {
  lanes_comparison c;
  int64_t value;
  if (e->node == IR_OPERATOR && (e->id == IR_OP_AND || e->id == IR_OP_OR)) {
    int x = lanes_truth(s, e->args[0], lane), y = lanes_truth(s, e->args[1], lane);
    int decides = e->id == IR_OP_OR;
    if (x == decides || y == decides) return decides;
    return x < 0 || y < 0 ? -1 : !decides;
  }
  if (e->node == IR_OPERATOR && e->id == IR_OP_NOT) {
    int x = lanes_truth(s, e->args[0], lane);
    return x < 0 ? -1 : !x;
  }
  if (e->node == IR_INT || e->node == IR_ATTR)
    return lanes_static_value(s->form, e, &value) ? value != 0 : -1;
  return lanes_compare(s, e, lane, &c) && c.known ? c.truth : -1;
}

/* --- accesses --- */

void lanes_place_of(lanes_scope *s, int access, int lane, lanes_place *place) {
  const ir_access *x = &s->form->accesses[access];
  place->n = x->n;
  for (int i = 0; i < x->n; i++) place->subscripts[i] = lanes_sum_of(s, x->subscripts[i].e, lane);
}

bool lanes_in_range(const ir_form *form, const ir_access *access, int i) {
  const ir_subscript *sub = &access->subscripts[i];
  if (sub->leading) return true;
  if (sub->e->node != IR_INDEX || form->loops[sub->e->id].leading) return false;
  return ir_form_covers(form, access, i, sub->e->id);
}

bool lanes_inside_together(lanes_scope *s, int access, const lanes_place *x, const lanes_place *y) {
  const ir_access *from = &s->form->accesses[access];
  const ir_problem *p = s->form->problem;
  for (int i = 0; i < x->n; i++) {
    if (lanes_in_range(s->form, from, i)) continue;
    const lanes_sum *a = &x->subscripts[i], *b = &y->subscripts[i];
    if (!lanes_same_terms(a, b)) return false;
    if (a->constant == b->constant) continue;
    /* Reads that may lie outside are of one dimension: those alone are merged that cannot. */
    ir_dim size = p->op->tensors[from->tensor].dims[from->subscripts[i].first];
    int64_t divisor = lanes_divisor(s, a), of_size = lanes_power_in(ir_dim_size(p, size));
    if (of_size < divisor) divisor = of_size;
    if (floor_div(a->constant, divisor) != floor_div(b->constant, divisor)) return false;
    lanes_rest_on(s, a, divisor);
    if (size.axis >= 0 && s->needs) note_need(s, (lanes_need){.dim = size, .divisor = divisor});
  }
  return true;
}
