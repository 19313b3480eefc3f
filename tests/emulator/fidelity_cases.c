#include "tests/emulator/fidelity_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"

enum { CTAS = 4, THREADS = 128, N = 64, B_BYTES = 2048, A_BYTES = 2048, WORDS_OUT = 32 };
/* What a CTA reads: B's and A's image, A's registers, C's registers. */
enum {
  A_REGISTERS_AT = B_BYTES + A_BYTES,
  C_AT = A_REGISTERS_AT + THREADS * 16,
  IN_BYTES = C_AT + THREADS * 128
};

typedef enum unit { WGMMA_SS, WGMMA_RS, MMA } unit;

typedef struct fidelity_case {
  unit unit;
  const char *text; /* shape and types */
  dtype a, b, d;
  const char *scale_d, *scales; /* immediates */
  bool transposes;
} fidelity_case;

#define BOTH(...)                                                                                            \
  {WGMMA_SS, __VA_ARGS__}, {                                                                                 \
    WGMMA_RS, __VA_ARGS__                                                                                    \
  }

static const fidelity_case cases[] = {
    BOTH("k16.f32.bf16.bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_F32, "1", ", 1, 1", true),
    BOTH("k16.f32.bf16.bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_F32, "0", ", -1, 1", true),
    BOTH("k16.f32.f16.f16", DTYPE_F16, DTYPE_F16, DTYPE_F32, "1", ", 1, 1", true),
    BOTH("k16.f16.f16.f16", DTYPE_F16, DTYPE_F16, DTYPE_F16, "1", ", 1, 1", true),
    BOTH("k8.f32.tf32.tf32", DTYPE_F32, DTYPE_F32, DTYPE_F32, "1", ", 1, 1", false),
    BOTH("k32.f32.e4m3.e4m3", DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32, "1", ", 1, 1", false),
    BOTH("k32.f32.e5m2.e5m2", DTYPE_E5M2, DTYPE_E5M2, DTYPE_F32, "1", ", 1, 1", false),
    BOTH("k32.f32.e4m3.e5m2", DTYPE_E4M3, DTYPE_E5M2, DTYPE_F32, "1", ", 1, -1", false),
    BOTH("k32.f16.e4m3.e4m3", DTYPE_E4M3, DTYPE_E4M3, DTYPE_F16, "1", ", 1, 1", false),
    BOTH("k32.s32.s8.s8", DTYPE_I8, DTYPE_I8, DTYPE_I32, "1", "", false),
    BOTH("k32.satfinite.s32.u8.s8", DTYPE_I8, DTYPE_I8, DTYPE_I32, "1", "", false),
    {MMA, "m16n8k16.row.col.f32.bf16.bf16.f32", DTYPE_BF16, DTYPE_BF16, DTYPE_F32, NULL, NULL, false},
    {MMA, "m16n8k16.row.col.f32.f16.f16.f32", DTYPE_F16, DTYPE_F16, DTYPE_F32, NULL, NULL, false},
    {MMA, "m16n8k16.row.col.f16.f16.f16.f16", DTYPE_F16, DTYPE_F16, DTYPE_F16, NULL, NULL, false},
    {MMA, "m16n8k8.row.col.f32.tf32.tf32.f32", DTYPE_F32, DTYPE_F32, DTYPE_F32, NULL, NULL, false},
    {MMA, "m16n8k32.row.col.f32.e4m3.e4m3.f32", DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32, NULL, NULL, false},
    {MMA, "m16n8k32.row.col.f32.e5m2.e5m2.f32", DTYPE_E5M2, DTYPE_E5M2, DTYPE_F32, NULL, NULL, false},
    {MMA, "m16n8k32.row.col.s32.s8.s8.s32", DTYPE_I8, DTYPE_I8, DTYPE_I32, NULL, NULL, false},
};

int fidelity_case_count(void) {
  return (int)COUNT_OF(cases);
}

const char *fidelity_case_name(int index) {
  static const char *const units[] = {"wgmma.ss", "wgmma.rs", "mma"};
  static _Thread_local char name[96];
  const fidelity_case *c = &cases[index];
  snprintf(name, sizeof name, "%s %s%s", units[c->unit], c->text,
           c->scale_d != NULL && c->scale_d[0] == '0' ? " scaled" : "");
  return name;
}

const char *fidelity_mode_name(fidelity_mode mode) {
  static const char *const names[] = {
#define X(NAME, text) text,
      FIDELITY_MODES(X)
#undef X
  };
  return names[mode];
}

/* Layout of a type's bits. */
static void float_format(dtype t, int *exponent_bits, int *mantissa_bits) {
  switch (t) {
  case DTYPE_BF16: *exponent_bits = 8, *mantissa_bits = 7; break;
  case DTYPE_F16: *exponent_bits = 5, *mantissa_bits = 10; break;
  case DTYPE_E4M3: *exponent_bits = 4, *mantissa_bits = 3; break;
  case DTYPE_E5M2: *exponent_bits = 5, *mantissa_bits = 2; break;
  default: *exponent_bits = 8, *mantissa_bits = 23; break;
  }
}

static uint32_t draw_bits(dtype t, fidelity_mode mode, uint64_t seed, uint64_t i) {
  uint64_t random = random_u64(seed, i);
  if (dtype_class_of(t) != DTYPE_CLASS_FLOAT) return (uint32_t)random;
  int exponent_bits, mantissa_bits;
  float_format(t, &exponent_bits, &mantissa_bits);
  uint32_t mantissa = (uint32_t)random & ((1u << mantissa_bits) - 1), top = (1u << exponent_bits) - 1;
  uint32_t sign = (uint32_t)(random >> 40 & 1), exponent, bias = top >> 1, pick = (uint32_t)(random >> 44);
  switch (mode) {
  case FIDELITY_NORMAL: {
    uint32_t bits = 0;
    dtype_store(t, &bits, 0, random_normal(seed, i));
    return bits;
  }
  case FIDELITY_NEAR: exponent = bias - 3 + pick % 6; break;
  case FIDELITY_CANCEL: /* neighbours of opposite sign and nearly the same size */
    exponent = bias + (pick % 16 == 0 ? 0 : 2);
    sign = (uint32_t)i & 1;
    mantissa = (uint32_t)random_u64(seed, i / 2) & ((1u << mantissa_bits) - 1);
    if (pick % 3 == 0) mantissa ^= 1;
    break;
  case FIDELITY_WIDE: exponent = pick % top; break;
  default: exponent = pick % 8 == 0 ? top : pick % 8 == 1 ? 0 : bias + pick % 3; break;
  }
  return sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa;
}

static void fill_elements(uint8_t *to, dtype t, size_t bytes, fidelity_mode mode, uint64_t seed) {
  size_t element = (size_t)dtype_bits(t) / 8;
  for (size_t i = 0; i < bytes / element; i++) {
    uint32_t bits = draw_bits(t, mode, seed, i);
    memcpy(to + i * element, &bits, element);
  }
}

static void add_registers(strbuf *s, const char *prefix, int n) {
  for (int i = 0; i < n; i++) strbuf_addf(s, "%s%s%d", i == 0 ? "{" : ", ", prefix, i);
  strbuf_add(s, "}");
}

static int result_registers(const fidelity_case *c) {
  if (c->unit == MMA) return c->d == DTYPE_F16 ? 2 : 4;
  return c->d == DTYPE_F16 ? N / 4 : N / 2;
}

static char *kernel_text(const fidelity_case *c) {
  strbuf s = STRBUF_INIT;
  int n = result_registers(c);
  strbuf_addf(
      &s,
      ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n"
      ".reqntid %d\n{\n.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;\n"
      ".reg .pred p<4>; .reg .b32 r<16>; .reg .b32 a<4>; .reg .b32 c<32>; .reg .b64 d<8>;\n",
      THREADS);
  strbuf_addf(&s,
              "ld.param.u64 d0, [in]; ld.param.u64 d1, [out]; mov.u32 r0, %%tid.x; mov.u32 r1, %%ctaid.x;\n"
              "mul.wide.u32 d2, r1, %d; add.u64 d0, d0, d2; mul.wide.u32 d2, r1, %d; add.u64 d1, d1, d2;\n"
              "mul.wide.u32 d2, r0, 16; add.u64 d3, d0, d2; ld.global.v4.b32 {a0, a1, a2, a3}, [d3+%d];\n"
              "mul.wide.u32 d2, r0, 128; add.u64 d3, d0, d2; add.u64 d1, d1, d2;\n",
              IN_BYTES, THREADS * WORDS_OUT * 4, A_REGISTERS_AT);
  for (int i = 0; i < n; i++) strbuf_addf(&s, "ld.global.b32 c%d, [d3+%d];\n", i, C_AT + 4 * i);
  if (c->unit == MMA) {
    /* B's registers are the first words of its image */
    strbuf_add(&s, "mul.wide.u32 d2, r0, 8; add.u64 d3, d0, d2; ld.global.v2.b32 {r2, r3}, [d3];\n");
    strbuf_addf(&s, "mma.sync.aligned.%s ", c->text);

    add_registers(&s, "c", n);
    strbuf_add(&s, ", {a0, a1, a2, a3}, {r2, r3}, ");
    add_registers(&s, "c", n);
    strbuf_add(&s, ";\n");
  } else {
    /* A without swizzle at +2048: chunks of K 128 bytes apart, rows of 8 256 bytes apart; B in 32-byte
     * swizzle */
    strbuf_addf(
        &s,
        "mov.u32 r4, tile; mov.u32 r5, bar; setp.eq.u32 p0, r0, 0;\n"
        "@p0 mbarrier.init.shared::cta.b64 [r5], 1; @p0 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
        "@p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [r5], 4096;\n"
        "@p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r4], [d0], 4096, [r5];\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 p1, [r5], 0; @!p1 bra W;\n"
        "shr.u32 r6, r4, 4; and.b32 r6, r6, 0x3FFF; cvt.u64.u32 d4, r6; or.b64 d5, d4, %llu;\n"
        "add.u64 d4, d4, 128; or.b64 d4, d4, %llu;\nwgmma.fence.sync.aligned;\n",
        1ull << 16 | 256ull >> 4 << 32 | 3ull << 62, 128ull >> 4 << 16 | 256ull >> 4 << 32);
    strbuf_addf(&s, "wgmma.mma_async.sync.aligned.m64n%d%s ", N, c->text);
    add_registers(&s, "c", n);
    strbuf_addf(&s, ", %s, d5, %s%s", c->unit == WGMMA_SS ? "d4" : "{a0, a1, a2, a3}", c->scale_d, c->scales);
    if (c->transposes) strbuf_add(&s, c->unit == WGMMA_SS ? ", 0, 0" : ", 0");
    strbuf_add(&s, ";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
  }
  for (int i = 0; i < n; i++) strbuf_addf(&s, "st.global.b32 [d1+%d], c%d;\n", 4 * i, i);
  strbuf_add(&s, "ret;\n}\n");
  return strbuf_take(&s);
}

arke_status fidelity_run(device *d, int index, fidelity_mode mode, void *out, arke_error *err) {
  const fidelity_case *c = &cases[index];
  device_module *m = NULL;
  device_kernel *k;
  device_ptr in = 0, result = 0;
  char *text = kernel_text(c);
  uint8_t *data = malloc(CTAS * IN_BYTES);
  arke_status status = text == NULL || data == NULL ? error_memory(err, "fidelity") : ARKE_OK;
  for (int i = 0; status == ARKE_OK && i < CTAS; i++) {
    uint8_t *at = data + i * IN_BYTES;
    uint64_t seed = (uint64_t)(index * 1000 + (int)mode * 100 + i * 10);
    /* the two ways to give A, and the two units, see the same numbers */
    if (c->unit == WGMMA_RS) seed -= 1000;
    fill_elements(at, c->b, B_BYTES, mode, seed + 1);
    fill_elements(at + B_BYTES, c->a, A_BYTES, mode, seed + 2);
    fill_elements(at + A_REGISTERS_AT, c->a, THREADS * 16, mode, seed + 3);
    fill_elements(at + C_AT, c->d, THREADS * 128, mode, seed + 4);
  }
  if (status == ARKE_OK) status = d->ops->mem_alloc(d, CTAS * IN_BYTES, "in", &in, err);
  if (status == ARKE_OK) status = d->ops->mem_alloc(d, FIDELITY_OUT_BYTES, "out", &result, err);
  if (status == ARKE_OK) status = d->ops->copy_in(d, in, data, CTAS * IN_BYTES, err);
  if (status == ARKE_OK) status = d->ops->fill(d, result, 0, FIDELITY_OUT_BYTES, err);
  if (status == ARKE_OK) status = d->ops->module_load(d, text, strlen(text), &m, err);
  if (status == ARKE_OK) status = d->ops->kernel_get(d, m, "k", 0, &k, err);
  void *args[] = {&in, &result};
  device_launch l = {.grid = {CTAS, 1, 1}, .block = {THREADS, 1, 1}, .args = args, .n_args = 2};
  if (status == ARKE_OK) status = d->ops->launch(d, k, &l, err);
  if (status == ARKE_OK) status = d->ops->synchronize(d, err);
  if (status == ARKE_OK) status = d->ops->copy_out(d, out, result, FIDELITY_OUT_BYTES, err);
  if (m != NULL) d->ops->module_unload(d, m);
  if (in != 0) d->ops->mem_free(d, in);
  if (result != 0) d->ops->mem_free(d, result);
  free(data);
  free(text);
  return status;
}
