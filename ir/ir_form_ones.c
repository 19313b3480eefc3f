/* Loops of one element, and the dimensions they walk, left out. */
#include "base/error.h"
#include "ir/ir_form_build.h"

typedef struct dropper {
  form_builder b;
  const ir_form *from;
  unsigned dropped;         /* loops */
  int loops[IR_FORM_LOOPS]; /* new number of a loop that stays */
  const ir_expr **nodes;    /* by old number */
} dropper;

/* --- which --- */

/* Loops that e mentions itself, each node of the form once; what reads walk is judged by their accesses. */
static void note_loops(const ir_form *form, const ir_expr *e, uint64_t *seen, unsigned *loops) {
  int number = ir_form_number(form, e);
  if (seen[number / 64] >> (number % 64) & 1) return;
  seen[number / 64] |= UINT64_C(1) << (number % 64);
  if (e->node == IR_INDEX) *loops |= 1u << e->id;
  if (e->node == IR_REDUCE) *loops |= 1u << e->index;
  for (int i = 0; i < e->n_args; i++) note_loops(form, e->args[i], seen, loops);
}

/* Loops that values need as numbers, or bind, or that subscripts compute with. */
static unsigned needed_loops(const ir_form *form, uint64_t *seen) {
  unsigned loops = 0;
  for (int i = 0; i < form->n_outputs; i++) {
    note_loops(form, form->outputs[i].value, seen, &loops);
    if (form->outputs[i].rank_loop >= 0) loops |= 1u << form->outputs[i].rank_loop;
  }
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *x = &form->accesses[i];
    for (int s = 0; s < x->n; s++)
      if (x->subscripts[s].e->node != IR_INDEX) note_loops(form, x->subscripts[s].e, seen, &loops);
    if (x->other != NULL) note_loops(form, x->other, seen, &loops);
  }
  return loops;
}

/* One element of 2*M is no M of one element, nor is one of M+1. */
static bool is_of_axes(const ir_loop *loop) {
  for (int i = 0; i < loop->n_dims; i++)
    if (loop->dims[i].axis >= 0 && !ir_dim_is_axis(loop->dims[i])) return false;
  return true;
}

static void choose(dropper *d, uint64_t *seen) {
  const ir_form *form = d->from;
  unsigned kept = needed_loops(form, seen);
  ir_form *to = d->b.form;
  to->ones = form->ones;
  for (int l = 0; l < form->n_loops; l++) {
    const ir_loop *loop = &form->loops[l];
    if (loop->leading || kept >> l & 1 || ir_form_extent(form, l) != 1 || !is_of_axes(loop)) {
      d->loops[l] = to->n_loops;
      to->loops[to->n_loops++] = *loop;
      continue;
    }
    d->dropped |= 1u << l;
    for (int i = 0; i < loop->n_dims; i++)
      if (loop->dims[i].axis >= 0) to->ones |= 1u << loop->dims[i].axis;
  }
}

/* --- rebuilding --- */

static const ir_expr *rebuilt(dropper *d, const ir_expr *e);

/* Whether a subscript is 0 in dimensions of one element. */
static bool vanishes(const dropper *d, const ir_access *x, const ir_subscript *sub) {
  if (sub->leading || sub->e->node != IR_INDEX || !(d->dropped >> sub->e->id & 1)) return false;
  const ir_tensor *t = &d->from->problem->op->tensors[x->tensor];
  for (int i = 0; i < sub->count; i++)
    if (!ir_form_is_one(d->b.form, t->dims[sub->first + i])) return false;
  return true;
}

static int rebuilt_access(dropper *d, int access) {
  const ir_access *from = &d->from->accesses[access];
  ir_access to = {.tensor = from->tensor, .conditional = from->conditional};
  for (int s = 0; s < from->n; s++) {
    ir_subscript sub = from->subscripts[s];
    if (vanishes(d, from, &sub)) continue;
    sub.e = rebuilt(d, sub.e);
    if (sub.e == NULL) return -1;
    to.subscripts[to.n++] = sub;
  }
  if (from->other != NULL) {
    to.other = rebuilt(d, from->other);
    if (to.other == NULL) return -1;
  }
  return form_access(&d->b, &to);
}

static const ir_expr *made(dropper *d, const ir_expr *e) {
  ir_expr key = *e;
  ir_expr *args[LIMIT_RANK + 1];
  if (e->node == IR_INDEX && d->dropped >> e->id & 1) return form_int(&d->b, 0);
  key.args = args;
  for (int i = 0; i < e->n_args; i++) {
    args[i] = (ir_expr *)rebuilt(d, e->args[i]);
    if (args[i] == NULL) return NULL;
  }
  if (e->node == IR_INDEX) key.id = d->loops[e->id];
  if (e->node == IR_REDUCE) key.index = d->loops[e->index];
  if (e->node == IR_READ) {
    key.id = rebuilt_access(d, e->id);
    if (key.id < 0) return NULL;
  }
  return form_intern(&d->b, &key);
}

static const ir_expr *rebuilt(dropper *d, const ir_expr *e) {
  const ir_expr **known = &d->nodes[ir_form_number(d->from, e)];
  if (*known == NULL) *known = made(d, e);
  return *known;
}

arke_status ir_form_drop_ones(const ir_form *form, arena *a, ir_form *dropped, arke_error *err) {
  dropper *d = ARENA_NEW(a, dropper);
  uint64_t *seen = ARENA_NEW_N(a, uint64_t, (size_t)form->n_nodes / 64 + 1);
  if (d == NULL || seen == NULL) return error_memory(err, "form");
  d->from = form;
  if (!form_builder_init(&d->b, form->problem, a, dropped, err)) return d->b.status;
  d->nodes = ARENA_NEW_N(a, const ir_expr *, (size_t)form->n_nodes + 1);
  dropped->outputs = ARENA_NEW_N(a, ir_form_output, (size_t)form->n_outputs + 1);
  if (d->nodes == NULL || dropped->outputs == NULL) return error_memory(err, "form");
  choose(d, seen);
  if (d->dropped == 0) {
    *dropped = *form;
    return ARKE_OK;
  }
  for (int i = 0; i < form->n_outputs; i++) {
    ir_form_output out = form->outputs[i];
    out.access = rebuilt_access(d, out.access);
    if (out.access < 0) return d->b.status;
    if (out.positions >= 0) {
      out.positions = rebuilt_access(d, out.positions);
      if (out.positions < 0) return d->b.status;
      out.rank_loop = d->loops[out.rank_loop];
    }
    out.value = rebuilt(d, out.value);
    if (out.value == NULL) return d->b.status;
    dropped->outputs[dropped->n_outputs++] = out;
  }
  form_number_nodes(&d->b);
  return ARKE_OK;
}

/* --- with merging --- */

static int long_loops(const ir_form *form) {
  int n = 0;
  for (int l = 0; l < form->n_loops; l++) n += form->loops[l].leading || ir_form_extent(form, l) != 1;
  return n;
}

/* Whether the last subscript of some access is a loop of one element behind longer ones. */
static bool ends_with_one(const ir_form *form) {
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *x = &form->accesses[i];
    if (x->n < 2) continue;
    const ir_expr *last = x->subscripts[x->n - 1].e;
    if (last->node == IR_INDEX && !form->loops[last->id].leading && ir_form_extent(form, last->id) == 1)
      return true;
  }
  return false;
}

arke_status ir_form_merge_across_ones(const ir_form *form, arena *a, ir_form *merged, arke_error *err) {
  ir_form dropped, shorter;
  TRY(ir_form_merge(form, a, merged, err));
  TRY(ir_form_drop_ones(form, a, &dropped, err));
  TRY(ir_form_merge(&dropped, a, &shorter, err));
  if (long_loops(&shorter) < long_loops(merged) || (ends_with_one(merged) && !ends_with_one(&shorter)))
    *merged = shorter;
  return ARKE_OK;
}
