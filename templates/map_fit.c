/* Which operators are maps, and how their loops become rows and columns. */
#include "templates/in_place.h"
#include "templates/map.h"

/* --- the form --- */

typedef struct scan {
  const ir_form *form;
  bool *seen; /* by node */
  const ir_expr *reduction;
} scan;

static void find_reduction(scan *s, const ir_expr *e) {
  int number = ir_form_number(s->form, e);
  if (s->seen[number] || s->reduction) return;
  s->seen[number] = true;
  if (e->node == IR_REDUCE) s->reduction = e;
  for (int i = 0; i < e->n_args; i++) find_reduction(s, e->args[i]);
  if (e->node != IR_READ) return;
  const ir_access *x = &s->form->accesses[e->id];
  for (int i = 0; i < x->n; i++) find_reduction(s, x->subscripts[i].e);
  if (x->other) find_reduction(s, x->other);
}

/* Subscripts of an output: each a loop of its own. */
static bool is_plain(const ir_access *x) {
  for (int i = 0; i < x->n; i++) {
    if (x->subscripts[i].e->node != IR_INDEX) return false;
    for (int k = 0; k < i; k++) {
      if (x->subscripts[k].e->id == x->subscripts[i].e->id) return false;
    }
  }
  return true;
}

static template_reason refuse(template_reason reason, strbuf *detail, const char *why, const char *tensor) {
  if (detail) strbuf_addf(detail, why, tensor);
  return reason;
}

static template_reason check_output(scan *s, const ir_form_output *out, strbuf *detail) {
  const ir_form *form = s->form;
  const ir_op *op = form->problem->op;
  const ir_access *x = &form->accesses[out->access];
  const char *name = op->tensors[x->tensor].name;
  if (out->positions >= 0 || out->update != IR_ASSIGN || !is_plain(x))
    return refuse(TEMPLATE_OPERATOR, detail, "%s is not written once at each of its indices", name);
  find_reduction(s, out->value);
  if (s->reduction) return refuse(TEMPLATE_OPERATOR, detail, "%s needs a reduction", name);
  for (int i = 0; i < form->n_outputs; i++) {
    if (&form->outputs[i] != out && form->accesses[form->outputs[i].access].tensor == x->tensor)
      return refuse(TEMPLATE_OPERATOR, detail, "%s is written by several definitions", name);
  }
  if (dtype_bits(ir_tensor_dtype(form->problem, x->tensor)) < 8)
    return refuse(TEMPLATE_DTYPE, detail, "two elements of %s share a byte", name);
  return TEMPLATE_OK;
}

/* --- groups --- */

static void add_row(map_group *g, int loop, int axis) {
  g->rows[g->n_rows++] = (map_loop){loop, axis};
}

/* The columns are the last subscript of the group's first output; of leading axes in views, the fastest. */
static void fill_group(const map_match *m, map_group *g, const ir_access *x) {
  const ir_form *form = &m->form;
  g->scalar = x->n == 0;
  g->column = (map_loop){-1, -1};
  for (int i = 0; i < x->n; i++) {
    int loop = x->subscripts[i].e->id;
    bool last = i + 1 == x->n, lead = form->loops[loop].leading && !m->dense;
    if (lead) {
      for (int axis = LANES_LEAD - 1; axis >= (last ? 1 : 0); axis--) add_row(g, loop, axis);
    }
    if (last) {
      g->column = (map_loop){loop, lead ? 0 : -1};
    } else if (!lead && !(m->dense && ir_form_extent(form, loop) == 1)) {
      add_row(g, loop, -1);
    }
  }
}

static template_reason make_groups(map_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_access *x = &form->accesses[form->outputs[i].access];
    unsigned loops = 0;
    for (int s = 0; s < x->n; s++) loops |= 1u << x->subscripts[s].e->id;
    int g = 0;
    while (g < m->n_groups && m->groups[g].loops != loops) g++;
    if (g == MAP_GROUPS)
      return refuse(TEMPLATE_OPERATOR, detail, "too many different shapes of outputs%s", "");
    if (g == m->n_groups) {
      m->n_groups++;
      m->groups[g].loops = loops;
      fill_group(m, &m->groups[g], x);
    }
    m->groups[g].outputs |= UINT64_C(1) << i;
    unsigned free = ir_form_free(form, form->outputs[i].value);
    if (free & ~loops)
      return refuse(TEMPLATE_OPERATOR, detail, "%s depends on a loop that does not index it",
                    form->problem->op->tensors[x->tensor].name);
  }
  return TEMPLATE_OK;
}

/* A later group would read what an earlier one has overwritten. */
static bool in_place_fits(const map_match *m) {
  const ir_op *op = m->form.problem->op;
  bool in_place = false;
  for (int t = op->n_inputs; t < op->n_args; t++) in_place = in_place || op->tensors[t].alias >= 0;
  return !in_place || (m->n_groups == 1 && in_place_is_safe(&m->form));
}

static template_reason match(map_match *m, bool *seen, strbuf *detail) {
  scan s = {.form = &m->form, .seen = seen};
  if (m->form.n_outputs == 0) return refuse(TEMPLATE_OPERATOR, detail, "nothing is written%s", "");
  for (int i = 0; i < m->form.n_outputs; i++) {
    template_reason reason = check_output(&s, &m->form.outputs[i], detail);
    if (reason != TEMPLATE_OK) return reason;
  }
  template_reason reason = make_groups(m, detail);
  if (reason != TEMPLATE_OK) return reason;
  if (!in_place_fits(m))
    return refuse(TEMPLATE_OPERATOR, detail, "it reads elements that others overwrite%s", "");
  return TEMPLATE_OK;
}

arke_status map_match_make(const ir_problem *p, bool dense, arena *a, map_match *m, template_reason *reason,
                           strbuf *detail, arke_error *err) {
  ir_form form;
  arke_error why = ARKE_ERROR_INIT;
  *m = (map_match){.dense = dense};
  arke_status status = ir_form_make(p, a, &form, &why);
  if (status == ARKE_OK && dense) {
    status = ir_form_merge(&form, a, &m->form, &why);
  } else {
    m->form = form;
  }
  if (status == ARKE_ERR_UNSUPPORTED) {
    *reason = refuse(TEMPLATE_OPERATOR, detail, "%s", why.text);
    return ARKE_OK;
  }
  bool *seen = status == ARKE_OK ? ARENA_NEW_N(a, bool, (size_t)m->form.n_nodes + 1) : NULL;
  if (!seen) return error_memory(err, "generate");
  *reason = match(m, seen, detail);
  return ARKE_OK;
}

/* --- sizes --- */

static int64_t extent(const map_match *m, map_loop l) {
  if (l.loop < 0) return 1;
  /* Of a leading loop by its axes: as if they were one. */
  return l.axis > 0 ? 1 : ir_form_extent(&m->form, l.loop);
}

int64_t map_columns(const map_match *m, const map_group *g) {
  return extent(m, g->column);
}

int64_t map_row_count(const map_match *m, const map_group *g) {
  int64_t rows = 1;
  for (int i = 0; i < g->n_rows; i++) rows *= extent(m, g->rows[i]);
  return rows;
}

template_reason map_fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t; /* loads and stores are on every target */
  arena a = ARENA_INIT;
  map_match m;
  template_reason reason;
  arke_error err = ARKE_ERROR_INIT;
  if (map_match_make(p, true, &a, &m, &reason, detail, &err) != ARKE_OK)
    reason = refuse(TEMPLATE_OPERATOR, detail, "%s", err.text);
  arena_release(&a);
  return reason;
}
