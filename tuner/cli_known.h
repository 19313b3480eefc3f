/* What a sweep need not tune, since the cache holds it. */
#ifndef ARKE_TUNER_CLI_KNOWN_H
#define ARKE_TUNER_CLI_KNOWN_H

#include "cache/cache.h"
#include "tuner/tune.h"

/* Whether an entry of a problem stands for all that a search with these options could find here: it has the
 * bucket, and is the outcome of a whole search on this device by this generator. Or it was measured and the
 * device at hand does not measure (`measures`): nothing that a model says would replace it. */
bool cli_known_settles(const cache_entry *e, const char *bucket, const tune_options *o,
                       const cache_environment *here, bool measures);

#endif
