#include "emulator/emu_race.h"

#include <stdlib.h>
#include <string.h>

/* Views cost a word for each pair of clusters that synchronise. */
enum { MOST_SYNCHRONISING = 2048, COARSEST = 16 };

/* Who accessed a cell: 0 nobody, else epoch << 32 | strong << 31 | cluster + 1. */
typedef uint64_t stamp;

typedef struct emu_cells {
  emu_allocation *allocation;
  uint32_t granule; /* bytes of a cell */
  uint64_t n;
  stamp *writes, *reads; /* reads: made on the first one */
  struct emu_cells *next;
} emu_cells;

typedef struct flag {
  uint64_t key; /* address / 8 + 1 */
  uint32_t *view;
} flag;

struct emu_races {
  uint32_t n;
  bool off;
  uint32_t *epoch;     /* by cluster; all begin at 0, stamped as 1 */
  uint32_t **view;     /* by cluster: how far it knows each; NULL: nobody */
  uint32_t **awaiting; /* by cluster: what a fence would make it know */
  bool *fenced;        /* by cluster */
  flag *flags;
  uint32_t n_flags, flag_capacity; /* a power of two */
  emu_cells *cells;
};

emu_races *emu_races_open(uint32_t n_clusters) {
  emu_races *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->n = n_clusters;
  r->epoch = calloc(n_clusters, sizeof *r->epoch);
  if (r->epoch == NULL) {
    free(r);
    return NULL;
  }
  return r;
}

static void free_views(uint32_t **views, uint32_t n) {
  for (uint32_t i = 0; views != NULL && i < n; i++) free(views[i]);
  free(views);
}

void emu_races_close(emu_races *r) {
  if (r == NULL) return;
  while (r->cells != NULL) {
    emu_cells *c = r->cells;
    r->cells = c->next;
    c->allocation->cells = NULL;
    free(c->writes);
    free(c->reads);
    free(c);
  }
  for (uint32_t i = 0; i < r->flag_capacity; i++) free(r->flags[i].view);
  free(r->flags);
  free_views(r->view, r->n);
  free_views(r->awaiting, r->n);
  free(r->fenced);
  free(r->epoch);
  free(r);
}

/* --- cells --- */

static emu_cells *cells_of(emu_races *r, emu_allocation *a) {
  if (a->cells != NULL) return a->cells;
  emu_cells *c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  *c = (emu_cells){
      .allocation = a, .granule = COARSEST, .n = (a->bytes + COARSEST - 1) / COARSEST, .next = r->cells};
  c->writes = calloc(c->n, sizeof *c->writes);
  if (c->writes == NULL) {
    free(c);
    return NULL;
  }
  r->cells = c;
  a->cells = c;
  return c;
}

/* Each cell becomes `parts` cells. */
static bool refine(stamp **list, uint64_t n, uint64_t new_n, uint32_t parts) {
  if (*list == NULL) return true;
  stamp *finer = malloc((size_t)new_n * sizeof *finer);
  if (finer == NULL) return false;
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t k = i * parts; k < (i + 1) * parts && k < new_n; k++) finer[k] = (*list)[i];
  free(*list);
  *list = finer;
  return true;
}

/* Cells so small that an access covers whole ones, the last of the allocation aside. */
static bool fit(emu_cells *c, uint64_t offset, uint64_t bytes) {
  uint64_t end = offset + bytes == c->allocation->bytes ? 0 : offset + bytes;
  uint32_t granule = c->granule;
  while ((offset | end) % granule != 0) granule /= 2;
  if (granule == c->granule) return true;
  uint32_t parts = c->granule / granule;
  uint64_t n = (c->allocation->bytes + granule - 1) / granule;
  if (!refine(&c->writes, c->n, n, parts) || !refine(&c->reads, c->n, n, parts)) return false;
  c->granule = granule;
  c->n = n;
  return true;
}

static uint32_t cluster_of(stamp s) {
  return (uint32_t)(s & 0x7FFFFFFF) - 1;
}

static bool collides(const emu_races *r, stamp s, uint32_t cluster, bool strong) {
  if (s == 0) return false;
  uint32_t other = cluster_of(s);
  if (other == cluster || (strong && (s >> 31 & 1) != 0)) return false;
  const uint32_t *view = r->view == NULL ? NULL : r->view[cluster];
  return view == NULL || view[other] < (uint32_t)(s >> 32);
}

bool emu_races_access(emu_races *r, uint32_t cluster, emu_allocation *a, uint64_t address, uint64_t bytes,
                      bool write, bool strong, emu_race *race) {
  /* What no cluster has written is not worth remembering. */
  if (r->off || r->n == 1 || (!write && a->cells == NULL) || a->read_only) return true;
  emu_cells *c = cells_of(r, a);
  uint64_t offset = address - a->address;
  if (c != NULL && !write && c->reads == NULL) c->reads = calloc(c->n, sizeof *c->reads);
  if (c == NULL || (!write && c->reads == NULL) || !fit(c, offset, bytes)) {
    r->off = true;
    return true;
  }
  stamp own = (uint64_t)(r->epoch[cluster] + 1) << 32 | (uint64_t)strong << 31 | (cluster + 1);
  uint64_t last = (offset + bytes - 1) / c->granule;
  for (uint64_t i = offset / c->granule; i <= last; i++) {
    stamp w = c->writes[i], reader = c->reads == NULL ? 0 : c->reads[i];
    bool by_write = w != own && collides(r, w, cluster, strong);
    if (by_write || (write && reader != own && collides(r, reader, cluster, strong))) {
      *race = (emu_race){a->address + i * c->granule, cluster_of(by_write ? w : reader), by_write};
      return false;
    }
    if (!write) {
      c->reads[i] = own;
      continue;
    }
    c->writes[i] = own;
    if (c->reads != NULL) c->reads[i] = 0;
  }
  return true;
}

/* --- synchronisation --- */

static bool can_synchronise(emu_races *r) {
  if (r->off) return false;
  if (r->view != NULL) return true;
  if (r->n <= MOST_SYNCHRONISING) {
    r->view = calloc(r->n, sizeof *r->view);
    r->awaiting = calloc(r->n, sizeof *r->awaiting);
    r->fenced = calloc(r->n, sizeof *r->fenced);
  }
  if (r->view == NULL || r->awaiting == NULL || r->fenced == NULL) r->off = true;
  return !r->off;
}

static void join(emu_races *r, uint32_t **to, const uint32_t *from) {
  if (*to == NULL) *to = calloc(r->n, sizeof **to);
  if (*to == NULL) {
    r->off = true;
    return;
  }
  for (uint32_t i = 0; from != NULL && i < r->n; i++) (*to)[i] = from[i] > (*to)[i] ? from[i] : (*to)[i];
}

/* The flag at an address, or the free place for it. */
static flag *find(flag *flags, uint32_t capacity, uint64_t key) {
  uint32_t at = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32) & (capacity - 1);
  while (flags[at].key != 0 && flags[at].key != key) at = (at + 1) & (capacity - 1);
  return &flags[at];
}

static bool grow_flags(emu_races *r) {
  uint32_t capacity = r->flag_capacity == 0 ? 64 : 2 * r->flag_capacity;
  flag *flags = calloc(capacity, sizeof *flags);
  if (flags == NULL) return false;
  for (uint32_t i = 0; i < r->flag_capacity; i++)
    if (r->flags[i].key != 0) *find(flags, capacity, r->flags[i].key) = r->flags[i];
  free(r->flags);
  r->flags = flags;
  r->flag_capacity = capacity;
  return true;
}

void emu_races_release(emu_races *r, uint32_t cluster, uint64_t address, bool ordered) {
  if (r->n == 1 || (!ordered && (r->fenced == NULL || !r->fenced[cluster])) || !can_synchronise(r)) return;
  if (2 * r->n_flags >= r->flag_capacity && !grow_flags(r)) {
    r->off = true;
    return;
  }
  flag *f = find(r->flags, r->flag_capacity, address / 8 + 1);
  if (f->key == 0) r->n_flags++;
  f->key = address / 8 + 1;
  join(r, &f->view, r->view[cluster]);
  if (f->view != NULL) f->view[cluster] = ++r->epoch[cluster];
}

void emu_races_acquire(emu_races *r, uint32_t cluster, uint64_t address, bool ordered) {
  if (r->n == 1 || r->n_flags == 0 || !can_synchronise(r)) return;
  const flag *f = find(r->flags, r->flag_capacity, address / 8 + 1);
  if (f->key == 0) return;
  join(r, ordered ? &r->view[cluster] : &r->awaiting[cluster], f->view);
}

void emu_races_fence(emu_races *r, uint32_t cluster) {
  if (r->n == 1 || !can_synchronise(r)) return;
  r->fenced[cluster] = true;
  if (r->awaiting[cluster] != NULL) join(r, &r->view[cluster], r->awaiting[cluster]);
}
