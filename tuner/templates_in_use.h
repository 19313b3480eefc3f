/* The templates a session or a worker chooses from: its own list, or those of templates/. */
#ifndef ARKE_TUNER_TEMPLATES_IN_USE_H
#define ARKE_TUNER_TEMPLATES_IN_USE_H

#include <string.h>

#include "tuner/tune.h"

static inline int tune_templates_count(const tune_templates *t) {
  return t ? t->count : template_count();
}

static inline const kernel_template *tune_templates_get(const tune_templates *t, int i) {
  return t ? t->list[i] : template_get(i);
}

/* NULL if there is none of that name. */
static inline const kernel_template *tune_templates_find(const tune_templates *t, const char *name) {
  for (int i = 0; i < tune_templates_count(t); i++)
    if (strcmp(tune_templates_get(t, i)->name, name) == 0) return tune_templates_get(t, i);
  return NULL;
}

#endif
