/* Copies from global to shared memory that a thread issues and waits for in groups (PTX ISA, "cp.async"). A
 * copy is a thread's own: other threads see its bytes after a barrier that follows the wait. */
#ifndef ARKE_GENERATOR_GEN_CP_ASYNC_H
#define ARKE_GENERATOR_GEN_CP_ASYNC_H

#include "generator/gen_kernel.h"

/* Copies the first `available` (i32; NULL: all) of `bytes` (4, 8 or 16) and writes zeros for the others.
 * Both addresses are multiples of `bytes`; nothing is read where `available` is 0. Copies of 16 bytes pass
 * the L1 cache by. */
void gen_cp_async(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value available);
/* Makes a group of the thread's copies since the last one; it may be empty. */
void gen_cp_async_commit(gen_builder *b);
/* One arrival on an mbarrier, of those it was made for, when all copies of this thread so far have ended:
 * their bytes are seen by who waits for the phase. */
void gen_cp_async_arrive(gen_builder *b, gen_value mbarrier);
/* Waits until at most the `pending` latest groups of this thread are under way. */
void gen_cp_async_wait(gen_builder *b, int pending);

#endif
