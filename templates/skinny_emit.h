/* Between the files that emit a skinny product's kernels. Only skinny_*.c include this. */
#ifndef ARKE_TEMPLATES_SKINNY_EMIT_H
#define ARKE_TEMPLATES_SKINNY_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "templates/skinny.h"

/* Words that a thread has loaded for one step along K: by operand, `unroll`, position, read. */
typedef struct skinny_batch {
  int n;
  gen_value words[SKINNY_WORDS];
} skinny_batch;

typedef struct skinny_emitter {
  gen_builder *b;
  skinny_kernel *k;
  const skinny_plan *p;
  const skinny_match *m;
  gen_type index;
  gen_value lane, warp_n, warp_k, part; /* i32; part: of K */
  gen_value across, deep;               /* the lane's place: i32 */
  gen_value batch, token, row;          /* flat index; of the CTA's first token; of the thread's first row */
  gen_value k_end;                      /* of this CTA's part */
  gen_value shared;                     /* i32: where sums are exchanged */
  gen_value sums[SKINNY_SUMS];
  /* Of the operand that is being computed: */
  int operand;
  const gen_value *words;
  /* Of the outputs that are being computed: the sums by number, and their evaluator. */
  gen_value totals[CONTRACTION_SUMS];
  lanes *each;
} skinny_emitter;

static inline gen_value skinny_index(const skinny_emitter *e, int64_t value) {
  return e->index == GEN_I64 ? gen_i64(e->b, value) : gen_i32(e->b, value);
}
static inline gen_value skinny_as_index(const skinny_emitter *e, gen_value x) {
  return e->index == GEN_I64 ? gen_zext(e->b, x, GEN_I64) : x;
}
static inline gen_type skinny_sum_type(const skinny_match *m) {
  return gen_compute_type(m->type);
}
/* A value as what sums are made in. */
gen_value skinny_convert(gen_builder *b, gen_value x, gen_type type);
/* Sets the loops to a flat index. */
void skinny_set(const skinny_emitter *e, lanes *l, const contraction_loops *loops, gen_value flat);

/* --- loads and values (skinny_load.c) --- */

/* Loads what the thread needs of K from `k` on (its first element, of the index type), clamped to the end. */
arke_status skinny_load(skinny_emitter *e, gen_value k, skinny_batch *batch, arke_error *err);
/* The values of one vector of an operand, or of the product of some of its `factors` (bits), in the type of
 * sums: as many as its lanes, or one. */
arke_status skinny_values(skinny_emitter *e, int operand, unsigned factors, int position, gen_value k,
                          const gen_value *words, gen_value *values, int *n, arke_error *err);
/* Where they are in a batch. */
int skinny_words_at(const skinny_emitter *e, int operand, int u, int position);
/* First element along K of the thread's vectors with number u. */
gen_value skinny_k_of(const skinny_emitter *e, gen_value k, int u);

/* --- products (skinny_product.c) --- */

/* Adds the products of a batch to the sums. Elements at and behind the end count as 0. */
arke_status skinny_multiply(skinny_emitter *e, gen_value k, const skinny_batch *batch, arke_error *err);

/* --- sums of all threads (skinny_exchange.c) --- */

/* Tells the cluster that this CTA is there: before anything else. */
void skinny_meet(skinny_emitter *e);
/* Puts this thread's sums where the CTA, or the one of the cluster that finishes them, adds them up. */
void skinny_exchange(skinny_emitter *e);
/* Outputs of the tile that a thread finishes; number i of them, by token and row, and whether there is one
 * (NULL: there is); and its sums into e->totals. */
int skinny_outputs(const skinny_plan *p);
gen_value skinny_output(skinny_emitter *e, int i, gen_value *exists);
void skinny_totals(skinny_emitter *e, gen_value output, gen_value *token, gen_value *row);

#endif
