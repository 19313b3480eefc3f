#include "tuner/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double sorted_quantile(const double *sorted, int n, double q) {
  double at = q * (n - 1);
  int below = (int)at;
  if (below >= n - 1) return sorted[n - 1];
  return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

double tune_quantile(double *samples, int n, double q) {
  qsort(samples, (size_t)n, sizeof *samples, compare);
  return sorted_quantile(samples, n, q);
}

double tune_middle_mean(double *samples, int n) {
  qsort(samples, (size_t)n, sizeof *samples, compare);
  int cut = (n + 1) / 4;
  double sum = 0;
  for (int i = cut; i < n - cut; i++) sum += samples[i];
  return sum / (n - 2 * cut);
}

cache_time tune_summary(double *samples, int n) {
  if (n == 0) return (cache_time){0};
  qsort(samples, (size_t)n, sizeof *samples, compare);
  return (cache_time){.median_ns = sorted_quantile(samples, n, 0.5),
                      .p10_ns = sorted_quantile(samples, n, 0.1),
                      .p90_ns = sorted_quantile(samples, n, 0.9),
                      .samples = n};
}

bool tune_median_interval(double *samples, int n, double alpha, double *low, double *high) {
  /* The median lies below the k-th smallest only if fewer than k of n fair coins fall one way. */
  double tail = ldexp(1.0, -n), term = tail;
  int k = 0;
  while (k < n / 2 && tail <= alpha / 2) {
    k++;
    term *= (double)(n - k + 1) / k;
    tail += term;
  }
  if (k == 0) return false;
  qsort(samples, (size_t)n, sizeof *samples, compare);
  *low = samples[k - 1];
  *high = samples[n - k];
  return true;
}
