/* Temporaries that are kept, taken apart as they are written: a definition X[m,g,d] = cast<T>(…) that others
 * read at computed places, X[k, h / (H / G), d]. In a form it is substituted there, and has the reader's
 * loops: it would be computed for each h and for each row that reads it. In memory it takes its own elements,
 * rounded as they are, and its readers find a tensor, which tensor copies and matrix units take:
 *
 *   attention to rotated keys:  a map stage rotates the queries, one the keys, an attention stage follows
 *
 * Each kept temporary is an operator of its own, and what is left is one that reads them. So do outputs that
 * are written at gathered places, or by several definitions, and read again: those are tensors anyway.
 *
 *   attention to a cache that it appends to:  a scatter stage writes the new rows, an attention stage follows
 */
#include "templates/compose_part.h"

#include <string.h>

#define STAGE "generate"

/* --- what is kept --- */

static bool is_plain(ir_expr *const *subscripts, int n) {
  unsigned indices = 0;
  for (int i = 0; i < n; i++) {
    if (subscripts[i]->node != IR_INDEX || indices >> subscripts[i]->id & 1) return false;
    indices |= 1u << subscripts[i]->id;
  }
  return true;
}

/* A plain definition, the tensor's only one, of rounded values that are not merely converted. */
static bool is_rounded(const ir_problem *p, int tensor) {
  const ir_tensor *t = &p->op->tensors[tensor];
  const ir_definition *d = compose_only_writer(p->op, tensor);
  if (t->role != IR_TEMPORARY || t->any_rank || !d || d->tensor2 >= 0 || d->update != IR_ASSIGN ||
      d->value->node != IR_CAST || !is_plain(d->subscripts, d->n_subscripts))
    return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i].by >= 0) return false; /* no tensor of a signature has such an axis */
  const ir_expr *e = d->value;
  while (e->node == IR_CAST) e = e->args[0];
  return dtype_bits(ir_cast_dtype(p, d->value)) <= 16 && e->node != IR_READ;
}

static bool read_at_places(const compose_keeper *k, const ir_expr *e) {
  bool own = e->node == IR_READ && k->kept[e->id];
  if (own && !is_plain(e->args, e->n_args - e->has_else)) return true;
  for (int i = 0; i < e->n_args; i++)
    if (read_at_places(k, e->args[i])) return true;
  return false;
}

/* Whether a temporary is read at computed places. */
static bool is_read_at_places(const ir_expr *e, int tensor) {
  if (e->node == IR_READ && e->id == tensor && !is_plain(e->args, e->n_args - e->has_else)) return true;
  for (int i = 0; i < e->n_args; i++)
    if (is_read_at_places(e->args[i], tensor)) return true;
  return false;
}

static bool reads_tensor(const ir_expr *e, int tensor) {
  if (e->node == IR_READ && e->id == tensor) return true;
  for (int i = 0; i < e->n_args; i++)
    if (reads_tensor(e->args[i], tensor)) return true;
  return false;
}

/* What is read at computed places would be computed for each of them, and outputs that are stored first are
 * moved from what is. */
static bool stays_kept(const compose_keeper *k, int tensor) {
  for (int i = 0; i < k->op->n_definitions; i++) {
    const ir_definition *d = &k->op->definitions[i];
    if (is_read_at_places(d->value, tensor)) return true;
    if (d->tensor < k->op->n_args && k->stored[d->tensor] && reads_tensor(d->value, tensor)) return true;
  }
  return false;
}

static bool is_stored(const ir_op *op, int tensor) {
  const ir_definition *d = compose_only_writer(op, tensor);
  bool simple = d && d->tensor2 < 0 && d->update == IR_ASSIGN && is_plain(d->subscripts, d->n_subscripts);
  for (int i = 0; i < op->n_definitions && !simple; i++)
    if (reads_tensor(op->definitions[i].value, tensor)) return true;
  return false;
}

/* Whether no argument has all axes of a temporary. */
static bool crosses_all(const ir_op *op, int tensor) {
  unsigned sizes = compose_declared_sizes(&op->tensors[tensor]);
  for (int t = 0; t < op->n_args; t++)
    if ((sizes & ~compose_declared_sizes(&op->tensors[t])) == 0) return false;
  return true;
}

static bool find_kept(compose_keeper *k, bool *crosses) {
  const ir_op *op = k->op;
  bool any = false;
  *crosses = false;
  for (int t = op->n_args; t < op->n_tensors; t++) {
    k->kept[t] = is_rounded(k->s->plan->p, t);
    *crosses = *crosses || (k->kept[t] && crosses_all(op, t));
  }
  for (int t = op->n_inputs; t < op->n_args; t++) any |= k->stored[t] = is_stored(op, t);
  for (int i = 0; i < op->n_definitions; i++) any = any || read_at_places(k, op->definitions[i].value);
  bool *can_fold = &k->s->plan->can_fold;
  for (int t = op->n_args; t < op->n_tensors; t++) {
    if (!k->kept[t] || stays_kept(k, t)) continue;
    *can_fold = true;
    k->folded[t] = k->folds;
    if (k->folds) k->kept[t] = false;
  }
  return any && (*can_fold || !k->folds);
}

/* --- as stages --- */

static int argument_of_whole(const int *arguments, int of_part, int n_before) {
  if (of_part >= 0) return arguments[of_part];
  return of_part == ~COMPOSE_TEMPORARIES ? of_part : ~(~of_part + n_before);
}

/* The stages of a part that no template takes by itself. */
static bool add_stages(compose_splitter *s, const ir_problem *p, const int *arguments) {
  compose_plan *plan = s->plan, *own = ARENA_NEW(plan->a, compose_plan);
  template_reason reason = TEMPLATE_OPERATOR;
  int before = plan->n_cuts;
  strbuf_clear(&s->last);
  if (!own || compose_split(p, s->t, (compose_how){.slice = 0, .keep = true}, s->known, plan->a, own, &reason,
                            &s->last, s->err) != ARKE_OK) {
    s->status = ARKE_ERR_MEMORY;
    return false;
  }
  if (reason != TEMPLATE_OK || plan->n_stages + own->n_stages > COMPOSE_STAGES ||
      before + own->n_cuts > COMPOSE_TEMPORARIES)
    return false;
  for (int i = 0; i < own->n_stages; i++) {
    compose_stage *stage = plan->stages[plan->n_stages++] = own->stages[i];
    for (int k = 0; k < stage->problem.op->n_args; k++)
      stage->arguments[k] = argument_of_whole(arguments, stage->arguments[k], before);
  }
  for (int i = 0; i < own->n_cuts; i++) plan->temporaries[plan->n_cuts++] = own->temporaries[i];
  return true;
}

/* Whether what the part reads has been written by then, and nothing by its name that is another. */
static bool can_follow(compose_keeper *k, const compose_part *x) {
  strbuf *last = &k->s->last;
  strbuf_clear(last);
  for (int t = 0; t < k->op->n_tensors; t++) {
    const ir_tensor *tensor = &k->op->tensors[t];
    if (!x->read[t] || !(k->kept[t] || k->stored[t])) continue;
    if (!k->made[t])
      strbuf_addf(last, "%s is written after it is needed", tensor->name);
    else if (tensor->alias >= 0 && x->read[tensor->alias])
      strbuf_addf(last, "%s is read as it was and as it is written", tensor->name);
  }
  if (x->reads_output) strbuf_add(last, "it needs an output that is not stored yet");
  return last->length == 0;
}

static bool has_folded(const compose_keeper *k, const compose_part *x) {
  for (int i = 0; i < k->op->n_definitions; i++)
    if (x->definitions[i] && k->folded[k->op->definitions[i].tensor]) return true;
  return false;
}

/* The same with an axis as blocks of another, where that costs less. */
static compose_stage *in_blocks(compose_keeper *k, const compose_part *x, compose_stage *plain) {
  compose_splitter *s = k->s;
  compose_keeper other = *k;
  compose_part named = *x;
  compose_block block;
  if (compose_in_blocks(s->plan->p, x->definitions, has_folded(k, x), s->plan->a, &block, &other.op,
                        s->err) != ARKE_OK) {
    s->status = ARKE_ERR_MEMORY;
    return NULL;
  }
  if (block.times == 0) return plain;
  for (int i = 0; i < k->op->n_axes; i++)
    if (strcmp(k->op->axes[i], block.axis) == 0) named.sizes &= ~(1u << i);
  compose_stage *stage = compose_make_part(&other, &named);
  if (!stage || !compose_best_stage(s, stage) || stage->ns >= plain->ns) return plain;
  stage->block = block;
  return stage;
}

static bool add_part(compose_keeper *k, const compose_part *x) {
  compose_splitter *s = k->s;
  compose_plan *plan = s->plan;
  if (!can_follow(k, x)) return false;
  compose_stage *stage = compose_make_part(k, x);
  bool whole = stage && compose_best_stage(s, stage);
  if (whole) stage = in_blocks(k, x, stage);
  if (!stage) return false;
  for (int t = 0; t < k->op->n_tensors; t++) {
    if (!x->writes[t]) continue;
    k->made[t] = true;
    if (k->kept[t])
      plan->temporaries[compose_kept_number(k, t)] =
          (kernel_temporary){&stage->problem, stage->problem.op->n_inputs};
  }
  if (!whole && has_folded(k, x)) return false;
  if (!whole) return add_stages(s, &stage->problem, stage->arguments);
  if (plan->n_stages == COMPOSE_STAGES) return false;
  plan->stages[plan->n_stages++] = stage;
  return true;
}

static bool keep_temporary(compose_keeper *k, int tensor) {
  compose_part x;
  if (!compose_new_part(k, &x)) return false;
  x.writes[tensor] = true;
  compose_fill_part(k, &x);
  return add_part(k, &x);
}

/* The outputs that are stored before others are computed, or those others. */
static bool make_outputs(compose_keeper *k, bool stored) {
  compose_part x;
  if (!compose_new_part(k, &x)) return false;
  for (int t = k->op->n_inputs; t < k->op->n_args; t++) x.writes[t] = k->stored[t] == stored;
  compose_fill_part(k, &x);
  return add_part(k, &x);
}

/* The last definition of an output that is stored; -1: there is none. */
static int last_stored(const compose_keeper *k) {
  int last = -1;
  for (int i = 0; i < k->op->n_definitions; i++)
    if (k->stored[k->op->definitions[i].tensor]) last = i;
  return last;
}

/* In the order of the definitions. */
static bool make_parts(compose_keeper *k, strbuf *detail) {
  int last = last_stored(k);
  for (int i = 0; i < k->op->n_definitions; i++) {
    int t = k->op->definitions[i].tensor;
    if (i == last && !make_outputs(k, true)) {
      strbuf_addf(detail, "outputs that are read again cannot be stored first (%s); ",
                  strbuf_text(&k->s->last));
      return false;
    }
    if (k->kept[t] && !keep_temporary(k, t)) {
      strbuf_addf(detail, "%s cannot be kept (%s); ", k->op->tensors[t].name, strbuf_text(&k->s->last));
      return false;
    }
  }
  if (make_outputs(k, false)) return true;
  strbuf_addf(detail, "what reads kept temporaries fits no template (%s); ", strbuf_text(&k->s->last));
  return false;
}

static bool keep(compose_splitter *s, bool folds, bool crossing, strbuf *detail) {
  compose_plan *plan = s->plan;
  compose_keeper k = {.s = s, .op = plan->p->op, .folds = folds};
  size_t n = (size_t)k.op->n_tensors + 1;
  k.folded = ARENA_NEW_N(plan->a, bool, n);
  k.kept = ARENA_NEW_N(plan->a, bool, n);
  k.stored = ARENA_NEW_N(plan->a, bool, n);
  k.made = ARENA_NEW_N(plan->a, bool, n);
  if (!k.folded || !k.kept || !k.stored || !k.made) {
    s->status = error_memory(s->err, STAGE);
    return false;
  }
  bool crosses;
  if (!find_kept(&k, &crosses) || (!folds && crosses != crossing) ||
      compose_kept_number(&k, k.op->n_tensors) > COMPOSE_TEMPORARIES)
    return false;
  plan->n_cuts = compose_kept_number(&k, k.op->n_tensors);
  plan->folded = folds;
  if (make_parts(&k, detail) && compose_in_place_is_safe(plan)) return true;
  compose_undo(plan, 0, 0);
  plan->n_cuts = 0;
  plan->folded = false;
  return false;
}

bool compose_keep(compose_splitter *s, bool crossing, strbuf *detail) {
  return keep(s, false, crossing, detail);
}

bool compose_fold(compose_splitter *s) {
  strbuf ignored = STRBUF_INIT;
  bool done = keep(s, true, false, &ignored);
  if (strbuf_failed(&ignored)) s->status = error_memory(s->err, STAGE);
  strbuf_free(&ignored);
  return done;
}
