/* Inside the emulator as a device: what its memory, modules and launches share. Only emu_device*.c and
 * emu_module.c include this. */
#ifndef ARKE_EMULATOR_EMU_DEVICE_H
#define ARKE_EMULATOR_EMU_DEVICE_H

#include <pthread.h>

#include "emulator/emu_machine.h"

enum { EMU_MAX_THREADS = 1024 };

typedef struct emulator {
  device base; /* first: a device * is an emulator * */
  emu_memory memory;
  char target[16];
  int cc_major, cc_minor, sm_count;
  uint64_t seed, instruction_limit;
  emu_report report;
  pthread_mutex_t lock; /* launches may come from several threads, and meet memory calls of another */
} emulator;

struct device_kernel {
  device_kernel *next;
  device_module *module;
  const ptx_kernel *kernel;
  uint32_t smem_bytes; /* most dynamic shared memory asked for */
  uint32_t static_bytes, local_bytes;
  uint64_t *symbol_address;
  uint8_t *wgmma_slot, *touches_wgmma;
};

struct device_module {
  ptx_module *program;
  device_kernel *kernels;
  uint64_t *symbol_address; /* of global and const symbols */
};

static inline emulator *emulator_of(device *d) {
  return (emulator *)d;
}
static inline uint32_t emu_product(const uint32_t v[3]) {
  return v[0] * v[1] * v[2];
}

/* Operations of the device (runtime/device.h). */
void emu_device_free(device *d, device_ptr p);
arke_status emu_module_load(device *d, const void *image, size_t bytes, device_module **out, arke_error *err);
void emu_module_unload(device *d, device_module *m);
arke_status emu_kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                           device_kernel **out, arke_error *err);
arke_status emu_kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err);
arke_status emu_device_launch(device *d, device_kernel *k, const device_launch *in, arke_error *err);

/* What ptxas may give a thread: an equal share of the register file, or the kernel's own bound. */
uint32_t emu_registers_per_thread(const ptx_kernel *p, uint32_t threads);

#endif
