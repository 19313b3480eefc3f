#include "tuner/cli_problem.h"

#include <string.h>

#include "base/text.h"

/* No GPU has more memory than this, so a larger problem is a slip of the pen. */
static const double largest_problem_bytes = 0x1p40;

static const char *const largest_problem_text = "1 TiB";

int cli_shape_axes(arena *a, const ir_catalogue_entry *entry, const char *names[LIMIT_AXES]) {
  int n = 0;
  for (const char *s = entry->shape_axes; *s != '\0' && n < LIMIT_AXES;) {
    size_t length = strcspn(s, ",");
    names[n] = arena_strndup(a, s, length);
    if (names[n++] == NULL) return 0;
    s += length + (s[length] == ',');
  }
  return n;
}

/* "MxNxK". */
static const char *axes_text(arena *a, const char *const *names, int n) {
  const char *text = "";
  for (int i = 0; i < n && text != NULL; i++)
    text = arena_printf(a, "%s%s%s", text, i == 0 ? "" : "x", names[i]);
  return text == NULL ? "" : text;
}

arke_status cli_operator_find(arena *a, const char *name, const ir_catalogue_entry **entry, arke_error *err) {
  const char *nearest = NULL;
  *entry = ir_catalogue_find(name, &nearest);
  if (*entry != NULL) return ARKE_OK;
  return error_set(err, ARKE_ERR_NOT_FOUND, CLI_USAGE,
                   "unknown operator %s;%s%s%s --list-ops lists the operators", cli_printable(a, name),
                   nearest == NULL ? "" : " did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?");
}

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

arke_status cli_problem_bind(arena *a, const ir_catalogue_entry *entry, const ir_op *op, const dtype *types,
                             const int64_t *sizes, cli_problem *p, arke_error *err) {
  const char *names[LIMIT_AXES];
  int n = cli_shape_axes(a, entry, names);
  strbuf bindings = STRBUF_INIT;
  *p = (cli_problem){.entry = entry, .bucket = "", .weight = 1};
  for (int i = 0; i < op->n_types; i++)
    strbuf_addf(&bindings, "%s=%s ", op->type_vars[i], dtype_name(types[i]));
  for (int i = 0; i < n; i++) strbuf_addf(&bindings, "%s=%lld ", names[i], (long long)sizes[i]);
  if (strbuf_failed(&bindings)) {
    strbuf_free(&bindings);
    return error_memory(err, CLI_USAGE);
  }
  arke_error inner = ARKE_ERROR_INIT;
  arke_status status = ir_problem_bind(op, strbuf_text(&bindings), &p->problem, &inner);
  strbuf_free(&bindings);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, CLI_USAGE);
  if (status != ARKE_OK) return cli_usage(err, "%s", inner.text);
  return check_bytes(a, &p->problem, err);
}

static arke_status check_range(arena *a, const ir_problem *p, const char *item, size_t length,
                               bool taken[LIMIT_AXES], arke_error *err) {
  const char *name = cli_printable(a, arena_strndup(a, item, length));
  const char *equals = memchr(item, '=', length);
  const char *dots = equals == NULL ? NULL : memmem(equals, length - (size_t)(equals - item), "..", 2);
  if (dots == NULL)
    return cli_usage(err, "'%s' is not a range; accepted: AXIS=LOW..HIGH, for example M=1..128", name);
  size_t axis_length = (size_t)(equals - item);
  int axis = -1;
  for (int i = 0; i < p->op->n_axes; i++)
    if (strlen(p->op->axes[i]) == axis_length && memcmp(p->op->axes[i], item, axis_length) == 0) axis = i;
  if (axis < 0) {
    const char *axes = "";
    for (int i = 0; i < p->op->n_axes && axes != NULL; i++)
      axes = arena_printf(a, "%s%s%s", axes, i == 0 ? "" : ", ", p->op->axes[i]);
    return cli_usage(err, "'%s' names no axis of %s; accepted: %s", name, p->op->name,
                     axes == NULL ? "" : axes);
  }
  if (taken[axis])
    return cli_usage(err, "'%s' is a second range of %s; accepted: one for each axis", name,
                     p->op->axes[axis]);
  taken[axis] = true;
  int64_t low, high;
  if (!text_to_i64(equals + 1, (size_t)(dots - equals - 1), 1, LIMIT_AXIS_SIZE, &low) ||
      !text_to_i64(dots + 2, (size_t)(item + length - dots - 2), 1, LIMIT_AXIS_SIZE, &high) || low > high)
    return cli_usage(err, "'%s': a range goes from a whole number to one not below it, from 1 to %lld", name,
                     LIMIT_AXIS_SIZE);
  if (p->sizes[axis] < low || p->sizes[axis] > high)
    return cli_usage(err, "'%s' does not hold the size %lld that is tuned", name, (long long)p->sizes[axis]);
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

static arke_status read_size(arena *a, const char *shape, const char *axis, const char *part, size_t length,
                             int64_t *size, arke_error *err) {
  if (text_to_i64(part, length, 1, LIMIT_AXIS_SIZE, size)) return ARKE_OK;
  char *found = arena_strndup(a, part, length);
  if (found == NULL) return error_memory(err, CLI_USAGE);
  return cli_usage(err, "--shape %s: %s is %s; a size is a whole number from 1 to %lld",
                   cli_printable(a, shape), axis, found[0] == '\0' ? "empty" : cli_printable(a, found),
                   LIMIT_AXIS_SIZE);
}

static arke_status read_shape(arena *a, const ir_catalogue_entry *entry, const char *text,
                              int64_t sizes[LIMIT_AXES], arke_error *err) {
  const char *names[LIMIT_AXES];
  int n = cli_shape_axes(a, entry, names), found = 1;
  for (const char *s = text; *s != '\0'; s++) found += *s == 'x';
  if (found != n) {
    strbuf example = STRBUF_INIT;
    for (int i = 0; i < n; i++) strbuf_add(&example, i == 0 ? "4096" : "x4096");
    arke_status status =
        cli_usage(err, "--shape %s: found %d size%s; %s takes %d, %s, like %s", cli_printable(a, text), found,
                  found == 1 ? "" : "s", entry->name, n, axes_text(a, names, n), strbuf_text(&example));
    strbuf_free(&example);
    return status;
  }
  const char *s = text;
  for (int i = 0; i < n; i++) {
    size_t length = strcspn(s, "x");
    TRY(read_size(a, text, names[i], s, length, &sizes[i], err));
    s += length + 1;
  }
  return ARKE_OK;
}

arke_status cli_problem_make(arena *a, const char *op_name, const char *shape, dtype type, cli_problem *p,
                             arke_error *err) {
  const ir_catalogue_entry *entry;
  const ir_op *op;
  int64_t sizes[LIMIT_AXES];
  dtype types[COUNT_OF(((ir_problem *)0)->types)];
  arke_error inner = ARKE_ERROR_INIT;
  if (cli_operator_find(a, op_name, &entry, &inner) != ARKE_OK) return cli_usage(err, "--op: %s", inner.text);
  if (shape == NULL) {
    const char *names[LIMIT_AXES];
    int n = cli_shape_axes(a, entry, names);
    return cli_usage(err, "--shape is missing: %s takes %d sizes, --shape %s", entry->name, n,
                     axes_text(a, names, n));
  }
  TRY(ir_op_parse(a, entry->text, &op, err));
  TRY(read_shape(a, entry, shape, sizes, err));
  for (size_t i = 0; i < COUNT_OF(types); i++) types[i] = type;
  arke_status status = cli_problem_bind(a, entry, op, types, sizes, p, &inner);
  if (status == ARKE_ERR_ARGUMENT)
    return cli_usage(err, "--shape %s: %s", cli_printable(a, shape), inner.text);
  return status == ARKE_OK ? ARKE_OK : error_set(err, status, inner.stage, "%s", inner.text);
}

arke_status cli_problem_read(const cli_settings *s, arena *a, cli_problem *p, arke_error *err) {
  const char *const *texts = s->line->texts;
  arke_error inner = ARKE_ERROR_INIT;
  if (texts[CLI_OPT_OP] == NULL)
    return cli_usage(
        err, "--op is missing: name the operator to tune; --list-ops lists them, --help tells the rest");
  TRY(cli_problem_make(a, texts[CLI_OPT_OP], texts[CLI_OPT_SHAPE], s->type, p, err));
  if (!s->line->given[CLI_OPT_BUCKET]) return ARKE_OK;
  p->bucket = texts[CLI_OPT_BUCKET];
  if (cli_bucket_check(a, &p->problem, p->bucket, &inner) == ARKE_OK) return ARKE_OK;
  return cli_usage(err, "--bucket %s: %s", cli_printable(a, p->bucket), inner.text);
}

const target *cli_default_target(void) {
  return target_find("sm_90a", NULL);
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
  const char *s = p->entry->shape_axes;
  for (int n = 0; *s != '\0'; n++) {
    size_t length = strcspn(s, ",");
    for (int i = 0; i < p->problem.op->n_axes; i++)
      if (strlen(p->problem.op->axes[i]) == length && memcmp(p->problem.op->axes[i], s, length) == 0)
        strbuf_addf(out, "%s%lld", n == 0 ? "" : "x", (long long)p->problem.sizes[i]);
    s += length + (s[length] == ',');
  }
}
