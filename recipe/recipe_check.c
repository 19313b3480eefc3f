#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "recipe/recipe.h"

#define STAGE "recipe"

enum {
  MAX_ALIGNMENT = 1024,     /* a kernel wants at most a swizzle atom's alignment */
  MAX_BOX = 256,            /* cuTensorMapEncodeTiled: boxDim[i] <= 256 */
  MAX_BLOCK_THREADS = 1024, /* CUDA C programming guide, compute capabilities */
  MAX_BLOCK_Z = 64,
  MAX_CLUSTER = 16, /* 8 is portable; 16 needs an attribute of the function */
  MAX_PARAM_BYTES = 4096,
};

typedef struct place {
  char text[128];
} place;

static place at(const char *format, ...) __attribute__((format(printf, 1, 2)));
static place at(const char *format, ...) {
  place p;
  va_list args;
  va_start(args, format);
  vsnprintf(p.text, sizeof p.text, format, args);
  va_end(args);
  return p;
}

static arke_status check_range(place where, int64_t value, int64_t min, int64_t max, arke_error *err) {
  if (value >= min && value <= max) return ARKE_OK;
  return error_set(err, ARKE_ERR_INVALID, STAGE, "%s is %" PRId64 "; accepted are %" PRId64 " to %" PRId64,
                   where.text, value, min, max);
}

static arke_status check_present(place where, const void *p, arke_error *err) {
  return p != NULL ? ARKE_OK : error_set(err, ARKE_ERR_INVALID, STAGE, "%s is missing", where.text);
}

static arke_status check_map(const char *param, const recipe_tensormap *map, arke_error *err) {
  TRY(check_range(at("%s.rank", param), map->rank, 1, 5, err));
  for (int i = 0; i < map->rank; i++) {
    TRY(check_present(at("%s.dim[%d]", param, i), map->dim[i], err));
    if (i > 0) TRY(check_present(at("%s.stride[%d]", param, i - 1), map->stride[i], err));
    TRY(check_range(at("%s.box[%d]", param, i), map->box[i], 1, MAX_BOX, err));
  }
  TRY(check_range(at("%s.swizzle", param), map->swizzle, 0, 3, err));
  return check_range(at("%s.l2_promotion", param), map->l2_promotion, 0, 3, err);
}

static arke_status check_param(const recipe *r, const char *where, const recipe_param *p, int *bytes,
                               arke_error *err) {
  switch (p->kind) {
  case RECIPE_PARAM_TENSORMAP:
    *bytes += 128;
    TRY(check_range(at("%s.tensor", where), p->tensor, 0, r->n_tensors - 1, err));
    return check_map(where, &p->map, err);
  case RECIPE_PARAM_WORKSPACE_MAP:
    *bytes += 128;
    TRY(check_range(at("the bits of %s.dtype", where), dtype_bits(p->type), 8, 64, err));
    TRY(check_present(at("%s.value", where), p->value, err));
    return check_map(where, &p->map, err);
  case RECIPE_PARAM_POINTER:
    *bytes += 8;
    return check_range(at("%s.tensor", where), p->tensor, 0, r->n_tensors - 1, err);
  case RECIPE_PARAM_I32:
  case RECIPE_PARAM_I64:
  case RECIPE_PARAM_WORKSPACE: *bytes += 8; return check_present(at("%s.value", where), p->value, err);
  case RECIPE_PARAM_F32: *bytes += 8; return check_present(at("%s.attr", where), p->attr, err);
  }
  return error_set(err, ARKE_ERR_INVALID, STAGE, "%s.kind is none of the parameter kinds", where);
}

static arke_status check_block(const char *where, const recipe_launch *l, arke_error *err) {
  uint64_t threads = 1, ctas = 1;
  for (int i = 0; i < 3; i++) {
    TRY(check_range(at("%s.block[%d]", where, i), l->block[i], 1, i == 2 ? MAX_BLOCK_Z : MAX_BLOCK_THREADS,
                    err));
    TRY(check_range(at("%s.cluster[%d]", where, i), l->cluster[i], 1, MAX_CLUSTER, err));
    threads *= l->block[i];
    ctas *= l->cluster[i];
  }
  TRY(check_range(at("the threads of %s.block", where), (int64_t)threads, 1, MAX_BLOCK_THREADS, err));
  return check_range(at("the blocks of %s.cluster", where), (int64_t)ctas, 1, MAX_CLUSTER, err);
}

static arke_status check_launch(const recipe *r, int index, arke_error *err) {
  const recipe_launch *l = &r->launches[index];
  place where = at("launches[%d]", index);
  TRY(check_present(at("%s.kernel", where.text), l->kernel, err));
  TRY(check_range(at("the length of %s.kernel", where.text), (int64_t)strlen(l->kernel), 1,
                  LIMIT_NAME_BYTES - 1, err));
  TRY(check_range(at("the number of %s.params", where.text), l->n_params, 0, LIMIT_KERNEL_ARGS, err));
  int bytes = 0;
  for (int i = 0; i < l->n_params; i++)
    TRY(check_param(r, at("%s.params[%d]", where.text, i).text, &l->params[i], &bytes, err));
  TRY(check_range(at("the size of %s.params", where.text), bytes, 0, MAX_PARAM_BYTES, err));
  for (int i = 0; i < 3; i++) TRY(check_present(at("%s.grid[%d]", where.text, i), l->grid[i], err));
  TRY(check_block(where.text, l, err));
  return check_present(at("%s.smem_bytes", where.text), l->smem_bytes, err);
}

static arke_status check_requirement(int index, const recipe_requirement *q, arke_error *err) {
  place where = at("requirements[%d]", index);
  TRY(check_present(at("%s.expr", where.text), q->expr, err));
  TRY(check_present(at("%s.why", where.text), q->why, err));
  return check_range(at("%s.divisor", where.text), q->divisor, 0, INT64_MAX, err);
}

static arke_status check_repeats(const recipe *r, arke_error *err) {
  TRY(check_range(at("the number of repeats"), r->n_repeats, 0, RECIPE_MAX_REPEATS, err));
  int after = 0; /* the launches before */
  for (int i = 0; i < r->n_repeats; i++) {
    const recipe_repeat *x = &r->repeats[i];
    TRY(check_range(at("repeats[%d].first", i), x->first, after, r->n_launches - 1, err));
    TRY(check_range(at("repeats[%d].launches", i), x->n, 1, r->n_launches - x->first, err));
    TRY(check_present(at("repeats[%d].rounds", i), x->rounds, err));
    after = x->first + x->n;
  }
  return ARKE_OK;
}

static arke_status check_alternative(const recipe *r, arke_error *err) {
  TRY(check_range(at("the number of tensors"), r->n_tensors, 1, LIMIT_TENSORS, err));
  for (int i = 0; i < r->n_tensors; i++) {
    int alignment = r->tensors[i].alignment;
    TRY(check_range(at("tensors[%d].alignment", i), alignment, 1, MAX_ALIGNMENT, err));
    if ((alignment & (alignment - 1)) != 0)
      return error_set(err, ARKE_ERR_INVALID, STAGE, "tensors[%d].alignment is %d, which is no power of two",
                       i, alignment);
  }
  TRY(check_range(at("the number of requirements"), r->n_requirements, 0, RECIPE_MAX_REQUIREMENTS, err));
  for (int i = 0; i < r->n_requirements; i++) TRY(check_requirement(i, &r->requirements[i], err));
  TRY(check_range(at("the number of launches"), r->n_launches, 1, LIMIT_LAUNCHES, err));
  for (int i = 0; i < r->n_launches; i++) TRY(check_launch(r, i, err));
  return check_repeats(r, err);
}

arke_status recipe_check(const recipe *r, arke_error *err) {
  int depth = 0;
  for (const recipe *x = r; x != NULL; x = x->otherwise, depth++) {
    if (depth > RECIPE_MAX_OTHERWISE)
      return error_set(err, ARKE_ERR_INVALID, STAGE, "more than %d recipes follow one another as otherwise",
                       RECIPE_MAX_OTHERWISE);
    arke_error inner = ARKE_ERROR_INIT;
    arke_status status = check_alternative(x, &inner);
    if (status == ARKE_OK && x->n_tensors != r->n_tensors)
      status = error_set(&inner, ARKE_ERR_INVALID, STAGE,
                         "the number of tensors is %d; the first recipe has %d", x->n_tensors, r->n_tensors);
    if (status != ARKE_OK && depth == 0) return error_set(err, status, STAGE, "%s", inner.text);
    if (status != ARKE_OK) return error_set(err, status, STAGE, "otherwise %d: %.1900s", depth, inner.text);
  }
  return ARKE_OK;
}
