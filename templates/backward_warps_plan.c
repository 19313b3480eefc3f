/* What a configuration is: tiles, where they lie, and what a thread holds.
 *
 * With D = 128 a tile of 64 queries, Q and dO, takes 34 KiB and a step of 32 keys, K and V, 17, two or three
 * times; a thread has 64 sums of dQ. One of 64 keys has 128 sums of dK and dV. */
#include "templates/backward_warps.h"

enum { FRAGMENT_ROWS = 16, MOST_COPIES = 32, OVERHEAD_REGISTERS = 56, EXPRESSION_REGISTERS = 16 };

int warps_operand(const backward_match *m, int side, int which) {
  const int of[2][2] = {{m->q, m->d_o}, {m->k, m->v}};
  return of[side][which];
}

static int ceil_to(int64_t x, int step) {
  return (int)((x + step - 1) / step * step);
}

/* --- how tensors are read and written --- */

static bool is_wide(const lanes_options *o, int access) {
  return o->wide >> access & 1;
}

/* Vectors of up to 16 bytes along a row of one access, which it has as such where it is wide. */
static lanes_options vectors_along(const backward_match *m, const warps_vectors *v, int access, int loop) {
  lanes_options o = {.loop = loop, .width = 8, .wide_offsets = v->wide_offsets};
  while (ir_form_extent(&m->form, loop) % o.width) o.width /= 2;
  if (v->copied) o.wide = lanes_wide(&m->form, &o) & UINT64_C(1) << access;
  return o;
}

static lanes_options epilogue_of(const backward_match *m, const warps_vectors *v, int output, int loop) {
  int access = m->form.outputs[output].access;
  lanes_options o = {.loop = loop, .width = 2, .wide_offsets = v->wide_offsets};
  if (v->copied && ir_form_extent(&m->form, loop) % 2 == 0) {
    o.wide = lanes_wide(&m->form, &o) & UINT64_C(1) << access;
    if (is_wide(&o, access)) return o;
  }
  o.width = 1;
  o.wide = 0;
  return o;
}

static lanes_options statistics_of(const backward_match *m, const warps_vectors *v) {
  lanes_options o = {.loop = m->dot ? m->dot->index : -1, .width = 1, .wide_offsets = v->wide_offsets};
  if (!m->dot || !v->copied) return o;
  for (o.width = 8; ir_form_extent(&m->form, o.loop) % o.width; o.width /= 2) {
  }
  o.wide = lanes_wide(&m->form, &o);
  return o;
}

/* l as it lies in its tensor, where that has f32. */
static int given_lse(const backward_match *m) {
  const ir_expr *read = m->lse && !warps_are_known(m) ? ir_form_as_read(&m->form, m->lse) : NULL;
  return read && ir_tensor_dtype(m->form.problem, m->form.accesses[read->id].tensor) == DTYPE_F32 ? read->id
                                                                                                  : -1;
}

void warps_vectors_find(const backward_match *m, bool copied, warps_vectors *v) {
  const int outputs[] = {m->dq, m->dk, m->dv}, loops[] = {m->depth, m->depth, m->wide};
  *v = (warps_vectors){.copied = copied, .wide_offsets = !copied || lanes_need_wide_offsets(&m->form)};
  v->given_lse = given_lse(m);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < 2; i++) {
      int access = warps_operand(m, side, i);
      lanes_options *o = &v->tiles[side][i];
      *o = vectors_along(m, v, access, backward_width_loop(m, i));
      v->copied = v->copied && o->width >= 2 && is_wide(o, access);
    }
  if (copied && !v->copied) {
    warps_vectors_find(m, false, v);
    return;
  }
  v->scores = (lanes_options){.loop = -1, .width = 1, .wide_offsets = v->wide_offsets};
  if (v->given_lse >= 0) v->scores.given = UINT64_C(1) << v->given_lse;
  v->statistics = statistics_of(m, v);
  for (int i = 0; i < 3; i++) v->epilogue[i] = epilogue_of(m, v, outputs[i], loops[i]);
}

/* --- tiles --- */

static attend_tile make_tile(const warps_plan *plan, int side, int which, int rows, int offset) {
  const backward_match *m = plan->match;
  const lanes_options *o = &plan->vectors.tiles[side][which];
  attend_tile t = {.present = true,
                   .access = warps_operand(m, side, which),
                   .loop = o->loop,
                   .rows = rows,
                   .columns = (int)ir_form_extent(&m->form, o->loop),
                   .element_bytes = 2,
                   .plain = true,
                   .offset_bytes = offset,
                   .width = o->width,
                   .options = *o};
  t.padded = ceil_to(t.columns, 16);
  t.pitch_bytes = (t.padded / 8 | 1) * 16;
  t.bytes = rows * t.pitch_bytes;
  t.vectors = t.columns / t.width;
  return t;
}

static void make_tiles(const warps_plan *plan, warps_pass *p) {
  p->ring_offset_bytes = p->stage_bytes = 0;
  for (int i = 0; i < 2; i++) {
    if (i == BACKWARD_FIRST || p->sums[0]) { /* without slopes the tile needs nothing of their operand */
      p->rows[i] = make_tile(plan, p->side, i, p->block_rows, p->ring_offset_bytes);
      p->ring_offset_bytes += p->rows[i].bytes;
    }
    p->columns[i] = make_tile(plan, !p->side, i, p->block_columns, p->stage_bytes);
    p->stage_bytes += p->columns[i].bytes;
  }
  p->statistics_offset_bytes = p->stage_bytes;
  if (p->side == BACKWARD_KEYS) p->stage_bytes += p->block_columns * WARPS_STATISTICS_BYTES;
  p->smem_bytes = p->ring_offset_bytes + p->stages * p->stage_bytes;
}

/* --- passes --- */

static template_reason check_pass(const warps_plan *plan, const target *t, warps_pass *p) {
  int scores = p->block_columns / 2, sums = 0;
  p->block_rows = FRAGMENT_ROWS * p->warps;
  p->threads = 32 * p->warps;
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  for (int i = 0; i < 2; i++)
    if (p->sums[i])
      sums += ceil_to(ir_form_extent(&plan->match->form, backward_width_loop(plan->match, i)), 16) / 2;
  p->live_registers = sums + scores * (p->sums[0] ? 2 : 1) + scores / 2 + OVERHEAD_REGISTERS;
  if (!plan->match->plain) p->live_registers += EXPRESSION_REGISTERS;
  int most = t->registers_per_sm / p->threads;
  if (most > t->max_registers_per_thread) most = t->max_registers_per_thread;
  if (sums > WARPS_MOST_SUMS || p->live_registers > most) return TEMPLATE_REGISTERS;
  make_tiles(plan, p);
  for (int i = 0; i < 2; i++)
    if (p->block_columns * p->columns[i].vectors > MOST_COPIES * p->threads) return TEMPLATE_TILE;
  return p->smem_bytes > t->smem_per_block_bytes ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
}

static template_reason make_keys(warps_plan *plan, const target *t, const int *v, bool together) {
  const backward_match *m = plan->match;
  plan->n_passes = together ? 2 : 3;
  for (int i = 1; i < plan->n_passes; i++) {
    plan->passes[i] = (warps_pass){.side = BACKWARD_KEYS,
                                   .sums = {i == 1, together || i == 2},
                                   .output = {m->dk, m->dv},
                                   .warps = v[BACKWARD_WARPS_K_WARPS],
                                   .block_columns = v[BACKWARD_WARPS_K_BLOCK],
                                   .stages = plan->vectors.copied ? v[BACKWARD_WARPS_K_STAGES] : 2};
    template_reason reason = check_pass(plan, t, &plan->passes[i]);
    if (reason != TEMPLATE_OK) return reason;
  }
  return TEMPLATE_OK;
}

template_reason warps_plan_make(const backward_match *m, const warps_vectors *vectors, const target *t,
                                const config *c, warps_plan *plan) {
  const int *v = c->values;
  *plan = (warps_plan){.match = m, .vectors = *vectors};
  plan->passes[0] = (warps_pass){.side = BACKWARD_QUERIES,
                                 .sums = {true, false},
                                 .output = {m->dq, -1},
                                 .warps = v[BACKWARD_WARPS_Q_WARPS],
                                 .block_columns = v[BACKWARD_WARPS_Q_BLOCK],
                                 .stages = vectors->copied ? v[BACKWARD_WARPS_Q_STAGES] : 2};
  template_reason reason = check_pass(plan, t, &plan->passes[0]);
  if (reason != TEMPLATE_OK) return reason;
  reason = make_keys(plan, t, v, true);
  return reason == TEMPLATE_REGISTERS ? make_keys(plan, t, v, false) : reason;
}
