/* What a run reads from and writes to the cache file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/tune_run.h"

#define STAGE      "tune"
#define NEARBY     4
#define OTHER_TYPE 4.0 /* another dtype is as far as a factor of 16 in a size */

/* --- the problem's row ---------------------------------------------------------------------------------- */

static const char *dim_text(const ir_op *op, ir_dim d, arena *a) {
  strbuf text = STRBUF_INIT;
  ir_dim_print(op, d, &text);
  const char *kept = strbuf_failed(&text) ? NULL : arena_strdup(a, strbuf_text(&text));
  strbuf_free(&text);
  return kept;
}

static arke_status describe_tensors(const ir_op *op, arena *a, cache_tensor **tensors, arke_error *err) {
  cache_tensor *list = ARENA_NEW_N(a, cache_tensor, (size_t)op->n_args);
  if (!list) return error_memory(err, STAGE);
  for (int i = 0; i < op->n_args; i++) {
    const ir_tensor *t = &op->tensors[i];
    list[i] = (cache_tensor){.name = t->name,
                             .output = t->role == IR_OUTPUT,
                             .type = t->type.variable >= 0 ? op->type_vars[t->type.variable]
                                                           : dtype_name(t->type.fixed),
                             .rank = t->rank,
                             .any_rank = t->any_rank};
    for (int d = 0; d < t->rank; d++) {
      list[i].dims[d] = dim_text(op, t->dims[d], a);
      if (!list[i].dims[d]) return error_memory(err, STAGE);
    }
  }
  *tensors = list;
  return ARKE_OK;
}

arke_status tune_store_open(tune_run *run, arke_error *err) {
  tune_session *s = run->session;
  const ir_op *op = run->problem->op;
  arena scratch = ARENA_INIT;
  cache_tensor *tensors = NULL;
  run->ptx = tune_session_ptx(s, run->op_text, &run->memory);
  if (!run->ptx) return error_memory(err, STAGE);
  arke_status status = describe_tensors(op, &scratch, &tensors, err);
  if (status != ARKE_OK) goto fail;
  cache_problem p = {.op_name = op->name,
                     .op_text = run->op_text,
                     .bindings = run->bindings,
                     .target = s->target->name,
                     .ptx = run->ptx,
                     .bucket = s->options.bucket,
                     .n_tensors = op->n_args,
                     .tensors = tensors};
  strbuf key = STRBUF_INIT;
  cache_key_print(&p, &key);
  run->key = arena_strdup(&run->memory, strbuf_text(&key));
  strbuf_free(&key);
  if (!run->key) status = error_memory(err, STAGE);
  if (status == ARKE_OK && s->cache) status = cache_problem_id(s->cache, &p, &run->problem_id, err);
  if (status == ARKE_OK && s->cache)
    status = cache_environment_id(s->cache, &s->environment, &run->environment_id, err);
fail:
  arena_release(&scratch);
  return status;
}

/* --- trials --------------------------------------------------------------------------------------------- */

void tune_store_trial(tune_run *run, const tune_trial *t) {
  if (!run->problem_id) return;
  cache_trial row = {.template_name = tune_trial_template(t)->name,
                     .config = t->config,
                     .outcome = t->outcome,
                     .reason = t->reason ? t->reason : "",
                     .model_ns = tune_trial_model_ns(t),
                     .time = t->outcome == CACHE_MEASURED ? t->time : (cache_time){0},
                     .ptx_sha256 = t->ptx_sha256,
                     .lower_ms = t->lower_ms,
                     .assemble_ms = t->assemble_ms,
                     .registers = t->registers,
                     .spill_bytes = t->spill_bytes};
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = cache_put_trial(run->session->cache, run->problem_id, run->environment_id, &row, &err);
  if (status != ARKE_OK) tune_run_fail(run, status, err.stage, err.text);
}

static bool find_candidate(const tune_run *run, const char *template_name, const char *text, int64_t *index) {
  strbuf full = STRBUF_INIT;
  strbuf_addf(&full, "%s:%s", template_name, text);
  arke_status status = tune_candidates_parse(&run->candidates, run->problem, run->session->target,
                                             strbuf_text(&full), index, NULL);
  strbuf_free(&full);
  return status == ARKE_OK;
}

static bool is_doubtful(const cache_trial *row) {
  return (row->outcome == CACHE_CRASHED || row->outcome == CACHE_TIMEOUT) &&
         (!row->reason || !strstr(row->reason, TUNE_CONFIRMED));
}

static void doubt(tune_run *run, int64_t index) {
  int64_t *grown = realloc(run->doubted, (size_t)(run->n_doubted + 1) * sizeof *grown);
  if (!grown) {
    tune_run_fail(run, ARKE_ERR_MEMORY, STAGE, "out of memory");
    return;
  }
  run->doubted = grown;
  run->doubted[run->n_doubted++] = index;
}

static void take_known(const cache_trial *row, void *user) {
  tune_run *run = user;
  int64_t index;
  /* The space may have changed since: what is no point of it any more is of no use. */
  if (!find_candidate(run, row->template_name, row->config, &index)) return;
  if (is_doubtful(row)) {
    doubt(run, index);
    return;
  }
  tune_trial *t = tune_trial_begin(run, index);
  if (!t) return;
  t->state = TRIAL_OVER;
  t->resumed = true;
  t->outcome = row->outcome;
  t->time = row->time;
  t->registers = row->registers;
  t->spill_bytes = row->spill_bytes;
  t->lower_ms = row->lower_ms;
  t->assemble_ms = row->assemble_ms;
  if (row->reason && row->reason[0]) t->reason = strdup(row->reason);
  if (row->ptx_sha256) snprintf(t->ptx_sha256, sizeof t->ptx_sha256, "%s", row->ptx_sha256);
  if (row->outcome == CACHE_MEASURED) t->rank_ns = row->time.median_ns;
}

/* Whether the trial's rank_ns says something: a time, or the model's estimate where that is all that ranks.
 */
static bool is_ranked(const tune_trial *t) {
  if (tune_run_measures(t->run)) return t->outcome == CACHE_MEASURED;
  return t->outcome == CACHE_VERIFIED || t->outcome == CACHE_LOWERED;
}

static int by_rank(const void *a, const void *b) {
  const tune_trial *x = *(tune_trial *const *)a, *y = *(tune_trial *const *)b;
  return (x->rank_ns > y->rank_ns) - (x->rank_ns < y->rank_ns);
}

arke_status tune_store_resume(tune_run *run, arke_error *err) {
  tune_session *s = run->session;
  if (!run->problem_id) return ARKE_OK;
  TRY(cache_each_trial(s->cache, run->problem_id, &s->environment, take_known, run, err));
  /* The fastest first: a search that had ended then ends at once, since nothing after it is an improvement.
   */
  if (run->n_trials > 0) qsort(run->trials, (size_t)run->n_trials, sizeof(tune_trial *), by_rank);
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *t = run->trials[i];
    tune_search_known(run->search, t->index, is_ranked(t) ? t->rank_ns : INFINITY);
  }
  for (int i = 0; i < run->n_doubted; i++) tune_search_seed(run->search, run->doubted[i]);
  return ARKE_OK;
}

/* --- nearby problems ------------------------------------------------------------------------------------ */

typedef struct nearby {
  double distance;
  int64_t index;
} nearby;

typedef struct nearby_search {
  tune_run *run;
  int n;
  nearby list[NEARBY]; /* nearest first */
} nearby_search;

static double problem_distance(const ir_problem *p, const ir_problem *q) {
  double sum = 0;
  for (int i = 0; i < p->op->n_types; i++) sum += p->types[i] == q->types[i] ? 0 : OTHER_TYPE;
  for (int i = 0; i < p->op->n_axes; i++)
    sum += fabs(log2((double)(p->sizes[i] + 1) / (double)(q->sizes[i] + 1)));
  return sum;
}

static bool consider(const cache_entry *e, void *user) {
  nearby_search *n = user;
  ir_problem other;
  if (strcmp(e->problem.op_text, n->run->op_text) != 0) return true;
  if (ir_problem_bind(n->run->problem->op, e->problem.bindings, &other, NULL) != ARKE_OK) return true;
  nearby found = {.distance = problem_distance(n->run->problem, &other)};
  bool full = n->n == NEARBY;
  if (full && found.distance >= n->list[NEARBY - 1].distance) return true;
  if (!find_candidate(n->run, e->winner.template_name, e->winner.config, &found.index)) return true;
  int at = full ? NEARBY - 1 : n->n++;
  for (; at > 0 && n->list[at - 1].distance > found.distance; at--) n->list[at] = n->list[at - 1];
  n->list[at] = found;
  return true;
}

void tune_store_seed_nearby(tune_run *run) {
  tune_session *s = run->session;
  if (!s->cache) return;
  nearby_search n = {.run = run};
  arena scratch = ARENA_INIT;
  /* Seeds are hints: a damaged file or row only means fewer of them. */
  cache_each_entry(s->cache, run->problem->op->name, s->target->name, &scratch, consider, &n, NULL, NULL);
  arena_release(&scratch);
  for (int i = 0; i < n.n; i++) tune_search_seed(run->search, n.list[i].index);
}

/* --- winners -------------------------------------------------------------------------------------------- */

arke_status tune_store_publish(tune_run *run, const tune_trial *winner, const cache_winner *w,
                               char kernel_sha256[SHA256_HEX_SIZE], bool *published, arke_error *err) {
  kernel_sha256[0] = '\0';
  *published = false;
  if (!run->problem_id) return ARKE_OK;
  cache_kernel k = {.ptx = winner->ptx.data,
                    .ptx_bytes = winner->ptx.bytes,
                    .cubin = winner->cubin.data,
                    .cubin_bytes = winner->cubin.bytes,
                    .recipe_json = winner->recipe.data};
  TRY(cache_put_winner(run->session->cache, run->problem_id, run->environment_id, &k, w, published, err));
  memcpy(kernel_sha256, k.sha256, SHA256_HEX_SIZE);
  return ARKE_OK;
}

static bool copy_blob(tune_blob *to, const void *from, size_t bytes) {
  char *copy = malloc(bytes + 1);
  if (!copy) return false;
  memcpy(copy, from, bytes);
  copy[bytes] = '\0';
  *to = (tune_blob){copy, bytes};
  return true;
}

static bool same_environment(const cache_environment *a, const cache_environment *b) {
  return strcmp(a->device, b->device) == 0 && strcmp(a->generator, b->generator) == 0 &&
         strcmp(a->llvm, b->llvm) == 0 && strcmp(a->driver, b->driver) == 0;
}

static tune_trial *find_trial(const tune_run *run, const cache_winner *w) {
  int64_t index;
  if (!find_candidate(run, w->template_name, w->config, &index)) return NULL;
  for (int i = 0; i < run->n_trials; i++)
    if (run->trials[i]->index == index && run->trials[i]->state == TRIAL_OVER) return run->trials[i];
  return NULL;
}

tune_trial *tune_store_recall(tune_run *run, cache_winner *w, char kernel_sha256[SHA256_HEX_SIZE]) {
  tune_session *s = run->session;
  if (!run->problem_id) return NULL;
  arena scratch = ARENA_INIT;
  cache_entry e;
  tune_trial *t = NULL;
  if (cache_find_entry(s->cache, run->problem->op->name, run->bindings, s->target->name,
                       cache_variant(run->ptx), true, &scratch, &e, NULL) == ARKE_OK &&
      same_environment(&e.environment, &s->environment) && strcmp(e.problem.op_text, run->op_text) == 0 &&
      cache_load_kernel(s->cache, &scratch, &e, NULL) == ARKE_OK)
    t = find_trial(run, &e.winner);
  if (t && !tune_trial_has_kernel(t)) {
    bool copied = copy_blob(&t->ptx, e.kernel.ptx, e.kernel.ptx_bytes) &&
                  copy_blob(&t->recipe, e.kernel.recipe_json, strlen(e.kernel.recipe_json)) &&
                  (!e.kernel.cubin || copy_blob(&t->cubin, e.kernel.cubin, e.kernel.cubin_bytes));
    if (!copied) t = NULL;
  }
  if (t) {
    memcpy(kernel_sha256, e.kernel.sha256, SHA256_HEX_SIZE);
    *w = e.winner;
    w->policy = arena_strdup(&run->memory, e.winner.policy ? e.winner.policy : "");
    w->template_name = tune_trial_template(t)->name;
    w->config = t->config;
    if (!w->policy) t = NULL;
  }
  arena_release(&scratch);
  return t;
}
