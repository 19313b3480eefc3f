/* A consumer warp group's products with what is in shared memory, and when that goes back. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_tma.h"
#include "templates/attention_consumer.h"

/* --- products --- */

enum { STEPS_OF_RUN = ATTENTION_RUN_COLUMNS / 32 }; /* of 32 columns of 8 bits */

/* Of the steps of a product those of run `number`. */
static gen_wgmma run_of(const gen_wgmma *all, const attention_plan *p, int number) {
  gen_wgmma w = *all;
  int first = number * STEPS_OF_RUN;
  if (p->score_runs == 1) return w;
  w.k_steps = all->k_steps - first < STEPS_OF_RUN ? all->k_steps - first : STEPS_OF_RUN;
  for (int i = 0; i < w.k_steps; i++) {
    w.a.step_offset[i] = all->a.step_offset[first + i];
    w.b.step_offset[i] = all->b.step_offset[first + i];
  }
  return w;
}

void attention_set_up(attention_consumer *c) {
  attention_emitter *e = c->e;
  const attention_plan *p = e->p;
  c->k_descriptor = attention_tile_descriptor(e->b, e->smem_k, 16);
  c->first_column = p->halves == 1 ? gen_i32(e->b, 0) : gen_mul_imm(e->b, c->group, p->sum_columns);
  gen_value smem_v = e->smem_v;
  if (p->halves == 2)
    smem_v = gen_add(e->b, smem_v, gen_mul_imm(e->b, c->group, p->sum_columns / 64 * p->v.panel_bytes));
  c->v_descriptor = attention_tile_descriptor(e->b, smem_v, p->v.panel_bytes);
  const ir_form *form = &e->m->form;
  const attention_part *part = p->parts[0];
  gen_wgmma all = {
      .type = ir_tensor_dtype(form->problem, form->accesses[part->q].tensor),
      .b_type = ir_tensor_dtype(form->problem, form->accesses[p->narrow ? part->k.access : part->q].tensor),
      .n = p->block_n,
      .tiles = 1,
      .k_steps = attention_tile_steps(&p->q),
      .a = attention_tile_rows(&p->q),
      .b = attention_tile_rows(&p->k)};
  for (int i = 0; i < p->score_runs; i++) c->scores[i] = run_of(&all, p, i);
  c->values = (gen_wgmma){.type = e->m->type,
                          .b_type = e->m->type,
                          .n = p->sum_columns,
                          .tiles = 1,
                          .k_steps = p->block_n / 16,
                          .b = {.transposed = true}};
  for (int i = 0; i < c->values.k_steps; i++) c->values.b.step_offset[i] = i * 16 * 128;
  c->given = c->values;
  for (int i = 0; i < c->given.k_steps; i++) c->given.a.step_offset[i] = i * 32;
  c->n_scores = p->block_n / 2;
  c->n_words = p->block_n / 4;
  c->n_sums = p->sum_columns / 2;
}

static gen_value stage_of(gen_builder *b, gen_value first, gen_value index, int bytes) {
  return gen_add(b, first, gen_zext(b, gen_mul_imm(b, index, bytes >> 4), GEN_I64));
}

/* Bytes from a stage of values to the next. */
static int values_bytes(const attention_plan *p) {
  return p->values_are_keys ? p->k_stage_bytes : p->v.bytes;
}

/* The group's queries from shared memory, whose chunks of 16 bytes the copy has permuted by rows. */
void attention_hold_queries(attention_consumer *c) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  gen_value first = gen_add(b, c->rows.shared, gen_mul_imm(b, row, 128));
  for (int step = 0; step < attention_tile_steps(&e->p->q); step++) {
    gen_value chunk = gen_mul_imm(b, gen_xor(b, phase, gen_i32(b, step % 4 * 2)), 16);
    gen_value at = gen_add_imm(b, gen_add(b, first, chunk), (int64_t)(step / 4) * e->p->q.panel_bytes);
    gen_ldmatrix_x4(b, false, at, &c->queries[4 * step]);
  }
}

void attention_issue_scores(attention_consumer *c, gen_value stage, gen_value *s) {
  gen_builder *b = c->e->b;
  gen_value k = stage_of(b, c->k_descriptor, stage, c->e->p->k_stage_bytes);
  for (int i = 0; i < c->n_scores * c->e->p->score_runs; i++) s[i] = gen_undefined(b, GEN_F32);
  for (int run = 0; run < c->e->p->score_runs; run++) {
    const gen_wgmma *w = &c->scores[run];
    gen_value *sums = s + run * c->n_scores;
    if (c->e->p->hold_q)
      gen_wgmma_issue_registers(b, w, c->queries + run * STEPS_OF_RUN * 4, k, gen_bool(b, false), sums);
    else
      gen_wgmma_issue(b, w, c->q_descriptor, k, gen_bool(b, false), sums);
  }
}

void attention_wait_for_scores(attention_consumer *c, int pending, gen_value *s) {
  gen_wgmma_wait(c->e->b, pending, s, c->n_scores * c->e->p->score_runs);
  for (int i = c->n_scores; i < c->n_scores * c->e->p->score_runs; i++)
    s[i - c->n_scores] = gen_fadd(c->e->b, s[i - c->n_scores], s[i]);
}

gen_value attention_values_descriptor(attention_consumer *c, gen_value stage) {
  return stage_of(c->e->b, c->v_descriptor, stage, values_bytes(c->e->p));
}

void attention_issue_values(attention_consumer *c, gen_value stage, const gen_value *words) {
  gen_builder *b = c->e->b;
  gen_value v = attention_values_descriptor(c, stage);
  gen_wgmma_issue_registers(b, &c->values, words, v, gen_bool(b, true), c->sums);
}

/* The place of the queries goes back to the producer:
 *   - O is not copied out of it: after a product of the queries, or one that they were loaded for, has been
 *     waited for, since all four warps have issued that;
 *   - it is, and there are two: under the next tile's first product, when the copy has read it;
 *   - there is one: as soon as the copy has read it. */
void attention_release_q(attention_consumer *c, gen_value index, gen_value predicate) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_branch leader;
  if (e->p->copied) {
    gen_value first = gen_compare_imm(b, GEN_EQ, c->thread, 0);
    gen_if(b, &leader, predicate ? gen_and(b, first, predicate) : first, NULL, 0);
    gen_tma_store_wait_read(b, 0);
    gen_if_end(b, &leader);
  }
  gen_pipeline_release(b, &e->of_q, index, c->thread, predicate);
}

void attention_wait_for_tile(attention_consumer *c, const gen_pipeline *of, gen_stage stage) {
  gen_pipeline_wait(c->e->b, of, stage);
  if (c->e->p->gathered) gen_fence_async_shared(c->e->b); /* by threads, not by tensor copies */
}

/* --- a tile --- */

void attention_find_rows(attention_consumer *c) {
  attention_emitter *e = c->e;
  const attention_pack *pack = &e->p->pack;
  gen_builder *b = e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value first = e->p->halves == 1 ? gen_mul_imm(b, c->group, 64) : gen_i32(b, 0);
  gen_value row = gen_add(b, first, gen_mul_imm(b, warp, 16));
  row = gen_add(b, row, gen_lshr(b, lane, gen_i32(b, 2)));
  c->rows.row = row;
  c->rows.shared = gen_add(b, e->smem_q, gen_mul_imm(b, first, 128));
  c->rows.shared = gen_add(b, c->rows.shared, gen_mul_imm(b, c->q.index, e->p->q_stage_bytes));
  c->rows.first_column = c->first_column;
  c->rows.place = c->rows.shared;
  if (e->p->halves == 2) {
    int64_t half = (int64_t)e->p->sum_columns / 64 * e->p->q.panel_bytes;
    c->rows.place = gen_add(b, c->rows.shared, gen_mul_imm(b, c->group, half));
  }
  c->q_descriptor = attention_tile_descriptor(e->b, c->rows.shared, 16);
  c->rows.column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value number = gen_add_imm(b, row, 8 * (int64_t)r);
    if (pack->loop >= 0) {
      gen_value within = gen_and(b, number, gen_i32(b, pack->heads - 1));
      c->rows.head[r] = gen_add(b, c->at.loops[pack->loop], within);
      number = gen_udiv(b, number, gen_i32(b, pack->heads));
    }
    c->rows.query[r] = gen_add(b, number, c->at.first);
    attention_row_keys(e, &c->at, c->rows.query[r], &c->rows.from[r], &c->rows.below[r]);
  }
}

/* --- what is nobody's --- */

/* Keys behind the end of a request have weights of 0; but what lies there for values may be anything, and 0
 * times NaN is NaN. So all groups together clear those rows of the last step, which is the first one here. A
 * tensor copy does so by itself behind the end of the tensor, and pages that nobody sees are not copied. */
void attention_clear_values(attention_consumer *c, gen_stage of, gen_value key) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  const attention_tile *v = &e->p->v;
  int threads = 128 * e->p->consumers;
  gen_value end = attention_end_of_keys(e, &c->at), keys = attention_extent(e, e->m->key);
  gen_value first = gen_smax(b, gen_sub(b, end, key), gen_i32(b, 0));
  gen_value ragged =
      gen_and(b, gen_compare_imm(b, GEN_SLT, first, e->p->block_n), gen_compare(b, GEN_SLT, end, keys));
  gen_branch branch;
  gen_if(b, &branch, ragged, NULL, 0);
  attention_wait_for_tile(c, e->p->values_are_keys ? &e->of_k : &e->of_v, of);
  /* Where values are keys, another group may still multiply them. */
  if (e->p->values_are_keys && e->p->consumers > 1)
    gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), threads);
  gen_value stage = gen_add(b, e->smem_v, gen_mul_imm(b, of.index, values_bytes(e->p))), zero = gen_i32(b, 0);
  gen_value zeros[] = {zero, zero, zero, zero};
  gen_value number = gen_add(b, gen_mul_imm(b, c->group, 128), c->thread);
  gen_value at[] = {gen_add(b, gen_mul_imm(b, first, 128), gen_mul_imm(b, number, 16))};
  gen_loop loop;
  gen_loop_begin(b, &loop, at, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_SLT, at[0], v->panel_bytes));
  for (int panel = 0; panel < v->panels; panel++)
    gen_store_shared(b, gen_vector(b, zeros, 4),
                     gen_add_imm(b, gen_add(b, stage, at[0]), (int64_t)panel * v->panel_bytes));
  at[0] = gen_add_imm(b, at[0], (int64_t)threads * 16);
  gen_loop_end(b, &loop);
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), threads);
  gen_if_end(b, &branch);
}
