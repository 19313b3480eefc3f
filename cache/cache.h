/* The tuned store: one SQLite file (docs/cache.md). Environments, problems, trials, kernels, winners.
 * A handle is used by one thread at a time; any number of processes may share the file. */
#ifndef ARKE_CACHE_CACHE_H
#define ARKE_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/strbuf.h"

typedef struct cache cache;

typedef enum cache_mode {
  CACHE_WRITE,     /* reads too; creates a missing file, but no directory */
  CACHE_READ,      /* writes nothing to the file; sees what others commit later */
  CACHE_IMMUTABLE, /* for files that do not change while open: takes no locks, makes no files beside it */
} cache_mode;

/* Opens one cache. On failure *c is NULL and the sentence names the file. ARKE_ERR_NOT_FOUND: nothing to
 * read, as there is no such file or an empty one (for CACHE_WRITE an empty file is new). ARKE_ERR_IO: no
 * directory, no permission, not a regular file, no room, a failing disk. ARKE_ERR_BUSY: locked by others for
 * 10 s, or, for CACHE_IMMUTABLE, changes of a killed writer still stand in PATH-wal or PATH-journal.
 * ARKE_ERR_CORRUPT: not SQLite, not ours, damaged, or of a newer schema; the file stays as it is.
 *
 * CACHE_READ opens a file in a directory that cannot be written, or on a system without locks, as
 * CACHE_IMMUTABLE does. What a killed writer committed is there for CACHE_READ and CACHE_WRITE. Do not carry
 * a handle across fork. */
arke_status cache_open(const char *path, cache_mode mode, cache **c, arke_error *err);
/* What opening looks at before it takes a file for sound. */
typedef enum cache_check {
  CACHE_CHECK_KEYS,  /* the pages of problems, environments and winners: milliseconds, whatever else there is
                      */
  CACHE_CHECK_PAGES, /* every page: a second for each gigabyte, from memory */
} cache_check;
/* Opens for writing, after a check. A damaged or foreign file is renamed to PATH.damaged-N (its -wal, -shm
 * and -journal alike; nothing is overwritten) and a fresh one is made; *aside (may be NULL) is then its new
 * name, the arena's, else NULL. A newer schema, a lack of permission and the like remain errors. After
 * CACHE_CHECK_KEYS a damaged page of trials or kernels is ARKE_ERR_CORRUPT of whatever function meets it:
 * closing, and opening with CACHE_CHECK_PAGES, sets the file aside then. */
arke_status cache_open_set_aside(const char *path, cache_check check, arena *a, cache **c, const char **aside,
                                 arke_error *err);
/* The last writer to close leaves the whole cache in the one file, fit for copying. NULL is allowed. */
void cache_close(cache *c);
const char *cache_path(const cache *c);
/* ARKE_ERR_IO with a sentence when the path does not name the file any more that this writer has open, since
 * somebody removed, moved or replaced it: what is in it is lost. Every function that writes asks that itself,
 * before and after. A reader's is always in place. */
arke_status cache_check_place(const cache *c, arke_error *err);
/* Rows that this handle has met damaged and left out so far. */
int cache_damaged_rows(const cache *c);

/* --- keys --- */

/* Where times were taken. Equal records share a row. */
typedef struct cache_environment {
  const char *device;    /* "NVIDIA H200", "emulator", "model:NVIDIA H200" */
  const char *driver;    /* "580.159.04 (CUDA 13.0)" or "" */
  const char *llvm;      /* "22.1.8" */
  const char *generator; /* version of Arke's generated code */
  int sm_count, clock_khz, memory_clock_khz;
} cache_environment;

/* One tensor of an operator's signature, as the runtime needs it to bind a call without the notation. */
typedef struct cache_tensor {
  const char *name;
  bool output;
  const char *type; /* dtype name or type variable */
  int rank;
  bool any_rank;
  const char *dims[8]; /* "M", "2*H", "B+1", "8" */
} cache_tensor;

/* The full key is op_text + bindings + target + ptx; it is stored and compared as text, never only hashed. */
typedef struct cache_problem {
  const char *op_name;  /* "matmul" */
  const char *op_text;  /* canonical notation with symbols */
  const char *bindings; /* "T=bf16 M=4096 N=4096 K=4096" */
  const char *target;   /* "sm_90a" */
  const char *ptx;      /* "8.6", and its variant behind it: "8.6+fast" */
  const char *bucket;   /* "" or ranges this entry also serves: "M=1..128" */
  int n_tensors;
  const cache_tensor *tensors;
} cache_problem;

/* Kernels of one problem that do not compute the same have keys of their own: what sets them apart stands
 * behind the PTX version, in this order. */
#define CACHE_VARIANT_FAST    "+fast"       /* approximate functions */
#define CACHE_VARIANT_CHECKED "+checked"    /* no access where an index in a tensor is out of range */
const char *cache_variant(const char *ptx); /* "+fast+checked" of "8.6+fast+checked"; "" */
/* Whether an operator's canonical text takes a subscript from a tensor: only then there is what to check. */
bool cache_gathers(const char *op_text);

/* "OP_TEXT | BINDINGS | TARGET | ptx PTX" */
void cache_key_print(const cache_problem *p, strbuf *out);

/* --- writing --- */

/* X(NAME, text): how a trial ended. */
#define CACHE_OUTCOMES(X)                                                                                    \
  X(MEASURED, "measured") /* verified and timed */                                                           \
  X(VERIFIED, "verified") /* verified, not timed (emulator or model) */                                      \
  X(LOWER_FAILED, "lower_failed")                                                                            \
  X(ASSEMBLE_FAILED, "assemble_failed")                                                                      \
  X(LAUNCH_FAILED, "launch_failed")                                                                          \
  X(FAULT, "fault")                                                                                          \
  X(WRONG, "wrong")                                                                                          \
  X(TIMEOUT, "timeout")                                                                                      \
  X(CRASHED, "crashed")     /* its worker died */                                                            \
  X(DUPLICATE, "duplicate") /* same PTX as another candidate */                                              \
  X(LOWERED, "lowered")     /* compiled and ranked, not run */

typedef enum cache_outcome {
#define X(NAME, text) CACHE_##NAME,
  CACHE_OUTCOMES(X)
#undef X
      CACHE_OUTCOME_COUNT,
} cache_outcome;
const char *cache_outcome_name(cache_outcome o);

typedef struct cache_time {
  double median_ns, p10_ns, p90_ns;
  int samples;
} cache_time;

typedef struct cache_trial {
  const char *template_name, *config;
  cache_outcome outcome;
  const char *reason;     /* sentence for failures, else "" */
  double model_ns;        /* cost model's estimate */
  cache_time time;        /* MEASURED only */
  const char *ptx_sha256; /* "" if it never got that far */
  double lower_ms, assemble_ms;
  int registers, spill_bytes;
} cache_trial;

typedef struct cache_kernel {
  const char *ptx;
  size_t ptx_bytes;
  const void *cubin; /* NULL: none */
  size_t cubin_bytes;
  const char *recipe_json;
  char sha256[SHA256_HEX_SIZE]; /* of PTX, cubin and recipe, each with its length; filled by the cache */
} cache_kernel;

/* X(NAME, text): where a winner's time comes from. */
#define CACHE_ORIGINS(X)                                                                                     \
  X(MODELLED, "modelled") /* the cost model's estimate; never shown or served as measured */                 \
  X(MEASURED, "measured")

typedef enum cache_origin {
#define X(NAME, text) CACHE_ORIGIN_##NAME,
  CACHE_ORIGINS(X)
#undef X
      CACHE_ORIGIN_COUNT,
} cache_origin;
const char *cache_origin_name(cache_origin o);

typedef struct cache_winner {
  const char *template_name, *config;
  cache_origin origin;
  cache_time time;    /* modelled: median_ns is the estimate, samples 0 */
  const char *policy; /* how it was measured: "l2=cold method=events+graph …" */
} cache_winner;

/* Stands in the policy of a winner whose search was not a whole one ("search=interrupted"). */
#define CACHE_POLICY_PARTIAL "search="

/* Every function below that writes does so in a transaction of its own: when it returns ARKE_OK, the change
 * survives the death of the process (a power failure may lose the last changes, but damages nothing); on
 * failure nothing of it is kept, and the file is as good as before. NULL texts count as ""; numbers must be
 * finite. */

/* Identifiers of rows; positive. */
typedef int64_t cache_id;
arke_status cache_environment_id(cache *c, const cache_environment *e, cache_id *id, arke_error *err);
arke_status cache_problem_id(cache *c, const cache_problem *p, cache_id *id, arke_error *err);
/* Stores one trial at once (its own transaction), replacing an earlier one of the same problem, environment
 * device and configuration. */
arke_status cache_put_trial(cache *c, cache_id problem, cache_id environment, const cache_trial *t,
                            arke_error *err);
/* Every stored trial of a problem on a device of that name, by the same generator version. The strings live
 * during the call of `fn` only. */
typedef void (*cache_trial_fn)(const cache_trial *t, void *user);
arke_status cache_each_trial(cache *c, cache_id problem, const cache_environment *e, cache_trial_fn fn,
                             void *user, arke_error *err);
/* Publishes kernel and winner together, fills k->sha256, and tells whether they were taken: a measured winner
 * is never replaced by a modelled one; a modelled one is by any other; a slower measured result replaces a
 * faster one only of the same environment (a fresh measurement); a partial search's result replaces a whole
 * one's of its environment only if it is faster. A kernel that no winner uses any more is removed. The sizes
 * are at most LIMIT_KERNEL_BYTES; `samples` is positive exactly for measured winners. */
arke_status cache_put_winner(cache *c, cache_id problem, cache_id environment, cache_kernel *k,
                             const cache_winner *w, bool *published, arke_error *err);

/* --- reading --- */

typedef struct cache_entry {
  cache_problem problem;
  cache_environment environment;
  cache_winner winner;
  cache_kernel kernel; /* PTX, cubin and recipe only after cache_load_kernel */
  cache_id id;
} cache_entry;

/* Rows carry checksums; a damaged row is treated as missing and counted (cache_damaged_rows). Callbacks may
 * use the handle. */

/* Winners of operator `op_name` (NULL: any) for a target (NULL: any), in no order, without kernels; strings
 * are the arena's. *damaged (may be NULL) is how many rows were left out. `fn` returns false to stop. */
typedef bool (*cache_entry_fn)(const cache_entry *e, void *user);
arke_status cache_each_entry(cache *c, const char *op_name, const char *target, arena *a, cache_entry_fn fn,
                             void *user, int *damaged, arke_error *err);
/* The winner for exactly this operator name, bindings, target and variant: one indexed look-up.
 * ARKE_ERR_NOT_FOUND if there is none. `modelled_too`: otherwise only measured ones are found. Of several
 * (other PTX versions or operator texts) a measured one comes before a modelled one, then the fastest. */
arke_status cache_find_entry(cache *c, const char *op_name, const char *bindings, const char *target,
                             const char *variant, bool modelled_too, arena *a, cache_entry *e,
                             arke_error *err);
/* Distinct signatures with a winner, for an operator name and target (NULL: any), that of the latest winner
 * first: what a call is bound against. Of the problem only op_name, op_text, target as asked, and tensors are
 * set; the other texts are
 * "". */
typedef bool (*cache_signature_fn)(const cache_problem *p, void *user);
arke_status cache_each_signature(cache *c, const char *op_name, const char *target, arena *a,
                                 cache_signature_fn fn, void *user, arke_error *err);
/* Loads PTX (a NUL follows it), cubin and recipe into the arena. ARKE_ERR_CORRUPT when their SHA-256 does not
 * match, ARKE_ERR_NOT_FOUND when the kernel is gone: a writer may have published a better one since the entry
 * was found. */
arke_status cache_load_kernel(cache *c, arena *a, cache_entry *e, arke_error *err);

/* Copies everything of `from` that is missing or better into `to`, in one transaction: trials by the later
 * time of storing, winners by the rules of cache_put_winner, where of two results of one environment the
 * later one counts; a bucket that `to` has stays. Doing it twice changes nothing. Damaged rows are left out
 * and counted. ARKE_ERR_ARGUMENT if both are the same file. */
typedef struct cache_merged {
  int64_t problems, trials, winners; /* looked at in `from` */
  int64_t new_trials, new_winners;   /* stored in `to` */
  int64_t damaged;                   /* rows left out */
} cache_merged;
arke_status cache_merge(cache *to, cache *from, arke_error *err);
arke_status cache_merge_counted(cache *to, cache *from, cache_merged *counts, arke_error *err);

/* Rows per table and damaged rows found by checking every row and every kernel. ARKE_ERR_CORRUPT if the
 * file's own structure is damaged. */
typedef struct cache_stats {
  int64_t environments, problems, trials, kernels, winners, damaged;
} cache_stats;
arke_status cache_verify(cache *c, cache_stats *stats, arke_error *err);

#endif
