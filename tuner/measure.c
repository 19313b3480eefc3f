#include "tuner/measure.h"

#include <math.h>

#include "base/random.h"
#include "tuner/statistics.h"

#define STAGE          "measure"
#define BURST_NS       1e6  /* device time of one graph, where runs are short */
#define BURST_LAUNCHES 2048 /* and its most nodes */
#define QUICK_SAMPLES  12
#define QUICK_NS       6e6
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

arke_status tune_burst_capture(tune_meter *m, const tune_runnable *r, tune_burst *b, arke_error *err) {
  *b = (tune_burst){0};
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

arke_status tune_burst_sample(tune_meter *m, const tune_burst *b, int replays, double *ns, arke_error *err) {
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

static int replays_for(const tune_burst *b, double sample_ns) {
  double one = fmax(b->estimate_ns * b->launches, 1);
  return (int)fmax(1, fmin(ceil(sample_ns / one), 1000));
}

arke_status tune_burst_warm(tune_meter *m, const tune_burst *b, double limit_ns, arke_error *err) {
  double until = m->spent_ns + limit_ns, last = 0;
  int replays = replays_for(b, limit_ns / 32);
  for (int agreed = 0; agreed < 3 && m->spent_ns < until;) {
    double ns;
    TRY(tune_burst_sample(m, b, replays, &ns, err));
    agreed = fabs(ns - last) <= SETTLED * ns ? agreed + 1 : 0;
    last = ns;
  }
  return ARKE_OK;
}

arke_status tune_measure_quick(tune_meter *m, const tune_burst *b, double reject_ns, cache_time *time,
                               bool *rejected, arke_error *err) {
  double samples[QUICK_SAMPLES], best = INFINITY, begin = m->spent_ns;
  int n = 0, replays = replays_for(b, QUICK_NS / QUICK_SAMPLES);
  *rejected = false;
  while (n < QUICK_SAMPLES && (n < 3 || m->spent_ns - begin < QUICK_NS) && !*rejected) {
    TRY(tune_burst_sample(m, b, replays, &samples[n], err));
    best = fmin(best, samples[n++]);
    /* Two samples, since one alone may have met an interruption. */
    *rejected = reject_ns > 0 && n >= 2 && best * (1 - DRIFT) > reject_ns;
  }
  *time = tune_summary(samples, n);
  return ARKE_OK;
}
