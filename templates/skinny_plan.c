/* What a configuration is, and whether it can be. */
#include "generator/gen_convert.h"
#include "templates/skinny.h"

int skinny_sum_bytes(const skinny_match *m) {
  return m->type == DTYPE_F64 || m->type == DTYPE_I64 ? 8 : 4;
}

lanes_options skinny_lanes(const skinny_match *m, const skinny_plan *p, bool token) {
  bool along_rows = m->along_rows && !token;
  lanes_options o = {.loop = along_rows ? m->row_loop : m->k_loop,
                     .width = along_rows ? p->group : p->step,
                     .dense = p->dense,
                     .wide_offsets = p->wide_offsets};
  if (!token) o.loads = p->loads;
  uint64_t mine = 0, wide = p->dense == m->dense ? m->wide[token][__builtin_ctz((unsigned)o.width)]
                                                 : lanes_wide(&m->c.form, &o);
  for (int i = 0; i < m->c.n_operands; i++)
    if (skinny_is_token(m, i) == token) mine |= m->c.operands[i].accesses;
  o.wide = wide & mine;
  if (!token) o.streamed = mine;
  return o;
}

int skinny_elements(const skinny_match *m, const skinny_plan *p, int operand, const skinny_read *r) {
  int width = m->along_rows && !skinny_is_token(m, operand) ? p->group : p->step;
  return r->period == 0 || r->period % width == 0 ? 1 : width;
}

int skinny_words_of(const skinny_match *m, const skinny_plan *p, int operand) {
  const skinny_operand *o = &m->operands[operand];
  int words = 0;
  for (int i = 0; i < o->n_reads; i++) {
    dtype type = ir_tensor_dtype(m->c.form.problem, m->c.form.accesses[o->reads[i].access].tensor);
    words += gen_packed_words(type, skinny_elements(m, p, operand, &o->reads[i]));
  }
  return words;
}

/* A thread's registers: sums, what is loaded, the values it is unpacked to, and addresses. */
double skinny_registers(const skinny_plan *p) {
  double words = skinny_sum_bytes(p->m) / 4.0;
  double loaded = p->words * (p->prefetch ? 2.0 : 1.0);
  double unpacked =
      p->mma ? p->token_positions * p->step / 2.0 + p->step : (p->token_positions + 1.0) * p->step * words;
  double addresses = 2.0 * (p->weight_positions + p->token_positions);
  return 28 + p->sums * words + loaded + unpacked + addresses;
}

/* Of a thread: sums, and elements of weights in flight. Every element takes a byte or so. */
enum { MOST_SUMS = 64, MOST_ELEMENTS = 256 };

template_reason skinny_config_check(const config *c) {
  const int *v = c->values;
  bool mma = v[SKINNY_MATH] == 1;
  if (mma && (v[SKINNY_ACROSS] != 8 || v[SKINNY_TOKENS] < 8 || v[SKINNY_SLOTS] < 2)) return TEMPLATE_TILE;
  if (!mma && v[SKINNY_TOKENS] > 16) return TEMPLATE_TILE;
  if (mma && v[SKINNY_VECTOR] * v[SKINNY_UNROLL] < 4) return TEMPLATE_TILE;
  int sums = v[SKINNY_SLOTS] * (mma ? v[SKINNY_TOKENS] / 4 : v[SKINNY_TOKENS]);
  int elements = v[SKINNY_VECTOR] * v[SKINNY_UNROLL];
  if (sums > MOST_SUMS || elements * v[SKINNY_SLOTS] > MOST_ELEMENTS ||
      elements * (mma ? v[SKINNY_TOKENS] / 8 : v[SKINNY_TOKENS]) > MOST_ELEMENTS / 2)
    return TEMPLATE_REGISTERS;
  int threads = 32 * v[SKINNY_WARPS_N] * v[SKINNY_WARPS_K];
  if (threads > 1024) return TEMPLATE_THREADS;
  return TEMPLATE_OK;
}

/* What each operand loads must be as wide as asked: less would do the same with fewer. */
static bool lines_up(const skinny_match *m, const skinny_plan *p) {
  int64_t vector_extent = ir_form_extent(&m->c.form, m->along_rows ? m->row_loop : m->k_loop);
  if (vector_extent % p->vector != 0 || ir_form_extent(&m->c.form, m->k_loop) % p->step != 0) return false;
  lanes_options o = skinny_lanes(m, p, false);
  for (int i = 0; i < m->c.n_operands; i++) {
    if (skinny_is_token(m, i)) continue;
    for (int r = 0; r < m->operands[i].n_reads && p->vector > 1; r++) {
      int access = m->operands[i].reads[r].access;
      if (ir_form_motion(&m->c.form, access, o.loop) == IR_MOTION_UNIT && !(o.wide >> access & 1))
        return false;
    }
  }
  return true;
}

enum { MOST_OF_A_CLUSTER = 8, MOST_REGISTERS = 232, MOST_SHARED_BYTES = 48 * 1024, PAD = 4 };

int skinny_cta_outputs(const skinny_plan *p) {
  int n = p->tokens * p->rows / p->cluster;
  return n > 0 ? n : 1;
}

static void count(skinny_plan *p) {
  const skinny_match *m = p->m;
  p->token_positions = p->mma ? p->tokens / 8 : p->tokens;
  p->weight_positions = m->along_rows ? p->slots / p->group * p->step : p->slots;
  p->sums = m->c.n_sums * p->slots * (p->mma ? p->tokens / 4 : p->tokens);
  p->words = 0;
  for (int i = 0; i < m->c.n_operands; i++) {
    int positions = skinny_is_token(m, i) ? p->token_positions : p->weight_positions;
    p->words += positions * p->unroll * skinny_words_of(m, p, i);
  }
  p->warp_rows = p->slots * p->across;
  p->rows = p->warp_rows * p->warps_n;
  p->pitch = p->rows + PAD;
  int partial = m->c.n_sums * p->tokens * skinny_sum_bytes(m);
  p->smem_bytes = p->warps_k * partial * p->pitch;
  if (p->cluster > 1) p->smem_bytes += m->c.n_sums * skinny_sum_bytes(m) * p->cluster * skinny_cta_outputs(p);
}

template_reason skinny_plan_make(const skinny_match *m, const target *t, const config *c, bool dense,
                                 skinny_plan *plan) {
  static const gen_cache loads[] = {GEN_CACHE_DEFAULT, GEN_CACHE_EVICT_FIRST};
  const int *v = c->values;
  template_reason reason = skinny_config_check(c);
  if (reason != TEMPLATE_OK) return reason;
  *plan = (skinny_plan){.m = m,
                        .mma = v[SKINNY_MATH] == 1,
                        .dense = dense,
                        .wide_offsets = m->wide_offsets,
                        .prefetch = v[SKINNY_STAGES] == 2,
                        .tokens = v[SKINNY_TOKENS],
                        .slots = v[SKINNY_SLOTS],
                        .across = v[SKINNY_ACROSS],
                        .deep = 32 / v[SKINNY_ACROSS],
                        .vector = v[SKINNY_VECTOR],
                        .group = m->along_rows ? v[SKINNY_VECTOR] : 1,
                        .step = m->along_rows ? v[SKINNY_UNROLL] : v[SKINNY_VECTOR],
                        .unroll = m->along_rows ? 1 : v[SKINNY_UNROLL],
                        .warps_n = v[SKINNY_WARPS_N],
                        .warps_k = v[SKINNY_WARPS_K],
                        .threads = 32 * v[SKINNY_WARPS_N] * v[SKINNY_WARPS_K],
                        .parts = v[SKINNY_SPLIT],
                        .cluster = v[SKINNY_SPLIT] <= MOST_OF_A_CLUSTER ? v[SKINNY_SPLIT] : 1,
                        .split = v[SKINNY_SPLIT] <= MOST_OF_A_CLUSTER ? 1 : v[SKINNY_SPLIT],
                        .loads = loads[v[SKINNY_STREAM]]};
  skinny_plan *p = plan;
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (p->mma && (!t->has.mma_sync || m->matrix == DTYPE_F32)) return TEMPLATE_DTYPE;
  if (p->mma && p->step % 4 != 0) return TEMPLATE_TILE;
  for (int i = 0; i < m->c.n_operands; i++)
    if (p->mma && m->operands[i].period % skinny_unit(p) != 0) return TEMPLATE_TILE;
  if (p->cluster > 1 && !t->has.clusters) return TEMPLATE_TARGET;
  if (p->slots < p->group || p->slots % p->group != 0) return TEMPLATE_TILE;
  if (!lines_up(m, p)) return TEMPLATE_ALIGNMENT;
  count(p);
  if (p->sums > SKINNY_SUMS || p->words > SKINNY_WORDS) return TEMPLATE_REGISTERS;
  double most = (double)t->registers_per_sm / p->threads;
  if (skinny_registers(p) > (most < MOST_REGISTERS ? most : MOST_REGISTERS)) return TEMPLATE_REGISTERS;
  if (p->smem_bytes > MOST_SHARED_BYTES) return TEMPLATE_SHARED_MEMORY;
  return TEMPLATE_OK;
}
