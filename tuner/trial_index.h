/* What integer tensors of an operator mean, as its text has it, and values that make sense there: places in
 * an axis, ends of ragged groups, offsets of packed sequences, lengths (docs/tuning.md, "Inputs"). */
#ifndef ARKE_TUNER_TRIAL_INDEX_H
#define ARKE_TUNER_TRIAL_INDEX_H

#include "ir/ir.h"

/* X(NAME, meaning) */
#define TRIAL_INDEX_KINDS(X)                                                                                 \
  X(NONE, "numbers of no such meaning")                                                                      \
  X(PLACES, "subscripts: from 0 up to below `most`")                                                         \
  X(ENDS, "of ragged groups: they do not decrease, the last is `most` or less")                              \
  X(OFFSETS, "of packed sequences: from 0 to `most`, one more than there are sequences")                     \
  X(LENGTHS, "an index stays below them: up to `most`, which most are close to")                             \
  X(STARTS, "an index is not below them: up to `most`, most are close to 0")

typedef enum trial_index_kind {
#define X(NAME, meaning) TRIAL_##NAME,
  TRIAL_INDEX_KINDS(X)
#undef X
} trial_index_kind;

typedef struct trial_index {
  trial_index_kind kind;
  int64_t most;
  int64_t longest; /* OFFSETS: what no sequence exceeds */
  bool once;       /* PLACES: none comes twice before all have come */
  bool skips;      /* PLACES: some are -1, which nothing is written for */
} trial_index;

/* Of input `tensor`. A tensor is
 *   ends, where a definition counts how many of them an index has passed: "sum(e: ends[e] <= r) 1";
 *   offsets, where it has one element more than a size, and is counted or compared with an index;
 *   lengths, where an index stays below it: "k < lens[b]", whatever else it is part of;
 *   places, where it is part of a subscript ("X[idx[i]]", "X[slots[n] / Z, slots[n] % Z]");
 *   starts, where an index is not below it: "j >= first[i]".
 * Places come once where a definition assigns to them, since of equal ones the order of writes would decide,
 * where they are pages ("table[b,k / Z]"), and where a row of them has no more than there are places and
 * nothing is added up at them: what is read again comes from a cache. Pages that are written, which lengths
 * choose, are of one row of the table alone, and the lengths end where they do (trial_shares.h). */
trial_index trial_index_of(const ir_problem *p, int tensor);
/* Fills the tensor, row-major, or the first `elements` of it. */
void trial_index_fill(const ir_problem *p, int tensor, const trial_index *index, void *data, int64_t elements,
                      uint64_t seed);

#endif
