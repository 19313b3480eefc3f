/* What the files of the builder share: LLVM handles. Included by gen_*.c only, so that LLVM-C stays in here.
 */
#ifndef ARKE_GENERATOR_GEN_INTERNAL_H
#define ARKE_GENERATOR_GEN_INTERNAL_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "base/limits.h"
#include "base/strbuf.h"
#include "generator/gen_kernel.h"
#include "generator/gen_memory.h"

#define GEN_MAX_TARGETS  8   /* target machines a context keeps */
#define GEN_MAX_OPERANDS 520 /* of one asm block: 256 accumulators, as inputs and outputs, and a few more */

/* Where a function's own attributes go; LLVM-C's enumerator is a negative int. */
#define GEN_AT_FUNCTION ((LLVMAttributeIndex)LLVMAttributeFunctionIndex)

/* NVPTX address spaces (LLVM, NVPTXUsage). */
enum { GEN_SPACE_GLOBAL = 1, GEN_SPACE_SHARED = 3 };

struct gen_context {
  const target *targets[GEN_MAX_TARGETS];
  LLVMTargetMachineRef machines[GEN_MAX_TARGETS];
  int n_machines;
  bool dead; /* after a fatal error of LLVM */
};

struct gen_builder {
  gen_context *context;
  const target *target;
  LLVMTargetMachineRef machine;
  LLVMContextRef llvm;
  LLVMModuleRef module;
  LLVMBuilderRef ir;
  LLVMValueRef function;
  int n_kernels;                                        /* begun */
  LLVMTypeRef types[GEN_TYPE_COUNT], none, pointers[8]; /* pointers by address space */
  LLVMAttributeRef nounwind, convergent, willreturn, no_memory;
  gen_value params[LIMIT_KERNEL_ARGS];
  int n_params;
  int cluster_x;      /* CTAs of a cluster along x */
  int open_blocks;    /* loops and branches begun and not ended */
  strbuf diagnostics; /* LLVM's errors */
  arke_error misuse;  /* the first one */
};

/* The target machine, made on first use. */
arke_status gen_context_machine(gen_context *ctx, const target *t, LLVMTargetMachineRef *machine,
                                arke_error *err);

/* Ends the current kernel with a return; the first misuse so far. */
arke_status gen_end_kernel(gen_builder *b, arke_error *err);
LLVMBasicBlockRef gen_block(gen_builder *b, const char *name);
/* Calls an LLVM intrinsic by its full name. */
gen_value gen_intrinsic(gen_builder *b, const char *name, LLVMTypeRef result, const gen_value *args, int n);

typedef enum gen_asm_flags {
  GEN_ASM_PURE = 0,       /* result depends on operands alone: computed once, or not at all if unused */
  GEN_ASM_READ = 8,       /* reads memory that nothing writes: kept after the effects before it */
  GEN_ASM_EFFECT = 1,     /* not removed, kept in order with other effects */
  GEN_ASM_MEMORY = 2,     /* reads or writes memory: no load or store moves across */
  GEN_ASM_CONVERGENT = 4, /* not made dependent on more control flow */
} gen_asm_flags;

/* One block of PTX. `text` names operands $0, $1, … (results first), `constraints` is LLVM's list without
 * clobbers: r i32, l i64, h i16, f float, b predicate, a number ties an input to that result. */
gen_value gen_asm(gen_builder *b, LLVMTypeRef result, const char *text, const char *constraints,
                  const gen_value *args, int n, unsigned flags);

/* The policy of an access (i64), by an instruction that LLVM keeps once; NULL: none. */
gen_value gen_l2_policy(gen_builder *b, gen_cache cache);

#endif
