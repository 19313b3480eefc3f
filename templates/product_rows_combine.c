#include "templates/product_rows_combine.h"

#include "generator/gen_barrier.h"
#include "generator/gen_control.h"

#define STAGE "generate"

enum { THREADS = 256 };

typedef struct combine_kernel {
  const product_rows_layout *layout;
  arena *a;
  lanes_args slots;
  int rows, items, tiles, parts;
  int extents[IR_FORM_LOOPS];
} combine_kernel;

/* A kernel in the making. */
typedef struct combiner {
  gen_builder *b;
  const combine_kernel *k;
  const contraction *c;
  gen_value lane, matrix, row; /* matrix NULL: there is one */
  product_row all;
} combiner;

const recipe_expr *product_rows_tiles(const product_rows_layout *layout, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV, contraction_extent_recipe(layout->c, &layout->c->n, a),
                       recipe_const(a, layout->block));
}

static const recipe_expr *all_rows(const product_rows_layout *layout, arena *a) {
  return recipe_binary(a, RECIPE_MUL, contraction_extent_recipe(layout->c, &layout->matrices, a),
                       contraction_extent_recipe(layout->c, &layout->rows, a));
}

const recipe_expr *product_rows_bytes(const product_rows_layout *layout, arena *a) {
  const recipe_expr *parts = recipe_binary(a, RECIPE_MUL, all_rows(layout, a), product_rows_tiles(layout, a));
  return recipe_binary(a, RECIPE_MUL, parts, recipe_const(a, product_row_bytes(layout->c)));
}

static gen_value as_i64(gen_builder *b, gen_value x) {
  return gen_type_of(b, x) == GEN_I64 ? x : gen_zext(b, x, GEN_I64);
}

gen_value product_rows_address(gen_builder *b, const contraction *c, gen_value parts, gen_value matrix,
                               gen_value rows, gen_value row, gen_value tiles, gen_value tile) {
  gen_value at = as_i64(b, row);
  if (matrix) at = gen_add(b, gen_mul(b, as_i64(b, matrix), as_i64(b, rows)), at);
  at = gen_add(b, gen_mul(b, at, as_i64(b, tiles)), as_i64(b, tile));
  return gen_add(b, parts, gen_mul_imm(b, at, product_row_bytes(c)));
}

/* --- in the kernel --- */

static product_row combine_tiles(const combiner *x) {
  gen_builder *b = x->b;
  const contraction *c = x->c;
  gen_value carried[1 + PRODUCT_ROW_VALUES] = {x->lane}, tiles = gen_param(b, x->k->tiles);
  product_row row = product_row_start(b, c);
  int n = product_row_pack(b, c, &row, carried + 1);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], tiles));
  gen_value at = product_rows_address(b, c, gen_param(b, x->k->parts), x->matrix, gen_param(b, x->k->rows),
                                      x->row, tiles, carried[0]);
  product_row part = product_row_load(b, c, at, false);
  row = product_row_unpack(b, c, carried + 1);
  product_row_combine(b, c, &row, &part);
  product_row_pack(b, c, &row, carried + 1);
  carried[0] = gen_add_imm(b, carried[0], 32);
  gen_loop_end(b, &loop);
  row = product_row_unpack(b, c, carried + 1);
  product_row_combine_lanes(b, c, &row, 32);
  return row;
}

static void set_loops(const combiner *x, lanes *l, const contraction_loops *loops, gen_value at) {
  gen_builder *b = x->b;
  for (int i = loops->n - 1; i >= 0; i--) {
    gen_value extent = i > 0 ? gen_param(b, x->k->extents[loops->loops[i]]) : NULL;
    lanes_set(l, loops->loops[i], i > 0 ? gen_urem(b, at, extent) : at);
    if (i > 0) at = gen_udiv(b, at, extent);
  }
}

static arke_status result(void *user, const ir_expr *e, gen_value *values, arke_error *err) {
  const combiner *x = user;
  if (product_row_value(x->c, &x->all, x->b, e, &values[0])) return ARKE_OK;
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a reduction that is none of the rows'");
}

static arke_status store_outputs(combiner *x, arke_error *err) {
  gen_builder *b = x->b;
  const ir_form *form = &x->c->form;
  lanes_options o = x->k->layout->options;
  lanes *l;
  o.user = x;
  o.reduce = result;
  TRY(lanes_create(b, form, &o, &x->k->slots, x->k->a, &l, err));
  if (x->matrix) set_loops(x, l, &x->k->layout->matrices, x->matrix);
  set_loops(x, l, &x->k->layout->rows, x->row);
  gen_value first = gen_compare_imm(b, GEN_EQ, x->lane, 0);
  for (int i = 0; i < form->n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, form->outputs[i].value, values, &n, err));
    TRY(lanes_store(l, i, values, n, first, err));
  }
  return ARKE_OK;
}

static arke_status emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const combine_kernel *k = user;
  bool wide = k->layout->options.wide_offsets;
  combiner *x = ARENA_NEW(k->a, combiner);
  if (!x) return error_memory(err, STAGE);
  gen_launches_release(b);
  *x = (combiner){.b = b, .k = k, .c = k->layout->c, .lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31))};
  gen_value item = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS / 32), gen_warp_index(b));
  if (wide) item = gen_zext(b, item, GEN_I64);
  gen_branch branch;
  gen_if(b, &branch, gen_compare(b, GEN_ULT, item, gen_param(b, k->items)), NULL, 0);
  gen_launches_wait(b);
  x->row = item;
  if (k->layout->matrices.n > 0) {
    x->row = gen_urem(b, item, gen_param(b, k->rows));
    x->matrix = gen_udiv(b, item, gen_param(b, k->rows));
  }
  x->all = combine_tiles(x);
  TRY(store_outputs(x, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}

/* --- its launch --- */

static int index_arg(const product_rows_layout *layout, kernel_args *args, const recipe_expr *e) {
  return layout->options.wide_offsets ? kernel_args_i64(args, e) : kernel_args_i32(args, e);
}

arke_status product_rows_make_combine(const product_rows_layout *layout, const char *name, arena *a,
                                      kernel_launch *l, arke_error *err) {
  const contraction *c = layout->c;
  combine_kernel *k = ARENA_NEW(a, combine_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (combine_kernel){.layout = layout, .a = a};
  *l = (kernel_launch){
      .name = name, .threads = THREADS, .early_start = true, .args = {.a = a}, .emit = emit, .user = k};
  lanes_declare(&c->form, &layout->options, &l->args, &k->slots);
  k->rows = index_arg(layout, &l->args, contraction_extent_recipe(c, &layout->rows, a));
  k->items = index_arg(layout, &l->args, all_rows(layout, a));
  k->tiles = kernel_args_i32(&l->args, product_rows_tiles(layout, a));
  k->parts = kernel_args_workspace(&l->args, recipe_const(a, 0));
  for (int i = 0; i < c->form.n_loops; i++)
    k->extents[i] = index_arg(layout, &l->args, kernel_extent(&c->form, i, a));
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, all_rows(layout, a), recipe_const(a, THREADS / 32));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}
