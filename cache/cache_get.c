#include "cache/store.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

void store_read_environment(store_reader *r, cache_environment *e, bool *intact) {
  r->next++; /* id */
  *e = (cache_environment){.device = store_read_text(r)};
  e->driver = store_read_text(r);
  e->llvm = store_read_text(r);
  e->generator = store_read_text(r);
  e->sm_count = store_read_int32(r);
  e->clock_khz = store_read_int32(r);
  e->memory_clock_khz = store_read_int32(r);
  *intact = store_read_intact(r);
}

static void read_time(store_reader *r, cache_time *t) {
  t->median_ns = store_read_real(r);
  t->p10_ns = store_read_real(r);
  t->p90_ns = store_read_real(r);
  t->samples = store_read_int32(r);
}

void store_read_trial(store_reader *r, cache_trial *t, int64_t *stored_s, bool *intact) {
  r->next += 2; /* problem, environment */
  *t = (cache_trial){.template_name = store_read_text(r)};
  t->config = store_read_text(r);
  bool known = store_outcome_from_name(store_read_text(r), &t->outcome);
  t->reason = store_read_text(r);
  t->model_ns = store_read_real(r);
  read_time(r, &t->time);
  t->ptx_sha256 = store_read_text(r);
  t->lower_ms = store_read_real(r);
  t->assemble_ms = store_read_real(r);
  t->registers = store_read_int32(r);
  t->spill_bytes = store_read_int32(r);
  *stored_s = store_read_int(r);
  *intact = store_read_intact(r) && known;
}

void store_read_winner(store_reader *r, store_winner_row *row, bool *intact) {
  r->next++; /* problem */
  row->environment = store_read_int(r);
  row->kernel = store_read_text(r);
  row->winner.template_name = store_read_text(r);
  row->winner.config = store_read_text(r);
  bool known = store_origin_from_name(store_read_text(r), &row->winner.origin);
  read_time(r, &row->winner.time);
  row->winner.policy = store_read_text(r);
  row->published_s = store_read_int(r);
  *intact = store_read_intact(r) && known;
}

/* A table's rows of one signature come one after the other: its texts are copied
 * and parsed once. */
static arke_status read_signature(store_reader *r, cache_problem *p, int64_t *signature, bool *intact,
                                  arke_error *err) {
  enum { ID, OP_NAME, OP_TEXT, TENSORS, INTACT, COLUMNS };
  int64_t id = sqlite3_column_int64(r->statement, r->next + ID);
  if (*signature == id) {
    r->next += COLUMNS;
    return ARKE_OK;
  }
  *p = (cache_problem){0};
  r->next++;
  p->op_name = store_read_text(r);
  p->op_text = store_read_text(r);
  const char *tensors = store_read_text(r);
  *intact = store_read_intact(r);
  bool out_of_memory = false;
  if (*intact && !r->out_of_memory) *intact = store_parse_tensors(tensors, r->memory, p, &out_of_memory);
  if (out_of_memory) return error_memory(err, "cache");
  *signature = *intact ? id : 0;
  return ARKE_OK;
}

arke_status store_read_problem(store_reader *r, cache_problem *p, int64_t *signature, cache_id *id,
                               bool *intact, arke_error *err) {
  *intact = true;
  TRY(read_signature(r, p, signature, intact, err));
  *id = store_read_int(r);
  r->next++; /* signature */
  p->target = store_read_text(r);
  p->bindings = store_read_text(r);
  p->ptx = store_read_text(r);
  p->bucket = store_read_text(r);
  *intact = store_read_intact(r) && *intact;
  return r->out_of_memory ? error_memory(err, "cache") : ARKE_OK;
}

arke_status store_read_entry(sqlite3_stmt *s, arena *a, store_entry_row *row, arke_error *err) {
  store_reader r = store_read(s, a);
  cache_entry *e = &row->entry;
  bool environment_intact, winner_intact;
  store_winner_row winner = {0};
  TRY(store_read_problem(&r, &e->problem, &row->signature, &e->id, &row->intact, err));
  store_read_environment(&r, &e->environment, &environment_intact);
  store_read_winner(&r, &winner, &winner_intact);
  if (r.out_of_memory) return error_memory(err, "cache");
  row->intact = row->intact && environment_intact && winner_intact;
  row->published_s = winner.published_s;
  e->winner = winner.winner;
  e->kernel = (cache_kernel){0};
  snprintf(e->kernel.sha256, sizeof e->kernel.sha256, "%s", winner.kernel);
  return ARKE_OK;
}

arke_status cache_each_entry(cache *c, const char *op_name, const char *target, arena *a, cache_entry_fn fn,
                             void *user, int *damaged, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(c, CACHE_SQL_ENTRIES, &s, err));
  store_binder b = store_bind(s);
  store_bind_range(&b, op_name);
  store_bind_range(&b, target);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  store_entry_row row = {0};
  int skipped = 0;
  bool found;
  while (status == ARKE_OK && (status = store_step(c, s, &found, err)) == ARKE_OK && found) {
    status = store_read_entry(s, a, &row, err);
    if (status != ARKE_OK) break;
    if (!row.intact)
      skipped++;
    else if (!fn(&row.entry, user))
      break;
  }
  sqlite3_finalize(s);
  c->damaged_rows += skipped;
  if (damaged != NULL) *damaged = skipped;
  return status;
}

arke_status cache_find_entry(cache *c, const char *op_name, const char *bindings, const char *target,
                             const char *variant, bool modelled_too, arena *a, cache_entry *e,
                             arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_ENTRY_FIND, &s, err));
  store_binder b = store_bind(s);
  store_bind_text(&b, op_name);
  store_bind_text(&b, target);
  store_bind_text(&b, bindings);
  store_bind_int(&b, modelled_too);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  store_entry_row row = {0};
  int skipped = 0;
  bool found = false;
  while (status == ARKE_OK && (status = store_step(c, s, &found, err)) == ARKE_OK && found) {
    status = store_read_entry(s, a, &row, err);
    const cache_problem *p = &row.entry.problem;
    if (status == ARKE_OK && row.intact && strcmp(cache_variant(p->ptx), variant) != 0) continue;
    /* A damaged index may lead to the intact row of another problem. */
    if (status != ARKE_OK || (row.intact && strcmp(p->op_name, op_name) == 0 &&
                              strcmp(p->bindings, bindings) == 0 && strcmp(p->target, target) == 0))
      break;
    skipped++;
  }
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  c->damaged_rows += skipped;
  if (status != ARKE_OK) return status;
  if (!found)
    return error_set(err, ARKE_ERR_NOT_FOUND, "cache",
                     "cache file %s has no %s entry for %s with %s on %s%s%s", c->path,
                     modelled_too ? "" : "measured", op_name, bindings, target, variant,
                     skipped > 0 ? "; a damaged one was left out" : "");
  *e = row.entry;
  return ARKE_OK;
}

arke_status cache_each_signature(cache *c, const char *op_name, const char *target, arena *a,
                                 cache_signature_fn fn, void *user, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(c, CACHE_SQL_SIGNATURES, &s, err));
  store_binder b = store_bind(s);
  store_bind_range(&b, op_name);
  store_bind_range(&b, target);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  bool found;
  while (status == ARKE_OK && (status = store_step(c, s, &found, err)) == ARKE_OK && found) {
    store_reader r = store_read(s, a);
    cache_problem p;
    int64_t signature = 0;
    bool intact = true;
    status = read_signature(&r, &p, &signature, &intact, err);
    if (status == ARKE_OK && r.out_of_memory) status = error_memory(err, "cache");
    if (status != ARKE_OK) break;
    p.bindings = p.ptx = p.bucket = "";
    p.target = target == NULL ? "" : target;
    if (!intact)
      c->damaged_rows++;
    else if (!fn(&p, user))
      break;
  }
  sqlite3_finalize(s);
  return status;
}

arke_status cache_each_trial(cache *c, cache_id problem, const cache_environment *e, cache_trial_fn fn,
                             void *user, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(c, CACHE_SQL_TRIALS_ON_DEVICE, &s, err));
  store_binder b = store_bind(s);
  store_bind_int(&b, problem);
  store_bind_text(&b, e->device);
  store_bind_text(&b, e->generator);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  arena memory = ARENA_INIT;
  bool found;
  while (status == ARKE_OK && (status = store_step(c, s, &found, err)) == ARKE_OK && found) {
    store_reader r = store_read(s, &memory);
    cache_trial t;
    int64_t stored_s;
    bool intact;
    store_read_trial(&r, &t, &stored_s, &intact);
    if (r.out_of_memory)
      status = error_memory(err, "cache");
    else if (!intact)
      c->damaged_rows++;
    else
      fn(&t, user);
    arena_release(&memory);
  }
  sqlite3_finalize(s);
  return status;
}

arke_status store_read_kernel(const cache *c, sqlite3_stmt *s, const char *digest, cache_kernel *k,
                              bool *intact, arke_error *err) {
  enum { SHA256, RECIPE, PTX, CUBIN };
  *k = (cache_kernel){.recipe_json = (const char *)sqlite3_column_text(s, RECIPE)};
  k->ptx = sqlite3_column_blob(s, PTX);
  k->ptx_bytes = (size_t)sqlite3_column_bytes(s, PTX);
  k->cubin = sqlite3_column_blob(s, CUBIN);
  k->cubin_bytes = (size_t)sqlite3_column_bytes(s, CUBIN);
  if (digest == NULL) digest = (const char *)sqlite3_column_text(s, SHA256);
  if (sqlite3_errcode(c->db) == SQLITE_NOMEM) return error_memory(err, "cache");
  if (k->ptx == NULL) k->ptx = ""; /* how SQLite gives an empty blob */
  *intact = false;
  if (k->recipe_json == NULL || digest == NULL) return ARKE_OK;
  store_kernel_sha256(k, k->sha256);
  *intact = strcmp(k->sha256, digest) == 0;
  return ARKE_OK;
}

static arke_status copy_kernel(arena *a, const cache_kernel *from, cache_kernel *k, arke_error *err) {
  char *ptx = arena_strndup(a, from->ptx, from->ptx_bytes), *recipe = arena_strdup(a, from->recipe_json);
  void *cubin = from->cubin == NULL ? NULL : arena_alloc(a, from->cubin_bytes);
  if (ptx == NULL || recipe == NULL || (from->cubin != NULL && cubin == NULL))
    return error_memory(err, "cache");
  if (cubin != NULL) memcpy(cubin, from->cubin, from->cubin_bytes);
  k->ptx = ptx;
  k->ptx_bytes = from->ptx_bytes;
  k->cubin = cubin;
  k->cubin_bytes = cubin == NULL ? 0 : from->cubin_bytes;
  k->recipe_json = recipe;
  return ARKE_OK;
}

arke_status cache_load_kernel(cache *c, arena *a, cache_entry *e, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, CACHE_SQL_KERNEL_GET, &s, err));
  store_binder b = store_bind(s);
  store_bind_text(&b, e->kernel.sha256);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(c, b.rc, err);
  bool found = false;
  if (status == ARKE_OK) status = store_step(c, s, &found, err);
  if (status == ARKE_OK && !found)
    status =
        error_set(err, ARKE_ERR_NOT_FOUND, "cache",
                  "kernel %.16s… is no longer in cache file %s: another process has replaced it, or it is "
                  "damaged",
                  e->kernel.sha256, c->path);
  cache_kernel stored;
  bool intact = false;
  if (status == ARKE_OK) status = store_read_kernel(c, s, e->kernel.sha256, &stored, &intact, err);
  if (status == ARKE_OK && !intact) {
    c->damaged_rows++;
    status = error_set(err, ARKE_ERR_CORRUPT, "cache",
                       "kernel %.16s… in cache file %s is damaged: its SHA-256 does not match",
                       e->kernel.sha256, c->path);
  }
  if (status == ARKE_OK) status = copy_kernel(a, &stored, &e->kernel, err);
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  return status;
}
