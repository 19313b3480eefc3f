#include <stdint.h>

#include "tuner/search.h"

#define FAMILIES 8 /* whose best comes first, however few are tried */
#define BEST     4
#define AHEAD    16

tune_search_plan tune_search_plan_for(tune_effort effort, int64_t candidates, int trials_limit) {
  tune_search_plan plan = {.ahead = 64};
  switch (effort) {
  case TUNE_QUICK:
    plan = (tune_search_plan){.families = 20, .model_best = 12, .limit = 96, .patience = 32, .ahead = 16};
    break;
  case TUNE_FULL:
    plan = (tune_search_plan){.families = 64, .model_best = 32, .limit = 2000, .patience = 250, .ahead = 64};
    break;
  case TUNE_EXHAUSTIVE:
    plan.families = plan.model_best = (int)(candidates < INT32_MAX ? candidates : INT32_MAX);
    break;
  }
  if (trials_limit > 0 && (plan.limit == 0 || plan.limit > trials_limit)) plan.limit = trials_limit;
  return plan;
}

static int scale(int n, double share, int least) {
  int scaled = (int)(n * share);
  if (scaled < least) scaled = least;
  return scaled < n ? scaled : n;
}

void tune_search_plan_fit(tune_search_plan *plan, double trials) {
  if (plan->families + plan->model_best == 0) return;
  double share = trials / (2.0 * (plan->families + plan->model_best));
  plan->families = scale(plan->families, share, FAMILIES);
  plan->model_best = scale(plan->model_best, share, BEST);
  plan->ahead = scale(plan->ahead, share, AHEAD);
}
