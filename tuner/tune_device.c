#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/timing_way.h"
#include "tuner/tune_run.h"

#define STAGE             "verify"
#define SAMPLES           4096
#define REFERENCE_S       1.0
#define REFERENCE_LEAST_S 0.1
#define REFERENCE_SHARE   0.05 /* of the budget */
#define COSTLY_S          1.0  /* for one element: a small problem is verified instead */
#define COSTLY_SHARE      0.02 /* of the budget, if that is less: corners are evaluated whatever it takes */
/* What the emulator does in a few seconds, of elements that are loaded, computed and stored one by one, and
 * of products by matrix units. */
#define EMULATED_ELEMENTS 2e7
#define EMULATED_FLOPS    1e10
#define LOST_IN_A_ROW     3 /* workers lost before any candidate ran: the device itself is at fault */

/* Seconds for the reference: it is not to eat up a short budget. */
static double reference_s(const tune_run *run) {
  double budget = run->session->options.budget_s;
  return budget > 0 ? fmin(REFERENCE_S, fmax(REFERENCE_LEAST_S, REFERENCE_SHARE * budget)) : REFERENCE_S;
}

static bool is_costly(const tune_run *run) {
  double budget = run->session->options.budget_s;
  double most = budget > 0 ? fmin(COSTLY_S, COSTLY_SHARE * budget) : COSTLY_S;
  return tune_run_measures(run) && tune_reference_s(run->problem) > most;
}

bool tune_device_describe(const tune_run *run, const char *bindings, json_t *body) {
  bool cold = tune_is_timed_cold(run->problem, &run->session->rates);
  return json_object_set_new(body, "op", json_string(run->op_text)) == 0 &&
         json_object_set_new(body, "bindings", json_string(bindings)) == 0 &&
         json_object_set_new(body, "samples", json_integer(is_costly(run) ? 0 : SAMPLES)) == 0 &&
         json_object_set_new(body, "fast_math", json_boolean(run->session->options.fast_math)) == 0 &&
         json_object_set_new(body, "cold", json_boolean(cold)) == 0 &&
         json_object_set_new(body, "reference_s", json_real(reference_s(run))) == 0;
}

ir_problem tune_trial_small_problem(const tune_trial *t) {
  const tune_run *run = t->run;
  config at;
  ir_problem reduced = *run->problem;
  tune_candidate_config(&run->candidates, t->index, &at);
  tune_trial_template(t)->reduced_problem(run->problem, run->session->target, &at,
                                          run->session->info.sm_count, &reduced);
  return reduced;
}

bool tune_trial_is_vast(const tune_trial *t) {
  ir_problem small = tune_trial_small_problem(t);
  return ir_argument_elements(&small) > EMULATED_ELEMENTS || ir_flops(&small) > EMULATED_FLOPS;
}

char *tune_trial_reduced(const tune_trial *t) {
  ir_problem reduced = tune_trial_small_problem(t);
  strbuf text = STRBUF_INIT;
  ir_problem_print_bindings(&reduced, &text);
  return strbuf_take(&text);
}

char *tune_trial_verified_at(const tune_trial *t) {
  return t->run->session->kind == TUNE_DEVICE_MODEL ? tune_trial_reduced(t) : strdup(t->run->bindings);
}

static bool add_small(const tune_trial *t, json_t *item) {
  if (!is_costly(t->run)) return true;
  char *small = tune_trial_reduced(t);
  bool added = small && json_object_set_new(item, "small", json_string(small)) == 0;
  free(small);
  return added;
}

bool tune_device_add_kernel(const tune_trial *t, tune_message *m, json_t *item) {
  /* A cubin runs on GPUs of its own major version alone; from PTX for an older one the driver makes the rest.
   */
  const tune_session *s = t->run->session;
  bool cubin = s->kind == TUNE_DEVICE_CUDA && t->cubin.data && s->target->cc_major == s->info.cc_major;
  const tune_blob *image = cubin ? &t->cubin : &t->ptx;
  int i = tune_message_add_blob(m, image->data, image->bytes);
  int r = tune_message_add_blob(m, t->recipe.data, t->recipe.bytes);
  return i >= 0 && r >= 0 && add_small(t, item) && json_object_set_new(item, "image", json_integer(i)) == 0 &&
         json_object_set_new(item, "recipe", json_integer(r)) == 0 &&
         json_object_set_new(item, "is_ptx", json_boolean(!cubin)) == 0;
}

bool tune_device_survives(tune_run *run, const tune_reply *reply) {
  if (reply->kind == TUNE_REPLY_MESSAGE) {
    const json_t *b = reply->message->body;
    arke_status status = status_from_code((int)tune_message_integer(b, "status", ARKE_ERR_INTERNAL));
    if (status == ARKE_OK) {
      run->lost_workers = 0;
      return true;
    }
    tune_run_fail(run, status, tune_message_text(b, "stage", STAGE), tune_message_text(b, "error", ""));
    return false;
  }
  if (strcmp(reply->stage, "open") != 0 && strcmp(reply->stage, "prepare") != 0 && reply->stage[0]) {
    run->lost_workers = 0; /* a candidate's doing */
    return true;
  }
  if (++run->lost_workers < LOST_IN_A_ROW) return true;
  tune_run_fail(run, reply->kind == TUNE_REPLY_TIMEOUT ? ARKE_ERR_TIMEOUT : ARKE_ERR_DEVICE, STAGE,
                reply->cause);
  return false;
}

static void take_policy(tune_run *run, const json_t *b) {
  const char *policy = tune_message_text(b, "policy", "");
  if (policy[0] && (!run->policy || strcmp(run->policy, policy) != 0))
    run->policy = arena_strdup(&run->memory, policy);
}

static void note_host_compares(tune_run *run, const json_t *b) {
  const char *why = tune_message_text(b, "host_compares", "");
  if (!why[0] || run->warning) return;
  run->warning = arena_printf(&run->memory, "outputs are compared on the host, which takes longer: %s", why);
}

static void take_answer(tune_trial *t, const json_t *b) {
  int64_t outcome = tune_message_integer(b, "outcome", CACHE_LAUNCH_FAILED);
  if (outcome < 0 || outcome >= CACHE_OUTCOME_COUNT) outcome = CACHE_LAUNCH_FAILED;
  t->check = (tune_check){tune_message_number(b, "error_relative", 0),
                          tune_message_number(b, "allowed_relative", 0)};
  if (t->registers < 0) t->registers = (int)tune_message_integer(b, "registers", -1);
  if (t->spill_bytes < 0) t->spill_bytes = (int)tune_message_integer(b, "local_bytes", -1);
  if (outcome == CACHE_MEASURED) {
    t->time = (cache_time){.median_ns = tune_message_number(b, "median_ns", 0),
                           .p10_ns = tune_message_number(b, "p10_ns", 0),
                           .p90_ns = tune_message_number(b, "p90_ns", 0),
                           .samples = (int)tune_message_integer(b, "time_samples", 0)};
    t->rank_ns = tune_message_number(b, "adjusted_ns", t->time.median_ns);
  }
  take_policy(t->run, b);
  note_host_compares(t->run, b);
  /* A modelled trial has its outcome and its place in the search already; now it is a better known one. */
  if (tune_run_measures(t->run))
    tune_trial_finish(t, (cache_outcome)outcome, tune_message_text(b, "reason", ""));
  else
    tune_trial_change(t, (cache_outcome)outcome, tune_message_text(b, "reason", ""));
}

static void on_device_answer(const tune_reply *reply, void *user) {
  tune_trial *t = user;
  bool guilty = reply->stage[0] && strcmp(reply->stage, "open") != 0 && strcmp(reply->stage, "prepare") != 0;
  bool survives = tune_device_survives(t->run, reply);
  if (reply->kind == TUNE_REPLY_MESSAGE && survives) {
    take_answer(t, reply->message->body);
  } else if (reply->kind != TUNE_REPLY_MESSAGE && guilty) {
    cache_outcome outcome = reply->kind == TUNE_REPLY_TIMEOUT ? CACHE_TIMEOUT : CACHE_CRASHED;
    if (tune_trial_try_again(t, outcome))
      t->state = TRIAL_READY;
    else if (tune_run_measures(t->run))
      tune_trial_finish(t, outcome, reply->cause);
    else
      tune_trial_change(t, outcome, reply->cause);
  } else {
    t->state = survives ? TRIAL_READY : TRIAL_DROPPED;
  }
  if (t->ran) t->ran(t);
}

static void on_prepared(const tune_reply *reply, void *user) {
  tune_run *run = user;
  run->preparing = false;
  tune_device_survives(run, reply); /* what could not be prepared, the first trial will ask for again */
}

void tune_device_prepare(tune_run *run) {
  tune_session *s = run->session;
  arke_error err = ARKE_ERROR_INIT;
  tune_message m = {.body = tune_session_request(s, "prepare")};
  arke_status status =
      m.body && tune_device_describe(run, run->bindings, m.body)
          ? tune_pool_submit(s->devices, &m, tune_session_run_timeout(s), NULL, on_prepared, run, &err)
          : error_memory(&err, STAGE);
  tune_message_release(&m);
  run->preparing = status == ARKE_OK;
  if (status != ARKE_OK) tune_run_fail(run, status, err.stage, err.text);
}

bool tune_device_ask(const tune_trial *t, const char *bindings, bool measure, double reject_ns,
                     tune_message *m) {
  m->body = tune_session_request(t->run->session, "trial");
  return m->body && tune_device_describe(t->run, bindings, m->body) &&
         tune_device_add_kernel(t, m, m->body) &&
         json_object_set_new(m->body, "measure", json_boolean(measure)) == 0 &&
         json_object_set_new(m->body, "reject_ns", json_real(reject_ns)) == 0;
}

void tune_device_start(tune_trial *t, const char *bindings, double reject_ns) {
  tune_run *run = t->run;
  tune_session *s = run->session;
  arke_error err = ARKE_ERROR_INIT;
  tune_message m = {0};
  arke_status status = ARKE_ERR_MEMORY;
  if (tune_device_ask(t, bindings, tune_run_measures(run), reject_ns, &m)) {
    t->state = TRIAL_RUNNING;
    status = tune_pool_submit(s->devices, &m, tune_session_run_timeout(s), NULL, on_device_answer, t, &err);
  } else {
    error_memory(&err, STAGE);
  }
  if (status != ARKE_OK) {
    t->state = TRIAL_DROPPED;
    tune_run_fail(run, status, err.stage, err.text);
  }
  tune_message_release(&m);
}
