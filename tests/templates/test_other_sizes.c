/* Kernels that were made for rows of a multiple of what a thread takes at once, asked for rows that have
 * fewer, and lie apart so that each still begins at a multiple: a tuned kernel serves other sizes. Some way
 * of the image is right, or none takes them; nothing outside is touched. */
#include <check.h>

#include "template_cases.h"

static const char join[] = "j(X: T[M,N], Z: T[N,M]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] + Z[j,i] }";

/* An operator, the sizes it is tuned for, and others. */
static const struct {
  const char *template, *op, *made_for, *settings, *others[3];
} cases[] = {
    {"column", "reduce_sum_columns", "T=bf16 M=96 N=200", "VECTOR=4", {"T=bf16 M=5 N=127", "T=bf16 M=0 N=5"}},
    {"column", "reduce_max_columns", "T=f32 M=96 N=200", "VECTOR=2", {"T=f32 M=5 N=127", "T=f32 M=1 N=1"}},
    {"transpose", "transpose", "T=f32 M=64 N=200", "", {"T=f32 M=32 N=31", "T=f32 M=31 N=33"}},
    {"transpose", "transpose", "T=bf16 M=64 N=208", "", {"T=bf16 M=32 N=31", "T=bf16 M=35 N=64"}},
    {"transpose", join, "T=f32 M=64 N=200", "", {"T=f32 M=32 N=31", "T=f32 M=30 N=34"}},
    {"map", "add", "T=bf16 ...=64x256", "", {"T=bf16 ...=5x127", "T=bf16 ...=3x9"}},
    {"row", "softmax", "T=bf16 M=64 N=256", "", {"T=bf16 M=5 N=127", "T=bf16 M=3 N=1"}},
    {"row", "layernorm", "T=f32 B=64 H=256", "", {"T=f32 B=5 H=127", "T=f32 B=3 H=2"}},
    {"scan", "cumsum", "T=f32 M=64 N=256", "", {"T=f32 M=5 N=127", "T=f32 M=3 N=3"}},
    {"topk", "topk", "T=f32 M=64 N=256 K=8", "", {"T=f32 M=5 N=127 K=8", "T=f32 M=3 N=9 K=8"}},
    {"mma", "linear", "T=bf16 M=64 N=64 K=128", "", {"T=bf16 M=63 N=61 K=127", "T=bf16 M=5 N=3 K=1"}},
    {"skinny", "linear", "T=bf16 M=4 N=64 K=256", "", {"T=bf16 M=4 N=61 K=127", "T=bf16 M=4 N=3 K=1"}},
    {"slim", "linear", "T=bf16 M=8 N=128 K=256", "", {"T=bf16 M=8 N=61 K=127", "T=bf16 M=8 N=3 K=9"}},
    {"gemm", "linear", "T=bf16 M=128 N=128 K=128", "", {"T=bf16 M=63 N=61 K=127", "T=bf16 M=5 N=3 K=9"}},
};

enum { PITCH = 16 }; /* elements, a multiple of which rows begin at */

/* Rows of all tensors of several axes lie apart. */
static void pad_rows(const ir_problem *p, run_view *views) {
  for (int t = 0; t < p->op->n_args; t++) {
    int64_t shape[LIMIT_RANK];
    int dims[LIMIT_RANK], rank = ir_tensor_shape(p, t, shape);
    for (int i = 0; i < rank; i++) dims[i] = rank - 1 - i;
    if (rank > 1) run_view_permuted(p, t, dims, (PITCH - shape[rank - 1] % PITCH) % PITCH, &views[t]);
  }
}

START_TEST(rows_of_other_lengths) {
  arena a = ARENA_INIT;
  const kernel_template *k = template_find(cases[_i].template);
  const char *text = template_text_of(cases[_i].op);
  template_case made = template_case_bind(&a, k, text, cases[_i].made_for, cases[_i].settings), other = made;
  lowered l = template_case_lower(&a, &made);
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  int served = 0;
  ck_assert_msg(device_open_emulator(made.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  for (int i = 0; i < (int)COUNT_OF(cases[_i].others) && cases[_i].others[i]; i++) {
    run_view views[LIMIT_TENSORS] = {{0}};
    other.p = template_bind(&a, text, cases[_i].others[i]);
    pad_rows(&other.p, views);
    run_views_result r = run_views(d, &other.p, &l, 2, views, 7, 0);
    ck_assert_msg(r.status == ARKE_OK || r.status == ARKE_ERR_SHAPE, "%s %s: %s", text, cases[_i].others[i],
                  r.err.text);
    served += r.status == ARKE_OK;
    ck_assert_msg(r.wrong == 0 && r.intact, "%s %s, way %d: %s", text, cases[_i].others[i], r.way, r.first);
  }
  ck_assert_int_gt(served, 0);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("rows of other lengths");
  tcase_add_loop_test(tests, rows_of_other_lengths, 0, COUNT_OF(cases));
  return template_tests_run("other sizes", tests);
}
