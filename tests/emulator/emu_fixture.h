/* What the emulator's tests share: a device with one module, buffers, launches, and what is expected of them.
 */
#ifndef ARKE_TESTS_EMU_FIXTURE_H
#define ARKE_TESTS_EMU_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/emulator.h"

/* The text of a file, NUL-terminated; free() it. Fails the test when it cannot be read. */
char *read_case(const char *path);
/* A copy of the text with occurrence `nth` (from 0) of `from` replaced; free() it. Fails the test when there
 * is none. */
char *edit_text(const char *text, const char *from, int nth, const char *to);

typedef struct gemm_case {
  const char *ptx;
  int m, n, k;
  uint64_t seed;    /* of the device */
  int sm_count;     /* 0: the default */
  uint32_t a_shift; /* bytes added to A's address in its tensor map */
  uint64_t limit;   /* instructions; 0: the default */
  long fail;        /* n: the n-th allocation (from 1) of loading and launching fails; 0: none */
} gemm_case;

typedef struct gemm_result {
  arke_status status;
  arke_error err;
  emu_report report;
  int64_t wrong;          /* elements of C off by more than the tolerance */
  double worst;           /* largest error relative to the tolerance */
  bool failed_allocation; /* `fail` was reached */
} gemm_result;

/* Runs cases/gemm_128x128x64.ptx, or a text made from it, on random inputs and compares C with a plain
 * product. */
gemm_result run_gemm(const gemm_case *c);

/* A kernel given as the body of one entry `k` with parameters, run on one block. */
typedef struct small_case {
  const char *body;                /* instructions; registers are declared by the fixture: see small_text */
  const char *shared;              /* declarations of shared variables, or NULL */
  const char *target;              /* NULL: sm_90a */
  uint32_t grid, threads, cluster; /* 0: 1, 32, 1 */
  uint32_t smem_bytes;
  uint64_t seed, limit;
  const void *input;    /* NULL: word i holds i */
  uint32_t input_bytes; /* 0: 4096 */
} small_case;

enum { SMALL_WORDS = 8192 };

/* The kernel's parameters are arg0: pointer to 4096 bytes "in" holding i at word i, arg1: pointer to 4096
 * bytes "out", holding nothing, arg2: a tensor map over "in" (32-bit elements, 16 rows of 64, box 4 rows of
 * 8, no swizzle), arg3: one over "out". */
typedef struct small_result {
  arke_status status;
  arke_error err;
  emu_report report;
  uint32_t out[SMALL_WORDS]; /* what "out" holds */
} small_result;
small_result run_small(const small_case *c);

/* Fails the test unless the kernel stopped with this fault and its text holds `words`. */
void expect_fault(const small_case *c, emu_fault fault, const char *words);
/* Fails the test unless the kernel ends well; gives what it wrote. */
small_result expect_clean(const small_case *c);

#endif
