/* Making a form and asking it. How it is made: ir_form.h. */
#include "ir/ir_form.h"

#include "base/error.h"
#include "ir/ir_form_build.h"

/* --- making --- */

/* Loops of a definition's left indices, outermost first. */
static bool left_loops(form_builder *b, const ir_definition *d, form_env *env) {
  const ir_op *op = b->p->op;
  if (op->tensors[d->tensor].any_rank && b->leading < 0) {
    if (b->form->n_loops == IR_FORM_LOOPS) {
      form_fail(b, ARKE_ERR_UNSUPPORTED, "more than %d loops", IR_FORM_LOOPS);
      return false;
    }
    b->leading = b->form->n_loops++;
    b->form->loops[b->leading] = (ir_loop){.name = "...", .leading = true};
  }
  unsigned taken = 0;
  for (int i = 0; i < d->n_indices; i++) {
    if (d->indices[i].reduced) continue;
    int loop = form_loop(b, d->indices[i].range, taken, d->indices[i].name);
    if (loop < 0) return false;
    taken |= 1u << loop;
    env->values[i] = form_index(b, loop);
  }
  return b->status == ARKE_OK;
}

static int write_access(form_builder *b, form_env *env, int tensor) {
  const ir_expr *subscripts[LIMIT_RANK];
  form_place place = {.subscript = true};
  for (int i = 0; i < env->def->n_subscripts; i++)
    subscripts[i] = form_build(b, env, env->def->subscripts[i], place);
  return form_access_make(b, tensor, subscripts, env->def->n_subscripts, NULL, env->def->skips);
}

static void make_output(form_builder *b, int definition, form_env *env) {
  const ir_definition *d = env->def;
  ir_form_output out = {.definition = definition, .positions = -1, .rank_loop = -1, .update = d->update};
  form_place place = {.guarded = false};
  out.access = write_access(b, env, d->tensor);
  if (b->status != ARKE_OK) return;
  if (d->tensor2 >= 0) {
    out.positions = write_access(b, env, d->tensor2);
    if (b->status != ARKE_OK) return;
    out.rank_loop = env->values[d->subscripts[d->n_subscripts - 1]->id]->id;
    out.value = form_build_reduce(b, env, d->value, place, 1u << out.rank_loop);
  } else {
    out.value = form_build(b, env, d->value, place);
  }
  if (out.value != NULL) b->form->outputs[b->form->n_outputs++] = out;
}

static bool is_output(const ir_op *op, const ir_definition *d) {
  return op->tensors[d->tensor].role == IR_OUTPUT ||
         (d->tensor2 >= 0 && op->tensors[d->tensor2].role == IR_OUTPUT);
}

static void mark_reduced(ir_form *form) {
  unsigned left = 0;
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_access *access = &form->accesses[form->outputs[i].access];
    for (int s = 0; s < access->n; s++) left |= ir_form_free(form, access->subscripts[s].e);
  }
  for (int l = 0; l < form->n_loops; l++) form->loops[l].reduced = !(left >> l & 1);
}

arke_status ir_form_make(const ir_problem *p, arena *a, ir_form *form, arke_error *err) {
  const ir_op *op = p->op;
  form_builder b;
  if (!form_builder_init(&b, p, a, form, err)) return b.status;
  form_env *envs = ARENA_NEW_N(a, form_env, (size_t)op->n_definitions);
  if (envs == NULL) return error_memory(err, "form");
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    if (!is_output(op, d)) continue;
    envs[i] = (form_env){.def = d, .values = ARENA_NEW_N(a, const ir_expr *, (size_t)d->n_indices + 1)};
    if (envs[i].values == NULL) return error_memory(err, "form");
    if (d->tensor2 >= 0 && op->tensors[d->tensor].role != op->tensors[d->tensor2].role)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "form", "both results of topk must be outputs");
    if (!left_loops(&b, d, &envs[i])) return b.status;
  }
  for (int i = 0; i < op->n_definitions && b.status == ARKE_OK; i++)
    if (envs[i].def != NULL) make_output(&b, i, &envs[i]);
  if (b.status != ARKE_OK) return b.status;
  mark_reduced(form);
  form_number_nodes(&b);
  return ARKE_OK;
}

/* --- asking --- */

unsigned ir_form_free(const ir_form *form, const ir_expr *e) {
  (void)form;
  return form_of(e)->free;
}

int ir_form_number(const ir_form *form, const ir_expr *e) {
  (void)form;
  return form_of(e)->number;
}

dtype ir_form_type(const ir_form *form, const ir_expr *e) {
  (void)form;
  return ir_level_dtype(form_of(e)->level);
}

typedef struct reductions {
  const ir_expr **list;
  int n, capacity;
} reductions;

static bool note_reduction(void *user, const ir_expr *e) {
  reductions *r = user;
  if (e->node == IR_REDUCE && r->n < r->capacity) r->list[r->n++] = e;
  return true;
}

int ir_form_reductions(const ir_form *form, const ir_expr **list, int capacity) {
  uint64_t seen[FORM_MOST_NODES / 64] = {0};
  reductions r = {.list = list, .capacity = capacity};
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_access *access = &form->accesses[form->outputs[i].access];
    for (int s = 0; s < access->n; s++) form_walk(form, access->subscripts[s].e, seen, note_reduction, &r);
    form_walk(form, form->outputs[i].value, seen, note_reduction, &r);
  }
  return r.n;
}

int64_t ir_form_extent(const ir_form *form, int loop) {
  const ir_problem *p = form->problem;
  const ir_loop *l = &form->loops[loop];
  int64_t n = 1;
  if (l->leading)
    for (int i = 0; i < p->lead_rank; i++) n *= p->lead[i];
  for (int i = 0; i < l->n_dims; i++) n *= ir_dim_size(p, l->dims[i]);
  return n;
}

bool ir_form_is_one(const ir_form *form, ir_dim d) {
  return d.axis < 0 ? d.factor == 1 : ir_dim_is_axis(d) && (form->ones >> d.axis & 1);
}

bool ir_form_covers(const ir_form *form, const ir_access *x, int s, int loop) {
  const ir_subscript *sub = &x->subscripts[s];
  const ir_loop *l = &form->loops[loop];
  const ir_tensor *t = &form->problem->op->tensors[x->tensor];
  if (sub->leading != l->leading) return false;
  int d = sub->leading ? 0 : sub->first, end = sub->first + sub->count, i = 0;
  while (true) {
    while (i < l->n_dims && ir_form_is_one(form, l->dims[i])) i++;
    while (d < end && ir_form_is_one(form, t->dims[d])) d++;
    if (i == l->n_dims || d == end) return i == l->n_dims && d == end;
    if (!ir_dim_equal(t->dims[d], l->dims[i])) return false;
    i++;
    d++;
  }
}

void ir_form_set_extent(const ir_form *form, int loop, int64_t n, ir_problem *p) {
  const ir_loop *l = &form->loops[loop];
  for (int i = 0; i < l->n_dims; i++) {
    if (l->dims[i].axis < 0) continue;
    int64_t size = (n - l->dims[i].more) / l->dims[i].factor;
    p->sizes[l->dims[i].axis] = size > 0 ? size : 1;
  }
  for (int i = 0; l->leading && i < p->lead_rank; i++) p->lead[i] = i == p->lead_rank - 1 ? n : 1;
}

/* --- motion --- */

typedef enum slope { SLOPE_NONE, SLOPE_ONE, SLOPE_OTHER, SLOPE_IRREGULAR } slope;

/* How e moves with a loop. */
static slope slope_of(const ir_expr *e, unsigned bit) {
  if ((form_of(e)->free & bit) == 0) return SLOPE_NONE;
  if (e->node == IR_INDEX) return SLOPE_ONE;
  if (e->node != IR_OPERATOR) return SLOPE_IRREGULAR;
  slope x = slope_of(e->args[0], bit), y = e->n_args > 1 ? slope_of(e->args[1], bit) : SLOPE_NONE;
  if (x == SLOPE_IRREGULAR || y == SLOPE_IRREGULAR) return SLOPE_IRREGULAR;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: return y == SLOPE_NONE ? x : x == SLOPE_NONE ? y : SLOPE_OTHER;
  case IR_OP_SUB: return y == SLOPE_NONE ? x : SLOPE_OTHER;
  case IR_OP_NEG: return SLOPE_OTHER;
  case IR_OP_MUL: return x == SLOPE_NONE || y == SLOPE_NONE ? SLOPE_OTHER : SLOPE_IRREGULAR;
  default: return SLOPE_IRREGULAR;
  }
}

ir_motion ir_form_motion(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  ir_motion motion = IR_MOTION_NONE;
  for (int s = 0; s < x->n; s++) {
    slope by = slope_of(x->subscripts[s].e, 1u << loop);
    if (by == SLOPE_NONE) continue;
    if (by == SLOPE_IRREGULAR) return IR_MOTION_IRREGULAR;
    bool unit = by == SLOPE_ONE && s == x->n - 1 && motion == IR_MOTION_NONE;
    motion = unit ? IR_MOTION_UNIT : IR_MOTION_STRIDE;
  }
  return motion;
}
