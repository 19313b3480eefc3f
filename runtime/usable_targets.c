#include "runtime/usable_targets.h"

static const struct {
  const char *name;
  int major, minor;
  bool exact;
} TABLE[] = {
#define X(name, major, minor, exact) {name, major, minor, exact},
    USABLE_TARGETS(X)
#undef X
};

static bool runs(int i, const device_info *info) {
  if (info->kind == ARKE_DEVICE_EMULATOR) return true;
  if (TABLE[i].exact) return info->cc_major == TABLE[i].major && info->cc_minor == TABLE[i].minor;
  return info->cc_major > TABLE[i].major ||
         (info->cc_major == TABLE[i].major && info->cc_minor >= TABLE[i].minor);
}

int usable_targets(const device_info *info, usable_target targets[USABLE_TARGET_COUNT]) {
  int n = 0;
  for (int i = 0; i < USABLE_TARGET_COUNT; i++)
    if (runs(i, info)) targets[n++] = (usable_target){.name = TABLE[i].name, .index = i};
  return n;
}
