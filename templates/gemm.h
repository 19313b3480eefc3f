/* Contractions for warp-group matrix units: Y[batch,m,n] = epilogue(sum(k) A[batch,m,k] * B[batch,n,k], …) in
 * any layout that tensor copies can address, by one producer warp, which copies tiles into a ring of
 * shared-memory stages (TMA), and one or two consumer warp groups, which multiply them (wgmma), evaluate the
 * epilogue on the sums and store the result, through shared memory (TMA) where that can. Several sums over
 * one A (a gate and what it opens) are one product whose columns lie in several operands. Shared by gemm_*.c;
 * other folders know only the template's record. */
#ifndef ARKE_TEMPLATES_GEMM_H
#define ARKE_TEMPLATES_GEMM_H

#include "generator/gen_wgmma.h"
#include "templates/contraction.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/product_rows_combine.h"

/* --- what the operator is --- */

/* How elements of A and B are multiplied (gemm_types.c). */
typedef struct gemm_type {
  dtype a, b;      /* elements of the kernel's operands, of one size */
  int bytes;       /* of an element */
  int k;           /* elements of K that an instruction takes: 32 bytes of each row */
  bool transposes; /* reads operands whose M or N is contiguous */
  gen_type sum;    /* of an accumulator */
  double rate;     /* of an operation, as a part of the target's f16_flops_per_s */
} gemm_type;

/* How copies address a tensor: the dimensions of its map, the contiguous one first, then the tile's other
 * one, then what is one index in a tile. */
enum { GEMM_MAP_RANK = 5, GEMM_READS = 2 };
typedef struct gemm_view {
  int access;
  int rank;
  int subscript[GEMM_MAP_RANK]; /* of the access */
  bool computed;                /* an index of it is more than a loop: evaluated in the kernel */
} gemm_view;

typedef struct gemm_match {
  const contraction *c;
  gemm_type type;
  int m, n, k;               /* loops of the form; a tile's rows are of m, its columns of n */
  contraction_loops outer;   /* all other loops of the output: one value each in a tile */
  contraction_loops k_outer; /* other loops of the terms: one value each in a stage */
  int n_sums;
  gemm_view a, b[CONTRACTION_SUMS]; /* B of each sum; they all have this A */
  gemm_view y;                      /* of the first output; rank 0: copies cannot store it */
  bool a_k_major, b_k_major;        /* k is the contiguous axis */
  bool y_transposed;                /* m is Y's contiguous axis, not n */
  int n_reads;                      /* what the epilogue reads by row and column, and copies can address */
  gemm_view reads[GEMM_READS];
  bool reads_transposed[GEMM_READS]; /* m is their contiguous axis */
  bool reads_staged[GEMM_READS];     /* copies can bring them through shared memory (gemm_reads.c) */
  bool bare;                         /* there is one output, and it is the sum (0 in rows of no group) */
  /* Factors of the terms beside the elements (gemm_scales.c): */
  int operand_a, operand_b[CONTRACTION_SUMS]; /* of the contraction */
  int64_t block;                              /* so many consecutive terms share them; 0: there are none */
  int64_t block_n;                            /* columns that share those of B; 0: all do */
  bool gathered; /* A's rows lie at places that are read: threads copy them (gemm_gather.c) */
  bool grouped;  /* rows are in ragged groups: of m, which choose B (contraction_groups.h) */
  bool merged;   /* a subscript may be of several dimensions, which lie without gaps */
} gemm_match;

/* The loops that a tile has, and a stage: a bit each. */
static inline unsigned gemm_tile_loops(const gemm_match *match) {
  return 1u << match->m | 1u << match->n | 1u << match->k;
}

/* Of a tile whose rows are reduced, unless it has all of them; of any tile, for all sums. */
enum { GEMM_LEAST_ROW_COLUMNS = 64, GEMM_MOST_COLUMNS = 256 };

/* What a contraction is to the template, or what its sizes and dtypes or the target have against it. */
enum {
  GEMM_CONTRACTIONS =
      CONTRACTION_GROUPED | CONTRACTION_REDUCED | CONTRACTION_SCATTERED | CONTRACTION_WHOLE_ROWS
};
template_reason gemm_fit_contraction(const target *t, const contraction *c, gemm_match *match,
                                     strbuf *detail);
/* The same of an operator. `c` is filled and must stay; memory is the arena's. */
template_reason gemm_fit(const ir_problem *p, const target *t, arena *a, contraction *c, gemm_match *match,
                         strbuf *detail);
/* The access whose elements are multiplied for an operand, -1 where they are computed. It may lie outside its
 * tensor where a condition leaves the sum out: copies bring zeros then. */
int gemm_read(const contraction *c, int operand);
/* Which factor of an operand of several is the elements; -1: it cannot be told from scales. */
int gemm_element_factor(const contraction *c, int operand);
/* Finds the blocks of terms and columns that share scales. `detail` as for gemm_fit. */
template_reason gemm_find_blocks(gemm_match *match, strbuf *detail);
/* How a contraction's operands are multiplied, or why they cannot be. */
template_reason gemm_choose_type(const contraction *c, gemm_type *type, strbuf *detail);
/* The same product with the roles of A and B exchanged: Y' = B' A', Y stored transposed. For one sum. */
gemm_match gemm_match_swapped(const gemm_match *match);
int64_t gemm_extent(const gemm_match *match, int loop); /* in the match's problem */

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define GEMM_PARAMS(X)                                                                                       \
  X(BLOCK_M, "rows of the output tile of a CTA (of a warp group under SCHEDULE=1)", 64, 128, 192, 256)       \
  X(BLOCK_N, "columns of the output tile", 32, 64, 96, 128, 144, 152, 160, 168, 176, 184, 192, 208, 224,     \
    240, 256)                                                                                                \
  X(BLOCK_K, "K in a pipeline stage, in elements of 16 bits: half or twice as many of others", 64, 128)      \
  X(STAGES, "stages of the shared-memory ring", 2, 3, 4, 5, 6, 7, 8)                                         \
  X(CONSUMERS, "warp groups that multiply", 1, 2)                                                            \
  X(SCHEDULE,                                                                                                \
    "0: consumers share a tile; 1: ping-pong, each has its own and they take turns; 2: as 0, but a tile is " \
    "stored under the products of the next",                                                                 \
    0, 1, 2)                                                                                                 \
  X(CLUSTER_M, "CTAs of a cluster along M, which share the tile of B", 1, 2)                                 \
  X(CLUSTER_N, "CTAs of a cluster along N, which share the tile of A", 1, 2)                                 \
  X(RASTER, "0: tiles run along M first, 1: along N first", 0, 1)                                            \
  X(GROUP, "tiles along the first direction before the other one advances", 1, 2, 4, 8, 16)                  \
  X(PERSISTENT, "0: a CTA for each tile, 1: a CTA for each SM, which loops over tiles", 0, 1)                \
  X(STREAM_K,                                                                                                \
    "1: tiles that would not fill a last wave are split along K, a like part for each SM; 2: each tile's K " \
    "is shared by a cluster of two CTAs",                                                                    \
    0, 1, 2)                                                                                                 \
  X(SWAP, "1: the transposed product is computed, so that rows and columns above change places", 0, 1)       \
  X(EVEN, "1: tiles are BLOCK_N wide or a little less, so that they fill the last wave", 0, 1)               \
  X(STAGED,                                                                                                  \
    "1: what the epilogue reads by row and column, and scales of blocks, come through shared memory, ahead " \
    "of their use",                                                                                          \
    0, 1)

typedef enum gemm_param {
#define X(NAME, ...) GEMM_##NAME,
  GEMM_PARAMS(X)
#undef X
      GEMM_PARAM_COUNT,
} gemm_param;

extern const space gemm_space;

/* --- what a configuration is --- */

/* An operand in shared memory: panels one swizzle wide along its contiguous axis, the last one perhaps wider
 * than what is left of the tile. B of several sums: one part after the other along N. */
typedef struct gemm_operand {
  bool k_major;
  int parts;        /* copied each from its own tensor or place */
  int rows;         /* of a part along M or N: BLOCK_M or BLOCK_N */
  int panels;       /* of a part along the contiguous axis */
  int panel_width;  /* elements */
  int panel_height; /* rows of a panel, each panel_width elements long; all parts' where K is contiguous */
  int copy_height;  /* of them those of a part */
  int panel_bytes, bytes;
  int part_bytes; /* from one part to the next in a panel, or of all its panels */
  gen_swizzle swizzle;
  int shares; /* CTAs of the cluster that share it; each loads copy_height / shares rows for all */
} gemm_operand;

enum { GEMM_MOST_SCALES = 16 }; /* within the sum, of a thread in a stage */

typedef struct gemm_plan {
  gemm_match match; /* with SWAP the exchanged one: M, N, A and B are the kernel's */
  int block_m, block_n, block_k, stages, consumers, cluster_m, cluster_n, group;
  bool pingpong, persistent, raster_n;
  bool deferred;    /* a tile is stored under the products of the next */
  bool stream;      /* the last tiles are split along K (gemm_stream.c) */
  bool even;        /* tiles of several widths fill whole waves (gemm_even.c) */
  int cluster;      /* CTAs of a cluster */
  int sharers;      /* of them, CTAs that share tiles of A or B */
  int split;        /* or that share a tile's K (gemm_split.c); 1: none do */
  int finish_n;     /* columns of a tile that a CTA finishes and stores */
  int threads;      /* consumers, then the producer's warp group */
  int group_rows;   /* rows of the tile a consumer warp group owns */
  int accumulators; /* registers a thread, for all sums */
  int registers;    /* that a consumer's thread may have */
  int segment;      /* columns of a tile that share the scales of B within the sum */
  int part_n; /* columns of the partial sums that leave the matrix unit; 0: sums stay (gemm_promote.c) */
  gemm_operand a, b;
  int stage_bytes;
  /* With EVEN and several sums: parts of B follow one another at the tile's width, not BLOCK_N. Copies bring
   * the columns that all widths have, then steps of GEMM_EVEN_STEP. */
  bool packs_columns;
  int panel_n, panels; /* the epilogue takes panels of so many columns; the last one may overlap */
  /* Where copies store the first output (match.y). */
  int store_buffers;      /* panels in flight, each consumer */
  bool store_over_stages; /* buffers for the whole tile, in the place of stages: a CTA has one tile */
  int store_buffer_bytes;
  int store_width, store_height; /* elements of a copy along Y's contiguous axis and the other one */
  gen_swizzle store_swizzle;
  int smem_bytes;     /* dynamic */
  int slot_bytes;     /* workspace of a CTA for the sums of a part of a tile; 0 without STREAM_K */
  int sums_bytes;     /* of it that travel through a stage at a time */
  bool scales_staged; /* STAGED: scales of blocks come through a ring (gemm_scale_ring.c) */
  int scales_offset;  /* in dynamic shared memory */
  /* STAGED: bytes of what the epilogue reads of a panel (0: it loads them itself), panels in a stage, and
   * stages of a tile. Under ping-pong places of each group's own instead, of one panel. */
  bool staged;
  int read_panel_bytes, read_panels, read_stages;
  int read_places, reads_offset; /* of a group; in dynamic shared memory */
  /* How the epilogue, and indices of operands that are more than loops, are evaluated. */
  product_rows_layout row_parts; /* where rows are reduced (contraction_rows.h) */
  lanes_options epilogue, indices, scales;
  int chunk_blocks; /* of 8 columns, whose reads are under way together */
} gemm_plan;

/* The plan of a configuration, or why the hardware cannot run it. Sizes of the problem play no part. */
template_reason gemm_plan_make(const gemm_match *match, const target *t, const config *c, gemm_plan *plan);
/* Fills in plan->epilogue and plan->indices, before the kernel is made. */
void gemm_choose_evaluation(gemm_plan *plan);
/* What parameters have against one another, whatever the problem and the target. */
template_reason gemm_check_numbers(const config *c);
/* Whether threads can copy rows of A for this tile. */
bool gemm_gathers(const gemm_plan *plan);
/* STREAM_K=2: bytes of shared memory that sums take when products are done, what is stored included. */
int gemm_split_bytes(const gemm_plan *plan);
/* STAGED: bytes of a k-step's scales, which GEMM_SCALE_WARPS warps bring into a ring of so many steps. */
enum { GEMM_SCALE_WARPS = 2, GEMM_SCALE_RING = 8 };
int gemm_scale_bytes(const gemm_plan *plan);
/* STAGED: how stages hold what the epilogue reads; false: a panel does not fit one. What of shared memory it
 * takes beside them. */
bool gemm_place_reads(gemm_plan *plan);
int gemm_read_place_bytes(const gemm_plan *plan);
uint64_t gemm_staged_accesses(const gemm_plan *plan); /* bit i: access i */
/* Copies of a read: a consumer group's rows of a panel are `count` boxes, one after the other. */
typedef struct gemm_box {
  int width, height, count;
  gen_swizzle swizzle;
} gemm_box;
gemm_box gemm_read_box(const gemm_plan *plan, int read);
/* Column of a tile of so many columns at which a panel begins: the last panels end with the tile. */
int gemm_panel_column(const gemm_plan *plan, int columns, int panel);
/* With EVEN tiles have one of GEMM_EVEN_WIDTHS widths, GEMM_EVEN_STEP apart; the least of them. */
enum { GEMM_EVEN_WIDTHS = 3, GEMM_EVEN_STEP = 8 };
int gemm_narrowest(const gemm_plan *plan);
/* Tiles of one matrix of the output counted in clusters; matrices. */
int64_t gemm_units_m(const gemm_plan *plan, int64_t m);
int64_t gemm_units_n(const gemm_plan *plan, int64_t n);
int64_t gemm_batches(const gemm_plan *plan);
/* Values of the terms' outer loops together: K has so many parts. */
int64_t gemm_k_parts(const gemm_match *match);

/* --- the template's functions --- */

template_reason gemm_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *gemm_space_of(const target *t);
void gemm_defaults(const ir_problem *p, const target *t, config *c);
const void *gemm_prepare(const ir_problem *p, const target *t, arena *a);
template_reason gemm_check_shape(const void *prepared, const target *t, const config *c);
template_reason gemm_check_tiles(const void *prepared, const target *t, const config *c);
template_reason gemm_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns);
double gemm_plan_cost_ns(const gemm_plan *plan, const target_rates *rates);
double gemm_bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                     const config *c);
double gemm_plan_bound_ns(const gemm_plan *plan, const target *t, const target_rates *rates);
arke_status gemm_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status gemm_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
void gemm_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);

/* --- the kernel and its launch --- */

/* What the kernel's text reads, as gemm_lower.c declares it: numbers of parameters. With STREAM_K the
 * workspace has slots, one for each CTA, and flags, one for each consumer group of a CTA, which another
 * kernel clears before. */
typedef struct gemm_kernel {
  const gemm_plan *plan;
  arena *a;
  int map_a, map_b[CONTRACTION_SUMS], map_y, map_reads[GEMM_READS];
  int map_b_steps[CONTRACTION_SUMS]; /* packs_columns */
  int m, n, k;
  int batches, extents[IR_FORM_LOOPS]; /* of outer loops, the terms' included */
  int k_outer;                         /* of those of the terms together */
  int slots, flags;
  int row_parts, row_tiles; /* parts of rows that are reduced, and columns of tiles (gemm_rows.c) */
  int group_count;
  int group_tiles; /* the list of tiles of rows (gemm_groups.c) */
  lanes_args epilogue_slots, index_slots, scale_slots;
  struct gemm_emitter *current;
} gemm_kernel;

arke_status gemm_emit(gen_builder *b, const target *t, void *kernel, arke_error *err);
/* Ragged groups (gemm_groups.c): a kernel of its own lists the tiles of rows in the workspace, group by
 * group, for the one that multiplies. */
arke_status gemm_list_groups(const gemm_plan *plan, const char *name, arena *a, kernel_launch *l,
                             arke_error *err);
/* Tiles of rows, as many as there may be; bytes of the list. */
const recipe_expr *gemm_group_tiles(const gemm_plan *plan, arena *a);
const recipe_expr *gemm_group_bytes(const gemm_plan *plan, arena *a);
/* The value of a row's group, for evaluators whose `user` is a gemm_kernel. */
arke_status gemm_group_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);
/* Elements of a staged read in the fragment at hand, for evaluators whose `user` is a gemm_kernel. */
arke_status gemm_read_value(void *user, int access, gen_value *elements, arke_error *err);
/* Its one parameter is the address of the flags. */
arke_status gemm_emit_clear(gen_builder *b, const target *t, void *unused, arke_error *err);
/* The map of a tensor that copies take `width` by `height` elements of. */
recipe_tensormap gemm_map(const gemm_match *match, const gemm_view *view, int width, int height,
                          gen_swizzle swizzle, arena *a);
/* What maps take for granted. */
void gemm_require_view(const gemm_match *match, const gemm_view *view, recipe *rules, arena *a);

enum { GEMM_CLEAR_THREADS = 128 }; /* each clears a flag */

/* With STREAM_K the first k-step of a CTA is a 32-bit product of SMs and k-steps. */
enum { GEMM_STREAM_MAX_K = 1 << 28 };

#endif
