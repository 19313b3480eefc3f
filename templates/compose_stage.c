/* A stage as an operator: the signature of what its definitions read and write, bound to the whole's sizes.
 */
#include <stdio.h>
#include <string.h>

#include "templates/compose_text.h"

#define STAGE "generate"

/* --- the signature --- */

static void declare_dim(compose_writer *w, strbuf *out, ir_dim d, bool sliced) {
  if (sliced) {
    strbuf_add(out, w->plan->slices.names.axis);
    return;
  }
  if (ir_dim_is_axis(d)) w->declared |= 1u << d.axis;
  ir_dim_print(w->plan->p->op, d, out);
}

static void declare_argument(compose_writer *w, strbuf *out, int tensor) {
  const ir_problem *p = w->plan->p;
  const ir_tensor *t = &p->op->tensors[tensor];
  strbuf_addf(out, "%s: %s[%s", t->name, dtype_name(ir_tensor_dtype(p, tensor)), t->any_rank ? "..." : "");
  for (int i = 0; i < t->rank; i++) {
    if (i || t->any_rank) strbuf_add(out, ",");
    declare_dim(w, out, t->dims[i], w->sliced[tensor] >> i & 1);
  }
  if (w->sliced[tensor] & w->whole[tensor]) w->failed = true; /* it is read past the slice too */
  strbuf_add(out, "]");
}

/* An axis that the definitions name and no tensor has is declared by a tensor that nothing reads. */
static void declare_size(strbuf *out, const char *axis, const char *between) {
  strbuf_addf(out, "%s%s_: u8[%s]", between, axis, axis);
}

static void declare_temporary(compose_writer *w, strbuf *out, int number) {
  const compose_cut *cut = &w->plan->cuts[number];
  const char *between = "";
  bool cast = cut->node->node == IR_CAST;
  dtype type = cast ? ir_cast_dtype(w->plan->p, cut->node) : ir_form_type(w->form, cut->node);
  strbuf_addf(out, "%s%d: %s[", w->temporary, number, dtype_name(type));
  for (int leading = 1; leading >= 0; leading--) {
    for (int l = 0; l < w->form->n_loops; l++) {
      const ir_loop *loop = &w->form->loops[l];
      if (!(cut->loops >> l & 1) || loop->leading != leading) continue;
      strbuf_add(out, between);
      between = ",";
      if (leading) {
        strbuf_add(out, "...");
      } else {
        declare_dim(w, out, loop->dims[0], l == w->slice);
      }
    }
  }
  strbuf_add(out, "]");
}

static void declare_attributes(compose_writer *w, strbuf *out) {
  const ir_op *op = w->plan->p->op;
  for (int i = 0; i < op->n_attrs; i++) {
    if (w->attrs >> i & 1)
      strbuf_addf(out, " %s: %s", op->attrs[i].name, ir_attr_kind_name(op->attrs[i].kind));
  }
}

static bool goes_on(const compose_target *targets, int n, int temporary) {
  for (int i = 0; i < n; i++)
    if (targets[i].output < 0 && targets[i].temporary == temporary && targets[i].goes_on) return true;
  return false;
}

/* `outputs`: of the whole that are written; `again`: those that stages before have written. */
static void write_outputs(compose_writer *w, const compose_target *targets, int n, uint64_t outputs,
                          uint64_t again, strbuf *out) {
  const ir_op *op = w->plan->p->op;
  const char *between = "";
  for (int t = op->n_inputs; t < op->n_args; t++) {
    if (!(outputs >> t & 1)) continue;
    strbuf_add(out, between);
    between = ", ";
    if (op->tensors[t].alias >= 0 || again >> t & 1) {
      strbuf_add(out, op->tensors[t].name);
    } else {
      declare_argument(w, out, t);
    }
  }
  for (int i = 0; i < n; i++) {
    if (targets[i].output >= 0) continue;
    strbuf_add(out, between);
    between = ", ";
    if (targets[i].goes_on || targets[i].overwrites) {
      strbuf_addf(out, "%s%d", w->temporary, targets[i].goes_on ? targets[i].temporary : targets[i].over);
    } else {
      declare_temporary(w, out, targets[i].temporary);
    }
  }
}

static void write_signature(compose_writer *w, const compose_target *targets, int n, strbuf *out) {
  const ir_problem *p = w->plan->p;
  const char *between = "";
  uint64_t outputs = 0, again = 0;
  for (int i = 0; i < n; i++) {
    if (targets[i].output < 0) continue;
    const ir_form_output *o = &w->form->outputs[targets[i].output];
    outputs |= UINT64_C(1) << w->form->accesses[o->access].tensor;
    if (targets[i].goes_on) again |= UINT64_C(1) << w->form->accesses[o->access].tensor;
    if (o->positions >= 0) outputs |= UINT64_C(1) << w->form->accesses[o->positions].tensor;
  }
  for (int t = 0; t < p->op->n_args; t++) {
    int alias = p->op->tensors[t].alias;
    if (outputs >> t & 1 && alias >= 0) w->inputs |= UINT64_C(1) << alias;
  }
  strbuf_add(out, "stage(");
  for (int t = 0; t < p->op->n_args; t++) {
    if (!(t < p->op->n_inputs ? w->inputs >> t & 1 : again >> t & 1)) continue;
    strbuf_add(out, between);
    declare_argument(w, out, t);
    between = ", ";
  }
  for (int i = 0; i < w->plan->n_cuts; i++) {
    if (!(w->cuts >> i & 1) && !goes_on(targets, n, i)) continue;
    strbuf_add(out, between);
    declare_temporary(w, out, i);
    between = ", ";
  }
  if (w->begins) {
    declare_size(out, w->plan->slices.names.begin, between);
    between = ", ";
  }
  strbuf outputs_text = STRBUF_INIT;
  write_outputs(w, targets, n, outputs, again, &outputs_text);
  for (int i = 0; i < p->op->n_axes; i++) {
    if (w->slice < 0 || !(w->sizes >> i & 1) || w->declared >> i & 1) continue;
    declare_size(out, p->op->axes[i], between);
    between = ", ";
  }
  strbuf_addf(out, ") -> (%s)", strbuf_text(&outputs_text));
  if (strbuf_failed(&outputs_text)) out->failed = true;
  strbuf_free(&outputs_text);
  declare_attributes(w, out);
}

/* --- the bound operator --- */

void compose_bind(const ir_problem *whole, const ir_op *op, ir_problem *p) {
  *p = (ir_problem){.op = op, .lead_rank = whole->lead_rank};
  memcpy(p->lead, whole->lead, sizeof p->lead);
  for (int i = 0; i < op->n_types; i++)
    for (int k = 0; k < whole->op->n_types; k++)
      if (strcmp(op->type_vars[i], whole->op->type_vars[k]) == 0) p->types[i] = whole->types[k];
  for (int i = 0; i < op->n_axes; i++)
    for (int k = 0; k < whole->op->n_axes; k++)
      if (strcmp(op->axes[i], whole->op->axes[k]) == 0) p->sizes[i] = whole->sizes[k];
  for (int i = 0; i < op->n_attrs; i++)
    for (int k = 0; k < whole->op->n_attrs; k++)
      if (strcmp(op->attrs[i].name, whole->op->attrs[k].name) == 0) p->attrs[i] = whole->attrs[k];
}

/* Of slices the sizes of a full one, somewhere. */
static void bind(const compose_plan *plan, const ir_op *op, ir_problem *p) {
  const compose_slices *x = &plan->slices;
  compose_bind(plan->p, op, p);
  if (x->loop < 0) return;
  int64_t all = ir_form_extent(&plan->form, x->loop);
  for (int i = 0; i < op->n_axes; i++) {
    if (strcmp(op->axes[i], x->names.axis) == 0) p->sizes[i] = all < x->size ? all : x->size;
    if (strcmp(op->axes[i], x->names.begin) == 0) p->sizes[i] = all > x->size ? all - x->size : 1;
  }
}

/* A tensor that only declares an axis (declare_size). */
static bool is_size(const ir_op *op, int tensor) {
  const ir_tensor *t = &op->tensors[tensor];
  const char *axis = t->rank == 1 && ir_dim_is_axis(t->dims[0]) ? op->axes[t->dims[0].axis] : NULL;
  return axis && strncmp(t->name, axis, strlen(axis)) == 0 && strcmp(t->name + strlen(axis), "_") == 0;
}

/* Which dimension of a stage's tensor is the slice; -1: none. */
static int sliced_dimension(const compose_writer *w, const ir_op *op, int tensor) {
  const ir_tensor *t = &op->tensors[tensor];
  for (int i = 0; i < t->rank; i++)
    if (ir_dim_is_axis(t->dims[i]) && strcmp(op->axes[t->dims[i].axis], w->plan->slices.names.axis) == 0)
      return i;
  return -1;
}

static bool find_arguments(const compose_writer *w, compose_stage *s) {
  const ir_op *op = s->problem.op, *whole = w->plan->p->op;
  size_t n = strlen(w->temporary);
  for (int i = 0; i < op->n_args; i++) {
    const char *name = op->tensors[i].name;
    s->arguments[i] = LIMIT_TENSORS;
    /* An input that only the whole's outputs have is one that a stage before has written. */
    for (int k = whole->n_args - 1; k >= 0; k--)
      if (strcmp(name, whole->tensors[k].name) == 0 && (i < op->n_inputs || k >= whole->n_inputs))
        s->arguments[i] = k;
    for (int k = 0; s->arguments[i] == LIMIT_TENSORS && k < w->plan->n_cuts; k++) {
      char text[16];
      snprintf(text, sizeof text, "%d", k);
      if (strncmp(name, w->temporary, n) == 0 && strcmp(name + n, text) == 0) s->arguments[i] = ~k;
    }
    if (s->arguments[i] == LIMIT_TENSORS && is_size(op, i)) s->arguments[i] = ~COMPOSE_TEMPORARIES;
    if (s->arguments[i] == LIMIT_TENSORS) return false;
    s->sliced[i] = w->slice < 0 ? -1 : sliced_dimension(w, op, i);
  }
  return true;
}

static arke_status parse(const compose_writer *w, const char *text, compose_stage *s, arke_error *err) {
  const ir_op *op;
  arke_error why = ARKE_ERROR_INIT;
  s->text = arena_strdup(w->plan->a, text);
  arke_status status = s->text ? ir_op_parse(w->plan->a, s->text, &op, &why) : ARKE_ERR_MEMORY;
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (status != ARKE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "a stage does not stand alone: %s", why.text);
  bind(w->plan, op, &s->problem);
  if (!find_arguments(w, s)) return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "a stage has other tensors");
  return ARKE_OK;
}

arke_status compose_write_stage(compose_plan *plan, const compose_target *targets, int n, compose_stage *s,
                                arke_error *err) {
  const ir_op *op = plan->p->op;
  compose_writer w = {.plan = plan,
                      .form = &plan->form,
                      .index = compose_free_name(op, "i_", plan->a),
                      .temporary = compose_free_name(op, "t", plan->a),
                      .inner = compose_free_name(op, "r", plan->a)};
  *s = (compose_stage){.repeated = s->repeated};
  w.slice = s->repeated ? plan->slices.loop : -1;
  if (!w.index || !w.temporary || !w.inner) return error_memory(err, STAGE);
  compose_write_definitions(&w, targets, n);
  strbuf text = STRBUF_INIT;
  write_signature(&w, targets, n, &text);
  strbuf_addf(&text, " { %s}", strbuf_text(&w.definitions));
  arke_status status = ARKE_OK;
  if (strbuf_failed(&w.definitions) || strbuf_failed(&text)) {
    status = error_memory(err, STAGE);
  } else if (w.failed || text.length >= LIMIT_OPERATOR_BYTES) {
    status = error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "a stage is too long to be written");
  } else {
    status = parse(&w, strbuf_text(&text), s, err);
  }
  strbuf_free(&w.definitions);
  strbuf_free(&text);
  return status;
}
