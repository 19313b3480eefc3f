/* Definitions of a stage: expressions of the form, with temporaries for what other stages have computed. */
#include "templates/compose_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
const char *compose_free_name(const ir_op *op, const char *name, arena *a) {
  char *own = arena_strdup(a, name);
  while (own && taken(op, own)) own = arena_printf(a, "%s_", own);
  return own;
}

kernel_slices compose_slice_names(const ir_op *op, arena *a) {
  return (kernel_slices){.axis = compose_free_name(op, "slice", a),
                         .begin = compose_free_name(op, "begin", a)};
}

/* "[...,i0,i2]" of a set of loops; nothing where there are none. */
static void add_loops(compose_writer *w, strbuf *out, unsigned loops) {
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

static void add(compose_writer *w, strbuf *out, const ir_expr *e);

static void add_place(compose_writer *w, strbuf *out, const ir_access *x) {
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
static int inner_reduction(compose_writer *w, const ir_expr *e) {
  for (int i = 0; i < w->n_reductions; i++)
    if (w->reductions[i] == e) return i;
  if (w->n_reductions == COMPOSE_REDUCTIONS) {
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
  if (number < COMPOSE_REDUCTIONS) w->reductions[number] = e;
  strbuf_addf(&w->definitions, "%s%d", w->inner, number);
  add_loops(w, &w->definitions, ir_form_free(w->form, e));
  strbuf_addf(&w->definitions, "%s; ", strbuf_text(&body));
  if (strbuf_failed(&body)) w->definitions.failed = true;
  strbuf_free(&body);
  return number;
}

static bool add_cut(compose_writer *w, strbuf *out, const ir_expr *e) {
  for (int i = 0; i < w->plan->n_cuts; i++) {
    if (!(w->plan->made >> i & 1) || w->plan->cuts[i].node != e) continue;
    w->cuts |= UINT64_C(1) << i;
    strbuf_addf(out, "%s%d", w->temporary, i);
    add_loops(w, out, w->plan->cuts[i].loops);
    return true;
  }
  return false;
}

static void add_operator(compose_writer *w, strbuf *out, const ir_expr *e) {
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

static void add(compose_writer *w, strbuf *out, const ir_expr *e) {
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

static void define_output(compose_writer *w, const ir_form_output *o) {
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
static void define_start(compose_writer *w, const ir_form_output *o) {
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
static void define_temporary(compose_writer *w, const compose_target *to) {
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

void compose_write_definitions(compose_writer *w, const compose_target *targets, int n) {
  for (int i = 0; i < n; i++) {
    if (targets[i].is_start && targets[i].output >= 0) {
      define_start(w, &w->form->outputs[targets[i].output]);
    } else if (targets[i].output >= 0) {
      define_output(w, &w->form->outputs[targets[i].output]);
    } else {
      define_temporary(w, &targets[i]);
    }
  }
}
