#include "tuner/cli_operators.h"

enum { MOST_FAULTS = 10 };

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
  return o->stop == NULL || !o->stop(o->user);
}

arke_status cli_operators_run(const operator_sweep *what, cli_operators *o, arke_error *err) {
  operator_sweep s = *what;
  s.tell = count;
  s.user = o;
  return operator_sweep_run(&s, err);
}
