/* The canonical form: one line, fixed spacing, the fewest parentheses that parse to the same tree. */
#include "ir/ir_types.h"
#include "ir/notation.h"

enum { TIGHTEST = 9 }; /* above every operator */

typedef struct printer {
  const ir_op *op;
  const ir_definition *def;
  strbuf *out;
} printer;

static int precedence(const ir_expr *e) {
  if (e->node == IR_OPERATOR) return notation_operator_precedence((ir_operator)e->id);
  if (e->node == IR_REDUCE) return notation_operator_precedence(IR_OP_NEG); /* a prefix, like unary minus */
  return TIGHTEST;
}

static bool is_comparison(const ir_expr *e) {
  return e->node == IR_OPERATOR && e->id >= IR_OP_LT && e->id <= IR_OP_NE;
}

static bool parenthesised(const ir_expr *operand, const ir_expr *parent, int position);

/* Where e's text ends in the body of a reduction, that would swallow a following operator of this precedence
 * or a higher one. */
static int swallows(const ir_expr *e) {
  if (e->node != IR_REDUCE && (e->node != IR_OPERATOR || e->id == IR_OP_SELECT)) return TIGHTEST;
  int reach = e->node == IR_REDUCE ? notation_reduction_reach((ir_reduction)e->id) : TIGHTEST;
  int last = e->node == IR_REDUCE ? 0 : e->n_args - 1;
  int inside = parenthesised(e->args[last], e, last) ? TIGHTEST : swallows(e->args[last]);
  return inside < reach ? inside : reach;
}

static bool parenthesised(const ir_expr *operand, const ir_expr *parent, int position) {
  int outer = precedence(parent), inner = precedence(operand);
  if (parent->node == IR_REDUCE) return inner < notation_reduction_reach((ir_reduction)parent->id);
  if (parent->id == IR_OP_SELECT) return position == 0 && inner <= outer;
  if (notation_operator_arity((ir_operator)parent->id) == 1) return inner < outer;
  if (position == 0) {
    if (is_comparison(parent) && inner == outer) return true; /* comparisons do not chain */
    return inner < outer || outer >= swallows(operand);
  }
  return inner <= outer;
}

static void print(const printer *p, const ir_expr *e);

static void print_operand(const printer *p, const ir_expr *parent, int i) {
  bool parentheses = parenthesised(parent->args[i], parent, i);
  if (parentheses) strbuf_add(p->out, "(");
  print(p, parent->args[i]);
  if (parentheses) strbuf_add(p->out, ")");
}

static void print_list(const printer *p, const ir_expr *e, int n, const char *separator) {
  for (int i = 0; i < n; i++) {
    if (i > 0) strbuf_add(p->out, separator);
    print(p, e->args[i]);
  }
}

/* `after`: of the name. */
static void print_subscripts(const printer *p, const ir_tensor *t, const char *after,
                             ir_expr *const *subscripts, int n) {
  strbuf_add(p->out, t->name);
  strbuf_add(p->out, after);
  if (t->rank == 0 && !t->any_rank) return;
  strbuf_add(p->out, "[");
  if (t->any_rank) strbuf_add(p->out, n > 0 ? "...," : "...");
  for (int i = 0; i < n; i++) {
    if (i > 0) strbuf_add(p->out, ",");
    print(p, subscripts[i]);
  }
  strbuf_add(p->out, "]");
}

static void print_read(const printer *p, const ir_expr *e) {
  const ir_tensor *t = &p->op->tensors[e->id];
  print_subscripts(p, t, t->alias >= 0 ? "'" : "", e->args, e->n_args - e->has_else);
  if (!e->has_else) return;
  const ir_expr *value = e->args[e->n_args - 1];
  const ir_expr *bare = value->node == IR_OPERATOR && value->id == IR_OP_NEG ? value->args[0] : value;
  bool parentheses = precedence(bare) != TIGHTEST;
  strbuf_add(p->out, parentheses ? " else (" : " else ");
  print(p, value);
  if (parentheses) strbuf_add(p->out, ")");
}

static void print_operator(const printer *p, const ir_expr *e) {
  const char *text = notation_operator_text((ir_operator)e->id);
  if (e->id == IR_OP_SELECT) {
    print_operand(p, e, 0);
    strbuf_add(p->out, " ? ");
    print_operand(p, e, 1);
    strbuf_add(p->out, " : ");
    print_operand(p, e, 2);
  } else if (e->n_args == 1) {
    strbuf_add(p->out, text);
    print_operand(p, e, 0);
  } else {
    print_operand(p, e, 0);
    strbuf_addf(p->out, " %s ", text);
    print_operand(p, e, 1);
  }
}

static void print_reduce(const printer *p, const ir_expr *e, const char *name) {
  strbuf_addf(p->out, "%s(%s", name, p->def->indices[e->index].name);
  if (e->n_args == 2) {
    strbuf_add(p->out, ": ");
    print(p, e->args[1]);
  }
  strbuf_add(p->out, ") ");
  print_operand(p, e, 0);
}

static void print(const printer *p, const ir_expr *e) {
  switch (e->node) {
  case IR_FLOAT: notation_print_number(e->number, p->out); break;
  case IR_INT: strbuf_addf(p->out, "%lld", (long long)e->integer); break;
  case IR_INDEX: strbuf_add(p->out, p->def->indices[e->id].name); break;
  case IR_SIZE: strbuf_add(p->out, p->op->axes[e->id]); break;
  case IR_ATTR: strbuf_add(p->out, p->op->attrs[e->id].name); break;
  case IR_READ: print_read(p, e); break;
  case IR_CALL:
    strbuf_addf(p->out, "%s(", notation_function_name((ir_function)e->id));
    print_list(p, e, e->n_args, ", ");
    strbuf_add(p->out, ")");
    break;
  case IR_OPERATOR: print_operator(p, e); break;
  case IR_REDUCE: print_reduce(p, e, notation_reduction_name((ir_reduction)e->id)); break;
  case IR_CAST: {
    int variable = ir_cast_variable(e), attr = ir_cast_attr(e);
    strbuf_addf(p->out, "cast<%s>(",
                variable >= 0 ? p->op->type_vars[variable]
                : attr >= 0   ? p->op->attrs[attr].name
                              : dtype_name((dtype)e->id));
    print_list(p, e, 1, "");
    strbuf_add(p->out, ")");
    break;
  }
  }
}

void ir_expr_print(const ir_op *op, const ir_definition *def, const ir_expr *e, strbuf *out) {
  print(&(printer){op, def, out}, e);
}

void ir_tensor_print(const ir_op *op, int tensor, strbuf *out) {
  const ir_tensor *t = &op->tensors[tensor];
  strbuf_add(out, t->name);
  if (t->alias >= 0) return;
  strbuf_addf(out, ": %s[",
              t->type.variable >= 0 ? op->type_vars[t->type.variable] : dtype_name(t->type.fixed));
  if (t->any_rank) strbuf_add(out, t->rank > 0 ? "...," : "...");
  for (int i = 0; i < t->rank; i++) {
    if (i > 0) strbuf_add(out, ",");
    ir_dim_print(op, t->dims[i], out);
  }
  strbuf_add(out, "]");
}

const char *ir_attr_kind_name(ir_attr_kind kind) {
  static const char *const KINDS[] = {
      [IR_ATTR_INT] = "int", [IR_ATTR_FLOAT] = "float", [IR_ATTR_BOOL] = "bool", [IR_ATTR_DTYPE] = "dtype"};
  return KINDS[kind];
}

static void print_attr(const ir_op *op, const ir_attr *a, strbuf *out) {
  strbuf_addf(out, "%s: %s", a->name, ir_attr_kind_name(a->kind));
  if (!a->has_default) return;
  strbuf_add(out, " = ");
  if (a->formula != NULL)
    ir_expr_print(op, NULL, a->formula, out);
  else
    ir_attr_print_value(a->kind, a->value, out);
}

void ir_definition_print(const ir_op *op, int definition, strbuf *out) {
  const ir_definition *d = &op->definitions[definition];
  static const char *const UPDATES[] = {
      [IR_ASSIGN] = " = ", [IR_ADD] = " += ", [IR_MAX] = " max= ", [IR_MIN] = " min= "};
  printer p = {op, d, out};
  if (d->tensor2 >= 0) strbuf_add(out, "(");
  print_subscripts(&p, &op->tensors[d->tensor], "", d->subscripts, d->n_subscripts);
  if (d->tensor2 >= 0) {
    strbuf_add(out, ", ");
    print_subscripts(&p, &op->tensors[d->tensor2], "", d->subscripts, d->n_subscripts);
    strbuf_add(out, ") = ");
    print_reduce(&p, d->value, "topk");
    return;
  }
  if (d->skips) strbuf_add(out, " else skip");
  strbuf_add(out, UPDATES[d->update]);
  print(&p, d->value);
}

void ir_op_print(const ir_op *op, strbuf *out) {
  strbuf_addf(out, "%s(", op->name);
  for (int i = 0; i < op->n_inputs; i++) {
    if (i > 0) strbuf_add(out, ", ");
    ir_tensor_print(op, i, out);
  }
  strbuf_add(out, ") -> (");
  for (int i = op->n_inputs; i < op->n_args; i++) {
    if (i > op->n_inputs) strbuf_add(out, ", ");
    ir_tensor_print(op, i, out);
  }
  strbuf_add(out, ")");
  for (int i = 0; i < op->n_attrs; i++) {
    strbuf_add(out, i == 0 ? " " : ", ");
    print_attr(op, &op->attrs[i], out);
  }
  strbuf_add(out, " {");
  for (int i = 0; i < op->n_definitions; i++) {
    strbuf_add(out, i == 0 ? " " : "; ");
    ir_definition_print(op, i, out);
  }
  strbuf_add(out, " }");
}
