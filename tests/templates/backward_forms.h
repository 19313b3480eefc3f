/* What gradients' templates recognise in an operator, as text. */
#ifndef ARKE_TESTS_BACKWARD_FORMS_H
#define ARKE_TESTS_BACKWARD_FORMS_H

typedef struct backward_form {
  const char *op, *bindings, *expected; /* as backward_print says it */
} backward_form;

void backward_form_check(const backward_form *form);

#endif
