/* Bulk and tensor copies in both directions, st.async and red.async: an instruction as the copies it issues.
 */
#include <stdlib.h>
#include <string.h>

#include "emulator/emu_copy.h"

/* A copy completes on an mbarrier of the CTA that it writes to. */
static bool is_same_cta(emu_warp *w, int lane, const emu_place *to, const emu_place *mbarrier) {
  return mbarrier->cta == to->cta ||
         emu_fail(w, EMU_FAULT_BARRIER, lane, "the destination lies in CTA rank %u, the mbarrier in rank %u",
                  to->cta->rank, mbarrier->cta->rank);
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
    if (!emu_copy_read_map(w, i, lane, &i->operands[1], &proto) ||
        !emu_copy_check_box(w, lane, &proto, false))
      return false;
  } else {
    proto.global = emu_lane_value(w, &i->operands[1], lane);
    proto.bytes = (uint32_t)emu_lane_value(w, &i->operands[2], lane);
    if (proto.global % 16 != 0 || proto.bytes % 16 != 0 || proto.bytes == 0)
      return emu_fail(w, EMU_FAULT_MISALIGNED, lane,
                      "%u bytes from address 0x%llx: both must be multiples of 16, and some must be copied",
                      proto.bytes, (unsigned long long)proto.global);
    if (!emu_copy_check_global(w, lane, proto.global, proto.bytes, false, false)) return false;
  }
  uint32_t whole = tensor ? 1 : proto.bytes;
  if (!emu_resolve_shared(w, lane, i->space[0], emu_lane_value(w, &i->operands[0], lane), whole, align, &to))
    return false;
  if (!emu_resolve_shared(w, lane, i->space[0], emu_lane_value(w, barrier, lane), 8, 8, &at)) return false;
  if (i->cta_group != 2 && !is_same_cta(w, lane, &to, &at)) return false;
  uint32_t mask = multicast ? (uint32_t)emu_lane_value(w, rest, lane) & 0xFFFF : 1u << to.cta->rank;
  if (mask == 0 || mask >> w->cluster->n_ctas != 0)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "CTA mask 0x%x in a cluster of %u", mask,
                    w->cluster->n_ctas);
  for (; mask != 0; mask &= mask - 1) {
    emu_cta *cta = &w->cluster->ctas[__builtin_ctz(mask)];
    if (cta->exited)
      return emu_fail(w, EMU_FAULT_EXIT, lane, "copies to CTA rank %u, which has exited", cta->rank);
    emu_copy *c = emu_copy_new(w, i, lane, kind);
    if (c == NULL) return false;
    c->map = proto.map;
    c->global = proto.global;
    c->bytes = proto.bytes;
    memcpy(c->coordinate, proto.coordinate, sizeof c->coordinate);
    if (!emu_copy_issue_load(w, lane, c, cta, to.offset, multicast ? cta : at.cta, at.offset)) return false;
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

/* Stores past a tensor's end are clipped; before its beginning an H200 ends them as an illegal instruction,
 * where loads bring zeros. */
static bool begins_inside(emu_warp *w, int lane, const emu_copy *c) {
  for (int d = 0; d < c->map.rank; d++)
    if (c->coordinate[d] < 0)
      return emu_fail(
          w, EMU_FAULT_OUT_OF_BOUNDS, lane,
          "stores a box that begins at %lld in dimension %d: stores must begin inside the tensor or "
          "past its end",
          (long long)c->coordinate[d], d);
  return true;
}

/* Stores and reductions from shared to global memory; they belong to the thread's bulk groups. */
static bool store_lane(emu_warp *w, const ptx_instruction *i, int lane, bool tensor) {
  emu_copy *c = emu_copy_new(w, i, lane, tensor ? EMU_COPY_TENSOR_STORE : EMU_COPY_BULK_STORE);
  if (c == NULL) return false;
  const ptx_operand *source = &i->operands[1];
  emu_place from;
  uint32_t bytes = 1;
  c->operation = i->operation;
  if (tensor) {
    if (!emu_copy_read_map(w, i, lane, &i->operands[0], c) || !begins_inside(w, lane, c)) goto fail;
    c->type = reduction_type(c->map.type);
    bytes = (c->map.rows - 1) * c->map.pitch_bytes + c->map.row_bytes;
  } else {
    c->global = emu_lane_value(w, &i->operands[0], lane);
    c->bytes = bytes = (uint32_t)emu_lane_value(w, &i->operands[2], lane);
    c->type = i->n_types > 0 ? i->type[0] : PTX_TYPE_NONE;
    if (c->global % 16 != 0 || bytes % 16 != 0 || bytes == 0) {
      emu_fail(w, EMU_FAULT_MISALIGNED, lane,
               "%u bytes to address 0x%llx: both must be multiples of 16, and some must be copied", bytes,
               (unsigned long long)c->global);
      goto fail;
    }
  }
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED, emu_lane_value(w, source, lane), bytes,
                          tensor ? 128 : 16, &from))
    goto fail;
  c->cta = from.cta;
  c->offset = from.offset;
  bool ok = tensor ? emu_copy_check_box(w, lane, c, true) && emu_copy_touch_box(w, lane, c, false)
                   : emu_copy_check_global(w, lane, c->global, bytes, true, c->operation != PTX_OP_NONE) &&
                         emu_copy_touch(w, lane, c, c->cta, c->offset, bytes, false);
  if (ok && emu_copy_issue(w->cluster, c)) return true;
fail:
  emu_copy_free(c);
  return false;
}

/* cp.async.bulk from this CTA's shared memory to another's. */
static bool push_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place to, from, at;
  uint32_t bytes = (uint32_t)emu_lane_value(w, &i->operands[2], lane);
  if (bytes == 0 || bytes % 16 != 0)
    return emu_fail(w, EMU_FAULT_MISALIGNED, lane, "%u bytes is not a positive multiple of 16", bytes);
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, emu_lane_value(w, &i->operands[0], lane), bytes,
                          16, &to) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED, emu_lane_value(w, &i->operands[1], lane), bytes, 16,
                          &from) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, emu_lane_value(w, &i->operands[3], lane), 8, 8,
                          &at))
    return false;
  if (!is_same_cta(w, lane, &to, &at)) return false;
  emu_copy *c = emu_copy_new(w, i, lane, EMU_COPY_BULK_PUSH);
  if (c == NULL) return false;
  c->operation = i->operation;
  c->type = i->n_types > 0 ? i->type[0] : PTX_TYPE_NONE;
  c->bytes = bytes;
  c->source_cta = from.cta;
  c->source_offset = from.offset;
  if (!emu_copy_touch(w, lane, c, from.cta, from.offset, bytes, false)) {
    emu_copy_free(c);
    return false;
  }
  return emu_copy_issue_load(w, lane, c, to.cta, to.offset, at.cta, at.offset);
}

/* st.async and red.async: registers to shared memory of the cluster, counted by an mbarrier there. */
static bool store_async_lane(emu_warp *w, const ptx_instruction *i, int lane) {
  emu_place to, at;
  uint32_t element = (uint32_t)ptx_type_bits(i->type[0]) / 8, n = i->vector > 1 ? i->vector : 1;
  uint32_t bytes = element * n;
  if (!emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, emu_lane_value(w, &i->operands[0], lane), bytes,
                          bytes, &to) ||
      !emu_resolve_shared(w, lane, PTX_SPACE_SHARED_CLUSTER, emu_lane_value(w, &i->operands[2], lane), 8, 8,
                          &at))
    return false;
  if (!is_same_cta(w, lane, &to, &at)) return false;
  emu_copy *c = emu_copy_new(w, i, lane, EMU_COPY_STORE_ASYNC);
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
    uint64_t v = emu_lane_value(w, o->kind == PTX_OPERAND_VECTOR ? &o->elements[e] : o, lane);
    memcpy(c->data + e * element, &v, element);
  }
  return emu_copy_issue_load(w, lane, c, to.cta, to.offset, at.cta, at.offset);
}

bool emu_copy_bulk_lane(emu_warp *w, const ptx_instruction *i, int lane) {
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
  case PTX_BULK_TENSOR_PREFETCH: {
    emu_copy ignored;
    memset(&ignored, 0, sizeof ignored);
    return emu_copy_read_map(w, i, lane, &i->operands[0], &ignored);
  }
  case PTX_BULK_PREFETCH: return true;
  default: return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, lane, "%s is not modelled", i->text);
  }
}
