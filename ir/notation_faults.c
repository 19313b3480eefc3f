#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ir/notation.h"

enum { SHOWN_COLUMNS = 72 }; /* of a source line, around the fault */

void faults_add(faults *f, int line, int column, const char *format, ...) {
  for (int i = 0; i < f->n; i++) /* one place, one fault: what follows from it is noise */
    if (f->list[i].line == line && f->list[i].column == column) return;
  f->total++;
  if (f->n == NOTATION_MOST_FAULTS) return;
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  const char *copy = arena_strdup(f->arena, message);
  if (copy == NULL) {
    f->out_of_memory = true;
    return;
  }
  int at = f->n++;
  for (; at > 0 &&
         (f->list[at - 1].line > line || (f->list[at - 1].line == line && f->list[at - 1].column > column));
       at--)
    f->list[at] = f->list[at - 1];
  f->list[at] = (fault){line, column, copy};
}

/* The source line with a caret under the column, both indented by two. */
static void snippet(const char *text, int line, int column, strbuf *out) {
  for (int i = 1; i < line && *text != '\0'; text++)
    if (*text == '\n') i++;
  int length = (int)strcspn(text, "\n");
  int first = 0;
  if (length > SHOWN_COLUMNS && column > SHOWN_COLUMNS / 2) {
    first = column - 1 - SHOWN_COLUMNS / 2;
    if (first > length - SHOWN_COLUMNS) first = length - SHOWN_COLUMNS;
  }
  int shown = length - first > SHOWN_COLUMNS ? SHOWN_COLUMNS : length - first;
  strbuf_add(out, "  ");
  for (int i = 0; i < shown; i++) {
    char c = text[first + i];
    if (c < ' ' || c > '~') c = c == '\t' ? ' ' : '?'; /* one column a byte, nothing a terminal obeys */
    strbuf_add_bytes(out, &c, 1);
  }
  strbuf_addf(out, "\n  %*s^\n", column - 1 - first, "");
}

arke_status faults_report(const faults *f, arke_status code, arke_error *err) {
  if (f->out_of_memory) return error_memory(err, "parse");
  if (f->n == 0) return ARKE_OK;
  if (err == NULL) return code;
  /* All messages come first in importance; source lines take what room is left, in order. */
  size_t room = sizeof err->text - 64;
  size_t bare[NOTATION_MOST_FAULTS + 1];
  bare[f->n] = 0;
  for (int i = f->n - 1; i >= 0; i--) bare[i] = bare[i + 1] + strlen(f->list[i].message) + 16;
  strbuf all = STRBUF_INIT, one = STRBUF_INIT;
  int told = 0;
  for (int i = 0; i < f->n; i++, told++) {
    strbuf_clear(&one);
    strbuf_addf(&one, "%d:%d: %s\n", f->list[i].line, f->list[i].column, f->list[i].message);
    size_t plain = one.length;
    snippet(f->text, f->list[i].line, f->list[i].column, &one);
    if (strbuf_failed(&one)) break;
    if (all.length + one.length + bare[i + 1] <= room)
      strbuf_add_bytes(&all, one.data, one.length);
    else if (all.length + plain <= room)
      strbuf_add_bytes(&all, one.data, plain);
    else
      break;
  }
  arke_status status = code;
  if (strbuf_failed(&one) || strbuf_failed(&all)) {
    status = error_memory(err, "parse");
  } else {
    if (told < f->total)
      strbuf_addf(&all, "and %d more", f->total - told);
    else
      all.data[--all.length] = '\0'; /* the last newline */
    status = strbuf_failed(&all) ? error_memory(err, "parse")
                                 : error_set(err, code, "parse", "%s", strbuf_text(&all));
  }
  strbuf_free(&one);
  strbuf_free(&all);
  return status;
}
