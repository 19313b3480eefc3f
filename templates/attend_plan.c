/* What a configuration is: tiles, where they lie, and what a thread holds. */
#include "templates/attend.h"

enum {
  MOST_EXTENT = (1 << 30) - 4096,
  MOST_COLUMNS = 1024,
  MOST_CLUSTER = 8, /* CTAs that every GPU with clusters allows */
  MOST_COPIES = 32, /* that a thread issues of a tile in a step */
  FRAGMENT_ROWS = 16,
  OVERHEAD_REGISTERS = 64,
  STATIC_SMEM_BYTES = 1024
};

/* --- fitting --- */

/* Whether every value of a dtype is one of `type`, too. */
static bool is_exact(dtype from, dtype type) {
  return from == type || from == DTYPE_E4M3 || from == DTYPE_E5M2 || from == DTYPE_I8;
}

static bool is_width(const attention_match *m, int loop) {
  for (int i = 0; i < m->n_parts; i++)
    if (m->parts[i].depth == loop) return true;
  return m->wide == loop || (m->groups.of && m->groups.loop == loop);
}

static template_reason fit_sizes(const attention_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  for (int l = 0; l < form->n_loops; l++) {
    int64_t n = ir_form_extent(form, l), least = is_width(m, l) ? 1 : 0;
    if (n >= least && n <= MOST_EXTENT) continue;
    template_say(detail, "an axis (%s) has %lld elements; the attend template takes %d to %d",
                 form->loops[l].name, (long long)n, (int)least, MOST_EXTENT);
    return TEMPLATE_SIZE;
  }
  attend_rows rows;
  attend_rows_find(m, &rows);
  bool divides = attention_shares_divide(form->problem, &m->bounds);
  for (int i = 0; i < m->batch.n; i++) divides = divides && attend_own(m, &rows, i) > 0;
  if (!divides) {
    template_say(detail, "the query heads are not a multiple of those of keys and values");
    return TEMPLATE_SIZE;
  }
  int64_t most = ir_form_extent(form, m->wide);
  for (int i = 0; i < m->n_parts; i++) {
    int64_t depth = ir_form_extent(form, m->parts[i].depth);
    if (most < depth) most = depth;
  }
  if (most <= MOST_COLUMNS) return TEMPLATE_OK;
  template_say(detail, "heads of %lld elements; the attend template takes up to %d", (long long)most,
               MOST_COLUMNS);
  return TEMPLATE_SIZE;
}

template_reason attend_fit(const ir_problem *p, const target *t, arena *a, attention_match *m, strbuf *detail,
                           arke_status *status) {
  template_reason reason = attention_match_op(p, a, m, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  for (int i = 0; i < m->bounds.n_conditions; i++) {
    const ir_expr *e = m->bounds.conditions[i];
    if (!(contraction_loops_without_group(&m->form, &m->groups, e) >> m->query & 1)) continue;
    template_say(detail, "queries that share keys see them by conditions of their own");
    return TEMPLATE_OPERATOR;
  }
  for (int i = 0; i < m->n_parts; i++) {
    if (!m->parts[i].made) continue;
    template_say(detail, "the attend template takes queries as they lie");
    return TEMPLATE_OPERATOR;
  }
  if (!t->has.mma_sync || !t->has.cp_async) {
    template_say(detail, "%s has no products of warps with asynchronous copies", t->name);
    return TEMPLATE_TARGET;
  }
  const ir_access *x = m->form.accesses;
  bool exact = m->type == DTYPE_BF16 || m->type == DTYPE_F16;
  for (int i = 0; i < m->n_parts; i++)
    exact = exact && is_exact(ir_tensor_dtype(p, x[m->parts[i].q].tensor), m->type) &&
            is_exact(ir_tensor_dtype(p, x[m->parts[i].k.access].tensor), m->type);
  if (exact && is_exact(ir_tensor_dtype(p, x[m->v.access].tensor), m->type)) return fit_sizes(m, detail);
  template_say(detail,
               "the attend template casts weights to bf16 or f16, which must hold Q, K and V exactly");
  return TEMPLATE_DTYPE;
}

static int ceil_to(int64_t x, int step) {
  return (int)((x + step - 1) / step * step);
}

/* --- vectors --- */

/* Of 16 bytes, where rows allow; of queries no more than their 16 bytes in shared memory. */
static lanes_options vectors_along(const ir_form *form, int access, int loop, bool wide_offsets, bool copied,
                                   bool query) {
  int bits = dtype_bits(ir_tensor_dtype(form->problem, form->accesses[access].tensor));
  lanes_options o = {
      .loop = loop, .width = copied && !query && bits == 8 ? 16 : 8, .wide_offsets = wide_offsets};
  while (ir_form_extent(form, loop) % o.width) o.width /= 2;
  if (copied) o.wide = lanes_wide(form, &o) & UINT64_C(1) << access;
  return o;
}

static bool can_copy(const attention_match *m, const lanes_options *o, int access) {
  int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor));
  return o->width * bits >= 32 && (o->wide >> access & 1);
}

static lanes_options epilogue_of(const attention_match *m, bool wide_offsets, bool copied) {
  const ir_form *form = &m->form;
  int bits = dtype_bits(ir_tensor_dtype(form->problem, form->accesses[m->o].tensor));
  lanes_options o = {.loop = m->wide, .width = 1, .wide_offsets = wide_offsets};
  if (!copied) return o;
  for (o.width = bits >= 32 ? 4 : 8; o.width > 1; o.width /= 2) {
    if (ir_form_extent(form, o.loop) % o.width) continue;
    o.wide = lanes_wide(form, &o);
    if (o.wide >> m->o & 1) return o;
  }
  o.wide = 0;
  return o;
}

void attend_vectors_find(const attention_match *m, bool copied, attend_vectors *v) {
  const ir_form *form = &m->form;
  *v = (attend_vectors){.copied = copied};
  v->wide_offsets = !copied || lanes_need_wide_offsets(form);
  for (int i = 0; i < m->n_parts; i++) {
    const attention_part *part = &m->parts[i];
    v->tiles[ATTEND_Q + i] = vectors_along(form, part->q, part->depth, v->wide_offsets, copied, true);
    v->tiles[ATTEND_K + i] = vectors_along(form, part->k.access, part->depth, v->wide_offsets, copied, false);
    v->copied = v->copied && can_copy(m, &v->tiles[ATTEND_Q + i], part->q) &&
                can_copy(m, &v->tiles[ATTEND_K + i], part->k.access);
  }
  v->tiles[ATTEND_V] = vectors_along(form, m->v.access, m->wide, v->wide_offsets, copied, false);
  v->copied = v->copied && can_copy(m, &v->tiles[ATTEND_V], m->v.access);
  v->epilogue = epilogue_of(m, v->wide_offsets, copied);
  if (copied && !v->copied) attend_vectors_find(m, false, v);
}

/* --- tiles --- */

static attend_tile make_tile(const attend_plan *p, const lanes_options *o, int access, int rows, int padded) {
  attend_tile t = {.present = true,
                   .access = access,
                   .loop = o->loop,
                   .rows = rows,
                   .columns = (int)ir_form_extent(&p->match->form, o->loop),
                   .padded = padded,
                   .pitch_bytes = (padded / 8 | 1) * 16,
                   .width = o->width,
                   .options = *o};
  dtype type = ir_tensor_dtype(p->match->form.problem, p->match->form.accesses[access].tensor);
  t.element_bytes = dtype_bits(type) / 8;
  t.narrow = t.element_bytes == 1;
  t.narrow_pitch_bytes = (t.columns + 15) / 16 * 16;
  t.bytes = rows * t.pitch_bytes;
  t.vectors = t.columns / t.width;
  return t;
}

/* Keys of a step that lie in one page, where a thread's vectors are of one run or another whatever the thread
 * is. */
static int choose_run(const attend_plan *p, const attend_tile *t, const attention_read *r) {
  int64_t page, rows = p->set_threads / t->vectors;
  if (t->plain) return p->block_n;
  if (r->keys != ATTENTION_KEYS_PAGED || !lanes_static_value(&p->match->form, r->page, &page) || page < 1)
    return 0;
  int run = p->block_n;
  while (run > 1 && page % run) run /= 2;
  if (run == p->block_n) return run;
  bool regular = p->set_threads % t->vectors == 0 && run % rows == 0;
  return regular && p->block_n / run <= ATTEND_MOST_RUNS ? run : 0;
}

/* Of rows of K or V, after the tiles that are there already. */
static void add_tile(attend_plan *p, const attend_vectors *v, int tile, const attention_read *r, int padded) {
  attend_tile *t = &p->tiles[tile];
  *t = make_tile(p, &v->tiles[tile], r->access, p->block_n, padded);
  t->plain = r->keys == ATTENTION_KEYS_PLAIN;
  t->run = choose_run(p, t, r);
  t->offset_bytes = p->stage_bytes;
  if (p->copied && t->narrow) {
    t->converted_offset_bytes = p->converted_bytes;
    p->converted_bytes += t->bytes;
    t->bytes = t->rows * t->narrow_pitch_bytes;
  }
  p->stage_bytes += t->bytes;
}

static void find_widths(attend_plan *p) {
  const attention_match *m = p->match;
  p->warp_columns = ceil_to(ir_form_extent(&m->form, m->wide), 16 * p->warps_e) / p->warps_e;
  for (int i = 0; i < m->n_parts; i++) p->depth += ceil_to(ir_form_extent(&m->form, m->parts[i].depth), 16);
}

static template_reason make_tiles(attend_plan *p, const attend_vectors *v) {
  const attention_match *m = p->match;
  int wide = p->warp_columns * p->warps_e;
  p->v_tile = ATTEND_V;
  for (int i = 0; i < m->n_parts; i++) {
    const attention_part *part = &m->parts[i];
    int depth = ceil_to(ir_form_extent(&m->form, part->depth), 16);
    attend_tile *q = &p->tiles[ATTEND_Q + i];
    *q = make_tile(p, &v->tiles[ATTEND_Q + i], part->q, p->block_m, depth);
    q->offset_bytes = p->ring_offset_bytes;
    p->ring_offset_bytes += q->bytes;
    add_tile(p, v, ATTEND_K + i, &part->k, depth);
    bool whole = ir_form_extent(&m->form, part->depth) == ir_form_extent(&m->form, m->wide);
    if (attention_has_values(m, part) && whole && wide <= depth) p->v_tile = ATTEND_K + i;
  }
  if (p->v_tile == ATTEND_V) add_tile(p, v, ATTEND_V, &m->v, wide);
  for (int i = 0; p->copied && i < ATTEND_TILES; i++) {
    const attend_tile *t = &p->tiles[i];
    if (!t->present) continue;
    int threads = i < ATTEND_K ? p->threads : p->set_threads;
    if (t->rows * t->vectors > MOST_COPIES * threads) return TEMPLATE_REGISTERS;
  }
  return TEMPLATE_OK;
}

/* --- the end --- */

static template_reason place(attend_plan *p, const target *t) {
  int rows = p->sets * p->block_m;
  p->staged_pitch_bytes = p->warp_columns * p->warps_e * 4 + 32; /* rows begin 8 banks apart */
  p->statistics_offset_bytes = rows * p->staged_pitch_bytes;
  int staged = p->statistics_offset_bytes + rows * 8;
  p->scores_offset_bytes = p->ring_offset_bytes + p->sets * p->stages * p->stage_bytes;
  p->scores_pitch_bytes = p->block_n * 4 + 32;
  p->smem_bytes = p->scores_offset_bytes;
  if (p->warp_keys < p->block_n) p->smem_bytes += rows * p->scores_pitch_bytes;
  p->converted_offset_bytes = p->smem_bytes;
  p->smem_bytes += p->sets * p->converted_bytes;
  if (p->smem_bytes < staged) p->smem_bytes = staged;
  return p->smem_bytes > t->smem_per_block_bytes - STATIC_SMEM_BYTES ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
}

/* --- the plan --- */

static template_reason check_registers(attend_plan *p, const target *t) {
  int sums = p->fragments * p->warp_columns / 2, scores = p->fragments * p->block_n / 2;
  if (sums > ATTEND_MOST_SUMS || scores > ATTEND_MOST_SCORES) return TEMPLATE_REGISTERS;
  p->live_registers = sums + scores + OVERHEAD_REGISTERS;
  if (p->hold_q) p->live_registers += p->fragments * p->depth / 4;
  int most = t->registers_per_sm / p->threads;
  if (most > t->max_registers_per_thread) most = t->max_registers_per_thread;
  return p->live_registers > most ? TEMPLATE_REGISTERS : TEMPLATE_OK;
}

template_reason attend_plan_make(const attention_match *m, const attend_vectors *vectors, const target *t,
                                 const config *c, attend_plan *p) {
  const int *v = c->values;
  int set_warps = v[ATTEND_WARPS_M] * v[ATTEND_WARPS_E], threads = 32 * set_warps * v[ATTEND_SETS];
  int rows = v[ATTEND_BLOCK_M] < FRAGMENT_ROWS ? FRAGMENT_ROWS : v[ATTEND_BLOCK_M];
  int fragments = rows / (FRAGMENT_ROWS * v[ATTEND_WARPS_M]);
  if (rows % (FRAGMENT_ROWS * v[ATTEND_WARPS_M]) || fragments > ATTEND_MOST_FRAGMENTS) return TEMPLATE_TILE;
  if (threads > t->max_threads_per_block || threads > 512) return TEMPLATE_THREADS;
  int split = v[ATTEND_SPLIT];
  bool fits = split > 1 && split <= MOST_CLUSTER && t->has.clusters;
  if (v[ATTEND_CLUSTER] && !fits) return TEMPLATE_CLUSTER;
  *p = (attend_plan){.match = m,
                     .block_m = v[ATTEND_BLOCK_M],
                     .block_n = v[ATTEND_BLOCK_N],
                     .stages = vectors->copied ? v[ATTEND_STAGES] : 2,
                     .warps_m = v[ATTEND_WARPS_M],
                     .warps_e = v[ATTEND_WARPS_E],
                     .sets = v[ATTEND_SETS],
                     .split = v[ATTEND_SPLIT],
                     .hold_q = v[ATTEND_HOLD_Q],
                     .clustered = v[ATTEND_CLUSTER],
                     .copied = vectors->copied,
                     .wide_offsets = vectors->wide_offsets,
                     .epilogue = vectors->epilogue,
                     .fragments = fragments,
                     .thread_rows = v[ATTEND_BLOCK_M] < FRAGMENT_ROWS ? 1 : 2 * fragments,
                     .set_threads = 32 * set_warps,
                     .threads = threads};
  /* Scores are exchanged where every warp has some, in sixteens of keys. */
  p->warp_keys = p->block_n % (16 * p->warps_e) ? p->block_n : p->block_n / p->warps_e;
  find_widths(p);
  template_reason reason = check_registers(p, t);
  if (reason != TEMPLATE_OK) return reason;
  attend_rows_find(m, &p->rows);
  /* Tiles of packed requests are of whole queries. */
  if (m->groups.of) p->block_queries = (int)(p->block_m / attend_pack(m, &p->rows));
  if (m->groups.of && p->block_queries == 0) return TEMPLATE_TILE;
  reason = make_tiles(p, vectors);
  if (reason != TEMPLATE_OK) return reason;
  p->scores = (lanes_options){.loop = -1, .width = 1, .wide_offsets = p->wide_offsets};
  return place(p, t);
}
