/* Which targets' kernels a GPU can run: the one list, best first. A target with an "a" runs on exactly its
 * compute capability, others on it and every newer one (PTX ISA, ".target"). */
#ifndef ARKE_RUNTIME_USABLE_TARGETS_H
#define ARKE_RUNTIME_USABLE_TARGETS_H

#include <stdbool.h>

#include "runtime/device.h"

/* X(name, compute capability major, minor, exact) */
#define USABLE_TARGETS(X)                                                                                    \
  X("sm_103a", 10, 3, true)                                                                                  \
  X("sm_100a", 10, 0, true)                                                                                  \
  X("sm_121a", 12, 1, true)                                                                                  \
  X("sm_120a", 12, 0, true)                                                                                  \
  X("sm_110a", 11, 0, true)                                                                                  \
  X("sm_90a", 9, 0, true)                                                                                    \
  X("sm_121", 12, 1, false)                                                                                  \
  X("sm_120", 12, 0, false)                                                                                  \
  X("sm_110", 11, 0, false)                                                                                  \
  X("sm_103", 10, 3, false)                                                                                  \
  X("sm_100", 10, 0, false)                                                                                  \
  X("sm_90", 9, 0, false)                                                                                    \
  X("sm_89", 8, 9, false)                                                                                    \
  X("sm_86", 8, 6, false)                                                                                    \
  X("sm_80", 8, 0, false)

#define X(name, major, minor, exact) +1
enum { USABLE_TARGET_COUNT = USABLE_TARGETS(X) };
#undef X

typedef struct usable_target {
  const char *name;
  int index; /* rank: lower is better */
} usable_target;

/* The targets usable on a device, best first; returns their number. On the emulator: all. */
int usable_targets(const device_info *info, usable_target targets[USABLE_TARGET_COUNT]);

#endif
