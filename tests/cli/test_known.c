/* Which entries of a cache a sweep takes for done. */
#include "tests/cli/cli_suites.h"
#include "tuner/cli_known.h"

static const cache_environment H200 = {.device = "NVIDIA H200", .generator = "2"},
                               OLD = {.device = "NVIDIA H200", .generator = "1"},
                               H100 = {.device = "NVIDIA H100", .generator = "2"},
                               EMULATOR = {.device = "emulator", .generator = "2"},
                               MODEL = {.device = "model:NVIDIA H200", .generator = "2"};

static const struct {
  const cache_environment *from; /* of the entry */
  cache_origin origin;
  const char *policy;
  const cache_environment *here;
  bool measures, settles;
} CASES[] = {
    {&H200, CACHE_ORIGIN_MEASURED, "l2=cold", &H200, true, true},
    {&OLD, CACHE_ORIGIN_MEASURED, "l2=cold", &H200, true, false},
    {&H100, CACHE_ORIGIN_MEASURED, "l2=cold", &H200, true, false},
    {&H200, CACHE_ORIGIN_MEASURED, "l2=cold " TUNE_POLICY_INTERRUPTED, &H200, true, false},
    {&H200, CACHE_ORIGIN_MODELLED, "", &H200, true, false},
    /* measured, and here are only a model and an emulator */
    {&H200, CACHE_ORIGIN_MEASURED, "l2=cold", &MODEL, false, true},
    {&OLD, CACHE_ORIGIN_MEASURED, "l2=cold", &EMULATOR, false, true},
    {&H200, CACHE_ORIGIN_MEASURED, "l2=cold " TUNE_POLICY_INTERRUPTED, &MODEL, false, true},
    {&MODEL, CACHE_ORIGIN_MODELLED, "", &MODEL, false, true},
    {&MODEL, CACHE_ORIGIN_MODELLED, "", &EMULATOR, false, false},
    {&MODEL, CACHE_ORIGIN_MODELLED, TUNE_POLICY_INTERRUPTED, &MODEL, false, false},
};

START_TEST(entries_settle_what_no_search_here_would_better) {
  const tune_options options = {0};
  const cache_entry e = {.problem = {.bucket = "M=1..64"},
                         .environment = *CASES[_i].from,
                         .winner = {.origin = CASES[_i].origin, .policy = CASES[_i].policy}};
  ck_assert_int_eq(cli_known_settles(&e, "M=1..64", &options, CASES[_i].here, CASES[_i].measures),
                   CASES[_i].settles);
  ck_assert(!cli_known_settles(&e, "", &options, CASES[_i].here, CASES[_i].measures));
}
END_TEST

TCase *cli_known_case(void) {
  TCase *t = tcase_create("known");
  tcase_add_loop_test(t, entries_settle_what_no_search_here_would_better, 0, COUNT_OF(CASES));
  return t;
}
