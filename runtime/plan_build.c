#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda_device.h"
#include "runtime/launch_recipe.h"
#include "runtime/plan.h"

#define STAGE "plan"

/* One builder: the recipe that takes the call, and the variables of its expressions. */
typedef struct builder {
  const call *call;
  const bound_call *bound;
  const cache_problem *problem;
  const recipe *recipe; /* NULL: nothing is launched */
  arena *scratch;
  recipe_call view;
  arke_plan *plan;
  arke_error *err;
} builder;

static arke_status read_call(builder *b, int sm_count) {
  recipe_tensor tensors[LIMIT_TENSORS];
  recipe_binding sizes[LIMIT_AXES];
  int n_sizes = 0;
  for (int i = 0; i < b->bound->n; i++) {
    const bound_name *n = &b->bound->names[i];
    if (n->kind != BOUND_AXIS || strcmp(n->name, "...") == 0) continue;
    if (n_sizes == LIMIT_AXES)
      return error_set(b->err, ARKE_ERR_CORRUPT, STAGE, "a stored signature has more than %d axes",
                       LIMIT_AXES);
    sizes[n_sizes++] = (recipe_binding){n->name, n->size};
  }
  for (int i = 0; i < b->problem->n_tensors; i++) {
    const cache_tensor *t = &b->problem->tensors[i];
    const call_tensor *from = bound_tensor(b->bound, b->call, i);
    tensors[i] = (recipe_tensor){.name = t->name,
                                 .output = t->output,
                                 .rank = from->rank,
                                 .leading = t->any_rank ? from->rank - t->rank : -1,
                                 .address = from->address};
    memcpy(tensors[i].shape, from->shape, sizeof tensors[i].shape);
    memcpy(tensors[i].stride, from->stride, sizeof tensors[i].stride);
  }
  return recipe_call_make(tensors, b->problem->n_tensors, sizes, n_sizes, sm_count, b->scratch, &b->view,
                          b->err);
}

static arke_status evaluate(builder *b, const recipe_expr *e, int64_t min, int64_t max, const char *what,
                            int64_t *value) {
  TRY(recipe_call_eval(&b->view, e, value, b->err));
  if (*value >= min && *value <= max) return ARKE_OK;
  return error_set(b->err, ARKE_ERR_UNSUPPORTED, STAGE,
                   "%s would be %" PRId64 "; accepted are %" PRId64 " to %" PRId64, what, *value, min, max);
}

/* --- parameters -------------------------------------------------------------------------------------- */

/* The 64-bit word of a map that is its address, found by encoding a second one: a map is opaque, and asking
 * the driver to replace the address costs a call each run. -1 when more than one word differs. */
static int find_address_word(builder *b, const device_tensormap_desc *desc, const device_tensormap *map) {
  const uint64_t probe = UINT64_C(0x5A5A5A5A5A00);
  device_tensormap_desc other = *desc;
  device_tensormap second;
  other.address = probe;
  if (b->plan->device->ops->tensormap_encode(b->plan->device, &other, &second, NULL) != ARKE_OK) return -1;
  int found = -1;
  for (int i = 0; i < (int)(sizeof map->opaque / 8); i++) {
    uint64_t x, y;
    memcpy(&x, map->opaque + 8 * i, 8);
    memcpy(&y, second.opaque + 8 * i, 8);
    if (x == y) continue;
    if (found >= 0 || x != desc->address || y != probe) return -1;
    found = i;
  }
  return found;
}

/* An address that is not known yet gets a stand-in that has every alignment; each run puts the real one in.
 */
static arke_status encode_map(builder *b, const recipe_param *p, dtype type, uint64_t address,
                              const char *name, plan_param *out) {
  device_tensormap_desc desc;
  TRY(launch_describe_map(p, &b->view, type, address != 0 ? address : 1 << 20, name, &desc, b->err));
  /* The arena aligns to 16 only. The pointer must not have the map's type before it has the map's alignment:
   * the compiler would take it for aligned and drop the rounding. */
  void *room = arena_alloc(&b->plan->memory, sizeof(device_tensormap) + _Alignof(device_tensormap) - 16);
  if (room == NULL) return error_memory(b->err, STAGE);
  uintptr_t mask = _Alignof(device_tensormap) - 1;
  device_tensormap *encoded = (device_tensormap *)(((uintptr_t)room + mask) & ~mask);
  TRY(b->plan->device->ops->tensormap_encode(b->plan->device, &desc, encoded, b->err));
  out->map = encoded;
  out->address = desc.address;
  out->address_word = find_address_word(b, &desc, encoded);
  return ARKE_OK;
}

static arke_status attribute_bits(builder *b, const char *name, uint64_t *bits) {
  const bound_name *n = bound_find(b->bound, name, strlen(name));
  if (n == NULL || n->kind != BOUND_ATTR)
    return error_set(b->err, ARKE_ERR_CORRUPT, STAGE,
                     "the stored recipe reads attribute \"%s\", which the operator lacks", name);
  float value = (float)n->value;
  memcpy(bits, &value, sizeof value);
  return ARKE_OK;
}

static arke_status build_param(builder *b, const recipe_param *p, plan_param *out) {
  int64_t value = 0;
  out->kind = p->kind;
  out->tensor = b->bound->given[p->tensor]; /* checked below n_tensors, also where it means nothing */
  switch (p->kind) {
  case RECIPE_PARAM_POINTER:
  case RECIPE_PARAM_TENSORMAP:
    if (p->value != NULL) TRY(evaluate(b, p->value, 0, INT64_MAX, "an offset into a tensor", &value));
    if (p->kind == RECIPE_PARAM_POINTER) break;
    const call_tensor *t = bound_tensor(b->bound, b->call, p->tensor);
    uint64_t address = t->address != 0 ? t->address + (uint64_t)value : 0;
    TRY(encode_map(b, p, t->type, address, b->problem->tensors[p->tensor].name, out));
    break;
  case RECIPE_PARAM_F32: return attribute_bits(b, p->attr, &out->value);
  case RECIPE_PARAM_I32:
    TRY(evaluate(b, p->value, INT32_MIN, INT32_MAX, "a 32-bit parameter of the kernel", &value));
    break;
  case RECIPE_PARAM_I64: TRY(evaluate(b, p->value, INT64_MIN, INT64_MAX, "a parameter", &value)); break;
  case RECIPE_PARAM_WORKSPACE_MAP:
    TRY(encode_map(b, p, p->type, 0, NULL, out));
    /* fall through */
  case RECIPE_PARAM_WORKSPACE:
    TRY(evaluate(b, p->value, 0, (int64_t)b->plan->workspace_bytes, "an offset into the workspace", &value));
    break;
  }
  out->value = (uint64_t)value;
  return ARKE_OK;
}

/* --- launches ---------------------------------------------------------------------------------------- */

static arke_status build_grid(builder *b, const recipe_launch *l, device_launch *out) {
  static const int64_t MOST[3] = {INT32_MAX, UINT16_MAX,
                                  UINT16_MAX}; /* CUDA C programming guide, grid limits */
  for (int i = 0; i < 3; i++) {
    int64_t value;
    TRY(evaluate(b, l->grid[i], 0, MOST[i], "a dimension of the grid", &value));
    if (value % l->cluster[i] != 0)
      return error_set(b->err, ARKE_ERR_UNSUPPORTED, STAGE,
                       "the grid has %" PRId64 " blocks in dimension %d, which is no "
                       "multiple of the cluster's %u",
                       value, i, l->cluster[i]);
    out->grid[i] = (uint32_t)value;
    out->block[i] = l->block[i];
    out->cluster[i] = l->cluster[i];
  }
  out->early_start = l->early_start;
  return ARKE_OK;
}

static arke_status build_launch(builder *b, const recipe_launch *l, plan_launch *out) {
  int64_t smem;
  TRY(build_grid(b, l, &out->launch));
  TRY(evaluate(b, l->smem_bytes, 0, INT32_MAX, "shared memory", &smem));
  out->launch.smem_bytes = (uint32_t)smem;
  out->launch.n_args = l->n_params;
  out->params = ARENA_NEW_N(&b->plan->memory, plan_param, (size_t)l->n_params);
  if (out->params == NULL) return error_memory(b->err, STAGE);
  for (int i = 0; i < l->n_params; i++) TRY(build_param(b, &l->params[i], &out->params[i]));
  device *d = b->plan->device;
  return d->ops->kernel_get(d, b->plan->module->module, l->kernel, out->launch.smem_bytes, &out->kernel,
                            b->err);
}

/* A workspace that no memory can hold is refused here: whoever allocates it would learn of bytes alone. */
static arke_status find_workspace(builder *b, const device_info *info) {
  int64_t bytes;
  if (b->recipe->workspace_bytes == NULL) return ARKE_OK;
  TRY(evaluate(b, b->recipe->workspace_bytes, 0, LIMIT_AXIS_SIZE, "the workspace", &bytes));
  if (info->memory_bytes > 0 && bytes > info->memory_bytes)
    return error_set(b->err, ARKE_ERR_UNSUPPORTED, STAGE,
                     "the kernels need a workspace of %.1f GB; %s has %.1f GB of memory in all",
                     (double)bytes / 1e9, info->name, (double)info->memory_bytes / 1e9);
  b->plan->workspace_bytes = (size_t)bytes;
  return ARKE_OK;
}

static arke_status build_launches(builder *b, arke_context *ctx, const cache_entry *e) {
  arke_plan *p = b->plan;
  TRY(context_module(ctx, p->device, e, &p->module, b->err));
  const recipe_turn *turns;
  int n;
  TRY(recipe_turns(b->recipe, &b->view, b->scratch, &turns, &n, b->err));
  p->launches = ARENA_NEW_N(&p->memory, plan_launch, (size_t)n);
  if (p->launches == NULL) return error_memory(b->err, STAGE);
  for (int i = 0; i < n; i++) {
    plan_launch *l = &p->launches[p->n_launches];
    recipe_call_set_round(&b->view, turns[i].round);
    TRY(build_launch(b, &b->recipe->launches[turns[i].launch], l));
    bool empty = l->launch.grid[0] == 0 || l->launch.grid[1] == 0 || l->launch.grid[2] == 0;
    if (!empty) p->n_launches++;
  }
  return ARKE_OK;
}

/* --- the plan ---------------------------------------------------------------------------------------- */

/* What the signature says of the call's tensors; of one that is written in place, it speaks twice. */
static arke_status name_tensors(builder *b) {
  for (int i = 0; i < b->problem->n_tensors; i++) {
    const cache_tensor *t = &b->problem->tensors[i];
    plan_tensor *to = &b->plan->tensors[b->bound->given[i]];
    uint64_t mask = b->recipe != NULL ? (uint64_t)b->recipe->tensors[i].alignment - 1 : 0;
    to->alignment_mask |= mask; /* powers of two: the larger one */
    to->written_only = t->output && to->name == NULL;
    if (to->name == NULL) to->name = arena_strdup(&b->plan->memory, t->name);
    if (to->name == NULL) return error_memory(b->err, STAGE);
  }
  return ARKE_OK;
}

static arke_status build_tensors(builder *b, call_place place) {
  arke_plan *p = b->plan;
  p->n_tensors = b->call->n_tensors;
  p->tensors = ARENA_NEW_N(&p->memory, plan_tensor, (size_t)p->n_tensors);
  if (p->tensors == NULL) return error_memory(b->err, STAGE);
  for (int i = 0; i < p->n_tensors; i++) {
    const call_tensor *from = &b->call->tensors[i];
    plan_tensor *to = &p->tensors[i];
    to->type = (DLDataType){dtype_dlpack_code(from->type), (uint8_t)dtype_bits(from->type), 1};
    to->device = (DLDevice){place.type, place.device_index};
    to->rank = from->rank;
    to->compact = from->compact;
    to->empty = from->empty;
    to->span_bytes = (size_t)from->span_bytes;
    memcpy(to->shape, from->shape, sizeof to->shape);
    memcpy(to->stride, from->stride, sizeof to->stride);
    for (int axis = 0; axis < from->rank; axis++)
      if (from->shape[axis] > 1 && !from->empty) to->strided |= 1u << axis;
  }
  return name_tensors(b);
}

static arke_status build_info(builder *b, const match_candidate *c) {
  arke_plan *p = b->plan;
  strbuf key = STRBUF_INIT;
  cache_key_print(&c->entry->problem, &key);
  p->op = arena_strdup(&p->memory, b->call->op);
  p->info = (arke_plan_info){
      .match = c->match,
      .modelled = c->entry->winner.origin == CACHE_ORIGIN_MODELLED,
      .time_ns = c->entry->winner.time.median_ns,
      .key = strbuf_failed(&key) ? NULL : arena_strdup(&p->memory, strbuf_text(&key)),
      .config = arena_strdup(&p->memory, c->entry->winner.config),
      .cache_path = arena_strdup(&p->memory, cache_path(c->route->cache)),
      .launches = p->n_launches,
  };
  strbuf_free(&key);
  bool complete =
      p->op != NULL && p->info.key != NULL && p->info.config != NULL && p->info.cache_path != NULL;
  return complete ? ARKE_OK : error_memory(b->err, STAGE);
}

static arke_status build(builder *b, arke_context *ctx, const match_candidate *c) {
  arke_plan *p = b->plan;
  cache_entry entry = *c->entry; /* its own: with the kernel */
  device_info info;
  TRY(context_device(ctx, c->route->target, &p->device, b->err));
  if (call_outputs_empty(b->call, b->bound)) { /* nothing to launch, so no kernel's assumptions count */
    TRY(build_tensors(b, context_place(ctx)));
    return build_info(b, c);
  }
  TRY(cache_load_kernel(c->route->cache, b->scratch, &entry, b->err));
  recipe stored;
  const char *text = entry.kernel.recipe_json;
  TRY(recipe_parse(b->scratch, text, strlen(text), &stored, b->err));
  p->set_address =
      ctx->gpu != NULL ? cuda_tensormap_set_address_entered : p->device->ops->tensormap_set_address;
  p->launch = ctx->gpu != NULL ? cuda_launch_entered : p->device->ops->launch;
  TRY(p->device->ops->info(p->device, &info, b->err));
  TRY(read_call(b, info.sm_count));
  TRY(recipe_choose(&stored, &b->view, &b->recipe, b->err));
  TRY(build_tensors(b, context_place(ctx)));
  TRY(find_workspace(b, &info));
  TRY(build_launches(b, ctx, &entry));
  return build_info(b, c);
}

arke_status plan_build(arke_context *ctx, const call *c, const match_candidate *candidate, arke_plan **plan,
                       arke_error *err) {
  *plan = NULL;
  arke_plan *p = calloc(1, sizeof *p);
  arena scratch = ARENA_INIT;
  if (p == NULL) return error_memory(err, STAGE);
  p->ctx = ctx;
  builder b = {.call = c,
               .bound = &candidate->route->bound,
               .problem = candidate->route->bound.signature,
               .scratch = &scratch,
               .plan = p,
               .err = err};
  arke_status status = build(&b, ctx, candidate);
  arena_release(&scratch);
  if (status != ARKE_OK) {
    error_context(err, c->op, candidate->entry->winner.config);
    plan_free(p);
    return status;
  }
  *plan = p;
  return ARKE_OK;
}

void plan_free(arke_plan *p) {
  if (p->module != NULL) context_module_release(p->ctx, p->module);
  arena_release(&p->memory);
  free(p);
}
