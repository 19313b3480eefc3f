#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "emulator/emu_machine.h"

static float as_f32(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof f);
  return f;
}

static uint64_t f32_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static double as_f64(uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

static uint64_t f64_bits(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return bits;
}

/* One 16-bit float: added in double and rounded once, which is exact for sums of two. */
static bool reduce_half(ptx_operation op, dtype t, uint16_t old, uint16_t operand, uint16_t *result) {
  double a = dtype_load(t, &old, 0), b = dtype_load(t, &operand, 0), v;
  switch (op) {
  case PTX_OP_ADD: v = a + b; break;
  case PTX_OP_MIN: v = fmin(a, b); break;
  case PTX_OP_MAX: v = fmax(a, b); break;
  default: return false;
  }
  dtype_store(t, result, 0, v);
  return true;
}

static bool reduce_halves(ptx_operation op, dtype t, int n, uint64_t old, uint64_t operand,
                          uint64_t *result) {
  *result = 0;
  for (int i = 0; i < n; i++) {
    uint16_t half;
    if (!reduce_half(op, t, (uint16_t)(old >> 16 * i), (uint16_t)(operand >> 16 * i), &half)) return false;
    *result |= (uint64_t)half << 16 * i;
  }
  return true;
}

static bool reduce_integer(ptx_operation op, int bits, bool is_signed, uint64_t old, uint64_t v,
                           uint64_t compare, uint64_t *result) {
  uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  old &= mask;
  v &= mask;
  int64_t a = (int64_t)(old << (64 - bits)) >> (64 - bits), b = (int64_t)(v << (64 - bits)) >> (64 - bits);
  switch (op) {
  case PTX_OP_ADD: *result = old + v; break;
  case PTX_OP_MIN: *result = is_signed ? (a < b ? old : v) : (old < v ? old : v); break;
  case PTX_OP_MAX: *result = is_signed ? (a > b ? old : v) : (old > v ? old : v); break;
  case PTX_OP_INC: *result = old >= v ? 0 : old + 1; break;
  case PTX_OP_DEC: *result = old == 0 || old > v ? v : old - 1; break;
  case PTX_OP_AND: *result = old & v; break;
  case PTX_OP_OR: *result = old | v; break;
  case PTX_OP_XOR: *result = old ^ v; break;
  case PTX_OP_EXCH: *result = v; break;
  case PTX_OP_CAS: *result = old == (compare & mask) ? v : old; break;
  default: return false;
  }
  *result &= mask;
  return true;
}

bool emu_reduce(ptx_operation op, ptx_type type, uint64_t old, uint64_t v, uint64_t compare,
                uint64_t *result) {
  bool swap = op == PTX_OP_EXCH || op == PTX_OP_CAS;
  switch (swap ? PTX_TYPE_NONE : type) {
  case PTX_TYPE_F32:
    if (op == PTX_OP_ADD)
      *result = f32_bits(as_f32(old) + as_f32(v));
    else if (op == PTX_OP_MIN)
      *result = f32_bits(fminf(as_f32(old), as_f32(v)));
    else if (op == PTX_OP_MAX)
      *result = f32_bits(fmaxf(as_f32(old), as_f32(v)));
    else
      return false;
    return true;
  case PTX_TYPE_F64:
    if (op != PTX_OP_ADD) return false;
    *result = f64_bits(as_f64(old) + as_f64(v));
    return true;
  case PTX_TYPE_F16: return reduce_halves(op, DTYPE_F16, 1, old, v, result);
  case PTX_TYPE_F16X2: return reduce_halves(op, DTYPE_F16, 2, old, v, result);
  case PTX_TYPE_BF16: return reduce_halves(op, DTYPE_BF16, 1, old, v, result);
  case PTX_TYPE_BF16X2: return reduce_halves(op, DTYPE_BF16, 2, old, v, result);
  default: break;
  }
  int bits = ptx_type_bits(type);
  if (bits < 8 || bits > 64) return false;
  return reduce_integer(op, bits, type == PTX_TYPE_S32 || type == PTX_TYPE_S64, old, v, compare, result);
}

/* Flags in shared memory: an ordered or atomic access to a place hands over what the writers before it knew.
 * More generous than PTX, where a relaxed access needs a fence beside it. */
bool emu_flag_sync(emu_warp *w, const emu_place *p, uint32_t bytes, bool write) {
  emu_cta *cta = p->cta;
  uint32_t key = p->offset / 4, last = (p->offset + bytes - 1) / 4;
  for (; key <= last; key++) {
    emu_view *flag = NULL;
    for (uint32_t i = 0; i < cta->n_flags && flag == NULL; i++) {
      if (cta->flags[i].word == key) flag = cta->flags[i].view;
    }
    if (flag == NULL && !write) continue;
    if (flag == NULL) {
      emu_flag *flags = realloc(cta->flags, (cta->n_flags + 1) * sizeof *flags);
      if (flags == NULL) return emu_no_memory(w->cluster->launch);
      cta->flags = flags;
      flag = emu_view_new(&w->cluster->order);
      if (flag == NULL) return emu_no_memory(w->cluster->launch);
      cta->flags[cta->n_flags++] = (emu_flag){key, flag};
    }
    if (write)
      emu_release(w, flag);
    else
      emu_acquire(w, flag);
  }
  return true;
}

static bool atomic_lane(emu_warp *w, const ptx_instruction *i, int lane, const emu_place *p, uint32_t n,
                        const uint64_t *const operand[], const uint64_t *compare, uint64_t old_values[]) {
  uint32_t bytes = (uint32_t)ptx_type_bits(i->type[0]) / 8;
  for (uint32_t e = 0; e < n; e++) {
    uint64_t old = 0, result;
    memcpy(&old, p->bytes + e * bytes, bytes);
    if (!emu_reduce(i->operation, i->type[0], old, operand[e][lane], compare == NULL ? 0 : compare[lane],
                    &result))
      return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, lane, "this operation on this type is not modelled");
    memcpy(p->bytes + e * bytes, &result, bytes);
    old_values[e] = old;
  }
  return true;
}

static bool check_atomic(emu_warp *w, const ptx_instruction *i, int lane, const emu_place *p,
                         uint32_t bytes) {
  if (p->space == PTX_SPACE_SHARED) {
    emu_actor actor = emu_warp_actor(w, 1u << lane, true);
    return emu_smem_read(w, lane, p, bytes, &actor) && emu_flag_sync(w, p, bytes, false) &&
           emu_smem_write(w, lane, p, bytes, &actor) && emu_flag_sync(w, p, bytes, true);
  }
  if (p->space != PTX_SPACE_GLOBAL || p->allocation->read_only)
    return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "atomics work on shared and global memory only");
  uint64_t missing, address = (uint64_t)(uintptr_t)p->bytes;
  if (emu_memory_initialised(p->allocation, address, bytes, &missing)) {
    emu_global_sync(w, i, address, true, false);
    if (!emu_global_access(w, lane, p->allocation, address, bytes, true, true)) return false;
    emu_global_sync(w, i, address, false, true);
    return true;
  }
  char where[160];
  emu_memory_describe(w->cluster->launch->memory, missing, where, sizeof where);
  return emu_fail(w, EMU_FAULT_UNINITIALISED, lane, "reads tensor %s, which nothing wrote", where);
}

bool emu_atomic_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  bool returns = i->opcode == PTX_ATOM;
  const ptx_operand *out = &i->operands[0], *address = &i->operands[returns ? 1 : 0];
  const ptx_operand *in = address + 1, *swap = i->operation == PTX_OP_CAS ? address + 2 : NULL;
  uint32_t bytes = (uint32_t)ptx_type_bits(i->type[0]) / 8, n = i->vector > 1 ? i->vector : 1;
  if (bytes > 8 || n > 8)
    return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "atomics of 128 bits are not modelled");
  uint64_t scratch[8][PTX_LANES], address_scratch[PTX_LANES], swap_scratch[PTX_LANES];
  const uint64_t *operand[8], *compare = NULL;
  const uint64_t *a = alu_operand(address, &w->alu, address_scratch);
  for (uint32_t e = 0; e < n; e++) {
    const ptx_operand *o = in->kind == PTX_OPERAND_VECTOR ? &in->elements[e] : in;
    operand[e] = alu_operand(o, &w->alu, scratch[e]);
  }
  if (swap != NULL) {
    compare = operand[0];
    operand[0] = alu_operand(swap, &w->alu, swap_scratch);
  }
  ptx_space space = i->n_spaces > 0 ? i->space[0] : PTX_SPACE_GENERIC;
  uint64_t old[8][PTX_LANES] = {{0}};
  w->cluster->polls++;
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int lane = __builtin_ctz(left);
    emu_place p;
    uint64_t lane_old[8];
    if (!emu_resolve(w, lane, space, a[lane], bytes * n, bytes * n, &p)) return false;
    if (!check_atomic(w, i, lane, &p, bytes * n)) return false;
    if (!atomic_lane(w, i, lane, &p, n, operand, compare, lane_old)) return false;
    for (uint32_t e = 0; e < n; e++) old[e][lane] = lane_old[e];
  }
  for (uint32_t e = 0; returns && e < n; e++) {
    const ptx_operand *o = out->kind == PTX_OPERAND_VECTOR ? &out->elements[e] : out;
    alu_write(o, &w->alu.registers, old[e], active);
  }
  return true;
}
