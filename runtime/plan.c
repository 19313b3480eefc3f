#include "runtime/plan.h"

#define STAGE "plan"

enum {
  MOST_TRIED = 64
}; /* candidates farther away than this many would be poor, and each is read from disk */

/* Memory and broken caches end the search; anything else says that this candidate does not serve the call. */
static bool is_refusal(arke_status status) {
  return status != ARKE_ERR_MEMORY && status != ARKE_ERR_IO && status != ARKE_ERR_INTERNAL;
}

/* The first candidate whose kernel's assumptions hold. *refusal keeps why the first one was refused. */
static arke_status first_that_serves(arke_context *ctx, const call *c, match_candidate *list, int n,
                                     arke_plan **plan, arke_error *refusal, arke_error *err) {
  for (int i = 0; i < n && i < MOST_TRIED; i++) {
    arke_error why = ARKE_ERROR_INIT;
    arke_status status = plan_build(ctx, c, &list[i], plan, &why);
    if (status == ARKE_OK) return ARKE_OK;
    if (refusal->code == ARKE_OK) *refusal = why;
    if (!is_refusal(status)) {
      if (err != NULL && err->code == ARKE_OK) *err = why;
      return status;
    }
  }
  return ARKE_OK;
}

static arke_status report_miss(const arke_context *ctx, const match_route *asked, const match_miss *miss,
                               const arke_error *refusal, arke_error *err) {
  strbuf text = STRBUF_INIT;
  if (refusal->code != ARKE_OK) strbuf_addf(&text, "a stored kernel was refused (%.600s); ", refusal->text);
  match_print_miss(miss, asked, &text);
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
                   .index = &ctx->index};
  match_route *routes;
  match_candidate *list;
  match_miss miss;
  int n_routes, n;
  arke_error exact_refusal = ARKE_ERROR_INIT, refusal = ARKE_ERROR_INIT;
  TRY(match_routes(&q, a, &routes, &n_routes, err));
  TRY(match_exact(&q, routes, n_routes, a, &list, &n, err));
  TRY(first_that_serves(ctx, c, list, n, plan, &exact_refusal, err));
  if (*plan != NULL) return ARKE_OK;
  TRY(match_others(&q, routes, n_routes, a, &list, &n, &miss, err));
  if (ctx->strict) {
    int exact = 0; /* the list starts with entries whose bindings only were written differently */
    while (exact < n && list[exact].match == ARKE_MATCH_EXACT) exact++;
    n = exact;
  }
  TRY(first_that_serves(ctx, c, list, n, plan, &refusal, err));
  if (*plan != NULL) return ARKE_OK;
  /* Tuned for exactly this, yet refused: tuning again would change nothing, the tensors have to. */
  if (exact_refusal.code != ARKE_OK) {
    if (err != NULL && err->code == ARKE_OK) *err = exact_refusal;
    return exact_refusal.code;
  }
  return report_miss(ctx, &routes[0], &miss, &refusal, err);
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
