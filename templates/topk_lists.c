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
  gen_value waiting; /* shared address of the warp's waiting items, and of the positions that wait */
  gen_value queue;
  int capacity;
  /* List (1 or 2 values), what an item must be above (1 or 2), how many items wait, how many positions wait,
   * the largest value of the lane so far. */
  gen_value state[7];
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

static gen_value *queued_of(lists_kernel *l) {
  return &l->state[2 * l->n_item + 1];
}

static gen_value *most_of(lists_kernel *l) {
  return &l->state[2 * l->n_item + 2];
}

static int n_state(const lists_kernel *l) {
  return 2 * l->n_item + 3;
}

/* The bound never falls: what is known of lanes may be above a list that is not full yet. */
static void raise_bound(lists_kernel *l, topk_item x) {
  gen_builder *b = l->k.b;
  topk_item bound = bound_of(l);
  topk_item_values(topk_item_select(b, topk_item_above(b, x, bound), x, bound), l->state + l->n_item);
}

static void set_list(lists_kernel *l, topk_item list) {
  gen_builder *b = l->k.b;
  topk_item_values(list, l->state);
  raise_bound(l, topk_item_from_lane(b, list, gen_add_imm(b, l->k.winners, -1)));
}

/* The k best lanes have an item each that is not below the k-th best lane's: that bounds the list. */
static void raise_bound_by_lanes(lists_kernel *l, topk_item each) {
  gen_builder *b = l->k.b;
  topk_item sorted = topk_sort_up(b, each);
  raise_bound(l, topk_item_from_lane(b, sorted, gen_sub(b, gen_i32(b, TOPK_LIST), l->k.winners)));
}

/* --- items --- */

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
  gen_builder *b = l->k.b;
  gen_value below = gen_lanes_below(b);
  for (int v = 0; v < topk_vector_lanes(&l->k); v++) take_element(l, s, v, below);
  gen_warp_sync(b);
  merge_waiting(l);
}

/* The winners of the CTAs before are few, and have no vectors to reject. */
static arke_status take_items(lists_kernel *l, gen_value base, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_branch first, some;
  TRY(topk_load(k, base, false, err));
  TRY(topk_compute(k, 0, err));
  gen_if(b, &first, gen_compare(b, GEN_EQ, base, k->begin), l->state, n_state(l));
  raise_bound_by_lanes(l, topk_thread_most(k));
  gen_if_end(b, &first);
  gen_if(b, &some, gen_warp_any(b, k->vectors[0].any), l->state, n_state(l));
  take_vector(l, 0);
  gen_if_end(b, &some);
  return ARKE_OK;
}

/* --- vectors --- */

static gen_value place_in_queue(lists_kernel *l, gen_value index) {
  return gen_add(l->k.b, l->queue, gen_mul_imm(l->k.b, index, 4));
}

/* Positions of strip s wait where the largest value may pass. */
static void queue_strip(lists_kernel *l, int s, gen_value below) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_branch some, mine;
  gen_value pass = topk_some_may_pass(k, s, bound_of(l)), mask = gen_ballot(b, pass);
  gen_if(b, &some, gen_compare_imm(b, GEN_NE, mask, 0), queued_of(l), 1);
  gen_if(b, &mine, pass, NULL, 0);
  gen_value at = gen_add(b, *queued_of(l), gen_popcount(b, gen_and(b, mask, below)));
  gen_store_shared(b, k->vectors[s].position, place_in_queue(l, at));
  gen_if_end(b, &mine);
  *queued_of(l) = gen_add(b, *queued_of(l), gen_popcount(b, mask));
  gen_if_end(b, &some);
}

/* A step of the warp: most of them have nothing that passes. */
static arke_status take_step(lists_kernel *l, gen_value base, bool whole, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_value most = NULL, any = NULL;
  gen_branch some;
  TRY(topk_load(k, base, whole, err));
  for (int s = 0; s < k->p->strips; s++) {
    topk_vector *one = &k->vectors[s];
    TRY(topk_compute_most(k, s, err));
    /* What is read twice must not count twice. */
    if (!whole) one->most = gen_select(b, one->active, one->most, topk_lowest(k));
    most = s == 0 ? one->most : topk_larger(b, most, one->most);
    any = s == 0 ? one->any : gen_or(b, any, one->any);
  }
  gen_value may = gen_and(b, any, topk_not_below(k, most, bound_of(l)));
  gen_if(b, &some, gen_warp_any(b, may), l->state, n_state(l));
  *most_of(l) = topk_larger(b, *most_of(l), most);
  raise_bound_by_lanes(l, topk_below(k, *most_of(l)));
  gen_value below = gen_lanes_below(b);
  for (int s = 0; s < k->p->strips; s++) queue_strip(l, s, below);
  gen_if_end(b, &some);
  return ARKE_OK;
}

/* Reads again 32 of the vectors that wait, or all of them, one a lane. */
static arke_status take_queued(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_value n = gen_umin(b, *queued_of(l), gen_i32(b, 32));
  gen_value active = gen_compare(b, GEN_ULT, k->lane, n);
  *queued_of(l) = gen_sub(b, *queued_of(l), n);
  gen_warp_sync(b);
  gen_value at = gen_add(b, *queued_of(l), gen_umin(b, k->lane, gen_add_imm(b, n, -1)));
  gen_value position = gen_load_shared(b, GEN_I32, 1, place_in_queue(l, at));
  TRY(topk_load_gathered(k, position, active, err));
  TRY(topk_compute(k, TOPK_GATHERED, err));
  take_vector(l, TOPK_GATHERED);
  return ARKE_OK;
}

/* What was computed in a branch or a loop is not known behind it. */
static void forget(topk_kernel *k) {
  for (int s = 0; s <= TOPK_GATHERED; s++) {
    if (k->vectors[s].in) lanes_forget(k->vectors[s].in);
  }
}

/* The last step, which may be short, comes first, so that one loop takes the others and what waits. A step is
 * taken where the queue has room for all of it. */
static arke_status take_candidates(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  int n = n_state(l), step = topk_step(k->p);
  gen_value carried[1 + COUNT_OF(l->state)];
  gen_value short_step = gen_urem(b, gen_sub(b, k->end, k->begin), gen_i32(b, step));
  gen_value whole_end = gen_sub(b, k->end, short_step);
  gen_branch some, full;
  gen_loop loop;
  gen_if(b, &some, gen_compare_imm(b, GEN_NE, short_step, 0), l->state, n);
  TRY(take_step(l, whole_end, false, err));
  gen_if_end(b, &some);
  forget(k);
  carried[0] = k->begin;
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_begin(b, &loop, carried, 1 + n);
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  gen_value more = gen_compare(b, GEN_ULT, carried[0], whole_end);
  gen_value waits = gen_compare_imm(b, GEN_NE, *queued_of(l), 0);
  gen_loop_while(b, &loop, gen_or(b, more, waits));
  gen_value room = gen_compare_imm(b, GEN_ULT, *queued_of(l), TOPK_LIST);
  gen_if(b, &some, gen_and(b, more, room), carried, 1 + n);
  TRY(take_step(l, carried[0], true, err));
  carried[0] = gen_add_imm(b, carried[0], step);
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_if_end(b, &some);
  forget(k);
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  gen_value last = gen_compare(b, GEN_UGE, carried[0], whole_end);
  waits = gen_compare(b, GEN_ULT, gen_select(b, last, gen_i32(b, 0), gen_i32(b, 31)), *queued_of(l));
  gen_if(b, &full, waits, l->state, n);
  TRY(take_queued(l, err));
  gen_if_end(b, &full);
  forget(k);
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_end(b, &loop);
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  return ARKE_OK;
}

static arke_status take_merged(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  int n = n_state(l);
  gen_value carried[1 + COUNT_OF(l->state)];
  gen_loop loop;
  carried[0] = k->begin;
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], k->end));
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  TRY(take_items(l, carried[0], err));
  carried[0] = gen_add_imm(b, carried[0], k->p->sharers);
  for (int i = 0; i < n; i++) carried[1 + i] = l->state[i];
  gen_loop_end(b, &loop);
  for (int i = 0; i < n; i++) l->state[i] = carried[1 + i];
  return ARKE_OK;
}

/* The items that still wait, filled up with nothing. */
static void take_rest(lists_kernel *l) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  gen_value values[2], waits = gen_compare(b, GEN_ULT, k->lane, *count_of(l));
  gen_branch some;
  int n_item = topk_item_values(topk_item_none(b, k->m), values);
  gen_if(b, &some, waits, values, n_item);
  topk_item_values(topk_item_load_shared(b, k->p->wide_item, l->waiting, l->capacity, k->lane), values);
  gen_if_end(b, &some);
  set_list(l, topk_merge(b, list_of(l), topk_sort_up(b, topk_item_of(k->p->wide_item, values))));
}

/* --- rows --- */

static gen_value waiting_of(lists_kernel *l, gen_value warp) {
  gen_builder *b = l->k.b;
  return gen_add(b, gen_shared_dynamic(b), gen_mul_imm(b, warp, topk_layout_of(l->k.p).waiting_bytes));
}

/* Half of the warps merge the lists of the other half, and so on: the first has the best of all. */
static arke_status merge_warps(lists_kernel *l, arke_error *err) {
  topk_kernel *k = &l->k;
  gen_builder *b = k->b;
  bool wide = k->p->wide_item;
  gen_branch upper, lower, first;
  gen_value turned = gen_sub(b, gen_i32(b, TOPK_LIST - 1), k->lane); /* lists fall; one must rise */
  gen_warp_sync(b);
  for (int half = k->p->warps / 2; half >= 1; half /= 2) {
    gen_value gives = gen_compare_imm(b, GEN_ULT, gen_add_imm(b, k->warp, -half), half);
    gen_value takes = gen_compare_imm(b, GEN_ULT, k->warp, half);
    gen_if(b, &upper, gives, NULL, 0);
    topk_item_store_shared(b, list_of(l), l->waiting, l->capacity, k->lane);
    gen_if_end(b, &upper);
    gen_cta_sync(b);
    gen_if(b, &lower, takes, l->state, l->n_item);
    gen_value from = waiting_of(l, gen_add_imm(b, k->warp, half));
    topk_item other = topk_item_load_shared(b, wide, from, l->capacity, turned);
    topk_item_values(topk_merge(b, list_of(l), other), l->state);
    gen_if_end(b, &lower);
  }
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, k->warp, 0), NULL, 0);
  arke_status status = topk_store(k, list_of(l), k->lane, gen_bool(b, true), err);
  gen_if_end(b, &first);
  return status;
}

static arke_status select_row(lists_kernel *l, arke_error *err) {
  gen_builder *b = l->k.b;
  topk_item none = topk_item_none(b, l->k.m);
  l->n_item = topk_item_values(none, l->state);
  topk_item_values(none, l->state + l->n_item);
  *count_of(l) = *queued_of(l) = gen_i32(b, 0);
  *most_of(l) = topk_lowest(&l->k);
  if (l->k.e->merging) {
    TRY(take_merged(l, err));
  } else {
    TRY(take_candidates(l, err));
  }
  take_rest(l);
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
  topk_layout at = topk_layout_of(p);
  l->capacity = at.queue / topk_item_bytes(p->wide_item);
  l->waiting = waiting_of(l, l->k.warp);
  l->queue = gen_add_imm(b, l->waiting, at.queue);
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
