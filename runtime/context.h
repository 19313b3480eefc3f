/* Inside libarke: the open caches, the device and the modules that plans share. */
#ifndef ARKE_RUNTIME_CONTEXT_H
#define ARKE_RUNTIME_CONTEXT_H

#include <pthread.h>

#include "base/sha256.h"
#include "cache/cache.h"
#include "runtime/call.h"
#include "runtime/device.h"
#include "runtime/entry_index.h"
#include "runtime/usable_targets.h"

enum { CONTEXT_MAX_CACHES = 2 }; /* the user's, the shipped one */

/* A kernel image on a device. Plans for different sizes share it; guarded by the context's lock. */
typedef struct loaded_module {
  struct loaded_module *next;
  char sha256[SHA256_HEX_SIZE];
  device *device;
  device_module *module;
  int uses;
} loaded_module;

struct arke_context {
  pthread_mutex_t lock; /* planning, modules; launches too on the emulator, which serves one at a time */
  int n_caches;
  cache *caches[CONTEXT_MAX_CACHES];
  bool strict, allow_modelled, fast_math, check_indices;
  device_info info;                       /* of the GPU; of an emulator only its kind */
  device *gpu;                            /* NULL on the emulator */
  device *emulators[USABLE_TARGET_COUNT]; /* opened when a target's entry is first planned */
  int n_targets;
  usable_target targets[USABLE_TARGET_COUNT];
  loaded_module *modules;
  entry_index index;
};

/* The device that runs kernels for a target. The lock is held. */
arke_status context_device(arke_context *ctx, const usable_target *t, device **d, arke_error *err);
call_place context_place(const arke_context *ctx);
/* The entry's image on the device: its cubin, or its PTX where there is none or the driver refuses it. The
 * entry's kernel is loaded. The lock is held; one context_module_release for each. */
arke_status context_module(arke_context *ctx, device *d, const cache_entry *e, loaded_module **m,
                           arke_error *err);
void context_module_release(arke_context *ctx, loaded_module *m);

#endif
