#include "example_map.h"

#include "generator/gen_control.h"
#include "generator/gen_expression.h"
#include "generator/gen_memory.h"

/* --- 1. the form --- */

/* Every read is of an input at the output's own index, and nothing is reduced. */
static bool is_pointwise(const ir_op *op, const ir_expr *e) {
  if (e->node == IR_REDUCE) return false;
  if (e->node == IR_READ) {
    return op->tensors[e->id].role == IR_INPUT && e->n_args == 1 && e->args[0]->node == IR_INDEX &&
           e->args[0]->id == 0;
  }
  for (int i = 0; i < e->n_args; i++) {
    if (!is_pointwise(op, e->args[i])) return false;
  }
  return true;
}

static bool has_form(const ir_op *op) {
  if (op->n_definitions != 1 || op->n_axes != 1 || op->n_tensors != op->n_args) return false;
  const ir_definition *d = &op->definitions[0];
  for (int t = 0; t < op->n_tensors; t++) {
    if (op->tensors[t].any_rank || op->tensors[t].rank != 1 || op->tensors[t].dims[0].factor != 1)
      return false;
  }
  return d->update == IR_ASSIGN && d->tensor2 < 0 && d->subscripts[0]->node == IR_INDEX &&
         is_pointwise(op, d->value);
}

static bool element_type(dtype t, gen_type *type) {
  switch (t) {
  case DTYPE_F32: *type = GEN_F32; return true;
  case DTYPE_F16: *type = GEN_F16; return true;
  case DTYPE_BF16: *type = GEN_BF16; return true;
  default: return false;
  }
}

static template_reason map_fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t; /* loads and stores are on every target */
  gen_type type;
  if (!has_form(p->op)) {
    if (detail) strbuf_add(detail, "the map template takes Y[i] = a function of inputs at i");
    return TEMPLATE_OPERATOR;
  }
  for (int i = 0; i < p->op->n_args; i++) {
    if (!element_type(ir_tensor_dtype(p, i), &type)) return TEMPLATE_DTYPE;
  }
  return p->sizes[0] >= 1 && p->sizes[0] < INT64_C(1) << 40 ? TEMPLATE_OK : TEMPLATE_SIZE;
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

static template_reason map_feasible(const ir_problem *p, const target *t, const config *c) {
  template_reason reason = map_fits(p, t, NULL);
  if (reason != TEMPLATE_OK) return reason;
  for (int i = 0; i < p->op->n_args; i++) { /* no access is wider than 16 bytes */
    if (c->values[VECTOR] * dtype_bits(ir_tensor_dtype(p, i)) > 128) return TEMPLATE_TILE;
  }
  return p->sizes[0] % c->values[VECTOR] ? TEMPLATE_ALIGNMENT : TEMPLATE_OK;
}

static void map_defaults(const ir_problem *p, const target *t, config *c) {
  c->values[THREADS] = 256;
  c->values[VECTOR] = 8;
  while (c->values[VECTOR] > 1 && map_feasible(p, t, c) != TEMPLATE_OK) c->values[VECTOR] /= 2;
}

/* --- 3. the cost --- */

static double map_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  (void)t;
  /* Narrow accesses keep too few bytes in flight to fill the memory's pipe. */
  double bytes_each = (double)c->values[VECTOR] * dtype_bits(ir_tensor_dtype(p, 0)) / 8;
  double efficiency = bytes_each >= 16 ? 1 : 0.5 + 0.5 * bytes_each / 16;
  return rates->launch_ns + ir_min_bytes(p) / (rates->dram_bytes_per_s * efficiency) * 1e9;
}

/* --- 4. the kernel --- */

typedef struct map_emitter {
  const ir_problem *p;
  int vector, lane;                /* lane: the element being computed */
  gen_value first;                 /* index of the thread's first element, i64 */
  gen_value loaded[LIMIT_TENSORS]; /* by input: its elements */
} map_emitter;

static gen_value index_value(void *user, gen_builder *b, int slot) {
  map_emitter *e = user;
  (void)slot;
  return gen_add_imm(b, e->first, e->lane);
}

static gen_value size_value(void *user, gen_builder *b, int axis) {
  (void)axis;
  return gen_param(b, ((map_emitter *)user)->p->op->n_args);
}

static gen_value attr_value(void *user, gen_builder *b, int id) {
  return gen_f32(b, ((map_emitter *)user)->p->attrs[id]);
}

static arke_status node_value(void *user, gen_builder *b, const ir_expr *read, gen_value *value,
                              arke_error *err) {
  map_emitter *e = user;
  (void)err;
  *value = e->vector == 1 ? e->loaded[read->id] : gen_lane(b, e->loaded[read->id], e->lane);
  return ARKE_OK;
}

static gen_value address(gen_builder *b, const map_emitter *e, int tensor) {
  int bytes = dtype_bits(ir_tensor_dtype(e->p, tensor)) / 8;
  return gen_add(b, gen_param(b, tensor), gen_mul_imm(b, e->first, bytes));
}

static arke_status emit_elements(gen_builder *b, map_emitter *e, arke_error *err) {
  const ir_op *op = e->p->op;
  const ir_definition *d = &op->definitions[0];
  gen_expression_env env = {e->p,       e,          index_value,       size_value,
                            attr_value, node_value, GEN_ACCURACY_FULL, NULL};
  gen_value results[8];
  for (int t = 0; t < op->n_inputs; t++) {
    gen_type type = GEN_F32;
    element_type(ir_tensor_dtype(e->p, t), &type);
    e->loaded[t] = gen_load_global(b, type, e->vector, address(b, e, t), true);
  }
  for (e->lane = 0; e->lane < e->vector; e->lane++) {
    gen_value v;
    TRY(gen_expression(b, &env, d->value, &v, err));
    TRY(gen_convert(b, v, ir_tensor_dtype(e->p, d->tensor), &results[e->lane], err));
  }
  gen_store_global(b, e->vector == 1 ? results[0] : gen_vector(b, results, e->vector),
                   address(b, e, d->tensor));
  return ARKE_OK;
}

static arke_status emit_kernel(gen_builder *b, const ir_problem *p, const config *c, arke_error *err) {
  map_emitter e = {.p = p, .vector = c->values[VECTOR]};
  gen_value cta = gen_zext(b, gen_ctaid_x(b), GEN_I64), thread = gen_zext(b, gen_tid_x(b), GEN_I64);
  gen_value global_thread = gen_add(b, gen_mul_imm(b, cta, c->values[THREADS]), thread);
  e.first = gen_mul_imm(b, global_thread, e.vector);
  gen_branch inside;
  gen_if(b, &inside, gen_compare(b, GEN_ULT, e.first, gen_param(b, p->op->n_args)), NULL, 0);
  arke_status status = emit_elements(b, &e, err);
  gen_if_end(b, &inside);
  return status;
}

/* --- 5. the recipe --- */

static arke_status make_recipe(const ir_problem *p, const config *c, arena *a, recipe *r, arke_error *err) {
  const ir_op *op = p->op;
  const recipe_expr *n = recipe_var(a, op->axes[0]);
  recipe_launch *l = ARENA_NEW(a, recipe_launch);
  recipe_requirement *whole = ARENA_NEW(a, recipe_requirement);
  if (!n || !l || !whole) return error_memory(err, "generate");
  *whole = (recipe_requirement){
      .expr = n, .divisor = c->values[VECTOR], .why = "elements are taken several at a time"};
  *r = (recipe){
      .n_tensors = op->n_args, .n_requirements = 1, .requirements = whole, .n_launches = 1, .launches = l};
  l->kernel = "map";
  l->n_params = op->n_args + 1;
  l->params = ARENA_NEW_N(a, recipe_param, (size_t)l->n_params);
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, n, recipe_const(a, c->values[VECTOR] * c->values[THREADS]));
  l->grid[1] = l->grid[2] = recipe_const(a, 1);
  l->smem_bytes = recipe_const(a, 0);
  if (!l->params || !l->grid[0] || !l->grid[1] || !l->smem_bytes) return error_memory(err, "generate");
  l->block[0] = (uint32_t)c->values[THREADS];
  l->block[1] = l->block[2] = l->cluster[0] = l->cluster[1] = l->cluster[2] = 1;
  for (int t = 0; t < op->n_args; t++) {
    r->tensors[t] = (recipe_tensor_rule){.alignment = 16, .contiguous_last = true};
    l->params[t] = (recipe_param){.kind = RECIPE_PARAM_POINTER, .tensor = t};
  }
  l->params[op->n_args] = (recipe_param){.kind = RECIPE_PARAM_I64, .value = n};
  return ARKE_OK;
}

static arke_status map_lower(const ir_problem *p, const target *t, const config *c,
                             const lower_options *options, arena *a, lowered *out, arke_error *err) {
  gen_param_kind kinds[LIMIT_TENSORS + 1];
  for (int i = 0; i < p->op->n_args; i++) kinds[i] = GEN_PARAM_POINTER;
  kinds[p->op->n_args] = GEN_PARAM_I64;
  gen_kernel kernel = {.name = "map",
                       .threads = c->values[THREADS],
                       .min_ctas_per_sm = 1,
                       .cluster = {1, 1, 1},
                       .n_params = p->op->n_args + 1,
                       .params = kinds};
  gen_context *own = NULL, *ctx = options ? options->context : NULL;
  gen_builder *b = NULL;
  gen_output text;
  arke_status status = ARKE_OK;
  *out = (lowered){0};
  if (!ctx) {
    status = gen_context_create(&own, err);
    ctx = own;
  }
  if (status == ARKE_OK) status = gen_builder_create(ctx, t, &kernel, &b, err);
  if (status == ARKE_OK) status = emit_kernel(b, p, c, err);
  if (status == ARKE_OK) status = gen_builder_finish(b, options && options->keep_llvm_ir, a, &text, err);
  if (status == ARKE_OK) {
    out->ptx = text.ptx;
    out->ptx_bytes = text.ptx_bytes;
    out->llvm_ir = text.llvm_ir;
    status = make_recipe(p, c, a, &out->recipe, err);
  }
  gen_builder_destroy(b);
  gen_context_destroy(own);
  return status;
}

/* --- 6. the small problem, and the record --- */

static void map_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                                ir_problem *reduced) {
  (void)t;
  *reduced = *p;
  int64_t cta = (int64_t)c->values[THREADS] * c->values[VECTOR];
  reduced->sizes[0] = (sm_count + 1) * cta + cta / 2 + c->values[VECTOR]; /* the last CTA is partly outside */
}

const kernel_template example_map = {.name = "example_map",
                                     .meaning = "a function of elements at the same place",
                                     .fits = map_fits,
                                     .space = map_space_of,
                                     .defaults = map_defaults,
                                     .feasible = map_feasible,
                                     .cost_ns = map_cost_ns,
                                     .lower = map_lower,
                                     .reduced_problem = map_reduced_problem};
