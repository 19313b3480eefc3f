/* Happens-before inside a cluster, by vector clocks (Flanagan and Freund, FastTrack, 2009). An agent is
 * whatever can touch memory on its own: a warp (its lanes run in lockstep and count as one), a warp group's
 * matrix unit, or one asynchronous copy. A view is what an agent knows of all the others: for each the latest
 * moment that happened before now, and for each warp the latest moment up to which its writes were made
 * visible to the asynchronous proxy by fence.proxy.async. Synchronisation joins views. */
#ifndef ARKE_EMULATOR_EMU_ORDER_H
#define ARKE_EMULATOR_EMU_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who, when and where in the program: clock, agent and instruction index. 0: nobody. */
typedef uint64_t emu_epoch;

static inline emu_epoch emu_epoch_make(uint32_t agent, uint32_t clock, uint32_t pc) {
  return (uint64_t)clock << 32 | (uint64_t)agent << 16 | (pc > 0xFFFF ? 0xFFFF : pc);
}
static inline uint32_t emu_epoch_clock(emu_epoch e) {
  return (uint32_t)(e >> 32);
}
static inline uint32_t emu_epoch_agent(emu_epoch e) {
  return (uint32_t)(e >> 16) & 0xFFFF;
}
static inline uint32_t emu_epoch_pc(emu_epoch e) {
  return (uint32_t)e & 0xFFFF;
}

/* Copies that are in flight or not yet seen complete, at one time; past it detection between copies weakens.
 */
#define EMU_COPY_SLOTS 512

typedef struct emu_order {
  uint32_t n_warps, n_groups;
  uint32_t n_slots; /* copy agents used so far */
  uint32_t next_slot;
  uint32_t slot_clock[EMU_COPY_SLOTS];
} emu_order;

/* A view: fenced moments of the warps, clocks of the warps and warp groups, and for each copy both. */
typedef uint32_t emu_view;

static inline size_t emu_view_capacity(const emu_order *o) {
  return 2 * (size_t)o->n_warps + o->n_groups + 2 * (size_t)EMU_COPY_SLOTS;
}
static inline size_t emu_view_used(const emu_order *o) {
  return 2 * (size_t)o->n_warps + o->n_groups + 2 * (size_t)o->n_slots;
}
static inline size_t emu_clock_index(const emu_order *o, uint32_t agent) {
  uint32_t first_copy = o->n_warps + o->n_groups;
  return o->n_warps + agent + (agent > first_copy ? agent - first_copy : 0);
}
static inline uint32_t emu_view_clock(const emu_order *o, const emu_view *v, uint32_t agent) {
  return v[emu_clock_index(o, agent)];
}
static inline uint32_t *emu_view_clock_of(const emu_order *o, emu_view *v, uint32_t agent) {
  return &v[emu_clock_index(o, agent)];
}
static inline bool emu_view_covers(const emu_order *o, const emu_view *v, emu_epoch e) {
  return v[emu_clock_index(o, emu_epoch_agent(e))] >= emu_epoch_clock(e);
}
/* Whether the writes of a warp or a generic copy at that moment were made visible to the asynchronous proxy.
 */
static inline bool emu_view_fenced(const emu_order *o, const emu_view *v, emu_epoch e) {
  uint32_t agent = emu_epoch_agent(e);
  return v[agent < o->n_warps ? agent : emu_clock_index(o, agent) + 1] >= emu_epoch_clock(e);
}
/* fence.proxy.async by a warp at `clock`: covers its writes up to now (unless `copies_only`), and the generic
 * copies it knows to be complete. */
void emu_view_fence(const emu_order *o, emu_view *v, uint32_t warp, uint32_t clock, bool copies_only);

emu_view *emu_view_new(const emu_order *o); /* knows nothing; NULL when memory is out; free() it */
void emu_view_join(const emu_order *o, emu_view *to, const emu_view *from);
/* What both know. */
void emu_view_meet(const emu_order *o, emu_view *to, const emu_view *from);
void emu_view_copy(const emu_order *o, emu_view *to, const emu_view *from);
void emu_view_clear(const emu_order *o, emu_view *v);
/* Learns that one agent reached a moment. */
void emu_view_learn(const emu_order *o, emu_view *v, uint32_t agent, uint32_t clock);

static inline bool emu_agent_is_warp(const emu_order *o, uint32_t agent) {
  return agent < o->n_warps;
}
static inline bool emu_agent_is_group(const emu_order *o, uint32_t agent) {
  return agent >= o->n_warps && agent < o->n_warps + o->n_groups;
}
/* A copy's agent and clock, for a copy issued by a warp with view `issuer`: a slot whose last copy the issuer
 * has seen complete, so that seeing the new one complete implies the old one. */
uint32_t emu_copy_agent(emu_order *o, const emu_view *issuer, uint32_t *clock);

#endif
