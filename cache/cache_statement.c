#include "cache/store.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *const SQL[CACHE_SQL_COUNT] = {
#define X(NAME, text) text,
    CACHE_STATEMENTS(X)
#undef X
};

/* NOTADB: no SQLite header. ERROR: a statement that fits the schema does not fit this file. */
bool store_code_is_damage(int rc) {
  int primary = rc & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
         primary == SQLITE_FORMAT || primary == SQLITE_MISMATCH;
}

/* The system's error behind a failed read or write: the file that failed knows it; the connection only has
 * the last errno of all, which later calls may have cleared. */
static int system_error(const cache *c) {
  static const int FILES[] = {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER};
  for (size_t i = 0; i < COUNT_OF(FILES); i++) {
    sqlite3_file *file = NULL;
    int number = 0;
    if (sqlite3_file_control(c->db, "main", FILES[i], &file) == SQLITE_OK && file != NULL &&
        file->pMethods != NULL &&
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK && number != 0)
      return number;
  }
  return sqlite3_system_errno(c->db);
}

static arke_status io_failure(const cache *c, const char *what, arke_error *err) {
  int number = c->db == NULL ? 0 : system_error(c);
  if (number == ENOSPC || number == EDQUOT || number == EFBIG)
    return error_set(err, ARKE_ERR_IO, "cache",
                     "no room to write cache file %s (%s); the change was not kept", c->path,
                     strerror(number));
  const char *cause = number != 0     ? strerror(number)
                      : c->db != NULL ? sqlite3_errmsg(c->db)
                                      : "unknown cause";
  return error_set(err, ARKE_ERR_IO, "cache", "%s cache file %s: %s", what, c->path, cause);
}

arke_status store_fail(const cache *c, int rc, arke_error *err) {
  const char *text = c->db == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(c->db);
  switch (rc & 0xff) {
  case SQLITE_NOMEM: return error_memory(err, "cache");
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
  case SQLITE_PROTOCOL:
    return error_set(err, ARKE_ERR_BUSY, "cache", "cache file %s stayed locked by another process for %d s",
                     c->path, CACHE_BUSY_TIMEOUT_MS / 1000);
  case SQLITE_FULL:
    return error_set(err, ARKE_ERR_IO, "cache",
                     "no room to write cache file %s (the disk is full); the change was not kept", c->path);
  case SQLITE_IOERR:
    if (rc == SQLITE_IOERR_NOMEM) return error_memory(err, "cache");
    return io_failure(c, "cannot read or write", err);
  case SQLITE_CANTOPEN: return io_failure(c, "cannot open", err);
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return error_set(err, ARKE_ERR_IO, "cache", "no permission to write cache file %s", c->path);
  case SQLITE_TOOBIG:
    return error_set(err, ARKE_ERR_INVALID, "cache", "a value is too long for cache file %s: %s", c->path,
                     text);
  case SQLITE_CONSTRAINT:
    return error_set(err, ARKE_ERR_INVALID, "cache", "cache file %s refuses the row: %s", c->path, text);
  default: break;
  }
  if (store_code_is_damage(rc))
    return error_set(err, ARKE_ERR_CORRUPT, "cache", "cache file %s is damaged: %s", c->path, text);
  return error_set(err, ARKE_ERR_INTERNAL, "cache", "SQLite on cache file %s: %s", c->path, text);
}

static arke_status prepare(cache *c, cache_sql which, unsigned flags, sqlite3_stmt **s, arke_error *err) {
  int rc = sqlite3_prepare_v3(c->db, SQL[which], -1, flags, s, NULL);
  return rc == SQLITE_OK ? ARKE_OK : store_fail(c, rc, err);
}

arke_status store_statement(cache *c, cache_sql which, sqlite3_stmt **s, arke_error *err) {
  *s = c->statements[which];
  if (*s != NULL) return ARKE_OK;
  TRY(prepare(c, which, SQLITE_PREPARE_PERSISTENT, s, err));
  c->statements[which] = *s;
  return ARKE_OK;
}

arke_status store_prepare(cache *c, cache_sql which, sqlite3_stmt **s, arke_error *err) {
  return prepare(c, which, 0, s, err);
}

arke_status store_step(const cache *c, sqlite3_stmt *s, bool *row, arke_error *err) {
  int rc = sqlite3_step(s);
  *row = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? ARKE_OK : store_fail(c, rc, err);
}

arke_status store_exec(const cache *c, const char *sql, arke_error *err) {
  int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? ARKE_OK : store_fail(c, rc, err);
}

arke_status store_begin(cache *c, arke_error *err) {
  if (c->mode != CACHE_WRITE)
    return error_set(err, ARKE_ERR_ARGUMENT, "cache", "cache file %s was opened for reading only", c->path);
  if (c->depth == 0) {
    sqlite3_stmt *s;
    TRY(cache_check_place(c, err));
    TRY(store_statement(c, CACHE_SQL_ROLLBACK, &s, err)); /* needed when there may be no memory left */
    TRY(store_statement(c, CACHE_SQL_BEGIN, &s, err));
    store_binder b = store_bind(s);
    TRY(store_run(c, &b, err));
  }
  c->depth++;
  return ARKE_OK;
}

arke_status store_end(cache *c, arke_status status, arke_error *err) {
  if (--c->depth > 0) return status;
  if (status == ARKE_OK) {
    sqlite3_stmt *s;
    status = store_statement(c, CACHE_SQL_COMMIT, &s, err);
    if (status == ARKE_OK) {
      store_binder b = store_bind(s);
      status = store_run(c, &b, err);
    }
    if (status == ARKE_OK) status = cache_check_place(c, err);
  }
  if (status != ARKE_OK && !sqlite3_get_autocommit(c->db)) { /* some errors have rolled back by themselves */
    sqlite3_step(c->statements[CACHE_SQL_ROLLBACK]);
    sqlite3_reset(c->statements[CACHE_SQL_ROLLBACK]);
  }
  return status;
}

store_binder store_bind(sqlite3_stmt *s) {
  return (store_binder){.statement = s, .next = 1, .rc = SQLITE_OK};
}

static void keep(store_binder *b, int rc) {
  if (b->rc == SQLITE_OK) b->rc = rc;
}

void store_bind_text(store_binder *b, const char *text) {
  keep(b, sqlite3_bind_text(b->statement, b->next++, text == NULL ? "" : text, -1, SQLITE_STATIC));
}

void store_bind_int(store_binder *b, int64_t value) {
  keep(b, sqlite3_bind_int64(b->statement, b->next++, value));
}

void store_bind_real(store_binder *b, double value) {
  /* SQLite keeps a NaN as NULL and -0.0 as 0: either would break the row's seal. */
  keep(b, isfinite(value) ? sqlite3_bind_double(b->statement, b->next, value + 0.0) : SQLITE_MISMATCH);
  b->next++;
}

void store_bind_blob(store_binder *b, const void *bytes, size_t n) {
  int rc = bytes == NULL ? sqlite3_bind_null(b->statement, b->next)
           : n == 0      ? sqlite3_bind_zeroblob(b->statement, b->next, 0)
                         : sqlite3_bind_blob64(b->statement, b->next, bytes, n, SQLITE_STATIC);
  keep(b, rc);
  b->next++;
}

void store_bind_range(store_binder *b, const char *text) {
  store_bind_text(b, text);
  if (text != NULL)
    store_bind_text(b, text);
  else /* a blob sorts after every text */
    store_bind_blob(b, "", 0);
}

static void done(store_binder *b) {
  sqlite3_reset(b->statement);
  sqlite3_clear_bindings(b->statement); /* the texts are the caller's and may go now */
}

static arke_status first_step(const cache *c, store_binder *b, bool *row, arke_error *err) {
  *row = false;
  if (b->rc == SQLITE_MISMATCH)
    return error_set(err, ARKE_ERR_INVALID, "cache", "cache file %s stores finite numbers only", c->path);
  if (b->rc != SQLITE_OK) return store_fail(c, b->rc, err);
  return store_step(c, b->statement, row, err);
}

arke_status store_run(const cache *c, store_binder *b, arke_error *err) {
  bool row;
  arke_status status = first_step(c, b, &row, err);
  done(b);
  return status;
}

arke_status store_run_int(const cache *c, store_binder *b, int64_t *value, bool *found, arke_error *err) {
  arke_status status = first_step(c, b, found, err);
  if (*found) {
    *found = sqlite3_column_type(b->statement, 0) != SQLITE_NULL;
    *value = sqlite3_column_int64(b->statement, 0);
  }
  done(b);
  return status;
}

store_reader store_read(sqlite3_stmt *s, arena *memory) {
  return (store_reader){.statement = s, .memory = memory};
}

const char *store_read_text(store_reader *r) {
  int column = r->next++;
  if (sqlite3_column_type(r->statement, column) == SQLITE_NULL) return "";
  const char *text = (const char *)sqlite3_column_text(r->statement, column);
  char *copy = text == NULL
                   ? NULL
                   : arena_strndup(r->memory, text, (size_t)sqlite3_column_bytes(r->statement, column));
  if (copy == NULL) r->out_of_memory = true;
  return copy == NULL ? "" : copy;
}

int64_t store_read_int(store_reader *r) {
  return sqlite3_column_int64(r->statement, r->next++);
}

int store_read_int32(store_reader *r) {
  int64_t value = store_read_int(r);
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int)value;
}

double store_read_real(store_reader *r) {
  return sqlite3_column_double(r->statement, r->next++);
}

bool store_read_intact(store_reader *r) {
  return store_read_int(r) == 1;
}
