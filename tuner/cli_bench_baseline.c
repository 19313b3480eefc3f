#include "tuner/cli_bench_parts.h"

arke_status cli_bench_baseline(bench *b, arke_error *err) {
  return error_set(err, ARKE_ERR_UNSUPPORTED, "bench", "this build of Arke cannot load %s",
                   b->settings->line->texts[CLI_OPT_BASELINE]);
}
