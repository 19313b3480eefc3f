/* Which configurations are for a problem, and their times, with what all of them have in common. */
#include <math.h>

#include "templates/row.h"

typedef struct row_prepared {
  template_reason reason; /* why there is no match */
  row_match held, online; /* by row_is_online */
} row_prepared;

const void *row_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  row_prepared *r = ARENA_NEW(a, row_prepared);
  template_reason online;
  if (!r || row_match_make(p, true, false, a, &r->held, &r->reason, NULL, NULL) != ARKE_OK ||
      row_match_make(p, true, true, a, &r->online, &online, NULL, NULL) != ARKE_OK)
    return NULL;
  if (r->reason == TEMPLATE_OK) r->reason = online;
  return r;
}

static template_reason plan_of(const row_prepared *r, const target *t, const config *c, const row_match **m,
                               row_plan *plan) {
  template_reason reason = row_shape_reason(t, c);
  if (reason == TEMPLATE_OK) reason = r->reason;
  *m = row_is_online(c) ? &r->online : &r->held;
  return reason == TEMPLATE_OK ? row_plan_make(*m, t, c, plan) : reason;
}

template_reason row_check_shape(const void *prepared, const target *t, const config *c) {
  (void)prepared;
  return row_shape_reason(t, c);
}

template_reason row_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                          double *ns) {
  const row_match *m;
  row_plan plan;
  template_reason reason = plan_of(prepared, t, c, &m, &plan);
  if (reason == TEMPLATE_OK && row_is_redundant(m, t, c, &plan)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = row_cost_of(m, &plan, t, rates);
  return reason;
}
