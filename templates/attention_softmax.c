/* Products of a step become weights, in registers. A thread has two rows of a tile: accumulator i is of row
 * (i / 2) % 2, column 8 (i / 4) + i % 2; four neighbouring lanes share a row. Weights are powers of two: the
 * score's factors and log2(e) are one multiplication, which the exponent's subtraction takes along. */
#include <float.h>
#include <math.h>

#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attention_emit.h"

static int row_of(int i) {
  return i / 2 % 2;
}

static int column_of(int i) {
  return 8 * (i / 4) + i % 2;
}

/* --- scores --- */

/* Weights are those of the largest product times the row's factor, which holds for factors above 0 alone. */
static void multiply_where_needed(attention_emitter *e, const attention_rows *rows, gen_value *s, int n) {
  gen_builder *b = e->b;
  gen_branch unusual;
  if (e->m->n_row_factors == 0) return;
  gen_if(b, &unusual, rows->unusual, s, n);
  for (int i = 0; i < n; i++) s[i] = gen_fmul(b, s[i], rows->own_factor[row_of(i)]);
  gen_if_end(b, &unusual);
}

arke_status attention_find_factors(attention_emitter *e, const attention_place *place, attention_rows *rows,
                                   arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  double constant = attention_exponent_factor(m) * m->row_factor;
  gen_value usual = gen_bool(b, true), last_query = gen_add_imm(b, attention_extent(e, m->query), -1);
  lanes_forget(e->l);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value factor = gen_f32(b, constant), v[LANES_MAX];
    int n;
    lanes_set(e->l, m->query, attention_index(e, gen_umin(b, rows->query[r], last_query)));
    if (e->p->pack.loop >= 0)
      lanes_set(e->l, e->p->pack.loop, attention_index(e, gen_umin(b, rows->head[r], place->last_head)));
    for (int i = 0; i < m->n_row_factors; i++) {
      TRY(lanes_load(e->l, m->row_factors[i], err));
      TRY(lanes_eval(e->l, m->row_factors[i], v, &n, err));
      factor = gen_fmul(b, factor, v[0]);
    }
    rows->factor[r] = rows->own_factor[r] = factor;
    usual = gen_and(b, usual, gen_compare(b, GEN_SGE, factor, gen_f32(b, FLT_MIN)));
    usual = gen_and(b, usual, gen_compare(b, GEN_SLE, factor, gen_f32(b, FLT_MAX)));
  }
  lanes_forget(e->l);
  if (m->n_row_factors == 0) return ARKE_OK;
  rows->unusual = gen_warp_any(b, gen_xor(b, usual, gen_bool(b, true)));
  for (int r = 0; r < ATTENTION_ROWS; r++)
    rows->factor[r] = gen_select(b, rows->unusual, gen_f32(b, 1), rows->factor[r]);
  return ARKE_OK;
}

arke_status attention_scores(attention_emitter *e, const attention_place *place, const attention_rows *rows,
                             gen_value key, gen_value *s, int n, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  if (m->by_row) {
    multiply_where_needed(e, rows, s, n);
    return ARKE_OK;
  }
  /* Past the edges the last query and key are looked at, whose place in memory exists. */
  gen_value last_key = gen_add_imm(b, attention_extent(e, m->key), -1);
  gen_value last_query = gen_add_imm(b, attention_extent(e, m->query), -1);
  gen_value first = gen_add(b, key, rows->column), factor = gen_f32(b, attention_exponent_factor(m));
  lanes_forget(e->l);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    lanes_set(e->l, m->query, attention_index(e, gen_umin(b, rows->query[r], last_query)));
    if (e->p->pack.loop >= 0)
      lanes_set(e->l, e->p->pack.loop, attention_index(e, gen_umin(b, rows->head[r], place->last_head)));
    for (int i = 0; i < n; i++) {
      if (row_of(i) != r) continue;
      gen_value at = gen_umin(b, gen_add_imm(b, first, column_of(i)), last_key), v[LANES_MAX];
      int width;
      lanes_set(e->l, m->key, attention_index(e, at));
      e->score = &s[i];
      TRY(lanes_load(e->l, m->body, err));
      TRY(lanes_eval(e->l, m->body, v, &width, err));
      s[i] = gen_fmul(b, v[0], factor);
    }
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

void attention_mask(attention_emitter *e, const attention_rows *rows, gen_value key, gen_value *s, int n) {
  gen_builder *b = e->b;
  gen_value none = gen_f32(b, -(double)INFINITY), first = gen_add(b, key, rows->column);
  bool lower = false;
  for (int i = 0; i < e->m->bounds.n; i++) lower |= !e->m->bounds.list[i].upper;
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value below = gen_sub(b, rows->below[r], first), from = gen_sub(b, rows->from[r], first);
    for (int i = 0; i < n; i++) {
      if (row_of(i) != r) continue;
      gen_value seen = gen_compare_imm(b, GEN_SGT, below, column_of(i));
      if (lower) seen = gen_and(b, seen, gen_compare_imm(b, GEN_SLE, from, column_of(i)));
      s[i] = gen_select(b, seen, s[i], none);
    }
  }
}

void attention_hide(attention_emitter *e, const attention_rows *rows, gen_value stage, gen_value *s, int n) {
  gen_builder *b = e->b;
  gen_value none = gen_f32(b, -(double)INFINITY);
  gen_value from = gen_add(b, e->seen, gen_mul_imm(b, stage, e->p->block_n * 4));
  from = gen_add(b, from, gen_mul_imm(b, rows->column, 4));
  for (int i = 0; i < n; i += 4) { /* two columns of both rows */
    gen_value pair = gen_load_shared(b, GEN_I32, 2, gen_add_imm(b, from, 4 * (int64_t)column_of(i)));
    for (int k = 0; k < 4; k++) {
      gen_value seen = gen_compare_imm(b, GEN_NE, gen_lane(b, pair, k % 2), 0);
      s[i + k] = gen_select(b, seen, s[i + k], none);
    }
  }
}

/* --- weights --- */

enum { CHAINS = 2 }; /* of a row, so that one operation need not wait for the one before */

/* Combines a row's values; in the end they are in chains[0]. */
static gen_value over_row(gen_builder *b, const gen_value *s, int n, int row,
                          gen_value (*combine)(gen_builder *, gen_value, gen_value)) {
  gen_value chains[CHAINS] = {NULL};
  int next = 0;
  for (int i = 0; i < n; i++) {
    if (row_of(i) != row) continue;
    gen_value *chain = &chains[next++ % CHAINS];
    *chain = *chain ? combine(b, *chain, s[i]) : s[i];
  }
  return combine(b, chains[0], chains[1]);
}

static gen_value exp2_of(gen_builder *b, gen_value x) {
  gen_value v = x;
  arke_error err = ARKE_ERROR_INIT;
  if (gen_math_to(b, IR_FN_EXP2, GEN_ACCURACY_NARROW, &x, &v, &err) != ARKE_OK) gen_misuse(b, "%s", err.text);
  return v;
}

/* Weights may be relative to a score that is not the largest: sums then are larger, by 2^LAG at most. */
enum { LAG = 8 };

/* The row's largest score in base 2, over its four lanes. No `factor`: scores have been multiplied by it. */
static gen_value largest_of(attention_emitter *e, const gen_value *s, int n, int row, gen_value factor) {
  gen_builder *b = e->b;
  gen_value v = over_row(b, s, n, row, gen_maximum);
  for (int lane = 1; lane <= 2; lane *= 2) v = gen_maximum(b, v, gen_shuffle_xor(b, v, gen_i32(b, lane), 32));
  return factor ? gen_fmul(b, v, factor) : v;
}

void attention_softmax(attention_emitter *e, const attention_rows *rows, gen_value *s, int n,
                       attention_state *state, attention_rescale *rescale) {
  gen_builder *b = e->b;
  gen_value none = gen_f32(b, -(double)INFINITY), zero = gen_f32(b, 0);
  bool by_row = e->m->by_row;
  gen_value before[ATTENTION_ROWS];
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value largest = largest_of(e, s, n, r, by_row ? rows->factor[r] : NULL);
    before[r] = state->base[r];
    state->largest[r] = rescale ? gen_maximum(b, largest, state->largest[r]) : largest;
    if (!rescale) state->base[r] = largest;
  }
  if (rescale) {
    gen_value grown[ATTENTION_ROWS];
    for (int r = 0; r < ATTENTION_ROWS; r++)
      grown[r] = gen_compare(b, GEN_SGT, state->largest[r], gen_fadd(b, before[r], gen_f32(b, LAG)));
    rescale->needed = gen_warp_any(b, gen_or(b, grown[0], grown[1]));
    for (int r = 0; r < ATTENTION_ROWS; r++)
      state->base[r] = gen_select(b, rescale->needed, state->largest[r], before[r]);
  }
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value nothing = gen_compare(b, GEN_EQ, state->base[r], none);
    gen_value minus = gen_select(b, nothing, zero, gen_fneg(b, state->base[r]));
    for (int i = 0; i < n; i++) {
      if (row_of(i) != r) continue;
      s[i] = exp2_of(b, by_row ? gen_fma(b, s[i], rows->factor[r], minus) : gen_fadd(b, s[i], minus));
    }
    gen_value total = over_row(b, s, n, r, gen_fadd);
    if (rescale) {
      rescale->factor[r] = exp2_of(b, gen_fadd(b, before[r], minus));
      total = gen_fma(b, state->total[r], rescale->factor[r], total);
    }
    state->total[r] = total;
  }
}

void attention_adopt(attention_emitter *e, attention_state *state, const gen_value *largest,
                     const gen_value *base, attention_rescale *rescale) {
  gen_builder *b = e->b;
  gen_value unlike[ATTENTION_ROWS];
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    unlike[r] = gen_compare(b, GEN_NE, base[r], state->base[r]);
    gen_value nothing = gen_compare(b, GEN_EQ, base[r], gen_f32(b, -(double)INFINITY));
    gen_value minus = gen_select(b, nothing, gen_f32(b, 0), gen_fneg(b, base[r]));
    rescale->factor[r] = exp2_of(b, gen_fadd(b, state->base[r], minus));
    state->total[r] = gen_fmul(b, state->total[r], rescale->factor[r]);
    state->largest[r] = largest[r];
    state->base[r] = base[r];
  }
  rescale->needed = gen_warp_any(b, gen_or(b, unlike[0], unlike[1]));
}

gen_value attention_lag(attention_emitter *e, const attention_state *state, int row) {
  gen_builder *b = e->b;
  gen_value lag = exp2_of(b, gen_fsub(b, state->base[row], state->largest[row]));
  gen_value nothing = gen_compare(b, GEN_EQ, state->base[row], gen_f32(b, -(double)INFINITY));
  return gen_select(b, nothing, gen_f32(b, 1), lag);
}
