/* Operators of several stages: what is split and into how many kernels, results on the emulator, views, and
 * planted faults. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "template_cases.h"
#include "templates/kernel_lower.h"
#include "tests/support/failing_alloc.h"

static const kernel_template *compose(void) {
  return template_find("compose");
}

static const char softmax_columns[] =
    "s(X: T[M,N]) -> (Y: T[M,N]) { m[j] = max(i) X[i,j]; s[j] = sum(i) exp(X[i,j] - m[j]);"
    " Y[i,j] = exp(X[i,j] - m[j]) / s[j] }";
static const char norm_columns[] =
    "s(X: T[M,N], W: T[M]) -> (Y: T[M,N]) eps: float = 1e-5 { u[j] = (sum(i) X[i,j]) / M;"
    " v[j] = (sum(i) (X[i,j] - u[j]) * (X[i,j] - u[j])) / M; Y[i,j] = (X[i,j] - u[j]) * rsqrt(v[j] + eps) * "
    "W[i] }";
static const char variance_columns[] = "s(X: T[M,N]) -> (Y: T[N]) { u[j] = (sum(i) X[i,j]) / M; Y[j] = "
                                       "(sum(i) (X[i,j] - u[j]) * (X[i,j] - u[j])) / M }";
static const char batch_norm[] =
    "s(X: T[B,C,H,W], g: f32[C], b: f32[C]) -> (Y: T[B,C,H,W]) eps: float = 1e-5 {"
    " u[c] = (sum(n) sum(h) sum(w) X[n,c,h,w]) / (B * H * W);"
    " v[c] = (sum(n) sum(h) sum(w) (X[n,c,h,w] - u[c]) * (X[n,c,h,w] - u[c])) / (B * H * W);"
    " Y[n,c,h,w] = (X[n,c,h,w] - u[c]) * rsqrt(v[c] + eps) * g[c] + b[c] }";
static const char cross_entropy[] =
    "s(L: T[N,V], t: i64[N]) -> (loss: f32[]) smooth: float = 0.1, ignore: int = -100 {"
    " m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + m[n];"
    " x[n] = (1 - smooth) * L[n,t[n]] + smooth * ((sum(v) L[n,v]) / V);"
    " loss = (sum(n: t[n] != ignore) (z[n] - x[n])) / sum(n: t[n] != ignore) 1 }";
static const char both_ways[] =
    "s(X: T[M,N]) -> (R: T[M], C: T[N]) { R[i] = sum(j) X[i,j]; C[j] = max(i) X[i,j] }";
static const char nested[] = "s(X: T[M,N]) -> (y: f32[]) { y = max(i) sum(j) abs(X[i,j]) }";
static const char outer_only[] =
    "s(X: T[M,N]) -> (Y: T[M,N]) { t = sum(i) sum(j) X[i,j]; Y[i,j] = X[i,j] - t / (M * N) }";
static const char scattered[] = "s(X: T[M,N], k: i64[M]) -> (Y: T[V]) { Y[k[i]] += sum(j) X[i,j] }";
static const char standardised[] = "s(X: T[...,M,N]) -> (Y: T[...,M,N]) { m[...,j] = max(i) abs(X[...,i,j]); "
                                   "Y[...,i,j] = X[...,i,j] / m[...,j] }";
/* Attention whose weights stay f32, which no template takes whole. */
static const char attention[] =
    "s(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,D]) -> (O: T[B,H,S,D], lse: f32[B,H,S]) scale: float = 0.3 {"
    " P[b,h,q,k] = scale * sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d];"
    " m[b,h,q] = max(k: k <= q + R - S) P[b,h,q,k];"
    " s[b,h,q] = sum(k: k <= q + R - S) exp(P[b,h,q,k] - m[b,h,q]);"
    " O[b,h,q,d] = s[b,h,q] == 0 ? 0 : (sum(k: k <= q + R - S) exp(P[b,h,q,k] - m[b,h,q]) * "
    "V[b,h / (H / G),k,d]) / s[b,h,q];"
    " lse[b,h,q] = m[b,h,q] + log(s[b,h,q]) }";
static const char in_place[] = "s(X: T[M,N]) -> (X) { m[j] = max(i) abs(X[i,j]); X[i,j] = X[i,j] / m[j] }";

/* A product that rows are quantised of: it is written once, in f32, or as what it is cast to. */
static const char quantised[] =
    "s(X: T[M,K], W: T[N,K]) -> (Q: U[M,N], s: f32[M]) { P[m,n] = sum(k) X[m,k] * W[n,k];"
    " a[m] = max(n) abs(P[m,n]); s[m] = a[m] == 0 ? 1 : a[m] / cast<U>(inf);"
    " Q[m,n] = cast<U>(P[m,n] / s[m]) }";
static const char quantised_cast[] =
    "s(X: T[M,K], G: T[N,K], U: T[N,K]) -> (Q: e4m3[M,N], s: f32[M]) { P[m,n] = cast<T>(silu(sum(k) X[m,k] * "
    "G[n,k]) * "
    "sum(k) X[m,k] * U[n,k]); a[m] = max(n) abs(P[m,n]); s[m] = a[m] == 0 ? 1 : a[m] / 448;"
    " Q[m,n] = cast<e4m3>(P[m,n] / s[m]) }";
static const char normed[] =
    "s(X: T[M,K], W: T[N,K], g: T[N]) -> (Y: T[M,N]) { P[m,n] = sum(k) X[m,k] * W[n,k];"
    " v[m] = (sum(n) P[m,n] * P[m,n]) / N; Y[m,n] = P[m,n] * rsqrt(v[m] + 0.1) * g[n] }";
static const char linear_entropy[] =
    "s(X: T[N,H], W: T[V,H], t: i64[N]) -> (loss: f32[]) smooth: float = 0.1, ignore: int = -100 {"
    " L[n,v] = sum(h) X[n,h] * W[v,h];"
    " m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + m[n];"
    " x[n] = (1 - smooth) * L[n,t[n]] + smooth * ((sum(v) L[n,v]) / V);"
    " loss = (sum(n: t[n] != ignore) (z[n] - x[n])) / sum(n: t[n] != ignore) 1 }";

/* What experts say of rows adds up at the rows' places: on nothing, and on what was there. */
static const char combined[] = "s(X: T[R,K], W: T[N,K], k: i64[R], w: T[R]) -> (Y: f32[M,N]) { "
                               "Y[k[r],n] += w[r] * sum(k_) X[r,k_] * W[n,k_] }";
static const char residual[] =
    "s(Z: T[M,N], X: T[R,K], W: T[N,K], k: i64[R]) -> (Y: f32[M,N]) { Y[m,n] = 2 * Z[m,n]; "
    "Y[k[r],n] += sum(k_) X[r,k_] * W[n,k_] }";

/* Two products, the first of which lies between them in memory as what the second one multiplies. */
static const char layers[] =
    "s(X: T[M,K], W: T[N,K], V: T[P,N]) -> (Y: T[M,P]) { H[m,n] = cast<T>(relu(sum(k) X[m,k] * W[n,k]));"
    " Y[m,p] = sum(n) H[m,n] * V[p,n] }";

/* A product whose left operand is computed. */
static const char gated[] = "s(X: T[B,2*H], W: T[H,O]) -> (Y: T[B,O]) {"
                            " Y[b,o] = sum(h) cast<T>(silu(X[b,h]) * X[b,h + H]) * W[h,o] }";
static const char gated_rows[] =
    "s(X: T[B,H], g: T[H], W: T[O,H]) -> (Y: T[B,O]) { v[b] = rsqrt((sum(h) X[b,h] * X[b,h]) / H + 0.1);"
    " Y[b,o] = sum(h) cast<T>(X[b,h] * v[b] * g[h]) * W[o,h] }";

/* Keys that are read at h / (H / G) and made before: by one stage, and by two of their own. */
static const char kept[] =
    "s(Q: T[S,H,D], K: T[R,G,D], V: T[R,G,D]) -> (O: T[S,H,D]) { n[r,g] = sum(d) K[r,g,d] * K[r,g,d];"
    " L[r,g,d] = cast<T>(K[r,g,d] * rsqrt(n[r,g] + 0.1)); P[h,q,k] = sum(d) Q[q,h,d] * L[k,h / (H / G),d];"
    " m[h,q] = max(k) P[h,q,k]; s[h,q] = sum(k) exp(P[h,q,k] - m[h,q]);"
    " O[q,h,d] = (sum(k) cast<T>(exp(P[h,q,k] - m[h,q])) * V[k,h / (H / G),d]) / s[h,q] }";
static const char kept_columns[] =
    "s(Q: T[S,H,D], K: T[R,G,D], V: T[R,G,D]) -> (O: T[S,H,D]) { n[g,d] = max(r) abs(K[r,g,d]);"
    " L[r,g,d] = cast<T>(K[r,g,d] / (n[g,d] + 1)); P[h,q,k] = sum(d) Q[q,h,d] * L[k,h / (H / G),d];"
    " m[h,q] = max(k) P[h,q,k]; s[h,q] = sum(k) exp(P[h,q,k] - m[h,q]);"
    " O[q,h,d] = (sum(k) cast<T>(exp(P[h,q,k] - m[h,q])) * V[k,h / (H / G),d]) / s[h,q] }";

/* A part of each key turns: its axis is blocks of another one in the stage that makes them. */
static const char rotated[] =
    "s(Q: T[S,H,D], K: T[R,G,D], V: T[R,G,E], a: f32[R,F], b: f32[R,F]) -> (O: T[S,H,E]) {"
    " L[r,g,d] = cast<T>(d >= 2 * F ? K[r,g,d] : d < F ? K[r,g,d] * a[r,d + 0] - K[r,g,d + F] else 0 *"
    " b[r,d + 0] : K[r,g,d] * a[r,d - F] + K[r,g,d - F] else 0 * b[r,d - F]);"
    " P[h,q,k] = sum(d) Q[q,h,d] * L[k,h / (H / G),d]; m[h,q] = max(k) P[h,q,k];"
    " s[h,q] = sum(k) exp(P[h,q,k] - m[h,q]);"
    " O[q,h,e] = (sum(k) cast<T>(exp(P[h,q,k] - m[h,q])) * V[k,h / (H / G),e]) / s[h,q] }";

/* Queries turn as keys do: they are kept, too, or computed by what reads them. */
static const char both_rotated[] =
    "s(Q: T[S,H,D], K: T[R,G,D], V: T[R,G,E], a: f32[R,F], b: f32[R,F], v: f32[S,F], w: f32[S,F]) -> (O: "
    "T[S,H,E]) {"
    " M[q,h,d] = cast<T>(d >= 2 * F ? Q[q,h,d] : d < F ? Q[q,h,d] * v[q,d + 0] - Q[q,h,d + F] else 0 *"
    " w[q,d + 0] : Q[q,h,d] * v[q,d - F] + Q[q,h,d - F] else 0 * w[q,d - F]);"
    " L[r,g,d] = cast<T>(d >= 2 * F ? K[r,g,d] : d < F ? K[r,g,d] * a[r,d + 0] - K[r,g,d + F] else 0 *"
    " b[r,d + 0] : K[r,g,d] * a[r,d - F] + K[r,g,d - F] else 0 * b[r,d - F]);"
    " P[h,q,k] = sum(d) M[q,h,d] * L[k,h / (H / G),d]; m[h,q] = max(k) P[h,q,k];"
    " s[h,q] = sum(k) exp(P[h,q,k] - m[h,q]);"
    " O[q,h,e] = (sum(k) cast<T>(exp(P[h,q,k] - m[h,q])) * V[k,h / (H / G),e]) / s[h,q] }";

/* Outputs that are read again, in place and not: they are stored first. */
static const char appended[] =
    "s(X: T[N,D], k: i64[N], Y: T[V,D]) -> (Z: T[D], Y) { Y[k[n],d] else skip = 2 * X[n,d];"
    " Z[d] = sum(v) Y'[v,d] }";
static const char added[] = "s(X: T[N,D], k: i64[N]) -> (Y: f32[V,D], Z: T[V,D]) { Y[k[n],d] += X[n,d];"
                            " m[v] = max(d) abs(Y[v,d]); Z[v,d] = Y[v,d] / (m[v] + 1) }";

static const struct {
  const char *text, *bindings;
  int stages; /* at least so many kernels */
} cases[] = {
    {appended, "T=bf16 N=7 D=24 V=11", 2},
    {added, "T=f32 N=20 D=24 V=11", 2},
    {kept, "T=bf16 S=9 R=20 H=4 G=2 D=16", 2},
    {kept_columns, "T=f16 S=9 R=20 H=4 G=2 D=16", 3},
    {rotated, "T=f16 S=5 R=20 H=4 G=2 D=16 E=8 F=4", 2},
    {rotated, "T=bf16 S=5 R=9 H=2 G=2 D=24 E=8 F=5", 2},
    {layers, "T=bf16 M=40 N=72 P=24 K=40", 2},
    {layers, "T=f16 M=33 N=20 P=24 K=50", 2},
    {combined, "T=bf16 M=11 N=48 R=20 K=40", 2},
    {combined, "T=f32 M=11 N=37 R=21 K=33", 2},
    {residual, "T=bf16 M=11 N=48 R=20 K=40", 2},
    {quantised, "T=bf16 U=e4m3 M=20 N=48 K=40", 2},
    {quantised, "T=f16 U=i8 M=21 N=37 K=33", 2},
    {quantised_cast, "T=bf16 M=20 N=48 K=40", 2},
    {normed, "T=bf16 M=20 N=48 K=40", 2},
    {linear_entropy, "T=bf16 N=20 H=40 V=200", 4},
    {linear_entropy, "T=f32 N=9 H=15 V=71", 4},
    {softmax_columns, "T=f32 M=40 N=24", 3},
    {softmax_columns, "T=bf16 M=41 N=23", 3},
    {norm_columns, "T=f32 M=40 N=24", 3},
    {norm_columns, "T=f16 M=37 N=33", 3},
    {variance_columns, "T=f32 M=40 N=24", 2},
    {variance_columns, "T=f64 M=41 N=23", 2},
    {batch_norm, "T=f32 B=3 C=5 H=6 W=8", 3},
    {cross_entropy, "T=f32 N=9 V=50", 2},
    {cross_entropy, "T=bf16 N=70 V=130", 2},
    {cross_entropy, "T=f32 N=0 V=5", 2},
    {both_ways, "T=f32 M=40 N=24", 2},
    {both_ways, "T=i32 M=41 N=23", 2},
    {nested, "T=f32 M=40 N=24", 2},
    {outer_only, "T=f32 M=40 N=24", 2},
    {scattered, "T=f32 M=40 N=24 V=11", 2},
    {standardised, "T=f32 ...=2x3 M=20 N=12", 2},
    {in_place, "T=f32 M=40 N=24", 2},
    {attention, "T=f32 B=2 H=4 G=2 S=9 R=7 D=12", 2},
    {attention, "T=bf16 B=1 H=2 G=1 S=17 R=30 D=5", 2},
};

static void places(const template_case *c, run_view *views) {
  for (int i = 0; i < c->p.op->n_inputs; i++) {
    if (ir_tensor_dtype(&c->p, i) == DTYPE_I64) views[i].below = 11;
  }
}

/* The stages' own configurations with the ways for other views, assembled; those that differ by the first way
 * alone. */
START_TEST(operators_are_right) {
  static const char *const picks[] = {"PICK=1", "PICK=2", "PICK=9"};
  bool empty = strstr(cases[_i].bindings, "N=0") != NULL;
  run_view views[LIMIT_TENSORS] = {{0}};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), cases[_i].text, cases[_i].bindings, "PICK=0");
  places(&c, views);
  lowered l = template_case_lower(&a, &c);
  ck_assert_msg(l.recipe.n_launches >= cases[_i].stages, "%s: %d kernels", cases[_i].text,
                l.recipe.n_launches);
  template_case_run_kernel(&c, l, views, empty ? -1 : 0);
  template_case_assemble(&a, &c);
  template_case small = c;
  compose()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  ck_assert_int_eq(template_feasible(compose(), &small.p, c.t, &c.c), TEMPLATE_OK);
  arena_release(&a);
  for (size_t pick = 0; pick < COUNT_OF(picks); pick++) {
    if (pick == (size_t)_i % COUNT_OF(picks)) continue; /* each by two thirds of the operators */
    c = template_case_bind(&a, compose(), cases[_i].text, cases[_i].bindings, picks[pick]);
    template_case_run(&a, &c, views, empty ? -1 : 0);
    arena_release(&a);
  }
}
END_TEST

/* A loss is a single element, whose reference takes all of the operator's operations; the kernels of a search
 * run there, those of its rows too. */
START_TEST(losses_are_verified_at_small_problems) {
  arena a = ARENA_INIT;
  const char *text = ir_catalogue_find("fused_linear_cross_entropy", NULL)->text;
  template_case c = template_case_bind(&a, compose(), text, "T=bf16 N=8192 H=4096 V=128256", "PICK=1");
  ir_problem small;
  compose()->reduced_problem(&c.p, c.t, &c.c, c.t->rates.sm_count, &small);
  ck_assert_double_lt(ir_flops(&small), 1e9);
  ck_assert_int_eq(template_feasible(compose(), &small, c.t, &c.c), TEMPLATE_OK);
  run_view views[LIMIT_TENSORS] = {{0}};
  lowered l = template_case_lower(&a, &c);
  c.p = small;
  c.sample = 1;
  for (int i = 0; i < c.p.op->n_inputs; i++)
    if (ir_tensor_dtype(&c.p, i) == DTYPE_I64) views[i].below = 11;
  template_case_run_kernel(&c, l, views, 0);
  arena_release(&a);
}
END_TEST

/* Stages are made for one element along axes that have one: their small problems enlarge none. */
START_TEST(small_problems_keep_axes_of_one_element) {
  static const char *const bindings[] = {
      "T=bf16 B=8 S=1 H=8 G=1 D=128 E=128 P=128 Z=16 W=16 R=256 F=64",
      "T=bf16 B=1 S=1 H=1 G=1 D=128 E=128 P=128 Z=16 W=16 R=256 F=64",
      "T=bf16 B=1 S=40 H=8 G=1 D=64 E=64 P=128 Z=16 W=16 R=256 F=32",
      "T=bf16 B=8 S=40 H=1 G=1 D=64 E=64 P=128 Z=1 W=16 R=256 F=16",
  };
  static const char *const settings[] = {"PICK=0,FOLD=0", "PICK=1,FOLD=0", "PICK=0,FOLD=1", "PICK=1,FOLD=1"};
  for (size_t i = 0; i < COUNT_OF(bindings); i++)
    for (size_t k = 0; k < COUNT_OF(settings); k++) {
      arena a = ARENA_INIT;
      ir_problem small;
      template_case c = template_case_bind(&a, compose(), template_text_of("paged_rope_attention"),
                                           bindings[i], settings[k]);
      compose()->reduced_problem(&c.p, c.t, &c.c, c.t->rates.sm_count, &small);
      for (int axis = 0; axis < c.p.op->n_axes; axis++)
        if (c.p.sizes[axis] == 1)
          ck_assert_msg(small.sizes[axis] == 1, "%s, %s: %s is %lld", bindings[i], settings[k],
                        c.p.op->axes[axis], (long long)small.sizes[axis]);
      arena_release(&a);
    }
}
END_TEST

/* Kernels that are made for whole tiles of an axis run at no other size of it: what of their requirements
 * sizes alone decide holds at the small problem. */
START_TEST(kernels_run_at_their_small_problems) {
  static const char *const settings[] = {"PICK=0", "PICK=1", "PICK=2"};
  static const struct {
    const char *text, *bindings;
  } sizes[] = {{normed, "T=bf16 M=8192 N=4096 K=4096"},
               {quantised, "T=bf16 U=e4m3 M=8192 N=4096 K=4096"},
               {linear_entropy, "T=bf16 N=8192 H=4096 V=128256"},
               /* of a stage's small problem rows were more than another one's kernel is made for */
               {linear_entropy, "T=bf16 N=5 H=24 V=130"},
               {linear_entropy, "T=bf16 N=16 H=24 V=130"},
               {linear_entropy, "T=bf16 N=5 H=4096 V=128256"}};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t k = 0; k < COUNT_OF(settings); k++) {
      arena a = ARENA_INIT;
      arke_error err = ARKE_ERROR_INIT;
      template_case c = template_case_bind(&a, compose(), sizes[i].text, sizes[i].bindings, settings[k]);
      ir_problem small;
      kernel_way ways[KERNEL_MAX_WAYS];
      int n = 0;
      compose()->reduced_problem(&c.p, c.t, &c.c, c.t->rates.sm_count, &small);
      ck_assert_double_lt(ir_flops(&small), 1e10);
      ck_assert_msg(compose()->ways(&c.p, c.t, &c.c, &(lower_options){0}, &a, ways, &n, &err) == ARKE_OK,
                    "%s", err.text);
      recipe_binding env[LIMIT_AXES];
      for (int axis = 0; axis < small.op->n_axes; axis++)
        env[axis] = (recipe_binding){small.op->axes[axis], small.sizes[axis]};
      for (int m = 0; m < ways[0].rules->n_requirements; m++) {
        const recipe_requirement *r = &ways[0].rules->requirements[m];
        int64_t value;
        if (recipe_expr_eval(r->expr, env, small.op->n_axes, &value, NULL) != ARKE_OK) continue;
        bool holds =
            r->divisor > 0 ? value % r->divisor == 0 : value <= r->max && (!r->exact || value == r->max);
        ck_assert_msg(holds, "%s, %s: %s", sizes[i].bindings, settings[k], r->why);
      }
      arena_release(&a);
    }
  }
}
END_TEST

static int64_t workspace_of(const template_case *c, const lowered *l) {
  recipe_binding env[LIMIT_AXES];
  arke_error err = ARKE_ERROR_INIT;
  int64_t bytes = -1;
  for (int i = 0; i < c->p.op->n_axes; i++) env[i] = (recipe_binding){c->p.op->axes[i], c->p.sizes[i]};
  ck_assert_msg(recipe_expr_eval(l->recipe.workspace_bytes, env, c->p.op->n_axes, &bytes, &err) == ARKE_OK,
                "%s", err.text);
  return bytes;
}

/* What is made of a product is made of it once: a second stage has all the rest. Its rows' statistics do not
 * need it written: the workspace is small beside it. */
START_TEST(products_are_made_once) {
  static const struct {
    const char *text, *bindings;
    int launches;
    int64_t most_bytes;
  } products[] = {
      {combined, "T=bf16 M=256 N=512 R=64 K=64", 2, 0},
      {residual, "T=bf16 M=256 N=512 R=64 K=64", 2, 0},
      {quantised, "T=bf16 U=e4m3 M=256 N=512 K=64", 2, 4 * 256 * 512},
      {quantised_cast, "T=bf16 M=256 N=512 K=64", 2, 2 * 256 * 512},
      {normed, "T=bf16 M=256 N=512 K=64", 2, 4 * 256 * 512},
      {linear_entropy, "T=bf16 N=8192 H=4096 V=128256", 4, INT64_C(8192) * 128256 * 2 / 10},
      {kept, "T=bf16 S=2048 R=1024 H=32 G=8 D=128", 2, 2 * 1024 * 8 * 128}, /* once for heads that share it */
  };
  for (size_t i = 0; i < COUNT_OF(products); i++) {
    arena a = ARENA_INIT;
    template_case c = template_case_bind(&a, compose(), products[i].text, products[i].bindings, "PICK=1");
    lowered l = template_case_lower(&a, &c);
    ck_assert_int_eq(l.recipe.n_launches, products[i].launches);
    int64_t bytes = l.recipe.workspace_bytes ? workspace_of(&c, &l) : 0;
    ck_assert_msg((bytes > 0) == (products[i].most_bytes > 0) && bytes <= products[i].most_bytes,
                  "%s: %lld bytes", products[i].text, (long long)bytes);
    arena_release(&a);
  }
}
END_TEST

/* In f32 nothing is rounded, and all that lies between gradients and a smoothed loss is a temporary. */
START_TEST(gradients_of_smoothed_losses_fit) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, compose(), template_text_of("fused_linear_cross_entropy_gradients"),
                         "T=f32 N=20 H=24 V=48 label_smoothing=0.1", "PICK=0");
  ck_assert_int_eq(template_feasible(compose(), &c.p, c.t, &c.c), TEMPLATE_OK);
  arena_release(&a);
}
END_TEST

/* Logits of 600,000 rows take more than the device has: they are not kept there. */
START_TEST(temporaries_that_no_memory_holds_are_not_kept) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, compose(), template_text_of("fused_linear_cross_entropy_gradients"),
                         "T=bf16 N=600000 H=512 V=128256", "PICK=1,SLICE=2048,KEEP=0");
  target_rates large = c.t->rates;
  large.memory_bytes *= 2;
  const void *prepared = compose()->prepare(&c.p, c.t, &a);
  config whole;
  double ns;
  ck_assert_ptr_nonnull(prepared);
  ck_assert(config_parse(compose()->space(c.t), "PICK=1,SLICE=0,KEEP=1", &c.c, &whole, NULL) == ARKE_OK);
  ck_assert_int_eq(compose()->judge(prepared, c.t, &c.t->rates, &c.c, &ns), TEMPLATE_OK);
  ck_assert_int_eq(compose()->judge(prepared, c.t, &c.t->rates, &whole, &ns), TEMPLATE_WORKSPACE);
  ck_assert_int_eq(compose()->judge(prepared, c.t, &large, &whole, &ns), TEMPLATE_OK);
  arena_release(&a);
}
END_TEST

/* A computed operand is a stage of its own where it would be computed again for many tiles, and only there.
 */
START_TEST(operands_are_computed_once) {
  static const struct {
    const char *text, *bindings;
    int launches; /* 0: one template takes it whole, and should */
  } products[] = {
      {gated, "T=bf16 B=4096 O=4096 H=4096", 2},
      {gated, "T=bf16 B=16 O=4096 H=64", 0},
      {gated, "T=f32 B=4096 O=4096 H=4096", 0},       /* nothing is rounded */
      {gated_rows, "T=bf16 B=4096 O=4096 H=4096", 2}, /* of a row stage, which has the norm too */
  };
  for (size_t i = 0; i < COUNT_OF(products); i++) {
    arena a = ARENA_INIT;
    if (products[i].launches == 0) {
      template_refuses(compose(), products[i].text, products[i].bindings, TEMPLATE_OPERATOR);
      continue;
    }
    template_case c = template_case_bind(&a, compose(), products[i].text, products[i].bindings, "PICK=1");
    lowered l = template_case_lower(&a, &c);
    ck_assert_int_eq(l.recipe.n_launches, products[i].launches);
    ck_assert_int_eq(workspace_of(&c, &l), 2 * 4096 * 4096);
    arena_release(&a);
  }
}
END_TEST

/* Both products are of the template for the target's matrix units: a tensor map takes the temporary. */
/* Where an axis is blocks of another one the kernel is for those, and asks for them. */
START_TEST(axes_are_blocks) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, compose(), rotated, "T=f16 S=5 R=2000 H=4 G=2 D=128 E=8 F=32", "PICK=0");
  lowered l = template_case_lower(&a, &c);
  int asked = 0;
  for (int i = 0; i < l.recipe.n_requirements; i++)
    asked += strcmp(l.recipe.requirements[i].why, "the kernel is made for D of 4 times F") == 0;
  ck_assert_int_eq(asked, 1);
  arena_release(&a);
}
END_TEST

/* Rows that copies refuse are served by stages that keep all. */
START_TEST(operands_are_folded) {
  static const char *const settings[] = {"PICK=1,KEEP=1,FOLD=1", "PICK=1,KEEP=1,FOLD=0"};
  arena a = ARENA_INIT;
  for (int i = 0; i < 2; i++) {
    run_view views[LIMIT_TENSORS] = {{0}};
    template_case c = template_case_bind(&a, compose(), both_rotated,
                                         "T=bf16 S=70 R=100 H=2 G=1 D=64 E=32 F=16", settings[i]);
    lowered l = template_case_lower(&a, &c);
    ck_assert_int_eq(l.recipe.n_launches, 3 - (i == 0));
    template_case_run_kernel(&c, l, views, 0);
    views[0].offset = 1;
    template_case_run_kernel(&c, l, views, -1);
    arena_release(&a);
  }
}
END_TEST

static void check_kernels_are_there(const char *op, const char *bindings) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  lower_options options = {.check_indices = true};
  lowered l;
  template_case c = template_case_bind(&a, compose(), template_text_of(op), bindings, "PICK=1,KEEP=1,FOLD=1");
  ck_assert_msg(c.k->lower(&c.p, c.t, &c.c, &options, &a, &l, &err) == ARKE_OK, "%s", err.text);
  for (const recipe *r = &l.recipe; r; r = r->otherwise)
    for (int i = 0; i < r->n_launches; i++)
      ck_assert_msg(strstr(l.ptx, arena_printf(&a, ".entry %s(", r->launches[i].kernel)) != NULL, "%s: no %s",
                    op, r->launches[i].kernel);
  arena_release(&a);
}

/* Whichever way is left out, others that launch one of its kernels have it. */
START_TEST(kernels_of_all_ways_are_there) {
  check_kernels_are_there("paged_rope_attention", "T=bf16 B=2 S=1 H=2 G=1 D=64 E=64 P=4 Z=8 W=2 R=64 F=32");
  check_kernels_are_there("paged_varlen_rope_attention",
                          "T=bf16 N=5 H=2 G=1 D=64 E=64 P=4 Z=8 B=2 W=2 R=64 F=32");
}
END_TEST

START_TEST(temporaries_are_mapped) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), layers, "T=bf16 M=4096 N=4096 P=4096 K=4096", "PICK=1");
  lowered l = template_case_lower(&a, &c);
  int maps = 0;
  ck_assert_int_eq(l.recipe.n_launches, 2);
  for (int i = 0; i < l.recipe.launches[1].n_params; i++) {
    const recipe_param *p = &l.recipe.launches[1].params[i];
    if (p->kind != RECIPE_PARAM_WORKSPACE_MAP) continue;
    ck_assert_int_eq(p->type, DTYPE_BF16);
    maps++;
  }
  ck_assert_int_eq(maps, 1);
  ck_assert_int_eq(workspace_of(&c, &l), 2 * 4096 * 4096);
  arena_release(&a);
}
END_TEST

/* Rows that are ignored are not read: their target may be any number. */
START_TEST(ignored_rows_are_left_out) {
  static const double some[] = {3, -100, 7, -100, -100, 0};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), cross_entropy, "T=f32 N=18 V=50", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {.values = some, .n_values = 6}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(special_values_are_right) {
  static const double values[] = {1, -INFINITY, 2, -INFINITY, 0.5, NAN, 3};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), softmax_columns, "T=f32 M=14 N=14", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 5}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 7}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values + 1, .n_values = 1}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), norm_columns, "T=bf16 M=40 N=24", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 3, &views[0]);
  template_case_run(&a, &c, views, -1);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  run_view_permuted(&c.p, 2, (int[]){1, 0}, 5, &views[2]);
  template_case_run(&a, &c, views, -1);
  c = template_case_bind(&a, compose(), standardised, "T=f32 ...=2x3 M=20 N=12", "");
  run_view leading[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){3, 2, 0, 1}, 1, &leading[0]);
  template_case_run(&a, &c, leading, -1);
  arena_release(&a);
}
END_TEST

START_TEST(what_fits_whole_or_not_at_all_is_refused) {
  static const struct {
    const char *text, *bindings;
  } others[] = {
      {"m(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] }", "T=f32 M=8 N=8"},
      {"m(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8"},
      {"m(X: T[M,N]) -> (X, Y: T[N]) { X[i,j] = 1; m[j] = max(i) X[i,j]; Y[j] = sum(i) X[i,j] - m[j] }",
       "T=i4 M=7 N=7"},
  };
  for (size_t i = 0; i < COUNT_OF(others); i++)
    template_refuses(compose(), others[i].text, others[i].bindings, TEMPLATE_OPERATOR);
}
END_TEST

/* A stage that does not wait reads what the stage before has not written yet. */
START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, compose(), softmax_columns, "T=f32 M=40 N=24", "");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

/* Every allocation of splitting and joining fails once; a question that has a safe answer without may have
 * it. */
START_TEST(out_of_memory_is_reported) {
  arena setup = ARENA_INIT;
  template_case c = template_case_bind(&setup, compose(), both_ways, "T=f32 M=40 N=24", "");
  long n = 0, failures = 0;
  /* Each takes as long as planning does, and what stages allocate is alike: after the first ones,
   * which most failures come of, they are skipped more and more. */
  for (bool failed = true; failed; n += n < 128 ? 1 : 1 + n / 16) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    kernel_way ways[KERNEL_MAX_WAYS];
    int n_ways;
    failing_alloc_arm(n);
    arke_status status = compose()->ways(&c.p, c.t, &c.c, NULL, &a, ways, &n_ways, &err);
    failed = failing_alloc_disarm();
    failures += status != ARKE_OK;
    ck_assert_msg(status == ARKE_OK ||
                      (failed && (status == ARKE_ERR_MEMORY || status == ARKE_ERR_UNSUPPORTED)),
                  "allocation %ld: %s, %s", n, arke_status_name(status), err.text);
    arena_release(&a);
  }
  ck_assert_int_gt(failures, 10);
  arena_release(&setup);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("compose");
  tcase_add_loop_test(tests, operators_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, losses_are_verified_at_small_problems);
  tcase_add_test(tests, small_problems_keep_axes_of_one_element);
  tcase_add_test(tests, kernels_run_at_their_small_problems);
  tcase_add_test(tests, products_are_made_once);
  tcase_add_test(tests, gradients_of_smoothed_losses_fit);
  tcase_add_test(tests, temporaries_that_no_memory_holds_are_not_kept);
  tcase_add_test(tests, operands_are_computed_once);
  tcase_add_test(tests, axes_are_blocks);
  tcase_add_test(tests, operands_are_folded);
  tcase_add_test(tests, kernels_of_all_ways_are_there);
  tcase_add_test(tests, temporaries_are_mapped);
  tcase_add_test(tests, ignored_rows_are_left_out);
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, what_fits_whole_or_not_at_all_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("compose", tests);
}
