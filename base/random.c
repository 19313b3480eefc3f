#include "base/random.h"

#include <math.h>

uint64_t random_u64(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double random_uniform(uint64_t seed, uint64_t counter) {
  return (double)(random_u64(seed, counter) >> 11) * 0x1p-53;
}

double random_normal(uint64_t seed, uint64_t counter) {
  double u = 1.0 - random_uniform(seed, 2 * counter); /* in (0, 1]: its logarithm is finite */
  double v = random_uniform(seed, 2 * counter + 1);
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
