/* The tiling space of transposes, and a small problem for each point of it. */
#include "templates/transpose.h"

static const space_param params[TRANSPOSE_N_PARAMS] = {
    [TRANSPOSE_TILE_X] = {"TILE_X",
                          "elements of a tile along the outputs' rows",
                          6,
                          {8, 16, 32, 64, 128, 256}},
    [TRANSPOSE_TILE_Y] = {"TILE_Y",
                          "elements of a tile along the turned inputs' rows",
                          6,
                          {8, 16, 32, 64, 128, 256}},
    [TRANSPOSE_THREADS] = {"THREADS", "threads of a CTA", 3, {128, 256, 512}},
    [TRANSPOSE_VECTOR] = {"VECTOR", "bytes of a global access, at most", 3, {4, 8, 16}},
    [TRANSPOSE_PERSISTENT] = {"PERSISTENT",
                              "1: as many CTAs as the device holds take tiles in turn; 2: and each has loads "
                              "of the next one under way",
                              3,
                              {0, 1, 2}},
    [TRANSPOSE_RASTER] = {"RASTER",
                          "neighbouring CTAs are neighbours along the outputs' rows (0) or the inputs' (1)",
                          2,
                          {0, 1}},
    [TRANSPOSE_SHIFT] = {"SHIFT",
                         "1: rows that begin anywhere are moved in aligned words of VECTOR bytes",
                         2,
                         {0, 1}},
};
static const space transpose_space = {"transpose", TRANSPOSE_N_PARAMS, params};

const space *transpose_space_of(const target *t) {
  (void)t;
  return &transpose_space;
}

static int64_t power_above(int64_t x, int64_t most) {
  int64_t power = 8;
  while (power < x && power < most) power *= 2;
  return power;
}

/* Twice a tile's size covers a short axis in one tile: more is idle threads. */
static bool too_large(const ir_form *form, int loop, int tile) {
  return tile > 8 && tile >= 2 * power_above(ir_form_extent(form, loop), 256);
}

/* Rows begin where accesses of VECTOR bytes may: there is nothing to shift. */
static bool all_are_wide(const ir_form *form, const transpose_match *match, const target *t,
                         const config *c) {
  config straight = *c;
  straight.values[TRANSPOSE_SHIFT] = 0;
  transpose_plan p;
  if (transpose_make_plan(form, match, t, &straight, true, c->values[TRANSPOSE_VECTOR], &p) != TEMPLATE_OK)
    return false;
  return p.load * p.bytes[0] == c->values[TRANSPOSE_VECTOR] && p.store == p.load;
}

typedef struct prepared {
  ir_form form;
  transpose_match match;
  template_reason reason;
} prepared;

const void *transpose_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = transpose_fit(p, true, a, &made->form, &made->match, NULL);
  return made;
}

template_reason transpose_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                                double *ns) {
  const prepared *made = of;
  const ir_form *form = &made->form;
  const transpose_match *match = &made->match;
  transpose_plan plan, narrower;
  template_reason reason = made->reason;
  int vector = c->values[TRANSPOSE_VECTOR];
  if (reason == TEMPLATE_OK) reason = transpose_make_plan(form, match, t, c, true, vector, &plan);
  if (reason == TEMPLATE_OK && vector > 4) {
    template_reason without = transpose_make_plan(form, match, t, c, true, vector / 2, &narrower);
    if (without == TEMPLATE_OK && narrower.load == plan.load && narrower.store == plan.store)
      reason = TEMPLATE_REDUNDANT;
  }
  if (reason == TEMPLATE_OK && plan.shifted && all_are_wide(form, match, t, c)) reason = TEMPLATE_REDUNDANT;
  if (reason == TEMPLATE_OK &&
      (too_large(form, match->u, plan.tile_u) || too_large(form, match->v, plan.tile_v)))
    reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = transpose_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* The first of these that is feasible: wide accesses, whole lines on both sides, a CTA that has more than one
 * load a thread to wait for; a short axis makes room for the other. Where both axes are short, every tile is
 * larger than the tensor, and the first that is merely that does. */
void transpose_defaults(const ir_problem *p, const target *t, config *c) {
  static const int sides[][2] = {{64, 64}, {32, 64}, {64, 32}, {32, 32}, {128, 64}, {64, 128}, {128, 128},
                                 {16, 64}, {64, 16}, {8, 256}, {256, 8}, {8, 128},  {128, 8},  {8, 64},
                                 {64, 8},  {16, 16}, {8, 32},  {32, 8},  {8, 16},   {16, 8},   {8, 8}};
  arena a = ARENA_INIT;
  const void *made = transpose_prepare(p, t, &a);
  template_reason reason = TEMPLATE_OPERATOR;
  config spare;
  bool has_spare = false;
  for (int vector = 16; vector >= 4 && reason != TEMPLATE_OK; vector /= 2) {
    for (int threads = 256; threads >= 128 && reason != TEMPLATE_OK; threads /= 2) {
      for (size_t i = 0; i < COUNT_OF(sides) && reason != TEMPLATE_OK; i++) {
        double ns;
        *c = (config){.values = {[TRANSPOSE_TILE_X] = sides[i][0],
                                 [TRANSPOSE_TILE_Y] = sides[i][1],
                                 [TRANSPOSE_THREADS] = threads,
                                 [TRANSPOSE_VECTOR] = vector,
                                 [TRANSPOSE_RASTER] = 1}};
        if (made) reason = transpose_judge(made, t, &t->rates, c, &ns);
        if (reason != TEMPLATE_REDUNDANT || has_spare) continue;
        spare = *c;
        has_spare = true;
      }
    }
  }
  if (reason != TEMPLATE_OK && has_spare) *c = spare;
  arena_release(&a);
}

/* The largest power of two, up to 16, that divides x: what alignment depends on. */
static int64_t evenness(int64_t x) {
  int64_t e = 1;
  while (e < 16 && x % (2 * e) == 0) e *= 2;
  return e;
}

/* A tile and a half, as even as the size it stands for. `shifted`: two words more are behind a whole tile. */
static int64_t ragged(int64_t size, int tile, bool shifted) {
  int64_t e = evenness(size);
  return (shifted ? 32 : 0) + tile + (tile / 2 > e ? (tile / 2 + 15) / 16 * 16 : 0) + e;
}

/* `even`: the kernel is made for whole tiles. */
static void reduce_loop(const ir_form *form, int loop, int tile, bool even, bool shifted, ir_problem *reduced,
                        bool *set) {
  const ir_loop *l = &form->loops[loop];
  for (int i = l->n_dims - 1; i >= 0 && tile > 0; i--) {
    int axis = l->dims[i].axis;
    if (axis < 0) continue;
    int64_t size = even ? 2 * (int64_t)tile : ragged(form->problem->sizes[axis], tile, shifted);
    if (!set[axis] || reduced->sizes[axis] < size) reduced->sizes[axis] = size;
    set[axis] = true;
    tile = 0;
  }
}

void transpose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                               ir_problem *reduced) {
  arena a = ARENA_INIT;
  ir_form form;
  transpose_match match;
  transpose_plan plan, whole;
  bool set[LIMIT_AXES] = {false};
  *reduced = *p;
  if (transpose_fit(p, true, &a, &form, &match, NULL) == TEMPLATE_OK) {
    bool shifted = c->values[TRANSPOSE_SHIFT];
    bool even =
        transpose_make_plan(&form, &match, t, c, true, c->values[TRANSPOSE_VECTOR], &plan) == TEMPLATE_OK &&
        transpose_make_even(&plan, &whole);
    reduce_loop(&form, match.v, c->values[TRANSPOSE_TILE_X], even, shifted, reduced, set);
    reduce_loop(&form, match.u, c->values[TRANSPOSE_TILE_Y], even, shifted, reduced, set);
    int64_t most = 3;
    for (int i = 0; i < p->op->n_axes; i++) {
      int64_t e = evenness(p->sizes[i]);
      if (!set[i]) reduced->sizes[i] = p->sizes[i] < e * most ? p->sizes[i] : e * most;
    }
    for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
    (void)sm_count; /* four tiles a batch: more than the SMs the emulator is given */
  }
  arena_release(&a);
}
