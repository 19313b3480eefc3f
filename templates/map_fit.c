/* Which operators are maps, and how their loops become rows and columns. */
#include "templates/in_place.h"
#include "templates/lanes_index.h"
#include "templates/map.h"

/* --- the form --- */

typedef struct scan {
  const ir_form *form;
  const ir_expr *counted; /* the reduction that is taken; NULL: none */
  bool *seen;             /* by node */
  const ir_expr *reduction;
} scan;

static void find_reduction(scan *s, const ir_expr *e) {
  int number = ir_form_number(s->form, e);
  if (s->seen[number] || s->reduction) return;
  s->seen[number] = true;
  if (e->node == IR_REDUCE && e == s->counted) return; /* of one kind, and what it reads is its own */
  if (e->node == IR_REDUCE) s->reduction = e;
  for (int i = 0; i < e->n_args; i++) find_reduction(s, e->args[i]);
  if (e->node != IR_READ) return;
  const ir_access *x = &s->form->accesses[e->id];
  for (int i = 0; i < x->n; i++) find_reduction(s, x->subscripts[i].e);
  if (x->other) find_reduction(s, x->other);
}

/* --- where outputs are written --- */

/* A subscript of an output as loop + fixed, or fixed (loop -1); false: it is neither. */
static bool split_subscript(const ir_form *form, const ir_expr *e, int *loop, lanes_sum *fixed) {
  lanes_scope s = {.form = form, .loop = -1, .width = 1};
  lanes_sum sum = lanes_sum_of(&s, e, 0);
  int64_t value;
  *loop = -1;
  *fixed = (lanes_sum){.constant = sum.constant};
  for (int i = 0; i < sum.n; i++) {
    const lanes_term *t = &sum.terms[i];
    if (t->e->node == IR_INDEX && t->coefficient == 1 && *loop < 0) {
      *loop = t->e->id;
    } else if (!t->quotient && lanes_static_value(form, t->e, &value)) {
      fixed->terms[fixed->n++] = *t;
    } else {
      return false;
    }
  }
  return true;
}

int map_subscript_loop(const ir_form *form, const ir_access *x, int i) {
  int loop;
  lanes_sum fixed;
  split_subscript(form, x->subscripts[i].e, &loop, &fixed);
  return loop;
}

/* Each subscript has a loop of its own, or none. */
static bool is_plain(const ir_form *form, const ir_access *x) {
  unsigned loops = 0;
  for (int i = 0; i < x->n; i++) {
    int loop;
    lanes_sum fixed;
    if (!split_subscript(form, x->subscripts[i].e, &loop, &fixed)) return false;
    if (loop >= 0 && (loops >> loop & 1)) return false;
    if (loop >= 0) loops |= 1u << loop;
  }
  return true;
}

static int64_t fixed_value(const ir_form *form, const lanes_sum *fixed) {
  int64_t total = fixed->constant, value;
  for (int i = 0; i < fixed->n; i++) {
    if (lanes_static_value(form, fixed->terms[i].e, &value)) total += fixed->terms[i].coefficient * value;
  }
  return total;
}

static const recipe_expr *fixed_recipe(const ir_form *form, const lanes_sum *fixed, arena *a) {
  const recipe_expr *total = fixed->constant || fixed->n == 0 ? recipe_const(a, fixed->constant) : NULL;
  for (int i = 0; i < fixed->n; i++) {
    const recipe_expr *e = lanes_static_recipe(form, fixed->terms[i].e, a);
    if (fixed->terms[i].coefficient != 1)
      e = recipe_binary(a, RECIPE_MUL, recipe_const(a, fixed->terms[i].coefficient), e);
    total = total ? recipe_binary(a, RECIPE_ADD, total, e) : e;
  }
  return total;
}

/* Where the places of one access end along a subscript, and where those of another begin. */
typedef struct border {
  int subscript, loop;
  lanes_sum end, begin;
} border;

/* Whether x writes before y along subscript i in this problem. */
static bool lies_before(const ir_form *form, const ir_access *x, const ir_access *y, int i, border *b) {
  int other;
  if (!split_subscript(form, x->subscripts[i].e, &b->loop, &b->end) ||
      !split_subscript(form, y->subscripts[i].e, &other, &b->begin))
    return false;
  int64_t extent = b->loop < 0 ? 1 : ir_form_extent(form, b->loop);
  b->subscript = i;
  return fixed_value(form, &b->end) + extent <= fixed_value(form, &b->begin);
}

/* Of the first subscript that keeps them apart. 1: x lies before y, -1: behind it, 0: they may meet. */
static int find_border(const ir_form *form, const ir_access *x, const ir_access *y, border *b) {
  for (int i = 0; i < x->n && x->n == y->n; i++) {
    if (lies_before(form, x, y, i, b)) return 1;
    if (lies_before(form, y, x, i, b)) return -1;
  }
  return 0;
}

/* Whether another output lies between, along the same subscript: then two borders say what this one would. */
static bool has_between(const ir_form *form, const ir_access *x, const ir_access *y, int subscript) {
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_access *z = &form->accesses[form->outputs[i].access];
    border b, c;
    if (z == x || z == y || z->tensor != x->tensor) continue;
    int from_x = find_border(form, x, z, &b), to_y = find_border(form, z, y, &c);
    if (from_x != 0 && from_x == to_y && b.subscript == subscript && c.subscript == subscript) return true;
  }
  return false;
}

void map_require_disjoint(const map_match *m, recipe *rules, arena *a) {
  const ir_form *form = &m->form;
  for (int i = 0; i < form->n_outputs; i++) {
    for (int k = 0; k < i; k++) {
      const ir_access *x = &form->accesses[form->outputs[k].access],
                      *y = &form->accesses[form->outputs[i].access];
      border b;
      if (x->tensor != y->tensor || find_border(form, x, y, &b) == 0) continue;
      if (has_between(form, x, y, b.subscript)) continue;
      const recipe_expr *end = b.loop < 0 ? recipe_const(a, 1) : kernel_extent(form, b.loop, a),
                        *begin = fixed_recipe(form, &b.begin, a);
      if (b.end.n > 0 || b.end.constant != 0)
        end = recipe_binary(a, RECIPE_ADD, end, fixed_recipe(form, &b.end, a));
      kernel_require(
          rules, a, recipe_binary(a, RECIPE_SUB, end, begin), 0, 0,
          arena_printf(a, "parts of %s do not overlap", form->problem->op->tensors[x->tensor].name));
    }
  }
}

/* --- which outputs --- */

static template_reason refuse(template_reason reason, strbuf *detail, const char *why, const char *tensor) {
  if (detail) strbuf_addf(detail, why, tensor);
  return reason;
}

static template_reason check_output(scan *s, const ir_form_output *out, strbuf *detail) {
  const ir_form *form = s->form;
  const ir_op *op = form->problem->op;
  const ir_access *x = &form->accesses[out->access];
  const char *name = op->tensors[x->tensor].name;
  if (out->positions >= 0 || out->update != IR_ASSIGN || !is_plain(form, x))
    return refuse(TEMPLATE_OPERATOR, detail, "%s is not written once at each of its indices", name);
  find_reduction(s, out->value);
  if (s->reduction) return refuse(TEMPLATE_OPERATOR, detail, "%s needs a reduction", name);
  for (const ir_form_output *o = form->outputs; o < out; o++) {
    border b;
    if (form->accesses[o->access].tensor == x->tensor &&
        find_border(form, &form->accesses[o->access], x, &b) == 0)
      return refuse(TEMPLATE_OPERATOR, detail, "parts of %s overlap", name);
  }
  return TEMPLATE_OK;
}

/* --- groups --- */

static void add_row(map_group *g, int loop, int axis) {
  g->rows[g->n_rows++] = (map_loop){loop, axis};
}

/* The columns are the last subscript of the group's first output that has a loop; of leading axes in views,
 * the fastest. */
static void fill_group(const map_match *m, map_group *g, const ir_access *x) {
  const ir_form *form = &m->form;
  int last = x->n - 1;
  while (last >= 0 && map_subscript_loop(form, x, last) < 0) last--;
  g->scalar = last < 0;
  g->column = (map_loop){-1, -1};
  g->reuse = -1;
  for (int i = 0; i <= last; i++) {
    int loop = map_subscript_loop(form, x, i);
    if (loop < 0) continue;
    bool lead = form->loops[loop].leading && !m->dense;
    if (lead) {
      for (int axis = LANES_LEAD - 1; axis >= (i == last ? 1 : 0); axis--) add_row(g, loop, axis);
    }
    if (i == last) {
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
    for (int s = 0; s < x->n; s++) {
      int loop = map_subscript_loop(form, x, s);
      if (loop >= 0) loops |= 1u << loop;
    }
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

/* Whether all that is read of a tensor written in place is what the same thread writes afterwards. */
static bool in_place_fits(const map_match *m) {
  const ir_form *form = &m->form;
  const ir_op *op = form->problem->op;
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *read = &form->accesses[i];
    bool in_place = false, written = false;
    for (int o = 0; o < form->n_outputs; o++) {
      const ir_access *x = &form->accesses[form->outputs[o].access];
      if (op->tensors[x->tensor].alias != read->tensor) continue;
      in_place = true;
      written = written || in_place_same(read, x);
    }
    if (in_place && (!written || m->n_groups > 1)) return false;
  }
  return true;
}

/* A group's number must be that of a row: it is one for all columns. */
static bool is_of_rows(const map_match *m) {
  for (int i = 0; i < m->n_groups && m->groups_of.of; i++)
    if (m->groups[i].column.loop == m->groups_of.row) return false;
  return true;
}

/* Elements of 4 bits are stored two at a time: an even number of columns, that are the tensor's. */
static template_reason check_packed(map_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  for (int i = 0; i < m->n_groups; i++) {
    map_group *g = &m->groups[i];
    for (int o = 0; o < form->n_outputs; o++) {
      const ir_access *x = &form->accesses[form->outputs[o].access];
      if (!(g->outputs >> o & 1) || dtype_bits(ir_tensor_dtype(form->problem, x->tensor)) >= 8) continue;
      m->packed = g->packed = true;
      if (!m->dense) continue; /* views of others have no kernels */
      if (g->scalar || x->subscripts[x->n - 1].e->node != IR_INDEX ||
          x->subscripts[x->n - 1].e->id != g->column.loop || map_columns(m, g) % 2 != 0)
        return refuse(TEMPLATE_DTYPE, detail, "two elements of %s share a byte, and are stored together",
                      form->problem->op->tensors[x->tensor].name);
    }
  }
  return TEMPLATE_OK;
}

static template_reason match(map_match *m, bool *seen, strbuf *detail) {
  scan s = {.form = &m->form, .seen = seen};
  m->groups_of = contraction_find_groups(&m->form);
  s.counted = m->groups_of.of;
  if (m->form.n_outputs == 0) return refuse(TEMPLATE_OPERATOR, detail, "nothing is written%s", "");
  for (int i = 0; i < m->form.n_outputs; i++) {
    template_reason reason = check_output(&s, &m->form.outputs[i], detail);
    if (reason != TEMPLATE_OK) return reason;
  }
  template_reason reason = make_groups(m, detail);
  if (reason == TEMPLATE_OK) reason = check_packed(m, detail);
  if (reason != TEMPLATE_OK) return reason;
  if (!is_of_rows(m)) return refuse(TEMPLATE_OPERATOR, detail, "columns have groups%s", "");
  if (!in_place_fits(m))
    return refuse(TEMPLATE_OPERATOR, detail, "it reads elements that others overwrite%s", "");
  return TEMPLATE_OK;
}

static arke_status make_form(const ir_problem *p, bool dense, arena *a, ir_form *form, arke_error *err) {
  ir_form first, split, longer;
  TRY(ir_form_make(p, a, &first, err));
  if (!dense) return ir_form_split(&first, a, form, err);
  TRY(ir_form_split(&first, a, &split, err));
  TRY(ir_form_drop_ones(&split, a, &longer, err));
  return ir_form_merge(&longer, a, form, err);
}

/* Whether the rows of some output begin where no access of 8 bytes can. */
static bool has_odd_rows(const map_match *m) {
  enum { LEAST_BITS = 64 };
  if (m->n_groups != 1 || m->groups[0].n_rows == 0) return false;
  int64_t columns = map_columns(m, &m->groups[0]), power = columns & -columns;
  for (int i = 0; i < m->form.n_outputs; i++) {
    int tensor = m->form.accesses[m->form.outputs[i].access].tensor;
    if (power * dtype_bits(ir_tensor_dtype(m->form.problem, tensor)) < LEAST_BITS) return true;
  }
  return false;
}

static arke_status match_form(map_match *m, bool dense, ir_form form, arena *a, template_reason *reason,
                              strbuf *detail, arke_error *err) {
  *m = (map_match){.dense = dense, .form = form};
  bool *seen = ARENA_NEW_N(a, bool, (size_t)form.n_nodes + 1);
  if (!seen) return error_memory(err, "generate");
  *reason = match(m, seen, detail);
  m->wide_offsets = *reason == TEMPLATE_OK && lanes_need_wide_offsets(&m->form);
  if (*reason == TEMPLATE_OK && !map_work_fill(m, a)) return error_memory(err, "generate");
  return ARKE_OK;
}

arke_status map_match_make(const ir_problem *p, bool dense, arena *a, map_match *m, template_reason *reason,
                           strbuf *detail, arke_error *err) {
  ir_form form, flat;
  bool flattened;
  arke_error why = ARKE_ERROR_INIT;
  arke_status status = make_form(p, dense, a, &form, &why);
  if (status == ARKE_ERR_UNSUPPORTED) {
    *reason = refuse(TEMPLATE_OPERATOR, detail, "%s", why.text);
    return ARKE_OK;
  }
  if (status != ARKE_OK) return error_memory(err, "generate");
  TRY(match_form(m, dense, form, a, reason, detail, err));
  if (*reason != TEMPLATE_OK || !dense || !has_odd_rows(m)) return ARKE_OK;
  TRY(ir_form_flatten(&form, a, &flat, &flattened, err));
  return flattened ? match_form(m, dense, flat, a, reason, detail, err) : ARKE_OK;
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

int64_t map_row_count(const map_match *m, const map_group *g, int reuse) {
  int64_t rows = 1;
  for (int i = 0; i < g->n_rows; i++) {
    int64_t of = extent(m, g->rows[i]);
    rows *= i == g->reuse ? (of + reuse - 1) / reuse : of;
  }
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
