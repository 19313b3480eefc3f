/* What each index ranges over, and with it the dimensions of temporaries. Both follow from where an index
 * stands alone as a subscript; a temporary's index that does so nowhere in its definition takes the dimension
 * from where the temporary is read. So the two are found together, by repetition until nothing is added. */
#include "ir/ir_bounds.h"
#include "ir/ir_types.h"
#include "ir/notation_resolve.h"

typedef struct ranging {
  resolver *r;
  ir_definition *def;
  bool changed;
  bool derived; /* also from "k / Z" and "b + 1", for an index that stands alone nowhere */
} ranging;

static void set_range(ranging *g, ir_index *x, ir_dim d) {
  /* A whole axis says more than a multiple of one; among equals the first wins. */
  bool whole = ir_dim_is_axis(d);
  if (x->ranged && (x->axis >= 0 || !whole || !x->reduced)) return;
  x->ranged = true;
  x->range = d;
  if (whole) x->axis = d.axis;
  g->changed = true;
}

/* The first subscript "k / Z" or "b + 1" says what its index ranges over if nothing else does. */
static void range_derived(ranging *g, const ir_expr *sub, ir_dim dim) {
  if (sub->node != IR_OPERATOR || sub->n_args != 2) return;
  for (int i = 0; i < 2; i++) {
    if (sub->args[i]->node != IR_INDEX) continue;
    ir_index *x = &g->def->indices[sub->args[i]->id];
    ir_dim range;
    if (!x->ranged && ir_index_range(sub, sub->args[i]->id, dim, &range)) set_range(g, x, range);
  }
}

static void range_reads(ranging *g, const ir_expr *e) {
  resolver *r = g->r;
  for (int i = 0; i < e->n_args; i++) range_reads(g, e->args[i]);
  if (e->node != IR_READ) return;
  const ir_tensor *t = &r->tensors[e->id];
  for (int i = 0; i < e->n_args - e->has_else; i++) {
    if (g->derived && r->known[e->id][i] && !e->has_else) range_derived(g, e->args[i], t->dims[i]);
    if (e->args[i]->node != IR_INDEX) continue;
    ir_index *x = &g->def->indices[e->args[i]->id];
    if (r->known[e->id][i]) {
      if (!x->reduced || !e->has_else) set_range(g, x, t->dims[i]);
    } else if (x->ranged) {
      r->tensors[e->id].dims[i] = x->range;
      r->known[e->id][i] = true;
      g->changed = true;
    }
  }
}

static void range_left(ranging *g, int tensor) {
  resolver *r = g->r;
  for (int i = 0; tensor >= 0 && i < g->def->n_subscripts; i++) {
    const ir_expr *e = g->def->subscripts[i];
    if (e->node != IR_INDEX) continue;
    ir_index *x = &g->def->indices[e->id];
    if (r->known[tensor][i]) {
      set_range(g, x, r->tensors[tensor].dims[i]);
    } else if (x->ranged) {
      r->tensors[tensor].dims[i] = x->range;
      r->known[tensor][i] = true;
      g->changed = true;
    }
  }
}

static bool note_upper(const ir_bound *b, void *user) {
  if (b->upper) *(bool *)user = true;
  return true;
}

static void check_reads(resolver *r, const ir_definition *d, const ir_expr *e) {
  for (int i = 0; i < e->n_args; i++) check_reads(r, d, e->args[i]);
  if (e->node == IR_REDUCE) {
    bool bounded = false;
    ir_bounds_visit(e, note_upper, &bounded);
    if (!bounded)
      faults_add(r->faults, e->line, e->column,
                 "index '%s' indexes no axis: no read and no condition limits it from above",
                 d->indices[e->index].name);
  }
  if (e->node != IR_READ || e->has_else) return;
  const ir_tensor *t = &r->tensors[e->id];
  for (int i = 0; i < e->n_args; i++) {
    const ir_expr *sub = e->args[i];
    if (sub->node != IR_INDEX) continue;
    const ir_index *x = &d->indices[sub->id];
    if (x->axis < 0 || !ir_dim_is_axis(t->dims[i]) || ir_dim_equal(x->range, t->dims[i])) continue;
    faults_add(
        r->faults, sub->line, sub->column,
        "index '%s' ranges over %s and indexes axis %s of '%s' here; where a part of it is meant, write %s+0",
        x->name, r->op->axes[x->axis], r->op->axes[t->dims[i].axis], t->name, x->name);
  }
}

void resolve_ranges(resolver *r) {
  ir_op *op = r->op;
  ranging g = {.r = r, .changed = true};
  while (g.changed || !g.derived) {
    g.derived = g.derived || !g.changed;
    g.changed = false;
    for (int i = 0; i < op->n_definitions; i++) {
      g.def = &op->definitions[i];
      range_left(&g, g.def->tensor);
      range_left(&g, g.def->tensor2);
      for (int s = 0; s < g.def->n_subscripts; s++) range_reads(&g, g.def->subscripts[s]);
      range_reads(&g, g.def->value);
    }
  }
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    for (int x = 0; x < d->n_indices; x++)
      if (!d->indices[x].reduced && !d->indices[x].ranged)
        faults_add(r->faults, r->all_places[i][x].line, r->all_places[i][x].column,
                   "index '%s' indexes no axis, so its range is unknown", d->indices[x].name);
    for (int s = 0; s < d->n_subscripts; s++) {
      check_reads(r, d, d->subscripts[s]);
      if (ir_expr_kind(op, d->subscripts[s]).least >= LEVEL_F32)
        faults_add(r->faults, d->subscripts[s]->line, d->subscripts[s]->column,
                   "a floating-point subscript of '%s'; integers are accepted", r->tensors[d->tensor].name);
    }
    check_reads(r, d, d->value);
  }
}
