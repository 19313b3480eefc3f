/* Data races in global memory between the clusters of one launch: an access to what another cluster has
 * written, or a write to what another has read, that no synchronisation through global memory puts in order.
 *
 * Each cluster has an epoch and a view of how far it knows the others. A release (an atomic or a strong write
 * that releases, or that follows a fence of the GPU's scope) leaves the view at the address and begins a new
 * epoch; an acquire (a read that acquires, or that a fence follows) takes it. Cells of an allocation, of as
 * many bytes as its accesses allow, remember who wrote them last and who has read them since. */
#ifndef ARKE_EMULATOR_EMU_RACE_H
#define ARKE_EMULATOR_EMU_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/emu_memory.h"

typedef struct emu_races emu_races;

/* Of a launch of so many clusters. NULL when memory is out. */
emu_races *emu_races_open(uint32_t n_clusters);
void emu_races_close(emu_races *r); /* NULL is allowed */

typedef struct emu_race {
  uint64_t address; /* of the cell concerned */
  uint32_t other;   /* the cluster whose access it collides with */
  bool other_writes;
} emu_race;

/* `cluster` accesses the bytes; strong accesses of two clusters do not collide. False, with *race, when it
 * does. */
bool emu_races_access(emu_races *r, uint32_t cluster, emu_allocation *a, uint64_t address, uint64_t bytes,
                      bool write, bool strong, emu_race *race);
/* Synchronisation at an address. Once memory runs out, or where too many clusters synchronise, nothing is
 * found any more. `ordered`: by the access itself; else only together with a fence. */
void emu_races_release(emu_races *r, uint32_t cluster, uint64_t address, bool ordered);
void emu_races_acquire(emu_races *r, uint32_t cluster, uint64_t address, bool ordered);
void emu_races_fence(emu_races *r, uint32_t cluster);
#endif
