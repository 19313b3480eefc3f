#include <string.h>

#include "emulator/ptx_forms.h"

/* Where a modifier's value goes. The text is the prefix that patterns use. */
#define FIELDS(X)                                                                                            \
  X(TYPE, "type")                                                                                            \
  X(SPACE, "space")                                                                                          \
  X(ROUNDING, "rnd")                                                                                         \
  X(SEMANTICS, "sem")                                                                                        \
  X(SCOPE, "scope")                                                                                          \
  X(OPERATION, "op")                                                                                         \
  X(MODE, "mode")                                                                                            \
  X(COMPARE, "cmp")                                                                                          \
  X(PROXY, "proxy")                                                                                          \
  X(TILING, "tiling")                                                                                        \
  X(KIND, "kind")                                                                                            \
  X(SHAPE, "shape")                                                                                          \
  X(REPLICATION, "repl")                                                                                     \
  X(SCALE, "scale")                                                                                          \
  X(FLAG, "flag")                                                                                            \
  X(HINT, "hint")

typedef enum field {
#define X(NAME, text) FIELD_##NAME,
  FIELDS(X)
#undef X
      FIELD_COUNT
} field;

static const char *const field_texts[FIELD_COUNT] = {
#define X(NAME, text) [FIELD_##NAME] = text,
    FIELDS(X)
#undef X
};

typedef struct vocabulary_entry {
  const char *text;
  uint8_t field, value;
} vocabulary_entry;

/* Earlier entries win where a text has two meanings and a pattern does not say which. */
// clang-format off
static const vocabulary_entry entries[] = {
#define X(NAME, text, ...) {text, FIELD_TYPE, PTX_TYPE_##NAME},
    PTX_TYPES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_SPACE, PTX_SPACE_##NAME},
    PTX_SPACES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_ROUNDING, PTX_ROUND_##NAME},
    PTX_ROUNDINGS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_SEMANTICS, PTX_SEM_##NAME},
    PTX_SEMANTICS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_SCOPE, PTX_SCOPE_##NAME},
    PTX_SCOPES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_OPERATION, PTX_OP_##NAME},
    PTX_OPERATIONS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_MODE, PTX_MODE_##NAME},
    PTX_MODES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_COMPARE, PTX_CMP_##NAME},
    PTX_COMPARES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_PROXY, PTX_PROXY_##NAME},
    PTX_PROXIES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_TILING, PTX_TILING_##NAME},
    PTX_TILINGS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_KIND, PTX_KIND_##NAME},
    PTX_KINDS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_SHAPE, PTX_SHAPE_##NAME},
    PTX_SHAPES(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_REPLICATION, PTX_REPLICATE_##NAME},
    PTX_REPLICATIONS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_SCALE, PTX_SCALE_##NAME},
    PTX_SCALE_BLOCKS(X)
#undef X
#define X(NAME, text, ...) {text, FIELD_FLAG, PTX_FLAG_BIT_##NAME},
    PTX_FLAGS(X)
#undef X
#define X(text) {text, FIELD_HINT, 0},
    PTX_HINTS(X)
#undef X
    {"shared::cta", FIELD_SPACE, PTX_SPACE_SHARED},
    {"param::entry", FIELD_SPACE, PTX_SPACE_PARAM},
    {"gl", FIELD_SCOPE, PTX_SCOPE_GPU},
};
// clang-format on

bool ptx_vocabulary_init(ptx_vocabulary *v, arena *memory) {
  if (!ptx_names_init(&v->opcodes, memory, 2 * PTX_OPCODE_COUNT) ||
      !ptx_names_init(&v->modifiers, memory, 2 * COUNT_OF(entries)))
    return false;
  for (size_t i = COUNT_OF(entries); i-- > 0;)
    if (entries[i].text[0] != '\0' && !ptx_names_add(&v->modifiers, entries[i].text, strlen(entries[i].text),
                                                     entries[i].field, entries[i].value))
      return false;
#define X(NAME, text, unit)                                                                                  \
  if (!ptx_names_add(&v->opcodes, text, strlen(text), PTX_UNIT_##unit, PTX_##NAME)) return false;
  PTX_OPCODES(X)
#undef X
#define X(text, NAME)                                                                                        \
  if (!ptx_names_add(&v->opcodes, text, strlen(text), ptx_opcode_unit(PTX_##NAME), PTX_##NAME)) return false;
  PTX_OPCODE_ALIASES(X)
#undef X
  return true;
}

void ptx_modifier_find(const ptx_vocabulary *v, ptx_modifier *m) {
  m->meanings = ptx_names_find(&v->modifiers, m->text, m->length);
}

static bool is_text(const ptx_modifier *m, const char *text, size_t length) {
  return m->length == length && memcmp(m->text, text, length) == 0;
}

static bool starts_with(const ptx_modifier *m, const char *prefix) {
  size_t n = strlen(prefix);
  return m->length > n && memcmp(m->text, prefix, n) == 0;
}

/* A small decimal number at *at, which moves past it; 0 if there is none. */
static unsigned small_number(const char **at, const char *end) {
  unsigned v = 0;
  while (*at < end && **at >= '0' && **at <= '9' && v < 10000) v = 10 * v + (unsigned)(*(*at)++ - '0');
  return v;
}

static bool set_field(ptx_instruction *i, field f, uint32_t value) {
  switch (f) {
  case FIELD_TYPE:
    if (i->n_types >= COUNT_OF(i->type)) return false;
    i->type[i->n_types++] = (uint8_t)value;
    return true;
  case FIELD_SPACE:
    if (i->n_spaces >= COUNT_OF(i->space)) return false;
    i->space[i->n_spaces++] = (uint8_t)value;
    return true;
  case FIELD_ROUNDING: i->rounding = (uint8_t)value; return true;
  case FIELD_SEMANTICS: i->semantics = (uint8_t)value; return true;
  case FIELD_SCOPE: i->scope = (uint8_t)value; return true;
  case FIELD_OPERATION: i->operation = (uint8_t)value; return true;
  case FIELD_MODE: i->mode = (uint8_t)value; return true;
  case FIELD_COMPARE: i->compare = (uint8_t)value; return true;
  case FIELD_PROXY: i->proxy = (uint8_t)value; return true;
  case FIELD_TILING: i->tiling = (uint8_t)value; return true;
  case FIELD_KIND: i->kind = (uint8_t)value; return true;
  case FIELD_SHAPE: i->shape = (uint8_t)value; return true;
  case FIELD_REPLICATION: i->replication = (uint8_t)value; return true;
  case FIELD_SCALE: i->scale_block = (uint8_t)value; return true;
  case FIELD_FLAG: i->flags |= 1ull << value; return true;
  case FIELD_HINT: return true;
  case FIELD_COUNT: break;
  }
  return false;
}

/* .row or .col: mma names A's layout, then B's. */
static bool match_layout(const ptx_modifier *m, ptx_instruction *i) {
  bool col = is_text(m, "col", 3);
  if (!col && !is_text(m, "row", 3)) return false;
  if (!i->a_layout) {
    i->a_layout = col ? PTX_LAYOUT_COL : PTX_LAYOUT_ROW;
    return true;
  }
  i->b_layout = col ? PTX_LAYOUT_COL : PTX_LAYOUT_ROW;
  return true;
}

static bool match_collector(const ptx_modifier *m, bool for_b, ptx_instruction *i) {
  static const char *const usages[PTX_COLLECTOR_COUNT] = {
#define X(NAME, text) [PTX_COLLECTOR_##NAME] = text,
      PTX_COLLECTORS(X)
#undef X
  };
  const char *at = m->text, *end = m->text + m->length;
  if (for_b) {
    if (!starts_with(m, "collector::b") || m->length < 16 || at[12] < '0' || at[12] > '3') return false;
    at += 13;
  } else {
    if (!starts_with(m, "collector::a")) return false;
    at += 12;
  }
  if (end - at < 2 || at[0] != ':' || at[1] != ':') return false;
  at += 2;
  for (uint8_t u = 1; u < PTX_COLLECTOR_COUNT; u++)
    if (strlen(usages[u]) == (size_t)(end - at) && memcmp(at, usages[u], (size_t)(end - at)) == 0) {
      i->collector = u;
      return true;
    }
  return false;
}

/* Elements that start with '#': modifiers that carry a number. */
static bool match_special(const char *name, size_t length, const ptx_modifier *m, ptx_instruction *i) {
  const char *at = m->text, *end = m->text + m->length;
  ptx_modifier pattern = {.text = name, .length = length};
  if (is_text(&pattern, "#v", 2)) {
    if (m->length != 2 || at[0] != 'v' || (at[1] != '2' && at[1] != '4' && at[1] != '8')) return false;
    i->vector = (uint8_t)(at[1] - '0');
    return true;
  }
  if (is_text(&pattern, "#dim", 4)) {
    if (m->length != 2 || at[1] != 'd' || at[0] < '1' || at[0] > '5') return false;
    i->dim = (uint8_t)(at[0] - '0');
    return true;
  }
  if (is_text(&pattern, "#count", 6)) {
    if (at[0] != 'x') return false;
    at++;
    unsigned count = small_number(&at, end);
    if (at != end || count == 0 || count > 128 || (count & (count - 1)) != 0) return false;
    i->count = (uint8_t)count;
    return true;
  }
  if (is_text(&pattern, "#mnk", 4)) {
    unsigned v[3];
    for (int part = 0; part < 3; part++) {
      if (at >= end || *at != "mnk"[part]) return false;
      at++;
      v[part] = small_number(&at, end);
      if (v[part] == 0) return false;
    }
    if (at != end) return false;
    i->m = (uint16_t)v[0];
    i->n = (uint16_t)v[1];
    i->k = (uint16_t)v[2];
    return true;
  }
  if (is_text(&pattern, "#group", 6)) {
    if (!is_text(m, "cta_group::1", 12) && !is_text(m, "cta_group::2", 12)) return false;
    i->cta_group = (uint8_t)(end[-1] - '0');
    return true;
  }
  if (is_text(&pattern, "#layout", 7)) return match_layout(m, i);
  if (is_text(&pattern, "#collector_a", 12)) return match_collector(m, false, i);
  if (is_text(&pattern, "#collector_b", 12)) return match_collector(m, true, i);
  return false;
}

/* One alternative of an element: `word`, `field:word`, `field:*` or `#special`. */
static bool match_alternative(const char *text, size_t length, const ptx_modifier *m, ptx_instruction *i) {
  if (text[0] == '#') return match_special(text, length, m, i);
  const char *colon = memchr(text, ':', length);
  bool has_field = colon != NULL && (size_t)(colon - text) + 1 < length && colon[1] != ':';
  if (!has_field)
    return is_text(m, text, length) && m->meanings != NULL &&
           set_field(i, (field)m->meanings->kind, m->meanings->index);
  size_t prefix = (size_t)(colon - text);
  const char *word = colon + 1;
  size_t word_length = length - prefix - 1;
  bool any = word_length == 1 && word[0] == '*';
  if (!any && !is_text(m, word, word_length)) return false;
  for (const ptx_name *meaning = m->meanings; meaning != NULL; meaning = ptx_names_older(meaning)) {
    const char *name = field_texts[meaning->kind];
    if (strlen(name) == prefix && memcmp(name, text, prefix) == 0)
      return set_field(i, (field)meaning->kind, meaning->index);
  }
  return false;
}

static bool match_element(const char *text, size_t length, const ptx_modifier *m, ptx_instruction *i) {
  const char *end = text + length;
  while (text < end) {
    const char *bar = memchr(text, '|', (size_t)(end - text));
    if (bar == NULL) bar = end;
    if (match_alternative(text, (size_t)(bar - text), m, i)) return true;
    text = bar + 1;
  }
  return false;
}

bool ptx_form_match(const ptx_form *form, const ptx_modifier *modifiers, size_t n, ptx_instruction *i,
                    size_t *matched) {
  size_t at = 0;
  const char *p = form->modifiers;
  while (*p != '\0') {
    size_t length = strcspn(p, " ");
    const char *next = p + length + (p[length] == ' ');
    bool repeat = p[length - 1] == '*' && (length < 2 || p[length - 2] != ':');
    bool optional = p[length - 1] == '?' || repeat;
    if (optional) length--;
    bool fits = at < n && match_element(p, length, &modifiers[at], i);
    *matched = at + fits;
    if (!fits && !optional) return false;
    at += fits;
    while (fits && repeat && at < n && match_element(p, length, &modifiers[at], i)) at++;
    p = next;
  }
  *matched = at;
  return at == n;
}
