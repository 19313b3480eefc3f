/* A search compiles the planned kernel of each candidate alone. Whoever is to be published gets the kernels
 * for other views too, and all are verified. */
#include <stdlib.h>

#include "tuner/tune_run.h"

#define STAGE     "complete"
#define SALVAGE_S 30.0 /* after an interrupt */

typedef struct completion {
  tune_trial *trial;
  double until; /* 0: not interrupted so far */
  bool done;    /* the worker's answer, or its end, is in what follows */
  bool died;    /* it died or hung, which may be the machine's doing */
  bool lost;    /* the same, before it came to the candidate */
  cache_outcome outcome;
  arke_status status; /* not the candidate's */
  strbuf reason;
} completion;

/* A second signal ends what the first one left to do. */
static bool is_over(completion *c) {
  const tune_run *run = c->trial->run;
  const tune_session *s = run->session;
  if (run->status != ARKE_OK || s->interrupts > 1) return true;
  if (s->interrupted && c->until == 0) c->until = tune_now_s() + SALVAGE_S;
  return c->until > 0 && tune_now_s() > c->until;
}

static void go_on(completion *c) {
  tune_run *run = c->trial->run;
  uv_run(&run->session->loop, UV_RUN_ONCE);
  tune_ahead_go_on(run->session);
  tune_run_progress(run, tune_run_measures(run) ? TUNE_FINALS : TUNE_VERIFYING, false);
}

static void on_compiled(const tune_reply *reply, void *user) {
  completion *c = user;
  const char *reason;
  c->done = true;
  c->died = reply->kind != TUNE_REPLY_MESSAGE;
  c->outcome = tune_compile_judge(reply, &reason, &c->status);
  if (c->outcome == CACHE_LOWERED) {
    tune_compile_take_image(c->trial, reply->message);
    if (!tune_trial_has_kernel(c->trial)) {
      c->outcome = CACHE_LOWER_FAILED;
      reason = "the worker's answer holds no kernel";
    }
  }
  strbuf_add(&c->reason, reason);
}

static void on_verified(const tune_reply *reply, void *user) {
  completion *c = user;
  bool survives = tune_device_survives(c->trial->run, reply); /* else the run has failed */
  c->done = true;
  c->died = reply->kind != TUNE_REPLY_MESSAGE;
  if (!survives) return;
  if (c->died) {
    c->lost = c->trial->run->lost_workers > 0;
    c->outcome = reply->kind == TUNE_REPLY_TIMEOUT ? CACHE_TIMEOUT : CACHE_CRASHED;
    strbuf_add(&c->reason, reply->cause);
    return;
  }
  const json_t *b = reply->message->body;
  int64_t outcome = tune_message_integer(b, "outcome", CACHE_LAUNCH_FAILED);
  c->outcome = outcome >= 0 && outcome < CACHE_OUTCOME_COUNT ? (cache_outcome)outcome : CACHE_LAUNCH_FAILED;
  strbuf_add(&c->reason, tune_message_text(b, "reason", ""));
}

static arke_status start_compiling(completion *c, arke_error *err) {
  return tune_compile_submit(c->trial, false, on_compiled, c, err);
}

static arke_status start_verifying(completion *c, arke_error *err) {
  const tune_session *s = c->trial->run->session;
  char *bindings = tune_trial_verified_at(c->trial);
  tune_message m = {0};
  arke_status status =
      bindings && tune_device_ask(c->trial, bindings, false, 0, &m)
          ? tune_pool_submit(s->devices, &m, tune_session_run_timeout(s), NULL, on_verified, c, err)
          : error_memory(err, STAGE);
  tune_message_release(&m);
  free(bindings);
  return status;
}

static void give_up(const completion *c, tune_pool *pool) {
  if (pool == c->trial->run->session->devices)
    tune_pool_abandon(pool);
  else
    tune_pool_forget(pool, c);
}

/* One answer; false: there is none, and none will be. */
static bool ask_once(completion *c, tune_pool *pool, arke_status (*start)(completion *, arke_error *)) {
  tune_run *run = c->trial->run;
  arke_error err = ARKE_ERROR_INIT;
  c->done = c->died = c->lost = false;
  c->status = ARKE_OK;
  strbuf_clear(&c->reason);
  while (tune_pool_idle(pool) == 0 && !is_over(c)) go_on(c); /* killed ones are still going down */
  if (is_over(c)) return false;
  arke_status status = start(c, &err);
  if (status != ARKE_OK) {
    tune_run_fail(run, status, err.stage, err.text);
    return false;
  }
  while (!c->done && !is_over(c)) go_on(c);
  if (!c->done) give_up(c, pool);
  if (c->done && c->status != ARKE_OK) tune_run_fail(run, c->status, STAGE, strbuf_text(&c->reason));
  return c->done && run->status == ARKE_OK;
}

/* An answer that is not the candidate's is not kept: it will be asked for again. */
static void on_compiled_ahead(const tune_reply *reply, void *user) {
  tune_trial *t = user;
  const char *reason;
  arke_status status;
  t->completing = false;
  tune_compile_judge(reply, &reason, &status);
  if (reply->kind != TUNE_REPLY_MESSAGE || status != ARKE_OK) return;
  t->whole = *reply->message;
  *reply->message = (tune_message){0};
}

void tune_trial_complete_ahead(tune_trial *t) {
  if (t->ways_left_out == 0 || t->completing || t->whole.body) return;
  if (tune_pool_idle(t->run->session->compilers) == 0) return;
  t->completing = tune_compile_submit(t, false, on_compiled_ahead, t, NULL) == ARKE_OK;
}

/* Takes the answer that was asked for ahead, if it was. */
static bool take_ahead(completion *c) {
  tune_trial *t = c->trial;
  while (t->completing && !is_over(c)) go_on(c);
  if (!t->whole.body) return false;
  tune_reply reply = {TUNE_REPLY_MESSAGE, &t->whole, "", ""};
  on_compiled(&reply, c);
  tune_message_release(&t->whole);
  return true;
}

/* Whether the step came out as `wanted`; what else it came to is the trial's outcome. */
static bool ask(completion *c, tune_pool *pool, arke_status (*start)(completion *, arke_error *),
                cache_outcome wanted) {
  tune_trial *t = c->trial;
  bool answered = start == start_compiling && take_ahead(c);
  if (!answered && !ask_once(c, pool, start)) return false;
  for (int tries = t->doubted; c->lost || (c->died && tries == 0); tries += !c->lost)
    if (!ask_once(c, pool, start)) return false;
  if (c->outcome == wanted) return true;
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text, "with the kernels for other views: %s", strbuf_text(&c->reason));
  tune_trial_change(t, c->outcome, strbuf_text(&text));
  strbuf_free(&text);
  t->run->incomplete++;
  return false;
}

bool tune_trial_complete(tune_trial *t) {
  const tune_session *s = t->run->session;
  if (t->ways_left_out == 0) return true;
  completion c = {.trial = t, .reason = STRBUF_INIT};
  bool complete = ask(&c, s->compilers, start_compiling, CACHE_LOWERED) &&
                  ask(&c, s->devices, start_verifying, CACHE_VERIFIED);
  strbuf_free(&c.reason);
  return complete;
}
