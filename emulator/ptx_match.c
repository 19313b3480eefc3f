/* Whether operands are what a form's pattern asks for, and what to say of those that are not. */
#include <stdio.h>
#include <string.h>

#include "emulator/ptx_parser.h"

/* What one element of an operand pattern asks for. */
typedef struct expectation {
  char letter;
  ptx_type type; /* type whose literals are accepted; NONE: any integer */
  int bits;      /* 0: any */
  bool at_least;
  bool offset; /* a register plus a constant will do: LLVM folds additions into tcgen05's descriptors */
} expectation;

static void complain(ptx_mismatch *m, uint32_t progress, const ptx_token *t, const char *text) {
  if (m->set && progress <= m->progress) return;
  m->set = true;
  m->progress = progress;
  m->token = *t;
  snprintf(m->text, sizeof m->text, "'%.*s' %s", (int)t->length, t->text, text);
}

static expectation expect_of(const char *element, const ptx_instruction *i) {
  expectation e = {.letter = element[0], .type = PTX_TYPE_NONE};
  switch (element[1]) {
  case '0':
  case '1':
  case '2':
  case '3':
    e.type = (ptx_type)i->type[element[1] - '0'];
    e.bits = ptx_type_bits(e.type);
    e.at_least = element[2] == '+';
    break;
  case 'W': e.bits = 2 * ptx_type_bits((ptx_type)i->type[0]); break;
  case 'h': e.bits = 16; break;
  case 'w': e.bits = 32; break;
  case 'l':
    e.bits = 64;
    e.offset = i->unit == PTX_UNIT_TENSOR_MEMORY;
    break;
  case 'x': e.bits = 128; break;
  default: break;
  }
  return e;
}

/* An immediate as the bits of the expected type; NULL, or what is wrong with it. */
static const char *immediate_bits(const ptx_parsed_operand *o, const expectation *e, uint64_t *bits) {
  if (ptx_type_kind(e->type) == PTX_KIND_OF_FLOAT && e->type != PTX_TYPE_F32 && e->type != PTX_TYPE_F64)
    return "is a constant of a type that has none: move its bits to a register";
  uint64_t v = o->raw; /* not operand.value: an earlier form may have cut that to its own size */
  if (o->number == PTX_TOKEN_INTEGER) {
    if (e->type == PTX_TYPE_F32)
      return "is an integer where an .f32 is expected: write 0f and 8 hexadecimal digits";
    if (e->type == PTX_TYPE_F64)
      return "is an integer where an .f64 is expected: write 0d and 16 hexadecimal digits";
    if (e->bits != 0 && e->bits < 64) {
      uint64_t mask = (1ull << e->bits) - 1;
      bool fits = o->minus ? (int64_t)v >= -(int64_t)(1ull << (e->bits - 1)) : v <= mask;
      if (!fits) return "does not fit the operand's size";
      v &= mask;
    }
    *bits = v;
    return NULL;
  }
  if (o->number == PTX_TOKEN_F32) {
    float f;
    double d;
    uint32_t word = (uint32_t)v;
    if (e->type == PTX_TYPE_F64) {
      memcpy(&f, &word, sizeof f);
      d = f;
      memcpy(bits, &d, sizeof d);
      return NULL;
    }
    *bits = word;
    return e->bits == 32 || e->bits == 0 ? NULL : "is a 32-bit constant where another size is expected";
  }
  if (e->type == PTX_TYPE_F32) {
    double d;
    float f;
    uint32_t word;
    memcpy(&d, &v, sizeof d);
    f = (float)d;
    memcpy(&word, &f, sizeof word);
    *bits = word;
    return NULL;
  }
  *bits = v;
  return e->bits == 64 || e->bits == 0 ? NULL : "is a 64-bit constant where another size is expected";
}

static const char *check_size(int bits, const expectation *e) {
  if (e->bits == 0 || bits == e->bits || (e->at_least && bits > e->bits)) return NULL;
  return bits < e->bits ? "is narrower than the instruction's type" : "is wider than the instruction's type";
}

/* One scalar operand against an expectation; on success the operand's immediate is final. NULL, or the
 * reason. */
static const char *match_scalar(ptx_parsed_operand *o, const expectation *e) {
  const ptx_operand *op = &o->operand;
  bool destination = e->letter == 'd' || e->letter == 'D' || e->letter == 'v';
  switch (op->kind) {
  case PTX_OPERAND_REGISTER:
    if (op->value != 0 && !e->offset) return "has an offset, which only tcgen05 descriptors may have";
    return check_size(8 * op->bytes, e);
  case PTX_OPERAND_SINK: return destination ? NULL : "can only be written to";
  case PTX_OPERAND_IMMEDIATE:
    if (destination) return "is a constant and cannot be written to";
    return immediate_bits(o, e, &o->operand.value);
  case PTX_OPERAND_SPECIAL:
    if (e->letter != 'a') return "is a special register, which only mov and cvt can read";
    return check_size(ptx_special_bits((ptx_special)op->slot), e);
  case PTX_OPERAND_SYMBOL:
  case PTX_OPERAND_PARAM:
    if (e->letter != 'a') return "is an address, which must be moved to a register first";
    return e->bits == 32 || e->bits == 64 ? NULL : "is an address, which has 32 or 64 bits";
  case PTX_OPERAND_PREDICATE: return "is a predicate where a data register is expected";
  case PTX_OPERAND_LABEL: return "is not declared";
  default:
    return destination ? "stands where a register is expected"
                       : "stands where a register or a constant is expected";
  }
}

static const char *match_vector(ptx_parsed_operand *o, const expectation *e, uint32_t n,
                                const ptx_token **at) {
  if (o->operand.kind != PTX_OPERAND_VECTOR) return "stands where registers in { } are expected";
  if (n != 0 && o->operand.n != n) return "does not list as many registers as .v2, .v4 or .v8 says";
  for (uint32_t k = 0; k < o->operand.n; k++) {
    *at = &o->elements[k].token;
    const char *why = match_scalar(&o->elements[k], e);
    if (why != NULL) return why;
  }
  return NULL;
}

static const char *match_predicate(ptx_parsed_operand *o, bool written) {
  switch (o->operand.kind) {
  case PTX_OPERAND_PREDICATE:
    return written && o->operand.negated ? "is negated and cannot be written to" : NULL;
  case PTX_OPERAND_SINK: return written ? NULL : "can only be written to";
  case PTX_OPERAND_IMMEDIATE:
    if (written || o->number != PTX_TOKEN_INTEGER) return "stands where a predicate is expected";
    o->operand.value = o->raw != 0;
    return NULL;
  case PTX_OPERAND_SPECIAL:
    return !written && ptx_special_bits((ptx_special)o->operand.slot) == 1
               ? NULL
               : "stands where a predicate is expected";
  case PTX_OPERAND_LABEL: return "is not declared";
  default: return "stands where a predicate is expected";
  }
}

static const char *match_tensor(ptx_parsed_operand *o, const ptx_token **at) {
  if (o->operand.kind != PTX_OPERAND_TENSOR) return "stands where [tensor map, {coordinates}] is expected";
  return match_vector(&o->elements[1], &(expectation){.letter = 's', .bits = 32}, 0, at);
}

static const char *match_operand(const char *element, ptx_parsed_operand *o, const ptx_instruction *i,
                                 const ptx_token **at) {
  expectation e = expect_of(element, i);
  if (o->pair != (e.letter == 'p'))
    return o->pair ? "stands after a '|' that this instruction does not take"
                   : "stands where '|' and a second destination are expected";
  switch (e.letter) {
  case 'd':
  case 's':
  case 'a': return match_scalar(o, &e);
  case 'D':
  case 'S': return i->vector > 1 ? match_vector(o, &e, i->vector, at) : match_scalar(o, &e);
  case 'v': return match_vector(o, &e, 0, at);
  case 'u': return match_vector(o, &e, 0, at);
  case 'P':
  case 'p': return match_predicate(o, true);
  case 'q': return match_predicate(o, false);
  case 'm':
    return o->operand.kind == PTX_OPERAND_MEMORY ? NULL : "stands where an address in [ ] is expected";
  case 't': return match_tensor(o, at);
  case 'A':
    if (o->operand.kind == PTX_OPERAND_MEMORY) return NULL;
    return match_scalar(o, &(expectation){.letter = 's', .bits = 64, .offset = true});
  case 'i':
    if (o->operand.kind != PTX_OPERAND_IMMEDIATE) return "stands where a constant is expected";
    o->operand.value = o->raw;
    return NULL;
  case 'l': return o->operand.kind == PTX_OPERAND_LABEL ? NULL : "stands where a label is expected";
  default: return "is an operand that no rule describes";
  }
}

/* Whether a conditional element (`^c` …) must be present, and whether it is one at all. */
static bool conditional(const char *element, size_t length, const ptx_instruction *i, bool *present) {
  if (length < 3 || element[length - 2] != '^') return false;
  switch (element[length - 1]) {
  case 'c': *present = (i->flags & PTX_FLAG_CACHE_HINT) != 0; break;
  case 'm': *present = (i->flags & PTX_FLAG_MULTICAST) != 0; break;
  case 'k': *present = (i->flags & PTX_FLAG_CP_MASK) != 0; break;
  default:
    *present = i->tiling == PTX_TILING_IM2COL || i->tiling == PTX_TILING_IM2COL_W ||
               i->tiling == PTX_TILING_IM2COL_W_128;
    break;
  }
  return true;
}

bool ptx_match_operands(const ptx_form *form, ptx_parsed_operand *o, uint32_t n, const ptx_instruction *i,
                        const ptx_token *name, char letters[PTX_MAX_OPERANDS], ptx_mismatch *why) {
  uint32_t at = 0;
  bool optional = false;
  for (const char *e = form->operands; *e != '\0';) {
    size_t length = strcspn(e, " ");
    bool present = true, is_conditional = conditional(e, length, i, &present);
    if (e[length - 1] == '?') optional = true;
    if (present && at < n) {
      const ptx_token *place = &o[at].token;
      const char *reason = match_operand(e, &o[at], i, &place);
      if (reason != NULL) {
        complain(why, 2 * at + (o[at].pair == (e[0] == 'p')), place, reason);
        return false;
      }
      letters[at++] = e[0];
    } else if (present && (is_conditional || !optional)) {
      complain(why, 2 * at, name, "lacks an operand");
      return false;
    }
    e += length + (e[length] == ' ');
  }
  if (at < n) complain(why, 2 * at, &o[at].token, "is an operand too many");
  return at == n;
}
