/* The bodies of a column reduction's kernels: rows into partial results, and those into outputs. */
#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/column.h"

enum { MOST_VALUES = COLUMN_REDUCTIONS * REDUCTION_VALUES * LANES_MAX };

typedef struct column_emitter {
  gen_builder *b;
  column_kernel *k;
  const column_plan *p;
  const column_match *m;
  gen_value thread, across, down; /* the thread's place in the CTA */
  gen_value position, exists;     /* clamped to the last one; whether it is one */
  gen_value split;                /* i32 */
  gen_value column, kept[IR_FORM_LOOPS];
  int n;                         /* state values: by reduction, value, column */
  gen_value states[MOST_VALUES]; /* of the rows taken in so far */
} column_emitter;

static gen_value index_of(const column_emitter *e, gen_value x) {
  return e->p->wide_offsets ? gen_zext(e->b, x, GEN_I64) : x;
}

static gen_value index_imm(const column_emitter *e, int64_t x) {
  return e->p->wide_offsets ? gen_i64(e->b, x) : gen_i32(e->b, x);
}

static gen_value modulo(gen_builder *b, gen_value x, int y) {
  return gen_and(b, x, gen_i32(b, y - 1)); /* powers of two */
}

static gen_value quotient(gen_builder *b, gen_value x, int y) {
  return gen_lshr(b, x, gen_i32(b, __builtin_ctz((unsigned)y)));
}

/* --- states --- */

/* Where the state of reduction k in column j stands: its values are `vector` apart. */
static int slot(const column_emitter *e, int k, int j) {
  int at = j;
  for (int i = 0; i < k; i++) at += reduction_values(&e->m->reductions[i].r) * e->p->vector;
  return at;
}

static void state_of(const column_emitter *e, const gen_value *states, int k, int j, gen_value *state) {
  for (int i = 0; i < reduction_values(&e->m->reductions[k].r); i++)
    state[i] = states[slot(e, k, j) + i * e->p->vector];
}

static void set_state(const column_emitter *e, gen_value *states, int k, int j, const gen_value *state) {
  for (int i = 0; i < reduction_values(&e->m->reductions[k].r); i++)
    states[slot(e, k, j) + i * e->p->vector] = state[i];
}

static void start(column_emitter *e) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    gen_value state[REDUCTION_VALUES];
    reduction_start(e->b, &e->m->reductions[k].r, state);
    for (int j = 0; j < e->p->vector; j++) set_state(e, e->states, k, j, state);
  }
  e->n = slot(e, e->m->n_reductions, 0);
}

static void combine(const column_emitter *e, gen_value *into, const gen_value *from) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    for (int j = 0; j < e->p->vector; j++) {
      gen_value x[REDUCTION_VALUES], y[REDUCTION_VALUES];
      state_of(e, into, k, j, x);
      state_of(e, from, k, j, y);
      reduction_combine(e->b, &e->m->reductions[k].r, x, y);
      set_state(e, into, k, j, x);
    }
  }
}

/* Predicates lie in memory as words. */
static gen_value stored(const column_emitter *e, gen_value x) {
  return gen_type_of(e->b, x) == GEN_I1 ? gen_zext(e->b, x, GEN_I32) : x;
}

static gen_value loaded(const column_emitter *e, gen_value x, gen_type type) {
  return type == GEN_I1 ? gen_compare_imm(e->b, GEN_NE, x, 0) : x;
}

static gen_type stored_type(gen_type type) {
  return type == GEN_I1 ? GEN_I32 : type;
}

/* --- rows of the operator --- */

static void set_places(const column_emitter *e, lanes *l) {
  lanes_set(l, e->m->v, e->column);
  for (int i = 0; i < e->m->n_kept; i++) lanes_set(l, e->m->kept[i], e->kept[i]);
}

static void set_row(const column_emitter *e, lanes *l, gen_value row) {
  for (int i = e->m->n_rows - 1; i >= 0; i--) {
    gen_value extent = i ? lanes_extent(l, e->m->rows[i]) : NULL;
    lanes_set(l, e->m->rows[i], i ? gen_urem(e->b, row, extent) : row);
    if (i) row = gen_udiv(e->b, row, extent);
  }
}

/* A value of an expression as what its reduction works in. */
static gen_value as_type(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (type == GEN_I1) {
    return gen_is_float(b, x) ? gen_compare(b, GEN_NE, x, gen_float_cast(b, gen_f32(b, 0), from))
                              : gen_compare_imm(b, GEN_NE, x, 0);
  }
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I64) return gen_trunc(b, x, type);
  return from == GEN_I1 ? gen_zext(b, x, type) : gen_sext(b, x, type);
}

/* NaN is true: unordered comparison. */
static arke_status conditions_hold(column_emitter *e, lanes *l, const column_reduction *r, gen_value *holds,
                                   bool *always, arke_error *err) {
  *always = r->n_conditions == 0;
  for (int c = 0; c < r->n_conditions; c++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, r->conditions[c], values, &n, err));
    for (int j = 0; j < e->p->vector; j++) {
      gen_value v = as_type(e->b, values[n == 1 ? 0 : j], GEN_I1);
      holds[j] = c ? gen_and(e->b, holds[j], v) : v;
    }
  }
  return ARKE_OK;
}

static arke_status take_row(column_emitter *e, lanes *l, gen_value row, gen_value *states, arke_error *err) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const column_reduction *r = &e->m->reductions[k];
    gen_value values[LANES_MAX], holds[LANES_MAX], position = NULL;
    int n;
    bool always;
    TRY(conditions_hold(e, l, r, holds, &always, err));
    TRY(lanes_eval(l, r->body, values, &n, err));
    if (reduction_values(&r->r) == 2) position = as_type(e->b, row, r->r.position);
    for (int j = 0; j < e->p->vector; j++) {
      gen_value state[REDUCTION_VALUES];
      state_of(e, states, k, j, state);
      reduction_take(e->b, &r->r, state, as_type(e->b, values[n == 1 ? 0 : j], r->r.type), position,
                     always ? NULL : holds[j]);
      set_state(e, states, k, j, state);
    }
  }
  return ARKE_OK;
}

/* `count` rows, `down` apart, beginning with `first`: all loads are under way before the first is used. */
static arke_status take_rows(column_emitter *e, gen_value first, int count, gen_value *states,
                             arke_error *err) {
  lanes *l[8];
  gen_value rows[8];
  for (int i = 0; i < count; i++) {
    rows[i] = gen_add_imm(e->b, first, (int64_t)i * e->p->down);
    TRY(lanes_create(e->b, &e->m->form, &e->k->options, &e->k->slots, e->k->a, &l[i], err));
    set_places(e, l[i]);
    set_row(e, l[i], rows[i]);
    for (int k = 0; k < e->m->n_reductions; k++) {
      const column_reduction *r = &e->m->reductions[k];
      for (int c = 0; c < r->n_conditions; c++) TRY(lanes_load(l[i], r->conditions[c], err));
      if (r->n_conditions == 0) TRY(lanes_load(l[i], r->body, err));
    }
  }
  for (int i = 0; i < count; i++) TRY(take_row(e, l[i], rows[i], states, err));
  return ARKE_OK;
}

static arke_status row_loop(column_emitter *e, gen_value *row, gen_value end, int count, arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[MOST_VALUES + 1];
  gen_loop loop;
  int step = count * e->p->down;
  carried[0] = *row;
  for (int i = 0; i < e->n; i++) carried[i + 1] = e->states[i];
  gen_loop_begin(b, &loop, carried, e->n + 1);
  /* The last of the rows taken at once is one: rows count from 0, so the sum does not wrap. */
  gen_value last = gen_add_imm(b, carried[0], (int64_t)(count - 1) * e->p->down);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, last, end));
  TRY(take_rows(e, carried[0], count, carried + 1, err));
  carried[0] = gen_add_imm(b, carried[0], step);
  gen_loop_end(b, &loop);
  *row = carried[0];
  for (int i = 0; i < e->n; i++) e->states[i] = carried[i + 1];
  return ARKE_OK;
}

static arke_status take_operator_rows(column_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value row = index_of(e, e->down), end = gen_param(b, e->k->rows);
  if (e->p->split > 1) {
    gen_value each = gen_param(b, e->k->rows_per_split);
    gen_value begin = gen_mul(b, index_of(e, e->split), each);
    row = gen_add(b, row, begin);
    end = gen_umin(b, end, gen_add(b, begin, each));
  }
  if (e->p->unroll > 1) TRY(row_loop(e, &row, end, e->p->unroll, err));
  return row_loop(e, &row, end, 1, err);
}

/* --- partial results in memory: by split, position, column --- */

static gen_value partials_at(const column_emitter *e, int k, int i, gen_value split) {
  gen_builder *b = e->b;
  int bytes = column_bytes(&e->m->reductions[k].r, i) * e->p->vector;
  gen_value positions = as_type(b, gen_param(b, e->k->positions), GEN_I64);
  gen_value at = gen_mul(b, gen_zext(b, split, GEN_I64), positions);
  at = gen_add(b, at, as_type(b, e->position, GEN_I64));
  return gen_add(b, gen_param(b, e->k->partials[k][i]), gen_mul_imm(b, at, bytes));
}

static int most_at_once(const column_emitter *e, int bytes) {
  return e->p->vector * bytes <= 16 ? e->p->vector : 16 / bytes;
}

static void load_partials(const column_emitter *e, gen_value split, gen_value *states) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i), n = most_at_once(e, bytes);
      gen_value at = partials_at(e, k, i, split);
      for (int j = 0; j < e->p->vector; j += n) {
        gen_value v = gen_load_global(e->b, stored_type(reduction_type(r, i)), n,
                                      gen_add_imm(e->b, at, (int64_t)j * bytes), true);
        for (int x = 0; x < n; x++) {
          gen_value one = n == 1 ? v : gen_lane(e->b, v, x);
          states[slot(e, k, j + x) + i * e->p->vector] = loaded(e, one, reduction_type(r, i));
        }
      }
    }
  }
}

static void store_partials(const column_emitter *e) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i), n = most_at_once(e, bytes);
      gen_value at = partials_at(e, k, i, e->split);
      for (int j = 0; j < e->p->vector; j += n) {
        gen_value parts[LANES_MAX];
        for (int x = 0; x < n; x++) parts[x] = stored(e, e->states[slot(e, k, j + x) + i * e->p->vector]);
        gen_store_global(e->b, n == 1 ? parts[0] : gen_vector(e->b, parts, n),
                         gen_add_imm(e->b, at, (int64_t)j * bytes));
      }
    }
  }
}

/* The number of splits is a power of two, as is `down`: every thread takes equally many, or the upper ones
 * none. */
static void take_partials(column_emitter *e) {
  int each = e->p->split / e->p->down;
  gen_value rows[8][MOST_VALUES];
  for (int i = 0; i < each; i += 8) {
    int n = each - i < 8 ? each - i : 8;
    for (int x = 0; x < n; x++)
      load_partials(e, gen_add_imm(e->b, e->down, (int64_t)(i + x) * e->p->down), rows[x]);
    for (int x = 0; x < n; x++) combine(e, e->states, rows[x]);
  }
}

/* --- between threads --- */

/* Lanes of a warp that have the same columns. */
static void combine_in_warp(column_emitter *e) {
  for (int distance = e->p->across; distance < 32; distance *= 2) {
    gen_value others[MOST_VALUES];
    for (int i = 0; i < e->n; i++) {
      gen_value x = gen_shuffle_xor(e->b, stored(e, e->states[i]), gen_i32(e->b, distance), 32);
      others[i] = loaded(e, x, gen_type_of(e->b, e->states[i]));
    }
    combine(e, e->states, others);
  }
}

/* Each state value has `groups` rows of across * vector in shared memory. */
static gen_value shared_at(const column_emitter *e, gen_value base, gen_value group, int bytes) {
  gen_value at = gen_add(e->b, gen_mul_imm(e->b, group, e->p->across), e->across);
  return gen_add(e->b, base, gen_mul_imm(e->b, at, bytes));
}

typedef enum exchange_way { WRITE, READ, READ_OF_CLUSTER } exchange_way;

static void exchange(column_emitter *e, gen_value shared, gen_value group, gen_value *states,
                     exchange_way way) {
  int offset = 0, each = e->p->groups * e->p->across;
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i);
      gen_type type = reduction_type(r, i);
      for (int j = 0; j < e->p->vector; j++, offset += each * bytes) {
        gen_value at = gen_add_imm(e->b, shared_at(e, shared, group, bytes), offset);
        gen_value *state = &states[slot(e, k, j) + i * e->p->vector];
        switch (way) {
        case WRITE: gen_store_shared(e->b, stored(e, *state), at); break;
        case READ: *state = loaded(e, gen_load_shared(e->b, stored_type(type), 1, at), type); break;
        case READ_OF_CLUSTER: *state = loaded(e, gen_load_cluster(e->b, stored_type(type), 1, at), type);
        }
      }
    }
  }
}

/* A tree over the CTA's groups, whose order is fixed; the first group has the result. `speaks`: the threads
 * that hold a group's result. */
static void combine_in_cta(column_emitter *e, gen_value shared, gen_value group, gen_value speaks) {
  gen_builder *b = e->b;
  for (int half = e->p->groups / 2; half >= 1; half /= 2) {
    gen_branch upper, lower;
    gen_value below = gen_compare_imm(b, GEN_ULT, group, half);
    gen_value above = gen_and(b, gen_compare_imm(b, GEN_UGE, group, half),
                              gen_compare_imm(b, GEN_ULT, group, 2 * (int64_t)half));
    gen_if(b, &upper, gen_and(b, speaks, above), NULL, 0);
    exchange(e, shared, group, e->states, WRITE);
    gen_if_end(b, &upper);
    gen_cta_sync(b);
    gen_if(b, &lower, gen_and(b, speaks, below), e->states, e->n);
    gen_value others[MOST_VALUES];
    exchange(e, shared, gen_add_imm(b, group, half), others, READ);
    combine(e, e->states, others);
    gen_if_end(b, &lower);
  }
}

/* The first CTA of the cluster reads what the others have, in their order; `first`: the threads that hold a
 * CTA's result. */
static void combine_in_cluster(column_emitter *e, gen_value shared, gen_value first) {
  gen_builder *b = e->b;
  gen_value others[COLUMN_MOST_CLUSTER][MOST_VALUES], none = gen_i32(b, 0);
  gen_branch has, leads;
  gen_if(b, &has, first, NULL, 0);
  exchange(e, shared, none, e->states, WRITE);
  gen_if_end(b, &has);
  gen_cluster_sync(b);
  gen_value leading = gen_and(b, first, gen_compare_imm(b, GEN_EQ, e->split, 0));
  gen_if(b, &leads, leading, e->states, e->n);
  for (int r = 1; r < e->p->split; r++)
    exchange(e, gen_cluster_map(b, shared, gen_i32(b, r)), none, others[r], READ_OF_CLUSTER);
  for (int r = 1; r < e->p->split; r++) combine(e, e->states, others[r]);
  gen_if_end(b, &leads);
  gen_cluster_arrive_relaxed(b); /* nobody ends while it is read */
}

/* --- results --- */

arke_status column_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  column_emitter *e = ((column_kernel *)user)->current;
  for (int k = 0; k < e->m->n_reductions; k++) {
    const column_reduction *r = &e->m->reductions[k];
    if (r->e != x) continue;
    for (int j = 0; j < e->p->vector; j++) {
      gen_value state[REDUCTION_VALUES];
      state_of(e, e->states, k, j, state);
      values[j] = reduction_result(&r->r, state);
      if (reduction_values(&r->r) == 2 && r->r.position == GEN_I32)
        values[j] = gen_sext(e->b, values[j], GEN_I64);
    }
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the column template did not match");
}

static arke_status store_outputs(column_emitter *e, arke_error *err) {
  const ir_form *form = &e->m->form;
  lanes *l;
  TRY(lanes_create(e->b, form, &e->k->options, &e->k->slots, e->k->a, &l, err));
  set_places(e, l);
  for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(l, form->outputs[o].value, err));
  for (int o = 0; o < form->n_outputs; o++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, form->outputs[o].value, values, &n, err));
    TRY(lanes_store(l, o, values, n, NULL, err));
  }
  return ARKE_OK;
}

/* The thread's position, and the loops' values there. */
static void find_position(column_emitter *e) {
  gen_builder *b = e->b;
  gen_value cta = gen_ctaid_x(b), tile = cta;
  if (e->p->cluster) {
    tile = gen_udiv(b, cta, gen_i32(b, e->p->split));
    e->split = gen_urem(b, cta, gen_i32(b, e->p->split));
  } else if (e->k->to_partials) {
    gen_value tiles = gen_param(b, e->k->tiles);
    tile = gen_urem(b, cta, tiles);
    e->split = gen_udiv(b, cta, tiles);
  }
  gen_value positions = gen_param(b, e->k->positions);
  gen_value p = gen_add(b, gen_mul_imm(b, index_of(e, tile), e->p->across), index_of(e, e->across));
  e->exists = gen_compare(b, GEN_ULT, p, positions);
  e->position = gen_umin(b, p, gen_sub(b, positions, index_imm(e, 1)));
  gen_value rest = e->position, chunks = gen_param(b, e->k->chunks);
  gen_value chunk = e->m->n_kept ? gen_urem(b, rest, chunks) : rest;
  if (e->m->n_kept) rest = gen_udiv(b, rest, chunks);
  e->column = gen_mul_imm(b, chunk, e->p->vector);
  for (int i = e->m->n_kept - 1; i >= 0; i--) {
    gen_value extent = i ? gen_param(b, e->k->kept[i]) : NULL;
    e->kept[i] = i ? gen_urem(b, rest, extent) : rest;
    if (i) rest = gen_udiv(b, rest, extent);
  }
}

arke_status column_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  column_kernel *k = user;
  column_emitter *e = arena_alloc(k->a, sizeof *e);
  if (!e) return error_memory(err, "generate");
  e->b = b;
  e->k = k;
  e->p = &k->plan;
  e->m = k->plan.m;
  k->current = e;
  gen_launches_release(b);
  e->thread = gen_tid_x(b);
  e->across = modulo(b, e->thread, e->p->across);
  e->down = quotient(b, e->thread, e->p->across);
  find_position(e);
  start(e);
  gen_launches_wait(b);
  if (k->from_partials) {
    take_partials(e);
  } else {
    TRY(take_operator_rows(e, err));
  }
  combine_in_warp(e);
  int narrow = e->p->across < 32;
  gen_value group = narrow ? quotient(b, e->thread, 32) : e->down;
  gen_value speaks =
      narrow ? gen_compare_imm(b, GEN_ULT, modulo(b, e->thread, 32), e->p->across) : gen_bool(b, true);
  gen_value shared = NULL;
  if (e->p->smem_bytes > 0)
    shared = gen_shared_static(b, k->from_partials ? "finished" : "partials", e->p->smem_bytes, 16);
  if (e->p->groups > 1) combine_in_cta(e, shared, group, speaks);
  gen_value has = gen_and(b, speaks, gen_compare_imm(b, GEN_EQ, group, 0));
  if (e->p->cluster) {
    combine_in_cluster(e, shared, has);
    has = gen_and(b, has, gen_compare_imm(b, GEN_EQ, e->split, 0));
  }
  gen_branch first;
  gen_if(b, &first, gen_and(b, e->exists, has), NULL, 0);
  if (k->to_partials) {
    store_partials(e);
  } else {
    TRY(store_outputs(e, err));
  }
  gen_if_end(b, &first);
  if (e->p->cluster) gen_cluster_wait(b);
  return ARKE_OK;
}
