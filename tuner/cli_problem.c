#include "tuner/cli_problem.h"

#include <string.h>

#include "base/text.h"

/* No GPU has more memory than this, so a larger problem is a slip of the pen. */
static const double largest_problem_bytes = 0x1p40;

static const char *const largest_problem_text = "1 TiB";

static arke_status check_bytes(arena *a, const ir_problem *p, arke_error *err) {
  double total = 0;
  for (int i = 0; i < p->op->n_args; i++) {
    double bits = dtype_bits(ir_tensor_dtype(p, i));
    int64_t shape[LIMIT_RANK];
    int rank = ir_tensor_shape(p, i, shape);
    for (int d = 0; d < rank; d++) bits *= (double)shape[d];
    total += bits / 8;
  }
  if (total <= largest_problem_bytes) return ARKE_OK;
  return cli_usage(err, "its tensors take %s; accepted: at most %s in all", cli_bytes_text(a, total),
                   largest_problem_text);
}

static void print_bindings(const cli_operator *o, const cli_values *v, strbuf *out) {
  for (int i = 0; i < o->op->n_types; i++)
    strbuf_addf(out, "%s=%s ", o->op->type_vars[i], dtype_name(v->types[i]));
  for (int i = 0; i < o->n_axes; i++) {
    strbuf_addf(out, "%s=", o->axes[i]);
    if (strcmp(o->axes[i], CLI_LEADING) != 0)
      strbuf_addf(out, "%lld", (long long)v->sizes[i]);
    else
      for (int k = 0; k < v->lead_rank; k++)
        strbuf_addf(out, "%s%lld", k == 0 ? "" : "x", (long long)v->lead[k]);
    strbuf_add(out, " ");
  }
  strbuf_add(out, v->attrs);
}

static arke_status check_outputs(const ir_problem *p, arke_error *err) {
  for (int i = p->op->n_inputs; i < p->op->n_args; i++)
    if (ir_tensor_elements(p, i) > 0) return ARKE_OK;
  return cli_usage(err, "%s has no elements, so there is nothing to tune; a call like this needs no kernel",
                   p->op->tensors[p->op->n_inputs].name);
}

arke_status cli_problem_bind(arena *a, const cli_operator *o, const cli_values *v, cli_problem *p,
                             arke_error *err) {
  strbuf bindings = STRBUF_INIT;
  *p = (cli_problem){.spec = o, .attrs = v->attrs, .bucket = "", .weight = 1};
  print_bindings(o, v, &bindings);
  if (strbuf_failed(&bindings)) {
    strbuf_free(&bindings);
    return error_memory(err, CLI_USAGE);
  }
  arke_error inner = ARKE_ERROR_INIT;
  arke_status status = ir_problem_bind(o->op, strbuf_text(&bindings), &p->problem, &inner);
  strbuf_free(&bindings);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, CLI_USAGE);
  if (status != ARKE_OK) return cli_usage(err, "%s", inner.text);
  if (ir_problem_check_access(&p->problem, &inner) != ARKE_OK) return cli_usage(err, "%s", inner.text);
  TRY(check_bytes(a, &p->problem, err));
  return check_outputs(&p->problem, err);
}

static arke_status check_range(arena *a, const ir_problem *p, const char *item, size_t length,
                               bool taken[LIMIT_AXES], arke_error *err) {
  const char *name = cli_quoted(a, item, length);
  const char *equals = memchr(item, '=', length);
  const char *dots = equals == NULL ? NULL : memmem(equals, length - (size_t)(equals - item), "..", 2);
  if (dots == NULL)
    return cli_usage(err, "%s is not a range; accepted: AXIS=LOW..HIGH, for example M=1..128", name);
  size_t axis_length = (size_t)(equals - item);
  int axis = -1;
  for (int i = 0; i < p->op->n_axes; i++)
    if (strlen(p->op->axes[i]) == axis_length && memcmp(p->op->axes[i], item, axis_length) == 0) axis = i;
  if (axis < 0) {
    const char *axes = "";
    for (int i = 0; i < p->op->n_axes && axes != NULL; i++)
      axes = arena_printf(a, "%s%s%s", axes, i == 0 ? "" : ", ", p->op->axes[i]);
    return cli_usage(err, "%s names no axis of %s; accepted: %s", name, p->op->name,
                     axes == NULL ? "" : axes);
  }
  if (taken[axis])
    return cli_usage(err, "%s is a second range of %s; accepted: one for each axis", name, p->op->axes[axis]);
  taken[axis] = true;
  int64_t low, high;
  if (!text_to_i64(equals + 1, (size_t)(dots - equals - 1), 1, LIMIT_AXIS_SIZE, &low) ||
      !text_to_i64(dots + 2, (size_t)(item + length - dots - 2), 1, LIMIT_AXIS_SIZE, &high) || low > high)
    return cli_usage(err, "%s: a range goes from a whole number to one not below it, from 1 to %lld", name,
                     LIMIT_AXIS_SIZE);
  if (p->sizes[axis] < low || p->sizes[axis] > high)
    return cli_usage(err, "%s does not hold the size %lld that is tuned", name, (long long)p->sizes[axis]);
  return ARKE_OK;
}

arke_status cli_bucket_check(arena *a, const ir_problem *p, const char *text, arke_error *err) {
  bool taken[LIMIT_AXES] = {false};
  for (const char *s = text;;) {
    size_t length = strcspn(s, ",");
    TRY(check_range(a, p, s, length, taken, err));
    if (s[length] == '\0') return ARKE_OK;
    s += length + 1;
  }
}

/* --- the command line ----------------------------------------------------------------------------------- */

/* Puts "--shape 4x4: " before a sentence about what the option says. */
static arke_status option_fault(arena *a, cli_option option, const char *text, arke_status status,
                                const arke_error *inner, arke_error *err) {
  if (status != ARKE_ERR_ARGUMENT) return error_set(err, status, inner->stage, "%s", inner->text);
  return cli_usage(err, "--%s %s: %s", cli_option_table[option].name, cli_printable(a, text), inner->text);
}

static arke_status shape_missing(const cli_operator *o, arke_error *err) {
  strbuf axes = STRBUF_INIT;
  int n = o->n_axes - cli_operator_has_leading(o);
  if (n == 0)
    return cli_usage(err, "--shape is missing: %s takes any number of sizes, like --shape 4x128", o->name);
  cli_operator_print_axes(o, &axes);
  arke_status status =
      cli_usage(err, "--shape is missing: %s takes %s%d size%s, --shape %s", o->name,
                cli_operator_has_leading(o) ? "at least " : "", n, n == 1 ? "" : "s", strbuf_text(&axes));
  strbuf_free(&axes);
  return status;
}

/* The texts of the options, as they stand on the command line. */
typedef struct problem_text {
  const char *shape, *types, *attrs; /* shape: NULL if there is none */
  bool types_given;
} problem_text;

static arke_status bind_texts(arena *a, const cli_operator *o, const problem_text *t, cli_problem *p,
                              arke_error *err) {
  cli_values v = {.attrs = t->attrs};
  arke_error inner = ARKE_ERROR_INIT;
  if (t->shape == NULL && o->n_axes > 0) return shape_missing(o, err);
  arke_status status = t->shape == NULL ? ARKE_OK : cli_values_shape(a, o, t->shape, &v, &inner);
  if (status != ARKE_OK) return option_fault(a, CLI_OPT_SHAPE, t->shape, status, &inner, err);
  status = cli_values_types(a, o, t->types, t->types_given, &v, &inner);
  if (status != ARKE_OK) return option_fault(a, CLI_OPT_DTYPE, t->types, status, &inner, err);
  if (t->attrs[0] != '\0') { /* alone first, so that what is wrong with them is said of them */
    cli_values plain = v;
    cli_problem without;
    plain.attrs = "";
    status = cli_problem_bind(a, o, &v, p, &inner);
    if (status == ARKE_ERR_ARGUMENT && cli_problem_bind(a, o, &plain, &without, NULL) == ARKE_OK)
      return option_fault(a, CLI_OPT_ATTR, t->attrs, status, &inner, err);
    error_clear(&inner);
  }
  status = cli_problem_bind(a, o, &v, p, &inner);
  if (status == ARKE_OK) return ARKE_OK;
  if (t->shape == NULL) return error_set(err, status, inner.stage, "%s", inner.text);
  return option_fault(a, CLI_OPT_SHAPE, t->shape, status, &inner, err);
}

arke_status cli_problem_make(arena *a, const char *op_name, const char *shape, const char *types,
                             cli_problem *p, arke_error *err) {
  cli_operator *o = ARENA_NEW(a, cli_operator);
  if (o == NULL) return error_memory(err, CLI_USAGE);
  TRY(cli_operator_named(a, op_name, o, err));
  return bind_texts(a, o, &(problem_text){shape, types, "", true}, p, err);
}

static arke_status read_operator(const cli_line *line, arena *a, cli_operator *o, arke_error *err) {
  const char *name = line->texts[CLI_OPT_OP], *define = line->texts[CLI_OPT_DEFINE];
  arke_error inner = ARKE_ERROR_INIT;
  if (name != NULL && define != NULL)
    return cli_usage(err, "--op and --define both name the operator; give one");
  if (name == NULL && define == NULL)
    return cli_usage(err,
                     "--op is missing: name the operator to tune, or write one with --define; --list-ops "
                     "lists them, --help tells the rest");
  arke_status status =
      define != NULL ? cli_operator_defined(a, define, o, &inner) : cli_operator_named(a, name, o, &inner);
  if (status == ARKE_OK) return ARKE_OK;
  if (status == ARKE_ERR_MEMORY) return error_memory(err, CLI_USAGE);
  return cli_usage(err, "--%s: %s", define != NULL ? "define" : "op", inner.text);
}

arke_status cli_problem_read(const cli_settings *s, arena *a, cli_problem *p, arke_error *err) {
  const char *const *texts = s->line->texts;
  arke_error inner = ARKE_ERROR_INIT;
  cli_operator *o = ARENA_NEW(a, cli_operator);
  if (o == NULL) return error_memory(err, CLI_USAGE);
  TRY(read_operator(s->line, a, o, err));
  const problem_text t = {texts[CLI_OPT_SHAPE], texts[CLI_OPT_DTYPE],
                          texts[CLI_OPT_ATTR] == NULL ? "" : texts[CLI_OPT_ATTR],
                          s->line->given[CLI_OPT_DTYPE]};
  TRY(bind_texts(a, o, &t, p, err));
  if (!s->line->given[CLI_OPT_BUCKET]) return ARKE_OK;
  p->bucket = texts[CLI_OPT_BUCKET];
  if (cli_bucket_check(a, &p->problem, p->bucket, &inner) == ARKE_OK) return ARKE_OK;
  return cli_usage(err, "--bucket %s: %s", cli_printable(a, p->bucket), inner.text);
}

const target *cli_default_target(void) {
  return target_find("sm_90a", NULL);
}

const char *cli_products_of(const target *t) {
  return t->has.wgmma ? "gemm" : "mma";
}

arke_status cli_candidates(const ir_problem *p, const target *t, const char *config_text, tune_candidates *c,
                           arke_error *err) {
  TRY(tune_candidates_rank(p, t, &t->rates, NULL, c, err));
  if (config_text == NULL) return ARKE_OK;
  int64_t index;
  arke_error inner = ARKE_ERROR_INIT;
  arke_status status = tune_candidates_admit(c, p, t, &t->rates, config_text, &index, &inner);
  if (status == ARKE_OK) return ARKE_OK;
  tune_candidates_release(c);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, CLI_USAGE);
  return cli_usage(err, "--config: %s", inner.text);
}

void cli_shape_print(const cli_problem *p, strbuf *out) {
  cli_values_print_shape(p->spec, &p->problem, out);
}
