/* A stage in the notation: between compose_text.c, which writes its definitions, and compose_stage.c, which
 * declares what they need. */
#ifndef ARKE_TEMPLATES_COMPOSE_TEXT_H
#define ARKE_TEMPLATES_COMPOSE_TEXT_H

#include "templates/compose_split.h"

enum { COMPOSE_REDUCTIONS = 64 };

typedef struct compose_writer {
  const compose_plan *plan;
  const ir_form *form;
  const char *index, *temporary, *inner; /* what these names begin with */
  int slice;                             /* loop that has one slice here; -1: none */
  unsigned sliced[LIMIT_TENSORS],
      whole[LIMIT_TENSORS]; /* dimensions of arguments that it stands alone in; others */
  unsigned sizes, declared; /* axes that expressions have, and that tensors have */
  bool begins;              /* where the slice begins is used */
  int guards;               /* conditions around what is being written */
  strbuf definitions;
  uint64_t inputs, cuts; /* read: arguments of the whole; temporaries */
  unsigned attrs;
  int n_reductions; /* written as temporaries of the stage itself, so that what is used twice is written once
                     */
  const ir_expr *reductions[COMPOSE_REDUCTIONS];
  bool failed; /* it cannot be written */
} compose_writer;

/* `name`, or a longer one that no name of the operator begins with. The arena's; NULL: out of memory. */
const char *compose_free_name(const ir_op *op, const char *name, arena *a);
/* Writes what the targets are into w->definitions, and notes in `w` what they read. */
void compose_write_definitions(compose_writer *w, const compose_target *targets, int n);

#endif
