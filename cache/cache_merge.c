#include "cache/store.h"

#include <sys/stat.h>

static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Trials of problem `old` in `from`, under the id `new` in `to`. */
static arke_status merge_trials(cache *to, cache *from, cache_id old, cache_id new, cache_merged *counts,
                                arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(from, CACHE_SQL_TRIALS_OF_PROBLEM, &s, err));
  store_binder b = store_bind(s);
  store_bind_int(&b, old);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(from, b.rc, err);
  arena memory = ARENA_INIT;
  bool row;
  while (status == ARKE_OK && (status = store_step(from, s, &row, err)) == ARKE_OK && row) {
    store_reader r = store_read(s, &memory);
    cache_trial t;
    cache_environment e;
    int64_t stored_s;
    bool intact, environment_intact, stored = false;
    store_read_trial(&r, &t, &stored_s, &intact);
    store_read_environment(&r, &e, &environment_intact);
    counts->trials++;
    cache_id environment;
    if (r.out_of_memory) {
      status = error_memory(err, "cache");
    } else if (!intact || !environment_intact) {
      counts->damaged++;
    } else {
      status = cache_environment_id(to, &e, &environment, err);
      if (status == ARKE_OK)
        status = store_put_trial(to, new, environment, &t, stored_s, STORE_RULE_NEWER, &stored, err);
      counts->new_trials += stored;
    }
    arena_release(&memory);
  }
  sqlite3_finalize(s);
  return status;
}

static arke_status merge_problems(cache *to, cache *from, cache_merged *counts, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(from, CACHE_SQL_PROBLEMS, &s, err));
  arena memory = ARENA_INIT;
  arke_status status;
  bool row;
  while ((status = store_step(from, s, &row, err)) == ARKE_OK && row) {
    store_reader r = store_read(s, &memory);
    cache_problem p;
    int64_t signature = 0;
    cache_id old, new;
    bool intact;
    counts->problems++;
    status = store_read_problem(&r, &p, &signature, &old, &intact, err);
    if (status == ARKE_OK && intact) {
      status = store_problem_id(to, &p, true, &new, err);
      if (status == ARKE_OK) status = merge_trials(to, from, old, new, counts, err);
    } else if (status == ARKE_OK) {
      counts->damaged++;
    }
    arena_release(&memory);
    if (status != ARKE_OK) break;
  }
  sqlite3_finalize(s);
  arena_release(&memory);
  return status;
}

static arke_status merge_winner(cache *to, cache *from, store_entry_row *row, arena *memory,
                                cache_merged *counts, arke_error *err) {
  cache_entry *e = &row->entry;
  arke_error kernel_error = ARKE_ERROR_INIT;
  arke_status status = cache_load_kernel(from, memory, e, &kernel_error);
  if (status == ARKE_ERR_CORRUPT || status == ARKE_ERR_NOT_FOUND) {
    counts->damaged++;
    return ARKE_OK;
  }
  if (status != ARKE_OK) return error_set(err, status, "cache", "%s", kernel_error.text);
  cache_id problem, environment;
  bool published;
  TRY(store_problem_id(to, &e->problem, true, &problem, err));
  TRY(cache_environment_id(to, &e->environment, &environment, err));
  TRY(store_put_winner(to, problem, environment, &e->kernel, &e->winner, row->published_s, STORE_RULE_NEWER,
                       &published, err));
  counts->new_winners += published;
  return ARKE_OK;
}

static arke_status merge_winners(cache *to, cache *from, cache_merged *counts, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(from, CACHE_SQL_ENTRIES, &s, err));
  store_binder b = store_bind(s);
  store_bind_range(&b, NULL);
  store_bind_range(&b, NULL);
  arke_status status = b.rc == SQLITE_OK ? ARKE_OK : store_fail(from, b.rc, err);
  arena memory = ARENA_INIT;
  bool found;
  while (status == ARKE_OK && (status = store_step(from, s, &found, err)) == ARKE_OK && found) {
    store_entry_row row = {0};
    counts->winners++;
    status = store_read_entry(s, &memory, &row, err);
    if (status == ARKE_OK && row.intact)
      status = merge_winner(to, from, &row, &memory, counts, err);
    else if (status == ARKE_OK)
      counts->damaged++;
    arena_release(&memory);
  }
  sqlite3_finalize(s);
  arena_release(&memory);
  return status;
}

arke_status cache_merge_counted(cache *to, cache *from, cache_merged *counts, arke_error *err) {
  *counts = (cache_merged){0};
  if (same_file(to->path, from->path))
    return error_set(err, ARKE_ERR_ARGUMENT, "cache", "cache file %s cannot be merged into itself", to->path);
  TRY(store_begin(to, err));
  arke_status status = merge_problems(to, from, counts, err);
  if (status == ARKE_OK) status = merge_winners(to, from, counts, err);
  return store_end(to, status, err);
}

arke_status cache_merge(cache *to, cache *from, arke_error *err) {
  cache_merged counts;
  return cache_merge_counted(to, from, &counts, err);
}
