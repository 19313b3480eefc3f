/* Which operators scatter, and into which kernels their definitions go. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "templates/in_place.h"
#include "templates/map.h"
#include "templates/scatter.h"

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

bool scatter_must_be_deterministic(const ir_problem *p) {
  for (int i = 0; i < p->op->n_attrs; i++) {
    if (strcmp(p->op->attrs[i].name, "deterministic") == 0) return p->attrs[i] != 0;
  }
  return false;
}

/* --- definitions --- */

static bool is_argument(const ir_op *op, int tensor) {
  return op->tensors[tensor].role == IR_OUTPUT;
}

/* Writes every element of its tensor once: its indices stand alone and differ. */
static bool is_plain(const ir_definition *d) {
  if (d->update != IR_ASSIGN) return false;
  for (int s = 0; s < d->n_subscripts; s++) {
    const ir_expr *e = d->subscripts[s];
    if (e->node != IR_INDEX) return false;
    for (int k = 0; k < s; k++)
      if (d->subscripts[k]->id == e->id) return false;
  }
  return true;
}

static bool reads(const ir_expr *e, int tensor) {
  if (e->node == IR_READ && e->id == tensor) return true;
  for (int i = 0; i < e->n_args; i++)
    if (reads(e->args[i], tensor)) return true;
  return false;
}

/* Marks the definitions whose tensors definition d reads, and those behind them: temporaries and outputs are
 * read as expressions. */
static void mark_needed(const ir_op *op, int d, uint64_t *needed) {
  *needed |= UINT64_C(1) << d;
  const ir_definition *def = &op->definitions[d];
  for (int i = 0; i < d; i++) {
    if (*needed >> i & 1 || op->definitions[i].tensor == def->tensor) continue;
    bool used = reads(def->value, op->definitions[i].tensor);
    for (int s = 0; s < def->n_subscripts && !used; s++)
      used = reads(def->subscripts[s], op->definitions[i].tensor);
    if (used) mark_needed(op, i, needed);
  }
}

/* The operator with the marked definitions alone, and `extra` ones before them. */
static bool with_definitions(const ir_problem *p, uint64_t marked, const ir_definition *extra, int n_extra,
                             arena *a, ir_problem *part) {
  ir_op *op = ARENA_NEW(a, ir_op);
  ir_definition *list = ARENA_NEW_N(a, ir_definition, (size_t)(p->op->n_definitions + n_extra));
  if (!op || !list) return false;
  *op = *p->op;
  *part = *p;
  op->n_definitions = 0;
  for (int i = 0; i < n_extra; i++) list[op->n_definitions++] = extra[i];
  for (int i = 0; i < p->op->n_definitions; i++)
    if (marked >> i & 1) list[op->n_definitions++] = p->op->definitions[i];
  op->definitions = list;
  part->op = op;
  return true;
}

/* --- what is written first --- */

/* Every element of a tensor = what its updates start from. */
static bool make_fill(const ir_op *op, int tensor, ir_update update, arena *a, ir_definition *d) {
  static const char *const names[LIMIT_RANK] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"};
  const ir_tensor *t = &op->tensors[tensor];
  ir_expr *value = ARENA_NEW(a, ir_expr), *subscripts = ARENA_NEW_N(a, ir_expr, LIMIT_RANK);
  ir_expr **list = ARENA_NEW_N(a, ir_expr *, LIMIT_RANK);
  ir_index *indices = ARENA_NEW_N(a, ir_index, LIMIT_RANK);
  if (!value || !subscripts || !list || !indices) return false;
  value->node = IR_FLOAT;
  value->number = update == IR_ADD ? 0 : update == IR_MAX ? -INFINITY : INFINITY;
  value->depth = 1;
  for (int i = 0; i < t->rank; i++) {
    subscripts[i] = (ir_expr){.node = IR_INDEX, .id = i, .depth = 1};
    list[i] = &subscripts[i];
    indices[i] = (ir_index){.name = names[i],
                            .axis = ir_dim_is_axis(t->dims[i]) ? t->dims[i].axis : -1,
                            .ranged = true,
                            .range = t->dims[i]};
  }
  *d = (ir_definition){.tensor = tensor,
                       .tensor2 = -1,
                       .n_subscripts = t->rank,
                       .subscripts = list,
                       .update = IR_ASSIGN,
                       .value = value,
                       .n_indices = t->rank,
                       .indices = indices};
  return true;
}

/* --- scattering definitions --- */

/* The offset of a subscript that is a loop or a loop and something fixed; NULL: none. *loop: -1 if it is not.
 */
static const ir_expr *offset_of(const ir_form *form, const ir_expr *e, int *loop) {
  *loop = e->node == IR_INDEX ? e->id : -1;
  if (e->node != IR_OPERATOR || e->id != IR_OP_ADD) return NULL;
  for (int i = 0; i < 2; i++) {
    const ir_expr *other = e->args[1 - i];
    if (e->args[i]->node != IR_INDEX) continue;
    if (other->node != IR_INT && other->node != IR_SIZE) continue;
    *loop = e->args[i]->id;
    return other;
  }
  (void)form;
  return NULL;
}

/* Every point of the loops writes an element of its own: each loop stands alone, but for an offset, once. */
static bool is_injective(const ir_form *form, const ir_access *x, unsigned loops) {
  unsigned seen = 0;
  for (int s = 0; s < x->n; s++) {
    int loop;
    offset_of(form, x->subscripts[s].e, &loop);
    if (loop < 0 || seen >> loop & 1) return false;
    seen |= 1u << loop;
  }
  return seen == loops;
}

static bool same_offset(const ir_expr *x, const ir_expr *y) {
  if (x == y) return true;
  return x && y && x->node == y->node && x->id == y->id && x->integer == y->integer;
}

/* Offset 0 and an offset of the loop's own extent, in one subscript; the others are the same: [0, E) and
 * [E, 2 E), whatever E. */
static bool write_apart(const ir_form *form, const ir_access *x, const ir_access *y) {
  bool apart = false;
  if (x->n != y->n) return false;
  for (int s = 0; s < x->n; s++) {
    int of_x, of_y;
    const ir_expr *low = offset_of(form, x->subscripts[s].e, &of_x);
    const ir_expr *high = offset_of(form, y->subscripts[s].e, &of_y);
    if (of_x < 0 || of_x != of_y) return false;
    if (same_offset(low, high)) continue;
    const ir_expr *swap = low;
    if (!high || (high->node == IR_INT && high->integer == 0)) low = high, high = swap;
    const ir_loop *l = &form->loops[of_x];
    bool zero = !low || (low->node == IR_INT && low->integer == 0);
    if (!zero || !high || l->leading || l->n_dims != 1) return false;
    bool whole = high->node == IR_SIZE ? ir_dim_equal(l->dims[0], ir_dim_axis(high->id))
                                       : l->dims[0].axis < 0 && high->integer >= l->dims[0].factor;
    if (!whole) return false;
    apart = true;
  }
  return apart;
}

/* Loops that an output's subscripts mention, gathered ones too. */
static unsigned loops_of(const ir_form *form, int output) {
  const ir_access *x = &form->accesses[form->outputs[output].access];
  unsigned loops = 0;
  for (int s = 0; s < x->n; s++) loops |= ir_form_free(form, x->subscripts[s].e);
  return loops;
}

static arke_status make_part(const ir_problem *p, uint64_t own, arena *a, scatter_part *part) {
  uint64_t needed = 0;
  *part = (scatter_part){0};
  for (int i = 0; i < p->op->n_definitions; i++)
    if (own >> i & 1) mark_needed(p->op, i, &needed);
  part->problem = ARENA_NEW(a, ir_problem);
  if (!part->problem || !with_definitions(p, needed, NULL, 0, a, part->problem)) return ARKE_ERR_MEMORY;
  TRY(ir_form_make(part->problem, a, &part->forms[0], NULL));
  TRY(ir_form_merge(&part->forms[0], a, &part->forms[1], NULL));
  /* Which of the part's outputs are its own: those of the last definitions. */
  for (int o = 0; o < part->forms[0].n_outputs; o++) {
    const ir_definition *d = &part->problem->op->definitions[part->forms[0].outputs[o].definition];
    for (int i = 0; i < p->op->n_definitions; i++) {
      if (own >> i & 1 && d->value == p->op->definitions[i].value) part->outputs |= UINT64_C(1) << o;
    }
  }
  for (int f = 0; f < 2; f++) {
    for (int o = 0; o < part->forms[f].n_outputs; o++)
      if (part->outputs >> o & 1) part->loops[f] |= loops_of(&part->forms[f], o);
  }
  return ARKE_OK;
}

/* Whether one thread a point can write all of a part's outputs: over the same loops, and where two are of one
 * tensor, each element by one point of one of them. */
static bool goes_together(const scatter_part *part) {
  const ir_form *form = &part->forms[0];
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    if (!(part->outputs >> o & 1)) continue;
    if (loops_of(form, o) != part->loops[0]) return false;
    for (int before = 0; before < o; before++) {
      const ir_access *y = &form->accesses[form->outputs[before].access];
      if (!(part->outputs >> before & 1) || x->tensor != y->tensor) continue;
      if (form->outputs[o].update != IR_ASSIGN || form->outputs[before].update != IR_ASSIGN ||
          !is_injective(form, x, part->loops[0]) || !is_injective(form, y, part->loops[0]) ||
          !write_apart(form, y, x))
        return false;
    }
  }
  return true;
}

static template_reason check_part(scatter_part *part, strbuf *detail) {
  const ir_form *form = &part->forms[0];
  const ir_op *op = form->problem->op;
  const ir_expr *reduction;
  if (ir_form_reductions(form, &reduction, 1) > 0)
    return refuse(detail, "the scatter template has no reductions");
  if (form->n_accesses > 64) return refuse(detail, "there are too many reads");
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    const ir_access *x = &form->accesses[out->access];
    dtype t = ir_tensor_dtype(form->problem, x->tensor);
    if (!(part->outputs >> o & 1)) continue;
    if (ir_form_free(form, out->value) & ~part->loops[0])
      return refuse(detail, "an index is not on the left");
    if (!is_injective(form, x, part->loops[0])) part->collides = true;
    bool narrow = t != DTYPE_F64 && t != DTYPE_F32 && t != DTYPE_F16 && t != DTYPE_BF16 && t != DTYPE_I32 &&
                  t != DTYPE_I64;
    if (dtype_bits(t) < 8 || (out->update != IR_ASSIGN && narrow)) {
      refuse(detail, "no instruction updates elements of %s", dtype_name(t));
      return TEMPLATE_DTYPE;
    }
    int alias = op->tensors[x->tensor].alias;
    for (int i = 0; alias >= 0 && i < form->n_accesses; i++) {
      bool same = in_place_same(&form->accesses[i], x);
      if (form->accesses[i].tensor == alias && (part->collides || !same))
        return refuse(detail, "a tensor that is scattered into in place is read");
    }
  }
  return TEMPLATE_OK;
}

/* --- the operator --- */

typedef struct sorting {
  const ir_problem *p;
  arena *a;
  scatter_match *m;
  strbuf *detail;
  arke_status status;
} sorting;

static template_reason failed(sorting *s, arke_status status) {
  s->status = status;
  return refuse(s->detail, "the operator has no form");
}

/* Puts definition d into the last part if it goes with what is there, else into one of its own. */
static template_reason add_scattering(sorting *s, int d, uint64_t *last) {
  scatter_part joined;
  if (*last) {
    arke_status status = make_part(s->p, *last | UINT64_C(1) << d, s->a, &joined);
    if (status != ARKE_OK) return failed(s, status);
    if (goes_together(&joined)) {
      *last |= UINT64_C(1) << d;
      s->m->parts[s->m->n_parts - 1] = joined;
      return check_part(&s->m->parts[s->m->n_parts - 1], s->detail);
    }
  }
  if (s->m->n_parts == SCATTER_PARTS) return refuse(s->detail, "there are too many definitions that scatter");
  scatter_part *part = &s->m->parts[s->m->n_parts++];
  *last = UINT64_C(1) << d;
  arke_status status = make_part(s->p, *last, s->a, part);
  if (status != ARKE_OK) return failed(s, status);
  return check_part(part, s->detail);
}

static uint64_t overwritten_by(const ir_op *op, int tensor) {
  int alias = op->tensors[tensor].alias;
  return alias < 0 ? 0 : UINT64_C(1) << alias;
}

/* Inputs are read as they were before the operator. */
static bool later_parts_read_what_was(const scatter_match *m, const ir_op *op, uint64_t first) {
  uint64_t overwritten = 0;
  for (int i = 0; i < op->n_definitions; i++)
    if (first >> i & 1) overwritten |= overwritten_by(op, op->definitions[i].tensor);
  for (int k = 0; k < m->n_parts; k++) {
    const ir_form *form = &m->parts[k].forms[0];
    for (int i = 0; i < form->n_accesses; i++)
      if (overwritten >> form->accesses[i].tensor & 1) return false;
    for (int o = 0; o < form->n_outputs; o++)
      overwritten |= overwritten_by(op, form->accesses[form->outputs[o].access].tensor);
  }
  return true;
}

/* Plain definitions come first, those that scatter after them in their order: no tensor is written plainly
 * after it was scattered into, and none that was scattered into is read. */
static template_reason sort_definitions(sorting *s) {
  const ir_op *op = s->p->op;
  uint64_t first = 0, last = 0, filled = 0, written = 0;
  ir_definition fills[LIMIT_TENSORS];
  int n_fills = 0;
  if (op->n_definitions > 63 || op->n_tensors > 63)
    return refuse(s->detail, "there are too many definitions");
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    for (int t = 0; t < op->n_tensors; t++) {
      if (filled >> t & 1 && reads(d->value, t)) return refuse(s->detail, "what was scattered into is read");
    }
    if (!is_argument(op, d->tensor)) continue;
    if (d->tensor2 >= 0) return refuse(s->detail, "the scatter template does not sort");
    uint64_t bit = UINT64_C(1) << d->tensor;
    if (is_plain(d)) {
      if (filled & bit) return refuse(s->detail, "a tensor is written plainly after it was scattered into");
      mark_needed(op, i, &first);
      written |= bit;
      continue;
    }
    bool starts = d->update != IR_ASSIGN && !((written | filled) & bit) && op->tensors[d->tensor].alias < 0;
    if (starts && !make_fill(op, d->tensor, d->update, s->a, &fills[n_fills++]))
      return failed(s, ARKE_ERR_MEMORY);
    filled |= bit;
    template_reason reason = add_scattering(s, i, &last);
    if (reason != TEMPLATE_OK) return reason;
  }
  if (s->m->n_parts == 0) return refuse(s->detail, "every element is written at its own place");
  if (!later_parts_read_what_was(s->m, op, first))
    return refuse(s->detail, "a tensor is read after it was overwritten in place");
  s->m->has_initial = first || n_fills > 0;
  if (s->m->has_initial && !with_definitions(s->p, first, fills, n_fills, s->a, &s->m->initial))
    return failed(s, ARKE_ERR_MEMORY);
  return TEMPLATE_OK;
}

template_reason scatter_match_make(const ir_problem *p, arena *a, scatter_match *m, strbuf *detail,
                                   arke_status *status) {
  sorting s = {.p = p, .a = a, .m = m, .detail = detail, .status = ARKE_OK};
  *m = (scatter_match){0};
  template_reason reason = sort_definitions(&s);
  if (status) *status = s.status == ARKE_ERR_MEMORY ? ARKE_ERR_MEMORY : ARKE_OK;
  return reason;
}

template_reason scatter_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  scatter_match m;
  template_reason reason = scatter_match_make(p, &a, &m, detail, NULL);
  if (reason == TEMPLATE_OK && m.has_initial) reason = map_fits(&m.initial, t, detail);
  arena_release(&a);
  return reason;
}
