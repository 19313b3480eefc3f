/* A private directory for cache files that only a test or a benchmark needs. */
#ifndef ARKE_TUNER_CLI_SCRATCH_H
#define ARKE_TUNER_CLI_SCRATCH_H

#include "base/arena.h"
#include "base/error.h"

typedef struct cli_scratch {
  char *directory; /* malloc'ed; NULL: none */
} cli_scratch;

/* Under $TMPDIR or /tmp. */
arke_status cli_scratch_open(cli_scratch *s, arke_error *err);
/* DIRECTORY/name in the arena's memory; "" when out. */
const char *cli_scratch_path(const cli_scratch *s, arena *a, const char *name);
/* Removes the directory and the files in it. */
void cli_scratch_remove(cli_scratch *s);

#endif
