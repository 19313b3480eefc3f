/* Tiles whose keys are shared by several CTAs: their parts in the workspace, and the kernel that combines
 * them, in an order that is always the same, so that results do not depend on who is first. A thread, or a
 * few neighbours, have a run of columns of a row. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "templates/attend.h"

enum { MOST_PARTS = 8 }; /* of a thread, which loads them together */

int attend_part_columns(const attend_plan *p) {
  return ((int)ir_form_extent(&p->match->form, p->match->wide) + 3) / 4 * 4;
}

int attend_statistics_bytes(const attend_plan *p) {
  return p->match->groups.of ? 16 : 8;
}

/* Parts of a row lie together. */
static gen_value part_number(attend_emitter *e, gen_value row, gen_value split) {
  gen_builder *b = e->b;
  return gen_add(b, gen_mul_imm(b, row, e->p->split), gen_zext(b, split, GEN_I64));
}

gen_value attend_part_address(attend_emitter *e, gen_value row, gen_value split, gen_value column) {
  gen_builder *b = e->b;
  gen_value line = gen_mul_imm(b, part_number(e, row, split), 4 * (int64_t)attend_part_columns(e->p));
  gen_value at = gen_add(b, line, gen_zext(b, gen_mul_imm(b, column, 4), GEN_I64));
  return gen_add(b, gen_param(b, e->k->parts), at);
}

gen_value attend_statistics_address(attend_emitter *e, gen_value row, gen_value split) {
  gen_builder *b = e->b;
  gen_value at = gen_mul_imm(b, part_number(e, row, split), attend_statistics_bytes(e->p));
  return gen_add(b, gen_param(b, e->k->statistics), at);
}

static attend_merged load_part(attend_emitter *e, gen_value row, gen_value split, gen_value column) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, each = width < 4 ? width : 4;
  attend_merged part;
  gen_value statistics = gen_load_global(b, GEN_F32, 2, attend_statistics_address(e, row, split), true);
  gen_value from = attend_part_address(e, row, split, column);
  part.largest = gen_lane(b, statistics, 0);
  part.total = gen_lane(b, statistics, 1);
  for (int i = 0; i < width; i += each) {
    gen_value v = gen_load_global(b, GEN_F32, each, gen_add_imm(b, from, 4 * (int64_t)i), true);
    for (int j = 0; j < each; j++) part.sums[i + j] = each == 1 ? v : gen_lane(b, v, j);
  }
  return part;
}

static int parts_of_lane(const attend_plan *p, int team) {
  return (p->split + team - 1) / team;
}

int attend_combine_lanes(const attend_plan *p) {
  int team = 1;
  while (parts_of_lane(p, team) > MOST_PARTS && team < 32) team *= 2;
  return team;
}

/* One that is not there counts as of no keys. */
static void drop_part(attend_emitter *e, gen_value exists, attend_merged *part) {
  gen_builder *b = e->b;
  part->largest = gen_select(b, exists, part->largest, gen_f32(b, -(double)INFINITY));
  part->total = gen_select(b, exists, part->total, gen_f32(b, 0));
  for (int i = 0; i < e->p->epilogue.width; i++)
    part->sums[i] = gen_select(b, exists, part->sums[i], gen_f32(b, 0));
}

/* All that splits have of a run of columns: of neighbouring lanes each has some of them, all loaded at once,
 * since each load takes as long as the rest of the kernel. The first lane's result counts. */
static void merge_parts(attend_emitter *e, gen_value row, gen_value lane, gen_value column,
                        attend_merged *all) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, split = e->p->split, team = attend_combine_lanes(e->p);
  int each = parts_of_lane(e->p, team);
  attend_merged parts[MOST_PARTS];
  gen_value first = gen_mul_imm(b, lane, each), last = gen_i32(b, split - 1);
  for (int i = 0; i < each; i++) {
    gen_value number = gen_add_imm(b, first, i);
    bool all_have = (team - 1) * each + i < split; /* the last lane, too */
    parts[i] = load_part(e, row, all_have ? number : gen_umin(b, number, last), column);
    if (!all_have) drop_part(e, gen_compare(b, GEN_ULT, number, gen_i32(b, split)), &parts[i]);
  }
  attend_merge_start(b, width, all);
  attend_merge(b, width, all, parts, each);
  attend_merge_lanes(b, width, all, team);
}

arke_status attend_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const attend_kernel *k = user;
  attend_emitter *e = ARENA_NEW(k->a, attend_emitter);
  gen_branch branch;
  attend_merged all;
  attend_row row;
  if (!e) return error_memory(err, "generate");
  *e = (attend_emitter){.b = b, .k = k, .p = k->p, .m = k->p->match};
  int runs = (int)ir_form_extent(&e->m->form, e->m->wide) / e->p->epilogue.width;
  gen_launches_release(b);
  int team = attend_combine_lanes(e->p);
  gen_value lane = gen_and(b, gen_tid_x(b), gen_i32(b, team - 1)),
            of_cta = gen_i64(b, ATTEND_COMBINE_THREADS / team);
  gen_value own = gen_zext(b, gen_udiv(b, gen_tid_x(b), gen_i32(b, team)), GEN_I64);
  gen_value item = gen_add(b, gen_mul(b, gen_zext(b, gen_ctaid_x(b), GEN_I64), of_cta), own);
  gen_value exists = gen_compare(b, GEN_ULT, item, gen_param(b, k->items));
  /* Lanes exchange what they have: those past the last item look at that. */
  item = gen_select(b, exists, item, gen_add_imm(b, gen_param(b, k->items), -1));
  gen_value line = gen_udiv(b, item, gen_i64(b, runs));
  gen_value run = gen_trunc(b, gen_sub(b, item, gen_mul_imm(b, line, runs)), GEN_I32);
  gen_value column = gen_mul_imm(b, run, e->p->epilogue.width);
  gen_value rows = gen_zext(b, gen_param(b, k->rows), GEN_I64);
  e->unit = gen_trunc(b, gen_udiv(b, line, rows), GEN_I32);
  e->end_row = gen_param(b, k->rows);
  attend_find_unit(e);
  attend_find_row(e, gen_trunc(b, gen_urem(b, line, rows), GEN_I32), &row);
  /* Found while the launch before runs: not where they are first used, behind the wait. */
  row.query = gen_pin(b, row.query);
  for (int i = 0; i < e->m->batch.n; i++) row.batch[i] = gen_pin(b, row.batch[i]);
  gen_launches_wait(b);
  if (e->m->groups.of) {
    gen_value statistics = attend_statistics_address(e, line, gen_i32(b, 0));
    e->group_number = gen_load_global(b, GEN_I32, 1, gen_add_imm(b, statistics, 8), true);
  }
  merge_parts(e, line, lane, column, &all);
  if (team > 1) exists = gen_and(b, exists, gen_compare_imm(b, GEN_EQ, lane, 0));
  gen_if(b, &branch, exists, NULL, 0);
  TRY(attend_store(e, &row, column, &all, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}
