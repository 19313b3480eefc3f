/* Operands of wgmma: what an instruction names, where descriptors say that its matrices are in shared memory,
 * and their bytes. */
#include <string.h>

#include "emulator/emu_wgmma.h"

enum { CHUNK = 16 };

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
  return k_major ? EMU_WGMMA_K_BYTES / CHUNK : 16;
}

static mma_type mma_type_of(ptx_type t) {
  switch (t) {
  case PTX_TYPE_BF16: return MMA_BF16;
  case PTX_TYPE_TF32: return MMA_TF32;
  case PTX_TYPE_E4M3: return MMA_E4M3;
  case PTX_TYPE_E5M2: return MMA_E5M2;
  default: return MMA_F16;
  }
}

emu_wgmma_shape emu_wgmma_shape_of(const ptx_instruction *i) {
  emu_wgmma_shape s;
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

bool emu_wgmma_read_operand(emu_warp *w, const emu_wgmma *e, const emu_view *known, uint64_t bits,
                            bool k_major, uint32_t first, uint32_t rows, const char *which) {
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

void emu_wgmma_fetch(const emu_cta *cta, uint64_t bits, const emu_warp *w, bool k_major, uint32_t first,
                     uint32_t rows, uint8_t *raw) {
  descriptor d; /* was accepted when the product was issued */
  decode_descriptor(w, bits, &d);
  if (k_major) {
    for (uint32_t r = 0; r < rows; r++) {
      for (uint32_t c = 0; c < 2; c++)
        memcpy(raw + r * EMU_WGMMA_K_BYTES + c * CHUNK, cta->smem + chunk_address(&d, true, first + r, c),
               CHUNK);
    }
    return;
  }
  for (uint32_t r = 0; r < rows; r += 8) {
    for (uint32_t k = 0; k < 16; k++) {
      const uint8_t *from = cta->smem + chunk_address(&d, false, first + r, k);
      for (uint32_t j = 0; j < 8; j++) memcpy(raw + (r + j) * EMU_WGMMA_K_BYTES + 2 * k, from + 2 * j, 2);
    }
  }
}
