/* Global memory shared by the CTAs of a launch: what is in order runs, what is not is reported. */
#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

/* p0: this is CTA 0; d4, d5: this thread's words of in and out. */
#define START                                                                                                \
  "mov.u32 r2, %ctaid.x; setp.eq.u32 p0, r2, 0; mul.wide.u32 d6, r0, 4; add.u64 d4, d0, d6;\n"               \
  "add.u64 d5, d1, d6;\n"
/* CTA 0 writes its words of out; then the flag, word 0 of in, gets 1, which CTA 1 waits for before it reads.
 */
#define WRITE                                                                                                \
  "@p0 st.global.b32 [d5], r0; bar.sync 0; mov.b32 r3, 1; setp.eq.u32 p1, r0, 0; and.pred p2, p0, p1;\n"
typedef struct race_case {
  const char *body, *words; /* NULL: it is clean */
  uint32_t grid, cluster;
} race_case;

static const race_case cases[] = {
    {START "st.global.b32 [d5], r0;", "out + 0 bytes, written by CTA 0, with no synchronisation", 2, 1},
    {START "@p0 st.global.b32 [d5], r0; @!p0 ld.global.b32 r3, [d5];",
     "it reads tensor out + 0 bytes, written by CTA 0", 2, 1},
    {START "@p0 st.global.b32 [d4+1024], r0; @p0 ld.global.b32 r3, [d4]; @!p0 st.global.b32 [d4], r0;",
     "it writes tensor in + 0 bytes, read by CTA 0", 2, 1},
    {START "@p0 st.global.b32 [d5], r0; @!p0 atom.global.add.u32 r3, [d5], 1;", "written by CTA 0", 2, 1},
    {START "@p0 atom.global.add.u32 r3, [d4], 1; @!p0 ld.global.b32 r3, [d4];", "written by CTA 0", 2, 1},
    /* each CTA its own words, and words that nobody writes */
    {START "mad.lo.u32 r3, r2, 128, 0; cvt.u64.u32 d6, r3; add.u64 d5, d5, d6; ld.global.b32 r4, [d4];\n"
           "st.global.b32 [d5], r4; ld.global.b32 r4, [d5]; st.global.b32 [d5], r4;",
     NULL, 8, 1},
    /* bytes beside each other; 16 bytes beside one; and one inside 16 */
    {START "mad.lo.u32 r3, r0, 4, r2; cvt.u64.u32 d6, r3; add.u64 d5, d1, d6; st.global.b8 [d5], r0;\n", NULL,
     4, 1},
    {START "setp.eq.u32 p1, r0, 0; and.pred p1, p1, p0; @p1 st.global.v4.b32 [d1], {r0, r0, r0, r0};\n"
           "setp.eq.u32 p1, r0, 0; @!p0 st.global.b8 [d1+16], r0;",
     NULL, 2, 1},
    {START "@p0 st.global.v4.b32 [d1], {r0, r0, r0, r0}; @!p0 st.global.b8 [d1+15], r0;",
     "out + 15 bytes, written by CTA 0", 2, 1},
    /* atomics among themselves, and strong accesses */
    {START "red.global.add.u32 [d4], r0; atom.global.max.u32 r3, [d4], r0;", NULL, 4, 1},
    {START "st.relaxed.gpu.global.b32 [d5], r0; ld.relaxed.gpu.global.b32 r3, [d5];", NULL, 4, 1},
    {START "@p0 st.relaxed.gpu.global.b32 [d5], r0; @!p0 ld.global.b32 r3, [d5];", "written by CTA 0", 2, 1},
    /* a flag: released and acquired, by fences, and by neither */
    {START WRITE "@p2 st.release.gpu.global.b32 [d0], r3; @p0 bra END;\n"
                 "WAIT: ld.acquire.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5]; st.global.b32 [d5+1024], r5;\nEND:",
     NULL, 2, 1},
    {START WRITE "fence.acq_rel.gpu; @p2 st.relaxed.gpu.global.b32 [d0], r3; @p0 bra END;\n"
                 "WAIT: ld.relaxed.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "fence.acq_rel.gpu; ld.global.b32 r5, [d5]; st.global.b32 [d5+1024], r5;\nEND:",
     NULL, 2, 1},
    {START WRITE "membar.gl; @p2 atom.global.exch.b32 r4, [d0], r3; @p0 bra END;\n"
                 "WAIT: atom.acquire.gpu.global.add.u32 r4, [d0], 0; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5];\nEND:",
     NULL, 2, 1},
    {START WRITE "@p2 st.relaxed.gpu.global.b32 [d0], r3; @p0 bra END;\n"
                 "WAIT: ld.acquire.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5];\nEND:",
     "it reads tensor out + 0 bytes, written by CTA 0", 2, 1},
    {START WRITE "@p2 st.release.gpu.global.b32 [d0], r3; @p0 bra END;\n"
                 "WAIT: ld.relaxed.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5];\nEND:",
     "it reads tensor out + 0 bytes, written by CTA 0", 2, 1},
    {START WRITE "fence.acq_rel.cta; @p2 st.relaxed.gpu.global.b32 [d0], r3; @p0 bra END;\n"
                 "WAIT: ld.acquire.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5];\nEND:",
     "it reads tensor out + 0 bytes, written by CTA 0", 2, 1},
    /* what is written after the release is not covered by it */
    {START WRITE "@p2 st.release.gpu.global.b32 [d0], r3; @p0 st.global.b32 [d5], r3; @p0 bra END;\n"
                 "WAIT: ld.acquire.gpu.global.b32 r4, [d0]; setp.ne.u32 p1, r4, 1; @p1 bra WAIT;\n"
                 "ld.global.b32 r5, [d5];\nEND:",
     "it reads tensor out + 0 bytes, written by CTA 0", 2, 1},
    /* clusters are named as such, and their CTAs are one */
    {START "st.global.b32 [d5], r0;", "written by cluster 0", 4, 2},
    {START "st.global.b32 [d5], r0;", NULL, 2, 2},
};

START_TEST(order_in_global_memory) {
  const race_case *c = &cases[_i];
  small_case small = {.body = c->body, .grid = c->grid, .threads = 32, .cluster = c->cluster};
  if (c->words == NULL)
    expect_clean(&small);
  else
    expect_fault(&small, EMU_FAULT_GLOBAL_RACE, c->words);
}
END_TEST

/* A launch knows nothing of the one before: what that wrote is there. */
START_TEST(launches_are_in_order) {
  for (int round = 0; round < 2; round++)
    expect_clean(
        &(small_case){.body = START "@p0 st.global.b32 [d5], r0; ld.global.b32 r3, [d4];", .grid = 3});
}
END_TEST

TCase *emu_race_case(void) {
  TCase *c = tcase_create("races in global memory");
  tcase_add_loop_test(c, order_in_global_memory, 0, (int)(sizeof cases / sizeof cases[0]));
  tcase_add_test(c, launches_are_in_order);
  return c;
}
