/* Operators that write a tensor they read ("-> (D)"). */
#ifndef ARKE_TEMPLATES_IN_PLACE_H
#define ARKE_TEMPLATES_IN_PLACE_H

#include "ir/ir_form.h"

/* Whether the accesses are the same element at all loops' values. */
bool in_place_same(const ir_access *x, const ir_access *y);
/* Whether every read of a tensor that is written in place is of the element that the reading thread writes
 * afterwards: else threads would read what others have overwritten. */
bool in_place_is_safe(const ir_form *form);

#endif
