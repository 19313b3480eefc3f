#include "tuner/comparer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "templates/template.h"

#define STAGE   "verify"
#define COLUMNS TUNE_COMPARE_COLUMNS

/* Differing elements, as in compare.c. Infinities of one sign are equal; where only one is infinite, so is
 * the difference. */
#define DIFFERS(x, y)                                                                                        \
  "!(" x " == " y " || " x " != " x " && " y " != " y " || abs(" x " - " y ") < inf && abs(" x " - " y       \
  ") <= limits[0] * abs(" y ") + limits[1])"
#define ELEMENTS(x, y)                                                                                       \
  "differ(X, Y: T[M,N], limits: f32[2]) -> (found: bool[M]) { found[i] = any(j) " DIFFERS(x, y) " }"

static const char FLOATS[] = ELEMENTS("X[i,j]", "Y[i,j]");
/* Differences of these pass what they compute in. */
static const char INTEGERS[] = ELEMENTS("cast<f64>(X[i,j])", "cast<f64>(Y[i,j])");
static const char WORDS[] =
    "differ(X, Y: i64[M,N]) -> (found: bool[M]) { found[i] = any(j) X[i,j] != Y[i,j] }";
static const char PICK[] = "pick(X: i64[M], at: i64[K]) -> (Y: i64[K]) { Y[i] = X[at[i]] }";

/* So large that offsets have 64 bits: then a kernel takes every size. */
#define MANY_ROWS  "1048576"
#define MANY_WORDS "2147483648"

void tune_comparer_open(device *dev, const target *t, int sm_count, tune_comparer *c) {
  *c = (tune_comparer){.dev = dev, .target = t, .sm_count = sm_count};
}

static void unload(tune_comparer *c, tune_comparer_kernel *k) {
  if (k->module) c->dev->ops->module_unload(c->dev, k->module);
  k->module = NULL;
}

void tune_comparer_close(tune_comparer *c) {
  if (!c->dev) return;
  unload(c, &c->words);
  unload(c, &c->pick);
  for (int t = 0; t < DTYPE_COUNT; t++) unload(c, &c->elements[t]);
  gen_context_destroy(c->context);
  arena_release(&c->arena);
  *c = (tune_comparer){0};
}

/* --- which kernel compares a type ----------------------------------------------------------------------- */

static bool is_packed(dtype t) {
  return dtype_bits(t) < 8;
}

/* What the kernel takes the elements for. */
static dtype seen_as(dtype t) {
  return is_packed(t) || t == DTYPE_BOOL ? DTYPE_U8 : t;
}

size_t tune_comparer_row_bytes(dtype t) {
  return (size_t)dtype_bytes(seen_as(t), COLUMNS);
}

void tune_comparer_limits(dtype t, double relative, double absolute, float limits[2]) {
  limits[0] = (float)fmin(relative * 0.999, FLT_MAX);
  limits[1] = (float)fmin(absolute * 0.999, FLT_MAX);
  if (is_packed(t)) limits[0] = limits[1] = 0; /* bytes of two elements: any difference counts */
}

/* --- compiling ------------------------------------------------------------------------------------------ */

/* A CTA a row, 16 bytes of each tensor a thread at once (8 of single bytes, whose code would be long). */
static void row_configuration(dtype t, strbuf *out) {
  int bytes = dtype_bits(t) / 8, vector = bytes == 1 ? 8 : 16 / bytes;
  strbuf_addf(out, "THREADS=256,ROWS=1,VECTOR=%d,HELD=2,BATCH=1,PARTS=1,PERSISTENT=0,STREAM=1", vector);
}

static arke_status lower(tune_comparer *c, const char *template_name, const char *op_text,
                         const char *bindings, const char *configuration, tune_comparer_kernel *k,
                         arke_error *err) {
  const kernel_template *template = template_find(template_name);
  const ir_op *op;
  ir_problem p;
  config defaults, at;
  lowered code = {0};
  if (!template) return error_set(err, ARKE_ERR_INTERNAL, STAGE, "there is no template %s", template_name);
  TRY(ir_op_parse(&c->arena, op_text, &op, err));
  TRY(ir_problem_bind(op, bindings, &p, err));
  if (template->fits(&p, c->target, NULL) != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the %s template does not take %s", template_name,
                     op_text);
  template->defaults(&p, c->target, &defaults);
  TRY(config_parse(template->space(c->target), configuration, &defaults, &at, err));
  template_reason reason = template_feasible(template, &p, c->target, &at);
  if (!template_is_built(reason))
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the %s template refuses %s: %s", template_name,
                     configuration, template_reason_text(reason));
  lower_options options = {.first_way_only = true, .context = c->context};
  TRY(template->lower(&p, c->target, &at, &options, &c->arena, &code, err));
  *k = (tune_comparer_kernel){.op = op, .ptx = code.ptx, .ptx_bytes = code.ptx_bytes, .recipe = code.recipe};
  return ARKE_OK;
}

static arke_status lower_elements(tune_comparer *c, dtype t, arke_error *err) {
  tune_comparer_kernel *k = &c->elements[seen_as(t)];
  if (k->op) return ARKE_OK;
  bool integers = t == DTYPE_I32 || t == DTYPE_I64;
  strbuf bindings = STRBUF_INIT, configuration = STRBUF_INIT;
  strbuf_addf(&bindings, "T=%s M=" MANY_ROWS " N=%d", dtype_name(seen_as(t)), COLUMNS);
  row_configuration(seen_as(t), &configuration);
  arke_status status = lower(c, "row", integers ? INTEGERS : FLOATS, strbuf_text(&bindings),
                             strbuf_text(&configuration), k, err);
  strbuf_free(&bindings);
  strbuf_free(&configuration);
  return status;
}

static arke_status lower_words(tune_comparer *c, arke_error *err) {
  if (c->words.op) return ARKE_OK;
  strbuf bindings = STRBUF_INIT, configuration = STRBUF_INIT;
  strbuf_addf(&bindings, "M=" MANY_ROWS " N=%d", COLUMNS);
  row_configuration(DTYPE_I64, &configuration);
  arke_status status =
      lower(c, "row", WORDS, strbuf_text(&bindings), strbuf_text(&configuration), &c->words, err);
  strbuf_free(&bindings);
  strbuf_free(&configuration);
  return status;
}

static arke_status lower_all(tune_comparer *c, const dtype *types, int n, arke_error *err) {
  if (!c->context) TRY(gen_context_create(&c->context, err));
  TRY(lower_words(c, err));
  /* Not a multiple of anything: of a size that its tiles fill the map makes a kernel for such sizes alone. */
  if (!c->pick.op) TRY(lower(c, "map", PICK, "M=" MANY_WORDS " K=4097", "", &c->pick, err));
  for (int i = 0; i < n; i++) TRY(lower_elements(c, types[i], err));
  return ARKE_OK;
}

arke_status tune_comparer_lower(tune_comparer *c, const dtype *types, int n, arke_error *err) {
  arke_status status = lower_all(c, types, n, err);
  if (status != ARKE_OK) { /* who knows in what state */
    gen_context_destroy(c->context);
    c->context = NULL;
  }
  return status;
}

static arke_status load(tune_comparer *c, tune_comparer_kernel *k, arke_error *err) {
  return k->module ? ARKE_OK : c->dev->ops->module_load(c->dev, k->ptx, k->ptx_bytes, &k->module, err);
}

static arke_status load_words(tune_comparer *c, arke_error *err) {
  if (c->words.module && c->pick.module) return ARKE_OK;
  TRY(load(c, &c->words, err));
  TRY(load(c, &c->pick, err));
  arke_status status = tune_comparer_prove_words(c, err);
  if (status != ARKE_OK) { /* what is loaded is proven */
    unload(c, &c->words);
    unload(c, &c->pick);
  }
  return status;
}

static arke_status load_elements(tune_comparer *c, dtype t, arke_error *err) {
  tune_comparer_kernel *k = &c->elements[t];
  if (!k->op || k->module) return ARKE_OK;
  TRY(load(c, k, err));
  arke_status status = tune_comparer_prove_elements(c, t, err);
  if (status != ARKE_OK) unload(c, k);
  return status;
}

arke_status tune_comparer_load(tune_comparer *c, arke_error *err) {
  TRY(load_words(c, err));
  for (int t = 0; t < DTYPE_COUNT; t++) TRY(load_elements(c, (dtype)t, err));
  return ARKE_OK;
}

/* --- launches ------------------------------------------------------------------------------------------- */

static arke_status bind(const tune_comparer *c, const tune_comparer_kernel *k, const char *bindings,
                        const device_ptr *addresses, arena *a, tune_launches *l, arke_error *err) {
  ir_problem *p = ARENA_NEW(a, ir_problem);
  tune_tensors *t = ARENA_NEW(a, tune_tensors);
  recipe_call *view = ARENA_NEW(a, recipe_call);
  tune_binding b = {.tensors = t, .view = view, .module = k->module};
  if (!p || !t || !view) return error_memory(err, STAGE);
  TRY(ir_problem_bind(k->op, bindings, p, err));
  *t = (tune_tensors){.dev = c->dev, .problem = p, .n = k->op->n_args, .n_sets = 1};
  for (int i = 0; i < t->n; i++) {
    tune_tensor_describe(p, i, &t->list[i]);
    t->list[i].first = addresses[i];
  }
  TRY(tune_launches_view(t, c->sm_count, a, view, err));
  TRY(recipe_choose(&k->recipe, view, &b.recipe, err));
  TRY(tune_launches_bind(&b, a, l, err));
  for (int i = 0; i < l->n; i++) l->launches[i].early_start = false; /* what runs before is not trusted */
  return ARKE_OK;
}

static arke_status bind_rows(const tune_comparer *c, const tune_comparer_kernel *k, const char *type,
                             int64_t rows, const device_ptr *addresses, arena *a, tune_launches *l,
                             arke_error *err) {
  strbuf bindings = STRBUF_INIT;
  strbuf_addf(&bindings, "%sM=%lld N=%d", type, (long long)rows, COLUMNS);
  arke_status status = bind(c, k, strbuf_text(&bindings), addresses, a, l, err);
  strbuf_free(&bindings);
  return status;
}

arke_status tune_comparer_words(const tune_comparer *c, device_ptr x, device_ptr y, int64_t rows,
                                device_ptr found, arena *a, tune_launches *l, arke_error *err) {
  return bind_rows(c, &c->words, "", rows, (device_ptr[]){x, y, found}, a, l, err);
}

arke_status tune_comparer_elements(const tune_comparer *c, dtype t, device_ptr x, device_ptr y, int64_t rows,
                                   device_ptr limits, device_ptr found, arena *a, tune_launches *l,
                                   arke_error *err) {
  char type[16];
  snprintf(type, sizeof type, "T=%s ", dtype_name(seen_as(t)));
  return bind_rows(c, &c->elements[seen_as(t)], type, rows, (device_ptr[]){x, y, limits, found}, a, l, err);
}

arke_status tune_comparer_pick(const tune_comparer *c, device_ptr from, int64_t words, device_ptr places,
                               int64_t n, device_ptr to, arena *a, tune_launches *l, arke_error *err) {
  char bindings[64];
  snprintf(bindings, sizeof bindings, "M=%lld K=%lld", (long long)words, (long long)n);
  return bind(c, &c->pick, bindings, (device_ptr[]){from, places, to}, a, l, err);
}
