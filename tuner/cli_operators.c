#include "tuner/cli_operators.h"

#include <math.h>
#include <time.h>

#include "tuner/operator_list.h"

enum { MOST_FAULTS = 10 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool count(void *user, const operator_result *r) {
  cli_operators *o = user;
  o->runs++;
  o->compared += r->compared;
  o->right += r->verdict == OPERATOR_RIGHT;
  o->refused += r->verdict == OPERATOR_REFUSED;
  o->untaken += r->verdict == OPERATOR_UNTAKEN;
  if (r->verdict == OPERATOR_WRONG && o->wrong++ < MOST_FAULTS)
    strbuf_addf(&o->faults, "  %s %s, %s, %s, %s %s: %s\n", r->operator, r->bindings,
                operator_view_name(r->view), operator_values_name(r->values), r->template_name, r->config,
                r->text);
  o->stopped = o->stop != NULL && o->stop(o->user);
  return !o->stopped && now_s() < o->until_s;
}

arke_status cli_operators_run(const operator_sweep *what, double budget_s, cli_operators *o,
                              arke_error *err) {
  double end_s = budget_s > 0 ? now_s() + budget_s : INFINITY;
  int parts = what->parts > 1 ? what->parts : 1, n = operator_case_count();
  for (int i = what->part; i < n; i += parts) {
    operator_sweep one = *what;
    arke_error ended = ARKE_ERROR_INIT;
    int left = (n - i + parts - 1) / parts;
    double from_s = now_s();
    one.part = i;
    one.parts = n;
    one.tell = count;
    one.user = o;
    o->until_s = from_s + (end_s - from_s) / left;
    o->operators++;
    arke_status status = operator_sweep_run(&one, &ended);
    bool cut = status == ARKE_ERR_INTERRUPTED && !o->stopped;
    o->cut += cut;
    if (status != ARKE_OK && !cut) return error_set(err, status, ended.stage, "%s", ended.text);
  }
  return ARKE_OK;
}
