#include "templates/copy_start.h"

#include "templates/kernel_lower.h"
#include "templates/lanes_index.h"

typedef struct start {
  const ir_form *form;
  unsigned loops;
  int64_t step;  /* elements in 16 bytes */
  recipe *rules; /* NULL: of this problem alone */
  arena *a;
  const char *why;
} start;

static bool is_multiple(const start *s, const ir_expr *e) {
  int64_t value;
  e = lanes_without_index_casts(s->form, e);
  if (e->node == IR_INDEX) return s->loops >> e->id & 1;
  if (lanes_static_value(s->form, e, &value)) {
    if (value % s->step != 0) return false;
    if (s->rules) kernel_require(s->rules, s->a, lanes_static_recipe(s->form, e, s->a), s->step, 0, s->why);
    return true;
  }
  if (e->node != IR_OPERATOR) return false;
  if (e->id == IR_OP_ADD || e->id == IR_OP_SUB)
    return is_multiple(s, e->args[0]) && is_multiple(s, e->args[1]);
  if (e->id != IR_OP_MUL) return false;
  /* A factor that is one is enough. */
  bool first = lanes_static_value(s->form, e->args[0], &value);
  return (first || lanes_static_value(s->form, e->args[1], &value)) && is_multiple(s, e->args[first ? 0 : 1]);
}

static start start_of(const ir_form *form, int access, unsigned loops) {
  dtype type = ir_tensor_dtype(form->problem, form->accesses[access].tensor);
  return (start){.form = form, .loops = loops, .step = 128 / dtype_bits(type)};
}

static const ir_expr *innermost(const ir_form *form, int access) {
  const ir_access *x = &form->accesses[access];
  return x->subscripts[x->n - 1].e;
}

bool copy_start_fits(const ir_form *form, int access, unsigned loops) {
  start s = start_of(form, access, loops);
  return form->accesses[access].n == 0 || is_multiple(&s, innermost(form, access));
}

void copy_start_require(const ir_form *form, int access, unsigned loops, recipe *rules, arena *a) {
  start s = start_of(form, access, loops);
  s.rules = rules;
  s.a = a;
  s.why = arena_printf(a, "copies of %s must begin at multiples of 16 bytes",
                       form->problem->op->tensors[form->accesses[access].tensor].name);
  if (form->accesses[access].n > 0) is_multiple(&s, innermost(form, access));
}
