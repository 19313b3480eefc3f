#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool text_to_i64(const char *text, size_t length, int64_t min, int64_t max, int64_t *value) {
  if (length == 0) return false;
  int64_t v = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text[i] - '0', &v)) return false;
  }
  if (v < min || v > max) return false;
  *value = v;
  return true;
}

bool text_to_f64(const char *text, double *value) {
  if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
    return false; /* no hex, inf or space */
  locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (c == (locale_t)0) return false;
  char *end;
  double v = strtod_l(text, &end, c);
  freelocale(c);
  if (*end != '\0' || !isfinite(v)) return false;
  *value = v;
  return true;
}

enum { LONGEST_WORD = 63 };

/* Levenshtein distance, one row at a time. */
static size_t edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST_WORD || m > LONGEST_WORD) return (size_t)-1;
  size_t row[LONGEST_WORD + 1];
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t n) {
  const char *nearest = NULL;
  size_t least = strlen(word) / 2 + 1; /* farther than half the word is no misspelling */
  for (size_t i = 0; i < n; i++) {
    size_t distance = edit_distance(word, candidates[i]);
    if (distance < least) {
      least = distance;
      nearest = candidates[i];
    }
  }
  return nearest;
}

const char *text_plural(int64_t n, const char *one, const char *many) {
  return n == 1 ? one : many;
}
