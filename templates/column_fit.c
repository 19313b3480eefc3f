/* Which forms are reductions along columns. */
#include <stdarg.h>

#include "templates/column.h"
#include "templates/in_place.h"

static template_reason refuse(strbuf *detail, const char *format, ...) __attribute__((format(printf, 2, 3)));
static template_reason refuse(strbuf *detail, const char *format, ...) {
  if (detail) {
    va_list args;
    va_start(args, format);
    strbuf_vaddf(detail, format, args);
    va_end(args);
  }
  return TEMPLATE_OPERATOR;
}

static gen_type computed_in(const ir_form *form, const ir_expr *e) {
  switch (ir_form_type(form, e)) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_I64: return GEN_I64;
  default: return GEN_I32;
  }
}

/* Collects the body and conditions of a reduction over several loops, sum(i) sum(j) …; the loops it takes. */
static bool open_reduction(const ir_form *form, const ir_expr *e, column_reduction *r, unsigned *loops) {
  *r = (column_reduction){.e = e, .body = e};
  *loops = 0;
  bool located = e->id == IR_RED_ARGMAX || e->id == IR_RED_ARGMIN;
  while (r->body->node == IR_REDUCE && r->body->id == e->id) {
    if (*loops && located) return false;
    *loops |= 1u << r->body->index;
    if (r->body->n_args > 1) {
      if (r->n_conditions == COLUMN_CONDITIONS) return false;
      r->conditions[r->n_conditions++] = r->body->args[1];
    }
    r->body = r->body->args[0];
  }
  r->r.kind = (ir_reduction)e->id;
  r->r.type =
      r->r.kind == IR_RED_ANY || r->r.kind == IR_RED_ALL ? GEN_I1 : computed_in(form, located ? r->body : e);
  r->r.position = lanes_need_wide_offsets(form) ? GEN_I64 : GEN_I32;
  return true;
}

/* Reads under `e`, as bits; *reduces: there is a reduction among them. */
static uint64_t reads_of(const ir_form *form, const ir_expr *e, bool *reduces) {
  uint64_t set = 0;
  if (e->node == IR_REDUCE) *reduces = true;
  if (e->node == IR_READ) {
    const ir_access *a = &form->accesses[e->id];
    set |= UINT64_C(1) << e->id;
    for (int s = 0; s < a->n; s++) set |= reads_of(form, a->subscripts[s].e, reduces);
    if (a->other) set |= reads_of(form, a->other, reduces);
    return set;
  }
  for (int i = 0; i < e->n_args; i++) set |= reads_of(form, e->args[i], reduces);
  return set;
}

/* Whether a reduction's reads lie inside for every row: rows that are out of range would have to be left out.
 */
static bool rows_stay_inside(const ir_form *form, uint64_t reads, unsigned rows) {
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *a = &form->accesses[i];
    if (!(reads >> i & 1) || a->conditional || a->other) continue;
    for (int s = 0; s < a->n; s++) {
      const ir_expr *e = a->subscripts[s].e;
      if (e->node != IR_INDEX && e->node != IR_READ && (ir_form_free(form, e) & rows)) return false;
    }
  }
  return true;
}

static template_reason match_outputs(column_match *m, unsigned rows, strbuf *detail) {
  const ir_form *form = &m->form;
  unsigned kept = ((1u << form->n_loops) - 1) & ~rows;
  m->v = -1;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    const ir_access *written = &form->accesses[out->access];
    unsigned seen = 0;
    if (out->update != IR_ASSIGN || out->positions >= 0)
      return refuse(detail, "the column template writes each element once");
    for (int s = 0; s < written->n; s++) {
      const ir_expr *e = written->subscripts[s].e;
      if (e->node != IR_INDEX || seen >> e->id & 1)
        return refuse(detail, "the column template writes each element once");
      seen |= 1u << e->id;
    }
    if (seen != kept || written->n == 0)
      return refuse(detail, "the column template's outputs have one element a column");
    int v = written->subscripts[written->n - 1].e->id;
    if (m->v >= 0 && m->v != v) return refuse(detail, "the outputs run along different loops");
    m->v = v;
    for (int before = 0; before < o; before++) {
      if (form->accesses[form->outputs[before].access].tensor == written->tensor)
        return refuse(detail, "the column template writes each element once");
    }
  }
  for (int l = 0; l < form->n_loops; l++) {
    if (rows >> l & 1) m->rows[m->n_rows++] = l;
    if (kept >> l & 1 && l != m->v) m->kept[m->n_kept++] = l;
  }
  return TEMPLATE_OK;
}

static template_reason match_reductions(column_match *m, unsigned *rows, uint64_t *reads, strbuf *detail) {
  const ir_form *form = &m->form;
  const ir_expr *list[IR_FORM_LOOPS * COLUMN_REDUCTIONS];
  int n = ir_form_reductions(form, list, COUNT_OF(list));
  uint64_t nested = 0; /* by number in the list: inner part of another */
  if (n == 0) return refuse(detail, "nothing is reduced");
  if (n >= (int)COUNT_OF(list) || n > 63) return refuse(detail, "there are too many reductions");
  /* Inner ones come first: what is opened from outside is not one of its own. */
  for (int i = n - 1; i >= 0; i--) {
    column_reduction r;
    unsigned loops;
    bool reduces = false;
    if (nested >> i & 1) continue;
    if (m->n_reductions == COLUMN_REDUCTIONS) return refuse(detail, "there are too many reductions");
    if (!open_reduction(form, list[i], &r, &loops)) return refuse(detail, "a reduction is not a plain one");
    for (const ir_expr *e = r.e; e != r.body; e = e->args[0]) {
      for (int k = 0; k < i; k++)
        if (list[k] == e) nested |= UINT64_C(1) << k;
    }
    *reads |= reads_of(form, r.body, &reduces);
    for (int k = 0; k < r.n_conditions; k++) *reads |= reads_of(form, r.conditions[k], &reduces);
    if (reduces) return refuse(detail, "a reduction needs another one's result");
    if (*rows && *rows != loops) return refuse(detail, "reductions are over different loops");
    *rows = loops;
    m->reductions[m->n_reductions++] = r;
  }
  return TEMPLATE_OK;
}

template_reason column_match_make(const ir_problem *p, bool merged, arena *a, column_match *m, strbuf *detail,
                                  arke_status *status) {
  ir_form plain;
  *m = (column_match){.v = -1};
  arke_status made = ir_form_make(p, a, &plain, NULL);
  if (made == ARKE_OK && merged) made = ir_form_merge(&plain, a, &m->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) return refuse(detail, "the operator has no form");
  if (!merged) m->form = plain;
  const ir_form *form = &m->form;
  unsigned rows = 0;
  uint64_t reads = 0;
  if (form->n_outputs == 0 || form->n_accesses > 64) return refuse(detail, "there are too many reads");
  template_reason reason = match_reductions(m, &rows, &reads, detail);
  if (reason == TEMPLATE_OK) reason = match_outputs(m, rows, detail);
  if (reason != TEMPLATE_OK) return reason;
  bool along = false;
  for (int i = 0; i < form->n_accesses; i++)
    along = along || (reads >> i & 1 && ir_form_motion(form, i, m->v) == IR_MOTION_UNIT);
  if (!along) return refuse(detail, "no reduced read runs along the loop that the outputs run along");
  if (!rows_stay_inside(form, reads, rows)) return refuse(detail, "a reduction reads beyond its tensor");
  if (!in_place_is_safe(form))
    return refuse(detail, "a tensor is read elsewhere than it is written in place");
  for (int l = 0; l < form->n_loops; l++) {
    if (rows >> l & 1 || ir_form_extent(form, l) >= 1) continue; /* nothing reduced is 0, -inf, … */
    refuse(detail, "an axis is empty");
    return TEMPLATE_SIZE;
  }
  for (int o = 0; o < form->n_outputs; o++) {
    int tensor = form->accesses[form->outputs[o].access].tensor;
    if (dtype_bits(ir_tensor_dtype(p, tensor)) >= 8) continue;
    refuse(detail, "columns are stored one by one, and two elements of %s share a byte",
           p->op->tensors[tensor].name);
    return TEMPLATE_DTYPE;
  }
  return TEMPLATE_OK;
}

template_reason column_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  column_match m;
  (void)t; /* shared memory, barriers and shuffles are on every target */
  template_reason reason = column_match_make(p, true, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}
