#include "tests/emulator/ptx_mutate.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "emulator/ptx_program.h"

/* Where an instruction stands: bytes of the text. */
typedef struct extent {
  size_t guard; /* start of `@…`, or of the name */
  size_t name;
  size_t operands; /* after the name */
  size_t end;      /* after the `;` */
} extent;

static bool matches(const char *pattern, const char *text) {
  for (; *pattern != '\0' && *pattern != '*'; pattern++, text++)
    if (*pattern != *text) return false;
  if (*pattern == '\0') return *text == '\0';
  while (pattern[1] == '*') pattern++;
  for (;; text++) {
    if (matches(pattern + 1, text)) return true;
    if (*text == '\0') return false;
  }
}

static size_t offset_of(const char *text, int line, int column) {
  const char *at = text;
  for (int l = 1; l < line; l++) at = strchr(at, '\n') + 1;
  return (size_t)(at - text) + (size_t)column - 1;
}

/* The guard ends just before the name, but for blanks, and starts at the nearest `@` before it. */
static size_t guard_of(const char *text, const ptx_instruction *i, size_t name) {
  if (i->guard == PTX_NOWHERE) return name;
  size_t at = name;
  while (at > 0 && text[at] != '@') at--;
  return at;
}

static arke_status find(const char *ptx, ptx_place place, extent *x, arke_error *err) {
  ptx_module *m;
  int seen = 0;
  TRY(ptx_parse(ptx, strlen(ptx), &m, err));
  for (uint32_t k = 0; k < m->n_kernels; k++)
    for (uint32_t n = 0; n < m->kernels[k].n_instructions; n++) {
      const ptx_instruction *i = &m->kernels[k].instructions[n];
      size_t name = offset_of(ptx, i->line, i->column), length = strlen(i->text);
      bool written = strncmp(ptx + name, i->text, length) == 0; /* not a ret that the decoder added */
      if (!written || !matches(place.pattern, i->text) || seen++ != place.nth) continue;
      *x = (extent){.guard = guard_of(ptx, i, name), .name = name, .operands = name + length};
      x->end = x->operands + strcspn(ptx + x->operands, ";") + 1;
      ptx_module_free(m);
      return ARKE_OK;
    }
  ptx_module_free(m);
  return error_set(err, ARKE_ERR_NOT_FOUND, "mutate", "the text has %d instructions '%s', none is number %d",
                   seen, place.pattern, place.nth);
}

int ptx_mutate_count(const char *ptx, const char *pattern, arke_error *err) {
  ptx_module *m;
  int n = 0;
  if (ptx_parse(ptx, strlen(ptx), &m, err) != ARKE_OK) return -1;
  for (uint32_t k = 0; k < m->n_kernels; k++)
    for (uint32_t i = 0; i < m->kernels[k].n_instructions; i++) {
      const ptx_instruction *x = &m->kernels[k].instructions[i];
      size_t at = offset_of(ptx, x->line, x->column);
      n += strncmp(ptx + at, x->text, strlen(x->text)) == 0 && matches(pattern, x->text);
    }
  ptx_module_free(m);
  return n;
}

/* The text with bytes [from, to) replaced. */
static char *splice(const char *ptx, size_t from, size_t to, const char *with, arke_error *err) {
  strbuf out = STRBUF_INIT;
  strbuf_add_bytes(&out, ptx, from);
  strbuf_add(&out, with);
  strbuf_add(&out, ptx + to);
  char *text = strbuf_take(&out);
  if (text == NULL) error_memory(err, "mutate");
  return text;
}

char *ptx_mutate_delete(const char *ptx, ptx_place place, arke_error *err) {
  extent x;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  return splice(ptx, x.guard, x.end, "", err);
}

char *ptx_mutate_insert_before(const char *ptx, ptx_place place, const char *statements, arke_error *err) {
  extent x;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  return splice(ptx, x.guard, x.guard, statements, err);
}

char *ptx_mutate_insert_after(const char *ptx, ptx_place place, const char *statements, arke_error *err) {
  extent x;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  return splice(ptx, x.end, x.end, statements, err);
}

/* The bytes of operand `number`, without blanks around it: separators count outside [ ] and { } only. */
static bool find_operand(const char *ptx, const extent *x, int number, size_t *from, size_t *to) {
  int depth = 0;
  size_t start = x->operands;
  for (size_t at = x->operands; at < x->end; at++) {
    char c = ptx[at];
    if (c == '[' || c == '{') depth++;
    if (c == ']' || c == '}') depth--;
    if (depth != 0 || (c != ',' && c != '|' && c != ';')) continue;
    if (number-- == 0) {
      while (start < at && strchr(" \t\n", ptx[start]) != NULL) start++;
      while (at > start && strchr(" \t\n", ptx[at - 1]) != NULL) at--;
      *from = start;
      *to = at;
      return at > start;
    }
    start = at + 1;
  }
  return false;
}

/* Takes `with`. */
static char *replace(const char *ptx, size_t from, size_t to, strbuf *with, arke_error *err) {
  char *text = NULL;
  if (strbuf_failed(with))
    error_memory(err, "mutate");
  else
    text = splice(ptx, from, to, strbuf_text(with), err);
  strbuf_free(with);
  return text;
}

char *ptx_mutate_immediate(const char *ptx, ptx_place place, int operand, int64_t value, arke_error *err) {
  extent x;
  size_t from, to;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  if (!find_operand(ptx, &x, operand, &from, &to) || strchr("-0123456789", ptx[from]) == NULL) {
    error_set(err, ARKE_ERR_INVALID, "mutate", "operand %d of '%s' is no constant", operand, place.pattern);
    return NULL;
  }
  strbuf with = STRBUF_INIT;
  strbuf_addf(&with, "%lld", (long long)value);
  return replace(ptx, from, to, &with, err);
}

char *ptx_mutate_address(const char *ptx, ptx_place place, int operand, int64_t bytes, arke_error *err) {
  extent x;
  size_t from, to;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  if (!find_operand(ptx, &x, operand, &from, &to) || ptx[from] != '[' ||
      memchr(ptx + from, ',', to - from) != NULL) {
    error_set(err, ARKE_ERR_INVALID, "mutate", "operand %d of '%s' is no address in [ ]", operand,
              place.pattern);
    return NULL;
  }
  const char *plus = memchr(ptx + from, '+', to - from);
  size_t base_end = plus == NULL ? to - 1 : (size_t)(plus - ptx);
  long long old = plus == NULL ? 0 : strtoll(plus + 1, NULL, 0);
  strbuf with = STRBUF_INIT;
  strbuf_add_bytes(&with, ptx + from, base_end - from);
  strbuf_addf(&with, "+%lld]", old + (long long)bytes);
  return replace(ptx, from, to, &with, err);
}

char *ptx_mutate_guard(const char *ptx, ptx_place place, const char *guard, arke_error *err) {
  extent x;
  if (find(ptx, place, &x, err) != ARKE_OK) return NULL;
  strbuf with = STRBUF_INIT;
  strbuf_addf(&with, "%s ", guard);
  return replace(ptx, x.guard, x.name, &with, err);
}
