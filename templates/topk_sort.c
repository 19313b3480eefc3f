/* A sorting network over the winners: neighbours far apart are in one thread's registers, those of one warp
 * exchange by shuffles, the others through shared memory. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "templates/topk.h"

/* Items of a thread; where there are more threads than items, the last ones idle. */
static int items_each(const topk_plan *p) {
  return p->keep > p->threads ? p->keep / p->threads : 1;
}

/* Bit `mask` of the number of item e * threads + thread. */
static gen_value bit(topk_kernel *k, int e, int mask) {
  gen_builder *b = k->b;
  if (mask >= k->p->threads && items_each(k->p) > 1) return gen_bool(b, e * k->p->threads & mask);
  return gen_compare_imm(b, GEN_NE, gen_and(b, gen_tid_x(b), gen_i32(b, mask)), 0);
}

/* Whether item e gets the larger of its pair: downwards, or upwards where bit `size` is set. */
static gen_value takes_larger(topk_kernel *k, int e, int d, int size) {
  gen_builder *b = k->b;
  gen_value lower = gen_xor(b, bit(k, e, d), gen_bool(b, true));
  return size < k->p->keep ? gen_xor(b, lower, bit(k, e, size)) : lower;
}

static topk_item pick(topk_kernel *k, topk_item x, topk_item other, gen_value larger) {
  gen_value swap = gen_xor(k->b, topk_item_above(k->b, x, other), larger);
  return topk_item_select(k->b, swap, other, x);
}

static void exchange_shared(topk_kernel *k, gen_value base, int capacity, int d, int size, topk_item *items) {
  gen_builder *b = k->b;
  const topk_plan *p = k->p;
  gen_branch mine;
  gen_value works = gen_compare_imm(b, GEN_ULT, gen_tid_x(b), p->keep);
  int each = items_each(p);
  gen_cta_sync(b); /* others may still read what the step before wrote */
  gen_if(b, &mine, works, NULL, 0);
  for (int e = 0; e < each; e++)
    topk_item_store_shared(b, items[e], base, capacity, gen_add_imm(b, gen_tid_x(b), e * p->threads));
  gen_if_end(b, &mine);
  gen_cta_sync(b);
  gen_value carried[2 * TOPK_MOST / 32];
  int n = 0;
  for (int e = 0; e < each; e++) n += topk_item_values(items[e], carried + n);
  gen_if(b, &mine, works, carried, n);
  n = 0;
  for (int e = 0; e < each; e++) {
    gen_value at = gen_xor(b, gen_add_imm(b, gen_tid_x(b), e * p->threads), gen_i32(b, d));
    topk_item other = topk_item_load_shared(b, p->wide_item, base, capacity, at);
    n += topk_item_values(pick(k, items[e], other, takes_larger(k, e, d, size)), carried + n);
  }
  gen_if_end(b, &mine);
  for (int e = 0, at = 0; e < each; e++, at += p->wide_item ? 2 : 1)
    items[e] = topk_item_of(p->wide_item, carried + at);
}

static void exchange(topk_kernel *k, gen_value base, int capacity, int d, int size, topk_item *items) {
  int each = items_each(k->p);
  if (each > 1 && d >= k->p->threads) {
    int far = d / k->p->threads;
    for (int e = 0; e < each; e++) {
      if (e & far) continue;
      topk_item x = items[e], other = items[e + far];
      items[e] = pick(k, x, other, takes_larger(k, e, d, size));
      items[e + far] = pick(k, other, x, takes_larger(k, e + far, d, size));
    }
  } else if (d < 32) {
    for (int e = 0; e < each; e++)
      items[e] = pick(k, items[e], topk_item_shuffle_xor(k->b, items[e], d), takes_larger(k, e, d, size));
  } else {
    exchange_shared(k, base, capacity, d, size, items);
  }
}

void topk_sort_shared(topk_kernel *k, gen_value base, int capacity, gen_value count, topk_item *items) {
  gen_builder *b = k->b;
  const topk_plan *p = k->p;
  for (int e = 0; e < items_each(p); e++) {
    gen_value at = gen_add_imm(b, gen_tid_x(b), e * p->threads), values[2];
    int n = topk_item_values(topk_item_none(b, k->m), values);
    gen_branch inside;
    gen_if(b, &inside, gen_compare(b, GEN_ULT, at, count), values, n);
    topk_item_values(topk_item_load_shared(b, p->wide_item, base, capacity, at), values);
    gen_if_end(b, &inside);
    items[e] = topk_item_of(p->wide_item, values);
  }
  for (int size = 2; size <= p->keep; size *= 2) {
    for (int d = size / 2; d >= 1; d /= 2) exchange(k, base, capacity, d, size, items);
  }
}
