#include "emulator/emu_order.h"

#include <stdlib.h>
#include <string.h>

emu_view *emu_view_new(const emu_order *o) {
  return calloc(emu_view_capacity(o), sizeof(emu_view));
}

void emu_view_join(const emu_order *o, emu_view *restrict to, const emu_view *restrict from) {
  size_t n = emu_view_used(o);
  for (size_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

void emu_view_meet(const emu_order *o, emu_view *restrict to, const emu_view *restrict from) {
  size_t n = emu_view_used(o);
  for (size_t i = 0; i < n; i++) to[i] = to[i] < from[i] ? to[i] : from[i];
}

void emu_view_copy(const emu_order *o, emu_view *to, const emu_view *from) {
  memcpy(to, from, emu_view_used(o) * sizeof *to);
}

void emu_view_clear(const emu_order *o, emu_view *v) {
  memset(v, 0, emu_view_used(o) * sizeof *v);
}

void emu_view_learn(const emu_order *o, emu_view *v, uint32_t agent, uint32_t clock) {
  uint32_t *known = emu_view_clock_of(o, v, agent);
  if (*known < clock) *known = clock;
}

void emu_view_fence(const emu_order *o, emu_view *v, uint32_t warp, uint32_t clock, bool copies_only) {
  if (!copies_only) v[warp] = clock;
  size_t first = emu_clock_index(o, o->n_warps + o->n_groups);
  for (uint32_t slot = 0; slot < o->n_slots; slot++) v[first + 2 * slot + 1] = v[first + 2 * slot];
}

uint32_t emu_copy_agent(emu_order *o, const emu_view *issuer, uint32_t *clock) {
  uint32_t first = o->n_warps + o->n_groups, found = EMU_COPY_SLOTS;
  for (uint32_t i = 0; i < o->n_slots; i++) {
    uint32_t slot = (o->next_slot + i) % o->n_slots;
    if (emu_view_clock(o, issuer, first + slot) >= o->slot_clock[slot]) {
      found = slot;
      break;
    }
  }
  if (found == EMU_COPY_SLOTS) found = o->n_slots < EMU_COPY_SLOTS ? o->n_slots++ : o->next_slot;
  o->next_slot = (found + 1) % o->n_slots;
  *clock = ++o->slot_clock[found];
  return first + found;
}
