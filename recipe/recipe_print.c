#include <jansson.h>

#include "recipe/recipe.h"

#define STAGE "recipe"

static const char *const KIND_TEXT[] = {
#define X(NAME, text) text,
    RECIPE_PARAM_KINDS(X)
#undef X
};

/* Building fails only when memory is out; `failed` is sticky so that builders need not check each step. */
typedef struct printer {
  bool failed;
} printer;

static void put(printer *p, json_t *object, const char *key, json_t *value) {
  if (json_object_set_new(object, key, value) != 0) p->failed = true;
}

static void append(printer *p, json_t *array, json_t *value) {
  if (json_array_append_new(array, value) != 0) p->failed = true;
}

static json_t *expr_text(printer *p, const recipe_expr *e) {
  strbuf text = STRBUF_INIT;
  recipe_expr_print(&text, e);
  if (strbuf_failed(&text)) p->failed = true;
  json_t *value = json_string(strbuf_text(&text));
  strbuf_free(&text);
  return value;
}

static json_t *exprs(printer *p, const recipe_expr *const *list, int n) {
  json_t *array = json_array();
  for (int i = 0; i < n; i++) append(p, array, expr_text(p, list[i]));
  return array;
}

static json_t *numbers(printer *p, const uint32_t *list, int n) {
  json_t *array = json_array();
  for (int i = 0; i < n; i++) append(p, array, json_integer(list[i]));
  return array;
}

static void put_map(printer *p, json_t *o, const recipe_tensormap *map) {
  put(p, o, "dim", exprs(p, map->dim, map->rank));
  put(p, o, "stride", exprs(p, map->stride + 1, map->rank - 1));
  put(p, o, "box", numbers(p, map->box, map->rank));
  put(p, o, "swizzle", json_integer(map->swizzle));
  put(p, o, "l2_promotion", json_integer(map->l2_promotion));
}

static json_t *param_json(printer *p, const recipe_param *param) {
  json_t *o = json_object();
  put(p, o, "kind", json_string(KIND_TEXT[param->kind]));
  switch (param->kind) {
  case RECIPE_PARAM_TENSORMAP:
    put(p, o, "tensor", json_integer(param->tensor));
    if (param->value != NULL) put(p, o, "offset", expr_text(p, param->value));
    put_map(p, o, &param->map);
    break;
  case RECIPE_PARAM_WORKSPACE_MAP:
    put(p, o, "dtype", json_string(dtype_name(param->type)));
    put(p, o, "value", expr_text(p, param->value));
    put_map(p, o, &param->map);
    break;
  case RECIPE_PARAM_POINTER:
    put(p, o, "tensor", json_integer(param->tensor));
    if (param->value != NULL) put(p, o, "offset", expr_text(p, param->value));
    break;
  case RECIPE_PARAM_I32:
  case RECIPE_PARAM_I64:
  case RECIPE_PARAM_WORKSPACE: put(p, o, "value", expr_text(p, param->value)); break;
  case RECIPE_PARAM_F32: put(p, o, "attr", json_string(param->attr)); break;
  }
  return o;
}

static json_t *launch_json(printer *p, const recipe_launch *l) {
  json_t *o = json_object(), *params = json_array();
  for (int i = 0; i < l->n_params; i++) append(p, params, param_json(p, &l->params[i]));
  put(p, o, "kernel", json_string(l->kernel));
  put(p, o, "params", params);
  put(p, o, "grid", exprs(p, l->grid, 3));
  put(p, o, "block", numbers(p, l->block, 3));
  put(p, o, "cluster", numbers(p, l->cluster, 3));
  put(p, o, "smem_bytes", expr_text(p, l->smem_bytes));
  if (l->early_start) put(p, o, "early_start", json_true());
  return o;
}

static json_t *requirement_json(printer *p, const recipe_requirement *q) {
  json_t *o = json_object();
  put(p, o, "expr", expr_text(p, q->expr));
  if (q->divisor != 0)
    put(p, o, "divisor", json_integer(q->divisor));
  else
    put(p, o, q->exact ? "equal" : "max", json_integer(q->max));
  put(p, o, "why", json_string(q->why));
  return o;
}

static json_t *tensor_json(printer *p, const recipe_tensor_rule *t) {
  json_t *o = json_object();
  put(p, o, "alignment", json_integer(t->alignment));
  put(p, o, "contiguous_last", json_boolean(t->contiguous_last));
  if (t->dense) put(p, o, "dense", json_true());
  return o;
}

static json_t *repeat_json(printer *p, const recipe_repeat *repeat) {
  json_t *o = json_object();
  put(p, o, "first", json_integer(repeat->first));
  put(p, o, "launches", json_integer(repeat->n));
  put(p, o, "rounds", expr_text(p, repeat->rounds));
  return o;
}

static json_t *recipe_json(printer *p, const recipe *r) {
  json_t *root = json_object();
  json_t *tensors = json_array(), *requirements = json_array(), *launches = json_array();
  for (int i = 0; i < r->n_tensors; i++) append(p, tensors, tensor_json(p, &r->tensors[i]));
  for (int i = 0; i < r->n_requirements; i++)
    append(p, requirements, requirement_json(p, &r->requirements[i]));
  for (int i = 0; i < r->n_launches; i++) append(p, launches, launch_json(p, &r->launches[i]));
  put(p, root, "tensors", tensors);
  put(p, root, "requirements", requirements);
  put(p, root, "launches", launches);
  json_t *repeats = r->n_repeats > 0 ? json_array() : NULL;
  for (int i = 0; i < r->n_repeats; i++) append(p, repeats, repeat_json(p, &r->repeats[i]));
  if (r->n_repeats > 0) put(p, root, "repeats", repeats);
  if (r->workspace_bytes != NULL) put(p, root, "workspace_bytes", expr_text(p, r->workspace_bytes));
  if (r->otherwise != NULL) put(p, root, "otherwise", recipe_json(p, r->otherwise)); /* checked: not deep */
  return root;
}

static int write_chunk(const char *bytes, size_t n, void *out) {
  strbuf_add_bytes(out, bytes, n);
  return strbuf_failed(out) ? -1 : 0;
}

arke_status recipe_print(const recipe *r, strbuf *out, arke_error *err) {
  TRY(recipe_check(r, err));
  printer p = {false};
  json_t *root = recipe_json(&p, r);
  if (!p.failed && json_dump_callback(root, write_chunk, out, JSON_COMPACT) != 0) p.failed = true;
  json_decref(root);
  /* Jansson also refuses strings that are not UTF-8; a template's names always are. */
  return p.failed ? error_memory(err, STAGE) : ARKE_OK;
}
