/* STREAM_K=2: the CTAs of a cluster share the K of one tile, so that half as many tiles, twice as large, give
 * every SM work: they read fewer bytes for the same products. Each multiplies its part of the k-steps; then
 * each gets the other's sums of half the columns through distributed shared memory, in the place of stages
 * that nobody needs any more, and finishes those. Two numbers are added whichever CTA adds them, so that
 * every run gives the same bits. */
#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_memory.h"
#include "templates/gemm_emit.h"

enum { LANES = 4 };

/* Where sums arrive, behind the tile that is stored over the stages. */
static int received_offset(const gemm_plan *plan) {
  return plan->match.y.rank > 0 ? plan->panels * plan->store_buffer_bytes * plan->consumers : 0;
}

static int row_bytes(const gemm_plan *plan) {
  return plan->consumers * 128 * LANES * 4;
}

int gemm_split_bytes(const gemm_plan *plan) {
  return received_offset(plan) + plan->accumulators / plan->split / LANES * row_bytes(plan);
}

gemm_item gemm_split_item(gemm_emitter *e, gen_value unit) {
  gen_builder *b = e->b;
  gen_value each = gen_ceildiv_imm(b, e->k_steps, e->plan->split), first = gen_mul(b, e->rank, each);
  gen_value left =
      gen_sub(b, gen_umin(b, gen_add(b, first, each), e->k_steps), gen_umin(b, first, e->k_steps));
  /* One that has no steps multiplies the zeros behind the last. */
  gen_value none = gen_compare_imm(b, GEN_EQ, left, 0);
  return (gemm_item){.unit = unit, .first = first, .steps = gen_select(b, none, gen_i32(b, 1), left)};
}

gemm_tile gemm_split_tile(gemm_emitter *e, gemm_tile tile) {
  if (e->plan->split == 1) return tile;
  tile.column = gen_add(e->b, tile.column, gen_mul_imm(e->b, e->rank, e->plan->finish_n));
  return tile;
}

void gemm_split_meet(gemm_emitter *e) {
  for (int i = 0; i < 2 && e->plan->split > 1; i++) gen_cluster_sync(e->b);
}

/* Sum i of those of CTA `rank`'s columns: row tile by row tile, sum by sum. */
static int index_of(const gemm_plan *plan, int rank, int i) {
  int each = plan->finish_n / 2;
  return i / each * plan->block_n / 2 + rank * each + i % each;
}

void gemm_split_exchange(gemm_consumer *c, gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int n = plan->accumulators / plan->split;
  gen_value own[GEN_WGMMA_MAX_ACCUMULATORS], others[GEN_WGMMA_MAX_ACCUMULATORS];
  gen_value is_first = gen_compare_imm(b, GEN_EQ, e->rank, 0);
  for (int i = 0; i < n; i++) {
    gen_value low = acc[index_of(plan, 0, i)], high = acc[index_of(plan, 1, i)];
    own[i] = gen_select(b, is_first, low, high);
    others[i] = gen_select(b, is_first, high, low);
  }
  gen_value thread = gen_add(b, gen_mul_imm(b, c->group, 128), c->thread);
  gen_value place =
      gen_add(b, gen_add_imm(b, e->smem, received_offset(plan)), gen_mul_imm(b, thread, LANES * 4));
  gen_value there = gen_cluster_map(b, place, gen_xor(b, e->rank, gen_i32(b, 1)));
  gen_cluster_sync(b); /* nobody reads stages any more */
  for (int i = 0; i < n; i += LANES)
    gen_store_cluster(b, gen_vector(b, others + i, LANES),
                      gen_add_imm(b, there, i / LANES * row_bytes(plan)));
  gen_cluster_sync(b);
  for (int i = 0; i < n; i += LANES) {
    gen_value sums =
        gen_load_shared(b, plan->match.type.sum, LANES, gen_add_imm(b, place, i / LANES * row_bytes(plan)));
    for (int k = 0; k < LANES; k++) {
      gen_value x = own[i + k], y = gen_lane(b, sums, k);
      acc[i + k] = gen_is_float(b, x) ? gen_fadd(b, x, y) : gen_add(b, x, y);
    }
  }
}
