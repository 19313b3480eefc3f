/* A strict PTX interpreter (docs/emulator.md). Reached through runtime/device.h's device_open_emulator; this
 * header adds what tests and tools want beyond the device interface. */
#ifndef ARKE_EMULATOR_EMULATOR_H
#define ARKE_EMULATOR_EMULATOR_H

#include <stdint.h>

#include "base/error.h"
#include "runtime/device.h"

/* X(NAME, text): every rule whose breach stops a kernel. */
#define EMU_FAULTS(X)                                                                                        \
  X(NONE, "none")                                                                                            \
  X(UNKNOWN_INSTRUCTION, "unknown instruction")                                                              \
  X(OUT_OF_BOUNDS, "access outside an allocation")                                                           \
  X(MISALIGNED, "misaligned access")                                                                         \
  X(UNINITIALISED, "read of memory or a register nothing wrote")                                             \
  X(RACE, "data race in shared memory")                                                                      \
  X(GLOBAL_RACE, "data race in global memory")                                                               \
  X(PROXY_FENCE, "missing proxy fence between generic and asynchronous access")                              \
  X(IN_FLIGHT, "access to memory an asynchronous operation still uses")                                      \
  X(WGMMA_REGISTER, "register of a wgmma in flight touched before its wait")                                 \
  X(WGMMA_FENCE, "missing wgmma.fence")                                                                      \
  X(BARRIER, "misuse of a barrier")                                                                          \
  X(DEADLOCK, "deadlock")                                                                                    \
  X(DIVERGENCE, "threads that must execute together do not")                                                 \
  X(DESCRIPTOR, "invalid descriptor")                                                                        \
  X(EXIT, "exit with work outstanding")                                                                      \
  X(EARLY, "access to memory before griddepcontrol.wait")                                                    \
  X(NOT_STARTED, "access to shared memory of a CTA that may not have started")                               \
  X(REGISTERS, "misuse of the register pool")                                                                \
  X(TRAP, "trap")                                                                                            \
  X(LAUNCH, "invalid launch")                                                                                \
  X(LIMIT, "instruction limit passed")

typedef enum emu_fault {
#define X(NAME, text) EMU_FAULT_##NAME,
  EMU_FAULTS(X)
#undef X
} emu_fault;

/* Where and why the last launch stopped; the same facts are in the arke_error's sentence. */
typedef struct emu_report {
  emu_fault fault;
  char kernel[64];
  uint32_t cta[3], thread; /* thread: linear index within the CTA */
  int ptx_line;            /* 1-based line of the PTX text */
  uint64_t instructions;   /* warp instructions executed by the launch */
  char text[1024];
} emu_report;

const char *emu_fault_text(emu_fault fault);
/* Report of the last launch on an emulator device; fault NONE when it ended well. */
const emu_report *emu_last_report(const device *d);
/* Stops a launch after this many warp instructions per CTA (default 2^33): a runaway loop ends as LIMIT. */
void emu_set_instruction_limit(device *d, uint64_t limit);
/* Number of SMs it claims to have (default: 4), so that persistent kernels loop over tiles in tests. */
void emu_set_sm_count(device *d, int sm_count);

#endif
