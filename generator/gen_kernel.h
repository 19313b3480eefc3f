/* The kernel builder: one kernel after the other as typed values, without basic blocks or LLVM types in
 * sight. The other gen_*.h headers add control flow, memory, barriers, copies and matrix instructions to it.
 *
 * A builder is used by one thread. Its functions do not fail: a misuse (operands of different types, an
 * unclosed loop, too many operands) is recorded, and gen_builder_finish reports it. A gen_value belongs to
 * its builder.
 *
 * Addresses in shared memory are i32 values (PTX's .shared window), so that address arithmetic stays in 32
 * bits; addresses in global memory are i64; a tensor map parameter is the generic address of the map. */
#ifndef ARKE_GENERATOR_GEN_KERNEL_H
#define ARKE_GENERATOR_GEN_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"
#include "generator/gen_context.h"
#include "generator/target.h"

typedef struct gen_builder gen_builder;
typedef struct LLVMOpaqueValue *gen_value;

/* X(NAME, bits): types of a value. Predicates are I1. */
#define GEN_TYPES(X)                                                                                         \
  X(I1, 1)                                                                                                   \
  X(I8, 8)                                                                                                   \
  X(I16, 16)                                                                                                 \
  X(I32, 32)                                                                                                 \
  X(I64, 64)                                                                                                 \
  X(F16, 16)                                                                                                 \
  X(BF16, 16)                                                                                                \
  X(F32, 32)                                                                                                 \
  X(F64, 64)

typedef enum gen_type {
#define X(NAME, bits) GEN_##NAME,
  GEN_TYPES(X)
#undef X
      GEN_TYPE_COUNT,
} gen_type;

typedef enum gen_param_kind {
  GEN_PARAM_TENSORMAP, /* 128-byte TMA descriptor by value; the value is its generic address, i64 */
  GEN_PARAM_POINTER,   /* global address, i64 */
  GEN_PARAM_I32,
  GEN_PARAM_I64,
  GEN_PARAM_F32,
} gen_param_kind;

typedef struct gen_kernel {
  const char *name;    /* entry name */
  int threads;         /* per CTA (.reqntid) */
  int min_ctas_per_sm; /* .minnctapersm: bounds the registers; setmaxnreg needs it */
  int cluster[3];      /* 1,1,1: no cluster */
  int n_params;
  const gen_param_kind *params;
} gen_kernel;

/* What finishing yields; memory is the arena's. */
typedef struct gen_output {
  const char *ptx;
  size_t ptx_bytes;
  const char *llvm_ir; /* optimised module as text, NULL unless asked for */
} gen_output;

/* Starts a kernel. *b is the caller's until gen_builder_destroy; NULL on failure. */
arke_status gen_builder_create(gen_context *ctx, const target *t, const gen_kernel *k, gen_builder **b,
                               arke_error *err);
/* Ends the kernel with a return and starts another one in the same image. Values of the kernel before, its
 * parameters and its static shared objects are not this one's; names of static shared objects may be the
 * same. Fails with the first misuse so far, and when two kernels have one name: an image of kernels is then
 * given up. */
arke_status gen_builder_next_kernel(gen_builder *b, const gen_kernel *k, arke_error *err);
/* Ends the kernel with a return, verifies the module, optimises it (LLVM's default<O3>) and prints PTX.
 * Errors of the verifier, of LLVM's diagnostics and LLVM's fatal errors come back as ARKE_ERR_CODEGEN with
 * LLVM's text. After a fatal error the context refuses further work: LLVM's state is then unknown, and the
 * process should be replaced. */
arke_status gen_builder_finish(gen_builder *b, bool keep_llvm_ir, arena *a, gen_output *out, arke_error *err);
/* NULL is allowed. */
void gen_builder_destroy(gen_builder *b);
/* Records a misuse found by a caller of the builder; the first one is what gen_builder_finish reports. */
void gen_misuse(gen_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

gen_value gen_param(gen_builder *b, int i);

/* --- constants and types --- */
gen_value gen_bool(gen_builder *b, bool value);
gen_value gen_i32(gen_builder *b, int64_t value);
gen_value gen_i64(gen_builder *b, int64_t value);
gen_value gen_f32(gen_builder *b, double value);
/* A value of no meaning: for accumulators the first instruction overwrites. */
gen_value gen_undefined(gen_builder *b, gen_type type);
gen_type gen_type_of(gen_builder *b, gen_value v);
bool gen_is_float(gen_builder *b, gen_value v);

/* --- arithmetic; X(name, LLVM name): both operands and the result have one type --- */
#define GEN_BINARIES(X)                                                                                      \
  X(add, Add)                                                                                                \
  X(sub, Sub)                                                                                                \
  X(mul, Mul)                                                                                                \
  X(udiv, UDiv)                                                                                              \
  X(urem, URem)                                                                                              \
  X(sdiv, SDiv)                                                                                              \
  X(srem, SRem)                                                                                              \
  X(and, And)                                                                                                \
  X(or, Or)                                                                                                  \
  X(xor, Xor)                                                                                                \
  X(shl, Shl)                                                                                                \
  X(lshr, LShr)                                                                                              \
  X(ashr, AShr)                                                                                              \
  X(fadd, FAdd)                                                                                              \
  X(fsub, FSub)                                                                                              \
  X(fmul, FMul)                                                                                              \
  X(fdiv, FDiv)
#define X(name, llvm) gen_value gen_##name(gen_builder *b, gen_value x, gen_value y);
GEN_BINARIES(X)
#undef X

/* With an integer constant of x's type. */
gen_value gen_add_imm(gen_builder *b, gen_value x, int64_t y);
gen_value gen_mul_imm(gen_builder *b, gen_value x, int64_t y);
/* Unsigned division by a positive constant, rounding up. */
gen_value gen_ceildiv_imm(gen_builder *b, gen_value x, int64_t y);
gen_value gen_umin(gen_builder *b, gen_value x, gen_value y);

/* --- comparisons: integers as named (U unsigned, S signed); floats ordered, NE unordered (C's rules) --- */
#define GEN_COMPARISONS(X)                                                                                   \
  X(EQ, EQ)                                                                                                  \
  X(NE, NE)                                                                                                  \
  X(ULT, ULT)                                                                                                \
  X(ULE, ULE)                                                                                                \
  X(UGE, UGE)                                                                                                \
  X(SLT, SLT)                                                                                                \
  X(SLE, SLE)                                                                                                \
  X(SGT, SGT)                                                                                                \
  X(SGE, SGE)
typedef enum gen_comparison {
#define X(NAME, llvm) GEN_##NAME,
  GEN_COMPARISONS(X)
#undef X
} gen_comparison;
gen_value gen_compare(gen_builder *b, gen_comparison c, gen_value x, gen_value y);
gen_value gen_compare_imm(gen_builder *b, gen_comparison c, gen_value x, int64_t y);
gen_value gen_select(gen_builder *b, gen_value condition, gen_value x, gen_value y);

/* --- conversions --- */
gen_value gen_zext(gen_builder *b, gen_value x, gen_type type);
gen_value gen_sext(gen_builder *b, gen_value x, gen_type type);
gen_value gen_trunc(gen_builder *b, gen_value x, gen_type type);
/* Between float types (one rounding to nearest even) and from integers to floats (I1 and unsigned is by
 * `is_signed`). */
gen_value gen_float_cast(gen_builder *b, gen_value x, gen_type type);
gen_value gen_int_to_float(gen_builder *b, gen_value x, gen_type type, bool is_signed);

/* --- vectors (lanes of one type), for wide loads and stores --- */
gen_value gen_vector(gen_builder *b, const gen_value *lanes, int n);
gen_value gen_lane(gen_builder *b, gen_value vector, int i);

/* --- where a thread is; X(name, PTX register) --- */
#define GEN_SREGS(X)                                                                                         \
  X(tid_x, "tid.x")                                                                                          \
  X(ctaid_x, "ctaid.x")                                                                                      \
  X(ctaid_y, "ctaid.y")                                                                                      \
  X(ctaid_z, "ctaid.z")                                                                                      \
  X(nctaid_x, "nctaid.x")                                                                                    \
  X(nctaid_y, "nctaid.y")                                                                                    \
  X(nctaid_z, "nctaid.z")                                                                                    \
  X(laneid, "laneid")                                                                                        \
  X(cluster_ctarank, "cluster.ctarank")
#define X(name, sreg) gen_value gen_##name(gen_builder *b);
GEN_SREGS(X)
#undef X

/* Of kernels whose clusters lie along x: the cluster's number, and how many there are. From ctaid.x and
 * nctaid.x, since ptxas (13.0) makes %clusterid.x by a product in f32, which is wrong from CTA 2^24 on. */
gen_value gen_clusterid_x(gen_builder *b);
gen_value gen_nclusterid_x(gen_builder *b);

/* tid.x / 32, known to be the same in all lanes of a warp: for kernels with one-dimensional CTAs. */
gen_value gen_warp_index(gen_builder *b);
/* The value of lane 0 in all lanes of a (converged) warp: tells the assembler that `x` is uniform. */
gen_value gen_warp_uniform(gen_builder *b, gen_value x);
/* `x` (i32 or f32), computed by this point of the program and not later, where it might be on the critical
 * path. */
gen_value gen_pin(gen_builder *b, gen_value x);
/* setmaxnreg: every warp of the warp group executes it; `registers` in 24..256, a multiple of 8. */
void gen_registers_grow(gen_builder *b, int registers);
void gen_registers_shrink(gen_builder *b, int registers);

#endif
