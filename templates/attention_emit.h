/* What the parts of the attention kernel's text share. */
#ifndef ARKE_TEMPLATES_ATTENTION_EMIT_H
#define ARKE_TEMPLATES_ATTENTION_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_kernel.h"
#include "generator/gen_pipeline.h"
#include "templates/attention.h"

/* Rows of a tile that a thread has; its sums of O, at most. */
enum { ATTENTION_ROWS = 2, ATTENTION_SUMS = 128 };

/* Named barriers: those from the second on are turns, then one for each consumer group, and one of all. */
enum { ATTENTION_FIRST_TURN = 1, ATTENTION_GROUP_BARRIER = 4, ATTENTION_ALL_BARRIER = 7 };

/* Parameters, declared before the text is made. */
typedef struct attention_kernel {
  const attention_plan *p;
  arena *a;
  int map_q[ATTENTION_PARTS], map_k[ATTENTION_PARTS]; /* by part */
  int map_v, map_o;           /* map_v where values are not keys; map_o where O is copied */
  int extents[IR_FORM_LOOPS]; /* i32 */
  /* i32: tiles of the queries of a head, heads of the batch, both together. Of packed requests the kernel
   * counts tiles, and there are no more than so many. */
  int tiles, heads, items;
  int split, parts, statistics; /* SPLIT: i32: CTAs of a tile; what they have, in the workspace */
  int packs, pack_heads;        /* i32, where heads are packed: packs along their loop; heads of a group */
  lanes_args score_slots, epilogue_slots, query_slots;
} attention_kernel;

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct attention_emitter {
  gen_builder *b;
  const attention_kernel *k;
  const attention_plan *p;
  const attention_match *m;
  gen_value map_q[ATTENTION_PARTS], map_k[ATTENTION_PARTS], map_v, map_o; /* i64 */
  gen_value smem_q, smem_k, smem_v;
  gen_pipeline of_q, of_k, of_v; /* of_v where values are not keys */
  /* Of keys and values that are converted to the stages of K and V: where they are copied; and shared words,
   * whether there is one more, by stages of the first that is converted. */
  gen_pipeline of_copied_k, of_copied_v;
  gen_value smem_copied_k, smem_copied_v, more;
  lanes *l;            /* of scores; its loops of the batch are those of the tile at hand */
  gen_value *score;    /* what `product` is, for the element at hand */
  gen_value seen;      /* shared: of keys at gathered places, who is seen, by stages of K; words of 0 or 1 */
  gen_value exchanged; /* shared: what groups that exchange weights know of rows */
  gen_value requests;  /* shared: what consumers are told of tiles of packed requests, by stages of Q */
  gen_value tiles;     /* of a head; of packed requests known to the producer alone */
  gen_value group;     /* the tile's request; rows past the last one have the last one's number here */
  gen_value rests[ATTENTION_BOUNDS]; /* of bounds, i64: what all queries of the tile share */
} attention_emitter;

/* A tile: queries of one head, and the keys that any of them sees, in steps of BLOCK_N. */
typedef struct attention_place {
  gen_value head;                 /* of the batch */
  gen_value loops[IR_FORM_LOOPS]; /* the same, as its loops */
  gen_value first, last;          /* queries; both exist */
  gen_value last_head;            /* of the group, where heads are packed: the tile's first is its loop's */
  gen_value origin, steps;        /* the CTA's first key; at least one step, in which it may see nothing */
  gen_value below;                /* keys that any of them sees end there */
  /* Keys that all of them see, from `all_from` to below `all_below`. */
  gen_value all_from, all_below;
  gen_value run;  /* SPLIT: which of the runs of its steps the CTA, or cluster, has; else NULL */
  gen_value none; /* i1: rows past the last request, which see nothing; NULL: there are none such */
} attention_place;

/* Places of a role's walk: from the first of this CTA on, as long as attention_item_at gives an item that
 * there is. Where items have unlike lengths, CTAs take them in reversed order in every other round: else one
 * might always get the longest. attention_locate computes where an item is, and sets the loops of e->l. */
gen_value attention_first_item(attention_emitter *e);
gen_value attention_next_item(attention_emitter *e, gen_value place);
gen_value attention_item_at(attention_emitter *e, gen_value place);
arke_status attention_locate(attention_emitter *e, gen_value item, attention_place *at, arke_error *err);
/* Head and tile of an item, of e->tiles: heads of a group together, their longest tiles first; of tiles that
 * are ordered the rank. */
void attention_find_tile(attention_emitter *e, gen_value item, gen_value *head, gen_value *tile);
/* The loops of a head, also of e->l. */
void attention_set_head(attention_emitter *e, attention_place *at);
/* e->rests, by tensors' elements where bounds read any; then the tile's keys. */
arke_status attention_find_rests(attention_emitter *e, arke_error *err);
void attention_find_keys(attention_emitter *e, attention_place *at);
/* The keys that a query sees, from *from to below *below, inside the tensor. */
void attention_row_keys(attention_emitter *e, const attention_place *at, gen_value query, gen_value *from,
                        gen_value *below);
/* The least bound that all queries have, whatever lies behind it: NULL: there is none but the tensor's end.
 */
gen_value attention_end_of_keys(attention_emitter *e, const attention_place *at);

/* Tiles of packed requests (attention_requests.c): the producer's warp looks for them, and tells consumers
 * through shared memory, which the barrier of their queries guards. */
arke_status attention_count_tiles(attention_emitter *e, arke_error *err); /* e->tiles, by the warp */
arke_status attention_find_request(attention_emitter *e, gen_value item, attention_place *at,
                                   gen_value *exists, arke_error *err); /* by the warp */
/* Tiles of packed requests, the longest first, where bounds tell (attention_order.c): the one of a rank, if
 * there is one; by the warp. Changes e->group and e->rests. */
typedef struct attention_found {
  gen_value group, row, end; /* i32, as group_tile has them */
  gen_value exists;          /* i1 */
} attention_found;
bool attention_is_ordered(const attention_plan *p);
arke_status attention_find_by_rank(attention_emitter *e, gen_value rank, attention_found *found,
                                   arke_error *err);
void attention_tell_request(attention_emitter *e, gen_value stage,
                            const attention_place *at); /* by a thread */
void attention_tell_end(attention_emitter *e, gen_value stage);
/* i1: there is such a tile; after the wait for its queries. */
gen_value attention_hear_request(attention_emitter *e, gen_value stage, attention_place *at);
int attention_request_bytes(const attention_plan *p);
/* Keys at gathered places (attention_gather.c), by the producer's 128 threads: arrivals that fill stages; and
 * all steps of a tile. Consumers fence before they multiply. */
void attention_gather_set_fills(attention_emitter *e);
arke_status attention_gather_steps(attention_emitter *e, gen_value thread, const attention_place *at,
                                   gen_stage *k, gen_stage *v, arke_error *err);
/* Keys and values that are converted (attention_convert.c): the rings that they go through, of which those of
 * K and V are there; a stage for a copy, and the end of the walk at the stages that would be next, by the
 * producer's thread; what its other three warps do, whose `thread` is below 96. */
void attention_convert_create(attention_emitter *e);
void attention_convert_init(attention_emitter *e);
gen_value attention_acquire_copied(attention_emitter *e, const gen_pipeline *of, gen_stage at, int bytes);
void attention_end_copied(attention_emitter *e, gen_stage k, gen_stage v);
void attention_emit_converter(attention_emitter *e, gen_value thread);
/* An i32 as an index of the evaluators. */
gen_value attention_index(const attention_emitter *e, gen_value x);
gen_value attention_extent(const attention_emitter *e, int loop);

/* The producer's part, executed by one warp (all four where keys are gathered), and a consumer warp group's,
 * by its 128 threads: `group` is its number, `thread` the index in it. */
arke_status attention_emit_producer(attention_emitter *e, gen_value thread, arke_error *err);
/* `role`: of groups that exchange weights, 0 or 1, as the group's number is then. */
arke_status attention_emit_consumer(attention_emitter *e, gen_value group, int role, gen_value thread,
                                    arke_error *err);

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
  gen_value row;                   /* in the tile, the first of its rows; the second is 8 behind */
  gen_value shared;                /* where the group's queries are, in the first panel */
  gen_value place, first_column;   /* of its columns of O: where they leave from, and their first */
  gen_value query[ATTENTION_ROWS]; /* of its rows; may be past the last */
  gen_value head[ATTENTION_ROWS];  /* where heads are packed; may be past the last, too */
  gen_value from[ATTENTION_ROWS], below[ATTENTION_ROWS]; /* keys they see */
  gen_value column;                                      /* of its first key in a step */
  /* Where scores are the products times something of the row: what weights multiply by, in base 2. Where it
   * is not above 0 for all rows of the warp (`unusual`, i1), scores are multiplied by `own_factor` before,
   * and `factor` is 1. */
  gen_value factor[ATTENTION_ROWS], own_factor[ATTENTION_ROWS], unusual;
} attention_rows;

/* Products of a step become weights (attention_softmax.c). `n` accumulators of a step that begins at `key`.
 */
arke_status attention_scores(attention_emitter *e, const attention_place *place, const attention_rows *rows,
                             gen_value key, gen_value *s, int n, arke_error *err);
/* The factors of the rows, whose queries and heads are known. */
arke_status attention_find_factors(attention_emitter *e, const attention_place *place, attention_rows *rows,
                                   arke_error *err);
void attention_mask(attention_emitter *e, const attention_rows *rows, gen_value key, gen_value *s, int n);
/* Hides keys at gathered places that are not seen, of a stage of K. */
void attention_hide(attention_emitter *e, const attention_rows *rows, gen_value stage, gen_value *s, int n);
/* `rescale` is NULL where there is no step before. */
void attention_softmax(attention_emitter *e, const attention_rows *rows, gen_value *s, int n,
                       attention_state *state, attention_rescale *rescale);
/* The state becomes relative to what another group's is, which has seen more. */
void attention_adopt(attention_emitter *e, attention_state *state, const gen_value *largest,
                     const gen_value *base, attention_rescale *rescale);
/* What makes sums of weights relative to the largest score. */
gen_value attention_lag(attention_emitter *e, const attention_state *state, int row);

/* Stores the outputs of the thread's rows, from the sums of O (attention_store.c). Where O is copied, the
 * copy is under way then, out of the place of the group's queries, and committed by the group's thread 0. */
arke_status attention_store(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                            const attention_state *state, const gen_value *sums, arke_error *err);

/* Where a row's 16 bytes number `chunk` lie in a tile of panels of 128 bytes a row, which copies swizzle. */
gen_value attention_chunk_at(gen_builder *b, gen_value row, gen_value chunk, int panel_bytes);
/* Words of two columns, as below, into rows of 64 elements at `place`, in the swizzle of 128 bytes; panels of
 * 64 columns lie one behind the other. */
void attention_put_words(gen_builder *b, gen_value thread, gen_value place, int panel_bytes, int columns,
                         const gen_value *words);

/* The same of O alone, as words of two columns: words[2 c + r] is of row r, columns 8 c + 2 (lane % 4) and
 * the next (attention_copy.c). */
arke_status attention_copy(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                           const gen_value *words, arke_error *err);

/* SPLIT: the sums and statistics of the thread's rows, of the CTA's run of keys, into the workspace; and the
 * kernel that combines those of all runs, in the order of the keys (attention_combine.c). */
void attention_store_parts(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                           const attention_state *state, const gen_value *sums);
arke_status attention_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err);
/* MERGE (attention_merge.c): the end of a tile, by all consumers; the other warps of the cluster meet them at
 * its barrier once. */
arke_status attention_merge_parts(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                                  const attention_state *state, const gen_value *sums, arke_error *err);
/* What a row has of all its keys: the largest score and the sum of weights, in base 2 and relative to it. */
typedef struct attention_statistics {
  gen_value largest, total;
} attention_statistics;
attention_statistics attention_finish_row(attention_emitter *e, const attention_state *state, int r,
                                          gen_value *lag);
/* Outputs of the row of a query and the heads `at`: a run of ATTENTION_COMBINE_WIDTH columns of O that begins
 * at `column`, from the sums of weights times values, and with the first one the statistics. */
arke_status attention_store_run(attention_emitter *e, const attention_place *at, gen_value query,
                                gen_value column, const attention_statistics *of, const gen_value *sums,
                                arke_error *err);

/* The same sums and statistics into the workspace, as of the CTA's, or cluster's, run. */
void attention_store_part(attention_emitter *e, const attention_place *at, gen_value query, gen_value column,
                          const attention_statistics *of, const gen_value *sums);

arke_status attention_emit(gen_builder *b, const target *t, void *user, arke_error *err);

#endif
