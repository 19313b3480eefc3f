#include <stdlib.h>
#include <string.h>

#include "tuner/tune_run.h"

#define STAGE "compile"

static json_t *compile_request(const tune_trial *t, bool first_way_only) {
  const tune_run *run = t->run;
  const tune_session *s = run->session;
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b}", "do", "compile", "op", run->op_text,
                   "bindings", run->bindings, "target", s->target->name, "template",
                   tune_trial_template(t)->name, "config", t->config, "keep_llvm_ir", s->options.keep_llvm_ir,
                   "fast_math", s->options.fast_math, "check_indices", s->options.check_indices,
                   "first_way_only", first_way_only);
}

static void hash_kernel(tune_trial *t) {
  sha256_hex(t->ptx.data, t->ptx.bytes, t->ptx_sha256);
  sha256 both;
  sha256_init(&both);
  sha256_update(&both, t->ptx.data, t->ptx.bytes);
  sha256_update(&both, "\0", 1);
  sha256_update(&both, t->recipe.data, t->recipe.bytes);
  sha256_final_hex(&both, t->identity);
}

static const tune_trial *find_twin(const tune_trial *t) {
  for (int i = 0; i < t->run->n_trials; i++) {
    const tune_trial *other = t->run->trials[i];
    if (other != t && strcmp(other->identity, t->identity) == 0) return other;
  }
  return NULL;
}

/* Once for the whole run, not for each of a thousand candidates. */
static void note_unassembled(tune_run *run, const json_t *b) {
  const char *why = tune_message_text(b, "unassembled", "");
  if (!why[0] || run->warning) return;
  run->warning = arena_printf(
      &run->memory, "some kernels have no cubin, the driver will compile their PTX when it loads them: %s",
      why);
}

void tune_compile_take_image(tune_trial *t, tune_message *m) {
  const json_t *b = m->body;
  const struct {
    const char *name;
    tune_blob *blob;
  } blobs[] = {{"ptx", &t->ptx}, {"recipe", &t->recipe}, {"cubin", &t->cubin}, {"llvm_ir", &t->llvm_ir}};
  for (size_t i = 0; i < COUNT_OF(blobs); i++) {
    free(blobs[i].blob->data);
    *blobs[i].blob = tune_message_take_blob(m, (int)tune_message_integer(b, blobs[i].name, -1));
  }
  t->ways_left_out = (int)tune_message_integer(b, "ways_left_out", 0);
  note_unassembled(t->run, b);
}

static void take_kernel(tune_trial *t, tune_message *m) {
  const json_t *b = m->body;
  tune_compile_take_image(t, m);
  t->lower_ms = tune_message_number(b, "lower_ms", 0);
  t->assemble_ms = tune_message_number(b, "assemble_ms", 0);
  t->registers = (int)tune_message_integer(b, "registers", -1);
  t->spill_bytes = (int)tune_message_integer(b, "spill_bytes", -1);
  double whole_s = 1e-3 * (t->lower_ms + t->assemble_ms) * (1 + t->ways_left_out);
  if (t->ways_left_out > 0 && whole_s > t->run->complete_s) t->run->complete_s = whole_s;
}

cache_outcome tune_compile_judge(const tune_reply *reply, const char **reason, arke_status *status) {
  *reason = reply->cause;
  *status = ARKE_OK;
  if (reply->kind == TUNE_REPLY_CRASHED) return CACHE_CRASHED;
  if (reply->kind == TUNE_REPLY_TIMEOUT) return CACHE_TIMEOUT;
  const json_t *b = reply->message->body;
  arke_status answer = status_from_code((int)tune_message_integer(b, "status", ARKE_ERR_INTERNAL));
  *reason = tune_message_text(b, "error", "");
  switch (answer) {
  case ARKE_OK: return CACHE_LOWERED;
  case ARKE_ERR_ASSEMBLE: return CACHE_ASSEMBLE_FAILED;
  case ARKE_ERR_TIMEOUT: return CACHE_TIMEOUT;
  case ARKE_ERR_MEMORY:
  case ARKE_ERR_IO: *status = answer; return CACHE_LOWER_FAILED;
  default: return CACHE_LOWER_FAILED;
  }
}

/* A worker that died or hung may be the machine's doing (memory, load). So it gets a second try, unless it is
 * one already, or an earlier run's outcome is being checked. */
bool tune_trial_try_again(tune_trial *t, cache_outcome outcome) {
  if (outcome != CACHE_CRASHED && outcome != CACHE_TIMEOUT) return false;
  if (t->tried_again || t->doubted || tune_run_stopped(t->run) || tune_run_left_s(t->run, 0) <= 0)
    return false;
  t->tried_again = true;
  return true;
}

static void on_compiled(const tune_reply *reply, void *user) {
  tune_trial *t = user;
  tune_run *run = t->run;
  bool again = t->resumed || t->ptx_sha256[0]; /* its outcome is known; only the kernel is wanted */
  const char *reason;
  arke_status status;
  cache_outcome outcome = tune_compile_judge(reply, &reason, &status);
  run->compile_end_s = tune_now_s();
  if (outcome == CACHE_LOWERED) {
    take_kernel(t, reply->message);
    if (!tune_trial_has_kernel(t)) {
      outcome = CACHE_LOWER_FAILED;
      reason = "the worker's answer holds no kernel";
    } else {
      hash_kernel(t);
      run->compilations++;
    }
  }
  const tune_trial *twin = outcome == CACHE_LOWERED && !again ? find_twin(t) : NULL;
  if (twin) {
    strbuf text = STRBUF_INIT;
    strbuf_addf(&text, "the same kernel as %s", twin->config);
    t->identity[0] = '\0'; /* the first of them stands for all */
    tune_trial_finish(t, CACHE_DUPLICATE, strbuf_text(&text));
    strbuf_free(&text);
  } else if (outcome == CACHE_LOWERED) {
    t->state = again ? TRIAL_OVER : TRIAL_READY;
  } else if (status != ARKE_OK) {
    t->state = again ? TRIAL_OVER : TRIAL_DROPPED;
    tune_run_fail(run, status, tune_message_text(reply->message->body, "stage", STAGE), reason);
  } else if (!again && tune_trial_try_again(t, outcome)) {
    t->state = TRIAL_WAITING;
  } else if (again) {
    tune_trial_change(t, outcome, reason);
  } else {
    tune_trial_finish(t, outcome, reason);
  }
  if (t->compiled) t->compiled(t);
}

arke_status tune_compile_submit(const tune_trial *t, bool first_way_only, tune_reply_fn fn, void *user,
                                arke_error *err) {
  const tune_session *s = t->run->session;
  tune_message m = {.body = compile_request(t, first_way_only)};
  arke_status status =
      m.body ? tune_pool_submit(s->compilers, &m, tune_session_compile_timeout(s), NULL, fn, user, err)
             : error_memory(err, STAGE);
  tune_message_release(&m);
  return status;
}

void tune_compile_start(tune_trial *t) {
  tune_run *run = t->run;
  arke_error err = ARKE_ERROR_INIT;
  t->state = TRIAL_COMPILING;
  if (run->compile_begin_s == 0) run->compile_begin_s = tune_now_s();
  /* What fits into one round of the workers takes no longer whole, and is not compiled twice. */
  bool many = run->planned > tune_pool_size(run->session->compilers);
  arke_status status = tune_compile_submit(t, many, on_compiled, t, &err);
  if (status != ARKE_OK) {
    t->state = TRIAL_DROPPED;
    tune_run_fail(run, status, err.stage, err.text);
  }
}

static bool is_compiling(tune_trial *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i]->state == TRIAL_COMPILING) return true;
  return false;
}

void tune_compile_missing(tune_run *run, tune_trial **list, int n) {
  tune_pool *pool = run->session->compilers;
  for (int i = 0; (i < n || is_compiling(list, n)) && !tune_run_stopped(run);) {
    if (i < n && tune_trial_has_kernel(list[i])) {
      i++;
    } else if (i < n && tune_pool_idle(pool) > 0) {
      list[i]->compiled = NULL;
      tune_compile_start(list[i++]);
    } else {
      uv_run(&run->session->loop, UV_RUN_ONCE);
      tune_run_progress(run, TUNE_COMPILING, false);
    }
  }
  for (int i = 0; i < n; i++)
    if (list[i]->state == TRIAL_COMPILING) tune_pool_forget(pool, list[i]);
}
