/* Operators as tensor comprehensions (docs/notation.md), problems (an operator with dtypes, sizes and
 * attributes bound), and what follows from them: shapes, flops, bytes, an fp64 reference, a cache key. */
#ifndef ARKE_IR_IR_H
#define ARKE_IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"

/* --- expressions ---------------------------------------------------------------------------------------- */

/* X(NAME): kinds of expression node. */
#define IR_NODES(X)                                                                                          \
  X(FLOAT)    /* literal with a point or exponent: `number` */                                               \
  X(INT)      /* integer literal: `integer` */                                                               \
  X(INDEX)    /* an index variable: `id` is its slot in the definition's index table */                      \
  X(SIZE)     /* a size symbol used as a value: `id` is the axis */                                          \
  X(ATTR)     /* an attribute: `id` */                                                                       \
  X(READ)     /* tensor or temporary `id` at args[0..n); args[n], if has_else, is the out-of-range value */  \
  X(CALL)     /* function `id` (ir_function) of args */                                                      \
  X(OPERATOR) /* operator `id` (ir_operator) of args */                                                      \
  X(REDUCE)   /* reduction `id` (ir_reduction) over index `index` of args[0]; args[1] is the condition */    \
  X(CAST)     /* args[0] as a dtype: ir_cast_dtype reads `id` */

typedef enum ir_node {
#define X(NAME) IR_##NAME,
  IR_NODES(X)
#undef X
} ir_node;

/* X(NAME, text, arity, precedence): higher binds tighter. */
#define IR_OPERATORS(X)                                                                                      \
  X(ADD, "+", 2, 5)                                                                                          \
  X(SUB, "-", 2, 5)                                                                                          \
  X(MUL, "*", 2, 6)                                                                                          \
  X(DIV, "/", 2, 6)                                                                                          \
  X(MOD, "%", 2, 6)                                                                                          \
  X(LT, "<", 2, 4)                                                                                           \
  X(LE, "<=", 2, 4)                                                                                          \
  X(GT, ">", 2, 4)                                                                                           \
  X(GE, ">=", 2, 4)                                                                                          \
  X(EQ, "==", 2, 3)                                                                                          \
  X(NE, "!=", 2, 3)                                                                                          \
  X(AND, "&&", 2, 2)                                                                                         \
  X(OR, "||", 2, 1)                                                                                          \
  X(NOT, "!", 1, 7)                                                                                          \
  X(NEG, "-", 1, 7)                                                                                          \
  X(SELECT, "?:", 3, 0)

typedef enum ir_operator {
#define X(NAME, text, arity, precedence) IR_OP_##NAME,
  IR_OPERATORS(X)
#undef X
      IR_OP_COUNT,
} ir_operator;

/* X(NAME, name, arity, reference expression in C over doubles x, y, z, meaning): semantics live here once. */
#define IR_FUNCTIONS(X)                                                                                      \
  X(ABS, abs, 1, fabs(x), "absolute value")                                                                  \
  X(NEG, neg, 1, -x, "negation")                                                                             \
  X(EXP, exp, 1, exp(x), "e^x")                                                                              \
  X(EXP2, exp2, 1, exp2(x), "2^x")                                                                           \
  X(LOG, log, 1, log(x), "natural logarithm")                                                                \
  X(LOG2, log2, 1, log2(x), "base-2 logarithm")                                                              \
  X(LOG1P, log1p, 1, log1p(x), "log(1 + x)")                                                                 \
  X(SQRT, sqrt, 1, sqrt(x), "square root")                                                                   \
  X(RSQRT, rsqrt, 1, 1.0 / sqrt(x), "1 / sqrt(x)")                                                           \
  X(RECIP, recip, 1, 1.0 / x, "1 / x")                                                                       \
  X(SIN, sin, 1, sin(x), "sine")                                                                             \
  X(COS, cos, 1, cos(x), "cosine")                                                                           \
  X(TANH, tanh, 1, tanh(x), "hyperbolic tangent")                                                            \
  X(SIGMOID, sigmoid, 1, 1.0 / (1.0 + exp(-x)), "1 / (1 + e^-x)")                                            \
  X(ERF, erf, 1, erf(x), "error function")                                                                   \
  X(FLOOR, floor, 1, floor(x), "round down")                                                                 \
  X(CEIL, ceil, 1, ceil(x), "round up")                                                                      \
  X(ROUND, round, 1, rint(x), "round to nearest, ties to even")                                              \
  X(TRUNC, trunc, 1, trunc(x), "round toward zero")                                                          \
  X(SIGN, sign, 1, (double)((x > 0) - (x < 0)), "-1, 0 or 1")                                                \
  X(TF32, tf32, 1, ir_tf32(x), "x with the first 11 binary digits of its f32, toward zero")                  \
  X(POW, pow, 2, pow(x, y), "x^y")                                                                           \
  X(FMA, fma, 3, fma(x, y, z), "x * y + z")                                                                  \
  X(MIN, min, 2, ir_min(x, y), "smaller; NaN if either is")                                                  \
  X(MAX, max, 2, ir_max(x, y), "larger; NaN if either is")                                                   \
  X(WHERE, where, 3, (x != 0 ? y : z), "y where x is true, else z")                                          \
  X(RELU, relu, 1, ir_max(x, 0.0), "max(x, 0)")                                                              \
  X(SILU, silu, 1, x / (1.0 + exp(-x)), "x * sigmoid(x)")                                                    \
  /* Without 1 + erf and 1 + tanh, which cancel where x is far below 0. */                                   \
  X(GELU, gelu, 1, 0.5 * x * erfc(x * -0.70710678118654752), "exact GELU")                                   \
  X(GELU_TANH, gelu_tanh, 1, x / (1.0 + exp(-1.5957691216057307 * (x + 0.044715 * x * x * x))),              \
    "tanh form of GELU")                                                                                     \
  X(SOFTPLUS, softplus, 1, ir_max(x, 0.0) + log1p(exp(-fabs(x))), "log(1 + e^x)")

typedef enum ir_function {
#define X(NAME, name, arity, reference, meaning) IR_FN_##NAME,
  IR_FUNCTIONS(X)
#undef X
      IR_FN_COUNT,
} ir_function;

/* X(NAME, name, meaning) */
#define IR_REDUCTIONS(X)                                                                                     \
  X(SUM, sum, "sum; 0 over nothing")                                                                         \
  X(PROD, prod, "product; 1 over nothing")                                                                   \
  X(MAX, max, "largest, NaN if any is; -inf over nothing")                                                   \
  X(MIN, min, "smallest, NaN if any is; inf over nothing")                                                   \
  X(ANY, any, "1 if any is true")                                                                            \
  X(ALL, all, "1 if all are true")                                                                           \
  X(ARGMAX, argmax, "index of the first largest; of the first NaN if any is")                                \
  X(ARGMIN, argmin, "index of the first smallest; of the first NaN if any is")

typedef enum ir_reduction {
#define X(NAME, name, meaning) IR_RED_##NAME,
  IR_REDUCTIONS(X)
#undef X
      IR_RED_COUNT,
} ir_reduction;

typedef struct ir_expr {
  ir_node node;
  int id;    /* meaning by node, above */
  int index; /* REDUCE: slot of the index it introduces */
  bool has_else;
  int n_args; /* all of args: a READ's else and a REDUCE's condition included */
  struct ir_expr **args;
  double number;
  int64_t integer;  /* INT: `true` and `false` are 1 and 0 */
  int line, column; /* in the operator's text, 1-based */
  int depth;        /* 1 for a leaf; at most LIMIT_EXPR_DEPTH, so walks may recurse */
} ir_expr;

/* --- operators ------------------------------------------------------------------------------------------ */

/* A dtype or a type variable (T, U) bound by the problem. A temporary's type follows from what it is computed
 * from: where type variables take part, `joins` is their set (bit i: op->type_vars[i]) and the dtype is the
 * widest of `fixed` and the types those variables compute in (ir_tensor_dtype). */
typedef struct ir_type {
  int variable; /* -1: fixed dtype; else index into op->type_vars */
  dtype fixed;
  unsigned joins;
} ir_type;

/* One dimension: factor * axis * by + more, "2*H", "M", "B+1", or the constant `factor`, "8" (axis == -1).
 * The second axis `by` (-1: none) is no tensor's of a signature: what an index ranges over that is a
 * subscript divided by a size, "table[b,k/Z]", is W*Z. */
typedef struct ir_dim {
  int axis, by;
  int64_t factor, more;
} ir_dim;

typedef enum ir_role { IR_INPUT, IR_OUTPUT, IR_TEMPORARY } ir_role;

typedef struct ir_tensor {
  const char *name;
  ir_role role;
  ir_type type;
  bool any_rank; /* "[...]": leading axes are bound by the call */
  int rank;      /* dims after the "..." */
  ir_dim dims[LIMIT_RANK];
  int alias; /* an output written in place, "-> (D)": the input it shares memory with; else -1 */
} ir_tensor;

typedef enum ir_attr_kind { IR_ATTR_INT, IR_ATTR_FLOAT, IR_ATTR_BOOL, IR_ATTR_DTYPE } ir_attr_kind;

typedef struct ir_attr {
  const char *name;
  ir_attr_kind kind;
  bool has_default;
  double value;           /* DTYPE: the dtype's number */
  const ir_expr *formula; /* default computed from sizes, "1/sqrt(D)"; NULL: `value` is the default */
} ir_attr;

typedef enum ir_update { IR_ASSIGN, IR_ADD, IR_MAX, IR_MIN } ir_update;

/* One index variable of a definition; where it is a plain axis index, `axis` is that axis, else -1. */
typedef struct ir_index {
  const char *name;
  int axis;
  bool reduced; /* introduced by a reduction, not by the left side */
  bool ranged;  /* indexes a dimension directly: it ranges over `range` (of a reduction: at most) */
  ir_dim range;
} ir_index;

typedef struct ir_definition {
  int tensor;  /* written tensor (output or temporary) */
  int tensor2; /* topk's second result (the positions), else -1 */
  int n_subscripts;
  ir_expr **subscripts; /* left side; plain INDEX nodes unless it scatters */
  bool skips;           /* "else skip": what lies outside the tensor is not written */
  ir_update update;
  ir_expr *value;
  int n_indices;
  ir_index *indices;
  /* topk: `value` is a REDUCE node (id IR_RED_MAX) over the candidates; the last subscript is the rank. */
} ir_definition;

typedef struct ir_op {
  const char *name;
  const char *text; /* as written */
  int n_types;
  const char *type_vars[4];
  int n_axes;
  const char *axes[LIMIT_AXES];
  int n_tensors; /* inputs, then outputs, then temporaries; the call passes the first n_args */
  int n_inputs, n_args;
  ir_tensor *tensors;
  int n_attrs;
  ir_attr attrs[LIMIT_ATTRS];
  int n_definitions;
  ir_definition *definitions;
} ir_op;

/* Parses and validates one operator. All memory is the arena's. The error's text holds every fault found (up
 * to 20), each "line:column: what, and what is accepted" with the source line and a caret under it. */
arke_status ir_op_parse(arena *a, const char *text, const ir_op **op, arke_error *err);
/* The canonical form: parsing it gives an equal operator, printing that gives the same text. */
void ir_op_print(const ir_op *op, strbuf *out);
void ir_expr_print(const ir_op *op, const ir_definition *def, const ir_expr *e, strbuf *out);
/* Parts of it: an argument as the signature has it ("X: T[M,2*N]"; an output in place is its name alone), one
 * definition, the kind of an attribute ("float"). */
void ir_tensor_print(const ir_op *op, int tensor, strbuf *out);
void ir_definition_print(const ir_op *op, int definition, strbuf *out);
const char *ir_attr_kind_name(ir_attr_kind kind);

/* A dimension of `n` elements; of a whole axis. */
ir_dim ir_dim_constant(int64_t n);
ir_dim ir_dim_axis(int axis);
bool ir_dim_equal(ir_dim a, ir_dim b);
/* Whether it is one axis, whole and nothing more. */
bool ir_dim_is_axis(ir_dim d);
/* "2*H", as in a signature. */
void ir_dim_print(const ir_op *op, ir_dim d, strbuf *out);

/* --- the catalogue -------------------------------------------------------------------------------------- */

/* Built-in operators: the one list is in catalogue.c. Texts are in canonical form. */
typedef struct ir_catalogue_entry {
  const char *name;
  const char *text;
  const char *shape_axes; /* "M,N,K": what --shape MxNxK binds; "..." stands for any number of sizes */
  const char *help;
  const char *family; /* map, reduce, norm, …: what is listed and tested together */
  const char
      *dtypes; /* what the type variables are meant for, in their order: "f32 f16|i8 e4m3" is T, then U */
} ir_catalogue_entry;

int ir_catalogue_count(void);
const ir_catalogue_entry *ir_catalogue_get(int i);
/* NULL when there is none; *nearest (may be NULL) then gets a suggestion or NULL. */
const ir_catalogue_entry *ir_catalogue_find(const char *name, const char **nearest);

/* Operators whose number of tensors or axes varies (operator_family.c), by a name with numbers:
 * "permute:0,2,1" is axis 0 of the output from axis 0 of the input, 1 from 2, 2 from 1; "concat:2,1,3" joins
 * 3 tensors of 2 axes along axis 1, "split:2,1,3" takes one apart. They are ordinary operators, of the name
 * permute_0_2_1. */
int ir_family_count(void);
/* "permute:AXIS,…", and a line of help. */
const char *ir_family_form(int i);
const char *ir_family_help(int i);

/* The entry of a name: of the catalogue, or of a family, then made in the arena. ARKE_ERR_NOT_FOUND suggests
 * the nearest name, ARKE_ERR_ARGUMENT says what numbers a family takes. */
arke_status ir_operator_find(arena *a, const char *name, const ir_catalogue_entry **entry, arke_error *err);

/* --- problems ------------------------------------------------------------------------------------------- */

typedef struct ir_problem {
  const ir_op *op;
  dtype types[4];            /* by type variable */
  int64_t sizes[LIMIT_AXES]; /* by axis */
  double attrs[LIMIT_ATTRS];
  int lead_rank; /* axes that "[...]" stands for, with their sizes */
  int64_t lead[LIMIT_RANK];
} ir_problem;

/* Binds and checks: every axis >= 0 and <= LIMIT_AXIS_SIZE, no tensor of more than 2^62 bytes, every
 * attribute given or defaulted. `bindings`: "T=bf16 M=4096 N=4096 K=4096" (also accepts commas); the axes
 * behind "[...]" are bound by "...=4x128" ("...=" alone: none). */
arke_status ir_problem_bind(const ir_op *op, const char *bindings, ir_problem *p, arke_error *err);
/* ARKE_ERR_SHAPE where, as far as that follows from the sizes alone, a subscript that is read under no
 * condition leaves its tensor, or no definition writes some element of an output: evaluating those fails, and
 * no kernel can be compared with them. */
arke_status ir_problem_check_access(const ir_problem *p, arke_error *err);
/* "T=bf16 M=4096 N=4096 K=4096": types, axes, then attributes in the operator's order; ir_problem_bind reads
 * it. */
void ir_problem_print_bindings(const ir_problem *p, strbuf *out);
dtype ir_tensor_dtype(const ir_problem *p, int tensor);
dtype ir_cast_dtype(const ir_problem *p, const ir_expr *cast);
/* Sizes of a tensor, those of "[...]" first; returns its rank. */
int ir_tensor_shape(const ir_problem *p, int tensor, int64_t shape[LIMIT_RANK]);
int64_t ir_tensor_elements(const ir_problem *p, int tensor);
int64_t ir_dim_size(const ir_problem *p, ir_dim d);

/* Arithmetic operations of the whole problem (a multiply-add is 2, a function 1; a condition on indices
 * shortens a reduction, and what only that needs, by the share it lets through, to about a thousandth; terms
 * that such sums have in common are added once), and
 * bytes of inputs read once (only the rows gathered, where that is fewer) and outputs written once. */
double ir_flops(const ir_problem *p);
double ir_argument_elements(const ir_problem *p); /* of all inputs and outputs */
double ir_min_bytes(const ir_problem *p);

/* --- the fp64 reference --------------------------------------------------------------------------------- */

/* Data of one tensor argument, in its own dtype, with strides in elements. */
typedef struct ir_data {
  const void *data;
  int64_t strides[LIMIT_RANK];
} ir_data;

/* Evaluates single elements of outputs on demand: the temporaries behind an element are computed (and
 * remembered) too, nothing else is. One thread at a time; several evaluators may share a problem. */
typedef struct ir_evaluator ir_evaluator;

/* `tensors` is by tensor number; only the inputs' data are read. The problem, its operator, the array and the
 * data must stay as they are while the evaluator lives. */
arke_status ir_evaluator_create(const ir_problem *p, const ir_data *tensors, ir_evaluator **ev,
                                arke_error *err);
/* Only the first `period` elements of the input's data are in memory: the one at offset i (not negative) is
 * that at i % period. */
void ir_evaluator_repeat(ir_evaluator *ev, int tensor, int64_t period);
/* The element of tensor number `output` (n_inputs <= output < n_args) at `coords`. `value` is in fp64 before
 * the final rounding to the output's dtype, a cast that only does that included (outputs that later
 * definitions read are read rounded).
 * `magnitude` (may be NULL) is the scale of the rounding error of sums: the same expression with every term's
 * absolute value, carried through what the sum feeds; without sums it is |value|. */
arke_status ir_evaluator_eval(ir_evaluator *ev, int output, const int64_t *coords, double *value,
                              double *magnitude, arke_error *err);
/* How far casts of sums inside the element's expression may move it, each by a rounding of its type: two that
 * compute the same in another order may round differently there. To first order, absolute; 0 where there are
 * none. */
arke_status ir_evaluator_casts(ir_evaluator *ev, int output, const int64_t *coords, double *moved,
                               arke_error *err);
/* What the evaluator has done so far, as the number of values that parts of expressions took: about 3 ns each
 * on one core. The same calls after one another do the same work on every machine. */
int64_t ir_evaluator_work(const ir_evaluator *ev);
void ir_evaluator_destroy(ir_evaluator *ev); /* NULL is allowed */

/* One element with an evaluator of its own. */
arke_status ir_eval(const ir_problem *p, const ir_data *tensors, int output, const int64_t *coords,
                    double *value, double *magnitude, arke_error *err);

/* Length of the longest reduction behind an element of `output` (1 for a map): what a tolerance is made from.
 */
int64_t ir_reduction_length(const ir_problem *p, int output);

#endif
