/* O on its way out: registers → shared memory (stmatrix), in the place of the queries that it belongs to →
 * memory (TMA), while the group goes on to its next tile. A warp writes the rows that only its own products
 * have read. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"

enum { FIRST_BARRIER = 4 }; /* named ones, a group each; those before are turns */

/* Words of 16 columns at a time. */
static void put_words(attention_emitter *e, const attention_rows *rows, const gen_value *words) {
  gen_builder *b = e->b;
  const attention_tile *v = &e->p->v;
  gen_value lane = gen_and(b, rows->thread, gen_i32(b, 31)), warp = gen_lshr(b, rows->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  gen_value first = gen_add(b, rows->shared, gen_mul_imm(b, row, 128)), zero = gen_i32(b, 0);
  for (int block = 0; block * 16 < v->columns; block++) {
    bool whole = block * 16 + 16 <= v->columns;
    const gen_value *w = &words[4 * block];
    const gen_value fragments[] = {w[0], w[1], whole ? w[2] : zero, whole ? w[3] : zero};
    gen_value chunk = gen_mul_imm(b, gen_xor(b, phase, gen_i32(b, block % 4 * 2)), 16);
    gen_stmatrix_x4(b, gen_add_imm(b, gen_add(b, first, chunk), (int64_t)(block / 4) * e->p->q.panel_bytes),
                    fragments);
  }
}

void attention_copy(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                    const gen_value *words) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  const ir_access *x = &m->form.accesses[m->o];
  gen_value query = gen_add(b, at->first, gen_mul_imm(b, rows->group, 64)), to[GEN_TMA_MAX_RANK];
  gen_branch leader;
  put_words(e, rows, words);
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_add_imm(b, rows->group, FIRST_BARRIER), 128);
  gen_value exists = gen_compare(b, GEN_SLE, query, at->last);
  gen_if(b, &leader, gen_and(b, gen_compare_imm(b, GEN_EQ, rows->thread, 0), exists), NULL, 0);
  for (int s = 0; s < x->n; s++) {
    int loop = x->subscripts[s].e->id;
    to[x->n - 1 - s] = loop == m->query ? query : loop == m->wide ? gen_i32(b, 0) : at->loops[loop];
  }
  for (int panel = 0; panel < e->p->v.panels; panel++) {
    to[0] = gen_i32(b, (int64_t)panel * 64);
    gen_tma_store(b, e->map_o, to, x->n, gen_add_imm(b, rows->shared, (int64_t)panel * e->p->q.panel_bytes));
  }
  gen_tma_store_commit(b);
  gen_if_end(b, &leader);
}
