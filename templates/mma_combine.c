/* Products whose terms are shared by several CTAs: their sums in the workspace, and the kernel that adds them
 * up. The order is that of the parts, so that results do not depend on who is first. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "templates/mma.h"

/* Byte address of a run's sum `sum` of part `part` (i32). */
static gen_value partial_address(mma_emitter *e, const mma_run *r, gen_value part, int sum) {
  gen_builder *b = e->b;
  gen_value at = gen_zext(b, gen_add_imm(b, gen_mul_imm(b, part, e->c->n_sums), sum), GEN_I64);
  gen_value places[] = {e->batch, r->m, r->n};
  int extents[] = {e->k->batches, e->k->m, e->k->n};
  for (int i = 0; i < 3; i++) {
    gen_value extent = gen_param(b, extents[i]);
    if (gen_type_of(b, extent) == GEN_I32) extent = gen_zext(b, extent, GEN_I64);
    at = gen_mul(b, at, extent);
    gen_value place = places[i];
    if (!place) continue;
    at = gen_add(b, at, gen_type_of(b, place) == GEN_I32 ? gen_zext(b, place, GEN_I64) : place);
  }
  return gen_add(b, gen_param(b, e->k->partials), gen_mul_imm(b, at, mma_sum_bytes(e->p)));
}

static int at_once(const mma_plan *p) {
  int bytes = p->epilogue.width * mma_sum_bytes(p);
  return bytes <= 16 ? p->epilogue.width : 16 / mma_sum_bytes(p);
}

void mma_store_partials(mma_emitter *e, const mma_run *runs, int n) {
  gen_builder *b = e->b;
  int each = at_once(e->p);
  for (int i = 0; i < n; i++) {
    gen_branch branch;
    gen_if(b, &branch, runs[i].active, NULL, 0);
    e->staged = runs[i].staged;
    for (int s = 0; s < e->c->n_sums; s++) {
      gen_value values[LANES_MAX], to = partial_address(e, &runs[i], e->split, s);
      mma_read_staged(e, s, values);
      for (int j = 0; j < e->p->epilogue.width; j += each)
        gen_store_global(b, each == 1 ? values[j] : gen_vector(b, &values[j], each),
                         gen_add_imm(b, to, (int64_t)j * mma_sum_bytes(e->p)));
    }
    gen_if_end(b, &branch);
  }
}

static void load_partials(mma_emitter *e, const mma_run *r, int part, gen_value *values) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, each = at_once(e->p);
  for (int s = 0; s < e->c->n_sums; s++) {
    gen_value from = partial_address(e, r, gen_i32(b, part), s);
    for (int j = 0; j < width; j += each) {
      gen_value at = gen_add_imm(b, from, (int64_t)j * mma_sum_bytes(e->p));
      gen_value v = gen_load_global(b, e->p->product.sum, each, at, true);
      for (int i = 0; i < each; i++) values[s * width + j + i] = each == 1 ? v : gen_lane(b, v, i);
    }
  }
}

static gen_value sum_of(gen_builder *b, gen_value x, gen_value y) {
  return gen_is_float(b, x) ? gen_fadd(b, x, y) : gen_add(b, x, y);
}

static arke_status combine_run(mma_emitter *e, mma_run *r, arke_error *err) {
  const ir_form *form = &e->c->form;
  int n = e->p->epilogue.width * e->c->n_sums, width;
  gen_value parts[16][LANES_MAX * CONTRACTION_SUMS], values[LANES_MAX];
  e->values = ARENA_NEW_N(e->k->a, gen_value, (size_t)n);
  if (!e->values) return error_memory(err, "generate");
  TRY(mma_set_run(e, r, err));
  for (int i = 0; i < e->p->split; i++) load_partials(e, r, i, parts[i]);
  for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(r->l, form->outputs[o].value, err));
  for (int j = 0; j < n; j++) e->values[j] = parts[0][j];
  for (int i = 1; i < e->p->split; i++)
    for (int j = 0; j < n; j++) e->values[j] = sum_of(e->b, e->values[j], parts[i][j]);
  e->l = r->l;
  for (int o = 0; o < form->n_outputs; o++) {
    TRY(lanes_eval(r->l, form->outputs[o].value, values, &width, err));
    TRY(lanes_store(r->l, o, values, width, NULL, err));
  }
  return ARKE_OK;
}

arke_status mma_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  mma_kernel *k = user;
  mma_emitter *e = ARENA_NEW(k->a, mma_emitter);
  if (!e) return error_memory(err, "generate");
  *e = (mma_emitter){.b = b, .k = k, .p = k->p, .c = k->p->c};
  k->current = e;
  gen_launches_release(b);
  gen_value cta = mma_index(e, gen_ctaid_x(b)), runs = gen_param(b, k->runs), m = gen_param(b, k->m);
  gen_value item = gen_add(b, gen_mul_imm(b, cta, MMA_COMBINE_THREADS), mma_index(e, gen_tid_x(b)));
  gen_branch branch;
  gen_if(b, &branch, gen_compare(b, GEN_ULT, item, gen_param(b, k->items)), NULL, 0);
  gen_launches_wait(b);
  gen_value row = gen_udiv(b, item, runs);
  mma_run r = {.n = gen_mul_imm(b, gen_urem(b, item, runs), e->p->epilogue.width)};
  r.m = e->c->batch.n > 0 ? gen_urem(b, row, m) : row;
  if (e->c->batch.n > 0) {
    e->batch = gen_udiv(b, row, m);
    mma_split_loops(e, &e->c->batch, e->batch, e->loops);
  }
  TRY(combine_run(e, &r, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}
