/* How scans are launched: their kernels with parameters, requirements and workspace, dense tensors first. */
#include "templates/scan.h"

enum { TICKET_BYTES = 16 };

static const recipe_expr *mul(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *ceildiv(arena *a, const recipe_expr *x, int64_t y) {
  return recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

static const recipe_expr *rows_of(const scan_match *m, arena *a) {
  const recipe_expr *rows = recipe_const(a, 1);
  for (int i = 0; i < m->n_outer; i++) rows = mul(a, rows, kernel_extent(&m->form, m->outer[i], a));
  return rows;
}

/* One way to run the scan: what its kernels share. */
typedef struct scan_way {
  scan_plan plan;
  scan_emitter emitter;
  kernel_launch launches[2];
  recipe rules;
} scan_way;

static const recipe_expr *chunks_of(const scan_plan *p, arena *a) {
  return ceildiv(a, kernel_extent(&p->match->form, p->match->along, a), p->chunk);
}

/* Records of all rows, 16 bytes each time: what is cleared. */
static const recipe_expr *state_bytes(const scan_plan *p, arena *a) {
  const recipe_expr *chunks = chunks_of(p, a);
  const recipe_expr *records = recipe_binary(a, RECIPE_ADD, chunks, ceildiv(a, chunks, SCAN_SEGMENT));
  const recipe_expr *bytes =
      mul(a, mul(a, rows_of(p->match, a), records), recipe_const(a, 8 * p->state_words));
  const recipe_expr *whole = mul(a, ceildiv(a, bytes, 16), recipe_const(a, 16));
  return recipe_binary(a, RECIPE_ADD, whole, recipe_const(a, TICKET_BYTES));
}

/* Accesses that are the only ones of their tensor and that every element has one of. */
static uint64_t touched_once(const scan_match *m) {
  uint64_t once = 0;
  for (int i = 0; i < m->form.n_accesses; i++) {
    const ir_access *x = &m->form.accesses[i];
    unsigned free = 0, all = 1u << m->lane;
    int same = 0;
    for (int s = 0; s < x->n; s++) free |= ir_form_free(&m->form, x->subscripts[s].e);
    for (int k = 0; k < m->form.n_accesses; k++) same += m->form.accesses[k].tensor == x->tensor;
    for (int t = 0; t < m->n_terms; t++) free |= free >> m->terms[t].loop & 1 ? 1u << m->along : 0;
    for (int k = 0; k < m->n_outer; k++) all |= 1u << m->outer[k];
    if (same == 1 && (free & all) == all && free >> m->along & 1) once |= UINT64_C(1) << i;
  }
  return once;
}

static void declare_maps(scan_way *w, bool dense, const lower_options *o, kernel_args *args, arena *a) {
  const scan_match *m = w->plan.match;
  scan_emitter *e = &w->emitter;
  lanes_options base = {.width = w->plan.vector,
                        .dense = dense,
                        .wide_offsets = w->plan.wide_offsets,
                        .streamed = touched_once(m),
                        .loads = w->plan.loads,
                        .stores = w->plan.stores,
                        .fast_math = o && o->fast_math,
                        .check_indices = o && o->check_indices};
  for (int i = 0; i < m->n_terms; i++) {
    e->before[i] = base;
    e->before[i].loop = m->columns ? m->lane : m->terms[i].loop;
    if (w->plan.vector > 1) e->before[i].wide = lanes_wide(&m->form, &e->before[i]);
    lanes_declare(&m->form, &e->before[i], args, &e->before_slots[i]);
    lanes_require(&m->form, &e->before[i], &w->rules, a);
  }
  e->after = base;
  e->after.loop = m->lane;
  if (w->plan.vector > 1) e->after.wide = lanes_wide(&m->form, &e->after);
  lanes_declare(&m->form, &e->after, args, &e->after_slots);
  lanes_require(&m->form, &e->after, &w->rules, a);
}

static int index_arg(kernel_args *args, const scan_plan *p, const recipe_expr *value) {
  return p->wide_offsets ? kernel_args_i64(args, value) : kernel_args_i32(args, value);
}

static const recipe_expr *grid_of(scan_way *w, const recipe_expr *rows, const recipe_expr *chunks, arena *a) {
  const scan_match *m = w->plan.match;
  if (m->columns) return mul(a, rows, ceildiv(a, kernel_extent(&m->form, m->lane, a), w->plan.width));
  switch (w->plan.place) {
  case SCAN_BY_WARP: return ceildiv(a, rows, w->plan.warps);
  case SCAN_BY_CTA: return rows;
  case SCAN_AHEAD:
    return recipe_binary(a, RECIPE_MIN, rows,
                         mul(a, recipe_var(a, "SMS"), recipe_const(a, w->plan.resident)));
  case SCAN_LOOK_BACK: break;
  }
  return mul(a, rows, chunks);
}

/* Kernels of all ways are in one image. */
static const char *name_of(const char *name, int way, arena *a) {
  return arena_printf(a, "%s_%d", name, way);
}

static void add_main_kernel(scan_way *w, int way, bool dense, bool by_ticket, const lower_options *o,
                            kernel_launch *l, arena *a) {
  const scan_plan *p = &w->plan;
  const scan_match *m = p->match;
  scan_emitter *e = &w->emitter;
  const recipe_expr *rows = rows_of(m, a), *chunks = chunks_of(p, a);
  *l = (kernel_launch){.name = name_of(m->columns ? "scan_columns" : "scan_rows", way, a),
                       .threads = p->threads,
                       .min_ctas_per_sm = 1,
                       .cluster = {1, 1, 1},
                       .grid = {grid_of(w, rows, chunks, a)},
                       .early_start = true,
                       .args = {.a = a},
                       .emit = m->columns ? scan_emit_columns : scan_emit_rows,
                       .user = e};
  if (m->columns) l->smem_bytes = recipe_const(a, scan_columns_shared_bytes(p));
  declare_maps(w, dense, o, &l->args, a);
  e->along_size = index_arg(&l->args, p, kernel_extent(&m->form, m->along, a));
  e->chunks = kernel_args_i32(&l->args, chunks);
  e->by_ticket = by_ticket;
  for (int i = 1; i < m->n_outer; i++)
    e->outer_size[i] = kernel_args_i32(&l->args, kernel_extent(&m->form, m->outer[i], a));
  if (m->columns) {
    const recipe_expr *width = kernel_extent(&m->form, m->lane, a);
    e->lane_size = index_arg(&l->args, p, width);
    e->blocks = kernel_args_i32(&l->args, ceildiv(a, width, p->width));
  }
  if (p->place == SCAN_BY_WARP || p->place == SCAN_AHEAD) e->rows = kernel_args_i32(&l->args, rows);
  if (p->place == SCAN_AHEAD) {
    l->min_ctas_per_sm = p->resident;
    l->smem_bytes = recipe_const(a, p->stages * scan_stage_bytes(m));
    for (int i = 0; i < m->form.problem->op->n_inputs; i++)
      e->row_pointer[i] = kernel_args_pointer(&l->args, i);
    scan_require_copies(m, &w->rules, a);
    kernel_require(&w->rules, a, rows, 0, INT32_MAX / 2, "rows are counted in 32 bits");
  }
  if (p->place == SCAN_LOOK_BACK) {
    e->ticket = kernel_args_workspace(&l->args, recipe_const(a, 0));
    e->state = kernel_args_workspace(&l->args, recipe_const(a, TICKET_BYTES));
  }
  kernel_require(&w->rules, a, l->grid[0], 0, INT32_MAX, "there are more chunks than a grid can have blocks");
  if (p->vector > 1)
    kernel_require(&w->rules, a, kernel_extent(&m->form, m->lane, a), p->vector, 0,
                   "elements are taken several at a time");
  if (p->place == SCAN_LOOK_BACK && !by_ticket)
    kernel_require(&w->rules, a, recipe_binary(a, RECIPE_SUB, l->grid[0], recipe_var(a, "SMS")), 0, 0,
                   "chunks wait for one another, so all of them must run at once");
}

static void add_clear_kernel(scan_way *w, int way, kernel_launch *l, arena *a) {
  const recipe_expr *bytes = state_bytes(&w->plan, a);
  const recipe_expr *pairs = recipe_binary(a, RECIPE_DIV, bytes, recipe_const(a, 16));
  *l = (kernel_launch){.name = name_of("scan_clear", way, a),
                       .threads = SCAN_CLEAR_THREADS,
                       .min_ctas_per_sm = 1,
                       .cluster = {1, 1, 1},
                       .grid = {ceildiv(a, pairs, SCAN_CLEAR_THREADS)},
                       .early_start = true,
                       .args = {.a = a},
                       .emit = scan_emit_clear,
                       .user = &w->emitter};
  w->emitter.clear_state = kernel_args_workspace(&l->args, recipe_const(a, 0));
  w->emitter.clear_pairs = kernel_args_i64(&l->args, pairs);
  w->rules.workspace_bytes = bytes;
}

static arke_status add_way(const scan_plan *plan, bool dense, bool by_ticket, const lower_options *o,
                           arena *a, kernel_way *ways, int *n_ways, arke_error *err) {
  scan_way *w = ARENA_NEW(a, scan_way);
  if (!w) return error_memory(err, "generate");
  w->plan = *plan;
  w->emitter.plan = &w->plan;
  w->emitter.a = a;
  w->rules.n_tensors = plan->match->form.problem->op->n_args;
  int n = 0, number = (*n_ways)++;
  if (plan->place == SCAN_LOOK_BACK) add_clear_kernel(w, number, &w->launches[n++], a);
  add_main_kernel(w, number, dense, by_ticket, o, &w->launches[n++], a);
  for (int i = 0; i < n; i++) {
    if (!w->launches[i].name) return error_memory(err, "generate");
  }
  ways[number] = (kernel_way){.launches = w->launches, .n = n, .rules = &w->rules};
  return ARKE_OK;
}

/* Any strides, element by element. */
static scan_plan plan_of_any(const scan_plan *plan) {
  scan_plan any = *plan;
  bool columns = plan->match->columns;
  any.wide_offsets = true;
  any.vector = 1;
  any.strips = plan->strips * plan->vector < SCAN_MAX_STRIPS ? plan->strips * plan->vector : SCAN_MAX_STRIPS;
  any.chunk = columns ? (int64_t)any.warps * any.strips : (int64_t)any.scanners * 32 * any.strips;
  any.width = columns ? 32 : 1;
  if (any.place == SCAN_AHEAD) any.place = SCAN_BY_CTA;
  return any;
}

arke_status scan_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o, arena *a,
                      kernel_way *ways, int *n, arke_error *err) {
  scan_plan plan;
  scan_match *match = ARENA_NEW(a, scan_match);
  if (!match) return error_memory(err, "generate");
  *n = 0;
  arke_error why = ARKE_ERROR_INIT;
  template_reason reason = scan_fit(p, t, a, match, NULL, &why);
  if (why.code != ARKE_OK) return error_set(err, why.code, "generate", "%s", why.text);
  if (reason == TEMPLATE_OK) reason = scan_plan_make(match, t, c, &plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
  /* By number there: a ticket costs a round trip to memory. */
  if (scan_runs_at_once(&plan, t)) TRY(add_way(&plan, true, false, o, a, ways, n, err));
  TRY(add_way(&plan, true, true, o, a, ways, n, err));
  /* Rows of other lengths, or apart, but each as wide as before. */
  if (plan.place == SCAN_AHEAD) {
    plan.place = SCAN_BY_CTA;
    TRY(add_way(&plan, true, true, o, a, ways, n, err));
  }
  if (plan.vector > 1 && match->form.n_loops > match->n_terms + 1)
    TRY(add_way(&plan, false, true, o, a, ways, n, err));
  scan_plan any = plan_of_any(&plan);
  return add_way(&any, false, true, o, a, ways, n, err);
}

arke_status scan_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  *out = (lowered){0};
  TRY(scan_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
