#include <inttypes.h>
#include <string.h>

#include "recipe/recipe.h"

#define STAGE "recipe"

#define X(NAME, text, arity) {text, arity},
static const struct {
  const char *text;
  int arity;
} OPS[] = {RECIPE_OPS(X)};
#undef X

static recipe_expr *new_expr(arena *a, recipe_op op) {
  recipe_expr *e = ARENA_NEW(a, recipe_expr);
  if (e != NULL) e->op = op;
  return e;
}

const recipe_expr *recipe_const(arena *a, int64_t value) {
  recipe_expr *e = new_expr(a, RECIPE_CONST);
  if (e != NULL) e->value = value;
  return e;
}

const recipe_expr *recipe_var(arena *a, const char *name) {
  if (name == NULL) return NULL;
  recipe_expr *e = new_expr(a, RECIPE_VAR);
  if (e == NULL) return NULL;
  e->name = arena_strdup(a, name);
  return e->name == NULL ? NULL : e;
}

const recipe_expr *recipe_binary(arena *a, recipe_op op, const recipe_expr *x, const recipe_expr *y) {
  if (x == NULL || y == NULL || OPS[op].arity != 2) return NULL;
  recipe_expr *e = new_expr(a, op);
  if (e == NULL) return NULL;
  e->args[0] = x;
  e->args[1] = y;
  return e;
}

/* How tightly the printed form binds: sums 1, products 2, atoms and calls 3. */
static int precedence(recipe_op op) {
  switch (op) {
  case RECIPE_ADD:
  case RECIPE_SUB: return 1;
  case RECIPE_MUL:
  case RECIPE_DIV:
  case RECIPE_MOD: return 2;
  default: return 3;
  }
}

static void print_operand(strbuf *out, const recipe_expr *e, int least) {
  bool parentheses = precedence(e->op) < least;
  if (parentheses) strbuf_add(out, "(");
  recipe_expr_print(out, e);
  if (parentheses) strbuf_add(out, ")");
}

void recipe_expr_print(strbuf *out, const recipe_expr *e) {
  if (e->op == RECIPE_CONST) {
    strbuf_addf(out, "%" PRId64, e->value);
  } else if (e->op == RECIPE_VAR) {
    strbuf_add(out, e->name);
  } else if (precedence(e->op) == 3) {
    strbuf_addf(out, "%s(", OPS[e->op].text);
    recipe_expr_print(out, e->args[0]);
    strbuf_add(out, ", ");
    recipe_expr_print(out, e->args[1]);
    strbuf_add(out, ")");
  } else {
    print_operand(out, e->args[0], precedence(e->op));
    strbuf_addf(out, " %s ", OPS[e->op].text);
    print_operand(out, e->args[1], precedence(e->op) + 1);
  }
}

static arke_status evaluation_error(const recipe_expr *e, int64_t x, int64_t y, const char *what,
                                    arke_error *err) {
  strbuf text = STRBUF_INIT;
  recipe_expr_print(&text, e);
  arke_status status =
      error_set(err, ARKE_ERR_INVALID, STAGE, "%s in \"%s\" with operands %" PRId64 " and %" PRId64, what,
                strbuf_text(&text), x, y);
  strbuf_free(&text);
  return status;
}

static arke_status apply(const recipe_expr *e, int64_t x, int64_t y, int64_t *value, arke_error *err) {
  bool overflow = false;
  switch (e->op) {
  case RECIPE_ADD: overflow = __builtin_add_overflow(x, y, value); break;
  case RECIPE_SUB: overflow = __builtin_sub_overflow(x, y, value); break;
  case RECIPE_MUL: overflow = __builtin_mul_overflow(x, y, value); break;
  case RECIPE_DIV:
  case RECIPE_MOD:
  case RECIPE_CEILDIV:
    if (y == 0) return evaluation_error(e, x, y, "division by zero", err);
    if (x < 0 || y < 0) return evaluation_error(e, x, y, "division of a negative number", err);
    *value = e->op == RECIPE_MOD ? x % y : x / y + (e->op == RECIPE_CEILDIV && x % y != 0);
    break;
  case RECIPE_MIN: *value = x < y ? x : y; break;
  case RECIPE_MAX: *value = x > y ? x : y; break;
  default: return error_set(err, ARKE_ERR_INTERNAL, STAGE, "expression node %d is no operation", (int)e->op);
  }
  return overflow ? evaluation_error(e, x, y, "64-bit overflow", err) : ARKE_OK;
}

arke_status recipe_expr_eval(const recipe_expr *e, const recipe_binding *env, int n_env, int64_t *value,
                             arke_error *err) {
  if (e == NULL) return error_set(err, ARKE_ERR_INVALID, STAGE, "an expression is missing");
  if (e->op == RECIPE_CONST) {
    *value = e->value;
    return ARKE_OK;
  }
  if (e->op == RECIPE_VAR) {
    for (int i = 0; i < n_env; i++)
      if (strcmp(env[i].name, e->name) == 0) {
        *value = env[i].value;
        return ARKE_OK;
      }
    return error_set(err, ARKE_ERR_INVALID, STAGE, "unknown variable \"%s\" in an expression", e->name);
  }
  int64_t x, y;
  TRY(recipe_expr_eval(e->args[0], env, n_env, &x, err));
  TRY(recipe_expr_eval(e->args[1], env, n_env, &y, err));
  return apply(e, x, y, value, err);
}
