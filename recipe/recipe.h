/* Launch recipes: how to launch a tuned operator, as data. The offline side (templates) writes them, the
 * cache stores them as JSON, the runtime evaluates them without knowing any template.
 *
 * A plan is a list of launches; each names a kernel of an image and gives its parameters, grid, block,
 * cluster, dynamic shared memory as expressions over the call's sizes and strides and the device's number of
 * SMs ("variables" below). Workspace is one expression for the whole plan. */
#ifndef ARKE_RECIPE_RECIPE_H
#define ARKE_RECIPE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"

/* --- integer expressions ------------------------------------------------------------------------------- */

/* X(NAME, text, arity): everything an expression can be. Arithmetic is in int64 with overflow detection;
 * division by zero and overflow are errors of evaluation. ceildiv and div expect non-negative values. */
#define RECIPE_OPS(X)                                                                                        \
  X(CONST, "", 0)                                                                                            \
  X(VAR, "", 0)                                                                                              \
  X(ADD, "+", 2)                                                                                             \
  X(SUB, "-", 2)                                                                                             \
  X(MUL, "*", 2)                                                                                             \
  X(DIV, "/", 2)                                                                                             \
  X(MOD, "%", 2)                                                                                             \
  X(CEILDIV, "ceildiv", 2)                                                                                   \
  X(MIN, "min", 2)                                                                                           \
  X(MAX, "max", 2)

typedef enum recipe_op {
#define X(NAME, text, arity) RECIPE_##NAME,
  RECIPE_OPS(X)
#undef X
} recipe_op;

typedef struct recipe_expr {
  recipe_op op;
  int64_t value;    /* CONST */
  const char *name; /* VAR */
  const struct recipe_expr *args[2];
} recipe_expr;

/* Builders. NULL in gives NULL out, so a chain needs one check at its end. */
const recipe_expr *recipe_const(arena *a, int64_t value);
const recipe_expr *recipe_var(arena *a, const char *name);
const recipe_expr *recipe_binary(arena *a, recipe_op op, const recipe_expr *x, const recipe_expr *y);
/* "min(SMS, ceildiv(M, 128) * ceildiv(N, 256))". Errors name the column. */
arke_status recipe_expr_parse(arena *a, const char *text, const recipe_expr **expr, arke_error *err);
void recipe_expr_print(strbuf *out, const recipe_expr *expr);

/* --- variables ----------------------------------------------------------------------------------------
 *
 *   M                   elements of the axis M
 *   X.stride0           elements from one index to the next in dimension 0 of tensor X, counted as its
 *                       signature declares them: those behind "..." do not count
 *   X.span              elements from X's first to past its last one, gaps included; 0 without elements
 *   SMS                 streaming multiprocessors of the device
 *   LEAD                elements of all axes that "[...]" stands for; 1 where there are none
 *   LEAD0 … LEAD3       the same, as few axes as they collapse to: LEAD0 varies fastest, and their product is
 *                       LEAD. Axes that are not there have 1 element
 *   X.lead0 … X.lead3   X's strides along them; 0 where the axis is not there
 *   ROUND               the round of a launch that is repeated (recipe_repeat); elsewhere 0
 *
 * Leading axes are collapsed for all tensors with "[...]" together: axes of one element are dropped, the
 * others ordered by the outputs' strides, and neighbours become one wherever every such tensor steps from
 * the end of the inner one to the next of the outer one. So tensors without gaps, or all transposed alike,
 * have one leading axis; a broadcast row (stride 0) or one transposed operand makes it two. A kernel for any
 * views splits its position p: p % LEAD0, p / LEAD0 % LEAD1, … A recipe covers as many leading axes as it
 * names (LEAD2 or X.lead2: three), but at least one, and is refused where there are more.
 *
 * Axes with one element have the stride of a tensor without gaps, since theirs means nothing; tensors without
 * elements have strides of 0. No stride is negative. */
#define RECIPE_LEADING "LEAD"
#define RECIPE_ROUND   "ROUND"
enum { RECIPE_LEAD_AXES = 4 };
/* Whether an axis of this name would hide a variable: SMS, ROUND, LEAD, LEAD0 … */
bool recipe_name_is_taken(const char *axis);

/* One variable of an environment. */
typedef struct recipe_binding {
  const char *name;
  int64_t value;
} recipe_binding;
arke_status recipe_expr_eval(const recipe_expr *expr, const recipe_binding *env, int n_env, int64_t *value,
                             arke_error *err);

/* --- launches ------------------------------------------------------------------------------------------- */

/* X(NAME, text) */
#define RECIPE_PARAM_KINDS(X)                                                                                \
  X(POINTER, "pointer") /* device address of tensor `tensor` (its byte_offset added), + `value` */           \
  X(TENSORMAP,                                                                                               \
    "tensormap") /* 128-byte TMA descriptor over tensor `tensor` from there on, passed by value */           \
  X(WORKSPACE_MAP, "workspace_map") /* the same over the workspace: `type`, from base + `value` on */        \
  X(I32, "i32")                     /* value of `value`; must fit */                                         \
  X(I64, "i64")                                                                                              \
  X(F32, "f32")             /* attribute `attr` */                                                           \
  X(WORKSPACE, "workspace") /* workspace base + value of `value` */

typedef enum recipe_param_kind {
#define X(NAME, text) RECIPE_PARAM_##NAME,
  RECIPE_PARAM_KINDS(X)
#undef X
} recipe_param_kind;

/* Swizzle and L2 promotion use cuTensorMapEncodeTiled's numbers (CUDA driver API, "Tensor Map Object"). */
typedef struct recipe_tensormap {
  int rank;                     /* 1..5; dimension 0 is the fastest */
  const recipe_expr *dim[5];    /* elements */
  const recipe_expr *stride[5]; /* elements; [0] is unused (contiguous) */
  uint32_t box[5];
  int swizzle;      /* 0 none, 1 32 B, 2 64 B, 3 128 B */
  int l2_promotion; /* 0 none, 1 64 B, 2 128 B, 3 256 B */
} recipe_tensormap;

typedef struct recipe_param {
  recipe_param_kind kind;
  int tensor;               /* POINTER, TENSORMAP: index in the signature */
  recipe_tensormap map;     /* TENSORMAP, WORKSPACE_MAP */
  dtype type;               /* WORKSPACE_MAP: of its elements */
  const recipe_expr *value; /* I32, I64, WORKSPACE, WORKSPACE_MAP; POINTER, TENSORMAP: bytes, NULL: none */
  const char *attr;         /* F32 */
} recipe_param;

typedef struct recipe_launch {
  const char *kernel; /* entry name in the image */
  int n_params;
  recipe_param *params;
  const recipe_expr *grid[3]; /* 0 somewhere: there is nothing to do, and the launch is left out */
  uint32_t block[3];
  uint32_t cluster[3]; /* 1,1,1: no cluster; already compiled into the kernel where the target allows */
  const recipe_expr *smem_bytes; /* dynamic shared memory */
  /* The kernel waits for the launches before it by itself (griddepcontrol.wait) before it touches memory, so
   * the stream may start it while they end (CUDA, "Programmatic Dependent Launch"). */
  bool early_start;
} recipe_launch;

/* Launches that run again and again, all of them for ROUND 0, then all for ROUND 1, and so on: a large axis
 * goes through them slice by slice, and what they keep of a slice in the workspace is small. */
typedef struct recipe_repeat {
  int first, n;              /* launches; repeats are in order and have none in common */
  const recipe_expr *rounds; /* 0: they do not run */
} recipe_repeat;

/* What the kernels take for granted; checked at plan time against the call's tensors. `expr` % divisor == 0,
 * or expr == max (`exact`), or expr <= max. A failed requirement is reported with `why`. */
typedef struct recipe_requirement {
  const recipe_expr *expr;
  int64_t divisor; /* 0: not a divisibility requirement */
  bool exact;      /* then this wants no less than `max` either */
  int64_t max;     /* used when divisor is 0 */
  const char *why;
} recipe_requirement;

/* What a tensor must be. Axes with one element, and tensors without elements, are as every rule wants them.
 */
typedef struct recipe_tensor_rule {
  int alignment;        /* of its address, in bytes */
  bool contiguous_last; /* its last axis (LEAD0 where "..." ends its signature) has stride 1 */
  bool dense;           /* row-major without gaps, its leading axes in the order of LEAD0, LEAD1, … */
} recipe_tensor_rule;

enum {
  RECIPE_MAX_OTHERWISE = 8,
  RECIPE_MAX_REPEATS = 4,
  RECIPE_MAX_REQUIREMENTS = 128
}; /* templates have a handful, all stages of one that composes 70 or so; bounds a hostile file */

typedef struct recipe {
  int n_tensors;
  recipe_tensor_rule tensors[LIMIT_TENSORS];
  int n_requirements;
  recipe_requirement *requirements;
  int n_launches;
  recipe_launch *launches;
  int n_repeats;
  recipe_repeat repeats[RECIPE_MAX_REPEATS];
  const recipe_expr *workspace_bytes; /* NULL: none */
  /* Tried where a rule or requirement above does not hold for the call's tensors: a kernel for any strides
   * after one for rows without gaps. Same n_tensors; NULL: the call is refused. */
  const struct recipe *otherwise;
} recipe;

/* Every count, range and missing part, whoever made the recipe; recipe_print and recipe_parse call it. Errors
 * name the place: "launches[0].params[2].box[1] is 512; accepted are 1 to 256". */
arke_status recipe_check(const recipe *r, arke_error *err);

/* JSON text both ways; parsing validates everything (counts, ranges, unknown fields are errors), since a
 * cache file is untrusted input. */
arke_status recipe_print(const recipe *r, strbuf *out, arke_error *err);
arke_status recipe_parse(arena *a, const char *json, size_t length, recipe *r, arke_error *err);

#endif
