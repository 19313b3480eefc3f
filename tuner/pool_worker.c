/* A worker process: how it starts, what it says, how it ends, and what is told of that. */
#include "tuner/pool_worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/worker.h"

#define STAGE      "worker"
#define DRAIN_MS   300 /* for the last words of a dead worker whose child still holds the pipe */
#define LEAVE_MS   2000
#define TAIL_BYTES 700
#define SLOW_STAGE 4 /* times the limit */

typedef struct write_job {
  uv_write_t request;
  char *bytes;
} write_job;

/* --- its end -------------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle) {
  pool_worker *w = handle->data;
  if (--w->open_handles > 0) return;
  tune_reader_release(&w->reader);
  w->state = WORKER_DOWN;
}

static void close_handles(pool_worker *w) {
  w->state = WORKER_CLOSING;
  uv_handle_t *handles[] = {(uv_handle_t *)&w->process, (uv_handle_t *)&w->in, (uv_handle_t *)&w->out,
                            (uv_handle_t *)&w->log, (uv_handle_t *)&w->timer};
  for (size_t i = 0; i < COUNT_OF(handles); i++)
    if (!uv_is_closing(handles[i])) uv_close(handles[i], on_closed);
}

/* The last lines of stderr, on one line. */
static void print_tail(const pool_worker *w, strbuf *out) {
  size_t length = w->log_length;
  while (length > 0 && (w->log_text[length - 1] == '\n' || w->log_text[length - 1] == ' ')) length--;
  if (length == 0) return;
  size_t begin = length > TAIL_BYTES ? length - TAIL_BYTES : 0;
  strbuf_add(out, "; stderr: ");
  for (size_t i = begin; i < length; i++) {
    char c = w->log_text[i];
    if (c == '\n')
      strbuf_add(out, " | ");
    else
      strbuf_add_bytes(out, (unsigned char)c < ' ' ? " " : &c, 1);
  }
}

static void print_cause(const pool_worker *w, strbuf *out) {
  if (w->timed_out)
    strbuf_add(out, "the worker passed the time limit and was killed");
  else if (w->broken[0])
    strbuf_addf(out, "the worker was killed: %s", w->broken);
  else if (w->term_signal)
    strbuf_addf(out, "the worker died of signal %d (%s)", w->term_signal, strsignal(w->term_signal));
  else
    strbuf_addf(out, "the worker exited with status %lld", (long long)w->exit_status);
  if (w->stage[0]) strbuf_addf(out, " at stage %s", w->stage);
  print_tail(w, out);
}

static void settle(pool_worker *w) {
  if (w->state == WORKER_CLOSING) return;
  tune_reply_fn fn = w->on_reply;
  w->on_reply = NULL;
  if (fn) {
    strbuf cause = STRBUF_INIT;
    print_cause(w, &cause);
    tune_reply reply = {w->timed_out ? TUNE_REPLY_TIMEOUT : TUNE_REPLY_CRASHED, NULL, strbuf_text(&cause),
                        w->stage};
    close_handles(w);
    fn(&reply, w->user);
    strbuf_free(&cause);
  } else {
    close_handles(w);
  }
}

static void on_drained(uv_timer_t *timer) {
  settle(timer->data);
}

static void settle_if_over(pool_worker *w) {
  if (!w->exited || w->state == WORKER_CLOSING) return;
  if (w->out_ended && w->log_ended)
    settle(w);
  else
    uv_timer_start(&w->timer, on_drained, DRAIN_MS, 0);
}

static void on_process_exit(uv_process_t *process, int64_t exit_status, int term_signal) {
  pool_worker *w = process->data;
  w->exited = true;
  w->exit_status = exit_status;
  w->term_signal = term_signal;
  settle_if_over(w);
}

void pool_worker_kill(pool_worker *w) {
  if (w->exited || w->state == WORKER_DOWN || w->state == WORKER_CLOSING) return;
  kill(-uv_process_get_pid(&w->process), SIGKILL); /* the group: it, and what it started */
}

static void on_timeout(uv_timer_t *timer) {
  pool_worker *w = timer->data;
  if (w->state == WORKER_BUSY) {
    w->timed_out = true;
    w->state = WORKER_LEAVING;
  }
  pool_worker_kill(w);
}

void pool_worker_dismiss(pool_worker *w) {
  w->state = WORKER_LEAVING;
  uv_close((uv_handle_t *)&w->in, on_closed);
  uv_timer_start(&w->timer, on_timeout, LEAVE_MS, 0);
}

/* --- what it says --------------------------------------------------------------------------------------- */

static void give_up(pool_worker *w, const char *why) {
  snprintf(w->broken, sizeof w->broken, "%.*s", (int)sizeof w->broken - 1, why);
  pool_worker_kill(w);
}

void pool_worker_limit(pool_worker *w, double seconds) {
  uv_update_time(w->loop); /* the loop's clock may lie far behind after host work */
  uv_timer_start(&w->timer, on_timeout, (uint64_t)(seconds * 1e3), 0);
}

static void enter_stage(pool_worker *w, const json_t *event) {
  if (w->state != WORKER_BUSY) return;
  snprintf(w->stage, sizeof w->stage, "%s", tune_message_text(event, "stage", ""));
  bool slow = json_is_true(json_object_get(event, "slow"));
  pool_worker_limit(w, slow ? SLOW_STAGE * w->timeout_s : w->timeout_s);
}

static void take_message(pool_worker *w, tune_message *m) {
  if (w->timed_out) return; /* too late: it is being killed */
  const char *event = tune_message_text(m->body, "event", NULL);
  if (event) {
    if (strcmp(event, "stage") == 0)
      enter_stage(w, m->body);
    else if (w->on_event)
      w->on_event(m->body, w->user);
    return;
  }
  tune_reply_fn fn = w->on_reply;
  if (!fn) {
    give_up(w, "it answered without being asked");
    return;
  }
  w->on_reply = NULL;
  /* A worker whose device context is lost says that it leaves, so that no new request meets a dying process.
   */
  bool leaving = json_is_true(json_object_get(m->body, "leaving"));
  w->state = leaving ? WORKER_LEAVING : WORKER_IDLE;
  uv_timer_stop(&w->timer);
  if (leaving) uv_timer_start(&w->timer, on_timeout, LEAVE_MS, 0);
  tune_reply reply = {TUNE_REPLY_MESSAGE, m, "", w->stage};
  fn(&reply, w->user);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  (void)handle;
  buffer->base = malloc(suggested);
  buffer->len = buffer->base ? suggested : 0;
}

static void on_reply_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  pool_worker *w = stream->data;
  if (n > 0) {
    tune_reader_feed(&w->reader, buffer->base, (size_t)n);
    for (bool got = true; got && !w->broken[0] && w->state != WORKER_CLOSING;) {
      tune_message m = {0};
      arke_error err = ARKE_ERROR_INIT;
      if (tune_reader_next(&w->reader, &m, &got, &err) != ARKE_OK) {
        give_up(w, err.text);
        break;
      }
      if (got) take_message(w, &m);
      tune_message_release(&m);
    }
  } else if (n < 0) {
    uv_read_stop(stream);
    w->out_ended = true;
    settle_if_over(w);
  }
  free(buffer->base);
}

static void on_log_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  pool_worker *w = stream->data;
  if (n > 0) {
    const char *bytes = buffer->base;
    size_t count = (size_t)n;
    if (count > POOL_LOG_BYTES) {
      bytes += count - POOL_LOG_BYTES;
      count = POOL_LOG_BYTES;
    }
    if (w->log_length + count > POOL_LOG_BYTES) {
      size_t drop = w->log_length + count - POOL_LOG_BYTES;
      memmove(w->log_text, w->log_text + drop, w->log_length - drop);
      w->log_length -= drop;
    }
    memcpy(w->log_text + w->log_length, bytes, count);
    w->log_length += count;
  } else if (n < 0) {
    uv_read_stop(stream);
    w->log_ended = true;
    settle_if_over(w);
  }
  free(buffer->base);
}

/* --- starting and asking -------------------------------------------------------------------------------- */

arke_status pool_worker_spawn(pool_worker *w, char *argument, arke_error *err) {
  uv_loop_t *loop = w->loop;
  *w = (pool_worker){.loop = loop};
  uv_handle_t *handles[] = {(uv_handle_t *)&w->process, (uv_handle_t *)&w->in, (uv_handle_t *)&w->out,
                            (uv_handle_t *)&w->log, (uv_handle_t *)&w->timer};
  for (size_t i = 0; i < COUNT_OF(handles); i++) handles[i]->data = w;
  uv_pipe_init(loop, &w->in, 0);
  uv_pipe_init(loop, &w->out, 0);
  uv_pipe_init(loop, &w->log, 0);
  uv_timer_init(loop, &w->timer);

  uv_stdio_container_t stdio[4] = {0};
  stdio[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
  stdio[0].data.stream = (uv_stream_t *)&w->in;
  stdio[1].flags = UV_IGNORE; /* libraries may print; replies have a descriptor of their own */
  stdio[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
  stdio[2].data.stream = (uv_stream_t *)&w->log;
  stdio[TUNE_WORKER_REPLY_FD].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
  stdio[TUNE_WORKER_REPLY_FD].data.stream = (uv_stream_t *)&w->out;
  char self[] = "/proc/self/exe";
  char *args[] = {self, argument, NULL};
  /* Detached, it leads a group of its own; it dies with its parent all the same (worker.c). */
  uv_process_options_t options = {.file = self,
                                  .args = args,
                                  .flags = UV_PROCESS_DETACHED,
                                  .exit_cb = on_process_exit,
                                  .stdio = stdio,
                                  .stdio_count = 4};
  int rc = uv_spawn(loop, &w->process, &options);
  w->open_handles = 5;
  if (rc == 0) rc = uv_read_start((uv_stream_t *)&w->out, on_allocate, on_reply_bytes);
  if (rc == 0) rc = uv_read_start((uv_stream_t *)&w->log, on_allocate, on_log_bytes);
  if (rc != 0) {
    if (uv_is_active((uv_handle_t *)&w->process)) uv_process_kill(&w->process, SIGKILL);
    close_handles(w);
    return error_set(err, ARKE_ERR_IO, STAGE, "starting a worker process failed: %s", uv_strerror(rc));
  }
  w->state = WORKER_IDLE;
  return ARKE_OK;
}

static void on_written(uv_write_t *request, int status) {
  (void)status; /* a failed write means a dead worker, which on_process_exit reports */
  write_job *job = (write_job *)request;
  free(job->bytes);
  free(job);
}

static arke_status send_request(pool_worker *w, const tune_message *m, arke_error *err) {
  strbuf bytes = STRBUF_INIT;
  write_job *job = NULL;
  arke_status status = tune_message_encode(m, &bytes, err);
  if (status != ARKE_OK) goto fail;
  job = malloc(sizeof *job);
  size_t length = bytes.length;
  char *data = strbuf_take(&bytes);
  if (!job || !data) {
    free(data);
    status = error_memory(err, STAGE);
    goto fail;
  }
  job->bytes = data;
  uv_buf_t buffer = {.base = data, .len = length};
  int rc = uv_write(&job->request, (uv_stream_t *)&w->in, &buffer, 1, on_written);
  if (rc == 0) return ARKE_OK;
  free(data);
  status = error_set(err, ARKE_ERR_IO, STAGE, "writing to a worker failed: %s", uv_strerror(rc));
fail:
  strbuf_free(&bytes);
  free(job);
  return status;
}

arke_status pool_worker_ask(pool_worker *w, const tune_message *m, double timeout_s, tune_event_fn on_event,
                            tune_reply_fn on_reply, void *user, arke_error *err) {
  TRY(send_request(w, m, err));
  w->state = WORKER_BUSY;
  w->on_event = on_event;
  w->on_reply = on_reply;
  w->user = user;
  w->stage[0] = '\0';
  w->log_length = 0;
  w->timeout_s = timeout_s;
  pool_worker_limit(w, timeout_s);
  return ARKE_OK;
}
