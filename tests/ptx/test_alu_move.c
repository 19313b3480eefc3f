/* Moves, selection, comparison and addresses. */
#include <stdio.h>
#include <string.h>

#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

/* Lane l of register k holds a value that tells both. */
static one_warp *filled(const char *text) {
  one_warp *w = one_warp_new(text);
  for (uint64_t l = 0; l < PTX_LANES; l++)
    for (int k = 0; k < 8; k++) {
      char h[4] = "%h0", r[4] = "%r0", d[4] = "%d0";
      h[2] = r[2] = d[2] = (char)('0' + k);
      one_warp_value(w, h)[l] = (0xa000u + (unsigned)k * 256 + l) & 0xffff;
      one_warp_value(w, r)[l] = 0xb0000000u + (unsigned)k * 0x10000 + l;
      one_warp_value(w, d)[l] = 0xc000000000000000u + (unsigned)k * 0x100000000u + l;
    }
  return w;
}

static const struct {
  const char *text, *result;
  uint64_t expected; /* in lane 3 */
} MOVES[] = {
    {"mov.b32 %r0, %r2;", "%r0", 0xb0020003},
    {"mov.u16 %h0, %h2;", "%h0", 0xa203},
    {"mov.f64 %d0, %d2;", "%d0", 0xc000000200000003},
    {"mov.b32 %r0, -1;", "%r0", 0xffffffff},
    {"mov.b16 %h0, -1;", "%h0", 0xffff},
    {"mov.b64 %d0, -1;", "%d0", 0xffffffffffffffff},
    {"mov.b64 %d0, 4611686293305360384;", "%d0", 4611686293305360384},
    {"mov.u64 %d0, 0xffffffffffffffffU;", "%d0", 0xffffffffffffffff},
    {"mov.b32 %r0, 017;", "%r0", 15},
    {"mov.b32 %r0, 0b101;", "%r0", 5},
    {"mov.f32 %r0, 0f3F800000;", "%r0", 0x3f800000},
    {"mov.f32 %r0, -1.0;", "%r0", 0xbf800000},
    {"mov.f64 %d0, 0d3FF0000000000000;", "%d0", 0x3ff0000000000000},
    {"mov.f64 %d0, 2.5e0;", "%d0", 0x4004000000000000},
    {"mov.u32 %r0, %tid.x;", "%r0", 3},
    {"mov.u32 %r0, %ntid.x;", "%r0", 32},
    {"mov.u64 %d0, %clock64;", "%d0", 0x123456789abcdef0},
    {"mov.u32 %r0, WARP_SZ;", "%r0", 32},
    {"mov.u64 %d0, smem;", "%d0", 0x400},
    {"mov.u32 %r0, smem;", "%r0", 0x400},
    {"mov.b64 %d0, param;", "%d0", 0},
    {"mov.b32 %r0, {%h2, %h3};", "%r0", 0xa303a203},
    {"mov.b64 %d0, {%r2, %r3};", "%d0", 0xb0030003b0020003},
    {"mov.b64 %d0, {%h1, %h2, %h3, %h4};", "%d0", 0xa403a303a203a103},
    {"mov.b64 %d0, {%r2, 7};", "%d0", 0x00000007b0020003},
    {"mov.b32 {%h0, %h1}, %r2;", "%h0", 0x0003},
    {"mov.b32 {%h0, %h1}, %r2;", "%h1", 0xb002},
    {"mov.b64 {%r0, %r1}, %d2;", "%r1", 0xc0000002},
    {"mov.b64 {_, %r1}, %d2;", "%r1", 0xc0000002},
    {"mov.b64 {%h0, %h1, %h2, %h3}, %d2;", "%h2", 0x0002},
    {"mov.b32 {%h0, %h1}, %r2; mov.b32 %r0, {%h1, %h0};", "%r0", 0x0003b002},
    {"mov.b128 %q0, {%d1, %d2}; mov.b128 %q1, %q0; mov.b128 {%d3, %d4}, %q1;", "%d3", 0xc000000100000003},
    {"mov.b128 %q0, {%d1, %d2}; mov.b128 %q1, %q0; mov.b128 {%d3, %d4}, %q1;", "%d4", 0xc000000200000003},
    {"{ .reg .b32 %r<2>; .reg .b32 t; mov.b32 t, 5; mov.b32 %r1, t; } mov.b32 %r0, %r1;", "%r0", 0xb0010003},
    {"{ .reg .b32 t; mov.b32 t, 5; { .reg .b32 t; mov.b32 t, 6; } mov.b32 %r0, t; }", "%r0", 5},
    {"setp.eq.s32 %p0, %r1, %r1; selp.b32 %r0, %r2, 9, %p0;", "%r0", 0xb0020003},
    {"setp.eq.s32 %p0, %r1, %r2; selp.b64 %d0, %d2, 9, %p0;", "%d0", 9},
    {"setp.eq.s32 %p0, %r1, %r2; selp.f32 %r0, %r2, 0f40000000, !%p0;", "%r0", 0xb0020003},
    {"slct.u32.s32 %r0, 1, 2, -5;", "%r0", 2},
    {"slct.u32.s32 %r0, 1, 2, 0;", "%r0", 1},
    {"slct.u64.f32 %d0, %d1, %d2, 0f80000000;", "%d0", 0xc000000100000003},
    {"slct.b32.f32 %r0, 1, 2, 0fBF800000;", "%r0", 2},
    {"slct.b32.f32 %r0, 1, 2, 0f7FC00000;", "%r0", 2},
    {"set.lt.u32.s32 %r0, -1, 1;", "%r0", 0xffffffff},
    {"set.lt.u32.u32 %r0, -1, 1;", "%r0", 0},
    {"set.eq.f32.s32 %r0, 4, 4;", "%r0", 0x3f800000},
    {"set.eq.f16x2.f16x2 %r0, %r1, %r1;", "%r0", 0x3c003c00},
    {"cvta.shared.u64 %d0, %d1;", "%d0", 0x3000000100000003},
    {"cvta.to.shared.u64 %d0, 0x7000000000000410;", "%d0", 0x410},
    {"cvta.to.global.u64 %d0, %d1;", "%d0", 0xc000000100000003},
    {"cvta.shared.u64 %d0, smem;", "%d0", 0x7000000000000400},
    {"cvta.param.u64 %d0, param;", "%d0", 0x7200000000000000},
};

static void check_move(int row) {
  one_warp *w = filled(MOVES[row].text);
  one_warp_must_run(w, PTX_FULL_MASK);
  uint64_t got = one_warp_value(w, MOVES[row].result)[3];
  ck_assert_msg(got == MOVES[row].expected, "%s: %#lx, expected %#lx", MOVES[row].text, (unsigned long)got,
                (unsigned long)MOVES[row].expected);
  one_warp_free(w);
}

START_TEST(moves_and_selections) {
  for (int row = 0; row < (int)COUNT_OF(MOVES); row++) check_move(row);
}
END_TEST

static const struct {
  const char *text;
  bool expected; /* of %p0 */
} COMPARES[] = {
    {"setp.eq.b32 %p0, 5, 5;", true},
    {"setp.ne.b64 %p0, 5, 5;", false},
    {"setp.lt.s32 %p0, -1, 1;", true},
    {"setp.lt.u32 %p0, -1, 1;", false},
    {"setp.lo.u32 %p0, 1, -1;", true},
    {"setp.ls.u32 %p0, 1, 1;", true},
    {"setp.hi.u64 %p0, -1, 1;", true},
    {"setp.hs.u16 %p0, 1, -1;", false},
    {"setp.ge.s16 %p0, -1, 1;", false},
    {"setp.gt.s64 %p0, 1, -1;", true},
    {"setp.le.s32 %p0, 1, 1;", true},
    {"setp.lt.f32 %p0, 0f7FC00000, 0f3F800000;", false},
    {"setp.ltu.f32 %p0, 0f7FC00000, 0f3F800000;", true},
    {"setp.ne.f32 %p0, 0f7FC00000, 0f3F800000;", false},
    {"setp.neu.f32 %p0, 0f7FC00000, 0f3F800000;", true},
    {"setp.equ.f32 %p0, 0f7FC00000, 0f3F800000;", true},
    {"setp.geu.f32 %p0, 0f00000000, 0f3F800000;", false},
    {"setp.gtu.f32 %p0, 0f40000000, 0f3F800000;", true},
    {"setp.leu.f32 %p0, 0f40000000, 0f3F800000;", false},
    {"setp.num.f32 %p0, 0f7F800000, 0f3F800000;", true},
    {"setp.nan.f32 %p0, 0f7F800000, 0f7F800001;", true},
    {"setp.eq.f32 %p0, 0f80000000, 0f00000000;", true},
    {"setp.eq.f32 %p0, 0f00000001, 0f00000000;", false},
    {"setp.eq.ftz.f32 %p0, 0f00000001, 0f00000000;", true},
    {"setp.gt.f64 %p0, 0d4000000000000000, 0d3FF0000000000000;", true},
    {"mov.b16 %h0, 0x3C00; mov.b16 %h1, 0x4000; setp.lt.f16 %p0, %h0, %h1;", true},
    {"mov.b16 %h0, 0x3F80; mov.b16 %h1, 0xBF80; setp.gt.bf16 %p0, %h0, %h1;", true},
    {"setp.eq.and.s32 %p0, 1, 1, %p7;", true},
    {"setp.eq.and.s32 %p0, 1, 1, !%p7;", false},
    {"setp.eq.or.s32 %p0, 1, 2, %p7;", true},
    {"setp.eq.xor.s32 %p0, 1, 1, %p7;", false},
    {"setp.eq.s32 %p1|%p0, 1, 1;", false}, /* the second is the opposite */
    {"setp.eq.and.s32 %p1|%p0, 1, 2, %p7;", true},
    {"setp.eq.s32 _|%p0, 1, 2;", true},
    {"mov.b32 %r0, 0x3C003C00; mov.b32 %r1, 0x40003C00; setp.lt.f16x2 %p1|%p0, %r0, %r1;",
     true}, /* lower halves | upper halves */
    {"mov.b32 %r0, 0x3C003C00; mov.b32 %r1, 0x40003C00; setp.lt.f16x2 %p0|%p1, %r0, %r1;", false},
    {"and.pred %p0, %p7, %p7;", true},
    {"and.pred %p0, %p7, %p6;", false},
    {"or.pred %p0, %p6, %p7;", true},
    {"xor.pred %p0, %p7, %p7;", false},
    {"not.pred %p0, %p6;", true},
    {"mov.pred %p0, -1;", true},
    {"mov.pred %p0, 0;", false},
    {"mov.pred %p0, %p7;", true},
    {"testp.finite.f32 %p0, 0f7F800000;", false},
    {"testp.infinite.f32 %p0, 0fFF800000;", true},
    {"testp.number.f32 %p0, 0f7F800000;", true},
    {"testp.notanumber.f32 %p0, 0f7FC00000;", true},
    {"testp.normal.f32 %p0, 0f00000001;", false},
    {"testp.subnormal.f32 %p0, 0f80000001;", true},
    {"testp.subnormal.f64 %p0, 0d0000000000000000;", false},
    {"testp.normal.f64 %p0, 0d3FF0000000000000;", true},
    {"lop3.or.b32 %r0|%p0, 0, 0, 0, 0x80, %p6;", false},
    {"lop3.or.b32 %r0|%p0, 1, 1, 1, 0x80, %p6;", true},
    {"lop3.and.b32 _|%p0, 1, 1, 1, 0x80, %p6;", false},
    {"isspacep.shared %p0, %d1;", false},
    {"mov.b64 %d1, 0x7000000000000400; isspacep.shared %p0, %d1;", true},
    {"mov.b64 %d1, 0x7000000001000400; isspacep.shared %p0, %d1;", false},
    {"mov.b64 %d1, 0x7000000001000400; isspacep.shared::cluster %p0, %d1;", true},
    {"mov.b64 %d1, 0x7000000001000400; isspacep.global %p0, %d1;", false},
    {"isspacep.global %p0, %d1;", true},
    {"mov.pred %p0, %is_explicit_cluster;", true},
};

static void check_comparison(int row) {
  one_warp *w = filled(COMPARES[row].text);
  one_warp_set_predicate(w, "%p6", 0);
  one_warp_set_predicate(w, "%p7", PTX_FULL_MASK);
  one_warp_set_predicate(w, "%p0", COMPARES[row].expected ? 0 : PTX_FULL_MASK);
  one_warp_must_run(w, PTX_FULL_MASK);
  ck_assert_msg(one_warp_predicate(w, "%p0") == (COMPARES[row].expected ? PTX_FULL_MASK : 0), "%s: %#x",
                COMPARES[row].text, one_warp_predicate(w, "%p0"));
  one_warp_free(w);
}

START_TEST(comparisons_and_predicates) {
  for (int row = 0; row < (int)COUNT_OF(COMPARES); row++) check_comparison(row);
}
END_TEST

START_TEST(comparisons_are_by_lane) {
  one_warp *w = filled("mov.u32 %r0, %tid.x; setp.lt.u32 %p0|%p1, %r0, 5;");
  one_warp_set_predicate(w, "%p0", 0xf0000000);
  one_warp_must_run(w, 0x0fffffff);
  ck_assert_uint_eq(one_warp_predicate(w, "%p0"), 0xf000001f);
  ck_assert_uint_eq(one_warp_predicate(w, "%p1"), 0x0fffffe0);
  ck_assert_uint_eq(w->warp.registers.predicate_written[one_warp_slot(w, "%p1") & ~PTX_USE_PREDICATE],
                    0x0fffffff);
  one_warp_free(w);
}
END_TEST

Suite *alu_move_suite(void) {
  Suite *s = suite_create("alu_move");
  TCase *t = tcase_create("moves");
  tcase_add_test(t, moves_and_selections);
  tcase_add_test(t, comparisons_and_predicates);
  tcase_add_test(t, comparisons_are_by_lane);
  suite_add_tcase(s, t);
  return s;
}
