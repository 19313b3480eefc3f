/* The dense product for warp-group matrix units: Y[m,n] = sum(k) A[m,k] * B[k,n] in any storage order of A
 * and B, by one producer warp, which copies tiles into a ring of shared-memory stages (TMA), and one or two
 * consumer warp groups, which multiply them (wgmma) and store the result through shared memory (TMA). Shared
 * by gemm_*.c; other folders know only the template's record. */
#ifndef ARKE_TEMPLATES_GEMM_H
#define ARKE_TEMPLATES_GEMM_H

#include "generator/gen_wgmma.h"
#include "templates/template.h"

/* --- what the operator is --- */

typedef struct gemm_match {
  int a, b, y; /* tensors of the signature, by role: A has the row index of Y, B the column index */
  int m, n, k; /* axes */
  bool a_k_major, b_k_major; /* k is the contiguous axis */
  bool y_transposed;         /* m is Y's contiguous axis, not n */
} gemm_match;

/* Whether the operator is one product, by the subscripts of its definition, whatever its name. */
bool gemm_match_op(const ir_op *op, gemm_match *match);
/* The match and what the sizes, dtypes and target have against it. */
template_reason gemm_fit(const ir_problem *p, const target *t, gemm_match *match, strbuf *detail);
/* The same product with the roles of A and B exchanged: Y' = B' A', Y stored transposed. */
gemm_match gemm_match_swapped(const gemm_match *match);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define GEMM_PARAMS(X)                                                                                       \
  X(BLOCK_M, "rows of the output tile of a CTA (of a warp group under SCHEDULE=1)", 64, 128, 192, 256)       \
  X(BLOCK_N, "columns of the output tile", 32, 64, 96, 128, 144, 152, 160, 168, 176, 184, 192, 208, 224,     \
    240, 256)                                                                                                \
  X(BLOCK_K, "elements of K in a pipeline stage", 64, 128)                                                   \
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
  X(STREAM_K, "1: tiles that would not fill a last wave are split along K, a like part for each SM", 0, 1)   \
  X(SWAP, "1: the transposed product is computed, so that rows and columns above change places", 0, 1)       \
  X(EVEN, "1: tiles are BLOCK_N wide or a little less, so that they fill the last wave", 0, 1)

typedef enum gemm_param {
#define X(NAME, ...) GEMM_##NAME,
  GEMM_PARAMS(X)
#undef X
      GEMM_PARAM_COUNT,
} gemm_param;

extern const space gemm_space;

/* --- what a configuration is --- */

/* An operand in shared memory: panels one swizzle wide along its contiguous axis, the last one perhaps wider
 * than what is left of the tile. */
typedef struct gemm_operand {
  bool k_major;
  int rows;         /* extent along M or N: BLOCK_M or BLOCK_N */
  int panels;       /* along the contiguous axis */
  int panel_width;  /* elements */
  int panel_height; /* rows of a panel, each panel_width elements long */
  int panel_bytes, bytes;
  gen_swizzle swizzle;
  int shares; /* CTAs of the cluster that share it; each loads panel_height / shares rows for all */
} gemm_operand;

typedef struct gemm_plan {
  gemm_match match; /* with SWAP the exchanged one: M, N, A and B are the kernel's */
  dtype type;
  int block_m, block_n, block_k, stages, consumers, cluster_m, cluster_n, group;
  bool pingpong, persistent, raster_n;
  bool deferred;    /* a tile is stored under the products of the next */
  bool stream;      /* the last tiles are split along K (gemm_stream.c) */
  bool even;        /* tiles of several widths fill whole waves (gemm_even.c) */
  int cluster;      /* CTAs of a cluster */
  int threads;      /* consumers, then the producer's warp group */
  int group_rows;   /* rows of the tile a consumer warp group owns */
  int accumulators; /* f32 registers a thread */
  gemm_operand a, b;
  int stage_bytes;
  int panel_n, panels;    /* the epilogue stores panels of so many columns; the last one may overlap */
  int store_buffers;      /* panels in flight, each consumer */
  bool store_over_stages; /* buffers for the whole tile, in the place of stages: a CTA has one tile */
  int store_buffer_bytes;
  int store_width, store_height; /* elements of a copy along Y's contiguous axis and the other one */
  gen_swizzle store_swizzle;
  int smem_bytes; /* dynamic */
  int slot_bytes; /* workspace of a CTA for the sums of a part of a tile; 0 without STREAM_K */
  int sums_bytes; /* of it that travel through a stage at a time */
} gemm_plan;

/* The plan of a configuration, or why the hardware cannot run it. Sizes of the problem play no part. */
template_reason gemm_plan_make(const gemm_match *match, dtype type, const target *t, const config *c,
                               gemm_plan *plan);
/* Column of a tile of so many columns at which a panel begins: the last panels end with the tile. */
int gemm_panel_column(const gemm_plan *plan, int columns, int panel);
/* With EVEN tiles have one of GEMM_EVEN_WIDTHS widths, GEMM_EVEN_STEP apart; the least of them. */
enum { GEMM_EVEN_WIDTHS = 3, GEMM_EVEN_STEP = 8 };
int gemm_narrowest(const gemm_plan *plan);
/* Tiles of the output counted in clusters. */
int64_t gemm_units_m(const gemm_plan *plan, int64_t m);
int64_t gemm_units_n(const gemm_plan *plan, int64_t n);

/* --- the template's functions --- */

template_reason gemm_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *gemm_space_of(const target *t);
void gemm_defaults(const ir_problem *p, const target *t, config *c);
template_reason gemm_feasible(const ir_problem *p, const target *t, const config *c);
double gemm_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c);
arke_status gemm_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
void gemm_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);

/* Kernels of the image and their launches. Parameters: tensor maps of A, B and Y, then M, N, K as i32; with
 * STREAM_K also the workspace's slots, one for each CTA, and its flags, one for each consumer group of a CTA,
 * which another kernel clears before. */
arke_status gemm_emit(gen_context *ctx, const target *t, const gemm_plan *plan, bool keep_llvm_ir, arena *a,
                      gen_output *out, arke_error *err);
arke_status gemm_recipe(const ir_op *op, const gemm_plan *plan, arena *a, recipe *r, arke_error *err);

#define GEMM_KERNEL_NAME "gemm"
#define GEMM_CLEAR_NAME  "gemm_clear_flags"
enum { GEMM_CLEAR_THREADS = 128 }; /* each clears a flag */

/* With STREAM_K the first k-step of a CTA is a 32-bit product of SMs and k-steps. */
enum { GEMM_STREAM_MAX_K = 1 << 28 };

#endif
