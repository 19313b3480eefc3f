/* dQ in the kernel of dK and dV. dS of a step goes through shared memory, where its rows are keys: dK reads
 * it by rows, and dQ, turned, all of it. A group has some of dQ's columns, so that a step adds each element
 * once: through shared memory, in the order that threads have them, by one copy that adds.
 *
 * Sums are the same in every run: the tiles of a head's keys add to a step's in the order of items, each when
 * the one before has written where that meets the step at all. A CTA takes items in that order, so that the
 * first one that is not done never waits for another. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_tma.h"
#include "templates/backward_emit.h"

static int depth_of(const backward_emitter *e) {
  return (int)ir_form_extent(&e->m->form, e->m->depth);
}

/* Columns of dQ that a group has. */
static int width_of(const backward_emitter *e) {
  return depth_of(e) / e->p->consumers;
}

static int group_bytes(const backward_emitter *e) {
  return e->p->block_columns * width_of(e) * 4;
}

void backward_update_set_up(backward_emitter *e, gen_value group, backward_update *u) {
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  const attention_tile slopes = attention_tile_make(p->block_rows, p->block_columns);
  dtype type = e->m->type;
  u->n = width_of(e) / 2;
  u->by_queries = (gen_wgmma){.type = type,
                              .b_type = type,
                              .n = width_of(e),
                              .tiles = 1,
                              .k_steps = p->block_rows / 16,
                              .a = {.transposed = true},
                              .b = {.transposed = true}};
  for (int k = 0; k < u->by_queries.k_steps; k++)
    u->by_queries.a.step_offset[k] = u->by_queries.b.step_offset[k] = k * 16 * 128;
  u->by_keys = (gen_wgmma){.type = type,
                           .b_type = type,
                           .n = depth_of(e),
                           .tiles = 1,
                           .k_steps = p->block_columns / 16,
                           .a = attention_tile_rows(&slopes),
                           .b = {.transposed = true}};
  for (int k = 0; k < u->by_keys.k_steps; k++) u->by_keys.b.step_offset[k] = k * 16 * 128;
  gen_value own = gen_add(b, e->smem_slopes, gen_mul_imm(b, group, 64 * 128));
  u->slopes[0] = attention_tile_descriptor(b, e->smem_slopes, slopes.panel_bytes);
  u->slopes[1] = attention_tile_descriptor(b, own, 16);
}

arke_status backward_update_start(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                                  gen_value shared, backward_update *u, arke_error *err) {
  gen_builder *b = e->b;
  backward_steps before;
  int panel_bytes = e->p->rows[0].panel_bytes;
  gen_value column = gen_mul_imm(b, rows->group, width_of(e));
  gen_value panel = gen_lshr(b, column, gen_i32(b, 6)), within = gen_and(b, column, gen_i32(b, 63));
  gen_value offset = gen_add(b, gen_mul_imm(b, panel, panel_bytes), gen_mul_imm(b, within, 2));
  u->keys = attention_tile_descriptor(b, gen_add(b, shared, offset), panel_bytes);
  u->row = backward_query_row(e, at, NULL, gen_i32(b, 0));
  TRY(backward_tile_before(e, at, &before, err));
  u->begin = before.begin;
  u->end = before.end;
  return ARKE_OK;
}

static gen_value in_place(backward_emitter *e, gen_value first, gen_value place) {
  gen_builder *b = e->b;
  return gen_add(b, first, gen_zext(b, gen_mul_imm(b, place, backward_slopes_bytes(e->p) >> 4), GEN_I64));
}

static gen_value last_place(backward_emitter *e, const backward_update *u) {
  return gen_xor(e->b, u->place, gen_i32(e->b, 1));
}

void backward_update_issue(backward_emitter *e, backward_update *u) {
  gen_builder *b = e->b;
  for (int i = 0; i < u->n; i++) u->sums[i] = gen_undefined(b, GEN_F32);
  gen_wgmma_issue(b, &u->by_queries, in_place(e, u->slopes[0], last_place(e, u)), u->keys, gen_bool(b, false),
                  u->sums);
}

void backward_update_issue_keys(backward_emitter *e, backward_update *u, gen_value columns, gen_value *sums) {
  gen_builder *b = e->b;
  gen_wgmma_issue(b, &u->by_keys, in_place(e, u->slopes[1], last_place(e, u)), columns, gen_bool(b, true),
                  sums);
}

/* --- sending --- */

static gen_value is_leader(backward_emitter *e, const backward_rows *rows) {
  return gen_compare_imm(e->b, GEN_EQ, rows->thread, 0);
}

/* The first row of a step in the workspace, from the tile's, which is fewer registers than its place. */
static gen_value first_row(backward_emitter *e, const backward_place *at, const backward_walk *step,
                           const backward_update *u) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  gen_value row = gen_add(b, u->row, gen_mul_imm(b, step->step, e->p->block_columns));
  if (!step->heads) return row;
  gen_value stride = gen_param(b, e->k->pitch);
  for (int i = batch->n - 1; i >= 0 && batch->loops[i] != e->m->head; i--)
    stride = gen_mul(b, stride, backward_extent(e, batch->loops[i]));
  return gen_add(b, row, gen_mul(b, gen_sub(b, at->heads, step->heads), stride));
}

/* The tile's number, from 1 on: 0 is none. */
static gen_value number_of(backward_emitter *e, const backward_place *at) {
  gen_builder *b = e->b;
  return gen_add_imm(b, gen_udiv(b, at->first, gen_i32(b, e->p->block_rows)), 1);
}

/* i64 address: which tile has added to the group's part of these rows. */
static gen_value turn_at(backward_emitter *e, const backward_rows *rows, gen_value row) {
  gen_builder *b = e->b;
  gen_value block = gen_lshr(b, row, gen_i32(b, 6));
  gen_value index = gen_add(b, gen_mul_imm(b, block, e->p->consumers), rows->group);
  return gen_add(b, gen_param(b, e->k->turns), gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4));
}

static void wait_for_turn(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                          const backward_walk *step, const backward_update *u, gen_value row) {
  gen_builder *b = e->b;
  gen_branch waits;
  gen_loop again;
  gen_value met =
      gen_and(b, gen_compare(b, GEN_UGE, step->step, u->begin), gen_compare(b, GEN_ULT, step->step, u->end));
  gen_if(b, &waits, met, NULL, 0);
  gen_value turn = turn_at(e, rows, row);
  gen_value before = gen_add_imm(b, number_of(e, at), backward_number_before(e));
  gen_loop_begin(b, &again, NULL, 0);
  gen_value number = gen_load_ordered(b, GEN_ACQUIRE, GEN_I32, turn);
  gen_loop_end_while(b, &again, gen_compare(b, GEN_NE, number, before));
  gen_fence_async(b);
  gen_if_end(b, &waits);
}

void backward_update_send(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                          const backward_walk *step, const backward_update *u) {
  gen_builder *b = e->b;
  gen_value shared = gen_add(b, e->smem_update, gen_mul_imm(b, rows->group, group_bytes(e)));
  gen_value to = gen_add(b, shared, gen_mul_imm(b, gen_pin(b, rows->thread), 16));
  gen_branch leader;
  /* The 16 bytes i of thread t are columns 16 (i / 2) + 2 (t % 4), the next, and those 8 behind, of row
   * 16 (t / 32) + t % 32 / 4 + 8 (i % 2): backward_combine.c reads them. */
  for (int i = 0; i < u->n / 4; i++) {
    const gen_value *s = &u->sums[i / 2 * 8 + i % 2 * 2];
    const gen_value four[] = {s[0], s[1], s[4], s[5]};
    gen_store_shared(b, gen_vector(b, four, 4), gen_add_imm(b, to, (int64_t)i * 128 * 16));
  }
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_add_imm(b, rows->group, BACKWARD_GROUP_BARRIER), 128);
  gen_if(b, &leader, is_leader(e, rows), NULL, 0);
  gen_value row = first_row(e, at, step, u);
  wait_for_turn(e, at, rows, step, u, row);
  gen_value global = gen_mul_imm(b, gen_zext(b, row, GEN_I64), (int64_t)depth_of(e) * 4);
  global = gen_add(b, gen_add(b, gen_param(b, e->k->dq), global),
                   gen_zext(b, gen_mul_imm(b, rows->group, group_bytes(e)), GEN_I64));
  gen_bulk_add(b, global, shared, group_bytes(e));
  gen_tma_store_commit(b);
  gen_if_end(b, &leader);
}

void backward_update_publish(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                             const backward_walk *step, const backward_update *u) {
  gen_builder *b = e->b;
  gen_branch leader;
  gen_if(b, &leader, is_leader(e, rows), NULL, 0);
  gen_tma_store_wait(b, 0);
  gen_fence_async(b);
  gen_store_ordered(b, GEN_RELEASE, number_of(e, at), turn_at(e, rows, first_row(e, at, step, u)));
  gen_if_end(b, &leader);
}

void backward_update_put(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                         const backward_walk *sent, backward_update *u, const gen_value *words, int n_words) {
  gen_builder *b = e->b;
  const attention_tile slopes = attention_tile_make(e->p->block_rows, e->p->block_columns);
  gen_value shared = gen_add(b, e->smem_slopes, gen_mul_imm(b, rows->group, 64 * 128));
  shared = gen_add(b, shared, gen_mul_imm(b, u->place, backward_slopes_bytes(e->p)));
  backward_rows here = *rows;
  here.thread = gen_pin(b, rows->thread); /* addresses take registers here alone */
  backward_put_words(e, &here, &slopes, shared, words, n_words);
  gen_fence_async_shared(b);
  if (sent) backward_update_publish(e, at, rows, sent, u);
  gen_named_sync(b, gen_i32(b, BACKWARD_ALL_BARRIER), 128 * e->p->consumers);
  u->place = last_place(e, u);
}
