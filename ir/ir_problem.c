#include <math.h>
#include <string.h>

#include "base/text.h"
#include "ir/ir_bounds.h"
#include "ir/ir_functions.h"
#include "ir/ir_types.h"
#include "ir/notation.h"

enum { MOST_NAMES = 4 + LIMIT_AXES + LIMIT_ATTRS + 1 };
static const double LARGEST_EXACT_INTEGER = 0x1p53;
static const int64_t MOST_TENSOR_BYTES = 1ll << 62;

/* --- reading bindings ----------------------------------------------------------------------------------- */

typedef struct binder {
  const ir_op *op;
  ir_problem *p;
  bool has_type[4], has_axis[LIMIT_AXES], has_attr[LIMIT_ATTRS], has_lead;
  arke_error *err;
} binder;

static bool uses_lead(const ir_op *op) {
  for (int i = 0; i < op->n_tensors; i++)
    if (op->tensors[i].any_rank) return true;
  return false;
}

static size_t all_names(const ir_op *op, const char *names[MOST_NAMES]) {
  size_t n = 0;
  for (int i = 0; i < op->n_types; i++) names[n++] = op->type_vars[i];
  if (uses_lead(op)) names[n++] = "...";
  for (int i = 0; i < op->n_axes; i++) names[n++] = op->axes[i];
  for (int i = 0; i < op->n_attrs; i++) names[n++] = op->attrs[i].name;
  return n;
}

static arke_status fail_names(const binder *b, const char *what, const char *name) {
  const char *names[MOST_NAMES];
  size_t n = all_names(b->op, names);
  strbuf list = STRBUF_INIT;
  for (size_t i = 0; i < n; i++) strbuf_addf(&list, i == 0 ? "%s" : ", %s", names[i]);
  arke_status status = strbuf_failed(&list)
                           ? error_memory(b->err, "bind")
                           : error_set(b->err, ARKE_ERR_ARGUMENT, "bind", "%s '%s'; %s binds %s", what, name,
                                       b->op->name, n == 0 ? "nothing" : strbuf_text(&list));
  strbuf_free(&list);
  return status;
}

static arke_status fail_value(const binder *b, const char *name, const char *value, const char *accepted) {
  return error_set(b->err, ARKE_ERR_ARGUMENT, "bind", "%s=%s: %s", name, value, accepted);
}

static bool read_size(const char *text, size_t length, int64_t *size) {
  return text_to_i64(text, length, 0, LIMIT_AXIS_SIZE, size);
}

static arke_status bind_lead(binder *b, const char *value) {
  b->p->lead_rank = 0;
  for (const char *at = value; *at != '\0';) {
    size_t length = strcspn(at, "x");
    if (b->p->lead_rank == LIMIT_RANK)
      return error_set(b->err, ARKE_ERR_SHAPE, "bind", "...=%s: at most %d axes are accepted", value,
                       LIMIT_RANK);
    if (!read_size(at, length, &b->p->lead[b->p->lead_rank++]) ||
        (at[length] == 'x' && at[length + 1] == '\0'))
      return fail_value(b, "...", value, "sizes joined by x are accepted, like 4x128, each from 0 to 2^40");
    at += length + (at[length] == 'x');
  }
  return ARKE_OK;
}

static arke_status bind_attr(binder *b, int i, const char *value) {
  const ir_attr *a = &b->op->attrs[i];
  double v = 0;
  bool negative = value[0] == '-';
  int64_t integer;
  dtype t;
  switch (a->kind) {
  case IR_ATTR_INT:
    if (!text_to_i64(value + negative, strlen(value + negative), 0, (int64_t)LARGEST_EXACT_INTEGER, &integer))
      return fail_value(b, a->name, value, "an integer up to 2^53 is accepted");
    v = negative ? -(double)integer : (double)integer;
    break;
  case IR_ATTR_FLOAT:
    if (strcmp(value + negative, "inf") == 0)
      v = negative ? -INFINITY : INFINITY;
    else if (!text_to_f64(value, &v))
      return fail_value(b, a->name, value, "a number, inf or -inf is accepted");
    break;
  case IR_ATTR_BOOL:
    if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
      v = 1;
    else if (strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
      return fail_value(b, a->name, value, "true or false is accepted");
    break;
  case IR_ATTR_DTYPE:
    if (!dtype_from_name(value, &t))
      return fail_value(b, a->name, value, "a dtype is accepted: f32, bf16, i64, …");
    v = t;
    break;
  }
  b->p->attrs[i] = v;
  return ARKE_OK;
}

static int find_name(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

static arke_status bind_one(binder *b, const char *name, const char *value) {
  const ir_op *op = b->op;
  int i = find_name(op->type_vars, op->n_types, name);
  if (i >= 0) {
    if (b->has_type[i]) return fail_names(b, "bound twice:", name);
    b->has_type[i] = true;
    if (dtype_from_name(value, &b->p->types[i])) return ARKE_OK;
    return fail_value(b, name, value, "a dtype is accepted: f32, f16, bf16, e4m3, i64, i32, i8, bool, …");
  }
  i = find_name(op->axes, op->n_axes, name);
  if (i >= 0) {
    if (b->has_axis[i]) return fail_names(b, "bound twice:", name);
    b->has_axis[i] = true;
    if (read_size(value, strlen(value), &b->p->sizes[i])) return ARKE_OK;
    return fail_value(b, name, value, "a size from 0 to 2^40 is accepted");
  }
  for (i = 0; i < op->n_attrs; i++) {
    if (strcmp(op->attrs[i].name, name) != 0) continue;
    if (b->has_attr[i]) return fail_names(b, "bound twice:", name);
    b->has_attr[i] = true;
    return bind_attr(b, i, value);
  }
  if (strcmp(name, "...") == 0 && uses_lead(op)) {
    if (b->has_lead) return fail_names(b, "bound twice:", name);
    b->has_lead = true;
    return bind_lead(b, value);
  }
  return fail_names(b, "unknown name", name);
}

static arke_status bind_texts(binder *b, const char *bindings) {
  static const char *const SEPARATORS = " ,\t\n";
  char word[2 * LIMIT_NAME_BYTES + 8];
  for (const char *at = bindings + strspn(bindings, SEPARATORS); *at != '\0'; at += strspn(at, SEPARATORS)) {
    size_t length = strcspn(at, SEPARATORS);
    const char *equals = memchr(at, '=', length);
    if (length >= sizeof word || equals == NULL || equals == at)
      return error_set(b->err, ARKE_ERR_ARGUMENT, "bind",
                       "'%.*s': NAME=VALUE is accepted, like M=4096, T=bf16 or eps=1e-5",
                       length > 60 ? 60 : (int)length, at);
    memcpy(word, at, length);
    word[length] = '\0';
    word[equals - at] = '\0';
    TRY(bind_one(b, word, word + (equals - at) + 1));
    at += length;
  }
  return ARKE_OK;
}

/* --- defaults ------------------------------------------------------------------------------------------- */

/* A default's formula over sizes and earlier attributes. Integers stay exact to 2^53, as attributes are. */
static bool constant(const ir_problem *p, const ir_expr *e, double *v) {
  double x[3] = {0, 0, 0};
  for (int i = 0; i < e->n_args; i++)
    if (!constant(p, e->args[i], &x[i])) return false;
  bool integers = e->node == IR_OPERATOR && ir_expr_level(p, e) < LEVEL_F32;
  switch (e->node) {
  case IR_FLOAT: *v = e->number; return true;
  case IR_INT: *v = (double)e->integer; return true;
  case IR_SIZE: *v = (double)p->sizes[e->id]; return true;
  case IR_ATTR: *v = p->attrs[e->id]; return true;
  case IR_CALL: *v = ir_function_apply((ir_function)e->id, x[0], x[1], x[2]); return true;
  case IR_CAST: *v = dtype_round(ir_cast_dtype(p, e), x[0]); return true;
  case IR_OPERATOR: break;
  default: return false;
  }
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: *v = x[0] + x[1]; break;
  case IR_OP_SUB: *v = x[0] - x[1]; break;
  case IR_OP_MUL: *v = x[0] * x[1]; break;
  case IR_OP_DIV:
    if (integers && x[1] == 0) return false;
    *v = integers ? floor(x[0] / x[1]) : x[0] / x[1];
    break;
  case IR_OP_MOD:
    if (integers && x[1] == 0) return false;
    *v = ir_float_mod(x[0], x[1]);
    break;
  case IR_OP_LT: *v = x[0] < x[1]; break;
  case IR_OP_LE: *v = x[0] <= x[1]; break;
  case IR_OP_GT: *v = x[0] > x[1]; break;
  case IR_OP_GE: *v = x[0] >= x[1]; break;
  case IR_OP_EQ: *v = x[0] == x[1]; break;
  case IR_OP_NE: *v = x[0] != x[1]; break;
  case IR_OP_AND: *v = x[0] != 0 && x[1] != 0; break;
  case IR_OP_OR: *v = x[0] != 0 || x[1] != 0; break;
  case IR_OP_NOT: *v = x[0] == 0; break;
  case IR_OP_NEG: *v = -x[0]; break;
  case IR_OP_SELECT: *v = x[0] != 0 ? x[1] : x[2]; break;
  case IR_OP_COUNT: return false;
  }
  return true;
}

static arke_status check_bound(binder *b) {
  const ir_op *op = b->op;
  for (int i = 0; i < op->n_types; i++)
    if (!b->has_type[i]) return fail_names(b, "no dtype for", op->type_vars[i]);
  if (uses_lead(op) && !b->has_lead) return fail_names(b, "no sizes for", "...");
  for (int i = 0; i < op->n_axes; i++)
    if (!b->has_axis[i]) return fail_names(b, "no size for", op->axes[i]);
  for (int i = 0; i < op->n_attrs; i++) {
    const ir_attr *a = &op->attrs[i];
    if (b->has_attr[i]) continue;
    if (!a->has_default) return fail_names(b, "no value for", a->name);
    b->p->attrs[i] = a->value;
    if (a->formula == NULL) continue;
    bool any = a->kind == IR_ATTR_FLOAT;
    if (!constant(b->p, a->formula, &b->p->attrs[i]) || isnan(b->p->attrs[i]) ||
        !(any || fabs(b->p->attrs[i]) <= LARGEST_EXACT_INTEGER))
      return error_set(b->err, ARKE_ERR_ARGUMENT, "bind", "the default of %s has no value for these sizes",
                       a->name);
    if (a->kind == IR_ATTR_BOOL) b->p->attrs[i] = b->p->attrs[i] != 0;
  }
  return ARKE_OK;
}

/* --- checks of the whole problem ------------------------------------------------------------------------ */

/* -1: more than an int64_t holds. */
static int64_t checked_elements(const ir_problem *p, int tensor) {
  int64_t shape[LIMIT_RANK], n = 1;
  int rank = ir_tensor_shape(p, tensor, shape);
  bool empty = false, overflow = false;
  for (int i = 0; i < rank; i++) {
    if (shape[i] == 0) empty = true;
    if (__builtin_mul_overflow(n, shape[i], &n)) overflow = true;
  }
  return empty ? 0 : overflow ? -1 : n;
}

static arke_status check_tensor(const ir_problem *p, int i, arke_error *err) {
  const ir_tensor *t = &p->op->tensors[i];
  if (t->any_rank && t->rank + p->lead_rank > LIMIT_RANK)
    return error_set(err, ARKE_ERR_SHAPE, "bind", "%s has %d dimensions; at most %d are accepted", t->name,
                     t->rank + p->lead_rank, LIMIT_RANK);
  for (int d = 0; d < t->rank; d++) {
    int64_t size = t->dims[d].factor, axis = t->dims[d].axis, by = t->dims[d].by;
    if ((axis >= 0 && __builtin_mul_overflow(size, p->sizes[axis], &size)) ||
        (by >= 0 && __builtin_mul_overflow(size, p->sizes[by], &size)) ||
        __builtin_add_overflow(size, t->dims[d].more, &size))
      return error_set(err, ARKE_ERR_SHAPE, "bind", "dimension %d of %s has more than 2^62 elements", d,
                       t->name);
  }
  int64_t n = checked_elements(p, i), bytes;
  if (t->role == IR_TEMPORARY) return ARKE_OK;
  if (n < 0 || __builtin_mul_overflow(n, dtype_bits(ir_tensor_dtype(p, i)) / 4, &bytes) ||
      bytes / 2 > MOST_TENSOR_BYTES)
    return error_set(err, ARKE_ERR_SHAPE, "bind",
                     "%s has more than 2^62 bytes; accepted: at most 2^62 for one tensor", t->name);
  return ARKE_OK;
}

static arke_status check_subscripts(const ir_problem *p, const ir_expr *e, arke_error *err) {
  for (int i = 0; i < e->n_args; i++) TRY(check_subscripts(p, e->args[i], err));
  if (e->node != IR_READ) return ARKE_OK;
  for (int i = 0; i < e->n_args - e->has_else; i++)
    if (ir_expr_level(p, e->args[i]) >= LEVEL_F32)
      return error_set(err, ARKE_ERR_DTYPE, "bind",
                       "subscript %d of %s (%d:%d) is floating point with these dtypes", i,
                       p->op->tensors[e->id].name, e->args[i]->line, e->args[i]->column);
  return ARKE_OK;
}

/* A size divided by a size is how many of one belong to each of the other: heads to a group. A rest would
 * belong to nothing, and indices divided by the quotient would leave their axes. */
static arke_status check_quotients(const ir_problem *p, const ir_expr *e, arke_error *err) {
  for (int i = 0; i < e->n_args; i++) TRY(check_quotients(p, e->args[i], err));
  if (e->node != IR_OPERATOR || e->id != IR_OP_DIV || e->args[0]->node != IR_SIZE ||
      e->args[1]->node != IR_SIZE)
    return ARKE_OK;
  int64_t all = p->sizes[e->args[0]->id], parts = p->sizes[e->args[1]->id];
  if (all == 0 || (parts > 0 && all % parts == 0)) return ARKE_OK;
  const char *name = p->op->axes[e->args[0]->id], *by = p->op->axes[e->args[1]->id];
  return error_set(err, ARKE_ERR_SHAPE, "bind", "%s=%lld is no multiple of %s=%lld; accepted are multiples",
                   name, (long long)all, by, (long long)parts);
}

static arke_status check_problem(const ir_problem *p, arke_error *err) {
  for (int i = 0; i < p->op->n_tensors; i++) TRY(check_tensor(p, i, err));
  for (int i = 0; i < p->op->n_definitions; i++) {
    const ir_definition *d = &p->op->definitions[i];
    TRY(check_subscripts(p, d->value, err));
    TRY(check_quotients(p, d->value, err));
    for (int s = 0; s < d->n_subscripts; s++) {
      TRY(check_subscripts(p, d->subscripts[s], err));
      if (ir_expr_level(p, d->subscripts[s]) >= LEVEL_F32)
        return error_set(err, ARKE_ERR_DTYPE, "bind",
                         "subscript %d of %s is floating point with these dtypes", s,
                         p->op->tensors[d->tensor].name);
    }
    TRY(ir_writes_check(p, d, err));
  }
  return ARKE_OK;
}

arke_status ir_problem_bind(const ir_op *op, const char *bindings, ir_problem *p, arke_error *err) {
  *p = (ir_problem){.op = op};
  binder b = {.op = op, .p = p, .err = err};
  arke_status status = bind_texts(&b, bindings);
  if (status == ARKE_OK) status = check_bound(&b);
  if (status == ARKE_OK) status = check_problem(p, err);
  if (status != ARKE_OK) error_context(err, op->name, NULL);
  return status;
}

/* --- printing and asking -------------------------------------------------------------------------------- */

void ir_attr_print_value(ir_attr_kind kind, double value, strbuf *out) {
  switch (kind) {
  case IR_ATTR_INT: strbuf_addf(out, "%lld", (long long)value); break;
  case IR_ATTR_FLOAT: notation_print_number(value, out); break;
  case IR_ATTR_BOOL: strbuf_add(out, value != 0 ? "true" : "false"); break;
  case IR_ATTR_DTYPE: strbuf_add(out, dtype_name((dtype)value)); break;
  }
}

void ir_problem_print_bindings(const ir_problem *p, strbuf *out) {
  const ir_op *op = p->op;
  const char *space = "";
  for (int i = 0; i < op->n_types; i++, space = " ")
    strbuf_addf(out, "%s%s=%s", space, op->type_vars[i], dtype_name(p->types[i]));
  if (uses_lead(op)) {
    strbuf_addf(out, "%s...=", space);
    for (int i = 0; i < p->lead_rank; i++) strbuf_addf(out, i == 0 ? "%lld" : "x%lld", (long long)p->lead[i]);
    space = " ";
  }
  for (int i = 0; i < op->n_axes; i++, space = " ")
    strbuf_addf(out, "%s%s=%lld", space, op->axes[i], (long long)p->sizes[i]);
  for (int i = 0; i < op->n_attrs; i++, space = " ") {
    strbuf_addf(out, "%s%s=", space, op->attrs[i].name);
    ir_attr_print_value(op->attrs[i].kind, p->attrs[i], out);
  }
}

dtype ir_tensor_dtype(const ir_problem *p, int tensor) {
  ir_type t = p->op->tensors[tensor].type;
  if (t.variable >= 0) return p->types[t.variable];
  return t.joins == 0 ? t.fixed : ir_level_dtype(ir_kind_level(p, ir_type_kind(t)));
}

dtype ir_cast_dtype(const ir_problem *p, const ir_expr *cast) {
  int variable = ir_cast_variable(cast), attr = ir_cast_attr(cast);
  return variable >= 0 ? p->types[variable] : attr >= 0 ? (dtype)p->attrs[attr] : (dtype)cast->id;
}

int ir_tensor_shape(const ir_problem *p, int tensor, int64_t shape[LIMIT_RANK]) {
  const ir_tensor *t = &p->op->tensors[tensor];
  int rank = 0;
  for (int i = 0; t->any_rank && i < p->lead_rank && rank < LIMIT_RANK; i++) shape[rank++] = p->lead[i];
  for (int i = 0; i < t->rank && rank < LIMIT_RANK; i++) shape[rank++] = ir_dim_size(p, t->dims[i]);
  return rank;
}

int64_t ir_tensor_elements(const ir_problem *p, int tensor) {
  int64_t n = checked_elements(p, tensor);
  return n < 0 ? INT64_MAX : n;
}
