/* Tiles of packed requests, the longest first, whichever request they are of: a static walk is as long as its
 * unluckiest CTA, and requests of unlike lengths come in any order. The producer's warp looks for the tile of
 * a rank among those of 64 requests at a time; a lane has two of them.
 *
 * Keys that a tile sees, as far as that goes by its place, are the least of four terms,
 *   below - from    below + last - from    below - from - first    below + last - from - first,
 * whose bounds are those that do not move with the query or that do so one by one. So the tiles of a request
 * that have so many steps are neighbours, and it takes two divisions to count them. A last tile of fewer rows
 * is taken for a whole one: an order need not be exact, but every tile must have one rank. */
#include "generator/gen_bits.h"
#include "generator/gen_warp.h"
#include "templates/attention_emit.h"

enum { EACH = 2, ROUND = 32 * EACH, FAR = 1 << 29 };

bool attention_is_ordered(const attention_plan *p) {
  const attention_bounds *bounds = &p->match->bounds;
  bool moves = false;
  for (int i = 0; i < bounds->n; i++) {
    if (bounds->list[i].query != 0 && bounds->list[i].query != 1) return false;
    moves = moves || bounds->list[i].query == 1;
  }
  return p->packed && moves;
}

/* A request: its tiles, and what bounds say of their keys. Values are i32; terms that there are not are FAR.
 */
typedef struct request {
  gen_value begin, end, tiles;
  gen_value most; /* keys of a tile, at most */
  gen_value rise; /* of the first tile, by bounds above that move: one more with each row */
  gen_value fall; /* of the first tile, by bounds below that move: one less with each row */
} request;

typedef struct search {
  attention_emitter *e;
  gen_value lane, rows, groups;
  request of[EACH];
} search;

/* --- requests --- */

static gen_value clamped(gen_builder *b, gen_value x) {
  x = gen_smin(b, gen_smax(b, x, gen_i64(b, -FAR)), gen_i64(b, FAR));
  return gen_trunc(b, x, GEN_I32);
}

static gen_value least(gen_builder *b, gen_value x, gen_value y) {
  return x && y ? gen_smin(b, x, y) : x ? x : y;
}

static gen_value greatest(gen_builder *b, gen_value x, gen_value y) {
  return x && y ? gen_smax(b, x, y) : x ? x : y;
}

/* What e->rests, of the request, make of its tiles. `none`: rows past the last one, which see nothing. */
static void find_terms(search *s, request *r, gen_value none) {
  attention_emitter *e = s->e;
  gen_builder *b = e->b;
  gen_value still_below = gen_sext(b, attention_extent(e, e->m->key), GEN_I64), still_from = gen_i64(b, 0);
  gen_value below = NULL, from = NULL, first = gen_sext(b, r->begin, GEN_I64),
            last = gen_add_imm(b, first, e->p->block_q - 1);
  for (int i = 0; i < e->m->bounds.n; i++) {
    const attention_bound *bound = &e->m->bounds.list[i];
    if (bound->upper && bound->query == 0) still_below = gen_smin(b, still_below, e->rests[i]);
    if (bound->upper && bound->query == 1) below = least(b, below, e->rests[i]);
    if (!bound->upper && bound->query == 0) still_from = gen_smax(b, still_from, e->rests[i]);
    if (!bound->upper && bound->query == 1) from = greatest(b, from, e->rests[i]);
  }
  gen_value far = gen_i64(b, FAR), most = gen_sub(b, still_below, still_from);
  if (below && from) most = gen_smin(b, most, gen_add_imm(b, gen_sub(b, below, from), e->p->block_q - 1));
  r->most = gen_select(b, none, gen_i32(b, 0), clamped(b, most));
  r->rise = clamped(b, below ? gen_sub(b, gen_add(b, below, last), still_from) : far);
  r->fall = clamped(b, from ? gen_sub(b, gen_sub(b, still_below, from), first) : far);
}

/* An end as a number of rows: 0 … rows. */
static gen_value row_of(gen_builder *b, gen_value end, gen_value rows) {
  bool wide = gen_type_of(b, end) == GEN_I64;
  gen_value zero = wide ? gen_i64(b, 0) : gen_i32(b, 0), all = wide ? gen_zext(b, rows, GEN_I64) : rows;
  end = gen_smin(b, gen_smax(b, end, zero), all);
  return wide ? gen_trunc(b, end, GEN_I32) : end;
}

/* The lane's requests from `number` on: first all ends, then all bounds. One number more than there are
 * requests is that of the rows past the last end; those behind it have no rows. */
static arke_status load_requests(search *s, gen_value number, gen_value begin, arke_error *err) {
  attention_emitter *e = s->e;
  gen_builder *b = e->b;
  gen_value last = gen_add_imm(b, s->groups, -1), all_before = s->rows;
  for (int i = 0; i < EACH; i++) {
    gen_value own = gen_add_imm(b, number, i), value[LANES_MAX];
    int n;
    lanes_forget(e->l);
    lanes_set(e->l, e->m->groups.loop, attention_index(e, gen_smin(b, own, last)));
    TRY(lanes_elements(e->l, e->m->groups.ends, value, &n, err));
    gen_value exists = gen_compare(b, GEN_SLT, own, s->groups);
    s->of[i].end = gen_select(b, exists, row_of(b, value[0], s->rows), s->rows);
  }
  gen_value before = gen_shuffle_up(b, s->of[EACH - 1].end, gen_i32(b, 1), 32);
  all_before = gen_select(b, gen_compare_imm(b, GEN_EQ, s->lane, 0), begin, before);
  for (int i = 0; i < EACH; i++) {
    request *r = &s->of[i];
    gen_value own = gen_add_imm(b, number, i);
    r->begin = i == 0 ? all_before : s->of[i - 1].end;
    gen_value rows = gen_smax(b, gen_sub(b, r->end, r->begin), gen_i32(b, 0));
    r->tiles = gen_ceildiv_imm(b, rows, e->p->block_q);
    e->group = gen_smin(b, own, last);
    lanes_forget(e->l);
    TRY(attention_find_rests(e, err));
    find_terms(s, r, gen_compare(b, GEN_SGT, own, last));
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

/* --- ranks --- */

/* Tiles [from, below) of a request have so many steps (i32) or more. */
static void neighbours(search *s, const request *r, gen_value steps, gen_value *from, gen_value *below) {
  gen_builder *b = s->e->b;
  int rows = s->e->p->block_q;
  gen_value zero = gen_i32(b, 0), all = gen_compare_imm(b, GEN_SLE, steps, 1);
  gen_value keys = gen_add_imm(b, gen_mul_imm(b, gen_add_imm(b, steps, -1), s->e->p->block_n), 1);
  gen_value missing = gen_smax(b, gen_sub(b, keys, r->rise), zero), spare = gen_sub(b, r->fall, keys);
  gen_value first = gen_smin(b, gen_ceildiv_imm(b, missing, rows), r->tiles);
  gen_value end = gen_udiv(b, gen_smax(b, gen_add_imm(b, spare, rows), zero), gen_i32(b, rows));
  end = gen_smax(b, gen_smin(b, end, r->tiles), first);
  end = gen_select(b, gen_compare(b, GEN_SGE, r->most, keys), end, first);
  *from = gen_select(b, all, zero, first);
  *below = gen_select(b, all, r->tiles, end);
}

/* Of the lane's requests. */
static gen_value count(search *s, gen_value steps) {
  gen_value n = NULL, from, below;
  for (int i = 0; i < EACH; i++) {
    neighbours(s, &s->of[i], steps, &from, &below);
    gen_value own = gen_sub(s->e->b, below, from);
    n = n ? gen_add(s->e->b, n, own) : own;
  }
  return n;
}

/* Steps of the longest tile of the lane's requests. */
static gen_value most_steps(search *s) {
  gen_builder *b = s->e->b;
  gen_value most = gen_i32(b, 1);
  for (int i = 0; i < EACH; i++) {
    const request *r = &s->of[i];
    gen_value rows = gen_mul_imm(b, gen_add_imm(b, r->tiles, -1), s->e->p->block_q);
    gen_value keys = gen_smin(b, gen_smin(b, r->most, r->fall), gen_add(b, r->rise, rows));
    keys = gen_select(b, gen_compare_imm(b, GEN_SGT, r->tiles, 0), keys, gen_i32(b, 0));
    most = gen_smax(b, most, gen_ceildiv_imm(b, gen_smax(b, keys, gen_i32(b, 0)), s->e->p->block_n));
  }
  return most;
}

/* The most steps that more than `rank` tiles have, by halving; `longer`: tiles that have more. */
static gen_value steps_of_rank(search *s, gen_value rank, gen_value *longer) {
  gen_builder *b = s->e->b;
  enum { LEAST, MORE, LONGER, CARRIED };
  gen_value c[CARRIED] = {gen_i32(b, 1), gen_add_imm(b, gen_redux_max(b, most_steps(s)), 1), gen_i32(b, 0)};
  gen_loop loop;
  gen_loop_begin(b, &loop, c, CARRIED);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_SGT, gen_sub(b, c[MORE], c[LEAST]), 1));
  gen_value middle = gen_lshr(b, gen_add(b, c[LEAST], c[MORE]), gen_i32(b, 1));
  gen_value n = gen_redux_add(b, count(s, middle)), enough = gen_compare(b, GEN_SGT, n, rank);
  c[LEAST] = gen_select(b, enough, middle, c[LEAST]);
  c[MORE] = gen_select(b, enough, c[MORE], middle);
  c[LONGER] = gen_select(b, enough, c[LONGER], n);
  gen_loop_end(b, &loop);
  *longer = c[LONGER];
  return c[LEAST];
}

/* The sum of x over the lanes before this one. */
static gen_value before_lane(gen_builder *b, gen_value x, gen_value lane) {
  gen_value sum = x;
  for (int step = 1; step < 32; step *= 2) {
    gen_value before = gen_shuffle_up(b, sum, gen_i32(b, step), 32);
    sum = gen_add(b, sum, gen_select(b, gen_compare_imm(b, GEN_SLT, lane, step), gen_i32(b, 0), before));
  }
  return gen_sub(b, sum, x);
}

/* Which tile of whose requests has the rank, which there is among them. */
static void find_rank(search *s, gen_value number, gen_value rank, attention_found *found) {
  gen_builder *b = s->e->b;
  gen_value longer, steps = steps_of_rank(s, rank, &longer), more = gen_add_imm(b, steps, 1);
  gen_value from[EACH], below[EACH], longer_from[EACH], longer_below[EACH], n[EACH], all = gen_i32(b, 0);
  for (int i = 0; i < EACH; i++) {
    neighbours(s, &s->of[i], steps, &from[i], &below[i]);
    neighbours(s, &s->of[i], more, &longer_from[i], &longer_below[i]);
    gen_value none = gen_compare(b, GEN_SGE, longer_from[i], longer_below[i]);
    longer_from[i] = gen_select(b, none, below[i], longer_from[i]);
    longer_below[i] = gen_select(b, none, below[i], longer_below[i]);
    n[i] = gen_sub(b, gen_sub(b, below[i], from[i]), gen_sub(b, longer_below[i], longer_from[i]));
    all = gen_add(b, all, n[i]);
  }
  gen_value at = gen_sub(b, gen_sub(b, rank, longer), before_lane(b, all, s->lane));
  gen_value zero = gen_i32(b, 0), mine = gen_bool(b, false), who = zero, row = zero, end = zero;
  for (int i = 0; i < EACH; i++) {
    gen_value here = gen_compare(b, GEN_ULT, at, n[i]); /* of another's it is too large, or negative */
    gen_value tile = gen_add(b, from[i], at), shorter = gen_sub(b, longer_from[i], from[i]);
    tile = gen_select(b, gen_compare(b, GEN_SLT, at, shorter), tile,
                      gen_add(b, longer_below[i], gen_sub(b, at, shorter)));
    tile = gen_add(b, s->of[i].begin, gen_mul_imm(b, tile, s->e->p->block_q));
    who = gen_select(b, here, gen_add_imm(b, number, i), who);
    row = gen_select(b, here, tile, row);
    end = gen_select(b, here, s->of[i].end, end);
    mine = gen_or(b, mine, here);
    at = gen_sub(b, at, n[i]);
  }
  gen_value lane = gen_and(b, gen_trailing_zeros(b, gen_ballot(b, mine)), gen_i32(b, 31));
  *found = (attention_found){.group = gen_shuffle_idx(b, who, lane, 32),
                             .row = gen_shuffle_idx(b, row, lane, 32),
                             .end = gen_shuffle_idx(b, end, lane, 32)};
}

arke_status attention_find_by_rank(attention_emitter *e, gen_value rank, attention_found *found,
                                   arke_error *err) {
  enum { NUMBER, BEGIN, BEFORE, GROUP, ROW, END, FOUND, CARRIED };
  gen_builder *b = e->b;
  search s = {.e = e,
              .lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31)),
              .rows = attention_extent(e, e->m->query),
              .groups = attention_extent(e, e->m->groups.loop)};
  gen_value zero = gen_i32(b, 0), c[CARRIED];
  gen_loop rounds;
  gen_branch here;
  for (int i = 0; i < CARRIED; i++) c[i] = zero;
  gen_loop_begin(b, &rounds, c, CARRIED);
  gen_value number = gen_add(b, c[NUMBER], gen_mul_imm(b, s.lane, EACH)), own = zero;
  TRY(load_requests(&s, number, c[BEGIN], err));
  for (int i = 0; i < EACH; i++) own = gen_add(b, own, s.of[i].tiles);
  gen_value tiles = gen_redux_add(b, own), left = gen_sub(b, rank, c[BEFORE]);
  gen_if(b, &here, gen_compare(b, GEN_SLT, left, tiles), &c[GROUP], CARRIED - GROUP);
  find_rank(&s, number, left, found);
  c[GROUP] = found->group;
  c[ROW] = found->row;
  c[END] = found->end;
  c[FOUND] = gen_i32(b, 1);
  gen_if_end(b, &here);
  c[NUMBER] = gen_add_imm(b, c[NUMBER], ROUND);
  c[BEFORE] = gen_add(b, c[BEFORE], tiles);
  c[BEGIN] = gen_shuffle_idx(b, s.of[EACH - 1].end, gen_i32(b, 31), 32);
  gen_value more = gen_compare(b, GEN_SLE, c[NUMBER], s.groups);
  gen_loop_end_while(b, &rounds, gen_and(b, more, gen_compare(b, GEN_SGE, left, tiles)));
  *found = (attention_found){c[GROUP], c[ROW], c[END], gen_compare_imm(b, GEN_NE, c[FOUND], 0)};
  return ARKE_OK;
}
