/* What chunks of a row tell each other through memory. A chunk's record holds for each term a 64-bit word of
 * value and flag, or for 64-bit values a pair of words, which are written and seen at once: so no fence is
 * needed, a record is there or it is not. After the records of a row's chunks come those of its segments. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/scan.h"

enum { LANES = 32, EACH = SCAN_SEGMENT / LANES };

int scan_words_of(const scan_match *m) {
  for (int i = 0; i < m->n_terms; i++) {
    if (m->terms[i].type == GEN_F64 || m->terms[i].type == GEN_I64) return 2;
  }
  return 1;
}

static gen_value record_of(gen_builder *b, const scan_plan *p, gen_value state, gen_value index) {
  return gen_add(b, state, gen_mul_imm(b, gen_zext(b, index, GEN_I64), 8 * p->state_words));
}

static gen_value as_bits(gen_builder *b, gen_value v) {
  gen_type type = gen_type_of(b, v);
  if (type == GEN_F64 || type == GEN_I64) return gen_bitcast(b, v, GEN_I64, 1);
  return gen_zext(b, gen_bitcast(b, v, GEN_I32, 1), GEN_I64);
}

static gen_value from_bits(gen_builder *b, gen_value bits, gen_type type) {
  if (type == GEN_F64 || type == GEN_I64) return gen_bitcast(b, bits, type, 1);
  return gen_bitcast(b, gen_trunc(b, bits, GEN_I32), type, 1);
}

static const int64_t flag = INT64_C(1) << 32;

static void publish(gen_builder *b, const scan_plan *p, gen_value record, scan_values total) {
  int each = scan_words_of(p->match);
  for (int i = 0; i < p->match->n_terms; i++) {
    gen_value at = gen_add_imm(b, record, 8 * each * i), bits = as_bits(b, total.v[i]);
    if (each == 1) {
      gen_store_ordered(b, GEN_RELAXED, gen_or(b, bits, gen_i64(b, flag)), at);
    } else {
      gen_store_pair_ordered(b, GEN_RELAXED, (gen_value[]){bits, gen_i64(b, flag)}, at);
    }
  }
}

/* The values of a record, and whether all are there. */
static gen_value inspect(gen_builder *b, const scan_plan *p, gen_value record, gen_value *bits) {
  int each = scan_words_of(p->match);
  gen_value ready = gen_bool(b, true);
  for (int i = 0; i < p->match->n_terms; i++) {
    gen_value at = gen_add_imm(b, record, 8 * each * i), pair[2];
    if (each == 1) {
      pair[0] = pair[1] = gen_load_ordered(b, GEN_RELAXED, GEN_I64, at);
    } else {
      gen_load_pair_ordered(b, GEN_RELAXED, at, pair);
    }
    bits[i] = pair[0];
    ready = gen_and(b, ready, gen_compare_imm(b, GEN_UGE, pair[1], flag));
  }
  return ready;
}

/* Which records a lane reads: EACH of the chunks before its own in the segment, and the segment before. Those
 * it does not need are read from places that hold something or nothing, and count as there. */
typedef struct looking {
  gen_value record[EACH + 1], needed[EACH + 1];
} looking;

static looking where_to_look(gen_builder *b, const scan_plan *p, gen_value state, gen_value chunk,
                             gen_value chunks) {
  looking l;
  gen_value lane = gen_laneid(b), segment = gen_lshr(b, chunk, gen_i32(b, 7));
  gen_value first = gen_add(b, gen_shl(b, segment, gen_i32(b, 7)), lane);
  for (int i = 0; i < EACH; i++) {
    gen_value other = gen_add_imm(b, first, i * LANES);
    l.needed[i] = gen_compare(b, GEN_ULT, other, chunk);
    l.record[i] = record_of(b, p, state, gen_umin(b, other, chunk));
  }
  l.needed[EACH] = gen_compare_imm(b, GEN_NE, segment, 0);
  gen_value before = gen_select(b, l.needed[EACH], gen_add_imm(b, segment, -1), segment);
  l.record[EACH] = record_of(b, p, state, gen_add(b, chunks, before));
  return l;
}

/* Reads until everything needed is there; `bits` by record, then term. */
static void await_records(gen_builder *b, const scan_plan *p, const looking *l, gen_value *bits) {
  int n_terms = p->match->n_terms, n = (EACH + 1) * n_terms;
  gen_loop loop;
  for (int i = 0; i < n; i++) bits[i] = gen_i64(b, 0);
  gen_loop_begin(b, &loop, bits, n);
  gen_value ready = gen_bool(b, true);
  for (int i = 0; i <= EACH; i++) {
    gen_value there = inspect(b, p, l->record[i], &bits[i * n_terms]);
    gen_value idle = gen_xor(b, l->needed[i], gen_bool(b, true));
    ready = gen_and(b, ready, gen_or(b, there, idle));
  }
  gen_loop_end_while(b, &loop, gen_xor(b, gen_warp_all(b, ready), gen_bool(b, true)));
}

scan_values scan_look_back(gen_builder *b, const scan_plan *p, gen_value state, gen_value chunk,
                           gen_value chunks, scan_values total) {
  const scan_match *m = p->match;
  gen_value bits[(EACH + 1) * SCAN_MAX_TERMS];
  gen_branch first_lane, last_of_segment;
  scan_values before = {{NULL}};
  gen_value is_first = gen_compare_imm(b, GEN_EQ, gen_laneid(b), 0);
  gen_if(b, &first_lane, is_first, NULL, 0);
  publish(b, p, record_of(b, p, state, chunk), total);
  gen_if_end(b, &first_lane);
  looking l = where_to_look(b, p, state, chunk, chunks);
  await_records(b, p, &l, bits);
  for (int i = 0; i < m->n_terms; i++) {
    const scan_term *t = &m->terms[i];
    gen_value nothing = scan_identity(b, t->op, t->type), sum = NULL;
    for (int r = 0; r <= EACH; r++) {
      gen_value v = from_bits(b, bits[r * m->n_terms + i], t->type);
      v = gen_select(b, l.needed[r], v, nothing);
      if (r < EACH) {
        sum = sum ? scan_combine(b, t->op, sum, v) : v;
        continue;
      }
      for (int d = LANES / 2; d >= 1; d /= 2) {
        sum = scan_combine(b, t->op, sum, gen_shuffle_xor(b, sum, gen_i32(b, d), LANES));
      }
      before.v[i] = scan_combine(b, t->op, v, sum);
    }
  }
  gen_value within = gen_and(b, chunk, gen_i32(b, SCAN_SEGMENT - 1));
  gen_value ends = gen_compare_imm(b, GEN_EQ, within, SCAN_SEGMENT - 1);
  gen_if(b, &last_of_segment, gen_and(b, is_first, ends), NULL, 0);
  gen_value segment = gen_add(b, chunks, gen_lshr(b, chunk, gen_i32(b, 7)));
  publish(b, p, record_of(b, p, state, segment), scan_combine_all(b, m, before, total));
  gen_if_end(b, &last_of_segment);
  return before;
}

/* Zeroes the words that chunks publish in and the ticket before them: a grid of CTAs, 16 bytes a thread. */
arke_status scan_emit_clear(gen_builder *b, const target *t, void *user, arke_error *err) {
  const scan_emitter *e = user;
  (void)t, (void)err;
  gen_launches_wait(b);
  gen_launches_release(b);
  gen_value cta = gen_zext(b, gen_ctaid_x(b), GEN_I64), thread = gen_zext(b, gen_tid_x(b), GEN_I64);
  gen_value at = gen_add(b, gen_mul_imm(b, cta, SCAN_CLEAR_THREADS), thread);
  gen_branch inside;
  gen_if(b, &inside, gen_compare(b, GEN_ULT, at, gen_param(b, e->clear_pairs)), NULL, 0);
  gen_value zero = gen_i64(b, 0);
  gen_store_global(b, gen_vector(b, (gen_value[]){zero, zero}, 2),
                   gen_add(b, gen_param(b, e->clear_state), gen_mul_imm(b, at, 16)));
  gen_if_end(b, &inside);
  return ARKE_OK;
}
