#include "tuner/tune_session.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "generator/gen_context.h"
#include "tuner/tune_run.h"

#define STAGE          "tune"
#define COMPILE_S      60
#define RUN_CUDA_S     10
#define RUN_EMULATOR_S 300
#define TICK_MS        50
#define DEFAULT_TARGET "sm_90a"
#define EMULATORS_MAX  4 /* the leading candidates are verified side by side; more would only wait */

double tune_session_compile_timeout(const tune_session *s) {
  return s->options.compile_timeout_s > 0 ? s->options.compile_timeout_s : COMPILE_S;
}

double tune_session_run_timeout(const tune_session *s) {
  if (s->options.run_timeout_s > 0) return s->options.run_timeout_s;
  return s->kind == TUNE_DEVICE_CUDA ? RUN_CUDA_S : RUN_EMULATOR_S;
}

json_t *tune_session_request(const tune_session *s, const char *what) {
  return json_pack("{s:s, s:s, s:i, s:s, s:I}", "do", what, "device",
                   s->kind == TUNE_DEVICE_CUDA ? "cuda" : "emulator", "index", s->options.device_index,
                   "target", s->target ? s->target->name : "", "seed",
                   (json_int_t)(s->options.seed & INT64_MAX));
}

const char *tune_session_ptx(const tune_session *s, const char *op_text, arena *a) {
  bool checked = s->options.check_indices && cache_gathers(op_text);
  return arena_printf(a, "%s%s%s", s->target->ptx_version, s->options.fast_math ? CACHE_VARIANT_FAST : "",
                      checked ? CACHE_VARIANT_CHECKED : "");
}

/* --- one question, one answer --------------------------------------------------------------------------- */

typedef struct answer {
  bool done;
  arke_status status;
  tune_message message;
  arke_error *err;
} answer;

static void on_answer(const tune_reply *reply, void *user) {
  answer *a = user;
  a->done = true;
  if (reply->kind != TUNE_REPLY_MESSAGE) {
    a->status = error_set(a->err, reply->kind == TUNE_REPLY_TIMEOUT ? ARKE_ERR_TIMEOUT : ARKE_ERR_INTERNAL,
                          STAGE, "%s", reply->cause);
    return;
  }
  const json_t *body = reply->message->body;
  a->status = status_from_code((int)tune_message_integer(body, "status", ARKE_ERR_INTERNAL));
  if (a->status != ARKE_OK)
    error_set(a->err, a->status, tune_message_text(body, "stage", STAGE), "%s",
              tune_message_text(body, "error", ""));
  a->message = *reply->message;
  *reply->message = (tune_message){0};
}

arke_status tune_session_ask(tune_session *s, tune_pool *pool, const tune_message *m, double timeout_s,
                             tune_message *reply, arke_error *err) {
  answer a = {.err = err};
  *reply = (tune_message){0};
  while (tune_pool_idle(pool) == 0 && !s->interrupted) uv_run(&s->loop, UV_RUN_ONCE);
  if (!s->interrupted) TRY(tune_pool_submit(pool, m, timeout_s, NULL, on_answer, &a, err));
  while (!a.done && !s->interrupted) uv_run(&s->loop, UV_RUN_ONCE);
  if (!a.done) {
    tune_pool_abandon(pool);
    return error_set(err, ARKE_ERR_INTERRUPTED, STAGE, "interrupted");
  }
  *reply = a.message;
  return a.status;
}

/* --- the device ----------------------------------------------------------------------------------------- */

target_rates tune_rates_for(const target *t, const device_info *info) {
  target_rates r = t->rates;
  if (info->memory_bytes > 0) r.memory_bytes = info->memory_bytes;
  if (strcmp(info->name, r.device) == 0) return r;
  double sms = (double)info->sm_count / r.sm_count;
  double clock = info->clock_khz > 0 ? info->clock_khz * 1e3 / r.clock_hz : 1;
  /* Double data rate, bytes; copies reach about nine tenths of it on every recent GPU. */
  double bus = 2.0 * info->memory_clock_khz * 1e3 * info->memory_bus_bits / 8 * 0.9;
  r.device = info->name;
  r.sm_count = info->sm_count;
  if (info->clock_khz > 0) r.boost_hz = info->clock_khz * 1e3;
  r.f16_flops_per_s *= sms * (clock < 1 ? clock : 1);
  r.l2_bytes_per_s *= sms;
  if (bus > 0) r.dram_bytes_per_s = bus;
  if (info->l2_bytes > 0) r.l2_bytes = info->l2_bytes;
  return r;
}

static void read_info(tune_session *s, const json_t *b) {
  device_info *i = &s->info;
  *i = (device_info){.kind = s->kind == TUNE_DEVICE_CUDA ? ARKE_DEVICE_CUDA : ARKE_DEVICE_EMULATOR,
                     .index = s->options.device_index,
                     .cc_major = (int)tune_message_integer(b, "cc_major", 0),
                     .cc_minor = (int)tune_message_integer(b, "cc_minor", 0),
                     .sm_count = (int)tune_message_integer(b, "sm_count", 1),
                     .smem_per_block_bytes = (int)tune_message_integer(b, "smem_per_block_bytes", 0),
                     .l2_bytes = tune_message_integer(b, "l2_bytes", 0),
                     .memory_bytes = tune_message_integer(b, "memory_bytes", 0),
                     .clock_khz = (int)tune_message_integer(b, "clock_khz", 0),
                     .memory_clock_khz = (int)tune_message_integer(b, "memory_clock_khz", 0),
                     .memory_bus_bits = (int)tune_message_integer(b, "memory_bus_bits", 0),
                     .driver_version = (int)tune_message_integer(b, "driver_version", 0),
                     .can_measure = json_is_true(json_object_get(b, "can_measure"))};
  snprintf(i->name, sizeof i->name, "%s", tune_message_text(b, "name", ""));
  snprintf(i->driver_text, sizeof i->driver_text, "%s", tune_message_text(b, "driver_text", ""));
}

static arke_status ask_info(tune_session *s, arke_error *err) {
  tune_message m = {.body = tune_session_request(s, "info")}, reply = {0};
  if (!m.body) return error_memory(err, STAGE);
  arke_status status = tune_session_ask(s, s->devices, &m, tune_session_run_timeout(s), &reply, err);
  if (status == ARKE_OK) read_info(s, reply.body);
  tune_message_release(&m);
  tune_message_release(&reply);
  return status;
}

static arke_status choose_gpu_target(tune_session *s, arke_error *err) {
  const target *t = s->options.target;
  const device_info *i = &s->info;
  if (!t) t = target_for_cc(i->cc_major, i->cc_minor);
  if (!t)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                     "%s has compute capability %d.%d, which no target covers", i->name, i->cc_major,
                     i->cc_minor);
  int have = i->cc_major * 10 + i->cc_minor, want = t->cc_major * 10 + t->cc_minor;
  if (t->exact_cc ? have != want : have < want)
    return error_set(
        err, ARKE_ERR_DEVICE, STAGE,
        "kernels for %s do not run on %s (compute capability %d.%d); use --device model to tune for it "
        "without a GPU",
        t->name, i->name, i->cc_major, i->cc_minor);
  s->target = t;
  return ARKE_OK;
}

static arke_status open_pools(tune_session *s, arke_error *err) {
  int cores = (int)uv_available_parallelism(), jobs = s->options.jobs > 0 ? s->options.jobs : cores;
  int devices = s->kind == TUNE_DEVICE_CUDA ? 1 : jobs < EMULATORS_MAX ? jobs : EMULATORS_MAX;
  TRY(tune_pool_open(&s->loop, "compile", jobs, &s->compilers, err));
  return tune_pool_open(&s->loop, "device", devices, &s->devices, err);
}

/* Opens what was asked for; AUTO takes the GPU if there is one. */
static arke_status find_device(tune_session *s, arke_error *err) {
  bool automatic = s->options.device == TUNE_DEVICE_AUTO;
  s->kind = automatic ? TUNE_DEVICE_CUDA : s->options.device;
  if (s->kind == TUNE_DEVICE_CUDA) {
    TRY(open_pools(s, err));
    arke_error failure = ARKE_ERROR_INIT;
    arke_status status = ask_info(s, &failure);
    if (status == ARKE_OK) return choose_gpu_target(s, err);
    if (!automatic || status == ARKE_ERR_INTERRUPTED)
      return error_set(err, status, failure.stage, "%s", failure.text);
    tune_pool_close(s->compilers);
    tune_pool_close(s->devices);
    s->compilers = s->devices = NULL;
    s->kind = TUNE_DEVICE_MODEL;
  }
  s->target = s->options.target ? s->options.target : target_find(DEFAULT_TARGET, NULL);
  if (!s->target) return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the target %s is missing", DEFAULT_TARGET);
  TRY(open_pools(s, err));
  return s->options.dry_run ? ARKE_OK : ask_info(s, err);
}

static arke_status describe_environment(tune_session *s, arke_error *err) {
  cache_environment *e = &s->environment;
  char llvm[32];
  gen_llvm_version(llvm);
  e->llvm = arena_strdup(&s->arena, llvm);
  e->generator = template_generation();
  e->driver = "";
  switch (s->kind) {
  case TUNE_DEVICE_CUDA:
    s->rates = tune_rates_for(s->target, &s->info);
    e->device = s->info.name;
    e->driver =
        arena_printf(&s->arena, "%s%s(CUDA %d.%d)", s->info.driver_text, s->info.driver_text[0] ? " " : "",
                     s->info.driver_version / 1000, s->info.driver_version % 1000 / 10);
    e->sm_count = s->info.sm_count;
    e->clock_khz = s->info.clock_khz;
    e->memory_clock_khz = s->info.memory_clock_khz;
    break;
  default:
    s->rates = s->target->rates;
    e->device =
        s->kind == TUNE_DEVICE_EMULATOR ? "emulator" : arena_printf(&s->arena, "model:%s", s->rates.device);
    e->sm_count = s->rates.sm_count;
    e->clock_khz = (int)(s->rates.clock_hz / 1e3);
    break;
  }
  return e->llvm && e->driver && e->device ? ARKE_OK : error_memory(err, STAGE);
}

/* --- opening and closing -------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int number) {
  (void)number;
  tune_session *s = handle->data;
  s->interrupted = true;
  s->interrupts++;
}

static void on_tick(uv_timer_t *timer) {
  (void)timer; /* its only work is to end uv_run */
}

static arke_status open_loop(tune_session *s, arke_error *err) {
  /* A worker that died is a failed write here, not the end of the program. */
  s->old_sigpipe = signal(SIGPIPE, SIG_IGN);
  int rc = uv_loop_init(&s->loop);
  if (rc != 0) return error_set(err, ARKE_ERR_IO, STAGE, "the event loop cannot start: %s", uv_strerror(rc));
  s->loop_open = true;
  /* A caller that holds signals back between sessions gets them handled here. */
  sigset_t signals;
  interrupts_fill(&signals);
  for (int i = 0; i < INTERRUPTS_COUNT; i++) {
    uv_signal_t *handle = &s->on_interrupt[i];
    uv_signal_init(&s->loop, handle);
    handle->data = s;
    sigaction(interrupts_list[i], NULL, &s->actions_before[i]);
    if (interrupts_heeds(interrupts_list[i])) uv_signal_start(handle, on_signal, interrupts_list[i]);
  }
  uv_timer_init(&s->loop, &s->ticker);
  pthread_sigmask(SIG_UNBLOCK, &signals, &s->mask_before);
  uv_timer_start(&s->ticker, on_tick, TICK_MS, TICK_MS);
  return ARKE_OK;
}

static void close_loop(tune_session *s) {
  if (s->loop_open) {
    sigset_t signals; /* libuv leaves the system's own handling, which no signal shall meet */
    interrupts_fill(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (int i = 0; i < INTERRUPTS_COUNT; i++) uv_close((uv_handle_t *)&s->on_interrupt[i], NULL);
    uv_close((uv_handle_t *)&s->ticker, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    for (int i = 0; i < INTERRUPTS_COUNT; i++) sigaction(interrupts_list[i], &s->actions_before[i], NULL);
    pthread_sigmask(SIG_SETMASK, &s->mask_before, NULL);
  }
  if (s->old_sigpipe != SIG_ERR) signal(SIGPIPE, s->old_sigpipe);
}

static arke_status copy_options(tune_session *s, const tune_options *o, arke_error *err) {
  s->options = *o;
  s->options.config = o->config ? arena_strdup(&s->arena, o->config) : NULL;
  s->options.cache_path = o->cache_path ? arena_strdup(&s->arena, o->cache_path) : NULL;
  s->options.bucket = arena_strdup(&s->arena, o->bucket ? o->bucket : "");
  bool copied =
      s->options.bucket && (!o->config || s->options.config) && (!o->cache_path || s->options.cache_path);
  if (!copied) return error_memory(err, STAGE);
  if (!o->cache_path && !o->dry_run)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tuning needs a cache file to store its results in");
  return ARKE_OK;
}

/* The error with a word about the file that was moved away, which no result will tell of. */
static arke_status open_failed(const tune_session *s, arke_status status, const arke_error *failure,
                               arke_error *err) {
  if (!s->set_aside) return error_set(err, status, failure->stage, "%s", failure->text);
  return error_set(err, status, failure->stage, "%s; %s was damaged or not a cache of Arke and is kept as %s",
                   failure->text, s->options.cache_path, s->set_aside);
}

arke_status tune_session_open(const tune_options *options, tune_session **session, arke_error *err) {
  *session = NULL;
  tune_session *s = calloc(1, sizeof *s);
  if (!s) return error_memory(err, STAGE);
  s->old_sigpipe = SIG_ERR;
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status = copy_options(s, options, &failure);
  if (status == ARKE_OK) status = open_loop(s, &failure);
  /* Before the device: a file that cannot be opened should not cost the start of a GPU. */
  if (status == ARKE_OK && !options->dry_run)
    status = cache_open_set_aside(s->options.cache_path,
                                  options->check_pages ? CACHE_CHECK_PAGES : CACHE_CHECK_KEYS, &s->arena,
                                  &s->cache, &s->set_aside, &failure);
  if (status == ARKE_OK) status = find_device(s, &failure);
  if (status == ARKE_OK) status = describe_environment(s, &failure);
  if (status != ARKE_OK) {
    open_failed(s, status, &failure, err);
    tune_session_close(s);
    return status;
  }
  *session = s;
  return ARKE_OK;
}

void tune_session_expect(tune_session *s, const ir_problem *p) {
  s->expected = p;
}

void tune_session_close(tune_session *s) {
  if (!s) return;
  tune_ahead_take(s, NULL);
  tune_pool_close(s->compilers);
  tune_pool_close(s->devices);
  close_loop(s);
  if (s->cache) cache_close(s->cache);
  arena_release(&s->arena);
  free(s);
}
