#include "templates/product_rows.h"

#include <math.h>

#include "generator/gen_warp.h"

/* --- types --- */

static gen_type value_type(const contraction_row_reduction *r) {
  if (r->kind == IR_RED_ANY || r->kind == IR_RED_ALL) return GEN_I1;
  switch (r->type) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_I64: return GEN_I64;
  default: return GEN_I32;
  }
}

static reduction reduction_of(const contraction_row_reduction *r) {
  return (reduction){.kind = r->kind, .type = value_type(r), .position = GEN_I32};
}

/* Values of a part in memory and between lanes: I1 as I32. */
static gen_type kept_type(const reduction *r, int i) {
  gen_type t = reduction_type(r, i);
  return t == GEN_I1 ? GEN_I32 : t;
}

static int bytes_of(gen_type t) {
  return t == GEN_F64 || t == GEN_I64 ? 8 : 4;
}

static gen_value as_kept(gen_builder *b, gen_value x) {
  return gen_type_of(b, x) == GEN_I1 ? gen_zext(b, x, GEN_I32) : x;
}

static gen_value from_kept(gen_builder *b, const reduction *r, int i, gen_value x) {
  return reduction_type(r, i) == GEN_I1 ? gen_compare_imm(b, GEN_NE, x, 0) : x;
}

static gen_value as_value(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (type == GEN_I1)
    return gen_is_float(b, x) ? gen_compare(b, GEN_NE, x, gen_f32(b, 0)) : gen_compare_imm(b, GEN_NE, x, 0);
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, x, type);
  return from == GEN_I64 ? gen_trunc(b, x, type) : gen_sext(b, x, type);
}

void product_row_require_whole(const contraction *c, int columns, recipe *rules, arena *a) {
  const recipe_expr *n = contraction_extent_recipe(c, &c->n, a);
  kernel_require(rules, a, n, 0, columns, "a tile must have whole rows");
  kernel_require(rules, a, recipe_binary(a, RECIPE_SUB, recipe_const(a, 1), n), 0, 0,
                 "rows that are reduced must have columns");
}

product_row product_row_start(gen_builder *b, const contraction *c) {
  product_row row;
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    reduction_start(b, &r, row.values[i]);
  }
  return row;
}

/* --- sums that follow their maximum --- */

static gen_value exponential(gen_builder *b, const contraction_row_reduction *r, gen_value x) {
  gen_value value = x;
  arke_error err = ARKE_ERROR_INIT;
  if (gen_math_to(b, (ir_function)r->exponential->id, GEN_ACCURACY_TERM, &x, &value, &err) != ARKE_OK)
    gen_misuse(b, "%s", err.text);
  return value;
}

/* A sum of exponentials of what is less by `before`, of what is less by `most`. -inf, the maximum of nothing,
 * less itself is NaN: as long as all elements are -inf so is their sum (which is right if that stays so), and
 * it starts again at 0 with the first larger one. */
static gen_value rescale(gen_builder *b, const contraction_row_reduction *r, gen_value sum, gen_value before,
                         gen_value most) {
  gen_value factor = exponential(b, r, gen_fsub(b, before, most));
  gen_value same = gen_compare(b, GEN_EQ, before, most);
  gen_value nothing = gen_compare(b, GEN_EQ, before, gen_f32(b, -INFINITY));
  gen_value changed = gen_select(b, nothing, gen_f32(b, 0), gen_fmul(b, sum, factor));
  return gen_select(b, same, sum, changed);
}

void product_row_combine(gen_builder *b, const contraction *c, product_row *into, const product_row *from) {
  product_row before = *into;
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    if (c->rows.list[i].maximum < 0) reduction_combine(b, &r, into->values[i], from->values[i]);
  }
  for (int i = 0; i < c->rows.n; i++) {
    const contraction_row_reduction *r = &c->rows.list[i];
    if (r->maximum < 0) continue;
    gen_value most = into->values[r->maximum][0];
    gen_value ours = rescale(b, r, into->values[i][0], before.values[r->maximum][0], most);
    gen_value theirs = rescale(b, r, from->values[i][0], from->values[r->maximum][0], most);
    into->values[i][0] = gen_fadd(b, ours, theirs);
  }
}

/* --- between lanes --- */

typedef struct exchange {
  const contraction *c;
  bool follow; /* the sums that follow, whose lanes have one maximum; else all others */
  bool whole;  /* all, of parts with maxima of their own */
} exchange;

static int first_value(const contraction *c, int reduction_number) {
  int n = 0;
  for (int i = 0; i < reduction_number; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    n += reduction_values(&r);
  }
  return n;
}

product_row product_row_unpack(gen_builder *b, const contraction *c, const gen_value *values) {
  product_row row;
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    for (int k = 0; k < reduction_values(&r); k++)
      row.values[i][k] = from_kept(b, &r, k, values[first_value(c, i) + k]);
  }
  return row;
}

int product_row_pack(gen_builder *b, const contraction *c, const product_row *row, gen_value *values) {
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    for (int k = 0; k < reduction_values(&r); k++)
      values[first_value(c, i) + k] = as_kept(b, row->values[i][k]);
  }
  return first_value(c, c->rows.n);
}

static void combine_values(gen_builder *b, void *user, gen_value *into, const gen_value *from, int n) {
  const exchange *x = user;
  product_row ours = product_row_unpack(b, x->c, into), theirs = product_row_unpack(b, x->c, from);
  (void)n;
  if (x->whole) product_row_combine(b, x->c, &ours, &theirs);
  for (int i = 0; i < x->c->rows.n && !x->whole; i++) {
    reduction r = reduction_of(&x->c->rows.list[i]);
    if ((x->c->rows.list[i].maximum >= 0) == x->follow)
      reduction_combine(b, &r, ours.values[i], theirs.values[i]);
  }
  product_row_pack(b, x->c, &ours, into);
}

static void exchange_lanes(gen_builder *b, exchange *x, product_row *row, int sharers) {
  gen_value values[PRODUCT_ROW_VALUES];
  if (sharers == 1) return;
  int n = product_row_pack(b, x->c, row, values);
  gen_warp_reduce(b, values, n, sharers, combine_values, x);
  *row = product_row_unpack(b, x->c, values);
}

void product_row_combine_lanes(gen_builder *b, const contraction *c, product_row *row, int sharers) {
  exchange x = {.c = c, .whole = true};
  exchange_lanes(b, &x, row, sharers);
}

/* --- a tile's columns --- */

/* Whether column i of a run counts; NULL: it does. */
static arke_status counts(gen_builder *b, const contraction_row_reduction *r, const product_run *run,
                          int width, gen_value *takes, arke_error *err) {
  gen_value holds[LANES_MAX];
  int n = 1;
  for (int i = 0; i < width; i++) takes[i] = run->active;
  if (r->e->n_args < 2) return ARKE_OK;
  TRY(lanes_eval(run->l, r->e->args[1], holds, &n, err));
  for (int i = 0; i < width; i++) {
    gen_value own = as_value(b, holds[n == 1 ? 0 : i], GEN_I1);
    takes[i] = takes[i] ? gen_and(b, takes[i], own) : own;
  }
  return ARKE_OK;
}

static arke_status take(gen_builder *b, const contraction *c, int number, const product_run *run, int width,
                        product_row *row, arke_error *err) {
  const contraction_row_reduction *r = &c->rows.list[number];
  reduction kind = reduction_of(r);
  gen_value takes[LANES_MAX], values[LANES_MAX];
  int n;
  TRY(counts(b, r, run, width, takes, err));
  TRY(lanes_eval(run->l, r->maximum < 0 ? r->e->args[0] : r->exponent, values, &n, err));
  for (int i = 0; i < width; i++) {
    gen_value x = as_value(b, values[n == 1 ? 0 : i], kind.type);
    if (r->maximum >= 0) x = exponential(b, r, gen_fsub(b, x, row->values[r->maximum][0]));
    reduction_take(b, &kind, row->values[number], x, gen_add_imm(b, run->column, i), takes[i]);
  }
  return ARKE_OK;
}

arke_status product_row_reduce(gen_builder *b, const contraction *c, const product_run *runs, int n,
                               int width, int sharers, product_row *row, arke_error *err) {
  for (int follow = 0; follow < 2; follow++) {
    exchange x = {.c = c, .follow = follow};
    bool any = false;
    for (int i = 0; i < c->rows.n; i++) {
      if ((c->rows.list[i].maximum >= 0) != (bool)follow) continue;
      any = true;
      for (int k = 0; k < n; k++) TRY(take(b, c, i, &runs[k], width, row, err));
    }
    if (any) exchange_lanes(b, &x, row, sharers);
  }
  return ARKE_OK;
}

bool product_row_value(const contraction *c, const product_row *row, gen_builder *b, const ir_expr *e,
                       gen_value *value) {
  int i = contraction_row_of(&c->rows, e);
  if (i < 0) return false;
  reduction r = reduction_of(&c->rows.list[i]);
  *value = reduction_result(&r, row->values[i]);
  if (reduction_values(&r) > 1) *value = gen_sext(b, *value, GEN_I64);
  return true;
}

/* --- in memory --- */

/* Byte offset of value k of reduction i: those of 8 bytes first. */
static int offset_of(const contraction *c, int i, int k) {
  int offset = 0, own = 0;
  for (int size = 8; size >= 4; size -= 4) {
    for (int j = 0; j < c->rows.n; j++) {
      reduction r = reduction_of(&c->rows.list[j]);
      for (int v = 0; v < reduction_values(&r); v++) {
        if (bytes_of(kept_type(&r, v)) != size) continue;
        if (j == i && v == k) own = offset;
        offset += size;
      }
    }
  }
  return i < 0 ? offset : own;
}

int product_row_bytes(const contraction *c) {
  int bytes = offset_of(c, -1, 0);
  bool wide = false;
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    wide = wide || bytes_of(kept_type(&r, 0)) == 8;
  }
  return wide ? (bytes + 7) / 8 * 8 : bytes;
}

void product_row_store(gen_builder *b, const contraction *c, const product_row *row, gen_value address,
                       bool shared) {
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    for (int k = 0; k < reduction_values(&r); k++) {
      gen_value to = gen_add_imm(b, address, offset_of(c, i, k)), v = as_kept(b, row->values[i][k]);
      if (shared) {
        gen_store_shared(b, v, to);
      } else {
        gen_store_global(b, v, to);
      }
    }
  }
}

product_row product_row_load(gen_builder *b, const contraction *c, gen_value address, bool shared) {
  product_row row;
  for (int i = 0; i < c->rows.n; i++) {
    reduction r = reduction_of(&c->rows.list[i]);
    for (int k = 0; k < reduction_values(&r); k++) {
      gen_value from = gen_add_imm(b, address, offset_of(c, i, k));
      gen_type t = kept_type(&r, k);
      gen_value v = shared ? gen_load_shared(b, t, 1, from) : gen_load_global(b, t, 1, from, false);
      row.values[i][k] = from_kept(b, &r, k, v);
    }
  }
  return row;
}
