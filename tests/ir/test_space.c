#include <string.h>

#include "ir/space.h"
#include "tests/ir/ir_suites.h"

static const space_param PARAMS[] = {{"BLOCK_M", "rows of a tile", 3, {64, 128, 256}},
                                     {"STAGES", "pipeline stages", 2, {3, 4}},
                                     {"SWAP", "order", 3, {-1, 0, 1}}};
static const space SPACE = {"gemm", 3, PARAMS};
static const config DEFAULTS = {{128, 4, 0}};

START_TEST(points_and_indices) {
  ck_assert_int_eq(space_size(&SPACE), 18);
  config last = {{0}};
  for (int64_t i = 0; i < 18; i++) {
    config c;
    space_point(&SPACE, i, &c);
    ck_assert_int_eq(space_index(&SPACE, &c), i);
    if (i > 0) {
      ck_assert(!config_equal(&SPACE, &c, &last));
      ck_assert(space_next(&SPACE, &last) && config_equal(&SPACE, &c, &last));
    }
    last = c;
  }
  ck_assert(!space_next(&SPACE, &last));
  config c;
  space_point(&SPACE, 0, &c);
  ck_assert(config_equal(&SPACE, &c, &(config){{64, 3, -1}}));
  space_point(&SPACE, 17, &c);
  ck_assert(config_equal(&SPACE, &c, &(config){{256, 4, 1}}));
  ck_assert_int_eq(space_index(&SPACE, &(config){{65, 3, 0}}), -1);
  ck_assert_int_eq(space_value(&SPACE, &c, "STAGES"), 4);
}
END_TEST

START_TEST(size_saturates) {
  space_param wide[LIMIT_PARAMS];
  for (int i = 0; i < LIMIT_PARAMS; i++) wide[i] = (space_param){.name = "P", .n_values = LIMIT_PARAM_VALUES};
  ck_assert_int_eq(space_size(&(space){"t", LIMIT_PARAMS, wide}), INT64_MAX);
}
END_TEST

START_TEST(text_both_ways) {
  strbuf out = STRBUF_INIT;
  for (int64_t i = 0; i < space_size(&SPACE); i++) {
    config c, back;
    space_point(&SPACE, i, &c);
    strbuf_clear(&out);
    config_print(&SPACE, &c, &out);
    ck_assert_int_eq(config_parse(&SPACE, strbuf_text(&out), &DEFAULTS, &back, NULL), ARKE_OK);
    ck_assert(config_equal(&SPACE, &c, &back));
  }
  ck_assert_str_eq(strbuf_text(&out), "BLOCK_M=256,STAGES=4,SWAP=1");
  strbuf_free(&out);
  config c;
  ck_assert_int_eq(config_parse(&SPACE, "", &DEFAULTS, &c, NULL), ARKE_OK);
  ck_assert(config_equal(&SPACE, &c, &DEFAULTS));
  ck_assert_int_eq(config_parse(&SPACE, "SWAP=-1,BLOCK_M=64", &DEFAULTS, &c, NULL), ARKE_OK);
  ck_assert(config_equal(&SPACE, &c, &(config){{64, 4, -1}}));
}
END_TEST

static const struct {
  const char *text, *error;
} BAD[] = {
    {"BLOCK_N=3",
     "unknown parameter 'BLOCK_N' of template gemm (did you mean BLOCK_M?); accepted: BLOCK_M, STAGES, "
     "SWAP"},
    {"BLOCK_M=65", "BLOCK_M=65: accepted are 64, 128, 256"},
    {"BLOCK_M=", "BLOCK_M=: accepted are 64, 128, 256"},
    {"BLOCK_M=64x", "BLOCK_M=64x: accepted are 64, 128, 256"},
    {"BLOCK_M=99999999999999999999", "BLOCK_M=99999999999999999999: accepted are 64, 128, 256"},
    {"SWAP=--1", "SWAP=--1: accepted are -1, 0, 1"},
    {"STAGES=3,STAGES=4", "STAGES is given twice"},
    {"STAGES", "'STAGES': NAME=VALUE,NAME=VALUE,… is accepted"},
    {"=3", "'=3': NAME=VALUE,NAME=VALUE,… is accepted"},
    {"STAGES=3,", "nothing after the last comma; NAME=VALUE is accepted"},
    {",STAGES=3", "'': NAME=VALUE,NAME=VALUE,… is accepted"},
};

START_TEST(bad_text) {
  config c = {{7, 7, 7}};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(config_parse(&SPACE, BAD[_i].text, &DEFAULTS, &c, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, BAD[_i].error);
  ck_assert_int_eq(c.values[0], 7); /* untouched */
}
END_TEST

Suite *space_suite(void) {
  Suite *s = suite_create("tiling spaces");
  TCase *t = tcase_create("space");
  tcase_add_test(t, points_and_indices);
  tcase_add_test(t, size_saturates);
  tcase_add_test(t, text_both_ways);
  tcase_add_loop_test(t, bad_text, 0, (int)COUNT_OF(BAD));
  suite_add_tcase(s, t);
  return s;
}
