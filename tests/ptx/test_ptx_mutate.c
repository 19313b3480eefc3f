/* The editor that planted-fault tests use: each edit is found again by the decoder, and nothing else changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/ptx_program.h"
#include "tests/emulator/ptx_mutate.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

static const char text[] = ".version 8.6\n.target sm_90a\n.address_size 64\n"
                           ".entry k() { .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
                           "bar.sync 0; mov.b32 %r0, 5; // bar.sync 9;\n"
                           "@!%p1 bar.sync 1, 64; st.global.v2.b32 [%d0+8], {%r0, 7};\n"
                           "shfl.sync.idx.b32 %r1|%p0, %r0, 0, 31, -1;\n"
                           "ld.global.b32 %r2, [%d1]; @%p0 bra L;\nL: }\n";

typedef enum edit { DELETE, BEFORE, AFTER, IMMEDIATE, ADDRESS, GUARD } edit;

static const struct {
  edit edit;
  ptx_place place;
  int operand;
  int64_t value;
  const char *statement;
  const char *gone, *there; /* part of the original that the edit replaces, and what stands in its place */
} EDITS[] = {
    {DELETE, {"bar.sync", 0}, 0, 0, NULL, "bar.sync 0; mov", " mov"},
    {DELETE, {"bar.*", 1}, 0, 0, NULL, "@!%p1 bar.sync 1, 64; st", " st"},
    {DELETE, {"bra", 0}, 0, 0, NULL, "@%p0 bra L;", ""},
    {DELETE, {"*global*", 1}, 0, 0, NULL, "ld.global.b32 %r2, [%d1];", ""},
    {BEFORE, {"bar.sync", 1}, 0, 0, "add.s32 %r1, %r1, 1; ", "@!%p1 bar", "add.s32 %r1, %r1, 1; @!%p1 bar"},
    {AFTER, {"mov.b32", 0}, 0, 0, " exit;", "%r0, 5;", "%r0, 5; exit;"},
    {IMMEDIATE, {"bar.sync", 1}, 1, 96, NULL, "1, 64;", "1, 96;"},
    {IMMEDIATE, {"mov.*", 0}, 1, -3, NULL, "%r0, 5;", "%r0, -3;"},
    {IMMEDIATE, {"shfl*", 0}, 5, 255, NULL, "31, -1;", "31, 255;"},
    {ADDRESS, {"st.*", 0}, 0, 16, NULL, "[%d0+8]", "[%d0+24]"},
    {ADDRESS, {"st.*", 0}, 0, -16, NULL, "[%d0+8]", "[%d0+-8]"},
    {ADDRESS, {"ld.*", 0}, 1, 4, NULL, "[%d1]", "[%d1+4]"},
    {GUARD, {"bar.sync", 1}, 0, 0, "@%p0", "@!%p1 bar", "@%p0 bar"},
    {GUARD, {"mov.b32", 0}, 0, 0, "@%p0", " mov.b32", " @%p0 mov.b32"},
    {GUARD, {"bra", 0}, 0, 0, "", "@%p0 bra", " bra"},
};

static char *apply(int row, const char *ptx, arke_error *err) {
  ptx_place place = EDITS[row].place;
  switch (EDITS[row].edit) {
  case DELETE: return ptx_mutate_delete(ptx, place, err);
  case BEFORE: return ptx_mutate_insert_before(ptx, place, EDITS[row].statement, err);
  case AFTER: return ptx_mutate_insert_after(ptx, place, EDITS[row].statement, err);
  case IMMEDIATE: return ptx_mutate_immediate(ptx, place, EDITS[row].operand, EDITS[row].value, err);
  case ADDRESS: return ptx_mutate_address(ptx, place, EDITS[row].operand, EDITS[row].value, err);
  default: return ptx_mutate_guard(ptx, place, EDITS[row].statement, err);
  }
}

static void check_edit(int row) {
  arke_error err = ARKE_ERROR_INIT;
  char *got = apply(row, text, &err);
  ck_assert_msg(got != NULL, "%s", err.text);
  const char *at = strstr(text, EDITS[row].gone);
  ck_assert_ptr_nonnull(at);
  char expected[sizeof text + 64];
  snprintf(expected, sizeof expected, "%.*s%s%s", (int)(at - text), text, EDITS[row].there,
           at + strlen(EDITS[row].gone));
  ck_assert_str_eq(got, expected);
  ck_assert_int_ge(ptx_mutate_count(got, "*", &err), 6);
  free(got);
}

START_TEST(edits_change_one_place) {
  for (int row = 0; row < (int)COUNT_OF(EDITS); row++) check_edit(row);
}
END_TEST

START_TEST(what_is_not_there_is_refused) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_ptr_null(ptx_mutate_delete(text, (ptx_place){"bar.sync", 2}, &err));
  ck_assert_str_eq(err.text, "the text has 2 instructions 'bar.sync', none is number 2");
  error_clear(&err);
  ck_assert_ptr_null(ptx_mutate_immediate(text, (ptx_place){"mov.b32", 0}, 0, 1, &err));
  ck_assert_str_eq(err.text, "operand 0 of 'mov.b32' is no constant");
  error_clear(&err);
  ck_assert_ptr_null(ptx_mutate_address(text, (ptx_place){"mov.b32", 0}, 1, 1, &err));
  ck_assert_str_eq(err.text, "operand 1 of 'mov.b32' is no address in [ ]");
  error_clear(&err);
  ck_assert_ptr_null(ptx_mutate_delete("nonsense", (ptx_place){"bar.sync", 2}, &err));
  ck_assert_int_eq(ptx_mutate_count("nonsense", "*", NULL), -1);
}
END_TEST

START_TEST(every_instruction_can_be_deleted) {
  size_t bytes;
  arke_error err = ARKE_ERROR_INIT;
  char *ptx = read_text("tests/ptx/cases/14_ws_gemm_skeleton.ptx", &bytes);
  int n = ptx_mutate_count(ptx, "*", &err);
  ck_assert_int_gt(n, 100);
  for (int k = 0; k < n; k++) {
    char *less = ptx_mutate_delete(ptx, (ptx_place){"*", k}, &err);
    ck_assert_msg(less != NULL, "%s", err.text);
    if (ptx_mutate_count(less, "*", &err) != n - 1) ck_abort_msg("instruction %d", k);
    free(less);
  }
  free(ptx);
}
END_TEST

Suite *ptx_mutate_suite(void) {
  Suite *s = suite_create("ptx_mutate");
  TCase *t = tcase_create("edits");
  tcase_add_test(t, edits_change_one_place);
  tcase_add_test(t, what_is_not_there_is_refused);
  tcase_add_test(t, every_instruction_can_be_deleted);
  suite_add_tcase(s, t);
  return s;
}
