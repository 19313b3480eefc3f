#include "tuner/empty_kernel.h"

/* Old enough for every driver that runs any target's kernels. */
static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

arke_status tune_empty_kernel_load(device *dev, tune_empty_kernel *k, arke_error *err) {
  *k = (tune_empty_kernel){.dev = dev};
  TRY(dev->ops->module_load(dev, PTX, sizeof PTX - 1, &k->module, err));
  arke_status status = dev->ops->kernel_get(dev, k->module, "nothing", 0, &k->kernel, err);
  if (status != ARKE_OK) tune_empty_kernel_unload(k);
  return status;
}

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  (void)set;
  const tune_empty_kernel *k = user;
  device_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream};
  return k->dev->ops->launch(k->dev, k->kernel, &l, err);
}

tune_runnable tune_empty_kernel_runnable(tune_empty_kernel *k) {
  return (tune_runnable){.enqueue = enqueue, .user = k, .n_sets = 1};
}

void tune_empty_kernel_unload(tune_empty_kernel *k) {
  if (k->module) k->dev->ops->module_unload(k->dev, k->module);
  *k = (tune_empty_kernel){0};
}
