#include "emulator/alu_execute.h"

#include <stdarg.h>
#include <stdio.h>

#include "emulator/alu_format.h"
#include "emulator/alu_internal.h"

#define EACH_LANE for (int l = 0; l < PTX_LANES; l++)

bool alu_fail(alu_fault *fault, emu_fault kind, int lane, uint32_t use, const char *format, ...) {
  va_list args;
  fault->fault = kind;
  fault->lane = lane;
  fault->use = use;
  va_start(args, format);
  vsnprintf(fault->text, sizeof fault->text, format, args);
  va_end(args);
  return false;
}

uint32_t alu_guard(const ptx_instruction *i, const ptx_registers *r, uint32_t active) {
  if (i->guard == PTX_NOWHERE) return active;
  uint32_t p = r->predicate[i->guard];
  return active & (i->guard_negated ? ~p : p);
}

bool alu_check_reads(const ptx_kernel *kernel, const ptx_instruction *i, const ptx_registers *r,
                     uint32_t active, alu_fault *fault) {
  for (uint32_t k = 0; k < i->n_reads; k++) {
    uint32_t use = i->uses[k], slot = use & ~PTX_USE_PREDICATE;
    uint32_t written = (use & PTX_USE_PREDICATE) != 0 ? r->predicate_written[slot] : r->written[slot];
    uint32_t missing = active & ~written;
    if (missing == 0) continue;
    char name[64];
    ptx_slot_name(kernel, use, name, sizeof name);
    return alu_fail(fault, EMU_FAULT_UNINITIALISED, __builtin_ctz(missing), use,
                    "reads %s, which lane %d never wrote", name, __builtin_ctz(missing));
  }
  return true;
}

static const uint64_t *broadcast(uint64_t scratch[PTX_LANES], uint64_t v) {
  EACH_LANE scratch[l] = v;
  return scratch;
}

static const uint64_t *base_of(uint8_t kind, const ptx_operand *o, const alu_warp *warp,
                               uint64_t scratch[PTX_LANES]) {
  switch (kind) {
  case PTX_OPERAND_REGISTER: return warp->registers.value[o->slot];
  case PTX_OPERAND_SYMBOL: return broadcast(scratch, warp->symbol_address[o->slot] + o->value);
  case PTX_OPERAND_SPECIAL: warp->special(warp->machine, (ptx_special)o->slot, scratch); return scratch;
  default: return broadcast(scratch, o->value); /* immediates and parameter addresses */
  }
}

const uint64_t *alu_operand(const ptx_operand *o, const alu_warp *warp, uint64_t scratch[PTX_LANES]) {
  uint8_t kind = o->kind == PTX_OPERAND_MEMORY ? o->base : o->kind;
  const uint64_t *base = base_of(kind, o, warp, scratch);
  if (kind != PTX_OPERAND_REGISTER || o->value == 0) return base;
  uint64_t mask = alu_mask(8 * o->bytes);
  EACH_LANE scratch[l] = (base[l] + o->value) & mask;
  return scratch;
}

uint32_t alu_predicate(const ptx_operand *o, const alu_warp *warp) {
  if (o->kind == PTX_OPERAND_IMMEDIATE) return o->value != 0 ? PTX_FULL_MASK : 0;
  if (o->kind == PTX_OPERAND_SPECIAL) {
    uint64_t v[PTX_LANES];
    uint32_t r = 0;
    warp->special(warp->machine, (ptx_special)o->slot, v);
    EACH_LANE r |= (uint32_t)(v[l] & 1) << l;
    return r;
  }
  uint32_t p = warp->registers.predicate[o->slot];
  return o->negated ? ~p : p;
}

void alu_write(const ptx_operand *o, ptx_registers *r, const uint64_t value[PTX_LANES], uint32_t active) {
  if (o->kind != PTX_OPERAND_REGISTER) return;
  uint64_t *to = r->value[o->slot];
  r->written[o->slot] |= active;
  if (active == PTX_FULL_MASK) {
    memmove(to, value, PTX_LANES * sizeof *to); /* mov of a register to itself */
    return;
  }
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    to[l] = value[l];
  }
}

void alu_write_predicate(const ptx_operand *o, ptx_registers *r, uint32_t value, uint32_t active) {
  if (o->kind != PTX_OPERAND_PREDICATE) return;
  r->predicate[o->slot] = (r->predicate[o->slot] & ~active) | (value & active);
  r->predicate_written[o->slot] |= active;
}

/* The usual shape: destination, then sources, all scalar. */
static bool arithmetic(alu_call *c, bool (*compute)(alu_call *)) {
  const ptx_instruction *i = c->i;
  for (uint32_t k = 1; k < i->n_operands && k <= COUNT_OF(c->in); k++)
    c->in[k - 1] = alu_operand(&i->operands[k], c->warp, c->scratch[k - 1]);
  if (!compute(c))
    return alu_fail(c->fault, EMU_FAULT_UNKNOWN_INSTRUCTION, 0, PTX_NOWHERE, "'%s' cannot be computed",
                    i->text);
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

/* add.f32.bf16 and its like: the first operands are 16-bit, the last is f32. */
static bool mixed_f32(alu_call *c) {
  const ptx_instruction *i = c->i;
  const alu_format *format = alu_format_of((ptx_type)i->type[1]);
  uint32_t narrow = i->n_operands - 2u;
  uint64_t wide[2][PTX_LANES];
  for (uint32_t k = 0; k < narrow; k++) {
    EACH_LANE wide[k][l] = alu_of_f32((float)alu_decode(format, c->in[k][l]));
    c->in[k] = wide[k];
  }
  return alu_f32(c);
}

static bool by_type(alu_call *c) {
  ptx_type type = (ptx_type)c->i->type[0];
  switch (type) {
  case PTX_TYPE_F32: return arithmetic(c, c->i->n_types == 2 ? mixed_f32 : alu_f32);
  case PTX_TYPE_F64: return arithmetic(c, alu_f64);
  case PTX_TYPE_F32X2: return arithmetic(c, alu_f32x2);
  case PTX_TYPE_F16:
  case PTX_TYPE_BF16:
  case PTX_TYPE_F16X2:
  case PTX_TYPE_BF16X2: return arithmetic(c, alu_half);
  case PTX_TYPE_U16X2:
  case PTX_TYPE_S16X2: return arithmetic(c, alu_integer_packed);
  default: return arithmetic(c, alu_integer);
  }
}

static bool predicate_logic(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint32_t a = alu_predicate(&i->operands[1], c->warp), b = 0;
  if (i->n_operands > 2) b = alu_predicate(&i->operands[2], c->warp);
  switch (i->opcode) {
  case PTX_AND: a &= b; break;
  case PTX_OR: a |= b; break;
  case PTX_XOR: a ^= b; break;
  case PTX_NOT: a = ~a; break;
  default: break;
  }
  alu_write_predicate(&i->operands[0], &c->warp->registers, a, c->active);
  return true;
}

/* lop3.or, lop3.and: the result, and whether it is not zero, combined with a predicate. */
static bool logic3_predicate(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint32_t other = alu_predicate(&i->operands[6], c->warp), nonzero = 0;
  for (uint32_t k = 0; k < 4; k++) c->in[k] = alu_operand(&i->operands[k + 2], c->warp, c->scratch[k]);
  if (!alu_integer(c)) return false;
  EACH_LANE nonzero |= (uint32_t)(c->out[l] != 0) << l;
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  uint32_t result = i->operation == PTX_OP_OR ? nonzero | other : nonzero & other;
  alu_write_predicate(&i->operands[1], &c->warp->registers, result, c->active);
  return true;
}

static bool select(alu_call *c) {
  const ptx_instruction *i = c->i;
  const uint64_t *a = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  const uint64_t *b = alu_operand(&i->operands[2], c->warp, c->scratch[1]);
  uint32_t first;
  if (i->opcode == PTX_SELP) {
    first = alu_predicate(&i->operands[3], c->warp);
  } else { /* slct: where the third operand is not negative; NaN counts as negative, -0 does not */
    const uint64_t *s = alu_operand(&i->operands[3], c->warp, c->scratch[2]);
    static const uint64_t zeros[PTX_LANES];
    first = alu_compare_lanes(PTX_CMP_GE, (ptx_type)i->type[1], (i->flags & PTX_FLAG_FTZ) != 0, s, zeros);
  }
  EACH_LANE c->out[l] = (first >> l & 1) != 0 ? a[l] : b[l];
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

static bool test_property(alu_call *c) {
  const ptx_instruction *i = c->i;
  const alu_format *format = alu_format_of((ptx_type)i->type[0]);
  const uint64_t *a = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  uint64_t infinity = format->largest + 1;
  uint32_t r = 0;
  EACH_LANE {
    uint64_t v = a[l] & alu_mask(format->exponent_bits + format->fraction_bits);
    bool is_normal = v >> format->fraction_bits != 0 && v < infinity, holds;
    switch (i->mode) {
    case PTX_MODE_FINITE: holds = v < infinity; break;
    case PTX_MODE_INFINITE: holds = v == infinity; break;
    case PTX_MODE_NUMBER: holds = v <= infinity; break;
    case PTX_MODE_NOTANUMBER: holds = v > infinity; break;
    case PTX_MODE_NORMAL: holds = is_normal; break;
    default: holds = v != 0 && v >> format->fraction_bits == 0; break;
    }
    r |= (uint32_t)holds << l;
  }
  alu_write_predicate(&i->operands[0], &c->warp->registers, r, c->active);
  return true;
}

/* cvta: between an address within a state space and the generic one. */
static bool convert_address(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint64_t base = c->warp->window_base[i->space[0]];
  uint64_t mask = alu_mask(ptx_type_bits((ptx_type)i->type[0]));
  const uint64_t *a = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  bool to = (i->flags & PTX_FLAG_TO) != 0;
  EACH_LANE c->out[l] = (to ? a[l] - base : a[l] + base) & mask;
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

static bool in_window(const alu_warp *w, ptx_space space, uint64_t address) {
  return address - w->window_base[space] < w->window_bytes[space];
}

static bool test_space(alu_call *c) {
  const ptx_instruction *i = c->i;
  ptx_space space = (ptx_space)i->space[0];
  const uint64_t *a = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  uint32_t r = 0;
  EACH_LANE {
    bool inside = in_window(c->warp, space, a[l]);
    if (space == PTX_SPACE_GLOBAL)
      inside = !in_window(c->warp, PTX_SPACE_SHARED_CLUSTER, a[l]) &&
               !in_window(c->warp, PTX_SPACE_SHARED, a[l]) && !in_window(c->warp, PTX_SPACE_LOCAL, a[l]);
    r |= (uint32_t)inside << l;
  }
  alu_write_predicate(&i->operands[0], &c->warp->registers, r, c->active);
  return true;
}

static bool active_mask(alu_call *c) {
  broadcast(c->out, c->active);
  alu_write(&c->i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

static bool execute(const ptx_instruction *i, alu_warp *warp, uint32_t active, alu_fault *fault) {
  alu_call c;
  c.i = i;
  c.warp = warp;
  c.active = active;
  c.fault = fault;
  memset(c.in, 0, sizeof c.in);
  switch (i->opcode) {
  case PTX_AND:
  case PTX_OR:
  case PTX_XOR:
  case PTX_NOT: return i->type[0] == PTX_TYPE_PRED ? predicate_logic(&c) : by_type(&c);
  case PTX_LOP3: return i->operation != PTX_OP_NONE ? logic3_predicate(&c) : by_type(&c);
  case PTX_MOV: return i->type[0] == PTX_TYPE_PRED ? predicate_logic(&c) : alu_mov(&c);
  case PTX_SELP:
  case PTX_SLCT: return select(&c);
  case PTX_SETP:
  case PTX_SET: return alu_compare(&c);
  case PTX_TESTP: return test_property(&c);
  case PTX_CVT: return arithmetic(&c, alu_cvt);
  case PTX_CVT_PACK: return arithmetic(&c, alu_cvt_pack);
  case PTX_CVTA: return convert_address(&c);
  case PTX_ISSPACEP: return test_space(&c);
  case PTX_SHFL: return alu_shfl(&c);
  case PTX_VOTE: return alu_vote(&c);
  case PTX_MATCH: return alu_match(&c);
  case PTX_REDUX: return alu_redux(&c);
  case PTX_ELECT: return alu_elect(&c);
  case PTX_ACTIVEMASK: return active_mask(&c);
  default: return by_type(&c);
  }
}

bool alu_execute(const ptx_kernel *kernel, const ptx_instruction *i, alu_warp *warp, uint32_t active,
                 alu_fault *fault) {
  if (alu_check_reads(kernel, i, &warp->registers, active, fault)) return execute(i, warp, active, fault);
  alu_parts parts;
  if (!alu_hands_on_parts(i, &warp->registers, &parts)) return false;
  if (!execute(i, warp, active, fault)) return false;
  alu_keep_parts(i, &warp->registers, &parts, active);
  return true;
}
