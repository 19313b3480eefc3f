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

void backward_update_start(backward_emitter *e, const backward_rows *rows, gen_value shared,
                           backward_update *u) {
  gen_builder *b = e->b;
  int panel_bytes = e->p->rows[0].panel_bytes;
  gen_value column = gen_mul_imm(b, rows->group, width_of(e));
  gen_value panel = gen_lshr(b, column, gen_i32(b, 6)), within = gen_and(b, column, gen_i32(b, 63));
  gen_value offset = gen_add(b, gen_mul_imm(b, panel, panel_bytes), gen_mul_imm(b, within, 2));
  u->keys = attention_tile_descriptor(b, gen_add(b, shared, offset), panel_bytes);
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

void backward_update_put(backward_emitter *e, const backward_rows *rows, backward_update *u,
                         const gen_value *words, int n_words) {
  gen_builder *b = e->b;
  const attention_tile slopes = attention_tile_make(e->p->block_rows, e->p->block_columns);
  gen_value shared = gen_add(b, e->smem_slopes, gen_mul_imm(b, rows->group, 64 * 128));
  shared = gen_add(b, shared, gen_mul_imm(b, u->place, backward_slopes_bytes(e->p)));
  backward_rows here = *rows;
  here.thread = gen_pin(b, rows->thread); /* addresses take registers here alone */
  backward_put_words(e, &here, &slopes, shared, words, n_words);
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_i32(b, BACKWARD_ALL_BARRIER), 128 * e->p->consumers);
  u->place = last_place(e, u);
}

/* --- to memory --- */

/* A group and its sender: sums are there; their place is free. */
enum { FULL_BARRIER = BACKWARD_ALL_BARRIER + 1, EMPTY_BARRIER = FULL_BARRIER + 3, MEETING = 128 + 32 };

static gen_value place_of(backward_emitter *e, gen_value group) {
  return gen_add(e->b, e->smem_update, gen_mul_imm(e->b, group, group_bytes(e)));
}

void backward_update_free(backward_emitter *e, gen_value group) {
  gen_named_sync(e->b, gen_add_imm(e->b, group, EMPTY_BARRIER), MEETING);
}

void backward_update_send(backward_emitter *e, const backward_rows *rows, const backward_update *u) {
  gen_builder *b = e->b;
  gen_value to = gen_add(b, place_of(e, rows->group), gen_mul_imm(b, gen_pin(b, rows->thread), 16));
  backward_update_free(e, rows->group);
  /* The 16 bytes i of thread t are columns 16 (i / 2) + 2 (t % 4), the next, and those 8 behind, of row
   * 16 (t / 32) + t % 32 / 4 + 8 (i % 2): backward_combine.c reads them. */
  for (int i = 0; i < u->n / 4; i++) {
    const gen_value *s = &u->sums[i / 2 * 8 + i % 2 * 2];
    const gen_value four[] = {s[0], s[1], s[4], s[5]};
    gen_store_shared(b, gen_vector(b, four, 4), gen_add_imm(b, to, (int64_t)i * 128 * 16));
  }
  gen_fence_async_shared(b);
  gen_named_arrive(b, gen_add_imm(b, rows->group, FULL_BARRIER), MEETING);
}

/* What the sender of a group knows of its tile. */
typedef struct sender {
  backward_emitter *e;
  gen_value group, leader; /* i1: the lane that acts */
  backward_place at;
  backward_steps before; /* of the tile that is before this one */
  gen_value row;         /* of the tile's first head in the workspace */
} sender;

/* The first row of a step in the workspace. */
static gen_value first_row(sender *s, const backward_walk *step) {
  gen_builder *b = s->e->b;
  const contraction_loops *batch = &s->e->m->batch[BACKWARD_QUERIES];
  gen_value row = gen_add(b, s->row, gen_mul_imm(b, step->step, s->e->p->block_columns));
  if (!step->heads) return row;
  gen_value stride = gen_param(b, s->e->k->pitch);
  for (int i = batch->n - 1; i >= 0 && batch->loops[i] != s->e->m->head; i--)
    stride = gen_mul(b, stride, backward_extent(s->e, batch->loops[i]));
  return gen_add(b, row, gen_mul(b, gen_sub(b, s->at.heads, step->heads), stride));
}

/* i64 address: which tile has added to the group's part of these rows. */
static gen_value turn_at(sender *s, gen_value row) {
  gen_builder *b = s->e->b;
  gen_value block = gen_lshr(b, row, gen_i32(b, 6));
  gen_value index = gen_add(b, gen_mul_imm(b, block, s->e->p->consumers), s->group);
  return gen_add(b, gen_param(b, s->e->k->turns), gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4));
}

/* The tile's number, from 1 on: 0 is none. */
static gen_value number_of(sender *s) {
  gen_builder *b = s->e->b;
  return gen_add_imm(b, gen_udiv(b, s->at.first, gen_i32(b, s->e->p->block_rows)), 1);
}

static void wait_for_turn(sender *s, const backward_walk *step, gen_value row) {
  gen_builder *b = s->e->b;
  gen_branch waits;
  gen_loop again;
  gen_value met = gen_and(b, gen_compare(b, GEN_UGE, step->step, s->before.begin),
                          gen_compare(b, GEN_ULT, step->step, s->before.end));
  gen_if(b, &waits, gen_and(b, met, s->leader), NULL, 0);
  gen_value before = gen_add_imm(b, number_of(s), backward_number_before(s->e)), turn = turn_at(s, row);
  gen_loop_begin(b, &again, NULL, 0);
  gen_value number = gen_load_ordered(b, GEN_ACQUIRE, GEN_I32, turn);
  gen_loop_end_while(b, &again, gen_compare(b, GEN_NE, number, before));
  gen_fence_async(b);
  gen_if_end(b, &waits);
}

/* Adds a step's sums. Its turn is waited for before they are there. */
static void send_step(sender *s, const backward_walk *step) {
  backward_emitter *e = s->e;
  gen_builder *b = e->b;
  gen_branch leader;
  gen_value row = first_row(s, step);
  wait_for_turn(s, step, gen_pin(b, row));
  gen_named_sync(b, gen_add_imm(b, s->group, FULL_BARRIER), MEETING);
  gen_if(b, &leader, s->leader, NULL, 0);
  /* Pinned, as the turn's address is computed twice: the producer's group has few registers. */
  gen_value to = gen_mul_imm(b, gen_zext(b, gen_pin(b, row), GEN_I64), (int64_t)depth_of(e) * 4);
  to = gen_add(b, gen_add(b, gen_param(b, e->k->dq), to),
               gen_zext(b, gen_mul_imm(b, s->group, group_bytes(e)), GEN_I64));
  gen_bulk_add(b, to, place_of(e, s->group), group_bytes(e));
  gen_tma_store_commit(b);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
  gen_named_arrive(b, gen_add_imm(b, s->group, EMPTY_BARRIER), MEETING);
  gen_if(b, &leader, s->leader, NULL, 0);
  gen_tma_store_wait(b, 0);
  gen_store_ordered(b, GEN_RELEASE, number_of(s), turn_at(s, gen_pin(b, row)));
  gen_if_end(b, &leader);
}

static arke_status send_tile(sender *s, gen_value item, arke_error *err) {
  backward_emitter *e = s->e;
  gen_builder *b = e->b;
  TRY(backward_locate(e, item, &s->at, err));
  TRY(backward_tile_before(e, &s->at, &s->before, err));
  s->row = backward_query_row(e, &s->at, NULL, gen_i32(b, 0));
  backward_walk w = backward_walk_start(&s->at);
  gen_value in[2] = {w.step, w.heads};
  int n = w.heads ? 2 : 1;
  gen_loop steps;
  gen_loop_begin(b, &steps, in, n);
  w = (backward_walk){n == 2 ? in[1] : NULL, in[0]};
  send_step(s, &w);
  w = backward_walk_next(e, &s->at, &w);
  in[0] = w.step;
  if (n == 2) in[1] = w.heads;
  gen_loop_end_while(b, &steps, backward_walk_goes_on(e, &s->at, &w));
  return ARKE_OK;
}

arke_status backward_emit_sender(backward_emitter *e, gen_value group, gen_value lane, arke_error *err) {
  gen_builder *b = e->b;
  gen_value round = gen_i32(b, 0);
  gen_loop items;
  sender s = {.e = e, .group = group, .leader = gen_compare_imm(b, GEN_EQ, lane, 0)};
  gen_named_arrive(b, gen_add_imm(b, group, EMPTY_BARRIER), MEETING);
  gen_loop_begin(b, &items, &round, 1);
  gen_value item = backward_item(e, round);
  gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
  TRY(send_tile(&s, item, err));
  round = gen_add_imm(b, round, 1);
  gen_loop_end(b, &items);
  return ARKE_OK;
}
