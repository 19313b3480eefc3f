#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/notation.h"

typedef struct lexer {
  arena *arena;
  faults *faults;
  const char *at, *line_start;
  int line;
  int end_line, end_column; /* just behind the last token */
} lexer;

static const struct {
  token_kind kind;
  const char *text;
} PUNCTUATION[] = {
#define X(NAME, text) {TOKEN_##NAME, text},
    NOTATION_PUNCTUATION(X)
#undef X
};

/* Not <ctype.h>: the notation is ASCII in every locale. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

static void skip_blank(lexer *l) {
  for (;; l->at++) {
    if (*l->at == '#' || (l->at[0] == '/' && l->at[1] == '/')) l->at += strcspn(l->at, "\n");
    if (*l->at == '\n') {
      l->line++;
      l->line_start = l->at + 1;
    } else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r') {
      return;
    }
  }
}

static bool lex_number(lexer *l, token *t) {
  const char *end = l->at;
  t->kind = TOKEN_INT;
  while (is_digit(*end)) end++;
  if (*end == '.' && end[1] != '.') {
    t->kind = TOKEN_FLOAT;
    for (end++; is_digit(*end); end++) {
    }
  }
  if (*end == 'e' || *end == 'E') {
    const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
    if (is_digit(*exponent)) {
      t->kind = TOKEN_FLOAT;
      for (end = exponent; is_digit(*end); end++) {
      }
    }
  }
  t->length = (int)(end - l->at);
  if (is_name(*end)) {
    faults_add(l->faults, t->line, t->column, "malformed number: a letter follows the digits");
    return false;
  }
  bool fits;
  if (t->kind == TOKEN_INT) {
    fits = text_to_i64(l->at, (size_t)t->length, 0, INT64_MAX, &t->integer);
  } else {
    char *copy = arena_strndup(l->arena, l->at, (size_t)t->length);
    if (copy == NULL) {
      l->faults->out_of_memory = true;
      return false;
    }
    fits = text_to_f64(copy, &t->number);
  }
  if (!fits)
    faults_add(l->faults, t->line, t->column, "number out of range: %s",
               t->kind == TOKEN_INT ? "integers go up to 2^63 - 1"
                                    : "floating-point literals are finite fp64");
  l->at = end;
  return fits;
}

static bool lex_name(lexer *l, token *t) {
  t->kind = TOKEN_NAME;
  while (is_name(l->at[t->length])) t->length++;
  if (t->length >= LIMIT_NAME_BYTES) {
    faults_add(l->faults, t->line, t->column, "a name of %d bytes: at most %d are accepted", t->length,
               LIMIT_NAME_BYTES - 1);
    return false;
  }
  t->name = arena_strndup(l->arena, l->at, (size_t)t->length);
  if (t->name == NULL) l->faults->out_of_memory = true;
  l->at += t->length;
  return t->name != NULL;
}

static bool lex_token(lexer *l, token *t) {
  skip_blank(l);
  *t = (token){.start = l->at, .line = l->line, .column = (int)(l->at - l->line_start) + 1};
  if (*l->at == '\0') { /* TOKEN_END: what is missing there belongs behind the last token */
    t->line = l->end_line;
    t->column = l->end_column;
    return true;
  }
  if (is_digit(*l->at) || (*l->at == '.' && is_digit(l->at[1]))) return lex_number(l, t);
  if (is_name_start(*l->at)) return lex_name(l, t);
  for (size_t i = 0; i < COUNT_OF(PUNCTUATION); i++) {
    size_t length = strlen(PUNCTUATION[i].text);
    if (strncmp(l->at, PUNCTUATION[i].text, length) == 0) {
      t->kind = PUNCTUATION[i].kind;
      t->length = (int)length;
      l->at += length;
      return true;
    }
  }
  unsigned char c = (unsigned char)*l->at;
  if (c > ' ' && c <= '~')
    faults_add(l->faults, t->line, t->column, "unexpected character '%c'", c);
  else
    faults_add(l->faults, t->line, t->column, "unexpected byte 0x%02X: the notation is ASCII text", c);
  return false;
}

token *notation_lex(arena *a, const char *text, faults *f) {
  lexer l = {a, f, text, text, 1, 1, 1};
  size_t n = 0, capacity = 64;
  token *tokens = ARENA_NEW_N(a, token, capacity);
  while (tokens != NULL) {
    if (n == capacity) {
      token *more = ARENA_NEW_N(a, token, 2 * capacity);
      if (more != NULL) memcpy(more, tokens, n * sizeof *tokens);
      tokens = more;
      capacity *= 2;
      continue;
    }
    if (!lex_token(&l, &tokens[n])) return NULL;
    l.end_line = tokens[n].line;
    l.end_column = tokens[n].column + tokens[n].length;
    if (tokens[n++].kind == TOKEN_END) return tokens;
  }
  f->out_of_memory = true;
  return NULL;
}
