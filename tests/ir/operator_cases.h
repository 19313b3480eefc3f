/* Text cases: tests/ir/cases/NAME.op holds an operator, then sections that say what must come of it.
 *
 *   --- prints          the canonical form, one line
 *   --- faults          "line:column: message" lines, all of them, in order
 *   --- text            the whole error text
 *   --- bind BINDINGS   then "flops N", "bytes N", "reduction TENSOR N", "shape TENSOR AxB", "dtype TENSOR
 * NAME", "prints BINDINGS" or "error TEXT"
 *   --- eval BINDINGS   then "X = 1 2 3 …" for every input and every output to check, or "error TEXT"
 *   --- form BINDINGS   see form_cases.h */
#ifndef ARKE_TESTS_IR_OPERATOR_CASES_H
#define ARKE_TESTS_IR_OPERATOR_CASES_H

#include <stdbool.h>
#include <stddef.h>

#define CASES_DIRECTORY "tests/ir/cases" /* tests run in the source directory */

typedef struct case_section {
  char *kind, *argument; /* "bind", "T=f32 M=4" */
  char **lines;
  int n_lines;
} case_section;

typedef struct operator_case {
  char path[256];
  char *text; /* the operator */
  case_section *sections;
  int n_sections;
  char *storage;
} operator_case;

/* Names of the case files, sorted; the caller frees each and the array. */
int operator_cases_list(char ***names);
/* False, with a message on stderr, if the file cannot be read. */
bool operator_case_read(const char *name, operator_case *c);
void operator_case_free(operator_case *c);
/* A whole file, NUL-terminated, or NULL. */
char *file_read(const char *path, size_t *bytes);

#endif
