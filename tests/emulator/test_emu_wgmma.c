/* wgmma: every layout of its operands, every type, A from registers, and its rules broken one by one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/strbuf.h"
#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

enum { SEEDS = 3, N = 80, M = 64, SMEM = 32768, B_AT = 16384, K_BYTES = 32 };

typedef struct type_case {
  const char *text; /* types and shape after m64n80 */
  dtype in, in_b;
  int k;
  const char *scales; /* immediates after scale-d, before the transposes */
  bool transposes;
  double epsilon;
} type_case;

static const type_case types[] = {
    {"k16.f32.bf16.bf16", DTYPE_BF16, DTYPE_BF16, 16, ", 1, 1", true, 0x1p-22},
    {"k16.f32.f16.f16", DTYPE_F16, DTYPE_F16, 16, ", 1, 1", true, 0x1p-22},
    {"k8.f32.tf32.tf32", DTYPE_F32, DTYPE_F32, 8, ", 1, 1", false, 0x1p-22},
    {"k32.f32.e4m3.e5m2", DTYPE_E4M3, DTYPE_E5M2, 32, ", 1, 1", false, 0x1p-8},
    {"k32.s32.s8.u8", DTYPE_I8, DTYPE_U8, 32, "", false, 0},
};

typedef struct layout {
  bool k_major;
  int swizzle; /* as in a tensor map: 0 none, 1 32B, 2 64B, 3 128B */
} layout;

static uint32_t span(layout l) {
  return 16u << l.swizzle;
}

/* The canonical layouts, written out per case: byte offset of element (r along M or N, k) from the start,
 * before the swizzle, with dense strides. */
static uint32_t offset_of(layout l, uint32_t r, uint32_t k_byte, uint32_t k) {
  uint32_t w = span(l);
  if (l.k_major && l.swizzle == 0) return r / 8 * 256 + k_byte / 16 * 128 + r % 8 * 16 + k_byte % 16;
  if (l.k_major) return r / 8 * 8 * w + r % 8 * w + k_byte;
  if (l.swizzle == 0) return r / 8 * 256 + k / 8 * 128 + k % 8 * 16 + r % 8 * 2;
  return r / (w / 2) * 16 * w + k / 8 * 8 * w + k % 8 * w + r % (w / 2) * 2;
}

/* Descriptor bits but for the start address. */
static uint64_t descriptor_of(layout l) {
  static const uint64_t code[] = {0, 3, 2, 1};
  uint64_t w = span(l), leading = 16, stride = 8 * w;
  if (l.swizzle == 0)
    leading = 128, stride = 256;
  else if (!l.k_major)
    leading = 16 * w;
  return leading >> 4 << 16 | stride >> 4 << 32 | code[l.swizzle] << 62;
}

/* Where a byte of shared memory lands: the swizzle works on absolute addresses, and user memory starts at
 * 0x400. */
static uint32_t swizzled(layout l, uint32_t offset) {
  uint32_t address = offset + 0x400, bits = l.swizzle == 0 ? 0 : address >> 7 & ((1u << l.swizzle) - 1);
  return (address ^ bits << 4) - 0x400;
}

typedef struct operands {
  uint8_t smem[SMEM]; /* image of A at 0 and B at B_AT */
  double a[M * 32], b[N * 32];
} operands;

static void place(operands *o, dtype t, double *values, int rows, int k, layout l, uint32_t at,
                  uint64_t seed) {
  int bytes = dtype_bits(t) / 8;
  for (int r = 0; r < rows; r++) {
    for (int i = 0; i < k; i++) {
      uint8_t element[4] = {0};
      dtype_store(t, element, 0, floor(random_normal(seed, (uint64_t)(r * k + i)) * 16) / 8);
      values[r * k + i] = dtype_load(t, element, 0);
      uint32_t offset = offset_of(l, (uint32_t)r, (uint32_t)(i * bytes), (uint32_t)i);
      memcpy(o->smem + swizzled(l, at + offset), element, (size_t)bytes);
    }
  }
}

#define PROLOGUE                                                                                             \
  "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; @p7 mbarrier.init.shared::cta.b64 [r10], 1;\n"                   \
  "@p7 fence.mbarrier_init.release.cluster; bar.sync 0;\n"                                                   \
  "@p7 mbarrier.arrive.expect_tx.shared::cta.b64 _, [r10], 32768;\n"                                         \
  "@p7 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [r1], [d0], 32768, [r10];\n"            \
  "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p6, [r10], 0; @!p6 bra WAIT;\n"

static void add_registers(strbuf *s, const char *prefix, int n) {
  for (int i = 0; i < n; i++) strbuf_addf(s, "%s%s%d", i == 0 ? "{" : ", ", prefix, i);
  strbuf_add(s, "}");
}

/* d4, d5: descriptors of A and B. */
static void add_descriptors(strbuf *s, layout a, layout b) {
  strbuf_addf(s,
              "shr.u32 r2, r1, 4; and.b32 r2, r2, 0x3FFF; cvt.u64.u32 d4, r2; or.b64 d4, d4, %llu;\n"
              "add.u32 r3, r1, %d; shr.u32 r3, r3, 4; and.b32 r3, r3, 0x3FFF; cvt.u64.u32 d5, r3; or.b64 d5, "
              "d5, %llu;\n",
              (unsigned long long)descriptor_of(a), B_AT, (unsigned long long)descriptor_of(b));
}

static void add_results(strbuf *s, const char *prefix) {
  strbuf_add(s, "mul.wide.u32 d6, r0, 160; add.u64 d6, d1, d6;\n");
  for (int i = 0; i < N / 2; i++) strbuf_addf(s, "st.global.b32 [d6+%d], %s%d;\n", 4 * i, prefix, i);
}

/* A's fragment into r20..r23 from row-major rows of 32 bytes at the start of shared memory. */
static void add_fragment(strbuf *s) {
  strbuf_add(
      s, "and.b32 r4, r0, 31; shr.u32 r5, r0, 5; shl.b32 r5, r5, 4; shr.u32 r6, r4, 2; add.u32 r5, r5, r6;\n"
         "and.b32 r6, r4, 3; shl.b32 r5, r5, 5; shl.b32 r6, r6, 2; add.u32 r5, r5, r6; add.u32 r5, r5, r1;\n"
         "ld.shared.b32 r20, [r5]; ld.shared.b32 r21, [r5+256]; ld.shared.b32 r22, [r5+16];\n"
         "ld.shared.b32 r23, [r5+272];\n");
}

static void check_product(const small_result *r, const type_case *t, const operands *o, double start,
                          double factor) {
  for (uint32_t thread = 0; thread < 128; thread++) {
    for (uint32_t i = 0; i < N / 2; i++) {
      uint32_t lane = thread % 32, row = thread / 32 * 16 + lane / 4 + 8 * (i >> 1 & 1);
      uint32_t column = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1), bits = r->out[thread * N / 2 + i];
      double sum = start, weight = fabs(start) + 1e-9, got;
      for (int k = 0; k < t->k; k++) {
        double p =
            factor * o->a[row * (uint32_t)t->k + (uint32_t)k] * o->b[column * (uint32_t)t->k + (uint32_t)k];
        sum += p;
        weight += fabs(p);
      }
      float f;
      memcpy(&f, &bits, 4);
      got = t->in == DTYPE_I8 ? (double)(int32_t)bits : (double)f;
      ck_assert_msg(fabs(got - sum) <= weight * t->epsilon, "%s row %u column %u: %g, not %g", t->text, row,
                    column, got, sum);
    }
  }
}

static void run_layouts(const type_case *t, layout la, layout lb) {
  static operands o;
  memset(&o, 0, sizeof o);
  place(&o, t->in, o.a, M, t->k, la, 0, 1);
  place(&o, t->in_b, o.b, N, t->k, lb, B_AT, 2);
  bool integer = t->in == DTYPE_I8;
  strbuf s = STRBUF_INIT;
  strbuf_add(&s, PROLOGUE);
  add_descriptors(&s, la, lb);
  strbuf_addf(&s, "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%d%s ", N, t->text);
  add_registers(&s, integer ? "acc" : "f", N / 2);
  strbuf_addf(&s, ", d4, d5, 0%s", t->scales);
  if (t->transposes) strbuf_addf(&s, ", %d, %d", la.k_major ? 0 : 1, lb.k_major ? 0 : 1);
  strbuf_add(&s, ";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
  add_results(&s, integer ? "acc" : "f");
  ck_assert(!strbuf_failed(&s));
  small_result r = expect_clean(&(small_case){.shared = ".shared .align 8 .b64 bar; .reg .b32 acc<64>;",
                                              .body = strbuf_text(&s),
                                              .threads = 128,
                                              .smem_bytes = SMEM,
                                              .input = o.smem,
                                              .input_bytes = SMEM});
  check_product(&r, t, &o, 0, 1);
  strbuf_free(&s);
}

START_TEST(every_layout_of_16_bit_operands) {
  layout la = {_i / 4 == 0, _i % 4};
  for (int j = 0; j < 8; j++) run_layouts(&types[0], la, (layout){j / 4 == 0, j % 4});
}
END_TEST

START_TEST(every_type) {
  const type_case *t = &types[_i];
  for (int j = 0; j < 4; j++) run_layouts(t, (layout){true, j}, (layout){true, 3 - j});
}
END_TEST

/* Row-major A in registers; then twice more on the same accumulators, negated the last time. */
START_TEST(a_from_registers) {
  static operands o;
  const type_case *t = &types[_i];
  layout rows = {true, 1}, lb = {true, 2};
  memset(&o, 0, sizeof o);
  place(&o, t->in_b, o.b, N, t->k, lb, B_AT, 2);
  int bytes = dtype_bits(t->in) / 8;
  for (int e = 0; e < M * t->k; e++) {
    dtype_store(t->in, o.smem, e, floor(random_normal(3, (uint64_t)e) * 16) / 8);
    o.a[e] = dtype_load(t->in, o.smem, e);
  }
  ck_assert_int_eq(bytes * t->k, K_BYTES);
  strbuf s = STRBUF_INIT;
  strbuf_add(&s, PROLOGUE);
  add_descriptors(&s, rows, lb);
  add_fragment(&s);
  for (int i = 0; i < N / 2; i++) strbuf_addf(&s, "mov.b32 f%d, 0f40400000;\n", i);
  strbuf_add(&s, "wgmma.fence.sync.aligned;\n");
  for (int times = 0; times < 3; times++) {
    strbuf_addf(&s, "wgmma.mma_async.sync.aligned.m64n%d%s ", N, t->text);
    add_registers(&s, "f", N / 2);
    strbuf_addf(&s, ", {r20, r21, r22, r23}, d5, 1, %d, 1%s;\n", times == 2 ? -1 : 1,
                t->transposes ? ", 0" : "");
  }
  strbuf_add(&s, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
  add_results(&s, "f");
  small_result r = expect_clean(&(small_case){.shared = ".shared .align 8 .b64 bar;",
                                              .body = strbuf_text(&s),
                                              .threads = 128,
                                              .smem_bytes = SMEM,
                                              .input = o.smem,
                                              .input_bytes = SMEM});
  type_case loose = *t;
  loose.epsilon *= 8;
  check_product(&r, &loose, &o, 3, 1);
  strbuf_free(&s);
}
END_TEST

/* A short kernel to break: two wgmmas of N = 8, A in registers. */
static const char small_kernel[] = PROLOGUE
    "shr.u32 r2, r1, 4; and.b32 r2, r2, 0x3FFF; cvt.u64.u32 d5, r2; or.b64 d5, d5, 4611686293305360384;\n"
    "mov.b32 r20, 1; mov.b32 r21, 2; mov.b32 r22, 3; mov.b32 r23, 4;\n"
    "wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, {r20, r21, r22, r23}, d5, 0, 1, "
    "1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d5, d5, 1, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;\n"
    "wgmma.wait_group.sync.aligned 0;\n"
    "mul.wide.u32 d6, r0, 16; add.u64 d6, d1, d6; st.global.v4.b32 [d6], {f0, f1, f2, f3};\n";

#define SECOND "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d5, d5, 1"

static const struct {
  const char *from, *to;
  emu_fault fault;
  const char *words;
} breaks[] = {
    {"wgmma.fence.sync.aligned;\n", "", EMU_FAULT_WGMMA_FENCE, "before the first wgmma"},
    {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\nmov.b32 r21, 7;\n", EMU_FAULT_WGMMA_FENCE,
     "r21 was written"},
    {"wgmma.commit_group", "mov.b32 r22, 7;\nwgmma.commit_group", EMU_FAULT_WGMMA_REGISTER, "r22 is written"},
    {"wgmma.commit_group", "add.f32 f4, f1, f1;\nwgmma.commit_group", EMU_FAULT_WGMMA_REGISTER, "f1 is read"},
    {"wgmma.commit_group", "mov.b32 f2, 0f00000000;\nwgmma.commit_group", EMU_FAULT_WGMMA_REGISTER,
     "f2 is written"},
    {"wgmma.wait_group.sync.aligned 0;\n", "", EMU_FAULT_WGMMA_REGISTER, "f0 is read"},
    {"wgmma.wait_group.sync.aligned 0;\n", "wgmma.wait_group.sync.aligned 1;\n", EMU_FAULT_WGMMA_REGISTER,
     "f0 is read"},
    {"wgmma.commit_group.sync.aligned;\n", "", EMU_FAULT_WGMMA_REGISTER, "f0 is read"},
    {"wgmma.wait_group.sync.aligned 0;\n", "ret;\n", EMU_FAULT_EXIT, "never waited for"},
    {SECOND,
     "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {f0, f1, f2, f3, f4, f5, f6, f7}, d5, d5, 0",
     EMU_FAULT_WGMMA_REGISTER, "another shape"},
    {"{f0, f1, f2, f3}, {r20, r21, r22, r23}, d5, 0", "{f0, f1, f2, f3}, {r20, r21, r22, r23}, d5, 1",
     EMU_FAULT_UNINITIALISED, "f0 is accumulated to"},
    {"d5, d5, 1, 1, 1, 0, 0;\n", "d5, d5, p7, 1, 1, 0, 0;\n", EMU_FAULT_DIVERGENCE, "scale-d"},
    {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\n@p7 add.u64 d5, d5, 2;\n",
     EMU_FAULT_DESCRIPTOR, "different descriptors"},
    {"wgmma.fence.sync.aligned;\n",
     "wgmma.fence.sync.aligned;\nsetp.lt.u32 p1, r0, 32; @p1 add.u64 d5, d5, 2;\n", EMU_FAULT_DIVERGENCE,
     "same operands"},
    {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\nor.b64 d5, d5, 562949953421312;\n",
     EMU_FAULT_DESCRIPTOR, "base offset"},
    {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\nadd.u64 d5, d5, 2040;\n",
     EMU_FAULT_OUT_OF_BOUNDS, "outside the CTA"},
    {"wgmma.fence.sync.aligned;\n", "setp.lt.u32 p1, r0, 32; @p1 ret;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_DEADLOCK, "warp group"},
    {"wgmma.fence.sync.aligned;\n", "setp.lt.u32 p1, r0, 5; @p1 ret;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_DIVERGENCE, "all 32 lanes"},
    {"wgmma.commit_group", "@p7 st.shared.b32 [r1], r0;\nwgmma.commit_group", EMU_FAULT_IN_FLIGHT,
     "read by the wgmma"},
    {"wgmma.fence.sync.aligned;\n", "st.shared.b32 [r1], r0;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_RACE, "written by warp"},
    {"wgmma.fence.sync.aligned;\n", "@p7 st.shared.b32 [r1], r0;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_PROXY_FENCE, "no fence.proxy.async"},
    {"wgmma.fence.sync.aligned;\n",
     "@p7 st.shared.b32 [r1], r0;\n@p7 fence.proxy.async.shared::cta;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_RACE, "written by warp 0"},
    {"wgmma.fence.sync.aligned;\n",
     "@p7 st.shared.b32 [r1], r0;\n@p7 fence.proxy.async.shared::cta;\nbar.sync "
     "0;\nwgmma.fence.sync.aligned;\n",
     EMU_FAULT_NONE, ""},
};

START_TEST(broken_rules) {
  uint8_t zeros[SMEM] = {0};
  char *body = edit_text(small_kernel, breaks[_i].from, 0, breaks[_i].to);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    small_case c = {.shared = ".shared .align 8 .b64 bar;",
                    .body = body,
                    .threads = 128,
                    .smem_bytes = SMEM,
                    .seed = seed,
                    .input = zeros,
                    .input_bytes = SMEM};
    if (breaks[_i].fault == EMU_FAULT_NONE)
      expect_clean(&c);
    else
      expect_fault(&c, breaks[_i].fault, breaks[_i].words);
  }
  free(body);
}
END_TEST

START_TEST(needs_whole_warp_groups) {
  uint8_t zeros[SMEM] = {0};
  small_case c = {.shared = ".shared .align 8 .b64 bar;",
                  .body = small_kernel,
                  .threads = 128,
                  .smem_bytes = SMEM,
                  .input = zeros,
                  .input_bytes = SMEM};
  expect_clean(&c);
  c.threads = 96;
  expect_fault(&c, EMU_FAULT_DIVERGENCE, "four warps");
}
END_TEST

TCase *emu_wgmma_case(void) {
  TCase *c = tcase_create("wgmma");
  tcase_add_loop_test(c, every_layout_of_16_bit_operands, 0, 8);
  tcase_add_loop_test(c, every_type, 0, (int)COUNT_OF(types));
  tcase_add_loop_test(c, a_from_registers, 0, 4);
  tcase_add_loop_test(c, broken_rules, 0, (int)COUNT_OF(breaks));
  tcase_add_test(c, needs_whole_warp_groups);
  return c;
}
