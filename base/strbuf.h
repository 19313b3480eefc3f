/* A growing byte string. Out of memory is sticky: writers need not check, the end asks strbuf_failed once. */
#ifndef ARKE_BASE_STRBUF_H
#define ARKE_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct strbuf {
  char *data; /* NUL-terminated once anything was written; NULL before */
  size_t length, capacity;
  bool failed;
} strbuf;

#define STRBUF_INIT                                                                                          \
  { NULL, 0, 0, false }

void strbuf_add(strbuf *s, const char *text);
void strbuf_add_bytes(strbuf *s, const void *bytes, size_t n);
void strbuf_addf(strbuf *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(strbuf *s, const char *format, va_list args);
bool strbuf_failed(const strbuf *s);
/* The text, "" if nothing was written. */
const char *strbuf_text(const strbuf *s);
/* Hands the malloc'ed text to the caller and empties the buffer; NULL if memory ran out. */
char *strbuf_take(strbuf *s);
void strbuf_clear(strbuf *s); /* keeps the memory */
void strbuf_free(strbuf *s);

#endif
