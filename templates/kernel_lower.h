/* From kernels to a lowering: what every template does after it has planned. A kernel's parameters are
 * declared once; the recipe and the text are made from the same list, so they cannot disagree. */
#ifndef ARKE_TEMPLATES_KERNEL_LOWER_H
#define ARKE_TEMPLATES_KERNEL_LOWER_H

#include "generator/gen_kernel.h"
#include "ir/ir_form.h"
#include "templates/template.h"

/* Adders return the parameter's number (for gen_param) and never fail: what is missing or too much is
 * reported by kernel_lower. Equal parameters are passed once. */
typedef struct kernel_args {
  arena *a;
  int n;
  gen_param_kind kinds[LIMIT_KERNEL_ARGS];
  recipe_param params[LIMIT_KERNEL_ARGS];
  bool incomplete, too_many;
} kernel_args;

int kernel_args_pointer(kernel_args *args, int tensor);
int kernel_args_i32(kernel_args *args, const recipe_expr *value);
int kernel_args_i64(kernel_args *args, const recipe_expr *value);
int kernel_args_workspace(kernel_args *args, const recipe_expr *offset_bytes);
/* A descriptor for tensor copies; each call is a parameter of its own. */
int kernel_args_tensormap(kernel_args *args, int tensor, const recipe_tensormap *map);

/* One launch. `emit` writes the kernel's body; it reads its parameters by the numbers the adders gave. NULL:
 * the kernel of an earlier launch of this name, of the same shape, with other arguments. */
typedef struct kernel_launch {
  const char *name;
  int threads, min_ctas_per_sm;
  int cluster[3];
  const recipe_expr *grid[3];    /* NULL: 1 */
  const recipe_expr *smem_bytes; /* NULL: 0 */
  bool early_start;              /* where the target has it */
  kernel_args args;
  arke_status (*emit)(gen_builder *b, const target *t, void *user, arke_error *err);
  void *user;
} kernel_launch;

/* Makes the image of all kernels and `out->recipe`'s launches, whose other fields (tensor rules,
 * requirements, workspace) `rules` gives. */
arke_status kernel_lower(const kernel_launch *launches, int n, const recipe *rules, const target *t,
                         const lower_options *options, arena *a, lowered *out, arke_error *err);

enum { KERNEL_MAX_WAYS = RECIPE_MAX_OTHERWISE };

/* One way to run an operator: its kernels, and what they take for granted (as `rules` above). */
typedef struct kernel_way {
  const kernel_launch *launches;
  int n;
  const recipe *rules;
} kernel_way;
/* Ways in the order they are tried (recipe.otherwise), all kernels in one image under names of their own:
 * dense tensors first, then any strides. kernel_lower is one way. With options->first_way_only, the others
 * are left out and counted in out->ways_left_out. */
arke_status kernel_lower_ways(const kernel_way *ways, int n, const target *t, const lower_options *options,
                              arena *a, lowered *out, arke_error *err);

/* Adds a requirement to `rules`, whose list is the arena's: expr % divisor == 0, or with divisor 0 expr <=
 * max. What is missing is reported by kernel_lower. */
void kernel_require(recipe *rules, arena *a, const recipe_expr *expr, int64_t divisor, int64_t max,
                    const char *why);
/* The same of an expression that must have this value. */
void kernel_require_equal(recipe *rules, arena *a, const recipe_expr *expr, int64_t value, const char *why);
/* Requires that every argument lies without gaps: its strides are the products of its sizes. */
void kernel_require_dense(recipe *rules, const ir_problem *p, arena *a);
/* Requires one element along each axis that the form has no loop for (ir_form_drop_ones). */
void kernel_require_ones(recipe *rules, const ir_form *form, arena *a);

/* A variable of recipes: "X.stride1", "X.lead0"; with number -1 "X.span". */
const recipe_expr *kernel_variable(const ir_op *op, int tensor, const char *what, int number, arena *a);
/* Elements of a dimension. */
const recipe_expr *kernel_dim(const ir_op *op, ir_dim dim, arena *a);
/* Recipe expressions of a form's loops and of a tensor's strides; NULL: out of memory. */
const recipe_expr *kernel_extent(const ir_form *form, int loop, arena *a);
/* Elements of the dimensions that subscript `s` of an access indexes. */
const recipe_expr *kernel_size(const ir_form *form, const ir_access *access, int s, arena *a);
/* Elements from one index to the next in subscript `s` of an access, for tensors without gaps (`dense`: a
 * product of sizes) or any ("X.stride1"; of leading axes "X.lead0", which is right where they are one). */
const recipe_expr *kernel_stride(const ir_form *form, const ir_access *access, int s, bool dense, arena *a);

#endif
