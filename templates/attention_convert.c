/* Values of 8 bits, and keys where queries have 16: tensor copies bring them as they are, to rings of their
 * own, and the producer's other three warps convert them to the rows of 16 bits that products read, in the
 * rings of K and V. They know nothing of tiles: the producer says with each step that there is one, or no
 * more.
 *
 * A warp has eight rows at a time, and of each 64 columns, which fill a panel of 16 bits. Eight neighbouring
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

/* What is converted, in the order of its copies. */
typedef struct operand {
  dtype stored, type;
  const attention_copied *copied;
  gen_pipeline *from_ring, *to_ring;
  gen_value from, to; /* of the first stages */
  const attention_tile *tile;
  int stage_bytes; /* of converted ones */
} operand;

enum { OPERANDS = 2 };

static dtype type_of(const attention_emitter *e, int access) {
  return ir_tensor_dtype(e->m->form.problem, e->m->form.accesses[access].tensor);
}

static int operands_of(attention_emitter *e, operand *list) {
  const attention_plan *p = e->p;
  const attention_part *part = p->parts[0];
  int n = 0;
  if (p->copied_k.stages)
    list[n++] = (operand){.stored = type_of(e, part->k.access),
                          .type = type_of(e, part->q),
                          .copied = &p->copied_k,
                          .from_ring = &e->of_copied_k,
                          .to_ring = &e->of_k,
                          .from = e->smem_copied_k,
                          .to = e->smem_k,
                          .tile = &p->k,
                          .stage_bytes = p->k_stage_bytes};
  if (p->copied_v.stages)
    list[n++] = (operand){.stored = type_of(e, e->m->v.access),
                          .type = e->m->type,
                          .copied = &p->copied_v,
                          .from_ring = &e->of_copied_v,
                          .to_ring = &e->of_v,
                          .from = e->smem_copied_v,
                          .to = e->smem_v,
                          .tile = &p->v,
                          .stage_bytes = p->v.bytes};
  return n;
}

void attention_convert_create(attention_emitter *e) {
  const attention_plan *p = e->p;
  gen_builder *b = e->b;
  int stages = p->copied_k.stages ? p->copied_k.stages : p->copied_v.stages;
  if (stages == 0) return;
  gen_value behind = gen_add_imm(b, e->smem_k, (int64_t)p->stages * attention_step_bytes(p));
  e->more = gen_shared_static(b, "more", stages * 4, 16);
  if (p->copied_k.stages) {
    gen_pipeline_create(b, &e->of_copied_k, "copied_k", stages, WARPS, p->cluster);
    e->of_k.fills = WARPS;
    e->smem_copied_k = behind;
    behind = gen_add_imm(b, behind, (int64_t)stages * p->copied_k.tile.bytes);
  }
  if (p->copied_v.stages) {
    gen_pipeline_create(b, &e->of_copied_v, "copied_v", stages, WARPS, p->cluster);
    e->of_v.fills = WARPS;
    e->smem_copied_v = behind;
  }
}

void attention_convert_init(attention_emitter *e) {
  operand list[OPERANDS];
  int n = operands_of(e, list);
  for (int i = 0; i < n; i++) gen_pipeline_init(e->b, list[i].from_ring);
}

/* --- by the producer's thread --- */

static void tell(attention_emitter *e, const gen_pipeline *of, gen_stage at, int more) {
  gen_builder *b = e->b;
  gen_pipeline_wait_free(b, of, at);
  gen_store_shared(b, gen_i32(b, more), gen_add(b, e->more, gen_mul_imm(b, at.index, 4)));
}

gen_value attention_acquire_copied(attention_emitter *e, const gen_pipeline *of, gen_stage at, int bytes) {
  operand list[OPERANDS];
  if (operands_of(e, list) == 0 || of != list[0].from_ring) return gen_pipeline_acquire(e->b, of, at, bytes);
  tell(e, of, at, 1);
  return gen_pipeline_expect(e->b, of, at, bytes);
}

void attention_end_copied(attention_emitter *e, gen_stage k, gen_stage v) {
  operand list[OPERANDS];
  if (operands_of(e, list) == 0) return;
  gen_stage at = e->p->copied_k.stages ? k : v;
  tell(e, list[0].from_ring, at, 0);
  gen_pipeline_expect(e->b, list[0].from_ring, at, 0);
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

/* 16 elements: two chunks of 16 bits each, which are neighbours but for the swizzle. */
static void store_vector(converter *c, const operand *o, gen_value loaded, const gen_value *to,
                         int64_t offset) {
  gen_builder *b = c->e->b;
  gen_value words[2 * WORDS];
  for (int i = 0; i < WORDS; i++)
    gen_fp8_to_halves(b, o->stored, gen_lane(b, loaded, i), o->type, &words[2 * i]);
  for (int half = 0; half < 2; half++)
    gen_store_shared(b, gen_vector(b, &words[half * WORDS], WORDS), gen_add_imm(b, to[half], offset));
}

/* A vector of the warp: it has every third block of rows, and of each all panels. Of those behind the last
 * block the one before is loaded, and nothing stored: a step has more blocks than there are warps. */
typedef struct vector {
  int block, panel;
  gen_value exists; /* i1; NULL: in all warps */
} vector;

static vector vector_at(converter *c, const operand *o, int number) {
  int blocks = o->tile->rows / BLOCK_ROWS;
  vector v = {.block = number / o->tile->panels * WARPS, .panel = number % o->tile->panels};
  if (v.block + WARPS > blocks) v.exists = gen_compare_imm(c->e->b, GEN_SLT, c->warp, blocks - v.block);
  return v;
}

static gen_value load_vector(converter *c, const operand *o, const vector *v, const gen_value *from) {
  gen_builder *b = c->e->b;
  int64_t panel = (int64_t)(v->panel / 2) * o->copied->tile.panel_bytes,
          here = (int64_t)v->block * BLOCK_BYTES;
  gen_value at = gen_add_imm(b, from[v->panel % 2], panel), offset = gen_i32(b, here);
  if (v->exists) offset = gen_select(b, v->exists, offset, gen_i32(b, here - (int64_t)WARPS * BLOCK_BYTES));
  return gen_load_shared(b, GEN_I32, WORDS, gen_add(b, at, offset));
}

/* The warp's part of a stage, a few vectors at a time. */
static void convert_stage(converter *c, const operand *o, gen_value copied, gen_value converted) {
  gen_builder *b = c->e->b;
  int blocks = o->tile->rows / BLOCK_ROWS, vectors = (blocks + WARPS - 1) / WARPS * o->tile->panels;
  gen_value first = gen_mul_imm(b, c->warp, BLOCK_BYTES), from[2], to[2], loaded[AT_ONCE];
  gen_branch exists;
  vector list[AT_ONCE];
  for (int i = 0; i < 2; i++) {
    from[i] = gen_add(b, gen_add(b, copied, first), c->from[i]);
    to[i] = gen_add(b, gen_add(b, converted, first), c->to[i]);
  }
  for (int i = 0; i < vectors; i += AT_ONCE) {
    int n = vectors - i < AT_ONCE ? vectors - i : AT_ONCE;
    for (int k = 0; k < n; k++) {
      list[k] = vector_at(c, o, i + k);
      loaded[k] = load_vector(c, o, &list[k], from);
    }
    for (int k = 0; k < n; k++) {
      const vector *v = &list[k];
      if (v->exists) gen_if(b, &exists, v->exists, NULL, 0);
      store_vector(c, o, loaded[k], to,
                   (int64_t)v->panel * o->tile->panel_bytes + (int64_t)v->block * BLOCK_BYTES);
      if (v->exists) gen_if_end(b, &exists);
    }
  }
}

/* Where the warps stand in the rings of an operand. */
typedef struct standing {
  gen_stage from, to;
} standing;

enum { FROM_INDEX, FROM_PARITY, TO_INDEX, TO_PARITY, CARRIED };

static standing standing_of(const gen_value *v) {
  return (standing){.from = {v[FROM_INDEX], v[FROM_PARITY]}, .to = {v[TO_INDEX], v[TO_PARITY]}};
}

static void convert_operand(converter *c, const operand *o, standing at, gen_value *next) {
  gen_builder *b = c->e->b;
  gen_pipeline_wait_free(b, o->to_ring, at.to);
  convert_stage(c, o, gen_add(b, o->from, gen_mul_imm(b, at.from.index, o->copied->tile.bytes)),
                gen_add(b, o->to, gen_mul_imm(b, at.to.index, o->stage_bytes)));
  gen_fence_async_shared(b); /* products read what was written as copies do */
  gen_warp_sync(b);
  gen_pipeline_release(b, o->from_ring, at.from.index, c->lane, NULL);
  gen_pipeline_fill(b, o->to_ring, at.to.index, gen_compare_imm(b, GEN_EQ, c->lane, 0));
  gen_stage from = gen_pipeline_advance(b, o->from_ring, at.from),
            to = gen_pipeline_advance(b, o->to_ring, at.to);
  next[FROM_INDEX] = from.index;
  next[FROM_PARITY] = from.parity;
  next[TO_INDEX] = to.index;
  next[TO_PARITY] = to.parity;
}

void attention_emit_converter(attention_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  operand list[OPERANDS];
  int n = operands_of(e, list);
  converter c = set_up(e, thread);
  gen_stage reading = gen_pipeline_consumer_start(b), filling = gen_pipeline_producer_start(b);
  gen_value in[OPERANDS * CARRIED];
  gen_loop stages;
  for (int i = 0; i < n; i++) {
    gen_value start[] = {reading.index, reading.parity, filling.index, filling.parity};
    for (int k = 0; k < CARRIED; k++) in[i * CARRIED + k] = start[k];
  }
  gen_loop_begin(b, &stages, in, n * CARRIED);
  gen_stage first = standing_of(in).from;
  gen_pipeline_wait(b, list[0].from_ring, first);
  gen_value more = gen_load_shared(b, GEN_I32, 1, gen_add(b, e->more, gen_mul_imm(b, first.index, 4)));
  gen_loop_while(b, &stages, gen_compare_imm(b, GEN_NE, more, 0));
  for (int i = 0; i < n; i++) {
    standing at = standing_of(in + i * CARRIED);
    if (i > 0) gen_pipeline_wait(b, list[i].from_ring, at.from);
    convert_operand(&c, &list[i], at, in + i * CARRIED);
  }
  gen_loop_end(b, &stages);
}
