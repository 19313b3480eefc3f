/* SHA-256 (FIPS 180-4): identity of kernels in the cache. */
#ifndef ARKE_BASE_SHA256_H
#define ARKE_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX_SIZE 65 /* 64 hex digits and a NUL */

typedef struct sha256 {
  uint32_t state[8];
  uint64_t length_bytes;
  uint8_t block[64];
} sha256;

void sha256_init(sha256 *s);
void sha256_update(sha256 *s, const void *bytes, size_t n);
void sha256_final_hex(sha256 *s, char hex[SHA256_HEX_SIZE]);
void sha256_hex(const void *bytes, size_t n, char hex[SHA256_HEX_SIZE]);

#endif
