/* Index arithmetic as sums of constants and of things that do not change from lane to lane, so that lanes at
 * constant distances are seen to be neighbours. */
#ifndef ARKE_TEMPLATES_LANES_INDEX_H
#define ARKE_TEMPLATES_LANES_INDEX_H

#include "templates/lanes.h"

enum { LANES_TERMS = 6, LANES_NEEDS = RECIPE_MAX_REQUIREMENTS };

/* coefficient * an atom: the value of `e` in lane `lane` (0 where it is the same in all), or with `quotient`
 * (e is a / k) that of a without its constant, divided by k, which leaves no remainder. */
typedef struct lanes_term {
  const ir_expr *e;
  int lane;
  bool quotient;
  int64_t coefficient;
} lanes_term;

typedef struct lanes_sum {
  int64_t constant;
  int n;
  lanes_term terms[LANES_TERMS];
} lanes_sum;

/* An expression of sizes, or (e is NULL) a dimension, whose value must remain a multiple, or (divisor 0) at
 * least so much. */
typedef struct lanes_need {
  const ir_expr *e;
  ir_dim dim;
  int64_t divisor, least;
} lanes_need;

/* What index arithmetic is seen in: the form, the lanes, and (if `needs` is there) what conclusions rest on.
 */
typedef struct lanes_scope {
  const ir_form *form;
  int loop, width;
  bool dense;
  lanes_need *needs;
  int n_needs;
} lanes_scope;

/* The value of e in a lane. */
lanes_sum lanes_sum_of(lanes_scope *s, const ir_expr *e, int lane);
/* x - y; false where that has too many terms. */
bool lanes_subtract(const lanes_sum *x, const lanes_sum *y, lanes_sum *difference);
bool lanes_same_terms(const lanes_sum *x, const lanes_sum *y);
/* A divisor of the sum without its constant, a power of two up to LANES_MAX (which stands for 0, too). */
int64_t lanes_divisor(lanes_scope *s, const lanes_sum *sum);
int64_t lanes_power_in(int64_t v); /* the largest such power that divides v */
/* Notes what must hold of sizes for `divisor` to be one. */
void lanes_rest_on(lanes_scope *s, const lanes_sum *sum, int64_t divisor);
void lanes_note_least(lanes_scope *s, const ir_expr *e, int64_t least);
/* Whether a quotient or remainder in a lane follows from lane 0's (lanes_division.c). */
bool lanes_divides_by_steps(lanes_scope *s, const ir_expr *e, int lane);
/* A cast to i64 of integers that are i64 anyway: how forms keep temporaries' types. */
bool lanes_is_index_cast(const ir_form *form, const ir_expr *e);
const ir_expr *lanes_without_index_casts(const ir_form *form, const ir_expr *e);
/* Whether a term's value comes from a tensor. */
bool lanes_reads(const ir_form *form, const ir_expr *e);
bool lanes_sum_reads(const ir_form *form, const lanes_sum *sum);
bool lanes_moves(const lanes_scope *s, const ir_expr *e); /* with the lane loop */

/* The value of an expression of sizes and constants in this problem; false: it is none, or has none. */
bool lanes_static_value(const ir_form *form, const ir_expr *e, int64_t *value);
const recipe_expr *lanes_static_recipe(const ir_form *form, const ir_expr *e, arena *a);

/* A comparison of integers as sum < 0 (LT) or sum == 0 (EQ), possibly `negated`; false where it is none that
 * index arithmetic can tell. */
typedef struct lanes_comparison {
  lanes_sum sum; /* its constant is the same in lanes whose truth is */
  bool equal, negated;
  bool known, truth; /* without terms, or never equal: the result, `negated` included */
} lanes_comparison;
bool lanes_compare(lanes_scope *s, const ir_expr *e, int lane, lanes_comparison *c);
/* Whether e is known to be true (1), to be false (0), or not known (-1) in a lane while the kernel is made.
 */
int lanes_truth(lanes_scope *s, const ir_expr *e, int lane);

/* Where an access lies in a lane: its subscripts. */
typedef struct lanes_place {
  int n;
  lanes_sum subscripts[LIMIT_RANK + 1];
} lanes_place;
void lanes_place_of(lanes_scope *s, int access, int lane, lanes_place *place);
/* Sizes of the tensor along subscript i: the same range as a loop's, or a product of dimensions. */
bool lanes_in_range(const ir_form *form, const ir_access *access, int i); /* whatever the sizes */
/* Whether two lanes of an access lie inside their tensor or outside together. */
bool lanes_inside_together(lanes_scope *s, int access, const lanes_place *x, const lanes_place *y);
/* Whether an access happens only where it lies inside its tensor. */
bool lanes_is_tested(const ir_form *form, const lanes_options *o, int access);
/* Elements of the widest vectors of an access: as many as there are lanes and an access holds. */
int lanes_unit(const ir_form *form, const lanes_options *o, int access);

#endif
