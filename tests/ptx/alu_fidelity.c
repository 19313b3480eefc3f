/* alu_fidelity cuda FILE: runs every scalar instruction below on a GPU (sm_90a) and stores its results.
 * alu_fidelity compare FILE: runs them on the emulator and says where they differ from the results in FILE.
 * alu_fidelity ptx: prints the kernels. Exact instructions must agree bit for bit; for approximations the
 * largest distance in units of the last place is printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "runtime/device.h"
#include "tests/ptx/ptx_fixture.h"

/* What the inputs look like: any bits, floats with their edge cases, halves in both parts of a word, doubles.
 */
typedef enum inputs { BITS, F32, HALF, F64 } inputs;

/* Reads %h1…3, %r1…3 and %d1…3, which hold the same three values; writes one of %h0, %r0, %d0, or %p0. */
static const struct {
  const char *statement;
  char result; /* h, r, d or p */
  inputs in;
  bool approximate;
} CASES[] = {
    {"add.sat.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"mul.hi.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"mul.hi.u64 %d0, %d1, %d2;", 'd', BITS, false},
    {"mad.hi.sat.s32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"mul.wide.s16 %r0, %h1, %h2;", 'r', BITS, false},
    {"mul24.hi.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"sad.s32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"div.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"rem.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"div.u32 %r0, %r1, %r2;", 'r', BITS, false},
    {"rem.u32 %r0, %r1, %r2;", 'r', BITS, false},
    {"div.s64 %d0, %d1, %d2;", 'd', BITS, false},
    {"rem.u64 %d0, %d1, %d2;", 'd', BITS, false},
    {"div.s16 %h0, %h1, %h2;", 'h', BITS, false},
    {"rem.u16 %h0, %h1, %h2;", 'h', BITS, false},
    {"bfe.s32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"bfe.u64 %d0, %d1, %r2, %r3;", 'd', BITS, false},
    {"bfi.b32 %r0, %r1, %r2, %r3, 7;", 'r', BITS, false},
    {"bfi.b64 %d0, %d1, %d2, %r3, 60;", 'd', BITS, false},
    {"bfind.s32 %r0, %r1;", 'r', BITS, false},
    {"bfind.shiftamt.u64 %r0, %d1;", 'r', BITS, false},
    {"fns.b32 %r0, %r1, 3, %r3;", 'r', BITS, false},
    {"bmsk.clamp.b32 %r0, %r1, %r2;", 'r', BITS, false},
    {"bmsk.wrap.b32 %r0, %r1, %r2;", 'r', BITS, false},
    {"szext.clamp.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"szext.wrap.s32 %r0, %r1, %r2;", 'r', BITS, false},
    {"shf.l.clamp.b32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"shf.r.wrap.b32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"shl.b32 %r0, %r1, %r2;", 'r', BITS, false},
    {"shr.s64 %d0, %d1, %r2;", 'd', BITS, false},
    {"shr.s16 %h0, %h1, %r2;", 'h', BITS, false},
    {"prmt.b32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"prmt.b32.b4e %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"prmt.b32.ecr %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"lop3.b32 %r0, %r1, %r2, %r3, 0x1b;", 'r', BITS, false},
    {"dp4a.s32.u32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"dp2a.hi.u32.s32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"max.s16x2 %r0, %r1, %r2;", 'r', BITS, false},
    {"slct.s32.s32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"cvt.sat.s8.s32 %r0, %r1;", 'r', BITS, false},
    {"cvt.sat.u16.s64 %r0, %d1;", 'r', BITS, false},
    {"cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", 'r', BITS, false},
    {"cvt.rn.f32.s32 %r0, %r1;", 'r', BITS, false},
    {"cvt.rp.f32.u64 %r0, %d1;", 'r', BITS, false},
    {"cvt.rz.f64.u64 %d0, %d1;", 'd', BITS, false},
    {"cvt.rn.f16.s32 %h0, %r1;", 'h', BITS, false},
    {"cvt.rm.bf16.s64 %h0, %d1;", 'h', BITS, false},
    {"cvt.rn.f16x2.e4m3x2 %r0, %h1;", 'r', BITS, false},
    {"cvt.rn.f16x2.e5m2x2 %r0, %h1;", 'r', BITS, false},
    {"add.rn.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"add.rz.ftz.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"sub.rm.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"mul.rp.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"mul.rn.ftz.sat.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"fma.rn.f32 %r0, %r1, %r2, %r3;", 'r', F32, false},
    {"fma.rz.ftz.f32 %r0, %r1, %r2, %r3;", 'r', F32, false},
    {"div.rn.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"div.rm.ftz.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"rcp.rn.f32 %r0, %r1;", 'r', F32, false},
    {"sqrt.rn.f32 %r0, %r1;", 'r', F32, false},
    {"sqrt.rz.ftz.f32 %r0, %r1;", 'r', F32, false},
    {"min.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"max.ftz.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"max.NaN.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"min.xorsign.abs.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"abs.ftz.f32 %r0, %r1;", 'r', F32, false},
    {"neg.f32 %r0, %r1;", 'r', F32, false},
    {"copysign.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"slct.f32.f32 %r0, %r1, %r2, %r3;", 'r', F32, false},
    {"setp.lt.f32 %p0, %r1, %r2;", 'p', F32, false},
    {"setp.geu.ftz.f32 %p0, %r1, %r2;", 'p', F32, false},
    {"testp.subnormal.f32 %p0, %r1;", 'p', F32, false},
    {"set.gt.f32.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"cvt.rni.s32.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.rzi.ftz.u32.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.rzi.s64.f32 %d0, %r1;", 'd', F32, false},
    {"cvt.rpi.u8.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.rmi.f32.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.sat.f32.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.rn.f16.f32 %h0, %r1;", 'h', F32, false},
    {"cvt.rz.f16.f32 %h0, %r1;", 'h', F32, false},
    {"cvt.rn.relu.bf16.f32 %h0, %r1;", 'h', F32, false},
    {"cvt.rn.bf16x2.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"cvt.rn.f16x2.f32 %r0, %r1, %r2;", 'r', F32, false},
    {"cvt.rna.tf32.f32 %r0, %r1;", 'r', F32, false},
    {"cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", 'h', F32, false},
    {"cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;", 'h', F32, false},
    {"cvt.rn.satfinite.relu.e4m3x2.f32 %h0, %r1, %r2;", 'h', F32, false},
    {"cvt.f64.f32 %d0, %r1;", 'd', F32, false},
    {"div.approx.f32 %r0, %r1, %r2;", 'r', F32, true},
    {"div.full.f32 %r0, %r1, %r2;", 'r', F32, true},
    {"rcp.approx.ftz.f32 %r0, %r1;", 'r', F32, true},
    {"sqrt.approx.ftz.f32 %r0, %r1;", 'r', F32, true},
    {"rsqrt.approx.f32 %r0, %r1;", 'r', F32, true},
    {"ex2.approx.ftz.f32 %r0, %r1;", 'r', F32, true},
    {"ex2.approx.f32 %r0, %r1;", 'r', F32, true},
    {"lg2.approx.f32 %r0, %r1;", 'r', F32, true},
    {"tanh.approx.f32 %r0, %r1;", 'r', F32, true},
    {"add.rn.f16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"sub.ftz.sat.f16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"mul.rn.f16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"fma.rn.f16x2 %r0, %r1, %r2, %r3;", 'r', HALF, false},
    {"fma.rn.relu.f16x2 %r0, %r1, %r2, %r3;", 'r', HALF, false},
    {"add.rn.bf16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"mul.bf16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"fma.rn.bf16x2 %r0, %r1, %r2, %r3;", 'r', HALF, false},
    {"min.f16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"max.NaN.bf16x2 %r0, %r1, %r2;", 'r', HALF, false},
    {"abs.bf16x2 %r0, %r1;", 'r', HALF, false},
    {"neg.f16x2 %r0, %r1;", 'r', HALF, false},
    {"cvt.f32.f16 %r0, %h1;", 'r', HALF, false},
    {"cvt.f32.bf16 %r0, %h1;", 'r', HALF, false},
    {"cvt.rni.s32.f16 %r0, %h1;", 'r', HALF, false},
    {"cvt.rn.bf16.f16 %h0, %h1;", 'h', HALF, false},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1;", 'h', HALF, false},
    {"setp.lt.f16 %p0, %h1, %h2;", 'p', HALF, false},
    {"setp.neu.bf16 %p0, %h1, %h2;", 'p', HALF, false},
    {"add.rn.f64 %d0, %d1, %d2;", 'd', F64, false},
    {"fma.rm.f64 %d0, %d1, %d2, %d3;", 'd', F64, false},
    {"div.rn.f64 %d0, %d1, %d2;", 'd', F64, false},
    {"sqrt.rn.f64 %d0, %d1;", 'd', F64, false},
    {"min.f64 %d0, %d1, %d2;", 'd', F64, false},
    {"cvt.rn.f32.f64 %r0, %d1;", 'r', F64, false},
    {"cvt.rz.ftz.f32.f64 %r0, %d1;", 'r', F64, false},
    {"cvt.rzi.s32.f64 %r0, %d1;", 'r', F64, false},
    {"cvt.rni.u64.f64 %d0, %d1;", 'd', F64, false},
    {"cvt.rn.f16.f64 %h0, %d1;", 'h', F64, false},
};

enum { VALUES = 4096, BLOCK = 128 };

static void add_kernel(strbuf *text, size_t k) {
  strbuf_addf(
      text,
      ".visible .entry f%zu(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<2>; .reg .b16 %%h<4>; "
      ".reg .b32 %%r<8>; .reg .b64 %%d<8>;\n"
      "ld.param.u64 %%d6, [in]; ld.param.u64 %%d7, [out];\n"
      "mov.u32 %%r4, %%ctaid.x; mov.u32 %%r5, %%tid.x; mad.lo.u32 %%r4, %%r4, %d, %%r5;\n"
      "mul.wide.u32 %%d4, %%r4, 24; add.u64 %%d6, %%d6, %%d4;\n"
      "mul.wide.u32 %%d4, %%r4, 8; add.u64 %%d7, %%d7, %%d4;\n",
      k, BLOCK);
  for (int v = 1; v <= 3; v++)
    strbuf_addf(text, "ld.global.b64 %%d%d, [%%d6+%d]; cvt.u32.u64 %%r%d, %%d%d; cvt.u16.u64 %%h%d, %%d%d;\n",
                v, 8 * (v - 1), v, v, v, v);
  strbuf_addf(text, "%s\n", CASES[k].statement);
  switch (CASES[k].result) {
  case 'h': strbuf_add(text, "cvt.u64.u16 %d0, %h0;\n"); break;
  case 'r': strbuf_add(text, "cvt.u64.u32 %d0, %r0;\n"); break;
  case 'p': strbuf_add(text, "selp.b64 %d0, 1, 0, %p0;\n"); break;
  default: break;
  }
  strbuf_add(text, "st.global.b64 [%d7], %d0;\nret;\n}\n");
}

static uint64_t input(inputs kind, uint64_t *state) {
  static const uint64_t words[] = {
      0, 1, 31, 32, 33, 64, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX, 1ull << 63, 0xfffffffe, 255, 7};
  static const uint32_t floats[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000,
                                    0x3f800000, 0xbf800000, 0x40200000, 0x7f7fffff, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0x7f000000, 0x4f000000};
  static const uint32_t halves[] = {0,      0x8000, 1,      0x83ff, 0x0400, 0x3c00, 0xbc00,
                                    0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x3f80, 0x7f80, 0x0080};
  uint64_t r = next_random(state), pick = r >> 32 & 15, any = next_random(state);
  bool edge = pick < 14 && (r & 3) == 0;
  switch (kind) {
  case BITS: return edge ? words[pick] : any;
  case F32: return edge ? floats[pick] : (r & 4) != 0 ? (any & 0x83ffffff) | 0x3c000000 : any & 0xffffffff;
  case HALF: {
    uint64_t low = edge ? halves[pick] : any & 0xffff,
             high = (r & 8) != 0 ? halves[(any >> 60) % 14] : any >> 16 & 0xffff;
    return low | high << 16;
  }
  default:
    return edge           ? (uint64_t)floats[pick] << 32
           : (r & 4) != 0 ? (any & 0x80ffffffffffffff) | 0x3f00000000000000
                          : any;
  }
}

static arke_status run_case(device *d, device_module *m, size_t k, uint64_t *out, arke_error *err) {
  static uint64_t in[3 * VALUES];
  char name[16];
  uint64_t state = 1000 + k;
  device_ptr from = 0, to = 0;
  device_kernel *kernel;
  snprintf(name, sizeof name, "f%zu", k);
  for (int v = 0; v < 3 * VALUES; v++) in[v] = input(CASES[k].in, &state);
  void *args[] = {&from, &to};
  device_launch launch = {.grid = {VALUES / BLOCK, 1, 1},
                          .block = {BLOCK, 1, 1},
                          .cluster = {1, 1, 1},
                          .args = args,
                          .n_args = 2};
  arke_status status = d->ops->mem_alloc(d, sizeof in, "in", &from, err);
  if (status == ARKE_OK) status = d->ops->mem_alloc(d, VALUES * sizeof *out, "out", &to, err);
  if (status == ARKE_OK) status = d->ops->copy_in(d, from, in, sizeof in, err);
  if (status == ARKE_OK) status = d->ops->kernel_get(d, m, name, 0, &kernel, err);
  if (status == ARKE_OK) status = d->ops->launch(d, kernel, &launch, err);
  if (status == ARKE_OK) status = d->ops->synchronize(d, err);
  if (status == ARKE_OK) status = d->ops->copy_out(d, out, to, VALUES * sizeof *out, err);
  if (from != 0) d->ops->mem_free(d, from);
  if (to != 0) d->ops->mem_free(d, to);
  return status;
}

/* Distance of two floats in units of the last place; NaN equals NaN. */
static double ulps(uint64_t a, uint64_t b) {
  int64_t x = (int32_t)a, y = (int32_t)b;
  if ((a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000) return 0;
  if (x < 0) x = INT32_MIN - x;
  if (y < 0) y = INT32_MIN - y;
  return fabs((double)(x - y));
}

static void compare(size_t k, const uint64_t *ours, const uint64_t *theirs) {
  uint64_t state = 1000 + k;
  int wrong = 0, first = -1;
  double worst = 0;
  for (int v = 0; v < VALUES; v++) {
    if (CASES[k].approximate) worst = fmax(worst, ulps(ours[v], theirs[v]));
    if (ours[v] != theirs[v] && wrong++ == 0) first = v;
  }
  if (CASES[k].approximate) {
    printf("%-52s within %.0f ulp, %d of %d differ\n", CASES[k].statement, worst, wrong, VALUES);
    return;
  }
  if (wrong == 0) {
    printf("%-52s equal\n", CASES[k].statement);
    return;
  }
  uint64_t in[3] = {0};
  for (int v = 0; v <= first; v++)
    for (int o = 0; o < 3; o++) in[o] = input(CASES[k].in, &state);
  printf("%-52s %d of %d differ: (%#llx, %#llx, %#llx) gives %#llx, not %#llx\n", CASES[k].statement, wrong,
         VALUES, (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
         (unsigned long long)ours[first], (unsigned long long)theirs[first]);
}

int main(int argc, char **argv) {
  bool cuda = argc == 3 && strcmp(argv[1], "cuda") == 0,
       comparing = argc == 3 && strcmp(argv[1], "compare") == 0;
  arke_error err = ARKE_ERROR_INIT;
  strbuf text = STRBUF_INIT;
  strbuf_add(&text, ".version 8.6\n.target sm_90a\n.address_size 64\n");
  for (size_t k = 0; k < COUNT_OF(CASES); k++) add_kernel(&text, k);
  if (argc == 2 && strcmp(argv[1], "ptx") == 0) {
    fputs(strbuf_text(&text), stdout);
    return 0;
  }
  if (!cuda && !comparing) {
    fprintf(stderr, "usage: alu_fidelity cuda|compare FILE, or alu_fidelity ptx\n");
    return 2;
  }
  device *d = NULL;
  device_module *m = NULL;
  FILE *file = fopen(argv[2], cuda ? "wb" : "rb");
  arke_status status = cuda ? device_open_cuda(0, &d, &err) : device_open_emulator("sm_90a", 0, &d, &err);
  if (status == ARKE_OK) status = d->ops->module_load(d, strbuf_text(&text), text.length, &m, &err);
  for (size_t k = 0; k < COUNT_OF(CASES) && status == ARKE_OK && file != NULL; k++) {
    static uint64_t ours[VALUES], theirs[VALUES];
    status = run_case(d, m, k, ours, &err);
    if (cuda && status == ARKE_OK) fwrite(ours, sizeof ours, 1, file);
    if (comparing && status == ARKE_OK && fread(theirs, sizeof theirs, 1, file) == 1)
      compare(k, ours, theirs);
  }
  if (status != ARKE_OK || file == NULL)
    fprintf(stderr, "%s\n", file == NULL ? "cannot open the file" : err.text);
  if (m != NULL) d->ops->module_unload(d, m);
  if (d != NULL) d->ops->close(d);
  if (file != NULL) fclose(file);
  strbuf_free(&text);
  return status != ARKE_OK || file == NULL;
}
