#include "tuner/candidates.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/candidates_collect.h"
#include "tuner/templates_in_use.h"

#define STAGE "prune"

static int compare_cost(const void *a, const void *b) {
  const tune_candidate *x = a, *y = b;
  if (x->model_ns != y->model_ns) return x->model_ns < y->model_ns ? -1 : 1;
  if (x->source != y->source) return x->source < y->source ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

typedef struct point_key {
  int source;
  int64_t point, index;
} point_key;

static int compare_point(const void *a, const void *b) {
  const point_key *x = a, *y = b;
  if (x->source != y->source) return x->source < y->source ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

/* Templates whose schedule covers the problem; the others' reasons go to `refusals`. */
static arke_status find_sources(const ir_problem *p, const target *t, const tune_templates *templates,
                                tune_candidates *c, strbuf *refusals, arke_error *err) {
  for (int i = 0; i < tune_templates_count(templates); i++) {
    const kernel_template *k = tune_templates_get(templates, i);
    strbuf detail = STRBUF_INIT;
    template_reason reason = k->fits(p, t, &detail);
    if (reason != TEMPLATE_OK)
      strbuf_addf(refusals, "%s%s: %s%s%s", refusals->length ? "; " : "", k->name,
                  template_reason_text(reason), detail.length ? ", " : "", strbuf_text(&detail));
    strbuf_free(&detail);
    if (reason != TEMPLATE_OK) continue;
    if (c->n_sources == TUNE_TEMPLATES_MAX)
      return error_set(err, ARKE_ERR_INTERNAL, STAGE, "more than %d templates fit one problem",
                       TUNE_TEMPLATES_MAX);
    tune_source *s = &c->sources[c->n_sources++];
    *s = (tune_source){.template = k, .space = k->space(t)};
    k->defaults(p, t, &s->defaults);
    c->total += space_size(s->space);
  }
  return ARKE_OK;
}

static bool index_points(tune_candidates *c) {
  point_key *keys = malloc((size_t)c->n * sizeof *keys);
  c->by_point = malloc((size_t)c->n * sizeof *c->by_point);
  if (!keys || !c->by_point) {
    free(keys);
    return false;
  }
  for (int64_t i = 0; i < c->n; i++) keys[i] = (point_key){c->ranked[i].source, c->ranked[i].point, i};
  qsort(keys, (size_t)c->n, sizeof *keys, compare_point);
  for (int64_t i = 0; i < c->n; i++) c->by_point[i] = keys[i].index;
  free(keys);
  return true;
}

/* The point with all variant parameters at their first value stands for its family. */
static int64_t family_point(const space *s, int64_t point) {
  int64_t rest = point, place = 1;
  for (int i = s->n_params - 1; i >= 0; i--) {
    int64_t digit = rest % s->params[i].n_values;
    if (space_param_is_variant(&s->params[i])) point -= digit * place;
    rest /= s->params[i].n_values;
    place *= s->params[i].n_values;
  }
  return point;
}

static bool number_families(tune_candidates *c) {
  int *numbers = calloc((size_t)c->total, sizeof *numbers); /* by point of all spaces in a row; 0: none yet */
  int64_t first[TUNE_TEMPLATES_MAX] = {0};
  if (!numbers) return false;
  for (int i = 1; i < c->n_sources; i++) first[i] = first[i - 1] + space_size(c->sources[i - 1].space);
  for (int64_t i = 0; i < c->n; i++) {
    tune_candidate *k = &c->ranked[i];
    int *number = &numbers[first[k->source] + family_point(c->sources[k->source].space, k->point)];
    if (*number == 0) *number = ++c->n_families;
    k->family = *number - 1;
  }
  free(numbers);
  return true;
}

static arke_status nothing_feasible(const tune_candidates *c, const target *t, const strbuf *refusals,
                                    arke_error *err) {
  if (c->n_sources == 0)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "no template for %s fits: %s", t->name,
                     refusals->length ? strbuf_text(refusals) : "there is none");
  strbuf text = STRBUF_INIT;
  for (int r = 0; r < TEMPLATE_REASON_COUNT; r++)
    if (c->pruned[r])
      strbuf_addf(&text, "%s%lld %s", text.length ? ", " : "", (long long)c->pruned[r],
                  template_reason_text((template_reason)r));
  error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "no configuration of %lld is feasible for %s: %s",
            (long long)c->total, t->name, strbuf_text(&text));
  strbuf_free(&text);
  return ARKE_ERR_UNSUPPORTED;
}

arke_status tune_candidates_rank(const ir_problem *p, const target *t, const target_rates *rates,
                                 const tune_templates *templates, tune_candidates *c, arke_error *err) {
  *c = (tune_candidates){.templates = templates};
  strbuf refusals = STRBUF_INIT;
  arke_status status = find_sources(p, t, templates, c, &refusals, err);
  if (status != ARKE_OK) goto fail;
  if (!tune_candidates_collect(p, t, rates, c)) {
    status = error_memory(err, STAGE);
    goto fail;
  }
  if (c->n == 0) {
    status = nothing_feasible(c, t, &refusals, err);
    goto fail;
  }
  qsort(c->ranked, (size_t)c->n, sizeof *c->ranked, compare_cost);
  if (!index_points(c) || !number_families(c)) status = error_memory(err, STAGE);
fail:
  strbuf_free(&refusals);
  if (status != ARKE_OK) tune_candidates_release(c);
  return status;
}

void tune_candidates_release(tune_candidates *c) {
  free(c->ranked);
  free(c->by_point);
  *c = (tune_candidates){0};
}

int64_t tune_candidates_index(const tune_candidates *c, int source, int64_t point) {
  int64_t low = 0, high = c->n - 1;
  point_key key = {source, point, 0};
  while (low <= high) {
    int64_t middle = low + (high - low) / 2, index = c->by_point[middle];
    point_key at = {c->ranked[index].source, c->ranked[index].point, 0};
    int order = compare_point(&key, &at);
    if (order == 0) return index;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return -1;
}

void tune_candidate_config(const tune_candidates *c, int64_t index, config *out) {
  const tune_candidate *k = &c->ranked[index];
  space_point(c->sources[k->source].space, k->point, out);
}

static int value_position(const space_param *p, int value) {
  for (int i = 0; i < p->n_values; i++)
    if (p->values[i] == value) return i;
  return 0;
}

int tune_candidate_distance(const tune_candidates *c, int64_t index) {
  const tune_source *s = &c->sources[c->ranked[index].source];
  config at;
  tune_candidate_config(c, index, &at);
  int distance = 0;
  for (int i = 0; i < s->space->n_params; i++) {
    const space_param *param = &s->space->params[i];
    distance += abs(value_position(param, at.values[i]) - value_position(param, s->defaults.values[i]));
  }
  return distance;
}

arke_status tune_candidates_append(tune_candidates *c, tune_candidate candidate, arke_error *err) {
  tune_candidate *ranked = realloc(c->ranked, (size_t)(c->n + 1) * sizeof *ranked);
  if (!ranked) return error_memory(err, STAGE);
  c->ranked = ranked;
  int64_t *by_point = realloc(c->by_point, (size_t)(c->n + 1) * sizeof *by_point);
  if (!by_point) return error_memory(err, STAGE);
  c->by_point = by_point;
  point_key key = {candidate.source, candidate.point, 0}; /* by_point stays in order */
  int64_t at = c->n;
  for (; at > 0; at--) {
    const tune_candidate *before = &c->ranked[c->by_point[at - 1]];
    if (compare_point(&(point_key){before->source, before->point, 0}, &key) < 0) break;
    c->by_point[at] = c->by_point[at - 1];
  }
  c->by_point[at] = c->n;
  c->ranked[c->n++] = candidate;
  return ARKE_OK;
}
