#include "cache/store.h"

#include <string.h>
#include <time.h>

#include "base/limits.h"

static bool is_blank(const char *text) {
  return text == NULL || text[0] == '\0';
}

/* Runs the look-up, then the insertion if it found nothing, then the look-up again. `bind` binds the
 * parameters that both share. */
typedef void (*bind_fn)(store_binder *b, const void *row);

static arke_status find(cache *c, cache_sql which, bind_fn bind, const void *row, cache_id *id, bool *found,
                        arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, which, &s, err));
  store_binder b = store_bind(s);
  bind(&b, row);
  return store_run_int(c, &b, id, found, err);
}

static arke_status put(cache *c, cache_sql which, bind_fn bind, const void *row, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, which, &s, err));
  store_binder b = store_bind(s);
  bind(&b, row);
  return store_run(c, &b, err);
}

static arke_status find_or_put(cache *c, cache_sql look, cache_sql insert, bind_fn bind, const void *row,
                               cache_id *id, arke_error *err) {
  bool found;
  TRY(find(c, look, bind, row, id, &found, err));
  if (found) return ARKE_OK;
  TRY(store_begin(c, err));
  arke_status status = put(c, insert, bind, row, err);
  if (status == ARKE_OK) status = find(c, look, bind, row, id, &found, err);
  if (status == ARKE_OK && !found)
    status = error_set(err, ARKE_ERR_CORRUPT, "cache",
                       "cache file %s is damaged: a row just stored cannot be found", c->path);
  return store_end(c, status, err);
}

static void bind_environment(store_binder *b, const void *row) {
  const cache_environment *e = row;
  store_bind_text(b, e->device);
  store_bind_text(b, e->driver);
  store_bind_text(b, e->llvm);
  store_bind_text(b, e->generator);
  store_bind_int(b, e->sm_count);
  store_bind_int(b, e->clock_khz);
  store_bind_int(b, e->memory_clock_khz);
}

arke_status cache_environment_id(cache *c, const cache_environment *e, cache_id *id, arke_error *err) {
  if (is_blank(e->device))
    return error_set(err, ARKE_ERR_INVALID, "cache", "an environment needs a device name");
  return find_or_put(c, CACHE_SQL_ENVIRONMENT_FIND, CACHE_SQL_ENVIRONMENT_PUT, bind_environment, e, id, err);
}

typedef struct signature_row {
  const cache_problem *problem;
  const char *tensors;
} signature_row;

static void bind_signature(store_binder *b, const void *row) {
  const signature_row *s = row;
  store_bind_text(b, s->problem->op_name);
  store_bind_text(b, s->problem->op_text);
  store_bind_text(b, s->tensors);
}

typedef struct problem_row {
  const cache_problem *problem;
  cache_id signature;
} problem_row;

static void bind_problem(store_binder *b, const void *row) {
  const problem_row *p = row;
  store_bind_int(b, p->signature);
  store_bind_text(b, p->problem->target);
  store_bind_text(b, p->problem->bindings);
  store_bind_text(b, p->problem->ptx);
}

static void bind_problem_and_bucket(store_binder *b, const void *row) {
  bind_problem(b, row);
  store_bind_text(b, ((const problem_row *)row)->problem->bucket);
}

/* *found tells whether the row needs no change: it is there, intact, and has the wanted bucket. */
static arke_status find_problem(cache *c, const problem_row *row, bool keep_bucket, cache_id *id, bool *found,
                                arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_PROBLEM_FIND, &s, err));
  store_binder b = store_bind(s);
  bind_problem(&b, row);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  *found = false;
  if (status == ARKE_OK) status = store_step(c, s, found, err);
  if (*found) {
    const char *wanted = row->problem->bucket == NULL ? "" : row->problem->bucket;
    const char *bucket = (const char *)sqlite3_column_text(s, 1);
    *id = sqlite3_column_int64(s, 0);
    if (bucket == NULL)
      status = error_memory(err, "cache");
    else
      *found = strcmp(bucket, wanted) == 0 || (keep_bucket && bucket[0] != '\0');
  }
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  return status;
}

static arke_status problem_id(cache *c, const problem_row *row, bool keep_bucket, cache_id *id,
                              arke_error *err) {
  bool found;
  TRY(find_problem(c, row, keep_bucket, id, &found, err));
  if (found) return ARKE_OK;
  TRY(store_begin(c, err));
  arke_status status = find_problem(c, row, keep_bucket, id, &found, err);
  if (status == ARKE_OK && !found) {
    status = put(c, CACHE_SQL_PROBLEM_PUT, bind_problem_and_bucket, row, err);
    if (status == ARKE_OK) status = find(c, CACHE_SQL_PROBLEM_FIND, bind_problem, row, id, &found, err);
    if (status == ARKE_OK && !found)
      status = error_set(err, ARKE_ERR_CORRUPT, "cache",
                         "cache file %s is damaged: a problem just stored cannot be found", c->path);
  }
  return store_end(c, status, err);
}

arke_status store_problem_id(cache *c, const cache_problem *p, bool keep_bucket, cache_id *id,
                             arke_error *err) {
  if (is_blank(p->op_name) || is_blank(p->op_text) || is_blank(p->target))
    return error_set(err, ARKE_ERR_INVALID, "cache",
                     "a problem needs an operator's name and text, and a target");
  strbuf tensors = STRBUF_INIT;
  problem_row row = {.problem = p};
  arke_status status = store_print_tensors(p, &tensors, err);
  if (status == ARKE_OK) {
    signature_row signature = {.problem = p, .tensors = strbuf_text(&tensors)};
    status = find_or_put(c, CACHE_SQL_SIGNATURE_FIND, CACHE_SQL_SIGNATURE_PUT, bind_signature, &signature,
                         &row.signature, err);
  }
  if (status == ARKE_OK) status = problem_id(c, &row, keep_bucket, id, err);
  strbuf_free(&tensors);
  return status;
}

arke_status cache_problem_id(cache *c, const cache_problem *p, cache_id *id, arke_error *err) {
  return store_problem_id(c, p, false, id, err);
}

static void bind_time(store_binder *b, const cache_time *t) {
  store_bind_real(b, t->median_ns);
  store_bind_real(b, t->p10_ns);
  store_bind_real(b, t->p90_ns);
  store_bind_int(b, t->samples);
}

typedef struct trial_row {
  cache_id problem, environment;
  const cache_trial *trial;
  int64_t stored_s;
} trial_row;

static void bind_trial_key(store_binder *b, const void *row) {
  const trial_row *t = row;
  store_bind_int(b, t->problem);
  store_bind_int(b, t->environment);
  store_bind_text(b, t->trial->template_name);
  store_bind_text(b, t->trial->config);
}

static void bind_trial(store_binder *b, const void *row) {
  const cache_trial *t = ((const trial_row *)row)->trial;
  bind_trial_key(b, row);
  store_bind_text(b, cache_outcome_name(t->outcome));
  store_bind_text(b, t->reason);
  store_bind_real(b, t->model_ns);
  bind_time(b, &t->time);
  store_bind_text(b, t->ptx_sha256);
  store_bind_real(b, t->lower_ms);
  store_bind_real(b, t->assemble_ms);
  store_bind_int(b, t->registers);
  store_bind_int(b, t->spill_bytes);
  store_bind_int(b, ((const trial_row *)row)->stored_s);
}

arke_status store_put_trial(cache *c, cache_id problem, cache_id environment, const cache_trial *t,
                            int64_t stored_s, store_rule rule, bool *stored, arke_error *err) {
  trial_row row = {problem, environment, t, stored_s};
  *stored = false;
  TRY(store_begin(c, err));
  bool present = false;
  int64_t before_s = 0;
  arke_status status = ARKE_OK;
  if (rule == STORE_RULE_NEWER)
    status = find(c, CACHE_SQL_TRIAL_STORED, bind_trial_key, &row, &before_s, &present, err);
  *stored = !present || before_s < stored_s;
  if (status == ARKE_OK && *stored) status = put(c, CACHE_SQL_TRIAL_DROP, bind_trial_key, &row, err);
  if (status == ARKE_OK && *stored) status = put(c, CACHE_SQL_TRIAL_PUT, bind_trial, &row, err);
  status = store_end(c, status, err);
  *stored = *stored && status == ARKE_OK;
  return status;
}

arke_status cache_put_trial(cache *c, cache_id problem, cache_id environment, const cache_trial *t,
                            arke_error *err) {
  if (t->outcome < 0 || t->outcome >= CACHE_OUTCOME_COUNT)
    return error_set(err, ARKE_ERR_INVALID, "cache", "trial of %s has outcome %d", t->config,
                     (int)t->outcome);
  if ((t->outcome == CACHE_MEASURED) != (t->time.samples > 0))
    return error_set(err, ARKE_ERR_INVALID, "cache", "trial of %s is %s, yet has %d samples", t->config,
                     cache_outcome_name(t->outcome), t->time.samples);
  bool stored;
  return store_put_trial(c, problem, environment, t, (int64_t)time(NULL), STORE_RULE_REPLACE, &stored, err);
}

/* --- winners --- */

typedef struct holder {
  bool present; /* an intact winner is there */
  store_winner_row row;
} holder;

static arke_status read_holder(cache *c, cache_id problem, arena *a, holder *h, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_WINNER_GET, &s, err));
  store_binder b = store_bind(s);
  store_bind_int(&b, problem);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  bool row = false;
  *h = (holder){.row.kernel = ""};
  if (status == ARKE_OK) status = store_step(c, s, &row, err);
  if (row) {
    store_reader r = store_read(s, a);
    store_read_winner(&r, &h->row, &h->present);
    if (r.out_of_memory) status = error_memory(err, "cache");
  }
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  return status;
}

static bool is_partial(const cache_winner *w) {
  return w->policy != NULL && strstr(w->policy, CACHE_POLICY_PARTIAL) != NULL;
}

/* Estimates of different environments are not compared: those of different generators mean different things.
 * Between results of whole searches the later one stands. A partial search says nothing against what a whole
 * one found, unless it is faster. */
static bool replaces(const holder *h, cache_id environment, const cache_winner *w, int64_t published_s,
                     store_rule rule) {
  if (!h->present) return true;
  const cache_winner *old = &h->row.winner;
  if (old->origin != w->origin) return w->origin == CACHE_ORIGIN_MEASURED;
  bool later = rule == STORE_RULE_REPLACE || published_s > h->row.published_s;
  bool same = h->row.environment == environment, modelled = w->origin == CACHE_ORIGIN_MODELLED;
  if (is_partial(old) != is_partial(w) && (same || modelled)) {
    if (is_partial(w)) return same && w->time.median_ns < old->time.median_ns;
    return later || !same || w->time.median_ns <= old->time.median_ns;
  }
  if (same || modelled) return later;
  return w->time.median_ns < old->time.median_ns;
}

static arke_status put_kernel(cache *c, const cache_kernel *k, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_KERNEL_PUT, &s, err));
  store_binder b = store_bind(s);
  store_bind_text(&b, k->sha256);
  store_bind_text(&b, k->recipe_json);
  store_bind_blob(&b, k->ptx == NULL ? "" : k->ptx, k->ptx_bytes);
  store_bind_blob(&b, k->cubin, k->cubin_bytes);
  return store_run(c, &b, err);
}

static arke_status put_winner(cache *c, cache_id problem, cache_id environment, const cache_kernel *k,
                              const cache_winner *w, int64_t published_s, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_WINNER_PUT, &s, err));
  store_binder b = store_bind(s);
  store_bind_int(&b, problem);
  store_bind_int(&b, environment);
  store_bind_text(&b, k->sha256);
  store_bind_text(&b, w->template_name);
  store_bind_text(&b, w->config);
  store_bind_text(&b, cache_origin_name(w->origin));
  bind_time(&b, &w->time);
  store_bind_text(&b, w->policy);
  store_bind_int(&b, published_s);
  return store_run(c, &b, err);
}

/* Removes a kernel that no winner refers to any more. */
static arke_status drop_kernel(cache *c, const char *digest, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_KERNEL_DROP, &s, err));
  store_binder b = store_bind(s);
  store_bind_text(&b, digest);
  return store_run(c, &b, err);
}

arke_status store_put_winner(cache *c, cache_id problem, cache_id environment, const cache_kernel *k,
                             const cache_winner *w, int64_t published_s, store_rule rule, bool *published,
                             arke_error *err) {
  *published = false;
  TRY(store_begin(c, err));
  arena memory = ARENA_INIT;
  holder h;
  arke_status status = read_holder(c, problem, &memory, &h, err);
  if (status == ARKE_OK && replaces(&h, environment, w, published_s, rule)) {
    status = put_kernel(c, k, err);
    if (status == ARKE_OK) status = put_winner(c, problem, environment, k, w, published_s, err);
    if (status == ARKE_OK && h.row.kernel[0] != '\0') status = drop_kernel(c, h.row.kernel, err);
    *published = status == ARKE_OK;
  }
  arena_release(&memory);
  status = store_end(c, status, err);
  *published = *published && status == ARKE_OK;
  return status;
}

static arke_status check_winner(const cache_kernel *k, const cache_winner *w, arke_error *err) {
  if ((k->ptx_bytes == 0 && k->cubin == NULL) || is_blank(k->recipe_json))
    return error_set(err, ARKE_ERR_INVALID, "cache", "winner %s needs PTX or a cubin, and a recipe",
                     w->config);
  if (k->ptx_bytes > LIMIT_KERNEL_BYTES || k->cubin_bytes > LIMIT_KERNEL_BYTES ||
      strlen(k->recipe_json) > LIMIT_KERNEL_BYTES)
    return error_set(err, ARKE_ERR_INVALID, "cache", "winner %s has a part of more than %d bytes", w->config,
                     LIMIT_KERNEL_BYTES);
  if (w->origin != CACHE_ORIGIN_MODELLED && w->origin != CACHE_ORIGIN_MEASURED)
    return error_set(err, ARKE_ERR_INVALID, "cache", "winner %s has origin %d", w->config, (int)w->origin);
  if ((w->origin == CACHE_ORIGIN_MEASURED) != (w->time.samples > 0))
    return error_set(err, ARKE_ERR_INVALID, "cache", "winner %s is %s, yet has %d samples", w->config,
                     cache_origin_name(w->origin), w->time.samples);
  return ARKE_OK;
}

arke_status cache_put_winner(cache *c, cache_id problem, cache_id environment, cache_kernel *k,
                             const cache_winner *w, bool *published, arke_error *err) {
  *published = false;
  TRY(check_winner(k, w, err));
  store_kernel_sha256(k, k->sha256);
  return store_put_winner(c, problem, environment, k, w, (int64_t)time(NULL), STORE_RULE_REPLACE, published,
                          err);
}
