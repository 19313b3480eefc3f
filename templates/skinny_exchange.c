/* From the sums of threads to those of the CTA or the cluster, in an order that is always the same: over the
 * lanes that share K, then over warps and over CTAs through shared memory. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_cluster.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/skinny_emit.h"

static gen_value add(gen_builder *b, gen_value x, gen_value y) {
  return gen_is_float(b, x) ? gen_fadd(b, x, y) : gen_add(b, x, y);
}

static int log2_of(int x) {
  return 31 - __builtin_clz((unsigned)x);
}

static gen_value modulo(gen_builder *b, gen_value x, int y) {
  return gen_and(b, x, gen_i32(b, y - 1)); /* powers of two */
}

static gen_value quotient(gen_builder *b, gen_value x, int y) {
  return gen_lshr(b, x, gen_i32(b, log2_of(y)));
}

/* --- shared memory: by warp along K, sum, token, row --- */

/* Bytes of the sums of one warp along K, and where the CTA's own begin. */
static int warp_bytes(const skinny_plan *p) {
  return p->m->c.n_sums * p->tokens * p->pitch * skinny_sum_bytes(p->m);
}

static gen_value partial_at(skinny_emitter *e, gen_value warp_k, gen_value line, gen_value row) {
  gen_builder *b = e->b;
  gen_value at = gen_add(b, gen_mul_imm(b, line, e->p->pitch), row);
  at = gen_add(b, gen_mul_imm(b, at, skinny_sum_bytes(e->m)), gen_mul_imm(b, warp_k, warp_bytes(e->p)));
  return gen_add(b, e->shared, at);
}

/* Row of the CTA's tile of a slot, which is a value. */
static gen_value tile_row(skinny_emitter *e, gen_value slot) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  gen_value group = gen_add(b, gen_mul_imm(b, quotient(b, slot, p->group), p->across), e->across);
  gen_value row = gen_add(b, gen_mul_imm(b, group, p->group), modulo(b, slot, p->group));
  return gen_add(b, row, gen_mul_imm(b, e->warp_n, p->warp_rows));
}

/* --- lanes --- */

/* Adds `n` sums (a power of two) over the lanes that share K. Each step halves what a lane has, or, once that
 * is one sum, gives it to both; which ones a lane ends up with, `*count` from *first on, depends on its
 * place. */
static void reduce_lanes(skinny_emitter *e, gen_value *sums, int n, int *count, gen_value *first) {
  gen_builder *b = e->b;
  *first = gen_i32(b, 0);
  for (int distance = e->p->deep / 2; distance >= 1; distance /= 2) {
    gen_value mask = gen_i32(b, distance);
    if (n == 1) {
      sums[0] = add(b, sums[0], gen_shuffle_xor(b, sums[0], mask, 32));
      continue;
    }
    n /= 2;
    gen_value upper = gen_compare_imm(b, GEN_NE, gen_and(b, e->deep, mask), 0);
    for (int i = 0; i < n; i++) {
      gen_value kept = gen_select(b, upper, sums[i + n], sums[i]);
      gen_value given = gen_select(b, upper, sums[i], sums[i + n]);
      sums[i] = add(b, kept, gen_shuffle_xor(b, given, mask, 32));
    }
    *first = gen_add(b, *first, gen_select(b, upper, gen_i32(b, n), gen_i32(b, 0)));
  }
  *count = n;
}

/* Lanes with the same sums: one of them writes. */
static gen_value writes(skinny_emitter *e, int n) {
  int alike = e->p->deep / (n < e->p->deep ? n : e->p->deep);
  if (alike == 1) return NULL;
  return gen_compare_imm(e->b, GEN_EQ, modulo(e->b, e->deep, alike), 0);
}

static void put_dot_products(skinny_emitter *e) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  int all = p->m->c.n_sums * p->tokens * p->slots, n = 1 << log2_of(all), count;
  if (n < all) n *= 2;
  for (int i = all; i < n; i++) e->sums[i] = e->sums[0]; /* which nobody reads */
  gen_value first;
  reduce_lanes(e, e->sums, n, &count, &first);
  gen_value one = writes(e, n);
  gen_branch branch;
  if (one) gen_if(b, &branch, one, NULL, 0);
  for (int i = 0; i < count; i++) {
    gen_value number = gen_add_imm(b, first, i);
    gen_value at =
        partial_at(e, e->warp_k, quotient(b, number, p->slots), tile_row(e, modulo(b, number, p->slots)));
    gen_branch known;
    if (n > all) gen_if(b, &known, gen_compare_imm(b, GEN_ULT, number, all), NULL, 0);
    gen_store_shared(b, e->sums[i], at);
    if (n > all) gen_if_end(b, &known);
  }
  if (one) gen_if_end(b, &branch);
}

/* A lane has rows 2i and 2i + 1 of its slots, each with two neighbouring tokens (gen_mma). */
static void put_fragments(skinny_emitter *e) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  gen_value first = gen_mul_imm(b, e->deep, 2);
  for (int s = 0, i = 0; s < p->m->c.n_sums; s++) {
    for (int pair = 0; pair < p->slots / 2; pair++) {
      for (int x = 0; x < p->token_positions; x++) {
        for (int k = 0; k < 4; k++) {
          gen_value line = gen_add_imm(b, first, (int64_t)s * p->tokens + 8 * x + k % 2);
          gen_value row = tile_row(e, gen_i32(b, 2 * pair + k / 2));
          gen_store_shared(b, e->sums[i++], partial_at(e, e->warp_k, line, row));
        }
      }
    }
  }
}

/* --- the CTA's outputs --- */

static int tile_outputs(const skinny_plan *p) {
  return p->tokens * p->rows;
}

int skinny_outputs(const skinny_plan *p) {
  return (skinny_cta_outputs(p) + p->threads - 1) / p->threads;
}

/* The sums of all warps for one output, `line` being its token's. */
static gen_value sum_warps(skinny_emitter *e, int sum, gen_value token, gen_value row) {
  gen_builder *b = e->b;
  gen_value total = NULL, line = gen_add_imm(b, token, (int64_t)sum * e->p->tokens);
  for (int w = 0; w < e->p->warps_k; w++) {
    gen_value x = gen_load_shared(b, skinny_sum_type(e->m), 1, partial_at(e, gen_i32(b, w), line, row));
    total = total ? add(b, total, x) : x;
  }
  return total;
}

/* Where the CTA that finishes an output finds a part's sum; `number` among its outputs. */
static gen_value own_at(skinny_emitter *e, gen_value part, int sum, gen_value number) {
  gen_builder *b = e->b;
  gen_value line = gen_add_imm(b, gen_mul_imm(b, part, e->m->c.n_sums), sum);
  gen_value at = gen_add(b, gen_mul_imm(b, line, skinny_cta_outputs(e->p)), number);
  at = gen_add_imm(b, gen_mul_imm(b, at, skinny_sum_bytes(e->m)), (int64_t)e->p->warps_k * warp_bytes(e->p));
  return gen_add(b, e->shared, at);
}

/* The CTA's sums go to those of the cluster that finish them. */
static void send(skinny_emitter *e) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  int all = tile_outputs(p), own = skinny_cta_outputs(p);
  for (int from = 0; from < all; from += p->threads) {
    gen_value output = gen_add_imm(b, gen_tid_x(b), from);
    bool whole = from + p->threads <= all;
    gen_branch branch;
    if (!whole) gen_if(b, &branch, gen_compare_imm(b, GEN_ULT, output, all), NULL, 0);
    gen_value token = quotient(b, output, p->rows), row = modulo(b, output, p->rows);
    for (int s = 0; s < p->m->c.n_sums; s++) {
      gen_value total = sum_warps(e, s, token, row);
      gen_value at = own_at(e, e->part, s, modulo(b, output, own));
      gen_store_cluster(b, total, gen_cluster_map(b, at, quotient(b, output, own)));
    }
    if (!whole) gen_if_end(b, &branch);
  }
}

void skinny_meet(skinny_emitter *e) {
  if (e->p->cluster > 1) gen_cluster_arrive_relaxed(e->b);
}

void skinny_exchange(skinny_emitter *e) {
  e->shared = gen_shared_static(e->b, "sums", e->p->smem_bytes, 16);
  if (e->p->mma) {
    put_fragments(e);
  } else {
    put_dot_products(e);
  }
  gen_cta_sync(e->b);
  if (e->p->cluster == 1) return;
  gen_cluster_wait(e->b);
  send(e);
  gen_cluster_sync(e->b);
}

gen_value skinny_output(skinny_emitter *e, int i, gen_value *exists) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  int own = skinny_cta_outputs(p), first = i * p->threads;
  gen_value output = gen_add_imm(b, gen_tid_x(b), first);
  *exists = first + p->threads > own ? gen_compare_imm(b, GEN_ULT, output, own) : NULL;
  if (p->cluster == 1) return output;
  output = gen_add(b, output, gen_mul_imm(b, e->part, own));
  if (tile_outputs(p) < p->cluster)
    *exists = gen_and(b, *exists, gen_compare_imm(b, GEN_ULT, output, tile_outputs(p)));
  return output;
}

void skinny_totals(skinny_emitter *e, gen_value output, gen_value *token, gen_value *row) {
  gen_builder *b = e->b;
  const skinny_plan *p = e->p;
  *token = quotient(b, output, p->rows);
  *row = modulo(b, output, p->rows);
  for (int s = 0; s < p->m->c.n_sums; s++) {
    e->totals[s] = p->cluster > 1 ? NULL : sum_warps(e, s, *token, *row);
    for (int part = 0; p->cluster > 1 && part < p->cluster; part++) {
      gen_value at = own_at(e, gen_i32(b, part), s, modulo(b, output, skinny_cta_outputs(p)));
      gen_value x = gen_load_shared(b, skinny_sum_type(p->m), 1, at);
      e->totals[s] = part ? add(b, e->totals[s], x) : x;
    }
  }
}
