#include "cache/store.h"

#include <string.h>

#include "base/limits.h"

static const char *const OUTCOMES[CACHE_OUTCOME_COUNT] = {
#define X(NAME, text) text,
    CACHE_OUTCOMES(X)
#undef X
};

static const char *const ORIGINS[CACHE_ORIGIN_COUNT] = {
#define X(NAME, text) text,
    CACHE_ORIGINS(X)
#undef X
};

const char *cache_outcome_name(cache_outcome o) {
  return OUTCOMES[o];
}

const char *cache_origin_name(cache_origin o) {
  return ORIGINS[o];
}

bool store_outcome_from_name(const char *name, cache_outcome *o) {
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++)
    if (strcmp(name, OUTCOMES[i]) == 0) {
      *o = (cache_outcome)i;
      return true;
    }
  return false;
}

bool store_origin_from_name(const char *name, cache_origin *o) {
  for (int i = 0; i < CACHE_ORIGIN_COUNT; i++)
    if (strcmp(name, ORIGINS[i]) == 0) {
      *o = (cache_origin)i;
      return true;
    }
  return false;
}

const char *cache_variant(const char *ptx) {
  const char *plus = strchr(ptx, '+');
  return plus == NULL ? "" : plus;
}

bool cache_gathers(const char *op_text) {
  int depth = 0;
  for (const char *at = op_text; *at != '\0'; at++) {
    depth += (*at == '[') - (*at == ']');
    if (depth > 1) return true;
  }
  return false;
}

void cache_key_print(const cache_problem *p, strbuf *out) {
  strbuf_addf(out, "%s | %s | %s | ptx %s", p->op_text, p->bindings, p->target, p->ptx);
}

/* A word of the tensors' notation: not empty, and free of the characters that separate words. */
static bool is_word(const char *text) {
  return text != NULL && text[0] != '\0' && strpbrk(text, " :,[]") == NULL;
}

static bool is_tensor(const cache_tensor *t) {
  if (!is_word(t->name) || !is_word(t->type) || t->rank < 0 || t->rank > LIMIT_RANK) return false;
  for (int i = 0; i < t->rank; i++)
    if (!is_word(t->dims[i]) || strcmp(t->dims[i], "...") == 0) return false;
  return true;
}

arke_status store_print_tensors(const cache_problem *p, strbuf *out, arke_error *err) {
  if (p->n_tensors < 0 || p->n_tensors > LIMIT_TENSORS)
    return error_set(err, ARKE_ERR_INVALID, "cache", "operator %s has %d tensors; 0 to %d can be stored",
                     p->op_name, p->n_tensors, LIMIT_TENSORS);
  for (int i = 0; i < p->n_tensors; i++) {
    const cache_tensor *t = &p->tensors[i];
    if (!is_tensor(t))
      return error_set(
          err, ARKE_ERR_INVALID, "cache",
          "tensor %d of operator %s needs a name, a type and at most %d dimensions, each without "
          "spaces, ':', ',' or brackets",
          i, p->op_name, LIMIT_RANK);
    strbuf_addf(out, "%s%s %s:%s[", i > 0 ? " " : "", t->output ? "out" : "in", t->name, t->type);
    if (t->any_rank) strbuf_add(out, t->rank > 0 ? "...," : "...");
    for (int d = 0; d < t->rank; d++) strbuf_addf(out, "%s%s", d > 0 ? "," : "", t->dims[d]);
    strbuf_add(out, "]");
  }
  return strbuf_failed(out) ? error_memory(err, "cache") : ARKE_OK;
}

/* Cuts the word that ends at `separator` off *rest, in place; NULL if there is no such separator. */
static char *cut(char **rest, char separator) {
  char *word = *rest, *end = strchr(word, separator);
  if (end == NULL) return NULL;
  *end = '\0';
  *rest = end + 1;
  return word;
}

static bool parse_tensor(char **rest, cache_tensor *t) {
  char *role = cut(rest, ' ');
  if (role == NULL) return false;
  t->output = strcmp(role, "out") == 0;
  if (!t->output && strcmp(role, "in") != 0) return false;
  t->name = cut(rest, ':');
  if (t->name == NULL) return false;
  t->type = cut(rest, '[');
  if (t->type == NULL) return false;
  char *dims = cut(rest, ']');
  if (dims == NULL) return false;
  if (dims[0] == '\0') dims = NULL;
  while (dims != NULL) {
    char *dim = dims, *comma = strchr(dims, ',');
    dims = comma == NULL ? NULL : comma + 1;
    if (comma != NULL) *comma = '\0';
    if (!t->any_rank && t->rank == 0 && strcmp(dim, "...") == 0)
      t->any_rank = true;
    else if (t->rank < LIMIT_RANK)
      t->dims[t->rank++] = dim;
    else
      return false;
  }
  return is_tensor(t);
}

bool store_parse_tensors(const char *text, arena *a, cache_problem *p, bool *out_of_memory) {
  cache_tensor *tensors = ARENA_NEW_N(a, cache_tensor, LIMIT_TENSORS);
  char *rest = arena_strdup(a, text);
  *out_of_memory = tensors == NULL || rest == NULL;
  if (*out_of_memory) return false;
  int n = 0;
  while (rest[0] != '\0') {
    if (n > 0 && *rest++ != ' ') return false;
    if (n == LIMIT_TENSORS || !parse_tensor(&rest, &tensors[n])) return false;
    n++;
  }
  p->tensors = tensors;
  p->n_tensors = n;
  return true;
}
