/* What follows from a form and a configuration: widths, the tile's layout, who loads what. */
#include "templates/transpose_emit.h"

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

/* Rows of shared memory are what they are in memory: aligned words, one more than the tile's row fills. One
 * word is left free after every `store` rows: those that a warp reads at one u are then an odd number of
 * words apart. */
static void lay_out_shifted(transpose_plan *p) {
  const ir_form *form = p->form;
  int bytes = element_bytes(form, form->outputs[0].access), word = p->load * bytes, offset = 0;
  for (int i = 0; i < form->n_accesses; i++) {
    if (!(p->match.turned >> i & 1)) continue;
    int k = p->n_turned++;
    p->access[k] = i;
    p->bytes[k] = bytes;
    p->offset[k] = offset;
    offset += ((p->rows * p->row_words + p->rows / p->store + 1) * word + 127) / 128 * 128;
  }
  p->smem_bytes = offset;
  p->lanes_v = least(128 / word, p->tile_v / p->store);
}

/* Whether the access moves on with each step of a loop: rows follow one another as they do in the tensor. */
static bool goes_along(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  for (int s = 0; s < x->n; s++) {
    if (x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == loop) return true;
  }
  return false;
}

bool transpose_can_shift(const ir_form *form, const transpose_match *match) {
  if (form->n_outputs != 1) return false;
  int written = form->outputs[0].access, bytes = element_bytes(form, written);
  if (form->accesses[written].conditional) return false;
  for (int i = 0; i < form->n_accesses; i++) {
    if (i != written && !(match->turned >> i & 1)) continue;
    if (element_bytes(form, i) != bytes || !goes_along(form, i, match->v)) return false;
    for (int l = 0; l < form->n_loops; l++) {
      if (ir_form_motion(form, i, l) == IR_MOTION_IRREGULAR) return false;
    }
  }
  return true;
}

/* The same thread's places are to begin at the same place of a word. */
static bool places_agree(const transpose_plan *p) {
  for (int i = 0; i < p->stores; i++) {
    transpose_offset more = transpose_store_offset(p, i);
    if (more.u % p->store != 0 || more.v % p->store != 0) return false;
  }
  return true;
}

static template_reason make_shifted(transpose_plan *p, const target *t, int vector) {
  const ir_form *form = p->form;
  if (!transpose_can_shift(form, &p->match)) return TEMPLATE_SCHEDULE;
  int width = vector / element_bytes(form, form->outputs[0].access),
      n_turned = __builtin_popcountll(p->match.turned);
  if (width < 2 || p->tile_u % width != 0 || p->tile_v % width != 0) return TEMPLATE_TILE;
  p->load = p->store = width;
  p->row_words = p->tile_u / width + 1;
  p->rows = p->tile_v + width - 1;
  p->loads = (p->rows * p->row_words + p->threads - 1) / p->threads;
  p->stores = p->tile_u * p->tile_v / (width * p->threads);
  if (p->stores * width * p->threads != p->tile_u * p->tile_v) return TEMPLATE_TILE;
  if (p->tiles != TRANSPOSE_EACH_TILE) return TEMPLATE_SCHEDULE;
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  lay_out_shifted(p);
  if (!places_agree(p)) return TEMPLATE_TILE;
  if (p->loads * n_turned > 32 || p->stores * width > 64 || transpose_words(p) > TRANSPOSE_MAX_WORDS)
    return TEMPLATE_REGISTERS;
  return p->smem_bytes > t->smem_per_block_bytes ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
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
  int by_memory = t->smem_per_block_bytes / (p->smem_bytes + 1024),
      by_threads = t->max_threads_per_sm / p->threads;
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
  for (int l = 0; l < form->n_loops; l++) {
    if (l != match->u && l != match->v) p->outer[p->n_outer++] = l;
  }
  p->shifted = c->values[TRANSPOSE_SHIFT] && dense && vector;
  if (p->shifted) return make_shifted(p, t, vector);
  lanes_options along = {.loop = match->u, .dense = dense, .wide_offsets = p->wide_offsets};
  p->load = least(vector ? widest(form, match->turned, &along, vector) : 1, p->tile_u);
  along.loop = match->v;
  p->store = least(vector ? widest(form, outputs_of(form), &along, vector) : 1, p->tile_v);
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
  if (plan->shifted || u % plan->tile_u != 0 || v % plan->tile_v != 0 || (in_grid && slow > TRANSPOSE_GRID_Y))
    return false;
  *even = *plan;
  even->even = true;
  even->apart = false;
  return true;
}
