#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "generator/assemble.h"
#include "generator/assemble_log.h"
#include "generator_suites.h"

static const char good_ptx[] = ".version 8.6\n"
                               ".target sm_90a\n"
                               ".address_size 64\n"
                               ".visible .entry k(.param .u64 p)\n"
                               "{\n"
                               "  .reg .b64 a;\n"
                               "  .reg .b32 t;\n"
                               "  ld.param.u64 a, [p];\n"
                               "  mov.u32 t, %tid.x;\n"
                               "  st.global.u32 [a], t;\n"
                               "  ret;\n"
                               "}\n";

static bool present(int kind) {
  return kind == ASSEMBLER_PTXAS ? assemble_ptxas_found() : assemble_nvjitlink_found();
}

/* Without either, the loops below have nothing to do, as on a machine without a toolkit. */
START_TEST(each_assembler_makes_a_cubin) {
  if (!present(_i)) return;
  assembled out;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(assemble_ptx((assembler_kind)_i, good_ptx, "sm_90a", &out, &err) == ARKE_OK, "%s", err.text);
  ck_assert_uint_gt(out.cubin_bytes, 64);
  ck_assert_mem_eq(out.cubin, "\177ELF", 4);
  ck_assert_int_gt(out.registers, 0);
  ck_assert_int_eq(out.spill_bytes, 0);
  ck_assert_str_eq(out.log, "");
  assembled_free(&out);
  ck_assert_ptr_null(out.cubin);
}
END_TEST

START_TEST(each_assembler_names_the_line) {
  if (!present(_i)) return;
  char bad[sizeof good_ptx + 8];
  strcpy(bad, good_ptx);
  memcpy(strstr(bad, "st.global.u32"), "st.glossy.u32", 13);
  assembled out;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_ptx((assembler_kind)_i, bad, "sm_90a", &out, &err), ARKE_ERR_ASSEMBLE);
  ck_assert_msg(strstr(err.text, "PTX line 10: st.glossy.u32 [a], t;"), "%s", err.text);
  ck_assert_ptr_null(out.cubin);
}
END_TEST

/* By ptxas; nvJitLink ends the process there. */
START_TEST(an_unknown_target_is_refused) {
  if (!present(ASSEMBLER_PTXAS)) return;
  assembled out;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_ptx(ASSEMBLER_PTXAS, good_ptx, "sm_1", &out, &err), ARKE_ERR_ASSEMBLE);
  ck_assert_str_ne(err.text, "");
}
END_TEST

START_TEST(no_assembler_is_an_answer) {
  assembled out;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_ptx(ASSEMBLER_NONE, good_ptx, "sm_90a", &out, &err), ARKE_ERR_UNSUPPORTED);
}
END_TEST

/* A ptxas of our own on PATH, which runs `script`; what assembling with it says. In `folder`, which is empty
 * before and after. */
static arke_status with_script_in(const char *folder, const char *script, arke_error *err) {
  char path[64], temporary[64];
  snprintf(path, sizeof path, "%s/ptxas", folder);
  snprintf(temporary, sizeof temporary, "%s/tmp", folder);
  ck_assert_int_eq(mkdir(temporary, 0700), 0);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fprintf(f, "#!/bin/sh\n%s\n", script);
  fclose(f);
  chmod(path, 0700);
  setenv("PATH", folder, 1);
  setenv("TMPDIR", temporary, 1);
  assembled out;
  ck_assert(assemble_ptxas_found());
  arke_status status = assemble_ptx(ASSEMBLER_PTXAS, good_ptx, "sm_90a", &out, err);
  assembled_free(&out);
  unlink(path);
  ck_assert_msg(rmdir(temporary) == 0, "temporary files are left over");
  return status;
}

static arke_status with_script(const char *script, arke_error *err) {
  char folder[] = "/tmp/arke-test-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(folder));
  arke_status status = with_script_in(folder, script, err);
  ck_assert_int_eq(rmdir(folder), 0);
  return status;
}

/* Of a folder and what a killed process left in it. */
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
  (void)st, (void)type, (void)walk;
  return remove(path);
}

START_TEST(a_ptxas_that_dies) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(with_script("kill -11 $$", &err), ARKE_ERR_ASSEMBLE);
  ck_assert_msg(strstr(err.text, "signal 11"), "%s", err.text);
}
END_TEST

/* As the kernel does when memory runs out: that says nothing about the PTX. */
START_TEST(a_ptxas_that_is_killed) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(with_script("kill -9 $$", &err), ARKE_ERR_MEMORY);
  ck_assert_msg(strstr(err.text, "signal 9"), "%s", err.text);
}
END_TEST

/* A dead process that init has not reaped yet counts as dead. */
static bool is_alive(pid_t pid) {
  char path[64], state = 'X';
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
  fclose(f);
  return state != 'X' && state != 'Z';
}

static pid_t read_pid(const char *path) {
  int pid = 0;
  for (int i = 0; i < 250 && pid == 0; i++) {
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &pid) != 1) pid = 0;
    if (f) fclose(f);
    usleep(20000);
  }
  return pid;
}

START_TEST(a_ptxas_ends_with_its_parent) {
  char folder[] = "/tmp/arke-test-XXXXXX", path[64], script[160];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/pid", folder);
  snprintf(script, sizeof script, "echo $$ > %s; exec /bin/sleep 60", path);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    with_script_in(folder, script, NULL);
    _exit(0);
  }
  pid_t ptxas = read_pid(path);
  ck_assert_int_gt(ptxas, 0);
  ck_assert_int_eq(kill(child, SIGKILL), 0);
  waitpid(child, NULL, 0);
  bool gone = false;
  for (int i = 0; i < 100 && !gone; i++) {
    gone = !is_alive(ptxas);
    usleep(20000);
  }
  if (!gone) kill(ptxas, SIGKILL);
  ck_assert(gone);
  ck_assert_int_eq(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
END_TEST

/* No folder for temporary files, or one of a very long name, is none of its business. */
START_TEST(no_temporary_file_is_needed) {
  if (!present(ASSEMBLER_PTXAS)) return;
  char longest[900];
  memset(longest, 'x', sizeof longest - 1);
  longest[0] = '/';
  longest[sizeof longest - 1] = '\0';
  const char *folders[] = {"/nonexistent", longest};
  for (size_t i = 0; i < COUNT_OF(folders); i++) {
    assembled out;
    arke_error err = ARKE_ERROR_INIT;
    setenv("TMPDIR", folders[i], 1);
    ck_assert_msg(assemble_ptx(ASSEMBLER_PTXAS, good_ptx, "sm_90a", &out, &err) == ARKE_OK, "%s", err.text);
    ck_assert_mem_eq(out.cubin, "\177ELF", 4);
    assembled_free(&out);
  }
}
END_TEST

START_TEST(a_ptxas_that_writes_nothing) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(with_script("exit 0", &err), ARKE_ERR_IO);
  ck_assert_msg(strstr(err.text, "wrote no cubin"), "%s", err.text);
}
END_TEST

START_TEST(a_ptxas_that_fails_without_a_word) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(with_script("exit 3", &err), ARKE_ERR_ASSEMBLE);
  ck_assert_str_ne(err.text, "");
}
END_TEST

START_TEST(logs_are_read) {
  static const char log[] =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    24 bytes stack frame, 188 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers, 1024 bytes smem";
  assembled out = {.registers = -1, .spill_bytes = -1};
  assemble_log_read(log, &out);
  ck_assert_int_eq(out.registers, 168);
  ck_assert_int_eq(out.spill_bytes, 200);
  ck_assert_ptr_nonnull(strstr(out.log, "C7510"));
  ck_assert_ptr_null(strstr(out.log, "gmem"));
  out = (assembled){.registers = -1, .spill_bytes = -1};
  assemble_log_read("", &out);
  ck_assert_int_eq(out.registers, -1);
  ck_assert_int_eq(out.spill_bytes, -1);
}
END_TEST

START_TEST(errors_without_a_line_keep_their_text) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_log_error("ptxas fatal   : Value 'sm_1' is not defined\n", good_ptx, &err),
                   ARKE_ERR_ASSEMBLE);
  ck_assert_ptr_nonnull(strstr(err.text, "Value 'sm_1' is not defined"));
  err = (arke_error)ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_log_error("x, line 99; error : too far\n", good_ptx, &err), ARKE_ERR_ASSEMBLE);
  ck_assert_ptr_nonnull(strstr(err.text, "too far"));
  err = (arke_error)ARKE_ERROR_INIT;
  ck_assert_int_eq(assemble_log_error("", good_ptx, &err), ARKE_ERR_ASSEMBLE);
  ck_assert_str_ne(err.text, "");
}
END_TEST

TCase *assemble_tests(void) {
  TCase *tests = tcase_create("assembling");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, each_assembler_makes_a_cubin, ASSEMBLER_NVJITLINK, ASSEMBLER_PTXAS + 1);
  tcase_add_loop_test(tests, each_assembler_names_the_line, ASSEMBLER_NVJITLINK, ASSEMBLER_PTXAS + 1);
  tcase_add_test(tests, an_unknown_target_is_refused);
  tcase_add_test(tests, no_assembler_is_an_answer);
  tcase_add_test(tests, a_ptxas_that_dies);
  tcase_add_test(tests, a_ptxas_that_is_killed);
  tcase_add_test(tests, a_ptxas_ends_with_its_parent);
  tcase_add_test(tests, no_temporary_file_is_needed);
  tcase_add_test(tests, a_ptxas_that_writes_nothing);
  tcase_add_test(tests, a_ptxas_that_fails_without_a_word);
  tcase_add_test(tests, logs_are_read);
  tcase_add_test(tests, errors_without_a_line_keep_their_text);
  return tests;
}
