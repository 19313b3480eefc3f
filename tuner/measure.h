/* Timing on a device that can measure (docs/tuning.md). Works on runtime/device.h's events and graphs alone,
 * and on callbacks that enqueue a candidate, so it knows nothing of kernels or problems. All durations come
 * from the device's events. One thread. */
#ifndef ARKE_TUNER_MEASURE_H
#define ARKE_TUNER_MEASURE_H

#include "cache/cache.h"
#include "runtime/device.h"

/* Something to time: enqueues one whole run over input set `set` on the stream. */
typedef struct tune_runnable {
  arke_status (*enqueue)(void *user, int set, void *stream, arke_error *err);
  void *user;
  int n_sets; /* rotated through, so that each run finds the L2 without its inputs */
} tune_runnable;

typedef struct tune_meter {
  device *dev;
  void *stream, *begin, *end;
  uint64_t seed, draws;
  double spent_ns; /* device time of everything timed so far */
} tune_meter;

arke_status tune_meter_open(device *dev, uint64_t seed, tune_meter *m, arke_error *err);
void tune_meter_close(tune_meter *m);
/* A new random order of the contestants of a round, from the meter's seed. */
void tune_meter_shuffle(tune_meter *m, int *order, int n);

/* A runnable captured as a graph of `launches` runs. */
typedef struct tune_burst {
  void *graph;
  int launches;
  double estimate_ns; /* of one run, from its first replay */
} tune_burst;

arke_status tune_burst_capture(tune_meter *m, const tune_runnable *r, tune_burst *b, arke_error *err);
void tune_burst_release(tune_meter *m, tune_burst *b);
/* Nanoseconds of one run: `replays` replays between two events, divided. */
arke_status tune_burst_sample(tune_meter *m, const tune_burst *b, int replays, double *ns, arke_error *err);
/* Replays until successive samples agree within 2 %, so that clocks have settled, but at most about
 * `limit_ns`. */
arke_status tune_burst_warm(tune_meter *m, const tune_burst *b, double limit_ns, arke_error *err);

/* A few milliseconds of samples, for ranking. Stops early, with *rejected, when even the fastest sample less
 * the largest drift seen between runs (15 %) is slower than `reject_ns` (0: never). */
arke_status tune_measure_quick(tune_meter *m, const tune_burst *b, double reject_ns, cache_time *time,
                               bool *rejected, arke_error *err);

/* --- finals --------------------------------------------------------------------------------------------- */

typedef struct tune_finals_options {
  double tie;     /* ratios below 1 + tie need not be told apart: 0.003 */
  double simpler; /* below 1 + simpler, the simpler one is preferred to the faster one: 0.0015 */
  double alpha;   /* error probability of one comparison: 0.02 */
  int min_rounds, max_rounds;
  double sample_ns; /* least device time of one sample: 3e6 */
  double limit_ns;  /* device time after which no new round starts */
} tune_finals_options;

extern const tune_finals_options tune_finals_default;

typedef struct tune_finalist {
  tune_burst burst;
  int complexity;  /* among equals the smallest wins; 0 is the default configuration */
  cache_time time; /* result: all its samples */
  double ratio;    /* result: median of its time over the winner's within a round */
  bool separated;  /* result: slower than the leader, beyond doubt */
} tune_finalist;

/* Called before finalist `i` runs, so that whoever watches knows whose fault a fault is. NULL allowed. */
typedef void (*tune_finals_fn)(int i, void *user);

/* Times the finalists round after round, each round in a new random order, and compares times of one round
 * only. A finalist separated from the leader is timed no more. *winner: the least complex of those whose
 * median lies within `simpler` of the lowest. Where the rounds that a verdict takes would pass the limit with
 * all finalists, the last of the list are left out: they stay without samples. */
arke_status tune_measure_finals(tune_meter *m, tune_finalist *list, int n, const tune_finals_options *o,
                                tune_finals_fn fn, void *user, int *winner, int *rounds, arke_error *err);

#endif
