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

/* Why the best form so far did not fit: the further along the operands, the better the message. */
typedef struct mismatch {
  uint32_t progress; /* twice the operand's number, plus one if at least its place is right */
  bool set;
  ptx_token token;
  char text[160];
} mismatch;

static void complain(mismatch *m, uint32_t progress, const ptx_token *t, const char *text) {
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

/* Pattern letters of the operands, in order, in `letters` when the form fits. */
static bool match_operands(const ptx_form *form, ptx_parsed_operand *o, uint32_t n, const ptx_instruction *i,
                           const ptx_token *name, char letters[PTX_MAX_OPERANDS], mismatch *why) {
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

/* Adds a register to the instruction's list unless this half of the list (`stamp` tells which) has it. */
static bool use(ptx_parser *p, uint32_t stamp, uint32_t slot) {
  ptx_array *stamps = (slot & PTX_USE_PREDICATE) != 0 ? &p->predicate_stamps : &p->slot_stamps;
  uint32_t index = slot & ~PTX_USE_PREDICATE;
  while (stamps->n <= index)
    if (ptx_append(p, stamps, sizeof(uint32_t)) == NULL) return false;
  uint32_t *seen = (uint32_t *)stamps->items + index;
  if (*seen == stamp) return true;
  *seen = stamp;
  uint32_t *item = ptx_append(p, &p->uses, sizeof *item);
  if (item == NULL) return false;
  *item = slot;
  return true;
}

static bool use_operand(ptx_parser *p, uint32_t stamp, const ptx_operand *o) {
  switch (o->kind) {
  case PTX_OPERAND_REGISTER: return use(p, stamp, o->slot) && (o->bytes != 16 || use(p, stamp, o->slot + 1));
  case PTX_OPERAND_PREDICATE: return use(p, stamp, o->slot | PTX_USE_PREDICATE);
  case PTX_OPERAND_MEMORY: return o->base != PTX_OPERAND_REGISTER || use(p, stamp, o->slot);
  case PTX_OPERAND_VECTOR:
  case PTX_OPERAND_TENSOR:
    for (uint32_t k = 0; k < o->n; k++)
      if (!use_operand(p, stamp, &o->elements[k])) return false;
    return true;
  default: return true;
  }
}

static bool is_written(char letter) {
  return letter == 'd' || letter == 'D' || letter == 'v' || letter == 'P' || letter == 'p';
}

/* Moves a parsed operand into the module. */
static bool keep_operand(ptx_parser *p, const ptx_parsed_operand *from, ptx_operand *to) {
  *to = from->operand;
  if (to->n == 0) return true;
  ptx_operand *elements = ARENA_NEW_N(p->out, ptx_operand, to->n);
  if (elements == NULL) return false;
  bool registers = true;
  for (uint32_t k = 0; k < to->n; k++) {
    if (!keep_operand(p, &from->elements[k], &elements[k])) return false;
    registers = registers && elements[k].kind == PTX_OPERAND_REGISTER;
  }
  to->elements = elements;
  if (!registers) return true;
  uint32_t *slots = ARENA_NEW_N(p->out, uint32_t, to->n);
  if (slots == NULL) return false;
  for (uint32_t k = 0; k < to->n; k++) slots[k] = elements[k].slot;
  to->slots = slots;
  return true;
}

static arke_status finish(ptx_parser *p, ptx_instruction *i, const ptx_parsed_operand *o, uint32_t n,
                          const char letters[PTX_MAX_OPERANDS]) {
  ptx_operand *operands = n == 0 ? NULL : ARENA_NEW_N(p->out, ptx_operand, n);
  if (n != 0 && operands == NULL) return ptx_out_of_memory(p);
  for (uint32_t k = 0; k < n; k++)
    if (!keep_operand(p, &o[k], &operands[k])) return ptx_out_of_memory(p);
  i->operands = operands;
  i->n_operands = (uint8_t)n;

  uint32_t number = p->instructions.n;
  p->uses.n = 0;
  if (i->guard != PTX_NOWHERE && !use(p, 2 * number + 1, i->guard | PTX_USE_PREDICATE))
    return ptx_out_of_memory(p);
  for (uint32_t k = 0; k < n; k++)
    if (!is_written(letters[k]) && !use_operand(p, 2 * number + 1, &operands[k])) return ptx_out_of_memory(p);
  i->n_reads = (uint16_t)p->uses.n;
  for (uint32_t k = 0; k < n; k++)
    if (is_written(letters[k]) && !use_operand(p, 2 * number + 2, &operands[k])) return ptx_out_of_memory(p);
  i->n_writes = (uint16_t)(p->uses.n - i->n_reads);
  uint32_t *uses = ARENA_NEW_N(p->out, uint32_t, p->uses.n);
  if (uses == NULL) return ptx_out_of_memory(p);
  if (p->uses.n != 0) memcpy(uses, p->uses.items, p->uses.n * sizeof *uses);
  i->uses = uses;
  return ARKE_OK;
}

/* The name of the instruction at hand: `length` bytes from name->text, its parts in `modifiers` after the
 * opcode. */
static arke_status parse_name(ptx_parser *p, ptx_instruction *i, ptx_token *name, ptx_modifier *modifiers,
                              size_t *n) {
  size_t ends[PTX_MAX_MODIFIERS + 1];
  size_t parts = 0;
  *name = p->token;
  if (p->token.kind != PTX_TOKEN_WORD)
    return ptx_fail(p, ARKE_ERR_SYNTAX, name, "an instruction is expected here, found '%.*s'",
                    (int)name->length, name->text);
  ends[parts++] = name->length;
  ptx_advance(p);
  while (p->token.kind == PTX_TOKEN_DOT_WORD && p->token.joined) {
    if (parts > PTX_MAX_MODIFIERS)
      return ptx_fail(p, ARKE_ERR_SYNTAX, name, "unknown instruction '%.*s…': it has more than %d parts",
                      (int)name->length, name->text, PTX_MAX_MODIFIERS);
    name->length = (size_t)(p->token.text - name->text) + p->token.length;
    ends[parts++] = name->length;
    ptx_advance(p);
  }
  const ptx_name *opcode = NULL;
  size_t used = parts;
  for (; used > 0; used--) {
    opcode = ptx_names_find(&p->vocabulary.opcodes, name->text, ends[used - 1]);
    if (opcode != NULL) break;
  }
  if (opcode == NULL)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, name, "unknown instruction '%.*s'", (int)name->length,
                    name->text);
  i->opcode = (uint16_t)opcode->index;
  i->unit = (uint8_t)opcode->kind;
  *n = parts - used;
  for (size_t k = 0; k < *n; k++) {
    size_t start = ends[used + k - 1] + 1;
    modifiers[k] = (ptx_modifier){.text = name->text + start, .length = ends[used + k] - start};
    ptx_modifier_find(&p->vocabulary, &modifiers[k]);
  }
  return ARKE_OK;
}

arke_status ptx_parse_instruction(ptx_parser *p, uint32_t guard, bool guard_negated) {
  ptx_instruction base = {.vector = 1,
                          .guard = guard,
                          .guard_negated = guard_negated,
                          .target = PTX_NOWHERE,
                          .reconverge = PTX_NOWHERE};
  ptx_token name;
  ptx_modifier modifiers[PTX_MAX_MODIFIERS];
  size_t n_modifiers, best = 0, n_forms;
  TRY(parse_name(p, &base, &name, modifiers, &n_modifiers));
  base.line = name.line;
  base.column = name.column;
  if (base.unit == PTX_UNIT_NONE)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &name, "the emulator cannot run instruction '%.*s'",
                    (int)name.length, name.text);
  base.text = arena_strndup(p->out, name.text, name.length);
  if (base.text == NULL) return ptx_out_of_memory(p);
  if (strncmp(base.text, "bar.", 4) == 0 && base.opcode != PTX_BAR_WARP_SYNC) base.flags |= PTX_FLAG_ALIGNED;

  ptx_parsed_operand operands[PTX_MAX_OPERANDS];
  uint32_t n = 0;
  char letters[PTX_MAX_OPERANDS] = "";
  mismatch why = {.set = false};
  const ptx_form *forms = ptx_forms_of((ptx_opcode)base.opcode, &n_forms);
  ptx_instruction i;
  bool read = false, fits = false;
  int least_sm = 0;
  for (size_t f = 0; f < n_forms && !fits; f++) {
    size_t matched = 0;
    i = base;
    bool spelled = ptx_form_match(&forms[f], modifiers, n_modifiers, &i, &matched);
    if (matched > best) best = matched;
    if (!spelled) continue;
    if (!read) TRY(ptx_parse_operands(p, operands, &n));
    read = true;
    fits = match_operands(&forms[f], operands, n, &i, &name, letters, &why);
    least_sm = forms[f].least_sm;
  }
  if (!read && best < n_modifiers)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &name,
                    "unknown instruction '%.*s': '%s' has no such form with '.%.*s'", (int)name.length,
                    name.text, ptx_opcode_text((ptx_opcode)base.opcode), (int)modifiers[best].length,
                    modifiers[best].text);
  if (!read)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &name, "unknown instruction '%.*s': '%s' needs more modifiers",
                    (int)name.length, name.text, ptx_opcode_text((ptx_opcode)base.opcode));
  if (!fits) return ptx_fail(p, ARKE_ERR_INVALID, &why.token, "in '%s', %s", base.text, why.text);

  TRY(finish(p, &i, operands, n, letters));
  TRY(ptx_check_instruction(p, &i, operands, &name));
  TRY(ptx_check_target(p, &i, least_sm, &name));
  for (uint32_t k = 0; k < n; k++) {
    if (i.operands[k].kind != PTX_OPERAND_LABEL) continue;
    ptx_label_use *label = ptx_append(p, &p->label_uses, sizeof *label);
    if (label == NULL) return ptx_out_of_memory(p);
    *label = (ptx_label_use){operands[k].token, p->instructions.n, (ptx_operand *)i.operands};
  }
  ptx_instruction *kept = ptx_append(p, &p->instructions, sizeof *kept);
  if (kept == NULL) return ptx_out_of_memory(p);
  *kept = i;
  return ARKE_OK;
}
