#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir.h"

/* X(name, axes of --shape, help, text) */
#define CATALOGUE(X)                                                                                         \
  X(matmul, "M,N,K", "matrix product",                                                                       \
    "matmul(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }")                       \
  X(linear, "M,N,K", "matrix product with weights stored one output feature a row",                          \
    "linear(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }")

#define X(name, axes, help, text) {#name, text, axes, help},
static const ir_catalogue_entry ENTRIES[] = {CATALOGUE(X)};
#undef X
#define X(name, axes, help, text) #name,
static const char *const NAMES[] = {CATALOGUE(X)};
#undef X

int ir_catalogue_count(void) {
  return (int)COUNT_OF(ENTRIES);
}

const ir_catalogue_entry *ir_catalogue_get(int i) {
  return &ENTRIES[i];
}

const ir_catalogue_entry *ir_catalogue_find(const char *name, const char **nearest) {
  if (nearest != NULL) *nearest = NULL;
  for (size_t i = 0; i < COUNT_OF(ENTRIES); i++)
    if (strcmp(ENTRIES[i].name, name) == 0) return &ENTRIES[i];
  if (nearest != NULL) *nearest = text_nearest(name, NAMES, COUNT_OF(NAMES));
  return NULL;
}
