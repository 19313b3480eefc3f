/* Fuzzing of the cache reader. LLVMFuzzerTestOneInput takes a file's bytes and does with it what a runtime
 * does. Built with clang's -fsanitize=fuzzer (ARKE_FUZZER=ON) it is a libFuzzer program; otherwise its own
 * main changes good files for a given number of rounds: fuzz_cache [rounds [seed]]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "cache/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool load(const cache_entry *e, void *user) {
  arena a = ARENA_INIT;
  cache_entry copy = *e;
  (void)cache_load_kernel(user, &a, &copy, NULL);
  (void)cache_find_entry(user, e->problem.op_name, e->problem.bindings, e->problem.target, "", true, &a,
                         &copy, NULL);
  arena_release(&a);
  return true;
}

static bool accept(const cache_problem *p, void *user) {
  (void)p, (void)user;
  return true;
}

static void accept_trial(const cache_trial *t, void *user) {
  (void)t, (void)user;
}

static void use(cache *c) {
  arena a = ARENA_INIT;
  cache_stats stats;
  cache_environment e = {.device = "emulator", .generator = "1"};
  (void)cache_each_entry(c, NULL, NULL, &a, load, c, NULL, NULL);
  (void)cache_each_signature(c, NULL, NULL, &a, accept, NULL, NULL);
  (void)cache_each_trial(c, 1, &e, accept_trial, NULL, NULL);
  (void)cache_verify(c, &stats, NULL);
  arena_release(&a);
}

static void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "fuzz_cache: %s\n", what);
  abort();
}

static void scratch_name(char *name, size_t size) {
  snprintf(name, size, "%s/arke-fuzz-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
           (long)getpid());
}

static void write_scratch(const char *name, const uint8_t *bytes, size_t n) {
  FILE *f = fopen(name, "wb");
  check(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "cannot write the scratch file");
}

/* A reader of a file that says WAL in its header makes files beside it. */
static void remove_scratch(const char *name) {
  static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
  for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
    char path[96];
    snprintf(path, sizeof path, "%s%s", name, suffixes[i]);
    unlink(path);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char name[64], merged[80];
  scratch_name(name, sizeof name);
  snprintf(merged, sizeof merged, "%s-merged", name);
  write_scratch(name, bytes, n);
  static const cache_mode modes[] = {CACHE_READ, CACHE_IMMUTABLE};
  for (size_t m = 0; m < COUNT_OF(modes); m++) {
    cache *c;
    arke_error err = ARKE_ERROR_INIT;
    if (cache_open(name, modes[m], &c, &err) != ARKE_OK) {
      check(err.code != ARKE_OK && err.code != ARKE_ERR_INTERNAL && err.text[0] != '\0',
            "an error without a sentence");
      continue;
    }
    use(c);
    cache *to;
    remove_scratch(merged);
    check(cache_open(merged, CACHE_WRITE, &to, &err) == ARKE_OK, err.text);
    (void)cache_merge(to, c, NULL);
    cache_stats stats;
    error_clear(&err);
    check(cache_verify(to, &stats, &err) == ARKE_OK && stats.damaged == 0, "merging brought damage in");
    cache_close(to);
    cache_close(c);
  }
  remove_scratch(name);
  remove_scratch(merged);
  return 0;
}

#ifndef ARKE_FUZZER

static void publish(cache *c, int k) {
  static const cache_tensor tensors[] = {
      {.name = "X", .type = "T", .any_rank = true, .rank = 1, .dims = {"2*H"}},
      {.name = "Y", .output = true, .type = "T", .any_rank = true}};
  cache_environment e = {
      .device = "emulator", .driver = "", .llvm = "22.1.8", .generator = "1", .sm_count = 1};
  char bindings[32];
  snprintf(bindings, sizeof bindings, "T=bf16 H=%d", k);
  cache_problem p = {.op_name = "relu",
                     .op_text = "relu(X: T[..., 2*H]) -> (Y: T[...])",
                     .bindings = bindings,
                     .target = "sm_90a",
                     .ptx = "8.6",
                     .bucket = "H=1..128",
                     .n_tensors = 2,
                     .tensors = tensors};
  cache_kernel kernel = {
      .ptx = ".version 8.6", .ptx_bytes = 12, .cubin = "\177ELF", .cubin_bytes = 4, .recipe_json = "{}"};
  cache_winner w = {
      .template_name = "map", .config = "BLOCK=128", .origin = CACHE_ORIGIN_MODELLED, .policy = ""};
  cache_trial t = {.template_name = "map", .config = bindings, .outcome = CACHE_VERIFIED, .ptx_sha256 = "00"};
  cache_id problem, environment;
  bool published;
  check(cache_environment_id(c, &e, &environment, NULL) == ARKE_OK &&
            cache_problem_id(c, &p, &problem, NULL) == ARKE_OK &&
            cache_put_trial(c, problem, environment, &t, NULL) == ARKE_OK &&
            cache_put_winner(c, problem, environment, &kernel, &w, &published, NULL) == ARKE_OK,
        "cannot make the good file");
}

static uint8_t *make_good_file(size_t *n) {
  char name[64];
  scratch_name(name, sizeof name);
  cache *c;
  check(cache_open(name, CACHE_WRITE, &c, NULL) == ARKE_OK, "cannot make the good file");
  for (int k = 1; k <= 4; k++) publish(c, k);
  cache_close(c);
  FILE *f = fopen(name, "rb");
  check(f != NULL && fseek(f, 0, SEEK_END) == 0, "cannot read the good file");
  long size = ftell(f);
  rewind(f);
  uint8_t *bytes = malloc((size_t)size);
  check(bytes != NULL && fread(bytes, 1, (size_t)size, f) == (size_t)size, "cannot read the good file");
  fclose(f);
  *n = (size_t)size;
  return bytes;
}

typedef struct dice {
  uint64_t seed, thrown;
} dice;

static size_t throw(dice * d, size_t limit) {
  return (size_t)(random_u64(d->seed, d->thrown++) % limit);
}

/* Overwrites up to `most` of the bytes [start, start + length). */
static void spoil(dice *d, uint8_t *bytes, size_t start, size_t length, size_t most) {
  for (size_t left = 1 + throw(d, most); left > 0; left--) {
    size_t at = start + throw(d, length);
    bytes[at] = (uint8_t) throw(d, 256);
  }
}

/* Makes one change, which the seed decides; returns the new size. */
static size_t change(uint8_t *bytes, size_t n, uint64_t seed) {
  enum { PAGE = 4096, ANYWHERE = 0, FILE_HEADER, PAGE_HEADER, CELLS, SWAPPED_PAGE, KINDS };
  dice d = {.seed = seed};
  size_t pages = n / PAGE, page = throw(&d, pages) * PAGE;
  switch (throw(&d, KINDS + 1)) {
  case ANYWHERE: spoil(&d, bytes, 0, n, 16); return n;
  case FILE_HEADER: spoil(&d, bytes, 0, 120, 4); return n;
  case PAGE_HEADER: spoil(&d, bytes, page, 40, 4); return n;
  case CELLS: spoil(&d, bytes, page + PAGE - 400, 400, 8); return n;
  case SWAPPED_PAGE: memmove(bytes + page, bytes + throw(&d, pages) * PAGE, PAGE); return n;
  default: return throw(&d, n); /* cut off */
  }
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  size_t n;
  uint8_t *good = make_good_file(&n), *bytes = malloc(n);
  check(bytes != NULL, "out of memory");
  LLVMFuzzerTestOneInput(good, n);
  for (long i = 0; i < rounds; i++) {
    memcpy(bytes, good, n);
    size_t size = change(bytes, n, seed + (uint64_t)i);
    if (i % 4 == 3) size = change(bytes, size < 8192 ? n : size, ~(seed + (uint64_t)i)); /* two changes */
    LLVMFuzzerTestOneInput(bytes, size);
  }
  free(bytes);
  free(good);
  return 0;
}
#endif
