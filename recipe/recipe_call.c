#include "recipe/recipe_call.h"

#include <inttypes.h>
#include <string.h>

#define STAGE "plan"

#define SMS "SMS"

bool recipe_name_is_taken(const char *axis) {
  const size_t prefix = strlen(RECIPE_LEADING);
  if (strcmp(axis, SMS) == 0 || strcmp(axis, RECIPE_ROUND) == 0) return true;
  if (strncmp(axis, RECIPE_LEADING, prefix) != 0) return false;
  const char *rest = axis + prefix;
  return rest[0] == '\0' || (rest[0] >= '0' && rest[0] < '0' + RECIPE_LEAD_AXES && rest[1] == '\0');
}

/* --- strides ---------------------------------------------------------------------------------------- */

static bool is_empty(const recipe_tensor *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] == 0) return true;
  return false;
}

static arke_status too_large(const recipe_tensor *t, arke_error *err) {
  return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %s has more than 2^63 elements", t->name);
}

/* What means nothing becomes what a tensor without gaps has, so that rules need no exceptions. */
static arke_status fill_strides(recipe_tensor *t, arke_error *err) {
  bool empty = is_empty(t);
  int64_t expected = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->shape[i] <= 1) t->stride[i] = expected;
    if (empty) t->stride[i] = 0;
    if (__builtin_mul_overflow(expected, t->shape[i] > 0 ? t->shape[i] : 1, &expected))
      return too_large(t, err);
  }
  return ARKE_OK;
}

static arke_status find_span(const recipe_tensor *t, int64_t *span, arke_error *err) {
  int64_t last = 0;
  *span = 0;
  if (is_empty(t)) return ARKE_OK;
  for (int i = 0; i < t->rank; i++) {
    int64_t extent;
    if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &extent) ||
        __builtin_add_overflow(last, extent, &last))
      return too_large(t, err);
  }
  *span = last + 1;
  return ARKE_OK;
}

/* --- leading axes ----------------------------------------------------------------------------------- */

/* Whether axis i steps farther than axis j: by the outputs first, since writes pay most for disorder, then by
 * the inputs. Equal ones stay in the order of the shape. */
static bool is_outer(const recipe_call *c, int i, int j) {
  for (int inputs = 0; inputs < 2; inputs++)
    for (int t = 0; t < c->n_tensors; t++) {
      const recipe_tensor *x = &c->tensors[t];
      if (x->leading < 0 || x->output == (inputs != 0) || x->stride[i] == x->stride[j]) continue;
      return x->stride[i] > x->stride[j];
    }
  return i < j;
}

static bool continues(const recipe_call *c, int outer) {
  int inner = c->n_lead - 1;
  for (int t = 0; t < c->n_tensors; t++) {
    const recipe_tensor *x = &c->tensors[t];
    int64_t end;
    if (x->leading < 0) continue;
    if (__builtin_mul_overflow(c->lead_stride[t][inner], c->lead[inner], &end) || x->stride[outer] != end)
      return false;
  }
  return true;
}

static const recipe_tensor *first_with_leading(const recipe_call *c) {
  for (int t = 0; t < c->n_tensors; t++)
    if (c->tensors[t].leading >= 0) return &c->tensors[t];
  return NULL;
}

/* The axes that count, outermost first. */
static int sort_axes(const recipe_call *c, const recipe_tensor *shape, int order[LIMIT_RANK]) {
  int n = 0;
  for (int i = 0; i < shape->leading; i++) {
    if (shape->shape[i] == 1) continue;
    int at = n++;
    for (; at > 0 && is_outer(c, i, order[at - 1]); at--) order[at] = order[at - 1];
    order[at] = i;
  }
  return n;
}

static void collapse(recipe_call *c) {
  const recipe_tensor *shape = first_with_leading(c);
  int order[LIMIT_RANK];
  if (shape == NULL) return;
  for (int i = 0; i < shape->leading; i++)
    if (shape->shape[i] == 0) { /* one axis without elements */
      c->n_lead = 1;
      return;
    }
  int n = sort_axes(c, shape, order);
  for (int k = n - 1; k >= 0; k--) {
    int axis = order[k];
    if (c->n_lead > 0 && continues(c, axis)) {
      c->lead[c->n_lead - 1] *= shape->shape[axis]; /* at most the elements, which were counted */
      continue;
    }
    c->lead[c->n_lead] = shape->shape[axis];
    for (int t = 0; t < c->n_tensors; t++)
      if (c->tensors[t].leading >= 0) c->lead_stride[t][c->n_lead] = c->tensors[t].stride[axis];
    c->n_lead++;
  }
}

/* --- variables -------------------------------------------------------------------------------------- */

static bool add(recipe_call *c, const char *name, int64_t value) {
  if (name == NULL || c->n_env == RECIPE_MOST_VARIABLES) return false;
  c->env[c->n_env++] = (recipe_binding){name, value};
  return true;
}

static bool add_leading(recipe_call *c) {
  static const char *const NAMES[RECIPE_LEAD_AXES] = {RECIPE_LEADING "0", RECIPE_LEADING "1",
                                                      RECIPE_LEADING "2", RECIPE_LEADING "3"};
  int64_t elements = 1;
  for (int i = 0; i < c->n_lead; i++) elements *= c->lead[i];
  bool added = add(c, RECIPE_LEADING, elements);
  for (int i = 0; i < RECIPE_LEAD_AXES; i++)
    added = added && add(c, NAMES[i], i < c->n_lead ? c->lead[i] : 1);
  return added;
}

static bool add_strides(recipe_call *c, int tensor, int64_t span, arena *a) {
  const recipe_tensor *t = &c->tensors[tensor];
  int leading = t->leading < 0 ? 0 : t->leading;
  bool added = add(c, arena_printf(a, "%s.span", t->name), span);
  for (int i = leading; i < t->rank; i++)
    added = added && add(c, arena_printf(a, "%s.stride%d", t->name, i - leading), t->stride[i]);
  for (int i = 0; i < RECIPE_LEAD_AXES && t->leading >= 0; i++)
    added = added && add(c, arena_printf(a, "%s.lead%d", t->name, i), c->lead_stride[tensor][i]);
  return added;
}

/* An output in place is its input by another number. */
static bool is_named_before(const recipe_call *c, int tensor) {
  for (int i = 0; i < tensor; i++)
    if (strcmp(c->tensors[i].name, c->tensors[tensor].name) == 0) return true;
  return false;
}

arke_status recipe_call_make(const recipe_tensor *tensors, int n_tensors, const recipe_binding *sizes,
                             int n_sizes, int sm_count, arena *a, recipe_call *c, arke_error *err) {
  *c = (recipe_call){.n_tensors = n_tensors};
  bool added = add(c, RECIPE_ROUND, 0);
  for (int t = 0; t < n_tensors; t++) {
    c->tensors[t] = tensors[t];
    TRY(fill_strides(&c->tensors[t], err));
  }
  collapse(c);
  for (int i = 0; i < n_sizes; i++) added = added && add(c, sizes[i].name, sizes[i].value);
  added = added && add(c, SMS, sm_count) && add_leading(c);
  for (int t = 0; t < n_tensors; t++) {
    int64_t span;
    TRY(find_span(&c->tensors[t], &span, err));
    if (!is_named_before(c, t)) added = added && add_strides(c, t, span, a);
  }
  return added ? ARKE_OK : error_memory(err, STAGE);
}

arke_status recipe_call_eval(const recipe_call *c, const recipe_expr *e, int64_t *value, arke_error *err) {
  return recipe_expr_eval(e, c->env, c->n_env, value, err);
}

/* --- what runs ---------------------------------------------------------------------------------------- */

void recipe_call_set_round(recipe_call *c, int64_t round) {
  c->env[0].value = round;
}

/* The repeat that begins with a launch; NULL: none. */
static const recipe_repeat *repeat_at(const recipe *r, int launch) {
  for (int i = 0; i < r->n_repeats; i++)
    if (r->repeats[i].first == launch) return &r->repeats[i];
  return NULL;
}

/* Writes them to `list`; NULL: counts them alone. */
static arke_status list_turns(const recipe *r, const recipe_call *c, recipe_turn *list, int *n,
                              arke_error *err) {
  *n = 0;
  for (int i = 0; i < r->n_launches;) {
    const recipe_repeat *repeat = repeat_at(r, i);
    int of_round = repeat != NULL ? repeat->n : 1;
    int64_t rounds = 1;
    if (repeat != NULL) TRY(recipe_call_eval(c, repeat->rounds, &rounds, err));
    if (rounds < 0 || rounds > (LIMIT_TURNS - *n) / of_round)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                       "launches %d to %d would run %" PRId64 " times; a run has at most %d launches", i,
                       i + of_round - 1, rounds, LIMIT_TURNS);
    for (int64_t round = 0; round < rounds && list != NULL; round++)
      for (int k = 0; k < of_round; k++) list[*n + round * of_round + k] = (recipe_turn){i + k, round};
    *n += (int)rounds * of_round;
    i += of_round;
  }
  return ARKE_OK;
}

arke_status recipe_turns(const recipe *r, const recipe_call *c, arena *a, const recipe_turn **turns, int *n,
                         arke_error *err) {
  TRY(list_turns(r, c, NULL, n, err));
  recipe_turn *list = ARENA_NEW_N(a, recipe_turn, (size_t)*n + 1);
  if (list == NULL) return error_memory(err, STAGE);
  *turns = list;
  return list_turns(r, c, list, n, err);
}
