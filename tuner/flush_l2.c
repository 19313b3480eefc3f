#include "tuner/flush_l2.h"

#include <stdlib.h>

#define L2S          2
#define READ_THREADS 1024
#define CTA_BYTES    (READ_THREADS * 16 * 4)
#define NOTHING      "nothing"
#define READS        "read_four"

/* Old enough for every driver that runs any target's kernels. Volatile loads are not left out though nobody
 * looks at what they bring. */
static const char PTX[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry " NOTHING "()\n{\nret;\n}\n"
                          ".visible .entry " READS "(.param .u64 from)\n{\n"
                          ".reg .b32 %r<18>;\n.reg .b64 %rd<2>;\n"
                          "ld.param.u64 %rd0, [from];\n"
                          "mov.u32 %r0, %ctaid.x;\n"
                          "mov.u32 %r1, %tid.x;\n"
                          "mad.lo.u32 %r0, %r0, 4096, %r1;\n"
                          "mul.wide.u32 %rd1, %r0, 16;\n"
                          "add.u64 %rd0, %rd0, %rd1;\n"
                          "ld.volatile.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0];\n"
                          "ld.volatile.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd0+16384];\n"
                          "ld.volatile.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd0+32768];\n"
                          "ld.volatile.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd0+49152];\n"
                          "ret;\n}\n";

typedef struct flush_kernels {
  device *dev;
  device_module *module;
  device_kernel *nothing, *reads;
} flush_kernels;

static void release(void *user) {
  flush_kernels *k = user;
  if (k->module) k->dev->ops->module_unload(k->dev, k->module);
  free(k);
}

static arke_status load(device *dev, flush_kernels **out, arke_error *err) {
  flush_kernels *k = calloc(1, sizeof *k);
  if (!k) return error_memory(err, "flush");
  k->dev = dev;
  arke_status status = dev->ops->module_load(dev, PTX, sizeof PTX - 1, &k->module, err);
  if (status == ARKE_OK) status = dev->ops->kernel_get(dev, k->module, NOTHING, 0, &k->nothing, err);
  if (status == ARKE_OK) status = dev->ops->kernel_get(dev, k->module, READS, 0, &k->reads, err);
  if (status == ARKE_OK)
    *out = k;
  else
    release(k);
  return status;
}

static arke_status enqueue_nothing(void *user, int set, void *stream, arke_error *err) {
  (void)set;
  const flush_kernels *k = user;
  device_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}, .stream = stream};
  return k->dev->ops->launch(k->dev, k->nothing, &l, err);
}

static arke_status enqueue_reads(void *user, device_ptr p, size_t bytes, void *stream, arke_error *err) {
  const flush_kernels *k = user;
  void *args[] = {&p};
  device_launch l = {.grid = {(uint32_t)(bytes / CTA_BYTES), 1, 1},
                     .block = {READ_THREADS, 1, 1},
                     .cluster = {1, 1, 1},
                     .args = args,
                     .n_args = 1,
                     .stream = stream};
  return l.grid[0] > 0 ? k->dev->ops->launch(k->dev, k->reads, &l, err) : ARKE_OK;
}

static tune_flush_reader reader_of(flush_kernels *k) {
  return (tune_flush_reader){.read = enqueue_reads, .release = release, .user = k};
}

arke_status tune_flush_reader_open(device *dev, tune_flush_reader *reader, arke_error *err) {
  flush_kernels *k = NULL;
  TRY(load(dev, &k, err));
  *reader = reader_of(k);
  return ARKE_OK;
}

arke_status tune_flush_l2(tune_meter *m, int64_t l2_bytes, arke_error *err) {
  flush_kernels *k = NULL;
  size_t bytes = L2S * (size_t)l2_bytes;
  if (load(m->dev, &k, NULL) != ARKE_OK)
    return tune_meter_flush_before(m, bytes, (tune_flush_reader){0}, NULL, err);
  tune_runnable nothing = {.enqueue = enqueue_nothing, .user = k, .n_sets = 1};
  return tune_meter_flush_before(m, bytes, reader_of(k), &nothing, err);
}
