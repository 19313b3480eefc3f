/* Issuing an asynchronous copy: what it reads and writes is checked, and recorded as its own, when it is
 * issued; emu_transfer.c moves the bytes, later. */
#include <stdlib.h>
#include <string.h>

#include "emulator/emu_copy.h"

bool emu_copy_issue(emu_cluster *c, emu_copy *copy) {
  if (c->n_copies == c->copy_capacity) {
    uint32_t capacity = c->copy_capacity == 0 ? 64 : 2 * c->copy_capacity;
    emu_copy **list = realloc(c->copies, capacity * sizeof(emu_copy *));
    if (list == NULL) return emu_no_memory(c->launch);
    c->copies = list;
    c->copy_capacity = capacity;
  }
  c->copies[c->n_copies++] = copy;
  c->n_pending++;
  c->events++;
  return true;
}

emu_copy *emu_copy_new(emu_warp *w, const ptx_instruction *i, int lane, emu_copy_kind kind) {
  emu_copy *c = calloc(1, sizeof *c);
  if (c == NULL) {
    emu_no_memory(w->cluster->launch);
    return NULL;
  }
  c->kind = kind;
  c->instruction = i;
  c->warp = w;
  c->lane = (uint32_t)lane;
  uint32_t clock, agent = emu_copy_agent(&w->cluster->order, w->view, &clock);
  c->epoch = emu_epoch_make(agent, clock, w->pc);
  return c;
}

bool emu_copy_touch(emu_warp *w, int lane, const emu_copy *c, emu_cta *cta, uint32_t offset, uint32_t bytes,
                    bool write) {
  emu_actor actor = emu_warp_actor(w, 0, false);
  actor.now = c->epoch;
  actor.async = c->kind != EMU_COPY_STORE_ASYNC && c->kind != EMU_COPY_CP_ASYNC;
  actor.strong = c->kind == EMU_COPY_STORE_ASYNC && c->operation != PTX_OP_NONE;
  emu_conflict conflict;
  if (write && cta->n_mbarriers > 0 && emu_mbarrier_overlaps(cta, offset, bytes))
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "writes over an mbarrier");
  if (!emu_shadow_access(cta->shadow, offset, bytes, write, &actor, &conflict))
    return emu_fail_conflict(w, lane, cta, "it", write, true, &conflict);
  if (!write && !emu_shadow_initialised(cta->shadow, offset, bytes, &conflict.address)) {
    conflict.kind = EMU_CONFLICT_UNINITIALISED;
    return emu_fail_conflict(w, lane, cta, "it", write, true, &conflict);
  }
  return true;
}

bool emu_copy_touch_box(emu_warp *w, int lane, const emu_copy *c, bool write) {
  for (uint32_t r = 0; r < emu_copy_rows(c); r++) {
    emu_box_row row = emu_copy_row(c, r);
    uint32_t first = write ? 0 : row.first, last = write ? c->map.row_bytes : row.last;
    if (first >= last) continue;
    bool whole_span = first == 0 && last == c->map.pitch_bytes && row.offset % c->map.pitch_bytes == 0;
    if (c->map.swizzle == 0 || whole_span) {
      if (!emu_copy_touch(w, lane, c, c->cta, row.offset + first, last - first, write)) return false;
      continue;
    }
    for (uint32_t b = first; b < last;) {
      uint32_t end = (b / 16 + 1) * 16 < last ? (b / 16 + 1) * 16 : last;
      uint32_t chunk = emu_swizzle(row.offset + b / 16 * 16, c->map.swizzle);
      if (!emu_copy_touch(w, lane, c, c->cta, chunk + b % 16, end - b, write)) return false;
      b = end;
    }
  }
  return true;
}

bool emu_copy_check_global(emu_warp *w, int lane, uint64_t address, uint64_t bytes, bool write, bool strong) {
  emu_memory *m = w->cluster->launch->memory;
  emu_allocation *a = emu_memory_range(m, address, bytes);
  char where[160];
  uint64_t missing;
  if (!emu_launches_awaited(w, lane)) return false;
  if (a == NULL) {
    bool inside = emu_memory_find(m, address) != NULL;
    emu_memory_describe(m, inside ? address + bytes - 1 : address, where, sizeof where);
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "%s tensor %s", write ? "writes" : "reads", where);
  }
  if (write && a->read_only)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "writes constant memory %s", a->name);
  if (write || emu_memory_initialised(a, address, bytes, &missing))
    return emu_global_access(w, lane, a, address, bytes, write, strong);
  emu_memory_describe(m, missing, where, sizeof where);
  return emu_fail(w, EMU_FAULT_UNINITIALISED, lane, "reads tensor %s, which nothing wrote", where);
}

bool emu_copy_check_box(emu_warp *w, int lane, const emu_copy *c, bool write) {
  for (uint32_t r = 0; r < emu_copy_rows(c); r++) {
    emu_box_row row = emu_copy_row(c, r);
    if (row.first < row.last &&
        !emu_copy_check_global(w, lane, row.global, row.last - row.first, write, c->operation != PTX_OP_NONE))
      return false;
  }
  return true;
}

bool emu_copy_read_map(emu_warp *w, const ptx_instruction *i, int lane, const ptx_operand *tensor,
                       emu_copy *c) {
  const ptx_operand *map = &tensor->elements[0], *coordinates = &tensor->elements[1];
  emu_place p;
  uint64_t address = emu_lane_value(w, map, lane), missing;
  if (!emu_resolve(w, lane, PTX_SPACE_GENERIC, address, sizeof(device_tensormap), 64, &p)) return false;
  bool readable =
      p.space == PTX_SPACE_PARAM ||
      (p.space == PTX_SPACE_GLOBAL && emu_memory_initialised(p.allocation, address, 128, &missing));
  if (!readable || !emu_tensormap_decode(p.bytes, &c->map))
    return emu_fail(w, EMU_FAULT_DESCRIPTOR, lane, "the 128 bytes at 0x%llx are no tensor map",
                    (unsigned long long)address);
  if (c->map.rank != i->dim)
    return emu_fail(w, EMU_FAULT_DESCRIPTOR, lane, "a %dd copy through a tensor map of rank %d", i->dim,
                    c->map.rank);
  if (i->tiling != PTX_TILING_NONE && i->tiling != PTX_TILING_TILE)
    return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, lane, "this tiling mode is not modelled");
  for (uint32_t d = 0; d < coordinates->n && d < 5; d++)
    c->coordinate[d] = (int32_t)emu_lane_value(w, &coordinates->elements[d], lane);
  /* No manual says so: elsewhere an H200 ends with an illegal instruction, whatever the swizzle and the box.
   */
  int64_t begin = (int64_t)c->coordinate[0] * c->map.element_bytes;
  if (begin % 16 != 0)
    return emu_fail(w, EMU_FAULT_MISALIGNED, lane,
                    "the box begins %lld bytes into the innermost dimension: a multiple of 16 is needed",
                    (long long)begin);
  c->bytes = c->map.box_bytes;
  return true;
}

static bool check_mbarrier(emu_warp *w, int lane, emu_copy *c) {
  const emu_mbarrier *b = emu_mbarrier_find(c->mbarrier_cta, c->mbarrier_offset);
  char where[96];
  if (b == NULL) {
    emu_describe_shared(c->mbarrier_cta, c->mbarrier_offset, where, sizeof where);
    return emu_fail(w, EMU_FAULT_BARRIER, lane, "there is no initialised mbarrier at %s", where);
  }
  int line = w->cluster->launch->kernel->instructions[emu_epoch_pc(b->initialised)].line;
  if (!emu_view_covers(&w->cluster->order, w->view, b->initialised))
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "the mbarrier's initialisation at line %d is not ordered before this use", line);
  if (!b->init_fenced)
    return emu_fail(
        w, EMU_FAULT_PROXY_FENCE, lane,
        "the mbarrier initialised at line %d needs fence.mbarrier_init or fence.proxy.async before a copy "
        "completes on it",
        line);
  return true;
}

bool emu_copy_issue_load(emu_warp *w, int lane, emu_copy *c, emu_cta *cta, uint32_t offset,
                         emu_cta *mbarrier_cta, uint32_t mbarrier_offset) {
  c->cta = cta;
  c->offset = offset;
  c->has_mbarrier = true;
  c->mbarrier_cta = mbarrier_cta;
  c->mbarrier_offset = mbarrier_offset;
  bool ok = check_mbarrier(w, lane, c);
  if (ok && c->kind == EMU_COPY_TENSOR_LOAD) {
    uint32_t end = offset + (c->map.rows - 1) * c->map.pitch_bytes + c->map.row_bytes;
    if (end > w->cluster->launch->smem_window)
      ok = emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane,
                    "the box of %u bytes ends %u bytes past the end of shared memory", end - offset,
                    end - w->cluster->launch->smem_window);
    else
      ok = emu_copy_touch_box(w, lane, c, true);
  } else if (ok) {
    ok = emu_copy_touch(w, lane, c, cta, offset, c->bytes, true);
  }
  ok = ok && emu_copy_issue(w->cluster, c);
  if (!ok) emu_copy_free(c);
  return ok;
}
