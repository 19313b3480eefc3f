/* One problem for the whole tuner with a template of planted.h, in a folder of its own, and what it left in
 * log and cache. Whatever goes wrong fails the test at hand. */
#ifndef ARKE_TESTS_TUNING_FIXTURE_H
#define ARKE_TESTS_TUNING_FIXTURE_H

#include <sys/types.h>

#include "tests/tuner/planted.h"

typedef struct fixture {
  char folder[64], cache_path[96], log_path[96];
  arena a;
  ir_problem problem;
  tune_options options; /* exhaustive, 3 compile workers, `planted` */
  tune_result result;
  arke_error err;
} fixture;

void open_fixture(fixture *f, tune_device_kind kind, const char *bindings);
void close_fixture(fixture *f);
/* One session, one problem; the result stays in the fixture. */
arke_status tune(fixture *f);
/* The same in a child, which exits with 0, with 130 after an interrupt that left a winner, or else with 1. */
pid_t tune_in_child(fixture *f);

double now_s(void);

/* What was lowered: a line for each kernel. */
typedef struct log_counts {
  int total, kinds[PLANTED_COUNT];
} log_counts;
log_counts read_log(const fixture *f);
/* Until the log has so many. */
void wait_for_log(const fixture *f, int lines);

typedef struct trial_list {
  int n;
  struct {
    int kind, block, speed;
    cache_outcome outcome;
    char reason[1024];
    double median_ns;
  } list[256];
} trial_list;
/* Stored trials of the only problem in the file. */
trial_list read_trials(const fixture *f, const char *device_name);
int find_trial(const trial_list *l, int kind, int block, int speed);

/* What each planted kind does. */
extern const char *const planted_meanings[];
/* Of `planted` each faulty kind was met once and has the outcome of the table, with a reason; and `good` ones
 * were right. */
void check_outcomes(const trial_list *l, bool gpu, int good);

/* None of this program's worker processes is left. */
void check_no_workers(void);

#endif
