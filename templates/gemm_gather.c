/* Rows of A at gathered places (X[t[m],k]: the tokens of an expert), which no tensor map describes: the
 * producer's whole warp group copies them, 16 bytes a thread (cp.async), into the swizzled panels that tensor
 * copies would write. Eight neighbouring threads copy a row's 128 bytes; a thread has every 16th row of the
 * tile, at the same place in the swizzle's pattern, and finds out where they are once a tile. A stage is
 * full when the copies of all threads, and those of B, have arrived. */
#include "generator/gen_barrier.h"
#include "generator/gen_cp_async.h"
#include "templates/gemm_emit.h"
#include "templates/lanes_pointer.h"

enum { THREADS = 128, CHUNK = 16, CHUNKS = 8, ROWS = THREADS / CHUNKS, MOST_ROWS = 128 / ROWS };

/* What a thread copies of a tile. */
typedef struct gatherer {
  gemm_emitter *e;
  gen_value thread;
  gen_value rows[MOST_ROWS];   /* i64: where its chunks begin */
  gen_value inside[MOST_ROWS]; /* i1; NULL: always */
} gatherer;

static int rows_of(const gemm_plan *plan) {
  return plan->block_m / ROWS;
}

bool gemm_gathers(const gemm_plan *plan) {
  return plan->block_m % ROWS == 0 && plan->block_m <= MOST_ROWS * ROWS;
}

static gen_value chunk_of(gatherer *g) {
  return gen_and(g->e->b, g->thread, gen_i32(g->e->b, CHUNKS - 1));
}

/* Rows past the last are the last one again. */
static arke_status find_row(gatherer *g, gemm_tile tile, int i) {
  gemm_emitter *e = g->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  lanes *l;
  lanes_options o = plan->indices;
  o.user = (void *)e->kernel;
  gen_value row = gen_add(b, tile.row, gen_add_imm(b, gen_lshr(b, g->thread, gen_i32(b, 3)), i * ROWS));
  row = gen_umin(b, row, gen_add_imm(b, e->m, -1));
  TRY(lanes_create(b, &plan->match.c->form, &o, &e->kernel->index_slots, e->kernel->a, &l, e->err));
  gemm_set_loops(e, l, tile, row, tile.column);
  gemm_set_terms(e, l, gen_i32(b, 0));
  TRY(lanes_pointer_tested(l, plan->match.a.access, &g->rows[i], &g->inside[i], e->err));
  g->rows[i] = gen_add(b, g->rows[i], gen_zext(b, gen_mul_imm(b, chunk_of(g), CHUNK), GEN_I64));
  return ARKE_OK;
}

/* A's rows of the k-step at term k, into a stage: zeros beyond the last term. */
static void copy_rows(gatherer *g, gen_value stage, gen_value k) {
  gemm_emitter *e = g->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int bytes = plan->match.type.bytes, across = CHUNK / bytes;
  gen_value row = gen_and(b, gen_lshr(b, g->thread, gen_i32(b, 3)), gen_i32(b, 7));
  gen_value to = gen_mul_imm(b, gen_xor(b, chunk_of(g), row), CHUNK);
  to = gen_add(b, to, gen_mul_imm(b, gen_lshr(b, g->thread, gen_i32(b, 3)), (int)plan->a.swizzle));
  to = gen_add(b, to, stage);
  gen_value step = gen_mul_imm(b, gen_zext(b, k, GEN_I64), bytes), none = gen_i32(b, 0);
  for (int panel = 0; panel < plan->a.panels; panel++) {
    gen_value first =
        gen_add_imm(b, gen_add(b, k, gen_mul_imm(b, chunk_of(g), across)), panel * plan->a.panel_width);
    gen_value left =
        gen_umin(b, gen_sub(b, gen_umin(b, gen_add_imm(b, first, across), e->k), gen_umin(b, first, e->k)),
                 gen_i32(b, across));
    gen_value available = gen_mul_imm(b, left, bytes);
    for (int i = 0; i < rows_of(plan); i++) {
      gen_value from = gen_add_imm(b, gen_add(b, g->rows[i], step), panel * (int)plan->a.swizzle);
      gen_value some = g->inside[i] ? gen_select(b, g->inside[i], available, none) : available;
      int offset = panel * plan->a.panel_bytes + i * ROWS * (int)plan->a.swizzle;
      gen_cp_async(b, gen_add_imm(b, to, offset), from, CHUNK, some);
    }
  }
}

static gen_stage gather_item(gatherer *g, gemm_item item, gen_stage at) {
  gemm_emitter *e = g->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gemm_tile tile = gemm_tiles_at(e, item.unit);
  gemm_source of_b[CONTRACTION_SUMS];
  for (int i = 0; i < plan->match.n_sums; i++)
    of_b[i] = gemm_source_of(e, &plan->match.b[i], e->map_b[i], tile);
  for (int i = 0; i < rows_of(plan); i++) gemm_note(e, find_row(g, tile, i));
  if (e->status != ARKE_OK) return at;
  gen_value is_first = gen_compare_imm(b, GEN_EQ, g->thread, 0), end = gen_add(b, item.first, item.steps);
  gen_loop loop;
  gen_value carried[] = {item.first, at.index, at.parity};
  gen_loop_begin(b, &loop, carried, 3);
  gen_value step = carried[0];
  at = (gen_stage){carried[1], carried[2]};
  gen_pipeline_wait_free(b, &e->pipeline, at);
  gen_value stage = gen_add(b, e->smem, gen_mul_imm(b, at.index, plan->stage_bytes));
  gen_branch one;
  gen_if(b, &one, is_first, NULL, 0);
  gen_value terms[IR_FORM_LOOPS] = {NULL};
  gemm_terms_at(e, step, terms);
  gemm_load_b(e, of_b, NULL, stage, terms, gen_pipeline_expect(b, &e->pipeline, at, plan->b.bytes));
  gen_if_end(b, &one);
  copy_rows(g, stage, gen_mul_imm(b, step, plan->block_k));
  gen_pipeline_fill_copied(b, &e->pipeline, at.index);
  at = gen_pipeline_advance(b, &e->pipeline, at);
  carried[0] = gen_add_imm(b, step, 1);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  return (gen_stage){carried[1], carried[2]};
}

void gemm_stage_arrived(gemm_emitter *e) {
  if (e->plan->match.gathered) gen_fence_async_shared(e->b);
}

void gemm_emit_gatherer(gemm_emitter *e, gen_value thread) {
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(e->b)};
  gatherer g = {.e = e, .thread = thread};
  gemm_walk_begin(e, &walk);
  walk.stage = gather_item(&g, gemm_item_at(e, walk.place), walk.stage);
  gemm_walk_end(e, &walk);
}
