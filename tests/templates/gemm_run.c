/* gemm_run OPERATOR BINDINGS CONFIG [SMS [SEED]] (a name of the catalogue, or an operator's text): runs one
 * configuration on the emulator, compares every element with the reference and tells how long it took. For
 * trying out what a test found. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "emulator/emulator.h"
#include "run_lowered.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static arke_status try_config(char **argv, int sm_count, uint64_t seed, arena *a, arke_error *err) {
  const ir_catalogue_entry *entry = ir_catalogue_find(argv[1], NULL);
  const target *t = target_find("sm_90a", NULL);
  const kernel_template *gemm = template_find("gemm");
  const ir_op *op;
  ir_problem p;
  config defaults, c;
  lowered l;
  device *d;
  TRY(ir_op_parse(a, entry ? entry->text : argv[1], &op, err));
  TRY(ir_problem_bind(op, argv[2], &p, err));
  gemm->defaults(&p, t, &defaults);
  TRY(config_parse(gemm->space(t), argv[3], &defaults, &c, err));
  TRY(gemm->lower(&p, t, &c, NULL, a, &l, err));
  TRY(device_open_emulator(t->name, seed, &d, err));
  emu_set_sm_count(d, sm_count);
  double begin = now_s();
  run_outcome o = run_lowered(d, &p, &l, sm_count, 16, seed, 0);
  printf("%.2f s, %llu warp instructions: ", now_s() - begin,
         (unsigned long long)emu_last_report(d)->instructions);
  if (o.status != ARKE_OK) {
    printf("%s: %s\n", arke_status_name(o.status), o.err.text);
  } else {
    printf("%lld of %lld wrong, worst %.3f of the tolerance, guards %s\n", (long long)o.wrong,
           (long long)o.elements, o.worst, o.guards_intact ? "intact" : "OVERWRITTEN");
  }
  d->ops->close(d);
  return o.status;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 6) {
    fprintf(stderr, "usage: gemm_run OPERATOR BINDINGS CONFIG [SMS [SEED]]\n");
    return 2;
  }
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status =
      try_config(argv, argc > 4 ? atoi(argv[4]) : 2, argc > 5 ? (uint64_t)atoll(argv[5]) : 1, &a, &err);
  if (err.code) fprintf(stderr, "gemm_run: %s\n", err.text);
  arena_release(&a);
  return status == ARKE_OK ? 0 : 1;
}
