/* The time of a configuration: what a step takes an SM, how many of them the longest CTA has, and what tiles
 * cost beside them. */
#include <math.h>

#include "templates/attend.h"
#include "templates/attention.h"

/* Fitted to 1,000 configurations of 30 problems, timed on an H200 at its power limit. Nanoseconds, and parts
 * of the whole: */
static const double tile_ns =
    4000; /* of a tile beside its steps: barriers, the first copies, the last products */
static const double next_tile_ns = 2000; /* of one that a CTA has after others, whose copies ran ahead; an
                                          * SM's other CTA goes on meanwhile */
static const double sustained = 0.85;    /* of the matrix units' rate, which lasts a few milliseconds */
/* Of an element of 8 bits that is converted to f16, and to bf16: counted, not fitted. */
static const double converted_instructions = 0.8, converted_twice_instructions = 2.3;
static const double exp_per_clock = 16;                                /* of an SM */
static const double softmax_instructions = 5.2, lanes_per_clock = 128; /* of an element; of an SM */
static const double step_ns = 30;
static const double copy_ns = 60; /* of a tensor copy: 40 of 2 KiB, of pages, took 2.4 us */
/* Of groups that exchange weights, fitted to steps of 32 and of 64 keys: what of a step is of its keys, and
 * what it takes whatever it has, to give and to get. */
static const double exchange_share = 0.68, exchange_ns = 570;
/* Of packed requests, whose tiles are in order of their lengths among the heads that are walked together: of
 * some of the heads there are too few to even out. */
static const double unlike_requests = 1.12;
static const double made_ns = 700; /* of a tile whose queries are computed: reckoned, not fitted */
static const double made_instructions = 3, node_instructions = 1; /* of an element of those, and of a node */
static const double combine_ns = 3300,
                    combine_bytes_per_ns = 3600; /* of the second launch, behind the first */
/* MERGE, fitted to 33 configurations of six problems: what a cluster's meetings take, what a CTA takes in of
 * the others' shared memory, and by how much the CTAs of a pair, and of more, wait for one another. */
static const double merge_ns = 2000, merge_bytes_per_ns = 25, pair_wait = 1.04, cluster_wait = 1.2;

/* What a request has, about: all of them alike. */
typedef struct request_size {
  double queries, keys;
} request_size;

/* A bound's value for a query of a request. What tensors say is taken for the number of its keys where it is
 * added, and of its queries where it is subtracted, as in q + lens[b] - S; false: that is all there is. */
static bool bound_value(const ir_form *form, const attention_bound *b, request_size size, double query,
                        double *v) {
  bool reads = false;
  *v = (double)b->query * query + (double)b->rest.constant;
  for (int i = 0; i < b->rest.n; i++) {
    const lanes_term *t = &b->rest.terms[i];
    int64_t x = 0;
    bool known = lanes_static_value(form, t->e, &x);
    reads = reads || !known;
    *v += (double)t->coefficient * (known ? (double)x : t->coefficient > 0 ? size.keys : size.queries);
  }
  int64_t times = 1;
  if (b->times && lanes_static_value(form, b->times, &times)) *v *= (double)times;
  return !reads || b->query != 0;
}

/* Steps of the tile whose first query is `first`. */
static double steps_of(const attention_plan *p, double first, request_size size) {
  const attention_match *m = p->match;
  double last = fmin(first + p->block_q, size.queries) - 1, from = 0, below = size.keys;
  for (int i = 0; i < m->bounds.n; i++) {
    const attention_bound *b = &m->bounds.list[i];
    double x, y;
    if (!bound_value(&m->form, b, size, first, &x) || !bound_value(&m->form, b, size, last, &y)) continue;
    if (b->upper) {
      below = fmin(below, fmax(x, y));
    } else {
      from = fmax(from, fmin(x, y));
    }
  }
  return fmax(1, ceil((below - from) / p->block_n));
}

/* A step of all consumer groups: products and softmax, of which the shorter is hidden for the most part. */
static double step_time(const attention_plan *p, const target_rates *rates, int resident) {
  static const double groups[] = {0, 1.6, 1, 0.6, 0.5}; /* more groups leave less of it */
  static const double overlaps[3][3] = {{1.04, 1, 1.03}, {1.03, 1, 0.985}, {1.04, 1, 1.01}};
  bool deep = p->q.columns > 64;
  const double *overlap = overlaps[p->consumers == 3 ? 2 : deep];
  double loads = (p->hold_q ? p->consumers == 3 ? 0.993 : 0.985 : 1) * (p->cluster == 1 ? 1
                                                                        : deep          ? 0.94
                                                                                        : 0.985);
  double ns_per_clock = 1e9 / rates->clock_hz, sms = rates->sm_count;
  double scores = (double)p->block_m * p->block_n;
  int times = p->exchange ? 1 : p->halves; /* that all scores are multiplied */
  /* Of 8 bits the scores' products take half of the time. */
  double depth = p->q.columns * p->q.element_bytes / 2.0, flops = 2 * scores * (times * depth + p->v.columns);
  double math = flops / (rates->f16_flops_per_s * sustained / sms) * 1e9 * (1 + 6.0 / p->block_n);
  double instructions = 0.3 * softmax_instructions;
  if (!p->match->by_row) instructions += attend_body_instructions(p->match);
  double softmax = (scores / exp_per_clock + scores * instructions / lanes_per_clock) * ns_per_clock * times;
  double converted = (p->copied_k.stages ? p->k.columns : 0) + (p->copied_v.stages ? p->v.columns : 0),
         each = p->match->type == DTYPE_F16 ? converted_instructions : converted_twice_instructions;
  softmax += (double)p->block_n * converted * each / lanes_per_clock * ns_per_clock;
  double least = fmin(math, softmax), most = fmax(math, softmax);
  double shown =
      (0.25 + 0.3 * least / most) * groups[p->consumers * resident] * (p->turns || p->late_wait ? 1 : 1.1);
  double time = (most + fmin(shown, 1) * least) * overlap[p->overlap + p->late_wait] * loads + step_ns;
  return p->exchange ? exchange_share * time + exchange_ns : time;
}

/* Of a step of pages, which is copied box by box: by panels of 128 bytes a row, of as many keys as a page and
 * a step have in common. */
static double copy_time(const attention_plan *p) {
  if (!p->page) return 0;
  int keys = p->copied_k.stages ? p->copied_k.tile.panels : p->k.panels,
      values = p->values_are_keys   ? 0
               : p->copied_v.stages ? p->copied_v.tile.panels
                                    : p->v.panels;
  return copy_ns * (keys + values) * (p->block_n / p->box_n);
}

/* Of the row of a key in memory, and of its values. */
static double stored_bytes(const attention_plan *p) {
  double key = attention_has_narrow_keys(p->match) ? 1 : 2,
         value = attention_has_narrow_values(p->match) ? 1 : 2;
  return key * p->k.columns + (p->values_are_keys ? 0 : value * p->v.columns);
}

/* Keys and values come from L2 again and again, and from memory once; or where those of a group of heads do
 * not fit L2, which are walked tile by tile, once for all the tiles with the same keys that are at work
 * together: tiles of a head, and its neighbours that share its keys. Few queries have one tile, whose keys
 * nobody else reads. Queries and outputs pass once. */
static double memory_time(const attention_plan *p, const target_rates *rates, double heads, double sharing,
                          double tiles, double steps, double keys) {
  double columns = p->k.columns + (p->values_are_keys ? 0 : p->v.columns);
  double sms = rates->sm_count, row = stored_bytes(p), traffic = steps * p->block_n * row;
  double together = p->group == 0 ? heads : fmin(heads, p->group);
  double at_work = fmin(heads, together + sms / tiles), once = heads * tiles * p->block_m * columns;
  double alike = fmax(1, fmin(tiles * sharing, sms / fmax(1, together / sharing)));
  bool fits = fmax(1, at_work / sharing) * keys * row < 0.8 * (double)rates->l2_bytes;
  double memory = once + (fits ? heads / sharing * keys * row : traffic / alike);
  return fmax(memory / rates->dram_bytes_per_s, traffic / p->cluster / rates->l2_bytes_per_s) * 1e9;
}

static double nodes_of(const ir_expr *e) {
  double n = e->node == IR_OPERATOR || e->node == IR_READ || e->node == IR_CALL;
  for (int i = 0; i < e->n_args && e->node != IR_READ; i++) n += nodes_of(e->args[i]);
  return n;
}

/* Of a tile whose queries are computed: until they are read, and while all groups are at it. */
static double query_time(const attention_plan *p, const target_rates *rates) {
  if (!p->makes_queries) return 0;
  const ir_form *blocks = p->match->parts[0].blocks;
  double elements = (double)p->block_m * p->q.columns, each = made_instructions;
  for (int i = 0; i < blocks->n_outputs; i++)
    each += node_instructions * nodes_of(blocks->outputs[i].value) / blocks->n_outputs;
  return made_ns + elements * each / lanes_per_clock * 1e9 / rates->clock_hz;
}

/* SPLIT: a second launch, and what CTAs leave for it, which is still in L2. */
static double combine_time(const attention_plan *p, double queries, double units) {
  if (!p->split) return 0;
  /* Written, and read; by lanes that share a row at half the rate. */
  double bytes = (p->team > 1 ? 10 : 8) * queries * p->pack.heads * units * p->v.columns;
  return combine_ns + bytes / combine_bytes_per_ns;
}

/* Of a tile whose keys a cluster shares: each CTA adds up its share of the rows that there are. */
static double merge_time(const attention_plan *p, double queries) {
  if (p->merge == 1) return 0;
  double bytes = 4 * fmin(p->block_m, queries * p->pack.heads) * p->v.columns;
  return merge_ns + bytes * (p->merge - 1) / p->merge / merge_bytes_per_ns;
}

/* CTAs at work at once, one on an SM. Two of a cluster share a TPC; of more some of a GPC's SMs are left
 * over: 32 clusters of 4 were at work on an H200's 132. */
static double slots_of(const attention_plan *p, double sms) {
  if (p->merge == 1) return sms;
  return (floor(sms / p->merge) - (p->merge > 2)) * p->merge;
}

double attention_plan_cost_ns(const attention_plan *p, const target *t, const target_rates *rates) {
  const attention_match *m = p->match;
  (void)t;
  double queries = (double)ir_form_extent(&m->form, m->query),
         keys = (double)ir_form_extent(&m->form, m->key);
  double heads = (double)attention_all_units(p) * p->pack.spread, all = 0, longest = 0, sms = rates->sm_count;
  attend_rows rows;
  attend_rows_find(m, &rows);
  double sharing = fmax(1, heads / fmax(1, (double)attend_units(m, &rows)));
  if (p->packed) {
    double requests = fmax(1, (double)ir_form_extent(&m->form, m->groups.loop));
    queries = ceil(queries / requests);
    if (!p->page) keys = ceil(keys / requests);
    heads *= requests;
  }
  request_size size = {queries, keys};
  double tiles = ceil(queries / (p->block_q * attention_along(p))) * attention_along(p);
  int64_t sampled = tiles > 64 ? 64 : (int64_t)tiles;
  for (int64_t i = 0; i < sampled; i++) {
    double tile = floor(((double)i + 0.5) * tiles / (double)sampled);
    double steps = steps_of(p, tile * p->block_q, size);
    all += steps * tiles / (double)sampled;
    longest = fmax(longest, steps);
  }
  double parts = (double)attention_runs(p, rates->sm_count), runs = parts * p->merge;
  heads *= runs;
  all /= runs;
  int at_once = attention_steps_at_once(p);
  longest = runs > 1 ? ceil(ceil(longest / at_once) / runs) * at_once : longest;
  /* CTAs of an SM are half as fast each; where there are fewer than that, an SM has one. */
  double items = tiles * heads;
  int resident = items <= sms ? 1 : p->resident;
  sms = slots_of(p, sms) * resident;
  double rounds = ceil(items / sms), each = fmax(step_time(p, rates, resident), copy_time(p)) * resident;
  /* Tiles of like lengths come in rounds; of unlike ones the longest come first, and the others fill up. */
  double uneven = p->packed && p->group ? unlike_requests : p->group == 1 ? 1.06 : 1.02;
  bool even = !p->masked || p->merge > 1; /* a cluster's runs end together */
  double steps = !even ? fmax(longest, all * heads / fmin(sms, items) * uneven) : rounds * longest;
  double between = p->persistent ? tile_ns + (rounds - 1) * next_tile_ns / resident : rounds * tile_ns;
  between += rounds * (query_time(p, rates) + merge_time(p, queries));
  double stages = p->stages > 1 ? 1 : 1.25;
  if (p->merge > 1) steps *= p->merge == 2 ? pair_wait : cluster_wait;
  double math = steps * each * stages + between,
         memory = memory_time(p, rates, heads / runs, sharing, tiles, all * heads, keys);
  return rates->launch_ns + fmax(math, memory) + 0.05 * fmin(math, memory) +
         combine_time(p, queries, heads / p->merge);
}
