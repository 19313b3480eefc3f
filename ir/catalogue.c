/* The operators that are known by name: one list, of a table for each kind. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/catalogue_attention.h"
#include "ir/catalogue_elements.h"
#include "ir/catalogue_movement.h"
#include "ir/catalogue_products.h"
#include "ir/catalogue_rows.h"
#include "ir/ir.h"

#define FLOATS   "f32 f16 bf16"
#define FLOATS64 "f64 f32 f16 bf16"
#define FP8      "e4m3 e5m2"
#define NUMBERS  "f64 f32 f16 bf16 i64 i32 i16 i8 u8"
#define ANY      "f64 f32 f16 bf16 e4m3 e5m2 i64 i32 i16 i8 u8 bool"

/* X(name, family, axes of --shape, dtypes, help, text); what is listed in the order in which it is listed */
#define CATALOGUE(X)                                                                                         \
  CATALOGUE_ELEMENTS(X) CATALOGUE_ROWS(X) CATALOGUE_PRODUCTS(X) CATALOGUE_MOVEMENT(X) CATALOGUE_ATTENTION(X)

#define X(name, family, axes, dtypes, help, text) {#name, text, axes, help, family, dtypes},
static const ir_catalogue_entry ENTRIES[] = {CATALOGUE(X)};
#undef X
#define X(name, family, axes, dtypes, help, text) #name,
static const char *const NAMES[] = {CATALOGUE(X)};
#undef X

int ir_catalogue_count(void) {
  return (int)COUNT_OF(ENTRIES);
}

const ir_catalogue_entry *ir_catalogue_get(int i) {
  return &ENTRIES[i];
}

const ir_catalogue_entry *ir_catalogue_find(const char *name, const char **nearest) {
  if (nearest != NULL) *nearest = NULL;
  for (size_t i = 0; i < COUNT_OF(ENTRIES); i++)
    if (strcmp(ENTRIES[i].name, name) == 0) return &ENTRIES[i];
  if (nearest != NULL) *nearest = text_nearest(name, NAMES, COUNT_OF(NAMES));
  return NULL;
}
