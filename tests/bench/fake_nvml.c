/* A stand-in for NVIDIA's management library: one GPU, which draws 7.5 J between two readings. */
#include "bench/nvml_api.h"

#include <string.h>

#define X(member, symbol, result, parameters) result symbol parameters;
NVML_FUNCTIONS(X)
#undef X

static int started;
static unsigned long long drawn;

nvml_result nvmlInit_v2(void) {
  started++;
  return 0;
}
nvml_result nvmlShutdown(void) {
  started--;
  return 0;
}
const char *nvmlErrorString(nvml_result r) {
  return r == 6 ? "Not Found" : "Not Supported";
}
nvml_result nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvml_device *d) {
  *d = (nvml_device)(void *)&drawn;
  if (started != 1) return 1;
  return strcmp(bus, "0000:1b:00.0") == 0 || strcmp(bus, "0000:1c:00.0") == 0 ? 0 : 6;
}
nvml_result nvmlDeviceGetTotalEnergyConsumption(nvml_device d, unsigned long long *millijoules) {
  *millijoules = drawn += 7500;
  return d == (nvml_device)(void *)&drawn ? 0 : 3;
}
nvml_result nvmlDeviceGetClockInfo(nvml_device d, int which, unsigned *megahertz) {
  *megahertz = 1755;
  return d != NULL && which == NVML_CLOCK_SM ? 0 : 3;
}
