/* The body of a transpose kernel. */
#include "templates/transpose_emit.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"

typedef transpose_emitter emitter;
typedef transpose_offset offset;

gen_value transpose_index(const emitter *e, gen_value x) {
  return e->p->wide_offsets ? gen_zext(e->b, x, GEN_I64) : x;
}

static gen_value modulo(gen_builder *b, gen_value x, int y) {
  return gen_and(b, x, gen_i32(b, y - 1)); /* powers of two */
}

static gen_value quotient(gen_builder *b, gen_value x, int y) {
  return gen_lshr(b, x, gen_i32(b, __builtin_ctz((unsigned)y)));
}

/* A position of the tile that exists: past the edge the last one. `width` divides the extent. */
static gen_value inside(const emitter *e, gen_value x, gen_value extent, int width) {
  return e->whole ? x : gen_umin(e->b, x, gen_add_imm(e->b, extent, -width));
}

void transpose_set_loops(const emitter *e, lanes *l, gen_value u, gen_value v) {
  lanes_set(l, e->p->match.u, u);
  lanes_set(l, e->p->match.v, v);
  for (int i = 0; i < e->p->n_outer; i++) lanes_set(l, e->p->outer[i], e->outer[i]);
}

/* Where row v of the tile of turned read k begins, and by what the bytes within it are twisted. */
static gen_value row(const emitter *e, int k, gen_value v, gen_value *twist) {
  const transpose_plan *p = e->p;
  int pitch = p->tile_u * p->bytes[k];
  int rows = 128 / pitch > p->store ? 128 / pitch : p->store;
  *twist = gen_mul_imm(e->b, modulo(e->b, quotient(e->b, v, rows), p->lanes_v), p->unit);
  return gen_add_imm(e->b, gen_add(e->b, e->smem, gen_mul_imm(e->b, v, pitch)), p->offset[k]);
}

static gen_value element(const emitter *e, int k, gen_value row_address, gen_value twist, gen_value u,
                         int pitch) {
  gen_builder *b = e->b;
  gen_value within = gen_mul_imm(b, u, e->p->bytes[k]);
  if (pitch >= 128) return gen_add(b, row_address, gen_xor(b, within, twist));
  /* Several rows share 128 bytes: the twist moves an element from one to another. The tile is aligned. */
  return gen_xor(b, gen_add(b, row_address, within), twist);
}

/* --- into shared memory --- */

/* Elements of one access as few registers: what a loop carries. */
static int pack(const emitter *e, int k, const gen_value *elements, gen_value *words) {
  gen_builder *b = e->b;
  int n = e->p->load, bytes = n * e->p->bytes[k];
  if (n == 1) {
    words[0] = elements[0];
    return 1;
  }
  gen_value all = gen_vector(b, elements, n);
  if (bytes <= 4) {
    words[0] = gen_bitcast(b, all, bytes == 4 ? GEN_I32 : GEN_I16, 1);
    return 1;
  }
  all = gen_bitcast(b, all, GEN_I32, bytes / 4);
  for (int i = 0; i < bytes / 4; i++) words[i] = gen_lane(b, all, i);
  return bytes / 4;
}

static int unpack(const emitter *e, int k, const gen_value *words, gen_value *elements) {
  gen_builder *b = e->b;
  int n = e->p->load, bytes = n * e->p->bytes[k];
  if (n == 1) {
    elements[0] = words[0];
    return 1;
  }
  gen_value all = bytes <= 4 ? words[0] : gen_vector(b, words, bytes / 4);
  all = gen_bitcast(b, all, e->types[k], n);
  for (int i = 0; i < n; i++) elements[i] = gen_lane(b, all, i);
  return bytes <= 4 ? 1 : bytes / 4;
}

/* The thread's first place in the tile when it is read, and what the i-th has more. */
static void place_to_load(const emitter *e, gen_value *u, gen_value *v) {
  int chunks = e->p->tile_u / e->p->load;
  *u = gen_mul_imm(e->b, modulo(e->b, e->thread, chunks), e->p->load);
  *v = quotient(e->b, e->thread, chunks);
}

static offset load_offset(const emitter *e, int i) {
  int chunks = e->p->tile_u / e->p->load, at = i * e->p->threads;
  return (offset){.u = at % chunks * e->p->load, .v = at / chunks};
}

gen_value transpose_position(const emitter *e, gen_value tile, gen_value within) {
  return gen_unknown(e->b, gen_add(e->b, tile, transpose_index(e, within)));
}

/* Issues the tile's loads, which bring `words`, *n_words of them. */
static arke_status load_tile(emitter *e, gen_value *words, int *n_words, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value elements[32][LANES_MAX];
  gen_value u, v;
  int n = 0;
  place_to_load(e, &u, &v);
  u = transpose_position(e, e->u, u);
  v = transpose_position(e, e->v, v);
  for (int i = 0; i < p->loads; i++) {
    offset more = load_offset(e, i);
    lanes *l;
    TRY(lanes_create(b, p->form, &e->k->load_options, &e->k->load_slots, e->k->a, &l, err));
    transpose_set_loops(e, l, inside(e, gen_add_imm(b, u, more.u), lanes_extent(l, p->match.u), p->load),
                        inside(e, gen_add_imm(b, v, more.v), lanes_extent(l, p->match.v), 1));
    for (int k = 0; k < p->n_turned; k++, n++) {
      int lanes_n;
      TRY(lanes_elements(l, p->access[k], elements[n], &lanes_n, err));
      e->types[k] = gen_type_of(b, elements[n][0]);
    }
  }
  *n_words = 0;
  for (int i = 0; i < n; i++) *n_words += pack(e, i % p->n_turned, elements[i], words + *n_words);
  return ARKE_OK;
}

static void put_tile(emitter *e, const gen_value *words) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value elements[LANES_MAX], first_u, first_v;
  place_to_load(e, &first_u, &first_v);
  for (int i = 0; i < p->loads; i++) {
    offset more = load_offset(e, i);
    gen_value u = gen_add_imm(b, first_u, more.u), v = gen_add_imm(b, first_v, more.v);
    for (int k = 0; k < p->n_turned; k++) {
      gen_value twist, first = row(e, k, v, &twist);
      int pitch = p->tile_u * p->bytes[k], together = p->unit / p->bytes[k];
      words += unpack(e, k, words, elements);
      if (together > p->load) together = p->load;
      for (int j = 0; j < p->load; j += together) {
        gen_value value = together == 1 ? elements[j] : gen_vector(b, &elements[j], together);
        gen_store_shared(b, value, element(e, k, first, twist, gen_add_imm(b, u, j), pitch));
      }
    }
  }
}

/* --- and out of it --- */

arke_status transpose_read(void *user, int access, gen_value *elements, arke_error *err) {
  (void)err;
  const emitter *e = ((transpose_kernel *)user)->current;
  const transpose_plan *p = e->p;
  int k = 0;
  while (p->access[k] != access) k++;
  if (p->shifted) {
    elements[0] = gen_load_shared(e->b, e->types[k], 1, e->waits_at[k]);
    return ARKE_OK;
  }
  int pitch = p->tile_u * p->bytes[k];
  for (int i = 0; i < p->store; i++) {
    gen_value twist, first = row(e, k, gen_add_imm(e->b, e->at_v, i), &twist);
    elements[i] = gen_load_shared(e->b, e->types[k], 1, element(e, k, first, twist, e->at_u, pitch));
  }
  return ARKE_OK;
}

typedef struct position {
  gen_value u, v, active; /* NULL: always */
  lanes *l;
} position;

/* The thread's first place when the tile is stored: lanes_v threads along v, the rest of the warp along u;
 * and what the i-th has more. */
void transpose_place_to_store(const emitter *e, gen_value *u, gen_value *v) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  int lanes_u = 32 / p->lanes_v < p->tile_u ? 32 / p->lanes_v : p->tile_u;
  int groups_v = p->tile_v / p->store / p->lanes_v;
  gen_value rest = quotient(b, e->thread, p->lanes_v);
  gen_value low_u = modulo(b, rest, lanes_u), high = quotient(b, rest, lanes_u);
  gen_value group_v = modulo(b, high, groups_v), group_u = quotient(b, high, groups_v);
  *u = gen_add(b, gen_mul_imm(b, group_u, lanes_u), low_u);
  *v = gen_add(b, gen_mul_imm(b, group_v, p->lanes_v), modulo(b, e->thread, p->lanes_v));
  *v = gen_mul_imm(b, *v, p->store);
}

offset transpose_store_offset(const transpose_plan *p, int i) {
  int lanes_u = 32 / p->lanes_v < p->tile_u ? 32 / p->lanes_v : p->tile_u;
  int groups_v = p->tile_v / p->store / p->lanes_v, high = i * p->threads / p->lanes_v / lanes_u;
  return (offset){.u = high / groups_v * lanes_u, .v = high % groups_v * p->lanes_v * p->store};
}

static arke_status place(emitter *e, int i, position *at, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  offset more = transpose_store_offset(e->p, i);
  at->u = gen_add_imm(b, e->store_u, more.u);
  at->v = gen_add_imm(b, e->store_v, more.v);
  TRY(lanes_create(b, p->form, &e->k->store_options, &e->k->store_slots, e->k->a, &at->l, err));
  gen_value u = gen_add_imm(b, e->stored_u, more.u), v = gen_add_imm(b, e->stored_v, more.v);
  gen_value end_u = lanes_extent(at->l, p->match.u), end_v = lanes_extent(at->l, p->match.v);
  at->active =
      e->whole ? NULL : gen_and(b, gen_compare(b, GEN_ULT, u, end_u), gen_compare(b, GEN_ULT, v, end_v));
  transpose_set_loops(e, at->l, inside(e, u, end_u, 1), inside(e, v, end_v, p->store));
  return ARKE_OK;
}

static arke_status store_place(emitter *e, const position *at, arke_error *err) {
  const ir_form *form = e->p->form;
  gen_value values[LANES_MAX];
  int n;
  e->at_u = at->u;
  e->at_v = at->v;
  for (int o = 0; o < form->n_outputs; o++) {
    TRY(lanes_eval(at->l, form->outputs[o].value, values, &n, err));
    TRY(lanes_store(at->l, o, values, n, at->active, err));
  }
  return ARKE_OK;
}

/* Reads that are not turned are under way while the tile fills. */
enum { AHEAD = 8 };

static arke_status load_others(emitter *e, position *places, arke_error *err) {
  const ir_form *form = e->p->form;
  transpose_place_to_store(e, &e->store_u, &e->store_v);
  e->stored_u = transpose_position(e, e->u, e->store_u);
  e->stored_v = transpose_position(e, e->v, e->store_v);
  for (int i = 0; i < e->p->stores; i++) {
    TRY(place(e, i, &places[i], err));
    for (int o = 0; i < AHEAD && o < form->n_outputs; o++)
      TRY(lanes_load(places[i].l, form->outputs[o].value, err));
  }
  return ARKE_OK;
}

static arke_status emit_tile(emitter *e, arke_error *err) {
  gen_value words[TRANSPOSE_MAX_WORDS];
  position places[64];
  int n;
  TRY(load_tile(e, words, &n, err));
  put_tile(e, words);
  TRY(load_others(e, places, err));
  gen_cta_sync(e->b);
  for (int i = 0; i < e->p->stores; i++) TRY(store_place(e, &places[i], err));
  return ARKE_OK;
}

/* The number of a tile as its place: u and v, one of them fastest, then the other loops, the last fastest. */
static void find_tile(emitter *e, gen_value tile) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value tiles_u = gen_param(b, e->k->tiles_u), tiles_v = gen_param(b, e->k->tiles_v);
  gen_value fast = p->along_u ? tiles_u : tiles_v, slow = p->along_u ? tiles_v : tiles_u;
  gen_value first = gen_urem(b, tile, fast);
  tile = gen_udiv(b, tile, fast);
  gen_value second = p->n_outer ? gen_urem(b, tile, slow) : tile;
  if (p->n_outer) tile = gen_udiv(b, tile, slow);
  e->u = gen_mul_imm(b, transpose_index(e, p->along_u ? first : second), p->tile_u);
  e->v = gen_mul_imm(b, transpose_index(e, p->along_u ? second : first), p->tile_v);
  for (int i = p->n_outer - 1; i >= 0; i--) {
    gen_value extent = gen_param(b, e->k->outer[i]);
    e->outer[i] = transpose_index(e, i ? gen_urem(b, tile, extent) : tile);
    if (i) tile = gen_udiv(b, tile, extent);
  }
}

/* The same from the grid, where it has a dimension for u and one for v: without a division. Those past the
 * end have nothing. */
static void find_tile_in_grid(emitter *e) {
  gen_builder *b = e->b;
  gen_value fast = gen_ctaid_x(b);
  gen_value slow = gen_add(b, gen_ctaid_y(b), gen_mul_imm(b, gen_ctaid_z(b), TRANSPOSE_GRID_Y));
  e->u = gen_mul_imm(b, transpose_index(e, e->p->along_u ? fast : slow), e->p->tile_u);
  e->v = gen_mul_imm(b, transpose_index(e, e->p->along_u ? slow : fast), e->p->tile_v);
}

static arke_status emit_one_tile(emitter *e, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  lanes *l;
  gen_branch inner;
  if (p->n_outer > 0) {
    find_tile(e, gen_ctaid_x(b));
  } else {
    find_tile_in_grid(e);
  }
  if (p->shifted) return transpose_emit_shifted(e, err);
  if (!p->apart) return emit_tile(e, err);
  TRY(lanes_create(b, p->form, &e->k->load_options, &e->k->load_slots, e->k->a, &l, err));
  gen_value end_u = lanes_extent(l, p->match.u), end_v = lanes_extent(l, p->match.v);
  gen_value whole = gen_and(b, gen_compare(b, GEN_ULE, gen_add_imm(b, e->u, p->tile_u), end_u),
                            gen_compare(b, GEN_ULE, gen_add_imm(b, e->v, p->tile_v), end_v));
  gen_if(b, &inner, whole, NULL, 0);
  e->whole = true;
  TRY(emit_tile(e, err));
  e->whole = false;
  gen_else(b, &inner);
  TRY(emit_tile(e, err));
  gen_if_end(b, &inner);
  return ARKE_OK;
}

/* Tiles in turn. */
static arke_status emit_tiles(emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[] = {gen_ctaid_x(b)};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], gen_param(b, e->k->tiles)));
  find_tile(e, carried[0]);
  TRY(emit_tile(e, err));
  gen_cta_sync(b); /* the tile is read before the next one overwrites it */
  carried[0] = gen_add(b, carried[0], gen_nctaid_x(b));
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

/* The same, while a tile is stored with the next one on its way to registers. There are no more CTAs than
 * tiles. */
static arke_status emit_tiles_ahead(emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[1 + TRANSPOSE_MAX_WORDS];
  position places[64];
  int n;
  gen_loop loop;
  gen_branch more;
  carried[0] = gen_ctaid_x(b);
  find_tile(e, carried[0]);
  TRY(load_tile(e, &carried[1], &n, err));
  gen_loop_begin(b, &loop, carried, 1 + n);
  put_tile(e, &carried[1]);
  gen_cta_sync(b);
  gen_value tile = carried[0];
  carried[0] = gen_add(b, tile, gen_nctaid_x(b));
  gen_value exists = gen_compare(b, GEN_ULT, carried[0], gen_param(b, e->k->tiles));
  gen_if(b, &more, exists, &carried[1], n);
  find_tile(e, carried[0]);
  TRY(load_tile(e, &carried[1], &n, err));
  gen_if_end(b, &more);
  find_tile(e, tile);
  TRY(load_others(e, places, err));
  for (int i = 0; i < e->p->stores; i++) TRY(store_place(e, &places[i], err));
  gen_cta_sync(b);
  gen_loop_end_while(b, &loop, exists);
  return ARKE_OK;
}

arke_status transpose_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  transpose_kernel *k = user;
  emitter e = {.b = b, .k = k, .p = &k->plan, .whole = k->plan.even};
  k->current = &e;
  gen_launches_release(b);
  e.thread = gen_tid_x(b);
  e.smem = gen_shared_dynamic(b);
  gen_launches_wait(b);
  switch (k->plan.tiles) {
  case TRANSPOSE_EACH_TILE: return emit_one_tile(&e, err);
  case TRANSPOSE_TILES: return emit_tiles(&e, err);
  case TRANSPOSE_TILES_AHEAD: break;
  }
  return emit_tiles_ahead(&e, err);
}
