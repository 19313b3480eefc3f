#include "base/error.h"

#include <stdio.h>
#include <string.h>

const char *arke_status_name(arke_status status) {
  switch (status) {
#define X(name, code, text)                                                                                  \
  case ARKE_##name: return "ARKE_" #name;
    ARKE_STATUS_MAP(X)
#undef X
  }
  return "ARKE_ERR_UNKNOWN";
}

const char *arke_status_text(arke_status status) {
  switch (status) {
#define X(name, code, text)                                                                                  \
  case ARKE_##name: return text;
    ARKE_STATUS_MAP(X)
#undef X
  }
  return "unknown status";
}

const char *arke_version(void) {
  return ARKE_VERSION;
}

arke_status status_from_code(int code) {
  switch (code) {
#define X(name, number, text)                                                                                \
  case number: return ARKE_##name;
    ARKE_STATUS_MAP(X)
#undef X
  }
  return ARKE_ERR_INTERNAL;
}

arke_status error_vset(arke_error *err, arke_status code, const char *stage, const char *format,
                       va_list args) {
  if (err == NULL || err->code != ARKE_OK) return code;
  err->code = code;
  snprintf(err->stage, sizeof err->stage, "%s", stage);
  vsnprintf(err->text, sizeof err->text, format, args);
  return code;
}

arke_status error_set(arke_error *err, arke_status code, const char *stage, const char *format, ...) {
  va_list args;
  va_start(args, format);
  error_vset(err, code, stage, format, args);
  va_end(args);
  return code;
}

arke_status error_memory(arke_error *err, const char *stage) {
  return error_set(err, ARKE_ERR_MEMORY, stage, "out of memory");
}

void error_context(arke_error *err, const char *op, const char *config) {
  if (err == NULL) return;
  if (op != NULL && err->op[0] == '\0') snprintf(err->op, sizeof err->op, "%s", op);
  if (config != NULL && err->config[0] == '\0') snprintf(err->config, sizeof err->config, "%s", config);
}

void error_clear(arke_error *err) {
  if (err != NULL) memset(err, 0, sizeof *err);
}
