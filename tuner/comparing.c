#include "tuner/comparing.h"

#define STAGE "verify"

static void *lower(void *user) {
  tune_comparing *c = user;
  c->status = tune_comparer_lower(&c->comparer, c->types, c->n_types, &c->why);
  return NULL;
}

static void *load(void *user) {
  tune_comparing *c = user;
  c->status = tune_comparer_load(&c->comparer, &c->why);
  return NULL;
}

static void start(tune_comparing *c, void *(*step)(void *)) {
  c->running = pthread_create(&c->thread, NULL, step, c) == 0;
  if (!c->running) step(c);
}

static void wait_for_step(tune_comparing *c) {
  if (c->running) pthread_join(c->thread, NULL);
  c->running = false;
}

void tune_comparing_begin(tune_comparing *c, device *dev, const struct target *t, int sm_count,
                          const ir_problem *p) {
  if (!c->comparer.dev) tune_comparer_open(dev, t, sm_count, &c->comparer);
  c->active = false;
  error_clear(&c->why);
  c->n_types = 0;
  for (int i = p->op->n_inputs; i < p->op->n_args; i++) c->types[c->n_types++] = ir_tensor_dtype(p, i);
  c->status = ARKE_OK;
  start(c, lower);
}

void tune_comparing_load(tune_comparing *c, tune_tensors *t) {
  wait_for_step(c);
  if (c->status == ARKE_OK) c->status = tune_tensors_keep(t, &c->why);
  if (c->status == ARKE_OK) start(c, load);
}

void tune_comparing_end(tune_comparing *c, const tune_tensors *t, const tune_expected *e) {
  wait_for_step(c);
  if (c->status == ARKE_OK) c->status = tune_device_check_create(&c->comparer, t, e, &c->check, &c->why);
  c->active = c->status == ARKE_OK;
}

arke_status tune_comparing_wait(const tune_comparing *c, arke_error *err) {
  device *dev = c->comparer.dev;
  arke_error late = ARKE_ERROR_INIT;
  arke_status status = tune_device_check_enqueue(&c->check, &late);
  TRY(dev->ops->synchronize(dev, err)); /* which tells of the run's own fault, if any */
  if (status != ARKE_OK) return error_set(err, status, STAGE, "%s", late.text);
  return tune_device_check_memory(&c->check, err);
}

void tune_comparing_forget(tune_comparing *c) {
  wait_for_step(c);
  tune_device_check_release(&c->check);
  c->active = false;
}

void tune_comparing_close(tune_comparing *c) {
  tune_comparing_forget(c);
  tune_comparer_close(&c->comparer);
}
