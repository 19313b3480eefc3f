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
#include <string.h>

#include "ir/ir_types.h"
#include "templates/compose_split.h"

#define STAGE "generate"

typedef struct keeper {
  compose_splitter *s;
  const ir_op *op;
  bool folds;   /* those that no one reads at computed places are not kept, but computed by what reads them */
  bool *folded; /* by tensor: those */
  bool *kept;   /* by tensor: temporaries that are */
  bool *stored; /* by tensor: outputs that are read again, and that no form substitutes */
  bool *made;   /* by tensor: of both, those that stages write */
} keeper;

/* What becomes an operator of its own. */
typedef struct part {
  bool *definitions; /* by number: its own */
  bool *writes;      /* by tensor: a temporary that is kept, or outputs */
  bool *read;        /* by tensor: inputs, and what is kept or stored */
  bool reads_output; /* which is no tensor of the part yet */
  unsigned sizes, attrs;
} part;

/* --- what is kept --- */

/* A plain definition, the tensor's only one, of rounded values that are not merely converted. */
static const ir_definition *only_writer(const ir_op *op, int tensor) {
  const ir_definition *only = NULL;
  for (int i = 0; i < op->n_definitions; i++) {
    if (op->definitions[i].tensor != tensor && op->definitions[i].tensor2 != tensor) continue;
    if (only) return NULL;
    only = &op->definitions[i];
  }
  return only;
}

static bool is_plain(ir_expr *const *subscripts, int n) {
  unsigned indices = 0;
  for (int i = 0; i < n; i++) {
    if (subscripts[i]->node != IR_INDEX || indices >> subscripts[i]->id & 1) return false;
    indices |= 1u << subscripts[i]->id;
  }
  return true;
}

static bool is_rounded(const ir_problem *p, int tensor) {
  const ir_tensor *t = &p->op->tensors[tensor];
  const ir_definition *d = only_writer(p->op, tensor);
  if (t->role != IR_TEMPORARY || t->any_rank || !d || d->tensor2 >= 0 || d->update != IR_ASSIGN ||
      d->value->node != IR_CAST || !is_plain(d->subscripts, d->n_subscripts))
    return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i].by >= 0) return false; /* no tensor of a signature has such an axis */
  const ir_expr *e = d->value;
  while (e->node == IR_CAST) e = e->args[0];
  return dtype_bits(ir_cast_dtype(p, d->value)) <= 16 && e->node != IR_READ;
}

static bool read_at_places(const keeper *k, const ir_expr *e) {
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
static bool stays_kept(const keeper *k, int tensor) {
  for (int i = 0; i < k->op->n_definitions; i++) {
    const ir_definition *d = &k->op->definitions[i];
    if (is_read_at_places(d->value, tensor)) return true;
    if (d->tensor < k->op->n_args && k->stored[d->tensor] && reads_tensor(d->value, tensor)) return true;
  }
  return false;
}

static bool is_stored(const ir_op *op, int tensor) {
  const ir_definition *d = only_writer(op, tensor);
  bool simple = d && d->tensor2 < 0 && d->update == IR_ASSIGN && is_plain(d->subscripts, d->n_subscripts);
  for (int i = 0; i < op->n_definitions && !simple; i++)
    if (reads_tensor(op->definitions[i].value, tensor)) return true;
  return false;
}

static unsigned declared_sizes(const ir_tensor *t) {
  unsigned sizes = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i].axis >= 0) sizes |= 1u << t->dims[i].axis;
  return sizes;
}

/* Whether no argument has all axes of a temporary. */
static bool crosses_all(const ir_op *op, int tensor) {
  unsigned sizes = declared_sizes(&op->tensors[tensor]);
  for (int t = 0; t < op->n_args; t++)
    if ((sizes & ~declared_sizes(&op->tensors[t])) == 0) return false;
  return true;
}

static bool find_kept(keeper *k, bool *crosses) {
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

/* --- what a part needs --- */

static void take_definition(const keeper *k, part *x, int number);

static void take(const keeper *k, part *x, const ir_expr *e) {
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

static void take_definition(const keeper *k, part *x, int number) {
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

static void declare_kept(const keeper *k, int tensor, strbuf *out) {
  const ir_op *op = k->op;
  const ir_tensor *t = &op->tensors[tensor];
  const ir_expr *cast = only_writer(op, tensor)->value;
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
static void declare(const keeper *k, const part *x, int tensor, strbuf *out) {
  int alias = k->op->tensors[tensor].alias;
  if (k->kept[tensor])
    declare_kept(k, tensor, out);
  else
    ir_tensor_print(k->op, x->read[tensor] && alias >= 0 ? alias : tensor, out);
}

static void define(const keeper *k, int number, strbuf *out) {
  strbuf text = STRBUF_INIT;
  ir_definition_print(k->op, number, &text);
  for (const char *c = strbuf_text(&text); *c; c++)
    if (*c != '\'') strbuf_addf(out, "%c", *c); /* X'[…] is X[…] there */
  if (strbuf_failed(&text)) out->failed = true;
  strbuf_free(&text);
}

static void write_part(const keeper *k, const part *x, strbuf *out) {
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
    declared |= declared_sizes(&op->tensors[t]);
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

/* --- its arguments --- */

/* The number of a kept temporary among them. */
static int kept_number(const keeper *k, int tensor) {
  int n = 0;
  for (int t = 0; t < tensor; t++) n += k->kept[t];
  return n;
}

/* Which argument of the whole, or which temporary, an argument of a part is (kernel_stage.arguments). */
static int argument_of(const keeper *k, const part *x, const ir_op *op, int i) {
  int found = ~COMPOSE_TEMPORARIES; /* declares an axis alone */
  for (int t = k->op->n_tensors - 1; t >= 0; t--) {
    if (strcmp(op->tensors[i].name, k->op->tensors[t].name) != 0) continue;
    if (k->stored[t] && x->read[t]) return t; /* not the input that was there before */
    if (t >= k->op->n_args)
      found = ~kept_number(k, t);
    else if (i < op->n_inputs || t >= k->op->n_inputs)
      found = t;
  }
  return found;
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
static bool can_follow(keeper *k, const part *x) {
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

/* A part as an operator of its own, of `k->op`, which may have an axis of the whole's as blocks; NULL: it
 * does not stand alone, or memory ran out. */
static compose_stage *make_stage(keeper *k, const part *x) {
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

static bool has_folded(const keeper *k, const part *x) {
  for (int i = 0; i < k->op->n_definitions; i++)
    if (x->definitions[i] && k->folded[k->op->definitions[i].tensor]) return true;
  return false;
}

/* The same with an axis as blocks of another, where that costs less. */
static compose_stage *in_blocks(keeper *k, const part *x, compose_stage *plain) {
  compose_splitter *s = k->s;
  keeper other = *k;
  part named = *x;
  compose_block block;
  if (compose_in_blocks(s->plan->p, x->definitions, has_folded(k, x), s->plan->a, &block, &other.op,
                        s->err) != ARKE_OK) {
    s->status = ARKE_ERR_MEMORY;
    return NULL;
  }
  if (block.times == 0) return plain;
  for (int i = 0; i < k->op->n_axes; i++)
    if (strcmp(k->op->axes[i], block.axis) == 0) named.sizes &= ~(1u << i);
  compose_stage *stage = make_stage(&other, &named);
  if (!stage || !compose_best_stage(s, stage) || stage->ns >= plain->ns) return plain;
  stage->block = block;
  return stage;
}

static bool add_part(keeper *k, const part *x) {
  compose_splitter *s = k->s;
  compose_plan *plan = s->plan;
  if (!can_follow(k, x)) return false;
  compose_stage *stage = make_stage(k, x);
  bool whole = stage && compose_best_stage(s, stage);
  if (whole) stage = in_blocks(k, x, stage);
  if (!stage) return false;
  for (int t = 0; t < k->op->n_tensors; t++) {
    if (!x->writes[t]) continue;
    k->made[t] = true;
    if (k->kept[t])
      plan->temporaries[kept_number(k, t)] = (kernel_temporary){&stage->problem, stage->problem.op->n_inputs};
  }
  if (!whole && has_folded(k, x)) return false;
  if (!whole) return add_stages(s, &stage->problem, stage->arguments);
  if (plan->n_stages == COMPOSE_STAGES) return false;
  plan->stages[plan->n_stages++] = stage;
  return true;
}

/* The part that writes some tensors; x->writes is set. */
static void fill_part(const keeper *k, part *x) {
  for (int i = 0; i < k->op->n_definitions; i++) {
    const ir_definition *d = &k->op->definitions[i];
    if (x->writes[d->tensor] || (d->tensor2 >= 0 && x->writes[d->tensor2])) take_definition(k, x, i);
  }
  for (int t = 0; t < k->op->n_args; t++)
    if (x->writes[t] && k->op->tensors[t].alias >= 0) x->read[k->op->tensors[t].alias] = true;
}

static bool new_part(keeper *k, part *x) {
  arena *a = k->s->plan->a;
  size_t n = (size_t)k->op->n_tensors + 1;
  *x = (part){.definitions = ARENA_NEW_N(a, bool, (size_t)k->op->n_definitions + 1),
              .writes = ARENA_NEW_N(a, bool, n),
              .read = ARENA_NEW_N(a, bool, n)};
  if (x->definitions && x->writes && x->read) return true;
  k->s->status = error_memory(k->s->err, STAGE);
  return false;
}

static bool keep_temporary(keeper *k, int tensor) {
  part x;
  if (!new_part(k, &x)) return false;
  x.writes[tensor] = true;
  fill_part(k, &x);
  return add_part(k, &x);
}

/* The outputs that are stored before others are computed, or those others. */
static bool make_outputs(keeper *k, bool stored) {
  part x;
  if (!new_part(k, &x)) return false;
  for (int t = k->op->n_inputs; t < k->op->n_args; t++) x.writes[t] = k->stored[t] == stored;
  fill_part(k, &x);
  return add_part(k, &x);
}

/* The last definition of an output that is stored; -1: there is none. */
static int last_stored(const keeper *k) {
  int last = -1;
  for (int i = 0; i < k->op->n_definitions; i++)
    if (k->stored[k->op->definitions[i].tensor]) last = i;
  return last;
}

/* In the order of the definitions. */
static bool make_parts(keeper *k, strbuf *detail) {
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
  keeper k = {.s = s, .op = plan->p->op, .folds = folds};
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
      kept_number(&k, k.op->n_tensors) > COMPOSE_TEMPORARIES)
    return false;
  plan->n_cuts = kept_number(&k, k.op->n_tensors);
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
