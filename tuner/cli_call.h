/* A problem's tensors as an inference process would pass them: DLPack views of the tuner's buffers. */
#ifndef ARKE_TUNER_CLI_CALL_H
#define ARKE_TUNER_CLI_CALL_H

#include <arke/arke.h>

#include "tuner/trial_tensors.h"

typedef struct cli_call {
  int n;
  DLTensor tensors[LIMIT_TENSORS];
  const DLTensor *pointers[LIMIT_TENSORS]; /* into tensors: do not copy the struct */
} cli_call;

/* Views of input set `set`; shapes and strides are those of `t`, which must outlive the call. */
void cli_call_bind(cli_call *c, const tune_tensors *t, int set, const device_info *info);

#endif
