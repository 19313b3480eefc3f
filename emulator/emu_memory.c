#include "emulator/emu_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xA5, POISON_BYTE = 0xFF, ALIGNMENT = 256 };

static void allocation_free(emu_allocation *a) {
  if (a == NULL) return;
  free(a->initialised);
  free(a->block);
  free(a);
}

void emu_memory_release(emu_memory *m) {
  for (size_t i = 0; i < m->n; i++) allocation_free(m->list[i]);
  free(m->list);
  *m = (emu_memory){NULL, 0, 0, NULL};
}

/* Index of the first allocation that starts after `address`. */
static size_t position_after(const emu_memory *m, uint64_t address) {
  size_t low = 0, high = m->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (m->list[middle]->address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool make_bitmap(emu_allocation *a) {
  a->initialised = calloc(a->bytes / 64 + 1, sizeof(uint64_t));
  return a->initialised != NULL;
}

static arke_status insert(emu_memory *m, emu_allocation *a, arke_error *err) {
  if (m->n == m->capacity) {
    size_t capacity = m->capacity == 0 ? 16 : 2 * m->capacity;
    emu_allocation **list = realloc(m->list, capacity * sizeof(emu_allocation *));
    if (list == NULL) return error_memory(err, "emulator");
    m->list = list;
    m->capacity = capacity;
  }
  size_t at = position_after(m, a->address);
  memmove(&m->list[at + 1], &m->list[at], (m->n - at) * sizeof(emu_allocation *));
  m->list[at] = a;
  m->n++;
  return ARKE_OK;
}

arke_status emu_memory_alloc(emu_memory *m, size_t bytes, const char *name, emu_allocation **out,
                             arke_error *err) {
  *out = NULL;
  if (bytes > SIZE_MAX / 4) return error_memory(err, "emulator");
  emu_allocation *a = calloc(1, sizeof *a);
  if (a == NULL) return error_memory(err, "emulator");
  snprintf(a->name, sizeof a->name, "%s", name == NULL || name[0] == '\0' ? "unnamed" : name);
  a->bytes = bytes == 0 ? 1 : bytes;
  size_t total = a->bytes + 2 * GUARD_BYTES + ALIGNMENT;
  a->block = malloc(total);
  if (a->block == NULL || !make_bitmap(a)) goto fail;
  memset(a->block, GUARD_BYTE, total);
  a->address = ((uint64_t)(uintptr_t)a->block + GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  memset((void *)(uintptr_t)a->address, POISON_BYTE, a->bytes);
  if (insert(m, a, err) != ARKE_OK) goto fail;
  *out = a;
  return ARKE_OK;
fail:
  allocation_free(a);
  return error_memory(err, "emulator");
}

arke_status emu_memory_import(emu_memory *m, uint64_t address, size_t bytes, const char *name,
                              bool initialised, arke_error *err) {
  if (address == 0 || bytes == 0)
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "memory to import must have an address and a size");
  size_t at = position_after(m, address);
  bool overlaps = (at > 0 && address - m->list[at - 1]->address < m->list[at - 1]->bytes) ||
                  (at < m->n && m->list[at]->address - address < bytes);
  if (overlaps)
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "imported memory \"%s\" overlaps another allocation",
                     name == NULL ? "" : name);
  emu_allocation *a = calloc(1, sizeof *a);
  if (a == NULL) return error_memory(err, "emulator");
  snprintf(a->name, sizeof a->name, "%s", name == NULL || name[0] == '\0' ? "imported" : name);
  a->address = address;
  a->bytes = bytes;
  if ((!initialised && !make_bitmap(a)) || insert(m, a, err) != ARKE_OK) {
    allocation_free(a);
    return error_memory(err, "emulator");
  }
  return ARKE_OK;
}

static bool guards_intact(const emu_allocation *a) {
  if (a->block == NULL) return true;
  const uint8_t *end = (const uint8_t *)(uintptr_t)(a->address + a->bytes);
  const uint8_t *begin = (const uint8_t *)(uintptr_t)a->address;
  for (int i = 0; i < GUARD_BYTES; i++) {
    if (end[i] != GUARD_BYTE || begin[-1 - i] != GUARD_BYTE) return false;
  }
  return true;
}

void emu_memory_free(emu_memory *m, uint64_t address) {
  size_t at = position_after(m, address);
  if (at == 0 || m->list[at - 1]->address != address) return;
  emu_allocation *a = m->list[at - 1];
  memmove(&m->list[at - 1], &m->list[at], (m->n - at) * sizeof(emu_allocation *));
  m->n--;
  m->last = NULL;
  allocation_free(a);
}

const emu_allocation *emu_memory_damaged(const emu_memory *m) {
  for (size_t i = 0; i < m->n; i++) {
    if (!guards_intact(m->list[i])) return m->list[i];
  }
  return NULL;
}

emu_allocation *emu_memory_find(emu_memory *m, uint64_t address) {
  size_t at = position_after(m, address);
  if (at == 0 || address - m->list[at - 1]->address >= m->list[at - 1]->bytes) return NULL;
  m->last = m->list[at - 1];
  return m->last;
}

/* Bits [first, first + n) of word `first / 64`, as far as they lie in that word. */
static uint64_t word_mask(uint64_t first, uint64_t n) {
  uint64_t low = first % 64, count = 64 - low < n ? 64 - low : n;
  return (count == 64 ? ~0ull : (1ull << count) - 1) << low;
}

void emu_memory_mark(emu_allocation *a, uint64_t address, uint64_t bytes) {
  if (a->initialised == NULL) return;
  uint64_t first = address - a->address;
  while (bytes > 0) {
    uint64_t step = 64 - first % 64 < bytes ? 64 - first % 64 : bytes;
    a->initialised[first / 64] |= word_mask(first, bytes);
    first += step;
    bytes -= step;
  }
}

bool emu_memory_initialised(const emu_allocation *a, uint64_t address, uint64_t bytes, uint64_t *missing) {
  if (a->initialised == NULL) return true;
  uint64_t first = address - a->address;
  while (bytes > 0) {
    uint64_t step = 64 - first % 64 < bytes ? 64 - first % 64 : bytes;
    uint64_t gaps = word_mask(first, bytes) & ~a->initialised[first / 64];
    if (gaps != 0) {
      *missing = a->address + first / 64 * 64 + (uint64_t)__builtin_ctzll(gaps);
      return false;
    }
    first += step;
    bytes -= step;
  }
  return true;
}

void emu_memory_describe(const emu_memory *m, uint64_t address, char *out, size_t out_bytes) {
  size_t at = position_after(m, address);
  const emu_allocation *before = at > 0 ? m->list[at - 1] : NULL, *after = at < m->n ? m->list[at] : NULL;
  uint64_t past = before != NULL ? address - before->address : UINT64_MAX;
  if (before != NULL && past < before->bytes) {
    snprintf(out, out_bytes, "%s + %llu bytes", before->name, (unsigned long long)past);
    return;
  }
  uint64_t over = before != NULL ? past - before->bytes : UINT64_MAX;
  uint64_t under = after != NULL ? after->address - address : UINT64_MAX;
  if (before == NULL && after == NULL)
    snprintf(out, out_bytes, "address 0x%llx, with no memory allocated", (unsigned long long)address);
  else if (over >= (1ull << 40) && under >= (1ull << 40))
    snprintf(out, out_bytes, "address 0x%llx, far from every allocation", (unsigned long long)address);
  else if (over <= under)
    snprintf(out, out_bytes, "%s + %llu bytes, %llu bytes past its end", before->name,
             (unsigned long long)past, (unsigned long long)over);
  else
    snprintf(out, out_bytes, "%s - %llu bytes, before its start", after->name, (unsigned long long)under);
}
