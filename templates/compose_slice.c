/* Slices of one axis, in place of temporaries over axes that meet in no argument: the stage that writes such
 * a one and the stages that read it run for each slice. A reader with the axis writes its slice; one that
 * sums over it adds to an f32 temporary, in the order of the slices, so results do not differ from run to
 * run. */
#include <string.h>

#include "templates/compose_split.h"

/* How one reader of the sliced temporary is done. */
typedef struct reader {
  const compose_stage *s;
  const ir_expr *sum; /* over the slices; NULL: it writes its slice */
  int total;          /* cut that holds the sum */
} reader;

typedef struct slicing {
  compose_splitter *s;
  int number, loop; /* the cut; the axis */
  const compose_stage *writer;
  int n_before, n_readers, n_after;
  compose_stage *before[COMPOSE_STAGES], *after[COMPOSE_STAGES];
  reader readers[COMPOSE_STAGES];
} slicing;

/* --- what is to be sliced --- */

static unsigned loops_of(const ir_form *form, const ir_access *x) {
  unsigned loops = 0;
  for (int i = 0; i < x->n; i++) {
    if (!x->subscripts[i].leading) loops |= ir_form_free(form, x->subscripts[i].e);
    for (int l = 0; x->subscripts[i].leading && l < form->n_loops; l++)
      if (form->loops[l].leading) loops |= 1u << l;
  }
  return loops;
}

bool compose_crosses(const compose_plan *plan, unsigned loops) {
  if ((loops & (loops - 1)) == 0) return false; /* one axis */
  for (int i = 0; i < plan->form.n_accesses; i++)
    if ((loops & ~loops_of(&plan->form, &plan->form.accesses[i])) == 0) return false;
  return true;
}

bool compose_avoids(const compose_plan *plan, unsigned loops) {
  return !plan->keep && compose_crosses(plan, loops);
}

static double bytes_of(const compose_plan *plan, int number) {
  const compose_cut *cut = &plan->cuts[number];
  dtype type =
      cut->node->node == IR_CAST ? ir_cast_dtype(plan->p, cut->node) : ir_form_type(&plan->form, cut->node);
  return compose_size_of(plan, cut->loops) * dtype_bits(type) / 8;
}

/* The largest temporary over axes that meet in no argument; -1: there is none. *n: how many there are. */
static int find_crossing(const compose_plan *plan, int *n) {
  int found = -1;
  *n = 0;
  for (int i = 0; i < plan->n_cuts; i++) {
    if (!(plan->made >> i & 1) || !compose_crosses(plan, plan->cuts[i].loops)) continue;
    (*n)++;
    if (found < 0 || bytes_of(plan, i) > bytes_of(plan, found)) found = i;
  }
  return found;
}

double compose_crossing_bytes(const compose_plan *plan, int64_t size) {
  int n, number = find_crossing(plan, &n);
  if (number < 0) return 0;
  double bytes = bytes_of(plan, number);
  if (size == 0 || plan->slices.loop < 0) return bytes;
  return bytes / (double)ir_form_extent(&plan->form, plan->slices.loop) * (double)size;
}

int64_t compose_rounds(const compose_plan *plan) {
  if (plan->slices.loop < 0) return 1;
  int64_t all = ir_form_extent(&plan->form, plan->slices.loop), size = plan->slices.size;
  return (all + size - 1) / size;
}

double compose_times(const compose_plan *plan, const compose_stage *s) {
  return s->repeated ? (double)compose_rounds(plan) : 1;
}

/* --- who reads it --- */

static bool reads(const compose_stage *s, int number) {
  for (int i = 0; i < s->problem.op->n_inputs; i++)
    if (s->arguments[i] == ~number) return true;
  return false;
}

static bool writes(const compose_stage *s, int number) {
  for (int i = 0; i < s->n_targets; i++)
    if (s->targets[i].output < 0 && s->targets[i].temporary == number) return true;
  return false;
}

static bool say(slicing *x, const char *why) {
  strbuf_clear(&x->s->last);
  strbuf_addf(&x->s->last, "it cannot be sliced: %s", why);
  return false;
}

/* Reductions over the axis under an expression, itself included, that no stage has made. */
static bool count_over(slicing *x, const ir_expr *e, const ir_expr **found, int *n) {
  compose_walker w = {.visit = compose_list_reductions};
  if (!compose_walk(x->s, &w, e, NULL, 0)) return false;
  *n = 0;
  for (int i = 0; i < w.n; i++) {
    if (w.list[i]->index != x->loop) continue;
    *found = w.list[i];
    (*n)++;
  }
  return true;
}

static bool add_reader(slicing *x, const compose_stage *s) {
  const compose_plan *plan = x->s->plan;
  const ir_form *form = &plan->form;
  reader *r = &x->readers[x->n_readers++];
  int n;
  *r = (reader){.s = s, .total = -1};
  const compose_target *to = &s->targets[0];
  if (s->n_targets != 1 || to->is_start || to->goes_on) return say(x, "a stage writes several things");
  const ir_form_output *o = to->output >= 0 ? &form->outputs[to->output] : NULL;
  const ir_expr *value = o ? o->value : plan->cuts[to->temporary].node;
  unsigned loops = o ? loops_of(form, &form->accesses[o->access]) : plan->cuts[to->temporary].loops;
  if (o && (o->update != IR_ASSIGN || o->positions >= 0 ||
            plan->p->op->tensors[form->accesses[o->access].tensor].alias >= 0))
    return say(x, "an output is not assigned to");
  if (!count_over(x, value, &r->sum, &n)) return false;
  if (loops >> x->loop & 1) {
    r->sum = NULL;
    return (n == 0 && o) || say(x, "what follows from a slice is no output");
  }
  return (n == 1 && r->sum->id == IR_RED_SUM && r->sum->n_args == 1) || say(x, "what is reduced is no sum");
}

/* Which stages run before the slices, for each of them, and after them. */
static bool sort_stages(slicing *x, compose_stage *const *stages, int n) {
  const compose_plan *plan = x->s->plan;
  uint64_t late = 0; /* temporaries of readers and of what runs after them */
  for (int i = 0; i < n; i++) {
    bool after = false, is_reader = reads(stages[i], x->number);
    for (int k = 0; k < plan->n_cuts; k++) after = after || (late >> k & 1 && reads(stages[i], k));
    if (writes(stages[i], x->number)) {
      if (stages[i]->n_targets != 1) return say(x, "its stage writes more");
      x->writer = stages[i];
      continue;
    }
    if (is_reader && after) return say(x, "a stage reads it and what follows from it");
    if (is_reader && !add_reader(x, stages[i])) return false;
    if (!is_reader && after) x->after[x->n_after++] = stages[i];
    if (!is_reader && !after) x->before[x->n_before++] = stages[i];
    for (int k = 0; k < plan->n_cuts && (is_reader || after); k++)
      if (writes(stages[i], k)) late |= UINT64_C(1) << k;
  }
  return (x->writer && x->n_readers > 0) || say(x, "no stage reads it");
}

/* --- stages of slices --- */

static void add_made(compose_plan *plan, compose_stage *s) {
  plan->stages[plan->n_stages++] = s;
  for (int i = 0; i < s->n_targets; i++)
    if (s->targets[i].output < 0) plan->made |= UINT64_C(1) << s->targets[i].temporary;
}

/* Whether the reader's temporary is the sum itself, and not made from it. */
static bool is_all(const slicing *x, const reader *r) {
  const compose_target *to = &r->s->targets[0];
  return to->output < 0 && x->s->plan->cuts[to->temporary].node == r->sum;
}

/* Sums start at 0, before the slices. */
static bool start_sums(slicing *x) {
  for (int i = 0; i < x->n_readers; i++) {
    reader *r = &x->readers[i];
    compose_target start = r->s->targets[0];
    if (!r->sum) continue;
    if (!is_all(x, r) && !compose_add_cut(x->s, r->sum, NULL, &start)) return false;
    r->total = start.temporary;
    start.is_start = true;
    if (!compose_try_stage_of(x->s, &start, 1, false)) return false;
    x->s->plan->made &= ~(UINT64_C(1) << r->total);
  }
  return true;
}

static bool write_slices(slicing *x) {
  compose_plan *plan = x->s->plan;
  const ir_expr *over;
  int n;
  if (!count_over(x, plan->cuts[x->number].node, &over, &n)) return false;
  if (n > 0) return say(x, "it needs all of its axis");
  if (!compose_try_stage_of(x->s, x->writer->targets, 1, true)) return false;
  for (int i = 0; i < x->n_readers; i++) {
    const reader *r = &x->readers[i];
    compose_target total = {.output = -1, .temporary = r->total, .goes_on = true};
    if (!compose_try_stage_of(x->s, r->sum ? &total : r->s->targets, 1, true)) return false;
  }
  for (int i = 0; i < x->n_readers; i++) {
    const reader *r = &x->readers[i];
    if (!r->sum || is_all(x, r)) continue;
    if (!compose_try_stage_of(x->s, r->s->targets, 1, false)) return false;
    if (reads(plan->stages[plan->n_stages - 1], x->number)) return say(x, "more than its sum is needed");
  }
  return true;
}

static bool slice_along(compose_splitter *s, int number, int loop) {
  compose_plan *plan = s->plan;
  compose_plan *old = ARENA_NEW(plan->a, compose_plan);
  slicing *x = ARENA_NEW(plan->a, slicing);
  if (!old || !x) {
    s->status = ARKE_ERR_MEMORY;
    return false;
  }
  *old = *plan;
  *x = (slicing){.s = s, .number = number, .loop = loop};
  bool done = sort_stages(x, old->stages, old->n_stages);
  if (done) {
    plan->n_stages = 0;
    plan->made = 0;
    plan->slices.loop = loop;
    plan->slices.names.size = plan->slices.size;
    plan->slices.names.whole = plan->p->op->axes[plan->form.loops[loop].dims[0].axis];
    plan->cuts[number].sliced = true;
    for (int i = 0; i < x->n_before; i++) add_made(plan, x->before[i]);
    done = start_sums(x) && write_slices(x) && plan->n_stages + x->n_after <= COMPOSE_STAGES;
    for (int i = 0; i < x->n_after && done; i++) add_made(plan, x->after[i]);
  }
  if (!done) *plan = *old;
  return done;
}

/* What is kept between slices along a loop: the sums of readers that have not the loop. */
static double kept_along(const compose_plan *plan, int number, int loop) {
  double kept = 0;
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_target *to = &plan->stages[i]->targets[0];
    if (!reads(plan->stages[i], number)) continue;
    unsigned loops = to->output < 0
                         ? plan->cuts[to->temporary].loops
                         : loops_of(&plan->form, &plan->form.accesses[plan->form.outputs[to->output].access]);
    if (!(loops >> loop & 1)) kept += compose_size_of(plan, loops);
  }
  return kept;
}

bool compose_slice(compose_splitter *s) {
  compose_plan *plan = s->plan;
  int n, number = find_crossing(plan, &n);
  if (number < 0) return true;
  unsigned left = plan->cuts[number].loops;
  if (n > 1) {
    strbuf_clear(&s->last);
    strbuf_add(&s->last, "it would have to slice several temporaries");
    return false;
  }
  while (left) { /* the axis that keeps least first */
    int best = -1;
    for (int l = 0; l < plan->form.n_loops; l++) {
      if (!(left >> l & 1)) continue;
      if (best < 0 || kept_along(plan, number, l) < kept_along(plan, number, best)) best = l;
    }
    left &= ~(1u << best);
    const ir_loop *loop = &plan->form.loops[best];
    if (loop->leading || loop->n_dims != 1 || !ir_dim_is_axis(loop->dims[0])) continue;
    if (slice_along(s, number, best)) return true;
    if (s->status != ARKE_OK) return false;
  }
  return false;
}
