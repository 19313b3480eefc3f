#include "bench/power_meter.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "bench/nvml_api.h"

#define STAGE "power"

struct power_meter {
  void *object;
  bool started;
  nvml_api api;
  nvml_device device;
};

static arke_status check(const power_meter *m, nvml_result r, const char *what, arke_error *err) {
  if (r == 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s: %s", what, m->api.error_text(r));
}

static arke_status resolve(power_meter *m, arke_error *err) {
#define X(member, symbol, result, parameters)                                                                \
  *(void **)(void *)&m->api.member = dlsym(m->object, #symbol);                                              \
  if (m->api.member == NULL)                                                                                 \
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "the management library has no function %s", #symbol);
  NVML_FUNCTIONS(X)
#undef X
  return ARKE_OK;
}

static arke_status start(power_meter *m, const char *library, const char *bus, arke_error *err) {
  const char *path = library ? library : "libnvidia-ml.so.1";
  double joules, megahertz;
  m->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (m->object == NULL)
    return error_set(err, ARKE_ERR_NOT_FOUND, STAGE, "there is no management library: %s", dlerror());
  TRY(resolve(m, err));
  TRY(check(m, m->api.init(), "nvmlInit_v2", err));
  m->started = true;
  TRY(check(m, m->api.by_bus(bus, &m->device), "nvmlDeviceGetHandleByPciBusId_v2", err));
  return power_meter_read(m, &joules, &megahertz, err);
}

arke_status power_meter_open(const char *library, const char *bus, power_meter **m, arke_error *err) {
  *m = calloc(1, sizeof **m);
  if (*m == NULL) return error_memory(err, STAGE);
  arke_status status = start(*m, library, bus, err);
  if (status != ARKE_OK) {
    power_meter_close(*m);
    *m = NULL;
  }
  return status;
}

void power_meter_close(power_meter *m) {
  if (m == NULL) return;
  if (m->started) m->api.shutdown();
  if (m->object != NULL) dlclose(m->object);
  free(m);
}

arke_status power_meter_read(const power_meter *m, double *joules, double *megahertz, arke_error *err) {
  unsigned long long millijoules;
  unsigned clock;
  TRY(check(m, m->api.energy(m->device, &millijoules), "nvmlDeviceGetTotalEnergyConsumption", err));
  TRY(check(m, m->api.clock(m->device, NVML_CLOCK_SM, &clock), "nvmlDeviceGetClockInfo", err));
  *joules = (double)millijoules * 1e-3;
  *megahertz = clock;
  return ARKE_OK;
}
