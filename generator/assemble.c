#include "generator/assemble.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "generator/assemble_log.h"

assembler_kind assembler_find(void) {
  if (assemble_ptxas_found()) return ASSEMBLER_PTXAS;
  if (assemble_nvjitlink_found()) return ASSEMBLER_NVJITLINK;
  return ASSEMBLER_NONE;
}

/* ptxas's message that it ignored setmaxnreg. */
#define SETMAXNREG_IGNORED "C7504"

static arke_status assemble_with(assembler_kind kind, const char *ptx, const char *target, assembled *out,
                                 arke_error *err) {
  switch (kind) {
  case ASSEMBLER_NVJITLINK: return assemble_with_nvjitlink(ptx, target, out, err);
  case ASSEMBLER_PTXAS: return assemble_with_ptxas(ptx, target, out, err);
  case ASSEMBLER_NONE: break;
  }
  return error_set(err, ARKE_ERR_UNSUPPORTED, "assemble",
                   "no assembler here: neither nvJitLink nor ptxas was found");
}

arke_status assemble_ptx(assembler_kind kind, const char *ptx, const char *target, assembled *out,
                         arke_error *err) {
  *out = (assembled){.registers = -1, .spill_bytes = -1};
  TRY(assemble_with(kind, ptx, target, out, err));
  /* The driver's JIT makes a better kernel of the same PTX, so this one is not handed out. */
  if (strstr(out->log, SETMAXNREG_IGNORED)) {
    assembled_free(out);
    out->registers = out->spill_bytes = -1;
  }
  return ARKE_OK;
}

void assembled_free(assembled *a) {
  free(a->cubin);
  a->cubin = NULL;
  a->cubin_bytes = 0;
}

/* --- the log --- */

/* The number that `text` starts with, -1 if it starts with none. */
static int leading_number(const char *text) {
  int64_t value;
  return text_to_i64(text, strspn(text, "0123456789"), 0, INT32_MAX, &value) ? (int)value : -1;
}

/* The number after `prefix`, or before `unit`; -1 if there is none. */
static int number_after(const char *text, const char *prefix) {
  const char *at = strstr(text, prefix);
  return at ? leading_number(at + strlen(prefix)) : -1;
}

static int number_before(const char *text, const char *unit) {
  const char *at = strstr(text, unit);
  if (!at || at == text) return -1;
  at--; /* the blank between */
  while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
  return leading_number(at);
}

static bool is_warning(const char *line) {
  return strstr(line, "warning") || strstr(line, "(C7");
}

static void read_line(const char *line, assembled *out, strbuf *warnings) {
  int registers = number_after(line, "Used ");
  int stores = number_before(line, "bytes spill stores"), loads = number_before(line, "bytes spill loads");
  if (registers > out->registers) out->registers = registers;
  if (stores >= 0 && loads >= 0)
    out->spill_bytes = (out->spill_bytes < 0 ? 0 : out->spill_bytes) + stores + loads;
  if (is_warning(line)) strbuf_addf(warnings, "%s\n", line);
}

void assemble_log_read(const char *log, assembled *out) {
  strbuf warnings = STRBUF_INIT, line = STRBUF_INIT;
  /* First, since the rest may be cut off. */
  const char *ignored = strstr(log, SETMAXNREG_IGNORED);
  if (ignored)
    strbuf_addf(&warnings, "setmaxnreg was ignored (%.*s)\n", (int)strlen(SETMAXNREG_IGNORED), ignored);
  while (*log) {
    size_t length = strcspn(log, "\n");
    strbuf_clear(&line);
    strbuf_add_bytes(&line, log, length);
    if (!strbuf_failed(&line)) read_line(strbuf_text(&line), out, &warnings);
    log += length + (log[length] == '\n');
  }
  strncpy(out->log, strbuf_text(&warnings), sizeof out->log - 1);
  strbuf_free(&line);
  strbuf_free(&warnings);
}

/* The n-th line of the PTX, from 1, without leading blanks; *length bytes, NULL past the end. */
static const char *ptx_line(const char *ptx, int n, int *length) {
  while (--n > 0 && ptx) {
    ptx = strchr(ptx, '\n');
    if (ptx) ptx++;
  }
  if (!ptx) return NULL;
  ptx += strspn(ptx, " \t");
  *length = (int)strcspn(ptx, "\n");
  return ptx;
}

arke_status assemble_log_error(const char *log, const char *ptx, arke_error *err) {
  const char *at = strstr(log, "error");
  if (!at) at = strstr(log, "fatal");
  if (!at)
    return error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "the assembler refused the PTX and gave no reason");
  /* "ptxas FILE, line N; error : …": the file is a temporary one, the line is the PTX's. */
  const char *start = at;
  while (start > log && start[-1] != '\n') start--;
  int length = (int)strcspn(at, "\n"), line = -1, text_length = 0;
  const char *mark = strstr(start, ", line ");
  if (mark && mark < at) line = leading_number(mark + 7);
  const char *text = line > 0 ? ptx_line(ptx, line, &text_length) : NULL;
  if (!text) return error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "%.*s", length, at);
  return error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "%.*s; PTX line %d: %.*s", length, at, line,
                   text_length > 200 ? 200 : text_length, text);
}
