/* Between the files that make a form: its nodes, the substitution, and what is known of subscripts. Only
 * ir/ir_form*.c include this. */
#ifndef ARKE_IR_IR_FORM_BUILD_H
#define ARKE_IR_IR_FORM_BUILD_H

#include "ir/ir_form.h"
#include "ir/ir_types.h"

enum {
  FORM_MOST_ACCESSES = 64, /* templates keep sets of them in 64 bits */
  FORM_MOST_NODES = 1 << 16,
  FORM_MOST_OUTPUTS = 4 * LIMIT_TENSORS,
};

/* Every node of a form; `e` comes first, so that an ir_expr of a form is one. */
typedef struct form_node {
  ir_expr e;
  unsigned free; /* ir_form_free */
  int number;    /* -1: not part of the form */
  ir_level level;
  struct form_node *next;     /* in its bucket */
  const ir_expr *substituted; /* of a remembered read of a temporary: what stands for it */
} form_node;

static inline const form_node *form_of(const ir_expr *e) {
  return (const form_node *)e;
}

typedef struct form_builder {
  const ir_problem *p;
  arena *a;
  ir_form *form;
  arke_error *err;
  arke_status status; /* the first failure; makers of nodes then return NULL */
  form_node **buckets;
  size_t n_buckets;
  int n_nodes;
  int leading; /* the loop of "[...]", or -1 */
  /* By tensor: which left indices a temporary's value depends on (bit i: the i-th, FORM_LEADING: "..."). */
  unsigned *depends;
  bool *depends_known;
} form_builder;

#define FORM_LEADING (1u << LIMIT_RANK)

/* What indices of a definition stand for: nodes of the form, NULL while out of scope. */
typedef struct form_env {
  const ir_definition *def;
  const ir_expr **values;
  struct form_bounded *bounded; /* subscripts of the definition that a reduction's condition keeps inside */
} form_env;

typedef struct form_bounded {
  const ir_expr *subscript;
  struct form_bounded *next;
} form_bounded;

/* A place in an expression. */
typedef struct form_place {
  bool guarded;   /* evaluated only where a condition holds, or reading where its value is not used */
  bool subscript; /* integers are i64; arithmetic folds */
} form_place;

/* --- nodes (ir_form_nodes.c) --- */
bool form_builder_init(form_builder *b, const ir_problem *p, arena *a, ir_form *form, arke_error *err);
const ir_expr *form_fail(form_builder *b, arke_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const ir_expr *form_fail_memory(form_builder *b);
/* The node equal to *key (whose args may be the caller's); NULL after a failure. */
const ir_expr *form_intern(form_builder *b, const ir_expr *key);
const ir_expr *form_int(form_builder *b, int64_t value);
const ir_expr *form_index(form_builder *b, int loop);
const ir_expr *form_bool(form_builder *b, bool value); /* of type bool, as a comparison is */
const ir_expr *form_operator(form_builder *b, ir_operator o, const ir_expr *x, const ir_expr *y);
const ir_expr *form_select(form_builder *b, const ir_expr *c, const ir_expr *x, const ir_expr *y);
const ir_expr *form_dim(form_builder *b, ir_dim d);
/* a && b, where NULL is true; NULL, too, after a failure. */
const ir_expr *form_and(form_builder *b, const ir_expr *x, const ir_expr *y);
/* An integer operation of a subscript: additions of 0 and the like fold, constants stand right of a sum. */
const ir_expr *form_fold(form_builder *b, const ir_expr *key);
/* 0 or 1 where the truth of e does not depend on tensors, sizes and loops; else -1. */
int form_truth(const form_builder *b, const ir_expr *e);
/* The access equal to *key, added if new, as its number; -1 after a failure. */
int form_access(form_builder *b, const ir_access *key);
/* Renumbers what the outputs are made of, operands first. */
void form_number_nodes(form_builder *b);
/* Calls visit(user, e) once for every node behind `e` whose `seen` bit is not set, operands first; false when
 * a visit was. */
bool form_walk(const ir_form *form, const ir_expr *e, uint64_t *seen,
               bool (*visit)(void *user, const ir_expr *e), void *user);

/* --- ranges (ir_form_range.c) --- */
typedef struct form_inside {
  bool above, below; /* known to be >= 0; known to be < the dimension */
} form_inside;
form_inside form_is_inside(const form_builder *b, const ir_expr *subscript, ir_dim d);
/* x < y, or x <= y, whatever the sizes and loops are. */
bool form_known_less(const form_builder *b, const ir_expr *x, const ir_expr *y, bool or_equal);
/* "0 <= subscript && subscript < d", without what is known to hold; NULL: all of it is (or after a failure).
 */
const ir_expr *form_inside_condition(form_builder *b, const ir_expr *subscript, ir_dim d);
/* What a reduction's index ranges over. */
bool form_reduction_range(form_builder *b, const form_env *env, const ir_expr *reduce, ir_dim *range);
/* The condition on a reduction's index, bound in env, that the reads it moves lie in their tensors; NULL:
 * none, or after a failure. */
const ir_expr *form_reads_inside(form_builder *b, form_env *env, const ir_expr *reduce);

/* --- substitution (ir_form_substitute.c) --- */
const ir_expr *form_build(form_builder *b, form_env *env, const ir_expr *e, form_place place);
/* Topk's candidates: `forbidden` loops are not taken for the reduction's index. */
const ir_expr *form_build_reduce(form_builder *b, form_env *env, const ir_expr *e, form_place place,
                                 unsigned forbidden);
/* An access of `tensor` with subscripts made already. */
int form_access_make(form_builder *b, int tensor, const ir_expr *const *subscripts, int n,
                     const ir_expr *other, bool guarded);
/* The first loop over `range` that is not in `taken`, else a new one; -1 after a failure. */
int form_loop(form_builder *b, ir_dim range, unsigned taken, const char *name);

#endif
