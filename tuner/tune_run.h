/* One problem being tuned: its candidates, its trials, and the steps of tune_problem, each in a file of its
 * own. */
#ifndef ARKE_TUNER_TUNE_RUN_H
#define ARKE_TUNER_TUNE_RUN_H

#include "tuner/candidates.h"
#include "tuner/search.h"
#include "tuner/tune_session.h"
#include "tuner/verify.h"

#define TUNE_LONG_S 30.0 /* budgets from here on have longer finals */
#define TUNE_FAMILY 3    /* finalists of one family */
/* Ends the reason of a trial whose worker died or hung again when a later run tried it. */
#define TUNE_CONFIRMED "; so in an earlier run too"
#define TUNE_KEPT      36 /* trials whose kernels stay in memory: the finalists and some to replace them */

typedef enum tune_trial_state {
  TRIAL_WAITING, /* to be compiled, once more */
  TRIAL_COMPILING,
  TRIAL_READY, /* compiled, waits for a device */
  TRIAL_RUNNING,
  TRIAL_OVER,    /* has an outcome */
  TRIAL_DROPPED, /* the time ran out before it had one */
} tune_trial_state;

typedef struct tune_trial {
  struct tune_run *run;
  int64_t index; /* in run->candidates.ranked */
  tune_trial_state state;
  bool resumed;     /* its outcome is from the cache */
  bool renewed;     /* or was, until this run changed it */
  bool tried_again; /* its worker died or hung before, in this run */
  bool doubted;     /* the same in an earlier run, which is checked now */
  bool vast;        /* of tune_run_verify_leading: its small problem is not small */
  cache_outcome outcome;
  char config[LIMIT_CONFIG_BYTES];
  char *reason;   /* malloc'ed; NULL: none */
  double rank_ns; /* time corrected for drift, else the model's */
  cache_time time;
  tune_check check;
  char ptx_sha256[SHA256_HEX_SIZE];
  char identity[SHA256_HEX_SIZE]; /* of PTX and recipe: two trials that share it are the same kernel */
  double lower_ms, assemble_ms;
  int registers, spill_bytes;
  int ways_left_out; /* of the image below (lower_options.first_way_only); 0: it is whole */
  tune_blob ptx, recipe, cubin, llvm_ir;  /* kept for the leading trials only */
  bool completing;                        /* its whole image is being compiled before it is asked for */
  tune_message whole;                     /* the worker's answer to that; no body: none */
  void (*compiled)(struct tune_trial *t); /* called when COMPILING ends, well or not; NULL: nobody waits */
  void (*ran)(struct tune_trial *t);      /* called when RUNNING ends */
} tune_trial;

typedef struct tune_run {
  tune_session *session;
  const ir_problem *problem;
  tune_progress_fn fn;
  void *user;
  arena *arena; /* the caller's, for the result; NULL while the run is only prepared */
  arena memory; /* the run's own, for what follows */
  const char *op_text, *bindings, *key;
  const char *ptx;                     /* PTX version and variant, as in the key */
  cache_id problem_id, environment_id; /* 0: nothing is stored */
  tune_candidates candidates;
  tune_search *search;        /* NULL until trials begin */
  bool seeded;                /* with winners of nearby problems, since nothing was known of this one */
  int64_t planned;            /* most trials, for progress */
  struct tune_bounds *bounds; /* of tune_bound.c; NULL: not asked for yet */
  tune_trial **trials;        /* in the order they began */
  int n_trials, capacity;
  /* Of an exhaustive search the most by far are over, and each step would look at all of them. */
  int n_settled;               /* the first so many are over */
  double settled_best_ns;      /* the fastest measured one of those; 0: none */
  tune_trial *kept[TUNE_KEPT]; /* have kernels, fastest first */
  int n_kept;
  double begin_s, last_progress_s;
  double clock_s; /* since when the budget is used; 0: it is whole yet */
  double compile_begin_s, compile_end_s;
  int compilations, lost_workers; /* lost: in a row, for no candidate's fault */
  double complete_s;              /* estimated for compiling a whole image; 0 where trials are whole */
  int incomplete;                 /* winners whose whole image failed */
  bool prepared, preparing;       /* the device was asked to make the problem's tensors; it is still at it */
  const char *policy, *warning;
  int64_t *doubted; /* candidates whose stored outcome is checked */
  int n_doubted;
  arke_status status; /* of the run itself: a device that cannot be used, a full disk */
  arke_error error;
} tune_run;

double tune_now_s(void);
/* From here on the budget is used: nothing could be measured before. The first call counts. */
void tune_run_start_clock(tune_run *run);
/* Seconds until the budget ends less `reserve`; INFINITY without a budget. */
double tune_run_left_s(const tune_run *run, double reserve);
bool tune_run_measures(const tune_run *run);
/* Interrupted, or failed as a whole. */
bool tune_run_stopped(const tune_run *run);
void tune_run_fail(tune_run *run, arke_status status, const char *stage, const char *text);
/* At most ten times a second unless the phase is new. */
void tune_run_progress(tune_run *run, tune_phase phase, bool now);

/* --- opening (tune_open.c) --- */

/* NULL: out of memory. */
tune_run *tune_run_create(tune_session *s, const ir_problem *p);
/* What still compiles of it is forgotten. NULL is allowed. */
void tune_run_destroy(tune_run *run);
/* Prunes and ranks. */
arke_status tune_run_rank(tune_run *run, arke_error *err);
/* Opens the cache's rows and the search, with what is known already. */
arke_status tune_run_open(tune_run *run, arke_error *err);
/* How the search goes about it. `trials`: as in tune_options. */
tune_search_plan tune_run_plan(const tune_run *run, int trials);

/* --- the next problem (tune_ahead.c) --- */

/* Ranks the problem the session expects and lets idle workers compile its first candidates. Where that fails,
 * its own turn will tell. */
void tune_ahead_start(tune_session *s);
/* Lets those work that have become idle: to be called while something else is waited for. */
void tune_ahead_go_on(tune_session *s);
/* The run made ready for the problem, from now on the caller's, or NULL. One for another problem is given up.
 */
tune_run *tune_ahead_take(tune_session *s, const ir_problem *p);

/* --- trials (tune_trials.c) --- */

/* A new trial of candidate `index`; NULL when memory is out (the run has then failed). */
tune_trial *tune_trial_begin(tune_run *run, int64_t index);
const kernel_template *tune_trial_template(const tune_trial *t);
double tune_trial_model_ns(const tune_trial *t);
/* Gives it its outcome: stored at once, told to the search. `reason` may be NULL. */
void tune_trial_finish(tune_trial *t, cache_outcome outcome, const char *reason);
/* Stores it again with a new outcome (a modelled one that was verified, a finalist that failed). */
void tune_trial_change(tune_trial *t, cache_outcome outcome, const char *reason);
bool tune_trial_has_kernel(const tune_trial *t);
void tune_trial_forget_kernel(tune_trial *t);
int tune_trial_family(const tune_trial *t);
void tune_trials_release(tune_run *run);

/* --- compiling (tune_compile.c) --- */

/* Sends the trial to an idle compile worker; t->compiled is called later, with t->state READY or OVER. */
void tune_compile_start(tune_trial *t);
/* Compiles again those of the trials that have no kernel, and waits. One that now fails becomes OVER with its
 * outcome and still has none. */
void tune_compile_missing(tune_run *run, tune_trial **list, int n);
/* Asks an idle compile worker for the trial's kernel; changes nothing in the trial. */
arke_status tune_compile_submit(const tune_trial *t, bool first_way_only, tune_reply_fn fn, void *user,
                                arke_error *err);
/* The outcome and the reason of a compilation that failed; CACHE_LOWERED when it did not. What the machine
 * lacked is no outcome of the candidate's: *status then says what. */
cache_outcome tune_compile_judge(const tune_reply *reply, const char **reason, arke_status *status);
/* Gives the trial the answer's image and recipe in place of its own. */
void tune_compile_take_image(tune_trial *t, tune_message *m);
/* Whether a trial that ended so shall be tried once more; counts it. */
bool tune_trial_try_again(tune_trial *t, cache_outcome outcome);

/* --- running on a device (tune_device.c) --- */

/* The problem that stands for the trial's where all of it would take too long: it is small enough to emulate,
 * and takes every path of the configuration. Some kernels are made for sizes that are not: is_vast. */
ir_problem tune_trial_small_problem(const tune_trial *t);
bool tune_trial_is_vast(const tune_trial *t);
/* Its bindings. malloc'ed; NULL: out of memory. */
char *tune_trial_reduced(const tune_trial *t);
/* Bindings of the problem that the device at hand verifies it at: the reduced one with the model, else the
 * whole. As above. */
char *tune_trial_verified_at(const tune_trial *t);
/* Adds the trial's image and recipe as blobs and names them in `item`, and the problem to verify it at where
 * the reference cannot be had at the whole one. */
bool tune_device_add_kernel(const tune_trial *t, tune_message *m, json_t *item);
/* Verifies, and where the device can, times the trial: t->ran is called when it is OVER, or again READY when
 * the worker was lost for no fault of its own. `bindings`: of the problem to verify at. */
void tune_device_start(tune_trial *t, const char *bindings, double reject_ns);
/* Has the device make the problem's tensors and expected values, which the first trial would wait for:
 * run->preparing until it has. */
void tune_device_prepare(tune_run *run);
/* Fills in a request for such a trial; false: out of memory. */
bool tune_device_ask(const tune_trial *t, const char *bindings, bool measure, double reject_ns,
                     tune_message *m);
/* Fields every device request has. */
bool tune_device_describe(const tune_run *run, const char *bindings, json_t *body);
/* A device worker was lost or cannot work; true if the run may go on. */
bool tune_device_survives(tune_run *run, const tune_reply *reply);

/* --- what cannot win (tune_bound.c) --- */

/* Whether the run leaves out what the hardware's limits keep from beating the best measured one: an
 * exhaustive one does, where it measures. */
bool tune_run_is_bounded(const tune_run *run);
/* Whether no run of the candidate can be as fast as `best_ns`. */
bool tune_run_cannot_win(tune_run *run, int64_t index, double best_ns);
/* How many of those that were not tried cannot beat the best measured one; 0 where none was measured. */
int64_t tune_run_count_beaten(tune_run *run);
/* Notes which trials of the search's beginning are over; `anew`: from the first on. */
void tune_run_settle(tune_run *run, bool anew);
/* The fastest measured so far, corrected for drift; 0: none. */
double tune_run_best_ns(const tune_run *run);

/* --- steps --- */

/* Search: proposes, compiles and, on a GPU, verifies and times until the search ends, or the budget with at
 * least one result. Called again, it goes on from there. */
void tune_run_search(tune_run *run);
/* Whether the search is to end for the budget, less what is kept for the steps behind it. Not before
 * something is right; and where times are measured, not before there are four, unless that takes half the
 * budget more. */
bool tune_run_is_out_of_time(const tune_run *run);
/* Times the leading trials interleaved and returns the winner, or the next one whose image can be completed;
 * or NULL. */
tune_trial *tune_run_finals(tune_run *run);
/* Without times: verifies the leading trials on the emulator in the model's order and returns the first that
 * is right and can be completed, or NULL. */
tune_trial *tune_run_verify_leading(tune_run *run);

/* Makes a trial's image whole (tune_complete.c): compiles the ways that the search left out and verifies
 * every kernel. At once true where none was. False: it failed and has that as its outcome, which
 * run->incomplete counts; or the run failed, or an interrupt left no time. Waits. */
bool tune_trial_complete(tune_trial *t);
/* Lets an idle worker compile the whole image of a trial that may have to be completed soon. */
void tune_trial_complete_ahead(tune_trial *t);

/* --- the cache (tune_store.c) --- */

arke_status tune_store_open(tune_run *run, arke_error *err);
void tune_store_trial(tune_run *run, const tune_trial *t);
/* Takes known trials over. Of those whose worker died or hung, only what a second run confirmed: the others
 * come first in the search. */
arke_status tune_store_resume(tune_run *run, arke_error *err);
void tune_store_seed_nearby(tune_run *run);
/* Publishes the winner; `kernel_sha256` gets the identity of its PTX, cubin and recipe. *published: it was
 * taken. */
arke_status tune_store_publish(tune_run *run, const tune_trial *winner, const cache_winner *w,
                               char kernel_sha256[SHA256_HEX_SIZE], bool *published, arke_error *err);
/* The stored winner of this problem in this environment with its kernel, if its configuration is one of the
 * trials': then that trial gets the kernel. NULL if there is none. */
tune_trial *tune_store_recall(tune_run *run, cache_winner *w, char kernel_sha256[SHA256_HEX_SIZE]);

#endif
