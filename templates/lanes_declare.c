/* What a kernel's evaluator needs from outside: parameters, and what the recipe must require. */
#include "templates/lanes_index.h"

/* A 32-bit index or offset: sums of two still fit. */
#define MOST_NARROW (INT64_C(1) << 30)

/* --- 32 or 64 bits --- */

/* What the absolute value of index arithmetic does not exceed: with sizes those of the problem, or
 * (`symbolic`) whatever 32-bit kernels take. Saturated. */
static int64_t bound_of(const ir_form *form, const ir_expr *e, bool symbolic) {
  int64_t x, y, v;
  switch (e->node) {
  case IR_INT: return e->integer < 0 ? (e->integer == INT64_MIN ? INT64_MAX : -e->integer) : e->integer;
  case IR_ATTR: return lanes_static_value(form, e, &v) ? (v < 0 ? -v : v) : 0;
  case IR_SIZE: return symbolic ? MOST_NARROW : form->problem->sizes[e->id];
  case IR_INDEX: return symbolic ? MOST_NARROW - 1 : ir_form_extent(form, e->id);
  case IR_CAST: return bound_of(form, e->args[0], symbolic);
  case IR_OPERATOR: break;
  default: return 0; /* of a tensor's type */
  }
  x = bound_of(form, e->args[0], symbolic);
  if (e->id == IR_OP_NEG || e->n_args != 2) return x;
  y = bound_of(form, e->args[1], symbolic);
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_SUB: return __builtin_add_overflow(x, y, &v) ? INT64_MAX : v;
  case IR_OP_MUL: return __builtin_mul_overflow(x, y, &v) ? INT64_MAX : v;
  case IR_OP_DIV: return x;
  case IR_OP_MOD: return x < y ? x : y;
  default: return 1;
  }
}

/* The same as a recipe's expression. */
static const recipe_expr *bound_recipe(const ir_form *form, const ir_expr *e, arena *a) {
  if (e->node == IR_SIZE) return recipe_var(a, form->problem->op->axes[e->id]);
  if (e->node == IR_INDEX) return kernel_extent(form, e->id, a);
  if (e->node == IR_CAST) return bound_recipe(form, e->args[0], a);
  if (e->node != IR_OPERATOR) return recipe_const(a, bound_of(form, e, false));
  const recipe_expr *x = bound_recipe(form, e->args[0], a);
  if (e->id == IR_OP_NEG || e->id == IR_OP_DIV || e->n_args != 2) return x;
  const recipe_expr *y = bound_recipe(form, e->args[1], a);
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
  case IR_OP_SUB: return recipe_binary(a, RECIPE_ADD, x, y);
  case IR_OP_MUL: return recipe_binary(a, RECIPE_MUL, x, y);
  case IR_OP_MOD: return recipe_binary(a, RECIPE_MIN, x, y);
  default: return recipe_const(a, 1);
  }
}

/* --- a walk over all that is evaluated --- */

typedef struct walk {
  const ir_form *form;
  bool *seen; /* by node */
  void (*visit)(struct walk *w, const ir_expr *e);
  bool found;    /* need_wide */
  recipe *rules; /* require_narrow */
  arena *a;
} walk;

static void walk_node(walk *w, const ir_expr *e) {
  int number = ir_form_number(w->form, e);
  if (w->seen[number]) return;
  w->seen[number] = true;
  for (int i = 0; i < e->n_args; i++) walk_node(w, e->args[i]);
  if (e->node == IR_READ) {
    const ir_access *x = &w->form->accesses[e->id];
    for (int i = 0; i < x->n; i++) walk_node(w, x->subscripts[i].e);
    if (x->other) walk_node(w, x->other);
  }
  w->visit(w, e);
}

static void walk_form(walk *w) {
  const ir_form *form = w->form;
  for (int i = 0; i < form->n_accesses; i++) {
    for (int s = 0; s < form->accesses[i].n; s++) walk_node(w, form->accesses[i].subscripts[s].e);
  }
  for (int i = 0; i < form->n_outputs; i++) walk_node(w, form->outputs[i].value);
}

static bool is_index_arithmetic(const ir_form *form, const ir_expr *e) {
  return e->node == IR_OPERATOR && ir_form_type(form, e) == DTYPE_I64 && !lanes_reads(form, e);
}

static void find_wide(walk *w, const ir_expr *e) {
  if (is_index_arithmetic(w->form, e) && bound_of(w->form, e, false) > INT32_MAX) w->found = true;
}

bool lanes_need_wide_offsets(const ir_form *form) {
  const ir_problem *p = form->problem;
  for (int t = 0; t < p->op->n_args; t++) {
    if (ir_tensor_elements(p, t) > MOST_NARROW) return true;
  }
  for (int l = 0; l < form->n_loops; l++) {
    if (ir_form_extent(form, l) > MOST_NARROW) return true;
  }
  arena a = ARENA_INIT;
  walk w = {.form = form, .visit = find_wide, .seen = ARENA_NEW_N(&a, bool, (size_t)form->n_nodes + 1)};
  w.found = w.seen == NULL; /* which is always right */
  if (w.seen) walk_form(&w);
  arena_release(&a);
  return w.found;
}

static void require_bound(walk *w, const ir_expr *e) {
  if (!is_index_arithmetic(w->form, e) || bound_of(w->form, e, true) <= INT32_MAX) return;
  kernel_require(w->rules, w->a, bound_recipe(w->form, e, w->a), 0, INT32_MAX,
                 "index arithmetic of the kernel has 32 bits");
}

static const recipe_expr *larger(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return x ? recipe_binary(a, RECIPE_MAX, x, y) : y;
}

/* One requirement for all, as a recipe has room for few. */
static void require_narrow(const ir_form *form, recipe *rules, arena *a) {
  const ir_op *op = form->problem->op;
  const recipe_expr *most = NULL;
  for (int t = 0; t < op->n_args; t++) most = larger(a, most, kernel_variable(op, t, "span", -1, a));
  for (int l = 0; l < form->n_loops; l++) most = larger(a, most, kernel_extent(form, l, a));
  kernel_require(rules, a, most, 0, MOST_NARROW, "offsets and indices of the kernel have 32 bits");
  walk w = {.form = form,
            .visit = require_bound,
            .seen = ARENA_NEW_N(a, bool, (size_t)form->n_nodes + 1),
            .rules = rules,
            .a = a};
  if (w.seen) {
    walk_form(&w);
  } else {
    kernel_require(rules, a, NULL, 0, 0, NULL);
  }
}

/* --- tests --- */

bool lanes_is_tested(const ir_form *form, const lanes_options *o, int access) {
  const ir_access *x = &form->accesses[access];
  bool gathered = false;
  for (int i = 0; i < x->n && o->check_indices; i++)
    gathered = gathered || lanes_reads(form, x->subscripts[i].e);
  return x->conditional || x->other || gathered;
}

/* --- wide accesses --- */

int lanes_unit(const ir_form *form, const lanes_options *o, int access) {
  int bits = 8 * (o->access_bytes > 0 ? o->access_bytes : 16);
  int unit = bits / dtype_bits(ir_tensor_dtype(form->problem, form->accesses[access].tensor));
  return unit < o->width ? unit : o->width;
}

/* Elements that its vectors start at multiples of; 1: it has none. */
static int64_t alignment_of(lanes_scope *s, const lanes_options *o, int access) {
  const ir_access *x = &s->form->accesses[access];
  lanes_place first, other;
  lanes_place_of(s, access, 0, &first);
  if (x->n == 0 || !lanes_moves(s, x->subscripts[x->n - 1].e)) return 1;
  for (int lane = 1; lane < s->width; lane++) {
    lanes_place_of(s, access, lane, &other);
    for (int i = 0; i < x->n; i++) {
      if (!lanes_same_terms(&first.subscripts[i], &other.subscripts[i])) return 1;
      if (i + 1 < x->n && first.subscripts[i].constant != other.subscripts[i].constant) return 1;
    }
  }
  int64_t divisor = lanes_divisor(s, &first.subscripts[x->n - 1]);
  int unit = lanes_unit(s->form, o, access);
  return divisor < unit ? divisor : unit;
}

static bool outer_strides_fit(const ir_form *form, const ir_access *x, int unit) {
  const ir_problem *p = form->problem;
  const ir_tensor *t = &p->op->tensors[x->tensor];
  for (int i = 0; i + 1 < x->n; i++) {
    int64_t stride = 1;
    for (int d = x->subscripts[i].first + x->subscripts[i].count; d < t->rank; d++)
      stride *= ir_dim_size(p, t->dims[d]);
    if (stride % unit != 0) return false;
  }
  return true;
}

uint64_t lanes_wide(const ir_form *form, const lanes_options *o) {
  return lanes_wide_of(form, o, UINT64_MAX);
}

uint64_t lanes_wide_of(const ir_form *form, const lanes_options *o, uint64_t accesses) {
  lanes_scope s = {.form = form, .loop = o->loop, .width = o->width, .dense = o->dense};
  uint64_t wide = 0;
  for (int i = 0; i < form->n_accesses && o->width > 1; i++) {
    if (accesses >> i & 1 && alignment_of(&s, o, i) > 1 &&
        (!o->dense || outer_strides_fit(form, &form->accesses[i], lanes_unit(form, o, i))))
      wide |= UINT64_C(1) << i;
  }
  return wide;
}

static void require_wide(lanes_scope *s, const lanes_options *o, int access, recipe *rules, arena *a) {
  const ir_access *x = &s->form->accesses[access];
  const ir_op *op = s->form->problem->op;
  int64_t alignment = alignment_of(s, o, access);
  int unit = lanes_unit(s->form, o, access);
  lanes_place place;
  lanes_place_of(s, access, 0, &place);
  lanes_rest_on(s, &place.subscripts[x->n - 1], alignment);
  int bytes = unit * dtype_bits(ir_tensor_dtype(s->form->problem, x->tensor)) / 8;
  recipe_tensor_rule *rule = &rules->tensors[x->tensor];
  if (rule->alignment < bytes) rule->alignment = bytes;
  if (!o->dense) rule->contiguous_last = true;
  for (int i = 0; i + 1 < x->n; i++) {
    bool lead = !o->dense && x->subscripts[i].leading;
    for (int axis = 0; axis < (lead ? LANES_LEAD : 1); axis++) {
      const recipe_expr *stride =
          lead ? kernel_variable(op, x->tensor, "lead", axis, a) : kernel_stride(s->form, x, i, o->dense, a);
      if (!stride || stride->op != RECIPE_CONST)
        kernel_require(
            rules, a, stride, unit, 0,
            arena_printf(a, "rows of %s start at multiples of %d bytes", op->tensors[x->tensor].name, bytes));
    }
  }
  /* The leading axes end the signature: all but the first of them are strides of rows. */
  for (int axis = 1; !o->dense && x->subscripts[x->n - 1].leading && axis < LANES_LEAD; axis++) {
    kernel_require(
        rules, a, kernel_variable(op, x->tensor, "lead", axis, a), unit, 0,
        arena_printf(a, "rows of %s start at multiples of %d bytes", op->tensors[x->tensor].name, bytes));
  }
}

/* --- what folding rests on --- */

static void fold(lanes_scope *s, const lanes_options *o, const ir_expr *e, int lane, bool *seen);

static void fold_access(lanes_scope *s, const lanes_options *o, int access, int lane, bool *seen) {
  const ir_access *x = &s->form->accesses[access];
  lanes_place here, next;
  lanes_place_of(s, access, lane, &here);
  for (int i = 0; i < x->n; i++) fold(s, o, x->subscripts[i].e, lane, seen);
  if (x->other) fold(s, o, x->other, lane, seen);
  if (lanes_is_tested(s->form, o, access) && lane + 1 < s->width) {
    lanes_place_of(s, access, lane + 1, &next);
    lanes_inside_together(s, access, &here, &next);
  }
}

/* Takes the decisions that the evaluation will take, for what they note in s->needs. */
static void fold(lanes_scope *s, const lanes_options *o, const ir_expr *e, int lane, bool *seen) {
  bool *mark = &seen[ir_form_number(s->form, e) * LANES_MAX + lane];
  if (*mark) return;
  *mark = true;
  lanes_comparison c;
  if (e->node == IR_READ) {
    fold_access(s, o, e->id, lane, seen);
  } else if (e->node == IR_OPERATOR) {
    lanes_compare(s, e, lane, &c);
    lanes_sum_of(s, e, lane);
    lanes_divides_by_steps(s, e, lane);
  }
  for (int i = 0; i < e->n_args; i++) fold(s, o, e->args[i], lane, seen);
}

static void require_needs(const lanes_scope *s, recipe *rules, arena *a) {
  const ir_op *op = s->form->problem->op;
  if (s->n_needs > LANES_NEEDS) rules->n_requirements = s->n_needs;
  for (int i = 0; i < s->n_needs && i < LANES_NEEDS; i++) {
    const lanes_need *need = &s->needs[i];
    const recipe_expr *value;
    if (need->e) {
      value = lanes_static_recipe(s->form, need->e, a);
    } else {
      value = kernel_dim(op, need->dim, a);
    }
    if (need->divisor == 0) value = recipe_binary(a, RECIPE_SUB, recipe_const(a, need->least), value);
    kernel_require(rules, a, value, need->divisor, 0, "elements are taken several at a time");
  }
}

void lanes_require(const ir_form *form, const lanes_options *o, recipe *rules, arena *a) {
  const ir_problem *p = form->problem;
  rules->n_tensors = p->op->n_args;
  for (int t = 0; t < p->op->n_args; t++) {
    int bytes = (dtype_bits(ir_tensor_dtype(p, t)) + 7) / 8;
    if (rules->tensors[t].alignment < bytes) rules->tensors[t].alignment = bytes;
  }
  if (o->dense) kernel_require_dense(rules, p, a);
  kernel_require_ones(rules, form, a);
  lanes_require_inside(form, rules, a);
  if (!o->wide_offsets) require_narrow(form, rules, a);
  if (o->width == 1) return;
  lanes_scope s = {.form = form, .loop = o->loop, .width = o->width, .dense = o->dense};
  s.needs = ARENA_NEW_N(a, lanes_need, LANES_NEEDS);
  bool *seen = ARENA_NEW_N(a, bool, ((size_t)form->n_nodes + 1) * LANES_MAX);
  if (!s.needs || !seen) {
    kernel_require(rules, a, NULL, 0, 0, NULL);
    return;
  }
  for (int i = 0; i < form->n_accesses; i++) {
    if (o->wide >> i & 1) require_wide(&s, o, i, rules, a);
  }
  for (int lane = 0; lane < o->width; lane++) {
    for (int i = 0; i < form->n_accesses; i++) fold_access(&s, o, i, lane, seen);
    for (int i = 0; i < form->n_outputs; i++) fold(&s, o, form->outputs[i].value, lane, seen);
  }
  require_needs(&s, rules, a);
}

/* --- parameters --- */

static lanes_slot slot_of(kernel_args *args, const lanes_options *o, const recipe_expr *value) {
  if (value && value->op == RECIPE_CONST) return (lanes_slot){-1, value->value};
  return (lanes_slot){o->wide_offsets ? kernel_args_i64(args, value) : kernel_args_i32(args, value), 0};
}

typedef struct declaring {
  walk w;
  const lanes_options *o;
  kernel_args *args;
  lanes_args *slots;
} declaring;

static void declare_node(walk *w, const ir_expr *e) {
  declaring *d = (declaring *)w;
  if (e->node == IR_SIZE)
    d->slots->size[e->id] = slot_of(d->args, d->o, recipe_var(d->w.a, w->form->problem->op->axes[e->id]));
}

static void declare_access(declaring *d, int access) {
  const ir_form *form = d->w.form;
  const ir_access *x = &form->accesses[access];
  const ir_op *op = form->problem->op;
  arena *a = d->w.a;
  d->slots->pointer[x->tensor] = kernel_args_pointer(d->args, x->tensor);
  for (int i = 0; i < x->n; i++) {
    const ir_subscript *sub = &x->subscripts[i];
    if (sub->leading && !d->o->dense) {
      for (int axis = 0; axis < LANES_LEAD; axis++)
        d->slots->lead_stride[x->tensor][axis] =
            slot_of(d->args, d->o, kernel_variable(op, x->tensor, "lead", axis, a));
    } else {
      d->slots->stride[x->tensor][sub->first + sub->count] =
          slot_of(d->args, d->o, kernel_stride(form, x, i, d->o->dense, a));
    }
    if (!lanes_is_tested(form, d->o, access) || lanes_in_range(form, x, i)) continue;
    ir_dim dim = op->tensors[x->tensor].dims[sub->first];
    if (dim.axis >= 0) d->slots->size[dim.axis] = slot_of(d->args, d->o, recipe_var(a, op->axes[dim.axis]));
  }
}

void lanes_declare(const ir_form *form, const lanes_options *o, kernel_args *args, lanes_args *slots) {
  arena *a = args->a;
  declaring d = {.w = {.form = form, .visit = declare_node, .a = a}, .o = o, .args = args, .slots = slots};
  *slots = (lanes_args){0};
  d.w.seen = ARENA_NEW_N(a, bool, (size_t)form->n_nodes + 1);
  if (!d.w.seen) {
    args->incomplete = true;
    return;
  }
  for (int i = 0; i < form->n_accesses; i++) declare_access(&d, i);
  bool leading = false;
  for (int l = 0; l < form->n_loops; l++) {
    slots->extent[l] = slot_of(args, o, kernel_extent(form, l, a));
    leading = leading || form->loops[l].leading;
  }
  for (int axis = 0; leading && !o->dense && axis < LANES_LEAD; axis++) {
    const char *name = arena_printf(a, RECIPE_LEADING "%d", axis);
    slots->lead_extent[axis] = slot_of(args, o, recipe_var(a, name));
  }
  walk_form(&d.w);
}
