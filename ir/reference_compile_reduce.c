/* Reductions for the evaluator: what one over nothing is, the bounds that narrow its range, and whether what
 * is cast in its terms is each term's own. */
#include <math.h>

#include "ir/ir_bounds.h"
#include "ir/ir_types.h"
#include "ir/reference_compile.h"

typedef struct bound_list {
  ref_compiler *c;
  ref_reduce *reduce;
  int scope, capacity;
  bool failed;
} bound_list;

static bool count_bound(const ir_bound *b, void *user) {
  (void)b;
  ((bound_list *)user)->capacity++;
  return true;
}

static bool compile_bound(const ir_bound *b, void *user) {
  bound_list *list = user;
  ref_compiler *c = list->c;
  ref_bound *out = &list->reduce->bounds[list->reduce->n_bounds];
  *out = (ref_bound){.relation = b->relation};
  if (ir_expr_level(c->s->p, b->sub) >= LEVEL_F32) return true;
  out->sub = ref_compile_expr(c, b->sub, list->scope, true);
  if (b->tensor >= 0) {
    int64_t shape[LIMIT_RANK];
    int lead = ir_tensor_shape(c->s->p, b->tensor, shape) - c->s->p->op->tensors[b->tensor].rank;
    out->size = shape[lead + b->dim];
  } else {
    if (ir_expr_level(c->s->p, b->other) >= LEVEL_F32) return true; /* the condition itself still filters */
    out->other = ref_compile_expr(c, b->other, list->scope, true);
  }
  list->failed = out->sub == NULL || (b->tensor < 0 && out->other == NULL);
  if (!list->failed) list->reduce->n_bounds++;
  return !list->failed;
}

static ref_lane over_nothing(ir_reduction r, ir_level level) {
  bool floats = level >= LEVEL_F32;
  switch (r) {
  case IR_RED_PROD: return floats ? (ref_lane){.f = 1} : (ref_lane){.i = 1};
  case IR_RED_ALL: return (ref_lane){.i = 1};
  case IR_RED_ARGMAX:
  case IR_RED_ARGMIN: return (ref_lane){.i = -1};
  case IR_RED_MAX:
    if (floats) return (ref_lane){.f = -INFINITY};
    return (ref_lane){.i = level == LEVEL_BOOL ? 0 : level == LEVEL_I32 ? INT32_MIN : INT64_MIN};
  case IR_RED_MIN:
    if (floats) return (ref_lane){.f = INFINITY};
    return (ref_lane){.i = level == LEVEL_BOOL ? 1 : level == LEVEL_I32 ? INT32_MAX : INT64_MAX};
  default: return floats ? (ref_lane){.f = 0} : (ref_lane){.i = 0};
  }
}

bool ref_has_casts(const ref_compiler *c, const ref_node *n) {
  if (ref_is_narrow_cast(n)) return true;
  for (int i = 0; n->op == REF_READ && !n->read->argument && i < c->s->p->op->n_definitions; i++) {
    const ref_definition *d = &c->s->definitions[i];
    bool writes =
        d->value != NULL && (d->source->tensor == n->read->tensor || d->source->tensor2 == n->read->tensor);
    if (writes && ref_has_casts(c, d->value)) return true;
  }
  for (int i = 0; i < n->n_args && n->args[i] != NULL; i++)
    if (ref_has_casts(c, n->args[i])) return true;
  return n->op == REF_REDUCE && ref_has_casts(c, n->reduce->body);
}

/* Whether all that is cast varies with the index of this scope. */
static bool casts_vary(const ref_compiler *c, const ref_node *n, int scope) {
  if (ref_is_narrow_cast(n) || n->op == REF_READ) return n->depends == scope || !ref_has_casts(c, n);
  for (int i = 0; i < n->n_args && n->args[i] != NULL; i++)
    if (!casts_vary(c, n->args[i], scope)) return false;
  return n->op != REF_REDUCE || casts_vary(c, n->reduce->body, scope);
}

bool ref_compile_reduce(ref_compiler *c, ref_node *n, const ir_expr *e, int scope) {
  ref_reduce *r = n->reduce = ARENA_NEW(&c->s->arena, ref_reduce);
  if (r == NULL) return false;
  r->reduction = (ir_reduction)e->id;
  r->nothing = over_nothing(r->reduction, ir_expr_level(c->s->p, e));
  r->slot = e->index;
  int inside = scope + 1;
  c->level_of[e->index] = inside;
  if (inside > c->deepest) c->deepest = inside;
  bool truth = e->id == IR_RED_ANY || e->id == IR_RED_ALL;
  const ir_expr *outer = c->term;
  c->term = e->id == IR_RED_SUM ? e->args[0] : NULL;
  r->body = ref_compile_as(c, e->args[0], inside, false,
                           n->integer || truth || e->id == IR_RED_ARGMAX || e->id == IR_RED_ARGMIN);
  c->term = outer;
  if (truth) r->body = r->body == NULL ? NULL : ref_coerce(c, r->body, REF_TRUTH);
  if (r->body == NULL) return false;
  r->casts_apart = e->id == IR_RED_SUM && r->body->varying && casts_vary(c, r->body, inside);
  if (e->n_args == 2) {
    r->condition = ref_compile_expr(c, e->args[1], inside, false);
    r->condition = r->condition == NULL ? NULL : ref_coerce(c, r->condition, REF_TRUTH);
    if (r->condition == NULL) return false;
  }
  bound_list list = {c, r, inside, 0, false};
  ir_bounds_visit(e, count_bound, &list);
  r->bounds = ARENA_NEW_N(&c->s->arena, ref_bound, (size_t)list.capacity);
  if (r->bounds == NULL) return false;
  ir_bounds_visit(e, compile_bound, &list);
  bool picks = e->id == IR_RED_MAX || e->id == IR_RED_MIN || e->id == IR_RED_PROD;
  n->sums = !n->integer && (e->id == IR_RED_SUM || (picks && r->body->sums));
  return !list.failed && ref_finish(c, n);
}
