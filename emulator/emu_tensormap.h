/* Tensor maps on the emulator: the arguments themselves, kept inside the 128 opaque bytes with a mark and a
 * checksum, so that anything else passed as a map is found out. Rules: CUDA driver API,
 * cuTensorMapEncodeTiled. */
#ifndef ARKE_EMULATOR_EMU_TENSORMAP_H
#define ARKE_EMULATOR_EMU_TENSORMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/device.h"

typedef struct emu_tensormap {
  dtype type;
  int rank;
  uint32_t element_bytes;
  uint64_t address;
  uint64_t dim[5];
  uint64_t stride_bytes[5]; /* [0] is element_bytes */
  uint32_t box[5];
  int swizzle;          /* 0 none, 1 32B, 2 64B, 3 128B */
  uint32_t row_bytes;   /* inner box in bytes */
  uint32_t pitch_bytes; /* of box rows in shared memory: the swizzle's span if there is one */
  uint32_t box_bytes;   /* what a copy counts for complete_tx */
  uint32_t rows;        /* box rows: product of the outer box dimensions */
} emu_tensormap;

/* Checks every rule of the driver; ARKE_ERR_ARGUMENT names the one broken. */
arke_status emu_tensormap_encode(const device_tensormap_desc *desc, device_tensormap *map, arke_error *err);
arke_status emu_tensormap_set_address(device_tensormap *map, uint64_t address, arke_error *err);
/* False when the 128 bytes are not a map made by emu_tensormap_encode. */
bool emu_tensormap_decode(const void *opaque, emu_tensormap *t);

#endif
