/* Products of a step become P and dS, in registers: by two instructions each where they are plain, some more
 * under a softcap, else as the expressions say, element by element. Value i is of row g + 8 (i / 2 % 2),
 * column 8 (i / 4) + 2 t + i % 2, where g = lane / 4 and t = lane % 4. */
#include <math.h>

#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "templates/backward_warps.h"

static int row_of(int i) {
  return i / 2 % 2;
}

static int column_of(int i) {
  return 8 * (i / 4) + i % 2;
}

/* A step's values, and what goes with them. */
typedef struct scored {
  warps_emitter *e;
  const warps_walk *w;
  int n;
  gen_value *s, *slopes; /* slopes NULL: they are not asked for */
  gen_value first;       /* the column of value 0 */
  gen_value lse[WARPS_MOST_SCORES], dot[WARPS_MOST_SCORES];
} scored;

/* l and e of the values' queries: the thread's rows, or columns, which are in shared memory. */
static void find_statistics(scored *x, gen_value stage) {
  warps_emitter *e = x->e;
  gen_builder *b = e->b;
  gen_value from = gen_mul_imm(b, gen_and(b, e->lane, gen_i32(b, 3)), 2 * WARPS_STATISTICS_BYTES);
  from = gen_add_imm(b, gen_add(b, stage, from), e->p->statistics_offset_bytes);
  for (int i = 0; i < x->n; i++) {
    if (e->p->side == BACKWARD_QUERIES) {
      x->lse[i] = e->row_lse[row_of(i)];
      x->dot[i] = e->row_dot[row_of(i)];
    } else if (row_of(i) == 1) {
      x->lse[i] = x->lse[i - 2];
      x->dot[i] = x->dot[i - 2];
    } else if (i % 2 == 0) {
      gen_value v = gen_load_shared(b, GEN_F32, 4, gen_add_imm(b, from, 8 * column_of(i)));
      for (int k = 0; k < 2; k++) {
        x->lse[i + k] = gen_lane(b, v, 2 * k);
        x->dot[i + k] = gen_lane(b, v, 2 * k + 1);
      }
    }
  }
}

/* --- plain, and under a softcap --- */

static gen_value tanh_of(gen_builder *b, gen_value x) {
  gen_value v = x;
  arke_error err = ARKE_ERROR_INIT;
  if (gen_math_to(b, IR_FN_TANH, GEN_ACCURACY_SCORE, &x, &v, &err) != ARKE_OK) gen_misuse(b, "%s", err.text);
  return v;
}

static void weigh(scored *x) {
  gen_builder *b = x->e->b;
  const backward_match *m = x->e->m;
  double to_base2 = m->base2 ? 1 : M_LOG2E;
  gen_value factor = gen_f32(b, (m->capped ? m->cap : m->scale) * to_base2);
  for (int i = 0; i < x->n; i++) {
    gen_value t = x->s[i];
    if (m->capped) t = tanh_of(b, gen_fmul(b, t, gen_f32(b, m->scale)));
    x->s[i] = attend_exp2(b, gen_fma(b, t, factor, gen_fneg(b, x->lse[i])));
    if (!x->slopes) continue;
    x->slopes[i] = gen_fmul(b, x->s[i], gen_fsub(b, x->slopes[i], x->dot[i]));
    if (m->capped) x->slopes[i] = gen_fmul(b, x->slopes[i], gen_fma(b, gen_fneg(b, t), t, gen_f32(b, 1)));
  }
}

/* --- expressions --- */

static arke_status evaluate(warps_emitter *e, const ir_expr *x, gen_value *value, arke_error *err) {
  gen_value v[LANES_MAX];
  int n;
  TRY(lanes_load(e->l, x, err));
  TRY(lanes_eval(e->l, x, v, &n, err));
  *value = gen_type_of(e->b, v[0]) == GEN_F32 || gen_type_of(e->b, v[0]) == GEN_I1
               ? v[0]
               : gen_float_cast(e->b, v[0], GEN_F32);
  return ARKE_OK;
}

static arke_status find_condition(warps_emitter *e, gen_value *holds, arke_error *err) {
  const attention_bounds *seen = &e->m->seen[e->p->side];
  *holds = NULL;
  for (int i = 0; i < seen->n_conditions; i++) {
    gen_value v;
    TRY(evaluate(e, seen->conditions[i], &v, err));
    *holds = *holds ? gen_and(e->b, *holds, v) : v;
  }
  return ARKE_OK;
}

/* What conditions say is in holds[], NULL where there are none. Where no row meets a column, the nearest one
 * that some row meets is looked at. */
static arke_status weigh_each(scored *x, gen_value *holds, arke_error *err) {
  warps_emitter *e = x->e;
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  gen_value last = gen_add_imm(b, e->below, -1);
  lanes_forget(e->l);
  warps_set_batch(e, e->l, BACKWARD_QUERIES, warps_walk_head(e, x->w));
  for (int r = 0; r < WARPS_ROWS; r++) {
    lanes_set(e->l, warps_row_loop(e), warps_index(e, e->row[r]));
    for (int i = 0; i < x->n; i++) {
      if (row_of(i) != r) continue;
      gen_value column = gen_add_imm(b, x->first, column_of(i));
      column = gen_smin(b, gen_smax(b, column, e->from), last);
      lanes_set(e->l, warps_column_loop(e), warps_index(e, column));
      e->product = x->s[i];
      e->slope = x->slopes ? x->slopes[i] : NULL;
      e->lse = x->lse[i];
      e->dot = x->dot[i];
      TRY(find_condition(e, &holds[i], err));
      if (warps_are_known(m)) continue;
      TRY(evaluate(e, m->weight, &x->s[i], err));
      if (x->slopes) TRY(evaluate(e, m->gradient, &x->slopes[i], err));
    }
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

/* --- which are met --- */

static bool has_lower(const attention_bounds *seen) {
  for (int i = 0; i < seen->n; i++)
    if (!seen->list[i].upper) return true;
  return false;
}

static void mask(const scored *x, gen_value *const holds, gen_value *s, gen_value *slopes) {
  warps_emitter *e = x->e;
  gen_builder *b = e->b;
  gen_value none = gen_f32(b, 0);
  for (int r = 0; r < WARPS_ROWS; r++) {
    gen_value below = gen_sub(b, e->row_below[r], x->first), from = gen_sub(b, e->row_from[r], x->first);
    for (int i = 0; i < x->n; i++) {
      if (row_of(i) != r) continue;
      gen_value met = gen_compare_imm(b, GEN_SGT, below, column_of(i));
      if (has_lower(&e->m->seen[e->p->side]))
        met = gen_and(b, met, gen_compare_imm(b, GEN_SLE, from, column_of(i)));
      if (holds && holds[i]) met = gen_and(b, met, holds[i]);
      s[i] = gen_select(b, met, s[i], none);
      if (slopes) slopes[i] = gen_select(b, met, slopes[i], none);
    }
  }
}

/* Most steps are met by all rows. */
static void mask_where_needed(scored *x, gen_value column) {
  warps_emitter *e = x->e;
  gen_builder *b = e->b;
  gen_branch edge;
  gen_value carried[2 * WARPS_MOST_SCORES], end = gen_add_imm(b, column, e->p->block_columns);
  int n = x->slopes ? 2 * x->n : x->n;
  for (int i = 0; i < n; i++) carried[i] = i < x->n ? x->s[i] : x->slopes[i - x->n];
  gen_value over = gen_compare(b, GEN_SGT, end, e->all_below);
  if (has_lower(&e->m->seen[e->p->side]))
    over = gen_or(b, over, gen_compare(b, GEN_SLT, column, e->all_from));
  gen_if(b, &edge, over, carried, n);
  mask(x, NULL, carried, x->slopes ? carried + x->n : NULL);
  gen_if_end(b, &edge);
  for (int i = 0; i < n; i++) *(i < x->n ? &x->s[i] : &x->slopes[i - x->n]) = carried[i];
}

arke_status warps_scores(warps_emitter *e, const warps_walk *w, gen_value stage, gen_value *s,
                         gen_value *slopes, arke_error *err) {
  gen_builder *b = e->b;
  gen_value column = gen_mul_imm(b, w->step, e->p->block_columns);
  gen_value in = gen_mul_imm(b, gen_and(b, e->lane, gen_i32(b, 3)), 2), holds[WARPS_MOST_SCORES];
  scored x = {.e = e,
              .w = w,
              .n = e->p->block_columns / 2,
              .s = s,
              .slopes = slopes,
              .first = gen_add(b, column, in)};
  bool conditions = e->m->seen[e->p->side].n_conditions > 0;
  find_statistics(&x, stage);
  if (!warps_are_known(e->m) || conditions) TRY(weigh_each(&x, holds, err));
  if (warps_are_known(e->m)) weigh(&x);
  if (conditions)
    mask(&x, holds, s, slopes);
  else
    mask_where_needed(&x, column);
  return ARKE_OK;
}
