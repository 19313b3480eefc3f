#include "generator/target_list.h"

#include <string.h>

#include "base/text.h"

static const target *const targets[] = {
#define X(name) &target_##name,
    TARGETS(X)
#undef X
};

int target_count(void) {
  return (int)COUNT_OF(targets);
}

const target *target_get(int i) {
  return targets[i];
}

const target *target_find(const char *name, const char **nearest) {
  const char *names[COUNT_OF(targets)];
  if (nearest) *nearest = NULL;
  for (size_t i = 0; i < COUNT_OF(targets); i++) {
    if (strcmp(targets[i]->name, name) == 0) return targets[i];
    names[i] = targets[i]->name;
  }
  if (nearest) *nearest = text_nearest(name, names, COUNT_OF(targets));
  return NULL;
}

/* An exact target runs on its own compute capability alone; the others also on any newer one. */
static bool runs_on(const target *t, int major, int minor) {
  int device = major * 10 + minor, own = t->cc_major * 10 + t->cc_minor;
  return t->exact_cc ? device == own : device >= own;
}

const target *target_for_cc(int major, int minor) {
  for (size_t i = 0; i < COUNT_OF(targets); i++) {
    if (runs_on(targets[i], major, minor)) return targets[i];
  }
  return NULL;
}
