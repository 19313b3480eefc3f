/* What a configuration is for a problem's sizes. */
#include "templates/map.h"

enum {
  MOST_VECTOR_BYTES = 32, /* of one access and thread: more leaves gaps between a warp's accesses */
  MOST_LOADED_REGISTERS = 96,
  OTHER_REGISTERS = 24, /* addresses and indices */
  STRIDES_UNROLL = 4,
  ANY_UNROLL = 2,
  ANY_PERSISTENT = 8,
};

static int64_t ceil_power(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

/* --- evaluator --- */

unsigned map_access_loops(const ir_form *form, int access) {
  const ir_access *x = &form->accesses[access];
  unsigned loops = 0;
  for (int s = 0; s < x->n; s++) loops |= ir_form_free(form, x->subscripts[s].e);
  return loops;
}

static int log2_of(int width) {
  int bits = 0;
  while (1 << bits < width) bits++;
  return bits;
}

lanes_options map_lanes(const map_match *m, const map_plan *plan, int group, int width) {
  const map_group *g = &m->groups[group];
  lanes_options o = plan->lanes;
  o.loop = g->column.loop;
  o.width = width;
  o.loads = plan->loads;
  o.stores = plan->stores;
  o.wide = width == 1 ? 0 : m->knows_wide ? g->wide[log2_of(width)] : lanes_wide(&m->form, &o);
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (map_access_loops(&m->form, i) == g->loops) o.streamed |= UINT64_C(1) << i;
  }
  return o;
}

static int access_bytes(const target *t) {
  return t->has.access_32 ? 32 : 16;
}

void map_know_wide(map_match *m, const target *t) {
  map_plan plan = {.lanes = {.dense = m->dense, .access_bytes = access_bytes(t)}};
  for (int i = 0; i < m->n_groups; i++) {
    for (int k = 1; k < MAP_WIDTHS; k++) m->groups[i].wide[k] = map_lanes(m, &plan, i, 1 << k).wide;
  }
  m->knows_wide = true;
}

/* Whether all outputs can be stored a vector at a time. */
static bool stores_are_wide(const map_match *m, const map_plan *plan) {
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    if (g->scalar) continue;
    uint64_t wide = map_lanes(m, plan, i, plan->lanes.width).wide;
    for (int o = 0; o < m->form.n_outputs; o++) {
      if ((g->outputs >> o & 1) && !(wide >> m->form.outputs[o].access & 1)) {
        const ir_access *x = &m->form.accesses[m->form.outputs[o].access];
        if (x->n > 0 && map_subscript_loop(&m->form, x, x->n - 1) == g->column.loop) return false;
      }
    }
  }
  return true;
}

/* --- tiles --- */

int64_t map_tile_columns(const map_plan *plan, int group) {
  return (int64_t)plan->columns * plan->lanes.width * plan->tiles[group].vectors;
}

int64_t map_tile_rows(const map_plan *plan, int group) {
  return (int64_t)plan->rows * plan->tiles[group].rows;
}

int map_copies(const map_plan *plan, int group) {
  return plan->tiles[group].at_once * plan->tiles[group].vectors * plan->tiles[group].rows;
}

/* A thread's vectors lie where they share costly values as far as that reaches, then along the columns, then
 * across. */
static void make_tiles(const map_match *m, map_plan *plan, int unroll) {
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    int64_t reuse = map_reuse_most(m, g),
            needed = ceil_power(ceildiv(map_columns(m, g), (int64_t)plan->columns * plan->lanes.width));
    plan->tiles[i].reuse = reuse < plan->reuse ? (int)reuse : plan->reuse;
    plan->tiles[i].at_once = plan->tiles[i].reuse < unroll ? plan->tiles[i].reuse : unroll;
    int left = unroll / plan->tiles[i].at_once;
    plan->tiles[i].vectors = needed < left ? (int)needed : left;
    plan->tiles[i].rows = g->n_rows > 0 ? left / plan->tiles[i].vectors : 1;
  }
}

int64_t map_tile_count(const map_match *m, const map_plan *plan) {
  int64_t tiles = 0;
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    tiles += ceildiv(map_columns(m, g), map_tile_columns(plan, i)) *
             ceildiv(map_row_count(m, g, plan->tiles[i].reuse), map_tile_rows(plan, i));
  }
  return tiles;
}

bool map_is_linear(const map_match *m, const map_plan *plan) {
  return m->n_groups > 1 || plan->persistent > 0;
}

bool map_tiles_fill(const map_match *m, const map_plan *plan) {
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    int64_t rows = map_row_count(m, g, plan->tiles[i].reuse), high = map_tile_rows(plan, i);
    if (map_columns(m, g) % map_tile_columns(plan, i) != 0 || rows % high != 0) return false;
    if (g->reuse >= 0 && ir_form_extent(&m->form, g->rows[g->reuse].loop) % plan->tiles[i].reuse != 0)
      return false;
    if (!map_is_linear(m, plan) && rows / high > MAP_GRID_Y) return false;
  }
  return true;
}

/* --- feasibility --- */

/* Registers that the loads of a group's thread fill; what the copies of the reuse row share counts once. */
static int group_registers(const map_match *m, const map_plan *plan, int group, int *widest_bytes) {
  const ir_problem *p = m->form.problem;
  const map_group *g = &m->groups[group];
  int registers = 0, copies = map_copies(plan, group);
  for (int i = 0; i < m->form.n_accesses; i++) {
    const ir_access *x = &m->form.accesses[i];
    unsigned loops = map_access_loops(&m->form, i);
    if (loops & ~g->loops) continue;
    bool moves = g->column.loop >= 0 && (loops >> g->column.loop & 1);
    bool shared = g->reuse >= 0 && !(loops >> g->rows[g->reuse].loop & 1);
    int bytes = ((moves ? plan->lanes.width : 1) * dtype_bits(ir_tensor_dtype(p, x->tensor)) + 7) / 8;
    if (x->tensor < p->op->n_inputs)
      registers += (bytes + 3) / 4 * (shared ? copies / plan->tiles[group].at_once : copies);
    if (*widest_bytes < bytes) *widest_bytes = bytes;
  }
  return registers;
}

/* Of the group that needs most, and the widest access. */
static int loaded_registers(const map_match *m, const map_plan *plan, int *widest_bytes) {
  int most = 0;
  *widest_bytes = 0;
  for (int i = 0; i < m->n_groups; i++) {
    int of_group = group_registers(m, plan, i, widest_bytes);
    if (most < of_group) most = of_group;
  }
  return most;
}

/* Whether a warp's part of a row is too short for whole cache lines though rows are longer: right, but never
 * worth a trial. */
static bool is_scattered(const map_match *m, const map_plan *plan) {
  enum { LINE_BITS = 128 * 8 };
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    int64_t at_once = (int64_t)plan->columns * plan->lanes.width;
    if (g->n_rows == 0 || at_once >= map_columns(m, g)) continue;
    for (int o = 0; o < m->form.n_outputs; o++) {
      int bits =
          dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[m->form.outputs[o].access].tensor));
      if (plan->columns < 32 && at_once * bits < LINE_BITS) return true;
    }
  }
  return false;
}

static bool is_redundant(const map_match *m, const map_plan *plan, const config *c, int sm_count) {
  bool rows = false, unrolled = false, reused = false;
  int64_t columns = 1;
  for (int i = 0; i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    rows = rows || g->n_rows > 0;
    if (columns < map_columns(m, g)) columns = map_columns(m, g);
    reused = reused || plan->tiles[i].reuse == plan->reuse;
    unrolled = unrolled || map_copies(plan, i) == c->values[MAP_UNROLL];
    if (map_tile_rows(plan, i) / 2 >= map_row_count(m, g, plan->tiles[i].reuse) && plan->tiles[i].rows > 1)
      unrolled = false;
  }
  if (!reused || (!rows && plan->columns != plan->threads)) return true;
  if (rows && plan->columns > 1 && plan->columns / 2 * (int64_t)plan->lanes.width >= columns) return true;
  if (!unrolled) return true;
  return plan->persistent > 0 && map_tile_count(m, plan) <= (int64_t)plan->persistent * sm_count;
}

/* Whether so many threads on an SM are worth asking for: where values are kept for a reuse row, a thread
 * takes more registers than its loads need. */
static bool is_a_crowd(const map_match *m, const map_plan *plan, const target *t, int needed) {
  int own = t->registers_per_sm / plan->resident;
  bool keeps = false;
  for (int i = 0; i < m->n_groups; i++) keeps = keeps || plan->tiles[i].reuse > 1;
  return keeps && plan->resident % plan->threads == 0 && plan->resident <= t->max_threads_per_sm &&
         own < needed && 2 * own > needed;
}

template_reason map_plan_make(const map_match *m, const target *t, const config *c, map_plan *plan) {
  static const gen_cache loads[] = {GEN_CACHE_DEFAULT, GEN_CACHE_STREAM, GEN_CACHE_EVICT_FIRST},
                         stores[] = {GEN_CACHE_DEFAULT, GEN_CACHE_STREAM, GEN_CACHE_EVICT_FIRST};
  const int *v = c->values;
  *plan = (map_plan){.threads = v[MAP_THREADS],
                     .columns = v[MAP_COLUMNS],
                     .persistent = v[MAP_PERSISTENT],
                     .reuse = v[MAP_REUSE],
                     .resident = v[MAP_RESIDENT],
                     .loads = loads[v[MAP_STREAM]],
                     .stores = stores[v[MAP_STREAM]]};
  if (plan->columns > plan->threads) return TEMPLATE_TILE;
  plan->rows = plan->threads / plan->columns;
  plan->lanes = (lanes_options){.width = v[MAP_VECTOR],
                                .dense = m->dense,
                                .wide_offsets = m->wide_offsets,
                                .access_bytes = access_bytes(t)};
  make_tiles(m, plan, v[MAP_UNROLL]);
  int widest, registers = loaded_registers(m, plan, &widest);
  if (widest > MOST_VECTOR_BYTES && plan->lanes.width > 1) return TEMPLATE_TILE;
  if (registers > MOST_LOADED_REGISTERS ||
      (2 * registers + OTHER_REGISTERS) * plan->threads > t->registers_per_sm)
    return TEMPLATE_REGISTERS;
  if (plan->lanes.width > 1 ? !stores_are_wide(m, plan) : m->packed) return TEMPLATE_ALIGNMENT;
  plan->whole = m->dense && map_tiles_fill(m, plan);
  bool skipped = is_scattered(m, plan) || is_redundant(m, plan, c, t->rates.sm_count) ||
                 (plan->resident && !is_a_crowd(m, plan, t, 2 * registers + OTHER_REGISTERS));
  return skipped ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

/* --- views --- */

/* As many threads along the columns as they need, at most all. */
static void spread(const map_match *m, map_plan *plan) {
  int64_t columns = 1;
  for (int i = 0; i < m->n_groups; i++) {
    int64_t needed = ceil_power(ceildiv(map_columns(m, &m->groups[i]), plan->lanes.width));
    if (columns < needed) columns = needed;
  }
  plan->columns = columns < plan->threads ? (int)columns : plan->threads;
  plan->rows = plan->threads / plan->columns;
}

map_plan map_plan_views(const map_match *m, const map_plan *dense, map_reach reach) {
  map_plan plan = *dense;
  plan.whole = false;
  plan.resident = 0;
  plan.lanes.dense = false;
  if (reach != MAP_ALIGNED_ROWS) plan.lanes.width = 1;
  if (reach == MAP_ANY_VIEW) {
    plan.persistent = ANY_PERSISTENT; /* whatever the number of tiles is */
    plan.lanes.wide_offsets = true;
  }
  while (plan.lanes.width > 1 && !stores_are_wide(m, &plan)) plan.lanes.width /= 2;
  spread(m, &plan);
  int unroll = map_copies(dense, 0);
  if (reach == MAP_ANY_STRIDES) unroll = STRIDES_UNROLL;
  if (reach == MAP_ANY_VIEW) unroll = ANY_UNROLL;
  make_tiles(m, &plan, unroll);
  return plan;
}
