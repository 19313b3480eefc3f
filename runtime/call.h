/* A call as the runtime sees it: DLPack tensors read and checked, then bound against a stored signature. */
#ifndef ARKE_RUNTIME_CALL_H
#define ARKE_RUNTIME_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "cache/cache.h"

typedef struct call_tensor {
  dtype type;
  int rank;
  int64_t shape[LIMIT_RANK];
  /* In elements. Axes of size 1 get the stride of a compact tensor, since theirs means nothing. */
  int64_t stride[LIMIT_RANK];
  bool compact; /* row-major without gaps */
  bool empty;
  int64_t span_bytes; /* from the first to past the last element */
  uint64_t address;   /* data + byte_offset; 0: not allocated yet */
} call_tensor;

typedef struct call {
  const char *op;
  int n_tensors;
  call_tensor tensors[LIMIT_TENSORS];
  int n_attrs;
  const arke_attr *attrs;
} call;

/* Where tensors must live. */
typedef struct call_place {
  DLDeviceType type;
  int device_index; /* of CUDA tensors */
} call_place;

/* Reads and checks everything that does not need a signature: pointers, ranks, dtypes, sizes, strides,
 * device. */
arke_status call_read(const char *op, const DLTensor *const *tensors, int n_tensors, const arke_attr *attrs,
                      int n_attrs, call_place place, call *c, arke_error *err);
const char *call_device_name(DLDeviceType type); /* "CUDA" */

/* One name of a bindings text, bound by a call. */
typedef enum bound_kind { BOUND_TYPE, BOUND_AXIS, BOUND_ATTR } bound_kind;

typedef struct bound_name {
  bound_kind kind;
  const char *name;
  dtype type;   /* TYPE */
  int64_t size; /* AXIS; "...": the elements of all leading axes */
  double value; /* ATTR */
} bound_name;

enum { BOUND_MAX_TYPES = 4, BOUND_MAX = BOUND_MAX_TYPES + LIMIT_AXES + LIMIT_ATTRS };

typedef struct bound_call {
  const cache_problem *signature;
  /* By tensor of the signature: which of the call's it is. An output in place (its name is an input's) is not
   * passed again. */
  int given[LIMIT_TENSORS];
  int n;
  bound_name names[BOUND_MAX]; /* types, then axes, then attributes, each in order of first appearance */
} bound_call;

/* Binds types from dtypes, axes from shapes, attributes from the call or their defaults. Every disagreement
 * is one sentence: which tensor, which axis, what was expected, what was found. So is an output whose
 * elements overlap. Names live as long as `signature`. */
arke_status call_bind(const call *c, const cache_problem *signature, arena *a, bound_call *b,
                      arke_error *err);
/* Tensor `i` of the signature. */
const call_tensor *bound_tensor(const bound_call *b, const call *c, int i);
/* Whether no output has an element. */
bool call_outputs_empty(const call *c, const bound_call *b);
const bound_name *bound_find(const bound_call *b, const char *name, size_t length);
/* The call's bindings, names and spellings as in `example`, another bindings text of the signature. */
void bound_print(const bound_call *b, const char *example, strbuf *out);
void bound_print_value(const bound_name *n, strbuf *out);

/* A field "M=4096" of a bindings text. */
typedef struct bound_field {
  const char *name, *value;
  size_t name_length, value_length;
} bound_field;
/* Reads the next field and moves *text past it; false at the end. */
bool bound_next_field(const char **text, bound_field *f);
/* "4096"; "4x128" gives the product. */
bool bound_field_size(const bound_field *f, int64_t *size);
/* Whether the field says what the call says. Attributes are compared as f32, which is how kernels take them.
 */
bool bound_same_value(const bound_name *n, const bound_field *f);
/* "1e-05", "true", "inf", "bf16" (its number). */
bool bound_literal(const char *text, double *value);
/* "1.0 / sqrt(D)" with the call's sizes. */
bool bound_formula(const bound_call *b, const char *text, double *value);

#endif
