/* Launches: what the hardware and the kernel ask of one is checked, and its arguments are laid out;
 * emu_launch.c runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emu_device.h"

static arke_status refuse_launch(emulator *e, const ptx_kernel *p, arke_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static arke_status refuse_launch(emulator *e, const ptx_kernel *p, arke_error *err, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char why[512];
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  e->report.fault = EMU_FAULT_LAUNCH;
  snprintf(e->report.kernel, sizeof e->report.kernel, "%s", p->name);
  snprintf(e->report.text, sizeof e->report.text, "%s: kernel %s: %s", emu_fault_text(EMU_FAULT_LAUNCH),
           p->name, why);
  return error_set(err, ARKE_ERR_FAULT, "emulator", "%s", e->report.text);
}

static arke_status check_launch(emulator *e, const device_kernel *k, const device_launch *in, emu_launch *l,
                                arke_error *err) {
  const ptx_kernel *p = k->kernel;
  static const char axis[] = "xyz";
  static const uint32_t most_grid[3] = {0x7FFFFFFF, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  bool explicit_cluster = p->reqnctapercluster[0] > 0,
       asked = in->cluster[0] * in->cluster[1] * in->cluster[2] > 1;
  for (int i = 0; i < 3; i++) {
    l->grid[i] = in->grid[i];
    l->block[i] = in->block[i];
    l->cluster_dim[i] = asked ? in->cluster[i] : explicit_cluster ? p->reqnctapercluster[i] : 1;
    if (l->cluster_dim[i] == 0) l->cluster_dim[i] = 1;
    if (in->grid[i] < 1 || in->grid[i] > most_grid[i])
      return refuse_launch(e, p, err, "grid.%c is %u, not in 1..%u", axis[i], in->grid[i], most_grid[i]);
    if (in->block[i] < 1 || in->block[i] > most_block[i])
      return refuse_launch(e, p, err, "block.%c is %u, not in 1..%u", axis[i], in->block[i], most_block[i]);
    if (p->reqntid[0] > 0 && in->block[i] != p->reqntid[i])
      return refuse_launch(e, p, err, "block.%c is %u, but .reqntid asks for %u", axis[i], in->block[i],
                           p->reqntid[i]);
    if (asked && explicit_cluster && in->cluster[i] != p->reqnctapercluster[i])
      return refuse_launch(e, p, err, "cluster.%c is %u, but .reqnctapercluster asks for %u", axis[i],
                           in->cluster[i], p->reqnctapercluster[i]);
    if (in->grid[i] % l->cluster_dim[i] != 0)
      return refuse_launch(e, p, err, "grid.%c is %u, not a multiple of the cluster's %u", axis[i],
                           in->grid[i], l->cluster_dim[i]);
  }
  uint64_t threads = (uint64_t)in->block[0] * in->block[1] * in->block[2];
  uint64_t most = p->maxntid[0] > 0 ? emu_product(p->maxntid) : EMU_MAX_THREADS;
  if (threads > EMU_MAX_THREADS || threads > most)
    return refuse_launch(e, p, err, "%llu threads a CTA, more than %llu", (unsigned long long)threads,
                         (unsigned long long)(most < EMU_MAX_THREADS ? most : EMU_MAX_THREADS));
  bool newer = emu_has_clusters(e->cc_major, e->cc_minor);
  if (emu_product(l->cluster_dim) > 1 && !newer)
    return refuse_launch(e, p, err, "%s has no clusters", e->target);
  if (in->early_start && !newer) return refuse_launch(e, p, err, "%s starts no launch early", e->target);
  if (emu_product(l->cluster_dim) > EMU_MAX_CLUSTER)
    return refuse_launch(e, p, err, "a cluster of %u CTAs, more than %d", emu_product(l->cluster_dim),
                         EMU_MAX_CLUSTER);
  if (in->smem_bytes > k->smem_bytes)
    return refuse_launch(e, p, err, "%u bytes of dynamic shared memory, but the kernel was prepared for %u",
                         in->smem_bytes, k->smem_bytes);
  if (in->n_args < 0 || (uint32_t)in->n_args != p->n_params)
    return refuse_launch(e, p, err, "%d arguments for %u parameters", in->n_args, p->n_params);
  for (int i = 0; i < in->n_args; i++) {
    if (in->args == NULL || in->args[i] == NULL) return refuse_launch(e, p, err, "argument %d is missing", i);
  }
  l->threads = (uint32_t)threads;
  return ARKE_OK;
}

static arke_status launch_locked(emulator *e, device_kernel *k, const device_launch *in, arke_error *err) {
  const ptx_kernel *p = k->kernel;
  emu_launch l;
  memset(&l, 0, sizeof l);
  memset(&e->report, 0, sizeof e->report);
  TRY(check_launch(e, k, in, &l, err));
  uint8_t *params = calloc(1, p->param_bytes + 64);
  if (params == NULL) return error_memory(err, "emulator");
  for (uint32_t i = 0; i < p->n_params; i++)
    memcpy(params + p->params[i].offset, in->args[i], p->params[i].bytes);
  l.module = k->module->program;
  l.kernel = p;
  l.memory = &e->memory;
  l.symbol_address = k->symbol_address;
  l.params = params;
  l.smem_dynamic = in->smem_bytes;
  l.early_start = in->early_start;
  l.smem_window = EMU_SMEM_RESERVED + k->static_bytes + in->smem_bytes;
  l.local_bytes = k->local_bytes;
  l.registers_per_thread = emu_registers_per_thread(p, l.threads);
  l.wgmma_slot = k->wgmma_slot;
  l.touches_wgmma = k->touches_wgmma;
  l.instruction_limit = e->instruction_limit;
  l.seed = e->seed;
  l.sm_count = e->sm_count;
  l.report = &e->report;
  arke_status status = emu_run(&l, err);
  free(params);
  const emu_allocation *damaged = emu_memory_damaged(&e->memory);
  if (damaged != NULL)
    return error_set(err, ARKE_ERR_INTERNAL, "emulator", "memory around %s was overwritten unnoticed",
                     damaged->name);
  return status;
}

arke_status emu_device_launch(device *d, device_kernel *k, const device_launch *in, arke_error *err) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  arke_status status = launch_locked(e, k, in, err);
  pthread_mutex_unlock(&e->lock);
  return status;
}
