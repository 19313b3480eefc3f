/* The selftest's part that runs every operator by every template that takes it (operator_sweep.h), and
 * counts. */
#ifndef ARKE_TUNER_CLI_OPERATORS_H
#define ARKE_TUNER_CLI_OPERATORS_H

#include "tuner/operator_sweep.h"

typedef struct cli_operators {
  int64_t runs, right, wrong, refused, untaken;
  int64_t compared;     /* elements */
  int operators, cut;   /* that were begun; of these, that had more runs than time */
  strbuf faults;        /* what was wrong, a line each: the first few */
  double until_s;       /* the operator at hand; set here */
  bool stopped;         /* `stop` said so; set here */
  bool (*stop)(void *); /* asked after each run; NULL: never */
  void *user;
} cli_operators;

/* `what`: device and extent; `only`, `tell` and `user` are set here. Of `budget_s` each operator may use the
 * part of those that are left, so that a late one has no less than an early one; 0: no limit. What an
 * operator leaves is the others'. ARKE_ERR_INTERRUPTED: `stop` said so. */
arke_status cli_operators_run(const operator_sweep *what, double budget_s, cli_operators *o, arke_error *err);

#endif
