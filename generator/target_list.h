/* The targets this build knows: one line a target, one file a target (target_<name>.c). */
#ifndef ARKE_GENERATOR_TARGET_LIST_H
#define ARKE_GENERATOR_TARGET_LIST_H

#include "generator/target.h"

/* X(name), best first among those a GPU could run. */
#define TARGETS(X) X(sm_100a) X(sm_90a) X(sm_89) X(sm_86) X(sm_80)

#define X(name) extern const target target_##name;
TARGETS(X)
#undef X

#endif
