#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/support/failing_alloc.h"
#include "tuner/tune_message.h"

static tune_message make_message(int n_blobs) {
  tune_message m = {.body = json_pack("{s:s, s:i, s:f}", "do", "test", "number", 7, "real", 0.1)};
  for (int i = 0; i < n_blobs; i++) {
    char data[1000];
    for (size_t k = 0; k < sizeof data; k++) data[k] = (char)random_u64((uint64_t)i, k);
    ck_assert_int_eq(tune_message_add_blob(&m, data, (size_t)i * 100), i);
  }
  return m;
}

static void check_equal(const tune_message *a, const tune_message *b) {
  ck_assert(json_equal(a->body, b->body));
  ck_assert_int_eq(a->n_blobs, b->n_blobs);
  for (int i = 0; i < a->n_blobs; i++) {
    ck_assert_uint_eq(a->blobs[i].bytes, b->blobs[i].bytes);
    if (a->blobs[i].bytes) ck_assert_mem_eq(a->blobs[i].data, b->blobs[i].data, a->blobs[i].bytes);
    ck_assert_int_eq(((const char *)b->blobs[i].data)[b->blobs[i].bytes], 0);
  }
}

START_TEST(messages_arrive_in_any_pieces) {
  strbuf bytes = STRBUF_INIT;
  tune_message sent[3];
  for (int i = 0; i < 3; i++) {
    sent[i] = make_message(i * 2);
    ck_assert_int_eq(tune_message_encode(&sent[i], &bytes, NULL), ARKE_OK);
  }
  tune_reader r = {0};
  int got_count = 0;
  for (size_t at = 0, k = 0; at < bytes.length; k++) {
    size_t piece = 1 + random_u64((uint64_t)_i, k) % (_i ? 977 : 3);
    if (piece > bytes.length - at) piece = bytes.length - at;
    tune_reader_feed(&r, bytes.data + at, piece);
    at += piece;
    for (bool got = true; got;) {
      tune_message m = {0};
      ck_assert_int_eq(tune_reader_next(&r, &m, &got, NULL), ARKE_OK);
      if (!got) continue;
      check_equal(&sent[got_count++], &m);
      tune_message_release(&m);
    }
  }
  ck_assert_int_eq(got_count, 3);
  for (int i = 0; i < 3; i++) tune_message_release(&sent[i]);
  tune_reader_release(&r);
  strbuf_free(&bytes);
}
END_TEST

START_TEST(broken_streams_are_refused) {
  tune_message sent = make_message(2);
  strbuf bytes = STRBUF_INIT;
  ck_assert_int_eq(tune_message_encode(&sent, &bytes, NULL), ARKE_OK);
  int refused = 0;
  for (size_t at = 0; at < 16; at++) { /* any changed byte of the header */
    tune_reader r = {0};
    char saved = bytes.data[at];
    bytes.data[at] = (char)(saved ^ 0x40);
    tune_reader_feed(&r, bytes.data, bytes.length);
    tune_message m = {0};
    bool got;
    arke_error err = ARKE_ERROR_INIT;
    arke_status status = tune_reader_next(&r, &m, &got, &err);
    ck_assert(status == ARKE_ERR_CORRUPT || !got);
    refused += status == ARKE_ERR_CORRUPT;
    bytes.data[at] = saved;
    tune_message_release(&m);
    tune_reader_release(&r);
  }
  ck_assert_int_ge(refused, 8);
  tune_message_release(&sent);
  strbuf_free(&bytes);
}
END_TEST

START_TEST(noise_never_passes) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    char noise[200];
    for (size_t k = 0; k < sizeof noise; k++) noise[k] = (char)random_u64(seed, k);
    memcpy(noise, "ARKF\0\0\0\0\x10\0\0\0\0\0\0\0", 16); /* a sound header, then rubbish */
    tune_reader r = {0};
    tune_reader_feed(&r, noise, sizeof noise);
    tune_message m = {0};
    bool got;
    ck_assert_int_eq(tune_reader_next(&r, &m, &got, NULL), ARKE_ERR_CORRUPT);
    tune_reader_release(&r);
  }
}
END_TEST

START_TEST(pipes_carry_messages_and_ends) {
  int fds[2];
  ck_assert_int_eq(pipe(fds), 0);
  tune_message sent = make_message(3), m = {0};
  ck_assert_int_eq(tune_message_write(fds[1], &sent, NULL), ARKE_OK);
  close(fds[1]);
  tune_reader r = {0};
  bool eof;
  ck_assert_int_eq(tune_message_read(fds[0], &r, &m, &eof, NULL), ARKE_OK);
  ck_assert(!eof);
  check_equal(&sent, &m);
  tune_message_release(&m);
  ck_assert_int_eq(tune_message_read(fds[0], &r, &m, &eof, NULL), ARKE_OK);
  ck_assert(eof);
  close(fds[0]);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_message_write(fds[1], &sent, &err), ARKE_ERR_IO);
  tune_message_release(&sent);
  tune_reader_release(&r);
}
END_TEST

START_TEST(blobs_can_be_taken) {
  tune_message m = make_message(2);
  tune_blob blob = tune_message_take_blob(&m, 1);
  ck_assert_uint_eq(blob.bytes, 100);
  ck_assert_ptr_null(tune_message_take_blob(&m, 1).data);
  ck_assert_ptr_null(tune_message_take_blob(&m, -1).data);
  ck_assert_ptr_null(tune_message_take_blob(&m, 2).data);
  ck_assert_str_eq(tune_message_text(m.body, "do", ""), "test");
  ck_assert_str_eq(tune_message_text(m.body, "number", "none"), "none");
  ck_assert_int_eq(tune_message_integer(m.body, "number", 0), 7);
  ck_assert_double_eq(tune_message_number(m.body, "real", 0), 0.1);
  ck_assert_double_eq(tune_message_number(m.body, "do", 3), 3);
  free(blob.data);
  tune_message_release(&m);
}
END_TEST

START_TEST(every_allocation_may_fail) {
  strbuf whole = STRBUF_INIT;
  tune_message sent = make_message(2);
  ck_assert_int_eq(tune_message_encode(&sent, &whole, NULL), ARKE_OK);
  for (int n = 0;; n++) {
    tune_reader r = {0};
    tune_message m = {0};
    bool got = false;
    failing_alloc_arm(n);
    tune_reader_feed(&r, whole.data, whole.length);
    arke_status status = tune_reader_next(&r, &m, &got, NULL);
    bool fired = failing_alloc_disarm();
    ck_assert(fired ? status != ARKE_OK : status == ARKE_OK && got);
    tune_message_release(&m);
    tune_reader_release(&r);
    if (!fired) break;
  }
  tune_message_release(&sent);
  strbuf_free(&whole);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("message");
  TCase *c = tcase_create("message");
  tcase_add_loop_test(c, messages_arrive_in_any_pieces, 0, 20);
  tcase_add_test(c, broken_streams_are_refused);
  tcase_add_test(c, noise_never_passes);
  tcase_add_test(c, pipes_carry_messages_and_ends);
  tcase_add_test(c, blobs_can_be_taken);
  tcase_add_test(c, every_allocation_may_fail);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
