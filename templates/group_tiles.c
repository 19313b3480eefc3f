#include "templates/group_tiles.h"

#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_warp.h"

enum {
  EACH = 4, /* groups of a lane, whose ends are loaded together: 128 groups take one round */
  ROUND = 32 * EACH
};

const recipe_expr *group_tiles_most(const ir_form *form, const contraction_groups *groups, int block,
                                    arena *a) {
  /* Every group, and the rows past the last end, may leave one tile partly empty:
   * sum(ceil(n / block)) <= (rows + (groups + 1) * (block - 1)) / block. */
  const recipe_expr *rows = kernel_extent(form, groups->row, a), *n = kernel_extent(form, groups->loop, a);
  return recipe_binary(a, RECIPE_ADD, recipe_binary(a, RECIPE_CEILDIV, rows, recipe_const(a, block)), n);
}

void group_tiles_require(const ir_form *form, const contraction_groups *groups, recipe *rules, arena *a) {
  kernel_require(rules, a, kernel_extent(form, groups->row, a), 0, INT32_MAX / 2,
                 "rows of groups are counted in 32 bits");
  kernel_require(rules, a, kernel_extent(form, groups->loop, a), 0, INT32_MAX / 2,
                 "groups are counted in 32 bits");
}

/* --- ends --- */

static gen_value as_i32(gen_builder *b, gen_value x) {
  return gen_type_of(b, x) == GEN_I32 ? x : gen_trunc(b, x, GEN_I32);
}

/* An end as a number of rows: 0 … rows. */
static gen_value clamp(gen_builder *b, gen_value x, gen_value rows) {
  bool wide = gen_type_of(b, x) == GEN_I64;
  gen_value least = wide ? gen_i64(b, 0) : gen_i32(b, 0), most = wide ? gen_zext(b, rows, GEN_I64) : rows;
  return as_i32(b, gen_smin(b, gen_smax(b, x, least), most));
}

/* Ends of a lane's groups, from number `first` (i32) on: all rows behind the last group. */
static arke_status load_ends(gen_builder *b, const group_tiles *g, gen_value rows, gen_value groups,
                             gen_value first, gen_value *ends, arke_error *err) {
  gen_branch branch;
  gen_value last = gen_add_imm(b, groups, -1);
  for (int i = 0; i < EACH; i++) ends[i] = rows;
  gen_if(b, &branch, gen_compare(b, GEN_SLT, first, groups), ends, EACH);
  for (int i = 0; i < EACH; i++) {
    lanes_options o = {
        .loop = -1, .width = 1, .dense = g->options.dense, .wide_offsets = g->options.wide_offsets};
    lanes *l;
    gen_value value, number = gen_add_imm(b, first, i), at = gen_smin(b, number, last);
    int n;
    TRY(lanes_create(b, g->form, &o, g->slots, g->a, &l, err));
    lanes_set(l, g->groups->loop, o.wide_offsets ? gen_zext(b, at, GEN_I64) : at);
    TRY(lanes_elements(l, g->groups->ends, &value, &n, err));
    ends[i] = gen_select(b, gen_compare(b, GEN_SLT, number, groups), clamp(b, value, rows), rows);
  }
  gen_if_end(b, &branch);
  return ARKE_OK;
}

/* --- a round --- */

/* The sum of x over this lane and those before it. */
static gen_value sum_up(gen_builder *b, gen_value x, gen_value lane) {
  for (int step = 1; step < 32; step *= 2) {
    gen_value before = gen_shuffle_up(b, x, gen_i32(b, step), 32);
    x = gen_add(b, x, gen_select(b, gen_compare_imm(b, GEN_SLT, lane, step), gen_i32(b, 0), before));
  }
  return x;
}

/* What a round carries to the next, and what has been found. */
typedef enum carried { FIRST, BEFORE, BEGIN, GROUP, ROW, END, FOUND, N_CARRIED } carried;

static arke_status look(gen_builder *b, const group_tiles *g, gen_value rows, gen_value groups,
                        gen_value lane, gen_value tile, gen_value *c, arke_error *err) {
  gen_value ends[EACH], tiles[EACH], begins[EACH], all = gen_i32(b, 0);
  gen_value first = gen_add(b, c[FIRST], gen_mul_imm(b, lane, EACH));
  TRY(load_ends(b, g, rows, groups, first, ends, err));
  gen_value before = gen_shuffle_up(b, ends[EACH - 1], gen_i32(b, 1), 32);
  begins[0] = gen_select(b, gen_compare_imm(b, GEN_EQ, lane, 0), c[BEGIN], before);
  for (int i = 0; i < EACH; i++) {
    if (i > 0) begins[i] = ends[i - 1];
    gen_value n = gen_smax(b, gen_sub(b, ends[i], begins[i]), gen_i32(b, 0));
    tiles[i] = gen_ceildiv_imm(b, n, g->block);
    all = gen_add(b, all, tiles[i]);
  }
  gen_value until = gen_add(b, c[BEFORE], sum_up(b, all, lane));
  gen_value at = gen_sub(b, tile, gen_sub(b, until, all)); /* among the lane's own */
  gen_value group = first, row = gen_i32(b, 0), end = rows, mine = gen_bool(b, false);
  for (int i = 0; i < EACH; i++) {
    gen_value here =
        gen_compare(b, GEN_ULT, at, tiles[i]); /* of another group it is too large, or negative */
    group = gen_select(b, here, gen_add_imm(b, first, i), group);
    row = gen_select(b, here, gen_add(b, begins[i], gen_mul_imm(b, at, g->block)), row);
    end = gen_select(b, here, ends[i], end);
    mine = i == 0 ? here : gen_or(b, mine, here);
    at = gen_sub(b, at, tiles[i]);
  }
  gen_value votes = gen_ballot(b, mine), who = gen_trailing_zeros(b, votes);
  who = gen_and(b, who, gen_i32(b, 31));
  c[GROUP] = gen_shuffle_idx(b, group, who, 32);
  c[ROW] = gen_shuffle_idx(b, row, who, 32);
  c[END] = gen_shuffle_idx(b, end, who, 32);
  c[FOUND] = votes;
  c[FIRST] = gen_add_imm(b, c[FIRST], ROUND);
  c[BEFORE] = gen_shuffle_idx(b, until, gen_i32(b, 31), 32);
  c[BEGIN] = gen_shuffle_idx(b, ends[EACH - 1], gen_i32(b, 31), 32);
  return ARKE_OK;
}

arke_status group_tiles_find(gen_builder *b, const group_tiles *g, gen_value rows, gen_value tile,
                             group_tile *found, arke_error *err) {
  lanes_options o = {
      .loop = -1, .width = 1, .dense = g->options.dense, .wide_offsets = g->options.wide_offsets};
  lanes *l;
  gen_loop loop;
  gen_value c[N_CARRIED];
  TRY(lanes_create(b, g->form, &o, g->slots, g->a, &l, err));
  gen_value groups = as_i32(b, lanes_extent(l, g->groups->loop));
  gen_value lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31));
  rows = as_i32(b, rows);
  for (int i = 0; i < N_CARRIED; i++) c[i] = gen_i32(b, 0);
  gen_loop_begin(b, &loop, c, N_CARRIED);
  TRY(look(b, g, rows, groups, lane, tile, c, err));
  /* One number more than there are groups: that of the rows past the last end. */
  gen_value more = gen_compare(b, GEN_SLE, c[FIRST], groups),
            missing = gen_compare_imm(b, GEN_EQ, c[FOUND], 0);
  gen_loop_end_while(b, &loop, gen_and(b, more, missing));
  *found = (group_tile){.exists = gen_compare_imm(b, GEN_NE, c[FOUND], 0),
                        .group = c[GROUP],
                        .row = c[ROW],
                        .end = c[END],
                        .is_of_none = gen_compare(b, GEN_SGE, c[GROUP], groups),
                        .total = c[BEFORE]};
  return ARKE_OK;
}
