/* Reading a workload file: where in it the reader is, and lists of values with their faults. */
#ifndef ARKE_TUNER_CLI_WORKLOAD_READ_H
#define ARKE_TUNER_CLI_WORKLOAD_READ_H

#include <jansson.h>

#include "tuner/cli_json_place.h"
#include "tuner/cli_workload.h"

enum { WORKLOAD_DEEPEST = 8 };

/* One reading: where it is in the file, for the sentences, and what it has collected. */
typedef struct workload_reader {
  arena *memory;
  const char *path, *text;
  json_step steps[WORKLOAD_DEEPEST];
  size_t depth;
  cli_workload *out;
  int capacity;
  size_t combinations; /* of the lists of all problems up to here */
  json_t *seen;        /* printed problems, to drop repeated ones */
} workload_reader;

/* After one part of what the reader stands before was read: *all gets its status if it failed, and the place
 * is that of `depth` again, so that the faults of the other parts are found too. False: reading cannot go on.
 */
bool workload_go_on(workload_reader *r, size_t depth, arke_status *all, arke_status part);

void workload_enter_key(workload_reader *r, const char *key);
void workload_enter_index(workload_reader *r, size_t index);
void workload_leave(workload_reader *r);
/* "FILE:LINE: problems[2].sizes.M: sentence", with the place the reader is at. */
arke_status workload_fault(workload_reader *r, arke_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *workload_kind(const json_t *value); /* "a list" */
arke_status workload_check_fields(workload_reader *r, json_t *object, const char *const *fields, size_t n,
                                  arke_error *err);

/* Lists of values; a scalar stands for a list of one. */

/* `leading`: text like "4x128" for the axes behind "...", checked; else NULL. */
typedef struct workload_size {
  int64_t size;
  const char *leading;
} workload_size;

typedef struct workload_sizes {
  size_t n;
  workload_size *values;
} workload_sizes;

typedef struct workload_types {
  size_t n;
  dtype *values;
} workload_types;

/* Values of one attribute as --attr takes them. */
typedef struct workload_attr {
  const char *name;
  size_t n;
  const char **values;
} workload_attr;

arke_status workload_read_sizes(workload_reader *r, json_t *value, bool leading, workload_sizes *list,
                                arke_error *err);
/* Of type variable `variable` of the operator. */
arke_status workload_read_types(workload_reader *r, json_t *value, const cli_operator *o, int variable,
                                workload_types *list, arke_error *err);
arke_status workload_read_attr(workload_reader *r, json_t *value, workload_attr *list, arke_error *err);

#endif
