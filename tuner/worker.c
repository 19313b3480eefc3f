#include "tuner/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STAGE "worker"

static const tune_worker_role *const roles[] = {&tune_compile_role, &tune_device_role};

static void write_or_leave(const tune_message *m) {
  arke_error err = ARKE_ERROR_INIT;
  if (tune_message_write(TUNE_WORKER_REPLY_FD, m, &err) != ARKE_OK) _exit(3); /* nobody listens any more */
}

void tune_worker_event(json_t *event) {
  tune_message m = {.body = event};
  if (event) write_or_leave(&m);
  tune_message_release(&m);
}

void tune_worker_stage(const char *stage) {
  tune_worker_event(json_pack("{s:s, s:s}", "event", "stage", "stage", stage));
}

void tune_worker_stage_slow(const char *stage) {
  tune_worker_event(json_pack("{s:s, s:s, s:b}", "event", "stage", "stage", stage, "slow", 1));
}

static void fill_status(tune_message *reply, arke_status status, const arke_error *err) {
  json_object_set_new(reply->body, "status", json_integer(status));
  if (status == ARKE_OK) return;
  /* Text of drivers and assemblers may hold bytes that are not UTF-8, which JSON cannot carry. */
  json_t *text = json_string(err->text);
  json_object_set_new(reply->body, "error", text ? text : json_string(arke_status_text(status)));
  json_object_set_new(reply->body, "stage", json_string(err->stage));
}

static int serve(const tune_worker_role *role, void *state) {
  tune_reader reader = {0};
  int rc = 0;
  for (bool more = true; more;) {
    tune_message request = {0}, reply = {.body = json_object()};
    arke_error err = ARKE_ERROR_INIT;
    bool eof = false;
    if (tune_message_read(STDIN_FILENO, &reader, &request, &eof, &err) != ARKE_OK) rc = 2;
    more = rc == 0 && !eof;
    if (more) {
      arke_status status = role->handle(state, &request, &reply, &err);
      fill_status(&reply, status, &err);
      write_or_leave(&reply);
      more = !json_is_true(json_object_get(reply.body, "leaving"));
    }
    tune_message_release(&request);
    tune_message_release(&reply);
  }
  tune_reader_release(&reader);
  return rc;
}

static int run(const tune_worker_role *role, const tune_hooks *hooks) {
  arke_error err = ARKE_ERROR_INIT;
  void *state;
  if (role->open(hooks, &state, &err) != ARKE_OK) {
    fprintf(stderr, "%s\n", err.text);
    return 2;
  }
  int rc = serve(role, state);
  role->close(state);
  return rc;
}

void tune_worker_main_hooked(int argc, char **argv, const tune_hooks *hooks) {
  size_t prefix = strlen(TUNE_WORKER_ARGUMENT);
  if (argc != 2 || strncmp(argv[1], TUNE_WORKER_ARGUMENT, prefix) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a worker in a long kernel would not see its stdin end */
  signal(SIGINT, SIG_IGN);          /* Ctrl-C reaches the whole group; the parent decides what it means */
  if (fcntl(TUNE_WORKER_REPLY_FD, F_SETFD, FD_CLOEXEC) != 0) {
    fprintf(stderr, "%s is for processes that Arke starts itself\n", argv[1]);
    exit(2);
  }
  for (size_t i = 0; i < COUNT_OF(roles); i++)
    if (strcmp(roles[i]->name, argv[1] + prefix) == 0) exit(run(roles[i], hooks));
  fprintf(stderr, "unknown worker role %s\n", argv[1] + prefix);
  exit(2);
}

void tune_worker_main_with(int argc, char **argv, const tune_templates *templates) {
  tune_worker_main_hooked(argc, argv, &(tune_hooks){.templates = templates});
}

void tune_worker_main_if_asked(int argc, char **argv) {
  tune_worker_main_with(argc, argv, NULL);
}
