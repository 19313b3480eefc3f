/* One configuration of each class of the gemm template, as small as the class allows, and operators in every
 * storage order: what the tests of space, lowering and emulation run through. */
#ifndef ARKE_TESTS_GEMM_CLASSES_H
#define ARKE_TESTS_GEMM_CLASSES_H

#include "templates/template.h"

/* By storage order: which axis of A and of B is contiguous (N: B's n, T: k for B; first letter: T for A's m).
 */
extern const char *const gemm_operators[4]; /* NN, NT, TN, TT */
enum { GEMM_NN, GEMM_NT, GEMM_TN, GEMM_TT };

typedef struct gemm_class {
  int operator; /* index in gemm_operators */
  const char *type;
  const char *config; /* the rest is of gemm_class_defaults */
} gemm_class;

int gemm_class_count(void);
const gemm_class *gemm_class_get(int i);

/* A class bound to sizes. Fails the test when it cannot be. */
typedef struct gemm_setup {
  const target *t;
  const kernel_template *gemm;
  ir_problem p;
  config c;
} gemm_setup;
gemm_setup gemm_class_bind(arena *a, const gemm_class *g, int64_t m, int64_t n, int64_t k);

#endif
