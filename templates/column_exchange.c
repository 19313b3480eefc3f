/* What threads, warps and CTAs of a column reduction combine, each step in a fixed order. */
#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/column_emit.h"

void column_combine_in_warp(column_emitter *e) {
  for (int distance = e->p->across; distance < 32; distance *= 2) {
    gen_value others[COLUMN_MOST_VALUES];
    for (int i = 0; i < e->n; i++) {
      gen_value x = gen_shuffle_xor(e->b, column_stored(e, e->states[i]), gen_i32(e->b, distance), 32);
      others[i] = column_loaded(e, x, gen_type_of(e->b, e->states[i]));
    }
    column_combine(e, e->states, others);
  }
}

/* Each state value has `groups` rows of across * vector in shared memory. */
static gen_value shared_at(const column_emitter *e, gen_value base, gen_value group, int bytes) {
  gen_value at = gen_add(e->b, gen_mul_imm(e->b, group, e->p->across), e->across);
  return gen_add(e->b, base, gen_mul_imm(e->b, at, bytes));
}

typedef enum exchange_way { WRITE, READ, READ_OF_CLUSTER } exchange_way;

static void exchange(column_emitter *e, gen_value shared, gen_value group, gen_value *states,
                     exchange_way way) {
  int offset = 0, each = e->p->groups * e->p->across;
  for (int k = 0; k < e->m->n_reductions; k++) {
    const reduction *r = &e->m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) {
      int bytes = column_bytes(r, i);
      gen_type type = reduction_type(r, i);
      for (int j = 0; j < e->p->vector; j++, offset += each * bytes) {
        gen_value at = gen_add_imm(e->b, shared_at(e, shared, group, bytes), offset);
        gen_value *state = &states[column_slot(e, k, j) + i * e->p->vector];
        switch (way) {
        case WRITE: gen_store_shared(e->b, column_stored(e, *state), at); break;
        case READ:
          *state = column_loaded(e, gen_load_shared(e->b, column_stored_type(type), 1, at), type);
          break;
        case READ_OF_CLUSTER:
          *state = column_loaded(e, gen_load_cluster(e->b, column_stored_type(type), 1, at), type);
        }
      }
    }
  }
}

void column_combine_in_cta(column_emitter *e, gen_value shared, gen_value group, gen_value speaks) {
  gen_builder *b = e->b;
  for (int half = e->p->groups / 2; half >= 1; half /= 2) {
    gen_branch upper, lower;
    gen_value below = gen_compare_imm(b, GEN_ULT, group, half);
    gen_value above = gen_and(b, gen_compare_imm(b, GEN_UGE, group, half),
                              gen_compare_imm(b, GEN_ULT, group, 2 * (int64_t)half));
    gen_if(b, &upper, gen_and(b, speaks, above), NULL, 0);
    exchange(e, shared, group, e->states, WRITE);
    gen_if_end(b, &upper);
    gen_cta_sync(b);
    gen_if(b, &lower, gen_and(b, speaks, below), e->states, e->n);
    gen_value others[COLUMN_MOST_VALUES];
    exchange(e, shared, gen_add_imm(b, group, half), others, READ);
    column_combine(e, e->states, others);
    gen_if_end(b, &lower);
  }
}

void column_combine_in_cluster(column_emitter *e, gen_value shared, gen_value first) {
  gen_builder *b = e->b;
  gen_value others[COLUMN_MOST_CLUSTER][COLUMN_MOST_VALUES], none = gen_i32(b, 0);
  gen_branch has, leads;
  gen_if(b, &has, first, NULL, 0);
  exchange(e, shared, none, e->states, WRITE);
  gen_if_end(b, &has);
  gen_cluster_sync(b);
  gen_value leading = gen_and(b, first, gen_compare_imm(b, GEN_EQ, e->split, 0));
  gen_if(b, &leads, leading, e->states, e->n);
  for (int r = 1; r < e->p->split; r++)
    exchange(e, gen_cluster_map(b, shared, gen_i32(b, r)), none, others[r], READ_OF_CLUSTER);
  for (int r = 1; r < e->p->split; r++) column_combine(e, e->states, others[r]);
  gen_if_end(b, &leads);
  gen_cluster_arrive(b); /* nobody ends while it is read */
}
