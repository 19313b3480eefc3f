#include "runtime/entry_index.h"

#include <string.h>

#define STAGE "plan"

typedef struct filler {
  arena *memory;
  entry_list *list;
  bool out_of_memory;
} filler;

static bool append(const cache_entry *e, void *user) {
  filler *f = user;
  entry_list *l = f->list;
  if (l->n == l->capacity) {
    int capacity = l->capacity == 0 ? 64 : 2 * l->capacity;
    cache_entry *grown = ARENA_NEW_N(f->memory, cache_entry, (size_t)capacity);
    f->out_of_memory = grown == NULL;
    if (grown == NULL) return false;
    if (l->n > 0) memcpy(grown, l->entries, (size_t)l->n * sizeof *grown);
    l->entries = grown;
    l->capacity = capacity;
  }
  l->entries[l->n++] = *e;
  return true;
}

static entry_list *find(const entry_index *x, const cache *c, const char *op, const char *target) {
  for (entry_list *l = x->lists; l != NULL; l = l->next)
    if (l->cache == c && strcmp(l->op, op) == 0 && strcmp(l->target, target) == 0) return l;
  return NULL;
}

arke_status entry_index_get(entry_index *x, cache *c, const char *op, const char *target,
                            const entry_list **list, arke_error *err) {
  *list = find(x, c, op, target);
  if (*list != NULL) return ARKE_OK;
  entry_list *l = ARENA_NEW(&x->memory, entry_list);
  if (l == NULL) return error_memory(err, STAGE);
  l->cache = c;
  l->op = arena_strdup(&x->memory, op);
  l->target = arena_strdup(&x->memory, target);
  if (l->op == NULL || l->target == NULL) return error_memory(err, STAGE);
  filler f = {.memory = &x->memory, .list = l};
  TRY(cache_each_entry(c, op, target, &x->memory, append, &f, &l->damaged_rows, err));
  if (f.out_of_memory) return error_memory(err, STAGE);
  l->next = x->lists;
  x->lists = l;
  *list = l;
  return ARKE_OK;
}

void entry_index_release(entry_index *x) {
  arena_release(&x->memory);
  x->lists = NULL;
}
