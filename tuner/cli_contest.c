#include "tuner/cli_contest.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/statistics.h"

#define STAGE     "bench"
#define SAMPLE_NS 3e6   /* least device time of one sample of bursts: events resolve half a microsecond */
#define WARM_NS   300e6 /* clocks under load settle within a few hundred milliseconds */

static double *times_of(const cli_contest *c, int i) {
  return c->times + (size_t)i * (size_t)c->rounds;
}

static arke_status run_round(cli_contest *c, tune_meter *m, const tune_burst *bursts, int round,
                             arke_error *err) {
  int order[CLI_CONTESTANTS_MAX];
  for (int i = 0; i < c->n; i++) order[i] = i;
  tune_meter_shuffle(m, order, c->n);
  for (int k = 0; k < c->n; k++) {
    const tune_burst *b = &bursts[order[k]];
    double ns;
    /* The first replay pays for what the one before left in caches, clocks and power; of cold runs, flushes
     * do.
     */
    if (b->graph) TRY(tune_burst_sample(m, b, 1, &ns, err));
    int replays = tune_burst_replays(m, b, SAMPLE_NS);
    TRY(tune_burst_sample(m, b, replays, &times_of(c, order[k])[round], err));
  }
  return ARKE_OK;
}

arke_status cli_contest_run(cli_contest *c, tune_meter *m, int rounds, arke_error *err) {
  tune_burst bursts[CLI_CONTESTANTS_MAX] = {{0}};
  arke_status status = ARKE_OK;
  double *scratch = malloc((size_t)rounds * sizeof *scratch);
  c->rounds = rounds;
  c->times = malloc((size_t)c->n * (size_t)rounds * sizeof *c->times);
  if (scratch == NULL || c->times == NULL) {
    status = error_memory(err, STAGE);
    goto done;
  }
  for (int i = 0; i < c->n && status == ARKE_OK; i++)
    status = tune_burst_capture(m, &c->list[i].runnable, &bursts[i], err);
  if (status == ARKE_OK) status = tune_burst_warm(m, &bursts[0], WARM_NS, err);
  for (int r = 0; r < rounds && status == ARKE_OK; r++) status = run_round(c, m, bursts, r, err);
  for (int i = 0; i < c->n && status == ARKE_OK; i++) {
    memcpy(scratch, times_of(c, i), (size_t)rounds * sizeof *scratch);
    c->list[i].time = tune_summary(scratch, rounds);
  }
done:
  for (int i = 0; i < c->n; i++) tune_burst_release(m, &bursts[i]);
  free(scratch);
  return status;
}

arke_status cli_contest_ratio(const cli_contest *c, int a, int b, cli_ratio *ratio, arke_error *err) {
  double *ratios = malloc((size_t)c->rounds * sizeof *ratios);
  if (ratios == NULL) return error_memory(err, STAGE);
  for (int r = 0; r < c->rounds; r++) ratios[r] = times_of(c, a)[r] / times_of(c, b)[r];
  *ratio = (cli_ratio){.median = tune_quantile(ratios, c->rounds, 0.5),
                       .p10 = tune_quantile(ratios, c->rounds, 0.1),
                       .p90 = tune_quantile(ratios, c->rounds, 0.9)};
  free(ratios);
  return ARKE_OK;
}

int cli_contest_fastest(const cli_contest *c, int first) {
  int fastest = first;
  for (int i = first + 1; i < c->n; i++)
    if (c->list[i].time.median_ns < c->list[fastest].time.median_ns) fastest = i;
  return fastest;
}

void cli_contest_release(cli_contest *c) {
  free(c->times);
  c->times = NULL;
}

json_t *cli_contest_time_json(const cache_time *t) {
  return json_pack("{s:f, s:f, s:f, s:i}", "median", t->median_ns, "p10", t->p10_ns, "p90", t->p90_ns,
                   "samples", t->samples);
}

json_t *cli_contest_ratio_json(const cli_ratio *r) {
  return json_pack("{s:f, s:f, s:f}", "median", r->median, "p10", r->p10, "p90", r->p90);
}
