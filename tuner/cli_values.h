/* What binds an operator: element types, sizes and attributes, from the texts of --dtype, --shape and --attr.
 * Every fault is a sentence without a subject ("found 2 sizes; …"), for the caller to prefix with where the
 * text stands; status ARKE_ERR_ARGUMENT. */
#ifndef ARKE_TUNER_CLI_VALUES_H
#define ARKE_TUNER_CLI_VALUES_H

#include "tuner/cli_operator.h"

typedef struct cli_values {
  dtype types[COUNT_OF(((ir_problem *)0)->types)]; /* by type variable */
  int64_t sizes[LIMIT_AXES + 1];                   /* by cli_operator.axes; CLI_LEADING's means nothing */
  int lead_rank;
  int64_t lead[LIMIT_RANK];
  const char *attrs; /* "eps=1e-5,k=8", names and values not yet looked at; "" */
} cli_values;

/* "4096x4096x4096" in the operator's order, or by name and in any order: "M=64,N=8", "...=4x128,H=64". */
arke_status cli_values_shape(arena *a, const cli_operator *o, const char *text, cli_values *v,
                             arke_error *err);
/* "4x128" for the axes behind "..."; "" for none. */
arke_status cli_values_leading(arena *a, const char *text, cli_values *v, arke_error *err);
/* "bf16" for the only type variable, "bf16,e4m3" for all in order, "T=bf16,U=e4m3" by name. `given` is false
 * where the text is the default, which an operator without type variables does without, and one with a single
 * one takes only if it is among its types (cli_operator_usual). */
arke_status cli_values_types(arena *a, const cli_operator *o, const char *text, bool given, cli_values *v,
                             arke_error *err);

/* One name, for type variable `variable`; what is no type is told with those that the variable may be. */
arke_status cli_values_type(arena *a, const cli_operator *o, int variable, const char *name, dtype *t,
                            arke_error *err);

/* The same as --shape, --dtype and --attr take them. */
void cli_values_print_shape(const cli_operator *o, const ir_problem *p, strbuf *out);
void cli_values_print_types(const cli_operator *o, const ir_problem *p, strbuf *out);

#endif
