/* Races, barriers, mbarriers, divergence, clusters and deadlocks: each rule kept, and broken. */
#include <stdlib.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

enum { SEEDS = 6 };

START_TEST(barrier_orders_a_hand_over) {
  small_result r = expect_clean(
      &(small_case){.body = "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; st.shared.b32 [r3], r0; bar.sync 0;\n"
                            "xor.b32 r4, r2, 128; add.u32 r4, r1, r4; ld.shared.b32 r5, [r4];\n"
                            "mul.wide.u32 d4, r0, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r5;\n",
                    .threads = 64,
                    .smem_bytes = 256,
                    .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 64; t++) ck_assert_uint_eq(r.out[t], t ^ 32);
}
END_TEST

START_TEST(race_between_warps) {
  expect_fault(
      &(small_case){
          .body =
              "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; st.shared.b32 [r3], r0; bar.sync 0;\n"
              "st.shared.b32 [r3], r2; xor.b32 r4, r2, 128; add.u32 r4, r1, r4; ld.shared.b32 r5, [r4];\n",
          .threads = 64,
          .smem_bytes = 256,
          .seed = (uint64_t)_i},
      EMU_FAULT_RACE, "with no synchronisation in between");
  expect_fault(
      &(small_case){.body = "st.shared.b32 [r1], r0;", .threads = 64, .smem_bytes = 16, .seed = (uint64_t)_i},
      EMU_FAULT_RACE, "written by warp");
  /* a read that a later write does not wait for */
  expect_fault(&(small_case){.body = "setp.lt.u32 p0, r0, 32; @p0 st.shared.b32 [r1], r0; bar.sync 0;\n"
                                     "@p0 ld.shared.b32 r2, [r1]; @!p0 st.shared.b32 [r1], r0;\n",
                             .threads = 64,
                             .smem_bytes = 16,
                             .seed = (uint64_t)_i},
               EMU_FAULT_RACE, "with no synchronisation in between");
}
END_TEST

START_TEST(neighbouring_bytes_of_two_warps_are_no_race) {
  expect_clean(&(small_case){.body = "shr.u32 r2, r0, 5; add.u32 r3, r1, r2; and.b32 r4, r0, 31;\n"
                                     "setp.eq.u32 p0, r4, 0; @p0 st.shared.b8 [r3], r2; bar.sync 0;\n"
                                     "ld.shared.b32 r5, [r1]; bar.sync 0; st.shared.b8 [r3], r2;\n",
                             .threads = 128,
                             .smem_bytes = 16,
                             .seed = (uint64_t)_i});
}
END_TEST

START_TEST(named_barriers_hand_over_one_way) {
  const char *body =
      "setp.lt.u32 p0, r0, 32; @!p0 bra CONSUME;\n"
      "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; st.shared.b32 [r3], r0; bar.arrive 3, 64; bra DONE;\n"
      "CONSUME: bar.sync 3, 64; and.b32 r2, r0, 31; shl.b32 r2, r2, 2; add.u32 r3, r1, r2;\n"
      "ld.shared.b32 r4, [r3]; mul.wide.u32 d4, r4, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r4;\n"
      "DONE:\n";
  small_result r =
      expect_clean(&(small_case){.body = body, .threads = 64, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], t);
}
END_TEST

START_TEST(barrier_misuse) {
  expect_fault(&(small_case){.body = "mov.u32 r2, 16; bar.sync r2;"}, EMU_FAULT_BARRIER, "not in 0..15");
  expect_fault(&(small_case){.body = "mov.u32 r2, 48; bar.sync 1, r2;", .threads = 64}, EMU_FAULT_BARRIER,
               "multiple of 32");
  expect_fault(&(small_case){.body = "setp.lt.u32 p0, r0, 32; @p0 bra A; bar.sync 1, 96; bra B;\n"
                                     "A: bar.sync 1, 64;\nB:",
                             .threads = 96},
               EMU_FAULT_BARRIER, "threads here, and for");
  expect_fault(
      &(small_case){.body = "setp.lt.u32 p0, r0, 32; @!p0 bra A; bar.arrive 1, 64; bar.arrive 1, 64;\nA:",
                    .threads = 64},
      EMU_FAULT_BARRIER, "again before the others did");
  expect_fault(&(small_case){.body = "bar.sync r0;", .threads = 32}, EMU_FAULT_DIVERGENCE,
               "different barrier numbers");
}
END_TEST

START_TEST(barrier_reduction) {
  small_result r = expect_clean(&(small_case){
      .body = "setp.lt.u32 p0, r0, 40; bar.red.popc.u32 r2, 0, p0; bar.red.and.pred p1, 0, p0;\n"
              "bar.red.or.pred p2, 0, p0; selp.u32 r3, 1, 0, p1; selp.u32 r4, 1, 0, p2;\n"
              "mul.wide.u32 d4, r0, 16; add.u64 d4, d1, d4; st.global.v4.b32 [d4], {r2, r3, r4, r0};\n",
      .threads = 64});
  for (uint32_t t = 0; t < 64; t++) {
    ck_assert_uint_eq(r.out[4 * t], 40);
    ck_assert_uint_eq(r.out[4 * t + 1], 0);
    ck_assert_uint_eq(r.out[4 * t + 2], 1);
  }
}
END_TEST

START_TEST(collectives_need_all_lanes) {
  expect_fault(&(small_case){.body = "setp.lt.u32 p0, r0, 7; @p0 bar.sync 0;"}, EMU_FAULT_DIVERGENCE,
               "all lanes of the warp");
  expect_fault(&(small_case){.body = "setp.lt.u32 p0, r0, 7; @!p0 bra A; bar.warp.sync 0xffffffff;\nA:"},
               EMU_FAULT_DIVERGENCE, "elsewhere");
  expect_fault(&(small_case){.body = "setp.lt.u32 p0, r0, 7; @p0 bra.uni A;\nA:"}, EMU_FAULT_DIVERGENCE,
               "take the branch");
}
END_TEST

START_TEST(lanes_meet_again) {
  small_result r = expect_clean(&(small_case){
      .body = "mov.u32 r2, 0; mov.u32 r3, 0;\n"
              "LOOP: setp.ge.u32 p0, r3, r0; @p0 bra OUT; and.b32 r4, r3, 1; setp.eq.u32 p1, r4, 0; @p1 bra "
              "EVEN;\n"
              "add.u32 r2, r2, 10; bra NEXT;\nEVEN: add.u32 r2, r2, 1;\nNEXT: add.u32 r3, r3, 1; bra LOOP;\n"
              "OUT: bar.warp.sync 0xffffffff; mul.wide.u32 d4, r0, 4; add.u64 d4, d1, d4; st.global.b32 "
              "[d4], r2;\n"});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], (t + 1) / 2 + t / 2 * 10);
}
END_TEST

#define MBARRIER ".shared .align 8 .b64 bar;"
#define MBARRIER_INIT                                                                                        \
  "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; @p7 mbarrier.init.shared::cta.b64 [r10], 32;\n"                  \
  "@p7 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
#define MBARRIER_WAIT(parity)                                                                                \
  "WAIT" parity ": mbarrier.try_wait.parity.shared::cta.b64 p6, [r10], " parity "; @!p6 bra WAIT" parity ";" \
  "\n"

START_TEST(mbarrier_orders_a_hand_over) {
  const char *body = MBARRIER_INIT
      "setp.lt.u32 p0, r0, 32; @!p0 bra CONSUME; shl.b32 r2, r0, 2; add.u32 r3, r1, r2; st.shared.b32 [r3], "
      "r0;\n"
      "mbarrier.arrive.shared::cta.b64 _, [r10]; bra DONE;\nCONSUME:\n" MBARRIER_WAIT(
          "0") "and.b32 r2, r0, 31; shl.b32 r2, r2, 2; add.u32 r3, r1, r2; ld.shared.b32 r4, [r3];\n"
               "mul.wide.u32 d4, r4, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r4;\nDONE:\n";
  small_result r = expect_clean(&(small_case){
      .shared = MBARRIER, .body = body, .threads = 64, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], t);
  char *relaxed = edit_text(body, "mbarrier.arrive.shared", 0, "mbarrier.arrive.relaxed.cta.shared");
  expect_fault(&(small_case){.shared = MBARRIER, .body = relaxed, .threads = 64, .smem_bytes = 128},
               EMU_FAULT_RACE, "written by warp 0");
  free(relaxed);
  char *unlooped = edit_text(body, "@!p6 bra WAIT0;", 0, "");
  int races = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    small_result u = run_small(
        &(small_case){.shared = MBARRIER, .body = unlooped, .threads = 64, .smem_bytes = 128, .seed = seed});
    races += u.report.fault == EMU_FAULT_RACE || u.report.fault == EMU_FAULT_UNINITIALISED;
  }
  ck_assert_int_gt(races, 5); /* whenever the wait comes first, it fails once, and the code goes on */
  free(unlooped);
}
END_TEST

START_TEST(mbarrier_phases) {
  small_result r = expect_clean(&(small_case){
      .shared = MBARRIER,
      .body = MBARRIER_INIT
      "mbarrier.test_wait.parity.shared::cta.b64 p0, [r10], 0; mbarrier.test_wait.parity.shared::cta.b64 p1, "
      "[r10], 1;\n"
      "selp.u32 r2, 1, 0, p0; selp.u32 r3, 1, 0, p1; mbarrier.arrive.shared::cta.b64 d5, [r10];\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p0, [r10], 0; mbarrier.test_wait.parity.shared::cta.b64 p1, "
      "[r10], 1;\n"
      "selp.u32 r4, 1, 0, p0; selp.u32 r5, 1, 0, p1; mbarrier.test_wait.shared::cta.b64 p2, [r10], d5;\n"
      "@!p2 trap; mbarrier.pending_count.b64 r6, d5; add.u32 r6, r6, r0; setp.eq.u32 p3, r6, 32; @!p3 trap; "
      "mul.wide.u32 d4, r0, 16; add.u64 d4, d1, d4; st.global.v4.b32 [d4], {r2, r3, r4, r5};\n"});
  ck_assert_uint_eq(r.out[0], 0);
  ck_assert_uint_eq(r.out[1], 1); /* a fresh barrier's "previous" phase has parity 1 and is complete */
  ck_assert_uint_eq(r.out[2], 1);
  ck_assert_uint_eq(r.out[3], 0);
}
END_TEST

START_TEST(mbarrier_misuse) {
  expect_fault(&(small_case){.shared = MBARRIER,
                             .body = "mov.u32 r10, bar; mbarrier.arrive.shared::cta.b64 _, [r10];"},
               EMU_FAULT_BARRIER, "no initialised mbarrier");
  expect_fault(
      &(small_case){
          .shared = MBARRIER,
          .body =
              "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0;\n"
              "@p7 mbarrier.init.shared::cta.b64 [r10], 1; @p7 mbarrier.arrive.shared::cta.b64 _, [r10], 2;"},
      EMU_FAULT_BARRIER, "arrivals");
  expect_fault(&(small_case){.shared = MBARRIER,
                             .body = "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; bar.sync 0;\n"
                                     "@p7 mbarrier.init.shared::cta.b64 [r10], 64;\n"
                                     "setp.ge.u32 p6, r0, 32; @p6 nanosleep.u32 100;\n"
                                     "mbarrier.arrive.shared::cta.b64 _, [r10];",
                             .threads = 64},
               EMU_FAULT_BARRIER, "mbarrier");
  expect_fault(&(small_case){.shared = MBARRIER, .body = MBARRIER_INIT "ld.shared.b64 d4, [r10];"},
               EMU_FAULT_BARRIER, "as if it were data");
  expect_fault(
      &(small_case){.shared = MBARRIER, .body = MBARRIER_INIT "@p7 mbarrier.init.shared::cta.b64 [r10], 1;"},
      EMU_FAULT_BARRIER, "initialised already");
  expect_fault(&(small_case){.shared = MBARRIER,
                             .body = MBARRIER_INIT
                             "@p7 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [r10], 1048576;"},
               EMU_FAULT_BARRIER, "pass its limit");
  expect_fault(
      &(small_case){.shared = MBARRIER,
                    .body = MBARRIER_INIT "@p7 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [r10], 16;"},
      EMU_FAULT_EXIT, "still expects bytes");
}
END_TEST

START_TEST(deadlocks_say_who_waits_for_what) {
  const char *two = MBARRIER_INIT "setp.lt.u32 p0, r0, 32; @!p0 bra OTHER;\n" MBARRIER_WAIT(
      "0") "bra DONE;\nOTHER: bar.sync 2, 64;\nDONE:\n";
  expect_fault(&(small_case){.shared = MBARRIER, .body = two, .threads = 64, .seed = (uint64_t)_i},
               EMU_FAULT_DEADLOCK, "mbarrier bar + 0 (phase 0, 32 of 32 arrivals missing");
  expect_fault(&(small_case){.shared = MBARRIER, .body = two, .threads = 64, .seed = (uint64_t)_i},
               EMU_FAULT_DEADLOCK, "bar.sync 2 (32 of 64 threads arrived)");
}
END_TEST

START_TEST(runaway_loops_end) {
  expect_fault(&(small_case){.body = "LOOP: add.u32 r0, r0, 1; bra LOOP;", .limit = 10000}, EMU_FAULT_LIMIT,
               "still running");
  expect_fault(
      &(small_case){
          .body = "st.global.b32 [d1], 0; LOOP: ld.acquire.gpu.global.b32 r2, [d1]; setp.eq.u32 p0, r2, 0;\n"
                  "@p0 bra LOOP;",
          .limit = 100000},
      EMU_FAULT_LIMIT, "still running");
}
END_TEST

START_TEST(cta_waits_for_a_later_one_through_global_memory) {
  /* CTA 0 spins on a flag that CTA 1 sets: both must be resident. */
  small_result r = expect_clean(&(small_case){
      .body =
          "mov.u32 r2, %ctaid.x; setp.eq.u32 p0, r2, 1; @p0 bra SET; setp.ne.u32 p1, r0, 0; @p1 bra DONE;\n"
          "LOOP: ld.acquire.gpu.global.b32 r3, [d0]; setp.ne.u32 p2, r3, 77; @p2 bra LOOP;\n"
          "ld.global.b32 r4, [d1]; st.global.b32 [d1+4], r4; bra DONE;\n"
          "SET: st.global.b32 [d1], 5; st.release.gpu.global.b32 [d0], 77;\nDONE:\n",
      .grid = 2});
  ck_assert_uint_eq(r.out[1], 5);
}
END_TEST

START_TEST(cluster_shares_memory) {
  const char *body = "mov.u32 r2, %cluster_ctarank; add.u32 r3, r2, 100; st.shared.b32 [r1], r3;\n"
                     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; xor.b32 r4, r2, 1;\n"
                     "mapa.shared::cluster.u32 r5, r1, r4; ld.shared::cluster.b32 r6, [r5];\n"
                     "mul.wide.u32 d4, r2, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r6;\n"
                     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
  small_case c = {.body = body, .cluster = 2, .smem_bytes = 16, .seed = (uint64_t)_i};
  small_result r = expect_clean(&c);
  ck_assert_uint_eq(r.out[0], 101);
  ck_assert_uint_eq(r.out[1], 100);
  char *unordered =
      edit_text(body, "barrier.cluster.arrive.aligned;", 0, "barrier.cluster.arrive.relaxed.aligned;");
  c.body = unordered;
  expect_fault(&c, EMU_FAULT_RACE, "with no synchronisation");
  free(unordered);
  /* Nobody may end while another reads: the read is over with an arrival that releases, and only then. */
  char *early = edit_text(body, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", 1, "");
  c.body = early;
  expect_fault(&c, EMU_FAULT_EXIT, "CTA");
  free(early);
  char *read_on =
      edit_text(body, "barrier.cluster.arrive.aligned;", 1, "barrier.cluster.arrive.relaxed.aligned;");
  c.body = read_on;
  expect_fault(&c, EMU_FAULT_EXIT, "may still be read by CTA rank");
  free(read_on);
  expect_fault(&(small_case){.body = "barrier.cluster.wait.aligned;", .cluster = 2}, EMU_FAULT_BARRIER,
               "without having arrived");
  expect_fault(&(small_case){.body = "mapa.shared::cluster.u32 r5, r1, 2;", .cluster = 2},
               EMU_FAULT_OUT_OF_BOUNDS, "CTA rank 2");
}
END_TEST

START_TEST(remote_arrival) {
  const char *body =
      "mov.u32 r10, bar; mov.u32 r2, %cluster_ctarank; setp.eq.u32 p7, r0, 0;\n"
      "@p7 mbarrier.init.shared::cta.b64 [r10], 1; @p7 fence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; xor.b32 r4, r2, 1;\n"
      "mapa.shared::cluster.u32 r5, r10, r4; mapa.shared::cluster.u32 r6, r1, r4;\n"
      "@p7 st.shared::cluster.b32 [r6], r2; @p7 mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
      "[r5];\n" MBARRIER_WAIT(
          "0") "ld.shared.b32 r7, [r1]; mul.wide.u32 d4, r2, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r7;\n"
               "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
  small_result r = expect_clean(
      &(small_case){.shared = MBARRIER, .body = body, .cluster = 2, .smem_bytes = 16, .seed = (uint64_t)_i});
  ck_assert_uint_eq(r.out[0], 1);
  ck_assert_uint_eq(r.out[1], 0);
  char *blind = edit_text(body, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", 0, "");
  expect_fault(
      &(small_case){.shared = MBARRIER, .body = blind, .cluster = 2, .smem_bytes = 16, .seed = (uint64_t)_i},
      EMU_FAULT_NOT_STARTED, "before anything tells that it has started");
  free(blind);
  /* Meeting without an order of memory is enough for that. */
  char *relaxed =
      edit_text(body, "barrier.cluster.arrive.aligned;", 0, "barrier.cluster.arrive.relaxed.aligned;");
  small_case met = {
      .shared = MBARRIER, .body = relaxed, .cluster = 2, .smem_bytes = 16, .seed = (uint64_t)_i};
  ck_assert_int_ne(run_small(&met).report.fault, EMU_FAULT_NOT_STARTED);
  free(relaxed);
}
END_TEST

START_TEST(register_pool) {
  const char *body = "setp.lt.u32 p0, r0, 128; @p0 bra GIVE; setmaxnreg.inc.sync.aligned.u32 240; bra DONE;\n"
                     "GIVE: setmaxnreg.dec.sync.aligned.u32 24;\nDONE:\n";
  expect_clean(&(small_case){.body = body, .threads = 384, .seed = (uint64_t)_i});
  expect_fault(&(small_case){.body = "setmaxnreg.inc.sync.aligned.u32 176;", .threads = 384},
               EMU_FAULT_DEADLOCK, "setmaxnreg to 176");
  expect_fault(&(small_case){.body = "setmaxnreg.dec.sync.aligned.u32 232;", .threads = 384},
               EMU_FAULT_REGISTERS, "decreases to 232");
}
END_TEST

START_TEST(what_is_not_modelled_is_named) {
  expect_fault(&(small_case){.body = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r2, r3}, [r1];",
                             .smem_bytes = 256},
               EMU_FAULT_UNKNOWN_INSTRUCTION, "ldmatrix.sync.aligned.m16n16");
}
END_TEST

START_TEST(traps) {
  expect_fault(&(small_case){.body = "trap;"}, EMU_FAULT_TRAP, "traps");
}
END_TEST

TCase *emu_sync_case(void) {
  TCase *c = tcase_create("synchronisation");
  tcase_add_loop_test(c, barrier_orders_a_hand_over, 0, SEEDS);
  tcase_add_loop_test(c, race_between_warps, 0, SEEDS);
  tcase_add_loop_test(c, neighbouring_bytes_of_two_warps_are_no_race, 0, SEEDS);
  tcase_add_loop_test(c, named_barriers_hand_over_one_way, 0, SEEDS);
  tcase_add_test(c, barrier_misuse);
  tcase_add_test(c, barrier_reduction);
  tcase_add_test(c, collectives_need_all_lanes);
  tcase_add_test(c, lanes_meet_again);
  tcase_add_loop_test(c, mbarrier_orders_a_hand_over, 0, SEEDS);
  tcase_add_test(c, mbarrier_phases);
  tcase_add_test(c, mbarrier_misuse);
  tcase_add_loop_test(c, deadlocks_say_who_waits_for_what, 0, SEEDS);
  tcase_add_test(c, runaway_loops_end);
  tcase_add_test(c, cta_waits_for_a_later_one_through_global_memory);
  tcase_add_loop_test(c, cluster_shares_memory, 0, SEEDS);
  tcase_add_loop_test(c, remote_arrival, 0, SEEDS);
  tcase_add_loop_test(c, register_pool, 0, SEEDS);
  tcase_add_test(c, what_is_not_modelled_is_named);
  tcase_add_test(c, traps);
  return c;
}
