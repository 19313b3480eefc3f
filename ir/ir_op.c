#include <string.h>

#include "base/error.h"
#include "ir/notation.h"

arke_status ir_op_parse(arena *a, const char *text, const ir_op **op, arke_error *err) {
  *op = NULL;
  size_t length = strnlen(text, LIMIT_OPERATOR_BYTES + 1);
  if (length > LIMIT_OPERATOR_BYTES)
    return error_set(err, ARKE_ERR_SYNTAX, "parse", "an operator of more than %d bytes is not accepted",
                     LIMIT_OPERATOR_BYTES);
  faults f = {.arena = a, .text = text};
  const syntax_operator *s = notation_parse(a, text, &f);
  arke_status status = faults_report(&f, ARKE_ERR_SYNTAX, err);
  if (status != ARKE_OK) return status;
  const ir_op *resolved = notation_resolve(a, text, s, &f);
  status = faults_report(&f, ARKE_ERR_INVALID, err);
  if (status == ARKE_OK)
    *op = resolved;
  else
    error_context(err, s->name, NULL);
  return status;
}
