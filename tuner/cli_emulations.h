/* Kernels made and run on emulators by all cores at once: what a comparison with one other device waits for
 * is mostly this. Each thread has its own emulator, tensors and LLVM. */
#ifndef ARKE_TUNER_CLI_EMULATIONS_H
#define ARKE_TUNER_CLI_EMULATIONS_H

#include "templates/template.h"
#include "tuner/trial_runner.h"

/* One configuration of one problem, and what came of it once it is done. */
typedef struct cli_emulation {
  const kernel_template *template;
  const ir_problem *problem;
  config point;
  tune_runner_problem what; /* the same problem as text */
  bool done;
  arke_status status;
  const char *where; /* it failed: "lowering" or "emulator" */
  arke_error err;
  arena arena; /* holds what follows */
  const char *ptx, *recipe;
  size_t ptx_bytes, recipe_bytes;
  tune_check check;
  void *outputs[LIMIT_TENSORS]; /* by tensor; NULL for inputs */
} cli_emulation;

typedef struct cli_emulations cli_emulations;

/* Starts `threads` of them on the list, from its first to its last; `seed` is the emulators', and `sm_count`
 * the SMs that they have: a kernel may divide its sums by them. The list must stay until it is closed. */
arke_status cli_emulations_start(cli_emulation *list, int n, const target *t, int sm_count, uint64_t seed,
                                 int threads, cli_emulations **e, arke_error *err);
/* Waits for the i-th, but not longer than about 50 ms; true when it is done. */
bool cli_emulations_wait(cli_emulations *e, int i);
/* Frees what an emulation that is done holds. */
void cli_emulation_release(cli_emulation *job);
/* Lets those under way end, starts no other, and frees what all hold. NULL is allowed. */
void cli_emulations_close(cli_emulations *e);

#endif
