#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"

bool emu_block(emu_warp *w, emu_wait wait) {
  w->wait = wait;
  return true;
}

void emu_release(emu_warp *w, emu_view *to) {
  emu_view_join(&w->cluster->order, to, w->view);
  w->clock++;
  *emu_view_clock_of(&w->cluster->order, w->view, w->agent) = w->clock;
}

void emu_acquire(emu_warp *w, const emu_view *from) {
  emu_view_join(&w->cluster->order, w->view, from);
  /* A view never knows more of the warp than the warp itself. */
  *emu_view_clock_of(&w->cluster->order, w->view, w->agent) = w->clock;
}

bool emu_require_converged(const emu_warp *w, const ptx_instruction *i, uint32_t active, bool full) {
  uint32_t wanted = full ? PTX_FULL_MASK : w->live;
  if (active == wanted) return true;
  return emu_fail(w, EMU_FAULT_DIVERGENCE, __builtin_ctz(active == 0 ? 1 : active),
                  "%s must be executed by %s, but only lanes 0x%08x of 0x%08x do", i->text,
                  full ? "all 32 lanes of the warp" : "all lanes of the warp together", active, wanted);
}

static bool push(emu_warp *w, uint32_t pc, uint32_t mask, uint32_t reconverge) {
  if (w->depth == w->stack_capacity) {
    uint32_t capacity = w->stack_capacity == 0 ? 16 : 2 * w->stack_capacity;
    emu_branch *stack = realloc(w->stack, capacity * sizeof *stack);
    if (stack == NULL) return emu_no_memory(w->cluster->launch);
    w->stack = stack;
    w->stack_capacity = capacity;
  }
  w->stack[w->depth++] = (emu_branch){pc, mask, reconverge};
  return true;
}

/* Switches to the lanes that wait on top of the stack; false when there are none. */
static bool pop(emu_warp *w) {
  while (w->depth > 0) {
    emu_branch b = w->stack[--w->depth];
    b.mask &= w->live;
    if (b.mask == 0) continue;
    w->pc = b.pc;
    w->active = b.mask;
    w->reconverge = b.reconverge;
    return true;
  }
  return false;
}

static bool branch(emu_warp *w, const ptx_instruction *i, uint32_t taken) {
  uint32_t stay = w->active & ~taken;
  if (stay == 0) {
    w->pc = i->target;
    return true;
  }
  if (taken == 0) {
    w->pc++;
    return true;
  }
  if ((i->flags & PTX_FLAG_UNI) != 0)
    return emu_fail(w, EMU_FAULT_DIVERGENCE, __builtin_ctz(stay),
                    "lanes 0x%08x take the branch, lanes 0x%08x do not", taken, stay);
  /* Lanes that leave a loop wait where the enclosing entry already continues. */
  if (w->reconverge != i->reconverge && !push(w, i->reconverge, w->active, w->reconverge)) return false;
  uint32_t next = w->pc + 1;
  if (next != i->reconverge && !push(w, next, stay, i->reconverge)) return false;
  w->active = taken;
  w->pc = i->target;
  w->reconverge = i->reconverge;
  return true;
}

static bool indexed_branch(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  const ptx_operand *targets = &i->operands[1];
  uint64_t scratch[PTX_LANES];
  const uint64_t *index = alu_operand(&i->operands[0], &w->alu, scratch);
  if (w->reconverge != i->reconverge && !push(w, i->reconverge, w->active, w->reconverge)) return false;
  uint32_t left = active;
  while (left != 0) {
    int lane = __builtin_ctz(left);
    uint64_t which = index[lane] & 0xFFFFFFFF;
    if (which >= targets->n)
      return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "index %llu is past the %u targets",
                      (unsigned long long)which, targets->n);
    uint32_t same = 0;
    for (int j = lane; j < PTX_LANES; j++) {
      if ((left >> j & 1) != 0 && (index[j] & 0xFFFFFFFF) == which) same |= 1u << j;
    }
    left &= ~same;
    if (!push(w, targets->elements[which].slot, same, i->reconverge)) return false;
  }
  return pop(w);
}

static bool exit_lanes(emu_warp *w, uint32_t lanes) {
  if (!emu_copy_thread_exit(w, lanes)) return false;
  w->live &= ~lanes;
  w->alu.exited |= lanes;
  w->active &= w->live;
  w->pc++;
  if (w->live != 0) return true;
  w->pc--;
  if (!emu_wgmma_warp_exit(w)) return false;
  w->wait = EMU_WAIT_DONE;
  w->cta->live_warps--;
  w->cluster->live_warps--;
  emu_barrier_warp_exit(w);
  return w->cta->live_warps > 0 || (emu_copy_cta_exit(w->cta, w) && emu_cluster_cta_exit(w->cta, w));
}

static emu_warpgroup *group_of(emu_warp *w) {
  return &w->cta->groups[w->index / EMU_WARPGROUP_WARPS];
}

/* PTX ISA 9.7.19.5: all warps of the warp group execute the same setmaxnreg; increasing waits for the pool.
 */
static bool set_max_registers(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  if (!emu_require_converged(w, i, active, true)) return false;
  emu_warpgroup *g = group_of(w);
  uint32_t wanted = (uint32_t)i->operands[0].value, lane = w->index % EMU_WARPGROUP_WARPS;
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    if (j != lane && g->setmaxnreg_count[j] == g->setmaxnreg_count[lane] + 1 && g->setmaxnreg_pc[j] != w->pc)
      return emu_fail(w, EMU_FAULT_DIVERGENCE, -1,
                      "another warp of the warp group executes the one of line %d instead",
                      w->cluster->launch->kernel->instructions[g->setmaxnreg_pc[j]].line);
  }
  bool up = i->mode == PTX_MODE_INC;
  if (up ? wanted < w->registers : wanted > w->registers)
    return emu_fail(w, EMU_FAULT_REGISTERS, -1, "%s to %u, but the warp has %u",
                    up ? "increases" : "decreases", wanted, w->registers);
  if (up && (wanted - w->registers) * PTX_LANES > w->cta->register_pool) {
    w->wait_registers = wanted;
    return emu_block(w, EMU_WAIT_REGISTERS);
  }
  if (up)
    w->cta->register_pool -= (wanted - w->registers) * PTX_LANES;
  else
    w->cta->register_pool += (w->registers - wanted) * PTX_LANES;
  w->registers = wanted;
  g->setmaxnreg_pc[lane] = w->pc;
  g->setmaxnreg_count[lane]++;
  for (uint32_t j = 0; !up && j < w->cluster->warps_per_cta; j++) {
    if (w->cta->warps[j].wait == EMU_WAIT_REGISTERS) w->cta->warps[j].wait = EMU_WAIT_NONE;
  }
  w->pc++;
  return true;
}

static bool control(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_BRA: return branch(w, i, active);
  case PTX_BRX: return active == 0 || indexed_branch(w, i, active);
  default: break;
  }
  if (active == 0) {
    w->pc++;
    return true;
  }
  switch (i->opcode) {
  case PTX_RET:
  case PTX_EXIT: return exit_lanes(w, active);
  case PTX_TRAP: return emu_fail(w, EMU_FAULT_TRAP, __builtin_ctz(active), "the kernel traps");
  case PTX_SETMAXNREG: return set_max_registers(w, i, active);
  case PTX_NANOSLEEP: w->cluster->polls += 64; break;
  case PTX_GRIDDEPCONTROL_WAIT: w->cta->launches_awaited = true; break;
  default: break; /* the release of dependent launches, breakpoints and profiler marks have no effect here */
  }
  w->pc++;
  return true;
}

static bool tensor_memory(emu_warp *w, const ptx_instruction *i) {
  return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "%s is not modelled", i->text);
}

static bool execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  alu_fault fault;
  if (i->unit == PTX_UNIT_ALU) {
    if (active != 0 && !alu_execute(w->cluster->launch->kernel, i, &w->alu, active, &fault))
      return emu_fail(w, fault.fault, fault.lane, "%s", fault.text);
    w->pc++;
    return true;
  }
  if (active != 0 && !alu_check_reads(w->cluster->launch->kernel, i, &w->alu.registers, active, &fault))
    return emu_fail(w, fault.fault, fault.lane, "%s", fault.text);
  if (i->unit == PTX_UNIT_CONTROL) return control(w, i, active);
  if (active == 0) {
    w->pc++;
    return true;
  }
  bool ok = false;
  switch (i->unit) {
  case PTX_UNIT_MEMORY: ok = emu_memory_execute(w, i, active); break;
  case PTX_UNIT_BARRIER: ok = emu_barrier_execute(w, i, active); break;
  case PTX_UNIT_COPY: ok = emu_copy_execute(w, i, active); break;
  case PTX_UNIT_MATRIX: ok = emu_matrix_execute(w, i, active); break;
  default: ok = tensor_memory(w, i); break;
  }
  if (ok && w->wait == EMU_WAIT_NONE) w->pc++;
  return ok;
}

bool emu_warp_run(emu_warp *w, uint32_t quantum) {
  emu_launch *l = w->cluster->launch;
  const ptx_instruction *code = l->kernel->instructions;
  for (; quantum > 0 && w->wait == EMU_WAIT_NONE; quantum--) {
    while (w->active == 0 || w->pc == w->reconverge) {
      if (!pop(w))
        return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "control leaves the kernel's instructions");
    }
    const ptx_instruction *i = &code[w->pc];
    uint32_t active = w->active;
    if (i->guard != PTX_NOWHERE) {
      uint32_t missing = active & ~w->alu.registers.predicate_written[i->guard];
      if (missing != 0) {
        char name[64];
        ptx_slot_name(l->kernel, i->guard | PTX_USE_PREDICATE, name, sizeof name);
        return emu_fail(w, EMU_FAULT_UNINITIALISED, __builtin_ctz(missing), "guard %s was never written",
                        name);
      }
      active = alu_guard(i, &w->alu.registers, active);
    }
    if (l->touches_wgmma[w->pc] && active != 0 && !emu_wgmma_check_registers(w, i)) return false;
    w->executed++;
    l->report->instructions++;
    if (!execute(w, i, active)) return false;
  }
  return true;
}

/* Values of a dimension triple. */
static uint32_t axis(ptx_special which, ptx_special first, const uint32_t v[3]) {
  return v[which - first];
}

void emu_special(void *machine, ptx_special which, uint64_t out[PTX_LANES]) {
  emu_warp *w = machine;
  const emu_launch *l = w->cluster->launch;
  const emu_cta *c = w->cta;
  uint32_t cluster_id[3], n_clusters[3], in_cluster[3];
  for (int i = 0; i < 3; i++) {
    cluster_id[i] = c->id[i] / l->cluster_dim[i];
    n_clusters[i] = l->grid[i] / l->cluster_dim[i];
    in_cluster[i] = c->id[i] % l->cluster_dim[i];
  }
  uint64_t v = 0;
  switch (which) {
  case PTX_SPECIAL_TID_X:
  case PTX_SPECIAL_TID_Y:
  case PTX_SPECIAL_TID_Z:
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint32_t t = w->index * PTX_LANES + lane;
      uint32_t id[3] = {t % l->block[0], t / l->block[0] % l->block[1], t / (l->block[0] * l->block[1])};
      out[lane] = axis(which, PTX_SPECIAL_TID_X, id);
    }
    return;
  case PTX_SPECIAL_LANEID:
  case PTX_SPECIAL_LANEMASK_EQ:
  case PTX_SPECIAL_LANEMASK_LE:
  case PTX_SPECIAL_LANEMASK_LT:
  case PTX_SPECIAL_LANEMASK_GE:
  case PTX_SPECIAL_LANEMASK_GT:
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
      uint32_t bit = 1u << lane, below = bit - 1;
      out[lane] = which == PTX_SPECIAL_LANEID        ? lane
                  : which == PTX_SPECIAL_LANEMASK_EQ ? bit
                  : which == PTX_SPECIAL_LANEMASK_LE ? below | bit
                  : which == PTX_SPECIAL_LANEMASK_LT ? below
                  : which == PTX_SPECIAL_LANEMASK_GE ? ~below
                                                     : ~(below | bit);
      out[lane] &= 0xFFFFFFFF;
    }
    return;
  case PTX_SPECIAL_NTID_X:
  case PTX_SPECIAL_NTID_Y:
  case PTX_SPECIAL_NTID_Z: v = axis(which, PTX_SPECIAL_NTID_X, l->block); break;
  case PTX_SPECIAL_CTAID_X:
  case PTX_SPECIAL_CTAID_Y:
  case PTX_SPECIAL_CTAID_Z: v = axis(which, PTX_SPECIAL_CTAID_X, c->id); break;
  case PTX_SPECIAL_NCTAID_X:
  case PTX_SPECIAL_NCTAID_Y:
  case PTX_SPECIAL_NCTAID_Z: v = axis(which, PTX_SPECIAL_NCTAID_X, l->grid); break;
  case PTX_SPECIAL_CLUSTERID_X:
  case PTX_SPECIAL_CLUSTERID_Y:
  case PTX_SPECIAL_CLUSTERID_Z: v = axis(which, PTX_SPECIAL_CLUSTERID_X, cluster_id); break;
  case PTX_SPECIAL_NCLUSTERID_X:
  case PTX_SPECIAL_NCLUSTERID_Y:
  case PTX_SPECIAL_NCLUSTERID_Z: v = axis(which, PTX_SPECIAL_NCLUSTERID_X, n_clusters); break;
  case PTX_SPECIAL_CLUSTER_CTAID_X:
  case PTX_SPECIAL_CLUSTER_CTAID_Y:
  case PTX_SPECIAL_CLUSTER_CTAID_Z: v = axis(which, PTX_SPECIAL_CLUSTER_CTAID_X, in_cluster); break;
  case PTX_SPECIAL_CLUSTER_NCTAID_X:
  case PTX_SPECIAL_CLUSTER_NCTAID_Y:
  case PTX_SPECIAL_CLUSTER_NCTAID_Z: v = axis(which, PTX_SPECIAL_CLUSTER_NCTAID_X, l->cluster_dim); break;
  case PTX_SPECIAL_CLUSTER_CTARANK: v = c->rank; break;
  case PTX_SPECIAL_CLUSTER_NCTARANK: v = w->cluster->n_ctas; break;
  case PTX_SPECIAL_IS_EXPLICIT_CLUSTER: v = w->cluster->n_ctas > 1 || l->kernel->explicit_cluster; break;
  case PTX_SPECIAL_WARPID: v = w->index; break;
  case PTX_SPECIAL_NWARPID: v = 64; break;
  case PTX_SPECIAL_SMID: v = (w->cluster->id * w->cluster->n_ctas + c->rank) % (uint32_t)l->sm_count; break;
  case PTX_SPECIAL_NSMID: v = (uint32_t)l->sm_count; break;
  case PTX_SPECIAL_GRIDID: v = 1; break;
  case PTX_SPECIAL_CLOCK: v = w->executed & 0xFFFFFFFF; break;
  case PTX_SPECIAL_CLOCK_HI: v = w->executed >> 32; break;
  case PTX_SPECIAL_CLOCK64:
  case PTX_SPECIAL_GLOBALTIMER: v = l->report->instructions; break;
  case PTX_SPECIAL_GLOBALTIMER_LO: v = l->report->instructions & 0xFFFFFFFF; break;
  case PTX_SPECIAL_GLOBALTIMER_HI: v = l->report->instructions >> 32; break;
  case PTX_SPECIAL_DYNAMIC_SMEM_SIZE: v = l->smem_dynamic; break;
  case PTX_SPECIAL_TOTAL_SMEM_SIZE: v = l->smem_window - EMU_SMEM_RESERVED; break; /* as an H200 says */
  case PTX_SPECIAL_AGGR_SMEM_SIZE: v = l->smem_window; break;
  case PTX_SPECIAL_COUNT: break;
  }
  for (int lane = 0; lane < PTX_LANES; lane++) out[lane] = v;
}
