/* Every operator by every template that takes it, against the fp64 reference (tuner/operator_sweep.h): one
 * test an operator, so that a crash costs one.
 *
 *   ARKE_OPERATORS=softmax     that operator alone; "concat" means all of that family
 *   ARKE_OPERATORS_PART=0/2    the first half of them
 *   ARKE_OPERATORS_BRIEF=1     one choice of dtypes of each
 *   ARKE_OPERATORS_FULL=1      every size, view and kind of values with every dtype
 *   ARKE_OPERATORS_VERBOSE=1   a line for each run that is not right, and for each operator's counts
 *   ARKE_DEVICE=cuda           on the GPU */
#include <check.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/target_list.h"
#include "templates/template.h"
#include "tuner/operator_list.h"
#include "tuner/operator_sweep.h"

enum { MOST_EXPECTED = 128, MOST_TOLD = 12 };

/* What no template takes yet: "OPERATOR TYPES VIEW" patterns, one a line. An operator that is taken may not
 * stand here. */
static const char LIST[] = "tests/operators/untaken.txt";

typedef struct expectation {
  char pattern[128];
  int seen;
} expectation;

typedef struct tally {
  expectation expected[MOST_EXPECTED];
  int n_expected;
  int64_t runs, compared, wrong, untaken;
  bool verbose;
  strbuf faults;
} tally;

static void read_expected(tally *t, const char *name) {
  FILE *f = fopen(LIST, "r");
  ck_assert_msg(f != NULL, "%s cannot be read", LIST);
  char line[128];
  while (fgets(line, sizeof line, f) != NULL) {
    line[strcspn(line, "#\n")] = '\0';
    size_t length = strcspn(line, " ");
    if (length == 0 || strncmp(line, name, length) != 0 || name[length] != '\0') continue;
    ck_assert_int_lt(t->n_expected, MOST_EXPECTED);
    snprintf(t->expected[t->n_expected++].pattern, sizeof line, "%s", line);
  }
  fclose(f);
}

static bool is_expected(tally *t, const char *key) {
  for (int i = 0; i < t->n_expected; i++)
    if (fnmatch(t->expected[i].pattern, key, 0) == 0) {
      t->expected[i].seen++;
      return true;
    }
  return false;
}

static bool tell(void *user, const operator_result *r) {
  static const char *const VERDICTS[] = {"right", "WRONG", "refused", "untaken"};
  tally *t = user;
  t->runs++;
  t->compared += r->compared;
  if (r->verdict == OPERATOR_RIGHT) return true;
  char key[512];
  snprintf(key, sizeof key, "%s %s %s", r->operator, r->types, operator_view_name(r->view));
  bool known = r->verdict != OPERATOR_WRONG && is_expected(t, key);
  if (r->verdict == OPERATOR_WRONG) t->wrong++;
  if (r->verdict != OPERATOR_WRONG) t->untaken++;
  strbuf line = STRBUF_INIT;
  strbuf_addf(&line, "%s: %s %s, %s, %s, %s %s: %s\n", VERDICTS[r->verdict], r->operator, r->bindings,
              operator_view_name(r->view), operator_values_name(r->values), r->template_name, r->config,
              r->text);
  if (t->verbose) fputs(strbuf_text(&line), stdout);
  if (!known && (t->wrong + t->untaken) <= MOST_TOLD) strbuf_add(&t->faults, strbuf_text(&line));
  if (!known && r->verdict != OPERATOR_WRONG) t->wrong++;
  strbuf_free(&line);
  return true;
}

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

static bool is_wanted(int number, const char *name) {
  const char *only = getenv("ARKE_OPERATORS"), *part = getenv("ARKE_OPERATORS_PART");
  int i, n;
  if (only != NULL && *only != '\0') {
    for (size_t length; *only != '\0'; only += length + strspn(only + length, " ")) {
      length = strcspn(only, " ");
      if (strncmp(name, only, length) == 0 && (name[length] == '\0' || name[length] == ':')) return true;
    }
    return false;
  }
  return part == NULL || sscanf(part, "%d/%d", &i, &n) != 2 || n < 1 || number % n == i;
}

START_TEST(operators) {
  const char *name = operator_case_name(_i), *place = getenv("ARKE_DEVICE");
  if (!is_wanted(_i, name)) return;
  bool cuda = place != NULL && strcmp(place, "cuda") == 0;
  arke_error err = ARKE_ERROR_INIT;
  device *dev;
  device_info info;
  arke_status status = cuda ? device_open_cuda(0, &dev, &err) : device_open_emulator("sm_90a", 1, &dev, &err);
  ck_assert_msg(status == ARKE_OK, "%s", err.text);
  ck_assert_msg(dev->ops->info(dev, &info, &err) == ARKE_OK, "%s", err.text);
  tally t = {.verbose = is_set("ARKE_OPERATORS_VERBOSE")};
  read_expected(&t, name);
  operator_sweep sweep = {.dev = dev,
                          .target = target_find("sm_90a", NULL),
                          .sm_count = cuda ? info.sm_count : 2,
                          .seed = 11,
                          .only = name,
                          .brief = is_set("ARKE_OPERATORS_BRIEF"),
                          .full = is_set("ARKE_OPERATORS_FULL"),
                          .configurations = 1,
                          .sample = 400,
                          .tell = tell,
                          .user = &t};
  status = operator_sweep_run(&sweep, &err);
  dev->ops->close(dev);
  ck_assert_msg(status == ARKE_OK, "%s: %s", name, err.text);
  if (t.verbose || t.untaken > 0)
    printf("%s: %lld runs, %lld elements, %lld wrong, %lld untaken\n", name, (long long)t.runs,
           (long long)t.compared, (long long)t.wrong, (long long)t.untaken);
  ck_assert_msg(t.wrong == 0, "%s: %lld runs are wrong or not taken\n%s", name, (long long)t.wrong,
                strbuf_text(&t.faults));
  strbuf_free(&t.faults);
  for (int i = 0; i < t.n_expected; i++)
    ck_assert_msg(t.expected[i].seen > 0, "%s lists '%s', which is taken: remove the line", LIST,
                  t.expected[i].pattern);
}
END_TEST

/* --- the loop itself --- */

static lowered lower(arena *a, const char *name, const ir_problem *p) {
  const kernel_template *k = template_find("map");
  arke_error err = ARKE_ERROR_INIT;
  config c;
  lowered l;
  k->defaults(p, target_find("sm_90a", NULL), &c);
  ck_assert_msg(k->lower(p, target_find("sm_90a", NULL), &c, NULL, a, &l, &err) == ARKE_OK, "%s: %s", name,
                err.text);
  return l;
}

static ir_problem bind(arena *a, const char *name, const char *bindings) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_catalogue_entry *entry;
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_operator_find(a, name, &entry, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_op_parse(a, entry->text, &op, &err), ARKE_OK);
  ck_assert_msg(ir_problem_bind(op, bindings, &p, &err) == ARKE_OK, "%s", err.text);
  return p;
}

/* A kernel of another operator is wrong, of another size too, and so is one that does nothing. */
START_TEST(faults_are_noticed) {
  static const struct {
    const char *operator, * bindings, *kernel, *kernel_bindings;
    operator_values values;
    bool nothing;
    arke_status expected;
  } CASES[] = {
      {"relu", "T=f32 ...=9x61", "relu", "T=f32 ...=9x61", OPERATOR_SPECIAL, false, ARKE_OK},
      {"relu", "T=f32 ...=9x61", "neg", "T=f32 ...=9x61", OPERATOR_NORMAL, false, ARKE_ERR_MISMATCH},
      {"relu", "T=f32 ...=9x61", "relu", "T=f32 ...=9x61", OPERATOR_NORMAL, true, ARKE_ERR_MISMATCH},
      {"exp", "T=f32 ...=70", "exp", "T=f16 ...=70", OPERATOR_NORMAL, false, ARKE_ERR_MISMATCH},
      {"silu_and_mul", "T=bf16 B=3 H=8", "gelu_and_mul", "T=bf16 B=3 H=8", OPERATOR_NORMAL, false,
       ARKE_ERR_MISMATCH},
  };
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  device *dev;
  ck_assert_int_eq(device_open_emulator("sm_90a", 1, &dev, &err), ARKE_OK);
  ir_problem p = bind(&a, CASES[_i].operator, CASES[_i].bindings);
  ir_problem other = bind(&a, CASES[_i].kernel, CASES[_i].kernel_bindings);
  lowered l = lower(&a, CASES[_i].kernel, &other);
  recipe idle = l.recipe;
  idle.n_launches = 0;
  if (CASES[_i].nothing) l.recipe = idle;
  operator_range ranges[LIMIT_TENSORS] = {{.from = 0}};
  operator_call call = {
      .dev = dev, .sm_count = 2, .problem = &p, .values = CASES[_i].values, .ranges = ranges};
  int64_t compared;
  arke_status status = operator_run(&call, &l, &compared, &err);
  ck_assert_msg(status == CASES[_i].expected, "%s: %s", arke_status_name(status), err.text);
  ck_assert_int_gt(compared, 0);
  dev->ops->close(dev);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("operators");
  TCase *tests = tcase_create("each");
  tcase_set_timeout(tests, is_set("ARKE_OPERATORS_FULL") ? 3600 : 900);
  tcase_add_loop_test(tests, operators, 0, operator_case_count());
  suite_add_tcase(suite, tests);
  TCase *loop = tcase_create("the loop itself");
  tcase_add_loop_test(loop, faults_are_noticed, 0, 5);
  suite_add_tcase(suite, loop);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
