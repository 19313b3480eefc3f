/* What the template can do with an operator, and what a point of its space then is. */
#include "generator/gen_tma.h"
#include "templates/attention.h"

/* Static shared memory (barriers), rounded up to the alignment of the dynamic part. */
enum { STATIC_SMEM_BYTES = 1024 };
/* Registers a consumer thread needs beside sums, scores and weights. */
enum { OVERHEAD_REGISTERS = 32 };
static const int consumer_registers[] = {0, 232, 240, 160};
/* A producer that looks for requests or pages needs more itself. */
static const int fewer_registers[] = {0, 200, 224, 152}, gathering_registers[] = {0, 176, 216, 144};

/* Keys of a step whose weights fill a panel of 64 rows, and its bytes. */
enum { MOST_EXCHANGED = 64, WEIGHTS_BYTES = 64 * 128 };
enum { BLOCK_COLUMNS = 8, DEPTH_OF_COMPUTED = 16 };
enum { MOST_DEPTH = 576, MOST_COLUMNS = 512, HALVES_FROM = 256, MOST_PAGE = 4096 };

/* --- parts --- */

static bool are_values(const attention_match *m, const attention_part *part) {
  return attention_has_values(m, part) &&
         ir_form_extent(&m->form, m->wide) <= ir_form_extent(&m->form, part->depth);
}

/* The first panels of a tile are those of values, if values are keys. */
static const attention_part *first_part(const attention_match *m) {
  bool second = m->n_parts > 1 && are_values(m, &m->parts[1]) && !are_values(m, &m->parts[0]);
  return &m->parts[second];
}

static int ceil_to(int64_t x, int step) {
  return (int)((x + step - 1) / step * step);
}

/* Columns of the tiles of Q and K. */
static int set_parts(const attention_match *m, attention_plan *plan) {
  int columns = 0;
  plan->n_parts = m->n_parts;
  plan->parts[0] = first_part(m);
  if (m->n_parts > 1) plan->parts[1] = &m->parts[plan->parts[0] == &m->parts[0]];
  for (int i = 0; i < m->n_parts; i++) {
    int depth = ceil_to(ir_form_extent(&m->form, plan->parts[i]->depth), 16);
    plan->part_panels[i] = (depth + 63) / 64;
    columns += depth;
  }
  plan->values_are_keys = are_values(m, plan->parts[0]);
  return columns;
}

/* --- fitting --- */

/* What the match takes and this template does not. */
static template_reason fit_form(const attention_match *m, strbuf *detail) {
  const char *why = NULL;
  const attention_read *v = &m->v;
  bool gathered = v->keys == ATTENTION_KEYS_ANY;
  for (int i = 0; i < m->n_parts; i++)
    if ((m->parts[i].k.keys == ATTENTION_KEYS_ANY) != gathered || m->parts[i].k.page != v->page)
      why = "keys and values at gathered places where not both are, or in pages of unlike sizes";
  if (gathered && m->groups.of) why = "keys and values of packed requests at gathered places";
  if (m->n_parts > 1 && v->page && !attention_same_pages(m))
    why = "scores of two products with keys in pages of different tables";
  if (m->n_scales > 0) why = "values with factors";
  for (int i = 0; i < m->bounds.n_conditions; i++) {
    bool shared = !(ir_form_free(&m->form, m->bounds.conditions[i]) >> m->query & 1);
    if (!gathered || !shared) why = "keys that are seen by other conditions than bounds of their indices";
  }
  for (int i = 0; i < m->n_parts; i++)
    if (m->form.accesses[m->parts[i].q].n > GEN_TMA_MAX_RANK ||
        m->form.accesses[m->parts[i].k.access].n > GEN_TMA_MAX_RANK)
      why = "tensors of more than 5 axes";
  if (m->form.accesses[m->v.access].n > GEN_TMA_MAX_RANK) why = "tensors of more than 5 axes";
  if (attention_makes_queries(m) && (m->n_parts > 1 || gathered))
    why = "computed queries with two products, or keys at gathered places";
  if (!why) return TEMPLATE_OK;
  template_say(detail, "the attention template does not take %s", why);
  return TEMPLATE_OPERATOR;
}

static template_reason fit_sizes(const attention_match *m, strbuf *detail) {
  const ir_problem *p = m->form.problem;
  for (int l = 0; l < m->form.n_loops; l++) {
    int64_t n = ir_form_extent(&m->form, l);
    if (n >= 1 && n <= ATTENTION_MOST_EXTENT) continue;
    template_say(detail, "an axis (%s) has %lld elements; the attention template takes 1 to %d",
                 m->form.loops[l].name, (long long)n, ATTENTION_MOST_EXTENT);
    return TEMPLATE_SIZE;
  }
  if (!attention_shares_divide(p, &m->bounds)) {
    template_say(detail, "the query heads are not a multiple of those of keys and values");
    return TEMPLATE_SIZE;
  }
  int64_t depth = 0, wide = ir_form_extent(&m->form, m->wide);
  for (int i = 0; i < m->n_parts; i++) depth += ir_form_extent(&m->form, m->parts[i].depth);
  if (depth > MOST_DEPTH || wide > MOST_COLUMNS) {
    template_say(detail, "heads of %lld and %lld elements; the attention template takes up to %d and %d",
                 (long long)depth, (long long)wide, MOST_DEPTH, MOST_COLUMNS);
    return TEMPLATE_SIZE;
  }
  if (wide > HALVES_FROM && wide % 128) {
    template_say(detail,
                 "values of %lld elements; of more than %d the attention template takes multiples of 128",
                 (long long)wide, HALVES_FROM);
    return TEMPLATE_ALIGNMENT;
  }
  if (depth % 8 || wide % 8) {
    template_say(detail, "heads of %lld and %lld elements; the attention template takes multiples of 8",
                 (long long)depth, (long long)wide);
    return TEMPLATE_ALIGNMENT;
  }
  int64_t first = ir_form_extent(&m->form, first_part(m)->depth);
  if (m->n_parts > 1 && first % 64) {
    template_say(detail,
                 "scores of two products; the attention template takes the one whose keys are values, or the "
                 "first one, of multiples of 64 elements, but here it has %lld",
                 (long long)first);
    return TEMPLATE_ALIGNMENT;
  }
  return TEMPLATE_OK;
}

static template_reason fit_computed(const attention_match *m, strbuf *detail) {
  if (!attention_makes_queries(m)) return TEMPLATE_OK;
  if (ir_cast_dtype(m->form.problem, m->parts[0].made) != m->type) {
    template_say(detail, "queries are computed as another type than weights are");
    return TEMPLATE_DTYPE;
  }
  if (ir_form_extent(&m->form, m->wide) > HALVES_FROM) {
    template_say(detail, "the attention template does not compute queries where values are wide");
    return TEMPLATE_SIZE;
  }
  if (attention_block_columns(m) % BLOCK_COLUMNS == 0 &&
      ir_form_extent(&m->form, m->parts[0].depth) % DEPTH_OF_COMPUTED == 0)
    return TEMPLATE_OK;
  template_say(detail, "the attention template computes queries of multiples of %d elements, by %d",
               DEPTH_OF_COMPUTED, BLOCK_COLUMNS);
  return TEMPLATE_ALIGNMENT;
}

template_reason attention_fit(const ir_problem *p, const target *t, arena *a, attention_match *m,
                              strbuf *detail, arke_status *status) {
  template_reason reason = attention_match_op(p, a, m, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  if (!t->has.tma || !t->has.wgmma || !t->has.setmaxnreg) {
    template_say(detail, "%s has no warp-group matrix unit with tensor copies", t->name);
    return TEMPLATE_TARGET;
  }
  reason = fit_form(m, detail);
  if (reason != TEMPLATE_OK) return reason;
  const ir_access *x = m->form.accesses;
  dtype type = ir_tensor_dtype(p, x[m->parts[0].q].tensor);
  if ((type != DTYPE_BF16 && type != DTYPE_F16) ||
      ir_tensor_dtype(p, x[m->parts[0].k.access].tensor) != type ||
      ir_tensor_dtype(p, x[m->v.access].tensor) != type || m->type != type) {
    template_say(
        detail,
        "the attention template takes bf16 or f16, the same for Q, K, V and what weights are cast to");
    return TEMPLATE_DTYPE;
  }
  reason = fit_sizes(m, detail);
  return reason == TEMPLATE_OK ? fit_computed(m, detail) : reason;
}

/* --- plans --- */

int64_t attention_tiles(const attention_plan *p) {
  const attention_match *m = p->match;
  int64_t queries = ir_form_extent(&m->form, m->query), each = (int64_t)p->block_q * attention_along(p);
  int64_t more = p->packed ? ir_form_extent(&m->form, m->groups.loop) : 0;
  return (queries + each - 1) / each + more;
}

int64_t attention_runs(const attention_plan *p, int sm_count) {
  if (!p->split) return 1;
  int64_t tiles = attention_tiles(p) * attention_all_units(p),
          keys = ir_form_extent(&p->match->form, p->match->key);
  int64_t each = (int64_t)sm_count * p->split / p->cluster / (tiles > 1 ? tiles : 1),
          block = (int64_t)p->block_n * attention_steps_at_once(p), steps = (keys + block - 1) / block;
  if (each > steps) each = steps;
  return each > 1 ? each : 1;
}

int attention_step_bytes(const attention_plan *p) {
  return p->k_stage_bytes + (p->values_are_keys ? 0 : p->v.bytes);
}

int attention_steps_at_once(const attention_plan *p) {
  return p->exchange ? 2 : 1;
}

bool attention_has_origin(const attention_plan *p) {
  return p->masked || p->split;
}

int attention_registers(const attention_plan *p) {
  if (p->gathered) return gathering_registers[p->consumers];
  return (p->packed || p->page ? fewer_registers : consumer_registers)[p->consumers];
}

static int common_divisor(int x, int y) {
  return y == 0 ? x : common_divisor(y, x % y);
}

/* Keys of a page in this problem; 0: there are no pages. */
static int page_of(const attention_match *m) {
  const ir_expr *page = m->parts[0].k.page;
  if (!page) return 0;
  int64_t n = page->node == IR_INT ? page->integer : m->form.problem->sizes[page->id];
  return n > MOST_PAGE ? MOST_PAGE : (int)n;
}

/* Weights are exchanged in a panel of keys that values have not, or behind the keys. */
static void set_exchange(attention_plan *p) {
  bool fits = p->k.panels > p->v.panels && p->k.panel_bytes >= WEIGHTS_BYTES;
  p->weights_offset = fits ? p->v.bytes : p->k.bytes;
  p->k_stage_bytes = p->k.bytes + (fits ? 0 : WEIGHTS_BYTES);
}

/* Whether neighbouring tiles of queries do not go through the same keys, or there are none. */
static bool has_unlike_keys(const attention_plan *p) {
  const attention_match *m = p->match;
  bool unlike = p->packed || (p->masked && ir_form_extent(&m->form, m->query) <= p->block_q);
  for (int i = 0; i < m->bounds.n; i++) unlike = unlike || m->bounds.list[i].query != 0;
  return unlike;
}

template_reason attention_plan_make(const attention_match *m, const target *t, const config *c,
                                    attention_plan *plan) {
  const int *v = c->values;
  int wide = (int)ir_form_extent(&m->form, m->wide), halves = wide > HALVES_FROM ? 2 : 1;
  *plan = (attention_plan){.match = m,
                           .consumers = v[ATTENTION_CONSUMERS],
                           .block_m = 64 * v[ATTENTION_CONSUMERS] / halves,
                           .halves = halves,
                           .sum_columns = wide / halves,
                           .block_n = v[ATTENTION_BLOCK_N],
                           .stages = v[ATTENTION_STAGES],
                           .hold_q = v[ATTENTION_HOLD_Q],
                           .cluster = v[ATTENTION_CLUSTER],
                           .group = v[ATTENTION_GROUP],
                           .turns = v[ATTENTION_TURNS],
                           .overlap = v[ATTENTION_OVERLAP] == 1 || v[ATTENTION_OVERLAP] == 2,
                           .exchange = v[ATTENTION_OVERLAP] == 3,
                           .late_wait = v[ATTENTION_OVERLAP] == 2,
                           .persistent = v[ATTENTION_PERSISTENT],
                           .split = v[ATTENTION_SPLIT],
                           .masked = m->bounds.n > 0,
                           .packed = m->groups.of != NULL,
                           .page = page_of(m),
                           .threads = 128 * (v[ATTENTION_CONSUMERS] + 1)};
  if (plan->split && (plan->persistent || plan->packed)) return TEMPLATE_SCHEDULE;
  int depth = set_parts(m, plan);
  /* CTAs that share loads go through the same keys: of neighbouring queries all of them, else of heads. */
  plan->gathered = m->v.keys == ATTENTION_KEYS_ANY;
  bool alone = plan->page || plan->gathered;
  if (plan->cluster > 1 && (alone || !t->has.clusters)) return TEMPLATE_CLUSTER;
  if (plan->gathered && attention_gathered_rows(plan) > ATTENTION_GATHERED_ROWS) return TEMPLATE_TILE;
  plan->block_q = plan->block_m / v[ATTENTION_PACK];
  int spread = has_unlike_keys(plan) ? plan->cluster : 1;
  if (!attention_pack_make(m, v[ATTENTION_PACK], spread, &plan->pack)) return TEMPLATE_TILE;
  for (int i = 0; i < m->bounds.n; i++)
    plan->ends = plan->ends || (m->bounds.list[i].upper && m->bounds.list[i].query == 0 && !plan->gathered);
  plan->box_n = plan->page ? common_divisor(plan->page, plan->block_n) : plan->block_n / plan->cluster;
  if (plan->page && (plan->box_n % 8 || plan->block_n / plan->box_n > ATTENTION_MOST_BOXES))
    return TEMPLATE_TILE;
  if (halves == 2 && (plan->consumers != 2 || plan->hold_q)) return TEMPLATE_REGISTERS;
  if (plan->turns && plan->consumers < 2) return TEMPLATE_SCHEDULE;
  if (plan->exchange && (halves < 2 || plan->turns || !plan->values_are_keys)) return TEMPLATE_SCHEDULE;
  if (plan->exchange && plan->block_n > MOST_EXCHANGED) return TEMPLATE_TILE;
  /* The stage of values is held while the next step's keys come. */
  if ((plan->overlap || plan->values_are_keys) && plan->stages < 2) return TEMPLATE_STAGES;
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  plan->live_registers = plan->sum_columns / 2 + plan->block_n / 2 + plan->block_n / 4 + OVERHEAD_REGISTERS;
  if (plan->hold_q) plan->live_registers += depth / 4;
  if (plan->live_registers > attention_registers(plan)) return TEMPLATE_REGISTERS;
  if (plan->hold_q && depth > ATTENTION_HELD_DEPTH) return TEMPLATE_REGISTERS;
  plan->q = attention_tile_make(plan->block_m, depth);
  plan->k = attention_tile_make(plan->block_n, depth);
  plan->v = attention_tile_make(plan->block_n, wide);
  plan->k_stage_bytes = plan->k.bytes;
  if (plan->exchange) set_exchange(plan);
  int available = t->smem_per_block_bytes - STATIC_SMEM_BYTES;
  if (plan->gathered) available -= attention_seen_bytes(plan);
  if (plan->exchange) available -= attention_exchanged_bytes();
  int steps = plan->stages * attention_step_bytes(plan);
  int half = available / 2 - 2 * STATIC_SMEM_BYTES;
  plan->resident = plan->consumers == 1 && steps + plan->q.bytes <= half ? 2 : 1;
  int most = plan->resident == 2 ? half : available;
  plan->q_stages = plan->persistent && steps + 2 * plan->q.bytes <= most ? 2 : 1;
  plan->smem_bytes = plan->q_stages * plan->q.bytes + steps;
  if (plan->smem_bytes > most) return TEMPLATE_SHARED_MEMORY;
  const ir_access *o = &m->form.accesses[m->o];
  dtype stored = ir_tensor_dtype(m->form.problem, o->tensor);
  plan->copied = (stored == DTYPE_BF16 || stored == DTYPE_F16) && o->n <= GEN_TMA_MAX_RANK &&
                 plan->v.panels <= plan->q.panels && !plan->split;
  plan->wide_offsets = lanes_need_wide_offsets(&m->form);
  plan->scores = (lanes_options){.loop = -1, .width = 1, .wide_offsets = plan->wide_offsets};
  plan->epilogue = (lanes_options){.loop = m->wide, .width = 2, .wide_offsets = plan->wide_offsets};
  plan->epilogue.wide = lanes_wide(&m->form, &plan->epilogue);
  plan->makes_queries = attention_makes_queries(m);
  if (plan->makes_queries) plan->queries = attention_query_lanes(m, plan->wide_offsets);
  plan->combine = plan->epilogue;
  plan->combine.width = ATTENTION_COMBINE_WIDTH;
  plan->combine.wide = lanes_wide(&m->form, &plan->combine);
  int64_t runs = attention_runs(plan, (int)t->rates.sm_count);
  plan->team = 1;
  while (plan->team < 32 && plan->team * ATTENTION_COMBINE_RUNS < runs) plan->team *= 2;
  return TEMPLATE_OK;
}
