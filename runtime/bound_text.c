/* Bindings as text: "T=bf16 M=4096 eps=1e-05". */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runtime/call.h"

const bound_name *bound_find(const bound_call *b, const char *name, size_t length) {
  for (int i = 0; i < b->n; i++)
    if (strlen(b->names[i].name) == length && memcmp(b->names[i].name, name, length) == 0)
      return &b->names[i];
  return NULL;
}

bool bound_next_field(const char **text, bound_field *f) {
  const char *at = *text + strspn(*text, " ,");
  size_t length = strcspn(at, " ,");
  const char *equals = memchr(at, '=', length);
  if (equals == NULL) return false;
  f->name = at;
  f->name_length = (size_t)(equals - at);
  f->value = equals + 1;
  f->value_length = length - f->name_length - 1;
  *text = at + length;
  return true;
}

bool bound_field_size(const bound_field *f, int64_t *size) {
  const char *at = f->value, *end = f->value + f->value_length;
  *size = 1;
  while (at < end) {
    const char *x = memchr(at, 'x', (size_t)(end - at));
    int64_t part;
    if (!text_to_i64(at, (size_t)((x == NULL ? end : x) - at), 0, LIMIT_AXIS_SIZE, &part)) return false;
    if (__builtin_mul_overflow(*size, part, size)) return false;
    at = x == NULL ? end : x + 1;
  }
  return true;
}

bool bound_literal(const char *text, double *value) {
  static const struct {
    const char *name;
    double value;
  } WORDS[] = {{"true", 1}, {"false", 0}, {"inf", INFINITY}, {"-inf", -INFINITY}};
  for (size_t i = 0; i < COUNT_OF(WORDS); i++)
    if (strcmp(text, WORDS[i].name) == 0) {
      *value = WORDS[i].value;
      return true;
    }
  dtype t;
  if (dtype_from_name(text, &t)) {
    *value = t;
    return true;
  }
  return text_to_f64(text, value);
}

bool bound_same_value(const bound_name *n, const bound_field *f) {
  char text[LIMIT_NAME_BYTES];
  int64_t size;
  double value;
  dtype t;
  if (n->kind == BOUND_AXIS) return bound_field_size(f, &size) && size == n->size;
  if (f->value_length >= sizeof text) return false;
  memcpy(text, f->value, f->value_length);
  text[f->value_length] = '\0';
  if (n->kind == BOUND_TYPE) return dtype_from_name(text, &t) && t == n->type;
  return bound_literal(text, &value) && (value == n->value || (float)value == (float)n->value);
}

/* The shortest decimal form that reads back as the same number. */
static void print_number(double value, strbuf *out) {
  char digits[32] = "";
  double back;
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (text_to_f64(digits, &back) && back == value) break;
  }
  strbuf_add(out, digits);
}

void bound_print_value(const bound_name *n, strbuf *out) {
  if (n->kind == BOUND_TYPE)
    strbuf_add(out, dtype_name(n->type));
  else if (n->kind == BOUND_AXIS)
    strbuf_addf(out, "%" PRId64, n->size);
  else
    print_number(n->value, out);
}

void bound_print(const bound_call *b, const char *example, strbuf *out) {
  bound_field f;
  for (const char *separator = ""; bound_next_field(&example, &f); separator = " ") {
    const bound_name *n = bound_find(b, f.name, f.name_length);
    if (n == NULL) return;
    strbuf_addf(out, "%s%s=", separator, n->name);
    /* One value has several spellings; the example's is the tuner's. */
    if (bound_same_value(n, &f))
      strbuf_add_bytes(out, f.value, f.value_length);
    else
      bound_print_value(n, out);
  }
}
