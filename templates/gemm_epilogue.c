/* The end of the products: expressions of the sums, evaluated where the accumulators are. A thread has pairs
 * of neighbouring columns in rows 8 apart; each pair is a fragment with an evaluator of its own, and what
 * fragments share (a column's bias, a row's scale) is loaded once, as equal loads of what nothing writes are
 * one. Past the edges the last row and column are evaluated, and not stored. */
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "templates/contraction_value.h"
#include "templates/gemm_emit.h"

/* Columns that the accumulators of one instruction have together. */
enum { BLOCK = 8 };

/* Blocks of columns that a panel is the first to have. */
static int first_block(const gemm_plan *plan, int panel) {
  return panel * plan->panel_n / BLOCK;
}

static int end_block(const gemm_plan *plan, int columns, int panel) {
  return (gemm_panel_column(plan, columns, panel) + plan->panel_n) / BLOCK;
}

/* Accumulators of one sum and one row tile. */
static int per_sum(int columns) {
  return columns / 2;
}

/* --- the sum as it is --- */

static void pack_panel(gemm_emitter *e, const gemm_epilogue *p, int panel, const gen_value *acc,
                       gen_value *packed) {
  const gemm_plan *plan = e->plan;
  int columns = p->columns;
  /* Rows of no group have the product with zeros, which is NaN where they are not finite. */
  gen_value none = p->tile.group
                       ? gen_compare(e->b, GEN_SGE, p->tile.group, gen_param(e->b, e->kernel->group_count))
                       : NULL;
  dtype type =
      ir_tensor_dtype(plan->match.c->form.problem, plan->match.c->form.accesses[plan->match.y.access].tensor);
  int per_tile = columns / 4, first = 2 * first_block(plan, panel), end = 2 * end_block(plan, columns, panel);
  for (int tile = 0; tile < plan->group_rows / 64; tile++) {
    for (int i = tile * per_tile + first; i < tile * per_tile + end; i++) {
      packed[i] = gen_pack_halves(e->b, type, acc[2 * i], acc[2 * i + 1]);
      if (none) packed[i] = gen_select(e->b, none, gen_i32(e->b, 0), packed[i]);
    }
  }
}

/* --- fragments --- */

/* The value of a sum in the fragment at hand: what lanes asks for. */
arke_status gemm_sum_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  gemm_emitter *e = ((gemm_kernel *)user)->current;
  const contraction *c = e->plan->match.c;
  if (x == c->groups.of) return gemm_group_value(user, x, values, err);
  if (e->row && product_row_value(c, e->row, e->b, x, &values[0])) return ARKE_OK;
  for (int i = 0; i < c->n_sums; i++) {
    if (c->sums[i].e != x) continue;
    for (int j = 0; j < e->plan->epilogue.width; j++) values[j] = e->sums[i * e->sum_stride + j];
    return contraction_sum_value(e->b, e->fragment, c, &c->sums[i], e->plan->epilogue.width, values, err);
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the gemm template did not match");
}

typedef struct fragment {
  int tile, half, block; /* row tile, rows 8 apart, block of columns */
} fragment;

static gen_value row_of(gemm_emitter *e, const gemm_epilogue *p, const fragment *f) {
  return gen_add_imm(e->b, p->first_row, f->tile * 64 + f->half * 8);
}

static gen_value column_of(gemm_emitter *e, const gemm_epilogue *p, const fragment *f, int part) {
  return gen_add_imm(e->b, p->first_column, f->block * BLOCK + part);
}

static arke_status load_part(gemm_emitter *e, const gemm_epilogue *p, const fragment *f, int part,
                             lanes **l) {
  gen_builder *b = e->b;
  const ir_form *form = &e->plan->match.c->form;
  lanes_options o = e->plan->epilogue;
  o.user = (void *)e->kernel;
  o.reduce = gemm_sum_value;
  o.read = gemm_read_value;
  TRY(lanes_create(b, form, &o, &e->kernel->epilogue_slots, e->kernel->a, l, e->err));
  gen_value last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -o.width);
  gemm_set_loops(e, *l, p->tile, gen_umin(b, row_of(e, p, f), last_row),
                 gen_umin(b, column_of(e, p, f, part), last_column));
  for (int i = 0; i < form->n_outputs; i++) TRY(lanes_load(*l, form->outputs[i].value, e->err));
  return contraction_load_sums(*l, e->plan->match.c, e->err);
}

/* Values of both columns of a fragment. Outputs that copies do not store are stored. */
static arke_status evaluate(gemm_emitter *e, const gemm_epilogue *p, const fragment *f, lanes *const *reads,
                            const gen_value *sums, gen_value values[2]) {
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  const ir_form *form = &match->c->form;
  int width = e->plan->epilogue.width;
  for (int part = 0; part < 2; part += width) {
    e->fragment = reads[part];
    e->sums = sums + part;
    e->part = part;
    if (match->c->rows.whole) e->row = &p->rows[2 * f->tile + f->half];
    for (int o = 0; o < form->n_outputs; o++) {
      gen_value all[LANES_MAX];
      int n;
      if (match->c->rows.whole && !gemm_rows_have(match->c, o)) continue;
      TRY(lanes_eval(e->fragment, form->outputs[o].value, all, &n, e->err));
      if (o == 0 && match->y.rank > 0) {
        for (int i = 0; i < width; i++) values[part + i] = all[n == 1 ? 0 : i];
        continue;
      }
      gen_value end = p->tile.end ? p->tile.end : e->m;
      gen_value inside = gen_and(b, gen_compare(b, GEN_ULT, row_of(e, p, f), end),
                                 gen_compare(b, GEN_ULT, column_of(e, p, f, part), e->n));
      TRY(lanes_store(e->fragment, o, all, n, inside, e->err));
    }
  }
  return ARKE_OK;
}

/* --- chunks: blocks of columns of a panel whose reads are under way together --- */

static int end_of_chunk(const gemm_plan *plan, int columns, int begin) {
  int end = end_block(plan, columns, begin * BLOCK / plan->panel_n), wanted = begin + plan->chunk_blocks;
  return wanted < end ? wanted : end;
}

static int fragments_of(const gemm_plan *plan, int begin, int end) {
  return (end - begin) * plan->group_rows / 64 * 2;
}

static fragment fragment_at(int begin, int end, int i) {
  int blocks = end - begin;
  return (fragment){.tile = i / 2 / blocks, .half = i % 2, .block = begin + i / 2 % blocks};
}

static void load_chunk(gemm_emitter *e, gemm_epilogue *p, int begin) {
  int width = e->plan->epilogue.width, end = end_of_chunk(e->plan, p->columns, begin);

  for (int i = 0; i < fragments_of(e->plan, begin, end); i++) {
    fragment f = fragment_at(begin, end, i);
    for (int part = 0; part < 2; part += width)
      gemm_note(e, load_part(e, p, &f, part, &p->reads[p->next][2 * i + part]));
  }
}

static void evaluate_chunk(gemm_emitter *e, gemm_epilogue *p, int begin, const gen_value *acc,
                           gen_value *packed) {
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  const ir_form *form = &match->c->form;
  dtype type = ir_tensor_dtype(form->problem, form->accesses[match->y.access].tensor);
  int sums = per_sum(p->columns), end = end_of_chunk(e->plan, p->columns, begin);
  e->sum_stride = sums;
  if (e->plan->read_panel_bytes > 0) gemm_reads_take(e, p, begin * BLOCK / e->plan->panel_n, begin, end);
  for (int i = 0; i < fragments_of(e->plan, begin, end) && e->status == ARKE_OK; i++) {
    fragment f = fragment_at(begin, end, i);
    const gen_value *of_f = acc + f.tile * match->n_sums * sums + 4 * f.block + 2 * f.half;
    int number = f.tile * p->columns / 4 + 2 * f.block + f.half;
    gen_value values[2], *pair = &packed[number];
    for (int r = 0; r < GEMM_READS; r++) e->given[r] = &p->given[r][2 * number];
    gemm_note(e, evaluate(e, p, &f, &p->reads[!p->next][2 * i], of_f, values));
    if (match->y.rank > 0 && e->status == ARKE_OK) gen_pack(b, type, values, 2, pair);
  }
}

/* --- panels --- */

void gemm_epilogue_begin(gemm_emitter *e, gemm_epilogue *p, gen_value group, gen_value thread,
                         gen_stage reads, gemm_tile tile, int columns) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  *p = (gemm_epilogue){.tile = tile,
                       .columns = columns,
                       .group = group,
                       .thread = thread,
                       .barrier = gen_add_imm(b, group, 1),
                       .stage = reads};
  e->group = tile.group;
  if (plan->match.bare) return;
  gen_value lane = gen_and(b, thread, gen_i32(b, 31)), warp = gen_lshr(b, thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
  gen_value column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  if (!plan->pingpong) row = gen_add(b, row, gen_mul_imm(b, group, plan->group_rows));
  p->first_row = gen_add(b, tile.row, row);
  p->first_column = gen_add(b, tile.column, column);
  if (plan->match.c->rows.n > 0 && !plan->match.c->rows.whole) return;
  load_chunk(e, p, 0);
}

void gemm_epilogue_panel(gemm_emitter *e, gemm_epilogue *p, int panel, const gen_value *acc,
                         gen_value *packed) {
  if (e->plan->match.bare) {
    pack_panel(e, p, panel, acc, packed);
    return;
  }
  int end = end_block(e->plan, p->columns, panel), next;
  for (int begin = first_block(e->plan, panel); begin < end; begin = next) {
    next = end_of_chunk(e->plan, p->columns, begin);
    p->next = !p->next;
    if (next < p->columns / BLOCK) load_chunk(e, p, next);
    evaluate_chunk(e, p, begin, acc, packed);
  }
  if (e->plan->read_panel_bytes > 0) gemm_reads_release(e, p, panel);
  /* After a failure nothing is kept; what follows wants values all the same. */
  for (int i = 0; i < e->plan->accumulators / e->plan->match.n_sums / 2 && e->status != ARKE_OK; i++)
    packed[i] = gen_i32(e->b, 0);
}
