#include "tuner/flush_l2.h"

#define L2S 2

/* Old enough for every driver that runs any target's kernels. */
static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

typedef struct empty_kernel {
  device *dev;
  device_module *module;
  device_kernel *kernel;
} empty_kernel;

static void unload(empty_kernel *k) {
  if (k->module) k->dev->ops->module_unload(k->dev, k->module);
  k->module = NULL;
}

static bool load(device *dev, empty_kernel *k) {
  *k = (empty_kernel){.dev = dev};
  if (dev->ops->module_load(dev, PTX, sizeof PTX - 1, &k->module, NULL) != ARKE_OK) return false;
  if (dev->ops->kernel_get(dev, k->module, "nothing", 0, &k->kernel, NULL) == ARKE_OK) return true;
  unload(k);
  return false;
}

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  (void)set;
  const empty_kernel *k = user;
  device_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}, .stream = stream};
  return k->dev->ops->launch(k->dev, k->kernel, &l, err);
}

arke_status tune_flush_l2(tune_meter *m, int64_t l2_bytes, arke_error *err) {
  empty_kernel k;
  bool loaded = load(m->dev, &k);
  tune_runnable nothing = {.enqueue = enqueue, .user = &k, .n_sets = 1};
  arke_status status = tune_meter_flush_before(m, L2S * (size_t)l2_bytes, loaded ? &nothing : NULL, err);
  if (loaded) unload(&k);
  return status;
}
