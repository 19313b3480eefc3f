/* O on its way out: registers → shared memory (stmatrix), in the place of the queries that it belongs to →
 * memory (TMA), while the group goes on to its next tile. A warp writes the rows that only its own products
 * have read. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"
#include "templates/lanes_pointer.h"

gen_value attention_chunk_at(gen_builder *b, gen_value row, gen_value chunk, int panel_bytes) {
  gen_value place = gen_xor(b, gen_and(b, chunk, gen_i32(b, 7)), gen_and(b, row, gen_i32(b, 7)));
  gen_value at = gen_add(b, gen_mul_imm(b, row, 128), gen_mul_imm(b, place, 16));
  return gen_add(b, at, gen_mul_imm(b, gen_lshr(b, chunk, gen_i32(b, 3)), panel_bytes));
}

/* Words of 16 columns at a time. */
void attention_put_words(gen_builder *b, gen_value thread, gen_value place, int panel_bytes, int columns,
                         const gen_value *words) {
  gen_value lane = gen_and(b, thread, gen_i32(b, 31)), warp = gen_lshr(b, thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  gen_value first = gen_add(b, place, gen_mul_imm(b, row, 128)), zero = gen_i32(b, 0);
  for (int block = 0; block * 16 < columns; block++) {
    bool whole = block * 16 + 16 <= columns;
    const gen_value *w = &words[4 * block];
    const gen_value fragments[] = {w[0], w[1], whole ? w[2] : zero, whole ? w[3] : zero};
    gen_value chunk = gen_mul_imm(b, gen_xor(b, phase, gen_i32(b, block % 4 * 2)), 16);
    gen_stmatrix_x4(b, gen_add_imm(b, gen_add(b, first, chunk), (int64_t)(block / 4) * panel_bytes),
                    fragments);
  }
}

/* The group's rows as far as they are of the tile's request, 16 bytes at a time: what follows is another's.
 */
static arke_status store_rows(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                              gen_value query, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  const attention_pack *pack = &e->p->pack;
  int chunks = e->p->sum_columns / 8;
  gen_loop loop;
  gen_branch inside;
  lanes *l;
  lanes_options o = e->p->scores; /* of pointers alone */
  TRY(lanes_create(b, &m->form, &o, &e->k->score_slots, e->k->a, &l, err));
  gen_value n[] = {rows->thread};
  gen_loop_begin(b, &loop, n, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, n[0], 64 * (int64_t)chunks));
  gen_value row = gen_udiv(b, n[0], gen_i32(b, chunks)), chunk = gen_urem(b, n[0], gen_i32(b, chunks)), to;
  gen_value from = attention_chunk_at(b, row, chunk, e->p->q.panel_bytes);
  gen_value head = NULL, exists;
  if (pack->loop >= 0) {
    head = gen_add(b, at->loops[pack->loop], gen_and(b, row, gen_i32(b, pack->heads - 1)));
    row = gen_udiv(b, row, gen_i32(b, pack->heads));
  }
  row = gen_add(b, query, row);
  exists = gen_compare(b, GEN_SLE, row, at->last);
  if (head) exists = gen_and(b, exists, gen_compare(b, GEN_SLE, head, at->last_head));
  gen_if(b, &inside, exists, NULL, 0);
  for (int i = 0; i < m->batch.n; i++)
    lanes_set(l, m->batch.loops[i], attention_index(e, at->loops[m->batch.loops[i]]));
  lanes_set(l, m->query, attention_index(e, row));
  if (head) lanes_set(l, pack->loop, attention_index(e, head));
  lanes_set(l, m->wide, attention_index(e, gen_add(b, rows->first_column, gen_mul_imm(b, chunk, 8))));
  TRY(lanes_pointer(l, m->o, &to, err));
  gen_store_global(b, gen_load_shared(b, GEN_I32, 4, gen_add(b, rows->place, from)), to);
  gen_if_end(b, &inside);
  n[0] = gen_add_imm(b, n[0], 128);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

arke_status attention_copy(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                           const gen_value *words, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  const ir_access *x = &m->form.accesses[m->o];
  gen_value query = at->first, to[GEN_TMA_MAX_RANK];
  int queries = 64 / e->p->pack.heads;
  if (e->p->halves == 1) query = gen_add(b, query, gen_mul_imm(b, rows->group, queries));
  gen_value barrier = gen_add_imm(b, rows->group, ATTENTION_GROUP_BARRIER);
  gen_branch leader, whole;
  /* The other group may still multiply the queries that are there. */
  if (e->p->halves == 2) gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), 128 * e->p->consumers);
  attention_put_words(b, rows->thread, rows->place, e->p->q.panel_bytes, e->p->sum_columns, words);
  gen_fence_async_shared(b);
  gen_named_sync(b, barrier, 128);
  gen_value exists = gen_compare(b, GEN_SLE, query, at->last);
  bool ragged = e->p->pack.loop >= 0 && !e->p->pack.whole;
  if (e->p->packed || ragged) {
    /* Behind the last row of all a copy stores nothing by itself. */
    gen_value after = gen_add_imm(b, at->last, 1);
    gen_value fits = gen_or(b, gen_compare(b, GEN_SLE, gen_add_imm(b, query, queries), after),
                            gen_compare(b, GEN_EQ, after, attention_extent(e, m->query)));
    if (ragged) {
      gen_value end = gen_add_imm(b, at->loops[e->p->pack.loop], e->p->pack.heads - 1);
      fits = gen_and(b, fits, gen_compare(b, GEN_SLE, end, at->last_head));
    }
    gen_if(b, &whole, gen_and(b, exists, gen_xor(b, fits, gen_bool(b, true))), NULL, 0);
    TRY(store_rows(e, at, rows, query, err));
    gen_named_sync(b, barrier, 128); /* before the place goes back */
    gen_if_end(b, &whole);
    exists = gen_and(b, exists, fits);
  }
  gen_if(b, &leader, gen_and(b, gen_compare_imm(b, GEN_EQ, rows->thread, 0), exists), NULL, 0);
  for (int s = 0; s < x->n; s++) {
    int loop = x->subscripts[s].e->id;
    to[attention_map_dimension(e->p, m->o, s)] = loop == m->query  ? query
                                                 : loop == m->wide ? gen_i32(b, 0)
                                                                   : at->loops[loop];
  }
  for (int panel = 0; panel * 64 < e->p->sum_columns; panel++) {
    to[0] = gen_add_imm(b, rows->first_column, (int64_t)panel * 64);
    gen_tma_store(b, e->map_o, to, x->n, gen_add_imm(b, rows->place, (int64_t)panel * e->p->q.panel_bytes));
  }
  gen_tma_store_commit(b);
  gen_if_end(b, &leader);
  return ARKE_OK;
}
