#include <ctype.h>
#include <string.h>

#include "recipe/recipe.h"

#define STAGE "recipe"

/* The text is untrusted, and evaluation recurses over the tree: a bound on its nodes bounds the stack. */
enum { MAX_NODES = 1000, MAX_DEPTH = LIMIT_EXPR_DEPTH };

typedef struct parser {
  arena *arena;
  const char *text, *at;
  int nodes, depth;
  arke_error *err;
} parser;

static arke_status parse_sum(parser *p, const recipe_expr **e);

static arke_status fail(parser *p, const char *expected) {
  int column = (int)(p->at - p->text) + 1;
  if (*p->at == '\0')
    return error_set(p->err, ARKE_ERR_SYNTAX, STAGE, "\"%s\", column %d: the text ends where %s is expected",
                     p->text, column, expected);
  return error_set(p->err, ARKE_ERR_SYNTAX, STAGE, "\"%s\", column %d: found '%c', expected %s", p->text,
                   column, *p->at, expected);
}

static void skip_space(parser *p) {
  while (*p->at == ' ') p->at++;
}

static bool accept(parser *p, char c) {
  skip_space(p);
  if (*p->at != c) return false;
  p->at++;
  return true;
}

static arke_status expect(parser *p, char c, const char *what) {
  return accept(p, c) ? ARKE_OK : fail(p, what);
}

/* Counts a node and passes on what its builder made. */
static arke_status made(parser *p, const recipe_expr *built, const recipe_expr **e) {
  if (built == NULL) return error_memory(p->err, STAGE);
  if (++p->nodes > MAX_NODES)
    return error_set(p->err, ARKE_ERR_SYNTAX, STAGE, "an expression has more than %d operations", MAX_NODES);
  *e = built;
  return ARKE_OK;
}

static arke_status parse_number(parser *p, const recipe_expr **e) {
  const char *start = p->at;
  bool negative = accept(p, '-');
  if (!isdigit((unsigned char)*p->at)) return fail(p, "a digit");
  int64_t value = 0;
  for (; isdigit((unsigned char)*p->at); p->at++) {
    int digit = *p->at - '0';
    bool overflow = __builtin_mul_overflow(value, 10, &value);
    overflow |= __builtin_add_overflow(value, negative ? -digit : digit, &value);
    if (overflow) {
      p->at = start;
      return fail(p, "a number that fits in 64 bits");
    }
  }
  return made(p, recipe_const(p->arena, value), e);
}

static bool is_name_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static bool find_function(const char *name, size_t length, recipe_op *op) {
#define X(NAME, word, arity)                                                                                 \
  if (arity == 2 && isalpha((unsigned char)word[0]) && strlen(word) == length &&                             \
      memcmp(word, name, length) == 0) {                                                                     \
    *op = RECIPE_##NAME;                                                                                     \
    return true;                                                                                             \
  }
  RECIPE_OPS(X)
#undef X
  return false;
}

static arke_status parse_call(parser *p, recipe_op op, const recipe_expr **e) {
  const recipe_expr *x, *y;
  TRY(expect(p, '(', "'('"));
  TRY(parse_sum(p, &x));
  TRY(expect(p, ',', "','"));
  TRY(parse_sum(p, &y));
  TRY(expect(p, ')', "')'"));
  return made(p, recipe_binary(p->arena, op, x, y), e);
}

static arke_status parse_name(parser *p, const recipe_expr **e) {
  const char *start = p->at;
  while (is_name_char(*p->at)) p->at++;
  size_t length = (size_t)(p->at - start);
  recipe_op op;
  if (find_function(start, length, &op)) return parse_call(p, op, e);
  char name[LIMIT_NAME_BYTES];
  if (length >= sizeof name) {
    p->at = start;
    return fail(p, "a shorter name");
  }
  memcpy(name, start, length);
  name[length] = '\0';
  return made(p, recipe_var(p->arena, name), e);
}

static arke_status parse_atom(parser *p, const recipe_expr **e) {
  skip_space(p);
  if (isdigit((unsigned char)*p->at) || *p->at == '-') return parse_number(p, e);
  if (isalpha((unsigned char)*p->at) || *p->at == '_') return parse_name(p, e);
  if (!accept(p, '(')) return fail(p, "a number, a name or '('");
  TRY(parse_sum(p, e));
  return expect(p, ')', "')'");
}

/* The operator of this precedence at the cursor, consumed; false if there is none. */
static bool accept_operator(parser *p, const char *characters, recipe_op *op) {
  skip_space(p);
  if (*p->at == '\0' || strchr(characters, *p->at) == NULL) return false;
  switch (*p->at++) {
  case '+': *op = RECIPE_ADD; break;
  case '-': *op = RECIPE_SUB; break;
  case '*': *op = RECIPE_MUL; break;
  case '/': *op = RECIPE_DIV; break;
  default: *op = RECIPE_MOD; break;
  }
  return true;
}

static arke_status parse_product(parser *p, const recipe_expr **e) {
  TRY(parse_atom(p, e));
  recipe_op op;
  while (accept_operator(p, "*/%", &op)) {
    const recipe_expr *y;
    TRY(parse_atom(p, &y));
    TRY(made(p, recipe_binary(p->arena, op, *e, y), e));
  }
  return ARKE_OK;
}

static arke_status parse_sum(parser *p, const recipe_expr **e) {
  if (++p->depth > MAX_DEPTH)
    return error_set(p->err, ARKE_ERR_SYNTAX, STAGE, "an expression is nested deeper than %d", MAX_DEPTH);
  TRY(parse_product(p, e));
  recipe_op op;
  while (accept_operator(p, "+-", &op)) {
    const recipe_expr *y;
    TRY(parse_product(p, &y));
    TRY(made(p, recipe_binary(p->arena, op, *e, y), e));
  }
  p->depth--;
  return ARKE_OK;
}

arke_status recipe_expr_parse(arena *a, const char *text, const recipe_expr **expr, arke_error *err) {
  parser p = {.arena = a, .text = text, .at = text, .err = err};
  TRY(parse_sum(&p, expr));
  skip_space(&p);
  return *p.at == '\0' ? ARKE_OK : fail(&p, "an operator or the end");
}
