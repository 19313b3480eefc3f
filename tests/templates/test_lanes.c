/* The evaluator by itself: what index arithmetic it sees through, which accesses it makes wide, and what a
 * template can supply or ask for. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "generator/gen_control.h"
#include "run_views.h"
#include "templates/lanes.h"
#include "templates/lanes_index.h"

/* --- a problem, its form, and a kernel that takes one vector a thread --- */

typedef struct lanes_case {
  ir_problem p;
  ir_form form;
  lanes_options o;
  lanes_args slots;
  arena *a;
  int rows, columns; /* loops; rows -1: none */
  arke_status (*store)(struct lanes_case *c, gen_builder *b, lanes *l, gen_value active, arke_error *err);
  gen_value shared[2]; /* what callbacks give */
} lanes_case;

static void make_case(lanes_case *c, arena *a, const char *text, const char *bindings, int width) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  *c = (lanes_case){.a = a, .rows = -1};
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &c->p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_form_make(&c->p, a, &c->form, &err) == ARKE_OK, "%s", err.text);
  const ir_access *written = &c->form.accesses[c->form.outputs[0].access];
  c->columns = written->subscripts[written->n - 1].e->id;
  if (written->n > 1) c->rows = written->subscripts[0].e->id;
  c->o = (lanes_options){.loop = c->columns, .width = width, .dense = true, .user = c};
  c->o.wide = lanes_wide(&c->form, &c->o);
}

static arke_status store_values(lanes_case *c, gen_builder *b, lanes *l, gen_value active, arke_error *err) {
  (void)b;
  for (int i = 0; i < c->form.n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, c->form.outputs[i].value, values, &n, err));
    TRY(lanes_store(l, i, values, n, active, err));
  }
  return ARKE_OK;
}

static arke_status emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  lanes_case *c = user;
  lanes *l;
  TRY(lanes_create(b, &c->form, &c->o, &c->slots, c->a, &l, err));
  gen_value thread = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), 32), gen_tid_x(b));
  gen_value vectors = gen_udiv(b, lanes_extent(l, c->columns), gen_i32(b, c->o.width));
  gen_value row = gen_udiv(b, thread, vectors), column = gen_urem(b, thread, vectors);
  gen_value rows = c->rows >= 0 ? lanes_extent(l, c->rows) : gen_i32(b, 1);
  gen_value active = gen_compare(b, GEN_ULT, row, rows);
  gen_branch inside;
  gen_if(b, &inside, active, NULL, 0);
  if (c->rows >= 0) lanes_set(l, c->rows, row);
  lanes_set(l, c->columns, gen_mul_imm(b, column, c->o.width));
  for (int i = 0; i < c->form.n_outputs; i++) TRY(lanes_load(l, c->form.outputs[i].value, err));
  arke_status status = c->store ? c->store(c, b, l, NULL, err) : store_values(c, b, l, NULL, err);
  gen_if_end(b, &inside);
  return status;
}

static lowered lower_case(lanes_case *c) {
  arke_error err = ARKE_ERROR_INIT;
  const target *t = target_find("sm_90a", NULL);
  recipe rules = {.n_tensors = c->p.op->n_args};
  kernel_launch launch = {.name = "lanes", .threads = 32, .emit = emit, .user = c, .args = {.a = c->a}};
  lowered l;
  lanes_require(&c->form, &c->o, &rules, c->a);
  lanes_declare(&c->form, &c->o, &launch.args, &c->slots);
  const recipe_expr *threads = kernel_extent(&c->form, c->columns, c->a);
  if (c->rows >= 0)
    threads = recipe_binary(c->a, RECIPE_MUL, threads, kernel_extent(&c->form, c->rows, c->a));
  launch.grid[0] = recipe_binary(c->a, RECIPE_CEILDIV, threads, recipe_const(c->a, 32));
  arke_status status = kernel_lower(&launch, 1, &rules, t, NULL, c->a, &l, &err);
  ck_assert_msg(status == ARKE_OK, "%s: %s", c->p.op->text, err.text);
  return l;
}

static void run_case(lanes_case *c, const lowered *l, const run_view *views) {
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  ck_assert_msg(device_open_emulator("sm_90a", 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views(d, &c->p, l, 2, views, 3, 0);
  ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact, "%s: %s %s", c->p.op->text, r.err.text,
                r.first);
  ck_assert_int_gt(r.elements, 0);
  d->ops->close(d);
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
  return n;
}

/* --- accesses --- */

typedef struct access_case {
  const char *text, *bindings;
  int width;
  const char *instruction;
  int loads; /* of that kind */
} access_case;

static const access_case accesses[] = {
    {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + 1 }", "T=bf16 N=64", 8, "ld.global.nc.v4.b32", 1},
    {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + 1 }", "T=f32 N=64", 8, "ld.global.nc.v4.b32", 2},
    {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + 1 }", "T=i8 N=64", 4, "ld.global.nc.b32", 1},
    /* neighbours come out of the vector that is there */
    {"p(X: T[N]) -> (Y: T[N]) { Y[i] = i % 2 == 0 ? X[i] + X[i+1] : X[i] - X[i-1] }", "T=f32 N=64", 4,
     "ld.global.nc", 1},
    /* half as many lie behind a divided index, all in one under a reversed one */
    {"h(X: T[N], C: T[K]) -> (Y: T[N]) { Y[i] = X[i] * C[i/2 + 0] }", "T=f32 N=64 K=32", 4,
     "ld.global.nc.v2.b32", 1},
    /* a step that is no multiple of the vector */
    {"s(X: T[K]) -> (Y: T[N]) { Y[i] = X[i + 1] }", "T=f32 N=64 K=66", 4, "ld.global.nc.v2.b32", 1},
    /* the row is read once */
    {"r(X: T[M,N], S: T[M]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * S[i] }", "T=f32 M=3 N=64", 4,
     "ld.global.nc.b32", 1},
    /* a gathered row is read by vectors, its index once */
    {"e(W: T[V,N], I: i64[M]) -> (Y: T[M,N]) { Y[i,j] = W[I[i] % V, j] }", "T=bf16 V=7 M=3 N=64", 8,
     "ld.global.nc", 2},
    /* a gathered element is read by itself */
    {"g(X: T[V], I: i32[N]) -> (Y: T[N]) { Y[i] = X[I[i] % V] }", "T=f32 V=7 N=64", 4, "ld.global.nc.b32", 4},
};

START_TEST(accesses_are_as_wide_as_they_line_up) {
  const access_case *x = &accesses[_i];
  arena a = ARENA_INIT;
  lanes_case c;
  make_case(&c, &a, x->text, x->bindings, x->width);
  lowered l = lower_case(&c);
  ck_assert_msg(count(l.ptx, x->instruction) == x->loads, "%s: %d of %s\n%s", x->text,
                count(l.ptx, x->instruction), x->instruction, l.ptx);
  run_case(&c, &l, NULL);
  arena_release(&a);
}
END_TEST

/* --- index arithmetic --- */

START_TEST(conditions_fold_where_sizes_allow) {
  static const struct {
    const char *text, *bindings;
    int truths[4]; /* of the choice's condition, by lane */
  } foldings[] = {
      {"f(X: f32[N]) -> (Y: f32[N]) { Y[i] = i % 2 == 0 ? X[i] : 0.0 }", "N=64", {1, 0, 1, 0}},
      {"f(X: f32[N]) -> (Y: f32[N]) { Y[i] = (i + 1) / 2 % 2 == 1 ? X[i] : 0.0 }", "N=64", {0, 1, 1, 0}},
      {"f(X: f32[N]) -> (Y: f32[N]) { Y[i] = i % 3 == 0 ? X[i] : 0.0 }", "N=64", {-1, -1, -1, -1}},
      {"f(X: f32[N]) -> (Y: f32[N]) { Y[i] = 3 < 4 && i >= 0 - 1 ? X[i] : 0.0 }", "N=64", {-1, -1, -1, -1}},
      {"f(X: f32[N]) -> (Y: f32[N]) { Y[i] = 2 * i + 1 == 2 ? X[i] : 0.0 }", "N=64", {0, 0, 0, 0}},
  };
  arena a = ARENA_INIT;
  lanes_case c;
  make_case(&c, &a, foldings[_i].text, foldings[_i].bindings, 4);
  lanes_scope s = {.form = &c.form, .loop = c.columns, .width = 4, .dense = true};
  const ir_expr *select = c.form.outputs[0].value;
  ck_assert_int_eq(select->id, IR_OP_SELECT);
  for (int lane = 0; lane < 4; lane++)
    ck_assert_int_eq(lanes_truth(&s, select->args[0], lane), foldings[_i].truths[lane]);
  lowered l = lower_case(&c);
  run_case(&c, &l, NULL);
  arena_release(&a);
}
END_TEST

/* d < D / 2 is the same in all lanes if D / 2 is a multiple of them, which is then required. */
START_TEST(what_folding_rests_on_is_required) {
  static const char TEXT[] = "h(X: T[M,2*R]) -> (Y: T[M,2*R]) { Y[i,d] = d < R ? X[i,d+R] : X[i,d-R] }";
  arena a = ARENA_INIT;
  lanes_case c;
  bool found = false;
  make_case(&c, &a, TEXT, "T=f32 M=3 R=8", 4);
  lowered l = lower_case(&c);
  for (int i = 0; i < l.recipe.n_requirements; i++) {
    const recipe_requirement *q = &l.recipe.requirements[i];
    found = found || (q->expr->op == RECIPE_VAR && strcmp(q->expr->name, "R") == 0 && q->divisor == 4);
  }
  ck_assert(found);
  ck_assert_int_eq(count(l.ptx, "ld.global.nc.v4.b32"), 2);
  run_case(&c, &l, NULL);
  make_case(&c, &a, TEXT, "T=f32 M=3 R=6", 4);
  l = lower_case(&c);
  ck_assert_int_eq(count(l.ptx, "ld.global.nc.v4.b32"), 0);
  run_case(&c, &l, NULL);
  arena_release(&a);
}
END_TEST

START_TEST(wide_indices_are_seen) {
  static const struct {
    const char *text, *bindings;
    bool wide;
  } sizes[] = {
      {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] }", "T=i8 N=1000000000", false},
      {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] }", "T=i8 N=2000000000", true},
      {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + i * 7 }", "T=f32 N=1000000", false},
      {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + i * i }", "T=f32 N=1000000", true},
      {"a(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] + i * 5000000000 }", "T=f32 N=2", true},
  };
  arena a = ARENA_INIT;
  lanes_case c;
  make_case(&c, &a, sizes[_i].text, sizes[_i].bindings, 1);
  ck_assert_int_eq(lanes_need_wide_offsets(&c.form), sizes[_i].wide);
  arena_release(&a);
}
END_TEST

/* --- what a template supplies --- */

/* sum(k) X[i,k] stands for the row's number, or with `by_lane` (sum(k) X[k,j]) for the column's. */
static arke_status give_sum(void *user, const ir_expr *e, gen_value *values, arke_error *err) {
  lanes_case *c = user;
  (void)err;
  bool by_lane = ir_form_free(&c->form, e) >> c->columns & 1;
  for (int i = 0; i < (by_lane ? c->o.width : 1); i++) values[i] = c->shared[by_lane ? i % 2 : 0];
  return ARKE_OK;
}

static arke_status store_with_sums(lanes_case *c, gen_builder *b, lanes *l, gen_value active,
                                   arke_error *err) {
  c->shared[0] = gen_f32(b, 2);
  c->shared[1] = gen_f32(b, 2);
  return store_values(c, b, l, active, err);
}

START_TEST(reductions_are_asked_for) {
  static const char *const texts[] = {
      "r(X: T[M,N], O: T[M,K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * sum(k) O[i,k] }",
      "c(X: T[M,N], O: T[K,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * sum(k) O[k,j] }",
  };
  static const double ones[] = {1};
  run_view views[LIMIT_TENSORS] = {{0}, {.values = ones, .n_values = 1}};
  arena a = ARENA_INIT;
  lanes_case c;
  make_case(&c, &a, texts[_i], "T=f32 M=3 N=64 K=2", 4);
  c.o.reduce = give_sum;
  c.store = store_with_sums;
  lowered l = lower_case(&c);
  run_case(&c, &l, views);
  arena_release(&a);
}
END_TEST

/* Elements taken out of one evaluator and given to another: as through shared memory. */
typedef struct passing {
  lanes_case *c;
  int access, n;
  gen_value elements[LANES_MAX];
} passing;

static arke_status give_elements(void *user, int access, gen_value *elements, arke_error *err) {
  passing *p = user;
  (void)err;
  ck_assert_int_eq(access, p->access);
  for (int i = 0; i < p->n; i++) elements[i] = p->elements[i];
  return ARKE_OK;
}

static arke_status store_passed(lanes_case *c, gen_builder *b, lanes *l, gen_value active, arke_error *err) {
  passing p = {.c = c};
  lanes_options o = c->o;
  lanes *second;
  while (c->form.accesses[p.access].tensor != 0) p.access++;
  TRY(lanes_elements(l, p.access, p.elements, &p.n, err));
  ck_assert_int_eq(p.n, c->o.width);
  o.given = UINT64_C(1) << p.access;
  o.read = give_elements;
  o.user = &p;
  TRY(lanes_create(b, &c->form, &o, &c->slots, c->a, &second, err));
  gen_value thread = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), 32), gen_tid_x(b));
  lanes_set(second, c->columns, gen_mul_imm(b, thread, c->o.width));
  return store_values(c, b, second, active, err);
}

START_TEST(elements_can_be_given) {
  static const char *const types[] = {"T=f32", "T=bf16", "T=e4m3", "T=i4", "T=u8", "T=bool"};
  char bindings[32];
  arena a = ARENA_INIT;
  lanes_case c;
  snprintf(bindings, sizeof bindings, "%s N=64", types[_i]);
  make_case(&c, &a, "a(X: T[N]) -> (Y: f32[N]) { Y[i] = X[i] * 2 }", bindings, 8);
  c.store = store_passed;
  lowered l = lower_case(&c);
  run_case(&c, &l, NULL);
  arena_release(&a);
}
END_TEST

/* --- stores --- */

START_TEST(updates_are_atomic) {
  static const char *const types[] = {"T=f32", "T=f16", "T=bf16", "T=f64", "T=i32", "T=i64"};
  char bindings[64];
  arena a = ARENA_INIT;
  lanes_case c;
  run_view views[LIMIT_TENSORS] = {{0}, {.from = 0, .below = 5}};
  snprintf(bindings, sizeof bindings, "%s N=64 K=5", types[_i]);
  make_case(&c, &a, "u(D: T[K], I: i32[N], X: T[N]) -> (D) { D[I[i]] max= X[i] }", bindings, 1);
  c.columns = 0;
  while (!(ir_form_free(&c.form, c.form.outputs[0].value) >> c.columns & 1)) c.columns++;
  c.rows = -1;
  c.o.loop = c.columns;
  c.o.width = 4;
  c.o.wide = lanes_wide(&c.form, &c.o);
  lowered l = lower_case(&c);
  run_case(&c, &l, views);
  arena_release(&a);
}
END_TEST

/* With check_indices a gathered read outside gives 0 and touches nothing. */
START_TEST(indices_are_tested_on_request) {
  static const double indices[] = {0, 1000000, -1, 2, 1e15, 1, -3, 6};
  static const char TEXT[] = "e(W: T[V,N], I: i64[M]) -> (Y: T[M,N]) { Y[i,j] = W[I[i], j] }";
  static const char SAME[] = "e(W: T[V,N], I: i64[M]) -> (Y: T[M,N]) { Y[i,j] = W[I[i], j] else 0 }";
  run_view views[LIMIT_TENSORS] = {{0}, {.values = indices, .n_values = 8}};
  arena a = ARENA_INIT;
  lanes_case c, same;
  make_case(&c, &a, TEXT, "T=bf16 V=7 M=8 N=32", 8);
  c.o.check_indices = true;
  lowered l = lower_case(&c);
  ck_assert_int_eq(count(l.ptx, "ld.global.nc.v4.b32"), 1);
  make_case(&same, &a, SAME, "T=bf16 V=7 M=8 N=32", 8); /* the reference of the same results */
  run_case(&same, &l, views);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("lanes");
  TCase *tests = tcase_create("lanes");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, accesses_are_as_wide_as_they_line_up, 0, (int)COUNT_OF(accesses));
  tcase_add_loop_test(tests, conditions_fold_where_sizes_allow, 0, 5);
  tcase_add_test(tests, what_folding_rests_on_is_required);
  tcase_add_loop_test(tests, wide_indices_are_seen, 0, 5);
  tcase_add_loop_test(tests, reductions_are_asked_for, 0, 2);
  tcase_add_loop_test(tests, elements_can_be_given, 0, 6);
  tcase_add_loop_test(tests, updates_are_atomic, 0, 6);
  tcase_add_test(tests, indices_are_tested_on_request);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
