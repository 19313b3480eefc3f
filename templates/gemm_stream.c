/* STREAM_K: what is left of the tiles after full rounds over all CTAs is divided by k-steps, not by tiles, so
 * that all CTAs end together (Osama et al., "Stream-K", 2023). The k-steps of the last units stand in one
 * row; each CTA takes a like number of neighbours, fewer than one unit has: the end of a unit, and often the
 * beginning of the next one. Who computes a unit's last k-step stores it; the CTAs before it, in the order of
 * CTAs, leave their sums in the workspace, from where the producer brings them through the stages. A CTA
 * computes first what it leaves to others, and waits only for CTAs that started before it: no number of
 * resident CTAs makes them wait in a circle. Sums are added in a fixed order, so that every run gives the
 * same bits. In a cluster each CTA has its own tile of the unit. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

/* First k-step of CTA `index` in the row. */
static gen_value row_begin(gemm_emitter *e, gen_value index) {
  const gemm_stream *s = &e->stream;
  return gen_add(e->b, gen_mul(e->b, index, s->share), gen_umin(e->b, index, s->more));
}

void gemm_stream_init(gemm_emitter *e) {
  gen_builder *b = e->b;
  gemm_stream *s = &e->stream;
  gen_value ctas = e->unit_step;
  gen_value rounds = gen_udiv(b, e->units, ctas);
  s->whole = gen_mul(b, rounds, ctas);
  gen_value row = gen_mul(b, gen_sub(b, e->units, s->whole), e->k_steps);
  s->share = gen_udiv(b, row, ctas);
  s->more = gen_sub(b, row, gen_mul(b, s->share, ctas));
  gen_value begin = row_begin(e, e->unit);
  gen_value steps = gen_sub(b, row_begin(e, gen_add_imm(b, e->unit, 1)), begin);
  gen_value skipped = gen_udiv(b, begin, e->k_steps);
  s->end_unit = gen_add(b, s->whole, skipped);
  s->end_first = gen_sub(b, begin, gen_mul(b, skipped, e->k_steps));
  s->end_steps = gen_umin(b, steps, gen_sub(b, e->k_steps, s->end_first));
  s->begin_steps = gen_sub(b, steps, s->end_steps);
}

/* Places: whole units by their number; in the round after them the beginning of a unit, in the next the end
 * of the one before. */
static gen_value skip_empty(gemm_emitter *e, gen_value place) {
  gen_builder *b = e->b;
  const gemm_stream *s = &e->stream;
  gen_value after = gen_add(b, place, e->unit_step);
  gen_value is_begin = gen_and(b, gen_compare(b, GEN_UGE, place, s->whole),
                               gen_compare(b, GEN_ULT, place, gen_add(b, s->whole, e->unit_step)));
  gen_value empty = gen_and(b, is_begin, gen_compare_imm(b, GEN_EQ, s->begin_steps, 0));
  return gen_select(b, empty, after, place);
}

gen_value gemm_first_place(gemm_emitter *e) {
  return e->plan->stream ? skip_empty(e, e->unit) : e->unit;
}

gen_value gemm_next_place(gemm_emitter *e, gen_value place, gen_value step) {
  gen_value next = gen_add(e->b, place, step);
  return e->plan->stream ? skip_empty(e, next) : next;
}

gen_value gemm_place_limit(gemm_emitter *e) {
  if (!e->plan->stream) return e->units;
  gen_builder *b = e->b;
  const gemm_stream *s = &e->stream;
  gen_value all = gen_add(b, s->whole, gen_mul_imm(b, e->unit_step, 2));
  return gen_select(b, gen_compare_imm(b, GEN_EQ, s->end_steps, 0), s->whole, all);
}

gemm_item gemm_item_at(gemm_emitter *e, gen_value place) {
  gen_builder *b = e->b;
  const gemm_stream *s = &e->stream;
  if (e->plan->split > 1) return gemm_split_item(e, place);
  if (!e->plan->stream) return (gemm_item){place, gen_i32(b, 0), e->k_steps};
  gen_value split = gen_compare(b, GEN_UGE, place, s->whole);
  gen_value end = gen_compare(b, GEN_UGE, place, gen_add(b, s->whole, e->unit_step));
  gen_value unit = gen_select(b, end, s->end_unit, gen_add_imm(b, s->end_unit, 1));
  gen_value steps = gen_select(b, end, s->end_steps, s->begin_steps);
  return (gemm_item){.unit = gen_select(b, split, unit, place),
                     .first = gen_select(b, end, s->end_first, gen_i32(b, 0)),
                     .steps = gen_select(b, split, steps, e->k_steps)};
}

gen_value gemm_item_is_partial(gemm_emitter *e, gemm_item item) {
  return gen_compare(e->b, GEN_NE, gen_add(e->b, item.first, item.steps), e->k_steps);
}

/* Of cluster `index`, the CTA of this one's rank. */
static gen_value cta_number(gemm_emitter *e, gen_value index) {
  gen_builder *b = e->b;
  return gen_zext(b, gen_add(b, gen_mul_imm(b, index, e->plan->cluster), e->rank), GEN_I64);
}

static gen_value flag_of(gemm_emitter *e, gen_value index, gen_value group) {
  gen_builder *b = e->b;
  gen_value first = gen_mul_imm(b, cta_number(e, index), e->plan->consumers);
  return gen_add(b, e->stream.flags, gen_mul_imm(b, gen_add(b, first, gen_zext(b, group, GEN_I64)), 4));
}

/* Sums in a slot: parts of sums_bytes; in a part groups; in a group rows of four accumulators of each thread,
 * ROW_BYTES apart. */
enum { LANES = 4, ROW_BYTES = 128 * LANES * 4 };

static int rows_of_part(const gemm_plan *plan) {
  return plan->sums_bytes / (plan->consumers * ROW_BYTES);
}

static int parts_of(const gemm_plan *plan) {
  return plan->slot_bytes / plan->sums_bytes;
}

static gen_value slot_of(gemm_emitter *e, gen_value index) {
  return gen_add(e->b, e->stream.slots, gen_mul_imm(e->b, cta_number(e, index), e->plan->slot_bytes));
}

/* From the beginning of a part to this thread's sums. */
static gen_value own_offset(gemm_emitter *e, gen_value group, gen_value thread) {
  gen_builder *b = e->b;
  return gen_add(b, gen_mul_imm(b, group, rows_of_part(e->plan) * ROW_BYTES),
                 gen_mul_imm(b, thread, LANES * 4));
}

static void leave_sums(gemm_emitter *e, const gemm_store *s, gen_value group, gen_value thread,
                       const gen_value *acc) {
  gen_builder *b = e->b;
  int rows = rows_of_part(e->plan);
  gen_value at = gen_add(b, slot_of(e, e->unit), gen_zext(b, own_offset(e, group, thread), GEN_I64));
  for (int i = 0; i < e->plan->accumulators / LANES; i++) {
    int offset = i / rows * e->plan->sums_bytes + i % rows * ROW_BYTES;
    gen_store_global(b, gen_vector(b, acc + i * LANES, LANES), gen_add_imm(b, at, offset));
  }
  gen_fence_async(b); /* the copy unit is to read them */
  gen_named_sync(b, s->barrier, 128);
  gen_branch leader;
  gen_if(b, &leader, s->leader, NULL, 0);
  gen_store_ordered(b, GEN_RELEASE, gen_i32(b, 1), flag_of(e, e->unit, group));
  gen_if_end(b, &leader);
}

/* The CTAs before this one, the nearest first, down to the one that began the unit: `carried[0]` is the
 * index. */
static void begin_sources(gemm_emitter *e, gen_loop *loop, gen_value *carried, int n) {
  carried[0] = gen_add_imm(e->b, e->unit, -1);
  gen_loop_begin(e->b, loop, carried, n);
}

static void end_sources(gemm_emitter *e, gen_loop *loop, gen_value *carried) {
  gen_builder *b = e->b;
  gen_value unit_begin = gen_mul(b, gen_sub(b, e->stream.end_unit, e->stream.whole), e->k_steps);
  gen_value index = carried[0];
  carried[0] = gen_add_imm(b, index, -1);
  gen_loop_end_while(b, loop, gen_compare(b, GEN_ULT, unit_begin, row_begin(e, index)));
}

/* Whether the item ends a unit that others began. */
static gen_value has_sources(gemm_emitter *e, gemm_item item) {
  gen_builder *b = e->b;
  gen_value begun = gen_compare_imm(b, GEN_NE, item.first, 0);
  return gen_and(b, begun, gen_xor(b, gemm_item_is_partial(e, item), gen_bool(b, true)));
}

static void wait_for_flag(gen_builder *b, gen_value address) {
  gen_loop loop;
  gen_value flag = gen_i32(b, 0);
  gen_loop_begin(b, &loop, &flag, 1);
  flag = gen_load_ordered(b, GEN_ACQUIRE, GEN_I32, address);
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_EQ, flag, 0));
}

gen_stage gemm_stream_load(gemm_emitter *e, gemm_item item, gen_stage at) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value place[] = {at.index, at.parity};
  gen_branch some;
  gen_if(b, &some, has_sources(e, item), place, 2);
  gen_value carried[] = {NULL, place[0], place[1]};
  gen_loop loop;
  begin_sources(e, &loop, carried, 3);
  gen_value slot = slot_of(e, carried[0]);
  gen_stage stage = {carried[1], carried[2]};
  for (int group = 0; group < plan->consumers; group++)
    wait_for_flag(b, flag_of(e, carried[0], gen_i32(b, group)));
  gen_fence_async(b);
  for (int part = 0; part < parts_of(plan); part++) {
    gen_value full = gen_pipeline_acquire(b, &e->pipeline, stage, plan->sums_bytes);
    gen_value shared = gen_add(b, e->smem, gen_mul_imm(b, stage.index, plan->stage_bytes));
    gen_bulk_load(b, shared, gen_add_imm(b, slot, part * plan->sums_bytes), plan->sums_bytes, full);
    stage = gen_pipeline_advance(b, &e->pipeline, stage);
  }
  carried[1] = stage.index;
  carried[2] = stage.parity;
  end_sources(e, &loop, carried);
  place[0] = carried[1];
  place[1] = carried[2];
  gen_if_end(b, &some);
  return (gen_stage){place[0], place[1]};
}

static gen_value add_values(gen_builder *b, gen_value x, gen_value y) {
  return gen_is_float(b, x) ? gen_fadd(b, x, y) : gen_add(b, x, y);
}

/* `state`: the accumulators, then the stage. */
static void add_sums(gemm_emitter *e, const gemm_store *s, gen_value group, gen_value thread,
                     gen_value *state) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int n = plan->accumulators, rows = rows_of_part(plan);
  gen_value own = gen_add(b, e->smem, own_offset(e, group, thread));
  gen_value carried[3 + GEN_WGMMA_MAX_ACCUMULATORS];
  gen_value *acc = carried + 1;
  for (int i = 0; i < n + 2; i++) acc[i] = state[i];
  gen_loop loop;
  begin_sources(e, &loop, carried, 3 + n);
  gen_stage stage = {acc[n], acc[n + 1]};
  for (int part = 0; part < parts_of(plan); part++) {
    gen_pipeline_wait(b, &e->pipeline, stage);
    gen_value at = gen_add(b, own, gen_mul_imm(b, stage.index, plan->stage_bytes));
    for (int i = part * rows; i < (part + 1) * rows; i++) {
      gen_value sums =
          gen_load_shared(b, e->plan->match.type.sum, LANES, gen_add_imm(b, at, i % rows * ROW_BYTES));
      for (int lane = 0; lane < LANES; lane++)
        acc[i * LANES + lane] = add_values(b, acc[i * LANES + lane], gen_lane(b, sums, lane));
    }
    gen_named_sync(b, s->barrier, 128);
    gen_pipeline_release(b, &e->pipeline, stage.index, thread, NULL);
    stage = gen_pipeline_advance(b, &e->pipeline, stage);
  }
  acc[n] = stage.index;
  acc[n + 1] = stage.parity;
  end_sources(e, &loop, carried);
  for (int i = 0; i < n + 2; i++) state[i] = acc[i];
}

void gemm_stream_exchange(gemm_emitter *e, const gemm_store *s, gen_value group, gen_value thread,
                          gemm_item item, gen_stage *at, gen_value *acc) {
  gen_builder *b = e->b;
  int n = e->plan->accumulators;
  gen_value state[GEN_WGMMA_MAX_ACCUMULATORS + 2];
  for (int i = 0; i < n; i++) state[i] = acc[i];
  state[n] = at->index;
  state[n + 1] = at->parity;
  gen_branch partial, some;
  gen_if(b, &partial, gemm_item_is_partial(e, item), NULL, 0);
  leave_sums(e, s, group, thread, acc);
  gen_if_end(b, &partial);
  gen_if(b, &some, has_sources(e, item), state, n + 2);
  add_sums(e, s, group, thread, state);
  gen_if_end(b, &some);
  for (int i = 0; i < n; i++) acc[i] = state[i];
  *at = (gen_stage){state[n], state[n + 1]};
}
