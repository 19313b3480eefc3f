/* The part of NVIDIA's management library that the power meter uses, declared anew (NVML API reference,
 * libnvidia-ml.so.1, which comes with the driver). */
#ifndef ARKE_BENCH_NVML_API_H
#define ARKE_BENCH_NVML_API_H

typedef int nvml_result; /* 0: success */
typedef struct nvml_device_ *nvml_device;

enum { NVML_CLOCK_SM = 1 };

/* X(member, symbol, result, parameters) */
#define NVML_FUNCTIONS(X)                                                                                    \
  X(init, nvmlInit_v2, nvml_result, (void))                                                                  \
  X(shutdown, nvmlShutdown, nvml_result, (void))                                                             \
  X(error_text, nvmlErrorString, const char *, (nvml_result))                                                \
  X(by_bus, nvmlDeviceGetHandleByPciBusId_v2, nvml_result, (const char *bus, nvml_device *))                 \
  X(energy, nvmlDeviceGetTotalEnergyConsumption, nvml_result,                                                \
    (nvml_device, unsigned long long *millijoules))                                                          \
  X(clock, nvmlDeviceGetClockInfo, nvml_result, (nvml_device, int which, unsigned *megahertz))

typedef struct nvml_api {
#define X(member, symbol, result, parameters) result(*member) parameters;
  NVML_FUNCTIONS(X)
#undef X
} nvml_api;

#endif
