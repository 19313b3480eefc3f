/* Kernels whose results on a GPU and on the emulator must agree bit for bit: one matrix instruction on raw
 * bits, for every type, from registers and from shared memory, over several kinds of numbers. */
#ifndef ARKE_TESTS_FIDELITY_CASES_H
#define ARKE_TESTS_FIDELITY_CASES_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "runtime/device.h"

/* X(NAME, text): how the bits of A, B and C are drawn. */
#define FIDELITY_MODES(X)                                                                                    \
  X(NORMAL, "normal") X(NEAR, "near") X(CANCEL, "cancel") X(WIDE, "wide") X(SPECIAL, "special")

typedef enum fidelity_mode {
#define X(NAME, text) FIDELITY_##NAME,
  FIDELITY_MODES(X)
#undef X
      FIDELITY_MODE_COUNT,
} fidelity_mode;

enum { FIDELITY_OUT_BYTES = 4 * 128 * 32 * 4 }; /* of every case */

int fidelity_case_count(void);
/* "wgmma.ss k16.f32.bf16.bf16" */
const char *fidelity_case_name(int index);
const char *fidelity_mode_name(fidelity_mode mode);
/* Runs one case on a device; out has FIDELITY_OUT_BYTES. */
arke_status fidelity_run(device *d, int index, fidelity_mode mode, void *out, arke_error *err);

#endif
