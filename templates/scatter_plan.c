/* What follows from a part and a configuration: which loop vectors run along, who has which elements. */
#include "templates/scatter.h"

static bool written(const scatter_part *part, const ir_form *form, int access) {
  for (int o = 0; o < form->n_outputs; o++)
    if (part->outputs >> o & 1 && form->outputs[o].access == access) return true;
  return false;
}

/* Vectors run along the loop that the outputs run along, else along the one that most reads run along; the
 * innermost of equals. */
static int lane_loop(const scatter_part *part, const ir_form *form, unsigned loops) {
  int best = -1, most = 0;
  for (int l = 0; l < form->n_loops; l++) {
    int score = 1;
    if (!(loops >> l & 1)) continue;
    for (int i = 0; i < form->n_accesses; i++) {
      if (ir_form_motion(form, i, l) == IR_MOTION_UNIT) score += written(part, form, i) ? 100 : 2;
    }
    if (score >= most) {
      most = score;
      best = l;
    }
  }
  return best;
}

/* As wide as the loop's size and every access along it allow. */
static int widest(const scatter_part *part, const ir_form *form, const lanes_options *o, int most) {
  uint64_t along = 0;
  (void)part;
  for (int i = 0; i < form->n_accesses; i++) {
    if (ir_form_motion(form, i, o->loop) == IR_MOTION_UNIT) along |= UINT64_C(1) << i;
  }
  lanes_options wider = *o;
  for (wider.width = most; wider.width > 1; wider.width /= 2) {
    if (ir_form_extent(form, o->loop) % wider.width == 0 && (lanes_wide(form, &wider) & along) == along)
      return wider.width;
  }
  return 1;
}

/* Loops that stand alone in a subscript of every output: points that differ in them write different elements.
 */
static unsigned own_loops(const scatter_part *part, const ir_form *form) {
  unsigned all = ~0u;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    unsigned loops = 0;
    if (!(part->outputs >> o & 1)) continue;
    for (int s = 0; s < x->n; s++)
      if (x->subscripts[s].e->node == IR_INDEX) loops |= 1u << x->subscripts[s].e->id;
    all &= loops;
  }
  return all;
}

/* Subscripts that are no loop of their own do not change along the lanes, so that one thread has a vector. */
static bool same_along_lanes(const scatter_part *part, const ir_form *form, int lane) {
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    for (int s = 0; part->outputs >> o & 1 && s < x->n; s++) {
      const ir_expr *e = x->subscripts[s].e;
      if (e->node != IR_INDEX && ir_form_free(form, e) >> lane & 1) return false;
    }
  }
  return true;
}

/* Threads that fill the device, where there are enough elements. */
enum { WANTED_THREADS = 1 << 16, MOST_OWNERS = 256 };

static void plan_order(scatter_plan *p, unsigned loops) {
  unsigned own = p->deterministic ? own_loops(p->part, p->form) : loops;
  if (p->lane >= 0 && p->deterministic &&
      (!(own >> p->lane & 1) || !same_along_lanes(p->part, p->form, p->lane))) {
    p->lane = -1;
    p->width = 1;
  }
  for (int l = 0; l < p->form->n_loops; l++) {
    if (!(loops >> l & 1) || l == p->lane) continue;
    if (own >> l & 1) {
      p->outer[p->n_outer++] = l;
    } else {
      p->serial[p->n_serial++] = l;
    }
  }
  p->owners = 1;
  /* A share is of one tensor's elements. */
  if (__builtin_popcountll(p->part->outputs) > 1) return;
  int64_t positions = scatter_positions(p);
  while (p->deterministic && p->owners < MOST_OWNERS && positions * p->owners * 2 <= WANTED_THREADS)
    p->owners *= 2;
}

template_reason scatter_make_plan(const scatter_part *part, const target *t, const config *c, bool dense,
                                  int vector, scatter_plan *plan) {
  *plan = (scatter_plan){.part = part,
                         .form = &part->forms[dense],
                         .dense = dense,
                         .wide_offsets = lanes_need_wide_offsets(&part->forms[dense]),
                         .deterministic = c->values[SCATTER_DETERMINISTIC] && part->collides,
                         .threads = c->values[SCATTER_THREADS],
                         .unroll = c->values[SCATTER_UNROLL],
                         .width = 1};
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  unsigned loops = part->loops[dense];
  plan->lane = lane_loop(part, plan->form, loops);
  lanes_options o = {.loop = plan->lane, .dense = dense, .wide_offsets = plan->wide_offsets};
  if (plan->lane >= 0) plan->width = widest(part, plan->form, &o, vector);
  plan_order(plan, loops);
  if (plan->width * plan->unroll > 32) return TEMPLATE_REGISTERS;
  return TEMPLATE_OK;
}

int64_t scatter_positions(const scatter_plan *plan) {
  int64_t n = plan->lane < 0 ? 1 : (ir_form_extent(plan->form, plan->lane) + plan->width - 1) / plan->width;
  for (int i = 0; i < plan->n_outer; i++) n *= ir_form_extent(plan->form, plan->outer[i]);
  return n;
}

int64_t scatter_steps(const scatter_plan *plan) {
  int64_t n = 1;
  for (int i = 0; i < plan->n_serial; i++) n *= ir_form_extent(plan->form, plan->serial[i]);
  return n;
}
