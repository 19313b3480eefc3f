/* A CTA's candidates in shared memory: what is not below the bound is added; when the next step might not
 * fit, and at the end, the best k stay and the bound is theirs. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/topk.h"

typedef struct buffer_kernel {
  topk_kernel k;
  gen_value base, spare, count; /* shared addresses: items, the place they are moved to and back, how many */
  topk_item bound;
} buffer_kernel;

static gen_value is_first_thread(buffer_kernel *f) {
  return gen_compare_imm(f->k.b, GEN_EQ, gen_tid_x(f->k.b), 0);
}

static void set_count(buffer_kernel *f, gen_value count) {
  gen_branch first;
  gen_if(f->k.b, &first, is_first_thread(f), NULL, 0);
  gen_store_shared(f->k.b, count, f->count);
  gen_if_end(f->k.b, &first);
}

/* Adds what passes of a vector; a warp takes its places at once. */
static void take_vector(buffer_kernel *f, int s) {
  topk_kernel *k = &f->k;
  gen_builder *b = k->b;
  int n_lanes = topk_vector_lanes(k);
  gen_value pass[LANES_MAX], mask[LANES_MAX];
  topk_item x[LANES_MAX];
  gen_branch some, mine;
  gen_if(b, &some, gen_warp_any(b, topk_some_may_pass(k, s, f->bound)), NULL, 0);
  gen_value total = gen_i32(b, 0), below = gen_lanes_below(b);
  for (int v = 0; v < n_lanes; v++) {
    x[v] = topk_candidate(k, s, v);
    gen_value less = topk_item_above(b, f->bound, x[v]);
    pass[v] = gen_and(b, topk_may_pass(k, s, v, f->bound), gen_xor(b, less, gen_bool(b, true)));
    mask[v] = gen_ballot(b, pass[v]);
    total = gen_add(b, total, gen_popcount(b, mask[v]));
  }
  gen_value place[] = {gen_i32(b, 0)};
  gen_if(b, &mine, gen_compare_imm(b, GEN_EQ, k->lane, 0), place, 1);
  place[0] = gen_fetch_update_shared(b, GEN_UPDATE_ADD, f->count, total);
  gen_if_end(b, &mine);
  gen_value at = gen_shuffle_idx(b, place[0], gen_i32(b, 0), 32);
  for (int v = 0; v < n_lanes; v++) {
    gen_if(b, &mine, pass[v], NULL, 0);
    gen_value own = gen_add(b, at, gen_popcount(b, gen_and(b, mask[v], below)));
    topk_item_store_shared(b, x[v], f->base, k->p->buffer, own);
    gen_if_end(b, &mine);
    at = gen_add(b, at, gen_popcount(b, mask[v]));
  }
  gen_if_end(b, &some);
}

/* Moves what is not below the bound to the spare place and back to the front. */
static void keep_best(buffer_kernel *f, gen_value count) {
  topk_kernel *k = &f->k;
  gen_builder *b = k->b;
  bool wide = k->p->wide_item;
  gen_value carried[] = {gen_tid_x(b)};
  gen_loop loop;
  gen_branch mine;
  set_count(f, gen_i32(b, 0));
  gen_cta_sync(b);
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], count));
  topk_item x = topk_item_load_shared(b, wide, f->base, k->p->buffer, carried[0]);
  gen_value less = topk_item_above(b, f->bound, x);
  gen_if(b, &mine, gen_xor(b, less, gen_bool(b, true)), NULL, 0);
  gen_value place = gen_fetch_update_shared(b, GEN_UPDATE_ADD, f->count, gen_i32(b, 1));
  topk_item_store_shared(b, x, f->spare, k->p->keep, place);
  gen_if_end(b, &mine);
  carried[0] = gen_add_imm(b, carried[0], k->p->threads);
  gen_loop_end(b, &loop);
  gen_cta_sync(b);
  carried[0] = gen_tid_x(b);
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], k->winners));
  x = topk_item_load_shared(b, wide, f->spare, k->p->keep, carried[0]);
  topk_item_store_shared(b, x, f->base, k->p->buffer, carried[0]);
  carried[0] = gen_add_imm(b, carried[0], k->p->threads);
  gen_loop_end(b, &loop);
  gen_cta_sync(b);
}

/* One step; carried[0] is its first candidate. */
static arke_status step(buffer_kernel *f, gen_value *carried, arke_error *err) {
  topk_kernel *k = &f->k;
  gen_builder *b = k->b;
  int each = topk_vector_lanes(k) * k->p->sharers * k->p->strips;
  gen_branch full;
  f->bound = topk_item_of(k->p->wide_item, carried + 1);
  TRY(topk_load(k, carried[0], false, err));
  for (int s = 0; s < k->p->strips; s++) TRY(topk_compute(k, s, err));
  for (int s = 0; s < k->p->strips; s++) take_vector(f, s);
  carried[0] = gen_add_imm(b, carried[0], each);
  gen_cta_sync(b);
  gen_value count = gen_load_shared(b, GEN_I32, 1, f->count);
  gen_value ends = gen_compare(b, GEN_UGE, carried[0], k->end);
  gen_value most = gen_select(b, ends, k->winners, gen_i32(b, k->p->buffer - each));
  gen_cta_sync(b); /* nobody adds before all have looked */
  int n = topk_item_values(f->bound, carried + 1);
  gen_if(b, &full, gen_compare(b, GEN_ULT, most, count), carried + 1, n);
  f->bound = topk_select_bound(k, f->base, count);
  keep_best(f, count);
  topk_item_values(f->bound, carried + 1);
  gen_if_end(b, &full);
  return ARKE_OK;
}

static arke_status store_winners(buffer_kernel *f, arke_error *err) {
  topk_kernel *k = &f->k;
  gen_builder *b = k->b;
  topk_item items[TOPK_MOST / 32];
  gen_value count = gen_load_shared(b, GEN_I32, 1, f->count);
  topk_sort_shared(k, f->base, k->p->buffer, count, items);
  gen_value mine = gen_compare_imm(b, GEN_ULT, gen_tid_x(b), k->p->keep);
  for (int e = 0; e * k->p->threads < k->p->keep; e++)
    TRY(topk_store(k, items[e], gen_add_imm(b, gen_tid_x(b), e * k->p->threads), mine, err));
  return ARKE_OK;
}

arke_status topk_emit_buffer(gen_builder *b, const target *t, void *user, arke_error *err) {
  const topk_emitter *e = user;
  (void)t;
  buffer_kernel *f = ARENA_NEW(e->a, buffer_kernel);
  if (!f) return error_memory(err, "generate");
  TRY(topk_begin(&f->k, b, e, err));
  topk_kernel *k = &f->k;
  topk_layout at = topk_layout_of(k->p);
  gen_value cta = gen_ctaid_x(b), split = gen_i32(b, k->p->split);
  bool is_split = e->to_keys >= 0;
  topk_set_row(k, is_split ? gen_udiv(b, cta, split) : cta, is_split ? gen_urem(b, cta, split) : NULL);
  f->base = gen_shared_dynamic(b);
  f->spare = gen_add_imm(b, f->base, at.spare);
  f->count = gen_add_imm(b, f->base, at.count);
  set_count(f, gen_i32(b, 0));
  gen_cta_sync(b);
  gen_value carried[3] = {k->begin};
  int n = topk_item_values(topk_item_none(b, k->m), carried + 1);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], k->end));
  TRY(step(f, carried, err));
  gen_loop_end(b, &loop);
  return store_winners(f, err);
}
