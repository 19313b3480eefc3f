#include "tests/tuner/planted.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tuner/fake_gpu.h"

static const space_param good_params[] = {
    {"KIND", "how it misbehaves", PLANTED_COUNT, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
    {"BLOCK", "threads", 4, {32, 64, 128, 256}},
    {"SPEED", "a knob", 8, {0, 1, 2, 3, 4, 5, 6, 7}},
};
_Static_assert(PLANTED_COUNT == 14, "KIND lists every kind");
static const space good_space = {"planted", 3, good_params};

/* GROUP is a variant parameter by its name. */
static const space_param hungry_params[] = {
    {"KIND", "none misbehaves", 1, {PLANTED_GOOD}},
    {"BLOCK", "threads", 4, {32, 64, 128, 256}},
    {"GROUP", "a knob that matters little", 32, {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
                                                 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,
                                                 38, 39, 40, 41, 42, 43, 44, 45, 46, 47}},
};
static const space hungry_space = {"hungry", 3, hungry_params};

static const space *get_hungry_space(const target *t) {
  (void)t;
  return &hungry_space;
}

static const space *get_space(const target *t) {
  (void)t;
  return &good_space;
}

static template_reason fits(const ir_problem *p, const target *t, strbuf *detail) {
  (void)t;
  (void)detail;
  return p->op->n_args == 2 && p->types[0] == DTYPE_F32 ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}

static void defaults(const ir_problem *p, const target *t, config *c) {
  (void)p;
  (void)t;
  *c = (config){{PLANTED_GOOD, 128, 0}};
}

static template_reason feasible(const ir_problem *p, const target *t, const config *c) {
  (void)p;
  (void)t;
  if (c->values[0] == PLANTED_GOOD)
    return c->values[1] == 32 && c->values[2] > 3 ? TEMPLATE_THREADS : TEMPLATE_OK;
  return c->values[1] == 128 && c->values[2] == 0 ? TEMPLATE_OK : TEMPLATE_REDUNDANT;
}

/* What misbehaves is unlike in its one kernel that does not: equal ones would be duplicates. */
static template_reason feasible_viewing(const ir_problem *p, const target *t, const config *c) {
  (void)p;
  (void)t;
  return c->values[0] == PLANTED_GOOD && c->values[1] == 256 ? TEMPLATE_OK : TEMPLATE_THREADS;
}

static template_reason feasible_flawed(const ir_problem *p, const target *t, const config *c) {
  static const int speeds[PLANTED_COUNT] = {
      [PLANTED_WRONG] = 5, [PLANTED_REFUSES] = 4, [PLANTED_GARBAGE] = 6};
  int kind = c->values[0];
  if (kind == PLANTED_GOOD) return feasible_viewing(p, t, c);
  return speeds[kind] > 0 && c->values[1] == 64 && c->values[2] == speeds[kind] ? TEMPLATE_OK
                                                                                : TEMPLATE_THREADS;
}

static template_reason feasible_bounded(const ir_problem *p, const target *t, const config *c) {
  return c->values[0] == PLANTED_GOOD ? feasible(p, t, c) : TEMPLATE_THREADS;
}

static double bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                       const config *c) {
  (void)p;
  (void)prepared;
  (void)t;
  (void)rates;
  return c && c->values[2] >= PLANTED_BEATEN ? 1e9 : 0;
}

static void hungry_defaults(const ir_problem *p, const target *t, config *c) {
  (void)p;
  (void)t;
  *c = (config){{PLANTED_GOOD, 128, PLANTED_HUNGRY}};
}

static template_reason feasible_hungry(const ir_problem *p, const target *t, const config *c) {
  (void)p;
  (void)t;
  (void)c;
  return TEMPLATE_OK;
}

static template_reason feasible_doomed(const ir_problem *p, const target *t, const config *c) {
  bool works = c->values[0] == PLANTED_GOOD || c->values[0] == PLANTED_TWIN;
  return works ? TEMPLATE_REDUNDANT : feasible(p, t, c);
}

static fake_kernel hungry_times(uint32_t block, int variant) {
  double by_variant = 20e3 * (1 + 0.0002 * variant);
  if (block == 64) return (fake_kernel){.true_ns = by_variant, .power = 0.25};
  if (block == 128) return (fake_kernel){.true_ns = 1.12 * by_variant, .power = 1.25 / 1.12 / 1.02 - 1};
  return (fake_kernel){.true_ns = 1.2 * by_variant, .power = 0.05};
}

static double best_at(int best, uint32_t block, int speed) {
  return 20e3 * (1 + 0.06 * abs(speed - best)) * (1 + 0.05 * fabs(log2((double)block / 64)));
}

fake_kernel planted_times(uint32_t block, int speed) {
  if (speed >= PLANTED_HUNGRY) return hungry_times(block, speed - PLANTED_HUNGRY);
  return (fake_kernel){.true_ns = best_at(3, block, speed), .filled_ns = best_at(5, block, speed)};
}

/* Every planted fault looks better than any good one, so that all are met. */
static double cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  (void)p;
  (void)t;
  (void)rates;
  if (c->values[0] == PLANTED_TWIN) return 16e3; /* behind the good one it equals */
  if (c->values[0] != PLANTED_GOOD) return 1e3 + c->values[0];
  return 15e3 + 100 * c->values[2] + (c->values[1] == 128 ? 0 : c->values[1]);
}

/* --- lowering ------------------------------------------------------------------------------------------- */

static const char header[] = ".version 8.6\n.target sm_90a\n.address_size 64\n";
/* Its name, and what it does besides. */
static const char kernel[] =
    ".visible .entry %s(\n.param .u64 in,\n.param .u64 out,\n.param .u32 size\n)\n"
    "{\n.reg .pred %%p<3>;\n.reg .b32 %%r<8>;\n.reg .b64 %%rd<8>;\n"
    "ld.param.b64 %%rd1, [in];\nld.param.b64 %%rd2, [out];\nld.param.b32 %%r1, [size];\n"
    "mov.u32 %%r2, %%ctaid.x;\nmov.u32 %%r3, %%ntid.x;\nmov.u32 %%r4, %%tid.x;\n"
    "mad.lo.s32 %%r5, %%r2, %%r3, %%r4;\nsetp.ge.s32 %%p1, %%r5, %%r1;\n@%%p1 bra $DONE;\n"
    "mul.wide.s32 %%rd3, %%r5, 4;\nadd.s64 %%rd4, %%rd1, %%rd3;\nadd.s64 %%rd5, %%rd2, %%rd3;\n"
    "ld.global.b32 %%r6, [%%rd4];\nadd.f32 %%r7, %%r6, %%r6;\nadd.s32 %%r4, %%r1, -1;\n"
    "setp.eq.s32 %%p2, %%r5, %%r4;\n%sst.global.b32 [%%rd5], %%r7;\n$DONE:\nret;\n}\n";

static const char *body(planted_kind kind) {
  switch (kind) {
  case PLANTED_FAULT: return "@%p2 add.s64 %rd5, %rd5, 1099511627776;\n";
  case PLANTED_HANG:
    return PLANTED_LOOP ":\nadd.s32 %r4, %r4, 1;\nsetp.ne.s32 %p2, %r1, 0;\n@%p2 bra " PLANTED_LOOP ";\n";
  case PLANTED_WRONG: return "@%p2 add.f32 %r7, %r7, 0f3F800000;\n";
  case PLANTED_UNWRITTEN: return "@%p2 bra $DONE;\n";
  case PLANTED_PAST_END: return "@%p2 st.global.b32 [%rd5+4], %r7;\n";
  case PLANTED_OVERWRITES:
    return "st.global.b32 [%rd4], %r7;\nst.global.b32 [%rd5], %r7;\n@%p2 st.global.b32 [%rd5], %r6;\n";
  default: return "";
  }
}

static void log_lowering(const config *c) {
  const char *path = getenv(PLANTED_LOG), *slow = getenv(PLANTED_SLOW_MS);
  FILE *f = path ? fopen(path, "a") : NULL;
  if (f) {
    fprintf(f, "KIND=%d,BLOCK=%d,SPEED=%d\n", c->values[0], c->values[1], c->values[2]);
    fclose(f);
  }
  if (slow) usleep((useconds_t)atoi(slow) * 1000);
}

static void start_child(void) {
  const char *path = getenv(PLANTED_CHILD);
  char command[256];
  if (!path) return;
  snprintf(command, sizeof command, "sleep 60 & echo $! >> %s; wait", path);
  if (system(command) != 0) fprintf(stderr, "planted: no child\n");
}

static void die_if_told(void) {
  const char *path = getenv(PLANTED_DIE);
  if (path && unlink(path) == 0) raise(SIGKILL);
}

static arke_status misbehave(planted_kind kind, arke_error *err) {
  switch (kind) {
  case PLANTED_ABORT: fprintf(stderr, "planted: about to abort\n"); abort();
  case PLANTED_STUCK:
    for (;;) pause();
  case PLANTED_REFUSES: return error_set(err, ARKE_ERR_CODEGEN, "lower", "planted: refused");
  case PLANTED_QUITS:
    for (int i = 0; i < 2000; i++) fprintf(stderr, "line %d of a flood of words\n", i);
    fprintf(stderr, "planted: the very last words\n");
    _exit(7);
  default: return ARKE_OK;
  }
}

static arke_status make_recipe(const config *c, arena *a, recipe *r, arke_error *err) {
  recipe_param *params = ARENA_NEW_N(a, recipe_param, 3);
  recipe_launch *l = ARENA_NEW(a, recipe_launch);
  if (!params || !l) return error_memory(err, "lower");
  params[0] = (recipe_param){.kind = RECIPE_PARAM_POINTER, .tensor = 0};
  params[1] = (recipe_param){.kind = RECIPE_PARAM_POINTER, .tensor = 1};
  params[2] = (recipe_param){.kind = RECIPE_PARAM_I32, .value = recipe_var(a, "M")};
  const recipe_expr *one = recipe_const(a, 1);
  *l = (recipe_launch){
      .kernel = "twice",
      .n_params = 3,
      .params = params,
      .grid = {recipe_binary(a, RECIPE_CEILDIV, recipe_var(a, "M"), recipe_const(a, c->values[1])), one, one},
      .block = {(uint32_t)c->values[1], 1, 1},
      .cluster = {1, 1, 1},
      .smem_bytes = recipe_const(a, 16 * c->values[2])};
  if (c->values[0] == PLANTED_NO_GRID) l->grid[0] = recipe_const(a, -1);
  *r = (recipe){
      .n_tensors = 2,
      .tensors = {{.alignment = 4, .contiguous_last = true}, {.alignment = 4, .contiguous_last = true}},
      .n_launches = 1,
      .launches = l};
  return l->smem_bytes && l->grid[0] && one && params[2].value ? ARKE_OK : error_memory(err, "lower");
}

/* After what is there already; NULL: out of memory. */
static const char *print_kernel(arena *a, const char *before, const char *name, planted_kind kind) {
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text, kernel, name, body(kind));
  const char *ptx = arena_printf(a, "%s%s", before, strbuf_text(&text));
  strbuf_free(&text);
  return ptx;
}

static arke_status lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err) {
  (void)p;
  (void)t;
  planted_kind kind = (planted_kind)c->values[0];
  log_lowering(c);
  start_child();
  die_if_told();
  TRY(misbehave(kind, err));
  out->ptx = kind == PLANTED_GARBAGE ? "this is no PTX at all" : print_kernel(a, header, "twice", kind);
  if (!out->ptx) return error_memory(err, "lower");
  out->ptx_bytes = strlen(out->ptx);
  if (options->keep_llvm_ir) out->llvm_ir = "; none, the PTX is written by hand";
  return make_recipe(c, a, &out->recipe, err);
}

/* The first kernel is sound. */
static arke_status lower_viewing(const ir_problem *p, const target *t, const config *c,
                                 const lower_options *options, arena *a, lowered *out, arke_error *err) {
  config sound = *c;
  sound.values[0] = PLANTED_GOOD;
  TRY(lower(p, t, &sound, options, a, out, err));
  out->recipe.tensors[0].dense = out->recipe.tensors[1].dense = true;
  if (options->first_way_only) {
    out->ways_left_out = 1;
    return ARKE_OK;
  }
  planted_kind kind = (planted_kind)c->values[0];
  log_lowering(c);
  TRY(misbehave(kind, err));
  recipe *any = ARENA_NEW(a, recipe);
  if (!any) return error_memory(err, "lower");
  TRY(make_recipe(c, a, any, err));
  any->launches[0].kernel = "twice_any";
  out->recipe.otherwise = any;
  out->ptx = kind == PLANTED_GARBAGE ? "this is no PTX at all" : print_kernel(a, out->ptx, "twice_any", kind);
  if (!out->ptx) return error_memory(err, "lower");
  out->ptx_bytes = strlen(out->ptx);
  return ARKE_OK;
}

static void reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced) {
  (void)t;
  (void)sm_count;
  *reduced = *p;
  reduced->sizes[0] = 3 * c->values[1] + 5;
}

/* The one that the model prefers needs the whole problem. */
static void reduced_vast(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced) {
  reduced_problem(p, t, c, sm_count, reduced);
  if (c->values[2] == 0) *reduced = *p;
}

static const void *prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  (void)a;
  return p;
}

#define JUDGE(id, feasible_)                                                                                 \
  static template_reason judge_##id(const void *p, const target *t, const target_rates *rates,               \
                                    const config *c, double *ns) {                                           \
    template_reason reason = feasible_(p, t, c);                                                             \
    if (template_is_built(reason)) *ns = cost_ns(p, t, rates, c);                                            \
    return reason;                                                                                           \
  }

#define PLANTED(id, name_, space_, defaults_, feasible_, lower_)                                             \
  JUDGE(id, feasible_)                                                                                       \
  static const kernel_template id = {.name = name_,                                                          \
                                     .meaning = "sound and unsound kernels",                                 \
                                     .fits = fits,                                                           \
                                     .space = space_,                                                        \
                                     .defaults = defaults_,                                                  \
                                     .prepare = prepare,                                                     \
                                     .judge = judge_##id,                                                    \
                                     .lower = lower_,                                                        \
                                     .reduced_problem = reduced_problem}
PLANTED(planted, "planted", get_space, defaults, feasible, lower);
PLANTED(doomed, "doomed", get_space, defaults, feasible_doomed, lower);
PLANTED(hungry, "hungry", get_hungry_space, hungry_defaults, feasible_hungry, lower);
PLANTED(viewing, "viewing", get_space, defaults, feasible_viewing, lower_viewing);
PLANTED(flawed, "flawed", get_space, defaults, feasible_flawed, lower_viewing);

JUDGE(vast, feasible_viewing)
static const kernel_template vast = {.name = "vast",
                                     .meaning = "sound kernels, one of which runs at no small problem",
                                     .fits = fits,
                                     .space = get_space,
                                     .defaults = defaults,
                                     .prepare = prepare,
                                     .judge = judge_vast,
                                     .lower = lower,
                                     .reduced_problem = reduced_vast};

JUDGE(bounded, feasible_bounded)
static const kernel_template bounded = {.name = "bounded",
                                        .meaning = "sound kernels, some of which say that they cannot win",
                                        .fits = fits,
                                        .space = get_space,
                                        .defaults = defaults,
                                        .prepare = prepare,
                                        .judge = judge_bounded,
                                        .bound_ns = bound_ns,
                                        .lower = lower,
                                        .reduced_problem = reduced_problem};

static const kernel_template *const planted_list[] = {&planted}, *const doomed_list[] = {&doomed},
                                    *const hungry_list[] = {&hungry}, *const viewing_list[] = {&viewing},
                                    *const flawed_list[] = {&flawed}, *const bounded_list[] = {&bounded},
                                    *const vast_list[] = {&vast}, *const all[] = {&planted, &doomed, &hungry,
                                                                                  &viewing, &flawed, &bounded,
                                                                                  &vast};
const tune_templates planted_templates = {1, planted_list}, doomed_templates = {1, doomed_list},
                     hungry_templates = {1, hungry_list}, viewing_templates = {1, viewing_list},
                     flawed_templates = {1, flawed_list}, bounded_templates = {1, bounded_list},
                     vast_templates = {1, vast_list};
static const tune_templates all_templates = {7, all};
const tune_hooks planted_hooks = {&all_templates, fake_gpu_open, true};
