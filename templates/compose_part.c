/* A part of an operator that keeps temporaries, as an operator of its own: what it needs, its text, and which
 * arguments of the whole its own are. */
#include "templates/compose_part.h"

#include <string.h>

#include "ir/ir_types.h"

#define STAGE "generate"

const ir_definition *compose_only_writer(const ir_op *op, int tensor) {
  const ir_definition *only = NULL;
  for (int i = 0; i < op->n_definitions; i++) {
    if (op->definitions[i].tensor != tensor && op->definitions[i].tensor2 != tensor) continue;
    if (only) return NULL;
    only = &op->definitions[i];
  }
  return only;
}

unsigned compose_declared_sizes(const ir_tensor *t) {
  unsigned sizes = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i].axis >= 0) sizes |= 1u << t->dims[i].axis;
  return sizes;
}

/* --- what a part needs --- */

static void take_definition(const compose_keeper *k, compose_part *x, int number);

static void take(const compose_keeper *k, compose_part *x, const ir_expr *e) {
  if (e->node == IR_SIZE) x->sizes |= 1u << e->id;
  if (e->node == IR_ATTR) x->attrs |= 1u << e->id;
  if (e->node == IR_CAST && ir_cast_attr(e) >= 0) x->attrs |= 1u << ir_cast_attr(e);
  for (int i = 0; i < e->n_args; i++) take(k, x, e->args[i]);
  if (e->node != IR_READ) return;
  ir_role role = k->op->tensors[e->id].role;
  if (role == IR_INPUT || k->kept[e->id] || k->stored[e->id]) {
    x->read[e->id] = true;
    return;
  }
  if (role == IR_OUTPUT) x->reads_output = true;
  for (int i = 0; i < k->op->n_definitions; i++)
    if (k->op->definitions[i].tensor == e->id || k->op->definitions[i].tensor2 == e->id)
      take_definition(k, x, i);
}

static void take_definition(const compose_keeper *k, compose_part *x, int number) {
  const ir_definition *d = &k->op->definitions[number];
  if (x->definitions[number]) return;
  x->definitions[number] = true;
  for (int i = 0; i < d->n_subscripts; i++) take(k, x, d->subscripts[i]);
  take(k, x, d->value);
}

/* --- as text --- */

static void add_between(strbuf *out, const char *begin, const char *between) {
  if (out->length > strlen(begin)) strbuf_add(out, between);
}

static void declare_kept(const compose_keeper *k, int tensor, strbuf *out) {
  const ir_op *op = k->op;
  const ir_tensor *t = &op->tensors[tensor];
  const ir_expr *cast = compose_only_writer(op, tensor)->value;
  int variable = ir_cast_variable(cast);
  strbuf_addf(out, "%s: %s[", t->name,
              variable >= 0 ? op->type_vars[variable] : dtype_name(ir_cast_dtype(k->s->plan->p, cast)));
  for (int i = 0; i < t->rank; i++) {
    if (i) strbuf_add(out, ",");
    ir_dim_print(op, t->dims[i], out);
  }
  strbuf_add(out, "]");
}

/* What was written in place is an input like others of what reads it. */
static void declare(const compose_keeper *k, const compose_part *x, int tensor, strbuf *out) {
  int alias = k->op->tensors[tensor].alias;
  if (k->kept[tensor])
    declare_kept(k, tensor, out);
  else
    ir_tensor_print(k->op, x->read[tensor] && alias >= 0 ? alias : tensor, out);
}

static void define(const compose_keeper *k, int number, strbuf *out) {
  strbuf text = STRBUF_INIT;
  ir_definition_print(k->op, number, &text);
  for (const char *c = strbuf_text(&text); *c; c++)
    if (*c != '\'') strbuf_addf(out, "%c", *c); /* X'[…] is X[…] there */
  if (strbuf_failed(&text)) out->failed = true;
  strbuf_free(&text);
}

static void write_part(const compose_keeper *k, const compose_part *x, strbuf *out) {
  static const char begin[] = "stage(", middle[] = ") -> (";
  const ir_op *op = k->op;
  unsigned declared = 0;
  strbuf outputs = STRBUF_INIT;
  strbuf_add(out, begin);
  strbuf_add(&outputs, middle);
  for (int t = 0; t < op->n_tensors; t++) {
    if (!x->read[t] && !x->writes[t]) continue;
    strbuf *to = x->writes[t] ? &outputs : out;
    add_between(to, to == out ? begin : middle, ", ");
    declare(k, x, t, to);
    declared |= compose_declared_sizes(&op->tensors[t]);
  }
  /* An axis that definitions name and no tensor has is declared by one that nothing reads. */
  for (int i = 0; i < op->n_axes; i++) {
    if (!((x->sizes & ~declared) >> i & 1)) continue;
    add_between(out, begin, ", ");
    strbuf_addf(out, "%s_: u8[%s]", op->axes[i], op->axes[i]);
  }
  strbuf_addf(out, "%s)", strbuf_text(&outputs));
  for (int i = 0; i < op->n_attrs; i++)
    if (x->attrs >> i & 1)
      strbuf_addf(out, " %s: %s", op->attrs[i].name, ir_attr_kind_name(op->attrs[i].kind));
  strbuf_add(out, " {");
  for (int i = 0; i < op->n_definitions; i++) {
    if (!x->definitions[i]) continue;
    strbuf_add(out, " ");
    define(k, i, out);
    strbuf_add(out, ";");
  }
  strbuf_add(out, " }");
  if (strbuf_failed(&outputs)) out->failed = true;
  strbuf_free(&outputs);
}

int compose_kept_number(const compose_keeper *k, int tensor) {
  int n = 0;
  for (int t = 0; t < tensor; t++) n += k->kept[t];
  return n;
}

/* --- its arguments --- */

/* Which argument of the whole, or which temporary, an argument of a part is (kernel_stage.arguments). */
static int argument_of(const compose_keeper *k, const compose_part *x, const ir_op *op, int i) {
  int found = ~COMPOSE_TEMPORARIES; /* declares an axis alone */
  for (int t = k->op->n_tensors - 1; t >= 0; t--) {
    if (strcmp(op->tensors[i].name, k->op->tensors[t].name) != 0) continue;
    if (k->stored[t] && x->read[t]) return t; /* not the input that was there before */
    if (t >= k->op->n_args)
      found = ~compose_kept_number(k, t);
    else if (i < op->n_inputs || t >= k->op->n_inputs)
      found = t;
  }
  return found;
}

/* --- as an operator --- */

compose_stage *compose_make_part(compose_keeper *k, const compose_part *x) {
  compose_splitter *s = k->s;
  compose_plan *plan = s->plan;
  compose_stage *stage = ARENA_NEW(plan->a, compose_stage);
  const ir_op *op;
  strbuf text = STRBUF_INIT;
  arke_error why = ARKE_ERROR_INIT;
  write_part(k, x, &text);
  bool failed = !stage || strbuf_failed(&text);
  if (!failed) failed = !(stage->text = arena_strdup(plan->a, strbuf_text(&text)));
  strbuf_free(&text);
  arke_status status = failed ? ARKE_ERR_MEMORY : ir_op_parse(plan->a, stage->text, &op, &why);
  if (status == ARKE_ERR_MEMORY) s->status = error_memory(s->err, STAGE);
  if (status != ARKE_OK) {
    strbuf_addf(&s->last, "a part does not stand alone: %s", why.text);
    return NULL;
  }
  compose_bind(plan->p, op, &stage->problem);
  for (int i = 0; i < op->n_args; i++) stage->arguments[i] = argument_of(k, x, op, i);
  return stage;
}

void compose_fill_part(const compose_keeper *k, compose_part *x) {
  for (int i = 0; i < k->op->n_definitions; i++) {
    const ir_definition *d = &k->op->definitions[i];
    if (x->writes[d->tensor] || (d->tensor2 >= 0 && x->writes[d->tensor2])) take_definition(k, x, i);
  }
  for (int t = 0; t < k->op->n_args; t++)
    if (x->writes[t] && k->op->tensors[t].alias >= 0) x->read[k->op->tensors[t].alias] = true;
}

bool compose_new_part(compose_keeper *k, compose_part *x) {
  arena *a = k->s->plan->a;
  size_t n = (size_t)k->op->n_tensors + 1;
  *x = (compose_part){.definitions = ARENA_NEW_N(a, bool, (size_t)k->op->n_definitions + 1),
                      .writes = ARENA_NEW_N(a, bool, n),
                      .read = ARENA_NEW_N(a, bool, n)};
  if (x->definitions && x->writes && x->read) return true;
  k->s->status = error_memory(k->s->err, STAGE);
  return false;
}
