/* Counter-based random numbers: the same on every machine, any element on demand (SplitMix64's finaliser,
 * Steele et al. 2014). */
#ifndef ARKE_BASE_RANDOM_H
#define ARKE_BASE_RANDOM_H

#include <stdint.h>

uint64_t random_u64(uint64_t seed, uint64_t counter);
/* Uniform in [0, 1). */
double random_uniform(uint64_t seed, uint64_t counter);
/* Standard normal (Box-Muller). */
double random_normal(uint64_t seed, uint64_t counter);

#endif
