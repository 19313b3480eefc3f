/* Verifies and times candidates on one device. Every request names the device and the problem, so that a
 * worker that was started anew needs no history:
 *   {"do", "device": "cuda"|"emulator", "index", "target", "seed", "op", "bindings", "samples",
 * "reference_s"} "info"     -> what the device is "prepare"  -> tensors and expected values are made (other
 * requests do so too when needed) "trial"    {"image", "is_ptx", "recipe", "measure", "reject_ns"} ->
 * outcome, error, times "finals"   {"list": [{"image", "is_ptx", "recipe", "complexity"}], "limit_s"} ->
 * winner, times, ratios. Where the host has to compare outputs, "host_compares" says why. A candidate's
 * failure is an answer with status 0 and its outcome; another status means the device or the problem cannot
 * be used at all. */
#include <stdlib.h>
#include <string.h>

#include "generator/target.h"
#include "tuner/trial_runner.h"
#include "tuner/worker.h"

#define STAGE         "verify"
#define SMALL_SAMPLES 512

typedef struct device_state {
  const tune_hooks *hooks;
  tune_runner runner; /* runner.dev NULL: not open */
  tune_runner small;  /* of problems that only the reference is asked about; on the same device */
  char *device_key;
} device_state;

static arke_status device_worker_open(const tune_hooks *hooks, void **state, arke_error *err) {
  device_state *s = calloc(1, sizeof *s);
  if (!s) return error_memory(err, STAGE);
  s->hooks = hooks;
  *state = s;
  return ARKE_OK;
}

static void device_worker_close(void *state) {
  device_state *s = state;
  tune_runner_close(&s->small);
  tune_runner_close(&s->runner);
  free(s->device_key);
  free(s);
}

static arke_status open_device(device_state *s, const json_t *body, arke_error *err) {
  const char *kind = tune_message_text(body, "device", "");
  const char *target_name = tune_message_text(body, "target", "");
  int index = (int)tune_message_integer(body, "index", 0);
  strbuf key = STRBUF_INIT;
  strbuf_addf(&key, "%s %d %s", kind, index, target_name);
  char *wanted = strbuf_take(&key);
  if (!wanted) return error_memory(err, STAGE);
  if (s->device_key && strcmp(s->device_key, wanted) == 0) {
    free(wanted);
    return ARKE_OK;
  }
  tune_worker_stage_slow("open");
  tune_runner_close(&s->small);
  tune_runner_close(&s->runner);
  free(s->device_key);
  s->device_key = NULL;
  device *dev;
  uint64_t seed = (uint64_t)tune_message_integer(body, "seed", 0);
  arke_status status = strcmp(kind, "cuda") == 0 ? tune_worker_open_gpu(s->hooks, index, &dev, err)
                                                 : device_open_emulator(target_name, seed, &dev, err);
  if (status == ARKE_OK) status = tune_runner_open(&s->runner, dev, err);
  if (status == ARKE_OK) s->runner.target = target_find(target_name, NULL);
  if (status != ARKE_OK) {
    free(wanted);
    return status;
  }
  s->device_key = wanted;
  return ARKE_OK;
}

static void add_text(json_t *body, const char *name, const char *text) {
  json_t *value = json_string(text);
  json_object_set_new(body, name, value ? value : json_string("(text is not UTF-8)"));
}

static void add_info(json_t *b, const device_info *i) {
  add_text(b, "name", i->name);
  add_text(b, "driver_text", i->driver_text);
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"cc_major", i->cc_major},
                 {"cc_minor", i->cc_minor},
                 {"sm_count", i->sm_count},
                 {"smem_per_block_bytes", i->smem_per_block_bytes},
                 {"l2_bytes", i->l2_bytes},
                 {"memory_bytes", i->memory_bytes},
                 {"clock_khz", i->clock_khz},
                 {"memory_clock_khz", i->memory_clock_khz},
                 {"memory_bus_bits", i->memory_bus_bits},
                 {"driver_version", i->driver_version}};
  for (size_t k = 0; k < COUNT_OF(numbers); k++)
    json_object_set_new(b, numbers[k].name, json_integer(numbers[k].value));
  json_object_set_new(b, "can_measure", json_boolean(i->can_measure));
}

static tune_reference read_reference(const json_t *body) {
  return (tune_reference){.samples = (int)tune_message_integer(body, "samples", 1024),
                          .limit_s = tune_message_number(body, "reference_s", 1),
                          .fast_math = json_is_true(json_object_get(body, "fast_math"))};
}

static arke_status prepare(device_state *s, const json_t *body, arke_error *err) {
  tune_runner_problem p = {.op_text = tune_message_text(body, "op", ""),
                           .bindings = tune_message_text(body, "bindings", ""),
                           .seed = (uint64_t)tune_message_integer(body, "seed", 0),
                           .reference = read_reference(body),
                           .cold = json_is_true(json_object_get(body, "cold"))};
  tune_worker_stage_slow("prepare");
  return tune_runner_prepare(&s->runner, &p, err);
}

/* --- one candidate -------------------------------------------------------------------------------------- */

static void add_check(json_t *b, const tune_check *check) {
  json_object_set_new(b, "error_relative", json_real(check->error));
  json_object_set_new(b, "allowed_relative", json_real(check->allowed));
}

static void add_verdict(json_t *b, const tune_verdict *v, const arke_error *failure) {
  json_object_set_new(b, "outcome", json_integer(v->outcome));
  add_text(b, "reason", failure->text);
  add_check(b, &v->check);
  if (v->context_lost) json_object_set_new(b, "leaving", json_true());
}

static void add_time(json_t *b, const cache_time *t) {
  json_object_set_new(b, "median_ns", json_real(t->median_ns));
  json_object_set_new(b, "p10_ns", json_real(t->p10_ns));
  json_object_set_new(b, "p90_ns", json_real(t->p90_ns));
  json_object_set_new(b, "time_samples", json_integer(t->samples));
}

static arke_status load(tune_runner *r, const tune_message *request, const json_t *item, tune_loaded **l,
                        tune_verdict *v, arke_error *failure) {
  int64_t image = tune_message_integer(item, "image", -1),
          recipe_blob = tune_message_integer(item, "recipe", -1);
  if (image < 0 || image >= request->n_blobs || recipe_blob < 0 || recipe_blob >= request->n_blobs)
    return error_set(failure, ARKE_ERR_INTERNAL, STAGE, "the request lacks a candidate's image or recipe");
  const tune_blob *code = &request->blobs[image], *recipe_text = &request->blobs[recipe_blob];
  bool is_ptx = json_is_true(json_object_get(item, "is_ptx"));
  tune_worker_stage("load");
  return tune_runner_load(r, code->data, code->bytes, is_ptx, recipe_text->data, recipe_text->bytes, l, v,
                          failure);
}

static arke_status verify(tune_loaded *l, tune_verdict *v, arke_error *failure) {
  tune_worker_stage("verify");
  return tune_runner_verify(l, v, failure);
}

/* Against the reference at the small problem that the item names, where the whole one would cost the
 * reference too much: then only kernels are compared with one another there. */
static arke_status verify_small(device_state *s, const tune_message *request, const json_t *item,
                                tune_verdict *v, arke_error *failure) {
  const char *bindings = tune_message_text(item, "small", "");
  const json_t *body = request->body;
  tune_runner *small = &s->small;
  tune_loaded *l = NULL;
  if (bindings[0] == '\0') return ARKE_OK;
  if (small->dev == NULL) tune_runner_open_beside(small, &s->runner);
  tune_runner_problem p = {.op_text = tune_message_text(body, "op", ""),
                           .bindings = bindings,
                           .seed = (uint64_t)tune_message_integer(body, "seed", 0),
                           .reference = read_reference(body)};
  p.reference.samples = SMALL_SAMPLES;
  tune_worker_stage_slow("prepare");
  TRY(tune_runner_prepare(small, &p, failure));
  TRY(load(small, request, item, &l, v, failure));
  arke_status status = verify(l, v, failure);
  if (status == ARKE_OK) status = tune_runner_verify_others(l, v, failure);
  tune_runner_unload(l);
  return status;
}

static void trial(device_state *s, const tune_message *request, tune_message *reply) {
  tune_runner *r = &s->runner;
  tune_loaded *l = NULL;
  tune_verdict v = {.outcome = CACHE_LAUNCH_FAILED};
  arke_error failure = ARKE_ERROR_INIT;
  json_t *b = reply->body;
  bool measure = json_is_true(json_object_get(request->body, "measure"));
  arke_status status = verify_small(s, request, request->body, &v, &failure);
  tune_check small = v.check;
  if (status == ARKE_OK) status = load(r, request, request->body, &l, &v, &failure);
  if (status == ARKE_OK) {
    json_object_set_new(b, "registers", json_integer(l->kernel.registers));
    json_object_set_new(b, "local_bytes", json_integer(l->kernel.local_bytes));
  }
  if (status == ARKE_OK && !measure) {
    status = verify(l, &v, &failure);
    tune_check check = v.check;
    if (status == ARKE_OK) status = tune_runner_verify_others(l, &v, &failure);
    if (status == ARKE_OK) v.check = check;
  }
  if (status == ARKE_OK && measure) {
    tune_quick q;
    tune_worker_stage("verify");
    status = tune_runner_trial(&l, tune_message_number(request->body, "reject_ns", 0), &q, &v, &failure);
    if (status == ARKE_OK) {
      add_time(b, &q.time);
      json_object_set_new(b, "adjusted_ns", json_real(q.adjusted_ns));
      json_object_set_new(b, "rejected", json_boolean(q.rejected));
    }
  }
  if (small.allowed > 0) v.check = small;
  add_verdict(b, &v, &failure);
  tune_runner_unload(l);
}

/* --- finals --------------------------------------------------------------------------------------------- */

static void say_running(int i, void *user) {
  (void)user;
  tune_worker_event(json_pack("{s:s, s:i}", "event", "finalist", "index", i));
}

/* Loads, verifies and captures each; `failed` is the one that could not be, -1 if all could. */
static arke_status enter_finals(device_state *s, const tune_message *request, const json_t *list,
                                tune_loaded **loaded, tune_finalist *finalists, tune_check *checks,
                                tune_verdict *v, int *failed, arke_error *failure) {
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    *failed = (int)i;
    say_running((int)i, NULL);
    TRY(verify_small(s, request, item, v, failure));
    checks[i] = v->check;
    TRY(load(&s->runner, request, item, &loaded[i], v, failure));
    TRY(verify(loaded[i], v, failure));
    if (checks[i].allowed == 0) checks[i] = v->check;
    TRY(tune_runner_verify_others(loaded[i], v, failure));
    tune_worker_stage("time");
    TRY(tune_runner_burst(loaded[i], &finalists[i].burst, v, failure));
    finalists[i].complexity = (int)tune_message_integer(item, "complexity", 0);
  }
  *failed = -1;
  return ARKE_OK;
}

/* Timing leaves set 0 with the results of many runs back to back: they must still be right, or it was a race.
 */
static arke_status verify_again(tune_loaded **loaded, int n, tune_verdict *v, int *failed,
                                arke_error *failure) {
  for (int i = 0; i < n; i++) {
    *failed = i;
    TRY(verify(loaded[i], v, failure));
  }
  *failed = -1;
  return ARKE_OK;
}

static void add_finals(json_t *b, const tune_finalist *finalists, const tune_check *checks, int n, int winner,
                       int rounds) {
  json_object_set_new(b, "winner", json_integer(winner));
  json_object_set_new(b, "rounds", json_integer(rounds));
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    json_t *item = json_object();
    add_time(item, &finalists[i].time);
    add_check(item, &checks[i]);
    if (finalists[i].ratio < 1e9) json_object_set_new(item, "ratio", json_real(finalists[i].ratio));
    json_object_set_new(item, "separated", json_boolean(finalists[i].separated));
    json_array_append_new(list, item);
  }
  json_object_set_new(b, "list", list);
}

static void finals(device_state *s, const tune_message *request, tune_message *reply) {
  tune_runner *r = &s->runner;
  const json_t *list = json_object_get(request->body, "list");
  int n = json_array_size(list) <= TUNE_MESSAGE_BLOBS ? (int)json_array_size(list) : 0, failed = -1,
      winner = 0, rounds = 0;
  tune_loaded *loaded[TUNE_MESSAGE_BLOBS] = {0};
  tune_finalist finalists[TUNE_MESSAGE_BLOBS] = {0};
  tune_check checks[TUNE_MESSAGE_BLOBS] = {0};
  tune_verdict v = {.outcome = CACHE_LAUNCH_FAILED};
  arke_error failure = ARKE_ERROR_INIT;
  tune_finals_options o = tune_finals_default;
  o.limit_ns = 1e9 * tune_message_number(request->body, "limit_s", 3);
  arke_status status = enter_finals(s, request, list, loaded, finalists, checks, &v, &failed, &failure);
  if (status == ARKE_OK && n > 0) {
    tune_burst_warm(&r->meter, &finalists[0].burst, 0.2 * o.limit_ns, NULL);
    status = tune_measure_finals(&r->meter, finalists, n, &o, say_running, NULL, &winner, &rounds, &failure);
    if (status != ARKE_OK) v = (tune_verdict){.outcome = CACHE_FAULT, .context_lost = true};
  }
  if (status == ARKE_OK) status = verify_again(loaded, n, &v, &failed, &failure);
  add_verdict(reply->body, &v, &failure);
  json_object_set_new(reply->body, "failed", json_integer(failed));
  if (status == ARKE_OK) add_finals(reply->body, finalists, checks, n, winner, rounds);
  for (int i = 0; i < n; i++) {
    if (finalists[i].burst.graph) tune_burst_release(&r->meter, &finalists[i].burst);
    tune_runner_unload(loaded[i]);
  }
}

static arke_status device_handle(void *state, tune_message *request, tune_message *reply, arke_error *err) {
  device_state *s = state;
  const char *what = tune_message_text(request->body, "do", "");
  TRY(open_device(s, request->body, err));
  if (strcmp(what, "info") == 0) {
    add_info(reply->body, &s->runner.info);
    return ARKE_OK;
  }
  TRY(prepare(s, request->body, err));
  if (strcmp(what, "trial") == 0) trial(s, request, reply);
  if (strcmp(what, "finals") == 0) finals(s, request, reply);
  strbuf policy = STRBUF_INIT;
  tune_runner_policy(&s->runner, &policy);
  const arke_error *why = &s->runner.comparing.why;
  if (why->code != ARKE_OK) add_text(reply->body, "host_compares", why->text);
  json_object_set_new(reply->body, "samples", json_integer(s->runner.expected.n));
  json_object_set_new(reply->body, "policy", json_string(strbuf_text(&policy)));
  strbuf_free(&policy);
  return ARKE_OK;
}

const tune_worker_role tune_device_role = {"device", device_worker_open, device_worker_close, device_handle};
