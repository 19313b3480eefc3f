/* What the measurements of arke-tune bench share. */
#ifndef ARKE_TUNER_CLI_BENCH_PARTS_H
#define ARKE_TUNER_CLI_BENCH_PARTS_H

#include <jansson.h>

#include "tuner/cli_contest.h"
#include "tuner/cli_problem.h"
#include "tuner/cli_tuned.h"
#include "tuner/measure.h"
#include "tuner/trial_tensors.h"
#include "tuner/tune_message.h"

typedef struct bench {
  cli_settings *settings;
  arena *memory; /* lives as long as the run */
  const target *target;
  device *dev; /* the GPU; NULL where none is needed */
  device_info info;
  int n_problems;
  cli_problem *problems;
  json_t *report; /* an object, written to --output and, with --json, to standard output */
  strbuf text;    /* the table for a person */
} bench;

/* Each fills report ("method" and its figures) and text. */
arke_status cli_bench_baseline(bench *b, arke_error *err);
arke_status cli_bench_launch(bench *b, arke_error *err);
arke_status cli_bench_compile(bench *b, arke_error *err);
arke_status cli_bench_tuning(bench *b, arke_error *err);
arke_status cli_bench_configs(bench *b, arke_error *err);

/* Between two problems: prints what text has, with --json nothing, and writes what the report has to the file
 * of --output, so that whoever ends the run keeps it. */
arke_status cli_bench_so_far(bench *b, arke_error *err);

/* Has the contestants timed as a search for the problem times its candidates (docs/tuning.md): run by run
 * after a flush where tune_is_timed_cold, unless --back-to-back is given. */
arke_status cli_bench_time_alike(const bench *b, const cli_problem *p, tune_meter *m, cli_contest *c,
                                 arke_error *err);

/* A configuration on its way into a contest. */
typedef struct cli_image {
  const char *text;
  arke_error failure;  /* of no code: it is compiled */
  tune_message answer; /* then the compile worker's (compile_worker.c); the caller releases it */
} cli_image;

/* Compiles them, those of the planned kernel alone, by as many workers as a search has. What fails is told by
 * image; `candidates` get those that they lack. */
arke_status cli_bench_images(bench *b, const cli_problem *p, tune_candidates *candidates, cli_image *list,
                             int n, arke_error *err);

/* The problem's tensors on the GPU, inputs filled, as many sets as pass the L2 twice. */
arke_status cli_bench_tensors(bench *b, const cli_problem *p, tune_tensors *t, arke_error *err);

/* The problem's measured winner from the cache, tuned into it first where there is none. */
arke_status cli_bench_tuned(bench *b, const cli_problem *p, const tune_tensors *tensors, cli_tuned *t,
                            arke_error *err);

#endif
