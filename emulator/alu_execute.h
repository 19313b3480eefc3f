/* Executes the instructions that need only a warp's registers (ptx_unit ALU): arithmetic, moves, conversions,
 * comparisons, and the exchanges between lanes. 32 lanes at a time under an active mask. Reentrant. */
#ifndef ARKE_EMULATOR_ALU_EXECUTE_H
#define ARKE_EMULATOR_ALU_EXECUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/emulator.h"
#include "emulator/ptx_program.h"

/* What the machine tells about the warp. Generic addresses: a space's window starts at window_base and is
 * window_bytes long; generic = base + address within the space. GLOBAL has base 0 and is everything that lies
 * in no other window. SHARED is the CTA's own window, within SHARED_CLUSTER's. */
typedef struct alu_warp {
  ptx_registers registers;
  uint32_t exited;                /* lanes that exist no more (or never did): they are not waited for */
  const uint64_t *symbol_address; /* by ptx_symbol.index, within the symbol's own space */
  uint64_t window_base[PTX_SPACE_COUNT], window_bytes[PTX_SPACE_COUNT];
  /* Values of a special register for all 32 lanes. */
  void (*special)(void *machine, ptx_special which, uint64_t out[PTX_LANES]);
  void *machine;
} alu_warp;

typedef struct alu_fault {
  emu_fault fault;
  int lane;       /* first lane concerned */
  uint32_t use;   /* register concerned (slot, or slot | PTX_USE_PREDICATE), PTX_NOWHERE if none */
  char text[160]; /* what is wrong, to complete "line N: add.s32: …" */
} alu_fault;

/* Runs one instruction of unit ALU for the lanes in `active` (the guard is already applied by the caller, see
 * alu_guard). False with *fault filled when it breaks a rule; nothing is written then. For shfl, vote, match,
 * redux, elect: `active` must hold every live lane that the instruction's own mask names, or DIVERGENCE. */
bool alu_execute(const ptx_kernel *kernel, const ptx_instruction *i, alu_warp *warp, uint32_t active,
                 alu_fault *fault);

/* Lanes of `active` for which the instruction's guard holds. */
uint32_t alu_guard(const ptx_instruction *i, const ptx_registers *r, uint32_t active);

/* True when every register that the instruction reads is written in all lanes of `active`. alu_execute calls
 * it; the machine calls it for its own instructions. The guard predicate is checked against `active` as well.
 */
bool alu_check_reads(const ptx_kernel *kernel, const ptx_instruction *i, const ptx_registers *r,
                     uint32_t active, alu_fault *fault);

/* Values of a scalar operand (register, immediate, special, symbol, parameter address; for MEMORY the
 * address) for all lanes: either a pointer into the registers or `scratch`, filled. */
const uint64_t *alu_operand(const ptx_operand *o, const alu_warp *warp, uint64_t scratch[PTX_LANES]);
/* Predicate operand (register, negated or not, or immediate 0/1) as a lane mask. */
uint32_t alu_predicate(const ptx_operand *o, const alu_warp *warp);
/* Writes lanes of `active`; values must be zero-extended. Sink operands are ignored. */
void alu_write(const ptx_operand *o, ptx_registers *r, const uint64_t value[PTX_LANES], uint32_t active);
void alu_write_predicate(const ptx_operand *o, ptx_registers *r, uint32_t value, uint32_t active);

#endif
