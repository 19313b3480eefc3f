/* Which scatters stay in their row, and the way that takes them so. */
#include "templates/scatter_rows.h"

#include <math.h>

#define STAGE "generate"

/* --- what fits --- */

static bool same_range(const ir_loop *x, const ir_loop *y) {
  if (x->leading != y->leading || x->n_dims != y->n_dims) return false;
  for (int i = 0; i < x->n_dims; i++) {
    if (!ir_dim_equal(x->dims[i], y->dims[i])) return false;
  }
  return true;
}

/* The loops that both accesses have alone in all subscripts but the last. */
static bool match_rows(scatter_rows_match *r) {
  const ir_access *x = &r->first.accesses[r->first_access], *y = &r->then->accesses[r->then_access];
  unsigned seen = 0;
  if (x->n != y->n || x->n < 1 || x->subscripts[x->n - 1].leading) return false;
  for (int s = 0; s < x->n - 1; s++) {
    const ir_expr *first = x->subscripts[s].e, *then = y->subscripts[s].e;
    if (first->node != IR_INDEX || then->node != IR_INDEX || seen >> then->id & 1) return false;
    if (!same_range(&r->first.loops[first->id], &r->then->loops[then->id])) return false;
    seen |= 1u << then->id;
    r->row_first[r->n_rows] = first->id;
    r->row_then[r->n_rows++] = then->id;
  }
  return true;
}

/* What comes first is a whole row: the loop along it has the dimension's range. */
static bool match_along(scatter_rows_match *r) {
  const ir_access *x = &r->first.accesses[r->first_access];
  const ir_tensor *t = &r->first.problem->op->tensors[x->tensor];
  const ir_expr *e = x->subscripts[x->n - 1].e;
  if (e->node != IR_INDEX || t->rank < 1) return false;
  const ir_loop *l = &r->first.loops[e->id];
  const ir_dim *last = &t->dims[t->rank - 1];
  r->along = e->id;
  return !l->leading && l->n_dims == 1 && ir_dim_equal(l->dims[0], *last);
}

static bool match_update(scatter_rows_match *r) {
  switch (r->update) {
  case IR_ASSIGN: return r->in_order = true;
  case IR_ADD:
    r->in_order = r->type == DTYPE_I32;
    return r->in_order || r->type == DTYPE_F32 || r->type == DTYPE_F16 || r->type == DTYPE_BF16;
  default: return false;
  }
}

bool scatter_rows_match_make(const scatter_match *m, arena *a, scatter_rows_match *r) {
  const ir_expr *reduction;
  *r = (scatter_rows_match){0};
  if (!m->has_initial || m->n_parts != 1 || __builtin_popcountll(m->parts[0].outputs) != 1) return false;
  const scatter_part *part = &m->parts[0];
  r->then = &part->forms[0];
  r->output = __builtin_ctzll(part->outputs);
  const ir_form_output *out = &r->then->outputs[r->output];
  r->then_access = out->access;
  if (ir_form_make(&m->initial, a, &r->first, NULL) != ARKE_OK || r->first.n_outputs != 1) return false;
  r->first_access = r->first.outputs[0].access;
  int tensor = r->then->accesses[r->then_access].tensor;
  if (r->first.accesses[r->first_access].tensor != tensor) return false;
  if (r->first.problem->op->tensors[tensor].alias >= 0) return false;
  if (ir_form_reductions(&r->first, &reduction, 1) > 0 || r->first.n_accesses > 64) return false;
  r->type = ir_tensor_dtype(r->then->problem, tensor);
  r->update = out->update;
  r->value = out->value;
  if (!match_rows(r) || !match_along(r) || !match_update(r)) return false;
  const ir_access *y = &r->then->accesses[r->then_access];
  r->place = y->subscripts[y->n - 1].e;
  unsigned rows = 0;
  for (int i = 0; i < r->n_rows; i++) rows |= 1u << r->row_then[i];
  for (int l = 0; l < r->then->n_loops; l++) {
    if (part->loops[0] >> l & 1 && !(rows >> l & 1)) r->points[r->n_points++] = l;
  }
  return (part->loops[0] & rows) == rows && ir_form_extent(&r->first, r->along) > 0;
}

/* --- the plan --- */

enum { PAD = 16, WIDEST_BYTES = 16 };

static int64_t product(const ir_form *form, const int *loops, int n) {
  int64_t all = 1;
  for (int i = 0; i < n; i++) {
    int64_t extent = ir_form_extent(form, loops[i]);
    all = extent > 0 && all > INT64_MAX / extent ? INT64_MAX : all * extent;
  }
  return all;
}

static int64_t shared_bytes(const scatter_rows_plan *p) {
  int64_t n = ir_form_extent(&p->match->first, p->match->along);
  return (n + PAD - 1) / PAD * PAD * (p->slot_bytes + p->mark_bytes);
}

static int widest(const scatter_rows_match *r, int most) {
  lanes_options o = {.loop = r->along, .dense = true, .wide_offsets = true};
  uint64_t moving = 0;
  for (int i = 0; i < r->first.n_accesses; i++) {
    if (ir_form_motion(&r->first, i, r->along) == IR_MOTION_UNIT) moving |= UINT64_C(1) << i;
  }
  int bytes = dtype_bits(r->type) / 8;
  while (most > 1 && most * bytes > WIDEST_BYTES) most /= 2;
  for (o.width = most; o.width > 1; o.width /= 2) {
    if (ir_form_extent(&r->first, r->along) % o.width == 0 && (lanes_wide(&r->first, &o) & moving) == moving)
      return o.width;
  }
  return 1;
}

template_reason scatter_rows_plan_make(const scatter_rows_match *r, const target *t, const config *c,
                                       scatter_rows_plan *plan) {
  bool adds = r->update == IR_ADD;
  *plan = (scatter_rows_plan){.match = r,
                              .threads = c->values[SCATTER_THREADS],
                              .unroll = c->values[SCATTER_UNROLL],
                              .width = widest(r, c->values[SCATTER_VECTOR]),
                              .slot_bytes = adds ? 4 : dtype_bits(r->type) / 8,
                              .mark_bytes = adds ? 0 : 4};
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (plan->width * plan->unroll > 64) return TEMPLATE_REGISTERS;
  if (ir_form_extent(&r->first, r->along) > t->smem_per_block_bytes ||
      shared_bytes(plan) > t->smem_per_block_bytes)
    return TEMPLATE_SHARED_MEMORY;
  if (product(&r->first, r->row_first, r->n_rows) > INT32_MAX) return TEMPLATE_SIZE;
  int64_t points = product(r->then, r->points, r->n_points);
  return points < 1 || points > INT32_MAX / 2 ? TEMPLATE_SIZE : TEMPLATE_OK;
}

/* Fitted to trials on H200, timed after flushes of L2. A turn of a CTA's threads over updates, which wait for
 * indices, for one another and at barriers. */
static const double turn_ns = 1359;
/* Warp instructions of an element of the row, of a vector of them, and of an update. */
static const double element_instructions = 37, vector_instructions = 27, update_instructions = 44;
/* Bytes an SM must have under way to get its share of the memory's rate, and the most it can take at once. */
static const double bytes_in_flight = 10e3, most_share = 2.5;
/* Registers of a thread beside the vectors that it holds. */
static const double registers = 22, vector_registers = 4, loaded_share = 0.3;

double scatter_rows_cost_ns(const scatter_rows_plan *p, const target *t, const target_rates *rates) {
  const scatter_rows_match *r = p->match;
  double rows = (double)product(&r->first, r->row_first, r->n_rows);
  double points = (double)product(r->then, r->points, r->n_points);
  double n = (double)ir_form_extent(&r->first, r->along);
  double bytes = r->then->min_bytes + r->first.min_bytes;
  bytes -= rows * n * dtype_bits(r->type) / 8; /* written once */
  double turn = (double)p->threads * p->unroll, vector_bytes = p->width * dtype_bits(r->type) / 8.0;
  double held = registers + p->unroll * (vector_registers + loaded_share * vector_bytes / 4);
  double resident = fmin(floor(t->smem_per_block_bytes / ((double)shared_bytes(p) + 1024)),
                         floor((double)t->max_threads_per_sm / p->threads));
  resident = fmax(1, fmin(resident, floor(t->registers_per_sm / (held * p->threads))));
  double waves = fmax(1, rows / (rates->sm_count * resident));
  if (waves < 3) waves = (waves + ceil(waves)) / 2; /* the last of few is as long as a whole one */
  double busy = fmin(rows, rates->sm_count), per_sm = fmin(resident, fmax(1, rows / rates->sm_count));
  double turns = ceil(n / (p->width * turn)), updates = ceil(points / turn);
  double instructions = turns * p->unroll * (p->width * element_instructions + vector_instructions) +
                        updates * p->unroll * update_instructions;
  double issue = instructions * p->threads / 32 / 4 / rates->clock_hz * 1e9;
  double alone = updates * turn_ns + issue * per_sm;
  double flight = per_sm * fmin(n * dtype_bits(r->type) / 8, turn * vector_bytes);
  double rate = rates->dram_bytes_per_s / rates->sm_count * busy *
                fmin(busy < rates->sm_count ? most_share : 1, flight / bytes_in_flight * most_share);
  double memory = bytes / fmin(rate, rates->dram_bytes_per_s) * 1e9;
  double latency = waves * alone * (waves > 1 ? 0.8 : 1);
  return rates->launch_ns + cbrt(pow(memory, 3) + pow(latency, 3));
}

/* --- the way --- */

static const recipe_expr *extents(const ir_form *form, const int *loops, int n, arena *a) {
  const recipe_expr *e = recipe_const(a, 1);
  for (int i = 0; i < n; i++) e = recipe_binary(a, RECIPE_MUL, e, kernel_extent(form, loops[i], a));
  return e;
}

static void set_options(scatter_rows_kernel *k, const lower_options *o) {
  const scatter_rows_match *r = k->plan.match;
  lanes_options base = {.dense = true,
                        .wide_offsets = true,
                        .fast_math = o && o->fast_math,
                        .check_indices = o && o->check_indices};
  k->first_options = base;
  k->first_options.loop = r->along;
  k->first_options.width = k->plan.width;
  k->first_options.wide = lanes_wide(&r->first, &k->first_options);
  k->then_options = base;
  k->then_options.loop = -1;
  k->then_options.width = 1;
}

arke_status scatter_rows_way(const scatter_rows_plan *plan, const target *t, const lower_options *o, arena *a,
                             kernel_way *way, arke_error *err) {
  scatter_rows_kernel *k = ARENA_NEW(a, scatter_rows_kernel);
  kernel_launch *l = ARENA_NEW(a, kernel_launch);
  recipe *rules = ARENA_NEW(a, recipe);
  if (!k || !l || !rules) return error_memory(err, STAGE);
  *k = (scatter_rows_kernel){.plan = *plan, .a = a};
  const scatter_rows_match *r = plan->match;
  set_options(k, o);
  *l = (kernel_launch){.name = "scatter_in_rows",
                       .threads = plan->threads,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = scatter_rows_emit,
                       .user = k};
  lanes_declare(&r->first, &k->first_options, &l->args, &k->first_slots);
  lanes_declare(r->then, &k->then_options, &l->args, &k->then_slots);
  const recipe_expr *n = kernel_extent(&r->first, r->along, a), *pad = recipe_const(a, PAD);
  const recipe_expr *padded = recipe_binary(a, RECIPE_MUL, recipe_binary(a, RECIPE_CEILDIV, n, pad), pad);
  const recipe_expr *points = extents(r->then, r->points, r->n_points, a);
  k->elements = kernel_args_i32(&l->args, n);
  k->padded = kernel_args_i32(&l->args, padded);
  k->points = kernel_args_i32(&l->args, points);
  for (int i = 1; i < r->n_rows; i++)
    k->rows[i] = kernel_args_i32(&l->args, kernel_extent(&r->first, r->row_first[i], a));
  for (int i = 1; i < r->n_points; i++)
    k->extents[i] = kernel_args_i32(&l->args, kernel_extent(r->then, r->points[i], a));
  l->grid[0] = extents(&r->first, r->row_first, r->n_rows, a);
  l->smem_bytes = recipe_binary(a, RECIPE_MUL, padded, recipe_const(a, plan->slot_bytes + plan->mark_bytes));
  rules->n_tensors = r->then->problem->op->n_args;
  lanes_require(&r->first, &k->first_options, rules, a);
  lanes_require(r->then, &k->then_options, rules, a);
  kernel_require(rules, a, l->smem_bytes, 0, t->smem_per_block_bytes, "a row does not fit in shared memory");
  kernel_require(rules, a, l->grid[0], 0, INT32_MAX, "there are more rows than a grid can have blocks");
  kernel_require(rules, a, recipe_binary(a, RECIPE_SUB, recipe_const(a, 1), points), 0, 0,
                 "updates behind the last one of a row are that one again");
  kernel_require(rules, a, points, 0, INT32_MAX / 2, "updates of a row are counted in 32 bits");
  if (plan->width > 1) kernel_require(rules, a, n, plan->width, 0, "elements are taken several at a time");
  if (!l->grid[0] || !l->smem_bytes) return error_memory(err, STAGE);
  *way = (kernel_way){.launches = l, .n = 1, .rules = rules};
  return ARKE_OK;
}
