/* Reading and comparing short texts: numbers with range checks, and the nearest name for a misspelt one. */
#ifndef ARKE_BASE_TEXT_H
#define ARKE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses a whole decimal integer (no sign, no space, nothing after it) in [min, max]. */
bool text_to_i64(const char *text, size_t length, int64_t min, int64_t max, int64_t *value);
/* Parses a finite decimal floating-point number that is the whole text, independent of the locale. */
bool text_to_f64(const char *text, double *value);
/* The word for so many of a thing: "entry" for 1. */
const char *text_plural(int64_t n, const char *one, const char *many);
/* The candidate with the least edit distance to `word`, or NULL when none is near enough to suggest. */
const char *text_nearest(const char *word, const char *const *candidates, size_t n);

#endif
