/* Damaged PTX: cut short, with bytes changed, tokens dropped, doubled or swapped. It must be refused or
 * accepted, never crash, read outside the text or leak (the sanitizer build sees those), and what is accepted
 * must be sound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

static const char *const FILES[] = {"by_hand.ptx",
                                    "06b_convert_sm100.ptx",
                                    "08_memory_atomics.ptx",
                                    "11b_tcgen05_cta_group2.ptx",
                                    "14_ws_gemm_skeleton.ptx",
                                    "03_tma_sm90.ptx"};

/* The text goes to memory of exactly its size, so that the sanitizer sees a read past the end. */
static void parse(const char *text, size_t bytes) {
  char *exact = malloc(bytes + 1);
  ptx_module *m = NULL;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_ptr_nonnull(exact);
  memcpy(exact + 1, text, bytes);
  arke_status status = ptx_parse(exact + 1, bytes, &m, &err);
  free(exact);
  if (status != ARKE_OK) {
    if (m != NULL || strncmp(err.text, "line ", 5) != 0)
      ck_abort_msg("refused without a place: %s", err.text);
    return;
  }
  for (uint32_t k = 0; k < m->n_kernels; k++)
    for (uint32_t n = 0; n < m->kernels[k].n_instructions; n++) {
      const ptx_instruction *i = &m->kernels[k].instructions[n];
      if (i->opcode == PTX_BRA && i->target >= m->kernels[k].n_instructions) ck_abort_msg("wild branch");
      if (i->guard != PTX_NOWHERE && i->guard >= m->kernels[k].n_predicates) ck_abort_msg("wild guard");
    }
  ptx_module_free(m);
}

static char *read_case(int which, size_t *bytes) {
  char path[128];
  snprintf(path, sizeof path, "tests/ptx/cases/%s", FILES[which]);
  char *text = read_text(path, bytes);
  ck_assert_msg(text != NULL, "cannot read %s", path);
  return text;
}

START_TEST(cut_short) {
  size_t bytes;
  uint64_t state = 43;
  char *text = read_case(_i, &bytes);
  for (int round = 0; round < 150; round++) parse(text, next_random(&state) % bytes);
  free(text);
}
END_TEST

START_TEST(changed_bytes) {
  static const char likely[] = "{}[]();,.:|!@%$_<>+-0123456789 \nrdpxbsuf\"/*\\\xff";
  size_t bytes;
  uint64_t state = 47 + (uint64_t)_i;
  char *text = read_case(_i, &bytes), *copy = malloc(bytes);
  ck_assert_ptr_nonnull(copy);
  for (int round = 0; round < 300; round++) {
    memcpy(copy, text, bytes);
    int changes = 1 + (int)(next_random(&state) % 3);
    for (int c = 0; c < changes; c++)
      copy[next_random(&state) % bytes] = likely[next_random(&state) % (sizeof likely - 1)];
    parse(copy, bytes);
  }
  free(copy);
  free(text);
}
END_TEST

/* Drops, doubles or swaps stretches between separators: texts that get further into the parser. */
START_TEST(moved_pieces) {
  size_t bytes;
  uint64_t state = 53 + (uint64_t)_i;
  char *text = read_case(_i, &bytes), *copy = malloc(2 * bytes);
  ck_assert_ptr_nonnull(copy);
  for (int round = 0; round < 300; round++) {
    size_t from = next_random(&state) % bytes, length = 1 + next_random(&state) % 24, at = 0;
    while (from > 0 && strchr(" ,;{}[]\n", text[from]) == NULL) from--;
    if (from + length > bytes) length = bytes - from;
    size_t to = next_random(&state) % bytes;
    while (to > 0 && strchr(" ,;{}[]\n", text[to]) == NULL) to--;
    bool drop = next_random(&state) % 2 == 0;
    for (size_t k = 0; k < bytes; k++) {
      if (k == to) {
        memcpy(copy + at, text + from, length);
        at += length;
      }
      if (!drop || k < from || k >= from + length) copy[at++] = text[k];
    }
    parse(copy, at);
  }
  free(copy);
  free(text);
}
END_TEST

Suite *ptx_damage_suite(void) {
  Suite *s = suite_create("ptx_damage");
  TCase *t = tcase_create("damage");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, cut_short, 0, (int)COUNT_OF(FILES));
  tcase_add_loop_test(t, changed_bytes, 0, (int)COUNT_OF(FILES));
  tcase_add_loop_test(t, moved_pieces, 0, (int)COUNT_OF(FILES));
  suite_add_tcase(s, t);
  return s;
}
