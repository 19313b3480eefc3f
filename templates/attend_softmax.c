/* Scores of a step become weights, in registers. Score i of a fragment is of its row g + 8 (i / 2 % 2), key
 * 8 (i / 4) + 2 t + i % 2, where g = lane / 4 and t = lane % 4: four neighbouring lanes share a row. Weights
 * are powers of two, as in attention_softmax.c. */
#include <math.h>

#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attend.h"

static int row_of(int i) {
  return i / 2 % 2;
}

static int column_of(int i) {
  return 8 * (i / 4) + i % 2;
}

gen_value attend_exp2(gen_builder *b, gen_value x) {
  gen_value v = x;
  arke_error err = ARKE_ERROR_INIT;
  if (gen_math_to(b, IR_FN_EXP2, GEN_ACCURACY_NARROW, &x, &v, &err) != ARKE_OK) gen_misuse(b, "%s", err.text);
  return v;
}

static gen_value first_key(attend_emitter *e, gen_value key) {
  gen_builder *b = e->b;
  return gen_add(b, key, gen_mul_imm(b, gen_and(b, e->lane, gen_i32(b, 3)), 2));
}

/* --- scores --- */

static arke_status evaluate(attend_emitter *e, gen_value key, gen_value *s, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  int own = e->p->warp_keys / 2;
  if (m->body == m->product) return ARKE_OK;
  /* Where no row sees a key, the nearest one that some row sees is looked at. */
  gen_value last = gen_add_imm(b, e->below, -1), first = first_key(e, key);
  gen_value factor = gen_f32(b, attention_exponent_factor(m));
  lanes_forget(e->l);
  for (int r = 0; r < e->p->thread_rows; r++) {
    attend_set_row(e, e->l, &e->rows[r]);
    for (int i = 0; i < own; i++) {
      gen_value at = gen_add_imm(b, first, column_of(i)), v[LANES_MAX];
      int width;
      if (row_of(i) != r % 2) continue;
      lanes_set(e->l, m->key, attend_index(e, gen_smin(b, gen_smax(b, at, e->from), last)));
      e->score = &s[r / 2 * own + i];
      TRY(lanes_load(e->l, m->body, err));
      TRY(lanes_eval(e->l, m->body, v, &width, err));
      s[r / 2 * own + i] = gen_fmul(b, v[0], factor);
    }
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

/* --- which are seen --- */

static bool has_lower(const attention_match *m) {
  for (int i = 0; i < m->bounds.n; i++)
    if (!m->bounds.list[i].upper) return true;
  return false;
}

/* What conditions say of the keys of scores i; NULL where there are none. */
static arke_status find_conditions(attend_emitter *e, gen_value key, gen_value *holds, arke_error *err) {
  gen_builder *b = e->b;
  gen_value last = gen_add_imm(b, e->below, -1), first = first_key(e, key);
  lanes_forget(e->l);
  attend_set_row(e, e->l, &e->row);
  for (int i = 0; i < e->p->warp_keys / 2; i++) {
    gen_value at = gen_add_imm(b, first, column_of(i));
    if (row_of(i) == 0) {
      lanes_set(e->l, e->m->key, attend_index(e, gen_smin(b, gen_smax(b, at, e->from), last)));
      TRY(attend_find_condition(e, e->l, &holds[i], err));
    } else {
      holds[i] = holds[i - 2];
    }
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

static void mask(attend_emitter *e, gen_value key, const gen_value *holds, gen_value *s) {
  gen_builder *b = e->b;
  int own = e->p->warp_keys / 2;
  gen_value none = gen_f32(b, -(double)INFINITY), first = first_key(e, key);
  for (int r = 0; r < e->p->thread_rows; r++) {
    gen_value below = gen_sub(b, e->row_below[r], first), from = gen_sub(b, e->row_from[r], first);
    for (int i = 0; i < own; i++) {
      if (row_of(i) != r % 2) continue;
      gen_value seen = gen_compare_imm(b, GEN_SGT, below, column_of(i)), *score = &s[r / 2 * own + i];
      if (has_lower(e->m)) seen = gen_and(b, seen, gen_compare_imm(b, GEN_SLE, from, column_of(i)));
      if (holds && holds[i]) seen = gen_and(b, seen, holds[i]);
      *score = gen_select(b, seen, *score, none);
    }
  }
}

static void mask_where_needed(attend_emitter *e, gen_value key, gen_value *s) {
  gen_builder *b = e->b;
  gen_branch edge;
  gen_value end = gen_add_imm(b, key, e->p->warp_keys);
  gen_value over = gen_compare(b, GEN_SGT, end, e->all_below);
  if (has_lower(e->m)) over = gen_or(b, over, gen_compare(b, GEN_SLT, key, e->all_from));
  gen_if(b, &edge, over, s, e->p->fragments * e->p->warp_keys / 2);
  mask(e, key, NULL, s);
  gen_if_end(b, &edge);
}

arke_status attend_scores(attend_emitter *e, gen_value key, gen_value *s, arke_error *err) {
  if (e->p->warp_keys < e->p->block_n) key = gen_add(e->b, key, e->warp_key);
  TRY(evaluate(e, key, s, err));
  if (e->m->bounds.n_conditions == 0) {
    mask_where_needed(e, key, s);
    return ARKE_OK;
  }
  gen_value holds[ATTEND_MOST_SCORES];
  TRY(find_conditions(e, key, holds, err));
  mask(e, key, holds, s);
  return ARKE_OK;
}

/* --- of all warps that share keys --- */

/* Where scores of the warp's rows are: row g, key 2 t. */
static gen_value shared_scores(attend_emitter *e) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value row = gen_add(b, e->warp_row, gen_lshr(b, e->lane, gen_i32(b, 2)));
  if (p->sets > 1) row = gen_add(b, row, gen_mul_imm(b, e->set, p->block_m));
  gen_value pair = gen_and(b, e->lane, gen_i32(b, 3));
  gen_value at = gen_add(b, gen_mul_imm(b, row, p->scores_pitch_bytes), gen_mul_imm(b, pair, 8));
  return gen_add_imm(b, gen_add(b, e->smem_q, at), p->scores_offset_bytes);
}

void attend_put_scores(attend_emitter *e, const gen_value *s) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value to = gen_add(b, shared_scores(e), gen_mul_imm(b, e->warp_key, 4));
  for (int r = 0; r < p->thread_rows; r++)
    for (int i = 2 * (r % 2); i < p->warp_keys / 2; i += 4) {
      const gen_value *pair = &s[r / 2 * p->warp_keys / 2 + i];
      gen_store_shared(b, gen_vector(b, pair, 2),
                       gen_add_imm(b, to, 8 * (int64_t)r * p->scores_pitch_bytes + 8 * (i - 2 * (r % 2))));
    }
}

void attend_get_scores(attend_emitter *e, gen_value *s) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value from = shared_scores(e);
  for (int r = 0; r < p->thread_rows; r++)
    for (int i = 2 * (r % 2); i < p->block_n / 2; i += 4) {
      int64_t offset = 8 * (int64_t)r * p->scores_pitch_bytes + 8 * (i - 2 * (r % 2));
      gen_value pair = gen_load_shared(b, GEN_F32, 2, gen_add_imm(b, from, offset));
      for (int k = 0; k < 2; k++) s[r / 2 * p->block_n / 2 + i + k] = gen_lane(b, pair, k);
    }
}

/* --- weights --- */

enum { CHAINS = 2 }; /* of a row, so that one operation need not wait for the one before */

/* Combines row r's values. */
static gen_value over_row(attend_emitter *e, const gen_value *s, int r,
                          gen_value (*combine)(gen_builder *, gen_value, gen_value)) {
  gen_value chains[CHAINS] = {NULL};
  int own = e->p->block_n / 2, next = 0;
  for (int i = 0; i < own; i++) {
    if (row_of(i) != r % 2) continue;
    gen_value *chain = &chains[next++ % CHAINS], v = s[r / 2 * own + i];
    *chain = *chain ? combine(e->b, *chain, v) : v;
  }
  return combine(e->b, chains[0], chains[1]);
}

/* Weights may be relative to a score that is not the largest: sums then are larger, by 2^LAG at most. */
enum { LAG = 8 };

/* The row's largest score in base 2, over its four lanes. */
static gen_value largest_of(attend_emitter *e, const gen_value *s, int r, gen_value factor) {
  gen_builder *b = e->b;
  gen_value v = over_row(e, s, r, gen_maximum);
  for (int lane = 1; lane <= 2; lane *= 2) v = gen_maximum(b, v, gen_shuffle_xor(b, v, gen_i32(b, lane), 32));
  return factor ? gen_fmul(b, v, factor) : v;
}

/* What weights are relative to, negated; 0 where a row has seen nothing. */
static gen_value minus_base(gen_builder *b, gen_value base) {
  gen_value nothing = gen_compare(b, GEN_EQ, base, gen_f32(b, -(double)INFINITY));
  return gen_select(b, nothing, gen_f32(b, 0), gen_fneg(b, base));
}

/* Sums become relative to the largest scores. */
static void rescale(attend_emitter *e, attend_state *state, gen_value *sums) {
  gen_builder *b = e->b;
  int own = e->p->warp_columns / 2;
  for (int r = 0; r < e->p->thread_rows; r++) {
    gen_value factor = attend_exp2(b, gen_fadd(b, state->base[r], minus_base(b, state->largest[r])));
    state->base[r] = state->largest[r];
    state->total[r] = gen_fmul(b, state->total[r], factor);
    for (int i = 0; i < own; i++) {
      gen_value *sum = &sums[r / 2 * own + i];
      if (row_of(i) == r % 2) *sum = gen_fmul(b, *sum, factor);
    }
  }
}

/* Rare after the first steps, so by a branch, which all lanes of a warp take together. */
static void rescale_where_needed(attend_emitter *e, attend_state *state, gen_value *sums) {
  gen_builder *b = e->b;
  int rows = e->p->thread_rows, n = e->p->fragments * e->p->warp_columns / 2;
  gen_value grown = NULL, carried[ATTEND_MOST_SUMS + 2 * ATTEND_MOST_ROWS];
  gen_branch branch;
  for (int r = 0; r < rows; r++) {
    gen_value limit = gen_fadd(b, state->base[r], gen_f32(b, LAG));
    gen_value here = gen_compare(b, GEN_SGT, state->largest[r], limit);
    grown = grown ? gen_or(b, grown, here) : here;
    carried[n + r] = state->base[r];
    carried[n + rows + r] = state->total[r];
  }
  for (int i = 0; i < n; i++) carried[i] = sums[i];
  gen_if(b, &branch, gen_warp_any(b, grown), carried, n + 2 * rows);
  rescale(e, state, carried);
  for (int r = 0; r < rows; r++) {
    carried[n + r] = state->base[r];
    carried[n + rows + r] = state->total[r];
  }
  gen_if_end(b, &branch);
  for (int i = 0; i < n; i++) sums[i] = carried[i];
  for (int r = 0; r < rows; r++) {
    state->base[r] = carried[n + r];
    state->total[r] = carried[n + rows + r];
  }
}

void attend_softmax(attend_emitter *e, gen_value *s, attend_state *state, gen_value *sums) {
  gen_builder *b = e->b;
  int own = e->p->block_n / 2;
  gen_value factor = e->m->body == e->m->product ? gen_f32(b, attention_exponent_factor(e->m)) : NULL;
  for (int r = 0; r < e->p->thread_rows; r++)
    state->largest[r] = gen_maximum(b, state->largest[r], largest_of(e, s, r, factor));
  rescale_where_needed(e, state, sums);
  for (int r = 0; r < e->p->thread_rows; r++) {
    gen_value minus = minus_base(b, state->base[r]);
    for (int i = 0; i < own; i++) {
      gen_value *score = &s[r / 2 * own + i];
      if (row_of(i) != r % 2) continue;
      *score = attend_exp2(b, factor ? gen_fma(b, *score, factor, minus) : gen_fadd(b, *score, minus));
    }
    state->total[r] = gen_fadd(b, state->total[r], over_row(e, s, r, gen_fadd));
  }
}
