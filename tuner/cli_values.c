#include "tuner/cli_values.h"

#include <string.h>

#include "base/text.h"
#include "tuner/cli_options.h"

/* --- sizes ---------------------------------------------------------------------------------------------- */

static arke_status read_size(arena *a, const char *axis, const char *part, size_t length, int64_t *size,
                             arke_error *err) {
  if (text_to_i64(part, length, 0, LIMIT_AXIS_SIZE, size)) return ARKE_OK;
  char *found = arena_strndup(a, part, length);
  if (found == NULL) return error_memory(err, CLI_USAGE);
  return cli_usage(err, "%s is %s; a size is a whole number from 0 to %lld", axis,
                   found[0] == '\0' ? "empty" : cli_printable(a, found), LIMIT_AXIS_SIZE);
}

static arke_status read_leading(arena *a, const char *text, size_t length, cli_values *v, arke_error *err) {
  const char *end = text + length;
  v->lead_rank = 0;
  for (const char *s = text; length > 0;) {
    size_t n = strcspn(s, "x");
    if (n > (size_t)(end - s)) n = (size_t)(end - s);
    if (v->lead_rank == LIMIT_RANK)
      return cli_usage(err, "%s stands for more than %d axes", CLI_LEADING, LIMIT_RANK);
    const char *which = arena_printf(a, "size %d", v->lead_rank + 1); /* "..." would read as left out */
    if (which == NULL) return error_memory(err, CLI_USAGE);
    TRY(read_size(a, which, s, n, &v->lead[v->lead_rank++], err));
    if (s + n == end) break;
    s += n + 1;
  }
  return ARKE_OK;
}

arke_status cli_values_leading(arena *a, const char *text, cli_values *v, arke_error *err) {
  return read_leading(a, text, strlen(text), v, err);
}

static arke_status wrong_number(const cli_operator *o, int found, arke_error *err) {
  bool leading = cli_operator_has_leading(o);
  int n = o->n_axes - leading;
  strbuf axes = STRBUF_INIT, example = STRBUF_INIT;
  cli_operator_print_axes(o, &axes);
  for (int i = 0; i < o->n_axes; i++) strbuf_add(&example, i == 0 ? "4096" : "x4096");
  arke_status status =
      cli_usage(err, "found %d size%s; %s takes %s%d, %s, like %s", found, found == 1 ? "" : "s", o->name,
                leading ? "at least " : "", n, strbuf_text(&axes), strbuf_text(&example));
  strbuf_free(&axes);
  strbuf_free(&example);
  return status;
}

/* "4096X4096" or "4096*4096" with x between the sizes; NULL where the text has no other sign for it. */
static const char *with_small_x(arena *a, const char *text) {
  static const char *const signs[] = {"X", "*", ",", ";", " ", "\u00d7"};
  strbuf mended = STRBUF_INIT;
  for (const char *s = text; *s != '\0';) {
    size_t length = 0;
    for (size_t i = 0; i < COUNT_OF(signs) && length == 0; i++)
      if (strncmp(s, signs[i], strlen(signs[i])) == 0) length = strlen(signs[i]);
    bool follows = mended.length > 0 && strbuf_text(&mended)[mended.length - 1] == 'x';
    if (length > 0)
      strbuf_add(&mended, follows ? "" : "x"); /* "64 * 64" */
    else
      strbuf_add_bytes(&mended, s, 1);
    s += length > 0 ? length : 1;
  }
  const char *kept = strbuf_failed(&mended) || strcmp(strbuf_text(&mended), text) == 0
                         ? NULL
                         : arena_strdup(a, strbuf_text(&mended));
  strbuf_free(&mended);
  return kept;
}

static arke_status read_by_place(arena *a, const cli_operator *o, const char *text, cli_values *v,
                                 arke_error *err) {
  bool leading = cli_operator_has_leading(o);
  int found = text[0] != '\0', rest;
  for (const char *s = text; *s != '\0'; s++) found += *s == 'x';
  rest = found - (o->n_axes - leading); /* sizes for "..." */
  if (rest < 0 || (rest > 0 && !leading)) return wrong_number(o, found, err);
  const char *s = text;
  for (int i = 0; i < o->n_axes; i++) {
    bool dots = strcmp(o->axes[i], CLI_LEADING) == 0;
    if (dots && rest == 0) continue;
    size_t length = strcspn(s, "x");
    for (int k = 1; dots && k < rest; k++) length += 1 + strcspn(s + length + 1, "x");
    TRY(dots ? read_leading(a, s, length, v, err) : read_size(a, o->axes[i], s, length, &v->sizes[i], err));
    s += length + 1;
  }
  return ARKE_OK;
}

static int find_axis(const cli_operator *o, const char *name, size_t length) {
  for (int i = 0; i < o->n_axes; i++)
    if (strlen(o->axes[i]) == length && memcmp(o->axes[i], name, length) == 0) return i;
  return -1;
}

static const char *list_axes(arena *a, const cli_operator *o) {
  const char *list = "";
  for (int i = 0; i < o->n_axes && list != NULL; i++)
    list = arena_printf(a, "%s%s%s%s", list, i == 0 ? "" : ", ", o->axes[i],
                        strcmp(o->axes[i], CLI_LEADING) == 0 ? "=4x128 (any number of sizes)" : "");
  return list == NULL ? "" : list;
}

static arke_status read_by_name(arena *a, const cli_operator *o, const char *text, cli_values *v,
                                arke_error *err) {
  bool given[LIMIT_AXES + 1] = {false};
  for (const char *s = text; *s != '\0';) {
    size_t length = strcspn(s, ", ");
    const char *equals = memchr(s, '=', length);
    const char *item = cli_quoted(a, s, length);
    if (equals == NULL) return cli_usage(err, "%s is no AXIS=SIZE; accepted: M=64,N=8 or 64x8", item);
    int axis = find_axis(o, s, (size_t)(equals - s));
    if (axis < 0 && o->n_axes == 1 && cli_operator_has_leading(o))
      return cli_usage(
          err, "%s names an axis, and those of %s have no names; accepted: any number of sizes, like 4x128",
          item, o->name);
    if (axis < 0)
      return cli_usage(err, "%s names no axis of %s; accepted: %s", item, o->name, list_axes(a, o));
    if (given[axis]) return cli_usage(err, "%s is given twice", o->axes[axis]);
    given[axis] = true;
    size_t rest = length - (size_t)(equals + 1 - s);
    TRY(strcmp(o->axes[axis], CLI_LEADING) == 0
            ? read_leading(a, equals + 1, rest, v, err)
            : read_size(a, o->axes[axis], equals + 1, rest, &v->sizes[axis], err));
    s += length + strspn(s + length, ", ");
  }
  for (int i = 0; i < o->n_axes; i++)
    if (!given[i] && strcmp(o->axes[i], CLI_LEADING) != 0)
      return cli_usage(err, "%s is missing; %s takes %s", o->axes[i], o->name, list_axes(a, o));
  return ARKE_OK;
}

arke_status cli_values_shape(arena *a, const cli_operator *o, const char *text, cli_values *v,
                             arke_error *err) {
  if (strchr(text, '=') != NULL) return read_by_name(a, o, text, v, err);
  const char *meant = with_small_x(a, text);
  if (meant != NULL && read_by_place(a, o, meant, v, NULL) == ARKE_OK)
    return cli_usage(err, "an x stands between sizes; did you mean %s?", meant);
  return read_by_place(a, o, text, v, err);
}

/* --- element types -------------------------------------------------------------------------------------- */

/* "f64, f32 or bf16"; NULL: no memory. */
static const char *list_types(arena *a, const dtype *types, int n) {
  const char *list = "";
  for (int i = 0; i < n && list != NULL; i++)
    list = arena_printf(a, "%s%s%s", list, i == 0 ? "" : i + 1 == n ? " or " : ", ", dtype_name(types[i]));
  return list;
}

/* The types that the catalogue does not mean a variable to be are accepted, too, wherever a template takes
 * them. */
arke_status cli_values_type(arena *a, const cli_operator *o, int variable, const char *name, dtype *t,
                            arke_error *err) {
  if (dtype_from_name(name, t)) return ARKE_OK;
  dtype usual[DTYPE_COUNT], others[DTYPE_COUNT];
  const char *names[DTYPE_COUNT];
  int n = cli_operator_accepted(o, variable, usual), n_others = 0;
  for (int i = 0; i < DTYPE_COUNT; i++) {
    bool is_usual = false;
    names[i] = dtype_name((dtype)i);
    for (int k = 0; k < n; k++) is_usual = is_usual || usual[k] == (dtype)i;
    if (!is_usual) others[n_others++] = (dtype)i;
  }
  const char *list = list_types(a, usual, n), *more = list_types(a, others, n_others);
  if (list == NULL || more == NULL) return error_memory(err, CLI_USAGE);
  const char *nearest = text_nearest(name, names, DTYPE_COUNT);
  return cli_usage(err, "unknown type %s;%s%s%s accepted: %s%s%s", cli_printable(a, name),
                   nearest == NULL ? "" : " did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?", list, n_others == 0 ? "" : ", and where a template takes it ",
                   more);
}

static int find_type(const cli_operator *o, const char *name, size_t length) {
  for (int i = 0; i < o->op->n_types; i++)
    if (strlen(o->op->type_vars[i]) == length && memcmp(o->op->type_vars[i], name, length) == 0) return i;
  return -1;
}

static arke_status type_fault(const cli_operator *o, const char *what, const char *item, arke_error *err) {
  strbuf types = STRBUF_INIT, example = STRBUF_INIT;
  int n = o->op->n_types;
  cli_operator_print_types(o, &types);
  for (int i = 0; i < n; i++)
    strbuf_addf(&example, "%s%s=%s", i == 0 ? "" : ",", o->op->type_vars[i],
                dtype_name(cli_operator_usual(o, i)));
  arke_status status =
      cli_usage(err, "%s%s; the type variable%s of %s %s %s: %s or %s", item, what, n > 1 ? "s" : "", o->name,
                n > 1 ? "are" : "is", strbuf_text(&types), strbuf_text(&example),
                n > 1 ? "one for each in order" : dtype_name(cli_operator_usual(o, 0)));
  strbuf_free(&types);
  strbuf_free(&example);
  return status;
}

arke_status cli_values_types(arena *a, const cli_operator *o, const char *text, bool given, cli_values *v,
                             arke_error *err) {
  bool bound[COUNT_OF(v->types)] = {false};
  int n = o->op->n_types, place = 0;
  if (n == 0 && !given) return ARKE_OK;
  if (n == 0) return cli_usage(err, "%s has no type variables, so it takes none", o->name);
  if (n == 1 && !given) {
    v->types[0] = cli_operator_usual(o, 0);
    return ARKE_OK;
  }
  for (const char *s = text;; place++) {
    size_t length = strcspn(s, ",");
    const char *equals = memchr(s, '=', length);
    const char *item = cli_printable(a, arena_strndup(a, s, length));
    size_t skipped = equals == NULL ? 0 : (size_t)(equals + 1 - s);
    int i = equals == NULL ? place : find_type(o, s, skipped - 1);
    if (i < 0) return type_fault(o, " names no type variable", item, err);
    if (i >= n) return type_fault(o, " is one too many", item, err);
    if (bound[i]) return type_fault(o, " is given twice", o->op->type_vars[i], err);
    bound[i] = true;
    const char *name = arena_strndup(a, s + skipped, length - skipped);
    if (name == NULL) return error_memory(err, CLI_USAGE);
    TRY(cli_values_type(a, o, i, name, &v->types[i], err));
    if (s[length] == '\0') break;
    s += length + 1;
  }
  for (int i = 0; i < n; i++)
    if (!bound[i]) return type_fault(o, " is missing", o->op->type_vars[i], err);
  return ARKE_OK;
}

/* --- printing ------------------------------------------------------------------------------------------- */

static int64_t size_of(const ir_problem *p, const char *axis) {
  for (int i = 0; i < p->op->n_axes; i++)
    if (strcmp(p->op->axes[i], axis) == 0) return p->sizes[i];
  return 0;
}

void cli_values_print_shape(const cli_operator *o, const ir_problem *p, strbuf *out) {
  size_t begin = out->length;
  for (int i = 0; i < o->n_axes; i++) {
    bool dots = strcmp(o->axes[i], CLI_LEADING) == 0;
    for (int k = 0; k < (dots ? p->lead_rank : 1); k++)
      strbuf_addf(out, "%s%lld", out->length == begin ? "" : "x",
                  (long long)(dots ? p->lead[k] : size_of(p, o->axes[i])));
  }
  if (out->length == begin && o->n_axes > 0) strbuf_add(out, CLI_LEADING "="); /* no axes at all: a scalar */
}

void cli_values_print_types(const cli_operator *o, const ir_problem *p, strbuf *out) {
  for (int i = 0; i < o->op->n_types; i++) {
    if (o->op->n_types > 1) strbuf_addf(out, "%s%s=", i == 0 ? "" : ",", o->op->type_vars[i]);
    strbuf_add(out, dtype_name(p->types[i]));
  }
}
