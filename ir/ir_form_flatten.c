/* All loops as one, over the outputs' elements as they lie in memory. */
#include <string.h>

#include "base/error.h"
#include "ir/ir_form_build.h"

typedef struct flattener {
  form_builder b;
  const ir_form *from;
  int n, order[IR_FORM_LOOPS];          /* the loops as outputs have them, outermost first */
  const ir_expr *index;                 /* of the one loop */
  const ir_expr *values[IR_FORM_LOOPS]; /* of the old loops */
  const ir_expr **nodes;                /* by old number */
} flattener;

/* --- whether --- */

/* Whether an access takes every element of its tensor in the order of the loops. */
static bool is_in_order(const flattener *f, const ir_access *x) {
  if (x->n != f->n) return false;
  for (int i = 0; i < x->n; i++) {
    const ir_expr *e = x->subscripts[i].e;
    if (e->node != IR_INDEX || e->id != f->order[i] || !ir_form_covers(f->from, x, i, f->order[i]))
      return false;
  }
  return true;
}

static bool look(void *user, const ir_expr *e) {
  (void)user;
  return e->node != IR_REDUCE;
}

static bool can_flatten(flattener *f, uint64_t *seen) {
  const ir_form *form = f->from;
  const ir_access *first = &form->accesses[form->outputs[0].access];
  int n_dims = 0;
  f->n = form->n_loops;
  if (first->n != f->n || f->n < 2) return false;
  for (int i = 0; i < f->n; i++) {
    if (first->subscripts[i].e->node != IR_INDEX) return false;
    f->order[i] = first->subscripts[i].e->id;
    const ir_loop *l = &form->loops[f->order[i]];
    if (l->leading && i > 0) return false; /* whose size no expression gives */
    n_dims += l->n_dims;
  }
  if (n_dims > IR_FORM_SPAN) return false;
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_form_output *out = &form->outputs[i];
    if (out->positions >= 0 || out->update != IR_ASSIGN || !is_in_order(f, &form->accesses[out->access]) ||
        !form_walk(form, out->value, seen, look, NULL))
      return false;
  }
  return true;
}

/* --- how --- */

/* The product of x (NULL: 1) and a loop's extent. */
static const ir_expr *times_extent(form_builder *b, const ir_expr *x, const ir_loop *l) {
  for (int i = 0; i < l->n_dims; i++) {
    const ir_expr *d = form_dim(b, l->dims[i]);
    x = x == NULL ? d : form_operator(b, IR_OP_MUL, x, d);
  }
  return x == NULL ? form_int(b, 1) : x;
}

static void fill_values(flattener *f) {
  form_builder *b = &f->b;
  const ir_expr *inner = NULL;
  for (int i = f->n - 1; i >= 0; i--) {
    const ir_loop *l = &f->from->loops[f->order[i]];
    const ir_expr *value = inner == NULL ? f->index : form_operator(b, IR_OP_DIV, f->index, inner);
    if (i > 0) {
      value = form_operator(b, IR_OP_MOD, value, times_extent(b, NULL, l));
      inner = times_extent(b, inner, l);
    }
    f->values[f->order[i]] = value;
  }
}

static const ir_expr *rebuilt(flattener *f, const ir_expr *e);

static int rebuilt_access(flattener *f, int access) {
  const ir_access *from = &f->from->accesses[access];
  ir_access to = *from;
  if (is_in_order(f, from)) {
    to.n = 1;
    const ir_subscript *last = &from->subscripts[from->n - 1];
    to.subscripts[0].e = f->index;
    to.subscripts[0].count = last->first + last->count - to.subscripts[0].first;
  }
  for (int i = 0; i < from->n && to.n == from->n; i++) {
    to.subscripts[i].e = rebuilt(f, from->subscripts[i].e);
    if (to.subscripts[i].e == NULL) return -1;
  }
  if (from->other != NULL) {
    to.other = rebuilt(f, from->other);
    if (to.other == NULL) return -1;
  }
  return form_access(&f->b, &to);
}

static const ir_expr *made(flattener *f, const ir_expr *e) {
  ir_expr key = *e;
  ir_expr *args[LIMIT_RANK + 1];
  if (e->node == IR_INDEX) return f->values[e->id];
  key.args = args;
  for (int i = 0; i < e->n_args; i++) {
    args[i] = (ir_expr *)rebuilt(f, e->args[i]);
    if (args[i] == NULL) return NULL;
  }
  if (e->node == IR_READ) {
    key.id = rebuilt_access(f, e->id);
    if (key.id < 0) return NULL;
  }
  return form_intern(&f->b, &key);
}

static const ir_expr *rebuilt(flattener *f, const ir_expr *e) {
  const ir_expr **known = &f->nodes[ir_form_number(f->from, e)];
  if (*known == NULL) *known = made(f, e);
  return *known;
}

static void fill_loop(flattener *f, ir_loop *whole) {
  *whole = f->from->loops[f->order[0]];
  for (int i = 1; i < f->n; i++) {
    const ir_loop *l = &f->from->loops[f->order[i]];
    memcpy(whole->dims + whole->n_dims, l->dims, (size_t)l->n_dims * sizeof l->dims[0]);
    whole->n_dims += l->n_dims;
  }
}

arke_status ir_form_flatten(const ir_form *form, arena *a, ir_form *flat, bool *done, arke_error *err) {
  flattener *f = ARENA_NEW(a, flattener);
  uint64_t *seen = ARENA_NEW_N(a, uint64_t, (size_t)form->n_nodes / 64 + 1);
  *done = false;
  *flat = *form;
  if (f == NULL || seen == NULL) return error_memory(err, "form");
  f->from = form;
  if (!can_flatten(f, seen)) return ARKE_OK;
  if (!form_builder_init(&f->b, form->problem, a, flat, err)) return f->b.status;
  flat->ones = form->ones;
  f->nodes = ARENA_NEW_N(a, const ir_expr *, (size_t)form->n_nodes + 1);
  flat->outputs = ARENA_NEW_N(a, ir_form_output, (size_t)form->n_outputs + 1);
  if (f->nodes == NULL || flat->outputs == NULL) return error_memory(err, "form");
  fill_loop(f, &flat->loops[flat->n_loops++]);
  f->index = form_index(&f->b, 0);
  fill_values(f);
  for (int i = 0; i < form->n_outputs; i++) {
    ir_form_output out = form->outputs[i];
    out.access = rebuilt_access(f, out.access);
    if (out.access < 0) return f->b.status;
    out.value = rebuilt(f, out.value);
    if (out.value == NULL) return f->b.status;
    flat->outputs[flat->n_outputs++] = out;
  }
  form_number_nodes(&f->b);
  *done = true;
  return ARKE_OK;
}
