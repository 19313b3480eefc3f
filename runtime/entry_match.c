#include "runtime/entry_match.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define STAGE "plan"

/* --- routes ------------------------------------------------------------------------------------------ */

typedef struct route_collector {
  const match_query *query;
  arena *arena;
  match_route *routes; /* grown by copying: the arena keeps the old ones, which nothing points to yet */
  int n, capacity;
  int cache_rank;
  const usable_target *target;
  bool any_signature;
  arke_error refusal; /* of the first signature that the call does not fit */
  arke_status status;
} route_collector;

static match_route *new_route(route_collector *k) {
  if (k->n == k->capacity) {
    int capacity = k->capacity == 0 ? 8 : 2 * k->capacity;
    match_route *grown = ARENA_NEW_N(k->arena, match_route, (size_t)capacity);
    if (grown == NULL) return NULL;
    if (k->n > 0) memcpy(grown, k->routes, (size_t)k->n * sizeof *grown);
    k->routes = grown;
    k->capacity = capacity;
  }
  return &k->routes[k->n++];
}

/* Whether this cache has a later operator of the name: signatures come newest first. Who changes an operator
 * and tunes it again means the new one. */
static bool is_replaced(const route_collector *k, const cache_problem *p) {
  for (int i = 0; i < k->n; i++) {
    const match_route *r = &k->routes[i];
    if (r->cache_rank == k->cache_rank && strcmp(r->bound.signature->op_text, p->op_text) != 0) return true;
  }
  return false;
}

static bool on_signature(const cache_problem *p, void *user) {
  route_collector *k = user;
  if (is_replaced(k, p)) return true;
  k->any_signature = true;
  cache_problem *signature = ARENA_NEW(k->arena, cache_problem);
  match_route *r = signature == NULL ? NULL : new_route(k);
  if (r == NULL) {
    k->status = ARKE_ERR_MEMORY;
    return false;
  }
  *signature = *p;
  *r = (match_route){.cache = k->query->caches[k->cache_rank],
                     .cache_rank = k->cache_rank,
                     .target = k->target,
                     .example = ""};
  if (call_bind(k->query->call, signature, k->arena, &r->bound, &k->refusal) != ARKE_OK) k->n--;
  return true;
}

static arke_status nothing_tuned(const match_query *q, arke_error *err) {
  strbuf where = STRBUF_INIT;
  for (int i = 0; i < q->n_caches; i++)
    strbuf_addf(&where, "%s%s", i == 0 ? "" : " or ", cache_path(q->caches[i]));
  arke_status status = error_set(
      err, ARKE_ERR_NOT_TUNED, STAGE,
      "%s holds no entry for operator %s on a target of this device; arke-tune cache ls shows what is there, "
      "arke-tune --list-ops which operators can be tuned",
      strbuf_text(&where), q->call->op);
  strbuf_free(&where);
  return status;
}

static bool take_example(const cache_entry *e, void *user) {
  match_route *r = user;
  if (strcmp(e->problem.op_text, r->bound.signature->op_text) != 0) return true;
  r->example = e->problem.bindings;
  return false;
}

arke_status match_routes(const match_query *q, arena *a, match_route **routes, int *n, arke_error *err) {
  route_collector k = {.query = q, .arena = a, .refusal = ARKE_ERROR_INIT};
  for (k.cache_rank = 0; k.cache_rank < q->n_caches; k.cache_rank++)
    for (int t = 0; t < q->n_targets; t++) {
      k.target = &q->targets[t];
      TRY(cache_each_signature(q->caches[k.cache_rank], q->call->op, k.target->name, a, on_signature, &k,
                               err));
      if (k.status != ARKE_OK) return error_memory(err, STAGE);
    }
  for (int i = 0; i < k.n; i++)
    TRY(cache_each_entry(k.routes[i].cache, q->call->op, k.routes[i].target->name, a, take_example,
                         &k.routes[i], NULL, err));
  *routes = k.routes;
  *n = k.n;
  if (k.n > 0) return ARKE_OK;
  if (!k.any_signature) return nothing_tuned(q, err);
  return error_set(err, k.refusal.code, STAGE, "%s", k.refusal.text);
}

/* --- variants ---------------------------------------------------------------------------------------- */

/* By preference where nothing is asked for; what is asked for turns the order around. */
static const char *const VARIANTS[] = {"", CACHE_VARIANT_CHECKED, CACHE_VARIANT_FAST,
                                       CACHE_VARIANT_FAST CACHE_VARIANT_CHECKED};
enum { N_VARIANTS = COUNT_OF(VARIANTS) };

/* Rank of a variant for the query: lower is preferred; -1: it may not serve. */
static int rank_variant(const match_query *q, const char *op_text, const char *variant) {
  bool fast = strstr(variant, CACHE_VARIANT_FAST) != NULL;
  bool checked = strstr(variant, CACHE_VARIANT_CHECKED) != NULL;
  if (fast && !q->fast_math) return -1;
  if (!checked && q->check_indices && cache_gathers(op_text)) return -1;
  return 2 * (fast != q->fast_math) + checked;
}

/* --- exact ------------------------------------------------------------------------------------------- */

/* Appends the entry of one route and variant, if there is one. */
static arke_status find_exact(const match_query *q, const match_route *route, const char *variant, int rank,
                              arena *a, match_candidate *list, int *n_list, arke_error *err) {
  strbuf bindings = STRBUF_INIT;
  bound_print(&route->bound, route->example, &bindings);
  cache_entry *found = ARENA_NEW(a, cache_entry);
  arke_error missing = ARKE_ERROR_INIT;
  arke_status status =
      found == NULL || strbuf_failed(&bindings)
          ? error_memory(&missing, STAGE)
          : cache_find_entry(route->cache, q->call->op, strbuf_text(&bindings), route->target->name, variant,
                             q->modelled_too, a, found, &missing);
  strbuf_free(&bindings);
  if (status == ARKE_ERR_NOT_FOUND) return ARKE_OK;
  if (status != ARKE_OK) return error_set(err, status, STAGE, "%s", missing.text);
  /* Two operators may share a name and bindings; the look-up does not know which one the call fits. */
  if (strcmp(found->problem.op_text, route->bound.signature->op_text) != 0) return ARKE_OK;
  list[(*n_list)++] =
      (match_candidate){.route = route, .match = ARKE_MATCH_EXACT, .variant = rank, .entry = found};
  return ARKE_OK;
}

arke_status match_exact(const match_query *q, const match_route *routes, int n, arena *a,
                        match_candidate **list, int *n_list, arke_error *err) {
  *n_list = 0;
  *list = ARENA_NEW_N(a, match_candidate, (size_t)n * N_VARIANTS);
  if (*list == NULL) return error_memory(err, STAGE);
  for (int i = 0; i < n; i++)
    for (int rank = 0; rank < N_VARIANTS; rank++)
      for (int k = 0; k < N_VARIANTS; k++)
        if (rank_variant(q, routes[i].bound.signature->op_text, VARIANTS[k]) == rank)
          TRY(find_exact(q, &routes[i], VARIANTS[k], rank, a, *list, n_list, err));
  return ARKE_OK;
}

/* --- buckets and neighbours -------------------------------------------------------------------------- */

/* What keeps an entry from being the call's own: sizes, and dtypes or attributes. */
typedef struct difference {
  int n_sizes, n_other;
  double distance;
} difference;

static difference compare(const bound_call *b, const char *bindings) {
  difference d = {0};
  bound_field f;
  int matched = 0;
  while (bound_next_field(&bindings, &f)) {
    const bound_name *n = bound_find(b, f.name, f.name_length);
    int64_t tuned;
    if (n == NULL || (n->kind == BOUND_AXIS && !bound_field_size(&f, &tuned))) {
      d.n_other++;
      continue;
    }
    matched++;
    if (n->kind != BOUND_AXIS) {
      d.n_other += !bound_same_value(n, &f);
    } else if (tuned != n->size) {
      d.n_sizes++;
      d.distance += fabs(log2((double)(n->size > 0 ? n->size : 1) / (double)(tuned > 0 ? tuned : 1)));
    }
  }
  d.n_other += b->n - matched;
  return d;
}

/* "1..128" */
static bool in_range(const bound_field *f, int64_t size) {
  const char *dots = memmem(f->value, f->value_length, "..", 2);
  int64_t low, high;
  if (dots == NULL) return bound_field_size(f, &low) && low == size;
  size_t first = (size_t)(dots - f->value);
  return text_to_i64(f->value, first, 0, LIMIT_AXIS_SIZE, &low) &&
         text_to_i64(dots + 2, f->value_length - first - 2, 0, LIMIT_AXIS_SIZE, &high) && low <= size &&
         size <= high;
}

/* Whether the bucket has a range for this axis; *holds tells whether the size lies in it. */
static bool bucket_covers(const char *bucket, const bound_name *n, bool *holds) {
  bound_field f;
  while (bound_next_field(&bucket, &f))
    if (strlen(n->name) == f.name_length && memcmp(n->name, f.name, f.name_length) == 0) {
      *holds = in_range(&f, n->size);
      return true;
    }
  return false;
}

/* Every size is the tuned one or lies in the range declared for its axis. */
static bool bucket_holds(const bound_call *b, const char *bindings, const char *bucket) {
  bound_field f;
  if (bucket[0] == '\0') return false;
  while (bound_next_field(&bindings, &f)) {
    const bound_name *n = bound_find(b, f.name, f.name_length);
    int64_t tuned;
    bool holds;
    if (n == NULL || n->kind != BOUND_AXIS) continue;
    if (bucket_covers(bucket, n, &holds) ? !holds : !bound_field_size(&f, &tuned) || tuned != n->size)
      return false;
  }
  return true;
}

typedef struct walker {
  const match_query *query;
  const match_route *route;
  arena *arena;
  match_candidate *list;
  int n, capacity;
  match_miss *miss;
} walker;

static bool push(walker *w, const match_candidate *c) {
  if (w->n == w->capacity) {
    int capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
    match_candidate *grown = ARENA_NEW_N(w->arena, match_candidate, (size_t)capacity);
    if (grown == NULL) return false;
    if (w->n > 0) memcpy(grown, w->list, (size_t)w->n * sizeof *grown);
    w->list = grown;
    w->capacity = capacity;
  }
  w->list[w->n++] = *c;
  return true;
}

static void note_miss(match_miss *miss, const match_route *route, const cache_entry *e, const difference *d,
                      bool modelled, bool variant) {
  bool nearer = d->n_other != miss->n_other ? d->n_other < miss->n_other : d->distance < miss->distance;
  if (miss->found && !nearer) return;
  miss->found = true;
  miss->route = route;
  miss->entry = *e;
  miss->n_other = d->n_other;
  miss->modelled = modelled;
  miss->variant = variant;
  miss->distance = d->distance;
}

static bool consider(walker *w, const cache_entry *e) {
  const bound_call *b = &w->route->bound;
  if (strcmp(e->problem.op_text, b->signature->op_text) != 0) return true;
  difference d = compare(b, e->problem.bindings);
  bool left_out = e->winner.origin == CACHE_ORIGIN_MODELLED && !w->query->modelled_too;
  int variant = rank_variant(w->query, e->problem.op_text, cache_variant(e->problem.ptx));
  note_miss(w->miss, w->route, e, &d, left_out, variant < 0);
  if (left_out || variant < 0 || d.n_other > 0) return true;
  match_candidate c = {
      .route = w->route, .match = ARKE_MATCH_DEFAULT, .distance = d.distance, .variant = variant, .entry = e};
  if (d.n_sizes == 0)
    c.match = ARKE_MATCH_EXACT;
  else if (bucket_holds(b, e->problem.bindings, e->problem.bucket))
    c.match = ARKE_MATCH_BUCKET;
  return push(w, &c);
}

static int order(double x, double y) {
  return (x > y) - (x < y);
}

static int compare_candidates(const void *left, const void *right) {
  const match_candidate *x = left, *y = right;
  if (x->match != y->match) return order(x->match, y->match);
  int by_cache = order(x->route->cache_rank, y->route->cache_rank);
  if (x->match != ARKE_MATCH_DEFAULT && by_cache != 0) return by_cache;
  int by_target = order(x->route->target->index, y->route->target->index);
  if (by_target != 0) return by_target;
  if (x->distance != y->distance) return order(x->distance, y->distance);
  if (x->variant != y->variant) return order(x->variant, y->variant);
  if (x->entry->winner.origin != y->entry->winner.origin)
    return x->entry->winner.origin == CACHE_ORIGIN_MEASURED ? -1 : 1;
  if (by_cache != 0) return by_cache;
  return order(x->entry->winner.time.median_ns, y->entry->winner.time.median_ns);
}

arke_status match_others(const match_query *q, const match_route *routes, int n, arena *a,
                         match_candidate **list, int *n_list, match_miss *miss, arke_error *err) {
  *miss = (match_miss){0};
  walker w = {.query = q, .arena = a, .miss = miss};
  for (int i = 0; i < n; i++) {
    const entry_list *all;
    w.route = &routes[i];
    TRY(entry_index_get(q->index, routes[i].cache, q->call->op, routes[i].target->name, &all, err));
    for (int k = 0; k < all->n; k++)
      if (!consider(&w, &all->entries[k])) return error_memory(err, STAGE);
    miss->damaged_rows += all->damaged_rows;
  }
  if (w.n > 0) qsort(w.list, (size_t)w.n, sizeof *w.list, compare_candidates);
  *list = w.list;
  *n_list = w.n;
  return ARKE_OK;
}

/* --- the message of a miss --------------------------------------------------------------------------- */

/* " which differs in M (stored 4096, asked 512), …"; nothing when nothing differs. */
static void print_differences(const match_miss *miss, const bound_call *b, strbuf *out) {
  const char *bindings = miss->entry.problem.bindings;
  const char *separator = ", which differs in ";
  bool differs = false;
  bound_field f;
  while (bound_next_field(&bindings, &f)) {
    const bound_name *n = bound_find(b, f.name, f.name_length);
    if (n == NULL || bound_same_value(n, &f)) continue;
    strbuf_addf(out, "%s%s (stored %.*s, asked ", separator, n->name, (int)f.value_length, f.value);
    bound_print_value(n, out);
    strbuf_add(out, ")");
    separator = ", ";
    differs = true;
  }
  if (miss->modelled)
    strbuf_addf(out, "%s was ranked by the cost model and never measured (allow_modelled serves it)",
                differs ? " and" : ", which");
  if (miss->variant)
    strbuf_addf(out, "%s was tuned with %s", differs || miss->modelled ? " and" : ", which",
                strstr(cache_variant(miss->entry.problem.ptx), CACHE_VARIANT_FAST) != NULL
                    ? "--math fast (fast_math serves it)"
                    : "no --check-indices (check_indices off serves it)");
}

/* " --shape M=64,N=8": every name of a kind with its value, as an option of arke-tune takes them. */
static void print_option(const bound_call *b, bound_kind kind, const char *option, strbuf *out) {
  bool first = true;
  for (int i = 0; i < b->n; i++) {
    if (b->names[i].kind != kind) continue;
    strbuf_addf(out, "%s%s%s=", first ? option : ",", first ? " " : "", b->names[i].name);
    bound_print_value(&b->names[i], out);
    first = false;
  }
}

static void print_command(const match_query *q, const match_route *asked, strbuf *out) {
  const bound_call *b = &asked->bound;
  strbuf_addf(out, "arke-tune --op %s", b->signature->op_name);
  print_option(b, BOUND_AXIS, " --shape", out);
  print_option(b, BOUND_TYPE, " --dtype", out);
  if (q->call->n_attrs > 0) print_option(b, BOUND_ATTR, " --attr", out);
  if (q->fast_math) strbuf_add(out, " --math fast");
  if (q->check_indices && cache_gathers(b->signature->op_text)) strbuf_add(out, " --check-indices");
  strbuf_addf(out, " --target %s", asked->target->name);
}

void match_print_miss(const match_query *q, const match_miss *miss, const match_route *asked, bool empty,
                      strbuf *out) {
  if (miss->found) {
    const cache_problem *p = &miss->entry.problem; /* its text would bury what follows */
    strbuf_addf(out, "the nearest is %s | %s | %s | ptx %s in %s", p->op_name, p->bindings, p->target, p->ptx,
                cache_path(miss->route->cache));
    print_differences(miss, &miss->route->bound, out);
    strbuf_add(out, "; ");
  }
  if (miss->damaged_rows > 0) strbuf_addf(out, "%d damaged rows were left out; ", miss->damaged_rows);
  if (empty) {
    strbuf_add(out, "an output without elements needs no kernel: tune any other sizes with these dtypes");
    return;
  }
  strbuf_add(out, "tune it with: ");
  print_command(q, asked, out);
}
