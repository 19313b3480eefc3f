#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"

const char *emu_copy_kind_text(emu_copy_kind kind) {
  static const char *const texts[] = {
#define X(NAME, text) text,
      EMU_COPY_KINDS(X)
#undef X
  };
  return texts[kind];
}

void emu_copy_free(emu_copy *c) {
  if (c == NULL) return;
  free(c->data);
  free(c);
}

uint32_t emu_copy_rows(const emu_copy *c) {
  return c->map.rows;
}

emu_box_row emu_copy_row(const emu_copy *c, uint32_t row) {
  const emu_tensormap *t = &c->map;
  emu_box_row r = {c->offset + row * t->pitch_bytes, 0, 0, 0};
  uint64_t address = t->address;
  for (int d = 1; d < t->rank; d++) {
    int64_t at = c->coordinate[d] + row % t->box[d];
    row /= t->box[d];
    if (at < 0 || at >= (int64_t)t->dim[d]) return r;
    address += (uint64_t)at * t->stride_bytes[d];
  }
  int64_t begin = c->coordinate[0], end = begin + t->box[0];
  int64_t first = begin < 0 ? 0 : begin, last = end > (int64_t)t->dim[0] ? (int64_t)t->dim[0] : end;
  if (first >= last) return r;
  r.first = (uint32_t)(first - begin) * t->element_bytes;
  r.last = (uint32_t)(last - begin) * t->element_bytes;
  r.global = address + (uint64_t)first * t->element_bytes;
  return r;
}

static void load_box(emu_copy *c) {
  uint8_t *smem = c->cta->smem;
  for (uint32_t i = 0; i < c->map.rows; i++) {
    emu_box_row r = emu_copy_row(c, i);
    const uint8_t *from = (const uint8_t *)(uintptr_t)r.global;
    for (uint32_t b = 0; b < c->map.row_bytes; b += 16) {
      uint8_t *to = smem + emu_swizzle(r.offset + b, c->map.swizzle);
      if (b >= r.first && b + 16 <= r.last) {
        memcpy(to, from + (b - r.first), 16);
        continue;
      }
      memset(to, 0, 16); /* outside the tensor: zeros */
      uint32_t first = b > r.first ? b : r.first, last = b + 16 < r.last ? b + 16 : r.last;
      if (first < last) memcpy(to + (first - b), from + (first - r.first), last - first);
    }
    if (c->map.swizzle == 0 ||
        (c->map.row_bytes == c->map.pitch_bytes && r.offset % c->map.pitch_bytes == 0)) {
      emu_shadow_initialise(c->cta->shadow, r.offset, c->map.row_bytes);
      continue;
    }
    for (uint32_t b = 0; b < c->map.row_bytes; b += 16)
      emu_shadow_initialise(c->cta->shadow, emu_swizzle(r.offset + b, c->map.swizzle), 16);
  }
}

static void read_box(emu_copy *c) {
  const uint8_t *smem = c->cta->smem;
  for (uint32_t i = 0; i < c->map.rows; i++) {
    emu_box_row r = emu_copy_row(c, i);
    uint8_t *to = c->data + (size_t)i * c->map.row_bytes;
    if (r.first >= r.last) continue;
    for (uint32_t b = 0; b < c->map.row_bytes; b += 16)
      memcpy(to + b, smem + emu_swizzle(r.offset + b, c->map.swizzle), 16);
  }
}

bool emu_copy_read_source(emu_copy *c) {
  c->data = malloc(c->bytes);
  if (c->data == NULL) return emu_no_memory(c->warp->cluster->launch);
  if (c->kind == EMU_COPY_TENSOR_STORE)
    read_box(c);
  else if (c->kind == EMU_COPY_BULK_PUSH)
    memcpy(c->data, c->source_cta->smem + c->source_offset, c->bytes);
  else
    memcpy(c->data, c->cta->smem + c->offset, c->bytes);
  c->read_done = true;
  return true;
}

/* to op= from, element by element. */
static bool reduce_bytes(emu_copy *c, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  uint32_t element = c->type == PTX_TYPE_NONE ? 0 : (uint32_t)ptx_type_bits(c->type) / 8;
  for (uint32_t b = 0; element > 0 && b < bytes; b += element) {
    uint64_t old = 0, v = 0, result;
    memcpy(&old, to + b, element);
    memcpy(&v, from + b, element);
    if (!emu_reduce(c->operation, c->type, old, v, 0, &result))
      element = 0;
    else
      memcpy(to + b, &result, element);
    if (element == 0) break;
  }
  return element > 0 || emu_fail_copy(c, EMU_FAULT_UNKNOWN_INSTRUCTION,
                                      "this reduction of this element type is not modelled");
}

static bool put(emu_copy *c, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  if (c->operation != PTX_OP_NONE) return reduce_bytes(c, to, from, bytes);
  memcpy(to, from, bytes);
  return true;
}

static bool put_global(emu_copy *c, uint64_t address, const uint8_t *from, uint32_t bytes) {
  emu_memory *m = c->warp->cluster->launch->memory;
  emu_allocation *a = emu_memory_range(m, address, bytes);
  uint64_t missing;
  if (c->operation != PTX_OP_NONE && !emu_memory_initialised(a, address, bytes, &missing)) {
    char where[160];
    emu_memory_describe(m, missing, where, sizeof where);
    return emu_fail_copy(c, EMU_FAULT_UNINITIALISED, "reduces into tensor %s, which nothing wrote", where);
  }
  emu_memory_mark(a, address, bytes);
  return put(c, (uint8_t *)(uintptr_t)address, from, bytes);
}

static bool store(emu_copy *c) {
  if (!c->read_done && !emu_copy_read_source(c)) return false;
  if (c->kind == EMU_COPY_BULK_STORE) return put_global(c, c->global, c->data, c->bytes);
  for (uint32_t i = 0; i < c->map.rows; i++) {
    emu_box_row r = emu_copy_row(c, i);
    const uint8_t *from = c->data + (size_t)i * c->map.row_bytes + r.first;
    if (r.first < r.last && !put_global(c, r.global, from, r.last - r.first)) return false;
  }
  return true;
}

/* Where a copy is among those of the cluster, which are in the order of their issue. */
static uint32_t index_of(const emu_cluster *cluster, const emu_copy *c) {
  uint32_t index = 0;
  while (cluster->copies[index] != c) index++;
  return index;
}

static bool is_of_lane(const emu_copy *x, const emu_copy *c, emu_copy_kind kind) {
  return x->kind == kind && x->warp == c->warp && x->lane == c->lane;
}

/* Earlier arrivals of the same thread, whose copies then have ended as well, come first, so that each knows
 * of the copies between the one before and itself. */
static bool arrive_before(emu_copy *c) {
  emu_cluster *cluster = c->warp->cluster;
  for (uint32_t j = 0; cluster->copies[j] != c;) {
    emu_copy *earlier = cluster->copies[j];
    if (is_of_lane(earlier, c, EMU_COPY_CP_ASYNC_ARRIVE) && !earlier->done) {
      if (!emu_copy_finish(cluster, j)) return false;
      j = 0;
    } else {
      j++;
    }
  }
  return true;
}

/* Earlier cp.async of the same thread end first; then the arrival counts. */
static bool cp_async_arrive(emu_copy *c) {
  emu_cluster *cluster = c->warp->cluster;
  if (!arrive_before(c)) return false;
  emu_mbarrier *b = emu_mbarrier_find(c->mbarrier_cta, c->mbarrier_offset);
  if (b == NULL)
    return emu_fail_copy(c, EMU_FAULT_BARRIER, "its mbarrier was invalidated before it completed");
  for (uint32_t j = index_of(cluster, c); j-- > 0;) {
    emu_copy *earlier = cluster->copies[j];
    if (!is_of_lane(earlier, c, EMU_COPY_CP_ASYNC)) continue;
    emu_view_learn(&cluster->order, b->gathered, emu_epoch_agent(earlier->epoch),
                   emu_epoch_clock(earlier->epoch));
    if (!emu_copy_finish(cluster, j)) return false;
    emu_copy_remove(cluster, j);
  }
  if (b->pending == 0)
    return emu_fail_copy(c, EMU_FAULT_BARRIER, "arrives at an mbarrier that lacks no arrival");
  b->pending--;
  return emu_mbarrier_complete_tx(c->mbarrier_cta, c->mbarrier_offset, 0, c);
}

static bool perform(emu_copy *c) {
  if (c->cta != NULL && c->cta->exited && c->kind != EMU_COPY_TENSOR_STORE && c->kind != EMU_COPY_BULK_STORE)
    return emu_fail_copy(c, EMU_FAULT_EXIT, "CTA rank %u has exited before it completed", c->cta->rank);
  switch (c->kind) {
  case EMU_COPY_TENSOR_LOAD: load_box(c); break;
  case EMU_COPY_BULK_LOAD:
    memcpy(c->cta->smem + c->offset, (const void *)(uintptr_t)c->global, c->bytes);
    emu_shadow_initialise(c->cta->shadow, c->offset, c->bytes);
    break;
  case EMU_COPY_BULK_PUSH:
    if (!emu_copy_read_source(c) || !put(c, c->cta->smem + c->offset, c->data, c->bytes)) return false;
    emu_shadow_initialise(c->cta->shadow, c->offset, c->bytes);
    break;
  case EMU_COPY_STORE_ASYNC:
    if (!put(c, c->cta->smem + c->offset, c->data, c->bytes)) return false;
    emu_shadow_initialise(c->cta->shadow, c->offset, c->bytes);
    break;
  case EMU_COPY_CP_ASYNC:
    memset(c->cta->smem + c->offset, 0, c->bytes);
    memcpy(c->cta->smem + c->offset, (const void *)(uintptr_t)c->global, c->valid_bytes);
    emu_shadow_initialise(c->cta->shadow, c->offset, c->bytes);
    break;
  case EMU_COPY_CP_ASYNC_ARRIVE: return cp_async_arrive(c);
  case EMU_COPY_TENSOR_STORE:
  case EMU_COPY_BULK_STORE: return store(c);
  }
  return !c->has_mbarrier || emu_mbarrier_complete_tx(c->mbarrier_cta, c->mbarrier_offset, c->bytes, c);
}

void emu_copy_remove(emu_cluster *cluster, uint32_t index) {
  emu_copy_free(cluster->copies[index]);
  cluster->n_copies--;
  memmove(&cluster->copies[index], &cluster->copies[index + 1],
          (cluster->n_copies - index) * sizeof(emu_copy *));
}

bool emu_copy_finish(emu_cluster *cluster, uint32_t index) {
  emu_copy *c = cluster->copies[index];
  if (c->done) return true;
  c->done = true;
  cluster->n_pending--;
  cluster->events++;
  if (!perform(c)) return false;
  bool waited_for =
      c->kind == EMU_COPY_TENSOR_STORE || c->kind == EMU_COPY_BULK_STORE || c->kind == EMU_COPY_CP_ASYNC;
  if (waited_for) return true;
  /* An arrival ends, and removes, copies before it: look for it again. */
  if (index >= cluster->n_copies) index = cluster->n_copies - 1;
  while (cluster->copies[index] != c) index--;
  emu_copy_remove(cluster, index);
  return true;
}

static bool finish_any(emu_cluster *c) {
  uint64_t skip = emu_draw(c->launch) % c->n_pending;
  for (uint32_t i = 0;; i++) {
    if (!c->copies[i]->done && skip-- == 0) return emu_copy_finish(c, i);
  }
}

bool emu_copies_progress(emu_cluster *c, bool stuck) {
  /* Seeds take turns: as late as possible; at random moments; as early as possible. */
  switch (c->launch->seed % 3) {
  case 0: return !stuck || c->n_pending == 0 || finish_any(c);
  case 1:
    for (uint32_t tries = c->n_pending; tries > 0 && c->n_pending > 0; tries--) {
      if ((stuck || emu_draw(c->launch) % 4 == 0) && !finish_any(c)) return false;
      if (stuck) break;
    }
    return true;
  default:
    while (c->n_pending > 0) {
      if (!finish_any(c)) return false;
    }
    return true;
  }
}
