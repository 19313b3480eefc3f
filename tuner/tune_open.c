/* A run from its problem to the point where candidates can be proposed: texts, ranking, plan, and what
 * earlier runs know. */
#include <stdlib.h>

#include "tuner/tune_run.h"

#define STAGE       "tune"
#define MODEL_QUICK 8 /* compiled without a GPU: only the leading one will be used */
#define MODEL_FULL  32
#define COMPILE_S   0.2 /* for one candidate, about */

tune_run *tune_run_create(tune_session *s, const ir_problem *p) {
  tune_run *run = calloc(1, sizeof *run);
  if (run) *run = (tune_run){.session = s, .problem = p, .begin_s = tune_now_s()};
  return run;
}

void tune_run_destroy(tune_run *run) {
  if (!run) return;
  tune_trials_release(run);
  tune_search_destroy(run->search);
  tune_candidates_release(&run->candidates);
  arena_release(&run->memory);
  free(run);
}

arke_status tune_run_rank(tune_run *run, arke_error *err) {
  strbuf text = STRBUF_INIT;
  ir_op_print(run->problem->op, &text);
  run->op_text = arena_strdup(&run->memory, strbuf_text(&text));
  strbuf_clear(&text);
  ir_problem_print_bindings(run->problem, &text);
  run->bindings = arena_strdup(&run->memory, strbuf_text(&text));
  strbuf_free(&text);
  if (!run->op_text || !run->bindings) return error_memory(err, STAGE);
  tune_run_progress(run, TUNE_RANKING, true);
  const tune_session *s = run->session;
  return tune_candidates_rank(run->problem, s->target, &s->rates, s->options.templates, &run->candidates,
                              err);
}

tune_search_plan tune_run_plan(const tune_run *run, int trials) {
  const tune_session *s = run->session;
  tune_effort effort = s->options.effort;
  tune_search_plan plan = tune_search_plan_for(effort, run->candidates.n, trials);
  if (effort == TUNE_EXHAUSTIVE) return plan;
  double budget_s = s->options.budget_s;
  if (tune_run_measures(run)) {
    if (budget_s > 0) tune_search_plan_fit(&plan, budget_s / COMPILE_S * tune_pool_size(s->compilers));
    return plan;
  }
  /* The model's order is all there is: results would teach a search nothing. */
  int n = effort == TUNE_QUICK ? MODEL_QUICK : MODEL_FULL;
  if (trials > 0 && trials < n) n = trials;
  return (tune_search_plan){.model_best = n, .limit = n};
}

arke_status tune_run_open(tune_run *run, arke_error *err) {
  const tune_session *s = run->session;
  TRY(tune_store_open(run, err));
  const char *wanted = s->options.config;
  int64_t index = -1;
  if (wanted)
    TRY(tune_candidates_admit(&run->candidates, run->problem, s->target, &s->rates, wanted, &index, err));
  tune_search_plan plan =
      wanted ? (tune_search_plan){.limit = 1, .ahead = 1} : tune_run_plan(run, s->options.trials);
  run->planned = plan.limit > 0 && plan.limit < run->candidates.n ? plan.limit : run->candidates.n;
  TRY(tune_search_create(&run->candidates, &plan, s->options.seed, &run->search, err));
  if (wanted) { /* asked for by name: tried whatever is known of it */
    tune_search_seed(run->search, index);
    return ARKE_OK;
  }
  if (!s->options.fresh) TRY(tune_store_resume(run, err));
  /* Only where nothing is known yet: a problem tuned in the meantime must not reopen a search that had ended.
   */
  if (tune_run_measures(run) && run->n_trials == 0) {
    run->seeded = true;
    tune_store_seed_nearby(run);
    tune_search_seed_templates(run->search);
  }
  return run->status == ARKE_OK ? ARKE_OK : error_set(err, run->status, STAGE, "%s", run->error.text);
}
