/* From names and sizes to a problem: the checks that --op, --shape and workload files share. */
#ifndef ARKE_TUNER_CLI_PROBLEM_H
#define ARKE_TUNER_CLI_PROBLEM_H

#include "tuner/candidates.h"
#include "tuner/cli_settings.h"
#include "tuner/cli_values.h"

typedef struct cli_problem {
  const cli_operator *spec;
  ir_problem problem;
  const char *attrs;  /* as given: "eps=1e-5,k=8"; "" */
  const char *bucket; /* "" or ranges, checked */
  double weight;      /* share in a workload's totals; 1 unless the file says otherwise */
} cli_problem;

/* Errors are sentences without a subject, for the caller to prefix with where the values stand; status
 * ARKE_ERR_ARGUMENT. Where no output has an element there is nothing to tune: an error too. */
arke_status cli_problem_bind(arena *a, const cli_operator *o, const cli_values *v, cli_problem *p,
                             arke_error *err);
/* "M=1..128,N=8..64": axes of the problem, whose own sizes must be inside. */
arke_status cli_bucket_check(arena *a, const ir_problem *p, const char *text, arke_error *err);

/* The problem of a named operator; shape and types as --shape and --dtype take them. */
arke_status cli_problem_make(arena *a, const char *op_name, const char *shape, const char *types,
                             cli_problem *p, arke_error *err);
/* The problem of --op or --define, --shape, --dtype, --attr, --bucket. */
arke_status cli_problem_read(const cli_settings *s, arena *a, cli_problem *p, arke_error *err);

/* The target meant when no GPU and no --target decides. */
const target *cli_default_target(void);
/* Name of the template whose kernels of large products stand for all in tests of a device. */
const char *cli_products_of(const target *t);
/* Ranks the configurations for the problem, and checks --config if `config_text` is not NULL: what it names
 * must be feasible. On success *c is the caller's, for tune_candidates_release. */
arke_status cli_candidates(const ir_problem *p, const target *t, const char *config_text, tune_candidates *c,
                           arke_error *err);

/* "4096x4096x4096", as --shape takes it. */
void cli_shape_print(const cli_problem *p, strbuf *out);

#endif
