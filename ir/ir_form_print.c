/* A form as text. Its expressions are printed by the notation's printer, as those of an operator that has the
 * loops for indices. */
#include "base/error.h"
#include "ir/ir_form_build.h"

enum { MOST_PRINTED = 4000 }; /* nodes of one value as a tree */

typedef struct printing {
  const ir_form *form;
  arena arena;
  ir_index indices[IR_FORM_LOOPS];
  ir_definition def;
  ir_expr **nodes; /* by number */
  int *sizes;      /* of each as a tree */
} printing;

static ir_expr *printable(printing *p, const ir_expr *e);

static ir_expr *printable_read(printing *p, ir_expr *copy, const ir_access *access, int *size) {
  copy->id = access->tensor;
  copy->has_else = access->other != NULL;
  for (int s = 0; s < access->n; s++) {
    if (access->subscripts[s].leading) continue;
    const ir_expr *e = access->subscripts[s].e;
    copy->args[copy->n_args] = printable(p, e);
    if (copy->args[copy->n_args++] == NULL) return NULL;
    *size += p->sizes[form_of(e)->number];
  }
  if (access->other == NULL) return copy;
  copy->args[copy->n_args] = printable(p, access->other);
  if (copy->args[copy->n_args++] == NULL) return NULL;
  *size += p->sizes[form_of(access->other)->number];
  return copy;
}

static ir_expr *printable(printing *p, const ir_expr *e) {
  int number = form_of(e)->number;
  if (p->nodes[number] != NULL) return p->nodes[number];
  ir_expr *copy = ARENA_NEW(&p->arena, ir_expr);
  ir_expr **args = ARENA_NEW_N(&p->arena, ir_expr *, LIMIT_RANK + 2);
  if (copy == NULL || args == NULL) return NULL;
  *copy = *e;
  copy->args = args;
  int size = 1;
  if (e->node == IR_READ) {
    copy->n_args = 0;
    if (printable_read(p, copy, &p->form->accesses[e->id], &size) == NULL) return NULL;
  }
  for (int i = 0; e->node != IR_READ && i < e->n_args; i++) {
    args[i] = printable(p, e->args[i]);
    if (args[i] == NULL) return NULL;
    size += p->sizes[form_of(e->args[i])->number];
    if (size > MOST_PRINTED) size = MOST_PRINTED + 1;
  }
  p->sizes[number] = size;
  p->nodes[number] = copy;
  return copy;
}

static void print_access(printing *p, int access, strbuf *out) {
  const ir_op *op = p->form->problem->op;
  const ir_access *x = &p->form->accesses[access];
  strbuf_add(out, op->tensors[x->tensor].name);
  if (x->n == 0) return;
  strbuf_add(out, "[");
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = printable(p, x->subscripts[s].e);
    if (e == NULL) {
      out->failed = true;
      return;
    }
    if (s > 0) strbuf_add(out, ",");
    ir_expr_print(op, &p->def, e, out);
  }
  strbuf_add(out, "]");
}

static void print_output(printing *p, const ir_form_output *o, strbuf *out) {
  static const char *const UPDATES[] = {
      [IR_ASSIGN] = " = ", [IR_ADD] = " += ", [IR_MAX] = " max= ", [IR_MIN] = " min= "};
  if (o->positions >= 0) strbuf_add(out, "(");
  print_access(p, o->access, out);
  if (o->positions >= 0) {
    strbuf_add(out, ", ");
    print_access(p, o->positions, out);
    strbuf_add(out, ")");
  }
  strbuf_add(out, UPDATES[o->update]);
  const ir_expr *value = printable(p, o->value);
  if (value == NULL) {
    out->failed = true;
    return;
  }
  if (p->sizes[form_of(o->value)->number] > MOST_PRINTED)
    strbuf_addf(out, "(an expression of more than %d nodes)", MOST_PRINTED);
  else if (o->positions < 0)
    ir_expr_print(p->form->problem->op, &p->def, value, out);
  else { /* "topk(j) X[i,j]" is a reduction in all but the name */
    strbuf candidates = STRBUF_INIT;
    ir_expr_print(p->form->problem->op, &p->def, value, &candidates);
    if (strbuf_failed(&candidates))
      out->failed = true;
    else
      strbuf_addf(out, "topk%s", strbuf_text(&candidates) + 3); /* printed as "max(…" */
    strbuf_free(&candidates);
  }
}

static void print_loop(const ir_form *form, const ir_loop *l, strbuf *out) {
  if (l->leading) strbuf_add(out, "...");
  for (int i = 0; i < l->n_dims; i++) {
    if (i > 0 || l->leading) strbuf_add(out, " * ");
    ir_dim_print(form->problem->op, l->dims[i], out);
  }
}

void ir_form_print(const ir_form *form, strbuf *out) {
  printing p = {.form = form, .def = {.tensor = -1, .tensor2 = -1}};
  p.nodes = ARENA_NEW_N(&p.arena, ir_expr *, (size_t)form->n_nodes + 1);
  p.sizes = ARENA_NEW_N(&p.arena, int, (size_t)form->n_nodes + 1);
  p.def.indices = p.indices;
  p.def.n_indices = form->n_loops;
  bool named = p.nodes != NULL && p.sizes != NULL;
  for (int l = 0; named && l < form->n_loops; l++) {
    p.indices[l].name = form->loops[l].leading ? "..." : arena_printf(&p.arena, "i%d", l);
    named = p.indices[l].name != NULL;
  }
  if (!named) {
    out->failed = true;
    arena_release(&p.arena);
    return;
  }
  strbuf_add(out, form->n_loops == 0 ? "no loops" : "loops ");
  for (int l = 0; l < form->n_loops; l++) {
    if (l > 0) strbuf_add(out, ", ");
    print_loop(form, &form->loops[l], out);
  }
  for (int i = 0; i < form->n_outputs; i++) {
    strbuf_add(out, "; ");
    print_output(&p, &form->outputs[i], out);
  }
  arena_release(&p.arena);
}
