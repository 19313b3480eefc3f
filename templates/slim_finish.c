/* From the sums of consumers to the outputs: every CTA of a cluster leaves its sums in its shared memory, and
 * each adds up and finishes a like share of the tile, in the order of the parts of K. */
#include <string.h>

#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "templates/slim.h"

/* Where a sum is: rows of a token follow one another. */
static gen_value sum_at(slim_emitter *e, int sum, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  gen_value line = gen_add_imm(b, token, (int64_t)sum * e->p->sum_tokens);
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
    int token = sum * p->sum_tokens + (p->turned ? line : column), row = p->turned ? column : line;
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

enum { MOST_AT_ONCE = 4 };

/* Vectors that a thread adds up before it stores the first: their loads are under way together. */
static int at_once(const slim_plan *p) {
  int share = p->tokens * p->rows / p->width / p->cluster, n = (share + p->threads - 1) / p->threads;
  return n < MOST_AT_ONCE ? n : MOST_AT_ONCE;
}

/* A vector of outputs: a token, and neighbouring rows. */
typedef struct output {
  gen_value token, row;
  gen_value totals[CONTRACTION_SUMS][LANES_MAX];
} output;

static output output_at(slim_emitter *e, gen_value number) {
  gen_builder *b = e->b;
  gen_value vectors = gen_i32(b, e->p->rows / e->p->width); /* of a token */
  return (output){.token = gen_udiv(b, number, vectors),
                  .row = gen_mul_imm(b, gen_urem(b, number, vectors), e->p->width)};
}

/* The sums of all parts of K. */
static void add_up(slim_emitter *e, output *o) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  for (int s = 0; s < e->m->c.n_sums; s++) {
    gen_value at = sum_at(e, s, o->token, o->row);
    for (int part = 0; part < p->cluster; part++) {
      gen_value x = p->cluster > 1
                        ? gen_load_cluster(b, GEN_F32, p->width, gen_cluster_map(b, at, gen_i32(b, part)))
                        : gen_load_shared(b, GEN_F32, p->width, at);
      for (int v = 0; v < p->width; v++) {
        gen_value one = p->width > 1 ? gen_lane(b, x, v) : x, *total = &o->totals[s][v];
        *total = part ? gen_fadd(b, *total, one) : one;
      }
    }
  }
}

void slim_set_loop(const slim_emitter *e, lanes *l, int loop, gen_value value) {
  if (loop >= 0) lanes_set(l, loop, e->p->wide_offsets ? gen_zext(e->b, value, GEN_I64) : value);
}

static arke_status store(slim_emitter *e, const output *o, arke_error *err) {
  const ir_form *form = &e->m->c.form;
  TRY(lanes_create(e->b, form, &e->k->each, &e->k->slots, e->k->a, &e->each, err));
  slim_set_loop(e, e->each, e->m->token_loop, gen_add(e->b, e->first_token, o->token));
  slim_set_loop(e, e->each, e->m->row_loop, gen_add(e->b, e->first_row, o->row));
  memcpy(e->totals, o->totals, sizeof e->totals);
  for (int i = 0; i < form->n_outputs; i++) TRY(lanes_load(e->each, form->outputs[i].value, err));
  for (int i = 0; i < form->n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(e->each, form->outputs[i].value, values, &n, err));
    TRY(lanes_store(e->each, i, values, n, NULL, err));
  }
  return ARKE_OK;
}

/* Some vectors from `first` on, `threads` apart; those at or behind the end are added up like the last one,
 * and not stored. */
static arke_status finish_some(slim_emitter *e, gen_value first, gen_value end, arke_error *err) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  output outputs[MOST_AT_ONCE];
  gen_value exists[MOST_AT_ONCE], last = gen_add_imm(b, end, -1);
  for (int i = 0; i < at_once(p); i++) {
    gen_value number = gen_add_imm(b, first, (int64_t)i * p->threads);
    outputs[i] = output_at(e, gen_umin(b, number, last));
    gen_value row = gen_add(b, e->first_row, outputs[i].row);
    exists[i] = gen_and(b, gen_compare(b, GEN_ULT, number, end),
                        gen_compare(b, GEN_ULT, row, gen_param(b, e->k->n_weights)));
    add_up(e, &outputs[i]);
  }
  for (int i = 0; i < at_once(p); i++) {
    gen_branch branch;
    gen_if(b, &branch, exists[i], NULL, 0);
    TRY(store(e, &outputs[i], err));
    gen_if_end(b, &branch);
  }
  return ARKE_OK;
}

arke_status slim_finish(slim_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  gen_value left = gen_sub(b, gen_param(b, e->k->n_tokens), e->first_token);
  gen_value all = gen_mul_imm(b, gen_umin(b, left, gen_i32(b, p->tokens)), p->rows / p->width);
  gen_value share = gen_udiv(b, gen_add_imm(b, all, p->cluster - 1), gen_i32(b, p->cluster));
  gen_value begin = gen_mul(b, e->part, share), end = gen_umin(b, all, gen_add(b, begin, share));
  gen_value carried[] = {gen_add(b, begin, gen_tid_x(b))};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  TRY(finish_some(e, carried[0], end, err));
  carried[0] = gen_add_imm(b, carried[0], (int64_t)at_once(p) * p->threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}
