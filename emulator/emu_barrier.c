#include <string.h>

#include "emulator/emu_machine.h"

/* A value that all lanes of a warp must agree on. */
static bool uniform(emu_warp *w, const ptx_operand *o, uint32_t active, const char *what, uint32_t *value) {
  uint64_t scratch[PTX_LANES];
  const uint64_t *v = alu_operand(o, &w->alu, scratch);
  *value = (uint32_t)v[__builtin_ctz(active)];
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    if ((uint32_t)v[lane] != *value)
      return emu_fail(w, EMU_FAULT_DIVERGENCE, lane, "lanes of one warp give different %s: %u and %u", what,
                      *value, (uint32_t)v[lane]);
  }
  return true;
}

/* bar.red's result, once all predicates are in. */
static void write_reduction(emu_warp *w, const ptx_instruction *i, const emu_named_barrier *b) {
  uint64_t count[PTX_LANES];
  for (int lane = 0; lane < PTX_LANES; lane++) count[lane] = b->reduced_count;
  bool all = b->reduced_count == b->reduced_lanes, any = b->reduced_count > 0;
  if (i->operation == PTX_OP_POPC)
    alu_write(&i->operands[0], &w->alu.registers, count, w->active);
  else
    alu_write_predicate(&i->operands[0], &w->alu.registers,
                        (i->operation == PTX_OP_AND ? all : any) ? PTX_FULL_MASK : 0, w->active);
}

static void pass(emu_warp *w, const emu_named_barrier *b) {
  const ptx_instruction *i = &w->cluster->launch->kernel->instructions[w->pc];
  emu_acquire(w, b->gathered);
  if (i->opcode == PTX_BAR_RED) write_reduction(w, i, b);
}

static bool is_complete(const emu_cta *cta, const emu_named_barrier *b) {
  return b->all ? b->arrived >= cta->live_warps * PTX_LANES : b->arrived >= b->expected;
}

/* Ends a generation: everyone who waits goes on, ordered after everyone who arrived. */
static void complete(emu_cta *cta, uint32_t id, const emu_warp *running) {
  emu_named_barrier *b = &cta->barriers[id];
  for (uint32_t j = 0; j < cta->cluster->warps_per_cta; j++) {
    emu_warp *w = &cta->warps[j];
    if (w->wait != EMU_WAIT_BARRIER || w->wait_barrier != id) continue;
    pass(w, b);
    w->wait = EMU_WAIT_NONE;
    if (w != running) w->pc++;
  }
  emu_view_clear(&cta->cluster->order, b->gathered);
  b->arrived = b->reduced_count = b->reduced_lanes = b->warps = 0;
  b->in_use = false;
  cta->cluster->events++;
}

/* PTX ISA 9.7.13.1: a barrier counts warps; with no count all threads of the CTA take part. */
static bool named_barrier(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  emu_cta *cta = w->cta;
  bool reduces = i->opcode == PTX_BAR_RED, waits = i->opcode != PTX_BAR_ARRIVE;
  const ptx_operand *operand = &i->operands[reduces ? 1 : 0];
  bool counted = reduces ? i->n_operands == 4 : i->n_operands == 2;
  uint32_t id, count = 0;
  if (!emu_require_converged(w, i, active, false)) return false;
  if (!uniform(w, &operand[0], active, "barrier numbers", &id)) return false;
  if (counted && !uniform(w, &operand[1], active, "thread counts", &count)) return false;
  if (id >= EMU_NAMED_BARRIERS) return emu_fail(w, EMU_FAULT_BARRIER, -1, "barrier %u is not in 0..15", id);
  if (counted && (count == 0 || count % PTX_LANES != 0 || count > w->cluster->launch->threads))
    return emu_fail(w, EMU_FAULT_BARRIER, -1,
                    "thread count %u is not a positive multiple of 32 up to the CTA's %u", count,
                    w->cluster->launch->threads);
  emu_named_barrier *b = &cta->barriers[id];
  if (b->in_use && (b->all == counted || (counted && b->expected != count)))
    return emu_fail(w, EMU_FAULT_BARRIER, -1, "barrier %u is used for %u threads here, and for %u at line %d",
                    id, counted ? count : w->cluster->launch->threads,
                    b->all ? w->cluster->launch->threads : b->expected, b->line);
  if (b->warps >> w->index & 1)
    return emu_fail(w, EMU_FAULT_BARRIER, -1, "warp %u arrives at barrier %u again before the others did",
                    w->index, id);
  if (!b->in_use) {
    b->in_use = true;
    b->all = !counted;
    b->expected = count;
    b->line = i->line;
  }
  b->warps |= 1u << w->index;
  b->arrived += PTX_LANES;
  cta->cluster->events++;
  if (reduces) {
    uint32_t holds = alu_predicate(&i->operands[i->n_operands - 1], &w->alu) & active;
    b->reduced_count += (uint32_t)__builtin_popcount(holds);
    b->reduced_lanes += (uint32_t)__builtin_popcount(active);
  }
  emu_release(w, b->gathered);
  w->wait_barrier = id;
  if (waits) w->wait = EMU_WAIT_BARRIER;
  if (is_complete(cta, b)) complete(cta, id, w);
  return true;
}

static void complete_cluster(emu_cluster *c) {
  emu_view_copy(&c->order, c->barrier_completed, c->barrier_gathered);
  emu_view_clear(&c->order, c->barrier_gathered);
  c->barrier_phase++;
  c->barrier_arrived = 0;
  c->events++;
  for (uint32_t j = 0; j < c->n_warps; j++) {
    if (c->warps[j]->wait == EMU_WAIT_CLUSTER) c->warps[j]->wait = EMU_WAIT_NONE;
  }
}

static bool cluster_arrive(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  emu_cluster *c = w->cluster;
  if (!emu_require_converged(w, i, active, false)) return false;
  if (w->cluster_arrived)
    return emu_fail(w, EMU_FAULT_BARRIER, -1,
                    "arrives at the cluster barrier again without barrier.cluster.wait");
  w->cluster_arrived = true;
  w->cluster_phase = c->barrier_phase;
  c->barrier_arrived++;
  c->events++;
  if (i->semantics != PTX_SEM_RELAXED) emu_release(w, c->barrier_gathered);
  if (c->barrier_arrived >= c->live_warps) complete_cluster(c);
  return true;
}

static bool cluster_wait(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  emu_cluster *c = w->cluster;
  if (!emu_require_converged(w, i, active, false)) return false;
  if (!w->cluster_arrived)
    return emu_fail(w, EMU_FAULT_BARRIER, -1, "waits at the cluster barrier without having arrived");
  if (c->barrier_phase == w->cluster_phase) return emu_block(w, EMU_WAIT_CLUSTER);
  w->cluster_arrived = false;
  w->cta->cluster_met = true;
  emu_acquire(w, c->barrier_completed);
  return true;
}

void emu_barrier_warp_exit(emu_warp *w) {
  emu_cta *cta = w->cta;
  emu_cluster *c = w->cluster;
  c->events++;
  if (w->cluster_arrived && w->cluster_phase == c->barrier_phase) c->barrier_arrived--;
  if (c->live_warps > 0 && c->barrier_arrived >= c->live_warps) complete_cluster(c);
  for (uint32_t id = 0; id < EMU_NAMED_BARRIERS; id++) {
    emu_named_barrier *b = &cta->barriers[id];
    if (b->in_use && b->all && is_complete(cta, b)) complete(cta, id, NULL);
  }
}

/* Generic writes up to now become visible to the asynchronous proxy, lane by lane. */
static void proxy_fence(emu_warp *w, uint32_t active) {
  for (uint32_t left = active; left != 0; left &= left - 1) w->lane_fence[__builtin_ctz(left)] = w->clock;
  w->unfenced &= ~active;
  emu_view_fence(&w->cluster->order, w->view, w->agent, w->clock, w->unfenced != 0);
  w->clock++;
  *emu_view_clock_of(&w->cluster->order, w->view, w->agent) = w->clock;
}

static void fence_initialisations(emu_warp *w) {
  for (uint32_t j = 0; j < w->cta->n_mbarriers; j++) {
    emu_mbarrier *b = &w->cta->mbarriers[j];
    if (b->valid && emu_epoch_agent(b->initialised) == w->agent) b->init_fenced = true;
  }
}

static bool warp_sync(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  uint64_t scratch[PTX_LANES];
  const uint64_t *mask = alu_operand(&i->operands[0], &w->alu, scratch);
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    uint32_t wanted = (uint32_t)mask[lane] & w->live;
    if ((wanted & ~active) != 0)
      return emu_fail(w, EMU_FAULT_DIVERGENCE, lane, "mask 0x%08x names lanes 0x%08x, which are elsewhere",
                      (uint32_t)mask[lane], wanted & ~active);
  }
  return true;
}

bool emu_barrier_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_MEMBAR:
  case PTX_FENCE: /* execution is sequentially consistent; races are found by what is fenced */
    if (i->scope != PTX_SCOPE_CTA && i->scope != PTX_SCOPE_CLUSTER)
      emu_races_fence(w->cluster->launch->races, w->cluster->id);
    return true;
  case PTX_FENCE_PROXY:
    if (i->proxy != PTX_PROXY_ASYNC || (i->n_spaces > 0 && i->space[0] == PTX_SPACE_GLOBAL)) return true;
    proxy_fence(w, active);
    fence_initialisations(w);
    return true;
  case PTX_FENCE_MBARRIER_INIT: fence_initialisations(w); return true;
  case PTX_BAR_SYNC:
  case PTX_BAR_ARRIVE:
  case PTX_BAR_RED: return named_barrier(w, i, active);
  case PTX_BAR_WARP_SYNC: return warp_sync(w, i, active);
  case PTX_CLUSTER_ARRIVE: return cluster_arrive(w, i, active);
  case PTX_CLUSTER_WAIT: return cluster_wait(w, i, active);
  default: return emu_mbarrier_execute(w, i, active);
  }
}
