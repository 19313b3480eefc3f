/* What keeps a kernel inside its tensors at other sizes than those it was made for. Binding a problem checks
 * the subscripts for its sizes (ir); a recipe has to ask the same of every call: "Y[n + N0] = …" wants N0 + N
 * <= the dimension of Y. */
#include "templates/lanes.h"

/* constant + sum of sizes[i] * axis i */
typedef struct sum {
  int64_t constant, sizes[LIMIT_AXES];
} sum;

static bool is_never_positive(const sum *s) {
  bool never = s->constant <= 0;
  for (int i = 0; i < LIMIT_AXES; i++) never = never && s->sizes[i] <= 0;
  return never;
}

static void require_not_positive(const ir_op *op, const sum *s, recipe *rules, arena *a, const char *why) {
  if (is_never_positive(s)) return;
  const recipe_expr *e = recipe_const(a, s->constant);
  for (int i = 0; i < op->n_axes; i++) {
    if (s->sizes[i] == 0) continue;
    const recipe_expr *part =
        recipe_binary(a, RECIPE_MUL, recipe_const(a, s->sizes[i]), recipe_var(a, op->axes[i]));
    e = recipe_binary(a, RECIPE_ADD, e, part);
  }
  kernel_require(rules, a, e, 0, 0, why);
}

/* Quotients and remainders are bounded from above, but not by what they reach: asking for the bound would
 * refuse sizes that are right. */
static bool is_linear(const ir_expr *e) {
  if (e->node == IR_OPERATOR && (e->id == IR_OP_DIV || e->id == IR_OP_MOD)) return false;
  for (int i = 0; i < e->n_args; i++)
    if (!is_linear(e->args[i])) return false;
  return true;
}

static void require_subscript(const ir_form *form, const ir_access *x, const ir_subscript *s, recipe *rules,
                              arena *a) {
  const ir_op *op = form->problem->op;
  const ir_tensor *t = &op->tensors[x->tensor];
  const char *why = arena_printf(a, "subscript %d of %s must stay inside the tensor", s->first + 1, t->name);
  ir_dim d = t->dims[s->first];
  sum high, low;
  if (ir_form_reach(form, s->e, &high.constant, high.sizes)) {
    high.constant++; /* not positive: high - (d - 1) */
    high.constant -= d.axis >= 0 ? d.more : d.factor;
    if (d.axis >= 0) high.sizes[d.axis] -= d.factor;
    require_not_positive(op, &high, rules, a, why);
  }
  ir_expr *args[] = {(ir_expr *)(uintptr_t)s->e};
  ir_expr negative = {.node = IR_OPERATOR, .id = IR_OP_NEG, .index = -1, .n_args = 1, .args = args};
  if (ir_form_reach(form, &negative, &low.constant, low.sizes)) require_not_positive(op, &low, rules, a, why);
}

void lanes_require_inside(const ir_form *form, recipe *rules, arena *a) {
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *x = &form->accesses[i];
    if (x->conditional || x->other) continue;
    for (int s = 0; s < x->n; s++) {
      const ir_subscript *at = &x->subscripts[s];
      /* Several dimensions as one, and the leading ones, are whole loops over them. */
      if (!at->leading && at->count == 1 && at->first >= 0 && is_linear(at->e))
        require_subscript(form, x, at, rules, a);
    }
  }
}
