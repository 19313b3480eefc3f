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

static arke_status ask(fixture *f, const char *op, const char *bindings, const char *template_name,
                       const char *values, bool first_way_only) {
  tune_message_release(&f->request);
  tune_message_release(&f->reply);
  error_clear(&f->err);
  f->reply.body = json_object();
  f->request.body =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b}", "do", "compile", "op",
                ir_catalogue_find(op, NULL)->text, "bindings", bindings, "target", "sm_90a", "template",
                template_name, "config", values, "keep_llvm_ir", 0, "first_way_only", first_way_only);
  ck_assert_ptr_nonnull(f->request.body);
  return tune_compile_role.handle(f->state, &f->request, &f->reply, &f->err);
}

static arke_status compile(fixture *f, const char *values) {
  return ask(f, "matmul", "T=bf16 M=1024 N=1024 K=1024", "gemm", values, false);
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

static tune_blob take(fixture *f, const char *name) {
  return tune_message_take_blob(&f->reply, (int)number(f, name));
}

static int count_launches(const recipe *r) {
  int n = 0;
  for (; r; r = r->otherwise) n += r->n_launches;
  return n;
}

/* What a search measured must be what is published: each kernel of the first way, to the letter. */
START_TEST(the_first_way_is_a_part_of_the_whole) {
  static const struct {
    const char *op, *bindings, *template;
    bool alone;
  } cases[] = {{"add", "T=bf16 ...=1000", "map", false},
               {"softmax", "T=f32 M=64 N=1000", "row", false},
               {"cumsum", "T=f32 M=64 N=5000", "scan", false},
               {"topk", "T=f32 M=64 N=1000 K=8", "topk", false},
               {"transpose", "T=bf16 M=300 N=500", "transpose", false},
               {"reduce_sum_columns", "T=f32 M=3000 N=64", "column", false},
               {"cross_entropy", "T=bf16 N=70 V=130", "compose", false},
               {"scatter_add", "T=f32 M=30 N=72 K=20", "scatter", false},
               {"matmul", "T=bf16 M=1024 N=1024 K=1024", "gemm", true}};
  fixture f;
  recipe one, all;
  arena a = ARENA_INIT;
  open_fixture(&f, "", true);
  ck_assert_msg(ask(&f, cases[_i].op, cases[_i].bindings, cases[_i].template, "", true) == ARKE_OK, "%s",
                f.err.text);
  tune_blob ptx = take(&f, "ptx"), text = take(&f, "recipe");
  int64_t left_out = number(&f, "ways_left_out");
  ck_assert_int_eq(recipe_parse(&a, text.data, text.bytes, &one, &f.err), ARKE_OK);
  ck_assert_int_eq(ask(&f, cases[_i].op, cases[_i].bindings, cases[_i].template, "", false), ARKE_OK);
  ck_assert_int_eq(number(&f, "ways_left_out"), 0);
  tune_blob whole = take(&f, "ptx"), whole_text = take(&f, "recipe");
  ck_assert_int_eq(recipe_parse(&a, whole_text.data, whole_text.bytes, &all, &f.err), ARKE_OK);
  ck_assert_ptr_null(one.otherwise);
  ck_assert_int_eq(left_out == 0, cases[_i].alone);
  int64_t others = 0;
  for (const recipe *r = all.otherwise; r; r = r->otherwise) others++;
  ck_assert_int_eq(left_out, others);
  const char *kernels = strstr(ptx.data, ".entry ");
  ck_assert_ptr_nonnull(kernels);
  ck_assert_msg(strstr(whole.data, kernels) != NULL, "%s is another kernel in the whole image",
                one.launches[0].kernel);
  ck_assert_int_eq(one.n_launches, all.n_launches);
  ck_assert(cases[_i].alone || count_launches(&all) > count_launches(&one));
  tune_blob all_blobs[] = {ptx, text, whole, whole_text};
  for (size_t i = 0; i < COUNT_OF(all_blobs); i++) free(all_blobs[i].data);
  arena_release(&a);
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
  tcase_add_loop_test(c, the_first_way_is_a_part_of_the_whole, 0, 9);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
