#include <string.h>

#include "emulator/ptx_parser.h"

arke_status ptx_parse_integer(ptx_parser *p, const char *what, uint64_t min, uint64_t max, uint64_t *value) {
  if (p->token.kind != PTX_TOKEN_INTEGER || p->token.value < min || p->token.value > max)
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "%s from %llu to %llu is expected, found '%.*s'", what,
                    (unsigned long long)min, (unsigned long long)max, (int)p->token.length, p->token.text);
  *value = p->token.value;
  ptx_advance(p);
  return ARKE_OK;
}

/* A storage type: .b8 … .f64, .pred where registers are declared. */
static bool is_storage_type(ptx_parser *p, ptx_type *type) {
  static const ptx_type storage[] = {PTX_TYPE_PRED, PTX_TYPE_B8,  PTX_TYPE_B16, PTX_TYPE_B32,  PTX_TYPE_B64,
                                     PTX_TYPE_B128, PTX_TYPE_U8,  PTX_TYPE_U16, PTX_TYPE_U32,  PTX_TYPE_U64,
                                     PTX_TYPE_S8,   PTX_TYPE_S16, PTX_TYPE_S32, PTX_TYPE_S64,  PTX_TYPE_F16,
                                     PTX_TYPE_BF16, PTX_TYPE_F32, PTX_TYPE_F64, PTX_TYPE_F16X2};
  if (p->token.kind != PTX_TOKEN_DOT_WORD) return false;
  for (size_t k = 0; k < COUNT_OF(storage); k++) {
    const char *text = ptx_type_text(storage[k]);
    if (p->token.length == strlen(text) + 1 && memcmp(p->token.text + 1, text, strlen(text)) == 0) {
      *type = storage[k];
      return true;
    }
  }
  return false;
}

static bool is_name(const ptx_token *t) {
  return t->kind == PTX_TOKEN_WORD && !(t->length == 1 && t->text[0] == '_');
}

static arke_status expect_name(ptx_parser *p, ptx_token *name) {
  if (!is_name(&p->token))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "a name is expected here, found '%.*s'",
                    (int)p->token.length, p->token.text);
  *name = p->token;
  ptx_advance(p);
  return ARKE_OK;
}

arke_status ptx_parse_declaration(ptx_parser *p, ptx_declaration *d) {
  uint64_t align = 0, count = 1;
  *d = (ptx_declaration){.type = PTX_TYPE_NONE};
  for (;;) {
    if (ptx_is_word(&p->token, ".align")) {
      ptx_advance(p);
      TRY(ptx_parse_integer(p, "an alignment", 1, 4096, &align));
      if ((align & (align - 1)) != 0)
        return ptx_fail(p, ARKE_ERR_INVALID, &p->token, "an alignment must be a power of two");
    } else if (ptx_is_word(&p->token, ".ptr")) {
      /* .ptr .space .align n describes what a pointer parameter points to, not the parameter. */
      uint64_t pointee = 0;
      ptx_type ignored;
      ptx_advance(p);
      while (p->token.kind == PTX_TOKEN_DOT_WORD && !is_storage_type(p, &ignored)) {
        bool aligned = ptx_is_word(&p->token, ".align");
        ptx_advance(p);
        if (aligned) TRY(ptx_parse_integer(p, "an alignment", 1, 4096, &pointee));
      }
    } else if (d->type == PTX_TYPE_NONE && is_storage_type(p, &d->type) && d->type != PTX_TYPE_PRED) {
      ptx_advance(p);
    } else {
      break;
    }
  }
  if (d->type == PTX_TYPE_NONE || d->type == PTX_TYPE_PRED)
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "a type such as .b32 is expected here, found '%.*s'",
                    (int)p->token.length, p->token.text);
  TRY(expect_name(p, &d->name));
  uint64_t element = (uint64_t)ptx_type_bits(d->type) / 8;
  while (ptx_is_punct(&p->token, '[')) {
    uint64_t n = 0;
    if (d->unsized) return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "only a single dimension can be open");
    ptx_advance(p);
    if (ptx_is_punct(&p->token, ']'))
      d->unsized = true;
    else
      TRY(ptx_parse_integer(p, "a number of elements", 0, 1ull << 32, &n));
    TRY(ptx_expect(p, ']', "a dimension"));
    d->is_array = true;
    if (__builtin_mul_overflow(count, n, &count) || count > 1ull << 36)
      return ptx_fail(p, ARKE_ERR_INVALID, &d->name, "'%.*s' is too large", (int)d->name.length,
                      d->name.text);
  }
  d->bytes = d->unsized ? 0 : count * element;
  d->align = align != 0 ? (uint32_t)align : (uint32_t)element;
  return ARKE_OK;
}

/* One initialiser element as `bytes` little-endian bytes. */
static arke_status parse_initial_element(ptx_parser *p, ptx_type type, uint8_t *to) {
  bool minus = ptx_is_punct(&p->token, '-');
  if (minus) ptx_advance(p);
  ptx_token t = p->token;
  uint64_t v = t.value;
  size_t bytes = (size_t)ptx_type_bits(type) / 8;
  bool ok = t.kind == PTX_TOKEN_INTEGER || (t.kind == PTX_TOKEN_F32 && bytes == 4) ||
            (t.kind == PTX_TOKEN_F64 && bytes == 8);
  if (!ok || bytes > 8)
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &t,
                    "only numbers of the variable's size can initialise it here, found '%.*s'", (int)t.length,
                    t.text);
  if (minus) v = t.kind == PTX_TOKEN_INTEGER ? 0 - v : v ^ (1ull << (8 * bytes - 1));
  memcpy(to, &v, bytes);
  ptx_advance(p);
  return ARKE_OK;
}

static arke_status parse_initialiser(ptx_parser *p, const ptx_declaration *d, ptx_symbol *symbol) {
  size_t element = (size_t)ptx_type_bits(d->type) / 8;
  if (symbol->bytes > (64u << 20))
    return ptx_fail(p, ARKE_ERR_INVALID, &d->name, "'%.*s' is too large to be initialised",
                    (int)d->name.length, d->name.text);
  uint8_t *bytes = arena_alloc(p->out, symbol->bytes + 8);
  if (bytes == NULL) return ptx_out_of_memory(p);
  symbol->initial = bytes;
  if (!ptx_is_punct(&p->token, '{')) return parse_initial_element(p, d->type, bytes);
  ptx_advance(p);
  for (size_t at = 0;; at += element) {
    if (at + element > symbol->bytes)
      return ptx_fail(p, ARKE_ERR_INVALID, &p->token, "'%.*s' has more initial values than elements",
                      (int)d->name.length, d->name.text);
    TRY(parse_initial_element(p, d->type, bytes + at));
    if (!ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
  }
  return ptx_expect(p, '}', "the initial values");
}

static arke_status declare(ptx_parser *p, const ptx_token *t, uint32_t kind, uint32_t index) {
  const ptx_name *old = ptx_names_find(&p->names, t->text, t->length);
  for (; old != NULL && old->scope == p->names.scope; old = ptx_names_older(old))
    if (kind == old->kind || (kind != PTX_NAME_FAMILY && old->kind != PTX_NAME_FAMILY))
      return ptx_fail(p, ARKE_ERR_INVALID, t, "'%.*s' is already declared", (int)t->length, t->text);
  return ptx_names_add(&p->names, t->text, t->length, kind, index) ? ARKE_OK : ptx_out_of_memory(p);
}

arke_status ptx_parse_variable(ptx_parser *p, ptx_space space, bool is_extern, int kernel) {
  ptx_declaration d;
  TRY(ptx_parse_declaration(p, &d));
  if (d.unsized && !is_extern)
    return ptx_fail(p, ARKE_ERR_INVALID, &d.name, "'%.*s' has no size", (int)d.name.length, d.name.text);
  ptx_symbol *symbol = ptx_append(p, &p->symbols, sizeof *symbol);
  if (symbol == NULL) return ptx_out_of_memory(p);
  *symbol = (ptx_symbol){.name = arena_strndup(p->out, d.name.text, d.name.length),
                         .space = space,
                         .index = p->symbols.n - 1,
                         .bytes = d.bytes,
                         .align = d.align,
                         .kernel = kernel,
                         .is_extern = is_extern,
                         .line = d.name.line};
  if (symbol->name == NULL) return ptx_out_of_memory(p);
  TRY(declare(p, &d.name, PTX_NAME_SYMBOL, symbol->index));
  if (ptx_is_punct(&p->token, '=')) {
    if (space != PTX_SPACE_GLOBAL && space != PTX_SPACE_CONST)
      return ptx_fail(p, ARKE_ERR_INVALID, &d.name, "only .global and .const variables can be initialised");
    ptx_advance(p);
    TRY(parse_initialiser(p, &d, symbol));
  }
  return ptx_expect(p, ';', "a variable");
}

/* .reg .b32 a, %r<10>; */
static arke_status parse_registers(ptx_parser *p) {
  ptx_type type = PTX_TYPE_NONE;
  ptx_advance(p);
  if (!is_storage_type(p, &type))
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &p->token, "'%.*s' is no register type known here",
                    (int)p->token.length, p->token.text);
  ptx_advance(p);
  uint32_t *total = type == PTX_TYPE_PRED ? &p->kernel->n_predicates : &p->kernel->n_slots;
  uint8_t slots_each = type == PTX_TYPE_B128 ? 2 : 1;
  for (;;) {
    ptx_token name;
    uint64_t count = 0;
    TRY(expect_name(p, &name));
    bool numbered = ptx_is_punct(&p->token, '<');
    if (numbered) {
      ptx_advance(p);
      TRY(ptx_parse_integer(p, "a number of registers", 1, PTX_MAX_SLOTS, &count));
      TRY(ptx_expect(p, '>', "a number of registers"));
    }
    uint64_t slots = (numbered ? count : 1) * slots_each;
    if (*total + slots > PTX_MAX_SLOTS)
      return ptx_fail(p, ARKE_ERR_INVALID, &name, "the kernel declares more than %d registers",
                      PTX_MAX_SLOTS);
    ptx_register_family *family = ptx_append(p, &p->families, sizeof *family);
    if (family == NULL) return ptx_out_of_memory(p);
    *family = (ptx_register_family){.prefix = arena_strndup(p->out, name.text, name.length),
                                    .count = (uint32_t)count,
                                    .first_slot = *total,
                                    .type = (uint8_t)type,
                                    .slots_each = slots_each};
    if (family->prefix == NULL) return ptx_out_of_memory(p);
    TRY(declare(p, &name, numbered ? PTX_NAME_FAMILY : PTX_NAME_REGISTER, p->families.n - 1));
    *total += (uint32_t)slots;
    if (!ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
  }
  return ptx_expect(p, ';', "a register declaration");
}

/* The targets of a brx.idx: `name: .branchtargets A, B;`. */
static arke_status parse_branch_table(ptx_parser *p, const ptx_token *name) {
  ptx_branch_table *table = ptx_append(p, &p->tables, sizeof *table);
  if (table == NULL) return ptx_out_of_memory(p);
  uint32_t number = p->tables.n - 1;
  ptx_array targets = {0};
  ptx_advance(p);
  for (;;) {
    ptx_token *target = ptx_append(p, &targets, sizeof *target);
    if (target == NULL) return ptx_out_of_memory(p);
    TRY(expect_name(p, target));
    if (!ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
  }
  table = (ptx_branch_table *)p->tables.items + number;
  *table = (ptx_branch_table){.targets = targets.items, .n = targets.n};
  TRY(declare(p, name, PTX_NAME_LABEL, PTX_TABLE_LABEL | number));
  return ptx_expect(p, ';', "branch targets");
}

static const ptx_name *find_label(ptx_parser *p, const ptx_token *t, uint32_t scope) {
  const ptx_name *name = ptx_names_find(&p->names, t->text, t->length);
  while (name != NULL && name->kind != PTX_NAME_LABEL) name = ptx_names_older(name);
  return name != NULL && name->scope >= scope ? name : NULL;
}

/* brx.idx: the table's labels become the elements of a vector operand after the index. */
static arke_status resolve_table(ptx_parser *p, ptx_instruction *i, ptx_operand *o, uint32_t number,
                                 const ptx_token *use) {
  const ptx_branch_table *table = (const ptx_branch_table *)p->tables.items + number;
  if (i->opcode != PTX_BRX)
    return ptx_fail(p, ARKE_ERR_INVALID, use, "'%.*s' names branch targets, which only brx.idx takes",
                    (int)use->length, use->text);
  ptx_operand *elements = ARENA_NEW_N(p->out, ptx_operand, table->n);
  if (elements == NULL) return ptx_out_of_memory(p);
  for (uint32_t k = 0; k < table->n; k++) {
    const ptx_name *label = find_label(p, &table->targets[k], 0);
    if (label == NULL || (label->index & PTX_TABLE_LABEL) != 0)
      return ptx_fail(p, ARKE_ERR_INVALID, &table->targets[k], "label '%.*s' is not defined",
                      (int)table->targets[k].length, table->targets[k].text);
    elements[k] = (ptx_operand){.kind = PTX_OPERAND_LABEL, .slot = label->index};
  }
  *o = (ptx_operand){.kind = PTX_OPERAND_VECTOR, .n = table->n, .elements = elements};
  return ARKE_OK;
}

/* Resolves the label uses from `first` on that the innermost scope defines; the rest stay for the scope
 * outside, unless there is none. */
static arke_status resolve_labels(ptx_parser *p, uint32_t first, bool outermost) {
  ptx_label_use *uses = p->label_uses.items;
  ptx_instruction *instructions = p->instructions.items;
  uint32_t kept = first;
  for (uint32_t k = first; k < p->label_uses.n; k++) {
    const ptx_name *label = find_label(p, &uses[k].name, outermost ? 0 : p->names.scope);
    if (label == NULL && !outermost) {
      uses[kept++] = uses[k];
      continue;
    }
    if (label == NULL)
      return ptx_fail(p, ARKE_ERR_INVALID, &uses[k].name, "label '%.*s' is not defined",
                      (int)uses[k].name.length, uses[k].name.text);
    ptx_instruction *i = &instructions[uses[k].instruction];
    ptx_operand *operands = uses[k].operands;
    for (uint32_t o = 0; o < i->n_operands; o++) {
      if (operands[o].kind != PTX_OPERAND_LABEL) continue;
      if ((label->index & PTX_TABLE_LABEL) != 0) {
        TRY(resolve_table(p, i, &operands[o], label->index & ~PTX_TABLE_LABEL, &uses[k].name));
      } else if (i->opcode == PTX_BRX) {
        return ptx_fail(p, ARKE_ERR_INVALID, &uses[k].name, "brx.idx takes a .branchtargets list");
      } else {
        operands[o].slot = i->target = label->index;
      }
    }
  }
  p->label_uses.n = kept;
  return ARKE_OK;
}

static arke_status parse_guard(ptx_parser *p, uint32_t *guard, bool *negated) {
  ptx_advance(p);
  *negated = ptx_is_punct(&p->token, '!');
  if (*negated) ptx_advance(p);
  ptx_token name = p->token;
  ptx_operand o;
  TRY(ptx_parse_register(p, &o));
  if (o.kind != PTX_OPERAND_PREDICATE)
    return ptx_fail(p, ARKE_ERR_INVALID, &name, "'%.*s' is no predicate that could guard an instruction",
                    (int)name.length, name.text);
  *guard = o.slot;
  return ARKE_OK;
}

/* Declarations inside a body; *taken tells whether the current token began one. */
static arke_status parse_body_directive(ptx_parser *p, bool *taken) {
  ptx_token t = p->token;
  *taken = true;
  if (ptx_is_word(&t, ".reg")) return parse_registers(p);
  if (ptx_is_word(&t, ".loc") || ptx_is_word(&t, ".file")) {
    ptx_lex_skip_line(&p->lexer);
    ptx_advance(p);
    return ARKE_OK;
  }
  if (ptx_is_word(&t, ".pragma")) {
    while (p->token.kind != PTX_TOKEN_END && !ptx_is_punct(&p->token, ';')) ptx_advance(p);
    return ptx_expect(p, ';', "a .pragma");
  }
  static const struct {
    const char *text;
    ptx_space space;
  } spaces[] = {{".shared", PTX_SPACE_SHARED},
                {".local", PTX_SPACE_LOCAL},
                {".global", PTX_SPACE_GLOBAL},
                {".const", PTX_SPACE_CONST}};
  for (size_t k = 0; k < COUNT_OF(spaces); k++)
    if (ptx_is_word(&t, spaces[k].text)) {
      ptx_advance(p);
      return ptx_parse_variable(p, spaces[k].space, false, p->kernel->index);
    }
  *taken = false;
  return ARKE_OK;
}

static arke_status parse_statement(ptx_parser *p) {
  bool taken;
  TRY(parse_body_directive(p, &taken));
  if (taken) return ARKE_OK;
  uint32_t guard = PTX_NOWHERE;
  bool negated = false;
  if (ptx_is_punct(&p->token, '@')) {
    TRY(parse_guard(p, &guard, &negated));
    return ptx_parse_instruction(p, guard, negated);
  }
  if (ptx_is_punct(&p->token, ';')) { /* an empty statement, as inline assembly may leave one */
    ptx_advance(p);
    return ARKE_OK;
  }
  ptx_lexer after = p->lexer;
  ptx_token next = ptx_lex_next(&after);
  if (!is_name(&p->token) || !ptx_is_punct(&next, ':')) return ptx_parse_instruction(p, guard, negated);
  ptx_token label = p->token;
  ptx_advance(p);
  ptx_advance(p);
  if (ptx_is_word(&p->token, ".branchtargets")) return parse_branch_table(p, &label);
  p->end_label = p->instructions.n;
  return declare(p, &label, PTX_NAME_LABEL, p->instructions.n);
}

arke_status ptx_parse_body(ptx_parser *p) {
  uint32_t first_use[PTX_MAX_SCOPE_DEPTH];
  int depth = 0;
  ptx_token open = p->token;
  do {
    if (ptx_is_punct(&p->token, '{')) {
      if (depth == PTX_MAX_SCOPE_DEPTH)
        return ptx_fail(p, ARKE_ERR_INVALID, &p->token, "more than %d nested { }", PTX_MAX_SCOPE_DEPTH);
      ptx_names_open(&p->names);
      first_use[depth++] = p->label_uses.n;
      ptx_advance(p);
    } else if (ptx_is_punct(&p->token, '}')) {
      depth--;
      TRY(resolve_labels(p, first_use[depth], depth == 0));
      ptx_names_close(&p->names);
      ptx_advance(p);
    } else if (p->token.kind == PTX_TOKEN_END) {
      return ptx_fail(p, ARKE_ERR_SYNTAX, &open, "this '{' is never closed");
    } else {
      TRY(parse_statement(p));
    }
  } while (depth > 0);
  return ARKE_OK;
}
