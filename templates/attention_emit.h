/* What the parts of the attention kernel's text share. */
#ifndef ARKE_TEMPLATES_ATTENTION_EMIT_H
#define ARKE_TEMPLATES_ATTENTION_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_kernel.h"
#include "generator/gen_pipeline.h"
#include "templates/attention.h"

enum {
  ATTENTION_ROWS = 2,
  ATTENTION_SUMS = 128
}; /* rows of a tile that a thread has; its sums of O, at most */

/* Parameters, declared before the text is made. */
typedef struct attention_kernel {
  const attention_plan *p;
  arena *a;
  int map_q, map_k, map_v, map_o; /* map_o where O is copied */
  int extents[IR_FORM_LOOPS];     /* i32 */
  int tiles, heads, items;        /* i32: of the queries of a head; of the batch; both together */
  lanes_args score_slots, epilogue_slots;
} attention_kernel;

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct attention_emitter {
  gen_builder *b;
  const attention_kernel *k;
  const attention_plan *p;
  const attention_match *m;
  gen_value map_q, map_k, map_v, map_o; /* i64 */
  gen_value smem_q, smem_k, smem_v;
  gen_pipeline of_q, of_k, of_v;
  lanes *l;         /* of scores; its loops of the batch are those of the tile at hand */
  gen_value *score; /* what `product` is, for the element at hand */
} attention_emitter;

/* A tile: queries of one head, and the keys that any of them sees, in steps of BLOCK_N. */
typedef struct attention_place {
  gen_value loops[IR_FORM_LOOPS]; /* of the batch */
  gen_value first, last;          /* queries; both exist */
  gen_value begin, end;           /* steps, at least one */
  /* Keys that all of them see, from `all_from` to below `all_below`. */
  gen_value all_from, all_below;
} attention_place;

/* Places of a role's walk: from the first of this CTA on, as long as attention_item_at gives an item that
 * there is. Where items have unlike lengths, CTAs take them in reversed order in every other round: else one
 * might always get the longest. attention_locate computes where an item is, and sets the loops of e->l. */
gen_value attention_first_item(attention_emitter *e);
gen_value attention_next_item(attention_emitter *e, gen_value place);
gen_value attention_item_at(attention_emitter *e, gen_value place);
arke_status attention_locate(attention_emitter *e, gen_value item, attention_place *at, arke_error *err);
/* The keys that a query sees, from *from to below *below, inside the tensor. */
arke_status attention_row_keys(attention_emitter *e, gen_value query, gen_value *from, gen_value *below,
                               arke_error *err);
/* An i32 as an index of the evaluators. */
gen_value attention_index(const attention_emitter *e, gen_value x);
gen_value attention_extent(const attention_emitter *e, int loop);

/* The producer's part, executed by one thread, and a consumer warp group's, by its 128 threads: `group` is
 * its number, `thread` the index in it. */
arke_status attention_emit_producer(attention_emitter *e, arke_error *err);
arke_status attention_emit_consumer(attention_emitter *e, gen_value group, gen_value thread, arke_error *err);

/* A row's softmax so far, in base 2: the largest score (-inf: none), the one that weights are relative to,
 * which is less by no more than a few powers of two, and this thread's part of the sum of the weights. */
typedef struct attention_state {
  gen_value largest[ATTENTION_ROWS], base[ATTENTION_ROWS], total[ATTENTION_ROWS];
} attention_state;

/* What sums of the steps before are to be multiplied by; where not `needed` (i1, alike in a warp) by 1. */
typedef struct attention_rescale {
  gen_value needed, factor[ATTENTION_ROWS];
} attention_rescale;

/* What a consumer thread knows of its tile. */
typedef struct attention_rows {
  gen_value group, thread;         /* of the group's 128 */
  gen_value shared;                /* where the group's queries are, in the first panel */
  gen_value query[ATTENTION_ROWS]; /* of its rows; may be past the last */
  gen_value from[ATTENTION_ROWS], below[ATTENTION_ROWS]; /* keys they see */
  gen_value column;                                      /* of its first key in a step */
} attention_rows;

/* Products of a step become weights (attention_softmax.c). `n` accumulators of a step that begins at `key`.
 */
arke_status attention_scores(attention_emitter *e, const attention_rows *rows, gen_value key, gen_value *s,
                             int n, arke_error *err);
void attention_mask(attention_emitter *e, const attention_rows *rows, gen_value key, gen_value *s, int n);
/* `rescale` is NULL where there is no step before. */
void attention_softmax(attention_emitter *e, gen_value *s, int n, attention_state *state,
                       attention_rescale *rescale);
/* What makes sums of weights relative to the largest score. */
gen_value attention_lag(attention_emitter *e, const attention_state *state, int row);

/* Stores the outputs of the thread's rows, from the sums of O (attention_store.c). Where O is copied, the
 * copy is under way then, out of the place of the group's queries, and committed by the group's thread 0. */
arke_status attention_store(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                            const attention_state *state, const gen_value *sums, arke_error *err);

/* The same of O alone, as words of two columns: words[2 c + r] is of row r, columns 8 c + 2 (lane % 4) and
 * the next (attention_copy.c). */
void attention_copy(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                    const gen_value *words);

arke_status attention_emit(gen_builder *b, const target *t, void *user, arke_error *err);

#endif
