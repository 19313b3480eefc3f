/* The smallest of the k largest items in shared memory, by digits of 8 bits from the top: a histogram of the
 * items that agree with the digits found so far tells the next one. It ends early where a digit's items are
 * all among the k. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/topk.h"

enum { DIGIT_BITS = 8, BINS = 1 << DIGIT_BITS, EACH = BINS / 32, KEY_DIGITS = 64 / DIGIT_BITS };

/* What is known of the bound. An item's number is its key, then its place. */
typedef struct bound {
  topk_item digits, mask; /* digits found, the others 0; ones where digits are found */
  gen_value shift;        /* I32: of the digit looked for, in the key or, when negative, in the place + 32 */
  gen_value wanted;       /* I32: items with these digits that are among the k */
} bound;

static gen_value shared_word(topk_kernel *k, int offset, gen_value index) {
  gen_value at = gen_add_imm(k->b, gen_shared_dynamic(k->b), offset);
  return gen_add(k->b, at, gen_mul_imm(k->b, index, 4));
}

static void clear_bins(topk_kernel *k, int bins) {
  gen_builder *b = k->b;
  gen_value tid = gen_tid_x(b);
  for (int first = 0; first < BINS; first += k->p->threads) {
    gen_branch inside;
    gen_value bin = gen_add_imm(b, tid, first);
    gen_if(b, &inside, gen_compare_imm(b, GEN_ULT, bin, BINS), NULL, 0);
    gen_store_shared(b, gen_i32(b, 0), shared_word(k, bins, bin));
    gen_if_end(b, &inside);
  }
}

/* The digit of x at the shift. */
static gen_value digit_of(gen_builder *b, topk_item x, gen_value shift) {
  gen_value in_key = gen_compare_imm(b, GEN_SGE, shift, 0);
  gen_value key_shift = gen_zext(b, gen_and(b, shift, gen_i32(b, 63)), GEN_I64);
  gen_value digit = gen_trunc(b, gen_lshr(b, x.key, key_shift), GEN_I32);
  if (x.place) {
    gen_value place_shift = gen_and(b, gen_add_imm(b, shift, 32), gen_i32(b, 31));
    digit = gen_select(b, in_key, digit, gen_lshr(b, x.place, place_shift));
  }
  return gen_and(b, digit, gen_i32(b, BINS - 1));
}

/* x with `digit` put in at the shift; for masks and for digits. */
static topk_item put_digit(gen_builder *b, topk_item x, gen_value digit, gen_value shift) {
  gen_value in_key = gen_compare_imm(b, GEN_SGE, shift, 0);
  gen_value key_shift = gen_zext(b, gen_and(b, shift, gen_i32(b, 63)), GEN_I64);
  gen_value key = gen_or(b, x.key, gen_shl(b, gen_zext(b, digit, GEN_I64), key_shift));
  if (!x.place) return (topk_item){key, NULL};
  gen_value place_shift = gen_and(b, gen_add_imm(b, shift, 32), gen_i32(b, 31));
  gen_value place = gen_or(b, x.place, gen_shl(b, digit, place_shift));
  return (topk_item){gen_select(b, in_key, key, x.key), gen_select(b, in_key, x.place, place)};
}

static gen_value agrees(gen_builder *b, topk_item x, const bound *f) {
  gen_value same = gen_compare(b, GEN_EQ, gen_and(b, x.key, f->mask.key), f->digits.key);
  if (!x.place) return same;
  return gen_and(b, same, gen_compare(b, GEN_EQ, gen_and(b, x.place, f->mask.place), f->digits.place));
}

static void count_digits(topk_kernel *k, gen_value base, gen_value count, const bound *f, int bins) {
  gen_builder *b = k->b;
  gen_value carried[] = {gen_tid_x(b)};
  gen_loop loop;
  gen_branch mine;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], count));
  topk_item x = topk_item_load_shared(b, k->p->wide_item, base, k->p->buffer, carried[0]);
  gen_if(b, &mine, agrees(b, x, f), NULL, 0);
  gen_update_shared(b, GEN_UPDATE_ADD, shared_word(k, bins, digit_of(b, x, f->shift)), gen_i32(b, 1));
  gen_if_end(b, &mine);
  carried[0] = gen_add_imm(b, carried[0], k->p->threads);
  gen_loop_end(b, &loop);
}

/* The first warp: from the largest digit down, the one where the wanted items end. It writes the digit, the
 * items wanted of it, and how many it has. */
static void find_digit(topk_kernel *k, const bound *f, int bins, int found) {
  gen_builder *b = k->b;
  gen_value have[EACH], sum = gen_i32(b, 0), zero = gen_i32(b, 0);
  for (int i = 0; i < EACH; i++) {
    gen_value bin = gen_sub(b, gen_i32(b, BINS - 1 - i), gen_mul_imm(b, k->lane, EACH));
    have[i] = gen_load_shared(b, GEN_I32, 1, shared_word(k, bins, bin));
    sum = gen_add(b, sum, have[i]);
  }
  gen_value above = sum;
  for (int d = 1; d < 32; d *= 2) {
    gen_value other = gen_shuffle_up(b, above, gen_i32(b, d), 32);
    gen_value has = gen_compare_imm(b, GEN_UGE, k->lane, d);
    above = gen_add(b, above, gen_select(b, has, other, zero));
  }
  above = gen_sub(b, above, sum);
  for (int i = 0; i < EACH; i++) {
    gen_value next = gen_add(b, above, have[i]);
    gen_value here =
        gen_and(b, gen_compare(b, GEN_ULT, above, f->wanted), gen_compare(b, GEN_ULE, f->wanted, next));
    gen_branch write;
    gen_if(b, &write, here, NULL, 0);
    gen_value bin = gen_sub(b, gen_i32(b, BINS - 1 - i), gen_mul_imm(b, k->lane, EACH));
    gen_store_shared(b, bin, shared_word(k, found, zero));
    gen_store_shared(b, gen_sub(b, f->wanted, above), shared_word(k, found, gen_i32(b, 1)));
    gen_store_shared(b, have[i], shared_word(k, found, gen_i32(b, 2)));
    gen_if_end(b, &write);
    above = next;
  }
}

static int pack(const bound *f, gen_value *v) {
  int n = topk_item_values(f->digits, v);
  n += topk_item_values(f->mask, v + n);
  v[n++] = f->shift;
  v[n++] = f->wanted;
  return n;
}

static bound unpack(bool wide, const gen_value *v) {
  int each = wide ? 2 : 1;
  return (bound){topk_item_of(wide, v), topk_item_of(wide, v + each), v[2 * each], v[2 * each + 1]};
}

topk_item topk_select_bound(topk_kernel *k, gen_value base, gen_value count) {
  gen_builder *b = k->b;
  topk_layout at = topk_layout_of(k->p);
  topk_item none = topk_item_none(b, k->m);
  bound f = {none, none, gen_i32(b, 64 - DIGIT_BITS), k->winners};
  gen_value carried[6], zero = gen_i32(b, 0);
  int n = pack(&f, carried);
  gen_loop loop;
  gen_branch first;
  gen_loop_begin(b, &loop, carried, n);
  f = unpack(k->p->wide_item, carried);
  clear_bins(k, at.bins);
  gen_cta_sync(b);
  count_digits(k, base, count, &f, at.bins);
  gen_cta_sync(b);
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, k->warp, 0), NULL, 0);
  find_digit(k, &f, at.bins, at.found);
  gen_if_end(b, &first);
  gen_cta_sync(b);
  gen_value digit = gen_load_shared(b, GEN_I32, 1, shared_word(k, at.found, zero));
  gen_value wanted = gen_load_shared(b, GEN_I32, 1, shared_word(k, at.found, gen_i32(b, 1)));
  gen_value has = gen_load_shared(b, GEN_I32, 1, shared_word(k, at.found, gen_i32(b, 2)));
  bound next = {put_digit(b, f.digits, digit, f.shift), put_digit(b, f.mask, gen_i32(b, BINS - 1), f.shift),
                gen_add_imm(b, f.shift, -DIGIT_BITS), wanted};
  pack(&next, carried);
  /* All items differ, so that the last digit's are all wanted at the latest. */
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_NE, wanted, has));
  return unpack(k->p->wide_item, carried).digits;
}
