/* Maps: outputs whose elements need nothing but some elements of the inputs, at affine, divided or gathered
 * places. Each group of outputs over the same loops is cut into tiles of rows and columns, the columns along
 * the outputs' last dimension; a thread takes vectors of neighbouring columns, several of them in flight. A
 * definition may write a part of its output (Y[i, j + N]), so that a concatenation is one kernel, and the
 * halves of a rotation come from one load of each. What a subscript needs may be the number of the row's
 * ragged group (contraction_groups.h), which a thread looks for: rows of packed sequences out of pages.
 * Shared by map_*.c; other folders know only the template's record. */
#ifndef ARKE_TEMPLATES_MAP_H
#define ARKE_TEMPLATES_MAP_H

#include "ir/ir_form.h"
#include "templates/contraction_groups.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

/* --- what the operator is --- */

enum {
  MAP_GROUPS = LIMIT_TENSORS,
  MAP_ROWS = IR_FORM_LOOPS + LANES_LEAD,
  MAP_MOST_COPIES = 8,
  MAP_MOST_REUSE = 32,
  MAP_WIDTHS = 5
};

/* A loop of the rows or of the columns. Of the leading loop of views one axis (recipe.h), else -1. */
typedef struct map_loop {
  int loop, axis;
} map_loop;

/* Outputs over the same loops. */
typedef struct map_group {
  uint64_t outputs; /* bit i: form.outputs[i] */
  unsigned loops;
  bool scalar; /* no loops: one element */
  bool packed; /* elements of an output share a byte: two are stored at once, of an even number of columns */
  map_loop column;
  int n_rows;
  map_loop rows[MAP_ROWS]; /* outermost first */
  /* The row on whose loop costly expressions do not depend, so that a thread takes several of its values (a
   * rotation's angles, for several heads); -1: none. */
  int reuse;
  /* Instructions of an element, loads and stores left out: [they move with the columns][with the reuse row]
   */
  double work[2][2];
  uint64_t wide[MAP_WIDTHS]; /* lanes_wide by the vector's power of two, if the match `knows_wide` */
} map_group;

typedef struct map_match {
  ir_form form;
  bool dense;        /* loops are merged, those of one element left out */
  bool wide_offsets; /* 32 bits might not do */
  bool knows_wide;
  bool packed;                  /* some group's */
  contraction_groups groups_of; /* `of`: the only reduction, a row's number of a ragged group; NULL: none */
  int n_groups;
  map_group groups[MAP_GROUPS];
} map_match;

/* Matches the form for tensors without gaps, or for any views. *reason is TEMPLATE_OK or why not, with a
 * sentence in `detail` (may be NULL). Fails for want of memory alone. */
arke_status map_match_make(const ir_problem *p, bool dense, arena *a, map_match *m, template_reason *reason,
                           strbuf *detail, arke_error *err);
/* The loop in subscript i of where an output is written, loop + something fixed; -1: it has none. */
int map_subscript_loop(const ir_form *form, const ir_access *x, int i);
/* Requires that outputs which share a tensor write different elements, as they do in this problem. */
void map_require_disjoint(const map_match *m, recipe *rules, arena *a);
/* Loops that an access moves with. */
unsigned map_access_loops(const ir_form *form, int access);
/* Elements along the columns and number of rows in this problem (views: as if without gaps); rows count
 * `reuse` values of the reuse row as one. */
int64_t map_columns(const map_match *m, const map_group *g);
int64_t map_row_count(const map_match *m, const map_group *g, int reuse);
/* Fills `reuse` and `work` of all groups; false: out of memory. */
bool map_work_fill(map_match *m, arena *a);
/* The most values of the reuse row that a thread can take, which divide it. */
int64_t map_reuse_most(const map_match *m, const map_group *g);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define MAP_PARAMS(X)                                                                                        \
  X(THREADS, "threads of a CTA", 64, 128, 256, 512, 1024)                                                    \
  X(VECTOR, "neighbouring elements that a thread takes at once", 1, 2, 4, 8, 16)                             \
  X(UNROLL, "vectors of a thread in flight", 1, 2, 4, 8)                                                     \
  X(COLUMNS, "threads along the last dimension; the others are in further rows", 1, 2, 4, 8, 16, 32, 64,     \
    128, 256, 512, 1024)                                                                                     \
  X(PERSISTENT, "0: a CTA for each tile; else CTAs of an SM, which loop over tiles", 0, 1, 2, 4, 8)          \
  X(REUSE, "vectors of a thread for which it computes once what they share, where that is much", 1, 2, 4, 8, \
    16, 32)                                                                                                  \
  X(STREAM, "0: caches as they are; 1: what is touched once passes L1 by; 2: and leaves L2 first", 0, 1, 2)  \
  X(RESIDENT, "threads of an SM for which registers are kept few enough; 0: as the assembler takes them", 0, \
    1024, 1280)

typedef enum map_param {
#define X(NAME, ...) MAP_##NAME,
  MAP_PARAMS(X)
#undef X
      MAP_PARAM_COUNT,
} map_param;

extern const space map_space;

/* --- what a configuration is --- */

/* One way to run the operator. */
typedef struct map_plan {
  int threads, columns, rows; /* of a CTA; along the last dimension and across it */
  int persistent;             /* CTAs of an SM; 0: no loop over tiles */
  int reuse;                  /* values of a reuse row for a thread, if it has as many */
  int resident;               /* threads of an SM that registers must allow; 0: no matter */
  bool whole;                 /* tiles fill the groups without rest, so that there is no code for one */
  gen_cache loads, stores;
  lanes_options lanes; /* width is the vector; loop and masks are a group's */
  struct map_tile {
    int reuse;                  /* values of the reuse row that a thread takes, `at_once` in flight */
    int at_once, vectors, rows; /* a thread's in flight: of the reuse row, along the columns, across */
  } tiles[MAP_GROUPS];
} map_plan;

/* The dense way of a configuration for the problem's sizes, or why it cannot run. */
template_reason map_plan_make(const map_match *m, const target *t, const config *c, map_plan *plan);
/* Whether a plan's tiles leave no rest in this problem, and its grid no row of tiles behind the last. */
bool map_tiles_fill(const map_match *m, const map_plan *plan);
/* What views a way serves. */
typedef enum map_reach {
  MAP_ALIGNED_ROWS = 1, /* contiguous along the columns, rows at multiples of a vector */
  MAP_ANY_STRIDES,      /* element by element */
  MAP_ANY_VIEW,         /* and offsets past 32 bits: every call */
} map_reach;
map_plan map_plan_views(const map_match *m, const map_plan *dense, map_reach reach);
/* Computes groups' `wide`, so that many plans can be made soon. */
void map_know_wide(map_match *m, const target *t);
/* Options of the evaluator for a group; `width` as in the plan or 1. */
lanes_options map_lanes(const map_match *m, const map_plan *plan, int group, int width);
/* Vectors of a thread in flight. */
int map_copies(const map_plan *plan, int group);
/* Elements of a CTA's tile along the columns, and its rows (as map_row_count counts them). */
int64_t map_tile_columns(const map_plan *plan, int group);
int64_t map_tile_rows(const map_plan *plan, int group);
/* Tiles of all groups in this problem. */
int64_t map_tile_count(const map_match *m, const map_plan *plan);

/* Time of a plan by the model. */
double map_time_ns(const map_match *m, const map_plan *plan, const target *t, const target_rates *rates);

/* --- the kernel --- */

/* What map_emit's `user` is: one way's kernel. */
typedef struct map_kernel {
  const map_match *m;
  const map_plan *plan;
  arena *a;
  lanes_args slots;
  int n_tiles[MAP_GROUPS];      /* parameters: tiles of a group, where tiles are numbered through */
  int n_tiles_wide[MAP_GROUPS]; /* and along the columns */
} map_kernel;

/* The number of a row's group, for one evaluator of a kernel. */
typedef struct map_count {
  gen_builder *b;
  const map_kernel *k;
  gen_value row;   /* the value of groups_of.row */
  gen_value group; /* found; NULL: not yet */
} map_count;
/* Looks for it: a loop of the kernel, of as many steps as the number of groups has binary digits. */
arke_status map_count_find(map_count *c, arke_error *err);
/* lanes_options.reduce; `user` is a map_count. */
arke_status map_count_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);

/* Whether tiles are numbered through all groups, in one dimension of the grid. */
bool map_is_linear(const map_match *m, const map_plan *plan);
/* Grid dimension y, where rows of tiles do not fit it; z has the rest. */
enum { MAP_GRID_Y = 32768 };
arke_status map_emit(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- the template's functions --- */

template_reason map_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *map_space_of(const target *t);
void map_defaults(const ir_problem *p, const target *t, config *c);
const void *map_prepare(const ir_problem *p, const target *t, arena *a);
template_reason map_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                          double *ns);
arke_status map_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                     arena *a, struct kernel_way *ways, int *n, arke_error *err);
arke_status map_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err);
void map_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced);

#endif
