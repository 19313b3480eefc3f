#include "tuner/candidates_remedy.h"

#include <math.h>

#define LARGEST_POWER    16  /* sizes up to 65,536 are tried */
#define LARGEST_MULTIPLE 256 /* and those that are multiples of this and less */

/* How the list goes on. */
typedef struct remedies {
  strbuf *out;
  int n;
} remedies;

static void begin(remedies *r, const char *preposition) {
  strbuf_addf(r->out, "; %s %s ", r->n++ == 0 ? "it is" : "or", preposition);
}

static bool is_built(const tune_source *s, const target *t, const void *prepared, const config *at) {
  double ns;
  return template_is_built(s->template->judge(prepared, t, &t->rates, at, &ns));
}

static void try_parameters(const tune_source *s, const ir_problem *p, const target *t, const config *at,
                           const bool *which, remedies *r) {
  arena a = ARENA_INIT;
  const void *prepared = s->template->prepare(p, t, &a);
  for (int i = 0; prepared && i < s->space->n_params; i++) {
    const space_param *param = &s->space->params[i];
    bool first = true;
    for (int v = 0; which[i] && v < param->n_values; v++) {
      config other = *at;
      other.values[i] = param->values[v];
      if (!is_built(s, t, prepared, &other)) continue;
      if (first) begin(r, "with");
      strbuf_addf(r->out, "%s%s%d", first ? param->name : ",", first ? "=" : " ", param->values[v]);
      first = false;
    }
  }
  arena_release(&a);
}

static bool is_built_at(const tune_source *s, const ir_problem *p, const target *t, const config *at) {
  if (s->template->fits(p, t, NULL) != TEMPLATE_OK) return false;
  arena a = ARENA_INIT;
  const void *prepared = s->template->prepare(p, t, &a);
  bool built = prepared && is_built(s, t, prepared, at);
  arena_release(&a);
  return built;
}

static double ratio(int64_t x, int64_t y) {
  return fabs(log2((double)x) - log2((double)y));
}

/* The size nearest to the axis's at which the configuration can be built, of powers of two and multiples of
 * them; 0: none. */
static int64_t nearest_size(const tune_source *s, const ir_problem *p, const target *t, const config *at,
                            int axis) {
  int64_t now = p->sizes[axis], nearest = 0;
  for (int k = 0; k <= 2 * LARGEST_POWER; k++) {
    int64_t power = INT64_C(1) << k / 2;
    int64_t size = k % 2 == 0 ? power : (now + power - 1) / power * power;
    if ((k % 2 && power > LARGEST_MULTIPLE) || size == now || size == 0) continue;
    if (nearest && ratio(size, now > 0 ? now : 1) >= ratio(nearest, now > 0 ? now : 1)) continue;
    ir_problem other = *p;
    other.sizes[axis] = size;
    if (is_built_at(s, &other, t, at)) nearest = size;
  }
  return nearest;
}

void tune_candidates_remedy(const tune_source *s, const ir_problem *p, const target *t, const config *at,
                            const bool given[LIMIT_PARAMS], strbuf *out) {
  remedies r = {.out = out};
  bool others[LIMIT_PARAMS];
  try_parameters(s, p, t, at, given, &r);
  for (int i = 0; i < LIMIT_PARAMS; i++) others[i] = !given[i];
  if (r.n == 0) try_parameters(s, p, t, at, others, &r);
  if (s->template->parts) return; /* its configurations number others', which are chosen by the sizes */
  for (int i = 0; i < p->op->n_axes; i++) {
    int64_t size = nearest_size(s, p, t, at, i);
    if (!size) continue;
    begin(&r, "at");
    strbuf_addf(out, "%s=%lld instead of %lld", p->op->axes[i], (long long)size, (long long)p->sizes[i]);
  }
}
