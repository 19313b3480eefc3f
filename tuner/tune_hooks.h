/* What a program that tunes may replace; tests bring their own templates and GPUs. */
#ifndef ARKE_TUNER_TUNE_HOOKS_H
#define ARKE_TUNER_TUNE_HOOKS_H

#include "runtime/device.h"
#include "tuner/tune.h"

typedef struct tune_hooks {
  const tune_templates *templates; /* as in the tune_options of its sessions; NULL: those of templates/ */
  arke_status (*open_gpu)(int index, device **d, arke_error *err); /* NULL: the CUDA driver's */
  bool no_assembler; /* devices get PTX, whatever assembler is installed */
} tune_hooks;

/* tune_worker_main_with, with more to replace. */
void tune_worker_main_hooked(int argc, char **argv, const tune_hooks *hooks);

#endif
