#include "tuner/cli_json_place.h"

#include <stdbool.h>
#include <string.h>

static const char *skip_space(const char *s) {
  return s + strspn(s, " \t\r\n");
}

/* Past a string; `s` is at its opening quote. */
static const char *skip_string(const char *s) {
  for (s++; *s != '"' && *s != '\0'; s++)
    if (*s == '\\' && s[1] != '\0') s++;
  return *s == '"' ? s + 1 : s;
}

/* Past a value. Counts brackets instead of recursing: valid JSON may nest deeper than the stack. */
static const char *skip_value(const char *s) {
  size_t depth = 0;
  do {
    s = skip_space(s);
    if (*s == '"') {
      s = skip_string(s);
    } else if (*s == '{' || *s == '[') {
      depth++;
      s++;
    } else if (*s == '}' || *s == ']') {
      depth--;
      s++;
    } else if (*s == ',' || *s == ':') {
      s++;
    } else if (*s == '\0') {
      return s;
    } else {
      s += strcspn(s, " \t\r\n,:{}[]\"");
    }
  } while (depth > 0);
  return s;
}

/* The member of an object, or NULL; *key gets where its key starts. */
static const char *find_member(const char *s, const char *name, const char **key) {
  if (*s != '{') return NULL;
  size_t length = strlen(name);
  for (s = skip_space(s + 1); *s == '"';) {
    const char *start = s;
    s = skip_string(s);
    bool found = (size_t)(s - start) == length + 2 && memcmp(start + 1, name, length) == 0;
    s = skip_space(s);
    if (*s == ':') s = skip_space(s + 1);
    if (found) {
      *key = start;
      return s;
    }
    s = skip_space(skip_value(s));
    if (*s == ',') s = skip_space(s + 1);
  }
  return NULL;
}

static const char *find_element(const char *s, size_t index) {
  if (*s != '[') return NULL;
  s = skip_space(s + 1);
  for (size_t i = 0; *s != ']' && *s != '\0'; i++) {
    if (i == index) return s;
    s = skip_space(skip_value(s));
    if (*s == ',') s = skip_space(s + 1);
  }
  return NULL;
}

int json_place_line(const char *text, const json_step *path, size_t n_steps) {
  const char *at = skip_space(text), *place = at;
  for (size_t i = 0; i < n_steps; i++) {
    const char *key = NULL;
    const char *next =
        path[i].key != NULL ? find_member(at, path[i].key, &key) : find_element(at, path[i].index);
    if (next == NULL) break;
    at = next;
    place = key != NULL ? key : next;
  }
  int line = 1;
  for (const char *s = text; s < place; s++) line += *s == '\n';
  return line;
}
