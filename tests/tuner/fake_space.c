#include "tests/tuner/fake_space.h"

#include <math.h>
#include <stdlib.h>

static const space_param params[] = {
    {"A", "first", 10, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    {"B", "second", 10, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    {"C", "third", 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    {"STAGES", "fourth", 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    {"FAST", "a switch", 2, {0, 1}},
};
static const space table = {"fake", (int)COUNT_OF(params), params};

static template_reason fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t;
  if (p->op->n_args == 3) return TEMPLATE_OK;
  strbuf_add(detail, "three tensors are wanted");
  return TEMPLATE_OPERATOR;
}

static const space *get_space(const target *t) {
  (void)t;
  return &table;
}

static void defaults(const ir_problem *p, const target *t, config *c) {
  (void)p;
  (void)t;
  *c = (config){{5, 5, 4, 4, 0}};
}

static template_reason feasible(const config *c) {
  if (c->values[0] * c->values[1] > 60) return TEMPLATE_SHARED_MEMORY;
  if (c->values[2] == c->values[3] && c->values[2] % 3 == 0) return TEMPLATE_TILE;
  if (c->values[0] == 2 && c->values[1] == 1) return TEMPLATE_REDUNDANT;
  return TEMPLATE_OK;
}

/* Best near A = 8, B = 7 with C = 2, STAGES = 6 and FAST. */
double fake_space_true_ns(const config *c) {
  const int *v = c->values;
  double x =
      1 + 0.010 * (v[0] - 8) * (v[0] - 8) + 0.008 * (v[1] - 7) * (v[1] - 7) + 0.02 * abs(v[0] - v[1] - 1);
  x *= 1 + 0.02 * (v[2] - 2) * (v[2] - 2) / 4.0 + 0.02 * (v[3] - 6) * (v[3] - 6) / 4.0;
  if (!v[4]) x *= 1.12;
  if (v[2] + v[3] == 7) x *= 1.05;
  return 1e5 * x;
}

static double cost_ns(const config *c) {
  const int *v = c->values;
  double x = 1 + 0.010 * (v[0] - 6) * (v[0] - 6) + 0.012 * (v[1] - 6) * (v[1] - 6);
  x *= 1 + 0.02 * (v[2] - 4) * (v[2] - 4) / 4.0 + 0.02 * (v[3] - 4) * (v[3] - 4) / 4.0;
  return 0.8e5 * x;
}

static const void *prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  (void)a;
  return p;
}

static template_reason judge(const void *prepared, const target *t, const target_rates *rates,
                             const config *c, double *ns) {
  (void)prepared;
  (void)t;
  (void)rates;
  *ns = cost_ns(c);
  return feasible(c);
}

const kernel_template fake_space_template = {.name = "fake",
                                             .meaning = "a made-up landscape",
                                             .fits = fits,
                                             .space = get_space,
                                             .defaults = defaults,
                                             .prepare = prepare,
                                             .judge = judge};
static const kernel_template *const list[] = {&fake_space_template};
const tune_templates fake_space_templates = {1, list};

arke_status fake_space_rank(arena *a, tune_candidates *c, ir_problem *p, arke_error *err) {
  const ir_op *op;
  TRY(ir_op_parse(a, ir_catalogue_find("matmul", NULL)->text, &op, err));
  TRY(ir_problem_bind(op, "T=bf16 M=64 N=64 K=64", p, err));
  const target *t = target_get(0);
  return tune_candidates_rank(p, t, &t->rates, &fake_space_templates, c, err);
}
