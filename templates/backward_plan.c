/* What a configuration of the gradients' template is: tiles, shared memory, registers.
 *
 * Shared memory of a tile of 128 rows with D = 128, in KiB:
 *   queries   Q and dO 64, one or two times; K and V of a step of 96 keys 48, two times: 160, or 224
 *   keys      K and V 64, one or two times; Q and dO of a step of 64 queries 32, two times: 128, or 192
 * Registers of a consumer thread, of 240: what sums take (D / 2 for dQ; D for dK and dV together), scores and
 * slopes of a step (half its columns each), P as an operand where it is one (a quarter of them), and what is
 * not counted one by one: queries 64 + 96, keys 128 + 64 + 16. */
#include "generator/gen_tma.h"
#include "templates/backward.h"

/* Static shared memory (barriers), rounded up to the alignment of the dynamic part. */
enum { STATIC_SMEM_BYTES = 1024 };
/* Registers a consumer thread needs beside sums, scores and operands; more where rows have bounds on both
 * sides and there is something else to keep (l and e of queries, words that a step leaves to the next). */
enum { OVERHEAD_REGISTERS = 24, BOUND_REGISTERS = 8, OVERLAP_REGISTERS = 4, CAP_REGISTERS = 12 };
static const int consumer_registers[] = {0, 232, 240, 160};

int backward_row_loop(const backward_match *m, int side) {
  return side == BACKWARD_QUERIES ? m->query : m->key;
}

int backward_column_loop(const backward_match *m, int side) {
  return side == BACKWARD_QUERIES ? m->key : m->query;
}

int backward_width_loop(const backward_match *m, int operand) {
  return operand == BACKWARD_FIRST ? m->depth : m->wide;
}

int64_t backward_ratio(const backward_match *m) {
  if (m->head < 0) return 1;
  int64_t shared = ir_form_extent(&m->form, m->share);
  return shared < 1 ? 0 : ir_form_extent(&m->form, m->head) / shared;
}

static attention_tile padded_tile(int rows, int64_t columns) {
  return attention_tile_make(rows, (int)(columns + 15) / 16 * 16);
}

int backward_slopes_bytes(const backward_pass *p) {
  return p->block_rows * 128;
}

int backward_update_bytes(const backward_pass *p) {
  return p->block_columns * p->rows[0].columns * 4;
}

static int bytes_of(const backward_pass *p, int row_stages) {
  int statistics = p->side == BACKWARD_KEYS ? 2 * p->block_columns * 4 : 0;
  int update = p->updates ? backward_slopes_bytes(p) * 2 + backward_update_bytes(p) : 0;
  return update + row_stages * (p->rows[0].bytes + p->rows[1].bytes) +
         p->stages * (p->columns[0].bytes + p->columns[1].bytes + statistics);
}

/* An output leaves through shared memory where its elements have 16 bits and it fits the rows' place. */
static bool is_copied(const backward_plan *plan, const backward_pass *p, int which) {
  const backward_match *m = plan->match;
  if (!p->sums[which] || (p->side == BACKWARD_KEYS && plan->split > 1)) return false;
  const ir_access *x = &m->form.accesses[m->form.outputs[p->output[which]].access];
  dtype stored = ir_tensor_dtype(m->form.problem, x->tensor);
  const attention_tile *place = &p->rows[p->rows[which].bytes ? which : 0];
  return (stored == DTYPE_BF16 || stored == DTYPE_F16) && x->n <= GEN_TMA_MAX_RANK &&
         place->columns >= ir_form_extent(&m->form, backward_width_loop(m, which));
}

static bool is_two_sided(const attention_bounds *b) {
  for (int i = 1; i < b->n; i++)
    if (b->list[i].upper != b->list[0].upper) return true;
  return false;
}

/* Two CTAs of 256 threads start with 128 registers a thread, and the assembler takes no product for which
 * those are too few, although the kernel changes them first: it wants 22 beside sums and operand. */
static bool two_start(const backward_pass *p, const int64_t *width) {
  int64_t most = 0;
  for (int i = 0; i < 2; i++)
    if (p->sums[i] && width[i] > most) most = width[i];
  return most / 2 + p->block_columns / 4 + 22 <= 128;
}

static template_reason make_pass(const backward_plan *plan, const target *t, backward_pass *p) {
  const backward_match *m = plan->match;
  int64_t width[] = {ir_form_extent(&m->form, m->depth), ir_form_extent(&m->form, m->wide)};
  if (p->overlap && p->stages < 2) return TEMPLATE_STAGES; /* a step holds the one before it */
  p->block_rows = 64 * p->consumers;
  p->threads = 128 * (p->consumers + 1);
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  p->live_registers = p->block_columns / 2 + OVERHEAD_REGISTERS;
  if (!p->updates && (p->side == BACKWARD_QUERIES || p->overlap) && is_two_sided(&m->seen[0]))
    p->live_registers += BOUND_REGISTERS;
  if (p->sums[0]) p->live_registers += (int)width[0] / 2 + p->block_columns / 2;
  if (p->sums[1]) p->live_registers += (int)width[1] / 2;
  if (p->sums[1] || p->overlap) p->live_registers += p->block_columns / 4;
  if (p->overlap) p->live_registers += OVERLAP_REGISTERS;
  if (m->capped) p->live_registers += CAP_REGISTERS;
  if (p->live_registers > consumer_registers[p->consumers]) return TEMPLATE_REGISTERS;
  for (int i = 0; i < 2; i++) {
    /* Without slopes the tile needs nothing of their operand. */
    p->rows[i] = i == 0 || p->sums[0] ? padded_tile(p->block_rows, width[i]) : (attention_tile){0};
    p->columns[i] = padded_tile(p->block_columns, width[i]);
    p->copied[i] = is_copied(plan, p, i);
  }
  int available = t->smem_per_block_bytes - STATIC_SMEM_BYTES, half = available / 2 - 2 * STATIC_SMEM_BYTES;
  p->resident = p->consumers == 1 && bytes_of(p, 1) <= half && two_start(p, width) ? 2 : 1;
  int most = p->resident == 2 ? half : available;
  p->row_stages = plan->persistent && bytes_of(p, 2) <= most ? 2 : 1;
  p->smem_bytes = bytes_of(p, p->row_stages);
  return p->smem_bytes > most ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
}

static void set_options(backward_plan *plan) {
  const backward_match *m = plan->match;
  const ir_form *form = &m->form;
  plan->wide_offsets = lanes_need_wide_offsets(form);
  plan->rows = (lanes_options){.loop = -1, .width = 1, .wide_offsets = plan->wide_offsets};
  plan->dot = (lanes_options){.loop = m->dot->index, .width = 8, .wide_offsets = plan->wide_offsets};
  plan->dot.wide = lanes_wide(form, &plan->dot);
  for (int i = 0; i < 3; i++) {
    int loop = i == 2 ? m->wide : m->depth;
    plan->epilogue[i] = (lanes_options){.loop = loop, .width = 2, .wide_offsets = plan->wide_offsets};
    plan->epilogue[i].wide = lanes_wide(form, &plan->epilogue[i]);
  }
}

static template_reason make_keys(backward_plan *plan, const target *t, const int *v, bool together) {
  const backward_match *m = plan->match;
  plan->n_passes = together ? 2 : 3;
  for (int i = 1; i < plan->n_passes; i++) {
    plan->passes[i] = (backward_pass){.side = BACKWARD_KEYS,
                                      .sums = {i == 1, together || i == 2},
                                      .output = {m->dk, m->dv},
                                      .consumers = v[BACKWARD_K_CONSUMERS],
                                      .block_columns = v[BACKWARD_K_BLOCK],
                                      .stages = v[BACKWARD_K_STAGES],
                                      .updates = plan->one,
                                      .overlap = v[BACKWARD_K_OVERLAP]};
    template_reason reason = make_pass(plan, t, &plan->passes[i]);
    if (reason != TEMPLATE_OK) return reason;
  }
  return TEMPLATE_OK;
}

/* Whether one kernel can multiply for all three: a group has some of dQ's columns, which are whole panels of
 * the keys' or the same part of each, and tiles of keys that meet a query follow one another. */
static template_reason check_one(const backward_plan *plan, const int *v) {
  const backward_match *m = plan->match;
  int64_t depth = ir_form_extent(&m->form, m->depth), width = depth / v[BACKWARD_K_CONSUMERS];
  const attention_bounds *seen = &m->seen[BACKWARD_KEYS];
  bool same = v[BACKWARD_Q_CONSUMERS] == 1 && v[BACKWARD_Q_BLOCK] == 64 && v[BACKWARD_Q_STAGES] == 1 &&
              !v[BACKWARD_Q_OVERLAP]; /* of what there is not, one value alone */
  if (!same || !plan->persistent || !v[BACKWARD_K_OVERLAP] || v[BACKWARD_K_BLOCK] != 64)
    return TEMPLATE_SCHEDULE;
  for (int i = 0; i < seen->n; i++)
    for (int k = 0; k < i; k++)
      if (seen->list[i].query * seen->list[k].query < 0) return TEMPLATE_SCHEDULE;
  if (depth % v[BACKWARD_K_CONSUMERS] != 0 || width % 16 != 0) return TEMPLATE_TILE;
  bool panels = v[BACKWARD_K_CONSUMERS] == 1 || width % 64 == 0 || 64 % width == 0;
  return panels ? TEMPLATE_OK : TEMPLATE_TILE;
}

static template_reason make_one(backward_plan *plan, const target *t, const int *v) {
  template_reason reason = check_one(plan, v);
  if (reason != TEMPLATE_OK) return reason;
  plan->passes[0] = (backward_pass){.side = BACKWARD_QUERIES,
                                    .output = {plan->match->dq, -1},
                                    .consumers = 1,
                                    .block_rows = 64,
                                    .block_columns = 64,
                                    .threads = 128,
                                    .resident = 1};
  reason = make_keys(plan, t, v, true);
  if (reason == TEMPLATE_OK) set_options(plan);
  return reason;
}

template_reason backward_plan_make(const backward_match *m, const target *t, const config *c,
                                   backward_plan *plan) {
  const int *v = c->values;
  *plan = (backward_plan){.match = m,
                          .split = v[BACKWARD_SPLIT],
                          .group = v[BACKWARD_GROUP],
                          .persistent = v[BACKWARD_PERSISTENT],
                          .one = v[BACKWARD_ONE],
                          .masked = m->seen[0].n > 0};
  int64_t ratio = backward_ratio(m);
  if (plan->split > 1 && (ratio % plan->split != 0 || ratio < plan->split)) return TEMPLATE_SCHEDULE;
  if (plan->one) return make_one(plan, t, v);
  /* Queries of a step are read from the workspace together, which has tiles of them. */
  if (64 * v[BACKWARD_Q_CONSUMERS] % v[BACKWARD_K_BLOCK] != 0) return TEMPLATE_TILE;
  plan->passes[0] = (backward_pass){.side = BACKWARD_QUERIES,
                                    .sums = {true, false},
                                    .output = {m->dq, -1},
                                    .consumers = v[BACKWARD_Q_CONSUMERS],
                                    .block_columns = v[BACKWARD_Q_BLOCK],
                                    .stages = v[BACKWARD_Q_STAGES],
                                    .overlap = v[BACKWARD_Q_OVERLAP],
                                    .prefetched = m->o >= 0};
  template_reason reason = make_pass(plan, t, &plan->passes[0]);
  if (reason != TEMPLATE_OK) return reason;
  reason = make_keys(plan, t, v, true);
  if (reason == TEMPLATE_REGISTERS) reason = make_keys(plan, t, v, false);
  if (reason == TEMPLATE_OK) set_options(plan);
  return reason;
}
