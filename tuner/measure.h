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
  bool cold;  /* timed run by run on set 0, each after a flush: the meter needs tune_meter_flush_before */
} tune_runnable;

#define TUNE_COLD_RUNS 9 /* most cold runs that are enqueued at once */

typedef struct tune_meter {
  device *dev;
  void *stream, *begin, *end;
  uint64_t seed, draws;
  double spent_ns; /* device time of everything timed so far, flushes included */
  /* For cold runs; `flush` is 0 until they are asked for. */
  device_ptr flush;
  size_t flush_bytes;
  double flush_ns;    /* device time of one flush */
  double overhead_ns; /* what two events read beyond a launch between them; subtracted from every cold run */
  void *before[TUNE_COLD_RUNS], *after[TUNE_COLD_RUNS];
} tune_meter;

arke_status tune_meter_open(device *dev, uint64_t seed, tune_meter *m, arke_error *err);
/* Makes the meter able to time cold runs: each finds an L2 that a fill of `flush_bytes`, twice its size, has
 * left full of dirty lines. `nothing` launches a kernel that does nothing, which tells what events and a
 * launch cost; NULL: only what events cost is known. */
arke_status tune_meter_flush_before(tune_meter *m, size_t flush_bytes, const tune_runnable *nothing,
                                    arke_error *err);
void tune_meter_close(tune_meter *m);
/* A new random order of the contestants of a round, from the meter's seed. */
void tune_meter_shuffle(tune_meter *m, int *order, int n);

/* A runnable ready to be timed: captured as a graph of `launches` runs back to back; or, cold, a single run
 * that is enqueued anew each time. */
typedef struct tune_burst {
  void *graph; /* NULL: cold */
  tune_runnable runnable;
  int launches;
  double estimate_ns; /* of one run, from its first replay */
} tune_burst;

arke_status tune_burst_capture(tune_meter *m, const tune_runnable *r, tune_burst *b, arke_error *err);
void tune_burst_release(tune_meter *m, tune_burst *b);
/* How many replays take at least `sample_ns` of device time; of cold runs three at least, but no more than
 * TUNE_COLD_RUNS. */
int tune_burst_replays(const tune_meter *m, const tune_burst *b, double sample_ns);
/* Device time of a sample of so many. */
double tune_burst_cost_ns(const tune_meter *m, const tune_burst *b, int replays);
/* Nanoseconds of one run: `replays` replays between two events, divided. Of cold runs, each between two
 * events of its own, the mean of the middle half. */
arke_status tune_burst_sample(tune_meter *m, const tune_burst *b, int replays, double *ns, arke_error *err);
/* Replays until successive samples agree within 2 %, so that clocks have settled, but at most about
 * `limit_ns`. */
arke_status tune_burst_warm(tune_meter *m, const tune_burst *b, double limit_ns, arke_error *err);

/* A few milliseconds of samples, or up to TUNE_COLD_RUNS cold runs, for ranking. Stops early, with *rejected,
 * when even the fastest sample less the largest drift seen between runs (15 %) is slower than `reject_ns` (0:
 * never). */
arke_status tune_measure_quick(tune_meter *m, const tune_burst *b, double reject_ns, cache_time *time,
                               bool *rejected, arke_error *err);

/* --- finals --------------------------------------------------------------------------------------------- */

typedef struct tune_finals_options {
  double tie;     /* ratios below 1 + tie need not be told apart: 0.003 */
  double simpler; /* below 1 + simpler, the simpler one is preferred to the faster one: 0.0015 */
  double alpha;   /* error probability of one comparison: 0.02 */
  int min_rounds, max_rounds;
  double sample_ns; /* least device time of one sample: 3e6. Cold runs: tune_burst_replays */
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
