/* What the cache tests share: scratch folders and rows to store. */
#ifndef ARKE_TESTS_CACHE_FIXTURE_H
#define ARKE_TESTS_CACHE_FIXTURE_H

#include <check.h>

#include "cache/cache.h"

/* Makes a fresh folder and enters it, so that tests use short relative names; removed at fixture_leave. */
void fixture_enter(void);
void fixture_leave(void);

#define ASSERT_OK(expression)                                                                                \
  do {                                                                                                       \
    error_clear(&fixture_error);                                                                             \
    arke_status status_ = (expression);                                                                      \
    ck_assert_msg(status_ == ARKE_OK, "%s: %s: %s", #expression, arke_status_name(status_),                  \
                  fixture_error.text);                                                                       \
  } while (0)
/* The status, and a sentence in which `part` stands. */
#define ASSERT_FAILS(expression, code, part)                                                                 \
  do {                                                                                                       \
    error_clear(&fixture_error);                                                                             \
    arke_status status_ = (expression);                                                                      \
    ck_assert_msg(status_ == (code) && strstr(fixture_error.text, (part)) != NULL, "%s: %s: %s",             \
                  #expression, arke_status_name(status_), fixture_error.text);                               \
  } while (0)
extern arke_error fixture_error;

extern const cache_environment FIXTURE_H200, FIXTURE_H100, FIXTURE_MODEL;

/* matmul with "T=bf16 M=4096 N=4096 K=<k>" on sm_90a. */
typedef struct fixture_problem {
  cache_problem problem;
  char bindings[64];
} fixture_problem;
void fixture_fill_problem(fixture_problem *p, int k);

cache_trial fixture_trial(const char *config, double median_ns);
/* A kernel whose parts are made from `seed`, `bytes` long each; freed by fixture_free_kernel. */
cache_kernel fixture_kernel(int seed, size_t bytes);
void fixture_free_kernel(cache_kernel *k);
cache_winner fixture_winner(double median_ns, cache_origin origin);

/* Ids of rows that are put, or are there; asserts success. */
cache_id fixture_environment_id(cache *c, const cache_environment *e);
cache_id fixture_problem_id(cache *c, const cache_problem *p);

/* Environment, problem k, and a winner with a kernel from seed k; returns the status of the last call. */
arke_status fixture_publish(cache *c, const cache_environment *e, int k, double median_ns,
                            cache_origin origin, size_t kernel_bytes, bool *published, arke_error *err);
arke_status fixture_find(cache *c, int k, arena *a, cache_entry *e, arke_error *err);

/* publish + assert, with a kernel of 100 bytes; tells whether it was published. */
bool fixture_must_publish(cache *c, const cache_environment *e, int k, double median_ns, cache_origin origin);
cache *fixture_open(const char *path, cache_mode mode);
/* Makes PATH with measured winners for k = 1 … n, closed. */
void fixture_make(const char *path, int n);
/* How many of k = 1 … n are found and load whole. */
int fixture_count_good(cache *c, int n);

bool fixture_exists(const char *path);
void fixture_write_file(const char *path, const void *bytes, size_t n);
/* The whole file, malloc'ed. */
unsigned char *fixture_read_file(const char *path, size_t *n);

/* Runs SQL on the file with SQLite alone, asserting success; seal() is available. */
void fixture_sql(const char *path, const char *sql);
int64_t fixture_sql_int(const char *path, const char *sql);

#endif
