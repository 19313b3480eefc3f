/* The end of a tile: outputs are expressions over sums, stored from registers. */
#include "generator/gen_control.h"
#include "templates/backward_warps.h"

/* The row whose outputs are evaluated: what the REDUCE node is there. */
typedef struct stored_row {
  const warps_emitter *e;
  int width;
  const gen_value *sums; /* of the columns at hand */
} stored_row;

static arke_status sum_of(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  stored_row *row = user;
  for (int i = 0; i < 3; i++)
    if (x == row->e->m->sums[i]) {
      for (int k = 0; k < row->width; k++) values[k] = row->sums[k];
      return ARKE_OK;
    }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the gradients' template has not");
}

static arke_status store_run(warps_emitter *e, int which, lanes *l, gen_value column, arke_error *err) {
  gen_builder *b = e->b;
  int output = e->p->output[which], n, columns = e->p->columns[which].columns;
  const ir_expr *value = e->m->form.outputs[output].value;
  bool padded = e->p->columns[which].padded > columns;
  gen_value values[LANES_MAX];
  gen_branch inside;
  lanes_set(l, backward_width_loop(e->m, which), warps_index(e, column));
  if (padded) gen_if(b, &inside, gen_compare_imm(b, GEN_ULT, column, columns), NULL, 0);
  TRY(lanes_load(l, value, err));
  TRY(lanes_eval(l, value, values, &n, err));
  TRY(lanes_store(l, output, values, n, NULL, err));
  if (padded) gen_if_end(b, &inside);
  if (padded) lanes_forget(l);
  return ARKE_OK;
}

arke_status warps_store(warps_emitter *e, int which, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  int number = e->p->side == BACKWARD_QUERIES ? 0 : 1 + which;
  gen_value in = gen_add(b, e->warp_row, gen_lshr(b, e->lane, gen_i32(b, 2)));
  gen_value first = gen_mul_imm(b, gen_and(b, e->lane, gen_i32(b, 3)), 2);
  for (int r = 0; r < WARPS_ROWS; r++) {
    lanes_options o = e->plan->vectors.epilogue[number];
    stored_row row = {.e = e, .width = o.width};
    gen_branch exists;
    lanes *l;
    o.user = &row;
    o.reduce = sum_of;
    TRY(lanes_create(b, &e->m->form, &o, &e->k->epilogue_slots[which], e->k->a, &l, err));
    gen_value at = gen_add(b, e->first, gen_add_imm(b, in, 8 * (int64_t)r));
    gen_if(b, &exists, gen_compare(b, GEN_SLT, at, e->end), NULL, 0);
    warps_set_batch(e, l, e->p->side, NULL);
    lanes_set(l, warps_row_loop(e), warps_index(e, at));
    for (int i = 2 * r; i < e->p->columns[which].padded / 2; i += 4)
      for (int k = 0; k < 2; k += o.width) {
        row.sums = &sums[i + k];
        TRY(store_run(e, which, l, gen_add_imm(b, first, 8 * (int64_t)(i / 4) + k), err));
      }
    gen_if_end(b, &exists);
  }
  return ARKE_OK;
}
