/* Loops over k * D whose index is compared with D or divided by it, as k loops over D of as many outputs: d <
 * E ? f(d, d + E) : g(d, d - E) over 2 * E is f(e, e + E) at e and g(e + E, e) at e + E. */
#include <string.h>

#include "base/error.h"
#include "ir/ir_form_build.h"

enum { MOST_PARTS = 8, MOST_TERMS = 8 };

typedef struct splitter {
  form_builder b;
  const ir_form *from;
  int loop;              /* of both forms */
  ir_dim part;           /* the loop's new range */
  const ir_expr *index;  /* what stands for the old index in the part at hand */
  const ir_expr **nodes; /* by old number, in the part at hand */
} splitter;

/* --- which loop --- */

/* Integers that no tensor has typed. */
static bool is_weak(const ir_expr *e) {
  return form_of(e)->level == LEVEL_WEAK;
}

static bool mentions_size(const ir_expr *e, int axis) {
  if (e->node == IR_SIZE) return e->id == axis;
  for (int i = 0; i < e->n_args; i++)
    if (mentions_size(e->args[i], axis)) return true;
  return false;
}

static bool is_comparison(const ir_expr *e) {
  return e->node == IR_OPERATOR && e->n_args == 2 && e->id >= IR_OP_LT && e->id <= IR_OP_NE &&
         is_weak(e->args[0]) && is_weak(e->args[1]);
}

static bool is_division(const ir_expr *e) {
  return e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD) && is_weak(e);
}

typedef struct search {
  const ir_form *form;
  int loop, axis;
  bool found, reduces;
} search;

static bool look(void *user, const ir_expr *e) {
  search *s = user;
  if (!(form_of(e)->free >> s->loop & 1)) return true;
  if (e->node == IR_REDUCE) s->reduces = true;
  if (is_division(e)) s->found = s->found || mentions_size(e->args[1], s->axis);
  if (is_comparison(e))
    s->found = s->found || mentions_size(e->args[0], s->axis) || mentions_size(e->args[1], s->axis);
  return true;
}

static bool is_worth_splitting(const ir_form *form, int loop, uint64_t *seen) {
  const ir_loop *l = &form->loops[loop];
  if (l->leading || l->reduced || l->n_dims != 1 || l->dims[0].axis < 0 || l->dims[0].factor < 2 ||
      l->dims[0].factor > MOST_PARTS || l->dims[0].more != 0)
    return false;
  search s = {.form = form, .loop = loop, .axis = l->dims[0].axis};
  memset(seen, 0, ((size_t)form->n_nodes / 64 + 1) * sizeof *seen);
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_form_output *out = &form->outputs[i];
    if (out->positions >= 0 || out->update != IR_ASSIGN) return false;
    form_walk(form, out->value, seen, look, &s);
  }
  return s.found && !s.reduces;
}

/* --- sums, in one order, so that equal ones are one node --- */

typedef struct term {
  const ir_expr *e;
  int64_t coefficient;
} term;

typedef struct sum {
  int64_t constant;
  int n;
  bool overflow;
  term terms[MOST_TERMS];
} sum;

static void add_term(sum *s, const ir_expr *e, int64_t factor) {
  int i = 0;
  while (i < s->n && s->terms[i].e != e) i++;
  if (i == MOST_TERMS) {
    s->overflow = true;
    return;
  }
  if (i == s->n) s->terms[s->n++] = (term){e, 0};
  if (__builtin_add_overflow(s->terms[i].coefficient, factor, &s->terms[i].coefficient)) s->overflow = true;
}

static void add(sum *s, const ir_expr *e, int64_t factor) {
  int64_t value;
  if (e->node == IR_INT) {
    if (__builtin_mul_overflow(e->integer, factor, &value) ||
        __builtin_add_overflow(s->constant, value, &s->constant))
      s->overflow = true;
    return;
  }
  bool sums = e->node == IR_OPERATOR && (e->id == IR_OP_ADD || e->id == IR_OP_SUB || e->id == IR_OP_NEG);
  bool scales = e->node == IR_OPERATOR && e->id == IR_OP_MUL &&
                (e->args[0]->node == IR_INT || e->args[1]->node == IR_INT);
  if (sums && e->n_args == 2) {
    add(s, e->args[0], factor);
    add(s, e->args[1], e->id == IR_OP_SUB ? -factor : factor);
  } else if (sums) {
    add(s, e->args[0], -factor);
  } else if (scales) {
    int constant = e->args[0]->node == IR_INT ? 0 : 1;
    if (__builtin_mul_overflow(e->args[constant]->integer, factor, &value)) s->overflow = true;
    if (!s->overflow) add(s, e->args[1 - constant], value);
  } else {
    add_term(s, e, factor);
  }
}

static const ir_expr *scaled(form_builder *b, const ir_expr *e, int64_t factor) {
  return factor == 1 ? e : form_operator(b, IR_OP_MUL, form_int(b, factor), e);
}

/* What is added stands before what is subtracted, indices before sizes, a constant last. */
static const ir_expr *sum_node(form_builder *b, const sum *s) {
  const ir_expr *total = NULL;
  for (int pass = 0; pass < 4; pass++) {
    for (int i = 0; i < s->n; i++) {
      const term *t = &s->terms[i];
      bool negative = t->coefficient < 0, is_size = t->e->node == IR_SIZE;
      if (t->coefficient == 0 || pass != 2 * negative + is_size) continue;
      const ir_expr *e = scaled(b, t->e, negative ? -t->coefficient : t->coefficient);
      if (total != NULL)
        total = form_operator(b, negative ? IR_OP_SUB : IR_OP_ADD, total, e);
      else
        total = negative ? form_operator(b, IR_OP_NEG, e, NULL) : e;
    }
  }
  if (total == NULL) return form_int(b, s->constant);
  ir_expr *args[] = {(ir_expr *)total, (ir_expr *)form_int(b, s->constant)};
  return form_fold(b, &(ir_expr){.node = IR_OPERATOR, .id = IR_OP_ADD, .n_args = 2, .args = args});
}

/* e - factor * y; NULL: too long, or after a failure. */
static const ir_expr *less(form_builder *b, const ir_expr *e, const ir_expr *y, int64_t factor) {
  sum s = {0};
  add(&s, e, 1);
  if (y != NULL) add(&s, y, -factor);
  return s.overflow ? NULL : sum_node(b, &s);
}

/* --- what is known in one part --- */

/* x / y or x % y where x lies in [q y, (q + 1) y) for some q, whatever the sizes are; NULL: it is not known
 * to.
 */
static const ir_expr *divided(splitter *s, ir_operator o, const ir_expr *x, const ir_expr *y) {
  form_builder *b = &s->b;
  const ir_expr *zero = form_int(b, 0);
  for (int q = 0; q < MOST_PARTS && zero != NULL; q++) {
    const ir_expr *rest = less(b, x, y, q);
    if (rest == NULL) return NULL;
    if (form_known_less(b, zero, rest, true) && form_known_less(b, rest, y, false))
      return o == IR_OP_MOD ? rest : form_int(b, q);
  }
  return NULL;
}

static const ir_expr *compared(splitter *s, ir_operator o, const ir_expr *x, const ir_expr *y) {
  form_builder *b = &s->b;
  bool below = form_known_less(b, x, y, false), not_below = form_known_less(b, y, x, true),
       above = form_known_less(b, y, x, false), not_above = form_known_less(b, x, y, true);
  int truth = -1;
  switch (o) {
  case IR_OP_LT: truth = below ? 1 : not_below ? 0 : -1; break;
  case IR_OP_GE: truth = not_below ? 1 : below ? 0 : -1; break;
  case IR_OP_GT: truth = above ? 1 : not_above ? 0 : -1; break;
  case IR_OP_LE: truth = not_above ? 1 : above ? 0 : -1; break;
  case IR_OP_EQ: truth = below || above ? 0 : -1; break;
  case IR_OP_NE: truth = below || above ? 1 : -1; break;
  default: break;
  }
  return truth < 0 ? NULL : form_bool(b, truth != 0);
}

/* --- rebuilding --- */

static const ir_expr *rebuilt(splitter *s, const ir_expr *e);

static int rebuilt_access(splitter *s, int access) {
  const ir_access *from = &s->from->accesses[access];
  const ir_tensor *t = &s->b.p->op->tensors[from->tensor];
  ir_access to = *from;
  bool inside = true;
  for (int i = 0; i < from->n; i++) {
    ir_subscript *sub = &to.subscripts[i];
    sub->e = rebuilt(s, sub->e);
    if (sub->e == NULL) return -1;
    if (sub->leading) continue;
    form_inside known = form_is_inside(&s->b, sub->e, t->dims[sub->first]);
    inside = inside && known.above && known.below;
  }
  to.conditional = from->conditional && !inside;
  to.other = NULL;
  if (from->other != NULL && !inside) {
    to.other = rebuilt(s, from->other);
    if (to.other == NULL) return -1;
  }
  return form_access(&s->b, &to);
}

/* Sides are kept as they are typed: the choice's own type is what both have in common. */
static const ir_expr *rebuilt_select(splitter *s, const ir_expr *e) {
  const ir_expr *c = rebuilt(s, e->args[0]);
  if (c == NULL) return NULL;
  int truth = form_truth(&s->b, c);
  const ir_expr *taken = e->args[truth == 0 ? 2 : 1];
  if (truth >= 0 && form_of(taken)->level == form_of(e)->level) return rebuilt(s, taken);
  const ir_expr *x = rebuilt(s, e->args[1]), *y = rebuilt(s, e->args[2]);
  return x == NULL || y == NULL ? NULL : form_select(&s->b, c, x, y);
}

/* && and || whose one side decides, or does not matter. */
static const ir_expr *joined(splitter *s, const ir_expr *e, const ir_expr *x, const ir_expr *y) {
  int decides = e->id == IR_OP_OR, of_x = form_truth(&s->b, x), of_y = form_truth(&s->b, y);
  if (of_x == decides || of_y == decides) return form_bool(&s->b, decides != 0);
  if (of_x >= 0 && form_of(y)->level == LEVEL_BOOL) return y;
  if (of_y >= 0 && form_of(x)->level == LEVEL_BOOL) return x;
  return NULL;
}

static const ir_expr *simplified(splitter *s, const ir_expr *e, const ir_expr *key) {
  if (e->node != IR_OPERATOR || e->n_args != 2) return NULL;
  const ir_expr *x = key->args[0], *y = key->args[1];
  if (e->id == IR_OP_AND || e->id == IR_OP_OR) return joined(s, e, x, y);
  if (!(form_of(e)->free >> s->loop & 1)) return NULL;
  if (is_comparison(e)) return compared(s, (ir_operator)e->id, x, y);
  if (is_division(e)) return divided(s, (ir_operator)e->id, x, y);
  bool adds = e->id == IR_OP_ADD || e->id == IR_OP_SUB || e->id == IR_OP_MUL;
  if (!adds || !is_weak(e)) return NULL;
  const ir_expr *whole = form_intern(&s->b, key);
  return whole == NULL ? NULL : less(&s->b, whole, NULL, 0);
}

static const ir_expr *made(splitter *s, const ir_expr *e) {
  ir_expr key = *e;
  ir_expr *args[LIMIT_RANK + 1];
  if (e->node == IR_INDEX && e->id == s->loop) return s->index;
  if (e->node == IR_OPERATOR && e->id == IR_OP_SELECT) return rebuilt_select(s, e);
  key.args = args;
  for (int i = 0; i < e->n_args; i++) {
    args[i] = (ir_expr *)rebuilt(s, e->args[i]);
    if (args[i] == NULL) return NULL;
  }
  if (e->node == IR_READ) {
    key.id = rebuilt_access(s, e->id);
    if (key.id < 0) return NULL;
  }
  const ir_expr *simple = simplified(s, e, &key);
  return simple != NULL ? simple : form_intern(&s->b, &key);
}

static const ir_expr *rebuilt(splitter *s, const ir_expr *e) {
  const ir_expr **known = &s->nodes[ir_form_number(s->from, e)];
  if (*known == NULL) *known = made(s, e);
  return *known;
}

/* --- outputs --- */

static bool indexes(const splitter *s, const ir_form_output *out) {
  const ir_access *x = &s->from->accesses[out->access];
  for (int i = 0; i < x->n; i++)
    if (form_of(x->subscripts[i].e)->free >> s->loop & 1) return true;
  return false;
}

static bool add_part(splitter *s, const ir_form_output *from, int part) {
  form_builder *b = &s->b;
  memset(s->nodes, 0, ((size_t)s->from->n_nodes + 1) * sizeof *s->nodes);
  const ir_expr *index = form_index(b, s->loop);
  if (index == NULL) return false;
  s->index = index;
  ir_dim passed = s->part;
  passed.factor *= part;
  if (part > 0) s->index = form_operator(b, IR_OP_ADD, index, form_dim(b, passed));
  ir_form_output out = *from;
  out.access = rebuilt_access(s, from->access);
  if (out.access < 0) return false;
  out.value = rebuilt(s, from->value);
  if (out.value == NULL) return false;
  b->form->outputs[b->form->n_outputs++] = out;
  return true;
}

static bool add_outputs(splitter *s, int n_parts) {
  for (int i = 0; i < s->from->n_outputs; i++) {
    const ir_form_output *out = &s->from->outputs[i];
    int n = indexes(s, out) ? n_parts : 1;
    for (int part = 0; part < n; part++)
      if (!add_part(s, out, part)) return false;
  }
  form_number_nodes(&s->b);
  return true;
}

static arke_status split_loop(const ir_form *form, int loop, arena *a, ir_form *split, arke_error *err) {
  splitter *s = ARENA_NEW(a, splitter);
  int n_parts = (int)form->loops[loop].dims[0].factor;
  if (s == NULL) return error_memory(err, "form");
  s->from = form;
  s->loop = loop;
  s->part = ir_dim_axis(form->loops[loop].dims[0].axis);
  if (!form_builder_init(&s->b, form->problem, a, split, err)) return s->b.status;
  s->nodes = ARENA_NEW_N(a, const ir_expr *, (size_t)form->n_nodes + 1);
  split->outputs = ARENA_NEW_N(a, ir_form_output, (size_t)(form->n_outputs * n_parts));
  if (s->nodes == NULL || split->outputs == NULL) return error_memory(err, "form");
  split->n_loops = form->n_loops;
  memcpy(split->loops, form->loops, sizeof form->loops);
  split->loops[loop].dims[0] = s->part;
  return add_outputs(s, n_parts) ? ARKE_OK : s->b.status;
}

arke_status ir_form_split(const ir_form *form, arena *a, ir_form *split, arke_error *err) {
  uint64_t *seen = ARENA_NEW_N(a, uint64_t, (size_t)FORM_MOST_NODES / 64 + 1);
  if (seen == NULL) return error_memory(err, "form");
  *split = *form;
  for (int l = 0; l < form->n_loops; l++) {
    ir_form next;
    arke_error why = ARKE_ERROR_INIT;
    int n_parts = (int)split->loops[l].dims[0].factor;
    if (!is_worth_splitting(split, l, seen) || split->n_outputs * n_parts > FORM_MOST_OUTPUTS) continue;
    arke_status status = split_loop(split, l, a, &next, &why);
    if (status == ARKE_ERR_UNSUPPORTED) continue; /* it gets too large */
    if (status != ARKE_OK) return error_set(err, status, "form", "%s", why.text);
    *split = next;
  }
  return ARKE_OK;
}
