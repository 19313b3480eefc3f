/* The template that docs/add-a-template.md builds step by step: a map over one-dimensional tensors. */
#ifndef ARKE_TESTS_EXAMPLE_MAP_H
#define ARKE_TESTS_EXAMPLE_MAP_H

#include "templates/template.h"

extern const kernel_template example_map;

#endif
