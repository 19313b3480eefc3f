/* Building one kernel and running it on the emulator, for tests of the builder. */
#ifndef ARKE_TESTS_RUN_KERNEL_H
#define ARKE_TESTS_RUN_KERNEL_H

#include "generator/gen_kernel.h"

/* Builds the body of kernel k(pointer…, i32 n) into `b`. */
typedef void (*kernel_body)(gen_builder *b, void *user);

enum { RUN_MAX_BUFFERS = 6 };
typedef struct kernel_buffer {
  void *data; /* host; an output's content comes back */
  size_t bytes;
  bool output;  /* starts poisoned */
  bool updated; /* an output that starts with `data` */
} kernel_buffer;

/* For another target, or a kernel of clusters, what follows takes one of these; NULL: sm_90a, no cluster. */
typedef struct run_options {
  const target *t;
  const char *device; /* the emulator's name for it */
  int cluster;
} run_options;

/* PTX of the kernel; fails the test when it cannot be made. Memory is the arena's. */
gen_output make_kernel(kernel_body body, void *user, int n_buffers, int threads, arena *a);
gen_output make_kernel_for(const run_options *o, kernel_body body, void *user, int n_buffers, int threads,
                           arena *a);
/* Runs it on `ctas` blocks with the buffers' addresses and n. Fails the test on any fault. */
void run_kernel(const gen_output *k, kernel_buffer *buffers, int n_buffers, int32_t n, int ctas, int threads);
void run_kernel_on(const run_options *o, const gen_output *k, kernel_buffer *buffers, int n_buffers,
                   int32_t n, int ctas, int threads);

#endif
