#include "templates/map.h"

enum { DEFAULT_THREADS = 256, DEFAULT_LOADED_BYTES = 64, DEFAULT_REUSE = 8 };

#define X(NAME, meaning, ...) {#NAME, meaning, (int)COUNT_OF(((int[]){__VA_ARGS__})), {__VA_ARGS__}},
static const space_param params[MAP_PARAM_COUNT] = {MAP_PARAMS(X)};
#undef X
const space map_space = {"map", MAP_PARAM_COUNT, params};

const space *map_space_of(const target *t) {
  (void)t;
  return &map_space;
}

/* --- judging --- */

/* What needs no look at the operator comes first: the tuner asks for every point. */
static template_reason quick(const target *t, const config *c) {
  const int *v = c->values;
  if (v[MAP_THREADS] > t->max_threads_per_block) return TEMPLATE_THREADS;
  return v[MAP_COLUMNS] > v[MAP_THREADS] ? TEMPLATE_TILE : TEMPLATE_OK;
}

typedef struct map_prepared {
  map_match m;
  template_reason reason;
} map_prepared;

const void *map_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  arke_error err = ARKE_ERROR_INIT;
  map_prepared *prepared = ARENA_NEW(a, map_prepared);
  if (!prepared || map_match_make(p, true, a, &prepared->m, &prepared->reason, NULL, &err) != ARKE_OK)
    return NULL;
  map_know_wide(&prepared->m, t);
  return prepared;
}

template_reason map_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                          double *ns) {
  const map_prepared *of = prepared;
  map_plan plan;
  template_reason reason = quick(t, c);
  if (reason == TEMPLATE_OK) reason = of->reason;
  if (reason == TEMPLATE_OK) reason = map_plan_make(&of->m, t, c, &plan);
  if (reason == TEMPLATE_OK && c->values[MAP_RESIDENT] && c->values[MAP_REUSE] == 1)
    reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = map_time_ns(&of->m, &plan, t, rates);
  return reason;
}

/* --- the default --- */

/* Bits of an element of the widest tensor that is not an index. */
static int widest_bits(const ir_problem *p) {
  int widest = 8;
  for (int i = 0; i < p->op->n_args; i++) {
    int bits = dtype_bits(ir_tensor_dtype(p, i));
    bool is_index =
        i < p->op->n_inputs && dtype_class_of(ir_tensor_dtype(p, i)) == DTYPE_CLASS_INT && bits == 64;
    if (widest < bits && !is_index) widest = bits;
  }
  return widest;
}

static int ceil_power(int64_t n, int most) {
  int power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}

/* 16 bytes of the widest tensor at once; as many threads along rows as those have vectors; enough in flight,
 * but at least two tiles for each SM. */
void map_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  map_match m;
  map_plan plan;
  template_reason reason = TEMPLATE_OPERATOR;
  arke_error err = ARKE_ERROR_INIT;
  int *v = c->values, widest = widest_bits(p);
  v[MAP_THREADS] = v[MAP_COLUMNS] = DEFAULT_THREADS;
  v[MAP_UNROLL] = 1;
  v[MAP_PERSISTENT] = v[MAP_STREAM] = v[MAP_RESIDENT] = 0;
  v[MAP_REUSE] = 1;
  v[MAP_VECTOR] = ceil_power((t->has.access_32 ? 256 : 128) / widest, LANES_MAX);
  if (map_match_make(p, true, &a, &m, &reason, NULL, &err) == ARKE_OK && reason == TEMPLATE_OK) {
    reason = map_plan_make(&m, t, c, &plan);
    while (v[MAP_VECTOR] > 1 && (reason == TEMPLATE_ALIGNMENT || reason == TEMPLATE_TILE)) {
      v[MAP_VECTOR] /= 2;
      reason = map_plan_make(&m, t, c, &plan);
    }
    bool rows = false;
    int64_t columns = 1;
    for (int i = 0; i < m.n_groups; i++) {
      int reuse = ceil_power(map_reuse_most(&m, &m.groups[i]), DEFAULT_REUSE);
      if (v[MAP_REUSE] < reuse) v[MAP_REUSE] = reuse;
      rows = rows || m.groups[i].n_rows > 0;
      if (columns < map_columns(&m, &m.groups[i])) columns = map_columns(&m, &m.groups[i]);
    }
    if (rows) v[MAP_COLUMNS] = ceil_power((columns + v[MAP_VECTOR] - 1) / v[MAP_VECTOR], DEFAULT_THREADS);
    for (int unroll = 2; unroll * v[MAP_VECTOR] * widest / 8 <= DEFAULT_LOADED_BYTES && unroll <= 8;
         unroll *= 2) {
      config more = *c;
      more.values[MAP_UNROLL] = unroll;
      if (map_plan_make(&m, t, &more, &plan) != TEMPLATE_OK ||
          map_tile_count(&m, &plan) < 2 * (int64_t)t->rates.sm_count)
        break;
      *c = more;
    }
  }
  arena_release(&a);
}
