/* The compile worker's inside, in this process, with assemblers made of shell scripts. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner/worker.h"

#define SETMAXNREG_IGNORED "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored"

typedef struct fixture {
  char folder[64], ptxas[96];
  tune_hooks hooks;
  void *state;
  tune_message request, reply;
  arke_error err;
} fixture;

/* A ptxas on PATH that prints the line and writes some bytes as the cubin. */
static void put_ptxas(fixture *f, const char *line) {
  FILE *file = fopen(f->ptxas, "w");
  ck_assert_ptr_nonnull(file);
  fprintf(file, "#!/bin/sh\necho \"%s\"\necho 'ptxas info    : Used 168 registers'\n", line);
  fprintf(file, "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo a cubin > \"$2\"; shift; done\n");
  fclose(file);
  ck_assert_int_eq(chmod(f->ptxas, 0700), 0);
  char path[256];
  snprintf(path, sizeof path, "%s:/usr/bin:/bin", f->folder);
  setenv("PATH", path, 1);
}

static void open_fixture(fixture *f, const char *line, bool no_assembler) {
  *f = (fixture){0};
  strcpy(f->folder, "/tmp/arke-compile-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(f->folder));
  snprintf(f->ptxas, sizeof f->ptxas, "%s/ptxas", f->folder);
  put_ptxas(f, line);
  f->hooks = (tune_hooks){.no_assembler = no_assembler};
  ck_assert_int_eq(tune_compile_role.open(&f->hooks, &f->state, &f->err), ARKE_OK);
}

static void close_fixture(fixture *f) {
  tune_message_release(&f->request);
  tune_message_release(&f->reply);
  tune_compile_role.close(f->state);
  unlink(f->ptxas);
  rmdir(f->folder);
}

static arke_status compile(fixture *f, const char *values) {
  tune_message_release(&f->request);
  tune_message_release(&f->reply);
  error_clear(&f->err);
  f->reply.body = json_object();
  f->request.body =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "do", "compile", "op",
                ir_catalogue_find("matmul", NULL)->text, "bindings", "T=bf16 M=1024 N=1024 K=1024", "target",
                "sm_90a", "template", "gemm", "config", values, "keep_llvm_ir", 0);
  ck_assert_ptr_nonnull(f->request.body);
  return tune_compile_role.handle(f->state, &f->request, &f->reply, &f->err);
}

static int64_t number(const fixture *f, const char *name) {
  return tune_message_integer(f->reply.body, name, -2);
}

START_TEST(a_cubin_that_ignores_setmaxnreg_is_not_kept) {
  fixture f;
  open_fixture(&f, SETMAXNREG_IGNORED, false);
  ck_assert_msg(compile(&f, "BLOCK_M=128,BLOCK_N=64") == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(number(&f, "cubin"), -1);
  ck_assert_int_eq(number(&f, "registers"), -1);
  ck_assert_int_ge(number(&f, "ptx"), 0);
  ck_assert_ptr_nonnull(strstr(tune_message_text(f.reply.body, "log", ""), "C7504"));
  close_fixture(&f);
}
END_TEST

START_TEST(another_cubin_is_kept) {
  fixture f;
  open_fixture(&f, "ptxas info    : 0 bytes gmem", false);
  ck_assert_msg(compile(&f, "BLOCK_M=128,BLOCK_N=64") == ARKE_OK, "%s", f.err.text);
  ck_assert_int_ge(number(&f, "cubin"), 0);
  ck_assert_int_eq(number(&f, "registers"), 168);
  close_fixture(&f);
}
END_TEST

/* Killed as when memory runs out, and gone since the worker began: the PTX stands, and a word is said. */
START_TEST(an_assembler_that_cannot_run_is_no_refusal) {
  fixture f;
  open_fixture(&f, _i ? "" : "$(kill -9 $$)", false);
  if (_i) {
    ck_assert_int_eq(truncate(f.ptxas, 0), 0);
    ck_assert_int_eq(chmod(f.ptxas, 0700), 0);
    FILE *file = fopen(f.ptxas, "w");
    fputs("#!/nonexistent/sh\n", file);
    fclose(file);
  }
  ck_assert_msg(compile(&f, "BLOCK_M=128,BLOCK_N=64") == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(number(&f, "cubin"), -1);
  ck_assert_int_ge(number(&f, "ptx"), 0);
  const char *why = tune_message_text(f.reply.body, "unassembled", "");
  ck_assert_msg(strstr(why, _i ? "cannot run" : "signal 9"), "%s", why);
  close_fixture(&f);
}
END_TEST

START_TEST(without_an_assembler_the_ptx_is_all) {
  fixture f;
  open_fixture(&f, "", true);
  ck_assert_msg(compile(&f, "BLOCK_M=128,BLOCK_N=64") == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(number(&f, "cubin"), -1);
  close_fixture(&f);
}
END_TEST

/* What the worker keeps between requests must not show in a kernel, a failure between them included. */
START_TEST(requests_do_not_change_each_other) {
  fixture f;
  open_fixture(&f, "", true);
  ck_assert_int_eq(compile(&f, "BLOCK_M=128,BLOCK_N=64"), ARKE_OK);
  tune_blob first = tune_message_take_blob(&f.reply, (int)number(&f, "ptx"));
  ck_assert_int_eq(compile(&f, "BLOCK_M=64,BLOCK_N=32,CONSUMERS=1,SCHEDULE=0"), ARKE_OK);
  ck_assert_int_ne(compile(&f, "BLOCK_M=64,CONSUMERS=2,SCHEDULE=0"), ARKE_OK);
  ck_assert_int_eq(compile(&f, "BLOCK_M=128,BLOCK_N=64"), ARKE_OK);
  tune_blob again = tune_message_take_blob(&f.reply, (int)number(&f, "ptx"));
  ck_assert_uint_eq(first.bytes, again.bytes);
  ck_assert_int_eq(memcmp(first.data, again.data, first.bytes), 0);
  free(first.data);
  free(again.data);
  close_fixture(&f);
}
END_TEST

int main(void) {
  /* For the stages a worker tells; before Check opens files of its own. */
  if (dup2(open("/dev/null", O_WRONLY), TUNE_WORKER_REPLY_FD) < 0) return 1;
  Suite *suite = suite_create("compile_worker");
  TCase *c = tcase_create("compile_worker");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, a_cubin_that_ignores_setmaxnreg_is_not_kept);
  tcase_add_test(c, another_cubin_is_kept);
  tcase_add_loop_test(c, an_assembler_that_cannot_run_is_no_refusal, 0, 2);
  tcase_add_test(c, without_an_assembler_the_ptx_is_all);
  tcase_add_test(c, requests_do_not_change_each_other);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
