/* Random operators of several definitions: their forms, as made and merged, evaluate to what the definitions
 * do, and read outside of tensors only where they say so. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/ir/form_interpreter.h"
#include "tests/ir/ir_suites.h"

enum { MOST_INDICES = 40, MOST_TEMPORARIES = 4, M = 3, N = 4, ELEMENTS = 16 };
/* X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N] (positions below M, so gathers stay inside). */

typedef struct maker {
  strbuf text;
  uint64_t seed, counter;
  char scope[MOST_INDICES]; /* the axis of each index that is visible, by name i0, i1, … */
  int visible[MOST_INDICES], n_visible, n_indices;
  int n_temporaries; /* t0[N], t1[M,N], t2[], t3[N] */
} maker;

static int pick(maker *m, int n) {
  return (int)(random_u64(m->seed, m->counter++) % (uint64_t)n);
}

static const char *pick_text(maker *m, const char *const *texts, int n) {
  return texts[pick(m, n)];
}

/* An index over `axis` as it is, mostly; else anything, which may lie outside. */
static void subscript(maker *m, char axis) {
  int same[MOST_INDICES], n = 0;
  for (int i = 0; i < m->n_visible; i++)
    if (m->scope[m->visible[i]] == axis) same[n++] = m->visible[i];
  if (n > 0 && pick(m, 3) > 0) {
    strbuf_addf(&m->text, "i%d", same[pick(m, n)]);
    return;
  }
  int any = m->n_visible > 0 ? m->visible[pick(m, m->n_visible)] : -1;
  bool over_n = any >= 0 && m->scope[any] == 'N';
  switch (any < 0 ? 0 : pick(m, 6)) {
  case 0: strbuf_addf(&m->text, "%d", pick(m, axis == 'M' ? M : N)); break;
  case 1: strbuf_addf(&m->text, "i%d + %d", any, pick(m, 2)); break;
  case 2: strbuf_addf(&m->text, "i%d - 1", any); break;
  case 3: strbuf_addf(&m->text, over_n ? "P[i%d]" : "i%d / 2", any); break;
  case 4: strbuf_addf(&m->text, "(2 * i%d + 1) %% %c", any, axis); break;
  default: strbuf_addf(&m->text, "%c - 1 - i%d", axis, any); break;
  }
}

static void expression(maker *m, int depth);

static void read(maker *m, int depth) {
  static const struct {
    const char *name, *axes;
  } TENSORS[] = {{"X", "MN"}, {"Q", "NN"},  {"V", "N"}, {"U", "M"},
                 {"t0", "N"}, {"t1", "MN"}, {"t2", ""}, {"t3", "N"}};
  int t = pick(m, 4 + m->n_temporaries);
  strbuf_add(&m->text, TENSORS[t].name);
  const char *axes = TENSORS[t].axes;
  if (*axes == '\0') return;
  strbuf_add(&m->text, "[");
  for (int i = 0; axes[i] != '\0'; i++) {
    if (i > 0) strbuf_add(&m->text, ",");
    subscript(m, axes[i]);
  }
  strbuf_add(&m->text, "]");
  if (pick(m, 3) > 0) return;
  strbuf_add(&m->text, " else (");
  expression(m, depth - 1);
  strbuf_add(&m->text, ")");
}

/* Bounded by the read that comes first, whatever else there is. */
static void reduce(maker *m, int depth) {
  static const char *const KINDS[] = {"sum", "max", "min", "sum", "argmax", "any"};
  static const char *const BOUNDS_N[] = {"V[i%d]", "Q[0,i%d]", "X[M-1,i%d]"};
  if (m->n_indices >= MOST_INDICES) {
    strbuf_add(&m->text, "2");
    return;
  }
  int index = m->n_indices++;
  m->scope[index] = pick(m, 3) > 0 ? 'N' : 'M';
  strbuf_addf(&m->text, "(%s(i%d", pick_text(m, KINDS, 6), index);
  m->visible[m->n_visible++] = index;
  if (pick(m, 3) == 0) {
    strbuf_add(&m->text, ": ");
    expression(m, depth - 1);
    strbuf_add(&m->text, " > ");
    expression(m, 0);
  }
  strbuf_add(&m->text, ") (");
  strbuf_addf(&m->text, m->scope[index] == 'M' ? "U[i%d]" : BOUNDS_N[pick(m, 3)], index);
  strbuf_add(&m->text, pick(m, 2) ? " - " : " * ");
  expression(m, depth - 1);
  strbuf_add(&m->text, "))");
  m->n_visible--;
}

static void expression(maker *m, int depth) {
  static const char *const OPERATORS[] = {" + ", " - ", " * ", " < ", " == ", " && ", " || "};
  if (depth <= 0) {
    int what = pick(m, 4);
    if (what == 0)
      strbuf_addf(&m->text, "%d", pick(m, 4));
    else if (what == 1 && m->n_visible > 0)
      strbuf_addf(&m->text, "i%d", m->visible[pick(m, m->n_visible)]);
    else
      read(m, 0);
    return;
  }
  switch (pick(m, 6)) {
  case 0: read(m, depth); break;
  case 1: reduce(m, depth); break;
  case 2:
    strbuf_add(&m->text, "(");
    expression(m, depth - 1);
    strbuf_add(&m->text, " > 0 ? ");
    expression(m, depth - 1);
    strbuf_add(&m->text, " : ");
    expression(m, depth - 1);
    strbuf_add(&m->text, ")");
    break;
  case 3:
    strbuf_add(&m->text, pick(m, 2) ? "where(flag || n > 2, " : "where(flag, ");
    expression(m, depth - 1);
    strbuf_add(&m->text, ", ");
    expression(m, depth - 1);
    strbuf_add(&m->text, ")");
    break;
  default:
    strbuf_add(&m->text, "(");
    expression(m, depth - 1);
    strbuf_add(&m->text, pick_text(m, OPERATORS, 7));
    expression(m, depth - 1);
    strbuf_add(&m->text, ")");
  }
}

static void definition(maker *m, const char *name, const char *axes) {
  m->n_visible = m->n_indices = 0;
  strbuf_add(&m->text, name);
  for (int i = 0; axes[i] != '\0'; i++) {
    m->scope[m->n_indices] = axes[i];
    m->visible[m->n_visible++] = m->n_indices;
    strbuf_addf(&m->text, i == 0 ? "[i%d" : ",i%d", m->n_indices++);
  }
  strbuf_add(&m->text, *axes == '\0' ? " = " : "] = ");
  expression(m, pick(m, 5));
  /* What a temporary ranges over follows from its reads. */
  if (axes[0] == 'M') strbuf_add(&m->text, " + 0 * U[i0]");
  if (axes[0] == 'N') strbuf_add(&m->text, " + 0 * V[i0]");
  if (axes[0] != '\0' && axes[1] == 'N') strbuf_add(&m->text, " + 0 * V[i1]");
  strbuf_add(&m->text, ";\n");
}

static void make_operator(maker *m) {
  static const char *const NAMES[] = {"t0", "t1", "t2", "t3"}, *const AXES[] = {"N", "MN", "", "N"};
  strbuf_add(&m->text,
             "f(X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N]) -> (Y: T[M,N], Z: T[N,N], s: T[]) "
             "flag: bool = false, n: int = 3 {\n");
  int n = pick(m, MOST_TEMPORARIES + 1);
  for (m->n_temporaries = 0; m->n_temporaries < n; m->n_temporaries++)
    definition(m, NAMES[m->n_temporaries], AXES[m->n_temporaries]);
  definition(m, "Y", "MN");
  definition(m, "Z", "NN");
  definition(m, "s", "");
  strbuf_add(&m->text, "}");
}

typedef struct inputs {
  double floats[4][ELEMENTS];
  int64_t positions[N];
  ir_data data[LIMIT_TENSORS];
} inputs;

static void fill(inputs *in, uint64_t seed) {
  for (int t = 0; t < 4; t++) {
    for (int i = 0; i < ELEMENTS; i++)
      in->floats[t][i] = (double)(random_u64(seed, (uint64_t)(1000 + t * ELEMENTS + i)) % 7) - 3;
    in->data[t] = (ir_data){in->floats[t], {t < 2 ? N : 1, 1}};
  }
  for (int i = 0; i < N; i++) in->positions[i] = (int64_t)(random_u64(seed, (uint64_t)(2000 + i)) % M);
  in->data[4] = (ir_data){in->positions, {1}};
}

static bool same(double x, double y) {
  return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-9 * fmax(fabs(x), fabs(y));
}

/* Elements compared; the evaluator refuses those that read outside by the caller's fault. */
static int compare(const maker *m, const ir_form *form, ir_evaluator *ev, const inputs *in) {
  const ir_problem *p = form->problem;
  int compared = 0;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *access = &form->accesses[form->outputs[o].access];
    int64_t shape[LIMIT_RANK], coords[LIMIT_RANK] = {0};
    int rank = ir_tensor_shape(p, access->tensor, shape);
    for (int64_t left = ir_tensor_elements(p, access->tensor); left > 0; left--) {
      arke_error ignored = ARKE_ERROR_INIT;
      double expected;
      if (ir_evaluator_eval(ev, access->tensor, coords, &expected, NULL, &ignored) == ARKE_OK) {
        form_interpreter s = {.form = form, .outside = -1};
        for (int t = 0; t < p->op->n_inputs; t++) s.data[t] = in->data[t].data;
        int64_t at = 0;
        for (int d = 0; d < rank; d++) at = at * shape[d] + coords[d];
        /* Left sides are plain: the last loop is the fastest. */
        for (int i = access->n - 1; i >= 0; i--) {
          int64_t extent = ir_form_extent(form, access->subscripts[i].e->id);
          s.loops[access->subscripts[i].e->id] = at % extent;
          at /= extent;
        }
        double got = form_float(form_evaluate(&s, form->outputs[o].value));
        ck_assert_msg(s.outside < 0, "seed %llu: reads outside\n%s", (unsigned long long)m->seed,
                      strbuf_text(&m->text));
        ck_assert_msg(same(got, expected), "seed %llu: element %lld of %s is %g, expected %g\n%s",
                      (unsigned long long)m->seed, (long long)left, p->op->tensors[access->tensor].name, got,
                      expected, strbuf_text(&m->text));
        compared++;
      }
      for (int d = rank - 1; d >= 0 && ++coords[d] == shape[d]; d--) coords[d] = 0;
    }
  }
  return compared;
}

START_TEST(forms_mean_their_operators) {
  int compared = 0, refused = 0;
  for (uint64_t seed = (uint64_t)_i * 300; seed < (uint64_t)(_i + 1) * 300; seed++) {
    maker m = {.seed = seed};
    make_operator(&m);
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *op;
    ir_problem p;
    inputs in = {.positions = {0}};
    fill(&in, seed);
    ir_evaluator *ev = NULL;
    ir_form form, merged;
    if (ir_op_parse(&a, strbuf_text(&m.text), &op, &err) != ARKE_OK ||
        ir_problem_bind(op, pick(&m, 2) ? "T=f64 M=3 N=4" : "T=f64 M=3 N=4 flag=true n=2", &p, &err) !=
            ARKE_OK ||
        ir_form_make(&p, &a, &form, &err) != ARKE_OK) {
      refused++;
    } else {
      ck_assert_int_eq(ir_evaluator_create(&p, in.data, &ev, &err), ARKE_OK);
      compared += compare(&m, &form, ev, &in);
      ck_assert_msg(ir_form_merge(&form, &a, &merged, &err) == ARKE_OK, "%s", err.text);
      compared += compare(&m, &merged, ev, &in);
    }
    ir_evaluator_destroy(ev);
    strbuf_free(&m.text);
    arena_release(&a);
  }
  ck_assert_int_gt(compared, 1000);
  ck_assert_int_lt(refused, 200);
}
END_TEST

/* The same where an axis has one element, with and without its loops. */
START_TEST(forms_without_ones_mean_their_operators) {
  static const char *const SIZES[] = {"T=f64 M=1 N=4 flag=true n=2", "T=f64 M=3 N=1", "T=f64 M=1 N=1"};
  int compared = 0, dropped = 0;
  for (uint64_t seed = (uint64_t)_i * 300; seed < (uint64_t)(_i + 1) * 300; seed++) {
    maker m = {.seed = seed};
    make_operator(&m);
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *op;
    ir_problem p;
    inputs in = {.positions = {0}};
    fill(&in, seed);
    ir_evaluator *ev = NULL;
    ir_form form, longer, merged;
    if (ir_op_parse(&a, strbuf_text(&m.text), &op, &err) == ARKE_OK &&
        ir_problem_bind(op, SIZES[seed % COUNT_OF(SIZES)], &p, &err) == ARKE_OK &&
        ir_form_make(&p, &a, &form, &err) == ARKE_OK) {
      for (int t = 0; t < 2; t++) in.data[t].strides[0] = p.sizes[1];
      ck_assert_int_eq(ir_evaluator_create(&p, in.data, &ev, &err), ARKE_OK);
      ck_assert_msg(ir_form_drop_ones(&form, &a, &longer, &err) == ARKE_OK, "%s", err.text);
      dropped += form.n_loops - longer.n_loops;
      compared += compare(&m, &longer, ev, &in);
      ck_assert_msg(ir_form_merge(&longer, &a, &merged, &err) == ARKE_OK, "%s", err.text);
      compared += compare(&m, &merged, ev, &in);
      ck_assert_msg(ir_form_merge_across_ones(&form, &a, &merged, &err) == ARKE_OK, "%s", err.text);
      compared += compare(&m, &merged, ev, &in);
    }
    ir_evaluator_destroy(ev);
    strbuf_free(&m.text);
    arena_release(&a);
  }
  ck_assert_int_gt(compared, 1000);
  ck_assert_int_gt(dropped, 50);
}
END_TEST

/* Loops that become one, and such that must not. */
START_TEST(merged_forms_mean_their_operators) {
  static const struct {
    const char *text;
    int loops, merged;
  } CASES[] = {
      {"f(X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N]) -> (Y: T[M,N]) "
       "{ Y[i,j] = X[i,j] > 0 ? X[i,j] * X[i,j] : X[i,j] - 1 }",
       2, 1},
      {"f(X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N]) -> (Y: T[N,N], Z: T[M,N]) "
       "{ Y[a,b] = V[P[0]] * Q[a,b] + (sum(k) V[k]); Z[i,j] = X[i,j] }",
       3, 3}, /* the sum binds the first N, and Z walks it with M */
      {"f(X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N]) -> (Y: T[M,N,N], s: T[]) "
       "{ Y[i,j,k] = X[i,P[j]] + Q[j,k]; s = 1 }",
       3, 3},
      {"f(X: T[M,N], Q: T[N,N], V: T[N], U: T[M], P: i64[N]) -> (Y: T[M,N,N]) { Y[i,j,k] = U[i] * Q[j,k] }",
       3, 2},
  };
  maker m = {.seed = 0};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ir_evaluator *ev;
  ir_form form, merged;
  inputs in = {.positions = {0}};
  fill(&in, 5);
  strbuf_add(&m.text, CASES[_i].text);
  ck_assert_msg(ir_op_parse(&a, CASES[_i].text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, "T=f64 M=3 N=4", &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_form_make(&p, &a, &form, &err), ARKE_OK);
  ck_assert_int_eq(ir_form_merge(&form, &a, &merged, &err), ARKE_OK);
  ck_assert_int_eq(form.n_loops, CASES[_i].loops);
  ck_assert_int_eq(merged.n_loops, CASES[_i].merged);
  ck_assert_int_eq(ir_evaluator_create(&p, in.data, &ev, &err), ARKE_OK);
  ck_assert_int_gt(compare(&m, &merged, ev, &in), 8);
  ir_evaluator_destroy(ev);
  strbuf_free(&m.text);
  arena_release(&a);
}
END_TEST

Suite *form_random_suite(void) {
  Suite *s = suite_create("random forms");
  TCase *t = tcase_create("against the evaluator");
  tcase_add_loop_test(t, forms_mean_their_operators, 0, 10);
  tcase_add_loop_test(t, forms_without_ones_mean_their_operators, 0, 4);
  tcase_add_loop_test(t, merged_forms_mean_their_operators, 0, 4);
  suite_add_tcase(s, t);
  return s;
}
