/* Inside the fp64 evaluator: an operator's definitions compiled for one problem, and the machine that
 * evaluates them. Only ir/reference_*.c include this.
 *
 * Every expression is evaluated over lanes: up to REF_LANES values of the innermost reduction's index at
 * once, so that the cost of walking the tree is paid once for all of them. Outside reductions there is one
 * lane; what does not depend on the innermost index is computed for one lane and kept while that reduction
 * runs. */
#ifndef ARKE_IR_REFERENCE_H
#define ARKE_IR_REFERENCE_H

#include "base/error.h"
#include "ir/ir.h"

enum { REF_LANES = 256, REF_FEW = 256, REF_MEMO = 1 << 17, REF_BRIEF = 48 };

typedef union ref_lane {
  double f;
  int64_t i;
} ref_lane;

/* What is computed beside values, as each node's `m`. */
typedef enum ref_extra {
  REF_VALUES,     /* nothing */
  REF_MAGNITUDES, /* the scale of rounding errors of sums (ir_evaluator_eval) */
  REF_CASTS,      /* how far casts inside may move the value (ir_evaluator_casts) */
} ref_extra;

typedef enum ref_op {
  REF_CONSTANT,
  REF_INDEX,
  REF_READ,
  REF_CALL,
  REF_ARITHMETIC, /* ADD … MOD, LT … NE, NEG */
  REF_CHOICE,     /* SELECT, AND, OR: evaluate an operand only in the lanes that need it */
  REF_NOT,
  REF_REDUCE,
  REF_CAST,
  REF_TO_FLOAT,
  REF_TRUTH, /* 0 or 1 from any number */
} ref_op;

typedef struct ref_read ref_read;
typedef struct ref_reduce ref_reduce;

/* A subset of the lanes, for operands that only some of them need. */
typedef struct ref_split {
  int64_t k[REF_LANES];
  uint8_t dead[REF_LANES];
  int16_t lane[REF_LANES]; /* where each came from */
} ref_split;

typedef struct ref_node {
  ref_op op;
  int id;
  bool integer; /* lanes are int64_t, else double */
  bool wraps;   /* i32 arithmetic */
  bool sums;    /* it has a magnitude of its own, since a sum or a rounding is in it; else that is |value| */
  bool doubles; /* computes in f64, as the reference does */
  bool linear;  /* u + c * k in the index of its scope */
  bool varying; /* depends on the index of its scope */
  int scope;    /* reductions around it in its definition */
  int depends;  /* innermost of them whose index it depends on, 0: none */
  int outer;    /* innermost of them but its own */
  /* When it was computed, in the time of the reduction that it has to be computed anew in; of varying nodes
   * over which lanes. */
  uint64_t kept_serial;
  int64_t kept_first;
  int kept_n;
  int n_args;
  struct ref_node **args;
  ref_lane *v; /* REF_LANES if varying, else one */
  double *m;   /* magnitudes, where `sums` */
  const ir_expr *source;
  ref_read *read;
  ref_reduce *reduce;
  ref_split *split;
} ref_node;

struct ref_read {
  int tensor, rank; /* rank and subs without the leading axes */
  bool argument;    /* memory; else a temporary or an earlier output */
  dtype type;
  int owner; /* reduction that drops a value whose read is outside; 0: such a read is an error */
  bool linear;
  int64_t size[LIMIT_RANK], stride[LIMIT_RANK];
  ref_node *subs[LIMIT_RANK];
  bool gathered[LIMIT_RANK];
  ref_node *other; /* else */
  int64_t *offsets;
};

/* See ir_bound. */
typedef struct ref_bound {
  ref_node *sub, *other; /* other NULL: 0 <= sub < size */
  int64_t size;
  ir_operator relation;
} ref_bound;

struct ref_reduce {
  ir_reduction reduction;
  int slot;
  ref_node *body, *condition;
  bool casts_apart; /* what is cast in the body depends on the index: each term's roundings are its own */
  ref_lane nothing; /* the result over no values */
  int n_bounds;
  ref_bound *bounds;
};

/* A running reduction. */
typedef struct ref_level {
  int slot;
  int n;
  bool contiguous; /* lane l has the value first + l, else k[l]; ascending either way */
  int64_t first;
  int64_t *k;
  uint8_t *dead; /* lanes dropped because a read is out of range */
  int lane;      /* the one that inner reductions run for */
  uint64_t serial;
} ref_level;

typedef struct ref_candidate {
  ref_lane v;
  double m;
  int64_t k;
} ref_candidate;

/* Of a definition that scatters with one free index: by a number made from the subscripts that depend on it,
 * the values of the index, ascending. */
typedef struct ref_places {
  bool tried, known;
  uint64_t mask;
  int64_t *first, *next; /* -1: none */
} ref_places;

typedef struct ref_definition {
  const ir_definition *source;
  ref_node *value;
  ref_node **subs;
  bool plain;
  int *free_slots; /* left indices that no plain subscript binds */
  int n_free;
  ref_places places;
  int64_t *index; /* values of the indices that are not lanes */
  int64_t *range; /* of the left ones */
  ref_level *levels;
  /* Of a line: the definition as it is for one element, and the reader's lanes that it is computed for. */
  struct ref_definition *single;
  int16_t *lanes;
  bool brief; /* a line's elements are computed sooner than they are remembered */
  int64_t lead[LIMIT_RANK];
  /* topk: sorted candidates of the last row asked for. */
  ref_candidate *sorted;
  int64_t n_sorted, sorted_capacity;
  int64_t sorted_for[LIMIT_RANK];
  bool sorted_valid;
  ref_extra sorted_m;
} ref_definition;

typedef struct ref_memo {
  uint64_t number; /* of the element in its tensor, plus one; 0: none */
  ref_lane v;
  bool has_m[REF_CASTS + 1];
  double m[REF_CASTS + 1]; /* by ref_extra */
} ref_memo;

struct ir_evaluator {
  arena arena;
  const ir_problem *p;
  const ir_data *tensors;
  int64_t periods[LIMIT_TENSORS]; /* 0: all elements are in memory */
  ref_definition *definitions;
  /* By tensor, of temporaries and outputs that are read along their last axis: their only definition,
   * compiled with the last index as lanes; NULL: element by element. The scalar one is the definition's own.
   */
  ref_definition *lines[4 * LIMIT_TENSORS];
  bool line_wanted[4 * LIMIT_TENSORS];
  bool casts_in[4 * LIMIT_TENSORS]; /* by tensor: something is cast in what it is computed from */
  /* By tensor, of temporaries and outputs that are read: elements by their number, modulo memo_size. Rows
   * that a reduction asks for again and again have room, whole. */
  ref_memo *memos[4 * LIMIT_TENSORS];
  int64_t memo_size[4 * LIMIT_TENSORS];
  int64_t shapes[4 * LIMIT_TENSORS][LIMIT_RANK]; /* by tensor */
  /* By tensor, of outputs in place: the only definition, whose places are known; NULL: there is none. */
  const ref_definition *scattered[4 * LIMIT_TENSORS];
  double *tables[DTYPE_COUNT]; /* 4- and 8-bit floats decoded */
  uint64_t serial;
  int64_t work;
  ref_extra want_m;
  bool casts_inside; /* sums are cast to types narrower than f32, other than at an output's end */
  arke_error *err;
};

typedef ir_evaluator ref_machine;

/* Compiles every definition; false when out of memory. */
bool ref_compile(ref_machine *s);
/* A definition whose last subscript is an index, with that index as the lanes of its outermost scope; NULL
 * when out of memory. */
ref_definition *ref_compile_line(ref_machine *s, const ir_definition *def);
/* Does so for every tensor that is read in lines and can be; false when out of memory. */
bool ref_compile_lines(ref_machine *s);

/* Evaluates e in its scope: fills e->v (and e->m when asked for). False after an error. */
bool ref_eval(ref_machine *s, ref_definition *d, ref_node *e);
bool ref_eval_arithmetic(ref_machine *s, ref_definition *d, ref_node *e);
bool ref_eval_call(ref_machine *s, ref_definition *d, ref_node *e);
bool ref_eval_read(ref_machine *s, ref_definition *d, ref_node *e);
bool ref_eval_reduce(ref_machine *s, ref_definition *d, ref_node *e);
/* e in the n lanes split->lane of its scope; lanes that die there die in the scope too. */
bool ref_eval_split(ref_machine *s, ref_definition *d, ref_node *e, int scope, ref_split *split, int n);

/* Fills d->places, once, where that is possible; false after an error. */
bool ref_find_places(ref_machine *s, ref_definition *d);
/* The first value of the free index that may write the element. */
int64_t ref_first_place(const ref_definition *d, const int64_t *coords);

/* Candidates of topk, sorted, for the coordinates bound in d->index. */
bool ref_topk(ref_machine *s, ref_definition *d, const int64_t *coords, int rank);

/* The last match of what ref_find_places found: *at is the free index's value, -1 if nothing writes there.
 * The coordinates are bound in d->index. */
bool ref_last_place(ref_machine *s, ref_definition *d, const int64_t *coords, int64_t *at);

/* n elements of a temporary or output whose last coordinates are u + c * k of the lanes, all inside; the
 * others are the same for all. `done` false: it cannot be read so. False after an error. */
bool ref_read_line(ref_machine *s, ref_definition *d, ref_node *e, int64_t *coords, int64_t u, int64_t c,
                   bool *done);
/* Whether an element's value is rounded to the tensor's type before it is read: an output's, or one that was
 * computed as the other kind of number. */
bool ref_is_rounded(const ref_machine *s, int tensor, bool integer);

uint64_t ref_number(const ref_machine *s, int tensor, const int64_t *coords, int rank);
/* Whether the element is remembered, with all that is asked for. */
bool ref_recall(const ref_machine *s, int tensor, uint64_t number, ref_lane *v, double *m);
void ref_remember(ref_machine *s, int tensor, uint64_t number, ref_lane v, double m);

/* An element of a temporary or output from its definitions, not rounded. */
bool ref_element(ref_machine *s, int tensor, const int64_t *coords, ref_lane *v, bool *integer, double *m);
/* The same remembered, rounded to the tensor's dtype if it is an output; *integer follows the dtype. */
bool ref_element_read(ref_machine *s, int tensor, const int64_t *coords, ref_lane *v, double *m);

/* n elements of an input into e's lanes; offsets, of which the evaluator has one period, may be replaced. */
void ref_load_input(const ref_machine *s, ref_node *e, int input, int64_t base, int64_t step,
                    const int64_t *offsets, int n);
/* n elements at base + l * step, or at offsets[l] where offsets != NULL, as doubles or as integers. */
void ref_load_floats(const ref_machine *s, dtype t, const void *data, int64_t base, int64_t step,
                     const int64_t *offsets, int n, ref_lane *out);
void ref_load_integers(dtype t, const void *data, int64_t base, int64_t step, const int64_t *offsets, int n,
                       ref_lane *out);
ref_lane ref_round(dtype t, ref_lane v, bool integer);

static inline int64_t ref_k(const ref_level *level, int lane) {
  return level->contiguous ? level->first + lane : level->k[lane];
}
static inline int ref_count(const ref_definition *d, const ref_node *e) {
  return e->varying ? d->levels[e->scope].n : 1;
}
static inline int ref_step(const ref_node *e) {
  return e->varying ? 1 : 0;
}
static inline double ref_float(const ref_node *e, int lane) {
  ref_lane v = e->v[lane * ref_step(e)];
  return e->integer ? (double)v.i : v.f;
}
static inline double ref_magnitude(const ref_node *e, int lane) {
  if (e->sums) return e->m[lane * ref_step(e)];
  double v = ref_float(e, lane);
  return v < 0 ? -v : v;
}
/* A node's `m`, of either kind. */
static inline double ref_extra_of(const ref_machine *s, const ref_node *e, int lane) {
  return s->want_m == REF_CASTS && !e->sums ? 0 : ref_magnitude(e, lane);
}

#endif
