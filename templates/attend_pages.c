/* A table of pages is read when a length is there, and pages when the table is: three times the latency of
 * memory, one after the other. The lines of the table are asked for while the length is on the way. */
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "templates/attend.h"
#include "templates/lanes_pointer.h"

enum { LINE_BYTES = 128, MOST_KEYS = 1 << 30 };

/* Keys whose pages stand in one line of the table; 0: there is none, or it is no table of numbers. */
static int64_t keys_of_line(const attention_match *m, const attention_read *r) {
  int64_t page;
  if (r->keys != ATTENTION_KEYS_PAGED || r->table < 0 || !lanes_static_value(&m->form, r->page, &page))
    return 0;
  int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[r->table].tensor));
  return page > 0 && page < MOST_KEYS / LINE_BYTES ? LINE_BYTES * 8 / bits * page : 0;
}

static arke_status ask_for(attend_emitter *e, int tile, const attention_read *r, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  int64_t each = keys_of_line(m, r);
  lanes_options o = e->p->tiles[tile].options;
  gen_value address;
  gen_branch some;
  lanes *l;
  if (each == 0) return ARKE_OK;
  o.user = e;
  o.reduce = attend_group_value;
  TRY(lanes_create(b, &m->form, &o, &e->k->tile_slots[tile], e->k->a, &l, err));
  /* A thread has a line; of a longer table the first ones are asked for. */
  gen_value key = gen_mul_imm(b, e->thread, each),
            is_first = gen_compare_imm(b, GEN_ULT, e->thread, MOST_KEYS / each);
  gen_value is_there = gen_compare(b, GEN_ULT, key, attend_extent(e, m->key));
  gen_if(b, &some, gen_and(b, is_first, is_there), NULL, 0);
  attend_set_row(e, l, &e->row);
  lanes_set(l, m->key, attend_index(e, key));
  TRY(lanes_pointer(l, r->table, &address, err));
  gen_prefetch_l2(b, address);
  gen_if_end(b, &some);
  return ARKE_OK;
}

arke_status attend_ask_for_pages(attend_emitter *e, arke_error *err) {
  const attention_match *m = e->m;
  if (!e->p->copied) return ARKE_OK;
  TRY(ask_for(e, ATTEND_K, &m->parts[0].k, err));
  bool same = m->v.table == m->parts[0].k.table;
  return same || !e->p->tiles[ATTEND_V].present ? ARKE_OK : ask_for(e, ATTEND_V, &m->v, err);
}
