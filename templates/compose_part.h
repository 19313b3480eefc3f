/* Parts of an operator that keeps temporaries: between compose_keep.c, which says what is kept and in which
 * order parts run, and compose_part.c, which makes operators of them. */
#ifndef ARKE_TEMPLATES_COMPOSE_PART_H
#define ARKE_TEMPLATES_COMPOSE_PART_H

#include "templates/compose_split.h"

typedef struct compose_keeper {
  compose_splitter *s;
  const ir_op *op;
  bool folds;   /* those that no one reads at computed places are not kept, but computed by what reads them */
  bool *folded; /* by tensor: those */
  bool *kept;   /* by tensor: temporaries that are */
  bool *stored; /* by tensor: outputs that are read again, and that no form substitutes */
  bool *made;   /* by tensor: of both, those that stages write */
} compose_keeper;

/* What becomes an operator of its own. */
typedef struct compose_part {
  bool *definitions; /* by number: its own */
  bool *writes;      /* by tensor: a temporary that is kept, or outputs */
  bool *read;        /* by tensor: inputs, and what is kept or stored */
  bool reads_output; /* which is no tensor of the part yet */
  unsigned sizes, attrs;
} compose_part;

/* The only definition of a tensor; NULL: it has several, or none. */
const ir_definition *compose_only_writer(const ir_op *op, int tensor);
/* Bits of the axes that a tensor has. */
unsigned compose_declared_sizes(const ir_tensor *t);
/* How many kept temporaries come before a tensor: its number among them. */
int compose_kept_number(const compose_keeper *k, int tensor);
/* An empty one; false: out of memory. */
bool compose_new_part(compose_keeper *k, compose_part *x);
/* What is needed to write x->writes. */
void compose_fill_part(const compose_keeper *k, compose_part *x);
/* A part as an operator of its own, of `k->op`, which may have an axis of the whole's as blocks; NULL: it
 * does not stand alone, or memory ran out. */
compose_stage *compose_make_part(compose_keeper *k, const compose_part *x);

#endif
