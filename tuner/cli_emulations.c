#include "tuner/cli_emulations.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator/emulator.h"
#include "generator/gen_context.h"

#define STAGE "fidelity"

enum { WAIT_NS = 50000000 };

struct cli_emulations {
  cli_emulation *list;
  int n, next;
  const target *target;
  int sm_count;
  uint64_t seed;
  bool stopped;
  int n_threads;
  pthread_t *threads;
  pthread_mutex_t lock; /* of next, stopped and the jobs' done */
  pthread_cond_t one_done;
};

/* What a thread keeps from one job to the next. */
typedef struct bench {
  tune_runner runner;
  gen_context *context;
} bench;

static arke_status keep_outputs(cli_emulation *job, const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    if (!t->list[i].output) continue;
    job->outputs[i] = arena_alloc(&job->arena, t->list[i].bytes);
    if (job->outputs[i] == NULL) return error_memory(err, STAGE);
    memcpy(job->outputs[i], t->list[i].host, t->list[i].bytes);
  }
  return ARKE_OK;
}

static arke_status make_kernel(bench *b, cli_emulation *job, const target *t, arke_error *err) {
  const lower_options options = {.context = b->context};
  lowered code = {0};
  strbuf text = STRBUF_INIT;
  job->where = "lowering";
  TRY(job->template->lower(job->problem, t, &job->point, &options, &job->arena, &code, err));
  arke_status status = recipe_print(&code.recipe, &text, err);
  if (status == ARKE_OK) {
    job->ptx = code.ptx;
    job->ptx_bytes = code.ptx_bytes;
    job->recipe_bytes = text.length;
    job->recipe = arena_strndup(&job->arena, strbuf_text(&text), text.length);
    if (job->recipe == NULL) status = error_memory(err, STAGE);
  }
  strbuf_free(&text);
  return status;
}

static arke_status open_bench(bench *b, const target *t, int sm_count, uint64_t seed, arke_error *err) {
  device *emulator;
  if (b->context == NULL) TRY(gen_context_create(&b->context, err));
  if (b->runner.dev != NULL) return ARKE_OK;
  TRY(device_open_emulator(t->name, seed, &emulator, err));
  emu_set_sm_count(emulator, sm_count);
  return tune_runner_open(&b->runner, emulator, err);
}

static arke_status emulate(bench *b, cli_emulation *job, arke_error *err) {
  tune_loaded *l;
  tune_verdict v;
  job->where = "emulator";
  TRY(tune_runner_prepare(&b->runner, &job->what, err));
  TRY(tune_runner_load(&b->runner, job->ptx, job->ptx_bytes, true, job->recipe, job->recipe_bytes, &l, &v,
                       err));
  arke_status status = tune_runner_verify(l, &v, err);
  job->check = v.check;
  if (status == ARKE_OK) status = keep_outputs(job, &b->runner.tensors, err);
  tune_runner_unload(l);
  return status;
}

static cli_emulation *take(cli_emulations *e) {
  pthread_mutex_lock(&e->lock);
  cli_emulation *job = e->stopped || e->next == e->n ? NULL : &e->list[e->next++];
  pthread_mutex_unlock(&e->lock);
  return job;
}

static void *work(void *user) {
  cli_emulations *e = user;
  bench b = {0};
  for (cli_emulation *job; (job = take(e)) != NULL;) {
    job->where = "emulator";
    job->status = open_bench(&b, e->target, e->sm_count, e->seed, &job->err);
    if (job->status == ARKE_OK) job->status = make_kernel(&b, job, e->target, &job->err);
    if (job->status == ARKE_OK) job->status = emulate(&b, job, &job->err);
    pthread_mutex_lock(&e->lock);
    job->done = true;
    pthread_cond_broadcast(&e->one_done);
    pthread_mutex_unlock(&e->lock);
  }
  tune_runner_close(&b.runner);
  gen_context_destroy(b.context);
  return NULL;
}

arke_status cli_emulations_start(cli_emulation *list, int n, const target *t, int sm_count, uint64_t seed,
                                 int threads, cli_emulations **out, arke_error *err) {
  cli_emulations *e = calloc(1, sizeof *e);
  if (threads > n) threads = n;
  pthread_t *ids = calloc((size_t)threads + 1, sizeof *ids);
  *out = NULL;
  if (e == NULL || ids == NULL) {
    free(e);
    free(ids);
    return error_memory(err, STAGE);
  }
  *e =
      (cli_emulations){.list = list, .n = n, .target = t, .sm_count = sm_count, .seed = seed, .threads = ids};
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->one_done, NULL);
  while (e->n_threads < threads && pthread_create(&ids[e->n_threads], NULL, work, e) == 0) e->n_threads++;
  if (e->n_threads == 0 && n > 0) {
    cli_emulations_close(e);
    return error_set(err, ARKE_ERR_IO, STAGE, "no thread can be started");
  }
  *out = e;
  return ARKE_OK;
}

bool cli_emulations_wait(cli_emulations *e, int i) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WAIT_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&e->lock);
  int rc = 0;
  while (!e->list[i].done && rc == 0) rc = pthread_cond_timedwait(&e->one_done, &e->lock, &until);
  bool done = e->list[i].done;
  pthread_mutex_unlock(&e->lock);
  return done;
}

void cli_emulation_release(cli_emulation *job) {
  arena_release(&job->arena);
  memset(job->outputs, 0, sizeof job->outputs);
}

void cli_emulations_close(cli_emulations *e) {
  if (e == NULL) return;
  pthread_mutex_lock(&e->lock);
  e->stopped = true;
  pthread_mutex_unlock(&e->lock);
  for (int i = 0; i < e->n_threads; i++) pthread_join(e->threads[i], NULL);
  for (int i = 0; i < e->n; i++) cli_emulation_release(&e->list[i]);
  pthread_cond_destroy(&e->one_done);
  pthread_mutex_destroy(&e->lock);
  free(e->threads);
  free(e);
}
