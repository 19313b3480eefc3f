/* Inside the issue of asynchronous copies: what bulk copies and cp.async share. Only emu_copy*.c and
 * emu_cp_async.c include this. False: a rule is broken, which has been reported, or there is no memory. */
#ifndef ARKE_EMULATOR_EMU_COPY_H
#define ARKE_EMULATOR_EMU_COPY_H

#include "emulator/emu_machine.h"

/* --- one copy (emu_copy_issue.c) --- */

static inline uint64_t emu_lane_value(const emu_warp *w, const ptx_operand *o, int lane) {
  uint64_t scratch[PTX_LANES];
  return alu_operand(o, &w->alu, scratch)[lane];
}
static inline bool emu_copy_is_store(const emu_copy *c) {
  return c->kind == EMU_COPY_TENSOR_STORE || c->kind == EMU_COPY_BULK_STORE;
}

/* A copy that the lane's instruction is about to issue, in the view that it has; NULL: no memory. */
emu_copy *emu_copy_new(emu_warp *w, const ptx_instruction *i, int lane, emu_copy_kind kind);
/* From here on it is under way, and the cluster's. */
bool emu_copy_issue(emu_cluster *c, emu_copy *copy);
/* The tensor map at the address that `tensor` begins with, and the coordinates behind it. */
bool emu_copy_read_map(emu_warp *w, const ptx_instruction *i, int lane, const ptx_operand *tensor,
                       emu_copy *c);
/* Reads or writes of shared memory by a copy, recorded as its own: some bytes, or all of a box: whole rows
 * for loads, what lies inside the tensor for stores. */
bool emu_copy_touch(emu_warp *w, int lane, const emu_copy *c, emu_cta *cta, uint32_t offset, uint32_t bytes,
                    bool write);
bool emu_copy_touch_box(emu_warp *w, int lane, const emu_copy *c, bool write);
/* Global memory that it reads or writes must lie inside an allocation, and hold values if it is read; of a
 * box the part inside the tensor. */
bool emu_copy_check_global(emu_warp *w, int lane, uint64_t address, uint64_t bytes, bool write, bool strong);
bool emu_copy_check_box(emu_warp *w, int lane, const emu_copy *c, bool write);
/* Issues a copy into shared memory at `to` that completes on the mbarrier at `at`; frees it where it fails.
 */
bool emu_copy_issue_load(emu_warp *w, int lane, emu_copy *c, emu_cta *cta, uint32_t offset,
                         emu_cta *mbarrier_cta, uint32_t mbarrier_offset);

/* --- instructions --- */

/* Bulk copies, st.async and red.async (emu_copy_bulk.c). */
bool emu_copy_bulk_lane(emu_warp *w, const ptx_instruction *i, int lane);
/* cp.async, which each lane issues for itself (emu_cp_async.c). */
bool emu_cp_async_lane(emu_warp *w, const ptx_instruction *i, int lane);
bool emu_cp_async_arrive_lane(emu_warp *w, const ptx_instruction *i, int lane);
void emu_cp_async_commit(emu_warp *w, uint32_t active);
bool emu_cp_async_wait(emu_warp *w, uint32_t active, uint64_t allowed, bool all);

#endif
