/* Inside the parser of the operator notation: tokens, the syntax tree and the list of faults. Only
 * ir/notation_*.c include this. */
#ifndef ARKE_IR_NOTATION_H
#define ARKE_IR_NOTATION_H

#include "ir/ir.h"

/* --- tokens --------------------------------------------------------------------------------------------- */

/* X(NAME, text): punctuation longest first, since the lexer takes the first that matches. */
#define NOTATION_PUNCTUATION(X)                                                                              \
  X(DOTS, "...")                                                                                             \
  X(ARROW, "->")                                                                                             \
  X(ADD_ASSIGN, "+=")                                                                                        \
  X(LE, "<=")                                                                                                \
  X(GE, ">=")                                                                                                \
  X(EQ, "==")                                                                                                \
  X(NE, "!=")                                                                                                \
  X(AND, "&&")                                                                                               \
  X(OR, "||")                                                                                                \
  X(LPAREN, "(")                                                                                             \
  X(RPAREN, ")")                                                                                             \
  X(LBRACKET, "[")                                                                                           \
  X(RBRACKET, "]")                                                                                           \
  X(LBRACE, "{")                                                                                             \
  X(RBRACE, "}")                                                                                             \
  X(LT, "<")                                                                                                 \
  X(GT, ">")                                                                                                 \
  X(NOT, "!")                                                                                                \
  X(ADD, "+")                                                                                                \
  X(SUB, "-")                                                                                                \
  X(MUL, "*")                                                                                                \
  X(DIV, "/")                                                                                                \
  X(MOD, "%")                                                                                                \
  X(COMMA, ",")                                                                                              \
  X(COLON, ":")                                                                                              \
  X(SEMICOLON, ";")                                                                                          \
  X(PRIME, "'")                                                                                              \
  X(QUESTION, "?")                                                                                           \
  X(ASSIGN, "=")

typedef enum token_kind {
  TOKEN_END,
  TOKEN_NAME,
  TOKEN_INT,
  TOKEN_FLOAT,
#define X(NAME, text) TOKEN_##NAME,
  NOTATION_PUNCTUATION(X)
#undef X
} token_kind;

typedef struct token {
  token_kind kind;
  const char *start; /* in the text */
  int length;
  int line, column;
  const char *name; /* NAME: arena copy */
  int64_t integer;
  double number;
} token;

/* --- faults --------------------------------------------------------------------------------------------- */

enum { NOTATION_MOST_FAULTS = 20 };

typedef struct fault {
  int line, column;
  const char *message;
} fault;

typedef struct faults {
  arena *arena;
  const char *text; /* the operator */
  fault list[NOTATION_MOST_FAULTS];
  int n, total;
  bool out_of_memory;
} faults;

void faults_add(faults *f, int line, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* ARKE_OK without faults; else fills err with all of them and returns `code` (or ARKE_ERR_MEMORY). */
arke_status faults_report(const faults *f, arke_status code, arke_error *err);

/* --- the syntax tree: names are not resolved yet
 * ------------------------------------------------------------ */

typedef enum syntax_kind {
  SYNTAX_FLOAT,
  SYNTAX_INT,
  SYNTAX_NAME,      /* `name` */
  SYNTAX_SUBSCRIPT, /* name[args], args[n_args - 1] is the else value if has_else */
  SYNTAX_CALL,      /* name(args) */
  SYNTAX_CAST,      /* cast<name>(args[0]) */
  SYNTAX_OPERATOR,  /* ir_operator `id` of args */
  SYNTAX_REDUCE,    /* ir_reduction `id` over index `name` of args[0], condition args[1] */
} syntax_kind;

typedef struct syntax {
  syntax_kind kind;
  int id;
  const char *name;
  bool dots, has_else; /* SUBSCRIPT: starts with "...", ends with else */
  bool after;          /* SUBSCRIPT: "name'[…]", what has been written in place */
  int n_args;
  struct syntax **args;
  double number;
  int64_t integer;
  int line, column, depth;
} syntax;

typedef struct syntax_dim {
  int64_t factor, more;
  const char *axis; /* NULL: the constant `factor` */
  int line, column;
} syntax_dim;

typedef struct syntax_tensor {
  const char *name;
  const char *type; /* NULL: an output that names an input, written in place */
  bool dots;
  int rank;
  syntax_dim dims[LIMIT_RANK];
  int line, column;
  int type_line, type_column;
} syntax_tensor;

typedef struct syntax_attr {
  const char *name;
  ir_attr_kind kind;
  const char *type_default; /* DTYPE */
  syntax *value;            /* else; NULL: none */
  int line, column;
} syntax_attr;

typedef struct syntax_definition {
  const char *name, *name2; /* name2: topk's second result, else NULL */
  syntax *left, *left2;     /* SUBSCRIPT or NAME nodes */
  bool skips;               /* "else skip" after the left side */
  ir_update update;
  syntax *value; /* of topk: a REDUCE node with id IR_RED_MAX */
} syntax_definition;

typedef struct syntax_operator {
  const char *name;
  int line, column;
  int n_inputs, n_outputs, n_attrs, n_definitions;
  syntax_tensor inputs[LIMIT_TENSORS], outputs[LIMIT_TENSORS];
  syntax_attr attrs[LIMIT_ATTRS];
  syntax_definition *definitions;
} syntax_operator;

/* All tokens, a TOKEN_END last; NULL with a fault (or out_of_memory). */
token *notation_lex(arena *a, const char *text, faults *f);
syntax_operator *notation_parse(arena *a, const char *text, faults *f);
ir_op *notation_resolve(arena *a, const char *text, const syntax_operator *s, faults *f);

/* --- names that the notation itself uses
 * -------------------------------------------------------------------- */

bool notation_function(const char *name, ir_function *f);
int notation_function_arity(ir_function f);
const char *notation_function_name(ir_function f);
bool notation_reduction(const char *name, ir_reduction *r);
const char *notation_reduction_name(ir_reduction r);
/* Precedence of the loosest operator in a reduction's body: a product, or for any and all a comparison. */
int notation_reduction_reach(ir_reduction r);
const char *notation_operator_text(ir_operator o);
int notation_operator_precedence(ir_operator o);
int notation_operator_arity(ir_operator o);
/* inf, nan, true, false: *integer tells which field holds the value. */
bool notation_constant(const char *name, bool *is_integer, int64_t *integer, double *number);
/* Functions, reductions, constants, dtypes, cast, else: not free for tensors, axes and the like. */
bool notation_reserved(const char *name);
/* Nearest function or reduction name, or NULL. */
const char *notation_nearest_function(const char *name);

/* The shortest decimal text that reads back as `value`, with a point or an exponent ("1.0", "1e-05"; "inf",
 * "nan"), the same in every locale. */
void notation_print_number(double value, strbuf *out);

#endif
