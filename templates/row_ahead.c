/* Rows copied into shared memory while earlier ones are worked on: a ring of stages, each with room for one
 * row of all tensors that are copied and an mbarrier that tells when they are there. One thread asks for the
 * copies.
 *
 * The stage of the row before is filled again once all threads have met in the first phase of the present
 * row: they have read all they need of the row before. So the rows after this one, all but one of the stages,
 * are on their way while this one is worked on, whatever its phases wait for. */
#include "generator/gen_barrier.h"
#include "generator/gen_tma.h"
#include "templates/row_emit.h"

enum { BARRIER_BYTES = 8 };

static int row_bytes(const row_emitter *e, int access) {
  const ir_form *form = &e->m->form;
  int64_t bits = dtype_bits(ir_tensor_dtype(form->problem, form->accesses[access].tensor));
  return (int)(row_columns(e->m) * bits / 8);
}

/* Where an access has its rows in a stage. */
static int place_in_stage(const row_emitter *e, int access) {
  uint64_t ahead = row_ahead(e->m, e->plan);
  int before = 0;
  for (int i = 0; i < access; i++)
    if (ahead >> i & 1) before += row_bytes(e, i);
  return before;
}

static gen_value wide(gen_builder *b, gen_value v) {
  return gen_type_of(b, v) == GEN_I64 ? v : gen_zext(b, v, GEN_I64);
}

static gen_value address_of(row_emitter *e, int access, gen_value row) {
  gen_builder *b = e->b;
  const lanes_args *slots = &e->k->slots;
  int tensor = e->m->form.accesses[access].tensor;
  gen_value base = gen_param(b, slots->pointer[tensor]), bytes;
  if (row_is_dense(e->m, e->plan)) {
    bytes = gen_mul_imm(b, wide(b, row), row_bytes(e, access));
  } else {
    lanes_slot slot = slots->stride[tensor][1];
    gen_value stride = slot.param < 0 ? row_index(e, slot.value) : gen_param(b, slot.param);
    gen_value elements = gen_mul(b, wide(b, row), wide(b, stride));
    bytes = gen_mul_imm(b, elements, row_bytes(e, access) / row_columns(e->m));
  }
  return gen_add(b, base, bytes);
}

static gen_value barrier_of(row_emitter *e, gen_value stage) {
  return gen_add(e->b, e->filled, gen_mul_imm(e->b, stage, BARRIER_BYTES));
}

/* By one thread, where there is such a row. */
static void copy_row(row_emitter *e, gen_value row, gen_value stage) {
  gen_builder *b = e->b;
  uint64_t ahead = row_ahead(e->m, e->plan);
  gen_value asks = gen_compare_imm(b, GEN_EQ, e->thread, 0);
  gen_branch branch;
  gen_if(b, &branch, gen_and(b, asks, gen_compare(b, GEN_ULT, row, e->rows)), NULL, 0);
  gen_value barrier = barrier_of(e, stage);
  gen_value place = gen_add(b, e->ring, gen_mul_imm(b, stage, e->plan->stage_bytes));
  gen_mbarrier_arrive_expect(b, barrier, e->plan->stage_bytes);
  for (int i = 0; i < e->m->form.n_accesses; i++) {
    if (!(ahead >> i & 1)) continue;
    gen_cache cache = e->k->options.streamed >> i & 1 ? e->plan->loads : GEN_CACHE_DEFAULT;
    gen_bulk_load_cached(b, gen_add_imm(b, place, place_in_stage(e, i)), address_of(e, i, row),
                         row_bytes(e, i), barrier, cache);
  }
  gen_if_end(b, &branch);
}

void row_ahead_place(row_emitter *e) {
  gen_builder *b = e->b;
  int stages = e->plan->stages;
  e->ring = gen_shared_dynamic(b);
  e->filled = gen_shared_static(b, "row_filled", stages * BARRIER_BYTES, BARRIER_BYTES);
  gen_branch one;
  gen_if(b, &one, gen_compare_imm(b, GEN_EQ, e->thread, 0), NULL, 0);
  for (int s = 0; s < stages; s++) gen_mbarrier_init(b, barrier_of(e, gen_i32(b, s)), 1);
  gen_mbarrier_init_fence(b);
  gen_if_end(b, &one);
  gen_cta_sync(b);
}

void row_ahead_start(row_emitter *e, gen_value first, gen_value step) {
  gen_value row = first;
  for (int s = 0; s < e->plan->stages - 1; s++) {
    copy_row(e, row, gen_i32(e->b, s));
    row = gen_add(e->b, row, step);
  }
}

void row_ahead_wait(row_emitter *e) {
  gen_mbarrier_wait(e->b, barrier_of(e, e->stage), e->parity);
}

void row_ahead_refill(row_emitter *e) {
  gen_builder *b = e->b;
  gen_value before = gen_add_imm(b, e->stage, -1);
  gen_value last = gen_i32(b, e->plan->stages - 1);
  copy_row(e, e->later, gen_select(b, gen_compare_imm(b, GEN_EQ, e->stage, 0), last, before));
}

void row_ahead_advance(row_emitter *e, gen_value *stage, gen_value *parity) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, e->stage, 1);
  gen_value around = gen_compare_imm(b, GEN_EQ, next, e->plan->stages);
  *stage = gen_select(b, around, gen_i32(b, 0), next);
  *parity = gen_select(b, around, gen_xor(b, e->parity, gen_i32(b, 1)), e->parity);
}

gen_value row_ahead_element(row_chunk *c, int access) {
  row_emitter *e = c->row->e;
  gen_builder *b = e->b;
  int bytes = (int)(row_bytes(e, access) / row_columns(e->m));
  gen_value column = gen_type_of(b, c->first) == GEN_I64 ? gen_trunc(b, c->first, GEN_I32) : c->first;
  gen_value place = gen_add(b, e->ring, gen_mul_imm(b, e->stage, e->plan->stage_bytes));
  return gen_add(b, gen_add_imm(b, place, place_in_stage(e, access)), gen_mul_imm(b, column, bytes));
}
