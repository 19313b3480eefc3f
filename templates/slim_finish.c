/* From the sums of consumers to the outputs: every CTA of a cluster leaves its sums in its shared memory, and
 * each adds up and finishes a like share of the tile, in the order of the parts of K. */
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "templates/slim.h"

/* Where a sum is: rows of a token follow one another. */
static gen_value sum_at(slim_emitter *e, int sum, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  gen_value line = gen_add_imm(b, token, (int64_t)sum * e->p->tokens);
  gen_value at = gen_add(b, gen_mul_imm(b, line, e->p->pitch), row);
  return gen_add(b, e->smem, gen_mul_imm(b, at, sizeof(float)));
}

void slim_put_sums(slim_emitter *e, gen_value group, gen_value thread, const gen_value *sums) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  int n = p->columns / 2; /* registers of a row tile */
  gen_value lane = gen_and(b, thread, gen_i32(b, 31)), warp = gen_lshr(b, thread, gen_i32(b, 5));
  gen_value tall = gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
  tall = gen_add(b, tall, gen_mul_imm(b, group, p->row_tiles * 64));
  gen_value wide = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  gen_value at = sum_at(e, 0, p->turned ? tall : wide, p->turned ? wide : tall);
  for (int i = 0; i < e->m->c.n_sums * p->accumulators; i++) {
    int sum = i / p->accumulators, tile = i % p->accumulators / n, r = i % n;
    int line = 64 * tile + 8 * (r / 2 % 2), column = 8 * (r / 4) + r % 2;
    int token = sum * p->tokens + (p->turned ? line : column), row = p->turned ? column : line;
    int further = token * p->pitch + row;
    gen_value place = gen_add_imm(b, at, further * (int64_t)sizeof(float));
    if (!p->turned) {
      gen_store_shared(b, sums[i], place);
    } else if (r % 2 == 0) {
      gen_store_shared(b, gen_vector(b, sums + i, 2), place);
    }
  }
}

static gen_value convert(gen_builder *b, gen_value x) {
  if (gen_is_float(b, x)) return gen_float_cast(b, x, GEN_F32);
  return gen_int_to_float(b, x, GEN_F32, gen_type_of(b, x) != GEN_I1);
}

arke_status slim_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  slim_emitter *e = ((slim_kernel *)user)->current;
  const contraction *c = &e->m->c;
  for (int i = 0; i < c->n_sums; i++) {
    const contraction_sum *s = &c->sums[i];
    if (s->e != x) continue;
    for (int v = 0; v < e->p->width; v++) values[v] = e->totals[i][v];
    for (int f = 0; f < s->n_scales; f++) {
      gen_value scale[LANES_MAX];
      int n;
      TRY(lanes_eval(e->each, s->scales[f], scale, &n, err));
      for (int v = 0; v < e->p->width; v++)
        values[v] = gen_fmul(e->b, values[v], convert(e->b, scale[n == 1 ? 0 : v]));
    }
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a sum that the slim template did not match");
}

/* The sums of all parts of K for a vector of rows. */
static void add_up(slim_emitter *e, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  for (int s = 0; s < e->m->c.n_sums; s++) {
    gen_value at = sum_at(e, s, token, row);
    for (int part = 0; part < p->cluster; part++) {
      gen_value x = p->cluster > 1
                        ? gen_load_cluster(b, GEN_F32, p->width, gen_cluster_map(b, at, gen_i32(b, part)))
                        : gen_load_shared(b, GEN_F32, p->width, at);
      for (int v = 0; v < p->width; v++) {
        gen_value one = p->width > 1 ? gen_lane(b, x, v) : x, *total = &e->totals[s][v];
        *total = part ? gen_fadd(b, *total, one) : one;
      }
    }
  }
}

void slim_set_loop(const slim_emitter *e, lanes *l, int loop, gen_value value) {
  if (loop >= 0) lanes_set(l, loop, e->p->wide_offsets ? gen_zext(e->b, value, GEN_I64) : value);
}

static arke_status store(slim_emitter *e, gen_value token, gen_value row, arke_error *err) {
  const ir_form *form = &e->m->c.form;
  TRY(lanes_create(e->b, form, &e->k->each, &e->k->slots, e->k->a, &e->each, err));
  slim_set_loop(e, e->each, e->m->token_loop, gen_add(e->b, e->first_token, token));
  slim_set_loop(e, e->each, e->m->row_loop, gen_add(e->b, e->first_row, row));
  for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(e->each, form->outputs[o].value, err));
  add_up(e, token, row);
  for (int o = 0; o < form->n_outputs; o++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(e->each, form->outputs[o].value, values, &n, err));
    TRY(lanes_store(e->each, o, values, n, NULL, err));
  }
  return ARKE_OK;
}

arke_status slim_finish(slim_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  int vectors = p->rows / p->width; /* of a token */
  gen_value left = gen_sub(b, gen_param(b, e->k->n_tokens), e->first_token);
  gen_value all = gen_mul_imm(b, gen_umin(b, left, gen_i32(b, p->tokens)), vectors);
  gen_value share = gen_udiv(b, gen_add_imm(b, all, p->cluster - 1), gen_i32(b, p->cluster));
  gen_value begin = gen_mul(b, e->part, share), end = gen_umin(b, all, gen_add(b, begin, share));
  gen_value carried[] = {gen_add(b, begin, gen_tid_x(b))};
  gen_loop loop;
  gen_branch inside;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  gen_value vector = carried[0], token = gen_udiv(b, vector, gen_i32(b, vectors));
  gen_value row = gen_mul_imm(b, gen_urem(b, vector, gen_i32(b, vectors)), p->width);
  gen_value of_all = gen_add(b, e->first_row, row);
  gen_if(b, &inside, gen_compare(b, GEN_ULT, of_all, gen_param(b, e->k->n_weights)), NULL, 0);
  TRY(store(e, token, row, err));
  gen_if_end(b, &inside);
  carried[0] = gen_add_imm(b, vector, p->threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}
