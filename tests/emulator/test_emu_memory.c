/* Memory: every kind of access once right, and once breaking each rule. */
#include <string.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/emu_suites.h"

START_TEST(global_loads_and_stores_of_every_width) {
  small_result r = expect_clean(&(small_case){
      .body = "mul.wide.u32 d4, r0, 16; add.u64 d5, d0, d4; add.u64 d6, d1, d4;\n"
              "ld.global.v4.b32 {r2, r3, r4, r5}, [d5]; st.global.v4.b32 [d6], {r5, r4, r3, r2};\n"
              "ld.global.nc.b64 d7, [d5+8]; st.global.b64 [d6+512], d7;\n"
              "ld.global.u8 r6, [d5]; st.global.b32 [d6+520], r6;\n"
              "ld.global.s16 r7, [d5+4]; st.global.v2.b32 [d6+1024], {r7, r7};\n"});
  for (uint32_t t = 0; t < 32; t++) {
    for (uint32_t e = 0; e < 4; e++) ck_assert_uint_eq(r.out[4 * t + e], 4 * t + 3 - e);
    ck_assert_uint_eq(r.out[128 + 4 * t], 4 * t + 2);
    ck_assert_uint_eq(r.out[128 + 4 * t + 1], 4 * t + 3);
    ck_assert_uint_eq(r.out[128 + 4 * t + 2], 4 * t);
    ck_assert_uint_eq(r.out[256 + 4 * t + 1], 4 * t + 1);
  }
}
END_TEST

START_TEST(signed_loads_extend) {
  small_result r = expect_clean(&(small_case){
      .body =
          "mov.b32 r2, 0x0000FF80; st.shared.b32 [r1], r2; ld.shared.s8 r3, [r1]; ld.shared.s16 r4, [r1];\n"
          "ld.shared.u8 r5, [r1]; st.global.v2.b32 [d1], {r3, r4}; st.global.b32 [d1+8], r5;\n",
      .threads = 1,
      .smem_bytes = 16});
  ck_assert_uint_eq(r.out[0], 0xFFFFFF80);
  ck_assert_uint_eq(r.out[1], 0xFFFFFF80);
  ck_assert_uint_eq(r.out[2], 0x80);
}
END_TEST

START_TEST(out_of_bounds_names_the_tensor) {
  expect_fault(&(small_case){.body = "ld.global.b32 r2, [d0+4192];"}, EMU_FAULT_OUT_OF_BOUNDS,
               "in + 4192 bytes, 96 bytes past its end");
  expect_fault(&(small_case){.body = "st.global.v4.b32 [d1+4096], {r0, r0, r0, r0};"},
               EMU_FAULT_OUT_OF_BOUNDS, "out + 4096 bytes, 0 bytes past its end");
  expect_fault(&(small_case){.body = "mul.wide.u32 d4, r0, 4; sub.u64 d4, d0, d4; ld.global.b32 r2, [d4];"},
               EMU_FAULT_OUT_OF_BOUNDS, "in - 4 bytes, before its start");
  expect_fault(&(small_case){.body = "mov.b64 d4, 64; ld.global.b32 r2, [d4];"}, EMU_FAULT_OUT_OF_BOUNDS,
               "0x40");
  expect_fault(&(small_case){.body = "ld.shared.b32 r2, [r1+64];", .smem_bytes = 64}, EMU_FAULT_OUT_OF_BOUNDS,
               "end 4 bytes past the end of shared memory");
  expect_fault(&(small_case){.body = "mov.b32 r2, 16; st.shared.b32 [r2], r0;", .smem_bytes = 64},
               EMU_FAULT_OUT_OF_BOUNDS, "where user memory starts");
}
END_TEST

START_TEST(misaligned_access) {
  expect_fault(&(small_case){.body = "ld.global.b32 r2, [d0+2];"}, EMU_FAULT_MISALIGNED,
               "not a multiple of 4");
  expect_fault(&(small_case){.body = "ld.global.v2.b32 {r2, r3}, [d0+4];"}, EMU_FAULT_MISALIGNED,
               "not a multiple of 8");
  expect_fault(&(small_case){.body = "st.shared.v4.b32 [r1+8], {r0, r0, r0, r0};", .smem_bytes = 64},
               EMU_FAULT_MISALIGNED, "not a multiple of 16");
}
END_TEST

START_TEST(memory_nothing_wrote) {
  expect_fault(&(small_case){.body = "ld.global.b32 r2, [d1+12];"}, EMU_FAULT_UNINITIALISED,
               "tensor out + 12 bytes");
  expect_fault(&(small_case){.body = "ld.shared.b32 r2, [r1];", .smem_bytes = 64}, EMU_FAULT_UNINITIALISED,
               "smem + 0");
  /* a byte at a time */
  expect_fault(&(small_case){.body = "st.shared.b16 [r1], h0; ld.shared.b32 r2, [r1];", .smem_bytes = 64},
               EMU_FAULT_UNINITIALISED, "register");
  expect_fault(&(small_case){.body = "mov.b16 h0, 7; st.shared.b16 [r1], h0; ld.shared.b32 r2, [r1];",
                             .threads = 1,
                             .smem_bytes = 64},
               EMU_FAULT_UNINITIALISED, "smem + 2");
  expect_fault(&(small_case){.body = "add.u32 r3, r2, 1;"}, EMU_FAULT_UNINITIALISED, "r2");
  expect_fault(&(small_case){.body = "@p0 mov.u32 r3, 1;"}, EMU_FAULT_UNINITIALISED, "p0");
}
END_TEST

START_TEST(faults_say_where) {
  small_result r = run_small(
      &(small_case){.body = "\n\nsetp.eq.u32 p0, r0, 37;\n@p0 ld.global.b32 r2, [d0+2];", .threads = 64});
  ck_assert_int_eq(r.report.fault, EMU_FAULT_MISALIGNED);
  ck_assert_uint_eq(r.report.thread, 37);
  ck_assert_str_eq(r.report.kernel, "k");
  ck_assert(strstr(r.report.text, "thread 37 (warp 1)") != NULL);
  ck_assert(strstr(r.report.text, "ld.global.b32") != NULL);
  ck_assert_int_gt(r.report.ptx_line, 10);
}
END_TEST

START_TEST(generic_addresses_reach_every_space) {
  small_result r = expect_clean(&(small_case){
      .shared = ".local .align 8 .b8 stack[64];",
      .body = "cvt.u64.u32 d4, r1; cvta.shared.u64 d4, d4; mul.wide.u32 d5, r0, 4; add.u64 d4, d4, d5;\n"
              "st.b32 [d4], r0; ld.b32 r2, [d4]; mov.b64 d6, stack; cvta.local.u64 d6, d6;\n"
              "add.u32 r2, r2, 100; st.b32 [d6+8], r2; ld.local.b32 r3, [stack+8]; add.u64 d7, d1, d5;\n"
              "cvta.global.u64 d7, d7; st.b32 [d7], r3; ld.param.u64 d8, [arg1]; ld.b64 d9, [d2];\n",
      .smem_bytes = 128});
  for (uint32_t t = 0; t < 32; t++) ck_assert_uint_eq(r.out[t], 100 + t);
}
END_TEST

START_TEST(atomics_return_the_old_value) {
  small_result r = expect_clean(&(small_case){
      .body =
          "setp.eq.u32 p0, r0, 0; @p0 st.shared.b32 [r1], 0; @p0 st.global.b32 [d1], 5; bar.sync 0;\n"
          "atom.shared.add.u32 r2, [r1], 1; mul.wide.u32 d4, r2, 4; add.u64 d4, d1, d4;\n"
          "st.global.b32 [d4+256], r2; red.global.max.u32 [d1], r0; bar.sync 0;\n"
          "@p0 ld.shared.b32 r3, [r1]; @p0 atom.global.cas.b32 r4, [d1], 63, 7; @p0 st.global.b32 [d1+4], "
          "r3;\n"
          "@p0 mov.b32 f0, 0f3FC00000; @p0 st.global.b32 [d1+8], f0; @p0 red.global.add.f32 [d1+8], f0;\n",
      .threads = 64,
      .smem_bytes = 16});
  for (uint32_t t = 0; t < 64; t++) ck_assert_uint_eq(r.out[64 + t], t);
  ck_assert_uint_eq(r.out[0], 7);
  ck_assert_uint_eq(r.out[1], 64);
  ck_assert_uint_eq(r.out[2], 0x40400000);
}
END_TEST

START_TEST(parameters_are_read_only) {
  expect_fault(&(small_case){.body = "st.b32 [d2], r0;"}, EMU_FAULT_OUT_OF_BOUNDS, "read-only");
}
END_TEST

TCase *emu_memory_case(void) {
  TCase *c = tcase_create("memory");
  tcase_add_test(c, global_loads_and_stores_of_every_width);
  tcase_add_test(c, signed_loads_extend);
  tcase_add_test(c, out_of_bounds_names_the_tensor);
  tcase_add_test(c, misaligned_access);
  tcase_add_test(c, memory_nothing_wrote);
  tcase_add_test(c, faults_say_where);
  tcase_add_test(c, generic_addresses_reach_every_space);
  tcase_add_test(c, atomics_return_the_old_value);
  tcase_add_test(c, parameters_are_read_only);
  return c;
}
