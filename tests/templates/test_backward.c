/* Attention's gradients on the emulator against the fp64 reference: heads of several sizes, odd lengths,
 * masks, shared heads, parts of them, and every schedule. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backward_forms.h"
#include "base/random.h"
#include "emulator/emulator.h"
#include "template_cases.h"
#include "templates/backward.h"

static const kernel_template *backward(void) {
  return template_find("backward");
}

/* --- operators --- */

static const char catalogued[] = "attention_backward";

/* A head of keys for each of queries, rows of heads next to one another, l of queries with log2. */
static const char alike[] =
    "f(Q: T[B,S,H,D], K: T[B,R,H,D], V: T[B,R,H,D], O: T[B,S,H,D], G: T[B,S,H,D], l: f32[B,H,S]) -> (Y: "
    "T[B,S,H,D], X: T[B,R,H,D], Z: T[B,R,H,D]) { "
    "e[b,q,h] = sum(d) G[b,q,h,d] * O[b,q,h,d]; "
    "P[b,h,q,k] = exp2((sum(d) K[b,k,h,d] * Q[b,q,h,d]) * 0.2 - l[b,h,q]); "
    "W[b,h,q,k] = cast<T>(((sum(d) V[b,k,h,d] * G[b,q,h,d]) - e[b,q,h]) * P[b,h,q,k]); "
    "Y[b,q,h,d] = sum(k: q >= k) K[b,k,h,d] * W[b,h,q,k]; "
    "X[b,k,h,d] = (sum(q: k <= q) W[b,h,q,k] * Q[b,q,h,d]) / 2; "
    "Z[b,k,h,d] = sum(q: k <= q) cast<T>(P[b,h,q,k]) * G[b,q,h,d] }";

/* --- what it is for --- */

static const backward_form forms[] = {
    {catalogued, "T=bf16 B=1 H=4 G=2 S=64 R=64 D=64 E=32 causal=true left=7",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; bf16; scale 0.125; 2 "
     "bounds"},
    {catalogued, "T=f16 B=1 H=4 G=4 S=64 R=64 D=64 E=64 base2=true scale=2",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; f16; scale 2.88539; base "
     "2; 0 "
     "bounds"},
    {catalogued, "T=f16 B=1 H=4 G=4 S=64 R=64 D=64 E=64 softcap=2",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; f16; scale 0.0625; cap 2; "
     "0 "
     "bounds"},
    {alike, "T=bf16 B=1 H=4 S=64 R=64 D=64",
     "batch b h; query q; key k; depth d; wide d; Q; K; V; G; Y; X; Z; bf16; scale 0.2; base 2; 1 bounds"},
};

START_TEST(forms_are_recognised) {
  backward_form_check(&forms[_i]);
}
END_TEST

/* --- what it computes --- */

/* Consumers, columns of a step, stages and overlap, of the tiles of queries and of those of keys. */
#define Q(consumers, block, stages, overlap)                                                                 \
  "Q_CONSUMERS=" #consumers ",Q_BLOCK=" #block ",Q_STAGES=" #stages ",Q_OVERLAP=" #overlap
#define K(consumers, block, stages, overlap)                                                                 \
  ",K_CONSUMERS=" #consumers ",K_BLOCK=" #block ",K_STAGES=" #stages ",K_OVERLAP=" #overlap

/* One kernel for all three. */
#define ONE(consumers, stages) Q(1, 64, 1, 0) K(consumers, 64, stages, 1) ",ONE=1,PERSISTENT=1"

static const struct {
  const char *op, *bindings, *settings;
} cases[] = {
    {catalogued, "T=bf16 B=1 H=2 G=2 S=70 R=100 D=64 E=64", ONE(1, 2)},
    {catalogued, "T=f16 B=1 H=2 G=1 S=130 R=300 D=128 E=128 causal=true", ONE(2, 3)},
    {catalogued, "T=bf16 B=2 H=4 G=1 S=200 R=190 D=64 E=96 causal=true left=90 base2=true",
     ONE(2, 2) ",SPLIT=2"},
    {alike, "T=f16 B=1 H=2 S=129 R=129 D=80", ONE(1, 3) ",GROUP=1"},
    {catalogued, "T=bf16 B=1 H=2 G=2 S=70 R=100 D=64 E=64", Q(1, 32, 2, 0) K(1, 32, 2, 0) ",PERSISTENT=0"},
    {catalogued, "T=f16 B=2 H=3 G=1 S=65 R=63 D=64 E=64 causal=true",
     Q(1, 48, 2, 1) K(1, 64, 2, 1) ",PERSISTENT=1"},
    {catalogued, "T=bf16 B=1 H=4 G=1 S=129 R=130 D=64 E=64 causal=true base2=true",
     Q(2, 64, 2, 1) K(2, 64, 2, 1) ",SPLIT=2,PERSISTENT=1"},
    /* queries that see no key */
    {catalogued, "T=bf16 B=1 H=1 G=1 S=140 R=70 D=128 E=128 causal=true", Q(2, 64, 2, 0) K(2, 64, 1, 0)},
    {catalogued, "T=f16 B=1 H=1 G=1 S=17 R=129 D=128 E=128 causal=true", Q(1, 32, 1, 0) K(2, 32, 2, 1)},
    {catalogued, "T=bf16 B=1 H=2 G=1 S=90 R=130 D=80 E=96 left=20 right=10",
     Q(1, 32, 1, 0) K(1, 32, 1, 0) ",GROUP=1,PERSISTENT=1"},
    /* keys that no query sees */
    {catalogued, "T=bf16 B=1 H=2 G=2 S=65 R=200 D=64 E=40 left=9", Q(1, 80, 1, 0) K(1, 64, 2, 0)},
    /* dK and dV by kernels of their own */
    {catalogued, "T=f16 B=1 H=3 G=1 S=63 R=1 D=64 E=128", Q(3, 32, 2, 1) K(3, 64, 2, 1)},
    {catalogued, "T=bf16 B=1 H=4 G=1 S=1 R=65 D=192 E=128", Q(1, 32, 2, 0) K(1, 64, 1, 0) ",SPLIT=4"},
    {catalogued, "T=bf16 B=1 H=1 G=1 S=66 R=70 D=256 E=256 causal=true", Q(1, 32, 1, 0) K(1, 32, 2, 1)},
    {catalogued, "T=f16 B=1 H=2 G=2 S=200 R=100 D=64 E=64 causal=true",
     Q(3, 48, 2, 1) K(3, 32, 3, 1) ",PERSISTENT=1"},
    {alike, "T=bf16 B=2 H=2 S=70 R=80 D=64", Q(1, 32, 2, 1) K(1, 32, 2, 0) ",GROUP=0"},
    /* a softcap, by which most scores are far from what they were */
    {catalogued, "T=f16 B=1 H=2 G=1 S=70 R=65 D=64 E=64 softcap=1.5 causal=true scale=1",
     Q(1, 32, 2, 1) K(1, 32, 2, 1)},
    {catalogued, "T=bf16 B=1 H=2 G=2 S=70 R=65 D=64 E=64 softcap=0.5 base2=true", ONE(1, 2)},
};

/* An element of the reference is a sum over all heads and queries of sums: a sample is compared. */
enum { SAMPLE = 150 };

static template_case bind(arena *a, const char *op, const char *bindings, const char *settings) {
  template_case c = template_case_bind(a, backward(), template_text_of(op), bindings, settings);
  c.sample = SAMPLE;
  c.first_way = true; /* test_backward_warps.c has the others */
  return c;
}

START_TEST(cases_are_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, cases[_i].op, cases[_i].bindings, cases[_i].settings);
  template_case_run(&a, &c, NULL, -1);
  arena_release(&a);
}
END_TEST

/* Heads next to one another within a position, and rows with gaps. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, "T=bf16 B=2 H=4 G=2 S=40 R=70 D=64 E=64 causal=true",
                         Q(1, 32, 2, 1) K(1, 32, 2, 1) ",PERSISTENT=1");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < c.p.op->n_args; i++)
    if (i != 5) run_view_permuted(&c.p, i, (int[]){3, 1, 2, 0}, 8 * i, &views[i]);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The large one needs 64-bit offsets, and its kernel is run on the small one, too. */
START_TEST(small_problem_is_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, "T=bf16 B=64 H=64 G=8 S=8192 R=8192 D=64 E=64 causal=true",
                         Q(1, 64, 2, 1) K(1, 32, 2, 1) ",GROUP=4,SPLIT=4,PERSISTENT=1");
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- inputs as the forward pass leaves them --- */

typedef struct forward_pass {
  int64_t n[6]; /* elements of Q, K, V, O, dO and lse */
  double *values[6];
} forward_pass;

static double *random_values(dtype type, int64_t n, double scale, uint64_t seed) {
  double *v = calloc((size_t)n, sizeof *v);
  ck_assert_ptr_nonnull(v);
  for (int64_t i = 0; i < n; i++) v[i] = dtype_round(type, scale * random_normal(seed, (uint64_t)i));
  return v;
}

/* O and lse from grouped_query_attention's reference. Scores are `scale` squared times as large as usual. */
static forward_pass run_forward(arena *a, const char *bindings, dtype type, double scale) {
  arke_error err = ARKE_ERROR_INIT;
  forward_pass f;
  const ir_op *op;
  ir_problem p;
  ir_data data[5] = {{0}};
  ir_evaluator *ev;
  ck_assert_int_eq(ir_op_parse(a, template_text_of("grouped_query_attention"), &op, &err), ARKE_OK);
  ck_assert_msg(ir_problem_bind(op, bindings, &p, &err) == ARKE_OK, "%s", err.text);
  const int of[] = {0, 1, 2, 3, 3, 4};
  for (int i = 0; i < 6; i++) {
    f.n[i] = ir_tensor_elements(&p, of[i]);
    f.values[i] = random_values(type, f.n[i], i < 2 ? scale : 1, 100 + (uint64_t)i);
  }
  for (int i = 0; i < 3; i++) {
    int64_t shape[LIMIT_RANK], stride = 1;
    char *memory = arena_alloc(a, (size_t)f.n[i] * 2);
    ck_assert_ptr_nonnull(memory);
    for (int64_t k = 0; k < f.n[i]; k++) dtype_store(type, memory, k, f.values[i][k]);
    for (int d = ir_tensor_shape(&p, i, shape) - 1; d >= 0; d--) {
      data[i].strides[d] = stride;
      stride *= shape[d];
    }
    data[i].data = memory;
  }
  ck_assert_int_eq(ir_evaluator_create(&p, data, &ev, &err), ARKE_OK);
  for (int i = 3; i < 6; i += 2) {
    int64_t shape[LIMIT_RANK], coords[LIMIT_RANK];
    int rank = ir_tensor_shape(&p, of[i], shape);
    for (int64_t k = 0; k < f.n[i]; k++) {
      int64_t rest = k;
      double magnitude;
      for (int d = rank - 1; d >= 0; d--) {
        coords[d] = rest % shape[d];
        rest /= shape[d];
      }
      ck_assert_int_eq(ir_evaluator_eval(ev, of[i], coords, &f.values[i][k], &magnitude, &err), ARKE_OK);
    }
  }
  ir_evaluator_destroy(ev);
  return f;
}

/* The first as a training step has them, with queries that see no key, whose lse is -inf; the others with
 * scores of thousands, where every row has one weight. */
static const struct {
  const char *bindings;
  double scale;
  const char *settings;
} trained[] = {
    {"T=bf16 B=1 H=2 G=1 S=75 R=66 D=64 causal=true", 1, Q(1, 32, 2, 1) K(1, 32, 2, 1) ",PERSISTENT=0"},
    {"T=f16 B=1 H=2 G=1 S=40 R=70 D=64 left=50", 200, Q(1, 32, 2, 1) K(1, 32, 2, 1) ",PERSISTENT=0"},
    {"T=bf16 B=1 H=2 G=1 S=75 R=66 D=64 causal=true", 1, ONE(1, 2)},
    {"T=f16 B=1 H=2 G=1 S=40 R=70 D=64 left=50", 200, ONE(1, 2)},
};

START_TEST(gradients_of_a_forward_pass_are_right) {
  arena a = ARENA_INIT;
  forward_pass f =
      run_forward(&a, trained[_i].bindings, _i % 2 == 0 ? DTYPE_BF16 : DTYPE_F16, trained[_i].scale);
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 6; i++) {
    views[i].values = f.values[i];
    views[i].n_values = (int)f.n[i];
  }
  template_case c =
      bind(&a, catalogued, arena_printf(&a, "%s E=64", trained[_i].bindings), trained[_i].settings);
  if (_i % 2 == 0) ck_assert(isinf(f.values[5][0]));
  template_case_run(&a, &c, views, 0);
  for (int i = 0; i < 6; i++) free(f.values[i]);
  arena_release(&a);
}
END_TEST

/* Scores of -128, next to which a weight of a row of zeroes behind the last key would be more than a float.
 */
START_TEST(rows_past_the_end_add_nothing) {
  static const double four = 4, minus_four = -4, lse = -123.75;
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{.values = &four, .n_values = 1},
                                   {.values = &minus_four, .n_values = 1},
                                   [5] = {.values = &lse, .n_values = 1}};
  template_case c = bind(&a, catalogued, "T=bf16 B=1 H=1 G=1 S=65 R=70 D=64 E=64", ONE(1, 2));
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* --- how it assembles --- */

#define LONG "B=2 H=32 G=8 S=2048 R=2048 "

static const struct {
  const char *bindings, *settings;
} large[] = {
    {"T=bf16 " LONG "D=128 E=128 causal=true", Q(2, 112, 2, 1) K(2, 64, 2, 1) ",PERSISTENT=1"},
    {"T=f16 " LONG "D=128 E=128 left=300 right=10", Q(2, 96, 2, 1) K(2, 64, 3, 0) ",SPLIT=4,PERSISTENT=1"},
    {"T=bf16 " LONG "D=64 E=64 causal=true", Q(3, 64, 2, 1) K(3, 32, 2, 1) ",PERSISTENT=1"},
    {"T=bf16 " LONG "D=256 E=256 causal=true", Q(2, 48, 1, 0) K(2, 32, 2, 0) ",PERSISTENT=1"},
    {"T=bf16 " LONG "D=128 E=128 causal=true", ONE(2, 3)},
    {"T=bf16 " LONG "D=128 E=128 left=300 right=10", ONE(2, 3) ",SPLIT=2"},
    {"T=bf16 " LONG "D=128 E=128 causal=true softcap=30", Q(2, 96, 2, 1) K(2, 32, 2, 1) ",PERSISTENT=1"},
    {"T=bf16 " LONG "D=64 E=64 causal=true softcap=30", ONE(2, 3)},
    /* two CTAs would fit an SM, but for their registers */
    {"T=bf16 " LONG "D=256 E=256 causal=true", Q(1, 48, 2, 1) K(1, 32, 2, 1) ",PERSISTENT=1"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* What does not fit is refused, tiles of queries and of keys each for themselves. */
static const struct {
  const char *settings;
  template_reason reason;
} misfits[] = {
    {Q(2, 128, 2, 1) K(1, 32, 1, 0), TEMPLATE_REGISTERS},
    {Q(1, 32, 1, 0) K(1, 32, 3, 0) ",SPLIT=8", TEMPLATE_SCHEDULE},
    {Q(1, 32, 1, 0) K(1, 128, 1, 0), TEMPLATE_TILE},
    {Q(3, 80, 2, 0) K(1, 32, 1, 0), TEMPLATE_REGISTERS},
    {Q(1, 32, 1, 1) K(1, 32, 1, 0), TEMPLATE_STAGES},
    {Q(2, 128, 3, 0) K(1, 32, 1, 0), TEMPLATE_SHARED_MEMORY},
    {Q(1, 64, 2, 0) K(2, 64, 3, 1) ",ONE=1,PERSISTENT=1", TEMPLATE_SCHEDULE},
    {Q(1, 64, 1, 0) K(2, 64, 3, 1) ",ONE=1,PERSISTENT=0", TEMPLATE_SCHEDULE},
    {Q(1, 64, 1, 0) K(3, 64, 2, 1) ",ONE=1,PERSISTENT=1", TEMPLATE_TILE},
    {Q(1, 64, 1, 0) K(1, 64, 2, 1) ",ONE=1,PERSISTENT=1", TEMPLATE_REGISTERS},
};

START_TEST(misfits_are_refused) {
  arena a = ARENA_INIT;
  template_case c =
      bind(&a, catalogued, "T=bf16 B=2 H=16 G=4 S=2048 R=2048 D=128 E=128", Q(1, 32, 1, 0) K(1, 32, 1, 0));
  config misfit;
  ck_assert_int_eq(config_parse(c.k->space(c.t), misfits[_i].settings, &c.c, &misfit, NULL), ARKE_OK);
  ck_assert_int_eq(template_feasible(c.k, &c.p, c.t, &misfit), misfits[_i].reason);
  arena_release(&a);
}
END_TEST

/* Sums stay in registers or have a place of their own, so that their order is that of the text. */
START_TEST(nothing_is_added_up_in_memory) {
  static const char *const updates[] = {"\tatom.", "\tred.", "cp.reduce"};
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, "T=bf16 B=1 H=4 G=1 S=300 R=300 D=64 E=64 causal=true",
                         Q(1, 64, 2, 1) K(1, 64, 2, 1) ",SPLIT=4");
  lowered l = template_case_lower(&a, &c);
  ck_assert_int_eq(l.recipe.n_launches, 4);
  for (size_t i = 0; i < COUNT_OF(updates); i++) ck_assert_ptr_null(strstr(l.ptx, updates[i]));
  arena_release(&a);
}
END_TEST

/* By one kernel sums of dQ are in memory: f32 in an order that neither CTAs nor copies, which the emulator
 * ends in another order for every seed, have a say in. */
START_TEST(order_of_sums_is_fixed) {
  static const char *const masks[] = {"", " causal=true", " left=60 right=40"};
  arena a = ARENA_INIT;
  char first[SHA256_HEX_SIZE] = "";
  template_case c = bind(&a, catalogued,
                         arena_printf(&a, "T=f16 B=1 H=2 G=1 S=130 R=330 D=64 E=64%s", masks[_i]), ONE(1, 2));
  lowered l = template_case_lower(&a, &c);
  for (int i = 0; i < 3; i++) {
    arke_error err = ARKE_ERROR_INIT;
    device *d;
    ck_assert_int_eq(device_open_emulator(c.t->name, 1 + 7 * (uint64_t)i, &d, &err), ARKE_OK);
    run_views_result r = run_views(d, &c.p, &l, 2 + 2 * i, NULL, 5, 10);
    d->ops->close(d);
    ck_assert_msg(r.status == ARKE_OK, "%s", r.err.text);
    if (i > 0) ck_assert_str_eq(r.outputs, first);
    strcpy(first, r.outputs);
  }
  arena_release(&a);
}
END_TEST

/* --- near misses --- */

#define HEAD                                                                                                 \
  "f(Q: T[B,H,S,D], K, V: T[B,H,R,D], O, G: T[B,H,S,D], l: f32[B,H,S]) -> (X: T[B,H,S,D], Y, Z: "            \
  "T[B,H,R,D]) { e[b,h,q] = sum(d) O[b,h,q,d] * G[b,h,q,d]; "
#define WEIGHTS "P[b,h,q,k] = exp((sum(d) Q[b,h,q,d] * K[b,h,k,d]) - l[b,h,q]); "
#define SLOPES  "W[b,h,q,k] = cast<T>(P[b,h,q,k] * ((sum(d) G[b,h,q,d] * V[b,h,k,d]) - e[b,h,q])); "
#define SUMS(seen, of_queries, of_weights)                                                                   \
  "X[b,h,q,d] = sum(k: " seen ") W[b,h,q,k] * K[b,h,k,d]; Y[b,h,k,d] = sum(q: " of_queries                   \
  ") W[b,h,q,k] * Q[b,h,q,d]; Z[b,h,k,d] = sum(q: " of_queries ") " of_weights " * G[b,h,q,d] }"
#define ROUNDED "cast<T>(P[b,h,q,k])"

START_TEST(near_misses_are_refused) {
  static const char small[] = "T=bf16 B=1 H=1 S=8 R=8 D=64";
  template_refuses(backward(), HEAD WEIGHTS SLOPES SUMS("k <= q", "k < q", ROUNDED), small,
                   TEMPLATE_OPERATOR);
  template_refuses(backward(), HEAD WEIGHTS SLOPES SUMS("k % 2 < 1", "k % 2 < 1", ROUNDED), small,
                   TEMPLATE_OPERATOR);
  template_refuses(backward(), HEAD WEIGHTS SLOPES SUMS("k <= q", "k <= q", "P[b,h,q,k]"), small,
                   TEMPLATE_OPERATOR);
  template_refuses(
      backward(),
      HEAD "P[b,h,q,k] = exp(sum(d) Q[b,h,q,d] * K[b,h,k,d]); " SLOPES SUMS("k <= q", "k <= q", ROUNDED),
      small, TEMPLATE_OPERATOR);
  template_refuses(backward(), template_text_of("flash_attention"), "T=bf16 B=1 H=1 S=8 R=8 D=64",
                   TEMPLATE_OPERATOR);
  template_refuses(backward(), template_text_of(catalogued), "T=bf16 B=1 H=2 G=2 S=8 R=8 D=60 E=64",
                   TEMPLATE_ALIGNMENT);
  template_refuses(backward(), template_text_of(catalogued), "T=bf16 B=1 H=2 G=2 S=8 R=8 D=64 E=264",
                   TEMPLATE_SIZE);
}
END_TEST

/* --- faults --- */

START_TEST(missing_waits_are_found) {
  static const char *const lines[] = {"wgmma.wait_group", "mbarrier.try_wait", "wgmma.fence",
                                      "griddepcontrol.wait"};
  arena a = ARENA_INIT;
  template_case c =
      bind(&a, catalogued, "T=bf16 B=1 H=2 G=1 S=40 R=150 D=64 E=64", Q(1, 32, 2, 1) K(1, 32, 2, 1));
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(missing_meetings_are_found) {
  static const char *const lines[] = {"bar.arrive", "fence.proxy.async", "cp.async.bulk.wait_group.read"};
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, "T=bf16 B=1 H=2 G=1 S=150 R=70 D=64 E=64", ONE(2, 2));
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, catalogued, "T=bf16 B=1 H=2 G=1 S=40 R=50 D=64 E=64 causal=true",
                         Q(1, 32, 1, 0) K(1, 32, 1, 0) ",SPLIT=2");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("backward");
  tcase_add_loop_test(tests, forms_are_recognised, 0, (int)COUNT_OF(forms));
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, small_problem_is_right);
  tcase_add_loop_test(tests, gradients_of_a_forward_pass_are_right, 0, (int)COUNT_OF(trained));
  tcase_add_test(tests, rows_past_the_end_add_nothing);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(tests, nothing_is_added_up_in_memory);
  tcase_add_loop_test(tests, order_of_sums_is_fixed, 0, 3);
  tcase_add_loop_test(tests, misfits_are_refused, 0, (int)COUNT_OF(misfits));
  tcase_add_test(tests, near_misses_are_refused);
  tcase_add_loop_test(tests, missing_waits_are_found, 0, 4);
  tcase_add_loop_test(tests, missing_meetings_are_found, 0, 3);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("backward", tests);
}
