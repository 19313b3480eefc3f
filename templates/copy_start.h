/* Where tensor copies may begin: at multiples of 16 bytes of the innermost dimension. No manual says so; an
 * H200 ends any other copy as an illegal instruction. Tiles begin at such multiples of their loops, so what a
 * subscript adds to a loop must be one too: in W[k,n + N], N columns. */
#ifndef ARKE_TEMPLATES_COPY_START_H
#define ARKE_TEMPLATES_COPY_START_H

#include "ir/ir_form.h"
#include "recipe/recipe.h"

/* Whether it is so in this problem, of an access whose last subscript steps with one of `loops` (a bit each,
 * by one). False also where that cannot be told from sizes: of what a tensor says, or another loop. */
bool copy_start_fits(const ir_form *form, int access, unsigned loops);
/* Requires it of other sizes. */
void copy_start_require(const ir_form *form, int access, unsigned loops, recipe *rules, arena *a);

#endif
