/* Bump allocation: one arena per candidate or per request, released at once. Not thread-safe. */
#ifndef ARKE_BASE_ARENA_H
#define ARKE_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct arena_block arena_block;
typedef struct arena {
  arena_block *blocks; /* newest first */
  size_t total_bytes;  /* handed out, for limits and tests */
} arena;

#define ARENA_INIT                                                                                           \
  { NULL, 0 }

/* Zeroed memory aligned to 16 bytes, or NULL when memory is out (the arena stays usable). */
void *arena_alloc(arena *a, size_t bytes);
/* n * size with overflow check. */
void *arena_array(arena *a, size_t n, size_t size);
char *arena_strdup(arena *a, const char *text);
char *arena_strndup(arena *a, const char *text, size_t bytes);
char *arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Frees everything; the arena is then as new. */
void arena_release(arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_NEW_N(a, type, n) ((type *)arena_array((a), (n), sizeof(type)))

#endif
