#include "cache/store.h"

#include <string.h>

/* Each step is a bijection of the state for a given word and of the word for a given state, so damage within
 * one word always shows; anything more hides with a probability near 2^-64. The shift carries the high bits
 * down, or two flipped top bits would cancel. It guards against damage, not against an attacker. */
static uint64_t mix_u64(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

/* Eight bytes a word, the first lowest; the last word is filled with zeros. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && i + k < n; k++) word |= (uint64_t)p[i + k] << 8 * k;
    hash = mix_u64(hash, word);
  }
  return hash;
}

/* The storage class goes in with each value, so that 1, 1.0 and '1' differ, and the length, so that ('ab',
 * '') and ('a', 'b') differ. */
static uint64_t mix_value(uint64_t hash, sqlite3_value *value, bool *out_of_memory) {
  int type = sqlite3_value_type(value);
  hash = mix_u64(hash, (uint64_t)type);
  if (type == SQLITE_INTEGER) return mix_u64(hash, (uint64_t)sqlite3_value_int64(value));
  if (type == SQLITE_FLOAT) {
    double number = sqlite3_value_double(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return mix_u64(hash, bits);
  }
  if (type == SQLITE_NULL) return hash;
  const void *bytes = sqlite3_value_blob(value); /* before the length: it may convert the text */
  size_t n = (size_t)sqlite3_value_bytes(value);
  if (bytes == NULL && n > 0) *out_of_memory = true;
  return bytes == NULL ? mix_u64(hash, 0) : mix(mix_u64(hash, n), bytes, n);
}

static void seal(sqlite3_context *context, int n, sqlite3_value **values) {
  uint64_t hash = 0;
  bool out_of_memory = false;
  for (int i = 0; i < n; i++) hash = mix_value(hash, values[i], &out_of_memory);
  if (out_of_memory)
    sqlite3_result_error_nomem(context);
  else
    sqlite3_result_int64(context, (sqlite3_int64)hash);
}

int store_add_seal(sqlite3 *db) {
  return sqlite3_create_function_v2(db, "seal", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, seal, NULL,
                                    NULL, NULL);
}

static void hash_part(sha256 *s, const void *bytes, size_t n) {
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)n >> 8 * i);
  sha256_update(s, length, sizeof length);
  sha256_update(s, bytes, n);
}

void store_kernel_sha256(const cache_kernel *k, char hex[SHA256_HEX_SIZE]) {
  sha256 s;
  sha256_init(&s);
  hash_part(&s, k->ptx, k->ptx_bytes);
  hash_part(&s, k->cubin, k->cubin == NULL ? 0 : k->cubin_bytes);
  hash_part(&s, k->recipe_json, strlen(k->recipe_json));
  sha256_final_hex(&s, hex);
}
