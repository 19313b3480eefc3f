/* Every class of gemm configuration on the emulator against the fp64 reference: sizes from one element to
 * several ragged tiles, outputs poisoned, padded rows and guard zones checked. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "emulator/emulator.h"
#include "gemm_classes.h"
#include "run_lowered.h"

enum { RANDOM_POINTS = 40 };

/* Axes whose rows must be aligned take multiples of 8; the others anything. */
static const int64_t free_sizes[] = {1, 7, 8, 17, 63, 64, 65, 129, 200, 257};
static const int64_t aligned_sizes[] = {8, 64, 136, 200, 264};

static lowered lower(arena *a, const gemm_setup *s) {
  arke_error err = ARKE_ERROR_INIT;
  lowered l;
  ck_assert_msg(s->gemm->lower(&s->p, s->t, &s->c, NULL, a, &l, &err) == ARKE_OK, "%s", err.text);
  return l;
}

static void expect_right(const gemm_setup *s, const lowered *l, int sm_count, int64_t padding,
                         uint64_t seed) {
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  ck_assert_msg(device_open_emulator(s->t->name, seed, &d, &err) == ARKE_OK, "%s", err.text);
  emu_set_sm_count(d, sm_count);
  run_outcome o = run_lowered(d, &s->p, l, sm_count, padding, seed, 3000);
  strbuf what = STRBUF_INIT;
  config_print(s->gemm->space(s->t), &s->c, &what);
  strbuf_add(&what, " ");
  ir_problem_print_bindings(&s->p, &what);
  ck_assert_msg(o.status == ARKE_OK, "%s: %s", strbuf_text(&what), o.err.text);
  ck_assert_msg(o.wrong == 0, "%s: %lld of %lld elements wrong, worst %g times the tolerance",
                strbuf_text(&what), (long long)o.wrong, (long long)o.elements, o.worst);
  ck_assert_msg(o.guards_intact, "%s: wrote outside Y", strbuf_text(&what));
  strbuf_free(&what);
  d->ops->close(d);
}

/* One lowering serves all sizes: the kernel takes them at run time. */
START_TEST(classes_compute_every_size) {
  arena a = ARENA_INIT;
  const gemm_class *g = gemm_class_get(_i);
  gemm_setup s = gemm_class_bind(&a, g, 256, 256, 256);
  lowered l = lower(&a, &s);
  bool m_aligned = g->operator== GEMM_TN || g->operator== GEMM_TT;
  int n_aligned = (int)COUNT_OF(aligned_sizes);
  for (int i = 0; i < (int)COUNT_OF(free_sizes); i++) {
    int64_t m = m_aligned ? aligned_sizes[i % n_aligned] : free_sizes[i];
    int64_t n = aligned_sizes[(_i + i) % n_aligned], k = aligned_sizes[(_i + 2 * i + 3) % n_aligned];
    gemm_setup at = gemm_class_bind(&a, g, m, n, k);
    expect_right(&at, &l, 1 + i % 4, i % 2 ? 0 : 8, (uint64_t)(_i * 100 + i));
  }
  arena_release(&a);
}
END_TEST

/* The problem the tuner verifies on, which takes every path of the configuration. */
START_TEST(classes_compute_the_reduced_problem) {
  arena a = ARENA_INIT;
  enum { SMS = 2 };
  gemm_setup s = gemm_class_bind(&a, gemm_class_get(_i), 4096, 4096, 4096);
  s.gemm->reduced_problem(&s.p, s.t, &s.c, SMS, &s.p);
  lowered l = lower(&a, &s);
  expect_right(&s, &l, SMS, 0, (uint64_t)_i);
  arena_release(&a);
}
END_TEST

/* Points anywhere in the space, the same ones every time. */
START_TEST(random_points_compute_the_reduced_problem) {
  arena a = ARENA_INIT;
  enum { SMS = 2 };
  gemm_class g = {_i % 2 ? GEMM_NT : GEMM_NN, _i % 3 ? "bf16" : "f16", ""};
  gemm_setup s = gemm_class_bind(&a, &g, 4096, 4096, 4096);
  const space *all = s.gemm->space(s.t);
  uint64_t tries = 0;
  do {
    space_point(all, (int64_t)(random_u64((uint64_t)_i, tries++) % (uint64_t)space_size(all)), &s.c);
  } while (template_feasible(s.gemm, &s.p, s.t, &s.c) != TEMPLATE_OK);
  s.gemm->reduced_problem(&s.p, s.t, &s.c, SMS, &s.p);
  lowered l = lower(&a, &s);
  expect_right(&s, &l, SMS, _i % 2 ? 8 : 0, (uint64_t)_i);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm on the emulator");
  TCase *sizes = tcase_create("sizes"), *reduced = tcase_create("reduced problem");
  TCase *random_points = tcase_create("random points");
  tcase_set_timeout(sizes, 120);
  tcase_set_timeout(reduced, 120);
  tcase_set_timeout(random_points, 120);
  tcase_add_loop_test(sizes, classes_compute_every_size, 0, gemm_class_count());
  tcase_add_loop_test(reduced, classes_compute_the_reduced_problem, 0, gemm_class_count());
  tcase_add_loop_test(random_points, random_points_compute_the_reduced_problem, 0, RANDOM_POINTS);
  suite_add_tcase(suite, sizes);
  suite_add_tcase(suite, reduced);
  suite_add_tcase(suite, random_points);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
