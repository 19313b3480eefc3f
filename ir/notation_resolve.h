/* Between the files of the resolver: from a syntax tree to an operator, every fault on the way collected. */
#ifndef ARKE_IR_NOTATION_RESOLVE_H
#define ARKE_IR_NOTATION_RESOLVE_H

#include "ir/notation.h"

enum {
  NOTATION_MOST_TENSORS = 4 * LIMIT_TENSORS,
  NOTATION_MOST_INDICES = 4096, /* in one definition */
  NOTATION_MOST_LEVELS = 4 * LIMIT_EXPR_DEPTH,
};

typedef struct resolved_index {
  int line, column;
  bool visible; /* in scope at the place being resolved */
} resolved_index;

typedef struct resolver {
  arena *arena;
  faults *faults;
  const syntax_operator *syntax;
  ir_op *op;
  ir_tensor tensors[NOTATION_MOST_TENSORS];
  int first_write[NOTATION_MOST_TENSORS]; /* definition, or -1 */
  int first_read[NOTATION_MOST_TENSORS];
  int levels[NOTATION_MOST_TENSORS];
  bool known[NOTATION_MOST_TENSORS][LIMIT_RANK]; /* dims; a temporary's are inferred */
  /* The definition being resolved. */
  int current;
  ir_definition *def;
  resolved_index *places; /* by index */
  int index_capacity;
  resolved_index **all_places; /* by definition */
} resolver;

/* Expressions of the definition at hand (or of a default: no definition). NULL after a fault. */
ir_expr *resolve_expression(resolver *r, const syntax *s);
/* A new index of the definition, visible from now on; -1 when out of memory or too many. */
int resolve_index_add(resolver *r, const char *name, bool reduced, int line, int column);
int resolve_find_tensor(const resolver *r, const char *name, bool for_writing);
int resolve_find_axis(const resolver *r, const char *name);
int resolve_find_attr(const resolver *r, const char *name);
int resolve_find_type(const resolver *r, const char *name);
/* " (did you mean X?)" from all names a value can have, or "". */
const char *resolve_suggest(resolver *r, const char *name);

/* After all definitions: dims of temporaries and ranges of indices, then the faults about them. */
void resolve_ranges(resolver *r);

#endif
