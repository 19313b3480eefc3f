/* One worker process of a pool, between the pool that gives it requests and the handles of its loop. Only
 * worker_pool.c and pool_worker.c include this. */
#ifndef ARKE_TUNER_POOL_WORKER_H
#define ARKE_TUNER_POOL_WORKER_H

#include "tuner/worker_pool.h"

enum { POOL_LOG_BYTES = 4096 }; /* the last ones of its stderr */

typedef enum pool_worker_state {
  WORKER_DOWN,
  WORKER_IDLE,
  WORKER_BUSY,
  WORKER_LEAVING,
  WORKER_CLOSING
} pool_worker_state;

typedef struct pool_worker {
  uv_loop_t *loop;
  pool_worker_state state;
  uv_process_t process;
  uv_pipe_t in, out, log;
  uv_timer_t timer;
  int open_handles;
  bool exited, out_ended, log_ended, timed_out;
  int64_t exit_status;
  int term_signal;
  char broken[256]; /* why its stream was given up, or "" */
  tune_reader reader;
  char log_text[POOL_LOG_BYTES];
  size_t log_length;
  char stage[32];
  double timeout_s;
  tune_event_fn on_event;
  tune_reply_fn on_reply; /* NULL: no request outstanding */
  void *user;
} pool_worker;

/* Starts the process with this argument: a worker that was DOWN is IDLE then. */
arke_status pool_worker_spawn(pool_worker *w, char *argument, arke_error *err);
/* Writes a request to an idle worker, which is BUSY with it: its events and its reply go to `user`. Each
 * stage that it announces may last `timeout_s`. */
arke_status pool_worker_ask(pool_worker *w, const tune_message *m, double timeout_s, tune_event_fn on_event,
                            tune_reply_fn on_reply, void *user, arke_error *err);
/* Restarts the time that the worker has, until it is killed. */
void pool_worker_limit(pool_worker *w, double seconds);
void pool_worker_kill(pool_worker *w);
/* Closes the pipe of an idle worker, which ends it; one that does not end is killed. */
void pool_worker_dismiss(pool_worker *w);

#endif
