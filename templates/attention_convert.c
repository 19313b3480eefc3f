/* Values of 8 bits: tensor copies bring them as they are, to a ring of their own, and the producer's other
 * three warps convert them to the rows of f16 that the second product reads, in the ring of V. They know
 * nothing of tiles: the producer says with each stage that it is one of values, or that there are no more.
 *
 * A warp has eight rows at a time, and of each 64 columns, which fill a panel of f16. Eight neighbouring
 * lanes have four chunks of 16 bytes of a row, and of the row whose number differs in bits 0 and 2: by the
 * swizzle of 128 bytes their loads hit different banks (bit 2), and so do their stores, of two chunks for one
 * (bit 0). */
#include "generator/gen_barrier.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attention_emit.h"

enum { WARPS = 3, BLOCK_ROWS = 8, BLOCK_BYTES = BLOCK_ROWS * ATTENTION_PANEL_BYTES, CHUNK = 16 };
enum { AT_ONCE = 4, WORDS = 4 }; /* vectors of a thread that are loaded before they are converted; of each */

void attention_convert_create(attention_emitter *e) {
  const attention_plan *p = e->p;
  gen_pipeline_create(e->b, &e->of_copied_v, "copied_v", p->v_stages, WARPS, p->cluster);
  gen_pipeline_create(e->b, &e->of_v, "v", p->stages, p->consumers, 1);
  e->of_v.fills = WARPS;
  e->more = gen_shared_static(e->b, "more", p->v_stages * 4, 16);
}

/* --- by the producer's thread --- */

static void tell(attention_emitter *e, gen_stage at, int more) {
  gen_builder *b = e->b;
  gen_pipeline_wait_free(b, &e->of_copied_v, at);
  gen_store_shared(b, gen_i32(b, more), gen_add(b, e->more, gen_mul_imm(b, at.index, 4)));
}

gen_value attention_acquire_values(attention_emitter *e, gen_stage at) {
  tell(e, at, 1);
  return gen_pipeline_expect(e->b, &e->of_copied_v, at, e->p->copied_v.bytes);
}

void attention_end_values(attention_emitter *e, gen_stage at) {
  tell(e, at, 0);
  gen_pipeline_expect(e->b, &e->of_copied_v, at, 0);
}

/* --- by the others --- */

typedef struct converter {
  attention_emitter *e;
  gen_value warp, lane; /* warp: of the three */
  /* Of the lane's chunks: in the first block of copied rows, of even panels and of odd ones; and in that of
   * converted rows, the first and the second. */
  gen_value from[2], to[2];
} converter;

static converter set_up(attention_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  converter c = {
      .e = e, .warp = gen_lshr(b, thread, gen_i32(b, 5)), .lane = gen_and(b, thread, gen_i32(b, 31))};
  gen_value chunk = gen_and(b, c.lane, gen_i32(b, 3)), row = gen_lshr(b, c.lane, gen_i32(b, 3));
  gen_value other = gen_compare_imm(b, GEN_NE, gen_and(b, c.lane, gen_i32(b, 4)), 0);
  row = gen_xor(b, row, gen_select(b, other, gen_i32(b, 5), gen_i32(b, 0)));
  gen_value first = gen_mul_imm(b, row, ATTENTION_PANEL_BYTES), pair = gen_mul_imm(b, chunk, 2);
  c.from[0] = gen_add(b, first, gen_mul_imm(b, gen_xor(b, chunk, row), CHUNK));
  c.from[1] = gen_xor(b, c.from[0], gen_i32(b, 4 * CHUNK));
  c.to[0] = gen_add(b, first, gen_mul_imm(b, gen_xor(b, pair, row), CHUNK));
  c.to[1] = gen_xor(b, c.to[0], gen_i32(b, CHUNK));
  return c;
}

static dtype stored_type(const attention_emitter *e) {
  return ir_tensor_dtype(e->m->form.problem, e->m->form.accesses[e->m->v.access].tensor);
}

/* 16 elements: two chunks of f16, which are neighbours but for the swizzle. */
static void store_vector(converter *c, gen_value loaded, const gen_value *to, int64_t offset) {
  gen_builder *b = c->e->b;
  gen_value words[2 * WORDS];
  for (int i = 0; i < WORDS; i++)
    gen_fp8_to_halves(b, stored_type(c->e), gen_lane(b, loaded, i), &words[2 * i]);
  for (int half = 0; half < 2; half++)
    gen_store_shared(b, gen_vector(b, &words[half * WORDS], WORDS), gen_add_imm(b, to[half], offset));
}

/* The warp's blocks of rows of a stage: every third one, all columns, a few vectors at a time. */
static void convert_stage(converter *c, gen_value copied, gen_value converted) {
  gen_builder *b = c->e->b;
  const attention_plan *p = c->e->p;
  int blocks = p->block_n / BLOCK_ROWS, panels = p->v.panels, vectors = (blocks + WARPS - 1) / WARPS * panels;
  gen_value first = gen_mul_imm(b, c->warp, BLOCK_BYTES), from[2], to[2];
  for (int i = 0; i < 2; i++) {
    from[i] = gen_add(b, gen_add(b, copied, first), c->from[i]);
    to[i] = gen_add(b, gen_add(b, converted, first), c->to[i]);
  }
  for (int i = 0; i < vectors; i += AT_ONCE) {
    gen_value loaded[AT_ONCE];
    gen_branch exists;
    int n = vectors - i < AT_ONCE ? vectors - i : AT_ONCE;
    for (int pass = 0; pass < 2; pass++) {
      for (int k = 0; k < n; k++) {
        int block = (i + k) / panels * WARPS, panel = (i + k) % panels;
        bool all = block + WARPS <= blocks;
        if (pass == 0) {
          /* A block behind the last one is loaded from it, and not stored. */
          gen_value at = gen_add_imm(b, from[panel % 2], (int64_t)panel / 2 * p->copied_v.panel_bytes);
          gen_value step = gen_i32(b, (int64_t)block * BLOCK_BYTES);
          if (!all) {
            gen_value last = gen_i32(b, (int64_t)(block - WARPS) * BLOCK_BYTES);
            step = gen_select(b, gen_compare_imm(b, GEN_SLT, c->warp, blocks - block), step, last);
          }
          loaded[k] = gen_load_shared(b, GEN_I32, WORDS, gen_add(b, at, step));
          continue;
        }
        if (!all) gen_if(b, &exists, gen_compare_imm(b, GEN_SLT, c->warp, blocks - block), NULL, 0);
        int64_t offset = (int64_t)panel * p->v.panel_bytes + (int64_t)block * BLOCK_BYTES;
        store_vector(c, loaded[k], to, offset);
        if (!all) gen_if_end(b, &exists);
      }
    }
  }
}

void attention_emit_converter(attention_emitter *e, gen_value thread) {
  enum { V_INDEX, V_PARITY, COPIED_INDEX, COPIED_PARITY, CARRIED };
  gen_builder *b = e->b;
  const attention_plan *p = e->p;
  converter c = set_up(e, thread);
  gen_stage filling = gen_pipeline_producer_start(b), reading = gen_pipeline_consumer_start(b);
  gen_value in[] = {filling.index, filling.parity, reading.index, reading.parity};
  gen_loop stages;
  gen_loop_begin(b, &stages, in, CARRIED);
  gen_stage v = {in[V_INDEX], in[V_PARITY]}, copied = {in[COPIED_INDEX], in[COPIED_PARITY]};
  gen_pipeline_wait(b, &e->of_copied_v, copied);
  gen_value more = gen_load_shared(b, GEN_I32, 1, gen_add(b, e->more, gen_mul_imm(b, copied.index, 4)));
  gen_loop_while(b, &stages, gen_compare_imm(b, GEN_NE, more, 0));
  gen_pipeline_wait_free(b, &e->of_v, v);
  convert_stage(&c, gen_add(b, e->smem_copied_v, gen_mul_imm(b, copied.index, p->copied_v.bytes)),
                gen_add(b, e->smem_v, gen_mul_imm(b, v.index, p->v.bytes)));
  gen_fence_async_shared(b); /* products read what was written as copies do */
  gen_warp_sync(b);
  gen_pipeline_release(b, &e->of_copied_v, copied.index, c.lane, NULL);
  gen_pipeline_fill(b, &e->of_v, v.index, gen_compare_imm(b, GEN_EQ, c.lane, 0));
  v = gen_pipeline_advance(b, &e->of_v, v);
  copied = gen_pipeline_advance(b, &e->of_copied_v, copied);
  in[V_INDEX] = v.index;
  in[V_PARITY] = v.parity;
  in[COPIED_INDEX] = copied.index;
  in[COPIED_PARITY] = copied.parity;
  gen_loop_end(b, &stages);
}
