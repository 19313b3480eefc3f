/* cuBLAS's candidates for a matrix product as contestants. */
#ifndef ARKE_TUNER_CLI_CUBLAS_H
#define ARKE_TUNER_CLI_CUBLAS_H

#include "bench/cublas_baseline.h"
#include "tuner/cli_contest.h"
#include "tuner/cli_problem.h"
#include "tuner/trial_tensors.h"

struct cli_cublas;

typedef struct cli_cublas_candidate {
  const struct cli_cublas *owner;
  int index;
  char name[24]; /* "cublas 3" */
} cli_cublas_candidate;

typedef struct cli_cublas {
  const tune_tensors *tensors;
  cublas_plan *plan;
  device_ptr workspace;
  device_ptr scales[2]; /* of A and B in cublasLt's order, a copy for each set, `scale_bytes` apart; else 0 */
  size_t scale_bytes[2];
  int y; /* tensor: the output is the last one */
  int n;
  cli_cublas_candidate candidates[CUBLAS_HEURISTICS];
} cli_cublas;

/* cuBLAS computes matmul's product, linear's with B transposed, and that of linear_i8, linear_tf32,
 * linear_fp8, linear_fp8_rows and linear_fp8_block; other operators are a usage error. */
arke_status cli_cublas_product(const cli_problem *p, cublas_product *product, arke_error *err);
/* Asks for candidates, on the problem's tensors, which must outlive *c, and arranges scales of blocks as
 * cublasLt wants them; on failure there is nothing to close. ARKE_ERR_UNSUPPORTED with a sentence where
 * cublasLt has no such product. *c must stay where it is. */
arke_status cli_cublas_open(cublas_library *library, const cublas_product *product,
                            const tune_tensors *tensors, cli_cublas *c, arke_error *err);
void cli_cublas_close(cli_cublas *c); /* also of one never opened, all zero */
cli_contestant cli_cublas_contestant(cli_cublas *c, int i);

#endif
