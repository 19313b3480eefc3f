#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "cache/aside.h"
#include "cache/schema.h"

static const struct {
  const char *name, *sql;
} SCHEMA[] = {
#define X(name, sql) {#name, sql},
    CACHE_SCHEMA(X)
#undef X
};

enum { LONGEST_PATH_BYTES = 4000 };

/* What a file turned out to be. Only NOT_OURS and DAMAGED may be set aside. */
typedef enum verdict { GOOD, EMPTY, NOT_OURS, DAMAGED, NEWER, UNREADABLE } verdict;

/* The path as a URI, so that no character of it (":memory:", "file:…", '?') means anything to SQLite. */
static char *make_uri(const char *path, cache_mode mode) {
  strbuf uri = STRBUF_INIT;
  strbuf_add(&uri, path[0] == '/' ? "file://" : "file:./");
  for (const unsigned char *p = (const unsigned char *)path; *p != '\0'; p++) {
    if (strchr("%?#:", *p) != NULL || *p <= ' ')
      strbuf_addf(&uri, "%%%02X", *p);
    else
      strbuf_add_bytes(&uri, p, 1);
  }
  if (mode == CACHE_IMMUTABLE) strbuf_add(&uri, "?immutable=1");
  return strbuf_take(&uri);
}

static arke_status connect(cache *c, arke_error *err) {
  char *uri = make_uri(c->path, c->mode);
  if (uri == NULL) return error_memory(err, "cache");
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= c->mode == CACHE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  int rc = sqlite3_open_v2(uri, &c->db, flags, NULL);
  free(uri);
  if (rc != SQLITE_OK) return store_fail(c, rc, err);
  sqlite3_busy_timeout(c->db, CACHE_BUSY_TIMEOUT_MS);
  /* A file may come from anywhere: nothing in it may run code, and no value may ask for much memory. */
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
  sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, 3 * LIMIT_KERNEL_BYTES);
  /* Until the file is known to be ours, closing it must not write to it either. */
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  rc = store_add_seal(c->db);
  return rc == SQLITE_OK ? ARKE_OK : store_fail(c, rc, err);
}

static arke_status pragma_int(cache *c, const char *sql, int64_t *value, arke_error *err) {
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
  if (rc != SQLITE_OK) return store_fail(c, rc, err);
  store_binder b = store_bind(s);
  bool found;
  *value = 0;
  arke_status status = store_run_int(c, &b, value, &found, err);
  sqlite3_finalize(s);
  return status;
}

/* Counts the schema's objects that the file has, verbatim. Indexes, tables or views that somebody added do no
 * harm: triggers and views are switched off. */
static arke_status compare_schema(cache *c, size_t *matching, size_t *others, arke_error *err) {
  sqlite3_stmt *s = NULL;
  int rc =
      sqlite3_prepare_v2(c->db, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL", -1, &s, NULL);
  if (rc != SQLITE_OK) return store_fail(c, rc, err);
  arke_status status;
  bool row;
  *matching = *others = 0;
  while ((status = store_step(c, s, &row, err)) == ARKE_OK && row) {
    const char *name = (const char *)sqlite3_column_text(s, 0),
               *sql = (const char *)sqlite3_column_text(s, 1);
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(SCHEMA) && name != NULL && sql != NULL && !known; i++)
      known = strcmp(name, SCHEMA[i].name) == 0 && strcmp(sql, SCHEMA[i].sql) == 0;
    ++*(known ? matching : others);
  }
  sqlite3_finalize(s);
  return status;
}

/* Size of the file, or of the one that SQLite keeps beside it under its name and `suffix`; -1 if there is
 * none. SQLite follows symbolic links before it adds the suffix. */
static int64_t size_beside(const char *path, const char *suffix) {
  char real[PATH_MAX], name[PATH_MAX + 16];
  struct stat st;
  snprintf(name, sizeof name, "%s%s", realpath(path, real) == NULL ? path : real, suffix);
  return stat(name, &st) == 0 ? (int64_t)st.st_size : -1;
}

static arke_status judge(cache *c, verdict *v, arke_error *err) {
  int64_t application, version;
  size_t matching, others;
  *v = UNREADABLE;
  TRY(pragma_int(c, "PRAGMA application_id", &application, err));
  TRY(pragma_int(c, "PRAGMA user_version", &version, err));
  if (application == CACHE_APPLICATION_ID && version > CACHE_SCHEMA_VERSION) {
    *v = NEWER;
    return error_set(err, ARKE_ERR_CORRUPT, "cache",
                     "cache file %s has schema version %lld; this Arke reads version %d: use a newer Arke or "
                     "another file",
                     c->path, (long long)version, CACHE_SCHEMA_VERSION);
  }
  TRY(compare_schema(c, &matching, &others, err));
  if (application == 0 && version == 0 && matching + others == 0) {
    *v = EMPTY;
    return ARKE_OK;
  }
  if (application != CACHE_APPLICATION_ID) {
    *v = NOT_OURS;
    return error_set(err, ARKE_ERR_CORRUPT, "cache", "file %s is an SQLite database, but not a cache of Arke",
                     c->path);
  }
  if (version != CACHE_SCHEMA_VERSION || matching != COUNT_OF(SCHEMA)) {
    *v = DAMAGED;
    return error_set(err, ARKE_ERR_CORRUPT, "cache",
                     "cache file %s is damaged: its tables are not those of schema version %d", c->path,
                     CACHE_SCHEMA_VERSION);
  }
  int64_t pages, page_bytes;
  TRY(pragma_int(c, "PRAGMA page_count", &pages, err));
  TRY(pragma_int(c, "PRAGMA page_size", &page_bytes, err));
  /* SQLite forgives a last page that is cut short. With a -wal, pages may still be there alone. */
  if (size_beside(c->path, "-wal") <= 0 && size_beside(c->path, "") < pages * page_bytes) {
    *v = DAMAGED;
    return error_set(err, ARKE_ERR_CORRUPT, "cache",
                     "cache file %s is damaged: it is cut off in its last page", c->path);
  }
  *v = GOOD;
  return ARKE_OK;
}

static arke_status not_a_database(const char *path, verdict *v, arke_error *err) {
  *v = NOT_OURS;
  return error_set(err, ARKE_ERR_CORRUPT, "cache", "file %s is not a cache of Arke, nor any SQLite database",
                   path);
}

/* Judges under one read transaction, so that a schema that another process is just creating is seen whole or
 * not at all. */
static arke_status examine(cache *c, verdict *v, arke_error *err) {
  int rc = sqlite3_exec(c->db, "BEGIN", NULL, NULL, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_exec(c->db, "PRAGMA schema_version", NULL, NULL, NULL);
  arke_status status;
  if (rc == SQLITE_NOTADB) {
    status = not_a_database(c->path, v, err);
  } else if (rc != SQLITE_OK) {
    *v = store_code_is_damage(rc) ? DAMAGED : UNREADABLE;
    status = store_fail(c, rc, err);
  } else {
    status = judge(c, v, err);
    if (status == ARKE_ERR_CORRUPT && *v == UNREADABLE) *v = DAMAGED;
  }
  rc = sqlite3_get_autocommit(c->db) ? SQLITE_OK : sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL);
  return status == ARKE_OK && rc != SQLITE_OK ? store_fail(c, rc, err) : status;
}

/* In SQLite's rollback mode, so that the file itself holds the whole schema before it first meets a -wal. */
static arke_status create_schema(cache *c, verdict *v, arke_error *err) {
  TRY(store_begin(c, err));
  arke_status status = judge(c, v, err); /* another process may have been faster */
  if (status == ARKE_OK && *v == EMPTY) {
    for (size_t i = 0; i < COUNT_OF(SCHEMA) && status == ARKE_OK; i++)
      status = store_exec(c, SCHEMA[i].sql, err);
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             CACHE_APPLICATION_ID, CACHE_SCHEMA_VERSION);
    if (status == ARKE_OK) status = store_exec(c, pragmas, err);
    if (status == ARKE_OK) *v = GOOD;
  }
  return store_end(c, status, err);
}

/* WAL: a commit appends once and needs no fsync to survive the death of a process, and readers never wait.
 * Where it cannot be had (network file systems), the rollback journal stays, with full synchronisation. */
static arke_status prepare_writing(cache *c, arke_error *err) {
  sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
  c->leaves_wal = true;
  TRY(store_exec(c, "PRAGMA foreign_keys = ON", err));
  enum { TRIES = 200, PAUSE_US = 5000 }; /* changing the mode ignores the busy timeout */
  for (int i = 0;; i++) {
    int rc = sqlite3_exec(c->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    if (rc == SQLITE_OK) break;
    if ((rc & 0xff) != SQLITE_BUSY) return store_fail(c, rc, err);
    if (i == TRIES) return ARKE_OK;
    usleep(PAUSE_US);
  }
  sqlite3_stmt *s = NULL;
  bool wal = sqlite3_prepare_v2(c->db, "PRAGMA journal_mode", -1, &s, NULL) == SQLITE_OK &&
             sqlite3_step(s) == SQLITE_ROW && sqlite3_column_bytes(s, 0) == 3;
  sqlite3_finalize(s);
  if (!wal) return ARKE_OK;
  TRY(store_exec(c, "PRAGMA schema_version", err)); /* the first reading makes the -wal */
  c->wal = place_of(sqlite3_filename_wal(sqlite3_db_filename(c->db, "main")));
  return store_exec(c, "PRAGMA synchronous = NORMAL", err);
}

static arke_status check_writable(const char *path, bool exists, arke_error *err) {
  const char *slash = strrchr(path, '/');
  int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
  char directory[LONGEST_PATH_BYTES + 1];
  snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path);
  struct stat st;
  if (stat(directory, &st) != 0 || !S_ISDIR(st.st_mode))
    return error_set(err, ARKE_ERR_IO, "cache", "directory %s of cache file %s does not exist", directory,
                     path);
  if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
    return error_set(err, ARKE_ERR_IO, "cache", "no permission to write in directory %s of cache file %s: %s",
                     directory, path, strerror(errno));
  if (exists && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0 && errno != ENOENT)
    return error_set(err, ARKE_ERR_IO, "cache", "no permission to write cache file %s: %s", path,
                     strerror(errno));
  return ARKE_OK;
}

/* What can be said about a path without reading it. The file is never opened except by SQLite: closing any
 * other descriptor of it would drop the locks of this process (POSIX). */
static arke_status check_path(const char *path, cache_mode mode, arke_error *err) {
  if (path == NULL || path[0] == '\0')
    return error_set(err, ARKE_ERR_ARGUMENT, "cache", "the path of a cache file must not be empty");
  if (strlen(path) > LONGEST_PATH_BYTES)
    return error_set(err, ARKE_ERR_ARGUMENT, "cache", "the path of a cache file is too long");
  TRY(place_check_name(path, mode == CACHE_WRITE, err));
  struct stat st;
  if (stat(path, &st) != 0) {
    if (errno == ENOENT && mode == CACHE_WRITE) return check_writable(path, false, err);
    if (errno == ENOENT)
      return error_set(err, ARKE_ERR_NOT_FOUND, "cache", "cache file %s does not exist", path);
    return error_set(err, ARKE_ERR_IO, "cache", "cannot open cache file %s: %s", path, strerror(errno));
  }
  if (!S_ISREG(st.st_mode))
    return error_set(err, ARKE_ERR_IO, "cache", "cache path %s is not a regular file", path);
  if (mode == CACHE_WRITE) return check_writable(path, true, err);
  if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
    return error_set(err, ARKE_ERR_IO, "cache", "no permission to read cache file %s: %s", path,
                     strerror(errno));
  return ARKE_OK;
}

/* A -wal or -journal with content: changes that an immutable opening would not see, or would see half. */
static arke_status check_self_contained(const char *path, arke_error *err) {
  static const char *const SUFFIXES[] = {"-wal", "-journal"};
  for (size_t i = 0; i < COUNT_OF(SUFFIXES); i++)
    if (size_beside(path, SUFFIXES[i]) > 0)
      return error_set(
          err, ARKE_ERR_BUSY, "cache",
          "cache file %s is not complete: its last writer left %s%s; open it once where it can be "
          "written",
          path, path, SUFFIXES[i]);
  return ARKE_OK;
}

static arke_status open_once(const char *path, cache_mode mode, verdict *v, cache **out, arke_error *err) {
  *v = UNREADABLE;
  cache *c = calloc(1, sizeof *c);
  if (c == NULL) return error_memory(err, "cache");
  bool missing = mode == CACHE_WRITE && size_beside(path, "") < 0;
  c->mode = mode;
  c->path = strdup(path);
  arke_status status = c->path == NULL ? error_memory(err, "cache") : ARKE_OK;
  /* SQLite takes any file of less than its smallest page for an empty database, and would write over it. */
  enum { SMALLEST_PAGE_BYTES = 512 };
  int64_t size = size_beside(path, "");
  if (status == ARKE_OK && size > 0 && size < SMALLEST_PAGE_BYTES) status = not_a_database(path, v, err);
  if (status == ARKE_OK && mode == CACHE_IMMUTABLE) status = check_self_contained(path, err);
  if (status == ARKE_OK) status = connect(c, err);
  if (status == ARKE_OK && mode == CACHE_WRITE) status = store_note_place(c, err);
  if (status == ARKE_OK) status = examine(c, v, err);
  if (status == ARKE_OK && mode == CACHE_WRITE && *v == EMPTY) status = create_schema(c, v, err);
  if (status == ARKE_OK && *v == EMPTY)
    status = error_set(err, ARKE_ERR_NOT_FOUND, "cache", "cache file %s is empty", path);
  if (status == ARKE_OK && mode == CACHE_WRITE) status = prepare_writing(c, err);
  if (status == ARKE_OK)
    *out = c;
  else if (missing)
    store_abandon(c);
  else
    cache_close(c);
  return status;
}

/* Reading needs a way around two states: a rollback journal left by a killed writer, which only a writer can
 * roll back, and places where not even locks or a -shm file can be made, where the file is as good as
 * immutable. */
static arke_status open_reading(const char *path, cache **c, arke_error *err) {
  arke_error first = ARKE_ERROR_INIT;
  verdict v;
  arke_status status = open_once(path, CACHE_READ, &v, c, &first);
  if (status == ARKE_ERR_IO && size_beside(path, "-journal") > 0) {
    cache *writer;
    if (open_once(path, CACHE_WRITE, &v, &writer, NULL) == ARKE_OK) {
      cache_close(writer);
      error_clear(&first);
      status = open_once(path, CACHE_READ, &v, c, &first);
    }
  }
  if (status == ARKE_ERR_IO && open_once(path, CACHE_IMMUTABLE, &v, c, NULL) == ARKE_OK) return ARKE_OK;
  if (status == ARKE_ERR_IO) TRY(check_self_contained(path, err)); /* says more than SQLite's own words */
  return status == ARKE_OK ? ARKE_OK : error_set(err, status, "cache", "%s", first.text);
}

arke_status cache_open(const char *path, cache_mode mode, cache **c, arke_error *err) {
  *c = NULL;
  TRY(check_path(path, mode, err));
  if (mode == CACHE_READ) return open_reading(path, c, err);
  verdict v;
  return open_once(path, mode, &v, c, err);
}

static arke_status open_checked(const char *path, cache_check check, verdict *v, cache **c, arke_error *err) {
  *c = NULL;
  TRY(open_once(path, CACHE_WRITE, v, c, err));
  arke_status status = store_check_structure(*c, check, err);
  if (status == ARKE_OK) return ARKE_OK;
  if (status == ARKE_ERR_CORRUPT) *v = DAMAGED;
  cache_close(*c);
  *c = NULL;
  return status;
}

static bool is_link(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

arke_status cache_open_set_aside(const char *path, cache_check check, arena *a, cache **c, const char **aside,
                                 arke_error *err) {
  if (aside != NULL) *aside = NULL;
  *c = NULL;
  if (path == NULL) return check_path(path, CACHE_WRITE, err);
  char real[PATH_MAX]; /* of a link, what it leads to is set aside; the link stays, and leads to the new file
                        */
  const char *file = is_link(path) && realpath(path, real) != NULL ? real : path;
  int lock = aside_lock(file); /* so that nobody renames the fresh file that another process has just made */
  arke_error first = ARKE_ERROR_INIT;
  verdict v = UNREADABLE;
  arke_status status = check_path(path, CACHE_WRITE, &first);
  if (status == ARKE_OK) status = open_checked(path, check, &v, c, &first);
  if (status != ARKE_OK && v != DAMAGED && v != NOT_OURS) {
    error_set(err, status, "cache", "%s", first.text);
  } else if (status != ARKE_OK) {
    const char *name;
    status = aside_rename(file, a, &name, err);
    if (status == ARKE_OK) status = open_once(path, CACHE_WRITE, &v, c, err);
    if (status == ARKE_OK && aside != NULL) *aside = name;
  }
  aside_unlock(lock);
  return status;
}

const char *cache_path(const cache *c) {
  return c->path;
}

int cache_damaged_rows(const cache *c) {
  return c->damaged_rows;
}
