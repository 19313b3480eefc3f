#include "cache/store.h"

#include <string.h>

static arke_status quick_check(cache *c, const char *sql, arke_error *err) {
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
  if (rc != SQLITE_OK) return store_fail(c, rc, err);
  bool row;
  arke_status status = store_step(c, s, &row, err);
  if (status == ARKE_OK && row) {
    const char *text = (const char *)sqlite3_column_text(s, 0);
    if (text == NULL)
      status = error_memory(err, "cache");
    else if (strcmp(text, "ok") != 0)
      status = error_set(err, ARKE_ERR_CORRUPT, "cache", "cache file %s is damaged: %s", c->path, text);
  }
  sqlite3_finalize(s);
  return status;
}

arke_status store_check_structure(cache *c, cache_check check, arke_error *err) {
  static const char *const KEYS[] = {
      "PRAGMA quick_check(environments)",
      "PRAGMA quick_check(signatures)",
      "PRAGMA quick_check(problems)",
      "PRAGMA quick_check(winners)",
  };
  if (check == CACHE_CHECK_PAGES) return quick_check(c, "PRAGMA quick_check(1)", err);
  for (size_t i = 0; i < COUNT_OF(KEYS); i++) TRY(quick_check(c, KEYS[i], err));
  return ARKE_OK;
}

static arke_status read_counts(cache *c, cache_stats *stats, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(c, CACHE_SQL_COUNTS, &s, err));
  bool row;
  arke_status status = store_step(c, s, &row, err);
  if (status == ARKE_OK && row) {
    store_reader r = store_read(s, NULL);
    stats->environments = store_read_int(&r);
    stats->problems = store_read_int(&r);
    stats->trials = store_read_int(&r);
    stats->kernels = store_read_int(&r);
    stats->winners = store_read_int(&r);
  }
  sqlite3_finalize(s);
  return status;
}

static arke_status add_count(cache *c, cache_sql which, int64_t *sum, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_statement(c, which, &s, err));
  store_binder b = store_bind(s);
  int64_t n = 0;
  bool found;
  TRY(store_run_int(c, &b, &n, &found, err));
  *sum += n;
  return ARKE_OK;
}

static arke_status count_bad_kernels(cache *c, int64_t *sum, arke_error *err) {
  sqlite3_stmt *s;
  TRY(store_prepare(c, CACHE_SQL_KERNELS, &s, err));
  bool row;
  arke_status status;
  while ((status = store_step(c, s, &row, err)) == ARKE_OK && row) {
    bool intact;
    cache_kernel k;
    status = store_read_kernel(c, s, NULL, &k, &intact, err);
    if (status != ARKE_OK) break;
    if (!intact) ++*sum;
  }
  sqlite3_finalize(s);
  return status;
}

arke_status cache_verify(cache *c, cache_stats *stats, arke_error *err) {
  *stats = (cache_stats){0};
  TRY(store_check_structure(c, CACHE_CHECK_PAGES, err));
  TRY(read_counts(c, stats, err));
  TRY(add_count(c, CACHE_SQL_UNSEALED, &stats->damaged, err));
  TRY(add_count(c, CACHE_SQL_ORPHANS, &stats->damaged, err));
  return count_bad_kernels(c, &stats->damaged, err);
}
