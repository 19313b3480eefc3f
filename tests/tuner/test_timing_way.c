#include <check.h>
#include <stdlib.h>

#include "tuner/timing_way.h"

/* Sizes and what the H200's rates make of them: cold runs or bursts. */
static const struct {
  const char *op, *bindings;
  bool cold;
} ways[] = {
    {"silu_and_mul", "T=bf16 B=4096 H=4096", true},
    {"reduce_sum", "T=bf16 M=4096 N=4096", true},
    {"softmax", "T=bf16 M=4096 N=4096", true},
    {"flash_attention", "T=bf16 B=32 H=32 S=1 R=4096 D=128", true},
    {"matmul", "T=bf16 M=4096 N=4096 K=4096", false}, /* arithmetic bounds it */
    {"linear", "T=bf16 M=1 N=4096 K=4096", false},    /* a stream of weights */
    {"linear", "T=bf16 M=16 N=28672 K=4096", false},
    {"batch_matmul", "T=bf16 B=64 M=128 N=128 K=64", false},
};

START_TEST(products_run_one_behind_another) {
  arena a = ARENA_INIT;
  ir_problem p;
  const ir_op *op;
  arke_error err = ARKE_ERROR_INIT;
  const target *t = target_find("sm_90a", NULL);
  ck_assert_ptr_nonnull(t);
  ck_assert_msg(ir_op_parse(&a, ir_catalogue_find(ways[_i].op, NULL)->text, &op, &err) == ARKE_OK, "%s",
                err.text);
  ck_assert_msg(ir_problem_bind(op, ways[_i].bindings, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(tune_is_timed_cold(&p, &t->rates) == ways[_i].cold, "%s %s", ways[_i].op, ways[_i].bindings);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *s = suite_create("timing_way");
  TCase *c = tcase_create("timing_way");
  tcase_add_loop_test(c, products_run_one_behind_another, 0, (int)(sizeof ways / sizeof *ways));
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
