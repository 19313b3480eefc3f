/* Splitting command lines, the meaning of their texts, and the page that documents them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/cli_suites.h"
#include "tests/support/failing_alloc.h"
#include "tuner/cli_output.h"
#include "tuner/cli_settings.h"
#include "tuner/tune.h"

#define PARSE(line, err, ...)                                                                                \
  cli_parse((int)(sizeof((char *[]){"arke-tune", __VA_ARGS__}) / sizeof(char *)),                            \
            (char *[]){"arke-tune", __VA_ARGS__}, &memory, line, err)

static arena memory;

static void release(void) {
  arena_release(&memory);
}

START_TEST(both_forms_of_an_option) {
  cli_line line;
  ck_assert_int_eq(PARSE(&line, NULL, "--op", "matmul", "--shape=1x2x3", "--json"), ARKE_OK);
  ck_assert_int_eq(line.command, CLI_TUNE);
  ck_assert_str_eq(line.texts[CLI_OPT_OP], "matmul");
  ck_assert_str_eq(line.texts[CLI_OPT_SHAPE], "1x2x3");
  ck_assert(line.given[CLI_OPT_JSON]);
  ck_assert(!line.given[CLI_OPT_BUDGET]);
  ck_assert_str_eq(line.texts[CLI_OPT_BUDGET], "60s");
  ck_assert_ptr_null(line.texts[CLI_OPT_CONFIG]);
}
END_TEST

START_TEST(an_empty_value_and_one_like_an_option) {
  cli_line line;
  ck_assert_int_eq(PARSE(&line, NULL, "--op=", "--config=--json"), ARKE_OK);
  ck_assert_str_eq(line.texts[CLI_OPT_OP], "");
  ck_assert_str_eq(line.texts[CLI_OPT_CONFIG], "--json");
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(PARSE(&line, &err, "--config", "--json"), ARKE_ERR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(err.text, "--config needs an argument"));
}
END_TEST

START_TEST(operands_of_a_sub_command) {
  cli_line line;
  ck_assert_int_eq(PARSE(&line, NULL, "sweep", "-o", "t.arke", "--", "--odd name"), ARKE_OK);
  ck_assert_int_eq(line.command, CLI_SWEEP);
  ck_assert_str_eq(line.texts[CLI_OPT_OUTPUT], "t.arke");
  ck_assert_int_eq(line.n_operands, 1);
  ck_assert_str_eq(line.operands[0], "--odd name");
}
END_TEST

/* Of a file that a full disk cut short nothing is left, whichever way it is written. */
START_TEST(no_half_a_file_is_left) {
  enum { BYTES = 5000, ROOM = 1000 };
  static const char bytes[BYTES];
  char folder[] = "/tmp/arke-output-XXXXXX", path[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/file", folder);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  rlim_t before = limit.rlim_cur;
  signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < 2; i++) {
    arke_error err = ARKE_ERROR_INIT;
    limit.rlim_cur = ROOM;
    setrlimit(RLIMIT_FSIZE, &limit);
    arke_status status = (i ? cli_replace_file : cli_write_file)(path, bytes, BYTES, &err);
    limit.rlim_cur = before; /* the test's own messages are in a file */
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(status, ARKE_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, path));
  }
  ck_assert_int_eq(rmdir(folder), 0); /* it is empty */
}
END_TEST

START_TEST(exit_statuses) {
  arke_error err = ARKE_ERROR_INIT;
  cli_line line;
  ck_assert_int_eq(cli_exit_status(ARKE_OK, &err), 0);
  ck_assert_int_eq(cli_exit_status(PARSE(&line, &err, "--nothing"), &err), 2);
  error_clear(&err);
  ck_assert_int_eq(cli_exit_status(error_set(&err, ARKE_ERR_IO, "cache", "x"), &err), 1);
  error_clear(&err);
  ck_assert_int_eq(cli_exit_status(error_set(&err, ARKE_ERR_INTERRUPTED, "tune", "x"), &err), 130);
}
END_TEST

START_TEST(times) {
  static const struct {
    const char *text;
    double seconds; /* 0: refused */
  } cases[] = {{"60s", 60}, {"500ms", 0.5}, {"2m", 120}, {"1h", 3600}, {"1.5s", 1.5},
               {"0s", 0},   {"60", 0},      {"s", 0},    {"-1s", 0},   {"1d", 0},
               {" 1s", 0},  {"1s ", 0},     {"1e3s", 0}, {"nans", 0},  {"1.2.3s", 0},
               {"", 0},     {"ms", 0},      {"0x1s", 0}, {".5s", 0},   {"00060s", 60}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    double seconds = -1;
    bool accepted = cli_parse_time(cases[i].text, &seconds);
    ck_assert_msg(accepted == (cases[i].seconds > 0), "'%s'", cases[i].text);
    if (accepted) ck_assert_double_eq_tol(seconds, cases[i].seconds, 1e-12);
  }
}
END_TEST

START_TEST(shell_words) {
  static const struct {
    const char *text, *quoted;
  } cases[] = {{"4096x4096", "4096x4096"},
               {"", "''"},
               {"BLOCK_M=128,BLOCK_N=256", "'BLOCK_M=128,BLOCK_N=256'"},
               {"a b", "'a b'"},
               {"it's", "'it'\\''s'"},
               {"$(x)`y`\"z\"\\", "'$(x)`y`\"z\"\\'"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    strbuf out = STRBUF_INIT;
    cli_shell_quote(cases[i].text, &out);
    ck_assert_str_eq(strbuf_text(&out), cases[i].quoted);
    strbuf_free(&out);
  }
}
END_TEST

START_TEST(default_cache_path_follows_xdg) {
  const char *path;
  arke_error err = ARKE_ERROR_INIT;
  setenv("HOME", "/home/x", 1);
  unsetenv("XDG_CACHE_HOME");
  ck_assert_int_eq(cli_default_cache_path(&memory, &path, &err), ARKE_OK);
  ck_assert_str_eq(path, "/home/x/.cache/arke/tuned.arke");
  setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored */
  ck_assert_int_eq(cli_default_cache_path(&memory, &path, &err), ARKE_OK);
  ck_assert_str_eq(path, "/home/x/.cache/arke/tuned.arke");
  setenv("XDG_CACHE_HOME", "/c", 1);
  ck_assert_int_eq(cli_default_cache_path(&memory, &path, &err), ARKE_OK);
  ck_assert_str_eq(path, "/c/arke/tuned.arke");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  ck_assert_int_ne(cli_default_cache_path(&memory, &path, &err), ARKE_OK);
  ck_assert_ptr_nonnull(strstr(err.text, "--cache"));
}
END_TEST

START_TEST(parents_are_made) {
  char root[] = "/tmp/arke_cli_XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(root));
  const char *path = arena_printf(&memory, "%s/a/b/file", root);
  struct stat st;
  ck_assert_int_eq(cli_make_parents(&memory, path, NULL), ARKE_OK);
  ck_assert_int_eq(cli_make_parents(&memory, path, NULL), ARKE_OK);
  ck_assert_int_eq(stat(arena_printf(&memory, "%s/a/b", root), &st), 0);
  ck_assert_int_ne(stat(path, &st), 0);
  for (const char *made = "a/b\0a\0"; *made != '\0'; made += strlen(made) + 1)
    ck_assert_int_eq(rmdir(arena_printf(&memory, "%s/%s", root, made)), 0);
  ck_assert_int_eq(rmdir(root), 0);
}
END_TEST

/* Every option, its letter and every sub-command of the tables stand in the page. */
START_TEST(the_page_names_every_option) {
  FILE *file = fopen("docs/command.md", "r");
  ck_assert_ptr_nonnull(file);
  static char page[1 << 17];
  size_t n = fread(page, 1, sizeof page - 1, file);
  fclose(file);
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (page[i] != '\\') page[kept++] = page[i]; /* tables escape the '|' of choices */
  page[kept] = '\0';
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option_row *row = &cli_option_table[i];
    const char *name = arena_printf(&memory, "`--%s%s%s`", row->name, row->argument == NULL ? "" : " ",
                                    row->argument == NULL ? "" : row->argument);
    ck_assert_msg(strstr(page, name) != NULL, "docs/command.md lacks %s", name);
  }
  for (int c = CLI_TUNE + 1; c < CLI_COMMAND_COUNT; c++) {
    const char *name = arena_printf(&memory, "arke-tune %s", cli_command_table[c].name);
    ck_assert_msg(strstr(page, name) != NULL, "docs/command.md lacks '%s'", name);
  }
}
END_TEST

START_TEST(parsing_survives_every_failed_allocation) {
  for (int n = 0;; n++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    cli_line line;
    cli_settings s;
    char *argv[] = {"arke-tune", "--op", "matmul", "--shape=64x64x64", "--target", "sm_90a", "--cache", "x"};
    failing_alloc_arm(n);
    arke_status status = cli_parse((int)COUNT_OF(argv), argv, &a, &line, &err);
    if (status == ARKE_OK) status = cli_settings_read(&line, &a, &s, &err);
    if (status == ARKE_OK) status = cli_settings_cache(&s, &a, &err);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    ck_assert_int_eq(status, failed ? ARKE_ERR_MEMORY : ARKE_OK);
    if (!failed) break;
  }
}
END_TEST

TCase *cli_options_case(void) {
  TCase *t = tcase_create("options");
  tcase_add_checked_fixture(t, NULL, release);
  tcase_add_test(t, both_forms_of_an_option);
  tcase_add_test(t, an_empty_value_and_one_like_an_option);
  tcase_add_test(t, operands_of_a_sub_command);
  tcase_add_test(t, no_half_a_file_is_left);
  tcase_add_test(t, exit_statuses);
  tcase_add_test(t, times);
  tcase_add_test(t, shell_words);
  tcase_add_test(t, default_cache_path_follows_xdg);
  tcase_add_test(t, parents_are_made);
  tcase_add_test(t, the_page_names_every_option);
  tcase_add_test(t, parsing_survives_every_failed_allocation);
  return t;
}

int main(int argc, char **argv) {
  tune_worker_main_if_asked(argc, argv);
  Suite *suite = suite_create("cli");
  suite_add_tcase(suite, cli_options_case());
  suite_add_tcase(suite, cli_values_case());
  suite_add_tcase(suite, cli_workload_case());
  suite_add_tcase(suite, cli_known_case());
  suite_add_tcase(suite, cli_report_case());
  suite_add_tcase(suite, cli_contest_case());
  suite_add_tcase(suite, cli_fidelity_case());
  suite_add_tcase(suite, cli_images_case());
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_FORK);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? 0 : 1;
}
