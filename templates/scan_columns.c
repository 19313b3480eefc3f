/* Prefixes along an axis that is not the contiguous one: a thread owns VECTOR neighbouring columns and STRIPS
 * rows of them, warps lie below each other, and a CTA walks down (or up) its columns with a carry for each.
 */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "templates/scan.h"

enum { SLOT_BYTES = 8 };

typedef struct columns_kernel columns_kernel;

/* One row of a thread's columns. */
typedef struct step {
  columns_kernel *k;
  int number;
  lanes *before[SCAN_MAX_TERMS], *after;
  gen_value at;
  gen_value inclusive[SCAN_MAX_TERMS][LANES_MAX]; /* within the thread's rows */
} step;

struct columns_kernel {
  gen_builder *b;
  const scan_emitter *e;
  const scan_plan *p;
  const scan_match *m;
  gen_value lane, place; /* place: of the warp, in the direction of the scan */
  gen_value shared, size, in_width;
  gen_value base[SCAN_MAX_TERMS][LANES_MAX]; /* of all that comes before the thread's rows */
  step steps[SCAN_MAX_STRIPS];
};

static int turned(const columns_kernel *k, int i) {
  return k->m->suffix ? k->p->strips - 1 - i : i;
}

/* Columns that a term has values of its own for: one where it is the same in all. */
static int term_width(const columns_kernel *k, const scan_term *t) {
  return ir_form_free(&k->m->form, t->node) >> k->m->lane & 1 ? k->p->vector : 1;
}

static arke_status prefix_value(void *user, const ir_expr *node, gen_value *values, arke_error *err) {
  const step *s = user;
  const columns_kernel *k = s->k;
  (void)err;
  for (int i = 0; i < k->m->n_terms; i++) {
    const scan_term *t = &k->m->terms[i];
    if (t->node != node) continue;
    for (int v = 0; v < term_width(k, t); v++) {
      int at = turned(k, s->number);
      const step *last = t->exclusive ? (at == 0 ? NULL : &k->steps[turned(k, at - 1)]) : s;
      values[v] = last ? scan_combine(k->b, t->op, k->base[i][v], last->inclusive[i][v]) : k->base[i][v];
    }
  }
  return ARKE_OK;
}

static arke_status make_steps(columns_kernel *k, arke_error *err) {
  const scan_emitter *e = k->e;
  for (int s = 0; s < k->p->strips; s++) {
    step *one = &k->steps[s];
    one->k = k;
    one->number = s;
    for (int i = 0; i < k->m->n_terms; i++) {
      for (int j = 0; j < i; j++) {
        if (k->m->terms[j].loop == k->m->terms[i].loop) one->before[i] = one->before[j];
      }
      if (one->before[i]) continue;
      TRY(lanes_create(k->b, &k->m->form, &e->before[i], &e->before_slots[i], e->a, &one->before[i], err));
    }
    lanes_options after = e->after;
    after.user = one;
    after.reduce = prefix_value;
    TRY(lanes_create(k->b, &k->m->form, &after, &e->after_slots, e->a, &one->after, err));
  }
  return ARKE_OK;
}

static gen_value index_of(const columns_kernel *k, gen_value i32) {
  return k->p->wide_offsets ? gen_zext(k->b, i32, GEN_I64) : i32;
}

static void set_all(columns_kernel *k, int loop, gen_value value) {
  for (int s = 0; s < k->p->strips; s++) {
    for (int i = 0; i < k->m->n_terms; i++) lanes_set(k->steps[s].before[i], loop, value);
    lanes_set(k->steps[s].after, loop, value);
  }
}

/* The CTA's columns and outer loops from its number. */
static void set_place(columns_kernel *k) {
  gen_builder *b = k->b;
  gen_value width = gen_param(b, k->e->lane_size), cta = gen_ctaid_x(b);
  gen_value blocks = gen_param(b, k->e->blocks);
  gen_value block = gen_urem(b, cta, blocks), row = gen_udiv(b, cta, blocks);
  gen_value first = gen_mul_imm(b, index_of(k, block), k->p->width);
  gen_value column = gen_add(b, first, index_of(k, gen_mul_imm(b, k->lane, k->p->vector)));
  k->in_width = gen_compare(b, GEN_ULT, column, width);
  set_all(k, k->m->lane, gen_select(b, k->in_width, column, gen_mul_imm(b, column, 0)));
  for (int i = k->m->n_outer - 1; i >= 0; i--) {
    gen_value value = row;
    if (i > 0) {
      gen_value n = gen_param(b, k->e->outer_size[i]);
      value = gen_urem(b, row, n);
      row = gen_udiv(b, row, n);
    }
    set_all(k, k->m->outer[i], index_of(k, value));
  }
}

/* Compared where it is asked for: predicates are few. */
static gen_value is_inside(const columns_kernel *k, const step *s) {
  return gen_compare(k->b, GEN_ULT, s->at, k->size);
}

/* Rows outside the tensor read its last one instead. */
static arke_status load_rows(columns_kernel *k, gen_value first, arke_error *err) {
  gen_builder *b = k->b;
  gen_value warp = k->p->warps > 1 ? gen_warp_index(b) : gen_i32(b, 0);
  gen_value base = gen_add(b, first, index_of(k, gen_mul_imm(b, warp, k->p->strips)));
  gen_value last = gen_add_imm(b, k->size, -1);
  for (int s = 0; s < k->p->strips; s++) {
    step *one = &k->steps[s];
    one->at = gen_add_imm(b, base, s);
    gen_value from = gen_umin(b, one->at, last);
    for (int i = 0; i < k->m->n_terms; i++) lanes_set(one->before[i], k->m->terms[i].loop, from);
    lanes_set(one->after, k->m->along, from);
  }
  for (int s = 0; s < k->p->strips; s++) {
    for (int i = 0; i < k->m->n_terms; i++)
      TRY(lanes_load(k->steps[s].before[i], k->m->terms[i].node->args[0], err));
    for (int o = 0; o < k->m->form.n_outputs; o++)
      TRY(lanes_load(k->steps[s].after, k->m->form.outputs[o].value, err));
  }
  return ARKE_OK;
}

/* The thread's own prefixes; `total` of its rows. */
static arke_status scan_rows(columns_kernel *k, gen_value total[SCAN_MAX_TERMS][LANES_MAX], arke_error *err) {
  gen_builder *b = k->b;
  for (int i = 0; i < k->m->n_terms; i++) {
    const scan_term *t = &k->m->terms[i];
    gen_value nothing = scan_identity(b, t->op, t->type);
    for (int at = 0; at < k->p->strips; at++) {
      step *s = &k->steps[turned(k, at)];
      gen_value values[LANES_MAX];
      int n;
      TRY(lanes_eval(s->before[i], t->node->args[0], values, &n, err));
      for (int v = 0; v < term_width(k, t); v++) {
        gen_value x = scan_to_type(b, values[n == 1 ? 0 : v], t->type);
        x = gen_select(b, is_inside(k, s), x, nothing);
        s->inclusive[i][v] = total[i][v] = at == 0 ? x : scan_combine(b, t->op, total[i][v], x);
      }
    }
  }
  return ARKE_OK;
}

static int term_bytes(const columns_kernel *k) {
  return k->p->warps * (int)k->p->width * SLOT_BYTES;
}

/* Adds to `carry` what the warps before this one make, for `base`, and all of them. */
static void meet(columns_kernel *k, gen_value slot, gen_value total[SCAN_MAX_TERMS][LANES_MAX],
                 gen_value *carried) {
  gen_builder *b = k->b;
  int vector = k->p->vector, row_bytes = (int)k->p->width * SLOT_BYTES;
  gen_value own = gen_add(b, slot, gen_mul_imm(b, k->lane, SLOT_BYTES));
  /* A vector's columns lie a warp apart, so that lanes use neighbouring banks. */
  for (int i = 0; i < k->m->n_terms && k->p->warps > 1; i++) {
    for (int v = 0; v < term_width(k, &k->m->terms[i]); v++) {
      gen_value at = gen_add(b, own, gen_mul_imm(b, k->place, row_bytes));
      gen_store_shared(b, total[i][v], gen_add_imm(b, at, (int64_t)i * term_bytes(k) + v * 32 * SLOT_BYTES));
    }
  }
  if (k->p->warps > 1) gen_cta_sync(b);
  for (int i = 0; i < k->m->n_terms; i++) {
    const scan_term *t = &k->m->terms[i];
    for (int v = 0; v < term_width(k, t); v++) {
      gen_value *carry = &carried[i * vector + v], sum = *carry;
      k->base[i][v] = sum;
      if (k->p->warps == 1) {
        *carry = scan_combine(b, t->op, sum, total[i][v]);
        continue;
      }
      for (int w = 0; w < k->p->warps; w++) {
        int64_t offset = (int64_t)i * term_bytes(k) + (int64_t)w * row_bytes + v * 32 * SLOT_BYTES;
        sum = scan_combine(b, t->op, sum, gen_load_shared(b, t->type, 1, gen_add_imm(b, own, offset)));
        gen_value passed = gen_compare(b, GEN_ULT, gen_i32(b, w), k->place);
        k->base[i][v] = gen_select(b, passed, sum, k->base[i][v]);
      }
      *carry = sum;
    }
  }
}

static arke_status store_rows(columns_kernel *k, arke_error *err) {
  for (int s = 0; s < k->p->strips; s++) {
    step *one = &k->steps[s];
    for (int o = 0; o < k->m->form.n_outputs; o++) {
      gen_value values[LANES_MAX];
      int n;
      TRY(lanes_eval(one->after, k->m->form.outputs[o].value, values, &n, err));
      TRY(lanes_store(one->after, o, values, n, gen_and(k->b, is_inside(k, one), k->in_width), err));
    }
  }
  return ARKE_OK;
}

static arke_status walk(columns_kernel *k, arke_error *err) {
  gen_builder *b = k->b;
  int n_carries = k->m->n_terms * k->p->vector;
  gen_value chunks = gen_param(b, k->e->chunks), carried[1 + SCAN_MAX_TERMS * LANES_MAX] = {gen_i32(b, 0)};
  gen_value total[SCAN_MAX_TERMS][LANES_MAX];
  gen_loop loop;
  for (int i = 0; i < n_carries; i++) {
    const scan_term *t = &k->m->terms[i / k->p->vector];
    carried[1 + i] = scan_identity(b, t->op, t->type);
  }
  gen_loop_begin(b, &loop, carried, 1 + n_carries);
  gen_value number = carried[0];
  if (k->m->suffix) number = gen_sub(b, gen_add_imm(b, chunks, -1), number);
  TRY(load_rows(k, gen_mul_imm(b, index_of(k, number), k->p->chunk), err));
  TRY(scan_rows(k, total, err));
  gen_value parity = gen_and(b, carried[0], gen_i32(b, 1));
  gen_value slot = gen_i32(b, 0);
  if (k->shared) slot = gen_add(b, k->shared, gen_mul_imm(b, parity, (int64_t)k->m->n_terms * term_bytes(k)));
  meet(k, slot, total, carried + 1);
  TRY(store_rows(k, err));
  carried[0] = gen_add_imm(b, carried[0], 1);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], chunks));
  return ARKE_OK;
}

int scan_columns_shared_bytes(const scan_plan *p) {
  return p->warps == 1 ? 0 : 2 * p->match->n_terms * p->warps * (int)p->width * SLOT_BYTES;
}

arke_status scan_emit_columns(gen_builder *b, const target *t, void *user, arke_error *err) {
  const scan_emitter *e = user;
  (void)t;
  columns_kernel *k = ARENA_NEW(e->a, columns_kernel);
  if (!k) return error_memory(err, "generate");
  *k = (columns_kernel){.b = b, .e = e, .p = e->plan, .m = e->plan->match};
  gen_launches_wait(b);
  gen_launches_release(b);
  k->lane = gen_laneid(b);
  gen_value warp = k->p->warps > 1 ? gen_warp_index(b) : gen_i32(b, 0);
  k->place = k->m->suffix ? gen_sub(b, gen_i32(b, k->p->warps - 1), warp) : warp;
  k->size = gen_param(b, e->along_size);
  if (k->p->warps > 1) k->shared = gen_shared_dynamic(b);
  TRY(make_steps(k, err));
  set_place(k);
  return walk(k, err);
}
