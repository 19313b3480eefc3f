/* Prefixes along the contiguous axis: a thread holds STRIPS vectors, 32 vectors apart in its warp's part of
 * the chunk, so that every access of a warp is one run of memory and one exchange between warps serves a
 * chunk. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/scan.h"

enum { SLOT_BYTES = 8 }; /* of a value in shared memory */

typedef struct rows_kernel rows_kernel;

/* One vector of each thread. */
typedef struct strip {
  rows_kernel *k;
  lanes *before[SCAN_MAX_TERMS], *after;          /* evaluators; terms over one loop share theirs */
  gen_value at, from;                             /* its first element; the one that is read, in the row */
  gen_value inclusive[SCAN_MAX_TERMS][LANES_MAX]; /* within the thread's vector */
  scan_values base;                               /* of all that comes before the vector */
} strip;

struct rows_kernel {
  gen_builder *b;
  const scan_emitter *e;
  const scan_plan *p;
  const scan_match *m;
  gen_value lane, warp; /* number of the warp in its CTA */
  gen_value shared;     /* address: two sets of the warps' sums, then the sums before the CTA's chunk */
  gen_value size;       /* elements of a row */
  scan_ring ring;       /* SCAN_AHEAD, and the stage of the present row */
  gen_value stage;
  strip strips[SCAN_MAX_STRIPS];
};

/* Counted in the direction of the scan. */
static int turned(const rows_kernel *k, int i, int n) {
  return k->m->suffix ? n - 1 - i : i;
}

static arke_status prefix_value(void *user, const ir_expr *node, gen_value *values, arke_error *err) {
  const strip *s = user;
  const rows_kernel *k = s->k;
  (void)err;
  for (int i = 0; i < k->m->n_terms; i++) {
    const scan_term *t = &k->m->terms[i];
    if (t->node != node) continue;
    for (int at = 0; at < k->p->vector; at++) {
      int v = turned(k, at, k->p->vector);
      if (t->exclusive && at == 0) {
        values[v] = s->base.v[i];
      } else {
        int last = t->exclusive ? turned(k, at - 1, k->p->vector) : v;
        values[v] = scan_combine(k->b, t->op, s->base.v[i], s->inclusive[i][last]);
      }
    }
  }
  return ARKE_OK;
}

/* Elements that were copied ahead. */
static arke_status copied_elements(void *user, int access, gen_value *elements, arke_error *err) {
  const strip *s = user;
  (void)err;
  scan_ring_read(&s->k->ring, s->k->stage, access, s->from, s->k->p->vector, elements);
  return ARKE_OK;
}

static void give_copied(const rows_kernel *k, strip *s, lanes_options *o) {
  o->user = s;
  if (k->p->place != SCAN_AHEAD) return;
  o->given = scan_ahead(k->m);
  o->read = copied_elements;
}

static arke_status make_strips(rows_kernel *k, arke_error *err) {
  const scan_emitter *e = k->e;
  for (int s = 0; s < k->p->strips; s++) {
    strip *one = &k->strips[s];
    one->k = k;
    for (int i = 0; i < k->m->n_terms; i++) {
      for (int j = 0; j < i; j++) {
        if (k->m->terms[j].loop == k->m->terms[i].loop) one->before[i] = one->before[j];
      }
      if (one->before[i]) continue;
      lanes_options before = e->before[i];
      give_copied(k, one, &before);
      TRY(lanes_create(k->b, &k->m->form, &before, &e->before_slots[i], e->a, &one->before[i], err));
    }
    lanes_options after = e->after;
    give_copied(k, one, &after);
    after.reduce = prefix_value;
    TRY(lanes_create(k->b, &k->m->form, &after, &e->after_slots, e->a, &one->after, err));
  }
  return ARKE_OK;
}

static void set_outer(rows_kernel *k, int loop, gen_value value) {
  for (int s = 0; s < k->p->strips; s++) {
    for (int i = 0; i < k->m->n_terms; i++) lanes_set(k->strips[s].before[i], loop, value);
    lanes_set(k->strips[s].after, loop, value);
  }
}

/* Row number (i32) to the outer loops, innermost first. */
static void set_row(rows_kernel *k, gen_value row) {
  for (int i = k->m->n_outer - 1; i >= 0; i--) {
    gen_value value = row;
    if (i > 0) {
      gen_value n = gen_param(k->b, k->e->outer_size[i]);
      value = gen_urem(k->b, row, n);
      row = gen_udiv(k->b, row, n);
    }
    if (k->p->wide_offsets) value = gen_zext(k->b, value, GEN_I64);
    set_outer(k, k->m->outer[i], value);
  }
}

static gen_value index_of(const rows_kernel *k, gen_value i32) {
  return k->p->wide_offsets ? gen_zext(k->b, i32, GEN_I64) : i32;
}

/* Whether the vector lies in the row. Compared where it is asked for: a predicate for each strip, kept from
 * the loads on, would be more than there are, and loads would wait for one another. */
static gen_value is_inside(const rows_kernel *k, const strip *s) {
  return gen_compare(k->b, GEN_ULT, s->at, k->size);
}

/* Issues the loads of a chunk, all before any arithmetic. Vectors outside the row read its last one instead.
 */
static arke_status load_chunk(rows_kernel *k, gen_value first, arke_error *err) {
  gen_builder *b = k->b;
  const scan_plan *p = k->p;
  gen_value part = p->scanners > 1 ? gen_mul_imm(b, k->warp, 32 * p->vector * p->strips) : gen_i32(b, 0);
  gen_value own = gen_add(b, part, gen_mul_imm(b, k->lane, p->vector));
  gen_value base = gen_add(b, first, index_of(k, own)), last = gen_add_imm(b, k->size, -p->vector);
  for (int s = 0; s < p->strips; s++) {
    strip *one = &k->strips[s];
    one->at = gen_add_imm(b, base, (int64_t)s * 32 * p->vector);
    one->from = gen_umin(b, one->at, last);
    for (int i = 0; i < k->m->n_terms; i++) lanes_set(one->before[i], k->m->terms[i].loop, one->from);
    lanes_set(one->after, k->m->along, one->from);
  }
  for (int s = 0; s < p->strips; s++) {
    for (int i = 0; i < k->m->n_terms; i++)
      TRY(lanes_load(k->strips[s].before[i], k->m->terms[i].node->args[0], err));
    for (int o = 0; o < k->m->form.n_outputs; o++)
      TRY(lanes_load(k->strips[s].after, k->m->form.outputs[o].value, err));
  }
  return ARKE_OK;
}

/* The vector's own prefixes; all of it together in `total`, nothing where it lies outside. */
static arke_status scan_vector(rows_kernel *k, strip *s, scan_values *total, arke_error *err) {
  gen_builder *b = k->b;
  for (int i = 0; i < k->m->n_terms; i++) {
    const scan_term *t = &k->m->terms[i];
    gen_value values[LANES_MAX], sum = NULL;
    int n;
    TRY(lanes_eval(s->before[i], t->node->args[0], values, &n, err));
    for (int at = 0; at < k->p->vector; at++) {
      int v = turned(k, at, k->p->vector);
      gen_value x = scan_to_type(b, values[n == 1 ? 0 : v], t->type);
      s->inclusive[i][v] = sum = sum ? scan_combine(b, t->op, sum, x) : x;
    }
    total->v[i] = gen_select(b, is_inside(k, s), sum, scan_identity(b, t->op, t->type));
  }
  return ARKE_OK;
}

/* What the warps before this one make together, and all of them; `slot` is the set of sums to use. */
static void meet(rows_kernel *k, gen_value slot, scan_values own, scan_values *before, scan_values *all) {
  gen_builder *b = k->b;
  int n = k->p->scanners;
  gen_branch first, present;
  scan_values others = scan_identities(b, k->m);
  gen_value place = k->m->suffix ? gen_sub(b, gen_i32(b, n - 1), k->warp) : k->warp;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, k->lane, 0), NULL, 0);
  for (int i = 0; i < k->m->n_terms; i++) {
    gen_value at = gen_add_imm(b, slot, (int64_t)i * n * SLOT_BYTES);
    gen_store_shared(b, own.v[i], gen_add(b, at, gen_mul_imm(b, place, SLOT_BYTES)));
  }
  gen_if_end(b, &first);
  gen_cta_sync(b);
  gen_if(b, &present, gen_compare_imm(b, GEN_ULT, k->lane, n), others.v, k->m->n_terms);
  for (int i = 0; i < k->m->n_terms; i++) {
    gen_value at = gen_add_imm(b, slot, (int64_t)i * n * SLOT_BYTES);
    others.v[i] =
        gen_load_shared(b, k->m->terms[i].type, 1, gen_add(b, at, gen_mul_imm(b, k->lane, SLOT_BYTES)));
  }
  gen_if_end(b, &present);
  scan_values each;
  scan_warp(b, k->m, n, false, others, &each, all);
  for (int i = 0; i < k->m->n_terms; i++) {
    before->v[i] = gen_shuffle_idx(b, each.v[i], place, 32);
    all->v[i] = gen_shuffle_idx(b, all->v[i], gen_i32(b, 0), 32); /* other segments have nothing */
  }
}

/* From the vectors' sums to what comes before each vector; `total` gets the whole chunk's. */
static arke_status scan_chunk(rows_kernel *k, gen_value slot, scan_values *total, arke_error *err) {
  gen_builder *b = k->b;
  scan_values warp = {{NULL}}, outside = {{NULL}};
  for (int at = 0; at < k->p->strips; at++) {
    strip *s = &k->strips[turned(k, at, k->p->strips)];
    scan_values vector, before, all;
    TRY(scan_vector(k, s, &vector, err));
    scan_warp(b, k->m, 32, k->m->suffix, vector, &before, &all);
    s->base = scan_combine_all(b, k->m, warp, before);
    warp = scan_combine_all(b, k->m, warp, all);
  }
  *total = warp;
  if (k->p->scanners > 1) meet(k, slot, warp, &outside, total);
  for (int s = 0; s < k->p->strips; s++)
    k->strips[s].base = scan_combine_all(b, k->m, outside, k->strips[s].base);
  return ARKE_OK;
}

static arke_status store_chunk(rows_kernel *k, scan_values carry, arke_error *err) {
  for (int s = 0; s < k->p->strips; s++) {
    strip *one = &k->strips[s];
    one->base = scan_combine_all(k->b, k->m, carry, one->base);
    for (int o = 0; o < k->m->form.n_outputs; o++) {
      gen_value values[LANES_MAX];
      int n;
      TRY(lanes_eval(one->after, k->m->form.outputs[o].value, values, &n, err));
      TRY(lanes_store(one->after, o, values, n, is_inside(k, one), err));
    }
  }
  return ARKE_OK;
}

static int set_bytes(const rows_kernel *k) {
  return k->m->n_terms * k->p->scanners * SLOT_BYTES;
}

/* First element of a chunk that is the number-th in the direction of the scan. */
static gen_value chunk_start(rows_kernel *k, gen_value number, gen_value chunks) {
  gen_builder *b = k->b;
  if (k->m->suffix) number = gen_sub(b, gen_add_imm(b, chunks, -1), number);
  return gen_mul_imm(b, index_of(k, number), k->p->chunk);
}

/* Chunk after chunk with a carry. */
static arke_status walk_row(rows_kernel *k, arke_error *err) {
  gen_builder *b = k->b;
  gen_value chunks = gen_param(b, k->e->chunks), carried[1 + SCAN_MAX_TERMS] = {gen_i32(b, 0)};
  scan_values total, carry = scan_identities(b, k->m);
  gen_loop loop;
  for (int i = 0; i < k->m->n_terms; i++) carried[1 + i] = carry.v[i];
  gen_loop_begin(b, &loop, carried, 1 + k->m->n_terms);
  for (int i = 0; i < k->m->n_terms; i++) carry.v[i] = carried[1 + i];
  TRY(load_chunk(k, chunk_start(k, carried[0], chunks), err));
  /* Two sets of sums in turn: who is a chunk ahead does not write what others still read. */
  gen_value parity = gen_and(b, carried[0], gen_i32(b, 1));
  gen_value slot = k->shared ? gen_add(b, k->shared, gen_mul_imm(b, parity, set_bytes(k))) : NULL;
  TRY(scan_chunk(k, slot, &total, err));
  TRY(store_chunk(k, carry, err));
  carry = scan_combine_all(b, k->m, carry, total);
  for (int i = 0; i < k->m->n_terms; i++) carried[1 + i] = carry.v[i];
  carried[0] = gen_add_imm(b, carried[0], 1);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], chunks));
  return ARKE_OK;
}

/* Rows in turn, each one chunk, with later ones on their way. */
static arke_status rows_ahead(rows_kernel *k, arke_error *err) {
  gen_builder *b = k->b;
  int stages = k->p->stages;
  gen_value step = gen_nctaid_x(b), row = gen_ctaid_x(b), zero = gen_i32(b, 0);
  scan_values total;
  gen_loop loop;
  gen_value carried[] = {row, zero, zero, zero}; /* and stage, parity, set of sums */
  scan_ring_open(&k->ring, b, k->e);
  for (int s = 0; s < stages - 1; s++) {
    scan_ring_copy(&k->ring, row, gen_i32(b, s));
    row = gen_add(b, row, step);
  }
  gen_loop_begin(b, &loop, carried, 4);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], gen_param(b, k->e->rows)));
  k->stage = carried[1];
  set_row(k, carried[0]);
  scan_ring_wait(&k->ring, k->stage, carried[2]);
  TRY(load_chunk(k, index_of(k, zero), err));
  TRY(scan_chunk(k, gen_add(b, k->shared, gen_mul_imm(b, carried[3], set_bytes(k))), &total, err));
  gen_value before = gen_add_imm(b, k->stage, -1), next = gen_add_imm(b, k->stage, 1);
  before = gen_select(b, gen_compare_imm(b, GEN_EQ, k->stage, 0), gen_i32(b, stages - 1), before);
  scan_ring_copy(&k->ring, gen_add(b, carried[0], gen_mul_imm(b, step, stages - 1)), before);
  TRY(store_chunk(k, scan_identities(b, k->m), err));
  gen_value around = gen_compare_imm(b, GEN_EQ, next, stages);
  carried[0] = gen_add(b, carried[0], step);
  carried[1] = gen_select(b, around, zero, next);
  carried[2] = gen_select(b, around, gen_xor(b, carried[2], gen_i32(b, 1)), carried[2]);
  carried[3] = gen_xor(b, carried[3], gen_i32(b, 1));
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

/* CTAs take chunks in the order in which they start: those that a chunk waits for are running or done. */
static gen_value take_ticket(rows_kernel *k) {
  gen_builder *b = k->b;
  gen_value at = gen_shared_static(b, "scan_turn", 4, 4);
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, gen_tid_x(b), 0), NULL, 0);
  gen_value turn =
      gen_fetch_update_global(b, GEN_UPDATE_ADD, GEN_RELAXED, gen_param(b, k->e->ticket), gen_i32(b, 1));
  gen_store_shared(b, turn, at);
  gen_if_end(b, &first);
  gen_cta_sync(b);
  return gen_load_shared(b, GEN_I32, 1, at);
}

static arke_status one_chunk(rows_kernel *k, arke_error *err) {
  gen_builder *b = k->b;
  gen_value chunks = gen_param(b, k->e->chunks);
  gen_value number = k->e->by_ticket ? take_ticket(k) : gen_ctaid_x(b);
  gen_value row = gen_udiv(b, number, chunks), chunk = gen_urem(b, number, chunks);
  scan_values total, carry = scan_identities(b, k->m);
  set_row(k, row);
  TRY(load_chunk(k, chunk_start(k, chunk, chunks), err));
  TRY(scan_chunk(k, k->shared, &total, err));
  int64_t segment_chunks = SCAN_SEGMENT;
  gen_value segments = gen_ceildiv_imm(b, chunks, segment_chunks);
  gen_value records =
      gen_mul(b, gen_zext(b, row, GEN_I64), gen_zext(b, gen_add(b, chunks, segments), GEN_I64));
  gen_value state = gen_add(b, gen_param(b, k->e->state), gen_mul_imm(b, records, 8 * k->p->state_words));
  if (k->p->scanners == 1) return store_chunk(k, scan_look_back(b, k->p, state, chunk, chunks, total), err);
  gen_value mailbox = gen_add_imm(b, k->shared, set_bytes(k));
  gen_branch first_warp, first_lane;
  gen_if(b, &first_warp, gen_compare_imm(b, GEN_EQ, k->warp, 0), NULL, 0);
  scan_values found = scan_look_back(b, k->p, state, chunk, chunks, total);
  gen_if(b, &first_lane, gen_compare_imm(b, GEN_EQ, k->lane, 0), NULL, 0);
  for (int i = 0; i < k->m->n_terms; i++)
    gen_store_shared(b, found.v[i], gen_add_imm(b, mailbox, (int64_t)i * SLOT_BYTES));
  gen_if_end(b, &first_lane);
  gen_if_end(b, &first_warp);
  gen_cta_sync(b);
  for (int i = 0; i < k->m->n_terms; i++)
    carry.v[i] = gen_load_shared(b, k->m->terms[i].type, 1, gen_add_imm(b, mailbox, (int64_t)i * SLOT_BYTES));
  return store_chunk(k, carry, err);
}

static arke_status warp_rows(rows_kernel *k, arke_error *err) {
  gen_builder *b = k->b;
  gen_value row = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), k->p->warps), k->warp);
  gen_branch inside;
  gen_if(b, &inside, gen_compare(b, GEN_ULT, row, gen_param(b, k->e->rows)), NULL, 0);
  set_row(k, row);
  arke_status status = walk_row(k, err);
  gen_if_end(b, &inside);
  return status;
}

arke_status scan_emit_rows(gen_builder *b, const target *t, void *user, arke_error *err) {
  const scan_emitter *e = user;
  (void)t;
  rows_kernel *k = ARENA_NEW(e->a, rows_kernel);
  if (!k) return error_memory(err, "generate");
  *k = (rows_kernel){.b = b, .e = e, .p = e->plan, .m = e->plan->match};
  gen_launches_wait(b);
  gen_launches_release(b);
  k->lane = gen_laneid(b);
  k->warp = k->p->warps > 1 ? gen_warp_index(b) : gen_i32(b, 0);
  k->size = gen_param(b, e->along_size);
  if (k->p->scanners > 1) {
    int mailbox = k->m->n_terms * SLOT_BYTES;
    k->shared = gen_shared_static(b, "scan_sums", 2 * set_bytes(k) + mailbox, SLOT_BYTES);
  }
  TRY(make_strips(k, err));
  switch (k->p->place) {
  case SCAN_BY_WARP: return warp_rows(k, err);
  case SCAN_BY_CTA: set_row(k, gen_ctaid_x(b)); return walk_row(k, err);
  case SCAN_LOOK_BACK: return one_chunk(k, err);
  case SCAN_AHEAD: return rows_ahead(k, err);
  }
  return ARKE_OK;
}
