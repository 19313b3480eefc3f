/* One instruction: its name, the form that its modifiers and operands fit, and the registers that it uses. */
#include <string.h>

#include "emulator/ptx_parser.h"

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
  ptx_mismatch why = {.set = false};
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
    fits = ptx_match_operands(&forms[f], operands, n, &i, &name, letters, &why);
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
