/* The entries of an operator, kept from the first plan that had to walk over them: a server plans hundreds of
 * batch sizes, and reading a thousand rows for each would take seconds. Exact look-ups do not come here and
 * see what was tuned since. */
#ifndef ARKE_RUNTIME_ENTRY_INDEX_H
#define ARKE_RUNTIME_ENTRY_INDEX_H

#include "cache/cache.h"

typedef struct entry_list {
  struct entry_list *next;
  const cache *cache;
  const char *op, *target;
  cache_entry *entries; /* without kernels */
  int n, capacity;
  int damaged_rows; /* skipped */
} entry_list;

typedef struct entry_index {
  arena memory;
  entry_list *lists;
} entry_index;

/* Reads the list on first use; it lives as long as the index. One thread at a time. */
arke_status entry_index_get(entry_index *x, cache *c, const char *op, const char *target,
                            const entry_list **list, arke_error *err);
void entry_index_release(entry_index *x);

#endif
