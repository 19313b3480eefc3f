#include "tests/support/failing_alloc.h"

#include <stddef.h>

/* The linker's --wrap sends every call here (see arke_test in cmake/arke.cmake). State is per test process.
 */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t bytes);

static _Thread_local long countdown = -1;
static _Thread_local bool fired = false;

static bool fails_now(void) {
  if (countdown < 0) return false;
  if (countdown-- > 0) return false;
  fired = true;
  return true;
}

void failing_alloc_arm(long n) {
  countdown = n;
  fired = false;
}

bool failing_alloc_disarm(void) {
  countdown = -1;
  return fired;
}

void *__wrap_malloc(size_t bytes) {
  return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t size) {
  return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t bytes) {
  return fails_now() ? NULL : __real_realloc(p, bytes);
}
