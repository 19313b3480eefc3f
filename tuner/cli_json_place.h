/* Lines of values in JSON text: Jansson tells the line of a syntax error, but not where a value stood. */
#ifndef ARKE_TUNER_CLI_JSON_PLACE_H
#define ARKE_TUNER_CLI_JSON_PLACE_H

#include <stddef.h>

/* The way from the root to a value: object keys and array indices. */
typedef struct json_step {
  const char *key; /* NULL: an array index */
  size_t index;
} json_step;

/* The 1-based line on which the value at `path` starts (or its key, for the last step's key). `text` must be
 * valid JSON, NUL-terminated. Where a step is not found, the line of the value above it. */
int json_place_line(const char *text, const json_step *path, size_t n_steps);

#endif
