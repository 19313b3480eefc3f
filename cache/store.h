/* What the source files of the cache share: the handle, transactions, and typed access to statements. */
#ifndef ARKE_CACHE_STORE_H
#define ARKE_CACHE_STORE_H

#include <sqlite3.h>

#include "cache/cache.h"
#include "cache/place.h"
#include "cache/statements.h"

struct cache {
  sqlite3 *db;
  char *path;
  cache_mode mode;
  bool leaves_wal;                           /* a writer of a file known to be ours: closing ends WAL mode */
  place file, wal;                           /* a writer's, as opened; wal: not known without one */
  int depth;                                 /* of nested transactions; only the outermost commits */
  int damaged_rows;                          /* met and left out so far */
  sqlite3_stmt *statements[CACHE_SQL_COUNT]; /* prepared at first use */
};

enum { CACHE_BUSY_TIMEOUT_MS = 10000 };

/* Turns a result code of SQLite into a status and a sentence that names the file. */
arke_status store_fail(const cache *c, int rc, arke_error *err);
bool store_code_is_damage(int rc);
/* Remembers which file a writer has open, for cache_check_place and cache_close (cache_close.c). */
arke_status store_note_place(cache *c, arke_error *err);
/* Closes a writer whose file was not there and could not be made (a full disk): the empty file goes. */
void store_abandon(cache *c);

/* The statement, reset and ready for binding. It is the handle's: reset it after use. */
arke_status store_statement(cache *c, cache_sql which, sqlite3_stmt **s, arke_error *err);
/* A private copy for walks that call back into user code; sqlite3_finalize it. */
arke_status store_prepare(cache *c, cache_sql which, sqlite3_stmt **s, arke_error *err);
/* Runs one of the statements above to its next row; ARKE_OK with *row false at the end. */
arke_status store_step(const cache *c, sqlite3_stmt *s, bool *row, arke_error *err);
/* Text of constant SQL (pragmas, schema), without parameters or results. */
arke_status store_exec(const cache *c, const char *sql, arke_error *err);

/* A write transaction that takes the write lock at once, so that what is read inside cannot change before it
 * is written. Nests; `store_end` commits if `status` is ARKE_OK, else rolls back, and returns the final
 * status. Both fail when the path does not name the open file any more: nobody would find the change. */
arke_status store_begin(cache *c, arke_error *err);
arke_status store_end(cache *c, arke_status status, arke_error *err);

/* Binds parameters 1, 2, … in order; the first failure sticks. NULL text counts as "". Texts must outlive the
 * statement's run. Numbers that are not finite cannot be stored and fail with SQLITE_MISMATCH. */
typedef struct store_binder {
  sqlite3_stmt *statement;
  int next, rc;
} store_binder;

store_binder store_bind(sqlite3_stmt *s);
void store_bind_text(store_binder *b, const char *text);
void store_bind_int(store_binder *b, int64_t value);
void store_bind_real(store_binder *b, double value);
void store_bind_blob(store_binder *b, const void *bytes, size_t n); /* NULL bytes: SQL NULL */
/* The two ends of a BETWEEN that holds `text` alone, or every text if it is NULL. */
void store_bind_range(store_binder *b, const char *text);
/* Runs a bound statement that gives no rows, and resets it. */
arke_status store_run(const cache *c, store_binder *b, arke_error *err);
/* Runs a bound statement that gives at most one row of which the first column is a number, and resets it. */
arke_status store_run_int(const cache *c, store_binder *b, int64_t *value, bool *found, arke_error *err);

/* Reads columns 0, 1, … of the current row in order; texts are copied into the arena. */
typedef struct store_reader {
  sqlite3_stmt *statement;
  arena *memory;
  int next;
  bool out_of_memory;
} store_reader;

store_reader store_read(sqlite3_stmt *s, arena *memory);
const char *store_read_text(store_reader *r);
int64_t store_read_int(store_reader *r);
int store_read_int32(store_reader *r); /* values past the range are cut to it */
double store_read_real(store_reader *r);
bool store_read_intact(store_reader *r); /* a `seal = seal(…)` column */

/* Adds the SQL function seal(…) to a connection (cache_seal.c). */
int store_add_seal(sqlite3 *db);

/* Pieces of the put functions that merging uses too (cache_put.c). */
/* What happens to a result of the same environment that is already there: REPLACE takes the new one as a
 * fresh measurement, NEWER compares the times of storing. */
typedef enum store_rule { STORE_RULE_REPLACE, STORE_RULE_NEWER } store_rule;
/* `keep_bucket`: a bucket that is already stored stays unless it is empty. */
arke_status store_problem_id(cache *c, const cache_problem *p, bool keep_bucket, cache_id *id,
                             arke_error *err);
/* NEWER: an equally old or newer trial of that device and configuration stays. */
arke_status store_put_trial(cache *c, cache_id problem, cache_id environment, const cache_trial *t,
                            int64_t stored_s, store_rule rule, bool *stored, arke_error *err);
arke_status store_put_winner(cache *c, cache_id problem, cache_id environment, const cache_kernel *k,
                             const cache_winner *w, int64_t published_s, store_rule rule, bool *published,
                             arke_error *err);

/* SHA-256 of a kernel's parts, each preceded by its length in bytes. */
void store_kernel_sha256(const cache_kernel *k, char hex[SHA256_HEX_SIZE]);

/* Signatures as text, "in A:T[M,K] in B:T[K,N] out Y:T[M,N]" (cache_text.c). */
arke_status store_print_tensors(const cache_problem *p, strbuf *out, arke_error *err);
/* False if it does not follow the notation or memory is out; *out_of_memory tells which. */
bool store_parse_tensors(const char *text, arena *a, cache_problem *p, bool *out_of_memory);
bool store_outcome_from_name(const char *name, cache_outcome *o);
bool store_origin_from_name(const char *name, cache_origin *o);

/* SQLite's structural check of the pages named; ARKE_ERR_CORRUPT with its first finding (cache_verify.c). */
arke_status store_check_structure(cache *c, cache_check check, arke_error *err);

/* Rows as structures (cache_get.c). `row` of the entry reader carries the previous row: equal signatures
 * share their strings. A damaged row has `intact` false and nothing else that may be used. */
typedef struct store_entry_row {
  cache_entry entry;
  int64_t signature; /* id of the one in entry.problem; 0: none */
  int64_t published_s;
  bool intact;
} store_entry_row;
arke_status store_read_entry(sqlite3_stmt *s, arena *a, store_entry_row *row, arke_error *err);

/* Columns of a problem and its signature, without a winner; `signature` as above. */
arke_status store_read_problem(store_reader *r, cache_problem *p, int64_t *signature, cache_id *id,
                               bool *intact, arke_error *err);
/* The current row of KERNEL_GET or KERNELS, not copied: the parts are SQLite's until the statement moves. Not
 * intact if the parts' SHA-256 is not `digest` (NULL: the row's own). */
arke_status store_read_kernel(const cache *c, sqlite3_stmt *s, const char *digest, cache_kernel *k,
                              bool *intact, arke_error *err);
void store_read_environment(store_reader *r, cache_environment *e, bool *intact);
typedef struct store_winner_row {
  cache_winner winner;
  cache_id environment;
  const char *kernel; /* SHA-256 */
  int64_t published_s;
} store_winner_row;
void store_read_winner(store_reader *r, store_winner_row *row, bool *intact);
void store_read_trial(store_reader *r, cache_trial *t, int64_t *stored_s, bool *intact);

#endif
