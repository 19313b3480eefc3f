/* Templates: schedules for classes of operators. Each is one record; a new template is one file and one line
 * in the list (template_list.c). */
#ifndef ARKE_TEMPLATES_TEMPLATE_H
#define ARKE_TEMPLATES_TEMPLATE_H

#include "generator/gen_context.h"
#include "generator/target.h"
#include "ir/ir.h"
#include "ir/space.h"
#include "recipe/recipe.h"

/* X(NAME, name, text): why a configuration, or a whole template, is not for a problem. REDUNDANT speaks of
 * search alone: such a configuration lowers and computes right, but does the same as a simpler one at these
 * sizes. BOUND is the tuner's: no template says it. */
#define TEMPLATE_REASONS(X)                                                                                  \
  X(OK, ok, "feasible")                                                                                      \
  X(OPERATOR, operator, "made for operators of another form")                                                \
  X(DTYPE, dtype, "no instruction for these dtypes")                                                         \
  X(TARGET, target, "the target lacks an instruction it needs")                                              \
  X(ALIGNMENT, alignment, "rows are not a multiple of 16 bytes")                                             \
  X(SIZE, size, "an axis is empty or too large")                                                             \
  X(SHARED_MEMORY, shared_memory, "shared memory exceeded")                                                  \
  X(REGISTERS, registers, "registers exceeded")                                                              \
  X(THREADS, threads, "threads exceeded")                                                                    \
  X(STAGES, stages, "too few pipeline stages")                                                               \
  X(TILE, tile, "tile sizes do not fit together, or not the problem's")                                      \
  X(CLUSTER, cluster, "cluster does not fit the tiles")                                                      \
  X(SCHEDULE, schedule, "the kinds of schedule do not go together here")                                     \
  X(REDUNDANT, redundant, "does the same as a simpler configuration here")                                   \
  X(WORKSPACE, workspace, "an intermediate would take more memory than it may")                              \
  X(BOUND, bound, "cannot beat the best by the hardware's limits")

typedef enum template_reason {
#define X(NAME, name, text) TEMPLATE_##NAME,
  TEMPLATE_REASONS(X)
#undef X
      TEMPLATE_REASON_COUNT,
} template_reason;

const char *template_reason_name(template_reason r); /* "shared_memory" */
const char *template_reason_text(template_reason r);

/* Adds a sentence to `detail` (NULL: to nothing). False, which is what matchers return with it. */
bool template_say(strbuf *detail, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What lowering a configuration yields. All memory is the arena's. */
typedef struct lowered {
  const char *ptx;
  size_t ptx_bytes;
  const char *llvm_ir; /* optimised module as text; NULL unless asked for */
  recipe recipe;
  int ways_left_out; /* by lower_options.first_way_only; 0: the image and the recipe are whole */
} lowered;

typedef struct lower_options {
  bool keep_llvm_ir;
  bool fast_math; /* approximate instructions whatever their error; else only where the tolerance allows */
  bool check_indices;   /* a gathered read out of range gives 0, a scattered write out of range is left out */
  gen_context *context; /* the process's, reused over calls; NULL: one is made for the call */
  /* The planned kernel alone, without the ways for other views (recipe.otherwise): enough to try a
   * configuration. Its text is the same as in the whole image. kernel_lower_ways sees to it; `ways` lists
   * them all. */
  bool first_way_only;
} lower_options;

struct kernel_way;

struct kernel_template;

/* One of the kernels that a configuration stands for where it says it by a number alone. */
typedef struct template_part {
  const struct kernel_template *k;
  const ir_problem *problem;
  config c;
  double ns; /* predicted, by the target's rates */
} template_part;

enum { TEMPLATE_PARTS = 16 };

/* What some parameters alone have against a configuration. */
typedef struct template_check {
  uint32_t params; /* bits of those, by place in the space, beside those of the checks before it */
  template_reason (*check)(const void *prepared, const target *t, const config *c);
} template_check;

enum { TEMPLATE_CHECKS = 2 };

typedef struct kernel_template {
  const char *name;    /* "gemm" */
  const char *meaning; /* one line */
  /* Whether the schedule covers the problem on the target; `detail` (may be NULL) gets a sentence when not.
   */
  template_reason (*fits)(const ir_problem *p, const target *t, strbuf *detail);
  /* The whole tiling space for the target (static). */
  const space *(*space)(const target *t);
  /* A sound configuration to start from, and the one defaults in config_parse come from. */
  void (*defaults)(const ir_problem *p, const target *t, config *c);
  /* What all configurations of a problem that fits have in common, in the arena; NULL: out of memory. */
  const void *(*prepare)(const ir_problem *p, const target *t, arena *a);
  /* Whether the configuration can be built for the problem that `prepared` was made of, and where it can
   * (template_is_built) in *ns its predicted time. `rates` may be those of the device at hand. Asked of every
   * point of the space, by several threads at once. */
  template_reason (*judge)(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns);
  /* Optional, from the first on: checks of ever more parameters, cheap ones first. All points that share what
   * one refuses are passed over at once. The other parameters' values mean nothing to it; `judge` says the
   * same of each of those points. */
  template_check checks[TEMPLATE_CHECKS];
  /* Optional: a time that no run of the configuration can beat on the device of `rates`, so that an
   * exhaustive search may leave it out; 0: nothing is known. Only for feasible configurations; NULL for one:
   * what no configuration of the template can beat. The larger of the two holds. */
  double (*bound_ns)(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                     const config *c);
  /* LLVM IR -> PTX and the recipe. Only for feasible configurations. May be called in a worker process, since
   * LLVM can abort. */
  arke_status (*lower)(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
  /* Optional: the kernels that `lower` makes one image of, for whoever joins them with others' (compose):
   * what kernel_lower_ways takes (templates/kernel_lower.h), at most KERNEL_MAX_WAYS of them. */
  arke_status (*ways)(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, struct kernel_way *ways, int *n, arke_error *err);
  /* A small problem of the same kind on which this configuration takes every path it has: several tiles in
   * each axis, ragged edges, more k-steps than stages, more tiles than `sm_count` CTAs. Feasible for `c`, or
   * REDUNDANT. */
  void (*reduced_problem)(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);
  /* Optional, of a configuration that picks configurations of other templates: those, in the order they run.
   * At most TEMPLATE_PARTS; memory is the arena's. 0: out of memory. */
  int (*parts)(const ir_problem *p, const target *t, const config *c, arena *a, template_part *parts);
} kernel_template;

/* Whether such a configuration can be lowered: what is only redundant can. */
static inline bool template_is_built(template_reason r) {
  return r == TEMPLATE_OK || r == TEMPLATE_REDUNDANT;
}

/* Judges one configuration. Whoever asks about many of a problem prepares it once instead. */
template_reason template_feasible(const kernel_template *k, const ir_problem *p, const target *t,
                                  const config *c);
/* Its predicted time; INFINITY where it cannot be built. */
double template_cost_ns(const kernel_template *k, const ir_problem *p, const target *t,
                        const target_rates *rates, const config *c);

/* Names the generated code: it changes with the sources of generator/ and templates/. Times of one generation
 * say nothing of another's. */
const char *template_generation(void);

int template_count(void);
const kernel_template *template_get(int i);
const kernel_template *template_find(const char *name);

#endif
