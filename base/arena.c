#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
  arena_block *next;
  size_t used, capacity;
  _Alignas(16) unsigned char bytes[];
};

enum { FIRST_BLOCK_BYTES = 4096, LARGEST_STEP_BYTES = 1 << 20 };

void *arena_alloc(arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t need = (bytes + 15) & ~(size_t)15;
  if (need == 0) need = 16;
  arena_block *b = a->blocks;
  if (b == NULL || b->capacity - b->used < need) {
    size_t capacity = b == NULL ? FIRST_BLOCK_BYTES : 2 * b->capacity;
    if (capacity > LARGEST_STEP_BYTES) capacity = LARGEST_STEP_BYTES;
    if (capacity < need) capacity = need;
    b = malloc(sizeof *b + capacity);
    if (b == NULL) return NULL;
    *b = (arena_block){.next = a->blocks, .capacity = capacity};
    a->blocks = b;
  }
  void *p = b->bytes + b->used;
  b->used += need;
  a->total_bytes += need;
  return memset(p, 0, need);
}

void *arena_array(arena *a, size_t n, size_t size) {
  if (size != 0 && n > SIZE_MAX / size) return NULL;
  return arena_alloc(a, n * size);
}

char *arena_strndup(arena *a, const char *text, size_t bytes) {
  char *copy = arena_alloc(a, bytes + 1);
  if (copy != NULL) memcpy(copy, text, bytes);
  return copy;
}

char *arena_strdup(arena *a, const char *text) {
  return arena_strndup(a, text, strlen(text));
}

char *arena_printf(arena *a, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
  if (text != NULL) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}

void arena_release(arena *a) {
  for (arena_block *b = a->blocks; b != NULL;) {
    arena_block *next = b->next;
    free(b);
    b = next;
  }
  *a = (arena)ARENA_INIT;
}
