#include <math.h>

#include "templates/lanes_index.h"
#include "templates/row_emit.h"

/* The values of a row of ROW_PARAMS, counted. */
#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    ROW_PARAMS(X)
#undef X
};

const space row_space = {"row", ROW_PARAM_COUNT, params};

const space *row_space_of(const target *t) {
  (void)t;
  return &row_space;
}

/* Registers of a thread beside the elements it holds: addresses, sizes, results, temporaries; and more where
 * elements wait in shared memory, or are widened and loaded when they are needed (means over what ptxas made
 * of tried configurations). */
enum { OVERHEAD_REGISTERS = 18, SHARED_REGISTERS = 14 };
/* Dynamic shared memory begins at a multiple of this. */
enum { DYNAMIC_ALIGNMENT = 1024 };
/* More code than this per thread compiles slowly and gains nothing. */
enum { MOST_ELEMENTS = 128 };
/* Groups of more than a warp have a named barrier each, of 15. */
enum { MOST_GROUPS_OF_WARPS = 8 };

bool row_is_online(const config *c) {
  const int *v = c->values;
  return row_held_of(c) == ROW_AGAIN || v[ROW_PARTS] > 1;
}

/* What does not depend on the problem: most points end here, cheaply. */
template_reason row_shape_reason(const target *t, const config *c) {
  const int *v = c->values;
  row_held held = row_held_of(c);
  int threads = v[ROW_THREADS], block = row_block(c), parts = v[ROW_PARTS];
  if (block > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (threads > 32 && block / threads > MOST_GROUPS_OF_WARPS) return TEMPLATE_THREADS;
  if (row_cluster(c) > 1 && !t->has.clusters) return TEMPLATE_CLUSTER;
  if (parts > 1 && (block != threads || threads < 64)) return TEMPLATE_CLUSTER;
  if (v[ROW_PERSISTENT] * block > t->max_threads_per_sm) return TEMPLATE_THREADS;
  if (v[ROW_PERSISTENT] && parts > 1) return TEMPLATE_SCHEDULE;
  /* CTAs that loop say how many they are. */
  if (v[ROW_CTAS] && (v[ROW_PERSISTENT] || v[ROW_CTAS] * block > t->max_threads_per_sm))
    return TEMPLATE_SCHEDULE;
  if (held != ROW_REGISTERS && threads < 32) return TEMPLATE_TILE;
  if (held == ROW_SHARED && row_split(c) > 1) return TEMPLATE_SCHEDULE; /* a kernel ends with its phase */
  if (held == ROW_REGISTERS && v[ROW_BATCH] > 1 && parts > 1) return TEMPLATE_SCHEDULE;
  /* The barrier of a row's first phase tells that its CTA is done with the row before. */
  if (held == ROW_AHEAD && (!t->has.tma || !v[ROW_PERSISTENT] || block != threads || threads < 64))
    return TEMPLATE_SCHEDULE;
  return TEMPLATE_OK;
}

static int access_bits(const row_match *m, int access) {
  return dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor));
}

/* The narrowest element that moves with the column, which bounds the width of a vector to 16 bytes of it; the
 * widest is then 64 bytes, four accesses. */
static bool vector_fits(const row_match *m, int vector) {
  int least = 64, most = 8;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (!(m->unit >> i & 1)) continue;
    int bits = access_bits(m, i);
    if (bits < least) least = bits;
    if (bits > most) most = bits;
  }
  return vector == 1 || (m->unit && vector * least <= 128 && vector * most <= 512);
}

/* Whether aligned vectors may start at any column: where something divides by the column, lanes take their
 * first one to be a multiple of the width. */
static bool starts_anywhere(const row_match *m) {
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (m->moving >> i & 1 && ir_form_motion(&m->form, i, m->column) == IR_MOTION_IRREGULAR) return false;
  }
  return !m->divides_column;
}

/* Whether some pass needs an element again after the first of its reductions has all of them. */
static bool returns_to_elements(const row_match *m) {
  for (int i = 0; i < m->n_reductions; i++) {
    const row_reduction *r = &m->reductions[i];
    if (r->maximum >= 0 || r->kind == IR_RED_ARGMAX || r->kind == IR_RED_ARGMIN) return true;
  }
  return false;
}

bool row_varies(const row_match *m, int access) {
  for (int i = 0; i < m->n_rows; i++)
    if (ir_form_motion(&m->form, access, m->rows[i]) != IR_MOTION_NONE) return true;
  return false;
}

/* Registers of one element: as it is loaded, and (`held`) what is read again from the first phase to the last
 * in the type it computes in. */
static double registers_of_element(const row_match *m, const row_plan *plan, bool held) {
  double registers = 0;
  int vector = plan->vector;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (!m->reads[i] || !(m->moving >> i & 1)) continue;
    int bits = access_bits(m, i);
    double loaded = ceil(bits * vector / 32.0) / vector;
    registers += held && m->kept >> i & 1 ? (bits > 32 ? 2 : 1) : loaded;
  }
  return registers + (!held && returns_to_elements(m) ? 0.7 : 0);
}

/* Of an element that waits in shared memory from phase to phase. */
static double narrow_registers(const row_match *m, const row_plan *plan) {
  double registers = 0;
  for (int i = 0; i < m->form.n_accesses; i++)
    if (m->kept >> i & 1 && row_ahead(m, plan) >> i & 1) registers += access_bits(m, i) / 32.0;
  return registers;
}

double row_registers(const row_match *m, const row_plan *plan) {
  double each = registers_of_element(m, plan, row_in_registers(plan) && !plan->narrow);
  if (plan->narrow && plan->held == ROW_AHEAD) each = fmax(each - narrow_registers(m, plan), 0.5);
  bool passes = plan->held == ROW_SHARED || plan->narrow || plan->crowd;
  double overhead = passes ? OVERHEAD_REGISTERS + SHARED_REGISTERS : OVERHEAD_REGISTERS;
  return overhead + fmax(each, 0.5) * plan->vector * plan->vectors * plan->rows_at_once;
}

uint64_t row_major(const row_match *m) {
  const ir_form *form = &m->form;
  uint64_t set = 0;
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *access = &form->accesses[i];
    bool plain = m->unit >> i & 1 && access->n == m->n_rows + 1;
    for (int s = 0; plain && s < access->n; s++) {
      const ir_expr *e = access->subscripts[s].e;
      plain = e->node == IR_INDEX && e->id == (s < m->n_rows ? m->rows[s] : m->column) &&
              lanes_in_range(form, access, s);
    }
    if (plain) set |= UINT64_C(1) << i;
  }
  return set;
}

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

static bool registers_fit(const row_match *m, const target *t, const row_plan *plan) {
  int block = plan->threads * plan->groups, ctas = plan->ctas_per_sm ? plan->ctas_per_sm : 1;
  int limit = t->registers_per_sm / (block * ctas);
  if (limit > t->max_registers_per_thread) limit = t->max_registers_per_thread;
  return row_registers(m, plan) <= limit;
}

static bool shared_memory_fits(const row_match *m, const target *t, const row_plan *plan) {
  int block = plan->threads * plan->groups, ctas = plan->ctas_per_sm ? plan->ctas_per_sm : 1;
  int64_t bytes = plan->shared_vectors * plan->shared_bytes * block;
  bytes += ceildiv(row_scratch_bytes(m, plan), DYNAMIC_ALIGNMENT) * DYNAMIC_ALIGNMENT + DYNAMIC_ALIGNMENT;
  return bytes * ctas <= t->smem_per_block_bytes;
}

uint64_t row_ahead(const row_match *m, const row_plan *plan) {
  uint64_t set = 0, rows = row_major(m);
  for (int i = 0; i < m->form.n_accesses && plan->held == ROW_AHEAD; i++)
    if (rows >> i & 1 && m->reads[i]) set |= UINT64_C(1) << i;
  return set;
}

/* Copies are of 16 bytes and their multiples, to and from multiples of 16. */
static template_reason plan_ahead(const row_match *m, const target *t, int stages, row_plan *plan) {
  int64_t columns = row_columns(m), bytes = 0;
  uint64_t ahead = row_ahead(m, plan);
  if (!ahead || (!row_is_dense(m, plan) && m->n_rows != 1)) return TEMPLATE_SCHEDULE;
  if (plan->peel) return TEMPLATE_TILE;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (!(ahead >> i & 1)) continue;
    if (access_bits(m, i) * plan->vector % 128 != 0) return TEMPLATE_TILE;
    bytes += columns * access_bits(m, i) / 8;
  }
  int64_t others = ceildiv(row_scratch_bytes(m, plan) + 8 * stages, DYNAMIC_ALIGNMENT) + 1;
  if ((bytes * stages + others * DYNAMIC_ALIGNMENT) * plan->ctas_per_sm > t->smem_per_block_bytes)
    return TEMPLATE_SHARED_MEMORY;
  plan->stages = stages;
  plan->stage_bytes = (int)bytes;
  return TEMPLATE_OK;
}

static template_reason plan_held(const row_match *m, const target *t, int batch, int64_t vectors,
                                 row_plan *plan) {
  int64_t each = ceildiv(vectors, row_team(plan)); /* of a thread */
  if (each < 1) each = 1;
  if (row_in_registers(plan)) {
    plan->rows_at_once = plan->held == ROW_AHEAD ? 1 : batch;
    if (each * plan->vector * plan->rows_at_once > MOST_ELEMENTS) return TEMPLATE_REGISTERS;
    plan->vectors = (int)each;
    plan->exact = !plan->peel && vectors == each * row_team(plan);
    if (!registers_fit(m, t, plan)) return TEMPLATE_REGISTERS;
    return plan->held == ROW_AHEAD ? plan_ahead(m, t, batch + 1, plan) : TEMPLATE_OK;
  }
  plan->rows_at_once = 1;
  plan->vectors = batch;
  if (!registers_fit(m, t, plan)) return TEMPLATE_REGISTERS;
  if (plan->held == ROW_AGAIN) return TEMPLATE_OK;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (!(m->kept >> i & 1)) continue;
    if (access_bits(m, i) < 8) return TEMPLATE_TILE;
    plan->shared_bytes += plan->vector * access_bits(m, i) / 8;
  }
  plan->shared_vectors = ceildiv(each, batch) * batch;
  return shared_memory_fits(m, t, plan) ? TEMPLATE_OK : TEMPLATE_SHARED_MEMORY;
}

bool row_is_dense(const row_match *m, const row_plan *plan) {
  if (plan->any_view) return false;
  if (m->form.ones) return true; /* the last axis may be one that the form leaves out */
  for (int l = 0; l < m->form.n_loops; l++) {
    /* Leading axes are up to four loops as views, with a division each; merged ones have one stride only
     * where there are no gaps between them. */
    if (m->form.loops[l].leading || m->form.loops[l].n_dims > 1) return true;
  }
  return plan->peel;
}

/* Whether threads load nothing but what they are to write, even where they only fill up a block: others may
 * have written over the rest. */
static bool keeps_to_itself(const row_plan *plan) {
  if (plan->groups > 1 || plan->rows_at_once > 1 || plan->peel) return false;
  if (!row_in_registers(plan)) return true; /* the rest of a row is walked vector by vector */
  return plan->exact || plan->vectors > 1;
}

/* How memory is asked for what is touched once, by STREAM. */
static const struct {
  gen_cache loads, stores;
} caches[] = {{GEN_CACHE_DEFAULT, GEN_CACHE_DEFAULT},
              {GEN_CACHE_EVICT_FIRST, GEN_CACHE_EVICT_FIRST},
              {GEN_CACHE_EVICT_FIRST, GEN_CACHE_DEFAULT}};

template_reason row_plan_make(const row_match *m, const target *t, const config *c, row_plan *plan) {
  const int *v = c->values;
  template_reason reason = row_shape_reason(t, c);
  if (reason != TEMPLATE_OK) return reason;
  *plan = (row_plan){
      .threads = v[ROW_THREADS],
      .groups = row_block(c) / v[ROW_THREADS],
      .vector = v[ROW_VECTOR],
      .held = row_held_of(c),
      .narrow = row_is_narrow(c),
      .cluster = row_cluster(c),
      .split = row_split(c),
      .ctas_per_sm = v[ROW_PERSISTENT],
      .crowd = v[ROW_CTAS],
      .loads = caches[v[ROW_STREAM]].loads,
      .stores = caches[v[ROW_STREAM]].stores,
  };
  /* Rows of no element are the other way's; the kernel is made as if there were one. */
  int64_t columns = row_columns(m), rows = row_rows(m);
  if (columns < 1) columns = 1;
  if (!vector_fits(m, plan->vector)) return TEMPLATE_TILE;
  plan->peel = columns % plan->vector != 0;
  if (plan->peel && (columns < 2 * plan->vector || row_team(plan) < 2 * plan->vector || !starts_anywhere(m)))
    return TEMPLATE_TILE;
  int64_t vectors = columns / plan->vector;
  if (ceildiv(rows, plan->groups) * plan->cluster * plan->split > INT32_MAX && !plan->ctas_per_sm)
    return TEMPLATE_SIZE;
  reason = plan_held(m, t, v[ROW_BATCH], vectors, plan);
  if (reason == TEMPLATE_OK && m->in_place && !keeps_to_itself(plan)) reason = TEMPLATE_TILE;
  plan->wide_offsets = reason == TEMPLATE_OK && lanes_need_wide_offsets(&m->form);
  return reason;
}

row_plan row_plan_any_view(const row_match *m, const row_plan *fast) {
  row_plan plan = {.threads = fast->threads < 32    ? 32
                              : fast->threads > 256 ? 256
                                                    : fast->threads,
                   .vector = 1,
                   .held = ROW_AGAIN,
                   .rows_at_once = 1,
                   .vectors = 1,
                   .cluster = 1,
                   .split = 1,
                   .ctas_per_sm = 0,
                   .any_view = true,
                   .wide_offsets = true};
  plan.groups = plan.threads < 128 && !m->in_place ? 128 / plan.threads : 1;
  return plan;
}

/* --- what a simpler point does as well at these sizes --- */

/* Tensors that are small beside the caches. */
enum { SMALL_BYTES = 8 << 20 };
enum { LONG_TURN_BYTES = 16 << 10, LARGE_BLOCK = 256 };

static bool stores_elements(const row_match *m) {
  for (int i = 0; i < m->form.n_outputs; i++)
    if (m->outputs[i].by_element) return true;
  return false;
}

/* What a CTA reads in a turn. */
static int64_t turn_bytes(const row_match *m, const row_plan *plan) {
  int64_t bits = 0;
  for (int i = 0; i < m->form.n_accesses; i++)
    if (m->moving >> i & 1 && m->reads[i]) bits += access_bits(m, i);
  return row_columns(m) * bits / 8 * plan->groups * plan->rows_at_once;
}

/* Whether something is kept, or read twice for the place of a largest element, that narrow elements keep for
 * less. */
static bool gains_by_narrow(const row_match *m, const row_plan *plan) {
  uint64_t kept = m->kept;
  for (int i = 0; i < m->n_reductions; i++)
    if (row_is_position(&m->reductions[i])) kept |= m->pass_reads[m->reductions[i].phase] & m->moving;
  for (int i = 0; i < m->form.n_accesses; i++)
    if (kept >> i & 1 && (plan->held == ROW_AHEAD || access_bits(m, i) < 32)) return true;
  return false;
}

/* Whether so many CTAs leave a thread about as many registers as it needs: with more the assembler keeps to
 * fewer by itself, and with much less it spills. */
static bool is_a_crowd(const row_match *m, const target *t, const row_plan *plan) {
  double own = (double)t->registers_per_sm / (plan->crowd * plan->threads * plan->groups);
  double needed = row_registers(m, plan);
  int64_t shared = plan->shared_vectors * plan->shared_bytes * plan->threads * plan->groups;
  if (plan->crowd * (shared + DYNAMIC_ALIGNMENT) > t->smem_per_block_bytes) return false;
  return own > 0.75 * needed && own < 1.4 * needed;
}

bool row_is_redundant(const row_match *m, const target *t, const config *c, const row_plan *plan) {
  const int *v = c->values;
  int64_t columns = row_columns(m), rows = row_rows(m), vectors = columns / plan->vector;
  int team = row_team(plan);
  int64_t each = ceildiv(vectors, team);
  if (v[ROW_STREAM] && m->form.min_bytes < SMALL_BYTES) return true;
  if (team > 1 && vectors * 2 <= team) return true; /* half of the threads have nothing */
  if (plan->groups > 1 && plan->groups >= 2 * rows && row_block(c) > 32) return true;
  if (plan->rows_at_once > 1 && (int64_t)plan->rows_at_once * plan->groups > rows) return true;
  if (plan->held == ROW_SHARED && !m->kept) return true;
  if (plan->narrow && !gains_by_narrow(m, plan)) return true;
  if (plan->crowd && !is_a_crowd(m, t, plan)) return true;
  if (!row_in_registers(plan) && v[ROW_BATCH] > 1 && v[ROW_BATCH] > each) return true;
  if (v[ROW_STREAM] == 2 && !stores_elements(m)) return true;
  /* Starting a CTA is nothing beside a long row, which loops wait for again each time. */
  if (plan->ctas_per_sm && plan->held != ROW_AHEAD && turn_bytes(m, plan) > LONG_TURN_BYTES) return true;
  if (plan->threads > 32 && row_block(c) > LARGE_BLOCK && plan->groups > 1) return true;
  int64_t ctas = ceildiv(rows, (int64_t)plan->groups * plan->rows_at_once);
  return plan->ctas_per_sm > 0 && ctas <= (int64_t)plan->ctas_per_sm * t->rates.sm_count;
}
