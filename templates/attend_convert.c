/* Keys and values of 8 bits: copies bring them as they are, and the threads that copied them convert them to
 * what is multiplied, in shared memory. */
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "templates/attend.h"

gen_value attend_tile_address(const attend_emitter *e, int tile, gen_value stage) {
  const attend_tile *t = &e->p->tiles[tile];
  if (e->p->copied && t->narrow) return gen_add_imm(e->b, e->converted, t->converted_offset_bytes);
  return gen_add_imm(e->b, stage, t->offset_bytes);
}

static void convert_vector(attend_emitter *e, const attend_tile *t, gen_value from, gen_value to) {
  gen_builder *b = e->b;
  dtype stored = ir_tensor_dtype(e->m->form.problem, e->m->form.accesses[t->access].tensor);
  gen_value words[LANES_MAX], values[LANES_MAX];
  int n = t->width / 4;
  gen_value loaded = gen_load_shared(b, GEN_I32, n, from);
  for (int i = 0; i < n; i++) words[i] = n == 1 ? loaded : gen_lane(b, loaded, i);
  gen_unpack(b, stored, words, t->width, values);
  for (int i = 0; i < t->width; i++)
    if (!gen_is_float(b, values[i])) values[i] = gen_int_to_float(b, values[i], GEN_F32, true);
  gen_pack(b, e->m->type, values, t->width, words);
  n = t->width / 2;
  for (int i = 0; i < n; i += 4) {
    int each = n - i < 4 ? n - i : 4;
    gen_store_shared(b, gen_vector(b, &words[i], each), gen_add_imm(b, to, 4 * (int64_t)i));
  }
}

static void convert_tile(attend_emitter *e, int tile, gen_value stage) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  int threads = e->p->set_threads, all = t->rows * t->vectors;
  gen_value from = gen_add_imm(b, stage, t->offset_bytes), to = attend_tile_address(e, tile, stage);
  for (int first = 0; first < all; first += threads) {
    gen_branch branch;
    attend_place v = attend_place_of(b, t, gen_add_imm(b, e->set_thread, first), first + threads <= all);
    gen_value row = gen_mul_imm(b, v.row, t->pitch_bytes), column = gen_mul_imm(b, v.vector, 2 * t->width);
    if (v.exists) gen_if(b, &branch, v.exists, NULL, 0);
    convert_vector(e, t, attend_copy_address(b, t, from, &v), gen_add(b, to, gen_add(b, row, column)));
    if (v.exists) gen_if_end(b, &branch);
  }
}

void attend_convert_step(attend_emitter *e, gen_value stage) {
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++)
    if (e->p->tiles[tile].present && e->p->tiles[tile].narrow) convert_tile(e, tile, stage);
}
