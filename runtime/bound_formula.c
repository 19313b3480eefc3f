/* The default of an attribute as a formula over sizes, "1.0 / sqrt(D)", in the operator's canonical text.
 * What defaults are written with is read here, so that the runtime needs no part of the notation; all else
 * says that the value must be given. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "runtime/call.h"

/* X(name, arguments, value of x and y, whole numbers stay whole) */
#define FORMULA_FUNCTIONS(X)                                                                                 \
  X(sqrt, 1, sqrt(x), false)                                                                                 \
  X(rsqrt, 1, 1.0 / sqrt(x), false)                                                                          \
  X(recip, 1, 1.0 / x, false)                                                                                \
  X(exp, 1, exp(x), false)                                                                                   \
  X(exp2, 1, exp2(x), false)                                                                                 \
  X(log, 1, log(x), false)                                                                                   \
  X(log2, 1, log2(x), false)                                                                                 \
  X(pow, 2, pow(x, y), false)                                                                                \
  X(abs, 1, fabs(x), true)                                                                                   \
  X(floor, 1, floor(x), true)                                                                                \
  X(ceil, 1, ceil(x), true)                                                                                  \
  X(min, 2, fmin(x, y), true)                                                                                \
  X(max, 2, fmax(x, y), true)

enum { MOST_NESTED = 32 };

typedef struct number {
  double value;
  bool whole; /* an integer of the notation: `/` and `%` of two round down */
} number;

typedef struct formula {
  const bound_call *bound;
  const char *at;
  int depth;
} formula;

static bool read_sum(formula *f, number *n);

static void skip_space(formula *f) {
  while (*f->at == ' ') f->at++;
}

static bool accept(formula *f, char c) {
  skip_space(f);
  if (*f->at != c) return false;
  f->at++;
  return true;
}

static bool read_number(formula *f, number *n) {
  char digits[32];
  size_t length = strspn(f->at, "0123456789.");
  if (f->at[length] == 'e') {
    size_t sign = f->at[length + 1] == '-' || f->at[length + 1] == '+';
    length += 1 + sign + strspn(f->at + length + 1 + sign, "0123456789");
  }
  if (length >= sizeof digits) return false;
  memcpy(digits, f->at, length);
  digits[length] = '\0';
  f->at += length;
  n->whole = strpbrk(digits, ".e") == NULL;
  return text_to_f64(digits, &n->value);
}

static bool apply(const char *name, size_t length, int n_args, const number *args, number *n) {
  double x = args[0].value, y = args[1].value;
  (void)y;
  bool whole = args[0].whole && (n_args < 2 || args[1].whole);
#define X(word, arguments, expression, keeps)                                                                \
  if (strlen(#word) == length && memcmp(#word, name, length) == 0 && n_args == (arguments)) {                \
    *n = (number){expression, (keeps) && whole};                                                             \
    return true;                                                                                             \
  }
  FORMULA_FUNCTIONS(X)
#undef X
  return false;
}

static bool read_name(formula *f, number *n) {
  const char *name = f->at;
  size_t length = 0;
  while (isalnum((unsigned char)name[length]) || name[length] == '_') length++;
  f->at += length;
  if (!accept(f, '(')) {
    const bound_name *b = bound_find(f->bound, name, length);
    if (b == NULL || b->kind != BOUND_AXIS) return false;
    *n = (number){(double)b->size, true};
    return true;
  }
  number args[2] = {0};
  int n_args = 0;
  do {
    if (n_args == 2 || !read_sum(f, &args[n_args++])) return false;
  } while (accept(f, ','));
  return accept(f, ')') && apply(name, length, n_args, args, n);
}

static bool read_atom(formula *f, number *n) {
  skip_space(f);
  if (accept(f, '-')) {
    if (++f->depth > MOST_NESTED || !read_atom(f, n)) return false;
    f->depth--;
    n->value = -n->value;
    return true;
  }
  if (isdigit((unsigned char)*f->at)) return read_number(f, n);
  if (isalpha((unsigned char)*f->at)) return read_name(f, n);
  return accept(f, '(') && read_sum(f, n) && accept(f, ')');
}

static bool divide(number *x, const number *y, bool remainder) {
  bool whole = x->whole && y->whole;
  if (whole && y->value == 0) return false;
  double quotient = x->value / y->value;
  if (remainder)
    x->value -= floor(quotient) * y->value;
  else
    x->value = whole ? floor(quotient) : quotient;
  x->whole = whole;
  return true;
}

static bool read_product(formula *f, number *n) {
  if (!read_atom(f, n)) return false;
  for (;;) {
    number y;
    bool times = accept(f, '*'), over = !times && accept(f, '/'), rest = !times && !over && accept(f, '%');
    if (!times && !over && !rest) return true;
    if (!read_atom(f, &y)) return false;
    if (!times && !divide(n, &y, rest)) return false;
    if (times) *n = (number){n->value * y.value, n->whole && y.whole};
  }
}

static bool read_sum(formula *f, number *n) {
  if (++f->depth > MOST_NESTED || !read_product(f, n)) return false;
  for (;;) {
    number y;
    bool plus = accept(f, '+'), minus = !plus && accept(f, '-');
    if (!plus && !minus) break;
    if (!read_product(f, &y)) return false;
    *n = (number){plus ? n->value + y.value : n->value - y.value, n->whole && y.whole};
  }
  f->depth--;
  return true;
}

bool bound_formula(const bound_call *b, const char *text, double *value) {
  formula f = {.bound = b, .at = text};
  number n;
  if (!read_sum(&f, &n)) return false;
  skip_space(&f);
  *value = n.value;
  return *f.at == '\0';
}
