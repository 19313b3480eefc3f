/* Long loops with sanitizers: those look at our own memory and arithmetic, which every turn of a loop over
 * functions, types or planted faults goes through alike, at four times the cost (docs/testing.md). */
#ifndef ARKE_TESTS_THINNED_H
#define ARKE_TESTS_THINNED_H

/* Ends turn `i` of a loop test unless it is one that this build runs: all, or with sanitizers each n-th. */
/* WITH_SANITIZERS(number, otherwise): how often, or in which steps, a loop inside a test turns. */
#ifdef __SANITIZE_ADDRESS__
#define RUN_EACH_WITH_SANITIZERS(n, i)                                                                       \
  if ((i) % (n) != 0) return
#define WITH_SANITIZERS(number, otherwise) (number)
#else
#define RUN_EACH_WITH_SANITIZERS(n, i)     (void)(i)
#define WITH_SANITIZERS(number, otherwise) (otherwise)
#endif

#endif
