/* Fails one chosen allocation, for loops of the form
 *   for (int n = 0;; n++) { failing_alloc_arm(n); status = work(); if (!failing_alloc_disarm()) break; … }
 * so that every allocation of `work` fails once: it must report ARKE_ERR_MEMORY, leak nothing and not crash.
 */
#ifndef ARKE_TESTS_FAILING_ALLOC_H
#define ARKE_TESTS_FAILING_ALLOC_H

#include <stdbool.h>

/* The n-th (from 0) malloc, calloc or realloc from now on returns NULL, once. Test programs only; one thread.
 */
void failing_alloc_arm(long n);
/* Ends it; true if an allocation was failed. */
bool failing_alloc_disarm(void);

#endif
