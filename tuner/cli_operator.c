#include "tuner/cli_operator.h"

#include <string.h>

#include "recipe/recipe.h"
#include "tuner/cli_options.h"

#define STAGE "operator"

static bool uses_leading(const ir_op *op) {
  for (int i = 0; i < op->n_args; i++)
    if (op->tensors[i].any_rank) return true;
  return false;
}

bool cli_operator_has_leading(const cli_operator *o) {
  return uses_leading(o->op);
}

void cli_operator_print_axes(const cli_operator *o, strbuf *out) {
  for (int i = 0; i < o->n_axes; i++) strbuf_addf(out, "%s%s", i == 0 ? "" : "x", o->axes[i]);
  if (o->n_axes == 0) strbuf_add(out, "-");
}

void cli_operator_print_types(const cli_operator *o, strbuf *out) {
  for (int i = 0; i < o->op->n_types; i++) strbuf_addf(out, "%s%s", i == 0 ? "" : ", ", o->op->type_vars[i]);
}

/* The names that the catalogue lists for a type variable, up to a '|' or the end. */
static const char *types_of(const cli_operator *o, int variable) {
  const char *s = o->dtypes;
  for (int i = 0; i < variable && *s != '\0'; i++) {
    s += strcspn(s, "|");
    s += *s == '|';
  }
  return s;
}

bool cli_operator_wants(const cli_operator *o, int variable, dtype t) {
  const char *name = dtype_name(t);
  for (const char *s = types_of(o, variable); *s != '\0' && *s != '|';) {
    size_t length = strcspn(s, " |");
    if (strlen(name) == length && memcmp(s, name, length) == 0) return true;
    s += length + strspn(s + length, " ");
  }
  return false;
}

int cli_operator_accepted(const cli_operator *o, int variable, dtype types[DTYPE_COUNT]) {
  bool any = *types_of(o, variable) == '\0';
  int n = 0;
  for (int t = 0; t < DTYPE_COUNT; t++)
    if (any || cli_operator_wants(o, variable, (dtype)t)) types[n++] = (dtype)t;
  return n;
}

dtype cli_operator_usual(const cli_operator *o, int variable) {
  dtype types[DTYPE_COUNT];
  int n = cli_operator_accepted(o, variable, types);
  for (int i = 0; i < n; i++)
    if (types[i] == DTYPE_BF16) return DTYPE_BF16;
  return types[0];
}

static arke_status take_text(arena *a, cli_operator *o, arke_error *err) {
  strbuf text = STRBUF_INIT;
  ir_op_print(o->op, &text);
  o->text = strbuf_failed(&text) ? NULL : arena_strdup(a, strbuf_text(&text));
  strbuf_free(&text);
  return o->text == NULL ? error_memory(err, STAGE) : ARKE_OK;
}

/* "M,N,K" */
static arke_status split_axes(arena *a, const char *text, cli_operator *o, arke_error *err) {
  for (const char *s = text; *s != '\0' && o->n_axes <= LIMIT_AXES;) {
    size_t length = strcspn(s, ",");
    o->axes[o->n_axes] = arena_strndup(a, s, length);
    if (o->axes[o->n_axes++] == NULL) return error_memory(err, STAGE);
    s += length + (s[length] == ',');
  }
  return ARKE_OK;
}

static arke_status take_entry(arena *a, const ir_catalogue_entry *entry, cli_operator *o, arke_error *err) {
  *o = (cli_operator){.name = entry->name, .help = entry->help, .dtypes = entry->dtypes};
  TRY(ir_op_parse(a, entry->text, &o->op, err));
  TRY(split_axes(a, entry->shape_axes, o, err));
  return take_text(a, o, err);
}

arke_status cli_operator_listed(arena *a, int i, cli_operator *o, arke_error *err) {
  return take_entry(a, ir_catalogue_get(i), o, err);
}

arke_status cli_operator_named(arena *a, const char *name, cli_operator *o, arke_error *err) {
  const ir_catalogue_entry *entry;
  arke_error inner = ARKE_ERROR_INIT;
  if (name[0] == '\0') return cli_usage(err, "the name '' is empty; --list-ops lists the operators");
  arke_status status = ir_operator_find(a, name, &entry, &inner);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (status == ARKE_ERR_NOT_FOUND)
    return cli_usage(err, "%s%s --list-ops lists the operators", cli_sentence(a, inner.text),
                     strchr(inner.text, '?') == NULL ? ";" : "");
  if (status != ARKE_OK) return cli_usage(err, "%s", cli_sentence(a, inner.text));
  TRY(take_entry(a, entry, o, err));
  o->name = arena_strdup(a, name);
  return o->name == NULL ? error_memory(err, STAGE) : ARKE_OK;
}

arke_status cli_operator_defined(arena *a, const char *text, cli_operator *o, arke_error *err) {
  arke_error inner = ARKE_ERROR_INIT;
  *o = (cli_operator){.help = "", .dtypes = ""};
  arke_status status = ir_op_parse(a, text, &o->op, &inner);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (status != ARKE_OK) return cli_usage(err, "the operator does not follow the notation:\n%s", inner.text);
  for (int i = 0; i < o->op->n_axes; i++)
    if (recipe_name_is_taken(o->op->axes[i]))
      return cli_usage(err, "the size %s has a name that launch recipes use; accepted: any other name",
                       o->op->axes[i]);
  TRY(take_text(a, o, err));
  o->name = o->op->name;
  o->define = o->text;
  if (uses_leading(o->op)) o->axes[o->n_axes++] = CLI_LEADING;
  for (int i = 0; i < o->op->n_axes; i++) o->axes[o->n_axes++] = o->op->axes[i];
  return ARKE_OK;
}
