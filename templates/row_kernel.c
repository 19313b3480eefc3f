/* The kernel around the passes: which rows a group takes, and in which loop. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "templates/row_emit.h"

static gen_value to_index(row_emitter *e, gen_value v) {
  return e->index == GEN_I64 ? gen_zext(e->b, v, GEN_I64) : v;
}

static int log2_of(int x) {
  int n = 0;
  while (1 << n < x) n++;
  return n;
}

/* Who this thread is. Returns the number of the CTA's (the cluster's, the row's CTAs') first turn. */
static gen_value place_thread(row_emitter *e) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  gen_value thread = gen_tid_x(b), cta = gen_ctaid_x(b);
  int bits = log2_of(plan->threads);
  e->thread = plan->groups == 1 ? thread : gen_and(b, thread, gen_i32(b, plan->threads - 1));
  e->group = plan->groups == 1 ? gen_i32(b, 0) : gen_lshr(b, thread, gen_i32(b, bits));
  e->part = NULL;
  if (plan->groups > 1 && plan->threads >= 32) e->group = gen_warp_uniform(b, e->group);
  if (plan->cluster > 1) {
    e->part = gen_cluster_ctarank(b);
    cta = gen_clusterid_x(b);
  } else if (plan->split > 1 && !e->k->lone_part) {
    e->part = gen_and(b, cta, gen_i32(b, plan->split - 1));
    cta = gen_lshr(b, cta, gen_i32(b, log2_of(plan->split)));
  }
  gen_value start = e->thread;
  if (e->part) start = gen_add(b, gen_mul_imm(b, e->part, plan->threads), start);
  e->start = to_index(e, start);
  return to_index(e, cta);
}

static void place_shared(row_emitter *e) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  int scratch = row_scratch_bytes(e->m, plan);
  if (scratch) e->scratch = gen_shared_static(b, "row_results", scratch, 16);
  if (plan->held != ROW_SHARED) return;
  int block = plan->threads * plan->groups;
  gen_value base = gen_shared_dynamic(b), thread = gen_tid_x(b);
  int64_t before = 0;
  for (int i = 0; i < e->m->form.n_accesses; i++) {
    if (!(e->m->kept >> i & 1)) continue;
    int bytes =
        dtype_bits(ir_tensor_dtype(e->m->form.problem, e->m->form.accesses[i].tensor)) / 8 * plan->vector;
    e->shared[i] = gen_add_imm(b, gen_add(b, base, gen_mul_imm(b, thread, bytes)), before);
    before += (int64_t)bytes * block * plan->shared_vectors;
  }
}

/* Where aligned vectors of a row begin: rows of tensors without gaps start `row * columns` elements behind an
 * aligned address. */
static void place_vectors(row_emitter *e, row_state *row) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  row->head = NULL;
  row->vectors = e->columns;
  if (plan->vector == 1) return;
  gen_value aligned = e->columns;
  if (plan->peel) {
    gen_value offset = gen_mul(b, row->row, e->columns);
    row->head = gen_and(b, gen_sub(b, row_index(e, 0), offset), row_index(e, plan->vector - 1));
    aligned = gen_sub(b, aligned, row->head);
  }
  row->vectors = gen_lshr(b, aligned, row_index(e, log2_of(plan->vector)));
}

/* The rows of this group in a turn of the CTA. */
static arke_status emit_turn(row_emitter *e, gen_value turn, arke_error *err) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  row_state *rows = ARENA_NEW_N(e->k->a, row_state, (size_t)plan->rows_at_once);
  if (!rows) return error_memory(err, "generate");
  gen_value first = turn;
  if (plan->groups > 1) first = gen_add(b, gen_mul_imm(b, turn, plan->groups), to_index(e, e->group));
  if (plan->rows_at_once > 1) first = gen_mul_imm(b, first, plan->rows_at_once);
  for (int u = 0; u < plan->rows_at_once; u++) {
    row_state *r = &rows[u];
    *r = (row_state){.e = e, .row = gen_add_imm(b, first, u)};
    /* Rows behind the last one compute that again, so that warps stay together, and store nothing. */
    if (plan->groups * plan->rows_at_once > 1) {
      r->valid = gen_compare(b, GEN_ULT, r->row, e->rows);
      r->row = gen_select(b, r->valid, r->row, gen_add_imm(b, e->rows, -1));
    }
    place_vectors(e, r);
  }
  return row_process(e, rows, plan->rows_at_once, err);
}

static arke_status emit_loop(row_emitter *e, gen_value first, arke_error *err) {
  gen_builder *b = e->b;
  const row_plan *plan = e->plan;
  bool turns = row_scratch_bytes(e->m, plan) > 0 && e->m->n_phases == 1, ahead = plan->held == ROW_AHEAD;
  gen_value carried[] = {first, gen_i32(b, 0), gen_i32(b, 0), gen_i32(b, 0)};
  gen_value step = to_index(e, gen_nctaid_x(b));
  gen_value each = row_index(e, (int64_t)plan->groups * plan->rows_at_once);
  if (ahead) row_ahead_start(e, first, step);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, ahead ? 4 : turns ? 2 : 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, gen_mul(b, carried[0], each), e->rows));
  e->turn = turns ? carried[1] : NULL;
  e->stage = carried[2];
  e->parity = carried[3];
  if (ahead) e->later = gen_add(b, carried[0], gen_mul_imm(b, step, plan->stages - 1));
  arke_status status = emit_turn(e, carried[0], err);
  carried[0] = gen_add(b, carried[0], step);
  carried[1] = gen_xor(b, carried[1], gen_i32(b, 1));
  if (ahead) row_ahead_advance(e, &carried[2], &carried[3]);
  gen_loop_end(b, &loop);
  return status;
}

arke_status row_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  const row_kernel *k = user;
  (void)t;
  row_emitter *e = ARENA_NEW(k->a, row_emitter);
  lanes *sizes;
  if (!e) return error_memory(err, "generate");
  *e = (row_emitter){.b = b, .k = k, .m = k->m, .plan = k->plan};
  e->index = k->plan->wide_offsets ? GEN_I64 : GEN_I32;
  gen_value first = place_thread(e);
  place_shared(e);
  TRY(lanes_create(b, &k->m->form, &k->options, &k->slots, k->a, &sizes, err));
  e->columns = lanes_extent(sizes, k->m->column);
  e->rows = gen_param(b, k->rows);
  for (int i = 0; i < k->m->n_reductions; i++) {
    const row_reduction *r = &k->m->reductions[i];
    if (r->maximum < 0) continue;
    gen_accuracy accuracy = lanes_accuracy(sizes, r->exponential);
    /* Of a term, but not of what rescales the sum so far. */
    e->accuracy[i] = accuracy == GEN_ACCURACY_TERM ? GEN_ACCURACY_FULL : accuracy;
  }
  /* A CTA must have started before others write to its shared memory. */
  if (k->plan->cluster > 1) gen_cluster_sync(b);
  if (k->plan->held == ROW_AHEAD) row_ahead_place(e);
  gen_launches_wait(b);
  /* CTAs that stay until the end must be as many on each SM: the next launch's would come wherever there is
   * room while these run, several to an SM that has ended early. */
  if (!k->plan->ctas_per_sm) gen_launches_release(b);
  return k->plan->ctas_per_sm ? emit_loop(e, first, err) : emit_turn(e, first, err);
}
