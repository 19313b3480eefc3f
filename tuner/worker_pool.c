/* The pool: which worker gets a request, and the end of all of them. */
#include "tuner/worker_pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "tuner/pool_worker.h"
#include "tuner/worker.h"

#define STAGE       "worker"
#define FORGOTTEN_S 1.0 /* for an answer that nobody waits for; starting a worker anew takes less */

struct tune_pool {
  uv_loop_t *loop;
  char argument[64];
  int n;
  pool_worker *workers;
};

static pool_worker *pick(tune_pool *p) {
  pool_worker *down = NULL;
  for (int i = 0; i < p->n; i++) {
    pool_worker *w = &p->workers[i];
    if (w->state == WORKER_IDLE && !w->exited) return w;
    if (w->state == WORKER_DOWN && !down) down = w;
  }
  return down;
}

arke_status tune_pool_submit(tune_pool *pool, const tune_message *m, double timeout_s, tune_event_fn on_event,
                             tune_reply_fn on_reply, void *user, arke_error *err) {
  pool_worker *w = pick(pool);
  if (!w) return error_set(err, ARKE_ERR_BUSY, STAGE, "every worker is busy");
  if (w->state == WORKER_DOWN) TRY(pool_worker_spawn(w, pool->argument, err));
  return pool_worker_ask(w, m, timeout_s, on_event, on_reply, user, err);
}

arke_status tune_pool_open(uv_loop_t *loop, const char *role, int workers, tune_pool **pool,
                           arke_error *err) {
  tune_pool *p = calloc(1, sizeof *p);
  pool_worker *list = calloc((size_t)workers, sizeof *list);
  if (!p || !list) {
    free(p);
    free(list);
    return error_memory(err, STAGE);
  }
  *p = (tune_pool){.loop = loop, .n = workers, .workers = list};
  for (int i = 0; i < workers; i++) list[i].loop = loop;
  snprintf(p->argument, sizeof p->argument, "%s%s", TUNE_WORKER_ARGUMENT, role);
  *pool = p;
  return ARKE_OK;
}

void tune_pool_abandon(tune_pool *pool) {
  for (int i = 0; i < pool->n; i++) {
    pool_worker *w = &pool->workers[i];
    if (w->state != WORKER_BUSY) continue;
    w->on_reply = NULL;
    w->on_event = NULL;
    w->state = WORKER_LEAVING;
    pool_worker_kill(w);
  }
}

static void disregard(const tune_reply *reply, void *user) {
  (void)reply;
  (void)user;
}

void tune_pool_forget(tune_pool *pool, const void *user) {
  for (int i = 0; i < pool->n; i++) {
    pool_worker *w = &pool->workers[i];
    if (w->state != WORKER_BUSY || w->user != user) continue;
    w->on_reply = disregard;
    w->on_event = NULL;
    w->user = NULL;
    if (w->timeout_s > FORGOTTEN_S) w->timeout_s = FORGOTTEN_S;
    pool_worker_limit(w, w->timeout_s);
  }
}

void tune_pool_close(tune_pool *pool) {
  if (!pool) return;
  tune_pool_abandon(pool);
  for (int i = 0; i < pool->n; i++) {
    pool_worker *w = &pool->workers[i];
    if (w->state == WORKER_IDLE) pool_worker_dismiss(w);
  }
  for (bool up = true; up;) {
    up = false;
    for (int i = 0; i < pool->n; i++) up = up || pool->workers[i].state != WORKER_DOWN;
    if (up) uv_run(pool->loop, UV_RUN_ONCE);
  }
  free(pool->workers);
  free(pool);
}

int tune_pool_size(const tune_pool *pool) {
  return pool->n;
}

int tune_pool_idle(const tune_pool *pool) {
  int n = 0;
  for (int i = 0; i < pool->n; i++) {
    const pool_worker *w = &pool->workers[i];
    n += w->state == WORKER_DOWN || (w->state == WORKER_IDLE && !w->exited);
  }
  return n;
}

int tune_pool_busy(const tune_pool *pool) {
  int n = 0;
  for (int i = 0; i < pool->n; i++) n += pool->workers[i].state == WORKER_BUSY;
  return n;
}
