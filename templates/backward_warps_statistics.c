/* l and e of every query, which a few threads of a warp add up, into the workspace. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/backward_warps.h"

static arke_status evaluator(warps_emitter *e, const lanes_options *o, gen_value query, lanes **l,
                             arke_error *err) {
  TRY(lanes_create(e->b, &e->m->form, o, &e->k->statistics_slots, e->k->a, l, err));
  warps_set_batch(e, *l, BACKWARD_QUERIES, NULL);
  lanes_set(*l, e->m->query, warps_index(e, query));
  return ARKE_OK;
}

static arke_status value_of(warps_emitter *e, const ir_expr *x, gen_value query, gen_value *value,
                            arke_error *err) {
  gen_value v[LANES_MAX];
  lanes *l;
  int n;
  TRY(evaluator(e, &e->plan->vectors.statistics, query, &l, err));
  TRY(lanes_load(l, x, err));
  TRY(lanes_eval(l, x, v, &n, err));
  *value = gen_type_of(e->b, v[0]) == GEN_F32 ? v[0] : gen_float_cast(e->b, v[0], GEN_F32);
  return ARKE_OK;
}

/* Every WARPS_TEAM-th run of a row's terms, then all of the team's. */
static arke_status sum_terms(warps_emitter *e, gen_value query, gen_value *sum, arke_error *err) {
  gen_builder *b = e->b;
  const ir_expr *dot = e->m->dot;
  int width = e->plan->vectors.statistics.width;
  gen_value member = gen_and(b, e->lane, gen_i32(b, WARPS_TEAM - 1)), v[LANES_MAX];
  gen_value carried[] = {gen_mul_imm(b, member, width), gen_f32(b, 0)}, of_run = NULL;
  gen_loop loop;
  lanes *l;
  int n;
  gen_loop_begin(b, &loop, carried, 2);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], warps_extent(e, dot->index)));
  TRY(evaluator(e, &e->plan->vectors.statistics, query, &l, err));
  lanes_set(l, dot->index, warps_index(e, carried[0]));
  TRY(lanes_load(l, dot->args[0], err));
  TRY(lanes_eval(l, dot->args[0], v, &n, err));
  for (int i = 0; i < width; i++) {
    gen_value term = v[i < n ? i : 0];
    if (gen_type_of(b, term) != GEN_F32) term = gen_float_cast(b, term, GEN_F32);
    of_run = i == 0 ? term : gen_fadd(b, of_run, term);
  }
  carried[1] = gen_fadd(b, carried[1], of_run);
  carried[0] = gen_add_imm(b, carried[0], (int64_t)width * WARPS_TEAM);
  gen_loop_end(b, &loop);
  *sum = carried[1];
  for (int step = 1; step < WARPS_TEAM; step *= 2)
    *sum = gen_fadd(b, *sum, gen_shuffle_xor(b, *sum, gen_i32(b, step), 32));
  return ARKE_OK;
}

static void find_query(warps_emitter *e, gen_value number, gen_value *query) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  gen_value queries = warps_extent(e, e->m->query), rest = gen_udiv(b, number, queries);
  *query = gen_sub(b, number, gen_mul(b, rest, queries));
  for (int i = batch->n - 1; i >= 0; i--) {
    int loop = batch->loops[i];
    gen_value n = rest;
    if (i > 0) rest = gen_udiv(b, n, warps_extent(e, loop));
    e->loops[loop] = i > 0 ? gen_sub(b, n, gen_mul(b, rest, warps_extent(e, loop))) : n;
  }
}

arke_status warps_emit_statistics(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const warps_kernel *k = user;
  const backward_match *m = k->plan->match;
  warps_emitter *e = ARENA_NEW(k->a, warps_emitter);
  gen_branch writer;
  if (!e) return error_memory(err, "generate");
  *e = (warps_emitter){.b = b, .k = k, .plan = k->plan, .m = m, .thread = gen_tid_x(b)};
  e->lane = gen_and(b, e->thread, gen_i32(b, 31));
  gen_launches_release(b);
  gen_launches_wait(b);
  gen_value each = gen_i32(b, WARPS_TEAM), all = gen_param(b, k->queries), query, both[2];
  gen_value number = gen_mul_imm(b, gen_ctaid_x(b), WARPS_STATISTICS_THREADS / WARPS_TEAM);
  number = gen_add(b, number, gen_udiv(b, e->thread, each));
  /* Threads past the last query compute what that has: whole warps add up. */
  gen_value exists = gen_compare(b, GEN_ULT, number, all);
  find_query(e, gen_umin(b, number, gen_add_imm(b, all, -1)), &query);
  both[0] = both[1] = gen_f32(b, 0);
  if (m->lse && (warps_are_known(m) || k->plan->vectors.given_lse >= 0))
    TRY(value_of(e, m->lse, query, &both[0], err));
  if (warps_are_known(m) && !m->base2) both[0] = gen_fmul(b, both[0], gen_f32(b, M_LOG2E));
  if (m->dot)
    TRY(sum_terms(e, query, &both[1], err));
  else if (warps_are_known(m))
    TRY(value_of(e, m->offset, query, &both[1], err));
  gen_value first = gen_compare_imm(b, GEN_EQ, gen_and(b, e->thread, gen_i32(b, WARPS_TEAM - 1)), 0);
  gen_if(b, &writer, gen_and(b, exists, first), NULL, 0);
  gen_store_global(b, gen_vector(b, both, 2), warps_statistics_address(e, NULL, query));
  gen_if_end(b, &writer);
  return ARKE_OK;
}
