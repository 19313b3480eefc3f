/* What follows from a form and a configuration: widths, the tile's layout, who loads what. */
#include "templates/transpose.h"

static int element_bytes(const ir_form *form, int access) {
  return dtype_bits(ir_tensor_dtype(form->problem, form->accesses[access].tensor)) / 8;
}

static int least(int x, int y) {
  return x < y ? x : y;
}

static int most(int x, int y) {
  return x > y ? x : y;
}

/* The widest vector along `loop` that all `accesses` can take, in elements, none over `bytes` bytes. */
static int widest(const ir_form *form, uint64_t accesses, const lanes_options *o, int bytes) {
  lanes_options wider = *o;
  for (int width = LANES_MAX; width > 1; width /= 2) {
    bool narrow = true;
    for (int i = 0; i < form->n_accesses; i++) {
      if (accesses >> i & 1) narrow = narrow && width * element_bytes(form, i) <= bytes;
    }
    wider.width = width;
    if (narrow && (lanes_wide(form, &wider) & accesses) == accesses) return width;
  }
  return 1;
}

static uint64_t outputs_of(const ir_form *form) {
  uint64_t set = 0;
  for (int o = 0; o < form->n_outputs; o++) set |= UINT64_C(1) << form->outputs[o].access;
  return set;
}

/* Rows of shared memory hold 128 bytes or more, or several rows share 128. A warp reads `lanes_v` rows at one
 * u: the twist puts them into different banks. */
static void lay_out(transpose_plan *p) {
  const ir_form *form = p->form;
  int widest_out = 1, widest_in = 1, offset = 0;
  for (int o = 0; o < form->n_outputs; o++)
    widest_out = most(widest_out, element_bytes(form, form->outputs[o].access));
  for (int i = 0; i < form->n_accesses; i++) {
    if (!(p->match.turned >> i & 1)) continue;
    int k = p->n_turned++;
    p->access[k] = i;
    p->bytes[k] = element_bytes(form, i);
    p->offset[k] = offset;
    widest_in = most(widest_in, p->bytes[k]);
    offset += (int)(((int64_t)p->tile_u * p->tile_v * p->bytes[k] + 127) / 128 * 128);
  }
  p->smem_bytes = offset;
  p->lanes_v = least(least(32, 128 / (p->store * widest_out)), p->tile_v / p->store);
  p->lanes_v = least(p->lanes_v, 128 / widest_in);
  p->unit = 128 / most(8, p->lanes_v);
}

int transpose_words(const transpose_plan *p) {
  int words = 0;
  for (int k = 0; k < p->n_turned; k++) {
    int bytes = p->load * p->bytes[k];
    words += p->loads * (bytes <= 4 ? 1 : p->load == 1 ? 2 : bytes / 4);
  }
  return words;
}

/* Of a thread beside what it loads: addresses, which the loop over tiles keeps; one address, for each of the
 * accesses in a tile without edges. */
enum { OVERHEAD_REGISTERS = 48, STORE_REGISTERS = 4, APART_REGISTERS = 8 };

int transpose_resident(const transpose_plan *p, const target *t) {
  bool no_bounds = p->apart || (p->even && p->tiles == TRANSPOSE_EACH_TILE);
  int registers = no_bounds
                      ? (APART_REGISTERS * p->form->n_accesses + transpose_words(p) + 7) / 8 * 8
                      : (OVERHEAD_REGISTERS + STORE_REGISTERS * p->stores + transpose_words(p) + 7) / 8 * 8;
  int n = t->registers_per_sm / (registers * p->threads);
  int by_memory = t->smem_per_block_bytes / (p->smem_bytes + 1024), by_threads = 2048 / p->threads;
  if (by_memory < n) n = by_memory;
  if (by_threads < n) n = by_threads;
  return n < 1 ? 1 : n;
}

/* Of a thread, from which on code without bounds is worth its length. */
enum { MANY_PLACES = 16 };

template_reason transpose_make_plan(const ir_form *form, const transpose_match *match, const target *t,
                                    const config *c, bool dense, int vector, transpose_plan *plan) {
  *plan = (transpose_plan){.form = form,
                           .match = *match,
                           .dense = dense,
                           .tile_v = c->values[TRANSPOSE_TILE_X],
                           .tile_u = c->values[TRANSPOSE_TILE_Y],
                           .threads = c->values[TRANSPOSE_THREADS],
                           .tiles = (transpose_tiles)c->values[TRANSPOSE_PERSISTENT],
                           .along_u = c->values[TRANSPOSE_RASTER]};
  transpose_plan *p = plan;
  int n_turned = __builtin_popcountll(match->turned);
  if (n_turned > (int)COUNT_OF(p->access)) return TEMPLATE_SHARED_MEMORY;
  p->wide_offsets = lanes_need_wide_offsets(form);
  lanes_options along = {.loop = match->u, .dense = dense, .wide_offsets = p->wide_offsets};
  p->load = least(vector ? widest(form, match->turned, &along, vector) : 1, p->tile_u);
  along.loop = match->v;
  p->store = least(vector ? widest(form, outputs_of(form), &along, vector) : 1, p->tile_v);
  for (int l = 0; l < form->n_loops; l++) {
    if (l != match->u && l != match->v) p->outer[p->n_outer++] = l;
  }
  int elements = p->tile_u * p->tile_v;
  p->loads = elements / (p->load * p->threads);
  p->stores = elements / (p->store * p->threads);
  if (p->loads * p->load * p->threads != elements || p->stores * p->store * p->threads != elements)
    return TEMPLATE_TILE;
  if (p->loads * n_turned > 32 || p->stores > 64) return TEMPLATE_REGISTERS;
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  p->apart = p->tiles == TRANSPOSE_EACH_TILE && (p->load == 1 || p->store == 1) &&
             p->loads * n_turned + p->stores >= MANY_PLACES;
  if (p->apart) p->wide_offsets = true; /* so that an address is one sum from the last */
  lay_out(p);
  int words = transpose_words(p);
  if (words > (p->tiles == TRANSPOSE_TILES_AHEAD ? TRANSPOSE_WORDS_AHEAD : TRANSPOSE_MAX_WORDS))
    return TEMPLATE_REGISTERS;
  if (p->smem_bytes > t->smem_per_block_bytes) return TEMPLATE_SHARED_MEMORY;
  return TEMPLATE_OK;
}

bool transpose_make_even(const transpose_plan *plan, transpose_plan *even) {
  int64_t u = ir_form_extent(plan->form, plan->match.u), v = ir_form_extent(plan->form, plan->match.v);
  int64_t slow = plan->along_u ? v / plan->tile_v : u / plan->tile_u;
  bool in_grid = plan->tiles == TRANSPOSE_EACH_TILE && plan->n_outer == 0;
  if (u % plan->tile_u != 0 || v % plan->tile_v != 0 || (in_grid && slow > TRANSPOSE_GRID_Y)) return false;
  *even = *plan;
  even->even = true;
  even->apart = false;
  return true;
}
