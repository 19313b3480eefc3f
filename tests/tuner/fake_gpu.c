#include "tests/tuner/fake_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tuner/fake_device.h"
#include "tests/tuner/planted.h"

typedef struct fake_gpu {
  device base;
  device *emulator;
  fake_device clock; /* events, graphs and times */
  bool lost;
  device_module *endless; /* the last one that was loaded with a loop in it, and its kernel */
  device_kernel *hangs;
} fake_gpu;

static fake_gpu *gpu(device *d) {
  return (fake_gpu *)d;
}

static arke_status lost(arke_error *err) {
  return error_set(err, ARKE_ERR_DRIVER, "fake", "the context was destroyed by an earlier fault");
}

/* Whatever is asked after a fault fails. */
#define FORWARD(d, call)                                                                                     \
  do {                                                                                                       \
    if (gpu(d)->lost) return lost(err);                                                                      \
    device *e = gpu(d)->emulator;                                                                            \
    return e->ops->call;                                                                                     \
  } while (0)

static void gpu_close(device *d) {
  gpu(d)->emulator->ops->close(gpu(d)->emulator);
  free(d);
}

static arke_status gpu_info(device *d, device_info *info, arke_error *err) {
  const char *mode = getenv(PLANTED_GPU);
  TRY(gpu(d)->emulator->ops->info(gpu(d)->emulator, info, err));
  info->kind = ARKE_DEVICE_CUDA;
  snprintf(info->name, sizeof info->name, "%s", FAKE_GPU_NAME);
  snprintf(info->driver_text, sizeof info->driver_text, "1.2.3");
  info->driver_version = 13000;
  info->cc_major = 9;
  info->cc_minor = 0;
  info->l2_bytes = 1 << 16;
  if (mode && strcmp(mode, "arithmetic") == 0) { /* memory of 10^17 bytes a second leaves that as the bound */
    info->memory_clock_khz = 1000000000;
    info->memory_bus_bits = 1000000;
  }
  info->can_measure = true;
  return ARKE_OK;
}

static arke_status gpu_mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  const char *mode = getenv(PLANTED_GPU);
  if (mode && strcmp(mode, "full") == 0 && (strcmp(name, "proof") == 0 || strcmp(name, "flush") == 0))
    return error_set(err, ARKE_ERR_MEMORY, "fake", "the memory is full");
  FORWARD(d, mem_alloc(e, bytes, name, p, err));
}

static void gpu_mem_free(device *d, device_ptr p) {
  gpu(d)->emulator->ops->mem_free(gpu(d)->emulator, p);
}

static arke_status gpu_copy_in(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err) {
  FORWARD(d, copy_in(e, to, from, bytes, err));
}

static arke_status gpu_copy_out(device *d, void *to, device_ptr from, size_t bytes, arke_error *err) {
  FORWARD(d, copy_out(e, to, from, bytes, err));
}

static arke_status gpu_copy(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err) {
  FORWARD(d, copy(e, to, from, bytes, err));
}

static arke_status gpu_fill(device *d, device_ptr p, int byte, size_t bytes, arke_error *err) {
  FORWARD(d, fill(e, p, byte, bytes, err));
}

static arke_status gpu_module_load(device *d, const void *image, size_t bytes, device_module **m,
                                   arke_error *err) {
  fake_gpu *g = gpu(d);
  if (g->lost) return lost(err);
  TRY(g->emulator->ops->module_load(g->emulator, image, bytes, m, err));
  if (memmem(image, bytes, PLANTED_LOOP, strlen(PLANTED_LOOP))) g->endless = *m;
  return ARKE_OK;
}

static void gpu_module_unload(device *d, device_module *m) {
  fake_gpu *g = gpu(d);
  if (m == g->endless) g->endless = NULL, g->hangs = NULL;
  g->emulator->ops->module_unload(g->emulator, m);
}

static arke_status gpu_kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                                  device_kernel **k, arke_error *err) {
  fake_gpu *g = gpu(d);
  if (g->lost) return lost(err);
  TRY(g->emulator->ops->kernel_get(g->emulator, m, name, smem_bytes, k, err));
  if (m == g->endless) g->hangs = *k;
  return ARKE_OK;
}

static arke_status gpu_kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err) {
  FORWARD(d, kernel_info(e, k, info, err));
}

static arke_status gpu_launch(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  fake_gpu *g = gpu(d);
  if (g->lost) return lost(err);
  while (k == g->hangs) pause();   /* the host waits; the emulator would count to the time limit */
  bool nothing = l->block[0] == 1; /* the meter's empty kernel */
  fake_kernel timed =
      nothing ? (fake_kernel){.true_ns = 1e3} : planted_times(l->block[0], (int)l->smem_bytes / 16);
  if (l->stream) return g->clock.base.ops->launch(&g->clock.base, (device_kernel *)&timed, l, err);
  arke_error fault = ARKE_ERROR_INIT;
  if (g->emulator->ops->launch(g->emulator, k, l, &fault) == ARKE_OK) return ARKE_OK;
  g->lost = true; /* asynchronous: the launch itself succeeds, the next synchronisation tells */
  return ARKE_OK;
}

static arke_status gpu_synchronize(device *d, arke_error *err) {
  return gpu(d)->lost ? error_set(err, ARKE_ERR_FAULT, "fake", "an illegal memory access was encountered")
                      : ARKE_OK;
}

#define CLOCK(name, params, args)                                                                            \
  static arke_status gpu_##name params {                                                                     \
    if (gpu(d)->lost) return lost(err);                                                                      \
    device *c = &gpu(d)->clock.base;                                                                         \
    return c->ops->name args;                                                                                \
  }
CLOCK(stream_create, (device * d, void **s, arke_error *err), (c, s, err))
CLOCK(stream_fill, (device * d, device_ptr p, int byte, size_t n, void *s, arke_error *err),
      (c, p, byte, n, s, err))
CLOCK(event_create, (device * d, void **v, arke_error *err), (c, v, err))
CLOCK(event_record, (device * d, void *v, void *s, arke_error *err), (c, v, s, err))
CLOCK(event_elapsed, (device * d, void *b, void *v, double *ns, arke_error *err), (c, b, v, ns, err))
CLOCK(graph_begin, (device * d, void *s, arke_error *err), (c, s, err))
CLOCK(graph_end, (device * d, void *s, void **g, arke_error *err), (c, s, g, err))
CLOCK(graph_launch, (device * d, void *g, void *s, arke_error *err), (c, g, s, err))

static void gpu_stream_destroy(device *d, void *s) {
  gpu(d)->clock.base.ops->stream_destroy(&gpu(d)->clock.base, s);
}

static void gpu_event_destroy(device *d, void *v) {
  gpu(d)->clock.base.ops->event_destroy(&gpu(d)->clock.base, v);
}

static void gpu_graph_destroy(device *d, void *g) {
  gpu(d)->clock.base.ops->graph_destroy(&gpu(d)->clock.base, g);
}

static const device_ops gpu_ops = {.close = gpu_close,
                                   .info = gpu_info,
                                   .mem_alloc = gpu_mem_alloc,
                                   .mem_free = gpu_mem_free,
                                   .copy_in = gpu_copy_in,
                                   .copy_out = gpu_copy_out,
                                   .copy = gpu_copy,
                                   .fill = gpu_fill,
                                   .module_load = gpu_module_load,
                                   .module_unload = gpu_module_unload,
                                   .kernel_get = gpu_kernel_get,
                                   .kernel_info = gpu_kernel_info,
                                   .launch = gpu_launch,
                                   .synchronize = gpu_synchronize,
                                   .stream_create = gpu_stream_create,
                                   .stream_destroy = gpu_stream_destroy,
                                   .stream_fill = gpu_stream_fill,
                                   .event_create = gpu_event_create,
                                   .event_destroy = gpu_event_destroy,
                                   .event_record = gpu_event_record,
                                   .event_elapsed = gpu_event_elapsed,
                                   .graph_begin = gpu_graph_begin,
                                   .graph_end = gpu_graph_end,
                                   .graph_launch = gpu_graph_launch,
                                   .graph_destroy = gpu_graph_destroy};

arke_status fake_gpu_open(int index, device **d, arke_error *err) {
  const char *mode = getenv(PLANTED_GPU);
  if (mode && strcmp(mode, "dies") == 0) _exit(9);
  if (index != 0 || (mode && strcmp(mode, "none") == 0))
    return error_set(err, ARKE_ERR_DEVICE, "fake", "there is no GPU %d", index);
  fake_gpu *g = calloc(1, sizeof *g);
  if (!g) return error_memory(err, "fake");
  g->base.ops = &gpu_ops;
  fake_device_init(&g->clock, (uint64_t)getpid());
  arke_status status = device_open_emulator("sm_90a", 1, &g->emulator, err);
  if (status != ARKE_OK) {
    free(g);
    return status;
  }
  *d = &g->base;
  return ARKE_OK;
}
