/* The cases of the operators' test, as data: which operators, at which sizes, with which limits on inputs. */
#ifndef ARKE_TUNER_OPERATOR_LIST_H
#define ARKE_TUNER_OPERATOR_LIST_H

#include "ir/ir.h"
#include "tuner/operator_run.h"

enum { OPERATOR_MOST_SHAPES = 10 };

/* Sizes in the order of an entry's shape_axes, joined by x: from one element to long rows, many rows, odd
 * sizes, none. */
typedef struct operator_shapes {
  const char *operator; /* its name up to a ':'; NULL: those of `family` */
  const char *family;
  const char *axes;                       /* as in the entry; NULL: any */
  const char *view;                       /* the one that is run with every view, and with special values */
  const char *list[OPERATOR_MOST_SHAPES]; /* NULL-terminated where shorter */
} operator_shapes;

/* Names of all operators that are tested: the catalogue's, and some of every family. */
int operator_case_count(void);
const char *operator_case_name(int i);
/* Sizes to test an entry at; NULL: the table lacks it, which a test reports. */
const operator_shapes *operator_case_shapes(const ir_catalogue_entry *entry);
/* The i-th choice of attributes, "label_smoothing=0.1", that an operator is tested with besides its defaults;
 * NULL past the last. */
const char *operator_case_attributes(const ir_catalogue_entry *entry, int i);
/* What the table says that an input may hold; not limited: nothing. */
operator_range operator_case_range(const ir_problem *p, const ir_catalogue_entry *entry, int input);

#endif
