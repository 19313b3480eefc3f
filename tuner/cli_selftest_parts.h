/* The selftest's parts, and where they leave what they find. Only cli_selftest*.c include this. */
#ifndef ARKE_TUNER_CLI_SELFTEST_PARTS_H
#define ARKE_TUNER_CLI_SELFTEST_PARTS_H

#include "runtime/device.h"
#include "tuner/cli_live_report.h"
#include "tuner/cli_problem.h"
#include "tuner/cli_scratch.h"
#include "tuner/cli_settings.h"

/* How often a part that is under way writes the report's file. */
#define CLI_SELFTEST_SAVE_S 2.0

/* The device under test, and where results are gathered. */
typedef struct cli_selftest {
  const cli_settings *settings;
  arke_device_kind kind;
  const target *target;
  device_info info;
  cli_scratch scratch; /* for cache files */
  int failed;          /* parts that failed */
  cli_live_report report;
} cli_selftest;

/* One part's outcome, for both forms of the report; `more` stands below it. */
void cli_selftest_tell(cli_selftest *t, const char *part, bool passed, const char *more, const char *format,
                       ...) __attribute__((format(printf, 5, 6)));
/* Puts what a part found into the report, and that into its file. */
void cli_selftest_keep(cli_selftest *t, const char *part, json_t *found, double every_s);

/* Each part tells its outcome; a status but ARKE_OK ends the selftest. */

/* Kernels on the device and on the emulator, bit for bit. */
arke_status cli_selftest_fidelity(cli_selftest *t, arke_error *err);
/* A kernel that is tuned, and then planned and run as an inference process does. */
arke_status cli_selftest_runtime(cli_selftest *t, const cli_problem *p, const char *name, arke_error *err);
/* Kernels with faults, each of which must cost one candidate. */
arke_status cli_selftest_planted(cli_selftest *t, const cli_problem *p, arke_error *err);
/* Every operator, or some. */
arke_status cli_selftest_operators(cli_selftest *t, arke_error *err);

#endif
