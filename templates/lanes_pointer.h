/* Where an element of an access lies, for whoever moves it without looking at it (copies). */
#ifndef ARKE_TEMPLATES_LANES_POINTER_H
#define ARKE_TEMPLATES_LANES_POINTER_H

#include "templates/lanes.h"

/* The i64 address of the access in lane 0, at the loops' values set in `l`. Elements are whole bytes. Reads
 * in subscripts are loaded. */
arke_status lanes_pointer(lanes *l, int access, gen_value *address, arke_error *err);

/* The same, and whether it lies inside its tensor, i1, where that is to be tested (conditions, and, with
 * check_indices, gathered places); else *inside is NULL. */
arke_status lanes_pointer_tested(lanes *l, int access, gen_value *address, gen_value *inside,
                                 arke_error *err);

#endif
