/* Filling an arke_error. Any function that can fail takes an `arke_error *err` (NULL allowed) and returns the
 * status these helpers give back: `return error_set(err, ARKE_ERR_SHAPE, "plan", "tensor %s has rank %d",
 * …)`. */
#ifndef ARKE_BASE_ERROR_H
#define ARKE_BASE_ERROR_H

#include <stdarg.h>

#include <arke/arke.h>

/* Records the error unless one is already recorded; returns `code` either way. Stage is a short noun. */
arke_status error_set(arke_error *err, arke_status code, const char *stage, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
arke_status error_vset(arke_error *err, arke_status code, const char *stage, const char *format,
                       va_list args);
arke_status error_memory(arke_error *err, const char *stage);

/* Adds where it happened, if not already known. */
void error_context(arke_error *err, const char *op, const char *config);
void error_clear(arke_error *err);

/* The status with this number, or ARKE_ERR_INTERNAL: for statuses read from a file or a pipe. */
arke_status status_from_code(int code);

#define TRY(expression)                                                                                      \
  do {                                                                                                       \
    arke_status try_status_ = (expression);                                                                  \
    if (try_status_ != ARKE_OK) return try_status_;                                                          \
  } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
