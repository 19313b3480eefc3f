/* One warp that runs straight-line PTX of the scalar unit, for table-driven tests: no memory, no branches. */
#ifndef ARKE_TESTS_PTX_FIXTURE_H
#define ARKE_TESTS_PTX_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "emulator/alu_execute.h"

typedef struct one_warp {
  ptx_module *module;
  const ptx_kernel *kernel;
  alu_warp warp;
} one_warp;

/* Wraps statements in a kernel that declares %p<8>, %b<4> (b8), %h<8> (b16), %r<8>, %d<8> (b64), %q<4>
 * (b128), a parameter "param" of 16 bytes and a shared variable "smem". Fails the test if the text does not
 * parse. */
one_warp *one_warp_new(const char *statements);
void one_warp_free(one_warp *w);
/* The slot of "%r3", or slot | PTX_USE_PREDICATE. */
uint32_t one_warp_slot(const one_warp *w, const char *name);
uint64_t *one_warp_value(one_warp *w, const char *name); /* 32 lanes; the register counts as written */
void one_warp_set_predicate(one_warp *w, const char *name, uint32_t lanes);
uint32_t one_warp_predicate(const one_warp *w, const char *name);
/* Runs every instruction for the lanes in `active`, guards applied; false and *fault at the first fault. */
bool one_warp_run(one_warp *w, uint32_t active, alu_fault *fault);
/* The same, failing the test at a fault. */
void one_warp_must_run(one_warp *w, uint32_t active);

/* A whole file; NULL if it cannot be read. The caller frees it. */
char *read_text(const char *path, size_t *bytes);

/* Pseudo-random bits; the same sequence for the same seed. */
uint64_t next_random(uint64_t *state);

#endif
