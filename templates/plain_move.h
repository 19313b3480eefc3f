/* Operators that only move elements: they are moved as integers of their size, so that every bit arrives
 * (NaNs keep their payload) and nothing is converted on the way. */
#ifndef ARKE_TEMPLATES_PLAIN_MOVE_H
#define ARKE_TEMPLATES_PLAIN_MOVE_H

#include "ir/ir_form.h"

/* Whether every output of the form is a read of a tensor of its own dtype. Then *moved is the same problem
 * with integers for the floats and bools that move; its operator is the arena's. False also where memory is
 * out: the problem as it is does the same. */
bool plain_move(const ir_form *form, arena *a, ir_problem *moved);

#endif
