#include "tuner/candidates_walk.h"

#define FEW 4096

void candidates_walk_make(const space *s, const uint32_t *levels, int n_levels, candidates_walk *w) {
  *w = (candidates_walk){.space = s, .outers = 1, .inners = 1};
  uint32_t outer = n_levels > 0 ? levels[0] : 0;
  int64_t stride = 1;
  for (int p = s->n_params - 1; p >= 0; p--) {
    w->strides[p] = stride;
    stride *= s->params[p].n_values;
    if (n_levels == 0 && stride > FEW) outer |= UINT32_C(1) << p;
  }
  for (int p = 0; p < s->n_params; p++) {
    if (!(outer >> p & 1)) continue;
    w->outer[w->n_outer++] = p;
    w->outers *= s->params[p].n_values;
  }
  uint32_t placed = outer;
  for (int l = 1; l < n_levels || w->n_outer + w->n_inner < s->n_params; l++) {
    uint32_t wanted = l < n_levels ? levels[l] : UINT32_MAX;
    for (int p = 0; p < s->n_params; p++) {
      if (!((wanted & ~placed) >> p & 1)) continue;
      w->inner[w->n_inner++] = p;
      w->inners *= s->params[p].n_values;
    }
    placed |= wanted;
    if (l < n_levels) w->ends[l] = w->n_inner;
  }
  for (int l = 0; l < n_levels; l++) {
    w->below[l] = 1;
    for (int i = w->ends[l]; i < w->n_inner; i++) w->below[l] *= s->params[w->inner[i]].n_values;
  }
}

int64_t candidates_walk_outer(const candidates_walk *w, int64_t i, config *c) {
  int64_t point = 0;
  memset(c, 0, sizeof *c);
  for (int k = w->n_outer - 1; k >= 0; k--) {
    const space_param *p = &w->space->params[w->outer[k]];
    int digit = (int)(i % p->n_values);
    i /= p->n_values;
    c->values[w->outer[k]] = p->values[digit];
    point += digit * w->strides[w->outer[k]];
  }
  for (int k = 0; k < w->n_inner; k++) c->values[w->inner[k]] = w->space->params[w->inner[k]].values[0];
  return point;
}

int candidates_walk_next(const candidates_walk *w, int n, int digits[LIMIT_PARAMS], config *c,
                         int64_t *point) {
  for (int k = n - 1; k >= 0; k--) {
    int param = w->inner[k];
    const space_param *p = &w->space->params[param];
    if (++digits[k] < p->n_values) {
      c->values[param] = p->values[digits[k]];
      *point += w->strides[param];
      return k;
    }
    *point -= (p->n_values - 1) * w->strides[param];
    digits[k] = 0;
    c->values[param] = p->values[0];
  }
  return -1;
}
