/* Partial results from lane to lane, from warp to warp through shared memory (of all CTAs of a cluster), and
 * from CTA to CTA through the workspace. The order in which parts meet is fixed: results are the same bits
 * each time, and the same in every thread. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_cluster.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/row_emit.h"

enum { SLOT_BYTES = 8 };

/* --- lanes of a warp --- */

typedef struct lane_values {
  row_emitter *e;
  const row_reduction *of[GEN_MAX_REDUCED]; /* by value; of a position's second value: NULL */
  row_value *from[GEN_MAX_REDUCED];
  gen_value values[GEN_MAX_REDUCED];
  int n;
} lane_values;

static void combine_lanes(gen_builder *b, void *user, gen_value *into, const gen_value *from, int n) {
  lane_values *l = user;
  for (int i = 0; i < n; i++) {
    const row_reduction *r = l->of[i];
    if (!r) continue;
    if (r->maximum >= 0) { /* rescaled to one maximum */
      into[i] = gen_fadd(b, into[i], from[i]);
      continue;
    }
    bool position = row_is_position(r);
    row_value ours = {into[i], position ? into[i + 1] : NULL},
              theirs = {from[i], position ? from[i + 1] : NULL};
    row_combine(l->e, r, &ours, &theirs);
    into[i] = ours.v;
    if (position) into[i + 1] = ours.at;
  }
}

static void flush(lane_values *l, int width) {
  if (l->n == 0) return;
  gen_warp_reduce(l->e->b, l->values, l->n, width, combine_lanes, l);
  for (int i = 0; i < l->n; i++) {
    if (!l->of[i]) continue;
    l->from[i]->v = l->values[i];
    if (row_is_position(l->of[i])) l->from[i]->at = l->values[i + 1];
  }
  l->n = 0;
}

static void put(lane_values *l, const row_reduction *r, row_value *value, int width) {
  if (l->n + row_components(r) > GEN_MAX_REDUCED) flush(l, width);
  l->of[l->n] = r;
  l->from[l->n] = value;
  l->values[l->n++] = value->v;
  if (!row_is_position(r)) return;
  l->of[l->n] = NULL;
  l->values[l->n++] = value->at;
}

/* Over segments of `width` lanes. Maxima first: each lane rescales its sums once. */
static arke_status reduce_lanes(row_emitter *e, int phase, row_state *rows, int n_rows, int width,
                                arke_error *err) {
  const row_match *m = e->m;
  lane_values l = {.e = e};
  gen_value before[ROW_MOST_ROWS][ROW_MAX_REDUCTIONS];
  if (width == 1) return ARKE_OK;
  for (int u = 0; u < n_rows; u++) {
    for (int i = 0; i < m->n_reductions; i++) {
      const row_reduction *r = &m->reductions[i];
      before[u][i] = rows[u].partial[i].v;
      if (r->phase == phase && r->maximum < 0) put(&l, r, &rows[u].partial[i], width);
    }
  }
  flush(&l, width);
  for (int u = 0; u < n_rows; u++) {
    for (int i = 0; i < m->n_reductions; i++) {
      const row_reduction *r = &m->reductions[i];
      if (r->phase != phase || r->maximum < 0) continue;
      row_value *partial = rows[u].partial;
      TRY(row_rescale(e, r, partial[i].v, before[u][r->maximum], partial[r->maximum].v, &partial[i].v, err));
      put(&l, r, &partial[i], width);
    }
  }
  flush(&l, width);
  return ARKE_OK;
}

/* --- warps, of one CTA or of a cluster --- */

static int phase_components(const row_match *m, int phase) {
  int n = 0;
  for (int i = 0; i < m->n_reductions; i++)
    if (m->reductions[i].phase == phase) n += row_components(&m->reductions[i]);
  return n;
}

static int warps_of(const row_plan *plan) {
  return plan->threads / 32 * plan->cluster;
}

/* One phase of one group. */
static int phase_bytes(const row_match *m, const row_plan *plan, int phase) {
  return phase_components(m, phase) * plan->rows_at_once * warps_of(plan) * SLOT_BYTES;
}

static int turn_bytes(const row_match *m, const row_plan *plan) {
  int bytes = 0;
  for (int p = 0; p < m->n_phases; p++) bytes += phase_bytes(m, plan, p);
  return bytes * plan->groups;
}

int row_scratch_bytes(const row_match *m, const row_plan *plan) {
  if (plan->threads <= 32 && plan->cluster == 1) return 0;
  /* A phase's slots are free again when all threads have met in another phase; where there is none they
   * alternate. */
  int turns = plan->ctas_per_sm > 0 && m->n_phases == 1 ? 2 : 1;
  return turn_bytes(m, plan) * turns;
}

/* First slot of the phase's values in this CTA, for this group and turn. */
static gen_value phase_slots(row_emitter *e, int phase) {
  gen_builder *b = e->b;
  int before = 0;
  for (int p = 0; p < phase; p++) before += phase_bytes(e->m, e->plan, p) * e->plan->groups;
  gen_value at = gen_add_imm(b, e->scratch, before);
  if (e->plan->groups > 1) at = gen_add(b, at, gen_mul_imm(b, e->group, phase_bytes(e->m, e->plan, phase)));
  if (e->turn) at = gen_add(b, at, gen_mul_imm(b, e->turn, turn_bytes(e->m, e->plan)));
  return at;
}

/* All threads of the row. */
static void meet(row_emitter *e) {
  const row_plan *plan = e->plan;
  if (plan->cluster > 1) {
    gen_cluster_sync(e->b);
  } else if (plan->groups > 1) {
    gen_named_sync(e->b, gen_add_imm(e->b, e->group, 1), plan->threads);
  } else {
    gen_cta_sync(e->b);
  }
}

/* Visits the values of a phase in the order of their slots. */
typedef void (*visit_value)(row_emitter *e, gen_value *value, int slot, void *user);
static void each_value(row_emitter *e, int phase, row_state *rows, int n_rows, visit_value visit,
                       void *user) {
  int slot = 0;
  for (int u = 0; u < n_rows; u++) {
    for (int i = 0; i < e->m->n_reductions; i++) {
      const row_reduction *r = &e->m->reductions[i];
      if (r->phase != phase) continue;
      visit(e, &rows[u].partial[i].v, slot++, user);
      if (row_is_position(r)) visit(e, &rows[u].partial[i].at, slot++, user);
    }
  }
}

static void store_slot(row_emitter *e, gen_value *value, int slot, void *user) {
  gen_value at = gen_add_imm(e->b, *(gen_value *)user, (int64_t)slot * warps_of(e->plan) * SLOT_BYTES);
  if (e->plan->cluster > 1) {
    gen_store_cluster(e->b, *value, at);
  } else {
    gen_store_shared(e->b, *value, at);
  }
}

static void load_slot(row_emitter *e, gen_value *value, int slot, void *user) {
  gen_value at = gen_add_imm(e->b, *(gen_value *)user, (int64_t)slot * warps_of(e->plan) * SLOT_BYTES);
  *value = gen_load_shared(e->b, gen_type_of(e->b, *value), 1, at);
}

/* A warp's results go to all CTAs of the cluster: lane r writes to CTA r. */
static void store_slots(row_emitter *e, int phase, row_state *rows, int n_rows, gen_value slots,
                        gen_value lane) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  gen_value warp = gen_lshr(b, e->thread, gen_i32(b, 5));
  if (plan->cluster > 1) warp = gen_add(b, gen_mul_imm(b, e->part, plan->threads / 32), warp);
  gen_branch writers;
  gen_if(b, &writers, gen_compare_imm(b, GEN_ULT, lane, plan->cluster), NULL, 0);
  gen_value at = gen_add(b, slots, gen_mul_imm(b, warp, SLOT_BYTES));
  if (plan->cluster > 1) at = gen_cluster_map(b, at, lane);
  each_value(e, phase, rows, n_rows, store_slot, &at);
  gen_if_end(b, &writers);
}

/* Every warp reads all warps' results, a lane several where there are more than 32. */
static arke_status load_slots(row_emitter *e, int phase, row_state *rows, int n_rows, gen_value slots,
                              gen_value lane, arke_error *err) {
  gen_builder *b = e->b;
  int warps = warps_of(e->plan);
  gen_value first = warps < 32 ? gen_and(b, lane, gen_i32(b, warps - 1)) : lane;
  gen_value at = gen_add(b, slots, gen_mul_imm(b, first, SLOT_BYTES));
  each_value(e, phase, rows, n_rows, load_slot, &at);
  for (int more = 32; more < warps; more += 32) {
    row_state others[ROW_MOST_ROWS];
    gen_value next = gen_add_imm(b, at, more * SLOT_BYTES);
    for (int u = 0; u < n_rows; u++) others[u] = rows[u];
    each_value(e, phase, others, n_rows, load_slot, &next);
    for (int u = 0; u < n_rows; u++)
      TRY(row_combine_phase(e, phase, rows[u].partial, others[u].partial, err));
  }
  return ARKE_OK;
}

arke_status row_exchange(row_emitter *e, int phase, row_state *rows, int n_rows, arke_error *err) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  TRY(reduce_lanes(e, phase, rows, n_rows, plan->threads < 32 ? plan->threads : 32, err));
  int warps = warps_of(plan);
  if (warps <= 1) return ARKE_OK;
  gen_value slots = phase_slots(e, phase), lane = gen_and(b, e->thread, gen_i32(b, 31));
  store_slots(e, phase, rows, n_rows, slots, lane);
  meet(e);
  TRY(load_slots(e, phase, rows, n_rows, slots, lane, err));
  return reduce_lanes(e, phase, rows, n_rows, warps < 32 ? warps : 32, err);
}

/* --- CTAs, through the workspace --- */

int row_workspace_entries(const row_match *m) {
  int n = 0;
  for (int p = 0; p < m->n_phases; p++) n += phase_components(m, p);
  return n;
}

/* Where the parts of a row's values of a phase start: [value][row][part], 8 bytes each. */
typedef struct place {
  gen_value first, step; /* i64: of the phase's first value for the part at hand; bytes from value to value */
} place;

static gen_value wide(gen_builder *b, gen_value v) {
  return gen_type_of(b, v) == GEN_I64 ? v : gen_zext(b, v, GEN_I64);
}

static place place_of(row_emitter *e, int phase, gen_value row, gen_value part) {
  gen_builder *b = e->b;
  int64_t parts = e->plan->split, before = 0;
  for (int p = 0; p < phase; p++) before += phase_components(e->m, p);
  gen_value step = gen_mul_imm(b, wide(b, e->rows), parts * SLOT_BYTES);
  gen_value in_row = gen_add(b, gen_mul_imm(b, wide(b, row), parts), wide(b, part));
  gen_value first = gen_add(b, gen_param(b, e->k->workspace), gen_mul_imm(b, in_row, SLOT_BYTES));
  return (place){gen_add(b, first, gen_mul_imm(b, step, before)), step};
}

static void store_part(row_emitter *e, gen_value *value, int slot, void *user) {
  const place *p = user;
  gen_store_global(e->b, *value, gen_add(e->b, p->first, gen_mul_imm(e->b, p->step, slot)));
}

static void load_part(row_emitter *e, gen_value *value, int slot, void *user) {
  const place *p = user;
  gen_value at = gen_add(e->b, p->first, gen_mul_imm(e->b, p->step, slot));
  *value = gen_load_global(e->b, gen_type_of(e->b, *value), 1, at, false);
}

arke_status row_publish(row_emitter *e, int phase, row_state *row, arke_error *err) {
  gen_builder *b = e->b;
  (void)err;
  gen_branch writer;
  gen_if(b, &writer, gen_compare_imm(b, GEN_EQ, e->thread, 0), NULL, 0);
  place p = place_of(e, phase, row->row, e->part);
  each_value(e, phase, row, 1, store_part, &p);
  gen_if_end(b, &writer);
  return ARKE_OK;
}

static void select_identity(row_emitter *e, int phase, row_value *values, gen_value present) {
  for (int i = 0; i < e->m->n_reductions; i++) {
    const row_reduction *r = &e->m->reductions[i];
    if (r->phase != phase) continue;
    row_value nothing = row_identity(e, r);
    values[i].v = gen_select(e->b, present, values[i].v, nothing.v);
    if (row_is_position(r)) values[i].at = gen_select(e->b, present, values[i].at, nothing.at);
  }
}

/* Thread t takes parts t, t + threads, …; then the CTA combines. */
arke_status row_collect(row_emitter *e, int phase, row_state *row, arke_error *err) {
  gen_builder *b = e->b;
  int threads = e->plan->threads, parts = e->plan->split;
  for (int i = 0; i < e->m->n_reductions; i++)
    if (e->m->reductions[i].phase == phase) row->partial[i] = row_identity(e, &e->m->reductions[i]);
  for (int first = 0; first < parts; first += threads) {
    row_state part = *row;
    gen_value at = gen_add_imm(b, e->thread, first), present = NULL;
    if (first + threads > parts) {
      present = gen_compare_imm(b, GEN_ULT, at, parts);
      at = gen_select(b, present, at, gen_i32(b, 0));
    }
    place p = place_of(e, phase, row->row, at);
    each_value(e, phase, &part, 1, load_part, &p);
    if (present) select_identity(e, phase, part.partial, present);
    TRY(row_combine_phase(e, phase, row->partial, part.partial, err));
  }
  return row_exchange(e, phase, row, 1, err);
}
