/* Every template that needs portable instructions alone serves every target: what it makes for a small
 * problem of each kind of dtype is right on an emulated GPU of the target, which knows what the target lacks.
 * sm_90a is what all other tests are for. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/assemble.h"
#include "template_cases.h"

static const char softmax_columns[] =
    "s(X: T[M,N]) -> (Y: T[M,N]) { m[j] = max(i) X[i,j]; s[j] = sum(i) exp(X[i,j] - m[j]);"
    " Y[i,j] = exp(X[i,j] - m[j]) / s[j] }";
static const char doubled[] = "m(X: T[M,N]) -> (Y: U[M,N]) { Y[i,j] = 2 * X[i,j] }";
static const char rows_of[] =
    "r(X: T[M,N]) -> (Y: U[M,N]) { m[i] = max(j) abs(X[i,j]); Y[i,j] = X[i,j] - m[i] }";

/* `index`: an input of places below `below`; NULL: none. */
static const struct {
  const char *template_name, *text, *bindings, *index;
  int below;
} CASES[] = {
    {"map", "silu_and_mul", "T=bf16 B=5 H=67", NULL, 0},
    {"map", "silu_and_mul", "T=f16 B=5 H=64", NULL, 0},
    {"map", "silu_and_mul", "T=f32 B=5 H=64", NULL, 0},
    {"map", doubled, "T=bf16 U=e4m3 M=9 N=64", NULL, 0},
    {"map", doubled, "T=i32 U=bf16 M=9 N=63", NULL, 0},
    {"row", "softmax", "T=bf16 M=3 N=264", NULL, 0},
    {"row", "softmax", "T=f16 M=3 N=61", NULL, 0},
    {"row", "softmax", "T=f32 M=3 N=264", NULL, 0},
    {"row", rows_of, "T=bf16 U=e5m2 M=3 N=264", NULL, 0},
    {"column", "reduce_max_columns", "T=bf16 M=40 N=72", NULL, 0},
    {"column", "reduce_max_columns", "T=f16 M=40 N=72", NULL, 0},
    {"column", "reduce_max_columns", "T=f32 M=40 N=71", NULL, 0},
    {"column", "reduce_max_columns", "T=i8 M=40 N=64", NULL, 0},
    {"scan", "cumsum", "T=bf16 M=3 N=520", NULL, 0},
    {"scan", "cumsum", "T=f16 M=3 N=520", NULL, 0},
    {"scan", "cumsum", "T=f32 M=3 N=521", NULL, 0},
    {"scan", "cumsum", "T=u8 M=3 N=64", NULL, 0},
    {"transpose", "transpose", "T=bf16 M=40 N=72", NULL, 0},
    {"transpose", "transpose", "T=f16 M=41 N=71", NULL, 0},
    {"transpose", "transpose", "T=f32 M=40 N=72", NULL, 0},
    {"transpose", "transpose", "T=e4m3 M=48 N=64", NULL, 0},
    {"scatter", "scatter_add", "T=bf16 M=3 N=40 K=70", "idx", 40},
    {"scatter", "scatter_add", "T=f16 M=3 N=40 K=70", "idx", 40},
    {"scatter", "scatter_add", "T=f32 M=3 N=40 K=70", "idx", 40},
    {"topk", "topk", "T=bf16 M=3 N=200 K=5", NULL, 0},
    {"topk", "topk", "T=f16 M=3 N=200 K=5", NULL, 0},
    {"topk", "topk", "T=f32 M=3 N=201 K=5", NULL, 0},
    {"topk", "topk", "T=i8 M=3 N=200 K=5", NULL, 0},
    {"skinny", "linear", "T=bf16 M=2 N=24 K=136", NULL, 0},
    {"skinny", "linear", "T=f16 M=2 N=24 K=136", NULL, 0},
    {"skinny", "linear", "T=f32 M=2 N=24 K=68", NULL, 0},
    {"skinny", "linear_fp8", "T=e4m3 U=e4m3 V=bf16 M=2 N=24 K=144", NULL, 0},
    {"mma", "linear", "T=bf16 M=40 N=48 K=80", NULL, 0},
    {"mma", "linear", "T=f16 M=37 N=48 K=80", NULL, 0},
    {"mma", "linear", "T=f32 M=40 N=48 K=40", NULL, 0},
    {"mma", "linear_fp8", "T=e4m3 U=e5m2 V=f16 M=40 N=48 K=96", NULL, 0},
    {"mma", "linear_i8", "T=i8 U=i8 M=40 N=48 K=96", NULL, 0},
    {"attend", "grouped_query_attention", "T=bf16 B=1 H=4 G=2 S=9 R=40 D=32 causal=true", NULL, 0},
    {"attend", "grouped_query_attention", "T=f16 B=1 H=4 G=2 S=1 R=80 D=64", NULL, 0},
    {"attend", "grouped_query_fp8_attention", "U=e4m3 T=bf16 B=1 S=3 H=4 G=2 R=40 D=32 E=32", NULL, 0},
    {"backward_warps", "attention_backward", "T=bf16 B=1 H=2 G=1 S=20 R=40 D=32 E=32", NULL, 0},
    {"backward_warps", "attention_backward", "T=f16 B=1 H=2 G=1 S=20 R=40 D=32 E=32", NULL, 0},
    {"compose", softmax_columns, "T=bf16 M=20 N=40", NULL, 0},
    {"compose", softmax_columns, "T=f16 M=20 N=40", NULL, 0},
    {"compose", softmax_columns, "T=f32 M=20 N=40", NULL, 0},
};

/* Small numbers where places add up: 16-bit sums are exact in any order. */
static void fill_views(const template_case *c, const char *index, int below, run_view *views) {
  for (int i = 0; index && i < c->p.op->n_inputs; i++) {
    if (strcmp(c->p.op->tensors[i].name, index) == 0) views[i].below = below;
    if (dtype_bits(ir_tensor_dtype(&c->p, i)) == 16) views[i] = (run_view){.from = -3, .below = 4};
  }
}

static void starts_early_where_it_can(const target *t, const lowered *l) {
  for (const recipe *r = &l->recipe; r; r = r->otherwise)
    for (int i = 0; i < r->n_launches; i++) ck_assert(t->has.early_start || !r->launches[i].early_start);
  ck_assert((strstr(l->ptx, "griddepcontrol.wait") != NULL) == t->has.early_start);
}

static bool is_first_of_its_template(int i) {
  return i == 0 || strcmp(CASES[i].template_name, CASES[i - 1].template_name) != 0;
}

/* What one target's instructions make, another's of the same instructions make as well. */
static bool is_like_a_later_one(int target_number) {
  const target *t = target_get(target_number);
  for (int i = target_number + 1; i < target_count(); i++)
    if (memcmp(&target_get(i)->has, &t->has, sizeof t->has) == 0) return true;
  return false;
}

START_TEST(portable_templates_serve_every_target) {
  const target *t = target_get(_i);
  if (strcmp(t->name, "sm_90a") == 0) return;
  for (int i = 0; i < (int)COUNT_OF(CASES); i++) {
    if (is_like_a_later_one(_i) && !is_first_of_its_template(i)) continue;
    arena a = ARENA_INIT;
    run_view views[LIMIT_TENSORS] = {{0}};
    template_case c = template_case_bind_for(&a, template_find(CASES[i].template_name), t,
                                             template_text_of(CASES[i].text), CASES[i].bindings, "");
    c.sample = 200;
    c.first_way = true;
    fill_views(&c, CASES[i].index, CASES[i].below, views);
    if (is_first_of_its_template(i))
      template_case_run_and_assemble(&a, &c, views, 0);
    else
      template_case_run(&a, &c, views, 0);
    lowered l = template_case_lower(&a, &c);
    starts_early_where_it_can(t, &l);
    arena_release(&a);
  }
}
END_TEST

int main(void) {
  if (assembler_find() != ASSEMBLER_PTXAS)
    fprintf(stderr, "nothing is assembled: there is no ptxas on the path\n");
  TCase *tests = template_tests("targets");
  tcase_add_loop_test(tests, portable_templates_serve_every_target, 0, target_count());
  return template_tests_run("targets", tests);
}
