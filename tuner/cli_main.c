/* arke-tune: splits the command line, hands over to a sub-command, turns its status into the exit status. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tuner/cli_bench.h"
#include "tuner/cli_cache.h"
#include "tuner/cli_list.h"
#include "tuner/cli_output.h"
#include "tuner/cli_planted.h"
#include "tuner/cli_selftest.h"
#include "tuner/cli_tune.h"
#include "tuner/interrupts.h"

static arke_status print_listing(const cli_line *line, const cli_settings *s, arke_error *err) {
  strbuf out = STRBUF_INIT;
  arke_status status = ARKE_OK;
  if (line->given[CLI_OPT_HELP])
    cli_help_print(line->command, &out);
  else if (line->given[CLI_OPT_VERSION])
    cli_list_versions(&out);
  else
    status = cli_list_operators(s->tune.target != NULL ? s->tune.target : cli_default_target(), s->json, &out,
                                err);
  if (status == ARKE_OK) status = cli_print(&out, err);
  strbuf_free(&out);
  return status;
}

static arke_status dispatch(cli_settings *s, arena *a, arke_error *err) {
  switch (s->line->command) {
  case CLI_TUNE: return cli_tune_run(s, a, err);
  case CLI_SWEEP: return cli_sweep_run(s, a, err);
  case CLI_BENCH: return cli_bench_run(s, a, err);
  case CLI_SELFTEST: return cli_selftest_run(s, a, err);
  case CLI_CACHE: return cli_cache_run(s, a, err);
  case CLI_COMMAND_COUNT: break;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "main", "sub-command %d has no code", (int)s->line->command);
}

static arke_status run(int argc, char **argv, arena *a, arke_error *err) {
  cli_line line;
  cli_settings s = {0};
  TRY(cli_parse(argc, argv, a, &line, err));
  if (line.given[CLI_OPT_HELP] || line.given[CLI_OPT_VERSION]) return print_listing(&line, &s, err);
  TRY(cli_settings_read(&line, a, &s, err));
  if (line.given[CLI_OPT_LIST_OPS]) return print_listing(&line, &s, err);
  return dispatch(&s, a, err);
}

/* Compile workers also know the selftest's template; sessions choose from it only when they name it. */
static void become_worker_if_asked(int argc, char **argv) {
  const kernel_template *list[TUNE_TEMPLATES_MAX];
  tune_templates templates = {.list = list};
  for (int i = 0; i < template_count() && templates.count + 1 < TUNE_TEMPLATES_MAX; i++)
    list[templates.count++] = template_get(i);
  list[templates.count++] = &cli_planted_template;
  tune_worker_main_with(argc, argv, &templates);
}

/* A file opened later must not take the number of a stream that came closed: it would get what is meant for
 * the stream, and libuv aborts. Read-only for standard output, so that a result that nobody gets is a
 * failure. */
static void occupy_standard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
  occupy_standard_streams();
  become_worker_if_asked(argc, argv);
  interrupts_end_process(); /* before anything that takes time: reading, ranking */
  signal(SIGPIPE,
         SIG_IGN); /* a closed pipe is a failed write with a sentence, and workers may die at any time */
  signal(SIGXFSZ, SIG_IGN); /* so is a file at its size limit */
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = run(argc, argv, &a, &err);
  if (status != ARKE_OK) cli_complain("%s", err.text[0] != '\0' ? err.text : arke_status_text(status));
  arena_release(&a);
  return cli_exit_status(status, &err);
}
