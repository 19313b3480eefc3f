/* Edits real PTX one instruction at a time, for tests that plant a fault in a generated kernel and expect it
 * to be found. Instructions are found by the decoder's own positions, so several on a line, guards and
 * comments are no matter. All functions return a new text to free(), or NULL with the reason in *err. */
#ifndef ARKE_TESTS_PTX_MUTATE_H
#define ARKE_TESTS_PTX_MUTATE_H

#include <stdint.h>

#include "base/error.h"

/* Which instruction: its name matches `pattern`, where `*` stands for any characters ("mbarrier.try_wait*",
 * "*bulk*"), and it is number `nth` (from 0) of those that do, over all kernels in the order of the text. */
typedef struct ptx_place {
  const char *pattern;
  int nth;
} ptx_place;

/* How many instructions match; -1 when the text does not parse. */
int ptx_mutate_count(const char *ptx, const char *pattern, arke_error *err);

/* Without the instruction (its guard goes with it). */
char *ptx_mutate_delete(const char *ptx, ptx_place place, arke_error *err);
/* With `statements` before or after it; they stand outside its guard. */
char *ptx_mutate_insert_before(const char *ptx, ptx_place place, const char *statements, arke_error *err);
char *ptx_mutate_insert_after(const char *ptx, ptx_place place, const char *statements, arke_error *err);
/* With another constant as operand number `operand` (from 0, a `p|q` pair counts as two), which must be one.
 */
char *ptx_mutate_immediate(const char *ptx, ptx_place place, int operand, int64_t value, arke_error *err);
/* With `bytes` added to the address that operand number `operand` is: [x] or [x+n]. */
char *ptx_mutate_address(const char *ptx, ptx_place place, int operand, int64_t bytes, arke_error *err);
/* Under another guard: "@%p1", "@!%p2", or "" for none. */
char *ptx_mutate_guard(const char *ptx, ptx_place place, const char *guard, arke_error *err);

#endif
