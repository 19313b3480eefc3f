#include "emulator/emu_shadow.h"

#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 16 };
enum { CELL_SPLIT = 1, CELL_READ_SET = 2, CELL_STRONG = 4, CELL_ASYNC = 8 }; /* ASYNC: so was the write */

typedef struct cell {
  emu_epoch write; /* CELL_SPLIT: index of its sixteen byte cells */
  emu_epoch read;  /* CELL_READ_SET: index of a set of readers */
  uint32_t lanes;  /* lanes that wrote, when a warp did */
  uint32_t flags;
} cell;

typedef struct read_set {
  uint32_t n, capacity;
  emu_epoch *readers;
} read_set;

struct emu_shadow {
  uint32_t bytes, n_cells;
  cell *cells;
  uint16_t *initialised; /* a bit per byte of a cell */
  cell (*splits)[CELL_BYTES];
  uint32_t n_splits, split_capacity;
  uint32_t *free_splits; /* stack, as large as splits */
  uint32_t n_free_splits;
  read_set *sets;
  uint32_t n_sets, set_capacity;
  uint32_t *free_sets;
  uint32_t n_free_sets;
};

emu_shadow *emu_shadow_new(uint32_t bytes) {
  emu_shadow *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->bytes = bytes;
  s->n_cells = (bytes + CELL_BYTES - 1) / CELL_BYTES;
  s->cells = calloc(s->n_cells + 1, sizeof *s->cells);
  s->initialised = calloc(s->n_cells + 1, sizeof *s->initialised);
  if (s->cells == NULL || s->initialised == NULL) {
    emu_shadow_free(s);
    return NULL;
  }
  return s;
}

void emu_shadow_free(emu_shadow *s) {
  if (s == NULL) return;
  for (uint32_t i = 0; i < s->n_sets; i++) free(s->sets[i].readers);
  free(s->sets);
  free(s->free_sets);
  free(s->splits);
  free(s->free_splits);
  free(s->initialised);
  free(s->cells);
  free(s);
}

static bool new_split(emu_shadow *s, uint32_t *index) {
  if (s->n_free_splits > 0) {
    *index = s->free_splits[--s->n_free_splits];
    return true;
  }
  if (s->n_splits == s->split_capacity) {
    uint32_t capacity = s->split_capacity == 0 ? 64 : 2 * s->split_capacity;
    void *splits = realloc(s->splits, capacity * sizeof *s->splits);
    if (splits == NULL) return false;
    s->splits = splits;
    uint32_t *stack = realloc(s->free_splits, capacity * sizeof *stack);
    if (stack == NULL) return false;
    s->free_splits = stack;
    s->split_capacity = capacity;
  }
  *index = s->n_splits++;
  return true;
}

static bool new_set(emu_shadow *s, uint32_t *index) {
  if (s->n_free_sets > 0) {
    *index = s->free_sets[--s->n_free_sets];
    return true;
  }
  if (s->n_sets == s->set_capacity) {
    uint32_t capacity = s->set_capacity == 0 ? 64 : 2 * s->set_capacity;
    void *sets = realloc(s->sets, capacity * sizeof *s->sets);
    if (sets == NULL) return false;
    s->sets = sets;
    uint32_t *stack = realloc(s->free_sets, capacity * sizeof *stack);
    if (stack == NULL) return false;
    s->free_sets = stack;
    s->set_capacity = capacity;
  }
  memset(&s->sets[s->n_sets], 0, sizeof *s->sets);
  *index = s->n_sets++;
  return true;
}

static void drop_readers(emu_shadow *s, cell *c) {
  if ((c->flags & CELL_READ_SET) != 0) {
    uint32_t index = (uint32_t)c->read;
    s->sets[index].n = 0;
    s->free_sets[s->n_free_sets++] = index;
    c->flags &= ~(uint32_t)CELL_READ_SET;
  }
  c->read = 0;
}

static bool set_add(read_set *set, emu_epoch e) {
  if (set->n == set->capacity) {
    uint32_t capacity = set->capacity == 0 ? 8 : 2 * set->capacity;
    emu_epoch *readers = realloc(set->readers, capacity * sizeof *readers);
    if (readers == NULL) return false;
    set->readers = readers;
    set->capacity = capacity;
  }
  set->readers[set->n++] = e;
  return true;
}

/* Keeps one read per agent, and none that the new reader already knows: whoever is ordered after it is
 * ordered after those. */
static bool add_reader(emu_shadow *s, cell *c, const emu_actor *a) {
  if ((c->flags & CELL_READ_SET) == 0) {
    if (c->read == 0 || emu_epoch_agent(c->read) == emu_epoch_agent(a->now) ||
        emu_view_covers(a->order, a->view, c->read)) {
      c->read = a->now;
      return true;
    }
    uint32_t index;
    if (!new_set(s, &index)) return false;
    read_set *set = &s->sets[index];
    if (!set_add(set, c->read)) return false;
    c->read = index;
    c->flags |= CELL_READ_SET;
    return set_add(set, a->now);
  }
  read_set *set = &s->sets[(uint32_t)c->read];
  uint32_t kept = 0;
  for (uint32_t i = 0; i < set->n; i++) {
    emu_epoch e = set->readers[i];
    if (emu_epoch_agent(e) == emu_epoch_agent(a->now) || emu_view_covers(a->order, a->view, e)) continue;
    set->readers[kept++] = e;
  }
  set->n = kept;
  return set_add(set, a->now);
}

static emu_epoch unordered_reader(const emu_shadow *s, const cell *c, const emu_actor *a) {
  uint32_t self = emu_epoch_agent(a->now);
  if ((c->flags & CELL_READ_SET) == 0) {
    bool known = emu_epoch_agent(c->read) == self || emu_view_covers(a->order, a->view, c->read);
    return known ? 0 : c->read;
  }
  const read_set *set = &s->sets[(uint32_t)c->read];
  for (uint32_t i = 0; i < set->n; i++) {
    emu_epoch e = set->readers[i];
    if (emu_epoch_agent(e) != self && !emu_view_covers(a->order, a->view, e)) return e;
  }
  return 0;
}

static bool visible_to_async(const cell *c, const emu_actor *a) {
  if (c->write == 0 || (c->flags & CELL_ASYNC) != 0 || emu_view_fenced(a->order, a->view, c->write))
    return true;
  uint32_t agent = emu_epoch_agent(c->write);
  return emu_agent_is_warp(a->order, agent) && a->lanes_fenced != NULL &&
         a->lanes_fenced(a->machine, a, agent, emu_epoch_clock(c->write), c->lanes);
}

static bool refuse(emu_conflict *conflict, emu_conflict_kind kind, uint32_t address, emu_epoch earlier) {
  *conflict = (emu_conflict){kind, address, earlier};
  return false;
}

static bool touch(emu_shadow *s, cell *c, uint32_t address, bool write, const emu_actor *a,
                  emu_conflict *conflict) {
  bool both_strong = a->strong && (c->flags & CELL_STRONG) != 0;
  if (!both_strong && !emu_view_covers(a->order, a->view, c->write))
    return refuse(conflict, EMU_CONFLICT_WRITE, address, c->write);
  if (a->async && !visible_to_async(c, a)) return refuse(conflict, EMU_CONFLICT_PROXY, address, c->write);
  if (!write) {
    /* A strong read followed by an unordered plain write goes unseen; keeping it would make flags races. */
    if (a->strong) return true;
    return add_reader(s, c, a) || refuse(conflict, EMU_CONFLICT_MEMORY, address, 0);
  }
  if (c->read != 0 || (c->flags & CELL_READ_SET) != 0) {
    emu_epoch reader = unordered_reader(s, c, a);
    if (reader != 0) return refuse(conflict, EMU_CONFLICT_READ, address, reader);
    drop_readers(s, c);
  }
  bool same = c->write >> 16 == a->now >> 16;
  c->write = a->now;
  c->lanes = same ? c->lanes | a->lanes : a->lanes;
  c->flags =
      (c->flags & (CELL_SPLIT | CELL_READ_SET)) | (a->strong ? CELL_STRONG : 0) | (a->async ? CELL_ASYNC : 0);
  return true;
}

/* Gives each byte of a cell a record of its own. */
static bool split_cell(emu_shadow *s, cell *c) {
  uint32_t index;
  if (!new_split(s, &index)) return false;
  cell *bytes = s->splits[index];
  for (int i = 0; i < CELL_BYTES; i++) {
    bytes[i] = *c;
    if ((c->flags & CELL_READ_SET) == 0) continue;
    uint32_t copy;
    bytes[i].flags &= ~(uint32_t)CELL_READ_SET;
    bytes[i].read = 0;
    if (!new_set(s, &copy)) return false;
    const read_set *from = &s->sets[(uint32_t)c->read];
    for (uint32_t j = 0; j < from->n; j++) {
      if (!set_add(&s->sets[copy], from->readers[j])) return false;
    }
    bytes[i].read = copy;
    bytes[i].flags |= CELL_READ_SET;
  }
  drop_readers(s, c);
  c->write = index;
  c->flags = CELL_SPLIT;
  return true;
}

/* After a write of all its bytes a cell is whole again. */
static void join_cell(emu_shadow *s, cell *c) {
  uint32_t index = (uint32_t)c->write;
  cell *bytes = s->splits[index];
  for (int i = 1; i < CELL_BYTES; i++) drop_readers(s, &bytes[i]);
  *c = bytes[0];
  s->free_splits[s->n_free_splits++] = index;
}

static bool touch_part(emu_shadow *s, uint32_t index, uint32_t first, uint32_t n, bool write,
                       const emu_actor *a, emu_conflict *conflict) {
  cell *c = &s->cells[index];
  uint32_t address = index * CELL_BYTES + first;
  if ((c->flags & CELL_SPLIT) == 0) {
    if (n == CELL_BYTES) return touch(s, c, address, write, a, conflict);
    /* What the whole cell already says needs no split: the usual case of a row read back by its writer. */
    bool repeated = (c->flags & (CELL_READ_SET | CELL_STRONG | CELL_ASYNC)) == 0 && !a->strong &&
                    (write ? c->write >> 16 == a->now >> 16 && c->read == 0 && (a->lanes & ~c->lanes) == 0
                           : c->read >> 16 == a->now >> 16 && emu_view_covers(a->order, a->view, c->write));
    if (repeated && !a->async) return true;
    if (!split_cell(s, c)) return refuse(conflict, EMU_CONFLICT_MEMORY, address, 0);
  }
  for (uint32_t i = 0; i < n; i++) {
    /* Splits may move when a read set grows the pool of cells: look it up again. */
    if (!touch(s, &s->splits[(uint32_t)c->write][first + i], address + i, write, a, conflict)) return false;
  }
  if (write && n == CELL_BYTES) join_cell(s, c);
  return true;
}

bool emu_shadow_access(emu_shadow *s, uint32_t address, uint32_t bytes, bool write, const emu_actor *a,
                       emu_conflict *conflict) {
  while (bytes > 0) {
    uint32_t index = address / CELL_BYTES, first = address % CELL_BYTES;
    uint32_t n = CELL_BYTES - first < bytes ? CELL_BYTES - first : bytes;
    if (!touch_part(s, index, first, n, write, a, conflict)) return false;
    address += n;
    bytes -= n;
  }
  return true;
}

static uint16_t part_mask(uint32_t first, uint32_t n) {
  return (uint16_t)(((1u << n) - 1) << first);
}

void emu_shadow_initialise(emu_shadow *s, uint32_t address, uint32_t bytes) {
  while (bytes > 0) {
    uint32_t index = address / CELL_BYTES, first = address % CELL_BYTES;
    uint32_t n = CELL_BYTES - first < bytes ? CELL_BYTES - first : bytes;
    s->initialised[index] |= part_mask(first, n);
    address += n;
    bytes -= n;
  }
}

bool emu_shadow_initialised(const emu_shadow *s, uint32_t address, uint32_t bytes, uint32_t *first_missing) {
  while (bytes > 0) {
    uint32_t index = address / CELL_BYTES, first = address % CELL_BYTES;
    uint32_t n = CELL_BYTES - first < bytes ? CELL_BYTES - first : bytes;
    uint16_t mask = part_mask(first, n), missing = (uint16_t)(mask & ~s->initialised[index]);
    if (missing != 0) {
      *first_missing = index * CELL_BYTES + (uint32_t)__builtin_ctz(missing);
      return false;
    }
    address += n;
    bytes -= n;
  }
  return true;
}

/* Whose accesses may still be under way at a CTA's end. */
typedef struct leaving {
  const emu_order *order;
  const emu_view *view;
  uint32_t first_warp, n_warps;
} leaving;

static bool is_over(const leaving *l, emu_epoch e) {
  uint32_t agent = emu_epoch_agent(e);
  bool own = agent - l->first_warp < l->n_warps || !emu_agent_is_warp(l->order, agent);
  return e == 0 || own || emu_view_covers(l->order, l->view, e);
}

static bool is_quiet(const emu_shadow *s, const cell *c, const leaving *l, uint32_t address,
                     emu_conflict *conflict) {
  if (!is_over(l, c->write)) return refuse(conflict, EMU_CONFLICT_WRITE, address, c->write);
  if ((c->flags & CELL_READ_SET) == 0)
    return is_over(l, c->read) || refuse(conflict, EMU_CONFLICT_READ, address, c->read);
  const read_set *set = &s->sets[(uint32_t)c->read];
  for (uint32_t i = 0; i < set->n; i++)
    if (!is_over(l, set->readers[i])) return refuse(conflict, EMU_CONFLICT_READ, address, set->readers[i]);
  return true;
}

bool emu_shadow_quiet(const emu_shadow *s, const emu_order *order, const emu_view *view, uint32_t first_warp,
                      uint32_t n_warps, emu_conflict *conflict) {
  leaving l = {order, view, first_warp, n_warps};
  for (uint32_t i = 0; i < s->n_cells; i++) {
    const cell *c = &s->cells[i];
    bool split = (c->flags & CELL_SPLIT) != 0;
    const cell *parts = split ? s->splits[(uint32_t)c->write] : c;
    for (uint32_t j = 0; j < (split ? CELL_BYTES : 1); j++)
      if (!is_quiet(s, &parts[j], &l, i * CELL_BYTES + j, conflict)) return false;
  }
  return true;
}

void emu_shadow_forget(emu_shadow *s, uint32_t address, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) {
    uint32_t index = (address + i) / CELL_BYTES, first = (address + i) % CELL_BYTES;
    s->initialised[index] &= (uint16_t)~part_mask(first, 1);
  }
}
