#include "tests/tuner/tuning_fixture.h"

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void open_fixture(fixture *f, tune_device_kind kind, const char *bindings) {
  *f = (fixture){0};
  signal(SIGINT, SIG_DFL); /* whatever runs the tests may ignore it */
  strcpy(f->folder, "/tmp/arke-tuning-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(f->folder));
  snprintf(f->cache_path, sizeof f->cache_path, "%s/tuned.arke", f->folder);
  snprintf(f->log_path, sizeof f->log_path, "%s/log", f->folder);
  setenv(PLANTED_LOG, f->log_path, 1);
  unsetenv(PLANTED_SLOW_MS);
  unsetenv(PLANTED_GPU);
  unsetenv(PLANTED_CHILD);
  unsetenv(PLANTED_DIE);
  const ir_op *op;
  ck_assert_msg(ir_op_parse(&f->a, PLANTED_OPERATOR, &op, &f->err) == ARKE_OK, "%s", f->err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &f->problem, &f->err) == ARKE_OK, "%s", f->err.text);
  f->options = (tune_options){.device = kind,
                              .effort = TUNE_EXHAUSTIVE,
                              .cache_path = f->cache_path,
                              .jobs = 3,
                              .templates = &planted_templates,
                              .compile_timeout_s = 3,
                              .run_timeout_s = 2}; /* on the emulator, what hangs counts for as long */
}

void close_fixture(fixture *f) {
  arena_release(&f->a);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->folder);
  ck_assert_int_eq(system(command), 0);
}

arke_status tune(fixture *f) {
  error_clear(&f->err);
  tune_session *s;
  f->result = (tune_result){0};
  arke_status status = tune_session_open(&f->options, &s, &f->err);
  if (status == ARKE_OK) status = tune_problem(s, &f->problem, NULL, NULL, &f->a, &f->result, &f->err);
  tune_session_close(s);
  return status;
}

log_counts read_log(const fixture *f) {
  log_counts c = {0};
  FILE *file = fopen(f->log_path, "r");
  for (int kind, block, speed;
       file && fscanf(file, "KIND=%d,BLOCK=%d,SPEED=%d\n", &kind, &block, &speed) == 3; c.total++)
    c.kinds[kind]++;
  if (file) fclose(file);
  return c;
}

static void take_trial(const cache_trial *t, void *user) {
  trial_list *l = user;
  ck_assert_int_lt(l->n, 256);
  ck_assert_int_eq(sscanf(t->config, "KIND=%d,BLOCK=%d,%*[A-Z]=%d", &l->list[l->n].kind, &l->list[l->n].block,
                          &l->list[l->n].speed),
                   3);
  l->list[l->n].outcome = t->outcome;
  l->list[l->n].median_ns = t->time.median_ns;
  snprintf(l->list[l->n].reason, sizeof l->list[0].reason, "%s", t->reason);
  l->n++;
}

trial_list read_trials(const fixture *f, const char *device_name) {
  trial_list l = {0};
  cache *c;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(cache_open(f->cache_path, CACHE_READ, &c, &err) == ARKE_OK, "%s", err.text);
  cache_environment e = f->result.environment;
  e.device = device_name;
  ck_assert_int_eq(cache_each_trial(c, 1, &e, take_trial, &l, &err), ARKE_OK);
  cache_close(c);
  return l;
}

int find_trial(const trial_list *l, int kind, int block, int speed) {
  for (int i = 0; i < l->n; i++)
    if (l->list[i].kind == kind && l->list[i].block == block && l->list[i].speed == speed) return i;
  ck_abort_msg("no trial of KIND=%d,BLOCK=%d,SPEED=%d", kind, block, speed);
  return -1;
}

static int count_workers(void) {
  char self[512] = "";
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  DIR *proc = opendir("/proc");
  int n = 0;
  for (struct dirent *e; (e = readdir(proc));) {
    char path[300], exe[512] = "", command[512] = "";
    snprintf(path, sizeof path, "/proc/%s/exe", e->d_name);
    if (readlink(path, exe, sizeof exe - 1) <= 0 || strcmp(exe, self) != 0) continue;
    snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(command, 1, sizeof command - 1, file) : 0;
    if (file) fclose(file);
    for (size_t i = 0; i + 1 < length; i++)
      if (!command[i]) command[i] = ' ';
    n += strstr(command, "--worker=") != NULL;
  }
  closedir(proc);
  return n;
}

void check_no_workers(void) {
  for (int i = 0; i < 40 && count_workers() > 0; i++) usleep(50000);
  ck_assert_int_eq(count_workers(), 0);
}

pid_t tune_in_child(fixture *f) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    arke_status status = tune(f);
    _exit(status == ARKE_OK ? 0 : status == ARKE_ERR_INTERRUPTED && f->result.config_text ? 130 : 1);
  }
  return child;
}

void wait_for_log(const fixture *f, int lines) {
  for (int i = 0; i < 600 && read_log(f).total < lines; i++) usleep(20000);
  ck_assert_int_ge(read_log(f).total, lines);
}

static const cache_outcome on_emulator[] = {
#define X(NAME, emulator, gpu, meaning) CACHE_##emulator,
    PLANTED_KINDS(X)
#undef X
};
static const cache_outcome on_gpu[] = {
#define X(NAME, emulator, gpu, meaning) CACHE_##gpu,
    PLANTED_KINDS(X)
#undef X
};
const char *const planted_meanings[] = {
#define X(NAME, emulator, gpu, meaning) meaning,
    PLANTED_KINDS(X)
#undef X
};

void check_outcomes(const trial_list *l, bool gpu, int good) {
  const cache_outcome *expected = gpu ? on_gpu : on_emulator;
  int met[PLANTED_COUNT] = {0};
  for (int i = 0; i < l->n; i++) {
    int kind = l->list[i].kind;
    met[kind]++;
    ck_assert_msg(l->list[i].outcome == expected[kind], "a candidate that %s is recorded as %s: %s",
                  planted_meanings[kind], cache_outcome_name(l->list[i].outcome), l->list[i].reason);
    if (kind != PLANTED_GOOD) ck_assert_msg(l->list[i].reason[0], "%s has no reason", planted_meanings[kind]);
  }
  for (int k = 1; k < PLANTED_COUNT; k++)
    ck_assert_msg(met[k] == 1, "%s: met %d times", planted_meanings[k], met[k]);
  ck_assert_int_eq(met[PLANTED_GOOD], good);
}
