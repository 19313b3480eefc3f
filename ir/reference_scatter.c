/* Which elements a scattering definition writes: found once, where its places follow from one index. Without
 * that each element that is asked for would try all of them, and a read of what was written asks for many. */
#include "ir/reference.h"

enum { MOST_PLACES = 1 << 24 };

static bool mentions_other(const ir_expr *e, int slot) {
  if (e->node == IR_INDEX && e->id != slot) return true;
  for (int i = 0; i < e->n_args; i++)
    if (mentions_other(e->args[i], slot)) return true;
  return false;
}

/* A subscript that is an index alone is known from the element. */
static bool is_bound(const ref_definition *d, int i) {
  const ir_expr *e = d->source->subscripts[i];
  return e->node == IR_INDEX && e->id != d->free_slots[0];
}

static bool can_be_found(const ref_machine *s, const ref_definition *d) {
  if (d->n_free != 1 || s->p->op->tensors[d->source->tensor].any_rank) return false;
  if (d->range[d->free_slots[0]] > MOST_PLACES) return false;
  for (int i = 0; i < d->source->n_subscripts; i++)
    if (!is_bound(d, i) && mentions_other(d->source->subscripts[i], d->free_slots[0])) return false;
  return true;
}

static uint64_t mix(uint64_t h, int64_t x) {
  h = (h ^ (uint64_t)x) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

static bool is_only_writer(const ref_machine *s, const ref_definition *d) {
  int n = 0;
  for (int i = 0; i < s->p->op->n_definitions; i++)
    n += s->definitions[i].source->tensor == d->source->tensor;
  return n == 1;
}

bool ref_find_places(ref_machine *s, ref_definition *d) {
  ref_places *p = &d->places;
  if (p->tried) return true;
  p->tried = true;
  if (!can_be_found(s, d)) return true;
  int slot = d->free_slots[0];
  int64_t n = d->range[slot], size = 16;
  while (size < 2 * n) size *= 2;
  p->first = ARENA_NEW_N(&s->arena, int64_t, (size_t)size);
  p->next = ARENA_NEW_N(&s->arena, int64_t, (size_t)n + 1);
  if (p->first == NULL || p->next == NULL) {
    error_memory(s->err, "reference");
    return false;
  }
  p->mask = (uint64_t)size - 1;
  for (int64_t i = 0; i < size; i++) p->first[i] = -1;
  for (int64_t at = n - 1; at >= 0; at--) {
    uint64_t h = 0;
    d->index[slot] = at;
    for (int i = 0; i < d->source->n_subscripts; i++) {
      if (is_bound(d, i)) continue;
      if (!ref_eval(s, d, d->subs[i])) return false;
      h = mix(h, d->subs[i]->v[0].i);
    }
    p->next[at] = p->first[h & p->mask];
    p->first[h & p->mask] = at;
  }
  p->known = true;
  if (s->p->op->tensors[d->source->tensor].alias >= 0 && is_only_writer(s, d))
    s->scattered[d->source->tensor] = d;
  return true;
}

int64_t ref_first_place(const ref_definition *d, const int64_t *coords) {
  uint64_t h = 0;
  for (int i = 0; i < d->source->n_subscripts; i++)
    if (!is_bound(d, i)) h = mix(h, coords[i]);
  return d->places.first[h & d->places.mask];
}

bool ref_last_place(ref_machine *s, ref_definition *d, const int64_t *coords, int64_t *last) {
  *last = -1;
  for (int64_t at = ref_first_place(d, coords); at >= 0; at = d->places.next[at]) {
    bool yes = true;
    d->index[d->free_slots[0]] = at;
    for (int i = 0; i < d->source->n_subscripts && yes; i++) {
      if (is_bound(d, i)) continue;
      if (!ref_eval(s, d, d->subs[i])) return false;
      yes = d->subs[i]->v[0].i == coords[i];
    }
    if (yes) *last = at;
  }
  return true;
}
