/* Inside the parser: where it stands, and what each of its parts asks of the tokens. Only notation_parser*.c
 * include this. All fail by NULL or false, with a fault told (or out_of_memory set). */
#ifndef ARKE_IR_NOTATION_PARSER_H
#define ARKE_IR_NOTATION_PARSER_H

#include "ir/notation.h"

typedef struct notation_parser {
  arena *arena;
  faults *faults;
  const token *at;
  int depth; /* of open recursions */
} notation_parser;

/* --- tokens (notation_parser_token.c) --- */

/* "found 'x', expected `accepted`" at the next token; NULL. */
void *parse_fail(notation_parser *p, const char *accepted);
void *parse_out_of_memory(notation_parser *p); /* NULL */
/* Goes past the next token if it is of the kind. */
bool parse_accept(notation_parser *p, token_kind kind);
bool parse_expect(notation_parser *p, token_kind kind, const char *accepted);
const char *parse_expect_name(notation_parser *p, const char *accepted);
bool parse_is_word(const token *t, const char *word);

/* --- expressions (notation_parser_expr.c) --- */

syntax *parse_node(notation_parser *p, syntax_kind kind, const token *at);
syntax *parse_expression(notation_parser *p);
/* "[a,b]" after a name and its bracket. */
syntax *parse_subscripts(notation_parser *p, const token *name);
/* "max(j: condition) body", from the reduction's name on. */
syntax *parse_reduce(notation_parser *p, ir_reduction r);

#endif
