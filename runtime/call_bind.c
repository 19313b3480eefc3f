#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runtime/call.h"

#define STAGE "plan"

static bound_name *add(bound_call *b, bound_kind kind, const char *name) {
  if (b->n == BOUND_MAX) return NULL;
  bound_name *n = &b->names[b->n++];
  *n = (bound_name){.kind = kind, .name = name};
  return n;
}

static arke_status too_many(arke_error *err) {
  return error_set(err, ARKE_ERR_CORRUPT, STAGE, "a stored signature binds more than %d names", BOUND_MAX);
}

static arke_status ambiguous(const char *name, arke_error *err) {
  return error_set(err, ARKE_ERR_CORRUPT, STAGE, "a stored signature uses %s both as a dtype and as an axis",
                   name);
}

static arke_status bind_type(const cache_tensor *t, const call_tensor *found, bound_call *b,
                             arke_error *err) {
  dtype fixed;
  if (dtype_from_name(t->type, &fixed)) {
    if (found->type == fixed) return ARKE_OK;
    return error_set(err, ARKE_ERR_DTYPE, STAGE, "tensor %s is %s; expected is %s", t->name,
                     dtype_name(found->type), t->type);
  }
  const bound_name *known = bound_find(b, t->type, strlen(t->type));
  if (known != NULL) {
    if (known->kind != BOUND_TYPE) return ambiguous(t->type, err);
    if (known->type == found->type) return ARKE_OK;
    return error_set(err, ARKE_ERR_DTYPE, STAGE,
                     "tensor %s is %s; expected is %s as in the tensors before it (%s)", t->name,
                     dtype_name(found->type), dtype_name(known->type), t->type);
  }
  bound_name *n = add(b, BOUND_TYPE, t->type);
  if (n == NULL) return too_many(err);
  n->type = found->type;
  return ARKE_OK;
}

/* A dimension's text, "M", "2*H", "B+1" or "8", taken apart; a constant has no axis. */
typedef struct dim_parts {
  int64_t factor, more;
  const char *axis; /* up to the '+', or to the end */
  size_t axis_length;
} dim_parts;

static bool split_dim(const char *text, dim_parts *d) {
  size_t digits = strspn(text, "0123456789");
  *d = (dim_parts){.factor = 1, .axis = text};
  if (digits > 0) {
    if (!text_to_i64(text, digits, 1, LIMIT_AXIS_SIZE, &d->factor)) return false;
    if (text[digits] == '\0') return true;
    if (text[digits] != '*') return false;
    d->axis = text + digits + 1;
  }
  d->axis_length = strcspn(d->axis, "+");
  const char *plus = d->axis + d->axis_length;
  return d->axis_length > 0 &&
         (*plus == '\0' || text_to_i64(plus + 1, strlen(plus + 1), 1, LIMIT_AXIS_SIZE, &d->more));
}

static arke_status bind_axis(const cache_tensor *t, int position, const char *dim, int64_t size, arena *a,
                             bound_call *b, arke_error *err) {
  dim_parts d;
  if (!split_dim(dim, &d))
    return error_set(err, ARKE_ERR_CORRUPT, STAGE, "the stored dimension \"%s\" of tensor %s makes no sense",
                     dim, t->name);
  if (d.axis_length == 0) {
    if (size == d.factor) return ARKE_OK;
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "axis %d of tensor %s has %" PRId64 " elements; expected are %" PRId64, position,
                     t->name, size, d.factor);
  }
  if (size < d.more)
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "axis %d of tensor %s has %" PRId64 " elements; expected are at least %" PRId64 " (%s)",
                     position, t->name, size, d.more, dim);
  if ((size - d.more) % d.factor != 0) {
    char more[32] = "";
    if (d.more > 0) snprintf(more, sizeof more, ", and %" PRId64, d.more);
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "axis %d of tensor %s has %" PRId64 " elements; expected is a multiple of %" PRId64
                     "%s (%s)",
                     position, t->name, size, d.factor, more, dim);
  }
  int64_t elements = (size - d.more) / d.factor;
  const bound_name *known = bound_find(b, d.axis, d.axis_length);
  if (known != NULL) {
    if (known->kind != BOUND_AXIS) return ambiguous(known->name, err);
    if (known->size == elements) return ARKE_OK;
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "axis %d of tensor %s has %" PRId64 " elements; expected are %s with %s = %" PRId64
                     " from the tensors before it",
                     position, t->name, size, dim, known->name, known->size);
  }
  const char *name =
      d.axis[d.axis_length] == '\0' ? d.axis : arena_printf(a, "%.*s", (int)d.axis_length, d.axis);
  if (name == NULL) return error_memory(err, STAGE);
  bound_name *n = add(b, BOUND_AXIS, name);
  if (n == NULL) return too_many(err);
  n->size = elements;
  return ARKE_OK;
}

/* The first tensor before `i` with "...", which has said what it stands for; -1 if there is none. */
static int earlier_leading(const cache_problem *signature, int i) {
  for (int k = 0; k < i; k++)
    if (signature->tensors[k].any_rank) return k;
  return -1;
}

/* Leading axes are the same in every tensor that has them; as a name they count as one, of all their
 * elements. How their strides fit together is the recipe's to ask. */
static arke_status bind_leading(const call *c, int i, int leading, arena *a, bound_call *b, arke_error *err) {
  const cache_tensor *t = &b->signature->tensors[i];
  const call_tensor *found = bound_tensor(b, c, i);
  int other = earlier_leading(b->signature, i);
  if (other >= 0) {
    const cache_tensor *first = &b->signature->tensors[other];
    const call_tensor *before = bound_tensor(b, c, other);
    int expected = before->rank - first->rank;
    if (leading != expected)
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "tensor %s has rank %d; expected is %d, with the %d leading axes of %s", t->name,
                       found->rank, t->rank + expected, expected, first->name);
    for (int k = 0; k < leading; k++)
      if (found->shape[k] != before->shape[k])
        return error_set(err, ARKE_ERR_SHAPE, STAGE,
                         "axis %d of tensor %s has %" PRId64 " elements; expected are %" PRId64 " as in %s",
                         k, t->name, found->shape[k], before->shape[k], first->name);
  }
  int64_t elements = 1;
  for (int k = 0; k < leading; k++)
    if (__builtin_mul_overflow(elements, found->shape[k], &elements))
      return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %s has more than 2^63 elements", t->name);
  return bind_axis(t, 0, "...", elements, a, b, err);
}

/* Every axis must step over all that the axes of smaller strides reach. Kernels write an output in any order,
 * so two elements at one address would be a race. */
static arke_status check_overlap(const cache_tensor *t, const call_tensor *found, arke_error *err) {
  bool passed[LIMIT_RANK] = {false};
  int64_t reach = 1; /* elements from the first to past the last, of the axes passed */
  if (found->empty) return ARKE_OK;
  for (;;) {
    int least = -1;
    for (int i = found->rank - 1; i >= 0; i--)
      if (!passed[i] && found->shape[i] > 1 && (least < 0 || found->stride[i] < found->stride[least]))
        least = i;
    if (least < 0) return ARKE_OK;
    if (found->stride[least] < reach)
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "elements of the output %s overlap: axis %d has stride %" PRId64
                       "; accepted are %" PRId64 " and more",
                       t->name, least, found->stride[least], reach);
    reach += (found->shape[least] - 1) * found->stride[least];
    passed[least] = true;
  }
}

static arke_status bind_tensor(const call *c, int i, arena *a, bound_call *b, arke_error *err) {
  const cache_tensor *t = &b->signature->tensors[i];
  const call_tensor *found = bound_tensor(b, c, i);
  int leading = found->rank - t->rank;
  if (leading < 0 || (leading > 0 && !t->any_rank))
    return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %s has rank %d; expected is %s%d", t->name,
                     found->rank, t->any_rank ? "at least " : "", t->rank);
  if (t->any_rank) TRY(bind_leading(c, i, leading, a, b, err));
  for (int k = 0; k < t->rank; k++)
    TRY(bind_axis(t, leading + k, t->dims[k], found->shape[leading + k], a, b, err));
  return t->output ? check_overlap(t, found, err) : ARKE_OK;
}

/* --- attributes -------------------------------------------------------------------------------------- */

/* One "eps: float = 1e-05" of an operator's canonical text. */
typedef struct declared_attr {
  char name[LIMIT_NAME_BYTES], kind[LIMIT_NAME_BYTES], initial[LIMIT_NAME_BYTES];
} declared_attr;

/* Copies the text from `at` to `end` without the blanks around it; false if it is too long. */
static bool copy_word(const char *at, const char *end, char out[LIMIT_NAME_BYTES]) {
  while (at < end && *at == ' ') at++;
  while (end > at && end[-1] == ' ') end--;
  if (end - at >= LIMIT_NAME_BYTES) return false;
  memcpy(out, at, (size_t)(end - at));
  out[end - at] = '\0';
  return true;
}

/* Attributes stand between the outputs' closing parenthesis and the body. */
static const char *attributes_of(const char *op_text) {
  const char *arrow = strstr(op_text, "->");
  const char *close = arrow == NULL ? NULL : strchr(arrow, ')');
  return close == NULL ? "" : close + 1;
}

/* The end of an attribute: a comma outside parentheses (a default may be a formula), or the body. */
static const char *end_of_attr(const char *at) {
  for (int depth = 0; *at != '\0' && *at != '{' && !(*at == ',' && depth == 0); at++)
    depth += (*at == '(') - (*at == ')');
  return at;
}

static bool next_attr(const char **at, declared_attr *d) {
  const char *begin = *at + strspn(*at, " ,"), *end = end_of_attr(begin);
  const char *colon = memchr(begin, ':', (size_t)(end - begin));
  if (colon == NULL) return false;
  const char *equals = memchr(colon, '=', (size_t)(end - colon));
  *d = (declared_attr){0};
  *at = end;
  if (!copy_word(begin, colon, d->name) || !copy_word(colon + 1, equals == NULL ? end : equals, d->kind))
    return false;
  if (equals != NULL && !copy_word(equals + 1, end, d->initial)) d->initial[0] = '\0';
  return true;
}

static const arke_attr *given_attr(const call *c, const char *name) {
  for (int i = 0; i < c->n_attrs; i++)
    if (strcmp(c->attrs[i].name, name) == 0) return &c->attrs[i];
  return NULL;
}

/* What the caller gave, as bindings hold it. */
static arke_status take_given(const declared_attr *d, double given, double *value, arke_error *err) {
  *value = given;
  if (isnan(given))
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute %s is no number; accepted are numbers",
                     d->name);
  if (strcmp(d->kind, "bool") == 0) *value = given != 0;
  if (strcmp(d->kind, "int") == 0 && given != floor(given))
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute %s is %g; accepted are whole numbers", d->name,
                     given);
  if (strcmp(d->kind, "dtype") != 0) return ARKE_OK;
  int64_t code = given >= 0 && given < 65536 ? (int64_t)given : -1;
  dtype t;
  if (code < 0 || !dtype_from_dlpack((uint8_t)(code / 256), (uint8_t)(code % 256), 1, &t))
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute %s is %g, which is no ARKE_DTYPE(code, bits)",
                     d->name, given);
  *value = t;
  return ARKE_OK;
}

static arke_status bind_declared(const call *c, const declared_attr *d, arena *a, bound_call *b,
                                 arke_error *err) {
  const arke_attr *given = given_attr(c, d->name);
  double value;
  if (given != NULL)
    TRY(take_given(d, given->value, &value, err));
  else if (!bound_literal(d->initial, &value) && !bound_formula(b, d->initial, &value))
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute %s must be given: it has no %s", d->name,
                     d->initial[0] == '\0' ? "default" : "default that the runtime can work out");
  const char *name = arena_strdup(a, d->name);
  if (name == NULL) return error_memory(err, STAGE);
  bound_name *n = add(b, BOUND_ATTR, name);
  if (n == NULL) return too_many(err);
  n->value = value;
  return ARKE_OK;
}

static arke_status bind_attrs(const call *c, arena *a, bound_call *b, arke_error *err) {
  const char *at = attributes_of(b->signature->op_text);
  declared_attr d;
  while (next_attr(&at, &d)) TRY(bind_declared(c, &d, a, b, err));
  for (int i = 0; i < c->n_attrs; i++) {
    const bound_name *n = bound_find(b, c->attrs[i].name, strlen(c->attrs[i].name));
    if (n == NULL || n->kind != BOUND_ATTR)
      return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "operator %s has no attribute \"%s\"", c->op,
                       c->attrs[i].name);
  }
  return ARKE_OK;
}

/* --- the call ---------------------------------------------------------------------------------------- */

const call_tensor *bound_tensor(const bound_call *b, const call *c, int i) {
  return &c->tensors[b->given[i]];
}

bool call_outputs_empty(const call *c, const bound_call *b) {
  for (int i = 0; i < b->signature->n_tensors; i++)
    if (b->signature->tensors[i].output && !bound_tensor(b, c, i)->empty) return false;
  return true;
}

/* Numbers the call's tensors; returns how many there must be. */
static int number_tensors(const cache_problem *signature, int given[LIMIT_TENSORS]) {
  int n = 0;
  for (int i = 0; i < signature->n_tensors; i++) {
    int same = 0;
    while (strcmp(signature->tensors[same].name, signature->tensors[i].name) != 0) same++;
    given[i] = same < i ? given[same] : n++;
  }
  return n;
}

arke_status call_bind(const call *c, const cache_problem *signature, arena *a, bound_call *b,
                      arke_error *err) {
  *b = (bound_call){.signature = signature};
  int expected = number_tensors(signature, b->given);
  if (c->n_tensors != expected)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE,
                     "%s takes %d tensors (inputs, then outputs%s); %d %s given", c->op, expected,
                     expected < signature->n_tensors ? " that are not written in place" : "", c->n_tensors,
                     text_plural(c->n_tensors, "was", "were"));
  for (int i = 0; i < signature->n_tensors; i++)
    TRY(bind_type(&signature->tensors[i], bound_tensor(b, c, i), b, err));
  for (int i = 0; i < signature->n_tensors; i++) TRY(bind_tensor(c, i, a, b, err));
  return bind_attrs(c, a, b, err);
}
