#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "templates/attend.h"
#include "templates/attention.h"
#include "templates/backward.h"
#include "templates/backward_warps.h"
#include "templates/column.h"
#include "templates/compose.h"
#include "templates/gemm.h"
#include "templates/map.h"
#include "templates/mma.h"
#include "templates/product_bound.h"
#include "templates/row.h"
#include "templates/scan.h"
#include "templates/scatter.h"
#include "templates/skinny.h"
#include "templates/slim.h"
#include "templates/template.h"
#include "templates/template_generation.h"
#include "templates/topk.h"
#include "templates/transpose.h"

#define PARAM(NAME)   (UINT32_C(1) << (NAME))
#define ALL_BUT(BITS) (~(BITS))

/* One line a template. */
static const kernel_template templates[] = {
    {.name = "gemm",
     .meaning = "contractions with any epilogue, by tensor copies and warp-group matrix units",
     .fits = gemm_fits,
     .space = gemm_space_of,
     .defaults = gemm_defaults,
     .bound_ns = gemm_bound_ns,
     .checks = {{PARAM(GEMM_BLOCK_M) | PARAM(GEMM_CONSUMERS) | PARAM(GEMM_SCHEDULE) | PARAM(GEMM_CLUSTER_M) |
                     PARAM(GEMM_CLUSTER_N) | PARAM(GEMM_PERSISTENT) | PARAM(GEMM_STREAM_K) | PARAM(GEMM_EVEN),
                 gemm_check_shape},
                {ALL_BUT(PARAM(GEMM_RASTER) | PARAM(GEMM_GROUP)), gemm_check_tiles}},
     .prepare = gemm_prepare,
     .judge = gemm_judge,
     .lower = gemm_lower,
     .ways = gemm_ways,
     .reduced_problem = gemm_reduced_problem},
    {.name = "attention",
     .meaning = "two products with a softmax between them, by tensor copies and warp-group matrix units",
     .fits = attention_fits,
     .space = attention_space_of,
     .defaults = attention_defaults,
     .checks = {{PARAM(ATTENTION_CONSUMERS) | PARAM(ATTENTION_CTAS) | PARAM(ATTENTION_TURNS) |
                     PARAM(ATTENTION_STAGES) | PARAM(ATTENTION_OVERLAP) | PARAM(ATTENTION_SPLIT) |
                     PARAM(ATTENTION_MERGE) | PARAM(ATTENTION_PACK) | PARAM(ATTENTION_PERSISTENT),
                 attention_check_schedule},
                {ALL_BUT(PARAM(ATTENTION_GROUP)), attention_check_tiles}},
     .prepare = attention_prepare,
     .judge = attention_judge,
     .lower = attention_lower,
     .ways = attention_ways,
     .reduced_problem = attention_reduced_problem},
    {.name = "attend",
     .meaning =
         "two products with a softmax between them for few queries: keys split, copies and products by warps",
     .fits = attend_fits,
     .space = attend_space_of,
     .defaults = attend_defaults,
     .prepare = attend_prepare,
     .judge = attend_judge,
     .lower = attend_lower,
     .ways = attend_ways,
     .reduced_problem = attend_reduced_problem},
    {.name = "backward",
     .meaning = "gradients of attention, by tensor copies and warp-group matrix units",
     .fits = backward_fits,
     .space = backward_space_of,
     .defaults = backward_defaults,
     .prepare = backward_prepare,
     .judge = backward_judge,
     .lower = backward_lower,
     .ways = backward_ways,
     .reduced_problem = backward_reduced_problem},
    {.name = "backward_warps",
     .meaning =
         "gradients of attention of any scores, strides and packed requests, by copies and products of "
         "warps",
     .fits = backward_warps_fits,
     .space = backward_warps_space_of,
     .defaults = backward_warps_defaults,
     .prepare = backward_warps_prepare,
     .judge = backward_warps_judge,
     .lower = backward_warps_lower,
     .ways = backward_warps_ways,
     .reduced_problem = backward_warps_reduced_problem},
    {.name = "skinny",
     .meaning = "products where one side has few rows: a stream of the other one",
     .fits = skinny_fits,
     .space = skinny_space_of,
     .defaults = skinny_defaults,
     .bound_ns = product_bound_ns,
     .checks = {{PARAM(SKINNY_MATH) | PARAM(SKINNY_TOKENS) | PARAM(SKINNY_SLOTS) | PARAM(SKINNY_ACROSS) |
                     PARAM(SKINNY_VECTOR) | PARAM(SKINNY_UNROLL) | PARAM(SKINNY_WARPS_N) |
                     PARAM(SKINNY_WARPS_K),
                 skinny_check_shape}},
     .prepare = skinny_prepare,
     .judge = skinny_judge,
     .lower = skinny_lower,
     .ways = skinny_ways,
     .reduced_problem = skinny_reduced_problem},
    {.name = "slim",
     .meaning = "products where one side has few rows: the other one streams to warp-group matrix units",
     .fits = slim_fits,
     .space = slim_space_of,
     .defaults = slim_defaults,
     .bound_ns = slim_bound_ns,
     .checks = {{ALL_BUT(PARAM(SLIM_STREAM) | PARAM(SLIM_STAGGER)), slim_check_tiles}},
     .prepare = slim_prepare,
     .judge = slim_judge,
     .lower = slim_lower,
     .ways = slim_ways,
     .reduced_problem = slim_reduced_problem},
    {.name = "mma",
     .meaning = "products of tensors with anything before and after, by products of warps",
     .checks = {{PARAM(MMA_BLOCK_M) | PARAM(MMA_BLOCK_N) | PARAM(MMA_WARPS_M) | PARAM(MMA_WARPS_N),
                 mma_check_shape},
                {ALL_BUT(PARAM(MMA_GROUP) | PARAM(MMA_SPLIT_K)), mma_check_tiles}},
     .fits = mma_fits,
     .space = mma_space_of,
     .defaults = mma_defaults,
     .bound_ns = product_bound_ns,
     .prepare = mma_prepare,
     .judge = mma_judge,
     .lower = mma_lower,
     .ways = mma_ways,
     .reduced_problem = mma_reduced_problem},
    {.name = "map",
     .meaning = "outputs whose elements need some elements of the inputs each, and no reduction",
     .fits = map_fits,
     .space = map_space_of,
     .defaults = map_defaults,
     .prepare = map_prepare,
     .judge = map_judge,
     .lower = map_lower,
     .ways = map_ways,
     .reduced_problem = map_reduced_problem},
    {.name = "row",
     .meaning = "reductions along rows with all that follows from them, in one pass over memory",
     .fits = row_fits,
     .space = row_space_of,
     .defaults = row_defaults,
     .checks = {{PARAM(ROW_THREADS) | PARAM(ROW_ROWS) | PARAM(ROW_HELD) | PARAM(ROW_BATCH) |
                     PARAM(ROW_PARTS) | PARAM(ROW_PERSISTENT) | PARAM(ROW_CTAS),
                 row_check_shape}},
     .prepare = row_prepare,
     .judge = row_judge,
     .lower = row_lower,
     .ways = row_ways,
     .reduced_problem = row_reduced_problem},
    {.name = "transpose",
     .meaning = "maps that read along another axis than they write, by tiles in shared memory",
     .fits = transpose_fits,
     .space = transpose_space_of,
     .defaults = transpose_defaults,
     .prepare = transpose_prepare,
     .judge = transpose_judge,
     .lower = transpose_lower,
     .ways = transpose_ways,
     .reduced_problem = transpose_reduced_problem},
    {.name = "column",
     .meaning = "reductions along an axis that is not the contiguous one",
     .fits = column_fits,
     .space = column_space_of,
     .defaults = column_defaults,
     .bound_ns = product_bound_ns,
     .prepare = column_prepare,
     .judge = column_judge,
     .lower = column_lower,
     .ways = column_ways,
     .reduced_problem = column_reduced_problem},
    {.name = "scan",
     .meaning = "prefix reductions along rows or columns, with maps before and after",
     .fits = scan_fits,
     .space = scan_space_of,
     .defaults = scan_defaults,
     .prepare = scan_prepare,
     .judge = scan_judge,
     .lower = scan_lower,
     .ways = scan_ways,
     .reduced_problem = scan_reduced_problem},
    {.name = "topk",
     .meaning = "the largest of each row, with their positions, in order",
     .fits = topk_fits,
     .space = topk_space_of,
     .defaults = topk_defaults,
     .prepare = topk_prepare,
     .judge = topk_judge,
     .lower = topk_lower,
     .ways = topk_ways,
     .reduced_problem = topk_reduced_problem},
    {.name = "scatter",
     .meaning = "elements written at gathered places, or accumulated there",
     .fits = scatter_fits,
     .space = scatter_space_of,
     .defaults = scatter_defaults,
     .prepare = scatter_prepare,
     .judge = scatter_judge,
     .lower = scatter_lower,
     .ways = scatter_ways,
     .reduced_problem = scatter_reduced_problem},
    {.name = "compose",
     .meaning = "operators of several stages, each by another template",
     .fits = compose_fits,
     .space = compose_space_of,
     .defaults = compose_defaults,
     .prepare = compose_prepare,
     .judge = compose_judge,
     .lower = compose_lower,
     .ways = compose_ways,
     .reduced_problem = compose_reduced_problem,
     .parts = compose_parts},
};

const char *template_generation(void) {
  return ARKE_VERSION "+" TEMPLATE_GENERATION;
}

int template_count(void) {
  return (int)COUNT_OF(templates);
}

const kernel_template *template_get(int i) {
  return &templates[i];
}

const kernel_template *template_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(templates); i++) {
    if (strcmp(templates[i].name, name) == 0) return &templates[i];
  }
  return NULL;
}

static template_reason judge_one(const kernel_template *k, const ir_problem *p, const target *t,
                                 const target_rates *rates, const config *c, double *ns) {
  arena a = ARENA_INIT;
  const void *prepared = k->prepare(p, t, &a);
  template_reason reason = prepared ? k->judge(prepared, t, rates, c, ns) : TEMPLATE_OPERATOR;
  arena_release(&a);
  return reason;
}

template_reason template_feasible(const kernel_template *k, const ir_problem *p, const target *t,
                                  const config *c) {
  double ns;
  return judge_one(k, p, t, &t->rates, c, &ns);
}

double template_cost_ns(const kernel_template *k, const ir_problem *p, const target *t,
                        const target_rates *rates, const config *c) {
  double ns;
  return template_is_built(judge_one(k, p, t, rates, c, &ns)) ? ns : INFINITY;
}

static const struct {
  const char *name, *text;
} reasons[] = {
#define X(NAME, name, text) {#name, text},
    TEMPLATE_REASONS(X)
#undef X
};

const char *template_reason_name(template_reason r) {
  return (unsigned)r < COUNT_OF(reasons) ? reasons[r].name : "unknown";
}

const char *template_reason_text(template_reason r) {
  return (unsigned)r < COUNT_OF(reasons) ? reasons[r].text : "unknown reason";
}

bool template_say(strbuf *detail, const char *format, ...) {
  if (!detail) return false;
  va_list args;
  va_start(args, format);
  strbuf_vaddf(detail, format, args);
  va_end(args);
  return false;
}
