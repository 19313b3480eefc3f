/* Names to numbers, with nested scopes: declared registers, symbols and labels, and the fixed vocabulary. The
 * newest entry of a name hides the older ones. Memory comes from the arena given; texts are not copied. */
#ifndef ARKE_EMULATOR_PTX_NAMES_H
#define ARKE_EMULATOR_PTX_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct ptx_name {
  const char *text;
  size_t length;
  uint32_t hash, kind, index, scope;
  struct ptx_name *bucket_next, *older;
} ptx_name;

typedef struct ptx_names {
  arena *memory;
  ptx_name **buckets;
  uint32_t mask, scope;
  ptx_name *newest;
} ptx_names;

/* `expected`: about how many names, for the number of buckets. False when memory is out. */
bool ptx_names_init(ptx_names *n, arena *memory, size_t expected);
bool ptx_names_add(ptx_names *n, const char *text, size_t length, uint32_t kind, uint32_t index);
/* The newest entry, or NULL. */
const ptx_name *ptx_names_find(const ptx_names *n, const char *text, size_t length);
/* The next older entry of the same name, or NULL. */
const ptx_name *ptx_names_older(const ptx_name *name);
void ptx_names_open(ptx_names *n);
void ptx_names_close(ptx_names *n); /* forgets what was added since the matching open */

#endif
