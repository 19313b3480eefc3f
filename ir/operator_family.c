/* Operators that vary in the number of tensors or axes, as text in canonical form. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir.h"

enum { MOST_NUMBERS = LIMIT_RANK };

typedef struct family_spec {
  const char *name; /* as given, "permute:0,2,1" */
  int n;
  int numbers[MOST_NUMBERS];
  strbuf text, axes;
  arke_error *err;
} family_spec;

static const char ANY_DTYPE[] = "f64 f32 f16 bf16 e4m3 e5m2 i64 i32 i16 i8 u8 bool";

/* Common axes are A, B, … with the indices a, b, …; the one that tensors are joined along is N. */
static char axis_name(int axis) {
  return (char)('A' + axis);
}

/* "permute_0_2_1(" */
static void begin(family_spec *f) {
  for (const char *c = f->name; *c != '\0'; c++) {
    char letter[2] = {*c == ':' || *c == ',' ? '_' : *c, '\0'};
    strbuf_add(&f->text, letter);
  }
  strbuf_add(&f->text, "(");
}

/* --- permute:AXIS,… --- */

static arke_status permute(family_spec *f) {
  unsigned seen = 0;
  for (int i = 0; i < f->n; i++)
    if (f->numbers[i] < f->n) seen |= 1u << f->numbers[i];
  if (seen != (1u << f->n) - 1)
    return error_set(f->err, ARKE_ERR_ARGUMENT, "operator", "%s: accepted is each axis from 0 to %d once",
                     f->name, f->n - 1);
  begin(f);
  for (int side = 0; side < 2; side++) {
    strbuf_add(&f->text, side == 0 ? "X: T[" : ") -> (Y: T[");
    for (int i = 0; i < f->n; i++)
      strbuf_addf(&f->text, i == 0 ? "%c" : ",%c", axis_name(side == 0 ? i : f->numbers[i]));
    strbuf_add(&f->text, "]");
  }
  for (int side = 1; side >= 0; side--) {
    strbuf_add(&f->text, side == 1 ? ") { Y[" : "] = X[");
    for (int i = 0; i < f->n; i++)
      strbuf_addf(&f->text, i == 0 ? "%c" : ",%c", axis_name(side == 0 ? i : f->numbers[i]) + 'a' - 'A');
  }
  strbuf_add(&f->text, "] }");
  for (int i = 0; i < f->n; i++) strbuf_addf(&f->axes, i == 0 ? "%c" : ",%c", axis_name(i));
  return ARKE_OK;
}

/* --- concat:RANK,AXIS,COUNT and split:RANK,AXIS,COUNT --- */

/* "[A,N0,B]" of the part-th tensor, "[A,N,B]" of the whole (part < 0). */
static void add_dims(family_spec *f, int part) {
  strbuf_add(&f->text, "[");
  for (int i = 0; i < f->numbers[0]; i++) {
    if (i > 0) strbuf_add(&f->text, ",");
    if (i != f->numbers[1])
      strbuf_addf(&f->text, "%c", axis_name(i < f->numbers[1] ? i : i - 1));
    else if (part >= 0)
      strbuf_addf(&f->text, "N%d", part);
    else
      strbuf_add(&f->text, "N");
  }
  strbuf_add(&f->text, "]");
}

/* "[a,n + N0 + N1,b]": where part 2 lies in the whole (`whole`), or "[a,n,b]". */
static void add_subscripts(family_spec *f, int part, bool whole) {
  strbuf_add(&f->text, "[");
  for (int i = 0; i < f->numbers[0]; i++) {
    if (i > 0) strbuf_add(&f->text, ",");
    if (i != f->numbers[1]) {
      strbuf_addf(&f->text, "%c", axis_name(i < f->numbers[1] ? i : i - 1) + 'a' - 'A');
      continue;
    }
    strbuf_add(&f->text, "n");
    if (whole && part == 0) strbuf_add(&f->text, " + 0"); /* a part of a longer axis is meant */
    for (int k = 0; whole && k < part; k++) strbuf_addf(&f->text, " + N%d", k);
  }
  strbuf_add(&f->text, "]");
}

static arke_status parts(family_spec *f, bool joins) {
  int rank = f->n == 3 ? f->numbers[0] : 0, axis = f->numbers[1], count = f->numbers[2];
  int most = LIMIT_AXES - rank < LIMIT_TENSORS - 1 ? LIMIT_AXES - rank : LIMIT_TENSORS - 1;
  if (rank < 1 || rank > LIMIT_RANK || axis >= rank || count < 1 || count > most)
    return error_set(
        f->err, ARKE_ERR_ARGUMENT, "operator",
        "%s: accepted are RANK,AXIS,COUNT: a number of axes from 1 to %d, an axis from 0 to RANK - 1 and a "
        "number of parts from 1 to %d, like %s:2,1,3",
        f->name, LIMIT_RANK, rank >= 1 && rank <= LIMIT_RANK ? most : LIMIT_TENSORS - 1,
        joins ? "concat" : "split");
  begin(f);
  for (int side = 0; side < 2; side++) {
    if (side == 1) strbuf_add(&f->text, ") -> (");
    bool whole = (side == 0) != joins;
    for (int part = 0; part < (whole ? 1 : count); part++) {
      if (part > 0) strbuf_add(&f->text, ", ");
      strbuf_add(&f->text, side == 0 ? "X" : "Y");
      if (!whole) strbuf_addf(&f->text, "%d", part);
      strbuf_add(&f->text, ": T");
      add_dims(f, whole ? -1 : part);
    }
  }
  strbuf_add(&f->text, ") {");
  for (int part = 0; part < count; part++) {
    strbuf_add(&f->text, part == 0 ? " Y" : "; Y");
    if (!joins) strbuf_addf(&f->text, "%d", part);
    add_subscripts(f, part, joins);
    strbuf_add(&f->text, " = X");
    if (joins) strbuf_addf(&f->text, "%d", part);
    add_subscripts(f, part, !joins);
  }
  strbuf_add(&f->text, " }");
  for (int i = 0; i + 1 < rank; i++) strbuf_addf(&f->axes, "%c,", axis_name(i));
  for (int part = 0; part < count; part++) strbuf_addf(&f->axes, "N%d,", part);
  strbuf_add(&f->axes, "N");
  return ARKE_OK;
}

static arke_status concat(family_spec *f) {
  return parts(f, true);
}

static arke_status split(family_spec *f) {
  return parts(f, false);
}

/* --- all of them --- */

/* X(name, form, help) */
#define FAMILIES(X)                                                                                          \
  X(permute, "permute:AXIS,…", "axes in another order: the output's i-th is the input's AXIS")               \
  X(concat, "concat:RANK,AXIS,COUNT",                                                                        \
    "COUNT tensors of RANK axes joined along AXIS; the last size is theirs together")                        \
  X(split, "split:RANK,AXIS,COUNT",                                                                          \
    "a tensor of RANK axes taken apart along AXIS; the last size is the whole's")

typedef struct family {
  const char *name, *form, *help;
  arke_status (*make)(family_spec *f);
} family;

#define X(name, form, help) {#name, form, help, name},
static const family ALL[] = {FAMILIES(X)};
#undef X

int ir_family_count(void) {
  return (int)COUNT_OF(ALL);
}

const char *ir_family_form(int i) {
  return ALL[i].form;
}

const char *ir_family_help(int i) {
  return ALL[i].help;
}

static bool read_numbers(const char *text, family_spec *f) {
  while (f->n < MOST_NUMBERS) {
    size_t length = strcspn(text, ",");
    int64_t value;
    if (!text_to_i64(text, length, 0, 64, &value)) return false;
    f->numbers[f->n++] = (int)value;
    if (text[length] == '\0') return true;
    text += length + 1;
  }
  return false;
}

static arke_status make(arena *a, const family *of, const char *name, ir_catalogue_entry *entry,
                        arke_error *err) {
  family_spec f = {.name = name, .err = err};
  if (!read_numbers(name + strlen(of->name) + 1, &f))
    return error_set(err, ARKE_ERR_ARGUMENT, "operator", "%s: accepted is %s, with 1 to %d numbers", name,
                     of->form, MOST_NUMBERS);
  arke_status status = of->make(&f);
  if (status == ARKE_OK) {
    *entry = (ir_catalogue_entry){.name = arena_strdup(a, name),
                                  .text = arena_strdup(a, strbuf_text(&f.text)),
                                  .shape_axes = arena_strdup(a, strbuf_text(&f.axes)),
                                  .help = of->help,
                                  .family = "movement",
                                  .dtypes = ANY_DTYPE};
    if (strbuf_failed(&f.text) || strbuf_failed(&f.axes) || entry->name == NULL || entry->text == NULL ||
        entry->shape_axes == NULL)
      status = error_memory(err, "operator");
  }
  strbuf_free(&f.text);
  strbuf_free(&f.axes);
  return status;
}

arke_status ir_operator_find(arena *a, const char *name, const ir_catalogue_entry **entry, arke_error *err) {
  const char *nearest;
  *entry = ir_catalogue_find(name, &nearest);
  if (*entry != NULL) return ARKE_OK;
  size_t length = strcspn(name, ":");
  for (size_t i = 0; i < COUNT_OF(ALL) && length < LIMIT_NAME_BYTES; i++) {
    if (strlen(ALL[i].name) != length || strncmp(name, ALL[i].name, length) != 0) continue;
    if (name[length] == '\0')
      return error_set(err, ARKE_ERR_ARGUMENT, "operator", "%s takes numbers: %s", name, ALL[i].form);
    ir_catalogue_entry *made = ARENA_NEW(a, ir_catalogue_entry);
    if (made == NULL) return error_memory(err, "operator");
    *entry = made;
    return make(a, &ALL[i], name, made, err);
  }
  return error_set(err, ARKE_ERR_NOT_FOUND, "operator", "unknown operator %.*s%s%s%s", LIMIT_NAME_BYTES, name,
                   nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?");
}
