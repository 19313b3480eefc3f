/* Tuning one problem: prune, rank, compile in worker processes, verify, measure, store, publish.
 * The command line (tuner/cli_*.c), the sweep and the bench stand on this; they see nothing of workers. */
#ifndef ARKE_TUNER_TUNE_H
#define ARKE_TUNER_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "generator/target.h"
#include "ir/ir.h"
#include "ir/space.h"
#include "templates/template.h"

typedef enum tune_device_kind {
  TUNE_DEVICE_AUTO, /* CUDA if there is one, else MODEL */
  TUNE_DEVICE_CUDA,
  TUNE_DEVICE_EMULATOR, /* verify on the emulator at the full shape; rank by model */
  TUNE_DEVICE_MODEL,    /* rank by model; verify the leading ones on the emulator at a reduced shape */
} tune_device_kind;

typedef enum tune_effort { TUNE_QUICK, TUNE_FULL, TUNE_EXHAUSTIVE } tune_effort;

/* The templates to choose from: tests bring their own. */
typedef struct tune_templates {
  int count;
  const kernel_template *const *list;
} tune_templates;

typedef struct tune_options {
  tune_device_kind device;
  int device_index;
  const target *target; /* NULL: the device's own, or sm_90a without one */
  double budget_s;      /* of the search; passed until one configuration is right. <= 0: no limit */
  int trials;           /* most candidates compiled; 0: no limit */
  tune_effort effort;
  uint64_t seed;
  const char *config; /* NULL, or the one configuration to build, "BLOCK_M=128,…" */
  const char *cache_path;
  bool check_pages;                /* of the cache file, every one (CACHE_CHECK_PAGES) */
  const char *bucket;              /* "" or ranges the entry shall also serve */
  bool fast_math;                  /* the hardware's approximations (templates/template.h) */
  bool check_indices;              /* no access where an index in a tensor is out of range */
  bool fresh;                      /* take no trial and no winner from the cache; store all anew */
  bool dry_run;                    /* prune and rank only; nothing is compiled or stored */
  bool keep_llvm_ir;               /* fill tune_result.llvm_ir (for --dump) */
  int jobs;                        /* compile workers; 0: one per core */
  const tune_templates *templates; /* NULL: every template of templates/ */
  double compile_timeout_s;        /* for one candidate; 0: 60 s */
  double run_timeout_s; /* verifying or timing one candidate; 0: 30 s on CUDA, 300 s on the emulator */
} tune_options;

/* Progress, at most ten times a second and at every change of phase. Pointers are valid during the call. */
typedef enum tune_phase {
  TUNE_RANKING,
  TUNE_COMPILING,
  TUNE_VERIFYING,
  TUNE_MEASURING,
  TUNE_FINALS,
  TUNE_DONE
} tune_phase;
typedef struct tune_progress {
  tune_phase phase;
  int done, total; /* trials of this run: those taken from the cache count in neither */
  double best_ns;  /* 0: none yet */
  const char *best_config;
  int failed[CACHE_OUTCOME_COUNT];
  double elapsed_s, left_s; /* left < 0: unknown */
  bool interrupted;         /* what is under way is being completed; a second signal ends that */
} tune_progress;
typedef void (*tune_progress_fn)(const tune_progress *p, void *user);

typedef struct tune_trials {
  int64_t total; /* points of the space */
  int64_t pruned[TEMPLATE_REASON_COUNT];
  int failed[CACHE_OUTCOME_COUNT];           /* LOWER_FAILED … CRASHED; DUPLICATE counts here too */
  int compiled, verified, measured, resumed; /* resumed: taken from the cache, not repeated */
  /* Of the counts above, what an earlier run did. */
  int earlier_failed[CACHE_OUTCOME_COUNT];
  int earlier_compiled, earlier_verified, earlier_measured;
} tune_trials;

/* Everything a report needs. Strings and pointers are the arena's given to tune_problem. */
typedef struct tune_result {
  char *key;
  const target *target;
  cache_environment environment;
  cache_origin origin;
  const kernel_template *chosen;
  config config;
  const char *config_text;
  cache_time time; /* modelled: median_ns is the model's */
  double flops, min_bytes, speed_of_light_ns;
  tune_trials trials;
  const char *sha256;
  const char *ptx, *llvm_ir; /* llvm_ir: NULL unless kept */
  const void *cubin;
  size_t cubin_bytes;
  const char *recipe_json;
  const char *policy; /* measuring method, as stored */
  /* Of the winner's verification: allowed error and error at the element nearest to its limit, both divided
   * by the root mean square of the checked reference values; 0 when an earlier run verified the winner. */
  double tolerance, worst_error;
  const char *cache_path, *set_aside; /* set_aside: name a damaged cache file was moved to, or NULL */
  const char *warning; /* NULL, or a sentence: an assembler that cannot run, outputs compared on the host */
  double elapsed_s, compile_rate_per_s;
  bool stored; /* the cache serves it from now on; false: nothing was stored, or a better one stands */
  bool interrupted;
} tune_result;

/* Stand in the policy of a winner whose search was not a whole one: the best so far, not the outcome. */
#define TUNE_POLICY_INTERRUPTED CACHE_POLICY_PARTIAL "interrupted"
#define TUNE_POLICY_CONFIG      CACHE_POLICY_PARTIAL "config"  /* one configuration by name */
#define TUNE_POLICY_TRIALS      CACHE_POLICY_PARTIAL "trials:" /* and the number of trials that ended it */

/* Whether a winner with this policy (NULL: "") is the outcome of a search at least as long as `o` asks for.
 */
bool tune_search_is_whole(const tune_options *o, const char *policy);

typedef struct tune_session tune_session; /* cache handle, device facts, workers; reused over a sweep */

/* Called by any program that wants to tune, first thing in main: a child started as a worker never returns
 * from it. `argv` is main's. */
void tune_worker_main_if_asked(int argc, char **argv);
/* The same for a program with templates of its own, which its sessions name in tune_options. */
void tune_worker_main_with(int argc, char **argv, const tune_templates *templates);

arke_status tune_session_open(const tune_options *options, tune_session **s, arke_error *err);
void tune_session_close(tune_session *s);

/* Says which problem will be tuned after the next one (NULL: none): its first candidates are compiled while
 * the device is busy with the finals of that. It must stay as it is until then, or until the session is
 * closed. */
void tune_session_expect(tune_session *s, const ir_problem *p);

/* Tunes and publishes. ARKE_ERR_INTERRUPTED after SIGINT or SIGTERM with the best so far published (result is
 * filled; without a GPU the best that was compiled is verified first, which takes up to half a minute and
 * which a second signal ends), or, with nothing in the result, if there is none; ARKE_ERR_NOT_FOUND when no
 * candidate worked, with the causes in the text. */
arke_status tune_problem(tune_session *s, const ir_problem *p, tune_progress_fn fn, void *user, arena *a,
                         tune_result *result, arke_error *err);

#endif
