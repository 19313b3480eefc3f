/* What the files of the evaluator share. */
#ifndef ARKE_TEMPLATES_LANES_INTERNAL_H
#define ARKE_TEMPLATES_LANES_INTERNAL_H

#include "generator/gen_convert.h"
#include "generator/gen_math.h"
#include "templates/lanes_index.h"

/* What one load brought: `n` neighbours. */
typedef struct lanes_piece {
  dtype type;
  int n;
  gen_value vector; /* of storage elements (4-bit ones: of bytes); n == 1: the element */
  bool unpacked;
  gen_value values[2 * LANES_MAX];
} lanes_piece;

typedef struct lanes_element {
  int64_t at;          /* elements from the line's address */
  int access, lane;    /* who asked for it */
  bool wanted, always; /* always: some read of it lies inside its tensor whatever happens */
  lanes_piece *piece;  /* NULL: not loaded */
  int position;
} lanes_element;

/* Elements of a tensor at constant distances along its last dimension. */
typedef struct lanes_line {
  int tensor;
  lanes_place place; /* the last subscript without its constant */
  bool leading;      /* the last subscript is the leading axes */
  int64_t alignment; /* elements that `at` 0 is a multiple of */
  bool streamed;
  unsigned loops;    /* that it depends on */
  bool gathered;     /* subscripts come from tensors */
  gen_value address; /* of `at` 0 (4-bit elements: NULL, see offset); NULL: not known yet */
  gen_value offset;  /* 4-bit elements: of `at` 0, in elements */
  int n, capacity;
  lanes_element *elements;
} lanes_line;

typedef struct lanes_reference {
  lanes_line *line; /* NULL: not known yet */
  int64_t at;
} lanes_reference;

typedef struct lanes_memo {
  unsigned loops;
  gen_value values[LANES_MAX];
} lanes_memo;

struct lanes {
  gen_builder *b;
  const ir_form *form;
  lanes_options o;
  const lanes_args *slots;
  arena *a;
  lanes_scope scope;
  gen_type index_type;
  gen_value loops[IR_FORM_LOOPS], lead[LANES_LEAD];
  lanes_memo **memo;           /* by node */
  signed char *first_equal;    /* by node and lane: 1 + the first lane of the same value; 0: not known yet */
  gen_accuracy *accuracy;      /* by node */
  lanes_reference *references; /* by access and lane */
  gen_value *given;            /* by access and lane */
  int n_lines, lines_capacity;
  lanes_line **lines;
  unsigned *visited, visit; /* by node and lane: of the last walk */
};

/* --- indices (lanes_address.c) --- */
gen_value lanes_constant(lanes *l, gen_type type, int64_t value);
gen_value lanes_slot_value(lanes *l, lanes_slot slot);
/* `with_constant`, or without, in `type` (I32 or I64). */
arke_status lanes_sum_value(lanes *l, const lanes_sum *sum, bool with_constant, gen_type type,
                            gen_value *value, arke_error *err);
/* Whether an access lies inside its tensor, i1. */
arke_status lanes_inside(lanes *l, int access, int lane, gen_value *inside, arke_error *err);
/* The line of an access and its element there. */
arke_status lanes_find(lanes *l, int access, int lane, lanes_reference *reference, arke_error *err);
arke_status lanes_line_address(lanes *l, lanes_line *line, arke_error *err);
/* Address of an element of a line whose elements are whole bytes. */
gen_value lanes_element_address(lanes *l, const lanes_line *line, int64_t at);

/* --- divisions (lanes_division.c) --- */
/* Whether index arithmetic cannot be negative, so that divisions need no care. */
bool lanes_is_natural(const ir_expr *e);
/* The value of a / b or a % b for such a and b. */
arke_status lanes_divide(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err);

/* --- loads (lanes_load.c) --- */
/* The element of an access, as storage or as what it computes in. */
arke_status lanes_element_of(lanes *l, int access, int lane, bool storage, gen_value *value, arke_error *err);

/* --- evaluation (lanes.c) --- */
/* Whether another evaluator has the value. */
static inline bool lanes_is_outer(const lanes *l, const ir_expr *e) {
  return l->o.outer && !(ir_form_free(l->form, e) & l->o.own);
}
arke_status lanes_value(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err);
static inline bool lanes_is_literal(const ir_expr *e) {
  return e->node == IR_FLOAT || e->node == IR_INT || e->node == IR_ATTR;
}

/* --- one node (lanes_node.c) --- */
/* Its value, which lanes_value asks for once and keeps. */
arke_status lanes_compute(lanes *l, const ir_expr *e, int lane, gen_value *value, arke_error *err);
/* Whether it is made of indices alone, whose sums are simplified. */
bool lanes_is_index_arithmetic(const lanes *l, const ir_expr *e);

#endif
