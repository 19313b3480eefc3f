/* What a configuration is, and whether it can be. */
#include "templates/product_bound.h"
#include "templates/slim.h"

enum {
  STATIC_SMEM_BYTES = 1024, /* barriers */
  MOST_BOX = 256,           /* lines of a copy */
  WIDEST = 4,               /* outputs of a thread at once */
  BANKS = 32
};

/* All of an operand's tile that a stage holds. */
static void place_tile(const slim_plan *p, const slim_operand *o, int offset, slim_tile *tile) {
  int rows = o->token ? p->tokens : p->rows;
  *tile = (slim_tile){.offset = offset,
                      .panels = (o->along_rows ? rows : p->block_k) / SLIM_PANEL,
                      .height = o->along_rows ? p->block_k : rows};
  tile->panel_bytes = tile->height * SLIM_LINE_BYTES;
  tile->bytes = tile->panels * tile->panel_bytes;
}

/* Whether what products read behind the tokens, as rows of them, still belongs to the stage. */
static bool reads_inside(const slim_plan *p) {
  for (int i = 0; i < p->m->c.n_operands; i++) {
    const slim_tile *tile = &p->tiles[i];
    int last = tile->offset + (tile->panels - 1) * tile->panel_bytes;
    if (p->turned && p->m->operands[i].token && last + p->sum_tokens * SLIM_LINE_BYTES > p->stage_bytes)
      return false;
  }
  return true;
}

lanes_options slim_lanes(const slim_match *m, const slim_plan *p) {
  lanes_options o = {
      .loop = m->row_loop, .width = p->width, .dense = p->dense, .wide_offsets = p->wide_offsets};
  uint64_t mine = m->c.epilogue;
  for (int i = 0; i < m->c.form.n_outputs; i++) mine |= UINT64_C(1) << m->c.form.outputs[i].access;
  o.wide = lanes_wide_of(&m->c.form, &o, mine);
  return o;
}

/* Registers of sums that leave enough for the rest: the assembler takes whole groups of 128 threads. */
static int most_accumulators(const slim_plan *p) {
  return p->consumers > 1 ? 128 : 192;
}

int64_t slim_ctas(const slim_plan *p) {
  const contraction *c = &p->m->c;
  int64_t tokens = contraction_extent(c, p->m->tokens), rows = contraction_extent(c, p->m->weights);
  return (rows + p->rows - 1) / p->rows * ((tokens + p->tokens - 1) / p->tokens) * p->cluster;
}

/* Where a wave gives nearly each SM a CTA, and memory bounds it for longer than launches take, an SM takes
 * one of the next launch when this one's ends: with room for two, some would take two, others none. */
static bool keeps_alone(const slim_plan *p, const target *t) {
  int64_t ctas = slim_ctas(p), sms = t->rates.sm_count;
  return p->m->c.form.min_bytes >= PRODUCT_LONG_BYTES && ctas <= sms && 10 * ctas >= 9 * sms;
}

template_reason slim_plan_make(const slim_match *m, const target *t, const config *c, bool dense,
                               slim_plan *plan) {
  const int *v = c->values;
  *plan = (slim_plan){.m = m,
                      .dense = dense,
                      .wide_offsets = m->wide_offsets,
                      .loads = v[SLIM_STREAM] ? GEN_CACHE_EVICT_FIRST : GEN_CACHE_DEFAULT,
                      .rows = v[SLIM_ROWS],
                      .tokens = v[SLIM_TOKENS],
                      .block_k = v[SLIM_BLOCK_K],
                      .stages = v[SLIM_STAGES],
                      .consumers = v[SLIM_CONSUMERS],
                      .cluster = v[SLIM_CLUSTER_K],
                      .threads = v[SLIM_CONSUMERS] * SLIM_WARP_GROUP + 32,
                      .turned = v[SLIM_SIDE],
                      .staggered = v[SLIM_STAGGER],
                      .width = 1};
  slim_plan *p = plan;
  if (!t->has.tma || !t->has.wgmma || !t->has.clusters) return TEMPLATE_TARGET;
  p->sum_tokens = p->turned ? (p->tokens + 63) / 64 * 64 : p->tokens;
  int tall = p->turned ? p->sum_tokens : p->rows; /* of the 64-row operand */
  if (tall % (64 * p->consumers) != 0) return TEMPLATE_TILE;
  p->row_tiles = tall / 64 / p->consumers;
  p->columns = p->turned ? p->rows : p->tokens;
  p->accumulators = p->row_tiles * p->columns / 2;
  /* Vectors of four stay aligned, and the stores of a warp's fragments meet banks of their own. */
  p->pitch = (p->rows + BANKS - 1) / BANKS * BANKS + (p->turned ? 8 : 4);
  if (p->accumulators * m->c.n_sums > most_accumulators(p)) return TEMPLATE_REGISTERS;
  for (int i = 0; i < 2 * m->c.n_operands; i++) {
    int operand = i % m->c.n_operands;
    const slim_operand *o = &m->operands[operand];
    slim_tile *tile = &p->tiles[operand];
    if (o->token != (i < m->c.n_operands)) continue; /* those first, then the others */
    place_tile(p, o, p->stage_bytes, tile);
    bool whole_panels = !o->along_rows || p->rows % SLIM_PANEL == 0;
    if (tile->height > MOST_BOX || !whole_panels) return TEMPLATE_TILE;
    p->stage_bytes += tile->bytes;
  }
  if (!reads_inside(p)) return TEMPLATE_TILE;
  int sums = m->c.n_sums * p->sum_tokens * p->pitch * (int)sizeof(float), ring = p->stages * p->stage_bytes;
  p->smem_bytes = sums > ring ? sums : ring;
  if (p->smem_bytes > t->smem_per_block_bytes - STATIC_SMEM_BYTES) return TEMPLATE_SHARED_MEMORY;
  int half = t->smem_per_block_bytes / 2 - STATIC_SMEM_BYTES;
  if (p->smem_bytes <= half && keeps_alone(p, t)) p->smem_bytes = half + 16;
  p->alone = p->smem_bytes > half;
  int64_t rows = ir_form_extent(&m->c.form, m->row_loop);
  while (dense && p->width < WIDEST && rows % (p->width * 2) == 0) p->width *= 2;
  return TEMPLATE_OK;
}
