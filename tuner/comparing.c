#include "tuner/comparing.h"

#define STAGE          "verify"
#define MOST_OF_MEMORY 0.75

static void *prepare(void *user) {
  tune_comparing *c = user;
  c->status = tune_comparer_lower(&c->comparer, c->types, c->n_types, &c->why);
  while (sem_wait(&c->device_is_free) != 0) {
  } /* interrupted by a signal */
  if (c->status == ARKE_OK && c->loads) c->status = tune_comparer_load(&c->comparer, &c->why);
  return NULL;
}

/* Without the load, if it has not come to that. */
static void end_thread(tune_comparing *c) {
  if (!c->running) return;
  sem_post(&c->device_is_free);
  pthread_join(c->thread, NULL);
  sem_destroy(&c->device_is_free);
  c->running = false;
}

void tune_comparing_begin(tune_comparing *c, device *dev, const struct target *t, int sm_count,
                          const ir_problem *p) {
  if (!c->comparer.dev) tune_comparer_open(dev, t, sm_count, &c->comparer);
  c->active = c->loads = false;
  error_clear(&c->why);
  c->n_types = 0;
  for (int i = p->op->n_inputs; i < p->op->n_args; i++) c->types[c->n_types++] = ir_tensor_dtype(p, i);
  sem_init(&c->device_is_free, 0, 0);
  c->running = pthread_create(&c->thread, NULL, prepare, c) == 0;
  if (!c->running) {
    sem_destroy(&c->device_is_free);
    c->status = error_set(&c->why, ARKE_ERR_MEMORY, STAGE, "no thread to compile comparisons in");
  }
}

/* Whether the tensors, and as much again, leave room on the device. */
static bool is_roomy(const tune_tensors *t, int64_t memory_bytes) {
  double bytes = 0;
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    bytes += 2 * (double)x->allocation_bytes + (double)x->stride_bytes * (t->n_sets - 1);
  }
  return bytes <= MOST_OF_MEMORY * (double)memory_bytes;
}

void tune_comparing_load(tune_comparing *c, tune_tensors *t, int64_t memory_bytes) {
  if (!c->running) return;
  arke_error why = ARKE_ERROR_INIT;
  if (is_roomy(t, memory_bytes)) {
    c->loads = tune_tensors_keep(t, &why) == ARKE_OK;
  } else {
    error_set(&why, ARKE_ERR_MEMORY, STAGE, "the device has no room for a second copy of the tensors");
  }
  if (c->loads) {
    sem_post(&c->device_is_free);
  } else {
    end_thread(c);
    if (c->status == ARKE_OK) c->status = error_set(&c->why, why.code, STAGE, "%s", why.text);
  }
}

arke_status tune_comparing_end(tune_comparing *c, const tune_tensors *t, const tune_expected *e,
                               arke_error *err) {
  end_thread(c);
  if (c->status == ARKE_OK) c->status = tune_device_check_create(&c->comparer, t, e, &c->check, &c->why);
  c->active = c->status == ARKE_OK;
  return c->active ? ARKE_OK : c->comparer.dev->ops->synchronize(c->comparer.dev, err);
}

arke_status tune_comparing_wait(const tune_comparing *c, arke_error *err) {
  device *dev = c->comparer.dev;
  arke_error late = ARKE_ERROR_INIT;
  arke_status status = tune_device_check_enqueue(&c->check, &late);
  TRY(dev->ops->synchronize(dev, err)); /* which tells of the run's own fault, if any */
  if (status != ARKE_OK) return error_set(err, status, STAGE, "%s", late.text);
  return tune_device_check_memory(&c->check, err);
}

void tune_comparing_distrust(tune_comparing *c) {
  c->check.has_baseline = false;
}

void tune_comparing_forget(tune_comparing *c) {
  end_thread(c);
  tune_device_check_release(&c->check);
  c->active = false;
}

void tune_comparing_close(tune_comparing *c) {
  tune_comparing_forget(c);
  tune_comparer_close(&c->comparer);
}
