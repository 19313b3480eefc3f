/* Passes over the columns of rows: what a thread loads, holds, reduces and stores. A pass makes the
 * reductions of one phase and stores what earlier phases made known. */
#include "templates/row_emit.h"

/* Both conditions; either may be NULL. */
static gen_value both(gen_builder *b, gen_value x, gen_value y) {
  return x && y ? gen_and(b, x, y) : x ? x : y;
}

/* --- what a pass does --- */

static bool reduces(const row_match *m, int pass) {
  for (int i = 0; i < m->n_reductions; i++)
    if (m->reductions[i].phase == pass) return true;
  return false;
}

static bool stores_elements(const row_match *m, int pass) {
  for (int i = 0; i < m->form.n_outputs; i++)
    if (m->outputs[i].by_element && m->outputs[i].phase == pass) return true;
  return false;
}

static arke_status store_elements(row_chunk *c, int pass, arke_error *err) {
  const row_match *m = c->row->e->m;
  for (int i = 0; i < m->form.n_outputs; i++) {
    if (!m->outputs[i].by_element || m->outputs[i].phase != pass) continue;
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(c->l, m->form.outputs[i].value, values, &n, err));
    TRY(lanes_store(c->l, i, values, n, both(c->row->e->b, c->active, c->row->valid), err));
  }
  return ARKE_OK;
}

/* By one thread of the row. */
static arke_status store_of_row(row_state *row, int pass, arke_error *err) {
  row_emitter *e = row->e;
  const row_match *m = e->m;
  gen_builder *b = e->b;
  for (int i = 0; i < m->form.n_outputs; i++) {
    if (m->outputs[i].by_element || m->outputs[i].phase != pass) continue;
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(row->whole, m->form.outputs[i].value, values, &n, err));
    gen_value active = gen_compare_imm(b, GEN_EQ, e->thread, 0);
    if (e->plan->threads == 1) active = NULL;
    if (e->part) active = both(b, active, gen_compare_imm(b, GEN_EQ, e->part, 0));
    TRY(lanes_store(row->whole, i, values, n, both(b, active, row->valid), err));
  }
  return ARKE_OK;
}

static arke_status exchange(row_emitter *e, int phase, row_state *rows, int n, arke_error *err) {
  TRY(row_exchange(e, phase, rows, n, err));
  for (int u = 0; u < n; u++) {
    for (int i = 0; i < e->m->n_reductions; i++) {
      const row_reduction *r = &e->m->reductions[i];
      if (r->phase == phase) rows[u].results[i] = row_result(e, r, &rows[u].partial[i]);
    }
  }
  return ARKE_OK;
}

/* --- rows held in registers --- */

typedef struct held_row {
  row_chunk *chunks[ROW_MOST_ELEMENTS];
  int n;
} held_row;

static arke_status hold(row_emitter *e, row_state *row, held_row *held, arke_error *err) {
  const row_plan *plan = e->plan;
  uint64_t accesses = 0, given = row_ahead(e->m, plan);
  for (int p = e->k->first_pass; p <= e->k->last_pass; p++) accesses |= e->m->pass_reads[p];
  for (int i = 0; i < plan->vectors; i++) {
    gen_value vector = gen_add_imm(e->b, e->start, (int64_t)i * row_team(plan));
    bool guarded = !plan->exact && (plan->peel || i == plan->vectors - 1);
    TRY(row_vector_chunk(row, vector, guarded, given, &held->chunks[held->n++], err));
  }
  if (plan->peel) TRY(row_edge_chunk(row, &held->chunks[held->n++], err));
  for (int i = 0; i < held->n; i++) TRY(row_load(e, held->chunks[i]->l, accesses, 0, err));
  return ARKE_OK;
}

static void narrow_held(held_row *held) {
  for (int i = 0; i < held->n; i++) lanes_narrow(held->chunks[i]->l);
}

static arke_status pass_held(row_emitter *e, int pass, row_state *row, held_row *held, arke_error *err) {
  if (reduces(e->m, pass)) TRY(row_accumulate(e, pass, held->chunks, held->n, true, row->partial, err));
  for (int i = 0; i < held->n; i++) TRY(store_elements(held->chunks[i], pass, err));
  return ARKE_OK;
}

/* --- rows that are walked for each pass --- */

/* The values that loops carry: partial results of a phase. */
static int gather(row_emitter *e, int phase, row_state *row, gen_value *values, bool scatter) {
  int n = 0;
  for (int i = 0; i < e->m->n_reductions; i++) {
    const row_reduction *r = &e->m->reductions[i];
    if (r->phase != phase) continue;
    gen_value *parts[] = {&row->partial[i].v, &row->partial[i].at};
    for (int k = 0; k < row_components(r); k++, n++) {
      if (scatter) {
        *parts[k] = values[n];
      } else {
        values[n] = *parts[k];
      }
    }
  }
  return n;
}

/* `n` vectors, loaded before any is used. `held` (i32): number of the first among the thread's. */
static arke_status walk_block(row_emitter *e, int pass, row_state *row, gen_value first, gen_value held,
                              int n, bool guarded, arke_error *err) {
  const row_match *m = e->m;
  gen_builder *b = e->b;
  uint64_t given = row_kept_before(e, pass), reads = m->pass_reads[pass];
  row_chunk *chunks[ROW_MOST_ELEMENTS];
  for (int i = 0; i < n; i++) {
    gen_value vector = gen_add_imm(b, first, (int64_t)i * row_team(e->plan));
    TRY(row_vector_chunk(row, vector, guarded, given, &chunks[i], err));
    chunks[i]->held = gen_add_imm(b, held, i);
    TRY(row_load(e, chunks[i]->l, reads, pass, err));
  }
  if (e->plan->held == ROW_SHARED) {
    for (int i = 0; i < n; i++) TRY(row_keep(chunks[i], reads & m->kept & ~given, err));
  }
  if (reduces(m, pass)) TRY(row_accumulate(e, pass, chunks, n, false, row->partial, err));
  for (int i = 0; i < n; i++) TRY(store_elements(chunks[i], pass, err));
  return ARKE_OK;
}

/* Vector by vector, from the thread's `first` on, its `held`-th (i32): nothing is loaded that is not there.
 */
static arke_status walk_singly(row_emitter *e, int pass, row_state *row, gen_value first, gen_value held,
                               arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[2 * ROW_MAX_REDUCTIONS + 2];
  int n = gather(e, pass, row, carried, false);
  carried[n] = first;
  carried[n + 1] = held;
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, n + 2);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[n], row->vectors));
  gather(e, pass, row, carried, true);
  arke_status status = walk_block(e, pass, row, carried[n], carried[n + 1], 1, false, err);
  gather(e, pass, row, carried, false);
  carried[n] = gen_add_imm(b, carried[n], row_team(e->plan));
  carried[n + 1] = gen_add_imm(b, carried[n + 1], 1);
  gen_loop_end(b, &loop);
  gather(e, pass, row, carried, true);
  return status;
}

/* What is left behind whole blocks, `done` vectors of all threads: as a block whose vectors may not be there.
 */
static arke_status walk_rest(row_emitter *e, int pass, row_state *row, gen_value done, gen_value held,
                             arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[2 * ROW_MAX_REDUCTIONS], first = gen_add(b, done, e->start);
  if (e->m->in_place) return walk_singly(e, pass, row, first, held, err);
  int n = gather(e, pass, row, carried, false);
  gen_branch rest;
  gen_if(b, &rest, gen_compare(b, GEN_ULT, done, row->vectors), carried, n);
  arke_status status = walk_block(e, pass, row, first, held, e->plan->vectors, true, err);
  gather(e, pass, row, carried, false);
  gen_if_end(b, &rest);
  gather(e, pass, row, carried, true);
  return status;
}

/* Whole blocks without a guard, then the rest. */
static arke_status walk_blocks(row_emitter *e, int pass, row_state *row, arke_error *err) {
  gen_builder *b = e->b;
  int vectors = e->plan->vectors;
  gen_value block = row_index(e, (int64_t)row_team(e->plan) * vectors);
  gen_value carried[2 * ROW_MAX_REDUCTIONS + 2];
  int n = gather(e, pass, row, carried, false);
  carried[n] = row_index(e, 0);   /* vectors done by all threads */
  carried[n + 1] = gen_i32(b, 0); /* by this one */
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, n + 2);
  gen_value after = gen_add(b, carried[n], block);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULE, after, row->vectors));
  gather(e, pass, row, carried, true);
  gen_value first = gen_add(b, carried[n], e->start);
  arke_status status = walk_block(e, pass, row, first, carried[n + 1], vectors, false, err);
  gather(e, pass, row, carried, false);
  carried[n] = after;
  carried[n + 1] = gen_add_imm(b, carried[n + 1], vectors);
  gen_loop_end(b, &loop);
  gather(e, pass, row, carried, true);
  TRY(status);
  return walk_rest(e, pass, row, carried[n], carried[n + 1], err);
}

static arke_status pass_walked(row_emitter *e, int pass, row_state *row, row_chunk *edge, arke_error *err) {
  for (int i = 0; i < e->m->n_reductions; i++)
    if (e->m->reductions[i].phase == pass) row->partial[i] = row_identity(e, &e->m->reductions[i]);
  if (e->plan->any_view) {
    TRY(walk_singly(e, pass, row, e->start, gen_i32(e->b, 0), err));
  } else {
    TRY(walk_blocks(e, pass, row, err));
  }
  if (!edge) return ARKE_OK;
  if (reduces(e->m, pass)) TRY(row_accumulate(e, pass, &edge, 1, false, row->partial, err));
  return store_elements(edge, pass, err);
}

/* --- all passes --- */

arke_status row_process(row_emitter *e, row_state *rows, int n, arke_error *err) {
  const row_kernel *k = e->k;
  bool in_registers = row_in_registers(e->plan);
  held_row *held = ARENA_NEW_N(k->a, held_row, (size_t)n);
  row_chunk *edge = NULL;
  if (!held) return error_memory(err, "generate");
  if (e->plan->held == ROW_AHEAD) row_ahead_wait(e);
  for (int u = 0; u < n && in_registers && !k->lone_part; u++) TRY(hold(e, &rows[u], &held[u], err));
  if (!in_registers && e->plan->peel) {
    TRY(row_edge_chunk(rows, &edge, err));
    for (int p = k->first_pass; p <= k->last_pass; p++)
      TRY(row_load(e, edge->l, e->m->pass_reads[p], 0, err));
  }
  for (int u = 0; u < n; u++) TRY(row_whole(e, &rows[u], err));
  for (int phase = 0; phase < k->first_pass; phase++) {
    TRY(row_collect(e, phase, rows, err));
    for (int i = 0; i < e->m->n_reductions; i++) {
      const row_reduction *r = &e->m->reductions[i];
      if (r->phase == phase) rows->results[i] = row_result(e, r, &rows->partial[i]);
    }
  }
  for (int pass = k->first_pass; pass <= k->last_pass; pass++) {
    bool columns = reduces(e->m, pass) || stores_elements(e->m, pass);
    for (int u = 0; u < n && columns; u++) {
      if (in_registers) {
        TRY(pass_held(e, pass, &rows[u], &held[u], err));
      } else {
        TRY(pass_walked(e, pass, &rows[u], edge, err));
      }
    }
    for (int u = 0; u < n; u++) TRY(store_of_row(&rows[u], pass, err));
    if (!reduces(e->m, pass)) continue;
    if (e->plan->split == 1) {
      TRY(exchange(e, pass, rows, n, err));
      if (pass == 0 && e->plan->held == ROW_AHEAD) row_ahead_refill(e);
      for (int u = 0; u < n && e->plan->narrow; u++) narrow_held(&held[u]);
      continue;
    }
    TRY(row_exchange(e, pass, rows, n, err));
    TRY(row_publish(e, pass, rows, err));
  }
  return ARKE_OK;
}
