/* Shadow of one CTA's shared memory: for every byte, who wrote and who read it last and whether it holds a
 * value. Finds accesses that no synchronisation orders, generic writes that the asynchronous proxy was not
 * fenced against, and reads of bytes nothing wrote. A cell covers 16 bytes, which is what copies and the
 * matrix unit move; it is split into bytes when warps share it. */
#ifndef ARKE_EMULATOR_EMU_SHADOW_H
#define ARKE_EMULATOR_EMU_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/emu_order.h"

typedef enum emu_conflict_kind {
  EMU_CONFLICT_NONE,
  EMU_CONFLICT_WRITE, /* with an earlier write */
  EMU_CONFLICT_READ,  /* of a write with an earlier read */
  EMU_CONFLICT_PROXY, /* asynchronous access to bytes a warp wrote and did not fence */
  EMU_CONFLICT_UNINITIALISED,
  EMU_CONFLICT_MEMORY, /* the emulator is out of memory */
} emu_conflict_kind;

typedef struct emu_conflict {
  emu_conflict_kind kind;
  uint32_t address; /* first byte concerned, offset in the CTA's window */
  emu_epoch earlier;
} emu_conflict;

/* Who accesses. */
typedef struct emu_actor {
  const emu_order *order;
  const emu_view *view;
  emu_epoch now;
  uint32_t lanes; /* lanes of a warp that write */
  bool async;     /* through the asynchronous proxy */
  bool strong;    /* atomic, or ordered load or store: two of them are no race */
  /* Exact answer where views are too coarse: did all these lanes of this warp fence what they had written at
   * `clock`, and does the actor know? May be NULL. */
  bool (*lanes_fenced)(void *machine, const struct emu_actor *actor, uint32_t agent, uint32_t clock,
                       uint32_t lanes);
  void *machine;
} emu_actor;

typedef struct emu_shadow emu_shadow;

emu_shadow *emu_shadow_new(uint32_t bytes); /* offsets 0..bytes-1; NULL when memory is out */
void emu_shadow_free(emu_shadow *s);

/* Records a read or write of [address, address + bytes), all within the window. False with *conflict filled
 * when it breaks a rule. `initialises` is false for writes whose data arrives later (emu_shadow_initialise).
 */
bool emu_shadow_access(emu_shadow *s, uint32_t address, uint32_t bytes, bool write, const emu_actor *actor,
                       emu_conflict *conflict);
void emu_shadow_initialise(emu_shadow *s, uint32_t address, uint32_t bytes);
/* False with the first such byte when one was never written. */
bool emu_shadow_initialised(const emu_shadow *s, uint32_t address, uint32_t bytes, uint32_t *first);
/* Whether all that other warps than [first_warp, first_warp + n_warps) did there happened before `view`: the
 * window is about to be somebody else's. False with the first access of which that is not known. */
bool emu_shadow_quiet(const emu_shadow *s, const emu_order *order, const emu_view *view, uint32_t first_warp,
                      uint32_t n_warps, emu_conflict *conflict);
/* Forgets what was there: the bytes now belong to someone else, and hold nothing. */
void emu_shadow_forget(emu_shadow *s, uint32_t address, uint32_t bytes);

#endif
