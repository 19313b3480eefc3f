/* A template whose kernels do wrong on purpose: what the tuner must survive, on a real device. Its tiling
 * space is one parameter, FAULT; 0 is a sound kernel of a product (cli_products_of). */
#ifndef ARKE_TUNER_CLI_PLANTED_H
#define ARKE_TUNER_CLI_PLANTED_H

#include "tuner/tune.h"

/* X(NAME, outcome it must have, meaning) in the order of the parameter's values. */
#define CLI_FAULTS(X)                                                                                        \
  X(NONE, MEASURED, "sound")                                                                                 \
  X(WRITE, FAULT, "writes to an address nobody owns")                                                        \
  X(HANG, TIMEOUT, "never ends")                                                                             \
  X(WRONG, WRONG, "ends without computing")                                                                  \
  X(ABORT, CRASHED, "its lowering ends the process")                                                         \
  X(SYNTAX, ASSEMBLE_FAILED, "no valid PTX")

typedef enum cli_fault {
#define X(NAME, outcome, meaning) CLI_FAULT_##NAME,
  CLI_FAULTS(X)
#undef X
      CLI_FAULT_COUNT,
} cli_fault;

typedef struct cli_fault_row {
  cache_outcome outcome;
  const char *meaning;
} cli_fault_row;
extern const cli_fault_row cli_fault_table[CLI_FAULT_COUNT];

extern const kernel_template cli_planted_template;
/* The planted template alone, for tune_options. */
extern const tune_templates cli_planted_templates;

#endif
