/* PTX to cubin, with whichever assembler is there: the ptxas program, or nvJitLink. None is required: PTX
 * alone runs through the driver's JIT.
 *
 * ptxas comes first because nvJitLink compiles every input as relocatable code, where ptxas ignores
 * setmaxnreg (message C7504): a warp-specialised kernel then has to live with the registers of an even split.
 */
#ifndef ARKE_GENERATOR_ASSEMBLE_H
#define ARKE_GENERATOR_ASSEMBLE_H

#include <stddef.h>

#include "base/error.h"

typedef enum assembler_kind { ASSEMBLER_NONE, ASSEMBLER_NVJITLINK, ASSEMBLER_PTXAS } assembler_kind;

typedef struct assembled {
  void *cubin; /* malloc'ed */
  size_t cubin_bytes;
  int registers, spill_bytes; /* -1 where the assembler does not say */
  char log[4096];             /* its warnings, a line each, e.g. C7510 "serialized" */
} assembled;

/* What is available on this machine, looked for at every call (no global state). */
assembler_kind assembler_find(void);
/* ARKE_ERR_ASSEMBLE is the assembler's refusal of this PTX, with its text and the PTX line it points at; any
 * other failure is the machine's: no program, no memory, no time. */
arke_status assemble_ptx(assembler_kind kind, const char *ptx, const char *target, assembled *out,
                         arke_error *err);
void assembled_free(assembled *a);

#endif
