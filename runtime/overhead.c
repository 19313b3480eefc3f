#include "runtime/overhead.h"

#include <stdlib.h>
#include <time.h>

#include "runtime/cuda_device.h"
#include "runtime/plan.h"

#define STAGE "overhead"

enum { MOST_CALLS = 500, MOST_ROUNDS = 1000 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *left, const void *right) {
  double x = *(const double *)left, y = *(const double *)right;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return values[n / 2];
}

/* What both kinds of call need, made once. */
typedef struct contest {
  const arke_plan *plan;
  const DLTensor *const *tensors;
  int n_tensors, calls;
  void *stream, *workspace;
  cuda_gpu *gpu;
  cuda_function function;
  cuda_launch_description bare;
  launch_frame frame;
} contest;

static arke_status prepare(contest *c, arke_error *err) {
  const plan_launch *l = &c->plan->launches[0];
  uint64_t addresses[LIMIT_TENSORS];
  if (!plan_accepts(c->plan, c->tensors, c->n_tensors, c->workspace, addresses))
    return plan_explain(c->plan, c->tensors, c->n_tensors, c->workspace, err);
  c->gpu = cuda_of(c->plan->device);
  c->function = (cuda_function)l->kernel;
  device_launch launch = l->launch;
  launch.stream = c->stream;
  cuda_launch_describe(&launch, &c->bare);
  return plan_fill_frame(c->plan, l, addresses, (uint64_t)(uintptr_t)c->workspace, &c->frame, err);
}

static arke_status time_run(contest *c, double *ns, arke_error *err) {
  double begin = now_ns();
  for (int i = 0; i < c->calls; i++)
    TRY(arke_run(c->plan, c->tensors, c->n_tensors, c->stream, c->workspace, err));
  *ns = (now_ns() - begin) / c->calls;
  return c->gpu->base.ops->synchronize(&c->gpu->base, err);
}

static arke_status time_bare(contest *c, double *ns, arke_error *err) {
  double begin = now_ns();
  for (int i = 0; i < c->calls; i++)
    TRY(cuda_check(&c->gpu->api, c->gpu->api.launch(&c->bare.config, c->function, c->frame.args, NULL),
                   "cuLaunchKernelEx", err));
  *ns = (now_ns() - begin) / c->calls;
  return c->gpu->base.ops->synchronize(&c->gpu->base, err);
}

static arke_status measure(contest *c, int rounds, runtime_overhead *o, arke_error *err) {
  double *run = calloc(3 * (size_t)rounds, sizeof *run);
  if (run == NULL) return error_memory(err, STAGE);
  double *bare = run + rounds, *difference = bare + rounds, warm;
  arke_status status = time_run(c, &warm, err);
  if (status == ARKE_OK) status = time_bare(c, &warm, err);
  for (int i = 0; i < rounds && status == ARKE_OK; i++) {
    status = time_run(c, &run[i], err);
    if (status == ARKE_OK) status = time_bare(c, &bare[i], err);
    difference[i] = run[i] - bare[i];
  }
  if (status == ARKE_OK)
    *o = (runtime_overhead){.run_ns = median(run, rounds),
                            .bare_ns = median(bare, rounds),
                            .overhead_ns = median(difference, rounds),
                            .rounds = rounds,
                            .calls = c->calls};
  free(run);
  return status;
}

arke_status runtime_launch_overhead_ns(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors,
                                       void *stream, void *workspace, int calls, int rounds,
                                       runtime_overhead *o, arke_error *err) {
  if (plan == NULL || plan->n_launches != 1 || plan->ctx->gpu == NULL)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "a plan of one launch on a GPU is expected");
  if (calls < 1 || calls > MOST_CALLS || rounds < 1 || rounds > MOST_ROUNDS)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "accepted are 1 to %d calls and 1 to %d rounds",
                     MOST_CALLS, MOST_ROUNDS);
  contest c = {.plan = plan,
               .tensors = tensors,
               .n_tensors = n_tensors,
               .calls = calls,
               .stream = stream,
               .workspace = workspace};
  bool pushed;
  TRY(cuda_enter(cuda_of(plan->device), &pushed, err));
  arke_status status = prepare(&c, err);
  if (status == ARKE_OK) status = measure(&c, rounds, o, err);
  cuda_leave(cuda_of(plan->device), pushed);
  return status;
}
