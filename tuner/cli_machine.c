#include "tuner/cli_machine.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tuner/cli_report.h"

json_t *cli_machine_json(const device_info *info) {
  char cuda[32] = "";
  if (info->driver_version > 0)
    snprintf(cuda, sizeof cuda, "%d.%d", info->driver_version / 1000, info->driver_version % 1000 / 10);
  return json_pack("{s:o, s:o, s:s, s:i, s:I, s:I, s:i, s:i}", "name", cli_json_text(info->name), "driver",
                   cli_json_text(info->driver_text), "cuda", cuda, "sm_count", info->sm_count, "l2_bytes",
                   (json_int_t)info->l2_bytes, "memory_bytes", (json_int_t)info->memory_bytes, "clock_khz",
                   info->clock_khz, "memory_clock_khz", info->memory_clock_khz);
}

/* --- NVML -------------------------------------------------------------------------------------------- */

/* Own declarations of the few functions used (NVML API reference); a device is an opaque pointer. */
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

typedef struct nvml {
  void *library;
  int (*init)(void), (*shutdown)(void);
  int (*by_index)(unsigned index, void **device);
  int (*clock)(void *device, int type, unsigned *mhz);
  int (*power)(void *device, unsigned *milliwatts), (*power_limit)(void *device, unsigned *milliwatts);
  int (*temperature)(void *device, int sensor, unsigned *celsius);
} nvml;

static int nvml_open(nvml *n) {
  *n = (nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (n->library == NULL) return 0;
  const struct {
    void **function;
    const char *name;
  } symbols[] = {{(void **)&n->init, "nvmlInit_v2"},
                 {(void **)&n->shutdown, "nvmlShutdown"},
                 {(void **)&n->by_index, "nvmlDeviceGetHandleByIndex_v2"},
                 {(void **)&n->clock, "nvmlDeviceGetClockInfo"},
                 {(void **)&n->power, "nvmlDeviceGetPowerUsage"},
                 {(void **)&n->power_limit, "nvmlDeviceGetEnforcedPowerLimit"},
                 {(void **)&n->temperature, "nvmlDeviceGetTemperature"}};
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    *symbols[i].function = dlsym(n->library, symbols[i].name);
    if (*symbols[i].function == NULL) goto fail;
  }
  if (n->init() == 0) return 1;
fail:
  dlclose(n->library);
  return 0;
}

static json_t *maybe(int status, unsigned value, double unit) {
  return status == 0 ? json_real(value * unit) : json_null();
}

json_t *cli_clocks_json(int index) {
  nvml n;
  void *gpu;
  if (!nvml_open(&n)) return json_null();
  json_t *clocks = json_null();
  if (n.by_index((unsigned)index, &gpu) == 0) {
    unsigned sm = 0, memory = 0, power = 0, limit = 0, celsius = 0;
    int got_sm = n.clock(gpu, NVML_CLOCK_SM, &sm), got_memory = n.clock(gpu, NVML_CLOCK_MEMORY, &memory);
    int got_power = n.power(gpu, &power), got_limit = n.power_limit(gpu, &limit);
    int got_celsius = n.temperature(gpu, NVML_TEMPERATURE_GPU, &celsius);
    clocks =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "sm_mhz", maybe(got_sm, sm, 1), "memory_mhz",
                  maybe(got_memory, memory, 1), "power_w", maybe(got_power, power, 1e-3), "power_limit_w",
                  maybe(got_limit, limit, 1e-3), "temperature_c", maybe(got_celsius, celsius, 1));
  }
  n.shutdown();
  dlclose(n.library);
  return clocks;
}

/* --- date and host ----------------------------------------------------------------------------------- */

json_t *cli_date_json(void) {
  char text[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc) != NULL) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json_string(text);
}

int cli_usable_cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

json_t *cli_host_json(void) {
  char line[256], processor[256] = "";
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file != NULL && processor[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    colon += 1 + strspn(colon + 1, " ");
    snprintf(processor, sizeof processor, "%.*s", (int)strcspn(colon, "\n"), colon);
  }
  if (file != NULL) fclose(file);
  return json_pack("{s:o, s:i}", "processor", cli_json_text(processor), "cores", cli_usable_cores());
}
