/* The worker processes' inside. A worker reads requests on stdin and answers on TUNE_WORKER_REPLY_FD; stdout
 * and stderr are free for whatever libraries print. It ends when stdin does, and dies with its parent. */
#ifndef ARKE_TUNER_WORKER_H
#define ARKE_TUNER_WORKER_H

#include "tuner/tune_hooks.h"
#include "tuner/tune_message.h"

#define TUNE_WORKER_ARGUMENT "--worker="
#define TUNE_WORKER_REPLY_FD 3

/* Fills `reply` (its body is an empty object) for one request; a failure returned is sent as the reply. */
typedef struct tune_worker_role {
  const char *name;
  arke_status (*open)(const tune_hooks *hooks, void **state, arke_error *err); /* hooks are never NULL */
  void (*close)(void *state);
  arke_status (*handle)(void *state, tune_message *request, tune_message *reply, arke_error *err);
} tune_worker_role;

extern const tune_worker_role tune_compile_role; /* op text to PTX, cubin and recipe */
extern const tune_worker_role tune_device_role;  /* verifying and timing on one device */

static inline arke_status tune_worker_open_gpu(const tune_hooks *hooks, int index, device **d,
                                               arke_error *err) {
  return hooks->open_gpu ? hooks->open_gpu(index, d, err) : device_open_cuda(index, d, err);
}

/* Tells the parent which stage the request is in ("lower"): named when the worker dies or hangs. Each stage
 * has the request's time limit anew; a slow one, which serves more than one candidate, has several times
 * that. */
void tune_worker_stage(const char *stage);
void tune_worker_stage_slow(const char *stage);
void tune_worker_event(json_t *event); /* steals the reference */

#endif
