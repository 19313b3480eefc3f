/* shfl, vote, match, redux, elect, activemask: results lane by lane, and what breaks their rules. */
#include <string.h>

#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

static one_warp *numbered(const char *text) {
  one_warp *w = one_warp_new(text);
  for (uint64_t l = 0; l < PTX_LANES; l++) {
    one_warp_value(w, "%r1")[l] = 100 + l;
    one_warp_value(w, "%r2")[l] = l % 4;
    one_warp_value(w, "%d1")[l] = (l / 8) << 40;
    one_warp_value(w, "%r3")[l] = l == 7 ? 0x7fc00000 : 0x3f800000 + (uint32_t)l; /* floats, one NaN */
  }
  one_warp_set_predicate(w, "%p1", 0x00ff00ff);
  return w;
}

/* What lane l gets, and its range predicate, from the definition in the PTX ISA written out per mode. */
typedef struct shuffled {
  int from;
  bool in_range;
} shuffled;

static shuffled up_3(int l) {
  return l >= 3 ? (shuffled){l - 3, true} : (shuffled){l, false};
}
static shuffled down_3(int l) {
  return l + 3 <= 31 ? (shuffled){l + 3, true} : (shuffled){l, false};
}
static shuffled bfly_5(int l) {
  return (shuffled){l ^ 5, true};
}
static shuffled idx_9(int l) {
  (void)l;
  return (shuffled){9, true};
}
static shuffled down_2_in_eights(int l) {
  return l % 8 + 2 < 8 ? (shuffled){l + 2, true} : (shuffled){l, false};
}
static shuffled up_1_in_fours(int l) {
  return l % 4 >= 1 ? (shuffled){l - 1, true} : (shuffled){l, false};
}
static shuffled idx_3_in_eights(int l) {
  return (shuffled){l / 8 * 8 + 3, true};
}
static shuffled idx_own(int l) {
  return (shuffled){l % 4, true};
}

static const struct {
  const char *text;
  shuffled (*expected)(int lane);
} SHUFFLES[] = {
    {"shfl.sync.up.b32 %r0|%p0, %r1, 3, 0, -1;", up_3},
    {"shfl.sync.down.b32 %r0|%p0, %r1, 3, 31, -1;", down_3},
    {"shfl.sync.bfly.b32 %r0|%p0, %r1, 5, 31, -1;", bfly_5},
    {"shfl.sync.idx.b32 %r0|%p0, %r1, 9, 31, 0xffffffff;", idx_9},
    {"shfl.sync.down.b32 %r0|%p0, %r1, 2, 0x181f, -1;", down_2_in_eights},
    {"shfl.sync.up.b32 %r0|%p0, %r1, 1, 0x1c00, -1;", up_1_in_fours},
    {"shfl.sync.idx.b32 %r0|%p0, %r1, 3, 0x181f, -1;", idx_3_in_eights},
    {"shfl.sync.idx.b32 %r0|%p0, %r1, %r2, 31, -1;", idx_own},
};

static void check_shuffle(int row) {
  one_warp *w = numbered(SHUFFLES[row].text);
  one_warp_must_run(w, PTX_FULL_MASK);
  for (int l = 0; l < PTX_LANES; l++) {
    shuffled e = SHUFFLES[row].expected(l);
    ck_assert_msg(one_warp_value(w, "%r0")[l] == 100u + (unsigned)e.from &&
                      (one_warp_predicate(w, "%p0") >> l & 1) == e.in_range,
                  "%s: lane %d got %lu", SHUFFLES[row].text, l, (unsigned long)one_warp_value(w, "%r0")[l]);
  }
  one_warp_free(w);
}

START_TEST(shuffles) {
  for (int row = 0; row < (int)COUNT_OF(SHUFFLES); row++) check_shuffle(row);
}
END_TEST

static const struct {
  const char *text;
  uint32_t active;
  const char *result; /* data register or predicate */
  int lane;
  uint64_t expected; /* value, or the lanes of the predicate */
} ROWS[] = {
    {"vote.sync.ballot.b32 %r0, %p1, -1;", PTX_FULL_MASK, "%r0", 5, 0x00ff00ff},
    {"vote.sync.ballot.b32 %r0, !%p1, 0xffff;", 0xffff, "%r0", 5, 0xff00},
    {"vote.sync.all.pred %p0, %p1, 0xff;", 0xff, "%p0", 0, 0xff},
    {"vote.sync.all.pred %p0, %p1, 0x1ff;", 0x1ff, "%p0", 0, 0},
    {"vote.sync.any.pred %p0, %p1, 0xff00;", 0xff00, "%p0", 0, 0},
    {"vote.sync.any.pred %p0, %p1, 0x1ff00;", 0x1ff00, "%p0", 0, 0x1ff00},
    {"vote.sync.uni.pred %p0, %p1, 0xff00;", 0xff00, "%p0", 0, 0xff00},
    {"vote.sync.uni.pred %p0, %p1, -1;", PTX_FULL_MASK, "%p0", 0, 0},
    {"match.any.sync.b32 %r0, %r2, -1;", PTX_FULL_MASK, "%r0", 6, 0x44444444},
    {"match.any.sync.b64 %r0, %d1, -1;", PTX_FULL_MASK, "%r0", 9, 0x0000ff00},
    {"match.all.sync.b32 %r0|%p0, %r2, -1;", PTX_FULL_MASK, "%r0", 6, 0},
    {"match.all.sync.b64 %r0|%p0, %d1, 0xff;", 0xff, "%r0", 6, 0xff},
    {"match.all.sync.b64 %r0|%p0, %d1, 0xff;", 0xff, "%p0", 0, 0xff},
    {"match.all.sync.b32 %r0, %r2, -1;", PTX_FULL_MASK, "%r0", 6, 0},
    {"redux.sync.add.u32 %r0, %r1, -1;", PTX_FULL_MASK, "%r0", 31, 32 * 100 + 31 * 16},
    {"redux.sync.add.s32 %r0, %r1, 0xf0;", 0xf0, "%r0", 4, 104 + 105 + 106 + 107},
    {"redux.sync.min.u32 %r0, %r1, -1;", PTX_FULL_MASK, "%r0", 3, 100},
    {"redux.sync.max.s32 %r0, %r1, -1;", PTX_FULL_MASK, "%r0", 3, 131},
    {"redux.sync.and.b32 %r0, %r1, -1;", PTX_FULL_MASK, "%r0", 3, 0},
    {"redux.sync.or.b32 %r0, %r1, -1;", PTX_FULL_MASK, "%r0", 3, 0xff},
    {"redux.sync.xor.b32 %r0, %r1, 0x3;", 0x3, "%r0", 1, 1},
    {"redux.sync.max.f32 %r0, %r3, -1;", PTX_FULL_MASK, "%r0", 1, 0x3f80001f},
    {"redux.sync.min.f32 %r0, %r3, -1;", PTX_FULL_MASK, "%r0", 1, 0x3f800000},
    {"redux.sync.min.NaN.f32 %r0, %r3, -1;", PTX_FULL_MASK, "%r0", 1, 0x7fffffff},
    {"elect.sync %r0|%p0, -1;", PTX_FULL_MASK, "%p0", 0, 1},
    {"elect.sync %r0|%p0, 0xf0;", 0xf0, "%p0", 0, 0x10},
    {"elect.sync %r0|%p0, 0xf0;", 0xf0, "%r0", 6, 4},
    {"elect.sync _|%p0, -1;", PTX_FULL_MASK, "%p0", 0, 1},
    {"activemask.b32 %r0;", 0x0f0f, "%r0", 2, 0x0f0f},
};

static void check_exchange(int row) {
  one_warp *w = numbered(ROWS[row].text);
  one_warp_must_run(w, ROWS[row].active);
  uint64_t got = ROWS[row].result[1] == 'p' ? one_warp_predicate(w, ROWS[row].result)
                                            : one_warp_value(w, ROWS[row].result)[ROWS[row].lane];
  ck_assert_msg(got == ROWS[row].expected, "%s: %#lx, expected %#lx", ROWS[row].text, (unsigned long)got,
                (unsigned long)ROWS[row].expected);
  one_warp_free(w);
}

START_TEST(exchanges) {
  for (int row = 0; row < (int)COUNT_OF(ROWS); row++) check_exchange(row);
}
END_TEST

static const struct {
  const char *text;
  uint32_t active, exited;
  const char *message; /* NULL: no fault */
} RULES[] = {
    {"shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", 0xffff, 0,
     "the member mask 0xffffffff names lane 16, which is not here with the others (0xffff)"},
    {"shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", 0xffff, 0xffff0000, NULL},
    {"shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1;", 0xffff, 0xffff0000,
     "lane 0 reads from lane 16, which does not execute it"},
    {"shfl.sync.idx.b32 %r0, %r1, 0, 31, 0xff;", 0x1ff, 0,
     "lane 8 executes it but is not in the member mask 0xff"},
    {"shfl.sync.idx.b32 %r0, %r1, 0, 31, %r1;", 0x3, 0,
     "lanes give different member masks: 0x64 in lane 0, 0x65 in lane 1"},
    {"vote.sync.all.pred %p0, %p1, 0x3;", 1, 0,
     "the member mask 0x3 names lane 1, which is not here with the others (0x1)"},
    {"elect.sync _|%p0, -1;", 1, 0,
     "the member mask 0xffffffff names lane 1, which is not here with the others (0x1)"},
    {"redux.sync.add.u32 %r0, %r1, -1;", 0xfffffffe, 1, NULL},
    {"@%p1 match.any.sync.b32 %r0, %r1, -1;", PTX_FULL_MASK, 0,
     "the member mask 0xffffffff names lane 8, which is not here with the others (0xff00ff)"},
};

static void check_rule(int row) {
  alu_fault fault = {.fault = EMU_FAULT_NONE};
  one_warp *w = numbered(RULES[row].text);
  w->warp.exited = RULES[row].exited;
  bool ok = one_warp_run(w, RULES[row].active, &fault);
  ck_assert_int_eq(ok, RULES[row].message == NULL);
  if (!ok) {
    ck_assert_int_eq(fault.fault, EMU_FAULT_DIVERGENCE);
    ck_assert_str_eq(fault.text, RULES[row].message);
  }
  one_warp_free(w);
}

START_TEST(member_masks_are_checked) {
  for (int row = 0; row < (int)COUNT_OF(RULES); row++) check_rule(row);
}
END_TEST

Suite *alu_lanes_suite(void) {
  Suite *s = suite_create("alu_lanes");
  TCase *t = tcase_create("lanes");
  tcase_add_test(t, shuffles);
  tcase_add_test(t, exchanges);
  tcase_add_test(t, member_masks_are_checked);
  suite_add_tcase(s, t);
  return s;
}
