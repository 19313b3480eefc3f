/* The operator that a problem is about: one that --op names, or one that --define writes. */
#ifndef ARKE_TUNER_CLI_OPERATOR_H
#define ARKE_TUNER_CLI_OPERATOR_H

#include "ir/ir.h"

/* What stands for the leading axes in a list of axes: it takes any number of sizes. */
#define CLI_LEADING "..."

typedef struct cli_operator {
  const char *name;   /* as --op takes it; of a defined one, its own */
  const char *define; /* as --define takes it; NULL: it has a name that --op knows */
  const char *help;
  const char *dtypes; /* as in ir_catalogue_entry; "" of a defined one */
  const ir_op *op;
  const char *text; /* in canonical form */
  int n_axes;       /* what --shape binds, in order; CLI_LEADING among them at most once */
  const char *axes[LIMIT_AXES + 1];
} cli_operator;

/* Of the catalogue or of a family; ARKE_ERR_ARGUMENT with "unknown operator …; did you mean …?". Memory is
 * the arena's. */
arke_status cli_operator_named(arena *a, const char *name, cli_operator *o, arke_error *err);
/* --shape then binds the axes in the order in which the signature names them. What is wrong with the text is
 * said with line, column, source line and caret; status ARKE_ERR_ARGUMENT. */
arke_status cli_operator_defined(arena *a, const char *text, cli_operator *o, arke_error *err);
arke_status cli_operator_listed(arena *a, int i, cli_operator *o, arke_error *err); /* of ir_catalogue_get */

bool cli_operator_has_leading(const cli_operator *o);
/* Whether the catalogue means the type variable to be this. */
bool cli_operator_wants(const cli_operator *o, int variable, dtype t);
/* Those types in the order of their table, or all where nothing says what the variable is meant to be: at
 * least one. Returns how many. */
int cli_operator_accepted(const cli_operator *o, int variable, dtype types[DTYPE_COUNT]);
/* What the variable is where nobody says it: bf16 if that is accepted, else the first that is. */
dtype cli_operator_usual(const cli_operator *o, int variable);
/* "MxNxK", "...xH"; "-" when there are none. */
void cli_operator_print_axes(const cli_operator *o, strbuf *out);
/* "T, U" */
void cli_operator_print_types(const cli_operator *o, strbuf *out);

#endif
