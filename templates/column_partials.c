/* Partial results of a column reduction in memory, from one kernel to the next. */
#include "generator/gen_memory.h"
#include "templates/column_emit.h"

static gen_value partials_at(const column_emitter *e, int k, int i, gen_value split) {
  gen_builder *b = e->b;
  int bytes = column_bytes(&e->m->reductions[k].r, i) * e->p->vector;
  gen_value positions = column_as(b, gen_param(b, e->k->positions), GEN_I64);
  gen_value at = gen_mul(b, gen_zext(b, split, GEN_I64), positions);
  at = gen_add(b, at, column_as(b, e->position, GEN_I64));
  return gen_add(b, gen_param(b, e->k->partials[k][i]), gen_mul_imm(b, at, bytes));
}

static int most_at_once(const column_emitter *e, int bytes) {
  return e->p->vector * bytes <= 16 ? e->p->vector : 16 / bytes;
}

static void load_partials(const column_emitter *e, gen_value split, gen_value *states) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i), n = most_at_once(e, bytes);
      gen_value at = partials_at(e, k, i, split);
      for (int j = 0; j < e->p->vector; j += n) {
        gen_value v = gen_load_global(e->b, column_stored_type(reduction_type(r, i)), n,
                                      gen_add_imm(e->b, at, (int64_t)j * bytes), true);
        for (int x = 0; x < n; x++) {
          gen_value one = n == 1 ? v : gen_lane(e->b, v, x);
          states[column_slot(e, k, j + x) + i * e->p->vector] = column_loaded(e, one, reduction_type(r, i));
        }
      }
    }
  }
}

void column_store_partials(const column_emitter *e) {
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i), n = most_at_once(e, bytes);
      gen_value at = partials_at(e, k, i, e->split);
      for (int j = 0; j < e->p->vector; j += n) {
        gen_value parts[LANES_MAX];
        for (int x = 0; x < n; x++)
          parts[x] = column_stored(e, e->states[column_slot(e, k, j + x) + i * e->p->vector]);
        gen_store_global(e->b, n == 1 ? parts[0] : gen_vector(e->b, parts, n),
                         gen_add_imm(e->b, at, (int64_t)j * bytes));
      }
    }
  }
}

/* The number of splits is a power of two, as is `down`: every thread takes equally many, or the upper ones
 * none. */
void column_take_partials(column_emitter *e) {
  int each = e->p->split / e->p->down;
  gen_value rows[8][COLUMN_MOST_VALUES];
  for (int i = 0; i < each; i += 8) {
    int n = each - i < 8 ? each - i : 8;
    for (int x = 0; x < n; x++)
      load_partials(e, gen_add_imm(e->b, e->down, (int64_t)(i + x) * e->p->down), rows[x]);
    for (int x = 0; x < n; x++) column_combine(e, e->states, rows[x]);
  }
}
