/* Products become weights and their gradients, in registers. l and e belong to queries: a thread has those of
 * its two rows in registers, or those of its columns wait in shared memory with the step. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "templates/backward_emit.h"

static int row_of(int i) {
  return i / 2 % 2;
}

static int column_of(int i) {
  return 8 * (i / 4) + i % 2;
}

static gen_value function_of(gen_builder *b, ir_function f, gen_accuracy accuracy, gen_value x) {
  gen_value v = x;
  arke_error err = ARKE_ERROR_INIT;
  if (gen_math_to(b, f, accuracy, &x, &v, &err) != ARKE_OK) gen_misuse(b, "%s", err.text);
  return v;
}

static gen_value exp2_of(gen_builder *b, gen_value x) {
  return function_of(b, IR_FN_EXP2, GEN_ACCURACY_NARROW, x);
}

/* l or e for each accumulator. */
static void statistics(backward_emitter *e, const backward_rows *rows, int which, gen_value stage,
                       gen_value *values, int n) {
  gen_builder *b = e->b;
  if (e->p->side == BACKWARD_QUERIES) {
    for (int i = 0; i < n; i++) values[i] = which == 0 ? rows->lse[row_of(i)] : rows->dot[row_of(i)];
    return;
  }
  gen_value first = gen_add(b, e->smem_statistics[which], gen_mul_imm(b, stage, e->p->block_columns * 4));
  first = gen_add(b, first, gen_mul_imm(b, rows->column, 4));
  for (int i = 0; i < n; i += 4) {
    gen_value pair = gen_load_shared(b, GEN_F32, 2, gen_add_imm(b, first, (int64_t)i / 4 * 32));
    for (int k = 0; k < 4; k++) values[i + k] = gen_lane(b, pair, k % 2);
  }
}

enum { MOST = 64 }; /* accumulators of a step: columns / 2 */

void backward_weights(backward_emitter *e, const backward_rows *rows, gen_value stage, gen_value *s, int n) {
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  double to_base2 = m->base2 ? 1 : M_LOG2E;
  gen_value factor = gen_f32(b, (m->capped ? m->cap : m->scale) * to_base2), lse[MOST];
  statistics(e, rows, 0, stage, lse, n);
  for (int i = 0; i < n; i++) {
    if (m->capped)
      s[i] = function_of(b, IR_FN_TANH, GEN_ACCURACY_SCORE, gen_fmul(b, s[i], gen_f32(b, m->scale)));
    s[i] = exp2_of(b, gen_fma(b, s[i], factor, gen_fneg(b, lse[i])));
  }
}

/* 1 - t * t, where t was the tanh of a weight's score: it takes no registers meanwhile, since log2(P) =
 * factor * t - l tells it, to some 2^-22 of that. A P that is 0 may be that of any t. */
static gen_value derivative(backward_emitter *e, gen_value p, gen_value lse) {
  gen_builder *b = e->b;
  gen_value least = gen_f32(b, 0x1p-126), one = gen_f32(b, 1);
  gen_value exponent = function_of(b, IR_FN_LOG2, GEN_ACCURACY_FAST, gen_maximum(b, p, least));
  double factor = e->m->cap * (e->m->base2 ? 1 : M_LOG2E);
  gen_value t = gen_fmul(b, gen_fadd(b, exponent, lse), gen_f32(b, 1 / factor));
  return gen_fma(b, gen_fneg(b, t), t, one);
}

void backward_slopes(backward_emitter *e, const backward_rows *rows, gen_value stage, const gen_value *p,
                     gen_value *slopes, int n) {
  gen_builder *b = e->b;
  gen_value dot[MOST], lse[MOST];
  statistics(e, rows, 1, stage, dot, n);
  if (e->m->capped) statistics(e, rows, 0, stage, lse, n);
  for (int i = 0; i < n; i++) {
    slopes[i] = gen_fmul(b, p[i], gen_fsub(b, slopes[i], dot[i]));
    if (e->m->capped) slopes[i] = gen_fmul(b, slopes[i], derivative(e, p[i], lse[i]));
  }
}

arke_status backward_mask(backward_emitter *e, const backward_rows *rows, gen_value column, gen_value *x,
                          int n, arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  gen_value zero = gen_f32(b, 0), first = gen_add(b, column, rows->column);
  gen_value zero_columns = gen_i32(b, 0);
  bool lower = false;
  for (int i = 0; i < bounds->n; i++) lower |= !bounds->list[i].upper;
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    gen_value from, below;
    /* Pinned, so that bounds take registers here alone, where they are rarely needed. */
    TRY(backward_row_columns(e, gen_pin(b, rows->row[r]), &from, &below, err));
    /* What a row past the last one has would go into dQ, although its keys are zeroes: not where it is NaN.
     */
    if (e->p->updates) {
      gen_value exists =
          gen_compare(b, GEN_SLT, rows->row[r], backward_extent(e, backward_row_loop(e->m, e->p->side)));
      below = gen_select(b, exists, below, zero_columns);
    }
    below = gen_sub(b, below, first);
    from = gen_sub(b, from, first);
    for (int i = 0; i < n; i++) {
      if (row_of(i) != r) continue;
      gen_value met = gen_compare_imm(b, GEN_SGT, below, column_of(i));
      if (lower) met = gen_and(b, met, gen_compare_imm(b, GEN_SLE, from, column_of(i)));
      x[i] = gen_select(b, met, x[i], zero);
    }
  }
  return ARKE_OK;
}
