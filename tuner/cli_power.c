#include "tuner/cli_power.h"

#define TURN_NS 500e6 /* the counter moves about ten times in it */
#define TURNS   2

static arke_status play_turn(const power_meter *p, tune_meter *m, const tune_burst *b, cli_power *sum,
                             arke_error *err) {
  double before, after, megahertz, ns;
  int replays = tune_burst_replays(m, b, TURN_NS);
  TRY(power_meter_read(p, &before, &megahertz, err));
  TRY(tune_burst_sample(m, b, replays, &ns, err));
  TRY(power_meter_read(p, &after, &megahertz, err));
  double runs = (double)replays * b->launches;
  sum->watts += (after - before) / (runs * ns * 1e-9) / TURNS;
  sum->joules += (after - before) / runs / TURNS;
  sum->ns += ns / TURNS;
  sum->megahertz += megahertz / TURNS;
  return ARKE_OK;
}

arke_status cli_power_measure(const power_meter *p, tune_meter *m, const cli_contest *c, cli_power *power,
                              arke_error *err) {
  tune_burst bursts[CLI_CONTESTANTS_MAX] = {{0}};
  arke_status status = ARKE_OK;
  for (int i = 0; i < c->n && status == ARKE_OK; i++) {
    tune_runnable hot = c->list[i].runnable;
    hot.cold = false;
    power[i] = (cli_power){0};
    status = tune_burst_capture(m, &hot, &bursts[i], err);
  }
  for (int turn = 0; turn < TURNS; turn++)
    for (int k = 0; k < c->n && status == ARKE_OK; k++) {
      int i = turn % 2 == 0 ? k : c->n - 1 - k;
      status = play_turn(p, m, &bursts[i], &power[i], err);
    }
  for (int i = 0; i < c->n; i++) tune_burst_release(m, &bursts[i]);
  return status;
}

json_t *cli_power_json(const cli_power *p) {
  return json_pack("{s:f, s:f, s:f, s:f}", "watts", p->watts, "joules", p->joules, "ns", p->ns, "sm_mhz",
                   p->megahertz);
}
