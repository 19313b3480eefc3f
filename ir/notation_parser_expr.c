/* Expressions: recursive descent with precedences, whose depth is limited so that later walks may recurse. */
#include "ir/notation_parser.h"

static syntax *parse_binary(notation_parser *p, int least);
static syntax *parse_primary(notation_parser *p);

static bool parse_enter(notation_parser *p) {
  if (p->depth++ < LIMIT_EXPR_DEPTH) return true;
  faults_add(p->faults, p->at->line, p->at->column, "nested deeper than %d; use a temporary",
             LIMIT_EXPR_DEPTH);
  return false;
}

syntax *parse_node(notation_parser *p, syntax_kind kind, const token *at) {
  syntax *s = ARENA_NEW(p->arena, syntax);
  if (s == NULL) return parse_out_of_memory(p);
  s->kind = kind;
  s->line = at->line;
  s->column = at->column;
  s->depth = 1;
  return s;
}

/* Takes over n arguments; the height of the tree is limited as the nesting is, so that later walks may
 * recurse. */
static syntax *node_args(notation_parser *p, syntax *s, syntax *const *args, int n) {
  s->args = ARENA_NEW_N(p->arena, syntax *, (size_t)n);
  if (s->args == NULL) return parse_out_of_memory(p);
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
static int parse_list(notation_parser *p, token_kind close, const char *accepted, syntax *args[LIMIT_RANK]) {
  int n = 0;
  do {
    if (n == LIMIT_RANK) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d %s", LIMIT_RANK,
                 close == TOKEN_RBRACKET ? "subscripts" : "arguments");
      return -1;
    }
    args[n] = parse_expression(p);
    if (args[n++] == NULL) return -1;
  } while (parse_accept(p, TOKEN_COMMA));
  return parse_expect(p, close, accepted) ? n : -1;
}

syntax *parse_subscripts(notation_parser *p, const token *name) {
  syntax *s = parse_node(p, SYNTAX_SUBSCRIPT, name);
  if (s == NULL) return NULL;
  s->name = name->name;
  syntax *args[LIMIT_RANK + 1];
  int n = 0;
  if (parse_accept(p, TOKEN_DOTS)) {
    s->dots = true;
    if (p->at->kind != TOKEN_RBRACKET && !parse_expect(p, TOKEN_COMMA, "',' or ']' after '...'")) return NULL;
    if (p->at->kind == TOKEN_RBRACKET && p->at[-1].kind == TOKEN_COMMA)
      return parse_fail(p, "a subscript after ','");
  }
  bool closed = parse_accept(p, TOKEN_RBRACKET);
  if (!closed) n = parse_list(p, TOKEN_RBRACKET, "',' or ']' in the subscripts", args);
  return n < 0 ? NULL : node_args(p, s, args, n);
}

/* The value after `else` binds tighter than any operator: "X[i-1] else 0 * W[i]" is (X[i-1] else 0) * W[i].
 */
static syntax *parse_else(notation_parser *p, syntax *read) {
  if (!parse_is_word(p->at, "else")) return read;
  if (!parse_enter(p)) return NULL;
  const token *minus = ++p->at;
  bool negated = parse_accept(p, TOKEN_SUB);
  syntax *value = parse_primary(p);
  p->depth--;
  if (value != NULL && negated) {
    syntax *operand = value;
    value = parse_node(p, SYNTAX_OPERATOR, minus);
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

static syntax *parse_cast(notation_parser *p) {
  syntax *s = parse_node(p, SYNTAX_CAST, p->at++);
  if (s == NULL || !parse_expect(p, TOKEN_LT, "'<' and a dtype: cast<f32>(x)")) return NULL;
  s->name = parse_expect_name(p, "a dtype or a type variable");
  if (s->name == NULL || !parse_expect(p, TOKEN_GT, "'>'") || !parse_expect(p, TOKEN_LPAREN, "'('"))
    return NULL;
  syntax *operand = parse_expression(p);
  if (operand == NULL || !parse_expect(p, TOKEN_RPAREN, "')'")) return NULL;
  return node_args(p, s, &operand, 1);
}

/* "(j)" or "(j: condition)", then the body. Several indices, "sum(c, r,
 * s)", nest; only the last carries the condition. */
static syntax *parse_reduce_at(notation_parser *p, const token *name, ir_reduction r) {
  if (!parse_enter(p)) return NULL;
  syntax *s = parse_node(p, SYNTAX_REDUCE, name);
  if (s == NULL) return NULL;
  s->id = (int)r;
  s->line = p->at->line; /* the index: where faults about its range belong */
  s->column = p->at->column;
  s->name = parse_expect_name(p, "an index");
  if (s->name == NULL) return NULL;
  syntax *args[2] = {NULL, NULL};
  if (parse_accept(p, TOKEN_COMMA)) {
    if (r == IR_RED_ARGMAX || r == IR_RED_ARGMIN) {
      faults_add(p->faults, s->line, s->column, "%s takes one index", notation_reduction_name(r));
      return NULL;
    }
    args[0] = parse_reduce_at(p, name, r);
  } else {
    if (parse_accept(p, TOKEN_COLON) && (args[1] = parse_expression(p)) == NULL) return NULL;
    if (!parse_expect(p, TOKEN_RPAREN, args[1] == NULL ? "')', ':' and a condition, or ','" : "')'"))
      return NULL;
    args[0] = parse_binary(p, notation_reduction_reach(r));
  }
  if (args[0] == NULL) return NULL;
  p->depth--;
  return node_args(p, s, args, args[1] == NULL ? 1 : 2);
}

syntax *parse_reduce(notation_parser *p, ir_reduction r) {
  const token *name = p->at++;
  if (!parse_expect(p, TOKEN_LPAREN, "'(' and an index")) return NULL;
  return parse_reduce_at(p, name, r);
}

/* max and min are functions too: "max(j) X[j]" or "max(j: j < n) X[j]" reduces, "max(a, b)" does not. */
static bool at_reduction(const notation_parser *p, ir_reduction *r) {
  ir_function f;
  const token *t = p->at;
  if (!notation_reduction(t->name, r)) return false;
  if (!notation_function(t->name, &f)) return true;
  return t[1].kind == TOKEN_LPAREN && t[2].kind == TOKEN_NAME &&
         (t[3].kind == TOKEN_RPAREN || t[3].kind == TOKEN_COLON);
}

static syntax *parse_primary(notation_parser *p) {
  const token *t = p->at;
  syntax *s;
  ir_reduction r;
  switch (t->kind) {
  case TOKEN_INT:
  case TOKEN_FLOAT:
    s = parse_node(p, t->kind == TOKEN_INT ? SYNTAX_INT : SYNTAX_FLOAT, p->at++);
    if (s == NULL) return NULL;
    s->integer = t->integer;
    s->number = t->number;
    return s;
  case TOKEN_LPAREN:
    p->at++;
    s = parse_expression(p);
    return s != NULL && parse_expect(p, TOKEN_RPAREN, "')'") ? s : NULL;
  case TOKEN_NAME: break;
  default: return parse_fail(p, "an expression");
  }
  if (parse_is_word(t, "else")) return parse_fail(p, "an expression");
  if (parse_is_word(t, "cast")) return parse_cast(p);
  if (parse_is_word(t, "topk"))
    return parse_fail(p, "an expression (topk stands alone: (V[i,k], I[i,k]) = topk(j) X[i,j])");
  if (at_reduction(p, &r)) return parse_fail(p, "a value; a reduction needs parentheses after else");
  p->at++;
  bool after = parse_accept(p, TOKEN_PRIME);
  if (after && p->at->kind != TOKEN_LBRACKET)
    return parse_fail(p, "'[' and the subscripts of what was written");
  if (parse_accept(p, TOKEN_LBRACKET)) {
    s = parse_subscripts(p, t);
    if (s != NULL) s->after = after;
    return s == NULL ? NULL : parse_else(p, s);
  }
  bool call = parse_accept(p, TOKEN_LPAREN);
  s = parse_node(p, call ? SYNTAX_CALL : SYNTAX_NAME, t);
  if (s == NULL) return NULL;
  s->name = t->name;
  if (!call) return s;
  syntax *args[LIMIT_RANK];
  int n =
      parse_accept(p, TOKEN_RPAREN) ? 0 : parse_list(p, TOKEN_RPAREN, "',' or ')' in the arguments", args);
  return n < 0 ? NULL : node_args(p, s, args, n);
}

static syntax *parse_unary(notation_parser *p) {
  if (!parse_enter(p)) return NULL;
  const token *t = p->at;
  syntax *s;
  ir_reduction r;
  if (t->kind == TOKEN_SUB || t->kind == TOKEN_NOT) {
    p->at++;
    syntax *operand = parse_unary(p);
    s = operand == NULL ? NULL : parse_node(p, SYNTAX_OPERATOR, t);
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

static syntax *parse_binary(notation_parser *p, int least) {
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
    syntax *s = parse_node(p, SYNTAX_OPERATOR, t);
    if (s == NULL) return NULL;
    s->id = (int)o;
    left = node_args(p, s, args, 2);
    previous = o;
  }
  return left;
}

syntax *parse_expression(notation_parser *p) {
  syntax *condition = parse_binary(p, 1);
  const token *t = p->at;
  if (condition == NULL || !parse_accept(p, TOKEN_QUESTION)) return condition;
  if (!parse_enter(p)) return NULL;
  syntax *args[3] = {condition, parse_expression(p), NULL};
  if (args[1] == NULL || !parse_expect(p, TOKEN_COLON, "':' after the value before it")) return NULL;
  args[2] = parse_expression(p);
  p->depth--;
  if (args[2] == NULL) return NULL;
  syntax *s = parse_node(p, SYNTAX_OPERATOR, t);
  if (s == NULL) return NULL;
  s->id = IR_OP_SELECT;
  return node_args(p, s, args, 3);
}
