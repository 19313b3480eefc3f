#include "runtime/plan.h"

#define STAGE "plan"

enum {
  MOST_TRIED = 64
}; /* candidates farther away than this many would be poor, and each is read from disk */

/* Memory and broken caches end the search; anything else says that this candidate does not serve the call. */
static bool is_refusal(arke_status status) {
  return status != ARKE_ERR_MEMORY && status != ARKE_ERR_IO && status != ARKE_ERR_INTERNAL;
}

static arke_status pass_on(const arke_error *why, arke_error *err) {
  if (err != NULL && err->code == ARKE_OK) *err = *why;
  return why->code;
}

/* Why no candidate of one call served. */
typedef struct refusals {
  arke_error first;
  bool others; /* some were refused for other reasons than what the tensors are */
} refusals;

/* The first candidate whose kernel's assumptions hold. */
static arke_status first_that_serves(arke_context *ctx, const call *c, const match_candidate *list, int n,
                                     arke_plan **plan, refusals *r, arke_error *err) {
  for (int i = 0; i < n && i < MOST_TRIED; i++) {
    arke_error why = ARKE_ERROR_INIT;
    arke_status status = plan_build(ctx, c, &list[i], plan, &why);
    if (status == ARKE_OK) return ARKE_OK;
    if (r->first.code == ARKE_OK) r->first = why;
    r->others |= status != ARKE_ERR_SHAPE && status != ARKE_ERR_ARGUMENT;
    if (!is_refusal(status)) return pass_on(&why, err);
  }
  return ARKE_OK;
}

/* Nothing is computed, so an entry of the same operator and dtypes says enough, measured or not. */
static arke_status serve_empty(arke_context *ctx, const call *c, const match_miss *nearest, arke_plan **plan,
                               arke_error *err) {
  if (!nearest->found || nearest->n_other > 0) return ARKE_OK;
  match_candidate any = {.route = nearest->route, .match = ARKE_MATCH_DEFAULT, .entry = &nearest->entry};
  return plan_build(ctx, c, &any, plan, err);
}

static arke_status report_miss(const arke_context *ctx, const match_query *q, const match_route *asked,
                               const match_miss *miss, bool empty, const arke_error *refusal,
                               arke_error *err) {
  strbuf text = STRBUF_INIT;
  if (refusal->code != ARKE_OK) strbuf_addf(&text, "a stored kernel was refused (%.600s); ", refusal->text);
  match_print_miss(q, miss, asked, empty, &text);
  arke_status status = error_set(err, ARKE_ERR_NOT_TUNED, STAGE, "no %sentry serves this call: %s",
                                 ctx->strict ? "exact " : "", strbuf_text(&text));
  strbuf_free(&text);
  return status;
}

static arke_status find(arke_context *ctx, const call *c, arena *a, arke_plan **plan, arke_error *err) {
  match_query q = {.call = c,
                   .caches = ctx->caches,
                   .n_caches = ctx->n_caches,
                   .targets = ctx->targets,
                   .n_targets = ctx->n_targets,
                   .modelled_too = ctx->allow_modelled,
                   .fast_math = ctx->fast_math,
                   .check_indices = ctx->check_indices,
                   .index = &ctx->index};
  match_route *routes;
  match_candidate *list;
  match_miss miss;
  int n_routes, n;
  refusals exact = {.first = ARKE_ERROR_INIT}, other = {.first = ARKE_ERROR_INIT};
  TRY(match_routes(&q, a, &routes, &n_routes, err));
  bool empty = call_outputs_empty(c, &routes[0].bound);
  TRY(match_exact(&q, routes, n_routes, a, &list, &n, err));
  TRY(first_that_serves(ctx, c, list, n, plan, &exact, err));
  if (*plan != NULL) return ARKE_OK;
  TRY(match_others(&q, routes, n_routes, a, &list, &n, &miss, err));
  if (empty) TRY(serve_empty(ctx, c, &miss, plan, err));
  if (*plan != NULL) return ARKE_OK;
  if (ctx->strict) {
    int n_exact = 0; /* the list starts with entries whose bindings only were written differently */
    while (n_exact < n && list[n_exact].match == ARKE_MATCH_EXACT) n_exact++;
    n = n_exact;
  }
  TRY(first_that_serves(ctx, c, list, n, plan, &other, err));
  if (*plan != NULL) return ARKE_OK;
  /* Tuned for exactly this, yet refused: tuning again would change nothing, the tensors have to. Nor would it
   * where every kernel nearby refuses the tensors. */
  if (exact.first.code != ARKE_OK) return pass_on(&exact.first, err);
  if (other.first.code != ARKE_OK && !other.others) return pass_on(&other.first, err);
  return report_miss(ctx, &q, &routes[0], &miss, empty, &other.first, err);
}

arke_status arke_plan_create(arke_context *ctx, const char *op, const DLTensor *const *tensors, int n_tensors,
                             const arke_attr *attrs, int n_attrs, arke_plan **plan, arke_error *err) {
  if (plan == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "plan is NULL");
  *plan = NULL;
  if (ctx == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "ctx is NULL");
  call c;
  arke_status status = call_read(op, tensors, n_tensors, attrs, n_attrs, context_place(ctx), &c, err);
  if (status == ARKE_OK) {
    arena scratch = ARENA_INIT;
    pthread_mutex_lock(&ctx->lock);
    status = find(ctx, &c, &scratch, plan, err);
    pthread_mutex_unlock(&ctx->lock);
    arena_release(&scratch);
  }
  if (status != ARKE_OK) error_context(err, op, NULL);
  return status;
}

void arke_plan_destroy(arke_plan *plan) {
  if (plan == NULL) return;
  arke_context *ctx = plan->ctx;
  pthread_mutex_lock(&ctx->lock);
  plan_free(plan);
  pthread_mutex_unlock(&ctx->lock);
}

arke_plan_info arke_plan_describe(const arke_plan *plan) {
  static const arke_plan_info NONE = {.key = "", .config = "", .cache_path = ""};
  return plan == NULL ? NONE : plan->info;
}

size_t arke_workspace_bytes(const arke_plan *plan) {
  return plan == NULL ? 0 : plan->workspace_bytes;
}
