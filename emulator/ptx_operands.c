#include <string.h>

#include "emulator/ptx_parser.h"

static arke_status parse_one(ptx_parser *p, ptx_parsed_operand *o, int depth);

static const ptx_name *find_family(ptx_parser *p, const ptx_token *t, uint32_t *number) {
  const char *end = t->text + t->length;
  const ptx_name *best = NULL;
  uint64_t value = 0, place = 1;
  for (size_t digits = 1; digits < t->length && digits <= 9; digits++) {
    char c = *(end - digits);
    if (c < '0' || c > '9') break;
    value += place * (uint64_t)(c - '0');
    place *= 10;
    if (c == '0' && digits > 1) continue; /* %r01 is not %r1 */
    const ptx_name *name = ptx_names_find(&p->names, t->text, t->length - digits);
    for (; name != NULL; name = ptx_names_older(name)) {
      if (name->kind != PTX_NAME_FAMILY) continue;
      const ptx_register_family *f = (const ptx_register_family *)p->families.items + name->index;
      if (value >= f->count || (best != NULL && best->scope >= name->scope)) continue;
      best = name;
      *number = (uint32_t)value;
      break;
    }
  }
  return best;
}

static bool find_special(const ptx_token *t, const ptx_token *suffix, uint32_t *which) {
  static const char *const texts[PTX_SPECIAL_COUNT] = {
#define X(NAME, text, bits, least_sm) [PTX_SPECIAL_##NAME] = text,
      PTX_SPECIALS(X)
#undef X
  };
  if (t->text[0] != '%') return false;
  for (uint32_t s = 0; s < PTX_SPECIAL_COUNT; s++) {
    size_t length = strlen(texts[s]);
    size_t suffix_length = suffix == NULL ? 0 : suffix->length;
    if (length == t->length + suffix_length && memcmp(texts[s], t->text, t->length) == 0 &&
        (suffix == NULL || memcmp(texts[s] + t->length, suffix->text, suffix_length) == 0)) {
      *which = s;
      return true;
    }
  }
  return false;
}

static void set_register(ptx_parser *p, ptx_parsed_operand *o, uint32_t family, uint32_t number) {
  const ptx_register_family *f = (const ptx_register_family *)p->families.items + family;
  o->type = f->type;
  o->operand.slot = f->first_slot + number * f->slots_each;
  if (f->type == PTX_TYPE_PRED) {
    o->operand.kind = PTX_OPERAND_PREDICATE;
  } else {
    o->operand.kind = PTX_OPERAND_REGISTER;
    o->operand.bytes = (uint8_t)(ptx_type_bits((ptx_type)f->type) / 8);
  }
}

/* A name in an operand: what it is now, or a label that may come later. */
static arke_status parse_name(ptx_parser *p, ptx_parsed_operand *o) {
  ptx_token t = p->token;
  ptx_advance(p);
  if (p->token.kind == PTX_TOKEN_DOT_WORD && p->token.joined && t.text[0] == '%') {
    if (!find_special(&t, &p->token, &o->operand.slot))
      return ptx_fail(p, ARKE_ERR_INVALID, &t, "unknown special register '%.*s%.*s'", (int)t.length, t.text,
                      (int)p->token.length, p->token.text);
    o->operand.kind = PTX_OPERAND_SPECIAL;
    ptx_advance(p);
    return ptx_check_special(p, (ptx_special)o->operand.slot, &t);
  }
  if (t.length == 1 && t.text[0] == '_') {
    o->operand.kind = PTX_OPERAND_SINK;
    return ARKE_OK;
  }
  const ptx_name *name = ptx_names_find(&p->names, t.text, t.length);
  while (name != NULL && name->kind == PTX_NAME_FAMILY) name = ptx_names_older(name);
  uint32_t number = 0;
  const ptx_name *family = find_family(p, &t, &number);
  if (family != NULL && (name == NULL || name->scope < family->scope)) {
    set_register(p, o, family->index, number);
    return ARKE_OK;
  }
  if (name == NULL) {
    if (find_special(&t, NULL, &o->operand.slot)) {
      o->operand.kind = PTX_OPERAND_SPECIAL;
      return ptx_check_special(p, (ptx_special)o->operand.slot, &t);
    } else if (ptx_is_word(&t, "WARP_SZ")) {
      o->operand.kind = PTX_OPERAND_IMMEDIATE;
      o->operand.value = o->raw = PTX_LANES;
      o->number = PTX_TOKEN_INTEGER;
    } else {
      o->operand.kind = PTX_OPERAND_LABEL;
      o->operand.slot = PTX_NOWHERE;
    }
    return ARKE_OK;
  }
  o->operand.slot = name->index;
  switch (name->kind) {
  case PTX_NAME_REGISTER: set_register(p, o, name->index, 0); break;
  case PTX_NAME_SYMBOL: o->operand.kind = PTX_OPERAND_SYMBOL; break;
  case PTX_NAME_PARAM:
    o->operand.kind = PTX_OPERAND_PARAM;
    o->param = name->index;
    o->operand.value = ((const ptx_param *)p->params.items)[name->index].offset;
    o->operand.slot = 0;
    break;
  default: /* a label: resolved with the others, since an inner scope may still define it */
    o->operand.kind = PTX_OPERAND_LABEL;
    o->operand.slot = PTX_NOWHERE;
    break;
  }
  return ARKE_OK;
}

arke_status ptx_parse_register(ptx_parser *p, ptx_operand *o) {
  ptx_parsed_operand parsed = {.token = p->token};
  if (p->token.kind == PTX_TOKEN_WORD) TRY(parse_name(p, &parsed));
  if (parsed.operand.kind != PTX_OPERAND_REGISTER && parsed.operand.kind != PTX_OPERAND_PREDICATE)
    return ptx_fail(p, ARKE_ERR_INVALID, &parsed.token, "'%.*s' is not a declared register",
                    (int)parsed.token.length, parsed.token.text);
  *o = parsed.operand;
  return ARKE_OK;
}

static bool is_number(const ptx_token *t) {
  return t->kind == PTX_TOKEN_INTEGER || t->kind == PTX_TOKEN_F32 || t->kind == PTX_TOKEN_F64;
}

static arke_status parse_number(ptx_parser *p, ptx_parsed_operand *o) {
  if (ptx_is_punct(&p->token, '-')) {
    o->minus = true;
    ptx_advance(p);
  }
  if (!is_number(&p->token))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "a number is expected here, found '%.*s'",
                    (int)p->token.length, p->token.text);
  o->operand.kind = PTX_OPERAND_IMMEDIATE;
  o->number = (uint8_t)p->token.kind;
  o->operand.value = p->token.value;
  if (o->minus && p->token.text[0] == '0' && p->token.length > 2 && o->number != PTX_TOKEN_INTEGER &&
      p->token.text[1] != '.')
    return ptx_fail(p, ARKE_ERR_SYNTAX, &o->token,
                    "a hexadecimal float carries its sign in its bits, not before it");
  if (o->minus && o->number == PTX_TOKEN_F64) o->operand.value ^= 1ull << 63;
  if (o->minus && o->number == PTX_TOKEN_INTEGER) {
    if (o->operand.value > 1ull << 63)
      return ptx_fail(p, ARKE_ERR_INVALID, &p->token, "-%.*s does not fit in 64 bits", (int)p->token.length,
                      p->token.text);
    o->operand.value = 0 - o->operand.value;
  }
  o->raw = o->operand.value;
  ptx_advance(p);
  return ARKE_OK;
}

static arke_status parse_vector(ptx_parser *p, ptx_parsed_operand *o, int depth) {
  ptx_token open = p->token;
  ptx_array elements = {0};
  ptx_advance(p);
  for (;;) {
    ptx_parsed_operand *element = ptx_append(p, &elements, sizeof *element);
    if (element == NULL) return ptx_out_of_memory(p);
    if (elements.n > PTX_MAX_ELEMENTS)
      return ptx_fail(p, ARKE_ERR_INVALID, &open, "more than %d elements in {…}", PTX_MAX_ELEMENTS);
    TRY(parse_one(p, element, depth + 1));
    if (!ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
  }
  TRY(ptx_expect(p, '}', "the elements of a vector"));
  o->operand.kind = PTX_OPERAND_VECTOR;
  o->operand.n = elements.n;
  o->elements = elements.items;
  return ARKE_OK;
}

static arke_status parse_offset(ptx_parser *p, ptx_parsed_operand *o) {
  if (!ptx_is_punct(&p->token, '+')) return ARKE_OK; /* PTX writes a negative offset as +-8 */
  ptx_parsed_operand offset = {0};
  ptx_advance(p);
  TRY(parse_number(p, &offset));
  if (offset.number != PTX_TOKEN_INTEGER)
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "an address offset must be an integer");
  o->operand.value += offset.operand.value;
  return ARKE_OK;
}

/* [base], [base+offset], [map, {x, y}] */
static arke_status parse_memory(ptx_parser *p, ptx_parsed_operand *o, int depth) {
  ptx_token open = p->token;
  ptx_parsed_operand base = {.token = open};
  ptx_advance(p);
  base.token = p->token;
  if (p->token.kind == PTX_TOKEN_WORD)
    TRY(parse_name(p, &base));
  else
    TRY(parse_number(p, &base));
  switch (base.operand.kind) {
  case PTX_OPERAND_REGISTER:
    if (base.operand.bytes != 4 && base.operand.bytes != 8)
      return ptx_fail(p, ARKE_ERR_INVALID, &base.token, "'%.*s' has %d bits: an address has 32 or 64",
                      (int)base.token.length, base.token.text, 8 * base.operand.bytes);
    break;
  case PTX_OPERAND_SYMBOL:
  case PTX_OPERAND_PARAM:
  case PTX_OPERAND_IMMEDIATE: break;
  case PTX_OPERAND_LABEL:
    return ptx_fail(p, ARKE_ERR_INVALID, &base.token, "'%.*s' is not declared", (int)base.token.length,
                    base.token.text);
  default:
    return ptx_fail(p, ARKE_ERR_INVALID, &base.token, "'%.*s' is not an address", (int)base.token.length,
                    base.token.text);
  }
  TRY(parse_offset(p, &base));
  base.operand.base = base.operand.kind;
  base.operand.kind = PTX_OPERAND_MEMORY;
  if (!ptx_is_punct(&p->token, ',')) {
    *o = base;
    o->token = open;
    return ptx_expect(p, ']', "an address");
  }
  ptx_advance(p);
  if (!ptx_is_punct(&p->token, '{'))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "'{' and tensor coordinates are expected here");
  ptx_parsed_operand *parts = ARENA_NEW_N(p->scratch, ptx_parsed_operand, 2);
  if (parts == NULL) return ptx_out_of_memory(p);
  parts[0] = base;
  parts[1].token = p->token;
  TRY(parse_vector(p, &parts[1], depth));
  o->operand.kind = PTX_OPERAND_TENSOR;
  o->operand.n = 2;
  o->elements = parts;
  return ptx_expect(p, ']', "tensor coordinates");
}

static arke_status parse_one(ptx_parser *p, ptx_parsed_operand *o, int depth) {
  o->token = p->token;
  if (depth > 2) return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "operands are nested too deeply");
  if (p->token.kind == PTX_TOKEN_WORD) {
    TRY(parse_name(p, o));
    return o->operand.kind == PTX_OPERAND_REGISTER ? parse_offset(p, o) : ARKE_OK;
  }
  if (is_number(&p->token) || ptx_is_punct(&p->token, '-')) return parse_number(p, o);
  if (ptx_is_punct(&p->token, '[')) return parse_memory(p, o, depth);
  if (ptx_is_punct(&p->token, '{')) return parse_vector(p, o, depth);
  if (ptx_is_punct(&p->token, '!')) {
    ptx_advance(p);
    if (p->token.kind == PTX_TOKEN_WORD) TRY(parse_name(p, o));
    if (o->operand.kind != PTX_OPERAND_PREDICATE)
      return ptx_fail(p, ARKE_ERR_SYNTAX, &o->token, "'!' stands before predicates only");
    o->operand.negated = true;
    return ARKE_OK;
  }
  return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "an operand is expected here, found '%.*s'",
                  (int)p->token.length, p->token.text);
}

arke_status ptx_parse_operands(ptx_parser *p, ptx_parsed_operand *operands, uint32_t *n) {
  bool pair = false;
  *n = 0;
  while (!ptx_is_punct(&p->token, ';')) {
    if (*n == PTX_MAX_OPERANDS)
      return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "more than %d operands", PTX_MAX_OPERANDS);
    ptx_parsed_operand *o = &operands[(*n)++];
    *o = (ptx_parsed_operand){.pair = pair};
    TRY(parse_one(p, o, 0));
    pair = ptx_is_punct(&p->token, '|');
    if (!pair && !ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
    if (ptx_is_punct(&p->token, ';'))
      return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "an operand is expected before ';'");
  }
  return ptx_expect(p, ';', "the operands");
}
