#include "ir/space.h"

#include <string.h>

#include "base/text.h"

int64_t space_size(const space *s) {
  int64_t n = 1;
  for (int i = 0; i < s->n_params; i++)
    if (__builtin_mul_overflow(n, s->params[i].n_values, &n)) return INT64_MAX;
  return n;
}

void space_point(const space *s, int64_t i, config *c) {
  memset(c, 0, sizeof *c);
  for (int p = s->n_params - 1; p >= 0; p--) {
    c->values[p] = s->params[p].values[i % s->params[p].n_values];
    i /= s->params[p].n_values;
  }
}

/* Position of a value in a parameter's table, or -1. */
static int value_index(const space_param *p, int value) {
  for (int i = 0; i < p->n_values; i++)
    if (p->values[i] == value) return i;
  return -1;
}

bool space_next(const space *s, config *c) {
  for (int p = s->n_params - 1; p >= 0; p--) {
    const space_param *param = &s->params[p];
    int next = value_index(param, c->values[p]) + 1;
    c->values[p] = param->values[next % param->n_values];
    if (next < param->n_values) return true;
  }
  return false;
}

int64_t space_index(const space *s, const config *c) {
  int64_t index = 0;
  for (int p = 0; p < s->n_params; p++) {
    int at = value_index(&s->params[p], c->values[p]);
    if (at < 0) return -1;
    index = index * s->params[p].n_values + at;
  }
  return index;
}

static int find_param(const space *s, const char *name, size_t length) {
  for (int i = 0; i < s->n_params; i++)
    if (strncmp(s->params[i].name, name, length) == 0 && s->params[i].name[length] == '\0') return i;
  return -1;
}

int space_value(const space *s, const config *c, const char *param) {
  return c->values[find_param(s, param, strlen(param))];
}

void config_print(const space *s, const config *c, strbuf *out) {
  for (int i = 0; i < s->n_params; i++)
    strbuf_addf(out, "%s%s=%d", i == 0 ? "" : ",", s->params[i].name, c->values[i]);
}

static arke_status fail_name(const space *s, const char *name, arke_error *err) {
  const char *names[LIMIT_PARAMS];
  strbuf list = STRBUF_INIT;
  for (int i = 0; i < s->n_params; i++) {
    names[i] = s->params[i].name;
    strbuf_addf(&list, i == 0 ? "%s" : ", %s", names[i]);
  }
  const char *nearest = text_nearest(name, names, (size_t)s->n_params);
  arke_status status =
      strbuf_failed(&list)
          ? error_memory(err, "config")
          : error_set(err, ARKE_ERR_ARGUMENT, "config",
                      "unknown parameter '%s' of template %s%s%s%s; accepted: %s", name, s->template_name,
                      nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
                      nearest == NULL ? "" : "?)", strbuf_text(&list));
  strbuf_free(&list);
  return status;
}

static arke_status fail_value(const space_param *p, const char *value, arke_error *err) {
  strbuf list = STRBUF_INIT;
  for (int i = 0; i < p->n_values; i++) strbuf_addf(&list, i == 0 ? "%d" : ", %d", p->values[i]);
  arke_status status = strbuf_failed(&list)
                           ? error_memory(err, "config")
                           : error_set(err, ARKE_ERR_ARGUMENT, "config", "%s=%s: accepted are %s", p->name,
                                       value, strbuf_text(&list));
  strbuf_free(&list);
  return status;
}

static bool read_value(const char *text, int *value) {
  bool negative = text[0] == '-';
  int64_t v;
  if (!text_to_i64(text + negative, strlen(text + negative), 0, INT32_MAX, &v)) return false;
  *value = negative ? -(int)v : (int)v;
  return true;
}

arke_status config_parse(const space *s, const char *text, const config *defaults, config *c,
                         arke_error *err) {
  bool given[LIMIT_PARAMS] = {false};
  char word[2 * LIMIT_NAME_BYTES];
  config parsed = *defaults;
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, ",");
    const char *equals = memchr(at, '=', length);
    if (equals == NULL || equals == at || length >= sizeof word)
      return error_set(err, ARKE_ERR_ARGUMENT, "config", "'%.*s': NAME=VALUE,NAME=VALUE,… is accepted",
                       length > 60 ? 60 : (int)length, at);
    memcpy(word, at, length);
    word[length] = '\0';
    word[equals - at] = '\0';
    const char *value = word + (equals - at) + 1;
    int i = find_param(s, word, strlen(word));
    if (i < 0) return fail_name(s, word, err);
    if (given[i]) return error_set(err, ARKE_ERR_ARGUMENT, "config", "%s is given twice", word);
    given[i] = true;
    if (!read_value(value, &parsed.values[i]) || value_index(&s->params[i], parsed.values[i]) < 0)
      return fail_value(&s->params[i], value, err);
    at += length;
    if (*at == ',' && *++at == '\0')
      return error_set(err, ARKE_ERR_ARGUMENT, "config",
                       "nothing after the last comma; NAME=VALUE is accepted");
  }
  *c = parsed;
  return ARKE_OK;
}

bool config_equal(const space *s, const config *a, const config *b) {
  for (int i = 0; i < s->n_params; i++)
    if (a->values[i] != b->values[i]) return false;
  return true;
}
