/* The emulator's global memory: the allocations a kernel may touch, each with a name for messages and a bit
 * per byte that says whether anything was ever written there. Addresses are host addresses. */
#ifndef ARKE_EMULATOR_EMU_MEMORY_H
#define ARKE_EMULATOR_EMU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct emu_allocation {
  uint64_t address;
  size_t bytes;
  char name[64];
  uint64_t *initialised; /* a bit per byte; NULL: all of it holds values */
  void *block;           /* malloc'ed with its guard zones, or NULL for imported memory */
  bool read_only;
  struct emu_cells *cells; /* of the launch that runs, for races; NULL: nobody wrote it */
} emu_allocation;

typedef struct emu_memory {
  emu_allocation **list; /* by address */
  size_t n, capacity;
  emu_allocation *last; /* the last one found */
} emu_memory;

void emu_memory_release(emu_memory *m);

/* New memory, 256-byte aligned, filled with 0xFF (a NaN in every float type), holding no value yet. */
arke_status emu_memory_alloc(emu_memory *m, size_t bytes, const char *name, emu_allocation **a,
                             arke_error *err);
/* Memory that the caller owns. It must not overlap another allocation. */
arke_status emu_memory_import(emu_memory *m, uint64_t address, size_t bytes, const char *name,
                              bool initialised, arke_error *err);
/* Forgets the allocation that starts at `address`, if there is one, and frees it if it is ours. */
void emu_memory_free(emu_memory *m, uint64_t address);
/* The first allocation whose guard zones were overwritten, or NULL: a bug of the emulator or of the host. */
const emu_allocation *emu_memory_damaged(const emu_memory *m);

/* The allocation that holds `address`, or NULL. */
emu_allocation *emu_memory_find(emu_memory *m, uint64_t address);
/* The one that holds all of the range, or NULL. */
static inline emu_allocation *emu_memory_range(emu_memory *m, uint64_t address, uint64_t bytes) {
  emu_allocation *a = m->last;
  if (a == NULL || address - a->address >= a->bytes) a = emu_memory_find(m, address);
  return a != NULL && bytes <= a->bytes - (address - a->address) ? a : NULL;
}
void emu_memory_mark(emu_allocation *a, uint64_t address, uint64_t bytes); /* it now holds values */
/* False, and the first such address, when a byte of the range holds no value. */
bool emu_memory_initialised(const emu_allocation *a, uint64_t address, uint64_t bytes, uint64_t *first);
/* "B + 132096 bytes, 96 bytes past its end": where an address lies, in terms of the nearest allocation. */
void emu_memory_describe(const emu_memory *m, uint64_t address, char *out, size_t out_bytes);

#endif
