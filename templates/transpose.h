/* Transposes: maps in which some reads run along another loop than the output does, through tiles in shared
 * memory, so that both sides of memory are read and written in whole rows. Inside transpose_*.c.
 *
 *   v   the loop that the outputs' last dimension moves with ("across the tile's rows": X)
 *   u   the loop that the turned reads' last dimension moves with (Y)
 *
 * A CTA takes TILE_Y values of u times TILE_X of v: it loads the turned reads' elements along u into rows of
 * shared memory, one for each v, and then evaluates the outputs along v. */
#ifndef ARKE_TEMPLATES_TRANSPOSE_H
#define ARKE_TEMPLATES_TRANSPOSE_H

#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

enum {
  TRANSPOSE_TILE_X,
  TRANSPOSE_TILE_Y,
  TRANSPOSE_THREADS,
  TRANSPOSE_VECTOR,
  TRANSPOSE_PERSISTENT,
  TRANSPOSE_RASTER,
  TRANSPOSE_SHIFT,
  TRANSPOSE_N_PARAMS
};

/* Whether a CTA takes one tile, tiles in turn, or those with the next one's loads under way meanwhile. */
typedef enum transpose_tiles {
  TRANSPOSE_EACH_TILE,
  TRANSPOSE_TILES,
  TRANSPOSE_TILES_AHEAD,
} transpose_tiles;

enum { TRANSPOSE_MAX_WORDS = 128, TRANSPOSE_WORDS_AHEAD = 16, TRANSPOSE_GRID_Y = 32768 };

/* What the template sees in a form. */
typedef struct transpose_match {
  int u, v;
  uint64_t turned; /* bit i: access i goes through shared memory */
} transpose_match;

/* Everything that follows from a form, a configuration and how it is run. */
typedef struct transpose_plan {
  const ir_form *form;
  transpose_match match;
  bool dense, wide_offsets;
  int tile_u, tile_v, threads;
  transpose_tiles tiles;
  bool apart;      /* tiles without edges have code of their own, without bounds */
  bool even;       /* tiles fill the problem's sizes: there are no bounds at all, and the call is to be so */
  bool along_u;    /* neighbouring CTAs have neighbouring u */
  int load, store; /* elements of a global access along u, along v */
  int loads, stores; /* of a thread in a tile */
  /* Rows begin anywhere, and are moved in aligned words of `load` elements all the same (transpose_shift.c):
   * words of a row of the tile, and how many rows, more than the tile has by what a row of the output may
   * begin later. */
  bool shifted;
  int row_words, rows;
  /* Where an element of a turned read lies: tile_offset + v * pitch + (u * bytes ^ twist(v)). */
  int lanes_v; /* threads side by side along v when reading */
  int unit;    /* bytes that stay together under the twist */
  int n_turned, access[LIMIT_TENSORS * 2], bytes[LIMIT_TENSORS * 2], offset[LIMIT_TENSORS * 2];
  int smem_bytes;
  int n_outer, outer[IR_FORM_LOOPS];
} transpose_plan;

/* Whether the form is a transpose; `detail` gets a sentence when not. */
bool transpose_match_form(const ir_form *form, transpose_match *match, strbuf *detail);
/* The form of a problem in arena `a`, merged or not, and whether it is a transpose. */
template_reason transpose_fit(const ir_problem *p, bool merged, arena *a, ir_form *form,
                              transpose_match *match, strbuf *detail);

/* `vector`: widest access in bytes; 0: element by element. */
template_reason transpose_make_plan(const ir_form *form, const transpose_match *match, const target *t,
                                    const config *c, bool dense, int vector, transpose_plan *plan);

/* Whether rows of the form can be moved in aligned words wherever they begin: one output, as wide as what is
 * turned, whose places are sums of the loops. */
bool transpose_can_shift(const ir_form *form, const transpose_match *match);

/* The plan for tensors of whole tiles alone; false: the problem has others. */
bool transpose_make_even(const transpose_plan *plan, transpose_plan *even);

/* Registers of a thread that a tile's loads bring. */
int transpose_words(const transpose_plan *plan);
/* CTAs of an SM, where they take tiles in turn or have code for tiles without edges: registers allow it. */
int transpose_resident(const transpose_plan *plan, const target *t);

const space *transpose_space_of(const target *t);
template_reason transpose_fits(const ir_problem *p, const target *t, strbuf *detail);
const void *transpose_prepare(const ir_problem *p, const target *t, arena *a);
template_reason transpose_judge(const void *prepared, const target *t, const target_rates *rates,
                                const config *c, double *ns);
/* The model's time of a plan. */
double transpose_plan_cost_ns(const transpose_plan *plan, const target *t, const target_rates *rates);
void transpose_defaults(const ir_problem *p, const target *t, config *c);
void transpose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                               ir_problem *reduced);
arke_status transpose_ways(const ir_problem *p, const target *t, const config *c,
                           const lower_options *options, arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status transpose_lower(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, lowered *out, arke_error *err);

/* One kernel: its plan, and where its parameters are. */
typedef struct transpose_kernel {
  transpose_plan plan;
  arena *a;
  lanes_options load_options, store_options;
  lanes_args load_slots, store_slots;
  int tiles, tiles_u, tiles_v, outer[IR_FORM_LOOPS]; /* parameters; `outer` by place in the plan's list */
  int span[LIMIT_TENSORS * 2];                       /* the same: elements of a turned read's tensor */
  struct transpose_emitter *current;                 /* while the body is emitted */
} transpose_kernel;

/* Elements of a turned read, from shared memory: lanes_options.read, whose user is the kernel. */
arke_status transpose_read(void *user, int access, gen_value *elements, arke_error *err);
/* kernel_launch.emit */
arke_status transpose_emit(gen_builder *b, const target *t, void *user, arke_error *err);

#endif
