/* The record that makes a figure honest: device, driver, clocks, date. */
#ifndef ARKE_TUNER_CLI_MACHINE_H
#define ARKE_TUNER_CLI_MACHINE_H

#include <jansson.h>

#include "runtime/device.h"

/* {"name", "driver", "cuda", "sm_count", "l2_bytes", "memory_bytes", "clock_khz", "memory_clock_khz"}. */
json_t *cli_machine_json(const device_info *info);
/* What NVML says now: {"sm_mhz", "memory_mhz", "power_w", "power_limit_w", "temperature_c"}, each null where
 * it does not say; null without NVML. `index` counts as NVML does, without CUDA_VISIBLE_DEVICES. */
json_t *cli_clocks_json(int index);
/* "2025-01-31T12:00:00Z". */
json_t *cli_date_json(void);
/* The host's processor and its number of usable cores: {"processor", "cores"}. */
json_t *cli_host_json(void);
int cli_usable_cores(void);

#endif
