/* What a consumer warp group is, and what its ways through the steps of a tile share. Inside
 * attention_consumer.c, attention_exchange.c and attention_products.c. */
#ifndef ARKE_TEMPLATES_ATTENTION_CONSUMER_H
#define ARKE_TEMPLATES_ATTENTION_CONSUMER_H

#include "generator/gen_wgmma.h"
#include "templates/attention_emit.h"

enum {
  ATTENTION_STEP_SCORES = 96, /* of a thread in a step */
  ATTENTION_SCORES = ATTENTION_STEP_SCORES * ATTENTION_SCORE_RUNS,
  ATTENTION_WORDS = ATTENTION_STEP_SCORES / 2,
  ATTENTION_QUERY_WORDS = ATTENTION_HELD_DEPTH / 4
};

typedef struct attention_consumer {
  attention_emitter *e;
  gen_value group, thread;
  attention_place at;
  attention_rows rows;
  gen_value q_descriptor, k_descriptor, v_descriptor; /* of the first stage; i64 */
  gen_value first_column;                             /* of O, that the group has */
  /* The two products, the first by the runs of its sums; and the second with weights in shared memory. */
  gen_wgmma scores[ATTENTION_SCORE_RUNS], values, given;
  int role; /* of groups that exchange weights: who has the first step of a pair */
  int n_scores, n_words, n_sums;
  gen_stage q, k, v;
  gen_value before; /* i1: there was a tile before */
  attention_state state;
  gen_value sums[ATTENTION_SUMS];
  gen_value queries[ATTENTION_QUERY_WORDS]; /* HOLD_Q: as words of the first product's A */
} attention_consumer;

/* --- attention_products.c --- */

/* Descriptors and shapes of the products, which all tiles share. */
void attention_set_up(attention_consumer *c);
/* The rows of the thread, and which keys they see. */
void attention_find_rows(attention_consumer *c);
/* HOLD_Q: the group's queries become registers. */
void attention_hold_queries(attention_consumer *c);
/* Issue a product with the keys, or the values, of a stage; each is a group of its own, and so is each run of
 * the scores' sums. */
void attention_issue_scores(attention_consumer *c, gen_value stage, gen_value *s);
/* Waits until at most `pending` groups are in flight, none of them of the scores, which are s[0], … then. */
void attention_wait_for_scores(attention_consumer *c, int pending, gen_value *s);
void attention_issue_values(attention_consumer *c, gen_value stage, const gen_value *words);
gen_value attention_values_descriptor(attention_consumer *c, gen_value stage);
/* The place of the queries goes back to the producer, where `predicate` (NULL: always) holds. */
void attention_release_q(attention_consumer *c, gen_value index, gen_value predicate);
/* Until a stage is filled, also by threads. */
void attention_wait_for_tile(attention_consumer *c, const gen_pipeline *of, gen_stage stage);
/* Rows of values, in a stage of a step that begins at `key`, behind the end of the keys of a request. */
void attention_clear_values(attention_consumer *c, gen_stage stage, gen_value key);

/* Computes the group's queries into its rows of the tile (attention_queries.c), whose place is free. */
arke_status attention_make_queries(attention_consumer *c, arke_error *err);

/* --- attention_consumer.c --- */

/* The first key of a step. */
gen_value attention_key_of(attention_consumer *c, gen_value step);
/* Hides keys from queries where the step has any that not all of them see. */
void attention_mask_where_needed(attention_consumer *c, gen_value key, gen_value *s);
/* Weights as the registers of the second product: two columns a word. */
void attention_pack_weights(attention_consumer *c, const gen_value *s, gen_value *words);
/* Rarely after the first steps: a row's largest score hardly grows any more. */
void attention_rescale_sums(attention_consumer *c, const attention_rescale *rescale);

/* Two groups with the same queries take turns at steps, and exchange weights (attention_exchange.c): all of
 * the tile's steps; the sums, the softmax's state and the stage are the group's then. */
arke_status attention_exchange_steps(attention_consumer *c, arke_error *err);

#endif
