#include "emulator/ptx_names.h"

#include <string.h>

static uint32_t hash_of(const char *text, size_t length) {
  uint32_t h = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h;
}

bool ptx_names_init(ptx_names *n, arena *memory, size_t expected) {
  uint32_t buckets = 64;
  while (buckets < expected && buckets < (1u << 17)) buckets *= 2;
  *n = (ptx_names){.memory = memory, .mask = buckets - 1};
  n->buckets = ARENA_NEW_N(memory, ptx_name *, buckets);
  return n->buckets != NULL;
}

bool ptx_names_add(ptx_names *n, const char *text, size_t length, uint32_t kind, uint32_t index) {
  ptx_name *name = ARENA_NEW(n->memory, ptx_name);
  if (name == NULL) return false;
  uint32_t hash = hash_of(text, length);
  ptx_name **bucket = &n->buckets[hash & n->mask];
  *name = (ptx_name){text, length, hash, kind, index, n->scope, *bucket, n->newest};
  *bucket = name;
  n->newest = name;
  return true;
}

static const ptx_name *search(const ptx_name *name, uint32_t hash, const char *text, size_t length) {
  for (; name != NULL; name = name->bucket_next)
    if (name->hash == hash && name->length == length && memcmp(name->text, text, length) == 0) return name;
  return NULL;
}

const ptx_name *ptx_names_find(const ptx_names *n, const char *text, size_t length) {
  uint32_t hash = hash_of(text, length);
  return search(n->buckets[hash & n->mask], hash, text, length);
}

const ptx_name *ptx_names_older(const ptx_name *name) {
  return search(name->bucket_next, name->hash, name->text, name->length);
}

void ptx_names_open(ptx_names *n) {
  n->scope++;
}

void ptx_names_close(ptx_names *n) {
  /* Entries leave in the reverse order of their arrival, so each is the head of its bucket. */
  while (n->newest != NULL && n->newest->scope == n->scope) {
    n->buckets[n->newest->hash & n->mask] = n->newest->bucket_next;
    n->newest = n->newest->older;
  }
  n->scope--;
}
