/* When wgmmas are issued, committed and done: the queue of a warp group, in which they are computed as late
 * as they may be, and what the rules on registers and fences ask in between. */
#include <stdlib.h>
#include <string.h>

#include "emulator/emu_wgmma.h"

static emu_warpgroup *group_of(const emu_warp *w) {
  return &w->cta->groups[w->index / EMU_WARPGROUP_WARPS];
}

static emu_wgmma *entry(emu_warpgroup *g, uint64_t sequence) {
  return &g->queue[sequence - g->first];
}

static emu_wgmma *new_entry(emu_warpgroup *g) {
  /* Drop what all four warps are done with before growing. */
  uint64_t done = UINT64_MAX;
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    const emu_warp *w = &g->cta->warps[g->index * EMU_WARPGROUP_WARPS + j];
    if (w->retired < done) done = w->retired;
  }
  if (g->n > 0 && done >= g->first) {
    uint32_t drop = (uint32_t)(done - g->first + 1);
    for (uint32_t j = 0; j < drop; j++) free(g->queue[j].known);
    memmove(g->queue, g->queue + drop, (g->n - drop) * sizeof *g->queue);
    g->n -= drop;
    g->first += drop;
  }
  if (g->n == g->capacity) {
    uint32_t capacity = g->capacity == 0 ? 32 : 2 * g->capacity;
    emu_wgmma *queue = realloc(g->queue, capacity * sizeof *queue);
    if (queue == NULL) return NULL;
    g->queue = queue;
    g->capacity = capacity;
  }
  emu_wgmma *e = &g->queue[g->n];
  memset(e, 0, sizeof *e);
  e->known = emu_view_new(&g->cta->cluster->order);
  if (e->known == NULL) return NULL;
  g->n++;
  e->sequence = ++g->issued;
  return e;
}

void emu_warpgroup_release(emu_warpgroup *g) {
  for (uint32_t j = 0; j < g->n; j++) free(g->queue[j].known);
  free(g->queue);
  free(g->group_end);
}

static bool register_fault(emu_warp *w, emu_fault fault, uint32_t slot, const char *why) {
  char name[64];
  ptx_slot_name(w->cluster->launch->kernel, slot, name, sizeof name);
  return emu_fail(w, fault, -1, "register %s %s", name, why);
}

/* PTX ISA 9.7.15.7.1: wgmma.fence before the first wgmma, and between any other access to its registers and
 * it; wgmmas of one shape may share accumulators without. */
static bool check_issue_registers(emu_warp *w, const emu_wgmma_shape *s, const ptx_instruction *i,
                                  bool accumulate) {
  emu_warpgroup *g = group_of(w);
  if (w->fence_count == 0)
    return emu_fail(w, EMU_FAULT_WGMMA_FENCE, -1, "no wgmma.fence before the first wgmma");
  for (uint32_t j = 0; j < s->n_d; j++) {
    uint32_t slot = s->d->elements[j].slot;
    if (w->register_pending[slot] != 0) {
      const ptx_instruction *other = entry(g, w->register_pending[slot])->instruction;
      if (other->n != i->n || other->type[0] != i->type[0] || other->operands[0].elements[j].slot != slot)
        return register_fault(w, EMU_FAULT_WGMMA_REGISTER, slot,
                              "is the accumulator of a wgmma of another shape in flight");
    } else if (accumulate && w->alu.registers.written[slot] != PTX_FULL_MASK) {
      return register_fault(w, EMU_FAULT_UNINITIALISED, slot, "is accumulated to, but nothing wrote it");
    }
    if (w->register_written[slot] > w->fence_count)
      return register_fault(w, EMU_FAULT_WGMMA_FENCE, slot, "was used after the last wgmma.fence");
    if (w->register_read[slot] > w->retired)
      return register_fault(w, EMU_FAULT_WGMMA_REGISTER, slot, "is still read by a wgmma in flight");
  }
  for (uint32_t j = 0; s->a_in_registers && j < s->a->n; j++) {
    uint32_t slot = s->a->elements[j].slot;
    if (w->register_pending[slot] != 0)
      return register_fault(w, EMU_FAULT_WGMMA_REGISTER, slot, "is the result of a wgmma in flight");
    if (w->register_written[slot] > w->fence_count)
      return register_fault(w, EMU_FAULT_WGMMA_FENCE, slot, "was written after the last wgmma.fence");
  }
  return true;
}

static bool uniform_value(emu_warp *w, const ptx_operand *o, const char *what, uint64_t *value) {
  uint64_t scratch[PTX_LANES];
  const uint64_t *v = alu_operand(o, &w->alu, scratch);
  *value = v[0];
  for (int lane = 1; lane < PTX_LANES; lane++) {
    if (v[lane] != *value)
      return emu_fail(w, EMU_FAULT_DESCRIPTOR, lane, "lanes give different %s: 0x%llx and 0x%llx", what,
                      (unsigned long long)*value, (unsigned long long)v[lane]);
  }
  return true;
}

static void wake_group(emu_warpgroup *g) {
  g->cta->cluster->events++;
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    emu_warp *w = &g->cta->warps[g->index * EMU_WARPGROUP_WARPS + j];
    if (w->wait == EMU_WAIT_WARPGROUP) w->wait = EMU_WAIT_NONE;
  }
}

static bool issue(emu_warp *w, const ptx_instruction *i) {
  emu_warpgroup *g = group_of(w);
  emu_wgmma_shape s = emu_wgmma_shape_of(i);
  uint32_t lane = w->index % EMU_WARPGROUP_WARPS;
  uint64_t a_bits = 0, b_bits;
  if (!uniform_value(w, s.b, "descriptors of B", &b_bits)) return false;
  if (!s.a_in_registers && !uniform_value(w, s.a, "descriptors of A", &a_bits)) return false;
  uint32_t scale = alu_predicate(s.scale_d, &w->alu);
  if (scale != 0 && scale != PTX_FULL_MASK)
    return emu_fail(w, EMU_FAULT_DIVERGENCE, -1, "lanes give different scale-d: 0x%08x", scale);
  if (!check_issue_registers(w, &s, i, scale != 0)) return false;
  uint64_t sequence = g->issued_by[lane] + 1;
  emu_wgmma *e;
  if (sequence > g->issued) {
    e = new_entry(g);
    if (e == NULL) return emu_no_memory(w->cluster->launch);
    e->instruction = i;
    e->pc = w->pc;
    e->a_descriptor = a_bits;
    e->b_descriptor = b_bits;
    e->accumulate = scale != 0;
    e->epoch = emu_epoch_make(g->agent, (uint32_t)sequence, w->pc);
    emu_view_copy(&w->cluster->order, e->known, w->view);
  } else {
    e = entry(g, sequence);
    if (e->pc != w->pc || e->a_descriptor != a_bits || e->b_descriptor != b_bits ||
        e->accumulate != (scale != 0))
      return emu_fail(w, EMU_FAULT_DIVERGENCE, -1,
                      "the warps of a warp group must execute the same wgmma with the same operands; another "
                      "warp's is at "
                      "line %d",
                      e->instruction->line);
    emu_view_meet(&w->cluster->order, e->known, w->view);
  }
  g->issued_by[lane] = sequence;
  e->issued |= 1u << lane;
  for (uint32_t j = 0; j < s.n_d; j++) {
    w->register_pending[s.d->elements[j].slot] = sequence;
    w->alu.registers.written[s.d->elements[j].slot] = PTX_FULL_MASK;
  }
  for (uint32_t j = 0; s.a_in_registers && j < s.a->n; j++)
    w->register_read[s.a->elements[j].slot] = sequence;
  /* Each warp feeds its own 16 rows of A; all of B is everyone's. */
  if (!s.a_in_registers &&
      !emu_wgmma_read_operand(w, e, w->view, a_bits, s.a_k_major, EMU_WGMMA_WARP_ROWS * lane,
                              EMU_WGMMA_WARP_ROWS, "matrix A"))
    return false;
  if (e->issued != 0xF) return true;
  wake_group(g);
  return emu_wgmma_read_operand(w, e, e->known, b_bits, s.b_k_major, 0, s.n, "matrix B");
}

static bool execute_up_to(emu_warp *w, emu_warpgroup *g, uint64_t sequence) {
  if (g->executed >= sequence) return true;
  mma_operand *operands = malloc(2 * sizeof *operands);
  if (operands == NULL) return emu_no_memory(w->cluster->launch);
  while (g->executed < sequence) emu_wgmma_compute(g, entry(g, ++g->executed), &operands[0], &operands[1]);
  free(operands);
  return true;
}

static bool commit(emu_warp *w) {
  emu_warpgroup *g = group_of(w);
  uint32_t lane = w->index % EMU_WARPGROUP_WARPS;
  uint64_t group = ++g->groups_by[lane];
  if (group > g->n_groups) {
    if (g->n_groups == g->group_capacity) {
      uint32_t capacity = g->group_capacity == 0 ? 64 : 2 * g->group_capacity;
      uint64_t *ends = realloc(g->group_end, capacity * sizeof *ends);
      if (ends == NULL) return emu_no_memory(w->cluster->launch);
      g->group_end = ends;
      g->group_capacity = capacity;
    }
    g->group_end[g->n_groups++] = g->issued_by[lane];
  } else if (g->group_end[group - 1] != g->issued_by[lane]) {
    return emu_fail(w, EMU_FAULT_DIVERGENCE, -1, "the warps of a warp group commit different wgmmas");
  }
  return true;
}

static bool wait(emu_warp *w, uint64_t allowed) {
  emu_warpgroup *g = group_of(w);
  uint32_t lane = w->index % EMU_WARPGROUP_WARPS;
  if (g->groups_by[lane] <= allowed) return true;
  uint64_t target = g->group_end[g->groups_by[lane] - allowed - 1];
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    if (g->issued_by[j] < target) return emu_block(w, EMU_WAIT_WARPGROUP);
  }
  if (!execute_up_to(w, g, target)) return false;
  for (uint64_t sequence = w->retired + 1; sequence <= target; sequence++) {
    const ptx_operand *d = &entry(g, sequence)->instruction->operands[0];
    for (uint32_t j = 0; j < d->n; j++) {
      uint64_t *pending = &w->register_pending[d->elements[j].slot];
      if (*pending == sequence) *pending = 0;
    }
  }
  if (target > w->retired) w->retired = target;
  emu_view_learn(&w->cluster->order, w->view, g->agent, (uint32_t)w->retired);
  return true;
}

bool emu_wgmma_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  if (!emu_require_converged(w, i, active, true)) return false;
  if ((w->index / EMU_WARPGROUP_WARPS + 1) * EMU_WARPGROUP_WARPS > w->cluster->warps_per_cta)
    return emu_fail(w, EMU_FAULT_DIVERGENCE, -1, "the warp belongs to no complete warp group of four warps");
  switch (i->opcode) {
  case PTX_WGMMA_FENCE: w->fence_count++; return true;
  case PTX_WGMMA_COMMIT: return commit(w);
  case PTX_WGMMA_WAIT: return wait(w, i->operands[0].value);
  default: return issue(w, i);
  }
}

bool emu_wgmma_check_registers(emu_warp *w, const ptx_instruction *i) {
  const uint8_t *kind = w->cluster->launch->wgmma_slot;
  for (uint32_t j = 0; j < (uint32_t)i->n_reads + i->n_writes; j++) {
    uint32_t slot = i->uses[j];
    if ((slot & PTX_USE_PREDICATE) != 0 || kind[slot] == 0) continue;
    bool write = j >= i->n_reads;
    if (w->register_pending[slot] != 0)
      return register_fault(w, EMU_FAULT_WGMMA_REGISTER, slot,
                            write ? "is written while a wgmma that accumulates to it is in flight"
                                  : "is read while a wgmma that accumulates to it is in flight");
    if (write && w->register_read[slot] > w->retired)
      return register_fault(w, EMU_FAULT_WGMMA_REGISTER, slot,
                            "is written while a wgmma in flight reads it as A");
    if (write || (kind[slot] & EMU_WGMMA_D) != 0) w->register_written[slot] = w->fence_count + 1;
  }
  return true;
}

bool emu_wgmma_warp_exit(emu_warp *w) {
  if (w->index / EMU_WARPGROUP_WARPS >= w->cta->n_groups) return true;
  emu_warpgroup *g = group_of(w);
  uint64_t issued = g->issued_by[w->index % EMU_WARPGROUP_WARPS];
  if (issued <= w->retired) return true;
  return emu_fail(w, EMU_FAULT_EXIT, -1, "the wgmma of line %d was never waited for",
                  entry(g, w->retired + 1)->instruction->line);
}
