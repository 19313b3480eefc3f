/* Tiles: from global to shared memory, copied or through registers. Columns that no row of the tile meets
 * count as zeros and are not read: were they NaN, it may not matter. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "templates/backward_warps.h"
#include "templates/lanes_pointer.h"

enum { ELEMENT_BYTES = 2 };

/* Rows of one operand that go into one tile. */
typedef struct moved {
  const attend_tile *t;
  const lanes_args *slots;
  int loop;              /* of the rows */
  gen_value from, below; /* rows that are there: others count as zeros; there is one, or nothing is read */
  gen_value first;       /* the tile's row 0 */
  gen_value head;        /* NULL: the tile's */
  gen_value to;
} moved;

static arke_status evaluator(warps_emitter *e, const moved *v, lanes **l, arke_error *err) {
  lanes_options o = v->t->options;
  o.user = e;
  o.reduce = warps_reduction;
  TRY(lanes_create(e->b, &e->m->form, &o, v->slots, e->k->a, l, err));
  warps_set_batch(e, *l, BACKWARD_QUERIES, v->head);
  return ARKE_OK;
}

/* Whether a row is there, and the nearest one that is. */
static gen_value is_there(gen_builder *b, const moved *v, gen_value row) {
  return gen_compare(b, GEN_ULT, gen_sub(b, row, v->from), gen_sub(b, v->below, v->from));
}

static gen_value nearest(gen_builder *b, const moved *v, gen_value row) {
  return gen_smin(b, gen_smax(b, row, v->from), gen_add_imm(b, v->below, -1));
}

static gen_value vector_address(gen_builder *b, const moved *v, const attend_place *at) {
  return attend_copy_address(b, v->t, v->to, at);
}

/* --- copied --- */

/* Bytes from a row to the next. */
static gen_value stride_of(warps_emitter *e, const moved *v) {
  gen_builder *b = e->b;
  const ir_access *x = &e->m->form.accesses[v->t->access];
  int s = 0;
  while (x->subscripts[s].e->node != IR_INDEX || x->subscripts[s].e->id != v->loop) s++;
  const ir_subscript *sub = &x->subscripts[s];
  lanes_slot slot = v->slots->stride[x->tensor][sub->first + sub->count];
  if (slot.param < 0) return gen_i64(b, ELEMENT_BYTES * slot.value);
  gen_value stride = gen_param(b, slot.param);
  return gen_mul_imm(b, gen_type_of(b, stride) == GEN_I64 ? stride : gen_sext(b, stride, GEN_I64),
                     ELEMENT_BYTES);
}

static void copy_vector(warps_emitter *e, const moved *v, gen_value base, gen_value stride, gen_value at,
                        bool exists) {
  gen_builder *b = e->b;
  gen_branch branch;
  int bytes = v->t->width * ELEMENT_BYTES;
  attend_place place = attend_place_of(b, v->t, at, exists);
  gen_value row = gen_add(b, v->first, place.row);
  gen_value address = gen_add(b, base, gen_mul(b, gen_zext(b, nearest(b, v, row), GEN_I64), stride));
  address = gen_add(b, address, gen_zext(b, gen_mul_imm(b, place.vector, bytes), GEN_I64));
  gen_value available = gen_select(b, is_there(b, v, row), gen_i32(b, bytes), gen_i32(b, 0));
  if (place.exists) gen_if(b, &branch, place.exists, NULL, 0);
  gen_cp_async(b, vector_address(b, v, &place), address, bytes, available);
  if (place.exists) gen_if_end(b, &branch);
}

static arke_status copy_tile(warps_emitter *e, const moved *v, arke_error *err) {
  gen_builder *b = e->b;
  int total = v->t->rows * v->t->vectors, threads = e->p->threads;
  lanes *l;
  gen_value base;
  TRY(evaluator(e, v, &l, err));
  lanes_set(l, v->loop, warps_index(e, gen_i32(b, 0)));
  lanes_set(l, v->t->loop, warps_index(e, gen_i32(b, 0)));
  TRY(lanes_pointer(l, v->t->access, &base, err));
  gen_value stride = stride_of(e, v);
  for (int i = 0; i < total; i += threads)
    copy_vector(e, v, base, stride, gen_add_imm(b, e->thread, i), i + threads <= total);
  return ARKE_OK;
}

/* --- through registers --- */

static arke_status put_vector(warps_emitter *e, const moved *v, const attend_place *at, arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = v->t;
  gen_value row = gen_add(b, v->first, at->row), values[LANES_MAX], words[LANES_MAX];
  lanes *l;
  int n;
  TRY(evaluator(e, v, &l, err));
  lanes_set(l, v->loop, warps_index(e, nearest(b, v, row)));
  lanes_set(l, t->loop, warps_index(e, gen_mul_imm(b, at->vector, t->width)));
  TRY(lanes_elements(l, t->access, values, &n, err));
  for (int i = 0; i < t->width; i++) values[i] = gen_widen(b, e->m->type, values[i < n ? i : 0]);
  gen_pack(b, e->m->type, values, t->width, words);
  int count = gen_packed_words(e->m->type, t->width);
  gen_value there = is_there(b, v, row), to = vector_address(b, v, at);
  for (int i = 0; i < count; i++) words[i] = gen_select(b, there, words[i], gen_i32(b, 0));
  gen_value all = count > 1 ? gen_vector(b, words, count) : words[0];
  gen_store_shared(b, t->width == 1 ? gen_trunc(b, words[0], GEN_I16) : all, to);
  return ARKE_OK;
}

static arke_status put_tile(warps_emitter *e, const moved *v, arke_error *err) {
  gen_builder *b = e->b;
  gen_value carried[] = {e->thread};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], (int64_t)v->t->rows * v->t->vectors));
  attend_place at = attend_place_of(b, v->t, carried[0], true);
  TRY(put_vector(e, v, &at, err));
  carried[0] = gen_add_imm(b, carried[0], e->p->threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

static arke_status move_tile(warps_emitter *e, const moved *v, arke_error *err) {
  return e->plan->vectors.copied ? copy_tile(e, v, err) : put_tile(e, v, err);
}

/* --- tiles --- */

void warps_clear_padding(warps_emitter *e) {
  const warps_pass *p = e->p;
  for (int i = 0; i < 2; i++) {
    const attend_tile *rows = &p->rows[i], *columns = &p->columns[i];
    if (rows->present)
      attend_clear_padding(e->b, rows, gen_add_imm(e->b, e->smem_rows, rows->offset_bytes), 1, 0, e->thread,
                           p->threads);
    if (columns->present)
      attend_clear_padding(e->b, columns, gen_add_imm(e->b, e->ring, columns->offset_bytes), p->stages,
                           p->stage_bytes, e->thread, p->threads);
  }
}

arke_status warps_load_rows(warps_emitter *e, arke_error *err) {
  for (int i = 0; i < 2; i++) {
    const attend_tile *t = &e->p->rows[i];
    moved v = {.t = t,
               .slots = &e->k->row_slots[i],
               .loop = warps_row_loop(e),
               .from = e->first,
               .below = e->end,
               .first = e->first,
               .to = gen_add_imm(e->b, e->smem_rows, t->offset_bytes)};
    if (t->present) TRY(move_tile(e, &v, err));
  }
  return ARKE_OK;
}

/* l and e of a step's queries. */
static void copy_statistics(warps_emitter *e, const moved *v, gen_value to) {
  gen_builder *b = e->b;
  gen_branch branch;
  for (int i = 0; i < e->p->block_columns; i += e->p->threads) {
    gen_value in = gen_add_imm(b, e->thread, i), row = gen_add(b, v->first, in);
    gen_value address = warps_statistics_address(e, v->head, nearest(b, v, row));
    gen_value bytes = gen_i32(b, WARPS_STATISTICS_BYTES);
    gen_if(b, &branch, gen_compare_imm(b, GEN_ULT, in, e->p->block_columns), NULL, 0);
    gen_cp_async(b, gen_add(b, to, gen_mul_imm(b, in, WARPS_STATISTICS_BYTES)), address,
                 WARPS_STATISTICS_BYTES, gen_select(b, is_there(b, v, row), bytes, gen_i32(b, 0)));
    gen_if_end(b, &branch);
  }
}

arke_status warps_load_step(warps_emitter *e, const warps_walk *w, gen_value stage, arke_error *err) {
  gen_builder *b = e->b;
  moved v = {.loop = warps_column_loop(e),
             .from = e->from,
             .below = e->below,
             .first = gen_mul_imm(b, w->step, e->p->block_columns),
             .head = warps_walk_head(e, w)};
  for (int i = 0; i < 2; i++) {
    v.t = &e->p->columns[i];
    v.slots = &e->k->column_slots[i];
    v.to = gen_add_imm(b, stage, v.t->offset_bytes);
    TRY(move_tile(e, &v, err));
  }
  if (e->p->side == BACKWARD_KEYS)
    copy_statistics(e, &v, gen_add_imm(b, stage, e->p->statistics_offset_bytes));
  return ARKE_OK;
}
