/* Tiles of tensors whose rows begin anywhere (pitches of an odd number of small elements): what moves between
 * memory and registers are aligned words of 4 to 16 bytes nevertheless.
 *
 * Into shared memory go the words that a row of the tile touches, as they are; where its first element lies
 * in the first of them follows from its address, and elements are picked from there. The tile's part of an
 * output row begins at the first word that begins in it, so later than the tile by less than a word, and ends
 * where the next tile's part begins: such a tile has a few rows of elements more. What of an output row lies
 * before its first whole word or behind its last is stored by elements, by the tiles that have those.
 *
 * A word may hold elements of neighbouring rows and tiles, which are there to be read. Words that reach past
 * the end of their tensor are read by elements. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "templates/lanes_pointer.h"
#include "templates/transpose_emit.h"

typedef transpose_emitter emitter;

enum { MAX_WIDTH = 16, MAX_LOADS = 32 };

static int word_bytes(const transpose_plan *p) {
  return p->load * p->bytes[0];
}

static arke_status evaluator(const emitter *e, bool store, gen_value u, gen_value v, lanes **l,
                             arke_error *err) {
  transpose_kernel *k = e->k;
  TRY(lanes_create(e->b, e->p->form, store ? &k->store_options : &k->load_options,
                   store ? &k->store_slots : &k->load_slots, k->a, l, err));
  transpose_set_loops(e, *l, u, v);
  return ARKE_OK;
}

static arke_status address_of(const emitter *e, int access, gen_value u, gen_value v, gen_value *address,
                              arke_error *err) {
  lanes *l;
  TRY(evaluator(e, access == e->p->form->outputs[0].access, u, v, &l, err));
  return lanes_pointer(l, access, address, err);
}

static arke_status extents(const emitter *e, gen_value *u, gen_value *v, arke_error *err) {
  lanes *l;
  TRY(evaluator(e, false, e->u, e->v, &l, err));
  *u = lanes_extent(l, e->p->match.u);
  *v = lanes_extent(l, e->p->match.v);
  return ARKE_OK;
}

/* Bytes of a word before what lies at an address, of which the low half is enough. */
static gen_value in_word(const emitter *e, gen_value address) {
  return gen_and(e->b, address, gen_i32(e->b, word_bytes(e->p) - 1));
}

/* --- into shared memory --- */

/* Where row v of the tile begins in shared memory: of its first word. */
static gen_value row_of(const emitter *e, int k, gen_value v) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  int bytes = word_bytes(p);
  gen_value free = gen_lshr(b, v, gen_i32(b, __builtin_ctz((unsigned)p->store)));
  gen_value at = gen_add(b, gen_mul_imm(b, v, p->row_words * bytes), gen_mul_imm(b, free, bytes));
  return gen_add_imm(b, gen_add(b, e->smem, at), p->offset[k]);
}

/* A word that a thread loads. */
typedef struct word {
  gen_value inside; /* I1: it lies in the tensor, and elements of the tile in it */
  gen_value cut;    /* I1: those do, but not all of it */
  gen_value exists; /* I1: the tile has such a word; NULL: it has */
  gen_value from, to;
} word;

/* Behind the last element of an access's tensor. */
static gen_value end_of(const emitter *e, int k) {
  gen_builder *b = e->b;
  int tensor = e->p->form->accesses[e->p->access[k]].tensor;
  return gen_add(b, gen_param(b, e->k->load_slots.pointer[tensor]),
                 gen_mul_imm(b, gen_param(b, e->k->span[k]), e->p->bytes[k]));
}

static arke_status find_word(const emitter *e, int k, int i, word *w, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  int bytes = word_bytes(p);
  gen_value index = gen_add_imm(b, e->thread, i * p->threads), words = gen_i32(b, p->row_words);
  gen_value row = gen_udiv(b, index, words), number = gen_mul_imm(b, gen_urem(b, index, words), bytes);
  gen_value v = gen_add(b, e->v, transpose_index(e, row)), end_u, end_v, first;
  *w = (word){0};
  if ((i + 1) * p->threads > p->rows * p->row_words)
    w->exists = gen_compare_imm(b, GEN_ULT, index, p->rows * p->row_words);
  TRY(extents(e, &end_u, &end_v, err));
  TRY(address_of(e, p->access[k], e->u, gen_umin(b, v, gen_add_imm(b, end_v, -1)), &first, err));
  gen_value whole = gen_and(b, first, gen_i64(b, -bytes));
  w->from = gen_add(b, whole, gen_zext(b, number, GEN_I64));
  w->to = gen_add(b, row_of(e, k, row), number);
  gen_value length = gen_umin(b, gen_sub(b, end_u, e->u), transpose_index(e, gen_i32(b, p->tile_u)));
  if (p->wide_offsets) length = gen_trunc(b, length, GEN_I32);
  gen_value end = gen_add(b, in_word(e, gen_trunc(b, first, GEN_I32)), gen_mul_imm(b, length, p->bytes[k]));
  gen_value needed = gen_and(b, gen_compare(b, GEN_ULT, number, end), gen_compare(b, GEN_ULT, v, end_v));
  if (w->exists) needed = gen_and(b, needed, w->exists);
  gen_value fits = gen_compare(b, GEN_ULE, gen_add_imm(b, w->from, bytes), end_of(e, k));
  w->inside = gen_and(b, needed, fits);
  w->cut = gen_and(b, needed, gen_xor(b, fits, gen_bool(b, true)));
  return ARKE_OK;
}

/* At most one word of a tile is cut. */
static void copy_cut_word(const emitter *e, int k, const word *words) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value cut = words[0].cut, from = words[0].from, to = words[0].to;
  for (int i = 1; i < p->loads; i++) {
    cut = gen_or(b, cut, words[i].cut);
    from = gen_select(b, words[i].cut, words[i].from, from);
    to = gen_select(b, words[i].cut, words[i].to, to);
  }
  gen_value end = end_of(e, k);
  gen_branch some, one;
  gen_if(b, &some, cut, NULL, 0);
  for (int i = 0; i < p->load; i++) {
    gen_value at = gen_add_imm(b, from, i * p->bytes[k]);
    gen_if(b, &one, gen_compare(b, GEN_ULT, at, end), NULL, 0);
    gen_value element = gen_load_global(b, e->types[k], 1, at, true);
    gen_store_shared(b, element, gen_add_imm(b, to, i * p->bytes[k]));
    gen_if_end(b, &one);
  }
  gen_if_end(b, &some);
}

/* What is not loaded is 0 in shared memory, so that all of a tile can be picked from. */
static arke_status load_words(const emitter *e, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  word words[LIMIT_TENSORS * 2][MAX_LOADS];
  gen_value values[TRANSPOSE_MAX_WORDS];
  int n = word_bytes(p) / 4, at = 0;
  gen_branch branch;
  for (int k = 0; k < p->n_turned; k++) {
    for (int i = 0; i < p->loads; i++, at += n) {
      word *w = &words[k][i];
      TRY(find_word(e, k, i, w, err));
      for (int j = 0; j < n; j++) values[at + j] = gen_i32(b, 0);
      gen_if(b, &branch, w->inside, values + at, n);
      gen_value all = gen_load_global(b, GEN_I32, n, w->from, true);
      for (int j = 0; j < n; j++) values[at + j] = n == 1 ? all : gen_lane(b, all, j);
      gen_if_end(b, &branch);
    }
  }
  at = 0;
  for (int k = 0; k < p->n_turned; k++) {
    for (int i = 0; i < p->loads; i++, at += n) {
      const word *w = &words[k][i];
      if (w->exists) gen_if(b, &branch, w->exists, NULL, 0);
      gen_store_shared(b, n == 1 ? values[at] : gen_vector(b, values + at, n), w->to);
      if (w->exists) gen_if_end(b, &branch);
    }
    copy_cut_word(e, k, words[k]);
  }
  return ARKE_OK;
}

/* --- and out of it --- */

/* Elements of an output row from v of the tile on that lie before the first word that begins there: an I32.
 */
static arke_status elements_before(const emitter *e, gen_value u, gen_value *n, arke_error *err) {
  gen_builder *b = e->b;
  gen_value address;
  TRY(address_of(e, e->p->form->outputs[0].access, u, e->v, &address, err));
  gen_value bytes = in_word(e, gen_sub(b, gen_i32(b, 0), gen_trunc(b, address, GEN_I32)));
  *n = gen_lshr(b, bytes, gen_i32(b, __builtin_ctz((unsigned)e->p->bytes[0])));
  return ARKE_OK;
}

/* Where the elements of `width` rows from v of the tile on wait at the tile's first u; `v` is an I32, and
 * `in_tensor` the same in the tensor. */
static arke_status find_rows(const emitter *e, int k, gen_value v, gen_value in_tensor, int width,
                             gen_value *at, arke_error *err) {
  gen_builder *b = e->b;
  gen_value first, second;
  TRY(address_of(e, e->p->access[k], e->u, in_tensor, &first, err));
  TRY(address_of(e, e->p->access[k], e->u, gen_add_imm(b, in_tensor, 1), &second, err));
  first = gen_trunc(b, first, GEN_I32);
  gen_value pitch = gen_sub(b, gen_trunc(b, second, GEN_I32), first);
  for (int i = 0; i < width; i++, first = gen_add(b, first, pitch))
    at[i] = gen_add(b, row_of(e, k, gen_add_imm(b, v, i)), in_word(e, first));
  return ARKE_OK;
}

static arke_status evaluate(emitter *e, lanes *l, gen_value *element, arke_error *err) {
  const ir_form_output *out = &e->p->form->outputs[0];
  gen_value value;
  int n;
  TRY(lanes_eval(l, out->value, &value, &n, err));
  return gen_convert(e->b, value,
                     ir_tensor_dtype(e->p->form->problem, e->p->form->accesses[out->access].tensor), element,
                     err);
}

/* One word of the output: the thread's first, and `more` from there, where it is a whole one. */
static arke_status store_word(emitter *e, gen_value rows[][MAX_WIDTH], gen_value u, gen_value v,
                              transpose_offset more, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value elements[MAX_WIDTH], address;
  int bytes = word_bytes(p), steps = (more.v * p->row_words + more.v / p->store) * bytes;
  gen_value end_u, end_v;
  gen_branch branch;
  TRY(extents(e, &end_u, &end_v, err));
  u = gen_add_imm(b, u, more.u);
  v = gen_add_imm(b, v, more.v);
  gen_value exists = gen_compare(b, GEN_ULT, u, end_u);
  exists = gen_and(b, exists, gen_compare(b, GEN_ULE, gen_add_imm(b, v, p->store), end_v));
  gen_value in_u = gen_umin(b, u, gen_add_imm(b, end_u, -1)), last = gen_add_imm(b, end_v, -1);
  for (int i = 0; i < p->store; i++) {
    lanes *l;
    for (int k = 0; k < p->n_turned; k++)
      e->waits_at[k] = gen_add_imm(b, rows[k][i], steps + more.u * p->bytes[k]);
    TRY(evaluator(e, true, in_u, gen_umin(b, gen_add_imm(b, v, i), last), &l, err));
    TRY(evaluate(e, l, &elements[i], err));
  }
  gen_if(b, &branch, exists, NULL, 0);
  TRY(address_of(e, p->form->outputs[0].access, u, v, &address, err));
  gen_value all = gen_vector(b, elements, p->store);
  gen_store_global(b, gen_bitcast(b, all, GEN_I32, bytes / 4), address);
  gen_if_end(b, &branch);
  return ARKE_OK;
}

static arke_status store_words(emitter *e, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_value within_u, within_v, end_u, end_v, later, rows[LIMIT_TENSORS * 2][MAX_WIDTH];
  transpose_place_to_store(e, &within_u, &within_v);
  TRY(extents(e, &end_u, &end_v, err));
  gen_value u = transpose_position(e, e->u, within_u);
  TRY(elements_before(e, gen_umin(b, u, gen_add_imm(b, end_u, -1)), &later, err));
  within_v = gen_add(b, within_v, later);
  gen_value v = transpose_position(e, e->v, within_v);
  for (int k = 0; k < p->n_turned; k++) {
    TRY(find_rows(e, k, within_v, v, p->store, rows[k], err));
    for (int i = 0; i < p->store; i++)
      rows[k][i] = gen_unknown(b, gen_add(b, rows[k][i], gen_mul_imm(b, within_u, p->bytes[k])));
  }
  for (int i = 0; i < p->stores; i++) TRY(store_word(e, rows, u, v, transpose_store_offset(p, i), err));
  return ARKE_OK;
}

/* --- the ends of output rows --- */

/* Element (u, v) of the tile, where `active` holds. */
static arke_status store_element(emitter *e, gen_value u, gen_value v, gen_value active, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_branch branch;
  lanes *l;
  gen_value value;
  int n;
  gen_if(b, &branch, active, NULL, 0);
  gen_value in_tensor = gen_add(b, e->v, transpose_index(e, v));
  for (int k = 0; k < p->n_turned; k++) {
    gen_value row;
    TRY(find_rows(e, k, v, in_tensor, 1, &row, err));
    e->waits_at[k] = gen_add(b, row, gen_mul_imm(b, u, p->bytes[k]));
  }
  TRY(evaluator(e, true, gen_add(b, e->u, transpose_index(e, u)), in_tensor, &l, err));
  TRY(lanes_eval(l, p->form->outputs[0].value, &value, &n, err));
  TRY(lanes_store(l, 0, &value, n, NULL, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}

/* What of an output row lies before its first whole word, where the tile is the first of the row, and what
 * behind its last, where the tile has that. */
static arke_status store_ends(emitter *e, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  int width = p->store;
  gen_value end_u, end_v, later, carried[] = {e->thread};
  gen_loop loop;
  TRY(extents(e, &end_u, &end_v, err));
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], p->tile_u * width));
  gen_value within_u = gen_lshr(b, carried[0], gen_i32(b, __builtin_ctz((unsigned)width)));
  gen_value number = gen_and(b, carried[0], gen_i32(b, width - 1));
  gen_value u = gen_add(b, e->u, transpose_index(e, within_u));
  gen_value exists = gen_compare(b, GEN_ULT, u, end_u);
  TRY(elements_before(e, gen_umin(b, u, gen_add_imm(b, end_u, -1)), &later, err));

  gen_value zero = transpose_index(e, gen_i32(b, 0));
  gen_value head = gen_and(b, gen_compare(b, GEN_ULT, number, later),
                           gen_compare(b, GEN_ULT, transpose_index(e, number), end_v));
  head = gen_and(b, gen_and(b, exists, head), gen_compare(b, GEN_EQ, e->v, zero));
  TRY(store_element(e, within_u, number, head, err));

  gen_value first = gen_add(b, e->v, transpose_index(e, later)); /* of the row's words in this tile */
  gen_value left = gen_sub(b, end_v, first);                     /* behind that */
  gen_value rest = gen_and(b, left, transpose_index(e, gen_i32(b, width - 1)));
  gen_value last = gen_sub(b, left, rest);
  gen_value tail = gen_and(b, gen_compare(b, GEN_ULT, transpose_index(e, number), rest),
                           gen_compare(b, GEN_ULT, last, transpose_index(e, gen_i32(b, p->tile_v))));
  tail = gen_and(b, gen_and(b, exists, tail), gen_compare(b, GEN_ULE, first, end_v));
  gen_value to_last = p->wide_offsets ? gen_trunc(b, last, GEN_I32) : last;
  TRY(store_element(e, within_u, gen_add(b, gen_add(b, later, to_last), number), tail, err));
  carried[0] = gen_add_imm(b, carried[0], p->threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

arke_status transpose_emit_shifted(emitter *e, arke_error *err) {
  const transpose_plan *p = e->p;
  gen_builder *b = e->b;
  gen_branch branch;
  gen_value end_u, end_v;
  for (int k = 0; k < p->n_turned; k++)
    e->types[k] = gen_storage_type(ir_tensor_dtype(p->form->problem, p->form->accesses[p->access[k]].tensor));
  TRY(load_words(e, err));
  gen_cta_sync(b);
  TRY(store_words(e, err));
  TRY(extents(e, &end_u, &end_v, err));
  gen_value starts = gen_compare(b, GEN_EQ, e->v, transpose_index(e, gen_i32(b, 0)));
  gen_value ends = gen_compare(b, GEN_ULT, end_v, gen_add_imm(b, e->v, p->tile_v + 2 * p->store));
  gen_if(b, &branch, gen_or(b, starts, ends), NULL, 0);
  TRY(store_ends(e, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}
