/* Recursive descent over the whole token list. A syntax error ends the parse: what follows it would be
 * guesses. */
#include <string.h>

#include "base/error.h"
#include "ir/notation.h"

typedef struct parser {
  arena *arena;
  faults *faults;
  const token *at;
  int depth; /* of open recursions */
} parser;

static syntax *parse_expression(parser *p);
static syntax *parse_binary(parser *p, int least);
static syntax *parse_primary(parser *p);

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

static void *fail(parser *p, const char *accepted) {
  const token *t = p->at;
  if (t->kind == TOKEN_NAME || t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT)
    faults_add(p->faults, t->line, t->column, "found '%.*s', expected %s", t->length > 40 ? 40 : t->length,
               t->start, accepted);
  else
    faults_add(p->faults, t->line, t->column, "found %s, expected %s", token_text(t->kind), accepted);
  return NULL;
}

static void *out_of_memory(parser *p) {
  p->faults->out_of_memory = true;
  return NULL;
}

static bool accept(parser *p, token_kind kind) {
  if (p->at->kind != kind) return false;
  p->at++;
  return true;
}

static bool expect(parser *p, token_kind kind, const char *accepted) {
  if (accept(p, kind)) return true;
  fail(p, accepted);
  return false;
}

static const char *expect_name(parser *p, const char *accepted) {
  if (p->at->kind != TOKEN_NAME) return fail(p, accepted);
  return (p->at++)->name;
}

static bool is_word(const token *t, const char *word) {
  return t->kind == TOKEN_NAME && strcmp(t->name, word) == 0;
}

static bool enter(parser *p) {
  if (p->depth++ < LIMIT_EXPR_DEPTH) return true;
  faults_add(p->faults, p->at->line, p->at->column, "nested deeper than %d; use a temporary",
             LIMIT_EXPR_DEPTH);
  return false;
}

/* --- expressions ---------------------------------------------------------------------------------------- */

static syntax *node_new(parser *p, syntax_kind kind, const token *at) {
  syntax *s = ARENA_NEW(p->arena, syntax);
  if (s == NULL) return out_of_memory(p);
  s->kind = kind;
  s->line = at->line;
  s->column = at->column;
  s->depth = 1;
  return s;
}

/* Takes over n arguments; the height of the tree is limited as the nesting is, so that later walks may
 * recurse. */
static syntax *node_args(parser *p, syntax *s, syntax *const *args, int n) {
  s->args = ARENA_NEW_N(p->arena, syntax *, (size_t)n);
  if (s->args == NULL) return out_of_memory(p);
  s->n_args = n;
  for (int i = 0; i < n; i++) {
    s->args[i] = args[i];
    if (args[i]->depth >= s->depth) s->depth = args[i]->depth + 1;
  }
  if (s->depth <= LIMIT_EXPR_DEPTH) return s;
  faults_add(p->faults, s->line, s->column, "an expression of more than %d levels; use a temporary",
             LIMIT_EXPR_DEPTH);
  return NULL;
}

/* "a, b)" up to and with the closing token: one or more, at most LIMIT_RANK. */
static int parse_list(parser *p, token_kind close, const char *accepted, syntax *args[LIMIT_RANK]) {
  int n = 0;
  do {
    if (n == LIMIT_RANK) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d %s", LIMIT_RANK,
                 close == TOKEN_RBRACKET ? "subscripts" : "arguments");
      return -1;
    }
    args[n] = parse_expression(p);
    if (args[n++] == NULL) return -1;
  } while (accept(p, TOKEN_COMMA));
  return expect(p, close, accepted) ? n : -1;
}

static syntax *parse_subscripts(parser *p, const token *name) {
  syntax *s = node_new(p, SYNTAX_SUBSCRIPT, name);
  if (s == NULL) return NULL;
  s->name = name->name;
  syntax *args[LIMIT_RANK + 1];
  int n = 0;
  if (accept(p, TOKEN_DOTS)) {
    s->dots = true;
    if (p->at->kind != TOKEN_RBRACKET && !expect(p, TOKEN_COMMA, "',' or ']' after '...'")) return NULL;
    if (p->at->kind == TOKEN_RBRACKET && p->at[-1].kind == TOKEN_COMMA)
      return fail(p, "a subscript after ','");
  }
  bool closed = accept(p, TOKEN_RBRACKET);
  if (!closed) n = parse_list(p, TOKEN_RBRACKET, "',' or ']' in the subscripts", args);
  return n < 0 ? NULL : node_args(p, s, args, n);
}

/* The value after `else` binds tighter than any operator: "X[i-1] else 0 * W[i]" is (X[i-1] else 0) * W[i].
 */
static syntax *parse_else(parser *p, syntax *read) {
  if (!is_word(p->at, "else")) return read;
  if (!enter(p)) return NULL;
  const token *minus = ++p->at;
  bool negated = accept(p, TOKEN_SUB);
  syntax *value = parse_primary(p);
  p->depth--;
  if (value != NULL && negated) {
    syntax *operand = value;
    value = node_new(p, SYNTAX_OPERATOR, minus);
    if (value == NULL) return NULL;
    value->id = IR_OP_NEG;
    value = node_args(p, value, &operand, 1);
  }
  if (value == NULL) return NULL;
  syntax *args[LIMIT_RANK + 1];
  for (int i = 0; i < read->n_args; i++) args[i] = read->args[i];
  args[read->n_args] = value;
  read->has_else = true;
  return node_args(p, read, args, read->n_args + 1);
}

static syntax *parse_cast(parser *p) {
  syntax *s = node_new(p, SYNTAX_CAST, p->at++);
  if (s == NULL || !expect(p, TOKEN_LT, "'<' and a dtype: cast<f32>(x)")) return NULL;
  s->name = expect_name(p, "a dtype or a type variable");
  if (s->name == NULL || !expect(p, TOKEN_GT, "'>'") || !expect(p, TOKEN_LPAREN, "'('")) return NULL;
  syntax *operand = parse_expression(p);
  if (operand == NULL || !expect(p, TOKEN_RPAREN, "')'")) return NULL;
  return node_args(p, s, &operand, 1);
}

/* "(j)" or "(j: condition)", then the body. Several indices, "sum(c, r,
 * s)", nest; only the last carries the condition. */
static syntax *parse_reduce_at(parser *p, const token *name, ir_reduction r) {
  if (!enter(p)) return NULL;
  syntax *s = node_new(p, SYNTAX_REDUCE, name);
  if (s == NULL) return NULL;
  s->id = (int)r;
  s->line = p->at->line; /* the index: where faults about its range belong */
  s->column = p->at->column;
  s->name = expect_name(p, "an index");
  if (s->name == NULL) return NULL;
  syntax *args[2] = {NULL, NULL};
  if (accept(p, TOKEN_COMMA)) {
    if (r == IR_RED_ARGMAX || r == IR_RED_ARGMIN) {
      faults_add(p->faults, s->line, s->column, "%s takes one index", notation_reduction_name(r));
      return NULL;
    }
    args[0] = parse_reduce_at(p, name, r);
  } else {
    if (accept(p, TOKEN_COLON) && (args[1] = parse_expression(p)) == NULL) return NULL;
    if (!expect(p, TOKEN_RPAREN, args[1] == NULL ? "')', ':' and a condition, or ','" : "')'")) return NULL;
    args[0] = parse_binary(p, notation_reduction_reach(r));
  }
  if (args[0] == NULL) return NULL;
  p->depth--;
  return node_args(p, s, args, args[1] == NULL ? 1 : 2);
}

static syntax *parse_reduce(parser *p, ir_reduction r) {
  const token *name = p->at++;
  if (!expect(p, TOKEN_LPAREN, "'(' and an index")) return NULL;
  return parse_reduce_at(p, name, r);
}

/* max and min are functions too: "max(j) X[j]" or "max(j: j < n) X[j]" reduces, "max(a, b)" does not. */
static bool at_reduction(const parser *p, ir_reduction *r) {
  ir_function f;
  const token *t = p->at;
  if (!notation_reduction(t->name, r)) return false;
  if (!notation_function(t->name, &f)) return true;
  return t[1].kind == TOKEN_LPAREN && t[2].kind == TOKEN_NAME &&
         (t[3].kind == TOKEN_RPAREN || t[3].kind == TOKEN_COLON);
}

static syntax *parse_primary(parser *p) {
  const token *t = p->at;
  syntax *s;
  ir_reduction r;
  switch (t->kind) {
  case TOKEN_INT:
  case TOKEN_FLOAT:
    s = node_new(p, t->kind == TOKEN_INT ? SYNTAX_INT : SYNTAX_FLOAT, p->at++);
    if (s == NULL) return NULL;
    s->integer = t->integer;
    s->number = t->number;
    return s;
  case TOKEN_LPAREN:
    p->at++;
    s = parse_expression(p);
    return s != NULL && expect(p, TOKEN_RPAREN, "')'") ? s : NULL;
  case TOKEN_NAME: break;
  default: return fail(p, "an expression");
  }
  if (is_word(t, "else")) return fail(p, "an expression");
  if (is_word(t, "cast")) return parse_cast(p);
  if (is_word(t, "topk"))
    return fail(p, "an expression (topk stands alone: (V[i,k], I[i,k]) = topk(j) X[i,j])");
  if (at_reduction(p, &r)) return fail(p, "a value; a reduction needs parentheses after else");
  p->at++;
  bool after = accept(p, TOKEN_PRIME);
  if (after && p->at->kind != TOKEN_LBRACKET) return fail(p, "'[' and the subscripts of what was written");
  if (accept(p, TOKEN_LBRACKET)) {
    s = parse_subscripts(p, t);
    if (s != NULL) s->after = after;
    return s == NULL ? NULL : parse_else(p, s);
  }
  bool call = accept(p, TOKEN_LPAREN);
  s = node_new(p, call ? SYNTAX_CALL : SYNTAX_NAME, t);
  if (s == NULL) return NULL;
  s->name = t->name;
  if (!call) return s;
  syntax *args[LIMIT_RANK];
  int n = accept(p, TOKEN_RPAREN) ? 0 : parse_list(p, TOKEN_RPAREN, "',' or ')' in the arguments", args);
  return n < 0 ? NULL : node_args(p, s, args, n);
}

static syntax *parse_unary(parser *p) {
  if (!enter(p)) return NULL;
  const token *t = p->at;
  syntax *s;
  ir_reduction r;
  if (t->kind == TOKEN_SUB || t->kind == TOKEN_NOT) {
    p->at++;
    syntax *operand = parse_unary(p);
    s = operand == NULL ? NULL : node_new(p, SYNTAX_OPERATOR, t);
    if (s == NULL) return NULL;
    s->id = t->kind == TOKEN_SUB ? IR_OP_NEG : IR_OP_NOT;
    s = node_args(p, s, &operand, 1);
  } else if (t->kind == TOKEN_NAME && at_reduction(p, &r)) {
    s = parse_reduce(p, r);
  } else {
    s = parse_primary(p);
  }
  p->depth--;
  return s;
}

/* Tokens that are binary operators of the same name. */
#define BINARY(X) X(ADD) X(SUB) X(MUL) X(DIV) X(MOD) X(LT) X(LE) X(GT) X(GE) X(EQ) X(NE) X(AND) X(OR)

static bool binary_operator(token_kind kind, ir_operator *o) {
  switch (kind) {
#define X(NAME)                                                                                              \
  case TOKEN_##NAME: *o = IR_OP_##NAME; return true;
    BINARY(X)
#undef X
  default: return false;
  }
}

static bool is_comparison(ir_operator o) {
  return o >= IR_OP_LT && o <= IR_OP_NE;
}

static syntax *parse_binary(parser *p, int least) {
  syntax *left = parse_unary(p);
  ir_operator o, previous = IR_OP_ADD;
  while (left != NULL && binary_operator(p->at->kind, &o) && notation_operator_precedence(o) >= least) {
    int precedence = notation_operator_precedence(o);
    if (is_comparison(o) && is_comparison(previous) && notation_operator_precedence(previous) == precedence) {
      faults_add(p->faults, p->at->line, p->at->column,
                 "comparisons do not chain; write a < b && b < c, or parentheses");
      return NULL;
    }
    const token *t = p->at++;
    syntax *args[2] = {left, parse_binary(p, precedence + 1)};
    if (args[1] == NULL) return NULL;
    syntax *s = node_new(p, SYNTAX_OPERATOR, t);
    if (s == NULL) return NULL;
    s->id = (int)o;
    left = node_args(p, s, args, 2);
    previous = o;
  }
  return left;
}

static syntax *parse_expression(parser *p) {
  syntax *condition = parse_binary(p, 1);
  const token *t = p->at;
  if (condition == NULL || !accept(p, TOKEN_QUESTION)) return condition;
  if (!enter(p)) return NULL;
  syntax *args[3] = {condition, parse_expression(p), NULL};
  if (args[1] == NULL || !expect(p, TOKEN_COLON, "':' after the value before it")) return NULL;
  args[2] = parse_expression(p);
  p->depth--;
  if (args[2] == NULL) return NULL;
  syntax *s = node_new(p, SYNTAX_OPERATOR, t);
  if (s == NULL) return NULL;
  s->id = IR_OP_SELECT;
  return node_args(p, s, args, 3);
}

/* --- signature ------------------------------------------------------------------------------------------ */

static bool parse_dim(parser *p, syntax_dim *d) {
  *d = (syntax_dim){.factor = 1, .line = p->at->line, .column = p->at->column};
  const token *t = p->at;
  if (accept(p, TOKEN_INT)) {
    d->factor = t->integer;
    if (!accept(p, TOKEN_MUL)) return true;
    d->axis = expect_name(p, "a size symbol after '*'");
  } else {
    d->axis = expect_name(p, "a size: a symbol, an integer, 2*M, M+1, or '...' in front");
    if (d->axis != NULL && accept(p, TOKEN_MUL)) {
      t = p->at;
      if (!expect(p, TOKEN_INT, "an integer after '*'")) return false;
      d->factor = t->integer;
    }
  }
  if (d->axis == NULL || !accept(p, TOKEN_ADD)) return d->axis != NULL;
  t = p->at;
  if (!expect(p, TOKEN_INT, "an integer after '+'")) return false;
  d->more = t->integer;
  return true;
}

/* ": T[M,N]" */
static bool parse_tensor_type(parser *p, syntax_tensor *s) {
  if (!expect(p, TOKEN_COLON, "':' and a type: X: T[M,N]")) return false;
  s->type_line = p->at->line;
  s->type_column = p->at->column;
  s->type = expect_name(p, "a dtype or a type variable");
  if (s->type == NULL || !expect(p, TOKEN_LBRACKET, "'[' and the dimensions")) return false;
  if (accept(p, TOKEN_DOTS)) {
    s->dots = true;
    if (accept(p, TOKEN_RBRACKET)) return true;
    if (!expect(p, TOKEN_COMMA, "',' or ']' after '...'")) return false;
  }
  if (accept(p, TOKEN_RBRACKET)) return true;
  do {
    if (s->rank == LIMIT_RANK) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d dimensions", LIMIT_RANK);
      return false;
    }
    if (!parse_dim(p, &s->dims[s->rank++])) return false;
  } while (accept(p, TOKEN_COMMA));
  return expect(p, TOKEN_RBRACKET, "',' or ']' in the dimensions");
}

static bool is_input(const syntax_operator *o, const char *name) {
  for (int i = 0; i < o->n_inputs; i++)
    if (strcmp(o->inputs[i].name, name) == 0) return true;
  return false;
}

/* "(A, B: T[M,K], C: f32[])": names that share a type are declared one by one. In the outputs a bare name of
 * an input is that input, written in place. */
static int parse_tensors(parser *p, const syntax_operator *inputs, syntax_tensor tensors[LIMIT_TENSORS]) {
  int n = 0;
  if (!expect(p, TOKEN_LPAREN, "'(' and the tensors")) return -1;
  if (accept(p, TOKEN_RPAREN)) return 0;
  do {
    int first = n;
    bool in_place = false;
    do {
      const token *t = p->at;
      if (n == LIMIT_TENSORS) {
        faults_add(p->faults, t->line, t->column, "more than %d tensors", LIMIT_TENSORS);
        return -1;
      }
      tensors[n] = (syntax_tensor){.line = t->line, .column = t->column};
      tensors[n].name = expect_name(p, "a tensor: X: T[M,N]");
      if (tensors[n].name == NULL) return -1;
      in_place =
          inputs != NULL && n == first && is_input(inputs, tensors[n].name) && p->at->kind != TOKEN_COLON;
      n++;
    } while (!in_place && accept(p, TOKEN_COMMA));
    if (in_place) continue;
    if (!parse_tensor_type(p, &tensors[n - 1])) return -1;
    for (int i = first; i < n - 1; i++) {
      syntax_tensor shared = tensors[n - 1];
      shared.name = tensors[i].name;
      shared.line = tensors[i].line;
      shared.column = tensors[i].column;
      tensors[i] = shared;
    }
  } while (accept(p, TOKEN_COMMA));
  return expect(p, TOKEN_RPAREN, "',' or ')' after a tensor") ? n : -1;
}

static bool parse_attr(parser *p, syntax_attr *s) {
  static const char *const KINDS[] = {
      [IR_ATTR_INT] = "int", [IR_ATTR_FLOAT] = "float", [IR_ATTR_BOOL] = "bool", [IR_ATTR_DTYPE] = "dtype"};
  *s = (syntax_attr){.line = p->at->line, .column = p->at->column};
  s->name = expect_name(p, "an attribute, eps: float = 1e-5, or '{'");
  if (s->name == NULL || !expect(p, TOKEN_COLON, "':' and int, float, bool or dtype")) return false;
  size_t kind = 0;
  while (kind < COUNT_OF(KINDS) && !is_word(p->at, KINDS[kind])) kind++;
  if (kind == COUNT_OF(KINDS)) return fail(p, "int, float, bool or dtype") != NULL;
  p->at++;
  s->kind = (ir_attr_kind)kind;
  if (!accept(p, TOKEN_ASSIGN)) return true;
  if (s->kind == IR_ATTR_DTYPE) return (s->type_default = expect_name(p, "a dtype")) != NULL;
  return (s->value = parse_expression(p)) != NULL;
}

/* --- definitions ---------------------------------------------------------------------------------------- */

static syntax *parse_left(parser *p) {
  const token *t = p->at;
  if (expect_name(p, "a definition, Y[i,j] = …, or '}'") == NULL) return NULL;
  if (accept(p, TOKEN_LBRACKET)) return parse_subscripts(p, t);
  syntax *s = node_new(p, SYNTAX_NAME, t);
  if (s != NULL) s->name = t->name;
  return s;
}

static bool parse_topk(parser *p, syntax_definition *d) {
  if ((d->left = parse_left(p)) == NULL || !expect(p, TOKEN_COMMA, "',' and the second result")) return false;
  if ((d->left2 = parse_left(p)) == NULL || !expect(p, TOKEN_RPAREN, "')' after two results")) return false;
  if (!expect(p, TOKEN_ASSIGN, "'='")) return false;
  if (!is_word(p->at, "topk")) return fail(p, "topk, which alone has two results") != NULL;
  d->name = d->left->name;
  d->name2 = d->left2->name;
  return (d->value = parse_reduce(p, IR_RED_MAX)) != NULL;
}

static bool parse_definition(parser *p, syntax_definition *d) {
  if (accept(p, TOKEN_LPAREN)) return parse_topk(p, d);
  if ((d->left = parse_left(p)) == NULL) return false;
  d->name = d->left->name;
  d->skips = is_word(p->at, "else");
  if (d->skips && !is_word(++p->at, "skip")) return fail(p, "skip: Y[idx[i]] else skip = …") != NULL;
  if (d->skips) p->at++;
  if (accept(p, TOKEN_ADD_ASSIGN)) {
    d->update = IR_ADD;
  } else {
    if (is_word(p->at, "max"))
      d->update = IR_MAX, p->at++;
    else if (is_word(p->at, "min"))
      d->update = IR_MIN, p->at++;
    if (!expect(p, TOKEN_ASSIGN, d->update == IR_ASSIGN ? "'=', '+=', 'max=' or 'min='" : "'='"))
      return false;
  }
  return (d->value = parse_expression(p)) != NULL;
}

static bool parse_definitions(parser *p, syntax_operator *o) {
  int capacity = 8;
  o->definitions = ARENA_NEW_N(p->arena, syntax_definition, (size_t)capacity);
  if (o->definitions == NULL) return out_of_memory(p) != NULL;
  while (!accept(p, TOKEN_RBRACE)) {
    if (o->n_definitions == capacity) {
      syntax_definition *more = ARENA_NEW_N(p->arena, syntax_definition, 2 * (size_t)capacity);
      if (more == NULL) return out_of_memory(p) != NULL;
      memcpy(more, o->definitions, (size_t)capacity * sizeof *more);
      o->definitions = more;
      capacity *= 2;
    }
    if (!parse_definition(p, &o->definitions[o->n_definitions++])) return false;
    if (!accept(p, TOKEN_SEMICOLON) && p->at->kind != TOKEN_RBRACE && p->at->kind != TOKEN_NAME &&
        p->at->kind != TOKEN_LPAREN)
      return fail(p, "an operator, the next definition or '}'") != NULL;
  }
  return true;
}

static bool parse_operator(parser *p, syntax_operator *o) {
  o->line = p->at->line;
  o->column = p->at->column;
  o->name = expect_name(p, "the operator's name");
  if (o->name == NULL) return false;
  if ((o->n_inputs = parse_tensors(p, NULL, o->inputs)) < 0) return false;
  if (!expect(p, TOKEN_ARROW, "'->' and the outputs")) return false;
  if ((o->n_outputs = parse_tensors(p, o, o->outputs)) < 0) return false;
  while (!accept(p, TOKEN_LBRACE)) {
    if (o->n_attrs == LIMIT_ATTRS) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d attributes", LIMIT_ATTRS);
      return false;
    }
    if (!parse_attr(p, &o->attrs[o->n_attrs++])) return false;
    accept(p, TOKEN_COMMA);
  }
  return parse_definitions(p, o) && expect(p, TOKEN_END, "the end of the text after '}'");
}

syntax_operator *notation_parse(arena *a, const char *text, faults *f) {
  parser p = {a, f, notation_lex(a, text, f), 0};
  if (p.at == NULL) return NULL;
  syntax_operator *o = ARENA_NEW(a, syntax_operator);
  if (o == NULL) return out_of_memory(&p);
  return parse_operator(&p, o) ? o : NULL;
}
