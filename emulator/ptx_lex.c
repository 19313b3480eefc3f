#include "emulator/ptx_lex.h"

#include <string.h>

#include "base/text.h"

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$';
}

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

void ptx_lex_init(ptx_lexer *x, const char *text, size_t bytes) {
  *x = (ptx_lexer){.at = text, .end = text + bytes, .line_start = text, .line = 1};
}

void ptx_lex_skip_line(ptx_lexer *x) {
  while (x->at < x->end && *x->at != '\n') x->at++;
}

static void newline(ptx_lexer *x) {
  x->at++;
  x->line++;
  x->line_start = x->at;
}

/* Returns false before a comment that never ends. */
static bool skip_space(ptx_lexer *x) {
  while (x->at < x->end) {
    char c = *x->at;
    if (c == '\n') {
      newline(x);
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      x->at++;
    } else if (c == '/' && x->end - x->at >= 2 && x->at[1] == '/') {
      ptx_lex_skip_line(x);
    } else if (c == '/' && x->end - x->at >= 2 && x->at[1] == '*') {
      ptx_lexer open = *x;
      x->at += 2;
      while (x->end - x->at >= 2 && !(x->at[0] == '*' && x->at[1] == '/')) {
        if (*x->at == '\n')
          newline(x);
        else
          x->at++;
      }
      if (x->end - x->at < 2) {
        *x = open;
        return false;
      }
      x->at += 2;
    } else {
      break;
    }
  }
  return true;
}

/* Digits of `base` from x->at; false on none or on a value past 64 bits. */
static bool digits(ptx_lexer *x, int base, uint64_t *value, int *n) {
  uint64_t v = 0;
  *n = 0;
  for (; x->at < x->end && digit_of(*x->at) < base; x->at++, ++*n)
    if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
        __builtin_add_overflow(v, (uint64_t)digit_of(*x->at), &v))
      return false;
  *value = v;
  return *n > 0;
}

static ptx_token_kind decimal_fraction(ptx_lexer *x, const char *start, uint64_t *value) {
  char text[64];
  if (*x->at == '.') x->at++;
  while (x->at < x->end && is_digit(*x->at)) x->at++;
  if (x->at < x->end && (*x->at == 'e' || *x->at == 'E')) {
    x->at++;
    if (x->at < x->end && (*x->at == '+' || *x->at == '-')) x->at++;
    while (x->at < x->end && is_digit(*x->at)) x->at++;
  }
  size_t n = (size_t)(x->at - start);
  double d;
  if (n >= sizeof text) return PTX_TOKEN_BAD;
  memcpy(text, start, n);
  text[n] = '\0';
  if (!text_to_f64(text, &d)) return PTX_TOKEN_BAD;
  memcpy(value, &d, sizeof d);
  return PTX_TOKEN_F64;
}

static ptx_token_kind number(ptx_lexer *x, uint64_t *value) {
  const char *start = x->at;
  int n = 0;
  char prefix = x->end - x->at >= 2 && x->at[0] == '0' ? x->at[1] : '\0';
  ptx_token_kind kind = PTX_TOKEN_INTEGER;
  bool ok;
  switch (prefix) {
  case 'f':
  case 'F':
    x->at += 2;
    ok = digits(x, 16, value, &n) && n == 8;
    kind = PTX_TOKEN_F32;
    break;
  case 'd':
  case 'D':
    x->at += 2;
    ok = digits(x, 16, value, &n) && n == 16;
    kind = PTX_TOKEN_F64;
    break;
  case 'x':
  case 'X':
    x->at += 2;
    ok = digits(x, 16, value, &n);
    break;
  case 'b':
  case 'B':
    x->at += 2;
    ok = digits(x, 2, value, &n);
    break;
  default:
    ok = digits(x, prefix >= '0' && prefix <= '7' ? 8 : 10, value, &n);
    if (x->at < x->end && (*x->at == '.' || *x->at == 'e' || *x->at == 'E')) {
      kind = decimal_fraction(x, start, value);
      ok = kind != PTX_TOKEN_BAD;
    }
    break;
  }
  if (kind == PTX_TOKEN_INTEGER && x->at < x->end && *x->at == 'U') x->at++;
  if (ok && x->at < x->end && is_word(*x->at)) ok = false;
  if (ok) return kind;
  while (x->at < x->end && is_word(*x->at)) x->at++;
  return PTX_TOKEN_BAD;
}

static void dot_word(ptx_lexer *x) {
  x->at++;
  while (x->at < x->end) {
    if (is_word(*x->at))
      x->at++;
    else if (x->end - x->at >= 3 && x->at[0] == ':' && x->at[1] == ':' && is_word(x->at[2]))
      x->at += 2;
    else
      break;
  }
}

ptx_token ptx_lex_next(ptx_lexer *x) {
  const char *before = x->at;
  ptx_token t = {.kind = PTX_TOKEN_END};
  bool closed = skip_space(x);
  t.joined = before == x->at;
  t.text = x->at;
  t.line = x->line;
  t.column = (int)(x->at - x->line_start) + 1;
  if (!closed) {
    t.kind = PTX_TOKEN_BAD;
    t.length = 2;
    x->at = x->end;
    return t;
  }
  if (x->at >= x->end) return t;
  char c = *x->at;
  if (is_word_start(c)) {
    t.kind = PTX_TOKEN_WORD;
    x->at++;
    while (x->at < x->end && is_word(*x->at)) x->at++;
  } else if (is_digit(c)) {
    t.kind = number(x, &t.value);
  } else if (c == '.' && x->end - x->at >= 2 && is_word(x->at[1])) {
    t.kind = PTX_TOKEN_DOT_WORD;
    dot_word(x);
  } else if (c == '"') {
    x->at++;
    t.kind = PTX_TOKEN_STRING;
    t.text = x->at;
    while (x->at < x->end && *x->at != '"' && *x->at != '\n') x->at++;
    t.length = (size_t)(x->at - t.text);
    if (x->at < x->end && *x->at == '"')
      x->at++;
    else
      t.kind = PTX_TOKEN_BAD;
    return t;
  } else {
    t.kind = memchr("{}[]()<>,;:@!|+-=*/~&", c, 21) != NULL ? PTX_TOKEN_PUNCT : PTX_TOKEN_BAD;
    x->at++;
  }
  t.length = (size_t)(x->at - t.text);
  return t;
}
