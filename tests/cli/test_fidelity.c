/* Which configurations the selftest compares between a GPU and the emulator. */
#include <stdlib.h>

#include "generator/target_list.h"
#include "tests/cli/cli_suites.h"
#include "tuner/cli_fidelity.h"

enum { WANTED = 20 };

static const char *const shapes[] = {"2056x1544x72", "1032x3080x136", "264x648x1032"};

typedef struct choice {
  arena memory;
  tune_candidates all;
  const space *space;
  config chosen[WANTED];
  int n;
} choice;

static void choose(choice *c, const char *shape, uint64_t seed) {
  const kernel_template *template = template_find("gemm");
  const tune_templates only = {.count = 1, .list = &template};
  const target *t = target_find("sm_90a", NULL);
  cli_problem p;
  *c = (choice){.memory = ARENA_INIT, .space = template->space(t)};
  ck_assert_int_eq(cli_problem_make(&c->memory, "matmul", shape, "bf16", &p, NULL), ARKE_OK);
  ck_assert_int_eq(tune_candidates_rank(&p.problem, t, &t->rates, &only, &c->all, NULL), ARKE_OK);
  ck_assert_int_eq(cli_fidelity_choose(&c->all, WANTED, seed, c->chosen, &c->n, NULL), ARKE_OK);
}

static void release(choice *c) {
  tune_candidates_release(&c->all);
  arena_release(&c->memory);
}

static int count(const choice *c, const char *param, int value) {
  int n = 0;
  for (int i = 0; i < c->n; i++) n += space_value(c->space, &c->chosen[i], param) == value;
  return n;
}

START_TEST(every_value_is_compared) {
  choice c;
  choose(&c, shapes[_i], 7);
  ck_assert_int_eq(c.n, WANTED);
  for (int i = 0; i < c.space->n_params; i++) {
    const space_param *p = &c.space->params[i];
    for (int v = 0; v < p->n_values; v++) {
      bool feasible = false;
      for (int64_t k = 0; k < c.all.n && !feasible; k++) {
        config point;
        tune_candidate_config(&c.all, k, &point);
        feasible = point.values[i] == p->values[v];
      }
      ck_assert_msg(!feasible || count(&c, p->name, p->values[v]) > 0, "no %s=%d at %s", p->name,
                    p->values[v], shapes[_i]);
    }
  }
  for (int i = 0; i < c.n; i++)
    for (int j = 0; j < i; j++) ck_assert(!config_equal(c.space, &c.chosen[i], &c.chosen[j]));
  release(&c);
}
END_TEST

/* Of a value that one point in fifty has, as many as of others: the random ones alone had one. */
START_TEST(rare_values_are_compared_as_often) {
  choice c;
  choose(&c, "1032x3080x136", 3);
  ck_assert_int_ge(count(&c, "EVEN", 1), WANTED / 5);
  ck_assert_int_ge(count(&c, "SWAP", 1), WANTED / 3);
  ck_assert_int_ge(count(&c, "STREAM_K", 1), WANTED / 5);
  int both = 0;
  for (int i = 0; i < c.n; i++)
    both +=
        space_value(c.space, &c.chosen[i], "EVEN") == 1 && space_value(c.space, &c.chosen[i], "SWAP") == 1;
  ck_assert_int_gt(both, 0);
  release(&c);
}
END_TEST

START_TEST(few_candidates_come_once_each) {
  choice c;
  int n;
  choose(&c, "264x648x1032", 1);
  int64_t all = c.all.n;
  c.all.n = 5;
  ck_assert_int_eq(cli_fidelity_choose(&c.all, WANTED, 1, c.chosen, &n, NULL), ARKE_OK);
  ck_assert_int_eq(n, 5);
  c.all.n = all;
  release(&c);
}
END_TEST

TCase *cli_fidelity_case(void) {
  TCase *c = tcase_create("fidelity");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, every_value_is_compared, 0, (int)(sizeof shapes / sizeof *shapes));
  tcase_add_test(c, rare_values_are_compared_as_often);
  tcase_add_test(c, few_candidates_come_once_each);
  return c;
}
