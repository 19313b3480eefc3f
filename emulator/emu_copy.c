/* Instructions that copy asynchronously: which part issues them, the groups that bulk stores are waited for
 * by, and what must not be under way when a thread or a CTA ends. */
#include "emulator/emu_copy.h"

static void commit_lane(emu_warp *w, uint32_t lane) {
  uint64_t group = ++w->bulk_groups[lane];
  for (uint32_t j = 0; j < w->cluster->n_copies; j++) {
    emu_copy *c = w->cluster->copies[j];
    if (emu_copy_is_store(c) && c->warp == w && c->lane == lane && c->group == 0) c->group = group;
  }
}

/* cp.async.bulk.wait_group N: all but the N most recent groups of this thread are done (.read: have read). */
static bool wait_lane(emu_warp *w, uint32_t lane, uint64_t allowed, bool only_read) {
  emu_cluster *cluster = w->cluster;
  uint64_t groups = w->bulk_groups[lane], last = groups > allowed ? groups - allowed : 0;
  for (uint32_t j = cluster->n_copies; j-- > 0;) {
    emu_copy *c = cluster->copies[j];
    if (!emu_copy_is_store(c) || c->warp != w || c->lane != lane || c->group == 0 || c->group > last)
      continue;
    emu_view_learn(&cluster->order, w->view, emu_epoch_agent(c->epoch), emu_epoch_clock(c->epoch));
    c->waited = true;
    if (only_read && !c->done) {
      if (!c->read_done && !emu_copy_read_source(c)) return false;
      continue;
    }
    if (!emu_copy_finish(cluster, j)) return false;
    emu_copy_remove(cluster, j);
  }
  return true;
}

static bool execute_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  switch (i->opcode) {
  case PTX_BULK_COMMIT: commit_lane(w, (uint32_t)lane); return true;
  case PTX_BULK_WAIT:
    return wait_lane(w, (uint32_t)lane, i->operands[0].value, (i->flags & PTX_FLAG_READ) != 0);
  case PTX_CP_ASYNC: return emu_cp_async_lane(w, i, lane);
  case PTX_CP_ASYNC_MBARRIER_ARRIVE: return emu_cp_async_arrive_lane(w, i, lane);
  default: return emu_copy_bulk_lane(w, i, lane);
  }
}

bool emu_copy_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_CP_ASYNC_COMMIT: emu_cp_async_commit(w, active); return true;
  case PTX_CP_ASYNC_WAIT: return emu_cp_async_wait(w, active, i->operands[0].value, false);
  case PTX_CP_ASYNC_WAIT_ALL: return emu_cp_async_wait(w, active, 0, true);
  default: break;
  }
  for (uint32_t left = active; left != 0; left &= left - 1) {
    if (!execute_lane(w, i, __builtin_ctz(left))) return false;
  }
  return true;
}

bool emu_copy_thread_exit(emu_warp *w, uint32_t lanes) {
  for (uint32_t j = 0; j < w->cluster->n_copies; j++) {
    const emu_copy *c = w->cluster->copies[j];
    if (c->warp != w || (lanes >> c->lane & 1) == 0 || !emu_copy_is_store(c) || c->waited) continue;
    return emu_fail(
        w, EMU_FAULT_EXIT, (int)c->lane,
        "the %s of line %d may still read shared memory: cp.async.bulk.wait_group.read is missing",
        emu_copy_kind_text(c->kind), c->instruction->line);
  }
  return true;
}

bool emu_copy_cta_exit(emu_cta *cta, emu_warp *last) {
  cta->exited = true;
  for (uint32_t j = 0; j < cta->cluster->n_copies; j++) {
    const emu_copy *c = cta->cluster->copies[j];
    if (c->done || emu_copy_is_store(c) || (c->cta != cta && (!c->has_mbarrier || c->mbarrier_cta != cta)))
      continue;
    return emu_fail(last, EMU_FAULT_EXIT, -1,
                    "the %s of line %d into this CTA's shared memory is still under way",
                    emu_copy_kind_text(c->kind), c->instruction->line);
  }
  for (uint32_t j = 0; j < cta->n_mbarriers; j++) {
    const emu_mbarrier *b = &cta->mbarriers[j];
    char text[192];
    if (!b->valid || b->tx_bytes == 0) continue;
    emu_mbarrier_describe(cta, b, text, sizeof text);
    return emu_fail(last, EMU_FAULT_EXIT, -1, "%s still expects bytes", text);
  }
  return true;
}
