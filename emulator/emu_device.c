/* The emulator as a device: what it claims to be, its memory, and the table of its operations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/emu_device.h"

enum { DEFAULT_SM_COUNT = 4 };
#define DEFAULT_INSTRUCTION_LIMIT (1ull << 33)

static void emulator_close(device *d) {
  if (d == NULL) return;
  emulator *e = emulator_of(d);
  emu_memory_release(&e->memory);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static arke_status emulator_info(device *d, device_info *info, arke_error *err) {
  (void)err;
  const emulator *e = emulator_of(d);
  memset(info, 0, sizeof *info);
  info->kind = ARKE_DEVICE_EMULATOR;
  snprintf(info->name, sizeof info->name, "emulator");
  info->cc_major = e->cc_major;
  info->cc_minor = e->cc_minor;
  info->sm_count = e->sm_count;
  info->smem_per_block_bytes = emu_smem_bytes(e->cc_major, e->cc_minor);
  info->l2_bytes = 50 << 20;
  info->memory_bytes = 1ll << 34;
  return ARKE_OK;
}

static arke_status mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  emulator *e = emulator_of(d);
  emu_allocation *a = NULL;
  pthread_mutex_lock(&e->lock);
  arke_status status = emu_memory_alloc(&e->memory, bytes, name, &a, err);
  *p = status == ARKE_OK ? a->address : 0;
  pthread_mutex_unlock(&e->lock);
  return status;
}

void emu_device_free(device *d, device_ptr p) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  emu_memory_free(&e->memory, p);
  pthread_mutex_unlock(&e->lock);
}

/* Moves bytes in or out, or fills, once the range is known to be ours. */
typedef enum host_access { HOST_WRITE, HOST_READ, HOST_FILL } host_access;

static arke_status access_memory(device *d, host_access what, device_ptr p, void *to, const void *from,
                                 int byte, size_t bytes, arke_error *err) {
  static const char *const verbs[] = {"write", "read", "fill"};
  emulator *e = emulator_of(d);
  if (bytes == 0) return ARKE_OK;
  pthread_mutex_lock(&e->lock);
  emu_allocation *a = emu_memory_range(&e->memory, p, bytes);
  char where[160] = "";
  if (a == NULL)
    emu_memory_describe(&e->memory, p, where, sizeof where);
  else if (what == HOST_READ)
    memcpy(to, (const void *)(uintptr_t)p, bytes);
  else if (what == HOST_WRITE)
    memcpy((void *)(uintptr_t)p, from, bytes);
  else
    memset((void *)(uintptr_t)p, byte, bytes);
  if (a != NULL && what != HOST_READ) emu_memory_mark(a, p, bytes);
  pthread_mutex_unlock(&e->lock);
  if (a != NULL) return ARKE_OK;
  return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "cannot %s %zu bytes at %s", verbs[what], bytes,
                   where);
}

static arke_status copy_in(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_WRITE, to, NULL, from, 0, bytes, err);
}

static arke_status copy_out(device *d, void *to, device_ptr from, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_READ, from, to, NULL, 0, bytes, err);
}

static arke_status copy(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err) {
  emulator *e = emulator_of(d);
  if (bytes == 0) return ARKE_OK;
  pthread_mutex_lock(&e->lock);
  emu_allocation *a = emu_memory_range(&e->memory, to, bytes);
  char where[160] = "";
  if (a == NULL || emu_memory_range(&e->memory, from, bytes) == NULL) {
    emu_memory_describe(&e->memory, a == NULL ? to : from, where, sizeof where);
  } else {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    emu_memory_mark(a, to, bytes);
  }
  pthread_mutex_unlock(&e->lock);
  if (where[0] == '\0') return ARKE_OK;
  return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "cannot copy %zu bytes %s %s", bytes,
                   a == NULL ? "to" : "from", where);
}

static arke_status fill(device *d, device_ptr p, int byte, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_FILL, p, NULL, NULL, byte, bytes, err);
}

static arke_status mem_import(device *d, device_ptr p, size_t bytes, const char *name,
                              device_memory_state state, arke_error *err) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  arke_status status = emu_memory_import(&e->memory, p, bytes, name, state == DEVICE_MEMORY_INITIALISED, err);
  pthread_mutex_unlock(&e->lock);
  return status;
}

static arke_status tensormap_encode(device *d, const device_tensormap_desc *desc, device_tensormap *map,
                                    arke_error *err) {
  const emulator *e = emulator_of(d);
  if (!emu_has_clusters(e->cc_major, e->cc_minor))
    return error_set(err, ARKE_ERR_DEVICE, "emulator", "an emulated %s has no tensor maps", e->target);
  return emu_tensormap_encode(desc, map, err);
}

static arke_status tensormap_set_address(device *d, device_tensormap *map, device_ptr address,
                                         arke_error *err) {
  (void)d;
  return emu_tensormap_set_address(map, address, err);
}

static arke_status synchronize(device *d, arke_error *err) {
  (void)d;
  (void)err;
  return ARKE_OK; /* launches have ended, and reported, when they return */
}

static const device_ops emulator_ops = {
    .close = emulator_close,
    .info = emulator_info,
    .mem_alloc = mem_alloc,
    .mem_free = emu_device_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .fill = fill,
    .mem_import = mem_import,
    .mem_release = emu_device_free,
    .module_load = emu_module_load,
    .module_unload = emu_module_unload,
    .kernel_get = emu_kernel_get,
    .kernel_info = emu_kernel_info,
    .tensormap_encode = tensormap_encode,
    .tensormap_set_address = tensormap_set_address,
    .launch = emu_device_launch,
    .synchronize = synchronize,
};

/* "sm_90a" is 9.0: the last digit is the minor version. */
static bool parse_target(const char *target, int *major, int *minor) {
  int64_t number;
  size_t n = target == NULL ? 0 : strlen(target);
  if (n < 5 || n > 8 || strncmp(target, "sm_", 3) != 0) return false;
  size_t digits = n - 3;
  if (target[n - 1] == 'a' || target[n - 1] == 'f') digits--;
  if (!text_to_i64(target + 3, digits, 10, 999, &number)) return false;
  *major = (int)number / 10;
  *minor = (int)number % 10;
  return true;
}

arke_status device_open_emulator(const char *target, uint64_t seed, device **d, arke_error *err) {
  *d = NULL;
  emulator *e = calloc(1, sizeof *e);
  if (e == NULL) return error_memory(err, "emulator");
  if (!parse_target(target, &e->cc_major, &e->cc_minor)) {
    free(e);
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "target \"%s\" is not of the form sm_90a",
                     target == NULL ? "" : target);
  }
  e->base.ops = &emulator_ops;
  snprintf(e->target, sizeof e->target, "%s", target);
  e->seed = seed;
  e->sm_count = DEFAULT_SM_COUNT;
  e->instruction_limit = DEFAULT_INSTRUCTION_LIMIT;
  pthread_mutex_init(&e->lock, NULL);
  *d = &e->base;
  return ARKE_OK;
}

const emu_report *emu_last_report(const device *d) {
  return &((const emulator *)d)->report;
}

void emu_set_instruction_limit(device *d, uint64_t limit) {
  emulator_of(d)->instruction_limit = limit;
}

void emu_set_sm_count(device *d, int sm_count) {
  emulator_of(d)->sm_count = sm_count < 1 ? 1 : sm_count;
}
