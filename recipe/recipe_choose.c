#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "recipe/recipe_call.h"

#define STAGE "plan"

/* --- one tensor ------------------------------------------------------------------------------------- */

static int leading_of(const recipe_tensor *t) {
  return t->leading < 0 ? 0 : t->leading;
}

static arke_status check_address(const recipe_tensor *t, const recipe_tensor_rule *rule, arke_error *err) {
  if (t->address % (uint64_t)rule->alignment == 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_ARGUMENT, STAGE,
                   "tensor %s is at address 0x%" PRIx64 "; expected is a multiple of %d bytes", t->name,
                   t->address, rule->alignment);
}

static arke_status check_contiguous(const recipe_call *c, int tensor, arke_error *err) {
  const recipe_tensor *t = &c->tensors[tensor];
  int64_t stride = 1;
  if (t->rank > leading_of(t))
    stride = t->stride[t->rank - 1];
  else if (t->leading > 0 && c->n_lead > 0)
    stride = c->lead_stride[tensor][0];
  if (stride == 1) return ARKE_OK;
  return error_set(err, ARKE_ERR_SHAPE, STAGE,
                   "the last axis of tensor %s has stride %" PRId64 "; expected is 1 (contiguous)", t->name,
                   stride);
}

static arke_status has_gap(const recipe_tensor *t, const char *axis, int64_t stride, int64_t expected,
                           arke_error *err) {
  return error_set(err, ARKE_ERR_SHAPE, STAGE,
                   "%s of tensor %s has stride %" PRId64 "; expected is %" PRId64 " (no gaps)", axis, t->name,
                   stride, expected);
}

static arke_status check_dense(const recipe_call *c, int tensor, arke_error *err) {
  const recipe_tensor *t = &c->tensors[tensor];
  int64_t expected = 1;
  for (int i = t->rank - 1; i >= leading_of(t); i--) {
    char axis[32];
    snprintf(axis, sizeof axis, "axis %d", i);
    if (t->stride[i] != expected) return has_gap(t, axis, t->stride[i], expected, err);
    expected *= t->shape[i];
  }
  for (int i = 0; i < c->n_lead && t->leading >= 0; i++) {
    if (c->lead_stride[tensor][i] != expected)
      return has_gap(t, "a leading axis", c->lead_stride[tensor][i], expected, err);
    expected *= c->lead[i];
  }
  return ARKE_OK;
}

static arke_status check_tensor(const recipe *r, const recipe_call *c, int i, arke_error *err) {
  const recipe_tensor_rule *rule = &r->tensors[i];
  for (int k = 0; k < c->tensors[i].rank; k++)
    if (c->tensors[i].shape[k] == 0) return ARKE_OK;
  TRY(check_address(&c->tensors[i], rule, err));
  if (rule->contiguous_last) TRY(check_contiguous(c, i, err));
  return rule->dense ? check_dense(c, i, err) : ARKE_OK;
}

/* --- how many leading axes a recipe covers ------------------------------------------------------------ */

/* 1 + the number at the end of "LEAD2" or "X.lead2"; 1 for other names. */
static int covered_by_name(const char *name) {
  const char *dot = strrchr(name, '.');
  const char *text = dot == NULL ? RECIPE_LEADING : "lead", *word = dot == NULL ? name : dot + 1;
  size_t length = strlen(text);
  if (strncmp(word, text, length) != 0 || word[length] < '0' || word[length] > '9') return 1;
  return 1 + word[length] - '0';
}

static int covered_by_expr(const recipe_expr *e) {
  if (e == NULL || e->op == RECIPE_CONST) return 1;
  if (e->op == RECIPE_VAR) return covered_by_name(e->name);
  int x = covered_by_expr(e->args[0]), y = covered_by_expr(e->args[1]);
  return x > y ? x : y;
}

static int larger(int x, int y) {
  return x > y ? x : y;
}

static int covered_by_param(const recipe_param *p) {
  int n = covered_by_expr(p->value);
  bool maps = p->kind == RECIPE_PARAM_TENSORMAP || p->kind == RECIPE_PARAM_WORKSPACE_MAP;
  for (int i = 0; maps && i < p->map.rank; i++) {
    n = larger(n, covered_by_expr(p->map.dim[i]));
    if (i > 0) n = larger(n, covered_by_expr(p->map.stride[i]));
  }
  return n;
}

/* A kernel has no other way to know of an axis than by its parameters. */
static int covered_leading_axes(const recipe *r) {
  int n = 1;
  for (int i = 0; i < r->n_launches; i++)
    for (int k = 0; k < r->launches[i].n_params; k++)
      n = larger(n, covered_by_param(&r->launches[i].params[k]));
  return n;
}

/* A tensor whose leading axes alone are more than one, for the message; else any. */
static const char *example_of(const recipe_call *c) {
  const char *name = "";
  for (int t = 0; t < c->n_tensors; t++) {
    const recipe_tensor *x = &c->tensors[t];
    if (x->leading < 0) continue;
    if (name[0] == '\0') name = x->name;
    for (int i = 0; i + 1 < x->leading; i++)
      if (x->stride[i] != x->stride[i + 1] * x->shape[i + 1]) return x->name;
  }
  return name;
}

static arke_status check_leading(const recipe *r, const recipe_call *c, arke_error *err) {
  int covered = covered_leading_axes(r);
  if (c->n_lead <= covered) return ARKE_OK;
  if (covered == 1)
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "the leading axes of tensor %s do not form one axis with those of the other tensors; "
                     "expected are leading axes without gaps",
                     example_of(c));
  return error_set(err, ARKE_ERR_SHAPE, STAGE,
                   "the leading axes collapse to %d (tensor %s among them); accepted are up to %d", c->n_lead,
                   example_of(c), covered);
}

/* --- the choice ------------------------------------------------------------------------------------- */

static arke_status check_requirement(const recipe_call *c, const recipe_requirement *q, arke_error *err) {
  int64_t value;
  TRY(recipe_call_eval(c, q->expr, &value, err));
  bool holds = q->divisor != 0 ? value % q->divisor == 0 : q->exact ? value == q->max : value <= q->max;
  if (holds) return ARKE_OK;
  const char *wanted = q->divisor != 0 ? "a multiple of " : q->exact ? "" : "at most ";
  strbuf text = STRBUF_INIT;
  recipe_expr_print(&text, q->expr);
  arke_status status =
      error_set(err, ARKE_ERR_SHAPE, STAGE, "%s is %" PRId64 "; expected is %s%" PRId64 " (%s)",
                strbuf_text(&text), value, wanted, q->divisor != 0 ? q->divisor : q->max, q->why);
  strbuf_free(&text);
  return status;
}

static arke_status check(const recipe *r, const recipe_call *c, arke_error *err) {
  if (r->n_tensors != c->n_tensors)
    return error_set(err, ARKE_ERR_CORRUPT, STAGE,
                     "the stored recipe is for %d tensors, the signature has %d", r->n_tensors, c->n_tensors);
  for (int i = 0; i < c->n_tensors; i++) TRY(check_tensor(r, c, i, err));
  TRY(check_leading(r, c, err));
  for (int i = 0; i < r->n_requirements; i++) TRY(check_requirement(c, &r->requirements[i], err));
  return ARKE_OK;
}

arke_status recipe_choose(const recipe *r, const recipe_call *c, const recipe **chosen, arke_error *err) {
  arke_error first = ARKE_ERROR_INIT, last = ARKE_ERROR_INIT;
  int n = 0;
  for (; r != NULL && n <= RECIPE_MAX_OTHERWISE; r = r->otherwise, n++) {
    error_clear(&last);
    arke_status status = check(r, c, &last);
    if (status == ARKE_OK) {
      *chosen = r;
      return ARKE_OK;
    }
    if (n == 0) first = last;
    if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  }
  if (n <= 1 || strcmp(first.text, last.text) == 0)
    return error_set(err, first.code, STAGE, "%s", first.text);
  return error_set(err, first.code, STAGE, "%.1000s; and for the last of %d kernels: %.900s", first.text, n,
                   last.text);
}
