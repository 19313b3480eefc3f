/* From names and sizes to a problem: the checks that --op, --shape and workload files share. */
#ifndef ARKE_TUNER_CLI_PROBLEM_H
#define ARKE_TUNER_CLI_PROBLEM_H

#include "ir/ir.h"
#include "tuner/candidates.h"
#include "tuner/cli_settings.h"

typedef struct cli_problem {
  const ir_catalogue_entry *entry;
  ir_problem problem;
  const char *bucket; /* "" or ranges, checked */
  double weight;      /* share in a workload's totals; 1 unless the file says otherwise */
} cli_problem;

/* The sizes in the order of the entry's shape_axes, every type variable bound to `type`. Errors are sentences
 * without a subject ("M is 0; …"), for the caller to prefix with where the sizes stand; status
 * ARKE_ERR_ARGUMENT. */
arke_status cli_problem_bind(arena *a, const ir_catalogue_entry *entry, const ir_op *op, const dtype *types,
                             const int64_t *sizes, cli_problem *p, arke_error *err);
/* Names of the entry's axes; returns their number. */
int cli_shape_axes(arena *a, const ir_catalogue_entry *entry, const char *names[LIMIT_AXES]);
/* The entry of an operator, or ARKE_ERR_NOT_FOUND with "unknown operator …; did you mean …?". */
arke_status cli_operator_find(arena *a, const char *name, const ir_catalogue_entry **entry, arke_error *err);
/* "M=1..128,N=8..64": axes of the problem, whose own sizes must be inside. */
arke_status cli_bucket_check(arena *a, const ir_problem *p, const char *text, arke_error *err);

/* The problem of an operator's name, a shape as --shape takes it (NULL is a fault) and one element type. */
arke_status cli_problem_make(arena *a, const char *op_name, const char *shape, dtype type, cli_problem *p,
                             arke_error *err);
/* The problem of --op, --shape, --dtype, --bucket. */
arke_status cli_problem_read(const cli_settings *s, arena *a, cli_problem *p, arke_error *err);

/* The target meant when no GPU and no --target decides. */
const target *cli_default_target(void);
/* Ranks the configurations for the problem, and checks --config if `config_text` is not NULL: what it names
 * must be feasible. On success *c is the caller's, for tune_candidates_release. */
arke_status cli_candidates(const ir_problem *p, const target *t, const char *config_text, tune_candidates *c,
                           arke_error *err);

/* "4096x4096x4096", as --shape takes it. */
void cli_shape_print(const cli_problem *p, strbuf *out);

#endif
