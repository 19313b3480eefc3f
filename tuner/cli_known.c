#include "tuner/cli_known.h"

#include <string.h>

bool cli_known_settles(const cache_entry *e, const char *bucket, const tune_options *o,
                       const cache_environment *here, bool measures) {
  if (strcmp(e->problem.bucket, bucket) != 0) return false;
  bool measured = e->winner.origin == CACHE_ORIGIN_MEASURED;
  if (measured != measures) return measured;
  return strcmp(e->environment.device, here->device) == 0 &&
         strcmp(e->environment.generator, here->generator) == 0 && tune_search_is_whole(o, e->winner.policy);
}
