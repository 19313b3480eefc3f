/* Recursive descent over the whole token list: signatures and definitions. A syntax error ends the parse:
 * what follows it would be guesses. */
#include <string.h>

#include "base/error.h"
#include "ir/notation_parser.h"

/* --- signature ------------------------------------------------------------------------------------------ */

static bool parse_dim(notation_parser *p, syntax_dim *d) {
  *d = (syntax_dim){.factor = 1, .line = p->at->line, .column = p->at->column};
  const token *t = p->at;
  if (parse_accept(p, TOKEN_INT)) {
    d->factor = t->integer;
    if (!parse_accept(p, TOKEN_MUL)) return true;
    d->axis = parse_expect_name(p, "a size symbol after '*'");
  } else {
    d->axis = parse_expect_name(p, "a size: a symbol, an integer, 2*M, M+1, or '...' in front");
    if (d->axis != NULL && parse_accept(p, TOKEN_MUL)) {
      t = p->at;
      if (!parse_expect(p, TOKEN_INT, "an integer after '*'")) return false;
      d->factor = t->integer;
    }
  }
  if (d->axis == NULL || !parse_accept(p, TOKEN_ADD)) return d->axis != NULL;
  t = p->at;
  if (!parse_expect(p, TOKEN_INT, "an integer after '+'")) return false;
  d->more = t->integer;
  return true;
}

/* ": T[M,N]" */
static bool parse_tensor_type(notation_parser *p, syntax_tensor *s) {
  if (!parse_expect(p, TOKEN_COLON, "':' and a type: X: T[M,N]")) return false;
  s->type_line = p->at->line;
  s->type_column = p->at->column;
  s->type = parse_expect_name(p, "a dtype or a type variable");
  if (s->type == NULL || !parse_expect(p, TOKEN_LBRACKET, "'[' and the dimensions")) return false;
  if (parse_accept(p, TOKEN_DOTS)) {
    s->dots = true;
    if (parse_accept(p, TOKEN_RBRACKET)) return true;
    if (!parse_expect(p, TOKEN_COMMA, "',' or ']' after '...'")) return false;
  }
  if (parse_accept(p, TOKEN_RBRACKET)) return true;
  do {
    if (s->rank == LIMIT_RANK) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d dimensions", LIMIT_RANK);
      return false;
    }
    if (!parse_dim(p, &s->dims[s->rank++])) return false;
  } while (parse_accept(p, TOKEN_COMMA));
  return parse_expect(p, TOKEN_RBRACKET, "',' or ']' in the dimensions");
}

static bool is_input(const syntax_operator *o, const char *name) {
  for (int i = 0; i < o->n_inputs; i++)
    if (strcmp(o->inputs[i].name, name) == 0) return true;
  return false;
}

/* "(A, B: T[M,K], C: f32[])": names that share a type are declared one by one. In the outputs a bare name of
 * an input is that input, written in place. */
static int parse_tensors(notation_parser *p, const syntax_operator *inputs,
                         syntax_tensor tensors[LIMIT_TENSORS]) {
  int n = 0;
  if (!parse_expect(p, TOKEN_LPAREN, "'(' and the tensors")) return -1;
  if (parse_accept(p, TOKEN_RPAREN)) return 0;
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
      tensors[n].name = parse_expect_name(p, "a tensor: X: T[M,N]");
      if (tensors[n].name == NULL) return -1;
      in_place =
          inputs != NULL && n == first && is_input(inputs, tensors[n].name) && p->at->kind != TOKEN_COLON;
      n++;
    } while (!in_place && parse_accept(p, TOKEN_COMMA));
    if (in_place) continue;
    if (!parse_tensor_type(p, &tensors[n - 1])) return -1;
    for (int i = first; i < n - 1; i++) {
      syntax_tensor shared = tensors[n - 1];
      shared.name = tensors[i].name;
      shared.line = tensors[i].line;
      shared.column = tensors[i].column;
      tensors[i] = shared;
    }
  } while (parse_accept(p, TOKEN_COMMA));
  return parse_expect(p, TOKEN_RPAREN, "',' or ')' after a tensor") ? n : -1;
}

static bool parse_attr(notation_parser *p, syntax_attr *s) {
  static const char *const KINDS[] = {
      [IR_ATTR_INT] = "int", [IR_ATTR_FLOAT] = "float", [IR_ATTR_BOOL] = "bool", [IR_ATTR_DTYPE] = "dtype"};
  *s = (syntax_attr){.line = p->at->line, .column = p->at->column};
  s->name = parse_expect_name(p, "an attribute, eps: float = 1e-5, or '{'");
  if (s->name == NULL || !parse_expect(p, TOKEN_COLON, "':' and int, float, bool or dtype")) return false;
  size_t kind = 0;
  while (kind < COUNT_OF(KINDS) && !parse_is_word(p->at, KINDS[kind])) kind++;
  if (kind == COUNT_OF(KINDS)) return parse_fail(p, "int, float, bool or dtype") != NULL;
  p->at++;
  s->kind = (ir_attr_kind)kind;
  if (!parse_accept(p, TOKEN_ASSIGN)) return true;
  if (s->kind == IR_ATTR_DTYPE) return (s->type_default = parse_expect_name(p, "a dtype")) != NULL;
  return (s->value = parse_expression(p)) != NULL;
}

/* --- definitions ---------------------------------------------------------------------------------------- */

static syntax *parse_left(notation_parser *p) {
  const token *t = p->at;
  if (parse_expect_name(p, "a definition, Y[i,j] = …, or '}'") == NULL) return NULL;
  if (parse_accept(p, TOKEN_LBRACKET)) return parse_subscripts(p, t);
  syntax *s = parse_node(p, SYNTAX_NAME, t);
  if (s != NULL) s->name = t->name;
  return s;
}

static bool parse_topk(notation_parser *p, syntax_definition *d) {
  if ((d->left = parse_left(p)) == NULL || !parse_expect(p, TOKEN_COMMA, "',' and the second result"))
    return false;
  if ((d->left2 = parse_left(p)) == NULL || !parse_expect(p, TOKEN_RPAREN, "')' after two results"))
    return false;
  if (!parse_expect(p, TOKEN_ASSIGN, "'='")) return false;
  if (!parse_is_word(p->at, "topk")) return parse_fail(p, "topk, which alone has two results") != NULL;
  d->name = d->left->name;
  d->name2 = d->left2->name;
  return (d->value = parse_reduce(p, IR_RED_MAX)) != NULL;
}

static bool parse_definition(notation_parser *p, syntax_definition *d) {
  if (parse_accept(p, TOKEN_LPAREN)) return parse_topk(p, d);
  if ((d->left = parse_left(p)) == NULL) return false;
  d->name = d->left->name;
  d->skips = parse_is_word(p->at, "else");
  if (d->skips && !parse_is_word(++p->at, "skip"))
    return parse_fail(p, "skip: Y[idx[i]] else skip = …") != NULL;
  if (d->skips) p->at++;
  if (parse_accept(p, TOKEN_ADD_ASSIGN)) {
    d->update = IR_ADD;
  } else {
    if (parse_is_word(p->at, "max"))
      d->update = IR_MAX, p->at++;
    else if (parse_is_word(p->at, "min"))
      d->update = IR_MIN, p->at++;
    if (!parse_expect(p, TOKEN_ASSIGN, d->update == IR_ASSIGN ? "'=', '+=', 'max=' or 'min='" : "'='"))
      return false;
  }
  return (d->value = parse_expression(p)) != NULL;
}

static bool parse_definitions(notation_parser *p, syntax_operator *o) {
  int capacity = 8;
  o->definitions = ARENA_NEW_N(p->arena, syntax_definition, (size_t)capacity);
  if (o->definitions == NULL) return parse_out_of_memory(p) != NULL;
  while (!parse_accept(p, TOKEN_RBRACE)) {
    if (o->n_definitions == capacity) {
      syntax_definition *more = ARENA_NEW_N(p->arena, syntax_definition, 2 * (size_t)capacity);
      if (more == NULL) return parse_out_of_memory(p) != NULL;
      memcpy(more, o->definitions, (size_t)capacity * sizeof *more);
      o->definitions = more;
      capacity *= 2;
    }
    if (!parse_definition(p, &o->definitions[o->n_definitions++])) return false;
    if (!parse_accept(p, TOKEN_SEMICOLON) && p->at->kind != TOKEN_RBRACE && p->at->kind != TOKEN_NAME &&
        p->at->kind != TOKEN_LPAREN)
      return parse_fail(p, "an operator, the next definition or '}'") != NULL;
  }
  return true;
}

static bool parse_operator(notation_parser *p, syntax_operator *o) {
  o->line = p->at->line;
  o->column = p->at->column;
  o->name = parse_expect_name(p, "the operator's name");
  if (o->name == NULL) return false;
  if ((o->n_inputs = parse_tensors(p, NULL, o->inputs)) < 0) return false;
  if (!parse_expect(p, TOKEN_ARROW, "'->' and the outputs")) return false;
  if ((o->n_outputs = parse_tensors(p, o, o->outputs)) < 0) return false;
  while (!parse_accept(p, TOKEN_LBRACE)) {
    if (o->n_attrs == LIMIT_ATTRS) {
      faults_add(p->faults, p->at->line, p->at->column, "more than %d attributes", LIMIT_ATTRS);
      return false;
    }
    if (!parse_attr(p, &o->attrs[o->n_attrs++])) return false;
    parse_accept(p, TOKEN_COMMA);
  }
  return parse_definitions(p, o) && parse_expect(p, TOKEN_END, "the end of the text after '}'");
}

syntax_operator *notation_parse(arena *a, const char *text, faults *f) {
  notation_parser p = {a, f, notation_lex(a, text, f), 0};
  if (p.at == NULL) return NULL;
  syntax_operator *o = ARENA_NEW(a, syntax_operator);
  if (o == NULL) return parse_out_of_memory(&p);
  return parse_operator(&p, o) ? o : NULL;
}
