#include "templates/space_descent.h"

enum { ROUNDS = 12 }; /* descents end after three or four */

/* To the best of all points that differ from *at in one parameter. */
static bool step(const space *s, space_price price, const void *user, config *at, double *ns) {
  const config from = *at;
  bool better = false;
  for (int i = 0; i < s->n_params; i++) {
    for (int v = 0; v < s->params[i].n_values; v++) {
      config next = from;
      double own;
      next.values[i] = s->params[i].values[v];
      if (next.values[i] == from.values[i] || !price(user, &next, &own) || own >= *ns) continue;
      *at = next;
      *ns = own;
      better = true;
    }
  }
  return better;
}

void space_descend(const space *s, space_price price, const void *user, config *at, double *ns) {
  for (int i = 0; i < ROUNDS && step(s, price, user, at, ns); i++) continue;
}
