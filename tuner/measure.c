#include "tuner/measure.h"

#include <math.h>

#include "base/random.h"
#include "tuner/measure_cold.h"
#include "tuner/statistics.h"

#define STAGE          "measure"
#define BURST_NS       1e6  /* device time of one graph, where runs are short */
#define BURST_LAUNCHES 2048 /* and its most nodes */
#define QUICK_SAMPLES  12
#define QUICK_NS       6e6
#define QUICK_LEAST    3
#define COLD_LEAST     3 /* runs that have a median */
#define TRUSTED        2 /* samples before a verdict: one alone may have met an interruption */
#define SETTLED        0.02
#define DRIFT          0.15

arke_status tune_meter_open(device *dev, uint64_t seed, tune_meter *m, arke_error *err) {
  *m = (tune_meter){.dev = dev, .seed = seed};
  if (!dev->ops->graph_begin)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "this device cannot measure time");
  arke_status status = dev->ops->stream_create(dev, &m->stream, err);
  if (status == ARKE_OK) status = dev->ops->event_create(dev, &m->begin, err);
  if (status == ARKE_OK) status = dev->ops->event_create(dev, &m->end, err);
  if (status != ARKE_OK) tune_meter_close(m);
  return status;
}

void tune_meter_close(tune_meter *m) {
  if (!m->dev) return;
  tune_cold_close(m);
  if (m->end) m->dev->ops->event_destroy(m->dev, m->end);
  if (m->begin) m->dev->ops->event_destroy(m->dev, m->begin);
  if (m->stream) m->dev->ops->stream_destroy(m->dev, m->stream);
  *m = (tune_meter){0};
}

void tune_meter_shuffle(tune_meter *m, int *order, int n) {
  for (int i = n - 1; i > 0; i--) {
    int j = (int)(random_uniform(m->seed, m->draws++) * (i + 1));
    int saved = order[i];
    order[i] = order[j];
    order[j] = saved;
  }
}

/* One run outside a graph, to learn how many make a burst. */
static arke_status time_single(tune_meter *m, const tune_runnable *r, double *ns, arke_error *err) {
  const device_ops *ops = m->dev->ops;
  TRY(r->enqueue(r->user, 0, m->stream, err)); /* the first run loads code and is slower */
  TRY(ops->event_record(m->dev, m->begin, m->stream, err));
  TRY(r->enqueue(r->user, r->n_sets > 1 ? 1 : 0, m->stream, err));
  TRY(ops->event_record(m->dev, m->end, m->stream, err));
  TRY(ops->event_elapsed(m->dev, m->begin, m->end, ns, err));
  m->spent_ns += 2 * *ns;
  return ARKE_OK;
}

static arke_status prepare_cold(tune_meter *m, tune_burst *b, arke_error *err) {
  double runs[2]; /* the first one loads code */
  b->launches = 1;
  if (!m->flush) return error_set(err, ARKE_ERR_INTERNAL, STAGE, "a cold run, and nothing to flush with");
  TRY(tune_cold_runs(m, &b->runnable, 2, runs, err));
  b->estimate_ns = runs[1];
  return ARKE_OK;
}

arke_status tune_burst_capture(tune_meter *m, const tune_runnable *r, tune_burst *b, arke_error *err) {
  *b = (tune_burst){.runnable = *r};
  if (r->cold) return prepare_cold(m, b, err);
  double single;
  TRY(time_single(m, r, &single, err));
  /* Whole turns through the sets, so that replays keep the distance between two uses of one set. */
  double wanted = fmin(ceil(BURST_NS / fmax(single, 1)), BURST_LAUNCHES);
  int turns = (int)ceil(wanted / r->n_sets);
  b->launches = turns * r->n_sets;
  const device_ops *ops = m->dev->ops;
  TRY(ops->graph_begin(m->dev, m->stream, err));
  arke_status status = ARKE_OK;
  for (int i = 0; i < b->launches && status == ARKE_OK; i++)
    status = r->enqueue(r->user, i % r->n_sets, m->stream, err);
  /* The capture is ended on failure too: the stream is unusable while it lasts. */
  arke_status ended = ops->graph_end(m->dev, m->stream, &b->graph, err);
  if (status == ARKE_OK) status = ended;
  if (status == ARKE_OK) status = tune_burst_sample(m, b, 1, &b->estimate_ns, err);
  if (status != ARKE_OK) tune_burst_release(m, b);
  return status;
}

void tune_burst_release(tune_meter *m, tune_burst *b) {
  if (b->graph) m->dev->ops->graph_destroy(m->dev, b->graph);
  *b = (tune_burst){0};
}

int tune_burst_replays(const tune_meter *m, const tune_burst *b, double sample_ns) {
  double one = b->graph ? b->estimate_ns * b->launches : b->estimate_ns + m->flush_ns;
  double wanted = ceil(sample_ns / fmax(one, 1));
  return b->graph ? (int)fmax(1, fmin(wanted, 1000)) : (int)fmax(COLD_LEAST, fmin(wanted, TUNE_COLD_RUNS));
}

double tune_burst_cost_ns(const tune_meter *m, const tune_burst *b, int replays) {
  if (b->graph) return b->estimate_ns * b->launches * replays;
  return (b->estimate_ns + m->flush_ns) * replays + m->flush_ns;
}

static arke_status sample_cold(tune_meter *m, const tune_burst *b, int runs, double *ns, arke_error *err) {
  double times[TUNE_COLD_RUNS];
  runs = runs < TUNE_COLD_RUNS ? runs : TUNE_COLD_RUNS;
  TRY(tune_cold_runs(m, &b->runnable, runs, times, err));
  *ns = tune_middle_mean(times, runs);
  return ARKE_OK;
}

arke_status tune_burst_sample(tune_meter *m, const tune_burst *b, int replays, double *ns, arke_error *err) {
  if (!b->graph) return sample_cold(m, b, replays, ns, err);
  const device_ops *ops = m->dev->ops;
  TRY(ops->event_record(m->dev, m->begin, m->stream, err));
  for (int i = 0; i < replays; i++) TRY(ops->graph_launch(m->dev, b->graph, m->stream, err));
  TRY(ops->event_record(m->dev, m->end, m->stream, err));
  double elapsed;
  TRY(ops->event_elapsed(m->dev, m->begin, m->end, &elapsed, err));
  m->spent_ns += elapsed;
  *ns = elapsed / ((double)replays * b->launches);
  return ARKE_OK;
}

arke_status tune_burst_warm(tune_meter *m, const tune_burst *b, double limit_ns, arke_error *err) {
  double until = m->spent_ns + limit_ns, last = 0;
  int replays = tune_burst_replays(m, b, limit_ns / 32);
  for (int agreed = 0; agreed < 3 && m->spent_ns < until;) {
    double ns;
    TRY(tune_burst_sample(m, b, replays, &ns, err));
    agreed = fabs(ns - last) <= SETTLED * ns ? agreed + 1 : 0;
    last = ns;
  }
  return ARKE_OK;
}

/* Cold runs are each a sample. The first ones decide whether the others, all at once, are worth their time.
 */
static arke_status take_cold(tune_meter *m, const tune_burst *b, int n, double left_ns, double *samples,
                             int *taken, arke_error *err) {
  double worth = fmax(1, left_ns / tune_burst_cost_ns(m, b, 1));
  *taken = n < TRUSTED ? TRUSTED : (int)fmin(worth, TUNE_COLD_RUNS - n);
  return tune_cold_runs(m, &b->runnable, *taken, samples + n, err);
}

arke_status tune_measure_quick(tune_meter *m, const tune_burst *b, double reject_ns, cache_time *time,
                               bool *rejected, arke_error *err) {
  double samples[QUICK_SAMPLES], best = INFINITY, until = m->spent_ns + QUICK_NS;
  int n = 0, most = b->graph ? QUICK_SAMPLES : TUNE_COLD_RUNS;
  int replays = tune_burst_replays(m, b, QUICK_NS / QUICK_SAMPLES);
  *rejected = false;
  while (n < most && (n < QUICK_LEAST || m->spent_ns < until) && !*rejected) {
    int taken = 1;
    TRY(b->graph ? tune_burst_sample(m, b, replays, &samples[n], err)
                 : take_cold(m, b, n, until - m->spent_ns, samples, &taken, err));
    for (; taken > 0; taken--) best = fmin(best, samples[n++]);
    *rejected = reject_ns > 0 && n >= TRUSTED && best * (1 - DRIFT) > reject_ns;
  }
  *time = tune_summary(samples, n);
  return ARKE_OK;
}

_Static_assert(TUNE_COLD_RUNS <= QUICK_SAMPLES, "samples have room for cold runs");
