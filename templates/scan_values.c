/* Arithmetic of prefixes: combining, nothing's value, and the scan over the lanes of a warp. */
#include "generator/gen_warp.h"
#include "templates/reduction.h"
#include "templates/scan.h"

gen_value scan_to_type(gen_builder *b, gen_value v, gen_type type) {
  gen_type from = gen_type_of(b, v);
  if (from == type) return v;
  if (gen_is_float(b, v)) return gen_float_cast(b, v, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, v, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, v, type);
  return type == GEN_I64 ? gen_sext(b, v, type) : gen_trunc(b, v, type);
}

gen_value scan_identity(gen_builder *b, ir_reduction op, gen_type type) {
  gen_value state[REDUCTION_VALUES];
  reduction_start(b, &(reduction){.kind = op, .type = type}, state);
  return state[0];
}

gen_value scan_combine(gen_builder *b, ir_reduction op, gen_value x, gen_value y) {
  reduction_combine(b, &(reduction){.kind = op, .type = gen_type_of(b, x)}, &x, &y);
  return x;
}

scan_values scan_identities(gen_builder *b, const scan_match *m) {
  scan_values v = {{NULL}};
  for (int i = 0; i < m->n_terms; i++) v.v[i] = scan_identity(b, m->terms[i].op, m->terms[i].type);
  return v;
}

scan_values scan_combine_all(gen_builder *b, const scan_match *m, scan_values x, scan_values y) {
  for (int i = 0; i < m->n_terms; i++) {
    if (!x.v[i]) {
      x.v[i] = y.v[i]; /* nothing yet */
    } else if (y.v[i]) {
      x.v[i] = scan_combine(b, m->terms[i].op, x.v[i], y.v[i]);
    }
  }
  return x;
}

void scan_warp(gen_builder *b, const scan_match *m, int width, bool down, scan_values v, scan_values *before,
               scan_values *all) {
  gen_value lane = gen_laneid(b);
  if (width < 32) lane = gen_and(b, lane, gen_i32(b, width - 1));
  for (int i = 0; i < m->n_terms; i++) {
    ir_reduction op = m->terms[i].op;
    gen_value x = v.v[i];
    for (int d = 1; d < width; d *= 2) {
      gen_value distance = gen_i32(b, d);
      gen_value y = down ? gen_shuffle_down(b, x, distance, width) : gen_shuffle_up(b, x, distance, width);
      gen_value has =
          down ? gen_compare_imm(b, GEN_ULT, lane, width - d) : gen_compare_imm(b, GEN_UGE, lane, d);
      x = gen_select(b, has, scan_combine(b, op, y, x), x);
    }
    if (all) all->v[i] = gen_shuffle_idx(b, x, gen_i32(b, down ? 0 : width - 1), width);
    if (!before) continue;
    gen_value one = gen_i32(b, 1);
    gen_value y = down ? gen_shuffle_down(b, x, one, width) : gen_shuffle_up(b, x, one, width);
    gen_value first = gen_compare_imm(b, GEN_EQ, lane, down ? width - 1 : 0);
    before->v[i] = gen_select(b, first, scan_identity(b, op, m->terms[i].type), y);
  }
}
