#include "example_map.h"

#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"

/* --- 1. the form --- */

/* One output over one loop, once axes that lie without gaps are merged, and no reduction. */
static arke_status match(const ir_problem *p, arena *a, ir_form *form, bool *fits, arke_error *err) {
  ir_form written;
  const ir_expr *reduction;
  TRY(ir_form_make(p, a, &written, err));
  TRY(ir_form_merge(&written, a, form, err));
  const ir_access *y = &form->accesses[form->outputs[0].access];
  *fits = form->n_loops == 1 && form->n_outputs == 1 && form->outputs[0].update == IR_ASSIGN && y->n == 1 &&
          y->subscripts[0].e->node == IR_INDEX && ir_form_reductions(form, &reduction, 1) == 0;
  return ARKE_OK;
}

static template_reason map_fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t; /* loads and stores are on every target */
  arena a = ARENA_INIT;
  ir_form form;
  bool fits = false;
  arke_status status = match(p, &a, &form, &fits, NULL);
  bool narrow = status == ARKE_OK && fits && !lanes_need_wide_offsets(&form);
  arena_release(&a);
  if (status != ARKE_OK || !fits) {
    if (detail) strbuf_add(detail, "the map template takes Y[i] = a function of inputs at i");
    return TEMPLATE_OPERATOR;
  }
  return narrow ? TEMPLATE_OK : TEMPLATE_SIZE;
}

/* --- 2. the space --- */

enum { THREADS, VECTOR, N_PARAMS };
static const space_param params[N_PARAMS] = {
    [THREADS] = {"THREADS", "threads of a CTA", 3, {128, 256, 512}},
    [VECTOR] = {"VECTOR", "elements of a thread, loaded and stored at once", 4, {1, 2, 4, 8}},
};
static const space map_space = {"example_map", N_PARAMS, params};

static const space *map_space_of(const target *t) {
  (void)t;
  return &map_space;
}

static template_reason check(const ir_problem *p, const config *c) {
  for (int i = 0; i < p->op->n_args; i++) { /* no access is wider than 16 bytes */
    if (c->values[VECTOR] * dtype_bits(ir_tensor_dtype(p, i)) > 128) return TEMPLATE_TILE;
  }
  return ir_tensor_elements(p, p->op->n_inputs) % c->values[VECTOR] ? TEMPLATE_ALIGNMENT : TEMPLATE_OK;
}

static void map_defaults(const ir_problem *p, const target *t, config *c) {
  (void)t;
  c->values[THREADS] = 256;
  c->values[VECTOR] = 8;
  while (c->values[VECTOR] > 1 && check(p, c) != TEMPLATE_OK) c->values[VECTOR] /= 2;
}

/* --- 3. the cost --- */

static double cost_ns(const ir_problem *p, const target_rates *rates, const config *c) {
  /* Narrow accesses keep too few bytes in flight to fill the memory's pipe. */
  double bytes_each = (double)c->values[VECTOR] * dtype_bits(ir_tensor_dtype(p, 0)) / 8;
  double efficiency = bytes_each >= 16 ? 1 : 0.5 + 0.5 * bytes_each / 16;
  return rates->launch_ns + ir_min_bytes(p) / (rates->dram_bytes_per_s * efficiency) * 1e9;
}

/* All that judging needs of the operator is the problem; others keep what matching found here. */
static const void *map_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  ir_problem *prepared = ARENA_NEW(a, ir_problem);
  if (prepared) *prepared = *p;
  return prepared;
}

static template_reason map_judge(const void *prepared, const target *t, const target_rates *rates,
                                 const config *c, double *ns) {
  template_reason reason = map_fits(prepared, t, NULL);
  if (reason == TEMPLATE_OK) reason = check(prepared, c);
  if (reason == TEMPLATE_OK) *ns = cost_ns(prepared, rates, c);
  return reason;
}

/* --- 4. the kernel --- */

typedef struct map_kernel {
  ir_form form;
  lanes_options options;
  lanes_args slots;
  int threads;
  arena *a;
} map_kernel;

static arke_status emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  const map_kernel *k = user;
  const ir_form_output *out = &k->form.outputs[0];
  lanes *l;
  gen_value values[LANES_MAX];
  gen_branch inside;
  int n;
  (void)t;
  TRY(lanes_create(b, &k->form, &k->options, &k->slots, k->a, &l, err));
  gen_value thread = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), k->threads), gen_tid_x(b));
  gen_value first = gen_mul_imm(b, thread, k->options.width);
  gen_launches_wait(b);
  gen_if(b, &inside, gen_compare(b, GEN_ULT, first, lanes_extent(l, 0)), NULL, 0);
  lanes_set(l, 0, first);
  TRY(lanes_load(l, out->value, err));
  TRY(lanes_eval(l, out->value, values, &n, err));
  TRY(lanes_store(l, 0, values, n, NULL, err));
  gen_if_end(b, &inside);
  return ARKE_OK;
}

/* --- 5. the recipe --- */

static arke_status map_lower(const ir_problem *p, const target *t, const config *c,
                             const lower_options *options, arena *a, lowered *out, arke_error *err) {
  map_kernel k = {.threads = c->values[THREADS], .a = a};
  recipe rules = {.n_tensors = p->op->n_args};
  kernel_launch launch = {
      .name = "map", .threads = k.threads, .early_start = true, .args = {.a = a}, .emit = emit, .user = &k};
  bool fits;
  *out = (lowered){0};
  TRY(match(p, a, &k.form, &fits, err));
  k.options = (lanes_options){.width = c->values[VECTOR], .dense = true};
  k.options.wide = lanes_wide(&k.form, &k.options);
  lanes_declare(&k.form, &k.options, &launch.args, &k.slots);
  lanes_require(&k.form, &k.options, &rules, a);
  const recipe_expr *n = kernel_extent(&k.form, 0, a);
  kernel_require(&rules, a, n, k.options.width, 0, "elements are taken several at a time");
  launch.grid[0] = recipe_binary(a, RECIPE_CEILDIV, n, recipe_const(a, k.threads * k.options.width));
  if (!launch.grid[0]) return error_memory(err, "generate");
  return kernel_lower(&launch, 1, &rules, t, options, a, out, err);
}

/* --- 6. the small problem, and the record --- */

static void map_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                                ir_problem *reduced) {
  (void)t;
  *reduced = *p;
  int64_t cta = (int64_t)c->values[THREADS] * c->values[VECTOR];
  for (int i = 1; i < p->op->n_axes; i++) reduced->sizes[i] = 1;
  reduced->sizes[0] = (sm_count + 1) * cta + cta / 2 + c->values[VECTOR]; /* the last CTA is partly outside */
}

const kernel_template example_map = {.name = "example_map",
                                     .meaning = "a function of elements at the same place",
                                     .fits = map_fits,
                                     .space = map_space_of,
                                     .defaults = map_defaults,
                                     .prepare = map_prepare,
                                     .judge = map_judge,
                                     .lower = map_lower,
                                     .reduced_problem = map_reduced_problem};
