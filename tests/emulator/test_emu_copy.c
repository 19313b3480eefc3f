/* Asynchronous copies: what they move, when it may be used, and each rule broken once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

enum { SEEDS = 6 };

/* One thread loads, all wait. Input word (row, column) is 64 row + column; the box is 4 rows of 8 words. */
#define BAR ".shared .align 8 .b64 bar;"
#define INIT                                                                                                 \
  "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; @p7 mbarrier.init.shared::cta.b64 [r10], 1;\n"                   \
  "@p7 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
#define EXPECT(bytes) "@p7 mbarrier.arrive.expect_tx.shared::cta.b64 _, [r10], " bytes ";\n"
#define WAIT          "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p6, [r10], 0; @!p6 bra WAIT;\n"
#define LOAD                                                                                                 \
  "@p7 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [r1], [d2, {r20, "       \
  "r21}], [r10];\n"
#define AT(x, y) "mov.u32 r20, " #x "; mov.u32 r21, " #y ";\n"
#define COPY_OUT                                                                                             \
  "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; ld.shared.b32 r4, [r3]; mul.wide.u32 d4, r0, 4; add.u64 d4, d1, "  \
  "d4;\n"                                                                                                    \
  "st.global.b32 [d4], r4;\n"

static uint32_t expected_word(uint32_t t, int x, int y) {
  int row = y + (int)t / 8, column = x + (int)t % 8;
  return row < 0 || row >= 16 || column < 0 || column >= 64 ? 0 : (uint32_t)(64 * row + column);
}

static const struct {
  const char *place;
  int x, y;
} boxes[] = {{AT(8, 3), 8, 3},     {AT(0, 0), 0, 0},     {AT(60, 14), 60, 14}, {AT(-4, -2), -4, -2},
             {AT(56, -1), 56, -1}, {AT(56, 13), 56, 13}, {AT(64, 0), 64, 0},   {AT(0, 99), 0, 99}};

START_TEST(tensor_load_fills_with_zeros) {
  for (size_t i = 0; i < COUNT_OF(boxes); i++) {
    char body[2048];
    snprintf(body, sizeof body, "%s%s", boxes[i].place, INIT EXPECT("128") LOAD WAIT COPY_OUT);
    small_result r =
        expect_clean(&(small_case){.shared = BAR, .body = body, .smem_bytes = 128, .seed = (uint64_t)_i});
    for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], expected_word(t, boxes[i].x, boxes[i].y));
  }
}
END_TEST

START_TEST(load_needs_a_wait) {
  expect_fault(&(small_case){.shared = BAR,
                             .body = AT(0, 0) INIT EXPECT("128") LOAD COPY_OUT,
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i},
               EMU_FAULT_IN_FLIGHT, "no wait for its completion");
  expect_fault(&(small_case){.shared = BAR,
                             .body = AT(0, 0) INIT EXPECT("128") LOAD "bar.sync 0;\n" COPY_OUT,
                             .threads = 32,
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i},
               EMU_FAULT_IN_FLIGHT, "no wait for its completion");
  expect_fault(&(small_case){.shared = BAR, .body = AT(0, 0) INIT LOAD, .smem_bytes = 128}, EMU_FAULT_EXIT,
               "still under way");
}
END_TEST

START_TEST(load_after_generic_accesses) {
  /* a generic write before the load needs the proxy fence; a generic read needs only the order */
  const char *write =
      AT(0, 0) INIT "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; st.shared.b32 [r3], r0;\n"
                    "fence.proxy.async.shared::cta; bar.sync 0;\n" EXPECT("128") LOAD WAIT COPY_OUT;
  expect_clean(
      &(small_case){.shared = BAR, .body = write, .threads = 32, .smem_bytes = 128, .seed = (uint64_t)_i});
  char *unfenced = edit_text(write, "fence.proxy.async.shared::cta;", 0, "");
  expect_fault(&(small_case){.shared = BAR, .body = unfenced, .smem_bytes = 128}, EMU_FAULT_PROXY_FENCE,
               "written by warp 0");
  free(unfenced);
  char *one_lane =
      edit_text(write, "fence.proxy.async.shared::cta;", 0, "@p7 fence.proxy.async.shared::cta;");
  expect_fault(&(small_case){.shared = BAR, .body = one_lane, .smem_bytes = 128}, EMU_FAULT_PROXY_FENCE,
               "written by warp 0");
  free(one_lane);
}
END_TEST

START_TEST(load_rules) {
  expect_fault(&(small_case){.shared = BAR,
                             .body = AT(0, 0) INIT EXPECT("128") "add.u32 r1, r1, 64;\n" LOAD,
                             .smem_bytes = 256},
               EMU_FAULT_MISALIGNED, "multiple of 128");
  expect_fault(&(small_case){.shared = BAR, .body = AT(5, 0) INIT EXPECT("128") LOAD, .smem_bytes = 128},
               EMU_FAULT_MISALIGNED, "begins 20 bytes into the innermost dimension");
  expect_fault(&(small_case){.shared = BAR, .body = AT(-1, 0) INIT EXPECT("128") LOAD, .smem_bytes = 128},
               EMU_FAULT_MISALIGNED, "begins -4 bytes into the innermost dimension");
  expect_fault(&(small_case){.shared = BAR, .body = AT(0, 0) INIT EXPECT("128") LOAD, .smem_bytes = 64},
               EMU_FAULT_OUT_OF_BOUNDS, "past the end of shared memory");
  expect_fault(
      &(small_case){
          .shared = BAR,
          .body = AT(0, 0) INIT EXPECT(
              "128") "@p7 cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [r1], "
                     "[d2, {r20}], [r10];\n",
          .smem_bytes = 128},
      EMU_FAULT_DESCRIPTOR, "rank 2");
  expect_fault(&(small_case){.shared = BAR,
                             .body = AT(0, 0) INIT EXPECT("128") "mov.b64 d2, d0;\n" LOAD,
                             .smem_bytes = 128},
               EMU_FAULT_DESCRIPTOR, "no tensor map");
  expect_fault(&(small_case){.shared = BAR,
                             .body = AT(0, 0) INIT EXPECT("128") "mov.b64 d2, d3;\n" LOAD,
                             .smem_bytes = 128},
               EMU_FAULT_UNINITIALISED, "tensor out + 0 bytes");
  expect_fault(&(small_case){.shared = BAR, .body = AT(0, 0) INIT EXPECT("144") LOAD WAIT, .smem_bytes = 128},
               EMU_FAULT_DEADLOCK, "16 bytes expected");
}
END_TEST

#define FILL   "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; add.u32 r4, r0, 1000; st.shared.b32 [r3], r4;\n"
#define STORE  "@p7 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [d3, {r20, r21}], [r1];\n"
#define FENCE  "fence.proxy.async.shared::cta; bar.sync 0;\n"
#define COMMIT "@p7 cp.async.bulk.commit_group;\n"

START_TEST(tensor_store_clips) {
  for (size_t i = 0; i < COUNT_OF(boxes); i++) {
    if (boxes[i].x < 0 || boxes[i].y < 0) continue;
    char body[2048];
    snprintf(body, sizeof body, "%s%s", boxes[i].place,
             "setp.eq.u32 p7, r0, 0;\n" FILL FENCE STORE COMMIT "@p7 cp.async.bulk.wait_group 0;\n");
    small_result r = expect_clean(&(small_case){.body = body, .smem_bytes = 128, .seed = (uint64_t)_i});
    for (int row = 0; row < 16; row++) {
      for (int column = 0; column < 64; column++) {
        int y = row - boxes[i].y, x = column - boxes[i].x;
        bool inside = y >= 0 && y < 4 && x >= 0 && x < 8;
        ck_assert_uint_eq(r.out[64 * row + column], inside ? (uint32_t)(1000 + 8 * y + x) : 0xFFFFFFFF);
      }
    }
  }
}
END_TEST

START_TEST(store_rules) {
  static const char *const before[] = {AT(-4, 0), AT(0, -1)};
  for (size_t i = 0; i < COUNT_OF(before); i++) {
    char body[2048];
    snprintf(body, sizeof body, "%ssetp.eq.u32 p7, r0, 0;\n" FILL FENCE STORE COMMIT, before[i]);
    expect_fault(&(small_case){.body = body, .smem_bytes = 128}, EMU_FAULT_OUT_OF_BOUNDS,
                 "must begin inside the tensor");
  }
  expect_fault(&(small_case){.body = AT(0, 0) "setp.eq.u32 p7, r0, 0;\n" FILL "bar.sync 0;\n" STORE COMMIT
                                              "@p7 cp.async.bulk.wait_group.read 0;\n",
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i},
               EMU_FAULT_PROXY_FENCE, "no fence.proxy.async");
  expect_fault(&(small_case){.body = AT(0, 0) "setp.eq.u32 p7, r0, 0;\n" FILL FENCE STORE COMMIT,
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i},
               EMU_FAULT_EXIT, "wait_group.read is missing");
  /* committed by the issuing thread, waited for by another: no wait at all */
  expect_fault(
      &(small_case){.body = AT(0, 0) "setp.eq.u32 p7, r0, 0; setp.eq.u32 p5, r0, 1;\n" FILL FENCE STORE COMMIT
                                     "@p5 cp.async.bulk.wait_group.read 0; bar.warp.sync 0xffffffff;\n" FILL,
                    .smem_bytes = 128,
                    .seed = (uint64_t)_i},
      EMU_FAULT_IN_FLIGHT, "read by the copy");
  /* waiting without a commit waits for nothing */
  expect_fault(&(small_case){.body = AT(0, 0) "setp.eq.u32 p7, r0, 0;\n" FILL FENCE STORE
                                              "@p7 cp.async.bulk.wait_group.read 0;\n" FILL,
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i},
               EMU_FAULT_IN_FLIGHT, "read by the copy");
  expect_clean(&(small_case){.body = AT(0, 0) "setp.eq.u32 p7, r0, 0;\n" FILL FENCE STORE COMMIT
                                              "@p7 cp.async.bulk.wait_group.read 0; bar.sync 0;\n" FILL,
                             .smem_bytes = 128,
                             .seed = (uint64_t)_i});
  expect_fault(
      &(small_case){.body =
                        AT(0, 0) "setp.eq.u32 p7, r0, 0;\n@p7 st.shared.b32 [r1], r0;\n" FENCE STORE COMMIT,
                    .smem_bytes = 128},
      EMU_FAULT_UNINITIALISED, "smem + 4");
}
END_TEST

START_TEST(tensor_reduction_adds) {
  small_result r = expect_clean(&(small_case){
      .body = AT(0, 0) "setp.eq.u32 p7, r0, 0;\n"
                       "and.b32 r5, r0, 7; shr.u32 r6, r0, 3; mad.lo.u32 r5, r6, 64, r5; mul.wide.u32 d4, "
                       "r5, 4; add.u64 d4, d1, d4;\n"
                       "st.global.b32 [d4], 5;\n" FILL FENCE
                       "@p7 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [d3, {r20, "
                       "r21}], [r1];\n" COMMIT "@p7 cp.async.bulk.wait_group 0;\n",
      .smem_bytes = 128,
      .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t / 8 * 64 + t % 8], 1005 + t);
}
END_TEST

START_TEST(plain_bulk_copies) {
  const char *body =
      INIT EXPECT("128") "@p7 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [r1], [d0+256], "
                         "128, [r10];\n" WAIT
                         "@p7 cp.async.bulk.global.shared::cta.bulk_group [d1], [r1], 128;\n" COMMIT
                         "@p7 cp.async.bulk.wait_group 0;\n";
  small_result r =
      expect_clean(&(small_case){.shared = BAR, .body = body, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], 64 + t);
  char *odd = edit_text(body, "[d0+256], 128", 0, "[d0+256], 120");
  expect_fault(&(small_case){.shared = BAR, .body = odd, .smem_bytes = 128}, EMU_FAULT_MISALIGNED,
               "multiples of 16");
  free(odd);
  char *past = edit_text(body, "[d0+256]", 0, "[d0+4000]");
  expect_fault(&(small_case){.shared = BAR, .body = past, .smem_bytes = 128}, EMU_FAULT_OUT_OF_BOUNDS,
               "tensor in + 4127");
  free(past);
}
END_TEST

START_TEST(multicast_fills_every_cta) {
  const char *body =
      AT(8, 3) "mov.u32 r22, %cluster_ctarank;\n"
               "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; @p7 mbarrier.init.shared::cta.b64 [r10], 1;\n"
               "@p7 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; "
               "barrier.cluster.wait.aligned;\n" EXPECT(
                   "128") "setp.eq.u32 p5, r22, 0; and.pred p5, p5, p7; mov.b16 h1, 3;\n"
                          "@p5 "
                          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
                          "multicast::cluster [r1], [d2, {r20, r21}], [r10], h1;\n" WAIT
                          "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; ld.shared.b32 r4, [r3]; mad.lo.u32 r5, "
                          "r22, 32, r0;\n"
                          "mul.wide.u32 d4, r5, 4; add.u64 d4, d1, d4; st.global.b32 [d4], r4;\n"
                          "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
  small_result r = expect_clean(
      &(small_case){.shared = BAR, .body = body, .cluster = 2, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 64; t++) ck_assert_uint_eq(r.out[t], expected_word(t % 32, 8, 3));
  char *wide = edit_text(body, "mov.b16 h1, 3", 0, "mov.b16 h1, 7");
  expect_fault(&(small_case){.shared = BAR, .body = wide, .cluster = 2, .smem_bytes = 128},
               EMU_FAULT_OUT_OF_BOUNDS, "CTA mask 0x7");
  free(wide);
}
END_TEST

START_TEST(stores_to_another_cta) {
  const char *body =
      "mov.u32 r22, %cluster_ctarank; mov.u32 r10, bar; setp.eq.u32 p7, r0, 0;\n"
      "@p7 mbarrier.init.shared::cta.b64 [r10], 1; @p7 fence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" EXPECT(
          "128") "xor.b32 r23, r22, 1; mapa.shared::cluster.u32 r24, r10, r23; shl.b32 r2, r0, 2; add.u32 "
                 "r3, r1, r2;\n"
                 "mapa.shared::cluster.u32 r25, r3, r23; mad.lo.u32 r5, r22, 32, r0;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [r25], r5, [r24];\n" WAIT
                 "ld.shared.b32 r4, [r3]; mul.wide.u32 d4, r5, 4; add.u64 d4, d1, d4; st.global.b32 [d4], "
                 "r4;\n"
                 "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
  small_result r = expect_clean(
      &(small_case){.shared = BAR, .body = body, .cluster = 2, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 64; t++) ck_assert_uint_eq(r.out[t], t ^ 32);
}
END_TEST

START_TEST(cp_async_groups) {
  const char *body =
      "shl.b32 r2, r0, 4; add.u32 r3, r1, r2; mul.wide.u32 d4, r0, 16; add.u64 d5, d0, d4; add.u64 d6, d1, "
      "d4;\n"
      "cp.async.cg.shared.global [r3], [d5], 16; cp.async.commit_group;\n"
      "cp.async.ca.shared.global [r3+512], [d5], 8, 4; cp.async.commit_group;\n"
      "cp.async.wait_group 1; ld.shared.v4.b32 {r4, r5, r6, r7}, [r3]; st.global.v4.b32 [d6], {r4, r5, r6, "
      "r7};\n"
      "cp.async.wait_all; ld.shared.v2.b32 {r4, r5}, [r3+512]; st.global.v2.b32 [d6+512], {r4, r5};\n";
  small_result r = expect_clean(&(small_case){.body = body, .smem_bytes = 1024, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) {
    ck_assert_uint_eq(r.out[4 * t + 3], 4 * t + 3);
    ck_assert_uint_eq(r.out[128 + 4 * t], 4 * t);
    ck_assert_uint_eq(r.out[128 + 4 * t + 1], 0);
  }
  char *early = edit_text(body, "cp.async.wait_group 1", 0, "cp.async.wait_group 2");
  expect_fault(&(small_case){.body = early, .smem_bytes = 1024, .seed = (uint64_t)_i}, EMU_FAULT_IN_FLIGHT,
               "cp.async");
  free(early);
}
END_TEST

START_TEST(cp_async_arrives_at_an_mbarrier) {
  const char *body =
      "mov.u32 r10, bar; setp.eq.u32 p7, r0, 0; @p7 mbarrier.init.shared::cta.b64 [r10], 32; bar.sync 0;\n"
      "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; mul.wide.u32 d4, r0, 4; add.u64 d5, d0, d4;\n"
      "cp.async.ca.shared.global [r3], [d5], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r10];\n" WAIT
      "xor.b32 r2, r2, 4; add.u32 r3, r1, r2; ld.shared.b32 r4, [r3]; add.u64 d4, d1, d4; st.global.b32 "
      "[d4], r4;\n";
  small_result r =
      expect_clean(&(small_case){.shared = BAR, .body = body, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], t ^ 1);
}
END_TEST

/* Stages in turn: a thread's copies for one barrier are not those for the next, whichever ends first. */
START_TEST(cp_async_arrives_at_mbarriers_in_turn) {
  const char *body =
      "mov.u32 r10, bars; setp.eq.u32 p7, r0, 0; add.u32 r11, r10, 8;\n"
      "@p7 mbarrier.init.shared::cta.b64 [r10], 32; @p7 mbarrier.init.shared::cta.b64 [r11], 32; bar.sync "
      "0;\n"
      "shl.b32 r2, r0, 2; add.u32 r3, r1, r2; mul.wide.u32 d4, r0, 4; add.u64 d5, d0, d4;\n"
      "cp.async.ca.shared.global [r3], [d5], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r10];\n"
      "cp.async.ca.shared.global [r3+128], [d5+128], 4;\n"
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r11];\n" WAIT
      "xor.b32 r2, r2, 4; add.u32 r3, r1, r2; ld.shared.b32 r4, [r3]; add.u64 d4, d1, d4; st.global.b32 "
      "[d4], r4;\n"
      "NEXT: mbarrier.try_wait.parity.shared::cta.b64 p6, [r11], 0; @!p6 bra NEXT;\n"
      "ld.shared.b32 r4, [r3+128]; st.global.b32 [d4+128], r4;\n";
  static const char bars[] = ".shared .align 8 .b64 bars[2];";
  small_case c = {.shared = bars, .body = body, .smem_bytes = 256, .seed = (uint64_t)_i};
  small_result r = expect_clean(&c);
  for (uint32_t t = 0; t < 32; t++) {
    ck_assert_uint_eq(r.out[t], t ^ 1);
    ck_assert_uint_eq(r.out[32 + t], 32 + (t ^ 1));
  }
  char *early = edit_text(body, "p6, [r11], 0", 0, "p6, [r10], 0");
  expect_fault(&(small_case){.shared = bars, .body = early, .smem_bytes = 256, .seed = (uint64_t)_i},
               EMU_FAULT_IN_FLIGHT, "cp.async");
  free(early);
}
END_TEST

START_TEST(cp_async_feeds_the_asynchronous_proxy) {
  const char *body =
      AT(0, 0) "setp.eq.u32 p7, r0, 0; shl.b32 r2, r0, 2; add.u32 r3, r1, r2; mul.wide.u32 d4, r0, 4;\n"
               "add.u64 d5, d0, d4; cp.async.ca.shared.global [r3], [d5], 4;\n"
               "cp.async.wait_all; " FENCE STORE COMMIT "@p7 cp.async.bulk.wait_group 0;\n";
  small_result r = expect_clean(&(small_case){.body = body, .smem_bytes = 128, .seed = (uint64_t)_i});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t / 8 * 64 + t % 8], t);
  char *unfenced = edit_text(body, "fence.proxy.async.shared::cta;", 0, "");
  expect_fault(&(small_case){.body = unfenced, .smem_bytes = 128, .seed = (uint64_t)_i},
               EMU_FAULT_PROXY_FENCE, "written by the copy");
  free(unfenced);
  char *early = edit_text(body, "cp.async.wait_all; fence.proxy.async.shared::cta;", 0,
                          "fence.proxy.async.shared::cta; cp.async.wait_all;");
  expect_fault(&(small_case){.body = early, .smem_bytes = 128, .seed = (uint64_t)_i}, EMU_FAULT_PROXY_FENCE,
               "written by the copy");
  free(early);
}
END_TEST

TCase *emu_copy_case(void) {
  TCase *c = tcase_create("copies");
  tcase_add_loop_test(c, tensor_load_fills_with_zeros, 0, SEEDS);
  tcase_add_loop_test(c, load_needs_a_wait, 0, SEEDS);
  tcase_add_loop_test(c, load_after_generic_accesses, 0, SEEDS);
  tcase_add_test(c, load_rules);
  tcase_add_loop_test(c, tensor_store_clips, 0, SEEDS);
  tcase_add_loop_test(c, store_rules, 0, SEEDS);
  tcase_add_loop_test(c, tensor_reduction_adds, 0, SEEDS);
  tcase_add_loop_test(c, plain_bulk_copies, 0, SEEDS);
  tcase_add_loop_test(c, multicast_fills_every_cta, 0, SEEDS);
  tcase_add_loop_test(c, stores_to_another_cta, 0, SEEDS);
  tcase_add_loop_test(c, cp_async_groups, 0, SEEDS);
  tcase_add_loop_test(c, cp_async_arrives_at_an_mbarrier, 0, SEEDS);
  tcase_add_loop_test(c, cp_async_arrives_at_mbarriers_in_turn, 0, SEEDS);
  tcase_add_loop_test(c, cp_async_feeds_the_asynchronous_proxy, 0, SEEDS);
  return c;
}
