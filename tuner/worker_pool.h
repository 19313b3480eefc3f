/* Worker processes of one role under the parent's libuv loop: this program started again with a hidden
 * argument. A worker takes one request at a time. If it dies, hangs or sends nonsense, that request alone is
 * lost and reported with its cause, and the next request gets a fresh process. Everything here runs on the
 * loop's thread; callbacks come from tune_pool's handles inside uv_run. SIGPIPE must be ignored by the
 * process. */
#ifndef ARKE_TUNER_WORKER_POOL_H
#define ARKE_TUNER_WORKER_POOL_H

#include <uv.h>

#include "tuner/tune_message.h"

typedef struct tune_pool tune_pool;

typedef enum tune_reply_kind {
  TUNE_REPLY_MESSAGE, /* the worker answered */
  TUNE_REPLY_CRASHED, /* it died, or broke the protocol and was killed */
  TUNE_REPLY_TIMEOUT, /* it passed the request's time limit and was killed */
} tune_reply_kind;

typedef struct tune_reply {
  tune_reply_kind kind;
  tune_message *message; /* MESSAGE only; blobs may be taken out */
  const char *cause;     /* else a sentence: how it ended, at which stage, its last lines on stderr */
  const char *stage;     /* last stage the worker told, or "" */
} tune_reply;

typedef void (*tune_reply_fn)(const tune_reply *reply, void *user);
typedef void (*tune_event_fn)(const json_t *event, void *user); /* NULL: not wanted */

/* `role` is the worker's argument ("compile"). No process starts before its first request. */
arke_status tune_pool_open(uv_loop_t *loop, const char *role, int workers, tune_pool **pool, arke_error *err);
/* Ends all workers (idle ones by closing their pipe, busy ones by SIGKILL) and runs the loop until they are
 * gone. Outstanding requests get no callback. NULL is allowed. */
void tune_pool_close(tune_pool *pool);
/* Kills busy workers; their requests get no callback. */
void tune_pool_abandon(tune_pool *pool);
/* The requests with this `user` get no callback. Their workers may end what they do, which takes less than to
 * start them anew, and are idle then; those that take a second longer are killed. */
void tune_pool_forget(tune_pool *pool, const void *user);

int tune_pool_size(const tune_pool *pool);
/* Workers that could take a request now. */
int tune_pool_idle(const tune_pool *pool);
int tune_pool_busy(const tune_pool *pool);
/* `timeout_s` holds for each stage that the worker announces (worker.h), and until the first one.
 * Sends the request (its blobs are copied; the caller keeps `m`) to an idle worker. ARKE_ERR_BUSY when none
 * is. */
arke_status tune_pool_submit(tune_pool *pool, const tune_message *m, double timeout_s, tune_event_fn on_event,
                             tune_reply_fn on_reply, void *user, arke_error *err);

#endif
