/* Tiles whose keys are split into runs, each of a CTA of its own: what a run's CTA leaves in the workspace,
 * and the kernel that combines runs, in an order that is always the same, so that results do not depend on
 * who is first. A thread of it has a few columns of a row, or, where runs are many, its share of them: each
 * load after another takes as long as the rest of the kernel. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attend.h"
#include "templates/attention_emit.h"

/* --- the workspace: parts of a row lie together, run by run --- */

static gen_value wide(attention_emitter *e, gen_value x) {
  return gen_zext(e->b, x, GEN_I64);
}

/* i64: of a row among all of them, of the batch's loops in their order, then queries. */
static gen_value part_number(attention_emitter *e, gen_value line, gen_value run) {
  gen_builder *b = e->b;
  return gen_add(b, gen_mul(b, line, wide(e, gen_param(b, e->k->split))), wide(e, run));
}

static gen_value sums_address(attention_emitter *e, gen_value part, gen_value column) {
  gen_builder *b = e->b;
  gen_value at = gen_add(b, gen_mul_imm(b, part, e->p->v.columns), wide(e, column));
  return gen_add(b, gen_param(b, e->k->parts), gen_mul_imm(b, at, 4));
}

static gen_value statistics_address(attention_emitter *e, gen_value part) {
  return gen_add(e->b, gen_param(e->b, e->k->statistics), gen_mul_imm(e->b, part, 8));
}

static gen_value line_of(attention_emitter *e, const attention_place *at, gen_value query, gen_value head) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  gen_value line = gen_i64(b, 0);
  for (int i = 0; i < m->batch.n; i++) {
    int loop = m->batch.loops[i];
    gen_value index = head && loop == e->p->pack.loop ? head : at->loops[loop];
    line = gen_add(b, gen_mul(b, line, wide(e, attention_extent(e, loop))), wide(e, index));
  }
  return gen_add(b, gen_mul(b, line, wide(e, attention_extent(e, m->query))), wide(e, query));
}

void attention_store_parts(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                           const attention_state *state, const gen_value *sums) {
  gen_builder *b = e->b;
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_branch branch, first;
    gen_value exists = gen_compare(b, GEN_SLE, rows->query[r], at->last), lag;
    if (e->p->pack.loop >= 0)
      exists = gen_and(b, exists, gen_compare(b, GEN_SLE, rows->head[r], at->last_head));
    attention_statistics of = attention_finish_row(e, state, r, &lag);
    gen_if(b, &branch, exists, NULL, 0);
    gen_value head = e->p->pack.loop >= 0 ? rows->head[r] : NULL;
    gen_value part = part_number(e, line_of(e, at, rows->query[r], head), at->run);
    gen_value column = gen_add(b, rows->first_column, rows->column), to = sums_address(e, part, column);
    for (int i = 2 * r; i < e->p->sum_columns / 2; i += 4) {
      gen_value pair[] = {gen_fmul(b, sums[i], lag), gen_fmul(b, sums[i + 1], lag)};
      gen_store_global(b, gen_vector(b, pair, 2), gen_add_imm(b, to, 4 * 8 * (int64_t)(i / 4)));
    }
    gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
    gen_value pair[] = {of.largest, of.total};
    gen_store_global(b, gen_vector(b, pair, 2), statistics_address(e, part));
    gen_if_end(b, &first);
    gen_if_end(b, &branch);
  }
}

void attention_store_part(attention_emitter *e, const attention_place *at, gen_value query, gen_value column,
                          const attention_statistics *of, const gen_value *sums) {
  gen_builder *b = e->b;
  gen_branch first;
  gen_value part = part_number(e, line_of(e, at, query, NULL), at->run);
  gen_store_global(b, gen_vector(b, sums, ATTENTION_COMBINE_WIDTH), sums_address(e, part, column));
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
  gen_value pair[] = {of->largest, of->total};
  gen_store_global(b, gen_vector(b, pair, 2), statistics_address(e, part));
  gen_if_end(b, &first);
}

/* --- combining --- */

/* Of a run past the last one: nothing. */
static void load_part(attention_emitter *e, gen_value line, gen_value run, gen_value column,
                      attend_merged *part) {
  gen_builder *b = e->b;
  gen_value runs = gen_param(b, e->k->split), exists = gen_compare(b, GEN_ULT, run, runs);
  gen_value number = part_number(e, line, gen_umin(b, run, gen_add_imm(b, runs, -1)));
  gen_value statistics = gen_load_global(b, GEN_F32, 2, statistics_address(e, number), true);
  gen_value sums =
      gen_load_global(b, GEN_F32, ATTENTION_COMBINE_WIDTH, sums_address(e, number, column), true);
  part->largest = gen_select(b, exists, gen_lane(b, statistics, 0), gen_f32(b, -(double)INFINITY));
  part->total = gen_select(b, exists, gen_lane(b, statistics, 1), gen_f32(b, 0));
  for (int i = 0; i < ATTENTION_COMBINE_WIDTH; i++)
    part->sums[i] = gen_select(b, exists, gen_lane(b, sums, i), gen_f32(b, 0));
}

static int put(const attend_merged *all, gen_value *to) {
  int n = 0;
  to[n++] = all->largest;
  to[n++] = all->total;
  for (int i = 0; i < ATTENTION_COMBINE_WIDTH; i++) to[n++] = all->sums[i];
  return n;
}

static void get(const gen_value *from, attend_merged *all) {
  all->largest = from[0];
  all->total = from[1];
  for (int i = 0; i < ATTENTION_COMBINE_WIDTH; i++) all->sums[i] = from[2 + i];
}

static void merge_parts(attention_emitter *e, gen_value line, gen_value lane, gen_value column,
                        attend_merged *all) {
  enum { AT_ONCE = ATTENTION_COMBINE_RUNS };
  gen_builder *b = e->b;
  gen_value carried[3 + ATTENTION_COMBINE_WIDTH] = {gen_mul_imm(b, lane, AT_ONCE)};
  attend_merged parts[AT_ONCE];
  gen_loop loop;
  attend_merge_start(b, ATTENTION_COMBINE_WIDTH, all);
  int n = put(all, carried + 1);
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], gen_param(b, e->k->split)));
  for (int i = 0; i < AT_ONCE; i++) load_part(e, line, gen_add_imm(b, carried[0], i), column, &parts[i]);
  get(carried + 1, all);
  attend_merge(b, ATTENTION_COMBINE_WIDTH, all, parts, AT_ONCE);
  put(all, carried + 1);
  carried[0] = gen_add_imm(b, carried[0], (int64_t)AT_ONCE * e->p->team);
  gen_loop_end(b, &loop);
  get(carried + 1, all);
  gen_warp_sync(b);
  attend_merge_lanes(b, ATTENTION_COMBINE_WIDTH, all, e->p->team);
}

/* The row of a line: its query, and the loops of its place. */
static gen_value find_line(attention_emitter *e, gen_value line, attention_place *at) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  gen_value queries = wide(e, attention_extent(e, m->query)), rest = gen_udiv(b, line, queries);
  gen_value query = gen_trunc(b, gen_sub(b, line, gen_mul(b, rest, queries)), GEN_I32);
  for (int i = m->batch.n - 1; i >= 0; i--) {
    int loop = m->batch.loops[i];
    gen_value extent = wide(e, attention_extent(e, loop)), next = gen_udiv(b, rest, extent);
    at->loops[loop] = gen_trunc(b, gen_sub(b, rest, gen_mul(b, next, extent)), GEN_I32);
    rest = next;
  }
  return query;
}

arke_status attention_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const attention_kernel *k = user;
  attention_emitter *e = ARENA_NEW(k->a, attention_emitter);
  attention_place at = {.none = NULL};
  gen_branch branch;
  attend_merged all;
  if (!e) return error_memory(err, "generate");
  *e = (attention_emitter){.b = b, .k = k, .p = k->p, .m = k->p->match};
  int runs = e->p->v.columns / ATTENTION_COMBINE_WIDTH;
  gen_launches_release(b);
  int team = e->p->team;
  gen_value lane = gen_and(b, gen_tid_x(b), gen_i32(b, team - 1)),
            in = gen_udiv(b, gen_tid_x(b), gen_i32(b, team));
  gen_value item =
      gen_add(b, gen_mul_imm(b, wide(e, gen_ctaid_x(b)), ATTENTION_COMBINE_THREADS / team), wide(e, in));
  gen_value exists = gen_compare(b, GEN_ULT, item, gen_param(b, k->items));
  /* Lanes exchange what they have: those past the last item look at that. */
  item = gen_select(b, exists, item, gen_add_imm(b, gen_param(b, k->items), -1));
  gen_value line = gen_udiv(b, item, gen_i64(b, runs));
  gen_value column = gen_trunc(b, gen_sub(b, item, gen_mul_imm(b, line, runs)), GEN_I32);
  column = gen_mul_imm(b, column, ATTENTION_COMBINE_WIDTH);
  gen_value query = find_line(e, line, &at);
  /* Found while the launch before runs: not where they are first used, behind the wait. */
  query = gen_pin(b, query);
  for (int i = 0; i < e->m->batch.n; i++) {
    gen_value *index = &at.loops[e->m->batch.loops[i]];
    *index = gen_pin(b, *index);
  }
  gen_launches_wait(b);
  merge_parts(e, line, lane, column, &all);
  if (team > 1) exists = gen_and(b, exists, gen_compare_imm(b, GEN_EQ, lane, 0));
  gen_if(b, &branch, exists, NULL, 0);
  attention_statistics of = {all.largest, all.total};
  TRY(attention_store_run(e, &at, query, column, &of, all.sums, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}
