#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"

static bool append(emu_cluster *c, emu_copy *copy) {
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

static emu_copy *new_copy(emu_warp *w, const ptx_instruction *i, int lane, emu_copy_kind kind) {
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

static uint64_t lane_value(const emu_warp *w, const ptx_operand *o, int lane) {
  uint64_t scratch[PTX_LANES];
  return alu_operand(o, &w->alu, scratch)[lane];
}

/* Reads or writes of shared memory by a copy, recorded as its own. */
static bool touch_shared(emu_warp *w, int lane, const emu_copy *c, emu_cta *cta, uint32_t offset,
                         uint32_t bytes, bool write) {
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

/* All shared bytes of a box: whole rows for loads, what lies inside the tensor for stores. */
static bool touch_box(emu_warp *w, int lane, const emu_copy *c, bool write) {
  for (uint32_t r = 0; r < emu_copy_rows(c); r++) {
    emu_box_row row = emu_copy_row(c, r);
    uint32_t first = write ? 0 : row.first, last = write ? c->map.row_bytes : row.last;
    if (first >= last) continue;
    bool whole_span = first == 0 && last == c->map.pitch_bytes && row.offset % c->map.pitch_bytes == 0;
    if (c->map.swizzle == 0 || whole_span) {
      if (!touch_shared(w, lane, c, c->cta, row.offset + first, last - first, write)) return false;
      continue;
    }
    for (uint32_t b = first; b < last;) {
      uint32_t end = (b / 16 + 1) * 16 < last ? (b / 16 + 1) * 16 : last;
      uint32_t chunk = emu_swizzle(row.offset + b / 16 * 16, c->map.swizzle);
      if (!touch_shared(w, lane, c, c->cta, chunk + b % 16, end - b, write)) return false;
      b = end;
    }
  }
  return true;
}

/* The part of a box inside the tensor must lie inside an allocation, and hold values if it is read. */
static bool check_global(emu_warp *w, int lane, uint64_t address, uint64_t bytes, bool write, bool strong) {
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

static bool check_box_global(emu_warp *w, int lane, const emu_copy *c, bool write) {
  for (uint32_t r = 0; r < emu_copy_rows(c); r++) {
    emu_box_row row = emu_copy_row(c, r);
    if (row.first < row.last &&
        !check_global(w, lane, row.global, row.last - row.first, write, c->operation != PTX_OP_NONE))
      return false;
  }
  return true;
}

static bool read_map(emu_warp *w, const ptx_instruction *i, int lane, const ptx_operand *tensor,
                     emu_copy *c) {
  const ptx_operand *map = &tensor->elements[0], *coordinates = &tensor->elements[1];
  emu_place p;
  uint64_t address = lane_value(w, map, lane), missing;
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
    c->coordinate[d] = (int32_t)lane_value(w, &coordinates->elements[d], lane);
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

/* Finishes issuing one copy into shared memory of `cta`. */
static bool issue_load(emu_warp *w, int lane, emu_copy *c, emu_cta *cta, uint32_t offset,
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
      ok = touch_box(w, lane, c, true);
  } else if (ok) {
    ok = touch_shared(w, lane, c, cta, offset, c->bytes, true);
  }
  ok = ok && append(w->cluster, c);
  if (!ok) emu_copy_free(c);
  return ok;
}

/* Loads from global memory, to one CTA or to each of a multicast mask. `first`: operand after the mbarrier.
 */
static bool load_lane(emu_warp *w, const ptx_instruction *i, int lane, emu_copy_kind kind,
                      const ptx_operand *rest) {
  bool tensor = kind == EMU_COPY_TENSOR_LOAD, multicast = (i->flags & PTX_FLAG_MULTICAST) != 0;
  const ptx_operand *barrier = &i->operands[tensor ? 2 : 3];
  emu_copy proto;
  memset(&proto, 0, sizeof proto);
  emu_place to, at;
  uint32_t align = tensor ? 128 : 16;
  if (tensor) {
    if (!read_map(w, i, lane, &i->operands[1], &proto) || !check_box_global(w, lane, &proto, false))
      return false;
  } else {
    proto.global = lane_value(w, &i->operands[1], lane);
    proto.bytes = (uint32_t)lane_value(w, &i->operands[2], lane);
    if (proto.global % 16 != 0 || proto.bytes % 16 != 0 || proto.bytes == 0)
      return emu_fail(w, EMU_FAULT_MISALIGNED, lane,
                      "%u bytes from address 0x%llx: both must be multiples of 16, and some must be copied",
                      proto.bytes, (unsigned long long)proto.global);
    if (!check_global(w, lane, proto.global, proto.bytes, false, false)) return false;
  }
  uint32_t whole = tensor ? 1 : proto.bytes;
  if (!emu_resolve_shared(w, lane, i->space[0], lane_value(w, &i->operands[0], lane), whole, align, &to))
    return false;
  if (!emu_resolve_shared(w, lane, i->space[0], lane_value(w, barrier, lane), 8, 8, &at)) return false;
  if (at.cta != to.cta && i->cta_group != 2)
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "the destination lies in CTA rank %u, the mbarrier in rank %u", to.cta->rank,
                    at.cta->rank);
  uint32_t mask = multicast ? (uint32_t)lane_value(w, rest, lane) & 0xFFFF : 1u << to.cta->rank;
  if (mask == 0 || mask >> w->cluster->n_ctas != 0)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "CTA mask 0x%x in a cluster of %u", mask,
                    w->cluster->n_ctas);
  for (; mask != 0; mask &= mask - 1) {
    emu_cta *cta = &w->cluster->ctas[__builtin_ctz(mask)];
    if (cta->exited)
      return emu_fail(w, EMU_FAULT_EXIT, lane, "copies to CTA rank %u, which has exited", cta->rank);
    emu_copy *c = new_copy(w, i, lane, kind);
    if (c == NULL) return false;
    c->map = proto.map;
    c->global = proto.global;
    c->bytes = proto.bytes;
    memcpy(c->coordinate, proto.coordinate, sizeof c->coordinate);
    if (!issue_load(w, lane, c, cta, to.offset, multicast ? cta : at.cta, at.offset)) return false;
  }
  return true;
}

static ptx_type reduction_type(dtype t) {
  switch (t) {
  case DTYPE_F64: return PTX_TYPE_F64;
  case DTYPE_F32: return PTX_TYPE_F32;
  case DTYPE_F16: return PTX_TYPE_F16;
  case DTYPE_BF16: return PTX_TYPE_BF16;
  case DTYPE_I64: return PTX_TYPE_S64;
  case DTYPE_I32: return PTX_TYPE_S32;
  default: return PTX_TYPE_NONE;
  }
}

/* Stores and reductions from shared to global memory; they belong to the thread's bulk groups. */
static bool store_lane(emu_warp *w, const ptx_instruction *i, int lane, bool tensor) {
  emu_copy *c = new_copy(w, i, lane, tensor ? EMU_COPY_TENSOR_STORE : EMU_COPY_BULK_STORE);
  if (c == NULL) return false;
  const ptx_operand *source = &i->operands[1];
  emu_place from;
  uint32_t bytes = 1;
  c->operation = i->operation;
  if (tensor) {
    if (!read_map(w, i, lane, &i->operands[0], c)) goto fail;
    c->type = reduction_type(c->map.type);
    bytes = (c->map.rows - 1) * c->map.pitch_bytes + c->map.row_bytes;
  } else {
    c->global = lane_value(w, &i->operands[0], lane);
    c->bytes = bytes = (uint32_t)lane_value(w, &i->operands[2], lane);
    c->type = i->n_types > 0 ? i->type[0] : PTX_TYPE_NONE;
    if (c->global % 16 != 0 || bytes % 16 != 0 || bytes == 0) {
      emu_fail(w, EMU_FAULT_MISALIGNED, lane,
               "%u bytes to address 0x%llx: both must be multiples of 16, and some must be copied", bytes,
               (unsigned long long)c->global);
      goto fail;
    }
  }
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, lane_value(w, source, lane), bytes, tensor ? 128 : 16,
                          &from))
    goto fail;
  c->cta = from.cta;
  c->offset = from.offset;
  bool ok = tensor ? check_box_global(w, lane, c, true) && touch_box(w, lane, c, false)
                   : check_global(w, lane, c->global, bytes, true, c->operation != PTX_OP_NONE) &&
                         touch_shared(w, lane, c, c->cta, c->offset, bytes, false);
  if (ok && append(w->cluster, c)) return true;
fail:
  emu_copy_free(c);
  return false;
}

/* cp.async.bulk from this CTA's shared memory to another's. */
static bool push_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place to, from, at;
  uint32_t bytes = (uint32_t)lane_value(w, &i->operands[2], lane);
  if (bytes == 0 || bytes % 16 != 0)
    return emu_fail(w, EMU_FAULT_MISALIGNED, lane, "%u bytes is not a positive multiple of 16", bytes);
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, lane_value(w, &i->operands[0], lane), bytes, 16,
                          &to) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED, lane_value(w, &i->operands[1], lane), bytes, 16,
                          &from) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, lane_value(w, &i->operands[3], lane), 8, 8, &at))
    return false;
  if (at.cta != to.cta)
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "the destination lies in CTA rank %u, the mbarrier in rank %u", to.cta->rank,
                    at.cta->rank);
  emu_copy *c = new_copy(w, i, lane, EMU_COPY_BULK_PUSH);
  if (c == NULL) return false;
  c->operation = i->operation;
  c->type = i->n_types > 0 ? i->type[0] : PTX_TYPE_NONE;
  c->bytes = bytes;
  c->source_cta = from.cta;
  c->source_offset = from.offset;
  if (!touch_shared(w, lane, c, from.cta, from.offset, bytes, false)) {
    emu_copy_free(c);
    return false;
  }
  return issue_load(w, lane, c, to.cta, to.offset, at.cta, at.offset);
}

/* st.async and red.async: registers to shared memory of the cluster, counted by an mbarrier there. */
static bool store_async_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place to, at;
  uint32_t element = (uint32_t)ptx_type_bits(i->type[0]) / 8, n = i->vector > 1 ? i->vector : 1;
  uint32_t bytes = element * n;
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, lane_value(w, &i->operands[0], lane), bytes,
                          bytes, &to) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, lane_value(w, &i->operands[2], lane), 8, 8, &at))
    return false;
  if (at.cta != to.cta)
    return emu_fail(w, EMU_FAULT_BARRIER, lane,
                    "the destination lies in CTA rank %u, the mbarrier in rank %u", to.cta->rank,
                    at.cta->rank);
  emu_copy *c = new_copy(w, i, lane, EMU_COPY_STORE_ASYNC);
  if (c == NULL) return false;
  c->bytes = bytes;
  c->operation = i->operation;
  c->type = i->type[0];
  c->data = malloc(bytes);
  if (c->data == NULL) {
    emu_copy_free(c);
    return emu_no_memory(w->cluster->launch);
  }
  for (uint32_t e = 0; e < n; e++) {
    const ptx_operand *o = &i->operands[1];
    uint64_t v = lane_value(w, o->kind == PTX_OPERAND_VECTOR ? &o->elements[e] : o, lane);
    memcpy(c->data + e * element, &v, element);
  }
  return issue_load(w, lane, c, to.cta, to.offset, at.cta, at.offset);
}

static bool is_store(const emu_copy *c) {
  return c->kind == EMU_COPY_TENSOR_STORE || c->kind == EMU_COPY_BULK_STORE;
}

static void commit_lane(emu_warp *w, uint32_t lane) {
  uint64_t group = ++w->bulk_groups[lane];
  for (uint32_t j = 0; j < w->cluster->n_copies; j++) {
    emu_copy *c = w->cluster->copies[j];
    if (is_store(c) && c->warp == w && c->lane == lane && c->group == 0) c->group = group;
  }
}

/* cp.async.bulk.wait_group N: all but the N most recent groups of this thread are done (.read: have read). */
static bool wait_lane(emu_warp *w, uint32_t lane, uint64_t allowed, bool only_read) {
  emu_cluster *cluster = w->cluster;
  uint64_t groups = w->bulk_groups[lane], last = groups > allowed ? groups - allowed : 0;
  for (uint32_t j = cluster->n_copies; j-- > 0;) {
    emu_copy *c = cluster->copies[j];
    if (!is_store(c) || c->warp != w || c->lane != lane || c->group == 0 || c->group > last) continue;
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

/* cp.async (PTX ISA 9.7.9.26): each lane copies 4, 8 or 16 bytes. */
static bool cp_async_lane(emu_warp *w, const ptx_instruction *i, int lane) {
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
      valid = (uint32_t)lane_value(w, o, lane);
  }
  if (valid > bytes)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "source size %u is more than %u", valid, bytes);
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, lane_value(w, &i->operands[0], lane), bytes, bytes, &to))
    return false;
  uint64_t global = lane_value(w, &i->operands[1], lane);
  if (global % bytes != 0)
    return emu_fail(w, EMU_FAULT_MISALIGNED, lane, "address 0x%llx is not a multiple of %u",
                    (unsigned long long)global, bytes);
  if (valid > 0 && !check_global(w, lane, global, valid, false, false)) return false;
  emu_copy *c = new_copy(w, i, lane, EMU_COPY_CP_ASYNC);
  if (c == NULL) return false;
  c->cta = to.cta;
  c->offset = to.offset;
  c->global = global;
  c->bytes = bytes;
  c->valid_bytes = valid;
  if (touch_shared(w, lane, c, c->cta, c->offset, bytes, true) && append(w->cluster, c)) return true;
  emu_copy_free(c);
  return false;
}

static bool cp_async_wait(emu_warp *w, uint32_t active, uint64_t allowed, bool all) {
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

static void cp_async_commit(emu_warp *w, uint32_t active) {
  for (uint32_t left = active; left != 0; left &= left - 1) w->cp_async_groups[__builtin_ctz(left)]++;
  for (uint32_t j = 0; j < w->cluster->n_copies; j++) {
    emu_copy *c = w->cluster->copies[j];
    if (c->kind == EMU_COPY_CP_ASYNC && c->warp == w && (active >> c->lane & 1) != 0 && c->group == 0)
      c->group = w->cp_async_groups[c->lane];
  }
}

/* The mbarrier receives an arrival when all earlier cp.async of the thread are done. */
static bool cp_async_arrive_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place at;
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, lane_value(w, &i->operands[0], lane), 8, 8, &at))
    return false;
  emu_copy *c = new_copy(w, i, lane, EMU_COPY_CP_ASYNC_ARRIVE);
  if (c == NULL) return false;
  c->cta = c->mbarrier_cta = at.cta;
  c->mbarrier_offset = at.offset;
  c->has_mbarrier = true;
  c->no_increment = (i->flags & PTX_FLAG_NO_INC) != 0;
  emu_mbarrier *b = emu_mbarrier_find(at.cta, at.offset);
  bool ok = b != NULL ||
            emu_fail(w, EMU_FAULT_BARRIER, lane, "there is no initialised mbarrier at 0x%x", at.offset);
  if (ok && !c->no_increment) b->pending++;
  if (ok && append(w->cluster, c)) return true;
  emu_copy_free(c);
  return false;
}

static bool execute_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  bool to_global = i->n_spaces > 0 && i->space[0] == PTX_SPACE_GLOBAL;
  switch (i->opcode) {
  case PTX_BULK_TENSOR:
    return to_global ? store_lane(w, i, lane, true)
                     : load_lane(w, i, lane, EMU_COPY_TENSOR_LOAD, &i->operands[3]);
  case PTX_BULK_TENSOR_REDUCE: return store_lane(w, i, lane, true);
  case PTX_BULK:
    if (to_global) return store_lane(w, i, lane, false);
    return i->space[1] == PTX_SPACE_GLOBAL ? load_lane(w, i, lane, EMU_COPY_BULK_LOAD, &i->operands[4])
                                           : push_lane(w, i, lane);
  case PTX_BULK_REDUCE: return to_global ? store_lane(w, i, lane, false) : push_lane(w, i, lane);
  case PTX_ST_ASYNC:
  case PTX_RED_ASYNC: return store_async_lane(w, i, lane);
  case PTX_BULK_COMMIT: commit_lane(w, (uint32_t)lane); return true;
  case PTX_BULK_WAIT:
    return wait_lane(w, (uint32_t)lane, i->operands[0].value, (i->flags & PTX_FLAG_READ) != 0);
  case PTX_BULK_TENSOR_PREFETCH: {
    emu_copy ignored;
    memset(&ignored, 0, sizeof ignored);
    return read_map(w, i, lane, &i->operands[0], &ignored);
  }
  case PTX_BULK_PREFETCH: return true;
  case PTX_CP_ASYNC: return cp_async_lane(w, i, lane);
  case PTX_CP_ASYNC_MBARRIER_ARRIVE: return cp_async_arrive_lane(w, i, lane);
  default: return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, lane, "%s is not modelled", i->text);
  }
}

bool emu_copy_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_CP_ASYNC_COMMIT: cp_async_commit(w, active); return true;
  case PTX_CP_ASYNC_WAIT: return cp_async_wait(w, active, i->operands[0].value, false);
  case PTX_CP_ASYNC_WAIT_ALL: return cp_async_wait(w, active, 0, true);
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
    if (c->warp != w || (lanes >> c->lane & 1) == 0 || !is_store(c) || c->waited) continue;
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
    if (c->done || is_store(c) || (c->cta != cta && (!c->has_mbarrier || c->mbarrier_cta != cta))) continue;
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
