/* What a map computes: the instructions behind an element, and which of them are the same for several, so
 * that one thread computes them once. */
#include "templates/map.h"

enum { WORTH_SHARING = 12 }; /* instructions, below which a longer loop of a thread gains nothing */

/* --- instructions of a node --- */

/* Roughly, of f32 for narrow results. */
static double function_cost(ir_function f) {
  switch (f) {
  case IR_FN_POW: return 60;
  case IR_FN_SIN:
  case IR_FN_COS: return 25;
  case IR_FN_GELU:
  case IR_FN_GELU_TANH:
  case IR_FN_ERF:
  case IR_FN_SOFTPLUS: return 18;
  case IR_FN_LOG:
  case IR_FN_LOG2:
  case IR_FN_LOG1P: return 10;
  case IR_FN_SILU:
  case IR_FN_SIGMOID:
  case IR_FN_TANH: return 7;
  case IR_FN_EXP:
  case IR_FN_EXP2: return 5;
  case IR_FN_SQRT:
  case IR_FN_RSQRT:
  case IR_FN_RECIP: return 4;
  default: return 1;
  }
}

static bool is_index_arithmetic(const ir_form *form, const ir_expr *e) {
  return ir_form_type(form, e) == DTYPE_I64 && e->node != IR_READ;
}

static double node_cost(const ir_form *form, const ir_expr *e) {
  dtype type = ir_form_type(form, e);
  double wide = type == DTYPE_F64 ? 8 : 1; /* which has few units */
  bool divides = e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD);
  if (e->node == IR_CALL) return wide * function_cost((ir_function)e->id);
  if (e->node == IR_CAST) return 2 * wide;
  if (e->node != IR_OPERATOR) return 0;
  if (!divides) return is_index_arithmetic(form, e) ? 0.5 : wide;
  bool folds = is_index_arithmetic(form, e) && e->args[1]->node == IR_INT;
  if (folds) return 0.5;
  return is_index_arithmetic(form, e) ? 5 : wide * (e->id == IR_OP_MOD ? 40 : 8);
}

/* --- a walk over a group's nodes --- */

typedef struct walk {
  const map_match *m;
  map_group *g;
  bool *seen;                  /* by node */
  double fixed[IR_FORM_LOOPS]; /* instructions that do not depend on a loop, but on others */
} walk;

/* Neighbouring elements along the columns for which an expression is the same: 2 of d / 2. */
static double run_of(const ir_form *form, const ir_expr *e, int column) {
  double run = 0;
  if (column < 0 || !(ir_form_free(form, e) >> column & 1)) return 0;
  if (e->node == IR_INDEX) return 1;
  for (int i = 0; i < e->n_args; i++) {
    double of = run_of(form, e->args[i], column);
    if (of > 0 && (run == 0 || of < run)) run = of;
  }
  bool divides = e->node == IR_OPERATOR && e->id == IR_OP_DIV && e->args[1]->node == IR_INT;
  return divides && is_index_arithmetic(form, e) && e->args[1]->integer > 0
             ? run * (double)e->args[1]->integer
             : run;
}

static void walk_node(walk *w, const ir_expr *e) {
  const ir_form *form = &w->m->form;
  int number = ir_form_number(form, e);
  if (w->seen[number]) return;
  w->seen[number] = true;
  for (int i = 0; i < e->n_args; i++) walk_node(w, e->args[i]);
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    for (int i = 0; i < x->n; i++) walk_node(w, x->subscripts[i].e);
    if (x->other) walk_node(w, x->other);
    return;
  }
  unsigned free = ir_form_free(form, e);
  double cost = node_cost(form, e);
  if (free == 0) return;
  for (int l = 0; l < form->n_loops; l++) {
    if (!(free >> l & 1)) w->fixed[l] += cost;
  }
}

/* Both kinds of loop that a node may move with. */
static void count_node(walk *w, const ir_expr *e) {
  const ir_form *form = &w->m->form;
  int number = ir_form_number(form, e);
  if (w->seen[number]) return;
  w->seen[number] = true;
  for (int i = 0; i < e->n_args; i++) count_node(w, e->args[i]);
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    for (int i = 0; i < x->n; i++) count_node(w, x->subscripts[i].e);
    if (x->other) count_node(w, x->other);
    return;
  }
  unsigned free = ir_form_free(form, e);
  int column = w->g->column.loop;
  bool moves = column >= 0 && (free >> column & 1);
  bool repeats = w->g->reuse >= 0 && (free >> w->g->rows[w->g->reuse].loop & 1);
  double run = run_of(form, e, column);
  w->g->work[moves][repeats] += node_cost(form, e) / (run > 1 ? run : 1);
}

/* --- the loop that one thread repeats --- */

int64_t map_reuse_most(const map_match *m, const map_group *g) {
  int64_t extent = g->reuse < 0 ? 1 : ir_form_extent(&m->form, g->rows[g->reuse].loop), most = 1;
  while (most < MAP_MOST_REUSE && extent > 0 && extent % (2 * most) == 0) most *= 2;
  return most;
}

static void choose_reuse(walk *w) {
  const map_match *m = w->m;
  map_group *g = w->g;
  double best = WORTH_SHARING;
  int chosen = -1;
  int64_t most = 1;
  /* Copies along the columns share what does not depend on those. */
  if (g->column.loop >= 0) best += w->fixed[g->column.loop];
  for (int i = 0; i < g->n_rows; i++) {
    if (g->rows[i].axis >= 0) continue;
    g->reuse = i;
    double gain = w->fixed[g->rows[i].loop];
    int64_t reach = map_reuse_most(m, g);
    if (reach < 2 || gain < best || (gain == best && reach < most)) continue;
    best = gain;
    most = reach;
    chosen = i;
  }
  g->reuse = chosen;
}

bool map_work_fill(map_match *m, arena *a) {
  const ir_form *form = &m->form;
  for (int i = 0; i < m->n_groups; i++) {
    walk w = {.m = m, .g = &m->groups[i], .seen = ARENA_NEW_N(a, bool, (size_t)form->n_nodes + 1)};
    bool *counted = ARENA_NEW_N(a, bool, (size_t)form->n_nodes + 1);
    if (!w.seen || !counted) return false;
    for (int o = 0; o < form->n_outputs; o++) {
      if (w.g->outputs >> o & 1) walk_node(&w, form->outputs[o].value);
    }
    choose_reuse(&w);
    w.seen = counted;
    for (int o = 0; o < form->n_outputs; o++) {
      if (w.g->outputs >> o & 1) count_node(&w, form->outputs[o].value);
    }
  }
  return true;
}
