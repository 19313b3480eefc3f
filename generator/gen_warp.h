/* Exchanges between the lanes of a warp, and reductions over a warp or a CTA made of them. All functions are
 * executed by a whole converged warp (PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync). */
#ifndef ARKE_GENERATOR_GEN_WARP_H
#define ARKE_GENERATOR_GEN_WARP_H

#include "generator/gen_kernel.h"

/* X(name, mode): the value of another lane, of any type of up to 64 bits, or a vector of 32 or 64 (pairs of
 * 16-bit floats). The warp is in segments of `width` lanes (a power of two, 32: one segment). `lane` (i32):
 *   xor   lane number ^ `lane`
 *   up    lane number - `lane`; own value for the first `lane` lanes of a segment
 *   down  lane number + `lane`; own value for the last
 *   idx   lane `lane` of the segment */
#define GEN_SHUFFLES(X)                                                                                      \
  X(xor, "bfly", 31)                                                                                         \
  X(up, "up", 0)                                                                                             \
  X(down, "down", 31)                                                                                        \
  X(idx, "idx", 31)
#define X(name, mode, clamp)                                                                                 \
  gen_value gen_shuffle_##name(gen_builder *b, gen_value x, gen_value lane, int width);
GEN_SHUFFLES(X)
#undef X

/* Bit l: the condition (i1) of lane l. */
gen_value gen_ballot(gen_builder *b, gen_value condition);
gen_value gen_warp_any(gen_builder *b, gen_value condition); /* i1 */
gen_value gen_warp_all(gen_builder *b, gen_value condition);
/* Bit l: lane l has the same value (I32 or I64, as bits). */
gen_value gen_match_any(gen_builder *b, gen_value x);
/* i1: all lanes have the same value. */
gen_value gen_match_all(gen_builder *b, gen_value x);
/* Lanes before this one, as a mask: popcount(ballot & it) is an exclusive count. */
gen_value gen_lanes_below(gen_builder *b);
/* The whole warp, reconverged, with its memory accesses ordered. */
void gen_warp_sync(gen_builder *b);

/* X(name): over all 32 lanes, I32, in one instruction. */
#define GEN_REDUXES(X)                                                                                       \
  X(add)                                                                                                     \
  X(min)                                                                                                     \
  X(max)                                                                                                     \
  X(umin)                                                                                                    \
  X(umax)                                                                                                    \
  X(and)                                                                                                     \
  X(or)                                                                                                      \
  X(xor)
#define X(name) gen_value gen_redux_##name(gen_builder *b, gen_value x);
GEN_REDUXES(X)
#undef X

/* Combines two partial results of `n` values each: into[i] = f(into, from)[i]. Must be associative, and
 * commutative if every lane is to get the same bits. */
typedef void (*gen_combine)(gen_builder *b, void *user, gen_value *into, const gen_value *from, int n);

enum { GEN_MAX_REDUCED = 16 };

/* Over each segment of `width` lanes (a power of two); every lane gets the result. */
void gen_warp_reduce(gen_builder *b, gen_value *values, int n, int width, gen_combine combine, void *user);

/* Over a CTA of `threads` (32 times a power of two), every thread of which gets the result. `scratch` is the
 * i32 address of gen_cta_reduce_bytes of shared memory, aligned to 8, which all threads must be done with; a
 * next reduction in the same scratch needs a gen_cta_sync before it, or another scratch in turn. */
void gen_cta_reduce(gen_builder *b, gen_value *values, int n, int threads, gen_value scratch,
                    gen_combine combine, void *user);
/* Of n values whose types have at most 8 bytes. */
int gen_cta_reduce_bytes(int n, int threads);

#endif
