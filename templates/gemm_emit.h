/* What the parts of the gemm kernel's text share. */
#ifndef ARKE_TEMPLATES_GEMM_EMIT_H
#define ARKE_TEMPLATES_GEMM_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_kernel.h"
#include "generator/gen_pipeline.h"
#include "templates/gemm.h"

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct gemm_emitter {
  gen_builder *b;
  const gemm_plan *plan;
  gen_value map_a, map_b, map_y; /* i64 */
  gen_value m, n, k;
  gen_value k_steps;                 /* pipeline stages of one tile, at least 1 */
  gen_value smem;                    /* stages, then store buffers */
  gen_value rank;                    /* of this CTA in its cluster */
  gen_value unit, unit_step;         /* first unit of this CTA, and from one to the next */
  gen_value units_m, units_n, units; /* tiles counted in clusters */
  gen_pipeline pipeline;
  gen_value turns; /* ping-pong: first of two mbarriers, whose phase is a group's turn */
} gemm_emitter;

/* First row and column of this CTA's tile in a unit; past the edge in the incomplete part of a cluster. */
typedef struct gemm_tile {
  gen_value row, column;
} gemm_tile;

void gemm_tiles_init(gemm_emitter *e);
gemm_tile gemm_tiles_at(gemm_emitter *e, gen_value unit);

/* A role's walk over its units: fill `unit`, `step`, `stage` and the `extra` values it carries from unit to
 * unit, then gemm_walk_begin, the body for these values, which leaves the next ones in place, gemm_walk_end.
 */
enum { GEMM_WALK_EXTRA = 160 };
typedef struct gemm_walk {
  gen_value unit, step;
  gen_stage stage; /* of the pipeline */
  gen_value extra[GEMM_WALK_EXTRA];
  int n_extra;
  gen_value carried[3 + GEMM_WALK_EXTRA];
  gen_loop loop;
} gemm_walk;
void gemm_walk_begin(gemm_emitter *e, gemm_walk *walk);
void gemm_walk_end(gemm_emitter *e, gemm_walk *walk);

/* The producer's part, executed by one thread, and a consumer warp group's, by its 128 threads: `group` is
 * its number, `thread` the index in it. */
void gemm_emit_producer(gemm_emitter *e);
void gemm_emit_consumer(gemm_emitter *e, gen_value group, gen_value thread);

/* How a consumer group stores tiles: what does not change from tile to tile. */
typedef struct gemm_store {
  gen_value leader;          /* i1: the thread that issues copies */
  gen_value barrier;         /* of the group */
  gen_value buffers;         /* first of its store buffers */
  gen_value row;             /* first row of the group in a tile */
  gen_value lane_offsets[4]; /* by 16-column block: where this lane's rows are in a buffer */
} gemm_store;
void gemm_store_init(gemm_emitter *e, gemm_store *s, gen_value group, gen_value thread);
/* Rounds the accumulators of panel `panel` to elements, two a value: packed[i] of acc[2 i] and the next. */
void gemm_store_pack(gemm_emitter *e, const gen_value *acc, int panel, gen_value *packed);
/* Before the first panel of a tile, by all consumers. */
void gemm_store_begin(gemm_emitter *e, const gemm_store *s);
/* Stores panel `panel` of the group's part of a tile. Panels of a tile are stored in order, all of them. */
void gemm_store_panel(gemm_emitter *e, const gemm_store *s, gemm_tile tile, int panel,
                      const gen_value *packed);
/* Waits until shared memory is no longer read by stores. */
void gemm_store_drain(gemm_emitter *e, const gemm_store *s);

#endif
