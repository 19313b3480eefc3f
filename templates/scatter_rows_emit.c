/* The body of a kernel that scatters within rows. */
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "templates/scatter_rows.h"

enum { MOST_UNROLL = 8, STORE_BYTES = 16 };

/* One update of a thread. */
typedef struct point {
  lanes *l;
  gen_value number, active; /* i32, i1 */
  gen_value slot;           /* i32: the element's number in the row */
  gen_value inside;         /* active, and the element exists */
  gen_value value;          /* as it is stored */
} point;

typedef struct rows_emitter {
  gen_builder *b;
  scatter_rows_kernel *k;
  const scatter_rows_plan *p;
  const scatter_rows_match *m;
  gen_value thread, elements, points; /* i32 */
  gen_value marks, row;               /* shared addresses */
  gen_value row_values[IR_FORM_LOOPS];
  lanes *first[MOST_UNROLL];
} rows_emitter;

static bool adds(const rows_emitter *e) {
  return e->m->update == IR_ADD;
}

static gen_type slot_type(const rows_emitter *e) {
  if (!adds(e)) return gen_storage_type(e->m->type);
  return e->m->type == DTYPE_I32 ? GEN_I32 : GEN_F32;
}

static gen_value address(const rows_emitter *e, gen_value base, gen_value index, int bytes) {
  return gen_add(e->b, base, gen_mul_imm(e->b, index, bytes));
}

/* --- the row as it comes first --- */

static arke_status make_first(rows_emitter *e, arke_error *err) {
  for (int u = 0; u < e->p->unroll; u++) {
    TRY(lanes_create(e->b, &e->m->first, &e->k->first_options, &e->k->first_slots, e->k->a, &e->first[u],
                     err));
    for (int i = 0; i < e->m->n_rows; i++) lanes_set(e->first[u], e->m->row_first[i], e->row_values[i]);
  }
  return ARKE_OK;
}

/* A value as its slot has it: sums are kept as they are computed. */
static arke_status as_slot(const rows_emitter *e, gen_value value, gen_value *slot, arke_error *err) {
  *slot = value;
  if (adds(e) && gen_type_of(e->b, value) == slot_type(e)) return ARKE_OK;
  TRY(gen_convert(e->b, value, e->m->type, slot, err));
  if (adds(e)) *slot = gen_widen(e->b, e->m->type, *slot);
  return ARKE_OK;
}

/* A vector's slots: what is merely read, as it is. */
static arke_status first_slots(rows_emitter *e, int u, gen_value *slots, arke_error *err) {
  const ir_form *form = &e->m->first;
  const ir_expr *value = form->outputs[0].value;
  int n;
  bool moves = !adds(e) && value->node == IR_READ && !form->accesses[value->id].other &&
               ir_tensor_dtype(form->problem, form->accesses[value->id].tensor) == e->m->type;
  if (moves) {
    TRY(lanes_elements(e->first[u], value->id, slots, &n, err));
  } else {
    TRY(lanes_eval(e->first[u], value, slots, &n, err));
  }
  for (int v = e->p->width - 1; v >= 0; v--) {
    if (n == 1) slots[v] = slots[0];
    if (!moves) TRY(as_slot(e, slots[v], &slots[v], err));
  }
  return ARKE_OK;
}

static gen_value slot_address(const rows_emitter *e, gen_value index) {
  return address(e, e->row, index, e->p->slot_bytes);
}

/* Slots of one access to shared memory. */
static int together(const rows_emitter *e) {
  int most = STORE_BYTES / e->p->slot_bytes;
  return most < e->p->width ? most : e->p->width;
}

/* The vectors of a thread, `unroll` of them at a time: `take` gets the first element and whether it is one.
 */
typedef arke_status (*take_vector)(rows_emitter *e, int u, gen_value at, gen_value active, arke_error *err);

static arke_status for_vectors(rows_emitter *e, bool loads, take_vector take, arke_error *err) {
  gen_builder *b = e->b;
  int step = e->p->threads * e->p->width;
  gen_value carried[] = {gen_mul_imm(b, e->thread, e->p->width)}, at[MOST_UNROLL], active[MOST_UNROLL];
  gen_value last = gen_add_imm(b, e->elements, -e->p->width);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], e->elements));
  for (int u = 0; u < e->p->unroll; u++) {
    gen_value here = gen_add_imm(b, carried[0], (int64_t)u * step);
    active[u] = u == 0 ? gen_bool(b, true) : gen_compare(b, GEN_ULT, here, e->elements);
    at[u] = u == 0 ? here : gen_umin(b, here, last);
    lanes_set(e->first[u], e->m->along, gen_zext(b, at[u], GEN_I64));
    if (loads) TRY(lanes_load(e->first[u], e->m->first.outputs[0].value, err));
  }
  for (int u = 0; u < e->p->unroll; u++) TRY(take(e, u, at[u], active[u], err));
  carried[0] = gen_add_imm(b, carried[0], (int64_t)e->p->unroll * step);
  gen_loop_end(b, &loop);
  for (int u = 0; u < e->p->unroll; u++) lanes_forget(e->first[u]);
  return ARKE_OK;
}

/* Vectors behind the row are its last one again, which one thread alone writes. */
static arke_status fill_vector(rows_emitter *e, int u, gen_value at, gen_value active, arke_error *err) {
  gen_builder *b = e->b;
  gen_value slots[LANES_MAX];
  gen_branch exists;
  int each = together(e);
  TRY(first_slots(e, u, slots, err));
  gen_if(b, &exists, active, NULL, 0);
  for (int v = 0; v < e->p->width; v += each) {
    gen_value value = each == 1 ? slots[v] : gen_vector(b, &slots[v], each);
    gen_store_shared(b, value, gen_add_imm(b, slot_address(e, at), (int64_t)v * e->p->slot_bytes));
  }
  gen_if_end(b, &exists);
  return ARKE_OK;
}

static arke_status store_vector(rows_emitter *e, int u, gen_value at, gen_value active, arke_error *err) {
  gen_builder *b = e->b;
  gen_value values[LANES_MAX];
  int each = together(e);
  for (int v = 0; v < e->p->width; v += each) {
    gen_value from = gen_add_imm(b, slot_address(e, at), (int64_t)v * e->p->slot_bytes);
    gen_value slots = gen_load_shared(b, slot_type(e), each, from);
    for (int i = 0; i < each; i++) {
      gen_value slot = each == 1 ? slots : gen_lane(b, slots, i);
      values[v + i] = adds(e) ? slot : gen_widen(b, e->m->type, slot);
    }
  }
  return lanes_store_access(e->first[u], e->m->first_access, IR_ASSIGN, values, e->p->width, active, err);
}

/* No element has been updated yet. */
static void clear_marks(rows_emitter *e) {
  gen_builder *b = e->b;
  gen_value zero = gen_i32(b, 0), zeros[] = {zero, zero, zero, zero};
  gen_value carried[] = {gen_mul_imm(b, e->thread, 4)}, end = gen_param(b, e->k->padded);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  gen_store_shared(b, gen_vector(b, zeros, 4), address(e, e->marks, carried[0], 4));
  carried[0] = gen_add_imm(b, carried[0], e->p->threads * 4);
  gen_loop_end(b, &loop);
}

/* --- its updates --- */

/* Update `number`, or the last one where there are not so many: its loads are issued. */
static arke_status begin_point(rows_emitter *e, gen_value number, point *p, arke_error *err) {
  gen_builder *b = e->b;
  p->number = number;
  p->active = gen_compare(b, GEN_ULT, number, e->points);
  gen_value rest = gen_umin(b, number, gen_add_imm(b, e->points, -1));
  TRY(lanes_create(b, e->m->then, &e->k->then_options, &e->k->then_slots, e->k->a, &p->l, err));
  for (int i = 0; i < e->m->n_rows; i++) lanes_set(p->l, e->m->row_then[i], e->row_values[i]);
  for (int i = e->m->n_points - 1; i >= 0; i--) {
    gen_value extent = i ? gen_param(b, e->k->extents[i]) : NULL;
    lanes_set(p->l, e->m->points[i], gen_zext(b, i ? gen_urem(b, rest, extent) : rest, GEN_I64));
    if (i) rest = gen_udiv(b, rest, extent);
  }
  TRY(lanes_load(p->l, e->m->place, err));
  return lanes_load(p->l, e->m->value, err);
}

/* Where it goes, and what. An element that does not exist is left out. */
static arke_status end_point(rows_emitter *e, point *p, arke_error *err) {
  gen_builder *b = e->b;
  gen_value place, value;
  int n;
  TRY(lanes_eval(p->l, e->m->place, &place, &n, err));
  TRY(lanes_eval(p->l, e->m->value, &value, &n, err));
  gen_type type = gen_type_of(b, place);
  if (type != GEN_I64 && type != GEN_I32) place = gen_zext(b, place, GEN_I32);
  gen_value elements = gen_type_of(b, place) == GEN_I64 ? gen_zext(b, e->elements, GEN_I64) : e->elements;
  p->inside = gen_and(b, p->active, gen_compare(b, GEN_ULT, place, elements));
  p->slot = gen_type_of(b, place) == GEN_I64 ? gen_trunc(b, place, GEN_I32) : place;
  return as_slot(e, value, &p->value, err);
}

/* Adds it, or tells its element that it may be the last. */
static void announce(rows_emitter *e, const point *p) {
  gen_builder *b = e->b;
  gen_branch some;
  gen_if(b, &some, p->inside, NULL, 0);
  if (adds(e)) {
    gen_update_shared(b, GEN_UPDATE_ADD, slot_address(e, p->slot), p->value);
  } else {
    gen_update_shared(b, GEN_UPDATE_UMAX, address(e, e->marks, p->slot, 4), gen_add_imm(b, p->number, 1));
  }
  gen_if_end(b, &some);
}

static void assign(rows_emitter *e, const point *p) {
  gen_builder *b = e->b;
  gen_branch some, last;
  gen_if(b, &some, p->inside, NULL, 0);
  gen_value mark = gen_load_shared(b, GEN_I32, 1, address(e, e->marks, p->slot, 4));
  gen_if(b, &last, gen_compare(b, GEN_EQ, mark, gen_add_imm(b, p->number, 1)), NULL, 0);
  gen_store_shared(b, p->value, slot_address(e, p->slot));
  gen_if_end(b, &last);
  gen_if_end(b, &some);
}

/* Those behind the first `unroll` of each thread. */
static arke_status other_points(rows_emitter *e, void (*take)(rows_emitter *, const point *),
                                arke_error *err) {
  gen_builder *b = e->b;
  point own[MOST_UNROLL];
  gen_value carried[] = {gen_add_imm(b, e->thread, (int64_t)e->p->threads * e->p->unroll)};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], e->points));
  for (int u = 0; u < e->p->unroll; u++)
    TRY(begin_point(e, gen_add_imm(b, carried[0], (int64_t)u * e->p->threads), &own[u], err));
  for (int u = 0; u < e->p->unroll; u++) {
    TRY(end_point(e, &own[u], err));
    take(e, &own[u]);
  }
  carried[0] = gen_add_imm(b, carried[0], (int64_t)e->p->threads * e->p->unroll);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

static arke_status all_points(rows_emitter *e, const point *own, void (*take)(rows_emitter *, const point *),
                              arke_error *err) {
  for (int u = 0; u < e->p->unroll; u++) take(e, &own[u]);
  return other_points(e, take, err);
}

static void set_row(rows_emitter *e) {
  gen_builder *b = e->b;
  gen_value rest = gen_ctaid_x(b);
  for (int i = e->m->n_rows - 1; i >= 0; i--) {
    gen_value extent = i ? gen_param(b, e->k->rows[i]) : NULL;
    e->row_values[i] = gen_zext(b, i ? gen_urem(b, rest, extent) : rest, GEN_I64);
    if (i) rest = gen_udiv(b, rest, extent);
  }
}

arke_status scatter_rows_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  scatter_rows_kernel *k = user;
  rows_emitter e = {.b = b, .k = k, .p = &k->plan, .m = k->plan.match};
  point own[MOST_UNROLL];
  gen_launches_release(b);
  gen_launches_wait(b);
  e.thread = gen_tid_x(b);
  e.elements = gen_param(b, k->elements);
  e.points = gen_param(b, k->points);
  e.marks = e.row = gen_shared_dynamic(b);
  if (!adds(&e)) e.row = gen_add(b, e.marks, gen_mul_imm(b, gen_param(b, k->padded), 4));
  set_row(&e);
  TRY(make_first(&e, err));
  /* The first updates are under way while the row is read. */
  for (int u = 0; u < e.p->unroll; u++)
    TRY(begin_point(&e, gen_add_imm(b, e.thread, (int64_t)u * e.p->threads), &own[u], err));
  TRY(for_vectors(&e, true, fill_vector, err));
  if (!adds(&e)) clear_marks(&e);
  gen_cta_sync(b);
  for (int u = 0; u < e.p->unroll; u++) TRY(end_point(&e, &own[u], err));
  TRY(all_points(&e, own, announce, err));
  gen_cta_sync(b);
  if (!adds(&e)) {
    TRY(all_points(&e, own, assign, err));
    gen_cta_sync(b);
  }
  return for_vectors(&e, false, store_vector, err);
}
