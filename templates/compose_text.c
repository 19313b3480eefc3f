/* A stage in the notation: expressions of the form, with temporaries for what other stages have computed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "templates/compose_split.h"

#define STAGE "generate"

enum { MOST_REDUCTIONS = 64 };

typedef struct writer {
  const compose_plan *plan;
  const ir_form *form;
  const char *index, *temporary, *inner; /* what these names begin with */
  int slice;                             /* loop that has one slice here; -1: none */
  unsigned sliced[LIMIT_TENSORS],
      whole[LIMIT_TENSORS]; /* dimensions of arguments that it stands alone in; others */
  unsigned sizes, declared; /* axes that expressions have, and that tensors have */
  bool begins;              /* where the slice begins is used */
  int guards;               /* conditions around what is being written */
  strbuf definitions;
  uint64_t inputs, cuts; /* read: arguments of the whole; temporaries */
  unsigned attrs;
  int n_reductions; /* written as temporaries of the stage itself, so that what is used twice is written once
                     */
  const ir_expr *reductions[MOST_REDUCTIONS];
  bool failed; /* it cannot be written */
} writer;

static const char *const function_names[] = {
#define X(NAME, name, arity, reference, meaning) #name,
    IR_FUNCTIONS(X)
#undef X
};
static const char *const reduction_names[] = {
#define X(NAME, name, meaning) #name,
    IR_REDUCTIONS(X)
#undef X
};
static const char *const operator_texts[] = {
#define X(NAME, text, arity, precedence) text,
    IR_OPERATORS(X)
#undef X
};

/* --- names --- */

static bool taken(const ir_op *op, const char *begin) {
  size_t n = strlen(begin);
  for (int i = 0; i < op->n_args; i++)
    if (strncmp(op->tensors[i].name, begin, n) == 0) return true;
  for (int i = 0; i < op->n_axes; i++)
    if (strncmp(op->axes[i], begin, n) == 0) return true;
  for (int i = 0; i < op->n_attrs; i++)
    if (strncmp(op->attrs[i].name, begin, n) == 0) return true;
  return false;
}

/* `name`, or a longer one that no name of the operator begins with. */
static const char *free_name(const ir_op *op, const char *name, arena *a) {
  char *own = arena_strdup(a, name);
  while (own && taken(op, own)) own = arena_printf(a, "%s_", own);
  return own;
}

kernel_slices compose_slice_names(const ir_op *op, arena *a) {
  return (kernel_slices){.axis = free_name(op, "slice", a), .begin = free_name(op, "begin", a)};
}

/* "[...,i0,i2]" of a set of loops; nothing where there are none. */
static void add_loops(writer *w, strbuf *out, unsigned loops) {
  const char *before = "[";
  for (int leading = 1; leading >= 0; leading--) {
    for (int l = 0; l < w->form->n_loops; l++) {
      if (!(loops >> l & 1) || w->form->loops[l].leading != leading) continue;
      strbuf_add(out, before);
      if (leading) {
        strbuf_add(out, "...");
      } else {
        strbuf_addf(out, "%s%d", w->index, l);
      }
      before = ",";
    }
  }
  if (loops) strbuf_add(out, "]");
}

/* --- expressions --- */

static void add(writer *w, strbuf *out, const ir_expr *e);

static void add_place(writer *w, strbuf *out, const ir_access *x) {
  strbuf_add(out, w->plan->p->op->tensors[x->tensor].name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    strbuf_add(out, s ? "," : "[");
    if (x->subscripts[s].leading) {
      strbuf_add(out, "...");
    } else if (e->node == IR_INDEX && e->id == w->slice) {
      w->sliced[x->tensor] |= 1u << x->subscripts[s].first;
      strbuf_addf(out, "%s%d", w->index, e->id);
    } else {
      w->whole[x->tensor] |= 1u << x->subscripts[s].first;
      add(w, out, e);
    }
  }
  if (x->n) strbuf_add(out, "]");
}

static void add_number(strbuf *out, double x) {
  char text[40];
  if (isnan(x)) {
    strbuf_add(out, "nan");
  } else if (isinf(x)) {
    strbuf_add(out, x < 0 ? "(-inf)" : "inf");
  } else {
    snprintf(text, sizeof text, "%.17g", fabs(x));
    strbuf_addf(out, signbit(x) ? "(-%s%s)" : "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
  }
}

/* A reduction becomes a temporary of the stage, defined before the definition at hand. */
static int inner_reduction(writer *w, const ir_expr *e) {
  for (int i = 0; i < w->n_reductions; i++)
    if (w->reductions[i] == e) return i;
  if (w->n_reductions == MOST_REDUCTIONS) {
    w->failed = true;
    return 0;
  }
  strbuf body = STRBUF_INIT;
  strbuf_addf(&body, " = %s(%s%d", reduction_names[e->id], w->index, e->index);
  if (e->n_args > 1) {
    strbuf_add(&body, ": ");
    add(w, &body, e->args[1]);
  }
  strbuf_add(&body, ") (");
  w->guards += e->n_args > 1;
  add(w, &body, e->args[0]);
  w->guards -= e->n_args > 1;
  strbuf_add(&body, ")");
  int number = w->n_reductions++;
  if (number < MOST_REDUCTIONS) w->reductions[number] = e;
  strbuf_addf(&w->definitions, "%s%d", w->inner, number);
  add_loops(w, &w->definitions, ir_form_free(w->form, e));
  strbuf_addf(&w->definitions, "%s; ", strbuf_text(&body));
  if (strbuf_failed(&body)) w->definitions.failed = true;
  strbuf_free(&body);
  return number;
}

static bool add_cut(writer *w, strbuf *out, const ir_expr *e) {
  for (int i = 0; i < w->plan->n_cuts; i++) {
    if (!(w->plan->made >> i & 1) || w->plan->cuts[i].node != e) continue;
    w->cuts |= UINT64_C(1) << i;
    strbuf_addf(out, "%s%d", w->temporary, i);
    add_loops(w, out, w->plan->cuts[i].loops);
    return true;
  }
  return false;
}

static void add_operator(writer *w, strbuf *out, const ir_expr *e) {
  strbuf_add(out, "(");
  if (e->id == IR_OP_SELECT) {
    add(w, out, e->args[0]);
    w->guards++;
    strbuf_add(out, " ? ");
    add(w, out, e->args[1]);
    strbuf_add(out, " : ");
    add(w, out, e->args[2]);
    w->guards--;
  } else {
    bool guards = e->id == IR_OP_AND || e->id == IR_OP_OR;
    if (e->n_args == 2) add(w, out, e->args[0]);
    strbuf_addf(out, " %s ", operator_texts[e->id]);
    w->guards += guards;
    add(w, out, e->args[e->n_args - 1]);
    w->guards -= guards;
  }
  strbuf_add(out, ")");
}

static void add(writer *w, strbuf *out, const ir_expr *e) {
  if (out->length > LIMIT_OPERATOR_BYTES / 2) w->failed = true;
  if (w->failed || add_cut(w, out, e)) return;
  switch (e->node) {
  case IR_FLOAT: add_number(out, e->number); return;
  case IR_INT: strbuf_addf(out, e->integer < 0 ? "(%lld)" : "%lld", (long long)e->integer); return;
  case IR_INDEX:
    if (w->form->loops[e->id].leading) w->failed = true; /* the notation has no name for it */
    if (e->id == w->slice) {
      w->begins = true;
      strbuf_addf(out, "(%s%d + %s)", w->index, e->id, w->plan->slices.names.begin);
    } else {
      strbuf_addf(out, "%s%d", w->index, e->id);
    }
    return;
  case IR_SIZE:
    w->sizes |= 1u << e->id;
    strbuf_add(out, w->plan->p->op->axes[e->id]);
    return;
  case IR_ATTR:
    w->attrs |= 1u << e->id;
    strbuf_add(out, w->plan->p->op->attrs[e->id].name);
    return;
  case IR_READ: {
    const ir_access *x = &w->form->accesses[e->id];
    w->inputs |= UINT64_C(1) << x->tensor;
    bool loses = x->conditional && w->guards == 0; /* what keeps it inside is another stage's */
    if (x->other || loses) strbuf_add(out, "(");
    add_place(w, out, x);
    if (x->other) {
      strbuf_add(out, " else (");
      add(w, out, x->other);
      strbuf_add(out, "))");
    } else if (loses) {
      strbuf_add(out, " else 0)");
    }
    return;
  }
  case IR_CALL:
    strbuf_add(out, function_names[e->id]);
    for (int i = 0; i < e->n_args; i++) {
      strbuf_add(out, i ? ", " : "(");
      add(w, out, e->args[i]);
    }
    strbuf_add(out, ")");
    return;
  case IR_OPERATOR: add_operator(w, out, e); return;
  case IR_REDUCE:
    strbuf_addf(out, "%s%d", w->inner, inner_reduction(w, e));
    add_loops(w, out, ir_form_free(w->form, e));
    return;
  case IR_CAST:
    strbuf_addf(out, "cast<%s>(", dtype_name(ir_cast_dtype(w->plan->p, e)));
    add(w, out, e->args[0]);
    strbuf_add(out, ")");
    return;
  }
}

/* --- definitions --- */

static void define_output(writer *w, const ir_form_output *o) {
  static const char *const updates[] = {
      [IR_ASSIGN] = "=", [IR_ADD] = "+=", [IR_MAX] = "max=", [IR_MIN] = "min="};
  strbuf line = STRBUF_INIT;
  if (o->positions >= 0) {
    strbuf_add(&line, "(");
    add_place(w, &line, &w->form->accesses[o->access]);
    strbuf_add(&line, ", ");
    add_place(w, &line, &w->form->accesses[o->positions]);
    strbuf_addf(&line, ") = topk(%s%d", w->index, o->value->index);
    if (o->value->n_args > 1) {
      strbuf_add(&line, ": ");
      add(w, &line, o->value->args[1]);
    }
    strbuf_add(&line, ") (");
    add(w, &line, o->value->args[0]);
    strbuf_add(&line, ")");
  } else {
    const ir_access *x = &w->form->accesses[o->access];
    add_place(w, &line, x);
    strbuf_addf(&line, "%s %s ", x->conditional ? " else skip" : "", updates[o->update]);
    add(w, &line, o->value);
  }
  strbuf_addf(&w->definitions, "%s; ", strbuf_text(&line));
  if (strbuf_failed(&line)) w->definitions.failed = true;
  strbuf_free(&line);
}

/* Every element of an output's tensor, as updates take it to be before. */
static void define_start(writer *w, const ir_form_output *o) {
  static const char *const starts[] = {
      [IR_ASSIGN] = "0", [IR_ADD] = "0", [IR_MAX] = "(-inf)", [IR_MIN] = "inf"};
  const ir_tensor *t = &w->plan->p->op->tensors[w->form->accesses[o->access].tensor];
  const char *between = "";
  strbuf_addf(&w->definitions, "%s[", t->name);
  if (t->any_rank) strbuf_add(&w->definitions, "..."), between = ",";
  for (int i = 0; i < t->rank; i++, between = ",")
    strbuf_addf(&w->definitions, "%s%s%d", between, w->index, i);
  strbuf_addf(&w->definitions, "] = %s; ", starts[o->update]);
}

/* In place it is added to; at its start it is 0. */
static void define_temporary(writer *w, const compose_target *to) {
  int number = to->overwrites ? to->over : to->temporary;
  const compose_cut *cut = &w->plan->cuts[to->temporary];
  strbuf line = STRBUF_INIT;
  strbuf_addf(&line, "%s%d", w->temporary, number);
  add_loops(w, &line, cut->loops);
  strbuf_add(&line, " = ");
  if (to->goes_on) {
    strbuf_addf(&line, "%s%d", w->temporary, number);
    add_loops(w, &line, cut->loops);
    strbuf_add(&line, " + ");
  }
  const ir_expr *guard = to->is_start ? NULL : cut->guard;
  if (guard) {
    strbuf_add(&line, "(");
    add(w, &line, guard);
    strbuf_add(&line, ") ? (");
    w->guards++;
  }
  if (to->is_start)
    strbuf_add(&line, "0");
  else
    add(w, &line, cut->node);
  if (guard) {
    strbuf_add(&line, ") : 0");
    w->guards--;
  }
  strbuf_addf(&w->definitions, "%s; ", strbuf_text(&line));
  if (strbuf_failed(&line)) w->definitions.failed = true;
  strbuf_free(&line);
}

/* --- the signature --- */

static void declare_dim(writer *w, strbuf *out, ir_dim d, bool sliced) {
  if (sliced) {
    strbuf_add(out, w->plan->slices.names.axis);
    return;
  }
  if (ir_dim_is_axis(d)) w->declared |= 1u << d.axis;
  ir_dim_print(w->plan->p->op, d, out);
}

static void declare_argument(writer *w, strbuf *out, int tensor) {
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

static void declare_temporary(writer *w, strbuf *out, int number) {
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

static void declare_attributes(writer *w, strbuf *out) {
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
static void write_outputs(writer *w, const compose_target *targets, int n, uint64_t outputs, uint64_t again,
                          strbuf *out) {
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

static void write_signature(writer *w, const compose_target *targets, int n, strbuf *out) {
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
static int sliced_dimension(const writer *w, const ir_op *op, int tensor) {
  const ir_tensor *t = &op->tensors[tensor];
  for (int i = 0; i < t->rank; i++)
    if (ir_dim_is_axis(t->dims[i]) && strcmp(op->axes[t->dims[i].axis], w->plan->slices.names.axis) == 0)
      return i;
  return -1;
}

static bool find_arguments(const writer *w, compose_stage *s) {
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

static arke_status parse(const writer *w, const char *text, compose_stage *s, arke_error *err) {
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
  writer w = {.plan = plan,
              .form = &plan->form,
              .index = free_name(op, "i_", plan->a),
              .temporary = free_name(op, "t", plan->a),
              .inner = free_name(op, "r", plan->a)};
  *s = (compose_stage){.repeated = s->repeated};
  w.slice = s->repeated ? plan->slices.loop : -1;
  if (!w.index || !w.temporary || !w.inner) return error_memory(err, STAGE);
  for (int i = 0; i < n; i++) {
    if (targets[i].is_start && targets[i].output >= 0) {
      define_start(&w, &plan->form.outputs[targets[i].output]);
    } else if (targets[i].output >= 0) {
      define_output(&w, &plan->form.outputs[targets[i].output]);
    } else {
      define_temporary(&w, &targets[i]);
    }
  }
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
