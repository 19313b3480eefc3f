/* The kernels that add up the parts of dK or dV, in the order of the heads, and evaluate the output; and the
 * one that evaluates dQ from the sums that the kernel of ONE has made. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "templates/backward_emit.h"

enum { THREADS = 256, WIDTH = 4, MOST_PARTS = 16 };

typedef struct combine_kernel {
  const backward_plan *plan;
  const backward_pass *p;
  arena *a;
  int which, columns;                         /* of the pass's outputs; its columns */
  int partials, items, rows, padded, batches; /* pointer; i32 */
  int extents[IR_FORM_LOOPS];
  lanes_options options;
  lanes_args slots;
} combine_kernel;

typedef struct combiner {
  const backward_match *m;
  gen_value sums[WIDTH];
} combiner;

static const recipe_expr *times(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

const recipe_expr *backward_batches(const backward_plan *plan, int side, arena *a) {
  const contraction_loops *batch = &plan->match->batch[side];
  const recipe_expr *n = recipe_const(a, 1);
  for (int i = 0; i < batch->n; i++) n = times(a, n, kernel_extent(&plan->match->form, batch->loops[i], a));
  return n;
}

const recipe_expr *backward_padded_rows(const backward_plan *plan, const backward_pass *p, arena *a) {
  const recipe_expr *rows = kernel_extent(&plan->match->form, backward_row_loop(plan->match, p->side), a);
  const recipe_expr *each = recipe_const(a, p->block_rows);
  return times(a, recipe_binary(a, RECIPE_CEILDIV, rows, each), each);
}

static int columns_of(const backward_plan *plan, int which) {
  return (int)ir_form_extent(&plan->match->form, backward_width_loop(plan->match, which));
}

const recipe_expr *backward_partial_bytes(const backward_plan *plan, const backward_pass *p, int which,
                                          arena *a) {
  const recipe_expr *rows = times(a, backward_batches(plan, p->side, a), backward_padded_rows(plan, p, a));
  return times(a, rows, recipe_const(a, (int64_t)plan->split * columns_of(plan, which) * 4));
}

static arke_status sum_of(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  const combiner *c = user;
  for (int i = 0; i < 3; i++)
    if (x == c->m->sums[i]) {
      for (int k = 0; k < WIDTH; k++) values[k] = c->sums[k];
      return ARKE_OK;
    }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the gradients' template has not");
}

/* Four columns of a row of dQ, which groups have sent in the order that their threads have them
 * (backward_update_send): of two neighbouring threads half of 16 bytes each. */
static void load_queries(gen_builder *b, const combine_kernel *k, gen_value batch, gen_value row,
                         gen_value column, gen_value *sums) {
  int width = k->columns / k->plan->passes[1].consumers;
  gen_value first = gen_add(b, gen_mul(b, batch, gen_param(b, k->padded)), gen_and(b, row, gen_i32(b, ~63)));
  gen_value group = gen_udiv(b, column, gen_i32(b, width));
  gen_value within = gen_sub(b, column, gen_mul_imm(b, group, width));
  gen_value warp = gen_and(b, gen_lshr(b, row, gen_i32(b, 4)), gen_i32(b, 3));
  gen_value thread = gen_add(b, gen_mul_imm(b, warp, 32), gen_mul_imm(b, gen_and(b, row, gen_i32(b, 7)), 4));
  thread = gen_add(b, thread, gen_and(b, gen_lshr(b, within, gen_i32(b, 1)), gen_i32(b, 2)));
  gen_value i = gen_mul_imm(b, gen_lshr(b, within, gen_i32(b, 4)), 2);
  i = gen_add(b, i, gen_and(b, gen_lshr(b, row, gen_i32(b, 3)), gen_i32(b, 1)));
  gen_value at = gen_mul_imm(b, gen_add(b, gen_mul_imm(b, i, 128), thread), 16);
  at = gen_add(b, at, gen_and(b, within, gen_i32(b, 8))); /* bytes, for 8 columns are 2 floats there */
  at = gen_add(b, at, gen_mul_imm(b, group, 64 * (int64_t)width * 4));
  gen_value from = gen_mul_imm(b, gen_zext(b, first, GEN_I64), (int64_t)k->columns * 4);
  from = gen_add(b, gen_add(b, gen_param(b, k->partials), from), gen_zext(b, at, GEN_I64));
  for (int half = 0; half < 2; half++) {
    gen_value pair = gen_load_global(b, GEN_F32, 2, gen_add_imm(b, from, 16 * (int64_t)half), true);
    for (int v = 0; v < 2; v++) sums[2 * half + v] = gen_lane(b, pair, v);
  }
}

/* Of all parts, in their order. */
static void load_parts(gen_builder *b, const combine_kernel *k, gen_value batch, gen_value row,
                       gen_value column, gen_value *sums) {
  gen_value parts[MOST_PARTS];
  for (int i = 0; i < k->plan->split; i++)
    parts[i] = gen_load_global(b, GEN_F32, WIDTH,
                               backward_partial(b, gen_param(b, k->partials), gen_i32(b, i),
                                                gen_param(b, k->batches), batch, gen_param(b, k->padded), row,
                                                k->columns, column),
                               true);
  for (int i = 0; i < k->plan->split; i++)
    for (int v = 0; v < WIDTH; v++) {
      gen_value x = gen_lane(b, parts[i], v);
      sums[v] = i == 0 ? x : gen_fadd(b, sums[v], x);
    }
}

static arke_status combine(gen_builder *b, const combine_kernel *k, gen_value item, arke_error *err) {
  const backward_match *m = k->plan->match;
  const contraction_loops *batch = &m->batch[k->p->side];
  int runs = k->columns / WIDTH, n;
  gen_value column = gen_mul_imm(b, gen_urem(b, item, gen_i32(b, runs)), WIDTH);
  gen_value row = gen_udiv(b, item, gen_i32(b, runs)), rows = gen_param(b, k->rows);
  gen_value number = gen_udiv(b, row, rows), values[LANES_MAX];
  row = gen_urem(b, row, rows);
  combiner c = {.m = m};
  (k->p->side == BACKWARD_QUERIES ? load_queries : load_parts)(b, k, number, row, column, c.sums);
  lanes_options o = k->options;
  lanes *l;
  o.user = &c;
  o.reduce = sum_of;
  TRY(lanes_create(b, &m->form, &o, &k->slots, k->a, &l, err));
  bool wide = k->plan->wide_offsets;
  for (int i = batch->n - 1; i >= 0; i--) {
    gen_value value = number;
    if (i > 0) {
      gen_value extent = gen_param(b, k->extents[batch->loops[i]]);
      value = gen_urem(b, number, extent);
      number = gen_udiv(b, number, extent);
    }
    lanes_set(l, batch->loops[i], wide ? gen_sext(b, value, GEN_I64) : value);
  }
  lanes_set(l, backward_row_loop(m, k->p->side), wide ? gen_sext(b, row, GEN_I64) : row);
  lanes_set(l, backward_width_loop(m, k->which), wide ? gen_sext(b, column, GEN_I64) : column);
  const ir_expr *value = m->form.outputs[k->p->output[k->which]].value;
  TRY(lanes_load(l, value, err));
  TRY(lanes_eval(l, value, values, &n, err));
  return lanes_store(l, k->p->output[k->which], values, n, NULL, err);
}

static arke_status emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const combine_kernel *k = user;
  gen_branch branch;
  gen_launches_release(b);
  gen_value item = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS), gen_tid_x(b));
  gen_if(b, &branch, gen_compare(b, GEN_ULT, item, gen_param(b, k->items)), NULL, 0);
  gen_launches_wait(b);
  TRY(combine(b, k, item, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}

arke_status backward_make_combine(const backward_plan *plan, const backward_pass *p, int which,
                                  const recipe_expr *partials, arena *a, kernel_launch *l, arke_error *err) {
  static const char *const names[] = {"backward_combine_queries", "backward_combine_keys",
                                      "backward_combine_values"};
  const backward_match *m = plan->match;
  combine_kernel *k = ARENA_NEW(a, combine_kernel);
  if (!k) return error_memory(err, "generate");
  int number = p->side == BACKWARD_QUERIES ? 0 : 1 + which;
  *k = (combine_kernel){.plan = plan, .p = p, .a = a, .which = which, .columns = columns_of(plan, which)};
  *l = (kernel_launch){.name = names[number],
                       .threads = THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = emit,
                       .user = k};
  k->options = plan->epilogue[number];
  k->options.width = WIDTH;
  k->options.wide = lanes_wide(&m->form, &k->options);
  const recipe_expr *rows = kernel_extent(&m->form, backward_row_loop(m, p->side), a);
  const recipe_expr *batches = backward_batches(plan, p->side, a);
  const recipe_expr *items = times(a, times(a, batches, rows), recipe_const(a, k->columns / WIDTH));
  k->partials = kernel_args_workspace(&l->args, partials);
  k->items = kernel_args_i32(&l->args, items);
  k->rows = kernel_args_i32(&l->args, rows);
  k->padded = kernel_args_i32(&l->args, backward_padded_rows(plan, p, a));
  k->batches = kernel_args_i32(&l->args, batches);
  for (int i = 0; i < m->form.n_loops; i++)
    k->extents[i] = kernel_args_i32(&l->args, kernel_extent(&m->form, i, a));
  lanes_declare(&m->form, &k->options, &l->args, &k->slots);
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, items, recipe_const(a, THREADS));
  return l->grid[0] ? ARKE_OK : error_memory(err, "generate");
}
