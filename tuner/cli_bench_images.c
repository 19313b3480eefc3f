/* Compiling the configurations of a contest: by the workers that tuning uses, several at a time. */
#include <uv.h>

#include "tuner/cli_bench_parts.h"
#include "tuner/cli_machine.h"
#include "tuner/worker_pool.h"

#define STAGE "bench"

enum { TIMEOUT_S = 120 };

/* Images on their way through the pool. */
typedef struct compilation {
  bench *bench;
  const cli_problem *problem;
  const char *bindings;
  tune_candidates *candidates;
  int finished;
} compilation;

typedef struct request {
  compilation *owner;
  cli_image *image;
} request;

static void finished(const tune_reply *reply, void *user) {
  const request *r = user;
  cli_image *image = r->image;
  r->owner->finished++;
  if (reply->kind != TUNE_REPLY_MESSAGE) {
    error_set(&image->failure, ARKE_ERR_INTERNAL, STAGE, "%s", reply->cause);
    return;
  }
  const json_t *b = reply->message->body;
  arke_status status = status_from_code((int)tune_message_integer(b, "status", ARKE_ERR_INTERNAL));
  if (status != ARKE_OK) {
    error_set(&image->failure, status, STAGE, "%s", tune_message_text(b, "error", ""));
    return;
  }
  image->answer = *reply->message;
  *reply->message = (tune_message){0};
}

static json_t *body(const compilation *c, cli_image *image, arke_error *err) {
  const bench *b = c->bench;
  int64_t index;
  config point;
  strbuf text = STRBUF_INIT;
  if (tune_candidates_admit(c->candidates, &c->problem->problem, b->target, &b->target->rates, image->text,
                            &index, err) != ARKE_OK)
    return NULL;
  const tune_source *source = &c->candidates->sources[c->candidates->ranked[index].source];
  tune_candidate_config(c->candidates, index, &point);
  config_print(source->space, &point, &text);
  json_t *o =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b}", "do", "compile", "op", c->problem->spec->text,
                "bindings", c->bindings, "target", b->target->name, "template", source->template->name,
                "config", strbuf_text(&text), "fast_math", b->settings->tune.fast_math, "first_way_only", 1);
  strbuf_free(&text);
  if (o == NULL) error_memory(err, STAGE);
  return o;
}

/* One that is not feasible has its reason, and needs no worker. */
static arke_status submit(request *r, tune_pool *pool, arke_error *err) {
  tune_message m = {.body = body(r->owner, r->image, &r->image->failure)};
  if (m.body == NULL) {
    r->owner->finished++;
    return ARKE_OK;
  }
  arke_status status = tune_pool_submit(pool, &m, TIMEOUT_S, NULL, finished, r, err);
  tune_message_release(&m);
  return status;
}

static arke_status compile(compilation *c, uv_loop_t *loop, tune_pool *pool, cli_image *list, int n,
                           arke_error *err) {
  request *requests = ARENA_NEW_N(c->bench->memory, request, (size_t)n);
  if (requests == NULL) return error_memory(err, STAGE);
  for (int i = 0; c->finished < n;) {
    if (i < n && tune_pool_idle(pool) > 0) {
      requests[i] = (request){c, &list[i]};
      TRY(submit(&requests[i++], pool, err));
    } else {
      uv_run(loop, UV_RUN_ONCE);
    }
  }
  return ARKE_OK;
}

arke_status cli_bench_images(bench *b, const cli_problem *p, tune_candidates *candidates, cli_image *list,
                             int n, arke_error *err) {
  int workers = b->settings->tune.jobs > 0 ? b->settings->tune.jobs : cli_usable_cores();
  strbuf bindings = STRBUF_INIT;
  uv_loop_t loop;
  tune_pool *pool = NULL;
  if (n == 0) return ARKE_OK;
  if (uv_loop_init(&loop) != 0) return error_memory(err, STAGE);
  ir_problem_print_bindings(&p->problem, &bindings);
  compilation c = {.bench = b, .problem = p, .bindings = strbuf_text(&bindings), .candidates = candidates};
  arke_status status = tune_pool_open(&loop, "compile", workers < n ? workers : n, &pool, err);
  if (status == ARKE_OK) status = compile(&c, &loop, pool, list, n, err);
  tune_pool_close(pool);
  uv_loop_close(&loop);
  strbuf_free(&bindings);
  return status;
}
