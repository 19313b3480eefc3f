/* Adjacent loops that every access walks as one, as one loop. */
#include <string.h>

#include "base/error.h"
#include "ir/ir_form_build.h"

static bool is_index(const ir_expr *e, int loop) {
  return e->node == IR_INDEX && e->id == loop;
}

/* Loops that e mentions itself: what the accesses in it do is judged there. */
static unsigned mentioned(const ir_expr *e) {
  unsigned loops = e->node == IR_INDEX ? 1u << e->id : e->node == IR_REDUCE ? 1u << e->index : 0;
  for (int i = 0; i < e->n_args; i++) loops |= mentioned(e->args[i]);
  return loops;
}

/* Whether subscript s + 1 follows subscript s in memory. */
static bool follows(const ir_form *form, const ir_access *x, int s) {
  const ir_tensor *t = &form->problem->op->tensors[x->tensor];
  int d = x->subscripts[s].first + x->subscripts[s].count;
  while (d < x->subscripts[s + 1].first && ir_form_is_one(form, t->dims[d])) d++;
  return d == x->subscripts[s + 1].first;
}

/* Neither loop, or both, in neighbouring plain subscripts. */
static bool walks_as_one(const ir_form *form, const ir_access *x, int outer) {
  unsigned both = 3u << outer;
  int used = 0, first = -1;
  for (int s = 0; s < x->n; s++) {
    if ((mentioned(x->subscripts[s].e) & both) == 0) continue;
    used++;
    if (first < 0) first = s;
  }
  if (used == 0) return x->other == NULL || (mentioned(x->other) & both) == 0;
  if (used != 2 || x->other != NULL) return false;
  return is_index(x->subscripts[first].e, outer) && is_index(x->subscripts[first + 1].e, outer + 1) &&
         follows(form, x, first) && ir_form_covers(form, x, first, outer) &&
         ir_form_covers(form, x, first + 1, outer + 1);
}

/* The same of a whole value, each node once. */
static void note_mentioned(const ir_form *form, const ir_expr *e, uint64_t *seen, unsigned *loops) {
  int number = ir_form_number(form, e);
  if (seen[number / 64] >> (number % 64) & 1) return;
  seen[number / 64] |= 1ull << (number % 64);
  if (e->node == IR_INDEX) *loops |= 1u << e->id;
  if (e->node == IR_REDUCE) *loops |= 1u << e->index;
  for (int i = 0; i < e->n_args; i++) note_mentioned(form, e->args[i], seen, loops);
}

/* joins[l]: loop l + 1 becomes one with loop l. */
static bool find_joins(const ir_form *form, arena *a, bool *joins) {
  uint64_t *seen = ARENA_NEW_N(a, uint64_t, (size_t)form->n_nodes / 64 + 1);
  if (seen == NULL) return false;
  unsigned loops = 0;
  for (int i = 0; i < form->n_outputs; i++) {
    note_mentioned(form, form->outputs[i].value, seen, &loops);
    if (form->outputs[i].rank_loop >= 0) loops |= 1u << form->outputs[i].rank_loop;
  }
  int n_dims = form->n_loops > 0 ? form->loops[0].n_dims : 0;
  for (int l = 0; l + 1 < form->n_loops; l++) {
    n_dims += form->loops[l + 1].n_dims;
    joins[l] = (loops & 3u << l) == 0 && n_dims <= IR_FORM_SPAN && !form->loops[l + 1].leading;
    for (int i = 0; joins[l] && i < form->n_accesses; i++)
      joins[l] = walks_as_one(form, &form->accesses[i], l);
    if (!joins[l]) n_dims = form->loops[l + 1].n_dims;
  }
  return true;
}

/* --- rebuilding --- */

typedef struct rebuild {
  form_builder b;
  const ir_form *from;
  int loops[IR_FORM_LOOPS]; /* new number of a loop */
  const ir_expr **nodes;    /* by old number */
} rebuild;

static const ir_expr *rebuilt(rebuild *r, const ir_expr *e);

/* Of two merged loops' subscripts the first is widened and the second left out. */
static int rebuilt_access(rebuild *r, int access) {
  const ir_access *from = &r->from->accesses[access];
  ir_access to = {.tensor = from->tensor, .conditional = from->conditional};
  for (int s = 0; s < from->n; s++) {
    ir_subscript sub = from->subscripts[s];
    const ir_expr *e = rebuilt(r, sub.e);
    if (e == NULL) return -1;
    bool joins = s > 0 && sub.e->node == IR_INDEX && from->subscripts[s - 1].e->node == IR_INDEX &&
                 sub.e->id != from->subscripts[s - 1].e->id && e == to.subscripts[to.n - 1].e;
    if (joins) {
      to.subscripts[to.n - 1].count = sub.first + sub.count - to.subscripts[to.n - 1].first;
    } else {
      sub.e = e;
      to.subscripts[to.n++] = sub;
    }
  }
  if (from->other != NULL) {
    to.other = rebuilt(r, from->other);
    if (to.other == NULL) return -1;
  }
  return form_access(&r->b, &to);
}

static const ir_expr *rebuilt(rebuild *r, const ir_expr *e) {
  const ir_expr **known = &r->nodes[ir_form_number(r->from, e)];
  if (*known != NULL) return *known;
  ir_expr key = *e;
  ir_expr *args[LIMIT_RANK + 1];
  key.args = args;
  for (int i = 0; i < e->n_args; i++) {
    args[i] = (ir_expr *)rebuilt(r, e->args[i]);
    if (args[i] == NULL) return NULL;
  }
  if (e->node == IR_INDEX) key.id = r->loops[e->id];
  if (e->node == IR_REDUCE) key.index = r->loops[e->index];
  if (e->node == IR_READ) {
    key.id = rebuilt_access(r, e->id);
    if (key.id < 0) return NULL;
  }
  *known = form_intern(&r->b, &key);
  return *known;
}

static void merge_loops(rebuild *r, const bool *joins) {
  ir_form *to = r->b.form;
  for (int l = 0; l < r->from->n_loops; l++) {
    const ir_loop *loop = &r->from->loops[l];
    if (l == 0 || !joins[l - 1]) {
      to->loops[to->n_loops++] = *loop;
    } else {
      ir_loop *whole = &to->loops[to->n_loops - 1];
      memcpy(whole->dims + whole->n_dims, loop->dims, (size_t)loop->n_dims * sizeof loop->dims[0]);
      whole->n_dims += loop->n_dims;
    }
    r->loops[l] = to->n_loops - 1;
  }
}

arke_status ir_form_merge(const ir_form *form, arena *a, ir_form *merged, arke_error *err) {
  rebuild *r = ARENA_NEW(a, rebuild);
  bool joins[IR_FORM_LOOPS] = {false};
  if (r == NULL || !find_joins(form, a, joins)) return error_memory(err, "form");
  r->from = form;
  if (!form_builder_init(&r->b, form->problem, a, merged, err)) return r->b.status;
  merged->ones = form->ones;
  r->nodes = ARENA_NEW_N(a, const ir_expr *, (size_t)form->n_nodes + 1);
  merged->outputs = ARENA_NEW_N(a, ir_form_output, (size_t)form->n_outputs + 1);
  if (r->nodes == NULL || merged->outputs == NULL) return error_memory(err, "form");
  merge_loops(r, joins);
  for (int i = 0; i < form->n_outputs; i++) {
    ir_form_output out = form->outputs[i];
    out.access = rebuilt_access(r, out.access);
    if (out.access < 0) return r->b.status;
    if (out.positions >= 0) {
      out.positions = rebuilt_access(r, out.positions);
      if (out.positions < 0) return r->b.status;
      out.rank_loop = r->loops[out.rank_loop];
    }
    out.value = rebuilt(r, out.value);
    if (out.value == NULL) return r->b.status;
    merged->outputs[merged->n_outputs++] = out;
  }
  form_number_nodes(&r->b);
  return ARKE_OK;
}
