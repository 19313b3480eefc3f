/* The selftest's part that runs every operator by every template that takes it (operator_sweep.h), and
 * counts. */
#ifndef ARKE_TUNER_CLI_OPERATORS_H
#define ARKE_TUNER_CLI_OPERATORS_H

#include "tuner/operator_sweep.h"

typedef struct cli_operators {
  int64_t runs, right, wrong, refused, untaken;
  int64_t compared;     /* elements */
  strbuf faults;        /* what was wrong, a line each: the first few */
  bool (*stop)(void *); /* asked after each run; NULL: never */
  void *user;
} cli_operators;

/* `what`: device and extent; `tell` and `user` are set here. ARKE_ERR_INTERRUPTED: `stop` said so. */
arke_status cli_operators_run(const operator_sweep *what, cli_operators *o, arke_error *err);

#endif
