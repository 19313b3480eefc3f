#include "tests/base/base_suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/sha256.h"

/* FIPS 180-4 and NIST's examples. */
static const struct {
  const char *text, *hex;
} VECTORS[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
     "tnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

START_TEST(sha256_vectors) {
  char hex[SHA256_HEX_SIZE];
  for (size_t i = 0; i < COUNT_OF(VECTORS); i++) {
    sha256_hex(VECTORS[i].text, strlen(VECTORS[i].text), hex);
    ck_assert_str_eq(hex, VECTORS[i].hex);
  }
  char *million = malloc(1000000);
  ck_assert_ptr_nonnull(million);
  memset(million, 'a', 1000000);
  sha256_hex(million, 1000000, hex);
  ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}
END_TEST

START_TEST(sha256_pieces_make_the_whole) {
  unsigned char bytes[300];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7);
  for (size_t n = 0; n <= sizeof bytes; n++) {
    char whole[SHA256_HEX_SIZE], pieces[SHA256_HEX_SIZE];
    sha256_hex(bytes, n, whole);
    sha256 s;
    sha256_init(&s);
    for (size_t at = 0, step = 1; at < n; at += step, step = step % 71 + 1)
      sha256_update(&s, bytes + at, at + step < n ? step : n - at);
    sha256_final_hex(&s, pieces);
    ck_assert_str_eq(pieces, whole);
  }
}
END_TEST

START_TEST(random_is_a_function_of_seed_and_counter) {
  /* The first outputs of SplitMix64 for seed 1234567, as its authors' code gives them. */
  static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (uint64_t i = 0; i < COUNT_OF(expected); i++) ck_assert(random_u64(1234567, i) == expected[i]);
  ck_assert(random_u64(1, 0) != random_u64(2, 0));
}
END_TEST

START_TEST(random_moments) {
  enum { N = 200000 };
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, fourth = 0;
  int quarter = 0;
  for (uint64_t i = 0; i < N; i++) {
    double u = random_uniform(3, i), z = random_normal(3, i);
    ck_assert(u >= 0 && u < 1 && isfinite(z));
    sum += u, squares += u * u, quarter += u < 0.25;
    normal_sum += z, normal_squares += z * z, fourth += z * z * z * z;
  }
  /* Five standard errors of each estimate. */
  ck_assert_double_eq_tol(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));
  ck_assert_double_eq_tol(squares / N, 1.0 / 3, 5 * sqrt(4.0 / 45 / N));
  ck_assert_double_eq_tol((double)quarter / N, 0.25, 5 * sqrt(0.1875 / N));
  ck_assert_double_eq_tol(normal_sum / N, 0, 5 * sqrt(1.0 / N));
  ck_assert_double_eq_tol(normal_squares / N, 1, 5 * sqrt(2.0 / N));
  ck_assert_double_eq_tol(fourth / N, 3, 5 * sqrt(96.0 / N));
}
END_TEST

TCase *base_hash_case(void) {
  TCase *t = tcase_create("hash");
  tcase_add_test(t, sha256_vectors);
  tcase_add_test(t, sha256_pieces_make_the_whole);
  tcase_add_test(t, random_is_a_function_of_seed_and_counter);
  tcase_add_test(t, random_moments);
  return t;
}
