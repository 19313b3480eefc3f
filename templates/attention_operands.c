/* What Q and K are: the factors of the products that scores are made of. */
#include "templates/attention_parts.h"

/* Q: one subscript is the query, the last one the loop that is summed, and no other depends on them. */
static bool check_queries(attention_matcher *w, int access, int depth) {
  const ir_form *form = &w->m->form;
  const ir_access *x = &form->accesses[access];
  const char *name = form->problem->op->tensors[x->tensor].name;
  unsigned rows = 1u << w->m->query | 1u << depth, seen = 0;
  if (x->other) return template_say(w->detail, "%s has values outside itself", name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (x->subscripts[s].leading) return template_say(w->detail, "%s has leading axes", name);
    unsigned free = ir_form_free(form, e);
    if (!(free & rows)) continue;
    if (e->node != IR_INDEX || (seen & free))
      return template_say(w->detail, "%s is not read row by row", name);
    seen |= free;
  }
  if (seen != rows) return template_say(w->detail, "%s is not read row by row", name);
  const ir_expr *inner = x->subscripts[x->n - 1].e;
  return (inner->node == IR_INDEX && inner->id == depth) ||
         template_say(w->detail, "rows of %s do not run along the axis that is summed", name);
}

/* The read of a computed Q that is one row by row; -1: there is none. */
static int rows_in(attention_matcher *w, const ir_expr *e, int depth) {
  attention_matcher quiet = {.m = w->m};
  if (e->node == IR_READ) return check_queries(&quiet, e->id, depth) ? e->id : -1;
  int found = -1;
  for (int i = 0; i < e->n_args && found < 0; i++) found = rows_in(w, e->args[i], depth);
  return found;
}

unsigned attention_loops_of(const attention_match *m, const ir_expr *read) {
  return contraction_loops_without_group(&m->form, &m->groups, read);
}

/* What is rounded to 16 bits and has no sums of its own. */
static bool is_computed(const attention_match *m, const ir_expr *e) {
  return e->node == IR_CAST && dtype_bits(ir_cast_dtype(m->form.problem, e)) == 16 &&
         attention_reduces_only(m, e, NULL, 0);
}

/* The factors of a term of QK: constants, and two reads, one of which may be computed. */
static bool collect_product(const attention_match *m, const ir_expr *e, const ir_expr *reads[2],
                            double *factor) {
  double v;
  if (ir_is_operator(e, IR_OP_MUL))
    return collect_product(m, e->args[0], reads, factor) && collect_product(m, e->args[1], reads, factor);
  if (attention_constant(m->form.problem, e, &v)) {
    *factor *= v;
    return true;
  }
  const ir_expr *read = ir_form_as_read(&m->form, e);
  if (!read && is_computed(m, e)) read = e;
  if (!read || reads[1]) return false;
  reads[reads[0] ? 1 : 0] = read;
  return true;
}

/* The reads of Q and K of a part, and its constant factor. */
typedef struct operands {
  const ir_expr *q, *k;
  double factor;
} operands;

static bool find_operands(attention_matcher *w, attention_part *part, operands *o) {
  attention_match *m = w->m;
  const ir_expr *reads[2] = {NULL};
  o->factor = 1;
  part->depth = part->e->index;
  if (!collect_product(m, part->e->args[0], reads, &o->factor) || !reads[1] || !(o->factor > 0))
    return template_say(w->detail, "the inner sum is not one of products of two reads");
  bool swap = attention_loops_of(m, reads[0]) >> m->key & 1;
  o->q = reads[swap];
  o->k = reads[!swap];
  if (o->k->node == IR_READ && !(attention_loops_of(m, o->q) >> m->key & 1)) return true;
  return template_say(w->detail, "keys are computed, or queries by key");
}

bool attention_match_products(attention_matcher *w, unsigned outer, const contraction_loops *order) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  operands o[ATTENTION_PARTS] = {{0}};
  unsigned own = outer & ~(1u << m->wide), inner = 0;
  for (int i = 0; i < m->n_parts; i++) {
    if (!find_operands(w, &m->parts[i], &o[i])) return false;
    own &= attention_loops_of(m, o[i].q) & ~attention_loops_of(m, o[i].k);
    inner |= 1u << m->parts[i].depth;
    if (o[i].factor != o[0].factor) return template_say(w->detail, "two products have unlike factors");
  }
  own &= ~inner;
  m->factor = o[0].factor;
  m->query = -1;
  const ir_expr *c = ir_condition_of(m->weighted);
  unsigned spoken = c ? ir_form_free(form, c) & own : 0;
  for (int i = 0; i < order->n; i++)
    if ((spoken ? spoken : own) >> order->loops[i] & 1) m->query = order->loops[i];
  if (m->query < 0) return template_say(w->detail, "queries and keys have the same loops");
  if (m->groups.of && m->groups.row != m->query)
    return template_say(w->detail, "requests are of other rows than the queries");
  for (int i = 0; i < m->n_parts; i++) {
    attention_part *part = &m->parts[i];
    part->made = o[i].q->node == IR_READ ? NULL : o[i].q;
    part->q = part->made ? rows_in(w, part->made, part->depth) : o[i].q->id;
    if (part->q < 0) return template_say(w->detail, "computed queries have no row that they are made of");
    if (!check_queries(w, part->q, part->depth) ||
        !attention_match_read(form, &m->groups, o[i].k, m->query, m->key, part->depth, &part->k, w->detail))
      return false;
  }
  return true;
}

arke_status attention_find_blocks(attention_match *m, attention_part *part, arena *a) {
  ir_form whole = m->form, *blocks = ARENA_NEW(a, ir_form);
  ir_form_output *out = ARENA_NEW(a, ir_form_output);
  if (!blocks || !out) return ARKE_ERR_MEMORY;
  *out = (ir_form_output){
      .access = part->q, .positions = -1, .rank_loop = -1, .update = IR_ASSIGN, .value = part->made};
  whole.outputs = out;
  whole.n_outputs = 1;
  whole.loops[part->depth].reduced = false;
  part->blocks = blocks;
  return ir_form_split(&whole, a, blocks, NULL);
}
