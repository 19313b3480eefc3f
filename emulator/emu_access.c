#include <string.h>

#include "emulator/emu_machine.h"

static bool out_of_shared(emu_warp *w, int lane, const emu_cta *cta, uint32_t offset, uint32_t bytes) {
  uint32_t end = w->cluster->launch->smem_window;
  if (offset < EMU_SMEM_RESERVED)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane,
                    "%u bytes at shared address 0x%x of CTA rank %u lie below 0x%x, where user memory starts",
                    bytes, offset, cta->rank, EMU_SMEM_RESERVED);
  return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane,
                  "%u bytes at shared address 0x%x of CTA rank %u end %u bytes past the end of shared memory",
                  bytes, offset, cta->rank, offset + bytes - end);
}

static bool misaligned(emu_warp *w, int lane, uint64_t address, uint32_t align) {
  return emu_fail(w, EMU_FAULT_MISALIGNED, lane, "address 0x%llx is not a multiple of %u",
                  (unsigned long long)address, align);
}

/* Whether the warp can know that a CTA of its cluster runs: it has met all of them, or seen what that one
 * did. */
static bool has_started(emu_warp *w, const emu_cta *cta) {
  emu_cluster *c = w->cluster;
  if (cta == w->cta || w->cta->cluster_met) return true;
  for (uint32_t i = 0; i < c->warps_per_cta; i++)
    if (*emu_view_clock_of(&c->order, w->view, cta->warps[i].agent) > 0) return true;
  return false;
}

bool emu_resolve_shared(emu_warp *w, int lane, ptx_space space, uint64_t address, uint32_t bytes,
                        uint32_t align, emu_place *place) {
  emu_cluster *c = w->cluster;
  uint32_t rank = (uint32_t)(address >> 24), offset = (uint32_t)address & 0xFFFFFF;
  if (address > UINT32_MAX || rank >= c->n_ctas)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "0x%llx is no shared address of this cluster of %u",
                    (unsigned long long)address, c->n_ctas);
  if (space == PTX_SPACE_SHARED && rank != w->cta->rank)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane,
                    "0x%llx lies in the window of CTA rank %u, which .shared::cta of rank %u cannot reach",
                    (unsigned long long)address, rank, w->cta->rank);
  emu_cta *cta = &c->ctas[rank];
  if (cta->exited)
    return emu_fail(w, EMU_FAULT_EXIT, lane, "shared memory of CTA rank %u is used after that CTA has exited",
                    rank);
  if (!has_started(w, cta))
    return emu_fail(w, EMU_FAULT_NOT_STARTED, lane,
                    "shared memory of CTA rank %u is used before anything tells that it has started", rank);
  if (align > 1 && address % align != 0) return misaligned(w, lane, address, align);
  if (offset < EMU_SMEM_RESERVED || bytes > c->launch->smem_window || offset > c->launch->smem_window - bytes)
    return out_of_shared(w, lane, cta, offset, bytes);
  *place = (emu_place){PTX_SPACE_SHARED, cta, offset, cta->smem + offset, NULL};
  return true;
}

bool emu_launches_awaited(emu_warp *w, int lane) {
  if (!w->cluster->launch->early_start || w->cta->launches_awaited) return true;
  return emu_fail(
      w, EMU_FAULT_EARLY, lane,
      "global memory is touched before griddepcontrol.wait, while the launches before may still run");
}

static bool resolve_global(emu_warp *w, int lane, uint64_t address, uint32_t bytes, uint32_t align,
                           emu_place *place) {
  if (!emu_launches_awaited(w, lane)) return false;
  emu_memory *m = w->cluster->launch->memory;
  if (align > 1 && address % align != 0) return misaligned(w, lane, address, align);
  emu_allocation *a = emu_memory_range(m, address, bytes);
  if (a == NULL) {
    char where[160];
    bool starts_inside = emu_memory_find(m, address) != NULL;
    emu_memory_describe(m, starts_inside ? address + bytes - 1 : address, where, sizeof where);
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "%u bytes %s tensor %s", bytes,
                    starts_inside ? "that end at" : "at", where);
  }
  *place = (emu_place){PTX_SPACE_GLOBAL, NULL, 0, (uint8_t *)(uintptr_t)address, a};
  return true;
}

static bool resolve_small(emu_warp *w, int lane, ptx_space space, uint64_t offset, uint32_t bytes,
                          uint32_t align, emu_place *place) {
  const emu_launch *l = w->cluster->launch;
  bool local = space == PTX_SPACE_LOCAL;
  uint32_t size = local ? l->local_bytes : l->kernel->param_bytes;
  if (align > 1 && offset % align != 0) return misaligned(w, lane, offset, align);
  if (bytes > size || offset > size - bytes)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "%u bytes at offset %llu of %s memory, which has %u",
                    bytes, (unsigned long long)offset, local ? "local" : "parameter", size);
  /* Parameters are never written: st refuses the space. */
  uint8_t *base = local ? w->local + (size_t)lane * size : (uint8_t *)(uintptr_t)l->params;
  *place = (emu_place){space, NULL, (uint32_t)offset, base + offset, NULL};
  return true;
}

bool emu_resolve(emu_warp *w, int lane, ptx_space space, uint64_t address, uint32_t bytes, uint32_t align,
                 emu_place *place) {
  switch (space) {
  case PTX_SPACE_SHARED:
  case PTX_SPACE_SHARED_CLUSTER: return emu_resolve_shared(w, lane, space, address, bytes, align, place);
  case PTX_SPACE_LOCAL:
  case PTX_SPACE_PARAM: return resolve_small(w, lane, space, address, bytes, align, place);
  case PTX_SPACE_GLOBAL:
  case PTX_SPACE_CONST: return resolve_global(w, lane, address, bytes, align, place);
  default: break;
  }
  uint64_t offset = address & 0x00FFFFFFFFFFFFFFull;
  switch (address & ~0x00FFFFFFFFFFFFFFull) {
  case EMU_WINDOW_SHARED:
    return emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, offset, bytes, align, place);
  case EMU_WINDOW_LOCAL: return resolve_small(w, lane, PTX_SPACE_LOCAL, offset, bytes, align, place);
  case EMU_WINDOW_PARAM: return resolve_small(w, lane, PTX_SPACE_PARAM, offset, bytes, align, place);
  default: return resolve_global(w, lane, address, bytes, align, place);
  }
}

/* Exact form of "did these lanes fence": the warp's own clock of each lane's last fence. It serves an asker
 * that knows the fence happened, or that is the same warp. */
static bool lanes_fenced(void *machine, const emu_actor *a, uint32_t agent, uint32_t clock, uint32_t lanes) {
  emu_cluster *c = machine;
  const emu_warp *w = c->warps[agent];
  for (; lanes != 0; lanes &= lanes - 1) {
    uint32_t fence = w->lane_fence[__builtin_ctz(lanes)];
    if (fence < clock || fence > emu_view_clock(a->order, a->view, agent)) return false;
  }
  return true;
}

emu_actor emu_warp_actor(emu_warp *w, uint32_t lanes, bool strong) {
  return (emu_actor){&w->cluster->order, w->view, emu_now(w), lanes, false, strong, lanes_fenced, w->cluster};
}

bool emu_smem_read(emu_warp *w, int lane, const emu_place *p, uint32_t bytes, const emu_actor *a) {
  emu_conflict conflict;
  if (p->cta->n_mbarriers > 0 && emu_mbarrier_overlaps(p->cta, p->offset, bytes))
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "reads an mbarrier as if it were data");
  if (!emu_shadow_access(p->cta->shadow, p->offset, bytes, false, a, &conflict))
    return emu_fail_conflict(w, lane, p->cta, "it", false, a->async, &conflict);
  if (!emu_shadow_initialised(p->cta->shadow, p->offset, bytes, &conflict.address)) {
    conflict.kind = EMU_CONFLICT_UNINITIALISED;
    return emu_fail_conflict(w, lane, p->cta, "it", false, a->async, &conflict);
  }
  return true;
}

bool emu_smem_write(emu_warp *w, int lane, const emu_place *p, uint32_t bytes, const emu_actor *a) {
  emu_conflict conflict;
  if (p->cta->n_mbarriers > 0 && emu_mbarrier_overlaps(p->cta, p->offset, bytes))
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "overwrites an mbarrier that was not invalidated");
  if (!emu_shadow_access(p->cta->shadow, p->offset, bytes, true, a, &conflict))
    return emu_fail_conflict(w, lane, p->cta, "it", true, a->async, &conflict);
  emu_shadow_initialise(p->cta->shadow, p->offset, bytes);
  w->unfenced |= a->lanes;
  return true;
}

static bool is_strong(const ptx_instruction *i) {
  return i->semantics != PTX_SEM_NONE && i->semantics != PTX_SEM_WEAK;
}

bool emu_global_access(emu_warp *w, int lane, emu_allocation *a, uint64_t address, uint64_t bytes, bool write,
                       bool strong) {
  emu_launch *l = w->cluster->launch;
  emu_race race;
  if (emu_races_access(l->races, w->cluster->id, a, address, bytes, write, strong, &race)) return true;
  char where[160];
  emu_memory_describe(l->memory, race.address, where, sizeof where);
  return emu_fail(w, EMU_FAULT_GLOBAL_RACE, lane,
                  "it %s tensor %s, %s by %s %u, with no synchronisation in between",
                  write ? "writes" : "reads", where, race.other_writes ? "written" : "read",
                  w->cluster->n_ctas > 1 ? "cluster" : "CTA", race.other);
}

void emu_global_sync(emu_warp *w, const ptx_instruction *i, uint64_t address, bool read, bool write) {
  emu_races *r = w->cluster->launch->races;
  ptx_semantics s = i->semantics;
  bool both = s == PTX_SEM_ACQ_REL || s == PTX_SEM_SC;
  if (i->scope == PTX_SCOPE_CTA || i->scope == PTX_SCOPE_CLUSTER) return;
  if (read) emu_races_acquire(r, w->cluster->id, address, both || s == PTX_SEM_ACQUIRE);
  if (write) emu_races_release(r, w->cluster->id, address, both || s == PTX_SEM_RELEASE);
}

/* Checks what a warp's lanes read or write, contiguous lanes as one access. */
static bool check_lanes(emu_warp *w, const ptx_instruction *i, const emu_place places[PTX_LANES],
                        uint32_t active, uint32_t bytes, bool write) {
  bool strong = is_strong(i);
  emu_actor actor = emu_warp_actor(w, 0, strong);
  for (uint32_t left = active; left != 0;) {
    int first = __builtin_ctz(left);
    const emu_place *p = &places[first];
    uint32_t lanes = 1u << first, run = bytes;
    left &= left - 1;
    for (; left != 0; left &= left - 1) {
      int next = __builtin_ctz(left);
      if (places[next].bytes != p->bytes + run || places[next].cta != p->cta ||
          places[next].allocation != p->allocation)
        break;
      lanes |= 1u << next;
      run += bytes;
    }
    if (p->space == PTX_SPACE_SHARED) {
      actor.lanes = lanes;
      if (!(write ? emu_smem_write(w, first, p, run, &actor) : emu_smem_read(w, first, p, run, &actor)))
        return false;
      if (strong && !emu_flag_sync(w, p, run, write)) return false;
    } else if (p->space == PTX_SPACE_GLOBAL) {
      uint64_t address = (uint64_t)(uintptr_t)p->bytes, missing;
      if (write && p->allocation->read_only)
        return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, first, "writes constant memory %s", p->allocation->name);
      if (write)
        emu_memory_mark(p->allocation, address, run);
      else if (!emu_memory_initialised(p->allocation, address, run, &missing)) {
        char where[160];
        emu_memory_describe(w->cluster->launch->memory, missing, where, sizeof where);
        return emu_fail(w, EMU_FAULT_UNINITIALISED, first, "reads tensor %s, which nothing wrote", where);
      }
      if (strong && !write) emu_global_sync(w, i, address, true, false);
      if (!emu_global_access(w, first, p->allocation, address, run, write, strong)) return false;
      if (strong && write) emu_global_sync(w, i, address, false, true);
    }
  }
  return true;
}

/* One element from memory to a destination register in every active lane, extended as its type says (PTX ISA
 * 9.7.9.1). */
#define LOAD_LANES(type, signed_type)                                                                        \
  for (uint32_t left = active; left != 0; left &= left - 1) {                                                \
    int lane = __builtin_ctz(left);                                                                          \
    type x;                                                                                                  \
    memcpy(&x, places[lane].bytes + offset, sizeof x);                                                       \
    v[lane] = (is_signed ? (uint64_t)(int64_t)(signed_type)x : (uint64_t)x) & keep;                          \
  }
static void load_element(const ptx_operand *o, ptx_registers *r, const emu_place places[PTX_LANES],
                         uint32_t offset, uint32_t bytes, bool is_signed, uint32_t active) {
  if (o->kind != PTX_OPERAND_REGISTER) return;
  uint64_t *v = r->value[o->slot], keep = o->bytes >= 8 ? ~0ull : (1ull << 8 * o->bytes) - 1;
  r->written[o->slot] |= active;
  switch (bytes) {
  case 1: LOAD_LANES(uint8_t, int8_t) break;
  case 2: LOAD_LANES(uint16_t, int16_t) break;
  case 4: LOAD_LANES(uint32_t, int32_t) break;
  case 8: LOAD_LANES(uint64_t, int64_t) break;
  default:
    LOAD_LANES(uint64_t, int64_t)
    v = r->value[o->slot + 1];
    r->written[o->slot + 1] |= active;
    offset += 8;
    LOAD_LANES(uint64_t, int64_t)
  }
}

static const ptx_operand *element(const ptx_operand *o, uint32_t e) {
  return o->kind == PTX_OPERAND_VECTOR ? &o->elements[e] : o;
}

static bool type_is_signed(ptx_type t) {
  return t == PTX_TYPE_S8 || t == PTX_TYPE_S16 || t == PTX_TYPE_S32 || t == PTX_TYPE_S64;
}

static bool resolve_lanes(emu_warp *w, const ptx_instruction *i, const ptx_operand *address, uint32_t active,
                          uint32_t bytes, emu_place places[PTX_LANES]) {
  uint64_t scratch[PTX_LANES];
  const uint64_t *a = alu_operand(address, &w->alu, scratch);
  ptx_space space = i->n_spaces > 0 ? i->space[0] : PTX_SPACE_GENERIC;
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    if (!emu_resolve(w, lane, space, a[lane], bytes, bytes, &places[lane])) return false;
  }
  return true;
}

static bool load(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  emu_place places[PTX_LANES];
  uint32_t bytes = (uint32_t)ptx_type_bits(i->type[0]) / 8, n = i->vector > 0 ? i->vector : 1;
  if (!resolve_lanes(w, i, &i->operands[1], active, bytes * n, places)) return false;
  if (!check_lanes(w, i, places, active, bytes * n, false)) return false;
  if (is_strong(i)) w->cluster->polls++;
  for (uint32_t e = 0; e < n; e++)
    load_element(element(&i->operands[0], e), &w->alu.registers, places, e * bytes, bytes,
                 type_is_signed(i->type[0]), active);
  return true;
}

#define STORE_LANES(type, from, offset)                                                                      \
  for (uint32_t left = active; left != 0; left &= left - 1) {                                                \
    int lane = __builtin_ctz(left);                                                                          \
    type x = (type)(from)[lane];                                                                             \
    memcpy(places[lane].bytes + e * bytes + (offset), &x, sizeof x);                                         \
  }
static bool store(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  emu_place places[PTX_LANES];
  uint32_t bytes = (uint32_t)ptx_type_bits(i->type[0]) / 8, n = i->vector > 0 ? i->vector : 1;
  if (!resolve_lanes(w, i, &i->operands[0], active, bytes * n, places)) return false;
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    if (places[lane].space == PTX_SPACE_PARAM)
      return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "writes parameter memory, which is read-only");
  }
  if (!check_lanes(w, i, places, active, bytes * n, true)) return false;
  for (uint32_t e = 0; e < n; e++) {
    const ptx_operand *o = element(&i->operands[1], e);
    uint64_t scratch[PTX_LANES];
    const uint64_t *low = alu_operand(o, &w->alu, scratch);
    const uint64_t *high =
        bytes == 16 && o->kind == PTX_OPERAND_REGISTER ? w->alu.registers.value[o->slot + 1] : low;
    switch (bytes) {
    case 1: STORE_LANES(uint8_t, low, 0) break;
    case 2: STORE_LANES(uint16_t, low, 0) break;
    case 4: STORE_LANES(uint32_t, low, 0) break;
    case 8: STORE_LANES(uint64_t, low, 0) break;
    default: STORE_LANES(uint64_t, low, 0) STORE_LANES(uint64_t, high, 8)
    }
  }
  return true;
}

/* mapa: the same offset in another CTA's window; getctarank: whose window it is (PTX ISA 9.7.9.24, .25). */
static bool map_address(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  uint64_t out[PTX_LANES] = {0}, scratch[PTX_LANES], rank_scratch[PTX_LANES];
  const uint64_t *a = alu_operand(&i->operands[1], &w->alu, scratch);
  bool generic = i->n_spaces == 0, get = i->opcode == PTX_GETCTARANK;
  const uint64_t *rank = get ? a : alu_operand(&i->operands[2], &w->alu, rank_scratch);
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    uint64_t base = generic ? EMU_WINDOW_SHARED : 0, address = a[lane] - base;
    if (address > UINT32_MAX)
      return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "0x%llx is not an address of shared memory",
                      (unsigned long long)a[lane]);
    if (!get && (rank[lane] & 0xFFFFFFFF) >= w->cluster->n_ctas)
      return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "CTA rank %llu of a cluster of %u",
                      (unsigned long long)(rank[lane] & 0xFFFFFFFF), w->cluster->n_ctas);
    out[lane] = get ? address >> 24 : base + ((rank[lane] & 0xFFFFFFFF) << 24 | (address & 0xFFFFFF));
  }
  alu_write(&i->operands[0], &w->alu.registers, out, active);
  return true;
}

/* st.bulk: zeroes shared memory (PTX ISA 9.7.9.13). */
static bool store_bulk(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  uint64_t scratch[PTX_LANES], size_scratch[PTX_LANES];
  const uint64_t *a = alu_operand(&i->operands[0], &w->alu, scratch);
  const uint64_t *size = alu_operand(&i->operands[1], &w->alu, size_scratch);
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    emu_place p;
    if (size[lane] % 8 != 0) return misaligned(w, lane, size[lane], 8);
    ptx_space space = i->n_spaces > 0 ? i->space[0] : PTX_SPACE_GENERIC;
    if (!emu_resolve(w, lane, space, a[lane], (uint32_t)size[lane], 8, &p)) return false;
    emu_actor actor = emu_warp_actor(w, 1u << lane, false);
    if (p.space != PTX_SPACE_SHARED)
      return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "st.bulk writes shared memory only");
    if (!emu_smem_write(w, lane, &p, (uint32_t)size[lane], &actor)) return false;
    memset(p.bytes, 0, size[lane]);
  }
  return true;
}

bool emu_memory_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_LD:
  case PTX_LDU: return load(w, i, active);
  case PTX_ST: return store(w, i, active);
  case PTX_ATOM:
  case PTX_RED: return emu_atomic_execute(w, i, active);
  case PTX_ST_BULK: return store_bulk(w, i, active);
  case PTX_MAPA:
  case PTX_GETCTARANK: return map_address(w, i, active);
  case PTX_CREATEPOLICY: {
    uint64_t policy[PTX_LANES] = {0}; /* policies are hints: any value serves */
    alu_write(&i->operands[0], &w->alu.registers, policy, active);
    return true;
  }
  default: return true; /* prefetches and priorities are hints */
  }
}
