/* Attention (attention_match.h) for warp-group matrix units, by one producer warp, which copies tiles of Q, K
 * and V into shared memory (TMA), and up to three consumer warp groups of 64 queries each, which multiply
 * them (wgmma), keep the softmax in registers, and use its weights as the registers of the second product.
 * Shared by attention_*.c. */
#ifndef ARKE_TEMPLATES_ATTENTION_H
#define ARKE_TEMPLATES_ATTENTION_H

#include "generator/gen_wgmma.h"
#include "templates/attention_match.h"
#include "templates/attention_tile.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define ATTENTION_PARAMS(X)                                                                                  \
  X(CONSUMERS,                                                                                               \
    "warp groups that multiply, with 64 queries each, or two with the same 64 where values are wide", 1, 2,  \
    3)                                                                                                       \
  X(BLOCK_N, "keys of a step", 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192)                             \
  X(STAGES, "steps of K and of V in shared memory", 1, 2, 3, 4)                                              \
  X(TURNS, "1: warp groups take turns, so that one's softmax runs under another's products", 0, 1)           \
  X(OVERLAP,                                                                                                 \
    "1: the sums of a step are multiplied with the scores of the next; 2: and its softmax runs under them; " \
    "3: of two warp groups with the same queries each has every other step, and gives its weights to the "   \
    "other",                                                                                                 \
    0, 1, 2, 3)                                                                                              \
  X(HOLD_Q, "1: queries stay in registers, 0: products read them from shared memory, again in each step", 0, \
    1)                                                                                                       \
  X(CLUSTER,                                                                                                 \
    "CTAs that load each half of the keys and values, for all: with neighbouring queries, or heads that "    \
    "share keys where queries see not all of them",                                                          \
    1, 2)                                                                                                    \
  X(PACK, "heads of queries, with the same keys and values, that a tile has side by side", 1, 2, 4, 8, 16,   \
    32, 64)                                                                                                  \
  X(GROUP, "heads whose tiles are walked together, longest first; 0: all", 0, 1, 2, 4, 8, 16, 32)            \
  X(PERSISTENT, "0: a CTA for each tile, 1: a CTA for each SM, which loops over tiles", 0, 1)                \
  X(SPLIT,                                                                                                   \
    "CTAs of an SM that there are about, since several share the keys of a tile, which a second kernel "     \
    "combines; 0: none do",                                                                                  \
    0, 1, 2)                                                                                                 \
  X(MERGE,                                                                                                   \
    "CTAs of a cluster that share the keys of a tile, and add up what they have through shared memory: "     \
    "before that second kernel, or where SPLIT is 0 instead of it",                                          \
    1, 2, 4, 8)                                                                                              \
  X(CTAS, "CTAs on an SM; 0: two of one consumer where shared memory allows, else one", 0, 3, 4)

typedef enum attention_param {
#define X(NAME, ...) ATTENTION_##NAME,
  ATTENTION_PARAMS(X)
#undef X
      ATTENTION_PARAM_COUNT,
} attention_param;

extern const space attention_space;

/* --- what a configuration is --- */

/* Copies of a step of K, in pages; elements of a loop. */
enum { ATTENTION_MOST_BOXES = 24, ATTENTION_MOST_EXTENT = (1 << 30) - 4096 };
/* Columns of V from which on two warp groups share those of O. */
enum { ATTENTION_HALVES_FROM = 256 };
/* Columns of 8 bits that are added up in the matrix unit, which keeps 13 fraction bits of such a sum; and the
 * most runs of so many, which are added in f32. */
enum { ATTENTION_RUN_COLUMNS = 128, ATTENTION_SCORE_RUNS = 2 };
/* Columns of Q that stay in registers, at most; columns of O that a thread combines, and runs at once. */
enum {
  ATTENTION_HELD_DEPTH = 256,
  ATTENTION_COMBINE_WIDTH = 4,
  ATTENTION_COMBINE_RUNS = 4,
  ATTENTION_COMBINE_THREADS = 128
};

/* Heads with the same keys and values, in one tile: row r of a tile is query r / heads of head r % heads.
 * Those of a group of H / G (or all) are taken `heads` at a time, the last few perhaps fewer. */
typedef struct attention_pack {
  int heads;         /* a power of two; 1: a tile is of one head */
  int spread;        /* CTAs of a cluster, each of which has the next so many heads, and the same queries */
  int loop;          /* of the batch, where a cluster has several heads; else -1 */
  bool shared;       /* keys are read by h / (H / G), else not by h at all */
  bool whole;        /* what a cluster has divides the heads of a group */
  ir_dim of, groups; /* H and G, where it is shared */
} attention_pack;

/* K or V of 8 bits that products take as 16: it is copied to stages of its own, and converted from there by
 * warps beside the producer (attention_convert.c). */
typedef struct attention_copied {
  int stages; /* 0: not so */
  attention_tile tile;
} attention_copied;

typedef struct attention_plan {
  const attention_match *match;
  int consumers, block_m, block_n, stages, cluster, group;
  /* 2: the sums of O are too many for a warp group; two have the same queries, and half of the columns each.
   * Both multiply all the scores, or each those of every other step, and exchange weights. */
  int halves;
  bool exchange;
  int weights_offset; /* of a stage of K: where weights are exchanged */
  int k_stage_bytes;  /* from a stage of K to the next */
  int sum_columns;    /* of O, that a warp group has */
  bool turns, overlap, late_wait, hold_q, persistent;
  /* Parts of the product, one behind the other in the tiles of Q and K: so many panels of each. */
  int n_parts;
  const attention_part *parts[ATTENTION_PARTS];
  int part_panels[ATTENTION_PARTS];
  bool gathered;        /* rows of K and V lie where tensors say, each for itself */
  bool values_are_keys; /* V is what the first part has of K: it is loaded once */
  int split;            /* CTAs of an SM, where some share the keys of a tile; else 0 */
  int merge;            /* CTAs of a cluster that share the keys of a tile */
  bool masked;          /* keys can be out of a query's sight, other than past the last one */
  bool packed;          /* queries are of packed requests */
  bool ends;            /* keys of a request can end before the tensor does: what lies behind is nobody's */
  attention_pack pack;
  int block_q; /* queries of a tile */
  int page;    /* keys of a page; 0: K and V are read as they lie */
  int box_n;   /* keys of a copy: of a page, or a CTA's share of a step */
  int threads;
  int live_registers; /* of a consumer thread, about */
  int resident; /* CTAs of an SM: several small ones, of which some work while another starts or ends a tile
                 */
  attention_tile q, k, v; /* values that are keys: v is the first panels of k */
  bool narrow;            /* Q and K are of 8 bits, and scores products of those */
  int score_runs;         /* sums that a score is added up from; else 1 */
  attention_copied copied_k, copied_v;
  int q_stages;      /* 2 where they fit: the next tile's queries are copied under this one */
  int q_stage_bytes; /* from one to the next: queries, or what leaves from their place */
  bool copied; /* O leaves through the place of the tile's queries, by a tensor copy; else from registers */
  int smem_bytes;
  bool wide_offsets;
  bool makes_queries;                               /* consumers compute them (attention_queries.c) */
  lanes_options queries, scores, epilogue, combine; /* combine: of the kernel that combines runs of keys */
  int team; /* neighbouring threads of that kernel that share the runs of a few columns */
} attention_plan;

/* --- packing (attention_pack.c) --- */

/* False: the operator's heads cannot be packed so. */
bool attention_pack_make(const attention_match *m, int heads, int spread, attention_pack *pack);
/* Tiles of a cluster along the queries. */
int attention_along(const attention_plan *p);
/* What a walk over the batch counts along a loop: its elements, or packs of heads. */
int64_t attention_units(const attention_plan *p, int loop);
int64_t attention_all_units(const attention_plan *p);
const recipe_expr *attention_units_recipe(const attention_plan *p, int loop, arena *a);
const recipe_expr *attention_pack_heads(const attention_plan *p, arena *a); /* of a group */
void attention_pack_require(const attention_plan *p, recipe *rules, arena *a);
/* The dimension of a tensor map, 0 the fastest, for subscript s of Q or O: heads go before queries. */
int attention_map_dimension(const attention_plan *p, int access, int s);

/* Tiles of the queries of a head, counted in clusters; of packed requests at most. */
int64_t attention_tiles(const attention_plan *p);
/* Whether the keys of a tile are shared by CTAs. */
bool attention_has_runs(const attention_plan *p);
/* CTAs of a cluster. */
int attention_ctas(const attention_plan *p);
/* Of clusters of MERGE CTAs those that are at work at once, of the SMs' CTAs divided by MERGE: above two of a
 * cluster all SMs of a GPC are not a multiple of it. */
enum { ATTENTION_CLUSTERS_HELD = 7, ATTENTION_CLUSTERS_OF = 8 };
/* SPLIT: CTAs, or clusters of MERGE, of a tile in this problem, on so many SMs; else 1. */
int64_t attention_runs(const attention_plan *p, int sm_count);
/* Steps that a tile has a multiple of. */
int attention_steps_at_once(const attention_plan *p);
/* Of a step of keys and values in shared memory. */
int attention_step_bytes(const attention_plan *p);
/* Whether steps of a tile begin elsewhere than at the first key. */
bool attention_has_origin(const attention_plan *p);
/* Registers of a consumer's and of a producer's thread, which setmaxnreg gives them: together no more than
 * the CTA was started with. */
int attention_registers(const attention_plan *p);
int attention_producer_registers(const attention_plan *p);
bool attention_converts(const attention_plan *p);

/* What a few parameters alone have against a configuration; attention_plan_make says the same. */
template_reason attention_check_numbers(const config *c);
/* The plan of a configuration, or why the hardware cannot run it. */
template_reason attention_plan_make(const attention_match *m, const target *t, const config *c,
                                    attention_plan *plan);

/* --- what it is for (attention_fit.c) --- */

/* Of 8 bits: Q, and with it K and V; K; V. */
bool attention_has_narrow_queries(const attention_match *m);
bool attention_has_narrow_keys(const attention_match *m);
bool attention_has_narrow_values(const attention_match *m);
/* The first panels of a tile of keys are those of values, if values are keys: they belong to this part. */
const attention_part *attention_first_part(const attention_match *m);
bool attention_values_are_keys(const attention_match *m, const attention_part *part);

/* --- keys at gathered places (attention_gather.c) --- */

/* Places that a thread of the producer keeps for a step. */
enum { ATTENTION_GATHERED_ROWS = 8 };
int attention_gathered_rows(const attention_plan *p);
/* Of the lists of keys that are seen, beside the stages. */
int attention_seen_bytes(const attention_plan *p);

/* --- computed queries (attention_queries.c) --- */

enum { ATTENTION_MOST_PACK = 64 };
bool attention_makes_queries(const attention_match *m);
/* Columns of a block of them. */
int64_t attention_block_columns(const attention_match *m);
lanes_options attention_query_lanes(const attention_match *m, bool wide_offsets);

/* MERGE: what a CTA has of a tile in the end, where its queries and keys were (attention_merge.c). */
int attention_merged_bytes(const attention_plan *p);

/* Shared by groups that exchange weights (attention_exchange.c), beside them. */
int attention_exchanged_bytes(void);

/* --- the template's functions --- */

/* The match and what sizes, dtypes and target have against it. */
template_reason attention_fit(const ir_problem *p, const target *t, arena *a, attention_match *m,
                              strbuf *detail, arke_status *status);
template_reason attention_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *attention_space_of(const target *t);
void attention_defaults(const ir_problem *p, const target *t, config *c);
const void *attention_prepare(const ir_problem *p, const target *t, arena *a);
template_reason attention_check_schedule(const void *prepared, const target *t, const config *c);
template_reason attention_check_tiles(const void *prepared, const target *t, const config *c);
template_reason attention_judge(const void *prepared, const target *t, const target_rates *rates,
                                const config *c, double *ns);
double attention_plan_cost_ns(const attention_plan *plan, const target *t, const target_rates *rates);
arke_status attention_ways(const ir_problem *p, const target *t, const config *c,
                           const lower_options *options, arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status attention_lower(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, lowered *out, arke_error *err);
void attention_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                               ir_problem *reduced);

#endif
