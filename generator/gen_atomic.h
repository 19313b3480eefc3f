/* Global memory shared by CTAs of one launch: updates in any order, and values published by one and awaited
 * by another (PTX ISA, "Memory Consistency Model"). Scope is the GPU. */
#ifndef ARKE_GENERATOR_GEN_ATOMIC_H
#define ARKE_GENERATOR_GEN_ATOMIC_H

#include "generator/gen_kernel.h"

/* X(NAME, PTX operation, on floats): */
#define GEN_UPDATES(X)                                                                                       \
  X(ADD, "add", true)                                                                                        \
  X(MIN, "min", true) /* signed; floats: NaN if either is */                                                 \
  X(MAX, "max", true)                                                                                        \
  X(UMIN, "min", false) /* unsigned */                                                                       \
  X(UMAX, "max", false)                                                                                      \
  X(AND, "and", false)                                                                                       \
  X(OR, "or", false)                                                                                         \
  X(XOR, "xor", false)                                                                                       \
  X(EXCHANGE, "exch", false)

typedef enum gen_update {
#define X(NAME, operation, floats) GEN_UPDATE_##NAME,
  GEN_UPDATES(X)
#undef X
} gen_update;

/* What an access to memory that others access orders. */
typedef enum gen_order {
  GEN_RELAXED, /* nothing but itself */
  GEN_ACQUIRE, /* loads and updates: what follows sees what the writer of the value had done */
  GEN_RELEASE, /* stores and updates: what came before is seen by who acquires the value */
  GEN_ACQ_REL, /* updates: both */
} gen_order;

/* Memory at `address` becomes update(memory, value); I32, I64, F32, F64, F16, BF16, and vectors of 2 F16 or
 * BF16 (ADD; aligned to 4). What has no instruction is a loop of compare and swap, as are float MIN and MAX.
 */
void gen_update_global(gen_builder *b, gen_update update, gen_value address, gen_value value);
/* The same, with the value before; I32 and I64 and ADD of F32 and F64. */
gen_value gen_fetch_update_global(gen_builder *b, gen_update update, gen_order order, gen_value address,
                                  gen_value value);
/* Both in shared memory (i32 addresses), among the threads of the CTA: I32, I64 and ADD of F32, relaxed. */
void gen_update_shared(gen_builder *b, gen_update update, gen_value address, gen_value value);
gen_value gen_fetch_update_shared(gen_builder *b, gen_update update, gen_value address, gen_value value);
/* Writes `value` where memory holds `expected`; the value before. I16, I32, I64. */
gen_value gen_compare_and_swap(gen_builder *b, gen_order order, gen_value address, gen_value expected,
                               gen_value value);
/* Any other update of an element of 2, 4 or 8 bytes: `change` maps the old value (of `type`) to the new one,
 * and may be executed more than once. */
typedef gen_value (*gen_change)(gen_builder *b, void *user, gen_value old);
void gen_update_global_by(gen_builder *b, gen_type type, gen_value address, gen_change change, void *user);

/* RELAXED or ACQUIRE loads of I32, I64, F32, F64 that other CTAs may write meanwhile; and RELAXED or RELEASE
 * stores. */
gen_value gen_load_ordered(gen_builder *b, gen_order order, gen_type type, gen_value address);
void gen_store_ordered(gen_builder *b, gen_order order, gen_value value, gen_value address);
/* Two I64 at once, aligned to 16: seen together or not at all. */
void gen_load_pair_ordered(gen_builder *b, gen_order order, gen_value address, gen_value pair[2]);
void gen_store_pair_ordered(gen_builder *b, gen_order order, const gen_value pair[2], gen_value address);

/* Orders this thread's accesses before and after it, for all threads of the GPU, or of the CTA. */
void gen_fence_gpu(gen_builder *b);
void gen_fence_cta(gen_builder *b);

/* For "the last CTA finishes": true (i1, in all threads of the CTA, which all call it) in the CTA that comes
 * last of `count` (i32), with what the others wrote before visible. `counter` is the address of an i32 that
 * is 0 before the launch, and again after it. `scratch`: 4 bytes of shared memory. */
gen_value gen_last_cta(gen_builder *b, gen_value counter, gen_value count, gen_value scratch);

#endif
