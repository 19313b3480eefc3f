#include <string.h>

#include "emulator/ptx_parser.h"

/* What is checked: the instruction, where its operands stand in the text, and its name for the message. */
typedef struct subject {
  ptx_parser *p;
  const ptx_instruction *i;
  const ptx_parsed_operand *operands;
  const ptx_token *name;
} subject;

static arke_status refuse(const subject *s, const char *why) {
  return ptx_fail(s->p, ARKE_ERR_INVALID, s->name, "'%s': %s", s->i->text, why);
}

static arke_status refuse_operand(const subject *s, uint32_t operand, const char *why) {
  return ptx_fail(s->p, ARKE_ERR_INVALID, &s->operands[operand].token, "in '%s', %s", s->i->text, why);
}

static arke_status refuse_form(const subject *s, const char *why) {
  return ptx_fail(s->p, ARKE_ERR_UNSUPPORTED, s->name, "unknown instruction '%s': %s", s->i->text, why);
}

static arke_status check_compare(const subject *s) {
  const ptx_instruction *i = s->i;
  ptx_type type = (ptx_type)i->type[i->n_types - 1];
  bool equality = i->compare == PTX_CMP_EQ || i->compare == PTX_CMP_NE;
  bool ordered = i->compare <= PTX_CMP_GE;
  bool for_unsigned = i->compare >= PTX_CMP_LO && i->compare <= PTX_CMP_HS;
  bool ok;
  switch (ptx_type_kind(type)) {
  case PTX_KIND_OF_FLOAT: ok = !for_unsigned; break;
  case PTX_KIND_OF_UNSIGNED: ok = ordered || for_unsigned; break;
  case PTX_KIND_OF_SIGNED: ok = ordered; break;
  default: ok = equality; break;
  }
  if (!ok) return refuse_form(s, "this comparison does not exist for this type");
  bool flushable = type == PTX_TYPE_F32 || type == PTX_TYPE_F16 || type == PTX_TYPE_F16X2;
  if ((i->flags & PTX_FLAG_FTZ) != 0 && !flushable) return refuse_form(s, ".ftz is for f32 and f16");
  return ARKE_OK;
}

/* Whether every value of one integer type is one of another. */
static bool contains(ptx_type to, ptx_type from) {
  bool to_signed = ptx_type_kind(to) == PTX_KIND_OF_SIGNED,
       from_signed = ptx_type_kind(from) == PTX_KIND_OF_SIGNED;
  if (ptx_type_kind(to) == PTX_KIND_OF_FLOAT || ptx_type_kind(from) == PTX_KIND_OF_FLOAT) return false;
  if (from_signed && !to_signed) return false;
  return ptx_type_bits(to) - to_signed >= ptx_type_bits(from) - from_signed;
}

static arke_status check_cvt(const subject *s) {
  const ptx_instruction *i = s->i;
  ptx_type to = (ptx_type)i->type[0], from = (ptx_type)i->type[1];
  if ((i->flags & PTX_FLAG_FTZ) != 0 && to != PTX_TYPE_F32 && from != PTX_TYPE_F32)
    return refuse_form(s, ".ftz is for conversions from or to f32");
  if ((i->flags & PTX_FLAG_SAT) != 0 &&
      (contains(to, from) ||
       (to == PTX_TYPE_BF16 && from != PTX_TYPE_BF16 && ptx_type_kind(from) != PTX_KIND_OF_FLOAT)))
    return refuse_form(s, ".sat makes no difference between these types");
  if (ptx_type_kind(to) != PTX_KIND_OF_FLOAT || ptx_type_kind(from) != PTX_KIND_OF_FLOAT) return ARKE_OK;
  int to_bits = ptx_type_bits(to), from_bits = ptx_type_bits(from);
  bool scalar =
      (to == PTX_TYPE_F16 || to == PTX_TYPE_BF16 || to == PTX_TYPE_F32 || to == PTX_TYPE_F64) &&
      (from == PTX_TYPE_F16 || from == PTX_TYPE_BF16 || from == PTX_TYPE_F32 || from == PTX_TYPE_F64);
  if (!scalar) return ARKE_OK;
  bool to_integer = i->rounding >= PTX_ROUND_RNI && i->rounding <= PTX_ROUND_RPI;
  if (to == from)
    return i->rounding == PTX_ROUND_NONE || to_integer
               ? ARKE_OK
               : refuse_form(s, "the types are the same: only .rni, .rzi, .rmi or .rpi can round");
  if (to_integer) return refuse_form(s, "rounding to an integer keeps the type");
  bool narrows = to_bits < from_bits || (to_bits == from_bits && to != from);
  if (narrows && i->rounding == PTX_ROUND_NONE)
    return refuse_form(s, "a narrowing conversion needs a rounding mode");
  if (!narrows && i->rounding != PTX_ROUND_NONE)
    return refuse_form(s, "a widening conversion takes no rounding mode");
  return ARKE_OK;
}

static int element_bits(const ptx_operand *o) {
  return 8 * o->bytes;
}

/* {a, b} <-> one register: the elements share the register's bits equally. */
static arke_status check_mov(const subject *s) {
  const ptx_instruction *i = s->i;
  for (uint32_t k = 0; k < 2; k++) {
    const ptx_operand *v = &i->operands[k];
    if (v->kind != PTX_OPERAND_VECTOR) continue;
    int bits = ptx_type_bits((ptx_type)i->type[0]);
    if (v->n != 2 && v->n != 4) return refuse_operand(s, k, "a vector of 2 or 4 elements is expected");
    for (uint32_t e = 0; e < v->n; e++) {
      const ptx_operand *o = &v->elements[e];
      if (o->kind == PTX_OPERAND_SINK) continue;
      if (o->kind == PTX_OPERAND_IMMEDIATE) {
        if (bits / (int)v->n < 64 && o->value >> (bits / (int)v->n) != 0)
          return refuse_operand(s, k, "a constant does not fit its share of the register");
        continue;
      }
      if (element_bits(o) * (int)v->n != bits)
        return refuse_operand(s, k, "the elements do not add up to the size of the type");
    }
  }
  return ARKE_OK;
}

/* Every element of a register list has `bits`, and there are `n` of them. */
static arke_status check_list(const subject *s, uint32_t operand, uint32_t n, int bits) {
  const ptx_operand *v = &s->i->operands[operand];
  if (v->n != n)
    return ptx_fail(s->p, ARKE_ERR_INVALID, &s->operands[operand].token,
                    "in '%s', %u registers are expected in { }, there are %u", s->i->text, n, v->n);
  for (uint32_t e = 0; e < v->n; e++) {
    const ptx_operand *o = &v->elements[e];
    if (o->kind == PTX_OPERAND_IMMEDIATE || o->kind == PTX_OPERAND_SINK) continue;
    if (element_bits(o) != bits)
      return ptx_fail(s->p, ARKE_ERR_INVALID, &s->operands[operand].elements[e].token,
                      "in '%s', a register of %d bits is expected", s->i->text, bits);
  }
  return ARKE_OK;
}

static arke_status check_access(const subject *s) {
  const ptx_instruction *i = s->i;
  uint32_t bytes = (uint32_t)ptx_type_bits((ptx_type)i->type[0]) / 8 * i->vector;
  if (bytes > 32 || (bytes > 16 && i->space[0] != PTX_SPACE_GLOBAL && i->space[0] != PTX_SPACE_GENERIC))
    return refuse_form(s, "an access has at most 16 bytes, or 32 in .global");
  int element = ptx_type_bits((ptx_type)i->type[0]);
  if (bytes == 32 && element != 32 && element != 64)
    return refuse_form(s, "32-byte accesses are .v8 of 32-bit or .v4 of 64-bit types");
  if (bytes != 32 && strstr(i->text, ".L2::evict_") != NULL)
    return refuse_form(s, "the L2 eviction priorities are for 32-byte accesses");
  if (i->vector == 8 && bytes != 32) return refuse_form(s, ".v8 exists for 32-bit types only");
  bool store = i->opcode == PTX_ST;
  if (store && (i->space[0] == PTX_SPACE_CONST || i->space[0] == PTX_SPACE_PARAM))
    return refuse_form(s, "this space cannot be written to");
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const ptx_operand *o = &i->operands[k];
    if (o->kind != PTX_OPERAND_MEMORY) continue;
    if (o->base == PTX_OPERAND_PARAM) {
      const ptx_param *param = (const ptx_param *)s->p->params.items + s->operands[k].param;
      uint64_t offset = o->value - param->offset;
      if (i->space[0] != PTX_SPACE_PARAM) return refuse_operand(s, k, "a parameter is read with ld.param");
      if (offset > param->bytes || param->bytes - offset < bytes)
        return refuse_operand(s, k, "the access reaches beyond the parameter");
    } else if (o->base == PTX_OPERAND_SYMBOL) {
      const ptx_symbol *symbol = (const ptx_symbol *)s->p->symbols.items + o->slot;
      bool own = i->space[0] == PTX_SPACE_SHARED_CLUSTER && symbol->space == PTX_SPACE_SHARED;
      if (i->space[0] != (uint8_t)symbol->space && !own)
        return refuse_operand(s, k, "the symbol lies in another state space than the instruction's");
    }
  }
  return ARKE_OK;
}

static arke_status check_multicast(const subject *s) {
  bool multicast = (s->i->flags & PTX_FLAG_MULTICAST) != 0;
  if (multicast && s->i->space[0] != PTX_SPACE_SHARED_CLUSTER)
    return refuse_form(s, "multicast needs a destination in .shared::cluster");
  return ARKE_OK;
}

static arke_status check_atomic(const subject *s) {
  const ptx_instruction *i = s->i;
  ptx_type t = (ptx_type)i->type[0];
  bool bits = t == PTX_TYPE_B32 || t == PTX_TYPE_B64;
  bool is_int = t == PTX_TYPE_U32 || t == PTX_TYPE_S32 || t == PTX_TYPE_U64 || t == PTX_TYPE_S64;
  bool ok;
  switch (i->operation) {
  case PTX_OP_AND:
  case PTX_OP_OR:
  case PTX_OP_XOR: ok = bits; break;
  case PTX_OP_EXCH: ok = bits || t == PTX_TYPE_B128; break;
  case PTX_OP_CAS: ok = bits || t == PTX_TYPE_B16 || t == PTX_TYPE_B128; break;
  case PTX_OP_INC:
  case PTX_OP_DEC: ok = t == PTX_TYPE_U32; break;
  case PTX_OP_MIN:
  case PTX_OP_MAX: ok = is_int || i->vector > 1; break;
  default: ok = !bits && t != PTX_TYPE_B128 && t != PTX_TYPE_S64; break;
  }
  if (!ok) return refuse_form(s, "this operation does not exist for this type");
  if ((i->flags & PTX_FLAG_CACHE_HINT) != 0 && i->space[0] != PTX_SPACE_GLOBAL && i->opcode == PTX_ATOM)
    return refuse_form(s, "a cache hint needs .global");
  if (ptx_type_bits(t) * i->vector > 128) return refuse_form(s, "an atomic vector has at most 16 bytes");
  return ARKE_OK;
}

static arke_status check_wgmma(const subject *s) {
  const ptx_instruction *i = s->i;
  ptx_type d = (ptx_type)i->type[0], a = (ptx_type)i->type[1], b = (ptx_type)i->type[2];
  int bits = ptx_type_bits(a);
  bool is_int = d == PTX_TYPE_S32;
  if (i->m != 64 || i->k * bits != 256)
    return refuse_form(
        s, "the shape must be m64nNkK with 32 bytes of K: k8 for tf32, k16 for 16-bit, k32 for 8-bit types");
  if (i->n % 8 != 0 || i->n > 256 || (is_int && i->n > 32 && i->n % 16 != 0) || (is_int && i->n < 8))
    return refuse_form(s, "N must be a multiple of 8 up to 256, for integers of 16 above 32");
  if (a != b && (bits != 8)) return refuse_form(s, "A and B must have the same type");
  if (d == PTX_TYPE_F16 && (a == PTX_TYPE_BF16 || a == PTX_TYPE_TF32))
    return refuse_form(s, "bf16 and tf32 accumulate in f32");
  TRY(check_list(s, 0, d == PTX_TYPE_F16 ? i->n / 4u : i->n / 2u, 32));
  if (i->operands[1].kind == PTX_OPERAND_VECTOR) TRY(check_list(s, 1, 4, 32));
  for (uint32_t k = 4; k < i->n_operands; k++) {
    uint64_t v = i->operands[k].value;
    bool ok = k < 6 ? v == 1 || v == UINT64_MAX : v <= 1;
    if (!ok)
      return refuse_operand(s, k,
                            k < 6 ? "scale-a and scale-b are 1 or -1" : "trans-a and trans-b are 0 or 1");
  }
  return ARKE_OK;
}

/* mma.sync shapes: X(m, n, k, bits of A's elements, floating point). */
#define MMA_SHAPES(X)                                                                                        \
  X(16, 8, 8, 16, true)                                                                                      \
  X(16, 8, 16, 16, true)                                                                                     \
  X(16, 8, 4, 32, true)                                                                                      \
  X(16, 8, 8, 32, true)                                                                                      \
  X(16, 8, 16, 8, true)                                                                                      \
  X(16, 8, 32, 8, true)                                                                                      \
  X(16, 8, 16, 8, false)                                                                                     \
  X(16, 8, 32, 8, false)                                                                                     \
  X(8, 8, 16, 8, false)                                                                                      \
  X(8, 8, 4, 64, true)                                                                                       \
  X(16, 8, 4, 64, true)                                                                                      \
  X(16, 8, 8, 64, true)                                                                                      \
  X(16, 8, 16, 64, true)

static arke_status check_mma(const subject *s) {
  const ptx_instruction *i = s->i;
  ptx_type d = (ptx_type)i->type[0], a = (ptx_type)i->type[1], b = (ptx_type)i->type[2],
           c = (ptx_type)i->type[3];
  int bits = ptx_type_bits(a), d_bits = ptx_type_bits(d);
  bool is_float = ptx_type_kind(a) == PTX_KIND_OF_FLOAT, known = false;
#define X(M, N, K, BITS, FLOAT)                                                                              \
  known = known || (i->m == M && i->n == N && i->k == K && bits == BITS && is_float == FLOAT);
  MMA_SHAPES(X)
#undef X
  if (!known) return refuse_form(s, "this shape does not exist for this type");
  if (d != c || (a != b && bits != 8)) return refuse_form(s, "these types do not go together");
  if (d == PTX_TYPE_F16 && (a == PTX_TYPE_BF16 || a == PTX_TYPE_TF32))
    return refuse_form(s, "bf16 and tf32 accumulate in f32");
  if (i->a_layout != PTX_LAYOUT_ROW || i->b_layout != PTX_LAYOUT_COL)
    return refuse_form(s, "the layouts must be .row.col");
  uint32_t word = a == PTX_TYPE_F64 ? 64 : 32;
  TRY(check_list(s, 0, (uint32_t)(i->m * i->n * d_bits) / PTX_LANES / word, (int)word));
  TRY(check_list(s, 1, (uint32_t)(i->m * i->k * bits) / PTX_LANES / word, (int)word));
  TRY(check_list(s, 2, (uint32_t)(i->n * i->k * bits) / PTX_LANES / word, (int)word));
  return check_list(s, 3, (uint32_t)(i->m * i->n * d_bits) / PTX_LANES / word, (int)word);
}

static arke_status check_matrix_copy(const subject *s) {
  const ptx_instruction *i = s->i;
  uint32_t list = i->opcode == PTX_LDMATRIX ? 0 : 1;
  if (i->count > 4 || (i->shape == PTX_SHAPE_M16N16 && i->count > 2))
    return refuse_form(s, "x1, x2 or x4 (m16n16: x1 or x2) is expected");
  return check_list(s, list, i->shape == PTX_SHAPE_M16N16 ? 2u * i->count : i->count, 32);
}

static arke_status check_tensor_memory_copy(const subject *s) {
  const ptx_instruction *i = s->i;
  uint32_t each = i->shape == PTX_SHAPE_L16X256B ? 4 : i->shape == PTX_SHAPE_L16X128B ? 2 : 1;
  if (each * i->count > 128) return refuse_form(s, "more than 128 registers");
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (i->operands[k].kind == PTX_OPERAND_VECTOR) TRY(check_list(s, k, each * i->count, 32));
  return ARKE_OK;
}

static arke_status check_tensor_mma(const subject *s) {
  const ptx_instruction *i = s->i;
  bool scaled_kind = i->kind >= PTX_KIND_MXF8F6F4, scaled = (i->flags & PTX_FLAG_BLOCK_SCALE) != 0;
  if (scaled_kind != scaled) return refuse_form(s, "the mx kinds, and only they, take .block_scale");
  if (i->kind == PTX_KIND_MXF4NVF4 && i->scale_block == PTX_SCALE_NONE)
    return refuse_form(s, "kind::mxf4nvf4 needs .block16, .block32 or .scale_vec");
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (i->operands[k].kind == PTX_OPERAND_VECTOR) TRY(check_list(s, k, i->cta_group == 2 ? 8 : 4, 32));
  if ((i->flags & PTX_FLAG_ASHIFT) != 0 && i->operands[1].kind != PTX_OPERAND_MEMORY)
    return refuse_form(s, ".ashift is for A in tensor memory");
  const ptx_operand *last = &i->operands[i->n_operands - 1];
  bool scale_d = i->opcode == PTX_TCGEN05_MMA && last->kind == PTX_OPERAND_IMMEDIATE &&
                 i->n_operands > (i->operands[4].kind == PTX_OPERAND_VECTOR ? 6 : 5);
  if (scale_d && !scaled && (last->value > 15 || (i->kind != PTX_KIND_F16 && i->kind != PTX_KIND_TF32)))
    return refuse(s, "scale-input-d is 0 to 15, for kind::f16 and kind::tf32 only");
  return ARKE_OK;
}

static arke_status check_tensor_copy(const subject *s) {
  const ptx_instruction *i = s->i;
  TRY(check_multicast(s));
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const ptx_operand *o = &i->operands[k];
    if (o->kind == PTX_OPERAND_VECTOR) {
      if (i->dim < 3) return refuse_form(s, "im2col is for 3d, 4d and 5d maps");
      TRY(check_list(s, k, i->tiling == PTX_TILING_IM2COL ? i->dim - 2u : 2, 16));
    }
    if (o->kind != PTX_OPERAND_TENSOR) continue;
    bool four = i->tiling == PTX_TILING_GATHER4 || i->tiling == PTX_TILING_SCATTER4;
    uint32_t want = four ? 5 : i->dim;
    if (four && i->dim != 2) return refuse_form(s, "gather4 and scatter4 are for 2d maps");
    if (o->elements[1].n != want)
      return ptx_fail(s->p, ARKE_ERR_INVALID, &s->operands[k].token,
                      "in '%s', %u coordinates are expected, there are %u", i->text, want, o->elements[1].n);
  }
  return ARKE_OK;
}

static arke_status check_cp_async(const subject *s) {
  const ptx_instruction *i = s->i;
  uint64_t bytes = i->operands[2].value;
  if (bytes != 4 && bytes != 8 && bytes != 16) return refuse_operand(s, 2, "the size is 4, 8 or 16 bytes");
  const char *rest = i->text + sizeof "cp.async" - 1;
  bool around_l1 = rest[0] == '.' && rest[1] == 'c' && rest[2] == 'g';
  if (around_l1 && bytes != 16) return refuse_operand(s, 2, "cp.async.cg copies 16 bytes");
  return ARKE_OK;
}

static arke_status check_barrier(const subject *s) {
  const ptx_instruction *i = s->i;
  uint32_t id = i->opcode == PTX_BAR_RED ? 1 : 0;
  if (strncmp(i->text, "bar.", 4) == 0 && strstr(i->text, ".aligned") != NULL)
    return refuse_form(s, "bar is always aligned; only barrier says so");
  if (i->operands[id].kind == PTX_OPERAND_IMMEDIATE && i->operands[id].value > 15)
    return refuse_operand(s, id, "barriers are numbered 0 to 15");
  const ptx_operand *count = &i->operands[id + 1];
  bool counted = i->n_operands > id + 1 && count->kind == PTX_OPERAND_IMMEDIATE && i->opcode != PTX_BAR_RED;
  if (counted && (count->value == 0 || count->value % PTX_LANES != 0 || count->value > 1024))
    return refuse_operand(s, id + 1, "the number of threads is a multiple of 32 up to 1024");
  return ARKE_OK;
}

static arke_status check_mbarrier(const subject *s) {
  const ptx_instruction *i = s->i;
  if ((i->semantics == PTX_SEM_NONE) != (i->scope == PTX_SCOPE_NONE))
    return refuse_form(s, "the memory ordering and its scope go together");
  bool remote = i->space[0] == PTX_SPACE_SHARED_CLUSTER;
  if (remote && i->unit == PTX_UNIT_BARRIER && i->operands[0].kind == PTX_OPERAND_REGISTER)
    return refuse_operand(s, 0, "arriving in another CTA returns no state: the destination is _");
  return ARKE_OK;
}

static arke_status check_setmaxnreg(const subject *s) {
  uint64_t n = s->i->operands[0].value;
  if (n < 24 || n > 256 || n % 8 != 0)
    return refuse_operand(s, 0, "the number is a multiple of 8 from 24 to 256");
  return ARKE_OK;
}

arke_status ptx_check_instruction(ptx_parser *p, const ptx_instruction *i, const ptx_parsed_operand *operands,
                                  const ptx_token *name) {
  subject s = {p, i, operands, name};
  switch (i->opcode) {
  case PTX_SETP:
  case PTX_SET: return check_compare(&s);
  case PTX_CVT: return check_cvt(&s);
  case PTX_MOV: return check_mov(&s);
  case PTX_LOP3: {
    uint32_t lut = i->operation != PTX_OP_NONE ? 5 : 4;
    return i->operands[lut].value <= 255 ? ARKE_OK : refuse_operand(&s, lut, "the table is a byte");
  }
  case PTX_LD:
  case PTX_LDU:
  case PTX_ST: return check_access(&s);
  case PTX_ST_ASYNC:
    if (ptx_type_bits((ptx_type)i->type[0]) * i->vector > 128)
      return refuse_form(&s, "at most 16 bytes are stored at once");
    return ARKE_OK;
  case PTX_BULK: return check_multicast(&s);
  case PTX_ATOM:
  case PTX_RED: return check_atomic(&s);
  case PTX_WGMMA: return check_wgmma(&s);
  case PTX_MMA: return check_mma(&s);
  case PTX_LDMATRIX:
  case PTX_STMATRIX: return check_matrix_copy(&s);
  case PTX_TCGEN05_LD:
  case PTX_TCGEN05_ST: return check_tensor_memory_copy(&s);
  case PTX_TCGEN05_MMA:
  case PTX_TCGEN05_MMA_WS: return check_tensor_mma(&s);
  case PTX_BULK_TENSOR:
  case PTX_BULK_TENSOR_PREFETCH:
  case PTX_BULK_TENSOR_REDUCE: return check_tensor_copy(&s);
  case PTX_CP_ASYNC: return check_cp_async(&s);
  case PTX_BAR_SYNC:
  case PTX_BAR_ARRIVE:
  case PTX_BAR_RED: return check_barrier(&s);
  case PTX_MBARRIER_EXPECT_TX:
  case PTX_MBARRIER_COMPLETE_TX:
  case PTX_MBARRIER_ARRIVE:
  case PTX_MBARRIER_ARRIVE_EXPECT_TX:
  case PTX_MBARRIER_ARRIVE_DROP:
  case PTX_MBARRIER_ARRIVE_DROP_EXPECT_TX:
  case PTX_MBARRIER_TEST_WAIT:
  case PTX_MBARRIER_TEST_WAIT_PARITY:
  case PTX_MBARRIER_TRY_WAIT:
  case PTX_MBARRIER_TRY_WAIT_PARITY: return check_mbarrier(&s);
  case PTX_CLC_QUERY_CTAID:
    return i->vector == 4 ? ARKE_OK : refuse_form(&s, "four coordinates are expected");
  case PTX_SETMAXNREG: return check_setmaxnreg(&s);
  default: return ARKE_OK;
  }
}
