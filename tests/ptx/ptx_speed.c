/* Prints how fast PTX is decoded and scalar instructions run on this machine:  ptx_speed [file.ptx …] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/ptx/ptx_fixture.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best of several rounds, so that another process's burst does not count. */
static double decode_s(const char *text, size_t bytes, uint32_t *instructions) {
  double best = 1e9;
  for (int round = 0; round < 20; round++) {
    ptx_module *m;
    double start = now_s();
    if (ptx_parse(text, bytes, &m, NULL) != ARKE_OK) return -1;
    double took = now_s() - start;
    if (took < best) best = took;
    *instructions = 0;
    for (uint32_t k = 0; k < m->n_kernels; k++) *instructions += m->kernels[k].n_instructions;
    ptx_module_free(m);
  }
  return best;
}

static const char *const STATEMENTS[] = {
    "add.s32 %r0, %r1, %r2;",
    "mad.lo.s32 %r0, %r1, %r2, %r3;",
    "shl.b32 %r0, %r1, 3;",
    "mul.wide.u32 %d0, %r1, %r2;",
    "setp.lt.s32 %p0, %r1, %r2;",
    "selp.b32 %r0, %r1, %r2, %p1;",
    "mov.b32 %r0, %r1;",
    "mov.b32 %r0, 7;",
    "add.rn.f32 %r0, %r1, %r2;",
    "fma.rn.f32 %r0, %r1, %r2, %r3;",
    "max.f32 %r0, %r1, %r2;",
    "ex2.approx.ftz.f32 %r0, %r1;",
    "div.rn.f32 %r0, %r1, %r2;",
    "cvt.rn.bf16x2.f32 %r0, %r1, %r2;",
    "cvt.f32.bf16 %r0, %h1;",
    "cvt.u64.u32 %d0, %r1;",
    "fma.rn.bf16x2 %r0, %r1, %r2, %r3;",
    "shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1;",
    "fma.rn.f64 %d0, %d1, %d2, %d3;",
};

int main(int argc, char **argv) {
  for (int a = 1; a < argc; a++) {
    size_t bytes;
    uint32_t instructions = 0;
    char *text = read_text(argv[a], &bytes);
    double s = text == NULL ? -1 : decode_s(text, bytes, &instructions);
    if (s < 0)
      printf("%-48s cannot be read or decoded\n", argv[a]);
    else
      printf("%-48s %7.2f ms  %6.1f MB/s  %5.2f M instructions/s\n", argv[a], 1e3 * s,
             (double)bytes / s * 1e-6, (double)instructions / s * 1e-6);
    free(text);
  }
  for (size_t k = 0; k < sizeof STATEMENTS / sizeof STATEMENTS[0]; k++) {
    enum { TIMES = 20000 };
    one_warp *w = one_warp_new(STATEMENTS[k]);
    uint64_t state = 1;
    double best = 1e9;
    alu_fault fault;
    for (int l = 0; l < PTX_LANES; l++) {
      for (int r = 1; r <= 3; r++) {
        char name[] = "%r0";
        name[2] = (char)('0' + r);
        one_warp_value(w, name)[l] = 0x3f000000 | (next_random(&state) & 0xffffff);
        name[1] = 'd';
        one_warp_value(w, name)[l] = 0x3fe0000000000000 | (next_random(&state) >> 12);
        name[1] = 'h';
        one_warp_value(w, name)[l] = 0x3f80 | (next_random(&state) & 127);
      }
    }
    one_warp_set_predicate(w, "%p1", 0x0f0f0f0f);
    for (int round = 0; round < 10; round++) {
      double start = now_s();
      for (int n = 0; n < TIMES; n++)
        alu_execute(w->kernel, w->kernel->instructions, &w->warp, PTX_FULL_MASK, &fault);
      double took = (now_s() - start) / TIMES;
      if (took < best) best = took;
    }
    printf("%-48s %7.1f ns a warp\n", STATEMENTS[k], best * 1e9);
    one_warp_free(w);
  }
  return 0;
}
