/* Order statistics of timing samples. Nothing here assumes a distribution. */
#ifndef ARKE_TUNER_STATISTICS_H
#define ARKE_TUNER_STATISTICS_H

#include "cache/cache.h"

/* Quantile q in [0, 1] of n >= 1 samples, linear between neighbours; sorts them. */
double tune_quantile(double *samples, int n, double q);
/* Mean of the middle half of n >= 1 samples, which outliers do not reach; sorts them. A device's clock ticks
 * (every 32 ns on an H200, a fiftieth of a short kernel), so that a median is a multiple of that, and equal
 * for samples that differ by less. */
double tune_middle_mean(double *samples, int n);
/* Median, 10th and 90th percentile; sorts the samples. All zero for n = 0. */
cache_time tune_summary(double *samples, int n);
/* Confidence interval of the median from order statistics (the sign test): covers it with at least 1 - alpha.
 * Sorts. False when n is too small for that. */
bool tune_median_interval(double *samples, int n, double alpha, double *low, double *high);

#endif
