#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_alloc.h"
#include "tests/tuner/fake_space.h"
#include "tuner/candidates_walk.h"
#include "tuner/search.h"

typedef struct setup {
  arena a;
  tune_candidates c;
  ir_problem p;
} setup;

static void open_setup(setup *s) {
  *s = (setup){0};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(fake_space_rank(&s->a, &s->c, &s->p, &err) == ARKE_OK, "%s", err.text);
}

static void close_setup(setup *s) {
  tune_candidates_release(&s->c);
  arena_release(&s->a);
}

static double true_ns(const setup *s, int64_t index) {
  config c;
  tune_candidate_config(&s->c, index, &c);
  return fake_space_true_ns(&c);
}

static double true_best(const setup *s) {
  double best = INFINITY;
  for (int64_t i = 0; i < s->c.n; i++) best = fmin(best, true_ns(s, i));
  return best;
}

/* --- ranking -------------------------------------------------------------------------------------------- */

START_TEST(every_point_is_counted_once) {
  setup s;
  open_setup(&s);
  int64_t counted = s.c.n;
  for (int r = 0; r < TEMPLATE_REASON_COUNT; r++) counted += s.c.pruned[r];
  ck_assert_int_eq(counted, s.c.total);
  ck_assert_int_eq(s.c.total, 10 * 10 * 8 * 8 * 2);
  ck_assert_int_eq(s.c.pruned[TEMPLATE_OK], 0);
  ck_assert_int_gt(s.c.pruned[TEMPLATE_SHARED_MEMORY], 0);
  ck_assert_int_gt(s.c.pruned[TEMPLATE_TILE], 0);
  for (int64_t i = 1; i < s.c.n; i++) ck_assert_double_le(s.c.ranked[i - 1].model_ns, s.c.ranked[i].model_ns);
  close_setup(&s);
}
END_TEST

START_TEST(points_are_found_again) {
  setup s;
  open_setup(&s);
  for (int64_t i = 0; i < s.c.n; i++)
    ck_assert_int_eq(tune_candidates_index(&s.c, s.c.ranked[i].source, s.c.ranked[i].point), i);
  config infeasible = {{10, 10, 1, 2, 0}};
  ck_assert_int_eq(tune_candidates_index(&s.c, 0, space_index(s.c.sources[0].space, &infeasible)), -1);
  ck_assert_int_eq(tune_candidates_index(&s.c, 1, 0), -1);
  close_setup(&s);
}
END_TEST

START_TEST(configurations_are_parsed_with_reasons) {
  setup s;
  open_setup(&s);
  const target *t = target_get(0);
  int64_t index;
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "A=8,B=7", &index, NULL), ARKE_OK);
  config c;
  tune_candidate_config(&s.c, index, &c);
  ck_assert_int_eq(c.values[0], 8);
  ck_assert_int_eq(c.values[2], 4); /* left out: the default */
  ck_assert_int_eq(tune_candidate_distance(&s.c, index), 5);
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "fake:A=8,B=7", &index, NULL), ARKE_OK);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "gemm:A=8", &index, &err), ARKE_ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(err.text, "fake"));
  error_clear(&err);
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "A=10,B=10", &index, &err), ARKE_ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(err.text, template_reason_text(TEMPLATE_SHARED_MEMORY)));
  ck_assert_ptr_nonnull(strstr(err.text, "; it is with A=1, 2, 3, 4, 5, 6; or with B=1, 2, 3, 4, 5, 6"));
  error_clear(&err);
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "A=10,B=10,C=7", &index, &err), ARKE_ERR_INVALID);
  ck_assert_ptr_null(strstr(err.text, "with C=")); /* no value of C helps */
  close_setup(&s);
}
END_TEST

START_TEST(walks_meet_every_point_once) {
  static const space_param params[] = {
      {"A", "", 3, {1, 2, 3}},
      {"B", "", 7, {1, 2, 3, 4, 5, 6, 7}},
      {"C", "", 2, {5, 9}},
      {"D", "", 20, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
      {"E", "", 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
  static const space all = {"walked", COUNT_OF(params), params};
  static const uint32_t firsts[] = {0, 1, 0x16, 0x1f, 0x10};
  candidates_walk w;
  candidates_walk_make(&all, &firsts[_i], firsts[_i] ? 1 : 0, &w);
  ck_assert_int_eq(w.outers * w.inners, space_size(&all));
  bool *met = calloc((size_t)space_size(&all), 1);
  for (int64_t outer = 0; outer < w.outers; outer++) {
    int digits[LIMIT_PARAMS] = {0};
    config c;
    int64_t point = candidates_walk_outer(&w, outer, &c);
    do {
      ck_assert_int_eq(space_index(&all, &c), point);
      ck_assert(!met[point]);
      met[point] = true;
    } while (candidates_walk_next(&w, w.n_inner, digits, &c, &point) >= 0);
  }
  for (int64_t i = 0; i < space_size(&all); i++) ck_assert(met[i]);
  free(met);
}
END_TEST

/* As pruning walks: of each combination of the outermost parameters and those of a second level, all points
 * or none. */
START_TEST(walks_pass_over_what_a_level_refuses) {
  static const space_param params[] = {{"A", "", 3, {1, 2, 3}},
                                       {"B", "", 4, {1, 2, 3, 4}},
                                       {"C", "", 2, {5, 9}},
                                       {"D", "", 5, {1, 2, 3, 4, 5}}};
  static const space all = {"walked", COUNT_OF(params), params};
  static const uint32_t levels[] = {1u << 2, 1u << 1 | 1u << 3}; /* C, then B and D, then A */
  candidates_walk w;
  candidates_walk_make(&all, levels, 2, &w);
  ck_assert_int_eq(w.outers, 2);
  ck_assert_int_eq(w.below[0], 60);
  ck_assert_int_eq(w.below[1], 3);
  int met = 0, refused = 0;
  for (int64_t outer = 0; outer < w.outers; outer++) {
    int digits[LIMIT_PARAMS] = {0}, changed = 0;
    config c;
    int64_t point = candidates_walk_outer(&w, outer, &c);
    while (changed >= 0) {
      ck_assert_int_eq(space_index(&all, &c), point);
      bool refuses = (c.values[1] + c.values[3]) % 2 == 0;
      if (refuses) ck_assert_int_eq(c.values[0], 1);
      *(refuses ? &refused : &met) += refuses ? (int)w.below[1] : 1;
      changed = candidates_walk_next(&w, refuses ? w.ends[1] : w.n_inner, digits, &c, &point);
    }
  }
  ck_assert_int_eq(met, 60);
  ck_assert_int_eq(refused, 60);
}
END_TEST

START_TEST(what_is_admitted_comes_last) {
  setup s;
  open_setup(&s);
  const target *t = target_get(0);
  int64_t n = s.c.n, index, again;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, "A=1,B=1,FAST=1", &index, NULL), ARKE_OK);
  ck_assert_int_eq(tune_candidates_admit(&s.c, &s.p, t, &t->rates, "A=1,B=1,FAST=1", &again, NULL), ARKE_OK);
  ck_assert_int_eq(index, again); /* feasible: nothing to add */
  const char *redundant = "A=2,B=1,C=1,STAGES=2";
  ck_assert_int_eq(tune_candidates_parse(&s.c, &s.p, t, redundant, &index, &err), ARKE_ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(err.text, template_reason_text(TEMPLATE_REDUNDANT)));
  ck_assert_int_eq(tune_candidates_admit(&s.c, &s.p, t, &t->rates, redundant, &index, NULL), ARKE_OK);
  ck_assert_int_eq(index, n);
  ck_assert_int_eq(s.c.n, n + 1);
  for (int64_t i = 0; i < s.c.n; i++)
    ck_assert_int_eq(tune_candidates_index(&s.c, s.c.ranked[i].source, s.c.ranked[i].point), i);
  ck_assert_int_eq(tune_candidates_admit(&s.c, &s.p, t, &t->rates, "A=10,B=10", &index, NULL),
                   ARKE_ERR_INVALID);
  close_setup(&s);
}
END_TEST

START_TEST(a_problem_without_template_says_why) {
  setup s = {0};
  const ir_op *op;
  ck_assert_int_eq(ir_op_parse(&s.a, "twice(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] + X[i] }", &op, NULL),
                   ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, "T=f32 M=8", &s.p, NULL), ARKE_OK);
  const target *t = target_get(0);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_candidates_rank(&s.p, t, &t->rates, &fake_space_templates, &s.c, &err),
                   ARKE_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.text, "three tensors are wanted"));
  close_setup(&s);
}
END_TEST

/* --- search --------------------------------------------------------------------------------------------- */

typedef struct hunt {
  int tried;
  double best;
} hunt;

/* Runs a search with `width` candidates under way at a time, answered in a scrambled order. */
static hunt run_search(const setup *s, const tune_search_plan *plan, uint64_t seed, int width) {
  tune_search *search;
  ck_assert_int_eq(tune_search_create(&s->c, plan, seed, &search, NULL), ARKE_OK);
  bool *seen = calloc((size_t)s->c.n, 1);
  int64_t under_way[64];
  int n = 0;
  hunt h = {0, INFINITY};
  for (unsigned turn = 0;; turn++) {
    while (n < width) {
      int64_t index = tune_search_next(search);
      if (index < 0) break;
      ck_assert(!seen[index]);
      seen[index] = true;
      under_way[n++] = index;
    }
    if (n == 0) break;
    int k = (int)(turn * 7 % (unsigned)n);
    int64_t index = under_way[k];
    under_way[k] = under_way[--n];
    h.tried++;
    bool fails = index % 17 == 3; /* some crash */
    double ns = true_ns(s, index);
    if (!fails) h.best = fmin(h.best, ns);
    tune_search_report(search, index, fails ? INFINITY : ns);
  }
  ck_assert(tune_search_done(search));
  free(seen);
  tune_search_destroy(search);
  return h;
}

START_TEST(full_search_comes_within_one_per_cent) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = tune_search_plan_for(TUNE_FULL, s.c.n, 0);
  hunt h = run_search(&s, &plan, (uint64_t)_i, 16);
  ck_assert_double_le(h.best, 1.01 * true_best(&s));
  ck_assert_int_lt(h.tried, 1000); /* of 7,000 */
  close_setup(&s);
}
END_TEST

START_TEST(a_short_search_leaves_half_of_its_trials_to_what_it_learns) {
  tune_search_plan plan = tune_search_plan_for(TUNE_FULL, 10000, 0), whole = plan, none = {.ahead = 5};
  tune_search_plan_fit(&plan, 10000);
  ck_assert_int_eq(plan.families + plan.model_best + plan.ahead,
                   whole.families + whole.model_best + whole.ahead);
  tune_search_plan_fit(&plan, 80);
  ck_assert_int_le(plan.families + plan.model_best, 40);
  ck_assert_int_ge(plan.families + plan.model_best, 38);
  ck_assert_int_gt(plan.families, plan.model_best);
  ck_assert_int_eq(plan.patience, whole.patience);
  ck_assert(plan.limit == whole.limit);
  tune_search_plan_fit(&plan, 1);
  ck_assert_int_eq(plan.families, 8);
  ck_assert_int_eq(plan.model_best, 4);
  ck_assert_int_eq(plan.ahead, 16);
  tune_search_plan_fit(&none, 80); /* one configuration by name has no beginning */
  ck_assert_int_eq(none.families + none.model_best, 0);
}
END_TEST

/* Of 80 trials, where the whole beginning would take all. */
START_TEST(a_short_search_finds_better_when_it_is_fitted) {
  setup s;
  open_setup(&s);
  double sum[2] = {0, 0};
  for (int fitted = 0; fitted < 2; fitted++)
    for (uint64_t seed = 0; seed < 8; seed++) {
      tune_search_plan plan = tune_search_plan_for(TUNE_FULL, s.c.n, 80);
      if (fitted) tune_search_plan_fit(&plan, 80);
      sum[fitted] += run_search(&s, &plan, seed, 16).best;
    }
  ck_assert_double_lt(sum[1], sum[0]);
  close_setup(&s);
}
END_TEST

START_TEST(quick_search_beats_the_models_ranking) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = tune_search_plan_for(TUNE_QUICK, s.c.n, 0);
  hunt h = run_search(&s, &plan, (uint64_t)_i, 4);
  double model_only = INFINITY;
  for (int64_t i = 0; i < plan.limit; i++) model_only = fmin(model_only, true_ns(&s, i));
  ck_assert_int_le(h.tried, plan.limit);
  ck_assert_double_lt(h.best, model_only);
  ck_assert_double_le(h.best, 1.05 * true_best(&s));
  close_setup(&s);
}
END_TEST

START_TEST(families_are_numbered_by_their_best) {
  setup s;
  open_setup(&s);
  int next = 0;
  for (int64_t i = 0; i < s.c.n; i++) {
    ck_assert_int_le(s.c.ranked[i].family, next);
    next += s.c.ranked[i].family == next;
  }
  ck_assert_int_eq(next, s.c.n_families);
  config first, other;
  tune_candidate_config(&s.c, 0, &first);
  for (int64_t i = 0; i < s.c.n; i++) {
    tune_candidate_config(&s.c, i, &other);
    other.values[3] = first.values[3]; /* STAGES */
    ck_assert_int_eq(s.c.ranked[i].family == s.c.ranked[0].family,
                     config_equal(s.c.sources[0].space, &first, &other));
  }
  close_setup(&s);
}
END_TEST

START_TEST(the_best_of_each_family_comes_first) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = {.families = 30, .model_best = 10, .limit = 100, .ahead = 4, .patience = 30};
  tune_search *search;
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &search, NULL), ARKE_OK);
  for (int n = 0; n < 30; n++) {
    int64_t index = tune_search_next(search);
    ck_assert_int_ge(index, 0);
    ck_assert_int_eq(s.c.ranked[index].family, n);
    for (int64_t i = 0; i < index; i++) ck_assert_int_ne(s.c.ranked[i].family, n);
  }
  tune_search_destroy(search);
  close_setup(&s);
}
END_TEST

/* Proposals of a search whose seeds are the templates' own, the first of which is the model's best. */
START_TEST(hopeless_defaults_are_not_seeds) {
  setup s;
  open_setup(&s);
  const tune_source *source = &s.c.sources[0];
  int64_t own = tune_candidates_index(&s.c, 0, space_index(source->space, &source->defaults));
  ck_assert_int_gt(own, 0);
  for (int hopeless = 0; hopeless < 2; hopeless++) {
    if (hopeless) s.c.ranked[own].model_ns = 100 * s.c.ranked[0].model_ns;
    tune_search_plan plan = {.model_best = 1, .limit = 100, .ahead = 4, .patience = 30};
    tune_search *search;
    ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &search, NULL), ARKE_OK);
    tune_search_seed_templates(search);
    ck_assert_int_eq(tune_search_next(search), 0);
    ck_assert_int_eq(tune_search_next(search) == own, !hopeless);
    tune_search_destroy(search);
  }
  close_setup(&s);
}
END_TEST

START_TEST(exhaustive_search_tries_all) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = tune_search_plan_for(TUNE_EXHAUSTIVE, s.c.n, 0);
  ck_assert_int_eq(run_search(&s, &plan, 1, 64).tried, s.c.n);
  plan = tune_search_plan_for(TUNE_EXHAUSTIVE, s.c.n, 37);
  ck_assert_int_eq(run_search(&s, &plan, 1, 64).tried, 37);
  close_setup(&s);
}
END_TEST

START_TEST(what_is_skipped_does_not_count) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = tune_search_plan_for(TUNE_EXHAUSTIVE, s.c.n, 20);
  tune_search *search;
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &search, NULL), ARKE_OK);
  int tried = 0, skipped = 0;
  for (int64_t index; (index = tune_search_next(search)) >= 0;) {
    if (index % 3 == 0 && ++skipped > 0)
      tune_search_skip(search, index);
    else if (++tried > 0)
      tune_search_report(search, index, 1e4 + (double)index);
  }
  ck_assert_int_eq(tried, 20);
  ck_assert_int_gt(skipped, 5);
  ck_assert(tune_search_done(search));
  tune_search_destroy(search);
  close_setup(&s);
}
END_TEST

START_TEST(known_results_are_not_proposed) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = {.limit = 100, .model_best = 10, .ahead = 4, .patience = 30};
  tune_search *search;
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &search, NULL), ARKE_OK);
  for (int64_t i = 0; i < 10; i++) tune_search_known(search, i, i == 2 ? INFINITY : true_ns(&s, i));
  tune_search_seed(search, 5); /* known already */
  tune_search_seed(search, 400);
  ck_assert_int_eq(tune_search_next(search), 400);
  int64_t next = tune_search_next(search);
  ck_assert_int_ge(next, 10); /* a neighbour or a corrected guess, nothing known */
  tune_search_destroy(search);
  close_setup(&s);
}
END_TEST

/* The results of a search that ended, fed to another one fastest first, as from a cache file: it ends too. */
START_TEST(an_ended_search_stays_ended) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = tune_search_plan_for(TUNE_QUICK, s.c.n, 0);
  tune_search *first, *again;
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &first, NULL), ARKE_OK);
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &again, NULL), ARKE_OK);
  int64_t tried[256];
  int n = 0;
  for (int64_t index; (index = tune_search_next(first)) >= 0;) {
    double ns = true_ns(&s, index);
    tune_search_report(first, index, ns);
    int at = n++;
    for (; at > 0 && true_ns(&s, tried[at - 1]) > ns; at--) tried[at] = tried[at - 1];
    tried[at] = index;
  }
  ck_assert_int_gt(n, plan.families);
  for (int i = 0; i < n; i++) tune_search_known(again, tried[i], true_ns(&s, tried[i]));
  ck_assert(tune_search_done(again));
  tune_search_destroy(first);
  tune_search_destroy(again);
  close_setup(&s);
}
END_TEST

START_TEST(all_failing_ends) {
  setup s;
  open_setup(&s);
  tune_search_plan plan = {.limit = 50, .model_best = 8, .ahead = 4, .patience = 10};
  tune_search *search;
  ck_assert_int_eq(tune_search_create(&s.c, &plan, 1, &search, NULL), ARKE_OK);
  int tried = 0;
  for (int64_t index; (index = tune_search_next(search)) >= 0; tried++)
    tune_search_report(search, index, INFINITY);
  ck_assert(tune_search_done(search));
  ck_assert_int_eq(tried, 50);
  tune_search_destroy(search);
  close_setup(&s);
}
END_TEST

START_TEST(every_allocation_may_fail) {
  for (int n = 0;; n++) {
    setup s = {0};
    failing_alloc_arm(n);
    arke_status status = fake_space_rank(&s.a, &s.c, &s.p, NULL);
    tune_search *search = NULL;
    tune_search_plan plan = {.limit = 20, .model_best = 8, .ahead = 4};
    if (status == ARKE_OK) status = tune_search_create(&s.c, &plan, 1, &search, NULL);
    if (status == ARKE_OK) {
      tune_search_seed(search, 3);
      for (int64_t index; (index = tune_search_next(search)) >= 0;)
        tune_search_report(search, index, true_ns(&s, index));
    }
    bool fired = failing_alloc_disarm();
    ck_assert_msg(status == ARKE_OK || (fired && status == ARKE_ERR_MEMORY), "allocation %d: %s", n,
                  arke_status_name(status));
    tune_search_destroy(search);
    close_setup(&s);
    if (!fired) break;
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("search");
  TCase *c = tcase_create("search");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, every_point_is_counted_once);
  tcase_add_test(c, points_are_found_again);
  tcase_add_test(c, configurations_are_parsed_with_reasons);
  tcase_add_test(c, what_is_admitted_comes_last);
  tcase_add_loop_test(c, walks_meet_every_point_once, 0, 5);
  tcase_add_test(c, walks_pass_over_what_a_level_refuses);
  tcase_add_test(c, a_problem_without_template_says_why);
  tcase_add_loop_test(c, full_search_comes_within_one_per_cent, 0, 8);
  tcase_add_test(c, a_short_search_leaves_half_of_its_trials_to_what_it_learns);
  tcase_add_test(c, a_short_search_finds_better_when_it_is_fitted);
  tcase_add_loop_test(c, quick_search_beats_the_models_ranking, 0, 8);
  tcase_add_test(c, families_are_numbered_by_their_best);
  tcase_add_test(c, the_best_of_each_family_comes_first);
  tcase_add_test(c, hopeless_defaults_are_not_seeds);
  tcase_add_test(c, exhaustive_search_tries_all);
  tcase_add_test(c, what_is_skipped_does_not_count);
  tcase_add_test(c, known_results_are_not_proposed);
  tcase_add_test(c, an_ended_search_stays_ended);
  tcase_add_test(c, all_failing_ends);
  tcase_add_test(c, every_allocation_may_fail);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
