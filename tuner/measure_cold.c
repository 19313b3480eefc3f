#include "tuner/measure_cold.h"

#include <math.h>

#include "tuner/statistics.h"

#define FLUSHES  4   /* whose time is taken together */
#define LEAST_NS 1.0 /* a time that ratios can be made of, whatever the overhead was */

static arke_status flush(tune_meter *m, arke_error *err) {
  return m->dev->ops->stream_fill(m->dev, m->flush, 0, m->flush_bytes, m->stream, err);
}

/* Nothing waits for the host between the runs: while the device flushes, which takes tens of microseconds,
 * the host enqueues the run that follows. The flush before the first one gives it a head start. */
static arke_status enqueue_runs(tune_meter *m, const tune_runnable *r, bool warm_up, int n, arke_error *err) {
  const device_ops *ops = m->dev->ops;
  TRY(ops->event_record(m->dev, m->begin, m->stream, err));
  TRY(flush(m, err));
  for (int i = 0; i < n; i++) {
    TRY(flush(m, err));
    if (warm_up) TRY(r->enqueue(r->user, 0, m->stream, err));
    TRY(ops->event_record(m->dev, m->before[i], m->stream, err));
    if (r) TRY(r->enqueue(r->user, 0, m->stream, err));
    TRY(ops->event_record(m->dev, m->after[i], m->stream, err));
  }
  return ARKE_OK;
}

static arke_status read_runs(tune_meter *m, int n, double *ns, arke_error *err) {
  const device_ops *ops = m->dev->ops;
  double all;
  TRY(ops->event_elapsed(m->dev, m->begin, m->after[n - 1], &all, err));
  m->spent_ns += all;
  for (int i = 0; i < n; i++) {
    TRY(ops->event_elapsed(m->dev, m->before[i], m->after[i], &ns[i], err));
    ns[i] = fmax(ns[i] - m->overhead_ns, LEAST_NS);
  }
  return ARKE_OK;
}

arke_status tune_cold_runs(tune_meter *m, const tune_runnable *r, int n, double *ns, arke_error *err) {
  TRY(enqueue_runs(m, r, false, n, err));
  return read_runs(m, n, ns, err);
}

/* --- what the meter must know first --------------------------------------------------------------------- */

static arke_status time_flushes(tune_meter *m, arke_error *err) {
  const device_ops *ops = m->dev->ops;
  double ns;
  TRY(flush(m, err)); /* the first touches new memory */
  TRY(ops->event_record(m->dev, m->begin, m->stream, err));
  for (int i = 0; i < FLUSHES; i++) TRY(flush(m, err));
  TRY(ops->event_record(m->dev, m->end, m->stream, err));
  TRY(ops->event_elapsed(m->dev, m->begin, m->end, &ns, err));
  m->spent_ns += ns;
  m->flush_ns = ns / FLUSHES;
  return ARKE_OK;
}

/* Two events around an empty kernel read more than the kernel takes: the events themselves, and the launch,
 * which no work before it hides. What the kernel takes is the period of a burst of it. The difference is the
 * same for every kernel. The empty kernel ran just before, so that what its code takes to come out of the
 * memory, which is part of a cold run, does not count as overhead. */
static arke_status measure_overhead(tune_meter *m, const tune_runnable *nothing, arke_error *err) {
  double pairs[TUNE_COLD_RUNS], period = 0;
  TRY(enqueue_runs(m, nothing, nothing != NULL, TUNE_COLD_RUNS, err));
  TRY(read_runs(m, TUNE_COLD_RUNS, pairs, err));
  if (nothing) {
    tune_burst b;
    TRY(tune_burst_capture(m, nothing, &b, err));
    arke_status status = tune_burst_sample(m, &b, 1, &period, err);
    tune_burst_release(m, &b);
    TRY(status);
  }
  m->overhead_ns = fmax(0, tune_middle_mean(pairs, TUNE_COLD_RUNS) - period);
  return ARKE_OK;
}

static arke_status create(tune_meter *m, arke_error *err) {
  const device_ops *ops = m->dev->ops;
  for (int i = 0; i < TUNE_COLD_RUNS; i++) {
    TRY(ops->event_create(m->dev, &m->before[i], err));
    TRY(ops->event_create(m->dev, &m->after[i], err));
  }
  return ops->mem_alloc(m->dev, m->flush_bytes, "flush", &m->flush, err);
}

arke_status tune_meter_flush_before(tune_meter *m, size_t flush_bytes, const tune_runnable *nothing,
                                    arke_error *err) {
  m->flush_bytes = flush_bytes;
  arke_status status = create(m, err);
  if (status == ARKE_OK) status = time_flushes(m, err);
  if (status == ARKE_OK) status = measure_overhead(m, nothing, err);
  if (status != ARKE_OK) tune_cold_close(m);
  return status;
}

void tune_cold_close(tune_meter *m) {
  const device_ops *ops = m->dev->ops;
  for (int i = 0; i < TUNE_COLD_RUNS; i++) {
    if (m->before[i]) ops->event_destroy(m->dev, m->before[i]);
    if (m->after[i]) ops->event_destroy(m->dev, m->after[i]);
    m->before[i] = m->after[i] = NULL;
  }
  if (m->flush) ops->mem_free(m->dev, m->flush);
  m->flush = 0;
}
