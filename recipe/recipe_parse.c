#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "recipe/recipe.h"

#define STAGE "recipe"

typedef struct reader {
  arena *arena;
  arke_error *err;
  bool starved; /* there was no memory for the name of a place */
} reader;

static const char *json_kind(const json_t *v) {
  switch (json_typeof(v)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "an array";
  case JSON_STRING: return "a string";
  case JSON_INTEGER: return "an integer";
  case JSON_REAL: return "a real number";
  case JSON_TRUE:
  case JSON_FALSE: return "a boolean";
  case JSON_NULL: return "null";
  }
  return "unknown";
}

static arke_status wrong_kind(reader *rd, const char *where, const json_t *v, const char *expected) {
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is %s; expected is %s", where, json_kind(v),
                   expected);
}

/* The places of errors: strings of the arena, made where the tree is walked. */
static const char *item(reader *rd, const char *where, const char *key, size_t i) {
  const char *text = arena_printf(rd->arena, "%s%s%s[%zu]", where, *where == '\0' ? "" : ".", key, i);
  rd->starved |= text == NULL;
  return text == NULL ? key : text;
}

static const char *member(reader *rd, const char *where, const char *key) {
  const char *text = arena_printf(rd->arena, "%s%s%s", where, *where == '\0' ? "" : ".", key);
  rd->starved |= text == NULL;
  return text == NULL ? key : text;
}

static arke_status check_members(reader *rd, const char *where, json_t *o, const char *const *known,
                                 size_t n) {
  if (!json_is_object(o)) return wrong_kind(rd, *where == '\0' ? "the recipe" : where, o, "an object");
  const char *key;
  json_t *value;
  json_object_foreach(o, key, value) {
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) found = strcmp(key, known[i]) == 0;
    if (!found)
      return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is not a known field", member(rd, where, key));
  }
  return ARKE_OK;
}

static arke_status get(reader *rd, const char *where, json_t *o, const char *key, json_t **value) {
  *value = json_object_get(o, key);
  if (*value != NULL) return ARKE_OK;
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is missing", member(rd, where, key));
}

static arke_status get_integer(reader *rd, const char *where, json_t *o, const char *key, int64_t min,
                               int64_t max, int64_t *n) {
  json_t *v;
  TRY(get(rd, where, o, key, &v));
  if (!json_is_integer(v)) return wrong_kind(rd, member(rd, where, key), v, "an integer");
  *n = json_integer_value(v);
  if (*n >= min && *n <= max) return ARKE_OK;
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE,
                   "%s is %" PRId64 "; accepted are %" PRId64 " to %" PRId64, member(rd, where, key), *n, min,
                   max);
}

static arke_status get_int(reader *rd, const char *where, json_t *o, const char *key, int *n) {
  int64_t wide;
  TRY(get_integer(rd, where, o, key, INT32_MIN, INT32_MAX, &wide));
  *n = (int)wide;
  return ARKE_OK;
}

static arke_status get_bool(reader *rd, const char *where, json_t *o, const char *name, bool *value) {
  json_t *v;
  TRY(get(rd, where, o, name, &v));
  if (!json_is_boolean(v)) return wrong_kind(rd, member(rd, where, name), v, "a boolean");
  *value = json_is_true(v);
  return ARKE_OK;
}

static arke_status get_string(reader *rd, const char *where, json_t *o, const char *key, const char **text) {
  json_t *v;
  TRY(get(rd, where, o, key, &v));
  if (!json_is_string(v)) return wrong_kind(rd, member(rd, where, key), v, "a string");
  *text = arena_strdup(rd->arena, json_string_value(v));
  return *text == NULL ? error_memory(rd->err, STAGE) : ARKE_OK;
}

static arke_status to_expr(reader *rd, const char *where, json_t *v, const recipe_expr **e) {
  if (!json_is_string(v)) return wrong_kind(rd, where, v, "a string that holds an expression");
  arke_error inner = ARKE_ERROR_INIT;
  arke_status status = recipe_expr_parse(rd->arena, json_string_value(v), e, &inner);
  if (status == ARKE_OK) return ARKE_OK;
  return error_set(rd->err, status, STAGE, "%s: %.1900s", where, inner.text);
}

static arke_status get_expr(reader *rd, const char *where, json_t *o, const char *key,
                            const recipe_expr **e) {
  json_t *v;
  TRY(get(rd, where, o, key, &v));
  return to_expr(rd, member(rd, where, key), v, e);
}

/* An array of at most `max` elements. */
static arke_status get_array(reader *rd, const char *where, json_t *o, const char *key, size_t min,
                             size_t max, json_t **array) {
  TRY(get(rd, where, o, key, array));
  if (!json_is_array(*array)) return wrong_kind(rd, member(rd, where, key), *array, "an array");
  size_t n = json_array_size(*array);
  if (n >= min && n <= max) return ARKE_OK;
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s has %zu elements; accepted are %zu to %zu",
                   member(rd, where, key), n, min, max);
}

static arke_status get_exprs(reader *rd, const char *where, json_t *o, const char *key, size_t n,
                             const recipe_expr **list) {
  json_t *array;
  TRY(get_array(rd, where, o, key, n, n, &array));
  for (size_t i = 0; i < n; i++)
    TRY(to_expr(rd, item(rd, where, key, i), json_array_get(array, i), &list[i]));
  return ARKE_OK;
}

static arke_status get_numbers(reader *rd, const char *where, json_t *o, const char *key, size_t n,
                               uint32_t *list) {
  json_t *array;
  TRY(get_array(rd, where, o, key, n, n, &array));
  for (size_t i = 0; i < n; i++) {
    json_t *v = json_array_get(array, i);
    if (!json_is_integer(v)) return wrong_kind(rd, item(rd, where, key, i), v, "an integer");
    int64_t value = json_integer_value(v);
    if (value < 0 || value > UINT32_MAX)
      return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is %" PRId64 "; accepted are 0 to %u",
                       item(rd, where, key, i), value, UINT32_MAX);
    list[i] = (uint32_t)value;
  }
  return ARKE_OK;
}

static arke_status read_map(reader *rd, const char *where, json_t *o, recipe_tensormap *map) {
  json_t *dims;
  TRY(get_array(rd, where, o, "dim", 1, COUNT_OF(map->dim), &dims));
  size_t rank = json_array_size(dims);
  map->rank = (int)rank;
  TRY(get_exprs(rd, where, o, "dim", rank, map->dim));
  TRY(get_exprs(rd, where, o, "stride", rank - 1, map->stride + 1));
  TRY(get_numbers(rd, where, o, "box", rank, map->box));
  TRY(get_int(rd, where, o, "swizzle", &map->swizzle));
  return get_int(rd, where, o, "l2_promotion", &map->l2_promotion);
}

static arke_status read_kind(reader *rd, const char *where, json_t *o, recipe_param_kind *kind) {
  const char *text;
  TRY(get_string(rd, where, o, "kind", &text));
#define X(NAME, word)                                                                                        \
  if (strcmp(text, word) == 0) {                                                                             \
    *kind = RECIPE_PARAM_##NAME;                                                                             \
    return ARKE_OK;                                                                                          \
  }
  RECIPE_PARAM_KINDS(X)
#undef X
  static const char KNOWN[] =
#define X(NAME, word) " " word
      RECIPE_PARAM_KINDS(X)
#undef X
      ;
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is \"%s\"; known are%s", member(rd, where, "kind"),
                   text, KNOWN);
}

static arke_status read_dtype(reader *rd, const char *where, json_t *o, dtype *type) {
  const char *text;
  TRY(get_string(rd, where, o, "dtype", &text));
  if (dtype_from_name(text, type)) return ARKE_OK;
  return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s is \"%s\", which is no dtype",
                   member(rd, where, "dtype"), text);
}

static arke_status read_place(reader *rd, const char *where, json_t *o, recipe_param *p) {
  TRY(get_int(rd, where, o, "tensor", &p->tensor));
  return json_object_get(o, "offset") != NULL ? get_expr(rd, where, o, "offset", &p->value) : ARKE_OK;
}

static arke_status read_param(reader *rd, const char *where, json_t *o, recipe_param *p) {
  static const char *const MAP[] = {"kind",   "tensor", "offset",  "dim",
                                    "stride", "box",    "swizzle", "l2_promotion"};
  static const char *const WORKSPACE_MAP[] = {"kind",   "dtype", "value",   "dim",
                                              "stride", "box",   "swizzle", "l2_promotion"};
  static const char *const POINTER[] = {"kind", "tensor", "offset"};
  static const char *const VALUE[] = {"kind", "value"};
  static const char *const ATTR[] = {"kind", "attr"};
  if (!json_is_object(o)) return wrong_kind(rd, where, o, "an object");
  TRY(read_kind(rd, where, o, &p->kind));
  switch (p->kind) {
  case RECIPE_PARAM_POINTER:
    TRY(check_members(rd, where, o, POINTER, COUNT_OF(POINTER)));
    return read_place(rd, where, o, p);
  case RECIPE_PARAM_TENSORMAP:
    TRY(check_members(rd, where, o, MAP, COUNT_OF(MAP)));
    TRY(read_place(rd, where, o, p));
    return read_map(rd, where, o, &p->map);
  case RECIPE_PARAM_WORKSPACE_MAP:
    TRY(check_members(rd, where, o, WORKSPACE_MAP, COUNT_OF(WORKSPACE_MAP)));
    TRY(read_dtype(rd, where, o, &p->type));
    TRY(get_expr(rd, where, o, "value", &p->value));
    return read_map(rd, where, o, &p->map);
  case RECIPE_PARAM_F32:
    TRY(check_members(rd, where, o, ATTR, COUNT_OF(ATTR)));
    return get_string(rd, where, o, "attr", &p->attr);
  default:
    TRY(check_members(rd, where, o, VALUE, COUNT_OF(VALUE)));
    return get_expr(rd, where, o, "value", &p->value);
  }
}

static arke_status read_launch(reader *rd, const char *where, json_t *o, recipe_launch *l) {
  static const char *const MEMBERS[] = {"kernel",  "params",     "grid",       "block",
                                        "cluster", "smem_bytes", "early_start"};
  json_t *params;
  TRY(check_members(rd, where, o, MEMBERS, COUNT_OF(MEMBERS)));
  TRY(get_string(rd, where, o, "kernel", &l->kernel));
  TRY(get_array(rd, where, o, "params", 0, LIMIT_KERNEL_ARGS, &params));
  l->n_params = (int)json_array_size(params);
  l->params = ARENA_NEW_N(rd->arena, recipe_param, json_array_size(params));
  if (l->params == NULL) return error_memory(rd->err, STAGE);
  for (size_t i = 0; i < json_array_size(params); i++)
    TRY(read_param(rd, item(rd, where, "params", i), json_array_get(params, i), &l->params[i]));
  TRY(get_exprs(rd, where, o, "grid", 3, l->grid));
  TRY(get_numbers(rd, where, o, "block", 3, l->block));
  TRY(get_numbers(rd, where, o, "cluster", 3, l->cluster));
  if (json_object_get(o, "early_start") != NULL) TRY(get_bool(rd, where, o, "early_start", &l->early_start));
  return get_expr(rd, where, o, "smem_bytes", &l->smem_bytes);
}

static arke_status read_requirement(reader *rd, const char *where, json_t *o, recipe_requirement *q) {
  static const char *const MEMBERS[] = {"expr", "divisor", "equal", "max", "why"};
  TRY(check_members(rd, where, o, MEMBERS, COUNT_OF(MEMBERS)));
  TRY(get_expr(rd, where, o, "expr", &q->expr));
  TRY(get_string(rd, where, o, "why", &q->why));
  bool divisor = json_object_get(o, "divisor") != NULL, max = json_object_get(o, "max") != NULL;
  q->exact = json_object_get(o, "equal") != NULL;
  if (divisor + max + q->exact != 1)
    return error_set(rd->err, ARKE_ERR_INVALID, STAGE, "%s needs exactly one of divisor, equal and max",
                     where);
  if (divisor) return get_integer(rd, where, o, "divisor", 1, INT64_MAX, &q->divisor);
  if (q->exact) return get_integer(rd, where, o, "equal", INT64_MIN, INT64_MAX, &q->max);
  return get_integer(rd, where, o, "max", INT64_MIN, INT64_MAX, &q->max);
}

static arke_status read_tensor(reader *rd, const char *where, json_t *o, recipe_tensor_rule *t) {
  static const char *const MEMBERS[] = {"alignment", "contiguous_last", "dense"};
  TRY(check_members(rd, where, o, MEMBERS, COUNT_OF(MEMBERS)));
  TRY(get_int(rd, where, o, "alignment", &t->alignment));
  if (json_object_get(o, "dense") != NULL) TRY(get_bool(rd, where, o, "dense", &t->dense));
  return get_bool(rd, where, o, "contiguous_last", &t->contiguous_last);
}

static arke_status read_repeat(reader *rd, const char *where, json_t *o, recipe_repeat *repeat) {
  static const char *const MEMBERS[] = {"first", "launches", "rounds"};
  TRY(check_members(rd, where, o, MEMBERS, COUNT_OF(MEMBERS)));
  TRY(get_int(rd, where, o, "first", &repeat->first));
  TRY(get_int(rd, where, o, "launches", &repeat->n));
  return get_expr(rd, where, o, "rounds", &repeat->rounds);
}

static arke_status read_repeats(reader *rd, const char *where, json_t *root, recipe *r) {
  json_t *repeats, *value;
  size_t i;
  if (json_object_get(root, "repeats") == NULL) return ARKE_OK;
  TRY(get_array(rd, where, root, "repeats", 1, RECIPE_MAX_REPEATS, &repeats));
  r->n_repeats = (int)json_array_size(repeats);
  json_array_foreach(repeats, i, value)
      TRY(read_repeat(rd, item(rd, where, "repeats", i), value, &r->repeats[i]));
  return ARKE_OK;
}

static arke_status read_recipe(reader *rd, const char *where, int depth, json_t *root, recipe *r) {
  static const char *const MEMBERS[] = {"tensors", "requirements",    "launches",
                                        "repeats", "workspace_bytes", "otherwise"};
  json_t *tensors, *requirements, *launches;
  TRY(check_members(rd, where, root, MEMBERS, COUNT_OF(MEMBERS)));
  TRY(get_array(rd, where, root, "tensors", 1, LIMIT_TENSORS, &tensors));
  TRY(get_array(rd, where, root, "requirements", 0, RECIPE_MAX_REQUIREMENTS, &requirements));
  TRY(get_array(rd, where, root, "launches", 1, LIMIT_LAUNCHES, &launches));
  r->n_tensors = (int)json_array_size(tensors);
  r->n_requirements = (int)json_array_size(requirements);
  r->n_launches = (int)json_array_size(launches);
  r->requirements = ARENA_NEW_N(rd->arena, recipe_requirement, json_array_size(requirements));
  r->launches = ARENA_NEW_N(rd->arena, recipe_launch, json_array_size(launches));
  if (r->requirements == NULL || r->launches == NULL) return error_memory(rd->err, STAGE);
  size_t i;
  json_t *value;
  json_array_foreach(tensors, i, value)
      TRY(read_tensor(rd, item(rd, where, "tensors", i), value, &r->tensors[i]));
  json_array_foreach(requirements, i, value)
      TRY(read_requirement(rd, item(rd, where, "requirements", i), value, &r->requirements[i]));
  json_array_foreach(launches, i, value)
      TRY(read_launch(rd, item(rd, where, "launches", i), value, &r->launches[i]));
  TRY(read_repeats(rd, where, root, r));
  if (json_object_get(root, "workspace_bytes") != NULL)
    TRY(get_expr(rd, where, root, "workspace_bytes", &r->workspace_bytes));
  json_t *otherwise = json_object_get(root, "otherwise");
  if (otherwise == NULL) return ARKE_OK;
  const char *place = member(rd, where, "otherwise");
  if (depth == RECIPE_MAX_OTHERWISE)
    return error_set(rd->err, ARKE_ERR_INVALID, STAGE,
                     "%s is the recipe too many; accepted are %d behind the first", place,
                     RECIPE_MAX_OTHERWISE);
  recipe *next = ARENA_NEW(rd->arena, recipe);
  if (next == NULL) return error_memory(rd->err, STAGE);
  r->otherwise = next;
  return read_recipe(rd, place, depth + 1, otherwise, next);
}

arke_status recipe_parse(arena *a, const char *json, size_t length, recipe *r, arke_error *err) {
  memset(r, 0, sizeof *r);
  json_error_t e;
  json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &e);
  if (root == NULL) {
    if (json_error_code(&e) == json_error_out_of_memory) return error_memory(err, STAGE);
    return error_set(err, ARKE_ERR_SYNTAX, STAGE, "the recipe is not JSON: line %d, column %d: %s", e.line,
                     e.column, e.text);
  }
  reader rd = {.arena = a, .err = err};
  arke_status status = read_recipe(&rd, "", 0, root, r);
  if (status == ARKE_OK && rd.starved) status = error_memory(err, STAGE);
  if (status == ARKE_OK) status = recipe_check(r, err);
  json_decref(root);
  return status;
}
