/* A template for Y = X + X whose configurations misbehave in every way a candidate can, beside sound ones of
 * known speed; and a GPU for it: the emulator with a clock of its own. Workers of the test program use both.
 */
#ifndef ARKE_TESTS_PLANTED_H
#define ARKE_TESTS_PLANTED_H

#include "tests/tuner/fake_device.h"
#include "tuner/tune_hooks.h"

#define PLANTED_OPERATOR "twice(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] + X[i] }"

/* X(NAME, outcome on the emulator, outcome on the fake GPU, meaning) */
#define PLANTED_KINDS(X)                                                                                     \
  X(GOOD, VERIFIED, MEASURED, "computes 2x")                                                                 \
  X(FAULT, FAULT, FAULT, "stores far outside")                                                               \
  X(HANG, TIMEOUT, TIMEOUT, "loops for ever")                                                                \
  X(WRONG, WRONG, WRONG, "errs in the last element only")                                                    \
  X(UNWRITTEN, WRONG, WRONG, "leaves out the last element")                                                  \
  X(ABORT, CRASHED, CRASHED, "aborts while lowering")                                                        \
  X(GARBAGE, ASSEMBLE_FAILED, ASSEMBLE_FAILED, "lowers to text that is no PTX")                              \
  X(STUCK, TIMEOUT, TIMEOUT, "never ends lowering")                                                          \
  X(REFUSES, LOWER_FAILED, LOWER_FAILED, "lowering returns an error")                                        \
  X(QUITS, CRASHED, CRASHED, "exits while lowering, after a flood of last words")                            \
  X(PAST_END, FAULT, FAULT, "stores one element past the end")                                               \
  X(OVERWRITES, FAULT, FAULT, "stores to its input")                                                         \
  X(TWIN, DUPLICATE, DUPLICATE, "lowers to the same kernel as a good one")                                   \
  X(NO_GRID, LAUNCH_FAILED, LAUNCH_FAILED, "has no possible grid")

/* A label that only the kernel which loops for ever has. */
#define PLANTED_LOOP "$LOOP"

typedef enum planted_kind {
#define X(NAME, emulator, gpu, meaning) PLANTED_##NAME,
  PLANTED_KINDS(X)
#undef X
      PLANTED_COUNT,
} planted_kind;

extern const tune_templates planted_templates; /* good and bad ones */
extern const tune_templates doomed_templates;  /* bad ones only */
extern const tune_templates hungry_templates;  /* good ones: four families by BLOCK, each of 32 variants */
/* Of two kernels, for tensors without gaps and for any, of which lower_options.first_way_only leaves out the
 * second. In `flawed`, KIND says how the second one misbehaves, and the good ones are slower. */
extern const tune_templates viewing_templates, flawed_templates;
/* Good ones, which say from SPEED=PLANTED_BEATEN on that they cannot win. */
extern const tune_templates bounded_templates;
#define PLANTED_BEATEN 6
/* Good ones, of which those with SPEED=0, which the model prefers, have no small problem. */
extern const tune_templates vast_templates;
extern const tune_hooks planted_hooks; /* all of them, and the fake GPU */

/* Of `planted`, fastest at PLANTED_BEST after a flush; back to back SPEED=3 leads. Those of `hungry` begin at
 * speed PLANTED_HUNGRY: in bursts BLOCK=128 is 12 % slower than BLOCK=64, at the power limit 2 % faster. */
fake_kernel planted_times(uint32_t block, int speed);
#define PLANTED_BEST   "KIND=0,BLOCK=64,SPEED=5"
#define PLANTED_HUNGRY 16

/* Environment variables that reach the workers:
 * PLANTED_LOG     file to which every lowering appends its configuration, once for each kernel
 * PLANTED_SLOW_MS each lowering takes at least this long
 * PLANTED_CHILD   each lowering waits for a child that sleeps, whose process id it appends to this file
 * PLANTED_DIE     file; while it exists, a lowering removes it and dies of SIGKILL
 * PLANTED_GPU     "none": there is no GPU; "dies": its worker dies when it is opened; "arithmetic": its
 * memory is so fast that arithmetic bounds whatever runs; "full": it has no memory to try what compares
 * outputs with, nor to flush the L2 with */
#define PLANTED_LOG     "ARKE_PLANTED_LOG"
#define PLANTED_SLOW_MS "ARKE_PLANTED_SLOW_MS"
#define PLANTED_CHILD   "ARKE_PLANTED_CHILD"
#define PLANTED_DIE     "ARKE_PLANTED_DIE"
#define PLANTED_GPU     "ARKE_PLANTED_GPU"

#endif
