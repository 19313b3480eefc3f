/* The body of a skinny product's kernel: K, then the sums of all threads, then the outputs. */
#include "generator/gen_barrier.h"
#include "templates/skinny_emit.h"

/* --- where a thread is --- */

static gen_value modulo(gen_builder *b, gen_value x, int y) {
  return gen_and(b, x, gen_i32(b, y - 1)); /* powers of two */
}

static gen_value quotient(gen_builder *b, gen_value x, int y) {
  return gen_lshr(b, x, gen_i32(b, 31 - __builtin_clz((unsigned)y)));
}

static gen_value tile_of(skinny_emitter *e) {
  return quotient(e->b, gen_ctaid_x(e->b), e->p->parts);
}

static void find_place(skinny_emitter *e) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  gen_value warp = gen_warp_index(b);
  e->lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31));
  e->deep = modulo(b, e->lane, p->deep);
  e->across = quotient(b, e->lane, p->deep);
  e->warp_n = modulo(b, warp, p->warps_n);
  e->warp_k = quotient(b, warp, p->warps_n);
  e->part = modulo(b, gen_ctaid_x(b), p->parts);
  e->batch = skinny_as_index(e, gen_ctaid_z(b));
  e->token = gen_mul_imm(b, skinny_as_index(e, gen_ctaid_y(b)), p->tokens);
  gen_value in_tile =
      gen_add(b, gen_mul_imm(b, e->warp_n, p->warp_rows), gen_mul_imm(b, e->across, p->group));
  gen_value tile = gen_mul_imm(b, skinny_as_index(e, tile_of(e)), p->rows);
  e->row = gen_add(b, tile, skinny_as_index(e, in_tile));
}

/* --- along K --- */

static gen_value zero_sum(skinny_emitter *e) {
  gen_type type = skinny_sum_type(e->m);
  if (type == GEN_I32) return gen_i32(e->b, 0);
  if (type == GEN_I64) return gen_i64(e->b, 0);
  return gen_float_cast(e->b, gen_f32(e->b, 0), type);
}

/* What a warp does of K, which goes from one of its steps to the next. */
typedef struct walk {
  skinny_emitter *e;
  gen_value own; /* of the lane, from the warp's first element on; the index type */
  int step;      /* from one step to the next */
} walk;

static arke_status one_by_one(walk *w, gen_value *carried, arke_error *err) {
  skinny_emitter *e = w->e;
  gen_builder *b = e->b;
  int n = e->p->sums;
  skinny_batch batch;
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_value k = gen_add(b, carried[0], w->own);
  TRY(skinny_load(e, k, &batch, err));
  for (int i = 0; i < n; i++) e->sums[i] = carried[1 + i];
  TRY(skinny_multiply(e, k, &batch, err));
  carried[0] = gen_add_imm(b, carried[0], w->step);
  for (int i = 0; i < n; i++) carried[1 + i] = e->sums[i];
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], e->k_end));
  return ARKE_OK;
}

/* Two steps in turn, so that what is loaded need not move to other registers, which would wait for it. Steps
 * outside add nothing, and are loaded from the last place inside: a branch around loads would hold products
 * back. */
static arke_status two_in_turn(walk *w, gen_value *carried, arke_error *err) {
  skinny_emitter *e = w->e;
  gen_builder *b = e->b;
  int n = e->p->sums, words = e->p->words;
  skinny_batch even, odd;
  gen_loop loop;
  TRY(skinny_load(e, gen_add(b, carried[0], w->own), &even, err));
  for (int i = 0; i < words; i++) carried[1 + n + i] = even.words[i];
  gen_loop_begin(b, &loop, carried, 1 + n + words);
  gen_value k = carried[0], second = gen_add_imm(b, k, w->step), third = gen_add_imm(b, k, 2 * w->step);
  for (int i = 0; i < words; i++) even.words[i] = carried[1 + n + i];
  for (int i = 0; i < n; i++) e->sums[i] = carried[1 + i];
  TRY(skinny_load(e, gen_add(b, second, w->own), &odd, err));
  TRY(skinny_multiply(e, gen_add(b, k, w->own), &even, err));
  TRY(skinny_load(e, gen_add(b, third, w->own), &even, err));
  TRY(skinny_multiply(e, gen_add(b, second, w->own), &odd, err));
  carried[0] = third;
  for (int i = 0; i < n; i++) carried[1 + i] = e->sums[i];
  for (int i = 0; i < words; i++) carried[1 + n + i] = even.words[i];
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, third, e->k_end));
  return ARKE_OK;
}

/* The warps' steps alternate, so that a CTA reads a stretch of each row at a time. Carried: the warp's first
 * element, the sums, and with STAGES=2 what has been loaded. */
static arke_status go_along_k(skinny_emitter *e, gen_value first, arke_error *err) {
  const skinny_plan *p = e->p;
  gen_value carried[1 + SKINNY_SUMS + SKINNY_WORDS];
  walk w = {.e = e,
            .own = skinny_as_index(e, gen_mul_imm(e->b, e->deep, p->step)),
            .step = p->warps_k * skinny_warp_step(p)};
  carried[0] = first;
  for (int i = 0; i < p->sums; i++) carried[1 + i] = e->sums[i];
  TRY(p->prefetch ? two_in_turn(&w, carried, err) : one_by_one(&w, carried, err));
  for (int i = 0; i < p->sums; i++) e->sums[i] = carried[1 + i];
  return ARKE_OK;
}

static arke_status add_products(skinny_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  gen_value k = gen_param(b, e->k->k), begin = skinny_index(e, 0);
  e->k_end = k;
  if (p->parts > 1) {
    gen_value each = gen_param(b, e->k->k_part);
    begin = gen_mul(b, skinny_as_index(e, e->part), each);
    e->k_end = gen_umin(b, k, gen_add(b, begin, each));
  }
  gen_value first = gen_add(b, begin, skinny_as_index(e, gen_mul_imm(b, e->warp_k, skinny_warp_step(p))));
  for (int i = 0; i < p->sums; i++) e->sums[i] = zero_sum(e);
  gen_branch some;
  gen_if(b, &some, gen_compare(b, GEN_ULT, first, e->k_end), e->sums, p->sums);
  TRY(go_along_k(e, first, err));
  gen_if_end(b, &some);
  return ARKE_OK;
}

/* --- outputs --- */

arke_status skinny_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  skinny_emitter *e = ((skinny_kernel *)user)->current;
  const contraction *c = &e->m->c;
  for (int i = 0; i < c->n_sums; i++) {
    const contraction_sum *s = &c->sums[i];
    if (s->e != x) continue;
    gen_type type = skinny_sum_type(e->m);
    values[0] = e->totals[i];
    for (int f = 0; f < s->n_scales; f++) {
      gen_value scale;
      int n;
      TRY(lanes_eval(e->each, s->scales[f], &scale, &n, err));
      scale = skinny_convert(e->b, scale, type);
      values[0] =
          gen_is_float(e->b, scale) ? gen_fmul(e->b, values[0], scale) : gen_mul(e->b, values[0], scale);
    }
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a sum that the skinny template did not match");
}

/* Bytes from the partial results of one part to the next are those of all outputs, a sum after the other. */
static gen_value partial_at(skinny_emitter *e, gen_value part, int sum, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  gen_value at = gen_add(b, gen_mul(b, e->batch, gen_param(b, e->k->n_tokens)), token);
  at = gen_add(b, gen_mul(b, at, gen_param(b, e->k->n_weights)), row);
  gen_value line = gen_add_imm(b, gen_mul_imm(b, part, e->m->c.n_sums), sum);
  gen_value whole = gen_mul(b, gen_zext(b, line, GEN_I64), gen_param(b, e->k->n_outputs));
  at = gen_add(b, whole, e->index == GEN_I64 ? at : gen_zext(b, at, GEN_I64));
  return gen_add(b, gen_param(b, e->k->partials), gen_mul_imm(b, at, skinny_sum_bytes(e->m)));
}

static void leave_part(skinny_emitter *e, gen_value token, gen_value row) {
  for (int s = 0; s < e->m->c.n_sums; s++)
    gen_store_global(e->b, e->totals[s], partial_at(e, e->part, s, token, row));
}

static void add_parts(skinny_emitter *e, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  for (int s = 0; s < e->m->c.n_sums; s++) {
    for (int part = 0; part < e->p->split; part++) {
      gen_value at = partial_at(e, gen_i32(b, part), s, token, row);
      gen_value x = gen_load_global(b, skinny_sum_type(e->m), 1, at, false), *total = &e->totals[s];
      *total = !part ? x : gen_is_float(b, x) ? gen_fadd(b, *total, x) : gen_add(b, *total, x);
    }
  }
}

/* One element of every output. */
static arke_status store(skinny_emitter *e, gen_value token, gen_value row, arke_error *err) {
  const ir_form *form = &e->m->c.form;
  TRY(lanes_create(e->b, form, &e->k->each, &e->k->each_slots, e->k->a, &e->each, err));
  skinny_set(e, e->each, &e->m->c.batch, e->batch);
  skinny_set(e, e->each, e->m->tokens, token);
  skinny_set(e, e->each, e->m->weights, row);
  for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(e->each, form->outputs[o].value, err));
  for (int o = 0; o < form->n_outputs; o++) {
    gen_value value;
    int n;
    TRY(lanes_eval(e->each, form->outputs[o].value, &value, &n, err));
    TRY(lanes_store(e->each, o, &value, n, NULL, err));
  }
  return ARKE_OK;
}

static arke_status finish(skinny_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  gen_value tile = gen_mul_imm(b, skinny_as_index(e, tile_of(e)), p->rows);
  for (int i = 0; i < skinny_outputs(p); i++) {
    gen_value exists, token, row, output = skinny_output(e, i, &exists);
    gen_branch is_one, inside;
    if (exists) gen_if(b, &is_one, exists, NULL, 0);
    skinny_totals(e, output, &token, &row);
    token = gen_add(b, e->token, skinny_as_index(e, token));
    row = gen_add(b, tile, skinny_as_index(e, row));
    gen_value is_inside = gen_and(b, gen_compare(b, GEN_ULT, token, gen_param(b, e->k->n_tokens)),
                                  gen_compare(b, GEN_ULT, row, gen_param(b, e->k->n_weights)));
    gen_if(b, &inside, is_inside, NULL, 0);
    if (p->split > 1) {
      leave_part(e, token, row);
    } else {
      TRY(store(e, token, row, err));
    }
    gen_if_end(b, &inside);
    if (exists) gen_if_end(b, &is_one);
  }
  return ARKE_OK;
}

static arke_status first_kernel(skinny_emitter *e, arke_error *err) {
  find_place(e);
  skinny_meet(e);
  gen_launches_wait(e->b);
  TRY(add_products(e, err));
  skinny_exchange(e);
  return finish(e, err);
}

/* A thread for each output. */
static arke_status second_kernel(skinny_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_branch inside;
  e->batch = skinny_as_index(e, gen_ctaid_z(b));
  gen_value token = skinny_as_index(e, gen_ctaid_y(b));
  gen_value row = skinny_as_index(e, gen_mul_imm(b, gen_ctaid_x(b), SKINNY_FINISH_THREADS));
  row = gen_add(b, row, skinny_as_index(e, gen_tid_x(b)));
  gen_launches_wait(b);
  gen_if(b, &inside, gen_compare(b, GEN_ULT, row, gen_param(b, e->k->n_weights)), NULL, 0);
  add_parts(e, token, row);
  TRY(store(e, token, row, err));
  gen_if_end(b, &inside);
  return ARKE_OK;
}

arke_status skinny_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  skinny_kernel *k = user;
  skinny_emitter *e = ARENA_NEW(k->a, skinny_emitter);
  if (!e) return error_memory(err, "generate");
  *e = (skinny_emitter){.b = b, .k = k, .p = &k->plan, .m = k->plan.m};
  e->index = k->plan.wide_offsets ? GEN_I64 : GEN_I32;
  k->current = e;
  gen_launches_release(b);
  return k->from_parts ? second_kernel(e, err) : first_kernel(e, err);
}
