#include <math.h>

#include "ir/ir_functions.h"
#include "ir/reference.h"

/* One loop over the lanes; a and b are the operands' lanes, strides 0 where an operand is the same in all. */
#define EACH(field, expression)                                                                              \
  do {                                                                                                       \
    for (int l = 0; l < n; l++) {                                                                            \
      const ref_lane x = a[l * sa], y = b[l * sb];                                                           \
      out[l].field = (expression);                                                                           \
    }                                                                                                        \
  } while (0)

static bool divide_integers(ref_machine *s, ref_definition *d, ref_node *e, int n) {
  const ref_node *x = e->args[0], *y = e->args[1];
  for (int l = 0; l < n; l++) {
    int64_t dividend = x->v[l * ref_step(x)].i, divisor = y->v[l * ref_step(y)].i;
    if (divisor != 0) {
      e->v[l].i = e->id == IR_OP_DIV ? ir_floor_div(dividend, divisor) : ir_floor_mod(dividend, divisor);
    } else if (e->varying && d->levels[e->scope].dead[l]) {
      e->v[l].i = 0;
    } else {
      strbuf text = STRBUF_INIT;
      ir_expr_print(s->p->op, d->source, e->source, &text);
      error_set(s->err, ARKE_ERR_ARGUMENT, "reference", "integer division by zero (%d:%d) in %s",
                e->source->line, e->source->column, strbuf_text(&text));
      strbuf_free(&text);
      return false;
    }
  }
  return true;
}

static bool integers(ref_machine *s, ref_definition *d, ref_node *e, int n) {
  const ref_node *last = e->args[e->n_args - 1];
  const ref_lane *a = e->args[0]->v, *b = last->v;
  int sa = ref_step(e->args[0]), sb = ref_step(last);
  ref_lane *out = e->v;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: EACH(i, (int64_t)((uint64_t)x.i + (uint64_t)y.i)); break;
  case IR_OP_SUB: EACH(i, (int64_t)((uint64_t)x.i - (uint64_t)y.i)); break;
  case IR_OP_MUL: EACH(i, (int64_t)((uint64_t)x.i * (uint64_t)y.i)); break;
  case IR_OP_NEG:
    for (int l = 0; l < n; l++) out[l].i = (int64_t)(0 - (uint64_t)a[l * sa].i);
    break;
  case IR_OP_DIV:
  case IR_OP_MOD:
    if (!divide_integers(s, d, e, n)) return false;
    break;
  case IR_OP_LT: EACH(i, x.i < y.i); break;
  case IR_OP_LE: EACH(i, x.i <= y.i); break;
  case IR_OP_GT: EACH(i, x.i > y.i); break;
  case IR_OP_GE: EACH(i, x.i >= y.i); break;
  case IR_OP_EQ: EACH(i, x.i == y.i); break;
  case IR_OP_NE: EACH(i, x.i != y.i); break;
  default: break;
  }
  if (e->wraps)
    for (int l = 0; l < n; l++) out[l].i = (int32_t)(uint32_t)(uint64_t)out[l].i;
  return true;
}

static void floats(ref_node *e, int n) {
  const ref_node *last = e->args[e->n_args - 1];
  const ref_lane *a = e->args[0]->v, *b = last->v;
  int sa = ref_step(e->args[0]), sb = ref_step(last);
  ref_lane *out = e->v;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: EACH(f, x.f + y.f); break;
  case IR_OP_SUB: EACH(f, x.f - y.f); break;
  case IR_OP_MUL:
    if (sa == 1 && sb == 1)
      for (int l = 0; l < n; l++) out[l].f = a[l].f * b[l].f;
    else
      EACH(f, x.f * y.f);
    break;
  case IR_OP_DIV: EACH(f, x.f / y.f); break;
  case IR_OP_MOD: EACH(f, ir_float_mod(x.f, y.f)); break;
  case IR_OP_NEG:
    for (int l = 0; l < n; l++) out[l].f = -a[l * sa].f;
    break;
  case IR_OP_LT: EACH(i, x.f < y.f); break;
  case IR_OP_LE: EACH(i, x.f <= y.f); break;
  case IR_OP_GT: EACH(i, x.f > y.f); break;
  case IR_OP_GE: EACH(i, x.f >= y.f); break;
  case IR_OP_EQ: EACH(i, x.f == y.f); break;
  case IR_OP_NE: EACH(i, x.f != y.f); break;
  default: break;
  }
}

/* Errors of a sum's terms carried on: added by + and -, multiplied by * (as relative errors), kept by -x. */
static void magnitudes(ref_node *e, int n) {
  const ref_node *x = e->args[0], *y = e->args[e->n_args - 1];
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_SUB:
    for (int l = 0; l < n; l++) e->m[l] = ref_magnitude(x, l) + ref_magnitude(y, l);
    break;
  case IR_OP_MUL:
    for (int l = 0; l < n; l++) e->m[l] = ref_magnitude(x, l) * ref_magnitude(y, l);
    break;
  case IR_OP_DIV:
    for (int l = 0; l < n; l++) {
      double divisor = fabs(ref_float(y, l)), value = fabs(ref_float(x, l)) / divisor;
      e->m[l] = ref_magnitude(x, l) / divisor +
                value * (ref_magnitude(y, l) / divisor - 1); /* relative errors add up */
    }
    break;
  default:
    for (int l = 0; l < n; l++) e->m[l] = ref_magnitude(x, l);
    break;
  }
}

/* The same of what casts may move: as absolute errors, to first order. */
static void carry_casts(const ref_machine *s, ref_node *e, int n) {
  const ref_node *x = e->args[0], *y = e->args[e->n_args - 1];
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_SUB:
    for (int l = 0; l < n; l++) e->m[l] = ref_extra_of(s, x, l) + ref_extra_of(s, y, l);
    break;
  case IR_OP_MUL: /* what no cast moves may be infinite */
    for (int l = 0; l < n; l++) {
      double mx = ref_extra_of(s, x, l), my = ref_extra_of(s, y, l);
      e->m[l] = (mx > 0 ? mx * fabs(ref_float(y, l)) : 0) + (my > 0 ? my * fabs(ref_float(x, l)) : 0);
    }
    break;
  case IR_OP_DIV:
    for (int l = 0; l < n; l++) {
      double my = ref_extra_of(s, y, l), vx = fabs(ref_float(x, l)), vy = fabs(ref_float(y, l));
      e->m[l] = ref_extra_of(s, x, l) / vy + (my > 0 ? my * vx / (vy * vy) : 0);
    }
    break;
  default:
    for (int l = 0; l < n; l++) e->m[l] = ref_extra_of(s, x, l);
    break;
  }
}

bool ref_eval_arithmetic(ref_machine *s, ref_definition *d, ref_node *e) {
  for (int i = 0; i < e->n_args; i++)
    if (!ref_eval(s, d, e->args[i])) return false;
  int n = ref_count(d, e);
  if (e->args[0]->integer) {
    if (!integers(s, d, e, n)) return false;
  } else {
    floats(e, n);
  }
  if (s->want_m == REF_MAGNITUDES && e->sums) magnitudes(e, n);
  if (s->want_m == REF_CASTS && e->sums) carry_casts(s, e, n);
  return true;
}

/* How far an argument's error scale moves the result: the steepest slope within 2^-12 of it, since a function
 * may bend right there (relu at 0). */
static double carried(ir_function f, const double args[3], int which, double magnitude) {
  double x[3] = {args[0], args[1], args[2]};
  double at = ir_function_apply(f, x[0], x[1], x[2]);
  double farthest = 0;
  for (int sign = -1; sign <= 1; sign += 2) {
    x[which] = args[which] + sign * magnitude * 0x1p-12;
    double moved = fabs(ir_function_apply(f, x[0], x[1], x[2]) - at);
    if (moved > farthest) farthest = moved;
  }
  return isfinite(farthest) ? farthest * 0x1p12 : 0;
}

/* Functions whose results come near 0 lose up to 2^-118 there where results are stored with few digits
 * (generator/gen_math.h): as a magnitude, of which at least 2^-19 is allowed after any sum. What multiplies
 * the result multiplies the loss. */
#define UNDERFLOW 0x1p-99

static bool may_underflow(ir_function f) {
  switch (f) {
  case IR_FN_EXP:
  case IR_FN_EXP2:
  case IR_FN_POW:
  case IR_FN_SIGMOID:
  case IR_FN_SILU:
  case IR_FN_GELU:
  case IR_FN_GELU_TANH:
  case IR_FN_SOFTPLUS: return true;
  default: return false;
  }
}

/* Far to the left gelu is x times the exponential of a large number, whose rounding counts as much in f64 as
 * the result: there the reference is no better than a kernel. */
static void call_magnitudes(const ref_machine *s, ref_node *e, int n) {
  ir_function f = (ir_function)e->id;
  bool casts = s->want_m == REF_CASTS;
  for (int l = 0; l < n; l++) {
    double x[3] = {0, 0, 0}, sum = 0;
    for (int i = 0; i < e->n_args; i++) x[i] = ref_float(e->args[i], l);
    if (f == IR_FN_FMA && !casts) {
      e->m[l] = ref_magnitude(e->args[0], l) * ref_magnitude(e->args[1], l) + ref_magnitude(e->args[2], l);
      continue;
    }
    for (int i = 0; i < e->n_args; i++)
      if (e->args[i]->sums) sum += carried(f, x, i, ref_magnitude(e->args[i], l));
    e->m[l] = sum;
    if (casts) continue;
    double own = fabs(e->v[l].f);
    if (e->doubles && (f == IR_FN_GELU || f == IR_FN_GELU_TANH)) own = fmax(own, fabs(x[0]));
    if (!e->doubles && may_underflow(f)) own = fmax(own, UNDERFLOW);
    e->m[l] = sum > own ? sum : own;
  }
}

bool ref_eval_call(ref_machine *s, ref_definition *d, ref_node *e) {
  const ref_lane *args[3];
  int steps[3];
  for (int i = 0; i < e->n_args; i++)
    if (!ref_eval(s, d, e->args[i])) return false;
  for (int i = 0; i < 3; i++) {
    const ref_node *arg = e->args[i < e->n_args ? i : 0];
    args[i] = arg->v;
    steps[i] = ref_step(arg);
  }
  int n = ref_count(d, e);
  switch ((ir_function)e->id) {
#define X(NAME, name, arity, reference, meaning)                                                             \
  case IR_FN_##NAME:                                                                                         \
    for (int l = 0; l < n; l++) {                                                                            \
      const double x = args[0][l * steps[0]].f, y = args[1][l * steps[1]].f, z = args[2][l * steps[2]].f;    \
      (void)x, (void)y, (void)z;                                                                             \
      e->v[l].f = reference;                                                                                 \
    }                                                                                                        \
    break;
    IR_FUNCTIONS(X)
#undef X
  case IR_FN_COUNT: break;
  }
  if (s->want_m && e->sums) call_magnitudes(s, e, n);
  if (e->integer)
    for (int l = 0; l < n; l++) {
      double v = e->v[l].f;
      e->v[l].i = v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : isnan(v) ? 0 : (int64_t)v;
      if (e->wraps) e->v[l].i = (int32_t)(uint32_t)(uint64_t)e->v[l].i;
    }
  return true;
}
