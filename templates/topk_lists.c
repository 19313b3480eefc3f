/* A warp's best 32 items in order, one a lane, and what waits to be merged with them. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/topk.h"

/* One exchange of a sorting network: lanes whose `upper` bit is set get the larger item of the two that lie
 * `distance` apart. */
static topk_item exchange(gen_builder *b, topk_item x, int distance, gen_value upper) {
  topk_item other = topk_item_shuffle_xor(b, x, distance);
  gen_value swap = gen_xor(b, topk_item_above(b, x, other), upper);
  return topk_item_select(b, swap, other, x);
}

static gen_value bit(gen_builder *b, gen_value lane, int mask) {
  return gen_compare_imm(b, GEN_NE, gen_and(b, lane, gen_i32(b, mask)), 0);
}

topk_item topk_sort_up(gen_builder *b, topk_item x) {
  gen_value lane = gen_laneid(b);
  for (int size = 2; size <= TOPK_LIST; size *= 2) {
    for (int d = size / 2; d >= 1; d /= 2) {
      gen_value larger = bit(b, lane, d); /* upwards, and where bit `size` is set downwards */
      if (size < TOPK_LIST) larger = gen_xor(b, larger, bit(b, lane, size));
      x = exchange(b, x, d, larger);
    }
  }
  return x;
}

topk_item topk_merge(gen_builder *b, topk_item list, topk_item other) {
  gen_value lane = gen_laneid(b), yes = gen_bool(b, true);
  /* One falls and one rises, so the larger of each pair are the 32 best, and fall and rise once. */
  list = topk_item_select(b, topk_item_above(b, other, list), other, list);
  for (int d = TOPK_LIST / 2; d >= 1; d /= 2) list = exchange(b, list, d, gen_xor(b, bit(b, lane, d), yes));
  return list;
}

/* The state of a warp: carried through loops and branches as values. */
typedef struct lists_kernel {
  topk_kernel k;
  gen_value waiting; /* shared address of the warp's waiting items */
  int capacity;
  gen_value state[5]; /* list (1 or 2 values), what an item must be above (1 or 2), how many wait */
  int n_item;
} lists_kernel;

static topk_item list_of(const lists_kernel *l) {
  return topk_item_of(l->k.p->wide_item, l->state);
}

static topk_item bound_of(const lists_kernel *l) {
  return topk_item_of(l->k.p->wide_item, l->state + l->n_item);
}

static gen_value *count_of(lists_kernel *l) {
  return &l->state[2 * l->n_item];
}

static int n_state(const lists_kernel *l) {
  return 2 * l->n_item + 1;
}

/* The bound never falls: the first step's may be above a list that is not full yet. */
static void set_list(lists_kernel *l, topk_item list) {
  gen_builder *b = l->k.b;
  topk_item last = topk_item_from_lane(b, list, gen_add_imm(b, l->k.winners, -1)), bound = bound_of(l);
  topk_item_values(list, l->state);
  topk_item_values(topk_item_select(b, topk_item_above(b, last, bound), last, bound), l->state + l->n_item);
}

/* Takes 32 of those that wait into the list, as often as there are so many. */
static void merge_waiting(lists_kernel *l) {
  gen_builder *b = l->k.b;
  gen_loop loop;
  gen_loop_begin(b, &loop, l->state, n_state(l));
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_UGE, *count_of(l), TOPK_LIST));
  *count_of(l) = gen_add_imm(b, *count_of(l), -TOPK_LIST);
  topk_item x = topk_item_load_shared(b, l->k.p->wide_item, l->waiting, l->capacity,
                                      gen_add(b, *count_of(l), l->k.lane));
  set_list(l, topk_merge(b, list_of(l), topk_sort_up(b, x)));
  gen_loop_end(b, &loop);
  gen_warp_sync(b);
}

/* An element of the warp's vectors that may pass: it waits where it does. */
static void take_element(lists_kernel *l, int s, int v, gen_value below) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_value may = topk_may_pass(k, s, v, bound_of(l));
  gen_branch some, mine;
  gen_if(b, &some, gen_warp_any(b, may), count_of(l), 1);
  topk_item x = topk_candidate(k, s, v);
  gen_value pass = gen_and(b, may, topk_item_above(b, x, bound_of(l))), mask = gen_ballot(b, pass);
  gen_if(b, &mine, pass, NULL, 0);
  gen_value at = gen_add(b, *count_of(l), gen_popcount(b, gen_and(b, mask, below)));
  topk_item_store_shared(b, x, l->waiting, l->capacity, at);
  gen_if_end(b, &mine);
  *count_of(l) = gen_add(b, *count_of(l), gen_popcount(b, mask));
  gen_if_end(b, &some);
}

/* Afterwards fewer than 32 wait, so that there is room for another vector. */
static void take_vector(lists_kernel *l, int s) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_branch some;
  gen_if(b, &some, gen_warp_any(b, topk_some_may_pass(k, s, bound_of(l))), l->state, n_state(l));
  gen_value below = gen_lanes_below(b);
  for (int v = 0; v < topk_vector_lanes(k); v++) take_element(l, s, v, below);
  gen_warp_sync(b);
  merge_waiting(l);
  gen_if_end(b, &some);
}

/* In the first step nothing bounds the list yet, and all would pass. But the k best lanes have an element
 * each that is not below the k-th best lane's largest: that bounds it. */
static void bound_first_step(lists_kernel *l, gen_value base) {
  gen_builder *b = l->k.b;
  gen_branch first;
  gen_if(b, &first, gen_compare(b, GEN_EQ, base, l->k.begin), l->state + l->n_item, l->n_item);
  topk_item sorted = topk_sort_up(b, topk_thread_most(&l->k));
  gen_value lane = gen_sub(b, gen_i32(b, TOPK_LIST), l->k.winners);
  topk_item_values(topk_item_from_lane(b, sorted, lane), l->state + l->n_item);
  gen_if_end(b, &first);
}

static arke_status take_step(lists_kernel *l, gen_value base, arke_error *err) {
  topk_kernel *k = &l->k;
  TRY(topk_load(k, base, err));
  for (int s = 0; s < k->p->strips; s++) TRY(topk_compute(k, s, err));
  bound_first_step(l, base);
  for (int s = 0; s < k->p->strips; s++) take_vector(l, s);
  return ARKE_OK;
}

static arke_status take_candidates(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_value carried[1 + COUNT_OF(l->state)];
  int n = n_state(l);
  gen_loop loop;
  carried[0] = k->begin;
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], k->end));
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  TRY(take_step(l, carried[0], err));
  carried[0] = gen_add_imm(b, carried[0], topk_vector_lanes(k) * k->p->sharers * k->p->strips);
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_end(b, &loop);
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  /* The rest that waits, filled up with nothing. */
  topk_item rest = topk_item_none(b, k->m);
  gen_value values[2], waits = gen_compare(b, GEN_ULT, k->lane, *count_of(l));
  gen_branch some;
  int n_item = topk_item_values(rest, values);
  gen_if(b, &some, waits, values, n_item);
  rest = topk_item_load_shared(b, k->p->wide_item, l->waiting, l->capacity, k->lane);
  topk_item_values(rest, values);
  gen_if_end(b, &some);
  set_list(l, topk_merge(b, list_of(l), topk_sort_up(b, topk_item_of(k->p->wide_item, values))));
  return ARKE_OK;
}

static gen_value waiting_of(lists_kernel *l, gen_value warp) {
  gen_builder *b = l->k.b;
  return gen_add(b, gen_shared_dynamic(b), gen_mul_imm(b, warp, topk_layout_of(l->k.p).waiting_bytes));
}

/* The first warp merges the lists of all. */
static arke_status merge_warps(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_branch first;
  gen_loop loop;
  gen_warp_sync(b);
  topk_item_store_shared(b, list_of(l), l->waiting, l->capacity, k->lane);
  gen_cta_sync(b);
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, k->warp, 0), NULL, 0);
  gen_value carried[3] = {gen_i32(b, 1)};
  for (int i = 0; i < l->n_item; i++) carried[1 + i] = l->state[i];
  gen_loop_begin(b, &loop, carried, 1 + l->n_item);
  gen_value turned = gen_sub(b, gen_i32(b, TOPK_LIST - 1), k->lane); /* lists fall; one must rise */
  topk_item other = topk_item_load_shared(b, k->p->wide_item, waiting_of(l, carried[0]), l->capacity, turned);
  topk_item_values(topk_merge(b, topk_item_of(k->p->wide_item, carried + 1), other), carried + 1);
  carried[0] = gen_add_imm(b, carried[0], 1);
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], k->p->warps));
  arke_status status =
      topk_store(k, topk_item_of(k->p->wide_item, carried + 1), k->lane, gen_bool(b, true), err);
  gen_if_end(b, &first);
  return status;
}

static arke_status select_row(lists_kernel *l, arke_error *err) {
  gen_builder *b = l->k.b;
  topk_item none = topk_item_none(b, l->k.m);
  l->n_item = topk_item_values(none, l->state);
  topk_item_values(none, l->state + l->n_item);
  *count_of(l) = gen_i32(b, 0);
  TRY(take_candidates(l, err));
  if (l->k.p->select == TOPK_BY_LISTS && l->k.p->warps > 1) return merge_warps(l, err);
  return topk_store(&l->k, list_of(l), l->k.lane, gen_bool(b, true), err);
}

arke_status topk_emit_lists(gen_builder *b, const target *t, void *user, arke_error *err) {
  const topk_emitter *e = user;
  (void)t;
  lists_kernel *l = ARENA_NEW(e->a, lists_kernel);
  if (!l) return error_memory(err, "generate");
  TRY(topk_begin(&l->k, b, e, err));
  const topk_plan *p = l->k.p;
  l->capacity = topk_layout_of(p).waiting_bytes / topk_item_bytes(p->wide_item);
  l->waiting = waiting_of(l, l->k.warp);
  gen_value cta = gen_ctaid_x(b);
  if (p->select == TOPK_BY_LISTS) {
    bool split = e->to_keys >= 0;
    topk_set_row(&l->k, split ? gen_udiv(b, cta, gen_i32(b, p->split)) : cta,
                 split ? gen_urem(b, cta, gen_i32(b, p->split)) : NULL);
    return select_row(l, err);
  }
  gen_value row = gen_add(b, gen_mul_imm(b, cta, p->warps), l->k.warp);
  gen_branch inside;
  gen_if(b, &inside, gen_compare(b, GEN_ULT, row, gen_param(b, e->rows)), NULL, 0);
  topk_set_row(&l->k, row, NULL);
  arke_status status = select_row(l, err);
  gen_if_end(b, &inside);
  return status;
}
