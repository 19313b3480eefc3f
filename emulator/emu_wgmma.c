#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"
#include "emulator/emu_mma.h"

enum { ROWS = 64, WARP_ROWS = 16, CHUNK = 16, K_BYTES = 32 };

/* Fields of a shared-memory descriptor (PTX ISA 9.7.15.5.1). */
typedef struct descriptor {
  uint32_t start, leading, stride;
  int swizzle; /* 0 none, 1 32B, 2 64B, 3 128B: as in a tensor map */
} descriptor;

static bool decode_descriptor(const emu_warp *w, uint64_t bits, descriptor *d) {
  *d = (descriptor){0};
  static const int swizzles[] = {0, 3, 2, 1};
  /* bits 14-15, 30-31, 46-48 and 52-61 are reserved; a base offset is never needed with absolute swizzling */
  uint64_t reserved = 0x3ull << 14 | 0x3ull << 30 | 0x7ull << 46 | 0x3FFull << 52;
  if ((bits & reserved) != 0)
    return emu_fail(w, EMU_FAULT_DESCRIPTOR, -1, "descriptor 0x%016llx has reserved bits set: 0x%llx",
                    (unsigned long long)bits, (unsigned long long)(bits & reserved));
  if ((bits >> 49 & 7) != 0)
    return emu_fail(w, EMU_FAULT_DESCRIPTOR, -1,
                    "descriptor 0x%016llx has a base offset, which is not modelled",
                    (unsigned long long)bits);
  d->start = (uint32_t)(bits & 0x3FFF) << 4;
  d->leading = (uint32_t)(bits >> 16 & 0x3FFF) << 4;
  d->stride = (uint32_t)(bits >> 32 & 0x3FFF) << 4;
  d->swizzle = swizzles[bits >> 62];
  return true;
}

/* Address of a 16-byte chunk of an operand, in a CTA's window. K-major: chunk `c` (0, 1) of row `r`.
 * MN-major: the 8 elements from `r` on at k = `c`. */
static uint32_t chunk_address(const descriptor *d, bool k_major, uint32_t r, uint32_t c) {
  uint32_t span = (uint32_t)CHUNK << d->swizzle, lin = d->start;
  if (k_major && d->swizzle == 0)
    lin += r / 8 * d->stride + c * d->leading + r % 8 * CHUNK;
  else if (k_major)
    lin += r / 8 * d->stride + r % 8 * span + c * CHUNK;
  else if (d->swizzle == 0)
    lin += r / 8 * d->stride + c / 8 * d->leading + c % 8 * CHUNK;
  else
    lin += r / (span / 2) * d->leading + c / 8 * d->stride + c % 8 * span + r % (span / 2) * 2;
  return emu_swizzle(lin, d->swizzle);
}

static uint32_t chunks_per_row(bool k_major) {
  return k_major ? K_BYTES / CHUNK : 16;
}

/* What one wgmma is, from its operands. */
typedef struct shape {
  const ptx_operand *d, *a, *b, *scale_d;
  uint32_t n, k, n_d;
  bool a_in_registers, a_k_major, b_k_major, integer, f16_result, negate_a, negate_b;
  bool a_signed, b_signed;
  mma_type a_type, b_type;
} shape;

static mma_type mma_type_of(ptx_type t) {
  switch (t) {
  case PTX_TYPE_BF16: return MMA_BF16;
  case PTX_TYPE_TF32: return MMA_TF32;
  case PTX_TYPE_E4M3: return MMA_E4M3;
  case PTX_TYPE_E5M2: return MMA_E5M2;
  default: return MMA_F16;
  }
}

static shape shape_of(const ptx_instruction *i) {
  shape s;
  memset(&s, 0, sizeof s);
  s.d = &i->operands[0];
  s.a = &i->operands[1];
  s.b = &i->operands[2];
  s.scale_d = &i->operands[3];
  s.n = i->n;
  s.k = i->k;
  s.n_d = s.d->n;
  s.a_in_registers = s.a->kind == PTX_OPERAND_VECTOR;
  s.integer = i->type[0] == PTX_TYPE_S32;
  s.f16_result = i->type[0] == PTX_TYPE_F16;
  s.a_signed = i->type[1] == PTX_TYPE_S8;
  s.b_signed = i->type[2] == PTX_TYPE_S8;
  s.a_type = mma_type_of((ptx_type)i->type[1]);
  s.b_type = mma_type_of((ptx_type)i->type[2]);
  s.a_k_major = s.b_k_major = true;
  if (i->n_operands > 5) {
    s.negate_a = (int32_t)i->operands[4].value < 0;
    s.negate_b = (int32_t)i->operands[5].value < 0;
  }
  int next = 6;
  if (i->n_operands > next && !s.a_in_registers) s.a_k_major = i->operands[next++].value == 0;
  if (i->n_operands > next) s.b_k_major = i->operands[next].value == 0;
  return s;
}

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

/* Records the matrix unit's read of an operand's rows [first, first + rows). */
static bool read_operand(emu_warp *w, const emu_wgmma *e, const emu_view *known, uint64_t bits, bool k_major,
                         uint32_t first, uint32_t rows, const char *which) {
  descriptor d;
  if (!decode_descriptor(w, bits, &d)) return false;
  emu_cta *cta = w->cta;
  emu_actor actor = emu_warp_actor(w, 0, false);
  actor.view = known;
  actor.now = e->epoch;
  actor.async = true;
  uint32_t step = k_major ? 1 : 8, end = cta->cluster->launch->smem_window;
  for (uint32_t r = first; r < first + rows; r += step) {
    for (uint32_t c = 0; c < chunks_per_row(k_major); c++) {
      uint32_t address = chunk_address(&d, k_major, r, c);
      emu_conflict conflict;
      if (address < EMU_SMEM_RESERVED || address + CHUNK > end)
        return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, -1,
                        "%s reaches shared address 0x%x, outside the CTA's 0x%x..0x%x", which, address,
                        EMU_SMEM_RESERVED, end);
      bool ok = emu_shadow_access(cta->shadow, address, CHUNK, false, &actor, &conflict);
      if (ok && !emu_shadow_initialised(cta->shadow, address, CHUNK, &conflict.address)) {
        conflict.kind = EMU_CONFLICT_UNINITIALISED;
        ok = false;
      }
      if (ok) continue;
      return emu_fail_conflict(w, -1, cta, which, false, true, &conflict);
    }
  }
  return true;
}

static bool register_fault(emu_warp *w, emu_fault fault, uint32_t slot, const char *why) {
  char name[64];
  ptx_slot_name(w->cluster->launch->kernel, slot, name, sizeof name);
  return emu_fail(w, fault, -1, "register %s %s", name, why);
}

/* PTX ISA 9.7.15.7.1: wgmma.fence before the first wgmma, and between any other access to its registers and
 * it; wgmmas of one shape may share accumulators without. */
static bool check_issue_registers(emu_warp *w, const shape *s, const ptx_instruction *i, bool accumulate) {
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
  shape s = shape_of(i);
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
      !read_operand(w, e, w->view, a_bits, s.a_k_major, WARP_ROWS * lane, WARP_ROWS, "matrix A"))
    return false;
  if (e->issued != 0xF) return true;
  wake_group(g);
  return read_operand(w, e, e->known, b_bits, s.b_k_major, 0, s.n, "matrix B");
}

/* Rows of an operand from shared memory, row after row, 32 bytes each. */
static void fetch(const emu_cta *cta, uint64_t bits, const emu_warp *w, bool k_major, uint32_t first,
                  uint32_t rows, uint8_t *raw) {
  descriptor d; /* was accepted when the product was issued */
  decode_descriptor(w, bits, &d);
  if (k_major) {
    for (uint32_t r = 0; r < rows; r++) {
      for (uint32_t c = 0; c < 2; c++)
        memcpy(raw + r * K_BYTES + c * CHUNK, cta->smem + chunk_address(&d, true, first + r, c), CHUNK);
    }
    return;
  }
  for (uint32_t r = 0; r < rows; r += 8) {
    for (uint32_t k = 0; k < 16; k++) {
      const uint8_t *from = cta->smem + chunk_address(&d, false, first + r, k);
      for (uint32_t j = 0; j < 8; j++) memcpy(raw + (r + j) * K_BYTES + 2 * k, from + 2 * j, 2);
    }
  }
}

/* A's fragment in registers (PTX ISA 9.7.15.5, figure of register fragments for A): register i of lane l
 * holds 4 bytes of row l/4 + 8(i&1), from byte 4(l%4) + 16(i>>1) on. */
static void fetch_registers(const emu_warp *w, const ptx_operand *a, uint8_t *raw) {
  for (uint32_t i = 0; i < 4; i++) {
    const uint64_t *v = w->alu.registers.value[a->elements[i].slot];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
      uint32_t row = l / 4 + 8 * (i & 1), byte = 4 * (l % 4) + 16 * (i >> 1), bits = (uint32_t)v[l];
      memcpy(raw + row * K_BYTES + byte, &bits, 4);
    }
  }
}

/* Row r (0..15) of a warp's accumulators: element col lies in lane 4(r%8) + col%8/2; 32-bit ones in register
 * 4(col/8) + 2(r/8) + col%2, f16 ones in a half of register 2(col/8) + r/8. */
static void row_from_registers(const emu_warp *w, const shape *s, uint32_t r, uint32_t *row) {
  for (uint32_t n = 0; n < s->n; n++) {
    uint32_t l = r % 8 * 4 + n % 8 / 2, high = r / 8;
    row[n] = (uint32_t)w->alu.registers.value[s->d->elements[n / 8 * 4 + high * 2 + (n & 1)].slot][l];
  }
}

static void row_to_registers(emu_warp *w, const shape *s, uint32_t r, const uint32_t *row) {
  for (uint32_t n = 0; n < s->n; n++) {
    uint32_t l = r % 8 * 4 + n % 8 / 2, high = r / 8;
    w->alu.registers.value[s->d->elements[n / 8 * 4 + high * 2 + (n & 1)].slot][l] = row[n];
  }
}

static uint64_t *half_pair(const emu_warp *w, const shape *s, uint32_t r, uint32_t n) {
  return &w->alu.registers.value[s->d->elements[n / 8 * 2 + r / 8].slot][r % 8 * 4 + n % 8 / 2];
}

static void compute_row_f16(emu_warp *w, const shape *s, uint32_t r, const mma_operand *a,
                            const mma_operand *b, bool accumulate) {
  uint16_t row[MMA_MAX_ROWS];
  for (uint32_t n = 0; n < s->n; n++) row[n] = (uint16_t)(*half_pair(w, s, r, n) >> 16 * (n & 1));
  mma_row_f16(a, (int)r, b, accumulate, row);
  for (uint32_t n = 0; n < s->n; n += 2) *half_pair(w, s, r, n) = row[n] | (uint64_t)row[n + 1] << 16;
}

static void compute(emu_warpgroup *g, const emu_wgmma *e, mma_operand *a, mma_operand *b) {
  shape s = shape_of(e->instruction);
  emu_cta *cta = g->cta;
  emu_warp *warps = &cta->warps[g->index * EMU_WARPGROUP_WARPS];
  uint8_t b_raw[MMA_MAX_ROWS * K_BYTES], a_raw[WARP_ROWS * K_BYTES];
  fetch(cta, e->b_descriptor, warps, s.b_k_major, 0, s.n, b_raw);
  if (!s.integer) mma_decode(b, s.b_type, b_raw, (int)s.n, s.negate_b);
  bool saturate = (e->instruction->flags & PTX_FLAG_SATFINITE) != 0;
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    if (s.a_in_registers)
      fetch_registers(&warps[j], s.a, a_raw);
    else
      fetch(cta, e->a_descriptor, warps, s.a_k_major, WARP_ROWS * j, WARP_ROWS, a_raw);
    if (!s.integer) mma_decode(a, s.a_type, a_raw, WARP_ROWS, s.negate_a);
    for (uint32_t r = 0; r < WARP_ROWS; r++) {
      uint32_t row[MMA_MAX_ROWS];
      if (s.f16_result) {
        compute_row_f16(&warps[j], &s, r, a, b, e->accumulate);
        continue;
      }
      if (e->accumulate) row_from_registers(&warps[j], &s, r, row);
      if (s.integer) {
        int32_t sums[MMA_MAX_ROWS];
        memcpy(sums, row, sizeof sums);
        mma_row_s32(a_raw + r * K_BYTES, s.a_signed, b_raw, s.b_signed, (int)s.n, K_BYTES, e->accumulate,
                    saturate, sums);
        memcpy(row, sums, sizeof sums);
      } else {
        float sums[MMA_MAX_ROWS];
        memcpy(sums, row, sizeof sums);
        mma_row_f32(a, (int)r, b, e->accumulate, sums);
        memcpy(row, sums, sizeof sums);
      }
      row_to_registers(&warps[j], &s, r, row);
    }
  }
}

static bool execute_up_to(emu_warp *w, emu_warpgroup *g, uint64_t sequence) {
  if (g->executed >= sequence) return true;
  mma_operand *operands = malloc(2 * sizeof *operands);
  if (operands == NULL) return emu_no_memory(w->cluster->launch);
  while (g->executed < sequence) compute(g, entry(g, ++g->executed), &operands[0], &operands[1]);
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
