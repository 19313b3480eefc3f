#include <string.h>

#include "templates/in_place.h"
#include "templates/row.h"

/* --- what an expression uses --- */

typedef struct uses {
  row_match *m;
  uint64_t reads; /* accesses, those of subscripts too */
  int phases;     /* phases whose results it needs */
  int walk;       /* m->walked has this for nodes that were visited */
} uses;

static uses uses_of(row_match *m) {
  return (uses){.m = m, .walk = ++m->walks};
}

/* Reductions are leaves: what is behind them belongs to their own pass. */
static void collect(uses *u, const ir_expr *e) {
  int *walked = &u->m->walked[ir_form_number(&u->m->form, e)];
  if (*walked == u->walk) return;
  *walked = u->walk;
  if (e->node == IR_REDUCE) {
    for (int i = 0; i < u->m->n_reductions; i++) {
      const row_reduction *r = &u->m->reductions[i];
      if (r->e == e && r->phase + 1 > u->phases) u->phases = r->phase + 1;
    }
    return;
  }
  if (e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD)) {
    dtype type = ir_form_type(&u->m->form, e);
    bool floats = type == DTYPE_F32 || type == DTYPE_F64;
    if (!floats && ir_form_free(&u->m->form, e) >> u->m->column & 1) u->m->divides_column = true;
  }
  if (e->node == IR_READ) {
    const ir_access *access = &u->m->form.accesses[e->id];
    u->m->reads[e->id] = e;
    u->reads |= UINT64_C(1) << e->id;
    for (int i = 0; i < access->n; i++) collect(u, access->subscripts[i].e);
    if (access->other) collect(u, access->other);
    return;
  }
  for (int i = 0; i < e->n_args; i++) collect(u, e->args[i]);
}

static int phases_behind(row_match *m, const ir_expr *e) {
  uses u = uses_of(m);
  collect(&u, e);
  return u.phases;
}

/* --- sums that follow their maximum --- */

static bool is_exponential(const ir_expr *e) {
  return e->node == IR_CALL && (e->id == IR_FN_EXP || e->id == IR_FN_EXP2);
}

/* exp(x - max(c) x), or a product of that with a factor known as early. */
static bool follows_maximum(row_match *m, row_reduction *r) {
  const ir_expr *e = r->e->args[0], *factor = NULL;
  if (r->kind != IR_RED_SUM || r->type != GEN_F32) return false;
  if (e->node == IR_OPERATOR && e->id == IR_OP_MUL) {
    int side = is_exponential(e->args[0]) ? 0 : 1;
    factor = e->args[1 - side];
    e = e->args[side];
  }
  const ir_expr *maximum = ir_maximum_above(e, r->e);
  for (int i = 0; maximum && i < m->n_reductions; i++) {
    const row_reduction *most = &m->reductions[i];
    if (most->e != maximum || most->type != GEN_F32) continue;
    if (factor && phases_behind(m, factor) > most->phase) continue;
    r->maximum = i;
    r->exponential = e;
    r->exponent = e->args[0]->args[0];
    r->factor = factor;
    return true;
  }
  return false;
}

/* --- reductions and outputs --- */

static gen_type accumulator_type(const row_match *m, const row_reduction *r) {
  if (r->kind == IR_RED_ANY || r->kind == IR_RED_ALL) return GEN_I1;
  bool compared = r->kind == IR_RED_ARGMAX || r->kind == IR_RED_ARGMIN;
  switch (ir_form_type(&m->form, compared ? r->e->args[0] : r->e)) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_I64: return GEN_I64;
  default: return GEN_I32; /* bools compare and add as integers */
  }
}

static template_reason match_reductions(row_match *m, bool online, strbuf *detail) {
  const ir_form *form = &m->form;
  const ir_expr *list[ROW_MAX_REDUCTIONS + 1];
  int n = ir_form_reductions(form, list, ROW_MAX_REDUCTIONS + 1);
  if (n == 0) {
    template_say(detail, "the row template takes operators that reduce, and nothing is reduced here");
    return TEMPLATE_OPERATOR;
  }
  if (n > ROW_MAX_REDUCTIONS) {
    template_say(detail, "the row template takes at most %d reductions", ROW_MAX_REDUCTIONS);
    return TEMPLATE_OPERATOR;
  }
  m->column = list[0]->index;
  for (int i = 0; i < n; i++) {
    if (list[i]->index != m->column) {
      template_say(detail, "the row template reduces one loop; here both %s and %s are reduced",
                   form->loops[m->column].name, form->loops[list[i]->index].name);
      return TEMPLATE_OPERATOR;
    }
    row_reduction *r = &m->reductions[i];
    *r = (row_reduction){.e = list[i], .kind = (ir_reduction)list[i]->id, .maximum = -1};
    r->type = accumulator_type(m, r);
    r->phase = phases_behind(m, r->e->args[0]);
    const ir_expr *condition = ir_condition_of(r->e);
    if (condition && phases_behind(m, condition) > r->phase) r->phase = phases_behind(m, condition);
    if (follows_maximum(m, r)) {
      m->has_online = true;
      if (online) {
        r->phase = m->reductions[r->maximum].phase;
      } else {
        r->maximum = -1;
      }
    }
    if (r->phase + 1 > m->n_phases) m->n_phases = r->phase + 1;
    m->n_reductions = i + 1;
  }
  if (m->n_phases <= ROW_MAX_PHASES) return TEMPLATE_OK;
  template_say(detail, "the row template takes at most %d reductions that need each other's results",
               ROW_MAX_PHASES);
  return TEMPLATE_OPERATOR;
}

/* The loops of an output, each standing alone in one subscript. */
static bool plain_loops(const ir_form *form, const ir_access *access, unsigned *loops) {
  *loops = 0;
  for (int i = 0; i < access->n; i++) {
    const ir_expr *e = access->subscripts[i].e;
    if (e->node != IR_INDEX || *loops >> e->id & 1) return false;
    *loops |= 1u << e->id;
  }
  (void)form;
  return true;
}

static template_reason match_outputs(row_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  const ir_op *op = form->problem->op;
  unsigned column = 1u << m->column, rows = 0;
  if (form->n_outputs > ROW_MAX_OUTPUTS) return TEMPLATE_OPERATOR;
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_form_output *o = &form->outputs[i];
    unsigned loops;
    const char *name = op->tensors[form->accesses[o->access].tensor].name;
    if (o->update != IR_ASSIGN || o->positions >= 0 ||
        !plain_loops(form, &form->accesses[o->access], &loops)) {
      template_say(
          detail, "the row template writes every element of an output once; %s is scattered or sorted", name);
      return TEMPLATE_OPERATOR;
    }
    if (i == 0) rows = loops & ~column;
    if ((loops & ~column) != rows) {
      template_say(detail, "the row template wants all outputs over the same rows; %s has others", name);
      return TEMPLATE_OPERATOR;
    }
    m->outputs[i] = (row_output){.by_element = loops & column, .phase = phases_behind(m, o->value)};
  }
  for (int l = 0; l < form->n_loops; l++)
    if (rows >> l & 1) m->rows[m->n_rows++] = l;
  for (int i = 0; i < m->n_reductions; i++) {
    unsigned others = ir_form_free(form, m->reductions[i].e) & ~rows;
    if (!others) continue;
    template_say(detail,
                 "the row template reduces rows alone; a reduction here differs from element to element");
    return TEMPLATE_OPERATOR;
  }
  return TEMPLATE_OK;
}

/* --- accesses --- */

static int alias_of(const row_match *m, int output) {
  const ir_form *form = &m->form;
  return form->problem->op->tensors[form->accesses[form->outputs[output].access].tensor].alias;
}

/* The last pass that reads an input. */
static int last_read(const row_match *m, int tensor) {
  int last = -1;
  for (int pass = 0; pass <= m->n_phases; pass++) {
    for (int i = 0; i < m->form.n_accesses; i++)
      if (m->pass_reads[pass] >> i & 1 && m->form.accesses[i].tensor == tensor) last = pass;
  }
  return last;
}

/* Reads of each pass over the columns: those of a phase's reductions and of what is stored then. */
static uint64_t reads_of_pass(row_match *m, int pass) {
  uses u = uses_of(m);
  for (int i = 0; i < m->n_reductions; i++) {
    if (m->reductions[i].phase != pass) continue;
    for (int k = 0; k < m->reductions[i].e->n_args; k++) collect(&u, m->reductions[i].e->args[k]);
  }
  for (int i = 0; i < m->form.n_outputs; i++) {
    if (m->outputs[i].by_element && m->outputs[i].phase == pass) collect(&u, m->form.outputs[i].value);
  }
  return u.reads;
}

static bool varies_with_rows(const row_match *m, int access) {
  for (int i = 0; i < m->n_rows; i++) {
    bool one = ir_form_extent(&m->form, m->rows[i]) == 1;
    if (!one && ir_form_motion(&m->form, access, m->rows[i]) == IR_MOTION_NONE) return false;
  }
  return true;
}

/* Rows that an expression differs with, where there is more than one of them. */
static unsigned rows_of(const row_match *m, const ir_expr *e) {
  unsigned free = ir_form_free(&m->form, e), rows = 0;
  for (int i = 0; i < m->n_rows; i++)
    if (free >> m->rows[i] & 1 && ir_form_extent(&m->form, m->rows[i]) > 1) rows |= 1u << m->rows[i];
  return rows;
}

/* A factor of the product differs with some rows alone, and what it is multiplied with with others. */
static bool has_factors_apart(const row_match *m, const ir_expr *e, unsigned all) {
  if (!ir_is_operator(e, IR_OP_MUL)) return false;
  unsigned of[] = {rows_of(m, e->args[0]), rows_of(m, e->args[1])};
  for (int i = 0; i < 2; i++) {
    bool moves = ir_form_free(&m->form, e->args[i]) >> m->column & 1;
    if (moves && of[i] != all && of[1 - i] & ~of[i]) return true;
  }
  return has_factors_apart(m, e->args[0], all) || has_factors_apart(m, e->args[1], all);
}

/* Products of matrices: several tensors move with the column, and each row needs another pair of their rows.
 * Row by row they would be read over and over. So they are where they are not multiplied (distances of
 * points), but those nothing else takes. */
static bool is_contraction(const row_match *m) {
  int moving = 0;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (!(m->moving >> i & 1) || !m->reads[i]) continue;
    if (varies_with_rows(m, i)) return false;
    moving++;
  }
  bool multiplied = false;
  for (int i = 0; i < m->n_reductions; i++) {
    const ir_expr *e = m->reductions[i].e;
    multiplied = multiplied ||
                 (m->reductions[i].kind == IR_RED_SUM && has_factors_apart(m, e->args[0], rows_of(m, e)));
  }
  return moving > 1 && multiplied;
}

static template_reason match_accesses(row_match *m, bool merged, strbuf *detail) {
  const ir_form *form = &m->form;
  uint64_t seen = 0;
  bool across = false; /* some access is contiguous along rows, and not along columns */
  uint64_t along = 0;  /* data of rows that is contiguous along columns: a vector for all rows is not */
  if (form->n_accesses > ROW_MAX_ACCESSES) return TEMPLATE_OPERATOR;
  for (int i = 0; i < form->n_accesses; i++) {
    ir_motion motion = ir_form_motion(form, i, m->column);
    if (motion == IR_MOTION_NONE) continue;
    m->moving |= UINT64_C(1) << i;
    if (motion == IR_MOTION_UNIT) m->unit |= UINT64_C(1) << i;
    if (motion == IR_MOTION_UNIT && varies_with_rows(m, i)) along |= UINT64_C(1) << i;
    for (int k = 0; motion == IR_MOTION_STRIDE && k < m->n_rows; k++)
      across = across || ir_form_motion(form, i, m->rows[k]) == IR_MOTION_UNIT;
  }
  for (int pass = 0; pass <= m->n_phases; pass++) m->pass_reads[pass] = reads_of_pass(m, pass);
  /* What is written over an input waits until that is read for the last time. */
  for (int i = 0; i < form->n_outputs; i++) {
    int alias = alias_of(m, i), last = alias < 0 ? -1 : last_read(m, alias);
    if (last > m->outputs[i].phase) m->outputs[i].phase = last;
    m->in_place = m->in_place || last >= 0;
    if (last < 0 || m->outputs[i].by_element) continue;
    template_say(detail, "the row template cannot write the value of a row over an input it reads");
    return TEMPLATE_OPERATOR;
  }
  for (int pass = 0; pass <= m->n_phases; pass++) {
    m->pass_reads[pass] = reads_of_pass(m, pass);
    m->kept |= m->pass_reads[pass] & seen & m->moving;
    seen |= m->pass_reads[pass];
  }
  for (int i = 0; i < form->n_accesses; i++)
    if (m->reads[i]) m->needs[i] = phases_behind(m, m->reads[i]);
  if (!in_place_is_safe(form)) {
    template_say(
        detail, "the row template reads of an input that is written in place only what it then writes there");
    return TEMPLATE_OPERATOR;
  }
  if (is_contraction(m)) {
    template_say(
        detail,
        "the row template takes reductions of rows; here every row of one tensor meets those of another");
    return TEMPLATE_OPERATOR;
  }
  /* Any view is right whatever is contiguous, and may have axes of one element where the merged form has
   * none. */
  if (!merged || !across || along & seen) return TEMPLATE_OK;
  template_say(detail, "the row template reduces the contiguous axis; %s is not it",
               form->loops[m->column].name);
  return TEMPLATE_OPERATOR;
}

/* --- all --- */

static bool storable(const ir_problem *p, int tensor) {
  return dtype_bits(ir_tensor_dtype(p, tensor)) >= 8;
}

arke_status row_match_make(const ir_problem *p, bool merged, bool online, arena *a, row_match *m,
                           template_reason *reason, strbuf *detail, arke_error *err) {
  arke_error why = ARKE_ERROR_INIT;
  ir_form form;
  *m = (row_match){.n_rows = 0};
  *reason = TEMPLATE_OPERATOR;
  arke_status status = ir_form_make(p, a, merged ? &form : &m->form, &why);
  if (status == ARKE_OK && merged) status = ir_form_merge_across_ones(&form, a, &m->form, &why);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, "generate");
  if (status != ARKE_OK) {
    template_say(detail, "%s", why.text);
    return ARKE_OK;
  }
  m->walked = ARENA_NEW_N(a, int, (size_t)m->form.n_nodes);
  if (!m->walked) return error_memory(err, "generate");
  *reason = match_reductions(m, online, detail);
  if (*reason == TEMPLATE_OK) *reason = match_outputs(m, detail);
  if (*reason == TEMPLATE_OK) *reason = match_accesses(m, merged, detail);
  for (int i = p->op->n_inputs; i < p->op->n_args && *reason == TEMPLATE_OK; i++) {
    if (storable(p, i)) continue;
    template_say(detail, "the row template stores bytes or more; %s is %s", p->op->tensors[i].name,
                 dtype_name(ir_tensor_dtype(p, i)));
    *reason = TEMPLATE_DTYPE;
  }
  return ARKE_OK;
}

int64_t row_columns(const row_match *m) {
  return ir_form_extent(&m->form, m->column);
}

int64_t row_rows(const row_match *m) {
  int64_t rows = 1;
  for (int i = 0; i < m->n_rows; i++) rows *= ir_form_extent(&m->form, m->rows[i]);
  return rows;
}

template_reason row_fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t; /* loads, stores and shuffles are on every target */
  arena a = ARENA_INIT;
  row_match m;
  template_reason reason;
  if (row_match_make(p, true, false, &a, &m, &reason, detail, NULL) != ARKE_OK) {
    template_say(detail, "out of memory");
    reason = TEMPLATE_OPERATOR;
  }
  arena_release(&a);
  return reason;
}
