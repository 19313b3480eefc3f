/* A real kernel: right on every seed, and one planted fault after another. */
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"
#include "tests/support/thinned.h"

enum { SEEDS = 6 };
#define GEMM_PTX "tests/emulator/cases/gemm_128x128x64.ptx"

static const struct {
  int m, n, k;
} shapes[] = {{128, 128, 64}, {200, 136, 72}, {1, 8, 8}, {256, 256, 512}, {640, 128, 64}};

START_TEST(product_is_right) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  char *ptx = read_case(GEMM_PTX);
  int shape = _i % (int)COUNT_OF(shapes), seed = _i / (int)COUNT_OF(shapes);
  gemm_result r = run_gemm(&(gemm_case){.ptx = ptx,
                                        .m = shapes[shape].m,
                                        .n = shapes[shape].n,
                                        .k = shapes[shape].k,
                                        .seed = (uint64_t)seed,
                                        .sm_count = 1 + seed % 4});
  ck_assert_msg(r.status == ARKE_OK, "%s", r.err.text);
  ck_assert_msg(r.wrong == 0, "%lld wrong elements, worst %g times the tolerance", (long long)r.wrong,
                r.worst);
  free(ptx);
}
END_TEST

#define BIT(NAME) (1u << EMU_FAULT_##NAME)

/* One edit each; the fault must show on every seed. */
static const struct {
  const char *name, *from;
  int nth;
  const char *to;
  unsigned faults; /* several where the order of events decides what shows first */
  const char *words;
} plants[] = {
    {"no fence before the tensor store", "fence.proxy.async.shared::cta;", 0, "", BIT(PROXY_FENCE),
     "no fence.proxy.async"},
    {"no fence after mbarrier.init", "fence.proxy.async;", 0, "", BIT(PROXY_FENCE), "fence.mbarrier_init"},
    {"no barrier before the tensor store", "bar.sync %r67, 128;", 1, "", BIT(RACE) | BIT(UNINITIALISED),
     "cp.async.bulk.tensor"},
    {"no barrier after mbarrier.init", "bar.sync \t0;", 0, "", BIT(BARRIER), "mbarrier"},
    {"consumers do not wait for full", "@!p bra W0;", 0, "", BIT(IN_FLIGHT) | BIT(UNINITIALISED) | BIT(RACE),
     ""},
    {"the producer does not wait for empty", "@!p bra W1;", 0, "", BIT(RACE) | BIT(BARRIER), ""},
    {"stage released before its wgmma ended", "wgmma.wait_group.sync.aligned 1;", 0,
     "wgmma.wait_group.sync.aligned 2;", BIT(RACE), "read by the wgmma"},
    {"no wait before the epilogue", "wgmma.wait_group.sync.aligned 0;", 0, "", BIT(WGMMA_REGISTER),
     "in flight"},
    {"no wgmma.fence", "wgmma.fence.sync.aligned;", 0, "", BIT(WGMMA_FENCE), "wgmma.fence"},
    {"epilogue buffer reused at once", "cp.async.bulk.wait_group.read 0;", 1, "", BIT(IN_FLIGHT),
     "wait for its completion"},
    {"exit under a tensor store", "cp.async.bulk.wait_group.read 0;", 0, "", BIT(EXIT), "wait_group.read"},
    {"too few bytes expected", "[%r137], 32768;", 0, "[%r137], 32752;", BIT(DEADLOCK), "bytes expected"},
    {"too many bytes expected", "[%r137], 32768;", 0, "[%r137], 32784;", BIT(DEADLOCK), "bytes expected"},
    {"one load missing",
     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r142]", 0,
     "@!%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r142]",
     BIT(DEADLOCK), "bytes expected"},
    {"destination off by 64", "add.s32 \t%r140, %r138, 16384;", 0, "add.s32 \t%r140, %r138, 16448;",
     BIT(MISALIGNED), "multiple of 128"},
    {"destination past the end", "add.s32 \t%r142, %r138, 24576;", 0, "add.s32 \t%r142, %r138, 245760;",
     BIT(OUT_OF_BOUNDS), "past the end of shared memory"},
    {"loads overlap", "add.s32 \t%r142, %r138, 24576;", 0, "add.s32 \t%r142, %r138, 16384;", BIT(RACE),
     "cp.async.bulk.tensor"},
    {"descriptor with reserved bits", "or.b64 \t%rd8, %rd18, 4611686293305360384;", 0,
     "or.b64 \t%rd8, %rd18, 4611756662049538048;", BIT(DESCRIPTOR), "reserved bits"},
    {"arrival by every thread", "@%p4 bra \t$L__BB0_17;", 0, "", BIT(BARRIER) | BIT(DEADLOCK), "mbarrier"},
    {"stage never released", "mbarrier.arrive.shared::cta.b64 _, [%r159];", 0, "", BIT(DEADLOCK),
     "mbarrier empty"},
    {"only one lane stores its rows", "fence.proxy.async.shared::cta;", 0,
     "setp.eq.u32 %p3, %r10, 0;\n@%p3 fence.proxy.async.shared::cta;", BIT(PROXY_FENCE),
     "no fence.proxy.async"},
    {"a warp with its own descriptor", "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", 1,
     "setp.eq.u32 %p3, %r9, 2;\n@%p3 add.s64 %rd10, %rd10, "
     "64;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
     BIT(DIVERGENCE), "same wgmma"},
    {"read of A past its tensor", "add.s32 \t%r21, %r18, 63;", 0,
     "add.s32 \t%r21, %r18, 63;\nld.global.b32 %r22, [%rd20];", BIT(OUT_OF_BOUNDS), "address"},
};

START_TEST(planted_faults_are_found) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  char *ptx = read_case(GEMM_PTX), *bad = edit_text(ptx, plants[_i].from, plants[_i].nth, plants[_i].to);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    gemm_result r =
        run_gemm(&(gemm_case){.ptx = bad, .m = 256, .n = 256, .k = 512, .seed = seed, .sm_count = 2});
    ck_assert_msg(r.status == ARKE_ERR_FAULT, "%s, seed %d: no fault (%s)", plants[_i].name, (int)seed,
                  r.err.text);
    ck_assert_msg((plants[_i].faults >> r.report.fault & 1) != 0, "%s, seed %d: %s", plants[_i].name,
                  (int)seed, r.report.text);
    ck_assert_msg(strstr(r.report.text, plants[_i].words) != NULL, "%s: no \"%s\" in: %s", plants[_i].name,
                  plants[_i].words, r.report.text);
  }
  free(bad);
  free(ptx);
}
END_TEST

START_TEST(unknown_instructions_are_named) {
  char *ptx = read_case(GEMM_PTX), *bad = edit_text(ptx, "setmaxnreg.dec.sync", 0, "setminnreg.dec.sync");
  gemm_result r = run_gemm(&(gemm_case){.ptx = bad, .m = 128, .n = 128, .k = 64});
  ck_assert_int_lt(r.status, 0);
  ck_assert_msg(strstr(r.err.text, "setminnreg") != NULL, "%s", r.err.text);
  free(bad);
  free(ptx);
}
END_TEST

START_TEST(tensor_past_its_allocation) {
  char *ptx = read_case(GEMM_PTX);
  gemm_result r = run_gemm(&(gemm_case){.ptx = ptx, .m = 128, .n = 128, .k = 64, .a_shift = 16});
  ck_assert_int_eq(r.report.fault, EMU_FAULT_OUT_OF_BOUNDS);
  ck_assert_msg(strstr(r.report.text, "tensor A + 16399 bytes, 15 bytes past its end") != NULL, "%s",
                r.report.text);
  free(ptx);
}
END_TEST

/* Every allocation of loading and running the kernel fails once, first densely, then in growing steps. */
START_TEST(allocations_may_fail) {
  char *ptx = read_case(GEMM_PTX);
  int failures = 0;
  for (long n = 0;; n += 1 + n / 8) {
    gemm_result r = run_gemm(&(gemm_case){.ptx = ptx, .m = 8, .n = 16, .k = 64, .seed = 1, .fail = n + 1});
    if (!r.failed_allocation) {
      ck_assert_msg(r.status == ARKE_OK, "%s", r.err.text);
      break;
    }
    ck_assert_msg(r.status == ARKE_ERR_MEMORY, "allocation %ld: %s %s", n, arke_status_name(r.status),
                  r.err.text);
    failures++;
  }
  ck_assert_int_gt(failures, 20);
  free(ptx);
}
END_TEST

TCase *emu_gemm_case(void) {
  TCase *c = tcase_create("gemm");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, product_is_right, 0, SEEDS * (int)COUNT_OF(shapes));
  tcase_add_loop_test(c, planted_faults_are_found, 0, (int)COUNT_OF(plants));
  tcase_add_test(c, unknown_instructions_are_named);
  tcase_add_test(c, tensor_past_its_allocation);
  tcase_add_test(c, allocations_may_fail);
  return c;
}
