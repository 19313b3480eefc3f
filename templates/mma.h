/* Contractions on every GPU with asynchronous copies: tiles of both operands go through shared memory, stage
 * after stage, to products of warps (mma.sync), or to fused multiply-adds of threads where the values need
 * f32, f64 or whole integers. Operands whose elements are what the product takes and line up are copied
 * (cp.async); all others pass through registers, where they are computed and converted. Inside mma_*.c. */
#ifndef ARKE_TEMPLATES_MMA_H
#define ARKE_TEMPLATES_MMA_H

#include "generator/gen_mma.h"
#include "templates/contraction.h"
#include "templates/group_tiles.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/product_rows_combine.h"

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define MMA_PARAMS(X)                                                                                        \
  X(BLOCK_M, "rows of the output tile of a CTA", 16, 32, 64, 128, 256)                                       \
  X(BLOCK_N, "columns of it", 16, 32, 64, 128, 256)                                                          \
  X(BLOCK_K, "elements of K in a stage", 8, 16, 32, 64, 128)                                                 \
  X(STAGES, "stages of the shared-memory ring", 2, 3, 4, 6)                                                  \
  X(WARPS_M, "warps along the tile's rows", 1, 2, 4, 8)                                                      \
  X(WARPS_N, "warps along its columns", 1, 2, 4)                                                             \
  X(GROUP, "rows of tiles that are walked together, column by column", 1, 8)                                 \
  X(SPLIT_K, "CTAs that share the terms of a tile, summed in order by a second kernel", 1, 2, 4, 8, 16)

typedef enum mma_param {
#define X(NAME, ...) MMA_##NAME,
  MMA_PARAMS(X)
#undef X
      MMA_PARAM_COUNT,
} mma_param;

extern const space mma_space;

/* --- what a configuration is --- */

enum {
  MMA_CONTRACTIONS =
      CONTRACTION_GROUPED | CONTRACTION_REDUCED | CONTRACTION_SCATTERED | CONTRACTION_WHOLE_ROWS,
  MMA_PARTS = 3,
  MMA_MOST_COLUMNS = 256, /* of a tile that has whole rows, of all sums */
  MMA_LEAST_ROW_COLUMNS =
      64 /* of a tile whose rows are reduced: its parts of rows are small beside rows then */
};

/* How terms are multiplied and added up. */
typedef struct mma_product {
  bool fma;       /* by threads, one by one; else by mma.sync */
  gen_type sum;   /* of an accumulator */
  int k;          /* terms of one instruction; 1 with fma */
  double rate;    /* of a term, as a part of the target's f16_flops_per_s */
  int64_t most_k; /* sums of more terms could overflow; 0: none can */
} mma_product;

/* A tile of an operand in shared memory: rows of chunks of 16 bytes, permuted so that 8 rows' chunks of one
 * column lie in different banks. */
typedef struct mma_tile {
  const contraction_operand *operand;
  dtype element;     /* in shared memory */
  int access;        /* whose elements those are as they lie in memory; -1: they are computed or converted */
  gen_mma_type type; /* of the product */
  int parts;         /* elements that add up to a value: more than 1 where one would not be exact */
  int bytes;         /* of an element */
  int extent;        /* BLOCK_M or BLOCK_N */
  bool k_major;      /* a row is a run of k; else of m or n */
  int row_bytes, rows;
  int tile_bytes, offset_bytes; /* of a part, one after the other; in a stage */

  bool copied;             /* by cp.async; else through registers */
  bool along_k;            /* vectors run along k */
  lanes_options options;   /* vectors of `options.width` elements along `options.loop` */
  int vectors, per_thread; /* of the tile; of a thread (the last threads may have none) */
} mma_tile;

typedef struct mma_plan {
  const contraction *c;
  mma_product product;
  bool dense, wide_offsets;
  int block_m, block_n, block_k, stages, warps_m, warps_n, group, split;
  int warp_m, warp_n, threads;
  int accumulators; /* of a thread, for one sum */
  mma_tile tiles[CONTRACTION_OPERANDS];
  int stage_bytes;
  /* The epilogue: a warp's sums pass through shared memory, `staged_rows` rows of its tile at a time. */
  lanes_options epilogue;
  int block_rows; /* that the accumulators come in */
  int staged_rows, pitch_bytes, staged_bytes;
  /* Where rows are reduced (contraction_rows.h): their outputs' evaluator, and where in shared memory the
   * parts of a row lie that warps side by side have. */
  product_rows_layout row_parts;
  int rows_offset_bytes;
  int smem_bytes;
} mma_plan;

typedef struct mma_kernel {
  const mma_plan *p;
  arena *a;
  bool to_partials; /* leaves sums in the workspace: by part, sum, batch, row and column */
  lanes_args tile_slots[CONTRACTION_OPERANDS], epilogue_slots;
  /* Parameters. */
  int m, n, k, steps, steps_each, tiles_m, tiles_n, batches, runs, items, partials;
  int crowd; /* CTAs for every two SMs, rounded up */
  int extents[IR_FORM_LOOPS];
  struct mma_emitter *current;
} mma_kernel;

/* --- a kernel being made (mma_kernel.c and those it uses) --- */

typedef struct mma_vector {
  gen_value exists;               /* i1: the tile has it for this thread; NULL: it has */
  gen_value valid;                /* i1: rows or columns that the operator has */
  gen_value k;                    /* i32: of its first element, in the tile */
  gen_value loops[IR_FORM_LOOPS]; /* of m, n and the batch */
  gen_value row, column;          /* i32: of the tile as it lies in shared memory, column in elements */
  gen_value address;              /* copied: at k-step 0 */
  lanes *l;                       /* in registers: since the fetch */
} mma_vector;

typedef struct mma_emitter {
  gen_builder *b;
  mma_kernel *k;
  const mma_plan *p;
  const contraction *c;
  gen_value thread, lane, warp, warp_m, warp_n; /* i32 */
  gen_value smem;
  gen_value tile_m, tile_n, split; /* i32 */
  gen_value m0, n0, batch;         /* first row and column; batch: indices */
  gen_value m_end;                 /* index: rows from here on are none of the tile's */
  gen_value group, is_of_none;     /* of rows: i32, and i1 (group_tiles.h); NULL: there are no groups */
  gen_value loops[IR_FORM_LOOPS];  /* of the batch */
  gen_value k_extent;
  mma_vector *vectors[CONTRACTION_OPERANDS];
  gen_value k_step_bytes[CONTRACTION_OPERANDS]; /* copied: from one k-step to the next, i64 */
  gen_value sums[256 * 2];                      /* accumulators, sum by sum */
  /* The epilogue's place: where its sums are. */
  lanes *l;
  gen_value staged; /* shared, i32; NULL: in `values` */
  gen_value *values;
  product_row row; /* where rows are whole: what that of the run is reduced to */
} mma_emitter;

/* `width` columns of a row, in which the epilogue is evaluated. */
typedef struct mma_run {
  gen_value staged, m, n; /* of its first element: shared address, indices */
  gen_value row;          /* i32: of the tile */
  gen_value active;       /* i1: the operator has it */
  lanes *l;
} mma_run;

gen_value mma_index(const mma_emitter *e, gen_value x); /* i32, as an index */
gen_value mma_index_imm(const mma_emitter *e, int64_t x);
/* The values of loops whose numbers together are `at`. */
void mma_split_loops(const mma_emitter *e, const contraction_loops *loops, gen_value at, gen_value *values);
/* Byte offset of chunk `chunk` of row `row` of a tile, both i32. */
gen_value mma_chunk_offset(gen_builder *b, const mma_tile *t, gen_value row, gen_value chunk);
/* What the swizzle of a row adds to chunks, by xor; rows 8 apart have the same. */
gen_value mma_row_phase(gen_builder *b, const mma_tile *t, gen_value row);

/* Tiles (mma_load.c). `stage`: address of the stage; `step`: i32. */
arke_status mma_load_init(mma_emitter *e, arke_error *err);
void mma_copy_tiles(mma_emitter *e, gen_value step, gen_value stage);
arke_status mma_fetch_tiles(mma_emitter *e, gen_value step, arke_error *err);
arke_status mma_put_tiles(mma_emitter *e, gen_value step, gen_value stage, arke_error *err);

/* Products of a stage (mma_multiply.c), and where accumulator i of a sum lies in the warp's tile: lanes add
 * mma_lane_row and mma_lane_column. */
void mma_multiply(mma_emitter *e, gen_value stage);
void mma_place(const mma_plan *p, int i, int *row, int *column);
gen_value mma_lane_row(mma_emitter *e);
gen_value mma_lane_column(mma_emitter *e);
/* Columns that lie together in accumulators i, i + 1, …: 1 or more. */
int mma_neighbours(const mma_plan *p);
int mma_sum_bytes(const mma_plan *p);
void mma_read_staged(mma_emitter *e, int sum, gen_value *values); /* of the run at e->staged */

/* The end of a tile (mma_epilogue.c). */
arke_status mma_finish(mma_emitter *e, arke_error *err);
arke_status mma_sum_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);

/* The value of a REDUCE node that is the group of a row, for evaluators of tiles. */
arke_status mma_group_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);

arke_status mma_emit(gen_builder *b, const target *t, void *user, arke_error *err);
/* Makes a run's evaluator and sets its loops; one past the edge gets those of the last. */
arke_status mma_set_run(mma_emitter *e, mma_run *r, arke_error *err);
/* Rows that are reduced (mma_rows.c): a tile's part of each goes to the workspace, by batch, row and column
 * of tiles; a kernel with a warp for every row combines them and evaluates the outputs. Of whole rows the
 * parts stay in shared memory: outputs without columns are stored, and what a run's row is reduced to is
 * there for the outputs of its elements. */
arke_status mma_finish_rows(mma_emitter *e, arke_error *err);
void mma_load_row(mma_emitter *e, const mma_run *r);
/* Whether an output is over the columns. */
bool mma_has_columns(const contraction *c, int output);
void mma_stage_sums(mma_emitter *e, gen_value base, int part);
/* Sums of a part of the terms go to the workspace; the kernel that adds them up, in the order of the parts,
 * and evaluates the epilogue (mma_combine.c). */
void mma_store_partials(mma_emitter *e, const mma_run *runs, int n);
enum { MMA_COMBINE_THREADS = 256 };
arke_status mma_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- before the kernel --- */

/* How the terms of a contraction are multiplied, and each operand's elements. */
typedef struct mma_choice {
  mma_product product;
  dtype elements[CONTRACTION_OPERANDS];
  int accesses[CONTRACTION_OPERANDS]; /* mma_tile's */
  gen_mma_type types[CONTRACTION_OPERANDS];
  int parts[CONTRACTION_OPERANDS];
} mma_choice;
template_reason mma_choose_product(const contraction *c, const target *t, mma_choice *choice);
/* What a configuration makes of a contraction, or why the hardware cannot run it. `wide`: vectors, as far as
 * the problem's sizes allow (of views: as strides will have to). */
template_reason mma_plan_make(const contraction *c, const target *t, const config *v, bool dense, bool wide,
                              mma_plan *plan);
/* A configuration like it whose elements may be loaded one by one: small tiles, which have whole rows where
 * its own have. */
config mma_narrow_config(const contraction *c, const config *v, const mma_product *product);
/* The same as mma_plan_make without a contraction: what can be told from the numbers alone. */
template_reason mma_check_numbers(const target *t, const config *v);
template_reason mma_match(const ir_problem *p, const target *t, bool merged, arena *a, contraction *c,
                          strbuf *detail);

/* --- the template's functions --- */

template_reason mma_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *mma_space_of(const target *t);
void mma_defaults(const ir_problem *p, const target *t, config *c);
const void *mma_prepare(const ir_problem *p, const target *t, arena *a);
template_reason mma_check_shape(const void *prepared, const target *t, const config *v);
template_reason mma_check_tiles(const void *prepared, const target *t, const config *v);
template_reason mma_judge(const void *prepared, const target *t, const target_rates *rates, const config *v,
                          double *ns);
double mma_plan_cost_ns(const mma_plan *plan, const target *t, const target_rates *rates);
arke_status mma_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                     arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status mma_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err);
void mma_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced);

#endif
