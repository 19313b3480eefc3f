#include "tests/cache/cache_fixture.h"

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/store.h"

arke_error fixture_error;

const cache_environment FIXTURE_H200 = {.device = "NVIDIA H200",
                                        .driver = "580.159.04 (CUDA 13.0)",
                                        .llvm = "22.1.8",
                                        .generator = "1",
                                        .sm_count = 132,
                                        .clock_khz = 1980000,
                                        .memory_clock_khz = 3201000};
const cache_environment FIXTURE_H100 = {.device = "NVIDIA H100 PCIe",
                                        .driver = "580.159.04 (CUDA 13.0)",
                                        .llvm = "22.1.8",
                                        .generator = "1",
                                        .sm_count = 114,
                                        .clock_khz = 1755000,
                                        .memory_clock_khz = 1593000};
const cache_environment FIXTURE_MODEL = {
    .device = "model:NVIDIA H200", .driver = "", .llvm = "22.1.8", .generator = "1", .sm_count = 132};

static const cache_tensor TENSORS[] = {
    {.name = "A", .type = "T", .rank = 2, .dims = {"M", "K"}},
    {.name = "B", .type = "T", .rank = 2, .dims = {"K", "N"}},
    {.name = "Y", .output = true, .type = "T", .rank = 2, .dims = {"M", "N"}},
};

static char folder[64];

void fixture_enter(void) {
  strcpy(folder, "/dev/shm/arke-cache-XXXXXX"); /* in memory: fsync on a busy disk takes most of the time */
  if (mkdtemp(folder) == NULL) {
    strcpy(folder, "/tmp/arke-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
  }
  ck_assert_int_eq(chdir(folder), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
  (void)st, (void)type, (void)walk;
  return remove(path);
}

void fixture_leave(void) {
  ck_assert_int_eq(chdir("/"), 0);
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void fixture_fill_problem(fixture_problem *p, int k) {
  snprintf(p->bindings, sizeof p->bindings, "T=bf16 M=4096 N=4096 K=%d", k);
  p->problem = (cache_problem){
      .op_name = "matmul",
      .op_text = "matmul(A: T[M, K], B: T[K, N]) -> (Y: T[M, N]) { Y[m, n] = sum(k: A[m, k] * B[k, n]) }",
      .bindings = p->bindings,
      .target = "sm_90a",
      .ptx = "8.6",
      .bucket = "",
      .n_tensors = COUNT_OF(TENSORS),
      .tensors = TENSORS};
}

cache_trial fixture_trial(const char *config, double median_ns) {
  return (cache_trial){.template_name = "gemm",
                       .config = config,
                       .outcome = CACHE_MEASURED,
                       .reason = "",
                       .model_ns = 2 * median_ns,
                       .time = {median_ns, 0.9 * median_ns, 1.1 * median_ns, 30},
                       .ptx_sha256 = "00ff",
                       .lower_ms = 70.5,
                       .assemble_ms = 110.25,
                       .registers = 168,
                       .spill_bytes = 0};
}

cache_kernel fixture_kernel(int seed, size_t bytes) {
  char *ptx = malloc(bytes + 1), *recipe = malloc(64);
  unsigned char *cubin = malloc(bytes + 1);
  ck_assert(ptx != NULL && recipe != NULL && cubin != NULL);
  for (size_t i = 0; i < bytes; i++) {
    ptx[i] = (char)('a' + (i * 7 + (size_t)seed) % 26);
    cubin[i] = (unsigned char)(i * 31 + (size_t)seed * 17);
  }
  ptx[bytes] = '\0';
  snprintf(recipe, 64, "{\"seed\":%d}", seed);
  return (cache_kernel){
      .ptx = ptx, .ptx_bytes = bytes, .cubin = cubin, .cubin_bytes = bytes, .recipe_json = recipe};
}

void fixture_free_kernel(cache_kernel *k) {
  free((void *)(uintptr_t)k->ptx);
  free((void *)(uintptr_t)k->cubin);
  free((void *)(uintptr_t)k->recipe_json);
}

cache_winner fixture_winner(double median_ns, cache_origin origin) {
  cache_winner w = {.template_name = "gemm",
                    .config = "BLOCK_M=128,BLOCK_N=256",
                    .origin = origin,
                    .time = {median_ns, median_ns, median_ns, 0},
                    .policy = "l2=cold method=events+graph"};
  if (origin == CACHE_ORIGIN_MEASURED) w.time.samples = 30;
  return w;
}

cache_id fixture_environment_id(cache *c, const cache_environment *e) {
  cache_id id;
  ASSERT_OK(cache_environment_id(c, e, &id, &fixture_error));
  ck_assert_int_gt(id, 0);
  return id;
}

cache_id fixture_problem_id(cache *c, const cache_problem *p) {
  cache_id id;
  ASSERT_OK(cache_problem_id(c, p, &id, &fixture_error));
  ck_assert_int_gt(id, 0);
  return id;
}

arke_status fixture_publish(cache *c, const cache_environment *e, int k, double median_ns,
                            cache_origin origin, size_t kernel_bytes, bool *published, arke_error *err) {
  fixture_problem p;
  fixture_fill_problem(&p, k);
  cache_id problem, environment;
  TRY(cache_environment_id(c, e, &environment, err));
  TRY(cache_problem_id(c, &p.problem, &problem, err));
  cache_kernel kernel = fixture_kernel(k, kernel_bytes);
  cache_winner w = fixture_winner(median_ns, origin);
  arke_status status = cache_put_winner(c, problem, environment, &kernel, &w, published, err);
  fixture_free_kernel(&kernel);
  return status;
}

arke_status fixture_find(cache *c, int k, arena *a, cache_entry *e, arke_error *err) {
  fixture_problem p;
  fixture_fill_problem(&p, k);
  return cache_find_entry(c, "matmul", p.bindings, "sm_90a", "", true, a, e, err);
}

bool fixture_must_publish(cache *c, const cache_environment *e, int k, double median_ns,
                          cache_origin origin) {
  bool published;
  ASSERT_OK(fixture_publish(c, e, k, median_ns, origin, 100, &published, &fixture_error));
  return published;
}

cache *fixture_open(const char *path, cache_mode mode) {
  cache *c;
  ASSERT_OK(cache_open(path, mode, &c, &fixture_error));
  return c;
}

void fixture_make(const char *path, int n) {
  cache *c = fixture_open(path, CACHE_WRITE);
  for (int k = 1; k <= n; k++) fixture_must_publish(c, &FIXTURE_H200, k, 10 + k, CACHE_ORIGIN_MEASURED);
  cache_close(c);
}

int fixture_count_good(cache *c, int n) {
  int good = 0;
  for (int k = 1; k <= n; k++) {
    arena a = ARENA_INIT;
    cache_entry e;
    if (fixture_find(c, k, &a, &e, NULL) == ARKE_OK && cache_load_kernel(c, &a, &e, NULL) == ARKE_OK) good++;
    arena_release(&a);
  }
  return good;
}

bool fixture_exists(const char *path) {
  return access(path, F_OK) == 0;
}

void fixture_write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

unsigned char *fixture_read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
  long size = ftell(f);
  rewind(f);
  unsigned char *bytes = malloc((size_t)size + 1);
  ck_assert(bytes != NULL && fread(bytes, 1, (size_t)size, f) == (size_t)size);
  fclose(f);
  *n = (size_t)size;
  return bytes;
}

void fixture_sql(const char *path, const char *sql) {
  sqlite3 *db;
  char *text = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  ck_assert_int_eq(store_add_seal(db), SQLITE_OK);
  ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, &text) == SQLITE_OK, "%s: %s", sql, text);
  sqlite3_close(db);
}

int64_t fixture_sql_int(const char *path, const char *sql) {
  sqlite3 *db;
  sqlite3_stmt *s;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
  int64_t value = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  sqlite3_close(db);
  return value;
}
