/* Runs a plan on the emulator, which has to know the caller's memory to check every access to it. */
#include "runtime/plan.h"

typedef struct region {
  uint64_t begin, end;
  const char *name;
  bool written_only; /* an output alone, without gaps: poisoned until the kernel writes it */
} region;

static bool overlap(const region *x, const region *y) {
  return x->begin < y->end && y->begin < x->end;
}

/* Tensors may share memory (an operator in place, two views of one buffer): one region then covers them. */
static int add_region(region *list, int n, region r) {
  for (int i = 0; i < n;) {
    if (!overlap(&list[i], &r)) {
      i++;
      continue;
    }
    if (list[i].begin < r.begin) r.begin = list[i].begin;
    if (list[i].end > r.end) r.end = list[i].end;
    r.name = list[i].name;
    r.written_only = false;
    list[i] = list[--n];
    i = 0; /* the larger region may reach ones that were passed */
  }
  list[n] = r;
  return n + 1;
}

static int find_regions(const arke_plan *plan, const uint64_t *addresses, uint64_t workspace, region *list) {
  int n = 0;
  for (int i = 0; i < plan->n_tensors; i++) {
    const plan_tensor *t = &plan->tensors[i];
    if (t->span_bytes > 0)
      n = add_region(
          list, n,
          (region){addresses[i], addresses[i] + t->span_bytes, t->name, t->written_only && t->compact});
  }
  if (plan->workspace_bytes > 0)
    n = add_region(list, n, (region){workspace, workspace + plan->workspace_bytes, "workspace", true});
  return n;
}

arke_status plan_emulate(const arke_plan *plan, const uint64_t *addresses, uint64_t workspace,
                         arke_error *err) {
  region regions[LIMIT_TENSORS + 1];
  device *d = plan->device;
  pthread_mutex_lock(&plan->ctx->lock);
  int n = find_regions(plan, addresses, workspace, regions), imported = 0;
  arke_status status = ARKE_OK;
  for (; imported < n && status == ARKE_OK; imported++) {
    const region *r = &regions[imported];
    status = d->ops->mem_import(d, r->begin, (size_t)(r->end - r->begin), r->name,
                                r->written_only ? DEVICE_MEMORY_POISONED : DEVICE_MEMORY_INITIALISED, err);
    if (status != ARKE_OK) break;
  }
  if (status == ARKE_OK) status = plan_launch_all(plan, addresses, NULL, workspace, err);
  while (imported > 0) d->ops->mem_release(d, regions[--imported].begin);
  pthread_mutex_unlock(&plan->ctx->lock);
  return status;
}
