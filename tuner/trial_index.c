#include "tuner/trial_index.h"

#include <math.h>

#include "base/random.h"
#include "tuner/trial_shares.h"

typedef struct finder {
  const ir_problem *p;
  const ir_definition *def;
  int tensor;
  bool placed, added, counted, once, skips, collects;
  bool reads;                                     /* it is part of a subscript that is read at */
  trial_index_kind compared;                      /* LENGTHS or STARTS; NONE: it is not */
  int64_t places, rows, range, longest, added_to; /* of what `placed`, `counted`, `compared`, … say */
} finder;

static bool is_read(const finder *f, const ir_expr *e) {
  return e->node == IR_READ && e->id == f->tensor;
}

static const ir_expr *behind(const finder *f, const ir_expr *e) {
  return trial_value_behind(f->p->op, e);
}

/* Whether an element of the tensor is part of e's value. */
static bool mentions(const finder *f, const ir_expr *e) {
  if (is_read(f, e)) return true;
  const ir_expr *value = behind(f, e);
  if (value->node == IR_READ || value->node == IR_REDUCE) return false;
  for (int i = 0; i < value->n_args; i++)
    if (mentions(f, value->args[i])) return true;
  return false;
}

/* -1: not known before the operator runs. */
static int64_t constant(const finder *f, const ir_expr *e) {
  return e->node == IR_INT ? e->integer : e->node == IR_SIZE ? f->p->sizes[e->id] : -1;
}

static int64_t least(bool known, int64_t x, int64_t y) {
  return known && x < y ? x : y;
}

/* --- places --------------------------------------------------------------------------------------------- */

/* What keeps a subscript that has the tensor in it inside `size` elements. */
static void note_subscript(finder *f, const ir_expr *e, int64_t size) {
  if (!is_read(f, e)) e = behind(f, e);
  bool binary = e->node == IR_OPERATOR && e->n_args == 2;
  int64_t by = binary ? constant(f, e->args[1]) : -1;
  if (binary && e->id == IR_OP_MOD && by > 0) return;
  if (binary && e->id == IR_OP_DIV && by > 0 && !__builtin_mul_overflow(size, by, &size)) {
    note_subscript(f, e->args[0], size);
  } else if (binary && e->id == IR_OP_ADD && mentions(f, e->args[0]) && !mentions(f, e->args[1])) {
    note_subscript(f, e->args[0], by > 0 && by < size ? size - by : size);
  } else if (binary && e->id == IR_OP_ADD && is_read(f, e->args[1])) {
    f->added_to = least(f->added, f->added_to, size);
    f->added = true;
  } else if (binary && e->id == IR_OP_SUB && is_read(f, e->args[1])) {
    f->longest = least(f->longest > 0, f->longest, size);
  } else {
    f->places = least(f->placed, f->places, size);
    f->placed = true;
  }
}

static void note_subscripts(finder *f, int tensor, int n, ir_expr *const *subscripts) {
  const ir_tensor *t = &f->p->op->tensors[tensor];
  for (int i = 0; i < n && i < t->rank; i++)
    if (mentions(f, subscripts[i])) note_subscript(f, subscripts[i], ir_dim_size(f->p, t->dims[i]));
}

static bool is_division(const ir_expr *e) {
  return e->node == IR_OPERATOR && e->id == IR_OP_DIV;
}

/* --- ends, offsets, lengths, starts --------------------------------------------------------------------- */

static bool index_range(const finder *f, const ir_expr *e, int64_t *range) {
  if (e->node != IR_INDEX || !f->def->indices[e->id].ranged) return false;
  *range = ir_dim_size(f->p, f->def->indices[e->id].range);
  return true;
}

/* "ends[e] <= r" or "r >= ends[e]" of a sum of ones. */
static void note_count(finder *f, const ir_expr *c) {
  if (c->node != IR_OPERATOR || (c->id != IR_OP_LE && c->id != IR_OP_GE)) return;
  const ir_expr *end = c->args[c->id == IR_OP_LE ? 0 : 1], *row = c->args[c->id == IR_OP_LE ? 1 : 0];
  if (is_read(f, end) && index_range(f, row, &f->rows)) f->counted = true;
}

static void note_comparison(finder *f, const ir_expr *e) {
  bool below = e->id == IR_OP_LT || e->id == IR_OP_LE, above = e->id == IR_OP_GT || e->id == IR_OP_GE;
  for (int side = 0; (below || above) && side < 2; side++) {
    if (!is_read(f, e->args[side]) || f->compared == TRIAL_LENGTHS) continue;
    if (!index_range(f, e->args[1 - side], &f->range)) continue;
    f->compared = below == (side == 1) ? TRIAL_LENGTHS : TRIAL_STARTS;
  }
}

static void walk(finder *f, const ir_expr *e) {
  if (e->node == IR_READ) {
    bool tensor = f->p->op->tensors[e->id].role != IR_TEMPORARY;
    for (int i = 0; i < e->n_args - e->has_else; i++)
      f->reads = f->reads || (tensor && mentions(f, e->args[i]));
    note_subscripts(f, e->id, e->n_args - e->has_else, e->args);
    for (int i = 0; is_read(f, e) && i < e->n_args; i++) f->once = f->once || is_division(e->args[i]);
  }
  bool counts = e->node == IR_REDUCE && e->id == IR_RED_SUM && e->n_args == 2 && e->args[0]->node == IR_INT;
  if (counts) note_count(f, e->args[1]);
  if (e->node == IR_OPERATOR) note_comparison(f, e);
  for (int i = 0; i < e->n_args; i++) walk(f, e->args[i]);
}

static void walk_left(finder *f) {
  const ir_definition *d = f->def;
  note_subscripts(f, d->tensor, d->n_subscripts, d->subscripts);
  for (int i = 0; i < d->n_subscripts; i++) {
    bool here = mentions(f, d->subscripts[i]);
    f->once = f->once || (here && d->update == IR_ASSIGN);
    f->collects = f->collects || (here && d->update != IR_ASSIGN);
    f->skips = f->skips || (here && d->skips);
    walk(f, d->subscripts[i]);
  }
}

trial_index trial_index_of(const ir_problem *p, int tensor) {
  finder f = {.p = p, .tensor = tensor};
  const ir_tensor *t = &p->op->tensors[tensor];
  dtype_class c = dtype_class_of(ir_tensor_dtype(p, tensor));
  if (c != DTYPE_CLASS_INT && c != DTYPE_CLASS_UINT) return (trial_index){.kind = TRIAL_NONE};
  for (int i = 0; i < p->op->n_definitions; i++) {
    f.def = &p->op->definitions[i];
    walk(&f, f.def->value);
    walk_left(&f);
  }
  bool one_more = t->rank > 0 && t->dims[t->rank - 1].more == 1;
  if (one_more && (f.counted || f.compared != TRIAL_NONE))
    return (trial_index){TRIAL_OFFSETS, .most = f.counted ? f.rows : f.range, .longest = f.longest};
  if (f.counted) return (trial_index){TRIAL_ENDS, .most = f.rows};
  /* What is read twice comes from a cache the second time: where it need not be, it is not. */
  int64_t row = t->rank > 0 ? ir_dim_size(p, t->dims[t->rank - 1]) : 1;
  f.once = f.once || (!f.collects && row > 1 && row <= f.places);
  if (f.compared == TRIAL_LENGTHS) return (trial_index){f.compared, .most = f.range};
  if (f.placed)
    return (trial_index){TRIAL_PLACES, .most = f.places, .once = f.once, .skips = f.skips && !f.reads};
  if (f.added) return (trial_index){TRIAL_STARTS, .most = f.added_to};
  return (trial_index){f.compared, .most = f.range};
}

/* --- values --------------------------------------------------------------------------------------------- */

/* Walks over all places in steps that have no divisor in common with their number, from a random start. */
static uint64_t step_over(uint64_t places, uint64_t seed) {
  uint64_t step = places / 2 + 1 + random_u64(seed, 0) % (places / 3 + 1);
  for (;; step++) {
    uint64_t a = step, b = places;
    while (b != 0) {
      uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return step;
  }
}

/* How many in turn have no place in common: the whole tensor where it has no more elements than there are
 * places, or those past the places are skipped; else as many rows as there are places for, so that rows share
 * none before nearly all have come. */
static int64_t pass_of(int64_t elements, int64_t row, const trial_index *x) {
  if (elements <= x->most || (x->once && x->skips)) return elements;
  return row > 0 && row <= x->most ? x->most / row * row : row;
}

/* Each row's elements are places of its own share, again and again. */
static void fill_shares(dtype t, void *data, int64_t elements, const trial_shares *s, uint64_t seed) {
  uint64_t places = (uint64_t)(s->places > 0 ? s->places : 1), step = step_over(places, seed);
  for (int64_t i = 0; i < elements; i++) {
    uint64_t place = (uint64_t)trial_share_place(s, i / s->row, i % s->row);
    dtype_store(t, data, i, (double)((random_u64(seed, 1) % places + place % places * step) % places));
  }
}

static void fill_places(dtype t, void *data, int64_t elements, int64_t row, const trial_index *x,
                        uint64_t seed) {
  uint64_t places = (uint64_t)(x->most > 0 ? x->most : 1), step = step_over(places, seed), place = 0;
  int64_t pass = pass_of(elements, row, x), left = 0;
  bool runs_out = x->once && x->skips;
  for (int64_t i = 0, n_passes = 0; i < elements; i++, left--) {
    if (left == 0) {
      left = pass;
      place = random_u64(seed, 1 + (uint64_t)n_passes++) % places;
    }
    double value = (double)place;
    place = place < places - step % places ? place + step % places : place - (places - step % places);
    if (!x->once) value = floor(random_uniform(seed, (uint64_t)i) * (double)places);
    if (x->skips && random_u64(seed + 1, (uint64_t)i) % 16 == 3) value = -1;
    if (runs_out && i >= x->most) value = -1;
    dtype_store(t, data, i, value);
  }
}

/* Of a group: a chance beside that of others. */
static double chance(uint64_t seed, int64_t group) {
  return -log(1 - random_uniform(seed, (uint64_t)group));
}

/* Sizes of groups as if every row chose its group by dice whose sides differ: some have no rows, some have
 * many times the mean. One set of ends in four leaves rows past the last end, which are in no group. */
static void fill_ends(dtype t, void *data, int64_t first, int64_t n, const trial_index *x, uint64_t seed) {
  double total = 0, sum = 0, rows = (double)x->most;
  if (random_u64(seed, UINT64_MAX) % 4 == 0) rows -= floor(rows / 4 * random_uniform(seed, UINT64_MAX - 1));
  for (int64_t i = 0; i < n; i++) total += chance(seed, i);
  for (int64_t i = 0; i < n; i++) {
    sum += chance(seed, i);
    dtype_store(t, data, first + i, i + 1 == n || total == 0 ? rows : fmin(floor(sum / total * rows), rows));
  }
}

/* Sizes by such chances find faults of empty and of long sequences. A batch that is timed has sequences of
 * one service, and packed queries and keys are drawn apart: with sizes that unlike, most requests would have
 * more of the one than of the other, and configurations would win that no batch wants. So sequences of many
 * rows share the larger part of them evenly. */
static double even_part(double rows, int64_t n) {
  enum { MANY_ROWS = 256 };
  return rows >= MANY_ROWS * (double)n ? 0.75 : 0;
}

/* What a sequence has too much goes to the next that has room, in a second round to any. */
static void fill_offsets(dtype t, void *data, int64_t first, int64_t n, const trial_index *x, uint64_t seed) {
  double total = 0, sum = 0, offset = 0, rows = (double)x->most, even = even_part(rows, n);
  double longest = x->longest > 0 ? (double)x->longest : rows;
  for (int64_t i = 0; i < n; i++) total += chance(seed, i);
  dtype_store(t, data, first, 0);
  for (int64_t i = 0; i < n; i++) {
    sum += chance(seed, i);
    double share = even * (double)(i + 1) / (double)n + (1 - even) * sum / total;
    double end = i + 1 == n || total == 0 ? rows : fmin(floor(share * rows), rows);
    /* What is left must fit into those that follow. */
    end = fmin(fmax(end, rows - longest * (double)(n - 1 - i)), offset + longest);
    offset = fmax(end, offset);
    dtype_store(t, data, first + i + 1, offset);
  }
}

/* Most requests are long, and the first one of all is whole; some of many are empty. None is longer than the
 * pages that are its own, if they are shared out. */
static void fill_lengths(dtype t, void *data, int64_t elements, const trial_index *x, const trial_shares *s,
                         uint64_t seed) {
  for (int64_t i = 0; i < elements; i++) {
    double u = random_uniform(seed, (uint64_t)i), near = pow(u, 8), most = (double)x->most;
    if (s != NULL) most = fmin(most, (double)(trial_share_of(s, i) * s->page));
    double away = fmin(floor(near * (most + 1)), most);
    if (i % 16 > 2 && u < 1.0 / 16) away = most;
    dtype_store(t, data, i, x->kind == TRIAL_STARTS ? away : i == 0 ? most : most - away);
  }
}

void trial_index_fill(const ir_problem *p, int tensor, const trial_index *x, void *data, int64_t elements,
                      uint64_t seed) {
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(p, tensor, shape);
  int64_t row = rank > 0 ? shape[rank - 1] : 1;
  dtype t = ir_tensor_dtype(p, tensor);
  trial_shares s;
  bool shared = trial_shares_find(p, &s);
  switch (x->kind) {
  case TRIAL_NONE: break;
  case TRIAL_PLACES:
    if (shared && s.table == tensor)
      fill_shares(t, data, elements, &s, seed);
    else
      fill_places(t, data, elements, row, x, seed);
    break;
  case TRIAL_ENDS:
  case TRIAL_OFFSETS:
    for (int64_t i = 0; row > 0 && i + row <= elements; i += row) {
      uint64_t own = random_u64(seed, (uint64_t)(i / row));
      if (x->kind == TRIAL_ENDS) fill_ends(t, data, i, row, x, own);
      if (x->kind == TRIAL_OFFSETS) fill_offsets(t, data, i, row - 1, x, own);
    }
    break;
  case TRIAL_LENGTHS:
  case TRIAL_STARTS:
    fill_lengths(t, data, elements, x, shared && s.lengths == tensor ? &s : NULL, seed);
    break;
  }
}
