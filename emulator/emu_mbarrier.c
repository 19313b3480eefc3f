#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"

enum { MBARRIER_BYTES = 8, MAX_COUNT = (1 << 20) - 1, MAX_TX_BYTES = (1 << 20) - 1 };

emu_mbarrier *emu_mbarrier_find(const emu_cta *cta, uint32_t offset) {
  uint16_t index = offset % MBARRIER_BYTES == 0 ? cta->mbarrier_at[offset / MBARRIER_BYTES] : 0;
  return index == 0 || !cta->mbarriers[index - 1].valid ? NULL : &cta->mbarriers[index - 1];
}

bool emu_mbarrier_overlaps(const emu_cta *cta, uint32_t offset, uint32_t bytes) {
  for (uint32_t at = offset / MBARRIER_BYTES; at <= (offset + bytes - 1) / MBARRIER_BYTES; at++) {
    uint16_t index = cta->mbarrier_at[at];
    if (index != 0 && cta->mbarriers[index - 1].valid) return true;
  }
  return false;
}

void emu_mbarrier_release(emu_cta *cta) {
  for (uint32_t i = 0; i < cta->n_mbarriers; i++) {
    free(cta->mbarriers[i].gathered);
    free(cta->mbarriers[i].completed);
  }
  free(cta->mbarriers);
  free(cta->mbarrier_at);
}

void emu_mbarrier_describe(const emu_cta *cta, const emu_mbarrier *b, char *out, size_t out_bytes) {
  char where[96];
  emu_describe_shared(cta, b->offset, where, sizeof where);
  snprintf(out, out_bytes, "mbarrier %s (phase %llu, %u of %u arrivals missing, %lld bytes expected)", where,
           (unsigned long long)b->phase, b->pending, b->expected, (long long)b->tx_bytes);
}

static emu_mbarrier *new_mbarrier(emu_cta *cta, uint32_t offset) {
  uint16_t index = cta->mbarrier_at[offset / MBARRIER_BYTES];
  if (index != 0) return &cta->mbarriers[index - 1];
  if (cta->n_mbarriers == cta->mbarrier_capacity) {
    uint32_t capacity = cta->mbarrier_capacity == 0 ? 32 : 2 * cta->mbarrier_capacity;
    emu_mbarrier *list = realloc(cta->mbarriers, capacity * sizeof *list);
    if (list == NULL) return NULL;
    cta->mbarriers = list;
    cta->mbarrier_capacity = capacity;
  }
  emu_mbarrier *b = &cta->mbarriers[cta->n_mbarriers];
  memset(b, 0, sizeof *b);
  b->gathered = emu_view_new(&cta->cluster->order);
  b->completed = emu_view_new(&cta->cluster->order);
  if (b->gathered == NULL || b->completed == NULL) {
    free(b->gathered);
    free(b->completed);
    return NULL;
  }
  cta->mbarrier_at[offset / MBARRIER_BYTES] = (uint16_t)++cta->n_mbarriers;
  return b;
}

static bool init(emu_warp *w, int lane, const emu_place *p, uint32_t count) {
  if (count < 1 || count > MAX_COUNT)
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "an mbarrier's count of %u is not in 1..%d", count,
                    MAX_COUNT);
  if (emu_mbarrier_find(p->cta, p->offset) != NULL)
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "this mbarrier is initialised already and was not invalidated");
  emu_actor actor = emu_warp_actor(w, 1u << lane, false);
  emu_conflict conflict;
  if (!emu_shadow_access(p->cta->shadow, p->offset, MBARRIER_BYTES, true, &actor, &conflict))
    return emu_fail_conflict(w, lane, p->cta, "it", true, false, &conflict);
  emu_mbarrier *b = new_mbarrier(p->cta, p->offset);
  if (b == NULL) return emu_no_memory(w->cluster->launch);
  b->offset = p->offset;
  b->valid = true;
  b->expected = b->pending = count;
  b->tx_bytes = 0;
  b->phase = 0;
  b->initialised = emu_now(w);
  b->init_fenced = false;
  emu_view_clear(&w->cluster->order, b->gathered);
  emu_view_clear(&w->cluster->order, b->completed);
  return true;
}

static bool invalidate(emu_warp *w, int lane, const emu_place *p, emu_mbarrier *b) {
  emu_actor actor = emu_warp_actor(w, 1u << lane, false);
  emu_conflict conflict;
  if (!emu_shadow_access(p->cta->shadow, p->offset, MBARRIER_BYTES, true, &actor, &conflict))
    return emu_fail_conflict(w, lane, p->cta, "it", true, false, &conflict);
  for (uint32_t j = 0; j < w->cluster->n_warps; j++) {
    if (w->cluster->warps[j]->wait == EMU_WAIT_MBARRIER && w->cluster->warps[j]->wait_mbarrier == b->offset &&
        w->cluster->warps[j]->cta == p->cta)
      return emu_fail(w, EMU_FAULT_BARRIER, lane, "a warp still waits on this mbarrier");
  }
  emu_shadow_forget(p->cta->shadow, p->offset, MBARRIER_BYTES);
  b->valid = false;
  return true;
}

static void try_complete(emu_cta *cta, emu_mbarrier *b) {
  emu_cluster *c = cta->cluster;
  c->events++;
  if (b->pending != 0 || b->tx_bytes != 0) return;
  b->phase++;
  b->pending = b->expected;
  emu_view_copy(&c->order, b->completed, b->gathered);
  for (uint32_t j = 0; j < c->warps_per_cta; j++) {
    emu_warp *w = &cta->warps[j];
    if (w->wait == EMU_WAIT_MBARRIER && w->wait_mbarrier == b->offset) w->wait = EMU_WAIT_NONE;
  }
}

static bool expect(emu_warp *w, int lane, emu_mbarrier *b, int64_t bytes) {
  b->tx_bytes += bytes;
  if (b->tx_bytes > MAX_TX_BYTES || b->tx_bytes < -MAX_TX_BYTES)
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "%lld bytes pending on one mbarrier pass its limit of %d",
                    (long long)b->tx_bytes, MAX_TX_BYTES);
  return true;
}

static bool arrive(emu_warp *w, int lane, emu_cta *cta, emu_mbarrier *b, uint32_t count, bool ordered) {
  if (count == 0 || count > b->pending)
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "%u arrivals, but the phase lacks only %u of %u", count,
                    b->pending, b->expected);
  b->pending -= count;
  if (ordered) emu_release(w, b->gathered);
  try_complete(cta, b);
  return true;
}

bool emu_mbarrier_complete_tx(emu_cta *cta, uint32_t offset, int64_t bytes, const emu_copy *copy) {
  emu_mbarrier *b = emu_mbarrier_find(cta, offset);
  if (cta->exited)
    return emu_fail_copy(copy, EMU_FAULT_EXIT, "the CTA of its mbarrier has exited before it completed");
  if (b == NULL)
    return emu_fail_copy(copy, EMU_FAULT_BARRIER, "its mbarrier was invalidated before it completed");
  b->tx_bytes -= bytes;
  if (b->tx_bytes < -MAX_TX_BYTES)
    return emu_fail_copy(copy, EMU_FAULT_BARRIER,
                         "%lld bytes more arrived at one mbarrier than were expected",
                         (long long)-b->tx_bytes);
  emu_view_learn(&cta->cluster->order, b->gathered, emu_epoch_agent(copy->epoch),
                 emu_epoch_clock(copy->epoch));
  try_complete(cta, b);
  return true;
}

/* The object and the checks every use of it needs. */
static bool find(emu_warp *w, const ptx_instruction *i, int lane, uint64_t address, emu_place *p,
                 emu_mbarrier **b) {
  ptx_space space = i->n_spaces > 0 ? i->space[0] : PTX_SPACE_GENERIC;
  if (!emu_resolve(w, lane, space, address, MBARRIER_BYTES, MBARRIER_BYTES, p)) return false;
  if (p->space != PTX_SPACE_SHARED)
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "an mbarrier must lie in shared memory");
  if (i->opcode == PTX_MBARRIER_INIT) return true;
  *b = emu_mbarrier_find(p->cta, p->offset);
  if (*b == NULL) {
    char where[96];
    emu_describe_shared(p->cta, p->offset, where, sizeof where);
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "there is no initialised mbarrier at %s", where);
  }
  if (!emu_view_covers(&w->cluster->order, w->view, (*b)->initialised))
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "the mbarrier's initialisation at line %d is not ordered before this use",
                    w->cluster->launch->kernel->instructions[emu_epoch_pc((*b)->initialised)].line);
  return true;
}

static uint32_t operand_count(const ptx_instruction *i, const emu_warp *w, int operand, int lane) {
  uint64_t scratch[PTX_LANES];
  if (operand >= i->n_operands) return 1;
  return (uint32_t)alu_operand(&i->operands[operand], &w->alu, scratch)[lane];
}

static bool drop(emu_warp *w, int lane, emu_mbarrier *b, uint32_t count) {
  if (count > b->expected)
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "drops %u of %u expected arrivals", count, b->expected);
  b->expected -= count;
  return true;
}

/* What an arrival returns: the phase it arrives at, and the arrivals that lacked before it. */
enum { STATE_PENDING_BITS = 20 };

static uint64_t state_of(const emu_mbarrier *b) {
  return b->phase << STATE_PENDING_BITS | b->pending;
}

/* Everything but the waits. */
static bool update(emu_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint64_t *state) {
  emu_place p;
  emu_mbarrier *b = NULL;
  bool has_result = i->opcode >= PTX_MBARRIER_ARRIVE && i->opcode <= PTX_MBARRIER_ARRIVE_DROP_EXPECT_TX;
  uint32_t value = operand_count(i, w, has_result ? 2 : 1, lane);
  if (!find(w, i, lane, address, &p, &b)) return false;
  if (b != NULL) *state = state_of(b);
  bool ordered = i->semantics != PTX_SEM_RELAXED;
  switch (i->opcode) {
  case PTX_MBARRIER_INIT: return init(w, lane, &p, value);
  case PTX_MBARRIER_INVAL: return invalidate(w, lane, &p, b);
  case PTX_MBARRIER_EXPECT_TX: return expect(w, lane, b, value);
  case PTX_MBARRIER_COMPLETE_TX:
    if (!expect(w, lane, b, -(int64_t)value)) return false;
    try_complete(p.cta, b);
    return true;
  case PTX_MBARRIER_ARRIVE: return arrive(w, lane, p.cta, b, value, ordered);
  case PTX_MBARRIER_ARRIVE_DROP: return drop(w, lane, b, value) && arrive(w, lane, p.cta, b, value, ordered);
  case PTX_MBARRIER_ARRIVE_DROP_EXPECT_TX:
    return drop(w, lane, b, 1) && expect(w, lane, b, value) && arrive(w, lane, p.cta, b, 1, ordered);
  default: return expect(w, lane, b, value) && arrive(w, lane, p.cta, b, 1, ordered);
  }
}

/* test_wait and try_wait. A wait that fails says so once, so that code that forgets to loop is found out;
 * asked again, the warp sleeps until the phase changes. */
static bool wait(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  uint64_t scratch[PTX_LANES], want_scratch[PTX_LANES];
  const uint64_t *address = alu_operand(&i->operands[1], &w->alu, scratch);
  const uint64_t *want = alu_operand(&i->operands[2], &w->alu, want_scratch);
  bool parity = i->opcode == PTX_MBARRIER_TEST_WAIT_PARITY || i->opcode == PTX_MBARRIER_TRY_WAIT_PARITY;
  uint32_t done = 0;
  emu_mbarrier *first = NULL, *b = NULL;
  bool several = false;
  uint64_t last = UINT64_MAX;
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    emu_place p;
    bool repeated = address[lane] == last;
    last = address[lane];
    if (!repeated && !find(w, i, lane, address[lane], &p, &b)) return false;
    if (parity && want[lane] > 1)
      return emu_fail(w, EMU_FAULT_BARRIER, lane, "parity %llu is not 0 or 1",
                      (unsigned long long)want[lane]);
    bool over = parity ? (b->phase & 1) != want[lane] : b->phase > want[lane] >> STATE_PENDING_BITS;
    if (over) {
      done |= 1u << lane;
      if (!repeated && i->semantics != PTX_SEM_RELAXED) emu_acquire(w, b->completed);
    }
    several |= first != NULL && first != b;
    first = b;
  }
  if (done == 0 && !several && w->spin_again && w->spin_pc == w->pc && !w->timed_out) {
    w->wait_mbarrier = first->offset;
    return emu_block(w, EMU_WAIT_MBARRIER);
  }
  w->timed_out = false;
  w->spin_again = done == 0;
  w->spin_pc = w->pc;
  if (done == 0) w->cluster->polls++;
  alu_write_predicate(&i->operands[0], &w->alu.registers, done, active);
  return true;
}

static void pending_count(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  uint64_t scratch[PTX_LANES], count[PTX_LANES];
  const uint64_t *state = alu_operand(&i->operands[1], &w->alu, scratch);
  for (int lane = 0; lane < PTX_LANES; lane++) count[lane] = state[lane] & MAX_COUNT;
  alu_write(&i->operands[0], &w->alu.registers, count, active);
}

bool emu_mbarrier_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_MBARRIER_TEST_WAIT:
  case PTX_MBARRIER_TEST_WAIT_PARITY:
  case PTX_MBARRIER_TRY_WAIT:
  case PTX_MBARRIER_TRY_WAIT_PARITY: return wait(w, i, active);
  case PTX_MBARRIER_PENDING_COUNT: pending_count(w, i, active); return true;
  default: break;
  }
  uint64_t scratch[PTX_LANES], state[PTX_LANES] = {0};
  bool has_result = i->opcode >= PTX_MBARRIER_ARRIVE && i->opcode <= PTX_MBARRIER_ARRIVE_DROP_EXPECT_TX;
  const uint64_t *address = alu_operand(&i->operands[has_result ? 1 : 0], &w->alu, scratch);
  w->spin_again = false;
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    if (!update(w, i, lane, address[lane], &state[lane])) return false;
  }
  if (has_result) alu_write(&i->operands[0], &w->alu.registers, state, active);
  return true;
}
