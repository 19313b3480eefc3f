#include "tests/base/base_suites.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "tests/support/failing_alloc.h"

START_TEST(arena_gives_zeroed_aligned_memory) {
  arena a = ARENA_INIT;
  unsigned char *before = NULL;
  size_t before_size = 0;
  for (size_t size = 0; size < 100000; size = size * 3 / 2 + 1) {
    unsigned char *p = arena_alloc(&a, size);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < size; i++) ck_assert_uint_eq(p[i], 0);
    memset(p, 0xFF, size);
    ck_assert(before == NULL || p >= before + before_size || p + size <= before);
    before = p;
    before_size = size;
  }
  ck_assert_uint_ge(a.total_bytes, before_size);
  arena_release(&a);
  ck_assert(a.blocks == NULL && a.total_bytes == 0);
  ck_assert_ptr_nonnull(arena_alloc(&a, 1)); /* as new */
  arena_release(&a);
}
END_TEST

START_TEST(arena_refuses_impossible_sizes) {
  arena a = ARENA_INIT;
  ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
  ck_assert_ptr_null(arena_array(&a, SIZE_MAX / 2, 3));
  ck_assert_ptr_null(arena_array(&a, 3, SIZE_MAX / 2));
  ck_assert_ptr_nonnull(arena_array(&a, 0, 8));
  ck_assert_ptr_nonnull(arena_array(&a, 8, 0));
  arena_release(&a);
}
END_TEST

START_TEST(arena_copies_texts) {
  arena a = ARENA_INIT;
  ck_assert_str_eq(arena_strdup(&a, "tile"), "tile");
  ck_assert_str_eq(arena_strndup(&a, "tile", 2), "ti");
  ck_assert_mem_eq(arena_strndup(&a, "a\0b", 3), "a\0b", 4);
  ck_assert_str_eq(arena_printf(&a, "BLOCK_M=%d", 128), "BLOCK_M=128");
  char *wide = arena_printf(&a, "%10000d", 1);
  ck_assert_uint_eq(strlen(wide), 10000);
  ck_assert_str_eq(arena_printf(&a, "%s", ""), "");
  int *numbers = ARENA_NEW_N(&a, int, 100), *one = ARENA_NEW(&a, int);
  ck_assert(numbers[99] == 0 && *one == 0);
  arena_release(&a);
}
END_TEST

START_TEST(arena_survives_lack_of_memory) {
  arena a = ARENA_INIT;
  failing_alloc_arm(0);
  ck_assert_ptr_null(arena_strdup(&a, "x"));
  ck_assert(failing_alloc_disarm());
  ck_assert_str_eq(arena_strdup(&a, "x"), "x");
  failing_alloc_arm(0);
  ck_assert_ptr_null(arena_printf(&a, "%10000d", 1));
  ck_assert(failing_alloc_disarm());
  ck_assert_ptr_nonnull(arena_alloc(&a, 1));
  arena_release(&a);
}
END_TEST

START_TEST(strbuf_grows) {
  strbuf s = STRBUF_INIT;
  ck_assert_str_eq(strbuf_text(&s), "");
  for (int i = 0; i < 1000; i++) strbuf_addf(&s, "%d,", i);
  strbuf_add(&s, "end");
  strbuf_add_bytes(&s, "\0x", 2);
  ck_assert(!strbuf_failed(&s));
  ck_assert_uint_eq(s.length, 10 * 2 + 90 * 3 + 900 * 4 + 5);
  ck_assert_int_eq(strncmp(s.data, "0,1,2,", 6), 0);
  ck_assert_mem_eq(s.data + s.length - 5, "end\0x", 6);
  strbuf_clear(&s);
  ck_assert_str_eq(strbuf_text(&s), "");
  strbuf_addf(&s, "%5000d", 7);
  ck_assert_uint_eq(s.length, 5000);
  char *text = strbuf_take(&s);
  ck_assert_uint_eq(strlen(text), 5000);
  free(text);
  ck_assert(s.data == NULL && s.length == 0);
  text = strbuf_take(&s); /* nothing written is an empty text */
  ck_assert_str_eq(text, "");
  free(text);
  strbuf_free(&s);
}
END_TEST

START_TEST(strbuf_failure_is_sticky) {
  strbuf s = STRBUF_INIT;
  strbuf_add(&s, "kept");
  failing_alloc_arm(0);
  strbuf_addf(&s, "%5000d", 7);
  ck_assert(failing_alloc_disarm());
  ck_assert(strbuf_failed(&s));
  strbuf_add(&s, "lost");
  ck_assert_str_eq(strbuf_text(&s), "kept");
  ck_assert_ptr_null(strbuf_take(&s));
  ck_assert(!strbuf_failed(&s) && s.data == NULL); /* as new */
  strbuf_add_bytes(&s, "x", SIZE_MAX - 1);
  ck_assert(strbuf_failed(&s));
  strbuf_free(&s);
}
END_TEST

START_TEST(first_error_wins) {
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(error_set(&err, ARKE_ERR_SHAPE, "plan", "tensor %s", "A"), ARKE_ERR_SHAPE);
  ck_assert_int_eq(error_set(&err, ARKE_ERR_IO, "cache", "later"), ARKE_ERR_IO);
  ck_assert(err.code == ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.stage, "plan");
  ck_assert_str_eq(err.text, "tensor A");
  error_context(&err, "matmul", "BLOCK_M=64");
  error_context(&err, "linear", "BLOCK_M=32");
  ck_assert_str_eq(err.op, "matmul");
  ck_assert_str_eq(err.config, "BLOCK_M=64");
  error_clear(&err);
  ck_assert(err.code == ARKE_OK && err.text[0] == '\0' && err.op[0] == '\0');
  ck_assert_int_eq(error_memory(&err, "tune"), ARKE_ERR_MEMORY);
  ck_assert_str_eq(err.text, "out of memory");
  ck_assert_int_eq(error_set(NULL, ARKE_ERR_IO, "x", "y"), ARKE_ERR_IO);
  error_context(NULL, "x", "y");
  error_clear(NULL);
}
END_TEST

START_TEST(long_errors_are_cut) {
  arke_error err = ARKE_ERROR_INIT;
  error_set(&err, ARKE_ERR_IO, "a stage whose name is far too long for its field", "%5000d", 1);
  ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
  ck_assert_uint_eq(strlen(err.stage), sizeof err.stage - 1);
}
END_TEST

START_TEST(statuses_have_names) {
  static const arke_status all[] = {
#define X(name, code, text) ARKE_##name,
      ARKE_STATUS_MAP(X)
#undef X
  };
  for (size_t i = 0; i < COUNT_OF(all); i++) {
    ck_assert_int_eq(strncmp(arke_status_name(all[i]), "ARKE_", 5), 0);
    ck_assert_uint_gt(strlen(arke_status_text(all[i])), 1);
    ck_assert(status_from_code((int)all[i]) == all[i]);
    for (size_t k = 0; k < i; k++) ck_assert(all[i] != all[k]);
  }
  ck_assert_str_eq(arke_status_name((arke_status)77), "ARKE_ERR_UNKNOWN");
  ck_assert_ptr_nonnull(arke_status_text((arke_status)77));
  ck_assert(status_from_code(77) == ARKE_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strchr(arke_version(), '.'));
}
END_TEST

TCase *base_memory_case(void) {
  TCase *t = tcase_create("memory");
  tcase_add_test(t, arena_gives_zeroed_aligned_memory);
  tcase_add_test(t, arena_refuses_impossible_sizes);
  tcase_add_test(t, arena_copies_texts);
  tcase_add_test(t, arena_survives_lack_of_memory);
  tcase_add_test(t, strbuf_grows);
  tcase_add_test(t, strbuf_failure_is_sticky);
  tcase_add_test(t, first_error_wins);
  tcase_add_test(t, long_errors_are_cut);
  tcase_add_test(t, statuses_have_names);
  return t;
}
