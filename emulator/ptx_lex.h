/* Words, numbers and punctuation of a PTX text (PTX ISA section 4.1 to 4.5). No allocation; tokens point into
 * the text. */
#ifndef ARKE_EMULATOR_PTX_LEX_H
#define ARKE_EMULATOR_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ptx_token_kind {
  PTX_TOKEN_END,
  PTX_TOKEN_WORD,     /* name, %name, $name, _ */
  PTX_TOKEN_DOT_WORD, /* .reg, .b32, .mbarrier::complete_tx::bytes, .1d; text includes the dot */
  PTX_TOKEN_INTEGER,  /* integer: value */
  PTX_TOKEN_F32,      /* 0f…: value holds the 32 bits */
  PTX_TOKEN_F64,      /* 0d… or a decimal fraction: value holds the 64 bits */
  PTX_TOKEN_STRING,   /* text is between the quotes */
  PTX_TOKEN_PUNCT,    /* one character */
  PTX_TOKEN_BAD,      /* text that is no token; `text` says what was met */
} ptx_token_kind;

typedef struct ptx_token {
  ptx_token_kind kind;
  const char *text;
  size_t length;
  uint64_t value;
  int line, column;
  bool joined; /* no space between it and the token before */
} ptx_token;

typedef struct ptx_lexer {
  const char *at, *end, *line_start;
  int line;
} ptx_lexer;

void ptx_lex_init(ptx_lexer *x, const char *text, size_t bytes);
ptx_token ptx_lex_next(ptx_lexer *x);
/* Skips to the end of the current line (.file and .loc have no other end). */
void ptx_lex_skip_line(ptx_lexer *x);

#endif
