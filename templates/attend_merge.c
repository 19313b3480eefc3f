/* Parts of a row's keys become one, and a row's outputs are evaluated. */
#include <math.h>

#include "generator/gen_control.h"
#include "generator/gen_warp.h"
#include "templates/attend.h"
#include "templates/contraction_value.h"

void attend_merge_start(gen_builder *b, int width, attend_merged *all) {
  all->largest = gen_f32(b, -(double)INFINITY);
  all->total = gen_f32(b, 0);
  for (int i = 0; i < width; i++) all->sums[i] = gen_f32(b, 0);
}

static void add_part(gen_builder *b, int width, attend_merged *all, const attend_merged *part,
                     gen_value minus) {
  gen_value factor = attend_exp2(b, gen_fadd(b, part->largest, minus));
  all->total = gen_fma(b, part->total, factor, all->total);
  for (int i = 0; i < width; i++) all->sums[i] = gen_fma(b, part->sums[i], factor, all->sums[i]);
}

void attend_merge(gen_builder *b, int width, attend_merged *all, const attend_merged *parts, int n) {
  attend_merged before = *all;
  for (int i = 0; i < n; i++) all->largest = gen_maximum(b, all->largest, parts[i].largest);
  gen_value nothing = gen_compare(b, GEN_EQ, all->largest, gen_f32(b, -(double)INFINITY));
  gen_value minus = gen_select(b, nothing, gen_f32(b, 0), gen_fneg(b, all->largest));
  all->total = gen_f32(b, 0);
  for (int i = 0; i < width; i++) all->sums[i] = gen_f32(b, 0);
  add_part(b, width, all, &before, minus);
  for (int i = 0; i < n; i++) add_part(b, width, all, &parts[i], minus);
}

static int pack(const attend_merged *all, int width, gen_value *values) {
  values[0] = all->largest;
  values[1] = all->total;
  for (int i = 0; i < width; i++) values[2 + i] = all->sums[i];
  return 2 + width;
}

static void unpack(const gen_value *values, int width, attend_merged *all) {
  all->largest = values[0];
  all->total = values[1];
  for (int i = 0; i < width; i++) all->sums[i] = values[2 + i];
}

static void merge_lanes(gen_builder *b, void *user, gen_value *into, const gen_value *from, int n) {
  attend_merged all, part;
  (void)user;
  unpack(into, n - 2, &all);
  unpack(from, n - 2, &part);
  attend_merge(b, n - 2, &all, &part, 1);
  pack(&all, n - 2, into);
}

void attend_merge_lanes(gen_builder *b, int width, attend_merged *all, int team) {
  gen_value values[2 + LANES_MAX];
  if (team == 1) return;
  int n = pack(all, width, values);
  gen_warp_reduce(b, values, n, team, merge_lanes, NULL);
  unpack(values, width, all);
}

/* --- outputs --- */

typedef struct stored_row {
  attend_emitter *e;
  lanes *l;
  const attend_merged *all;
} stored_row;

static arke_status statistic(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  stored_row *row = user;
  gen_builder *b = row->e->b;
  const attention_match *m = row->e->m;
  if (x == m->largest) {
    values[0] = m->base2 ? row->all->largest : gen_fmul(b, row->all->largest, gen_f32(b, M_LN2));
    return ARKE_OK;
  }
  if (x == m->total) {
    values[0] = row->all->total;
    return ARKE_OK;
  }
  if (x == m->groups.of) {
    values[0] = contraction_value_as(b, row->e->group_number, ir_form_type(&m->form, x));
    return ARKE_OK;
  }
  if (x != m->weighted)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the attend template has not");
  int width = row->e->p->epilogue.width, n;
  gen_value divisor[LANES_MAX], scales[ATTENTION_SCALES][LANES_MAX];
  if (m->divisor) TRY(lanes_eval(row->l, m->divisor, divisor, &n, err));
  for (int k = 0; k < m->n_scales; k++) TRY(lanes_eval(row->l, m->scales[k], scales[k], &n, err));
  for (int i = 0; i < width; i++) {
    values[i] = row->all->sums[i];
    for (int k = 0; k < m->n_scales; k++) values[i] = gen_fmul(b, values[i], scales[k][0]);
    if (m->divisor) values[i] = gen_divide(b, lanes_accuracy(row->l, x), values[i], divisor[0]);
  }
  return ARKE_OK;
}

static arke_status store_output(attend_emitter *e, lanes *l, int o, arke_error *err) {
  const ir_expr *value = e->m->form.outputs[o].value;
  gen_value values[LANES_MAX];
  int n;
  TRY(lanes_load(l, value, err));
  TRY(lanes_eval(l, value, values, &n, err));
  return lanes_store(l, o, values, n, NULL, err);
}

arke_status attend_store(attend_emitter *e, const attend_row *row, gen_value column, attend_merged *all,
                         arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  stored_row user = {.e = e, .all = all};
  lanes_options o = e->p->epilogue;
  gen_branch first;
  o.user = &user;
  o.reduce = statistic;
  TRY(lanes_create(b, &m->form, &o, &e->k->epilogue_slots, e->k->a, &user.l, err));
  attend_set_row(e, user.l, row);
  lanes_set(user.l, m->wide, attend_index(e, column));
  TRY(store_output(e, user.l, m->output, err));
  if (m->form.n_outputs == 1) return ARKE_OK;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
  lanes_forget(user.l);
  for (int i = 0; i < m->form.n_outputs; i++)
    if (i != m->output) TRY(store_output(e, user.l, i, err));
  gen_if_end(b, &first);
  return ARKE_OK;
}
