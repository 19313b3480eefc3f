#include "tuner/candidates_walk.h"

#define FEW 4096

void candidates_walk_make(const space *s, uint32_t first, candidates_walk *w) {
  *w = (candidates_walk){.space = s, .outers = 1, .inners = 1};
  int64_t stride = 1;
  for (int p = s->n_params - 1; p >= 0; p--) {
    w->strides[p] = stride;
    bool outer = first ? first >> p & 1 : stride * s->params[p].n_values > FEW;
    *(outer ? &w->outers : &w->inners) *= s->params[p].n_values;
    stride *= s->params[p].n_values;
    if (!outer) w->n_inner++;
  }
  w->n_outer = s->n_params - w->n_inner;
  for (int p = s->n_params - 1, o = w->n_outer, i = w->n_inner; p >= 0; p--) {
    bool outer = first ? first >> p & 1 : w->strides[p] * s->params[p].n_values > FEW;
    if (outer)
      w->outer[--o] = p;
    else
      w->inner[--i] = p;
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

bool candidates_walk_next(const candidates_walk *w, int digits[LIMIT_PARAMS], config *c, int64_t *point) {
  for (int k = w->n_inner - 1; k >= 0; k--) {
    int param = w->inner[k];
    const space_param *p = &w->space->params[param];
    if (++digits[k] < p->n_values) {
      c->values[param] = p->values[digits[k]];
      *point += w->strides[param];
      return true;
    }
    *point -= (p->n_values - 1) * w->strides[param];
    digits[k] = 0;
    c->values[param] = p->values[0];
  }
  return false;
}
