/* Which indices of the batch read the same keys and values, and so are rows of one tile. */
#include "templates/attend.h"

static bool mentions(const ir_form *form, const ir_expr *e, int loop) {
  return ir_form_free(form, e) >> loop & 1;
}

/* The divisor of index / by, an expression of sizes; NULL: it is something else. */
static const ir_expr *divisor_of(const ir_form *form, const ir_expr *e, int loop) {
  int64_t value;
  if (e->node != IR_OPERATOR || e->id != IR_OP_DIV) return NULL;
  const ir_expr *index = e->args[0];
  while (lanes_is_index_cast(form, index)) index = index->args[0];
  if (index->node != IR_INDEX || index->id != loop) return NULL;
  return lanes_static_value(form, e->args[1], &value) ? e->args[1] : NULL;
}

/* Takes what the subscripts of an access say of a loop into what others have said. */
static void look_at(const ir_form *form, int access, int loop, attend_batch *of) {
  const ir_access *x = &form->accesses[access];
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (!mentions(form, e, loop)) continue;
    const ir_expr *by = divisor_of(form, e, loop);
    if (of->share == ATTEND_PACKED && by) {
      *of = (attend_batch){ATTEND_SHARED, by};
    } else if (!by || of->by != by) {
      *of = (attend_batch){ATTEND_UNIT, NULL};
      return;
    }
  }
}

void attend_rows_find(const attention_match *m, attend_rows *rows) {
  const ir_form *form = &m->form;
  *rows = (attend_rows){0};
  for (int i = 0; i < m->batch.n; i++) {
    int loop = m->batch.loops[i];
    attend_batch *of = &rows->of[i];
    *of = (attend_batch){ATTEND_PACKED, NULL};
    for (int k = 0; k < m->n_parts && of->share != ATTEND_UNIT; k++)
      look_at(form, m->parts[k].k.access, loop, of);
    if (of->share != ATTEND_UNIT) look_at(form, m->v.access, loop, of);
    for (int k = 0; k < m->bounds.n_conditions; k++)
      if (mentions(form, m->bounds.conditions[k], loop)) *of = (attend_batch){ATTEND_UNIT, NULL};
    for (int k = 0; k < m->bounds.n; k++)
      for (int j = 0; j < m->bounds.list[k].rest.n; j++)
        if (mentions(form, m->bounds.list[k].rest.terms[j].e, loop)) *of = (attend_batch){ATTEND_UNIT, NULL};
  }
}

int64_t attend_own(const attention_match *m, const attend_rows *rows, int place) {
  int64_t extent = ir_form_extent(&m->form, m->batch.loops[place]), by;
  switch (rows->of[place].share) {
  case ATTEND_UNIT: return 1;
  case ATTEND_PACKED: return extent > 0 ? extent : 1;
  case ATTEND_SHARED: break;
  }
  return lanes_static_value(&m->form, rows->of[place].by, &by) && by > 0 && extent % by == 0 ? by : 0;
}

int64_t attend_units(const attention_match *m, const attend_rows *rows) {
  int64_t n = 1;
  for (int i = 0; i < m->batch.n; i++) {
    int64_t own = attend_own(m, rows, i);
    n *= own > 0 ? ir_form_extent(&m->form, m->batch.loops[i]) / own : 0;
  }
  return n;
}

int64_t attend_pack(const attention_match *m, const attend_rows *rows) {
  int64_t n = 1;
  for (int i = 0; i < m->batch.n; i++) n *= attend_own(m, rows, i);
  return n;
}

const recipe_expr *attend_own_recipe(const attention_match *m, const attend_rows *rows, int place, arena *a) {
  switch (rows->of[place].share) {
  case ATTEND_UNIT: return recipe_const(a, 1);
  case ATTEND_PACKED: return kernel_extent(&m->form, m->batch.loops[place], a);
  case ATTEND_SHARED: break;
  }
  return lanes_static_recipe(&m->form, rows->of[place].by, a);
}

const recipe_expr *attend_unit_recipe(const attention_match *m, const attend_rows *rows, int place,
                                      arena *a) {
  const recipe_expr *extent = kernel_extent(&m->form, m->batch.loops[place], a);
  switch (rows->of[place].share) {
  case ATTEND_UNIT: return extent;
  case ATTEND_PACKED: return recipe_binary(a, RECIPE_MIN, extent, recipe_const(a, 1));
  case ATTEND_SHARED: break;
  }
  return recipe_binary(a, RECIPE_DIV, extent, attend_own_recipe(m, rows, place, a));
}
