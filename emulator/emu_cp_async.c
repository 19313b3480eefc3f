/* cp.async (PTX ISA 9.7.9.26): copies by lanes, whose groups a thread waits for, or an mbarrier. */
#include "emulator/emu_copy.h"

/* cp.async (PTX ISA 9.7.9.26): each lane copies 4, 8 or 16 bytes. */
bool emu_cp_async_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  uint32_t bytes = (uint32_t)i->operands[2].value, valid = bytes;
  emu_place to;
  /* The fourth operand is a source size, or a predicate that says "ignore the source", or the cache policy.
   */
  bool hinted = (i->flags & PTX_FLAG_CACHE_HINT) != 0;
  if (i->n_operands > (hinted ? 4 : 3)) {
    const ptx_operand *o = &i->operands[3];
    if (o->kind == PTX_OPERAND_PREDICATE)
      valid = (alu_predicate(o, &w->alu) >> lane & 1) != 0 ? 0 : bytes;
    else
      valid = (uint32_t)emu_lane_value(w, o, lane);
  }
  if (valid > bytes)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "source size %u is more than %u", valid, bytes);
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, emu_lane_value(w, &i->operands[0], lane), bytes, bytes,
                          &to))
    return false;
  uint64_t global = emu_lane_value(w, &i->operands[1], lane);
  if (global % bytes != 0)
    return emu_fail(w, EMU_FAULT_MISALIGNED, lane, "address 0x%llx is not a multiple of %u",
                    (unsigned long long)global, bytes);
  if (valid > 0 && !emu_copy_check_global(w, lane, global, valid, false, false)) return false;
  emu_copy *c = emu_copy_new(w, i, lane, EMU_COPY_CP_ASYNC);
  if (c == NULL) return false;
  c->cta = to.cta;
  c->offset = to.offset;
  c->global = global;
  c->bytes = bytes;
  c->valid_bytes = valid;
  if (emu_copy_touch(w, lane, c, c->cta, c->offset, bytes, true) && emu_copy_issue(w->cluster, c))
    return true;
  emu_copy_free(c);
  return false;
}

bool emu_cp_async_wait(emu_warp *w, uint32_t active, uint64_t allowed, bool all) {
  emu_cluster *cluster = w->cluster;
  for (uint32_t j = cluster->n_copies; j-- > 0;) {
    emu_copy *c = cluster->copies[j];
    if (c->kind != EMU_COPY_CP_ASYNC || c->warp != w || (active >> c->lane & 1) == 0) continue;
    uint64_t groups = w->cp_async_groups[c->lane], last = groups > allowed ? groups - allowed : 0;
    if (!all && (c->group == 0 || c->group > last)) continue;
    emu_view_learn(&cluster->order, w->view, emu_epoch_agent(c->epoch), emu_epoch_clock(c->epoch));
    if (!emu_copy_finish(cluster, j)) return false;
    emu_copy_remove(cluster, j);
  }
  return true;
}

void emu_cp_async_commit(emu_warp *w, uint32_t active) {
  for (uint32_t left = active; left != 0; left &= left - 1) w->cp_async_groups[__builtin_ctz(left)]++;
  for (uint32_t j = 0; j < w->cluster->n_copies; j++) {
    emu_copy *c = w->cluster->copies[j];
    if (c->kind == EMU_COPY_CP_ASYNC && c->warp == w && (active >> c->lane & 1) != 0 && c->group == 0)
      c->group = w->cp_async_groups[c->lane];
  }
}

/* The mbarrier receives an arrival when all earlier cp.async of the thread are done. */
bool emu_cp_async_arrive_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place at;
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, emu_lane_value(w, &i->operands[0], lane), 8, 8, &at))
    return false;
  emu_copy *c = emu_copy_new(w, i, lane, EMU_COPY_CP_ASYNC_ARRIVE);
  if (c == NULL) return false;
  c->cta = c->mbarrier_cta = at.cta;
  c->mbarrier_offset = at.offset;
  c->has_mbarrier = true;
  c->no_increment = (i->flags & PTX_FLAG_NO_INC) != 0;
  emu_mbarrier *b = emu_mbarrier_find(at.cta, at.offset);
  bool ok = b != NULL ||
            emu_fail(w, EMU_FAULT_BARRIER, lane, "there is no initialised mbarrier at 0x%x", at.offset);
  if (ok && !c->no_increment) b->pending++;
  if (ok && emu_copy_issue(w->cluster, c)) return true;
  emu_copy_free(c);
  return false;
}
