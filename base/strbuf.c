#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(strbuf *s, size_t more) {
  if (s->failed) return false;
  if (s->capacity - s->length > more) return true;
  size_t capacity = s->capacity == 0 ? 256 : s->capacity;
  while (capacity - s->length <= more) {
    if (capacity > (size_t)-1 / 2) {
      s->failed = true;
      return false;
    }
    capacity *= 2;
  }
  char *data = realloc(s->data, capacity);
  if (data == NULL) {
    s->failed = true;
    return false;
  }
  s->data = data;
  s->capacity = capacity;
  return true;
}

void strbuf_add_bytes(strbuf *s, const void *bytes, size_t n) {
  if (!reserve(s, n)) return;
  if (n > 0) memcpy(s->data + s->length, bytes, n);
  s->length += n;
  s->data[s->length] = '\0';
}

void strbuf_add(strbuf *s, const char *text) {
  strbuf_add_bytes(s, text, strlen(text));
}

void strbuf_vaddf(strbuf *s, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (n < 0) s->failed = true;
  if (n >= 0 && reserve(s, (size_t)n)) {
    vsnprintf(s->data + s->length, (size_t)n + 1, format, again);
    s->length += (size_t)n;
  }
  va_end(again);
}

void strbuf_addf(strbuf *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  strbuf_vaddf(s, format, args);
  va_end(args);
}

bool strbuf_failed(const strbuf *s) {
  return s->failed;
}

const char *strbuf_text(const strbuf *s) {
  return s->data == NULL ? "" : s->data;
}

char *strbuf_take(strbuf *s) {
  strbuf_add_bytes(s, "", 0);
  char *text = s->failed ? NULL : s->data;
  if (text == NULL) free(s->data);
  *s = (strbuf)STRBUF_INIT;
  return text;
}

void strbuf_clear(strbuf *s) {
  s->length = 0;
  s->failed = false;
  if (s->data != NULL) s->data[0] = '\0';
}

void strbuf_free(strbuf *s) {
  free(s->data);
  *s = (strbuf)STRBUF_INIT;
}
