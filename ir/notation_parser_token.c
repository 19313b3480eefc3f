/* What the parser asks of the next token, and what it says where that is another. */
#include <string.h>

#include "ir/notation_parser.h"

static const char *token_text(token_kind kind) {
  switch (kind) {
  case TOKEN_END: return "the end of the text";
  case TOKEN_NAME: return "a name";
  case TOKEN_INT: return "an integer";
  case TOKEN_FLOAT: return "a number";
#define X(NAME, text)                                                                                        \
  case TOKEN_##NAME: return "'" text "'";
    NOTATION_PUNCTUATION(X)
#undef X
  }
  return "";
}

void *parse_fail(notation_parser *p, const char *accepted) {
  const token *t = p->at;
  if (t->kind == TOKEN_NAME || t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT)
    faults_add(p->faults, t->line, t->column, "found '%.*s', expected %s", t->length > 40 ? 40 : t->length,
               t->start, accepted);
  else
    faults_add(p->faults, t->line, t->column, "found %s, expected %s", token_text(t->kind), accepted);
  return NULL;
}

void *parse_out_of_memory(notation_parser *p) {
  p->faults->out_of_memory = true;
  return NULL;
}

bool parse_accept(notation_parser *p, token_kind kind) {
  if (p->at->kind != kind) return false;
  p->at++;
  return true;
}

bool parse_expect(notation_parser *p, token_kind kind, const char *accepted) {
  if (parse_accept(p, kind)) return true;
  parse_fail(p, accepted);
  return false;
}

const char *parse_expect_name(notation_parser *p, const char *accepted) {
  if (p->at->kind != TOKEN_NAME) return parse_fail(p, accepted);
  return (p->at++)->name;
}

bool parse_is_word(const token *t, const char *word) {
  return t->kind == TOKEN_NAME && strcmp(t->name, word) == 0;
}
