/* A consumer warp group of the gradients' kernels in the making: what its steps and its tiles share. Only
 * backward_step.c and backward_consumer.c include this. */
#ifndef ARKE_TEMPLATES_BACKWARD_CONSUMER_H
#define ARKE_TEMPLATES_BACKWARD_CONSUMER_H

#include "templates/backward_emit.h"

enum { BACKWARD_MOST_SCORES = 64, BACKWARD_MOST_WORDS = BACKWARD_MOST_SCORES / 2, BACKWARD_MOST_SUMS = 128 };

typedef struct backward_consumer {
  backward_emitter *e;
  gen_value group, thread;
  backward_place at;
  backward_steps own; /* of the group's rows */
  backward_rows rows;
  gen_value row_descriptor[2], column_descriptor[2]; /* of the first stage of columns; i64 */
  gen_value sum_descriptor[2];                       /* the columns as what rows are multiplied into */
  gen_wgmma products[2], outer[2];
  int n_scores, n_words, n_sums[2];
  gen_stage stage;
  gen_value round; /* tiles before this one */
  gen_value start; /* the group's first step in the tile */
  backward_reads *reads;
  gen_value sums[2][BACKWARD_MOST_SUMS];
  gen_value words[BACKWARD_MOST_WORDS]; /* what the step before has left to multiply */
  backward_update update;               /* where it is in shared memory, and goes into dQ, too */
} backward_consumer;

/* Shapes of the products, and where their columns are. */
void backward_step_set_up(backward_consumer *c);
/* `first`: there is no step before in this tile, or none whose words wait. */
arke_status backward_multiply_step(backward_consumer *c, const backward_walk *w, bool first, arke_error *err);
/* What the tile's last step has left. */
void backward_finish_steps(backward_consumer *c);
/* l and e of the tile's queries, which are under way since its beginning. */
arke_status backward_finish_rows(backward_consumer *c, arke_error *err);

/* One of the operands of a stage goes back. */
void backward_release_columns(backward_consumer *c, int which, gen_value index);
/* The place of the rows goes back to the producer when outputs' copies have read it; where they are two,
 * under the next tile. Where nothing is copied, after the tile's last product, which all four warps have
 * issued. */
void backward_release_rows(backward_consumer *c, gen_value index, gen_value predicate);
bool backward_releases_late(const backward_consumer *c);

#endif
