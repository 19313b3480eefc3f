/* Loads a tuned cache and runs a matrix product from it.
 *
 *   arke-tune --op matmul --shape 4096x4096x4096 --cache tuned.arke
 *   run_matmul tuned.arke [--device emulator|cuda]
 *
 * A product of 4096 x 4096 x 4096 is planned, which the cache serves exactly; one of 256 x 256 x 256 is
 * planned with the same kernel, as its nearest neighbour, run and checked: small enough for the emulator, the
 * default here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arke/arke.h>

#include "examples/gpu_memory.h"

enum { TUNED = 4096, SIZE = 256 };

typedef struct matrix {
  DLTensor tensor;
  int64_t shape[2];
} matrix;

/* A row-major bf16 matrix of n x n at `data`; NULL is enough to plan with. */
static void matrix_init(matrix *m, void *data, int64_t n, DLDeviceType device) {
  m->shape[0] = m->shape[1] = n;
  m->tensor = (DLTensor){
      .data = data,
      .device = {device, 0},
      .ndim = 2,
      .dtype = {kDLBfloat, 16, 1},
      .shape = m->shape,
  };
}

/* bf16 is the upper half of an f32; of two neighbours the nearer one, in the middle the even one. Finite
 * values only. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void print_plan(const char *what, const arke_plan *plan) {
  static const char *const MATCHES[] = {"exact", "bucket", "default"};
  arke_plan_info info = arke_plan_describe(plan);
  printf("%s: %s match, %s %.1f us at the tuned sizes\n", what, MATCHES[info.match],
         info.modelled ? "modelled" : "measured", info.time_ns * 1e-3);
  printf("  key     %s\n  config  %s\n  cache   %s\n", info.key, info.config, info.cache_path);
}

static arke_status plan_matmul(arke_context *ctx, matrix m[3], arke_plan **plan, arke_error *err) {
  const DLTensor *tensors[] = {&m[0].tensor, &m[1].tensor, &m[2].tensor};
  return arke_plan_create(ctx, "matmul", tensors, 3, NULL, 0, plan, err);
}

/* A few elements against the sum computed here, rounded to bf16 as the kernel rounds its own. Another order
 * of summing may lead to the next bf16, so that much is allowed. */
static int check(const uint16_t *a, const uint16_t *b, const uint16_t *y) {
  static const int PLACES[][2] = {{0, 0}, {1, 255}, {100, 7}, {128, 128}, {255, 254}};
  int wrong = 0;
  for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
    int row = PLACES[i][0], column = PLACES[i][1];
    float expected = 0;
    for (int k = 0; k < SIZE; k++) expected += from_bf16(a[row * SIZE + k]) * from_bf16(b[k * SIZE + column]);
    expected = from_bf16(to_bf16(expected));
    float found = from_bf16(y[row * SIZE + column]);
    int good = fabsf(found - expected) <= fabsf(expected) / 256;
    printf("  Y[%d,%d] = %g, expected %g in bf16%s\n", row, column, (double)found, (double)expected,
           good ? "" : "  WRONG");
    wrong += !good;
  }
  return wrong;
}

/* Which device runs, and why that one. */
static void print_device(const arke_context *ctx, int asked) {
  printf("device: %s, %s\n", arke_context_device(ctx) == ARKE_DEVICE_CUDA ? "GPU 0" : "emulator on the CPU",
         asked ? "as --device asks" : "the default, since it needs no GPU (--device cuda runs on one)");
}

/* The tensors' memory: the host's for the emulator, else the GPU's. */
static void *place(gpu_memory *gpu, const uint16_t *host, size_t bytes) {
  if (gpu == NULL) return (void *)host;
  void *device = gpu_memory_alloc(gpu, bytes);
  if (device != NULL && gpu_memory_write(gpu, device, host, bytes) != 0) return NULL;
  return device;
}

static int run(arke_context *ctx, gpu_memory *gpu, uint16_t *host[3], arke_error *err) {
  DLDeviceType device = gpu == NULL ? kDLCPU : kDLCUDA;
  size_t bytes = (size_t)SIZE * SIZE * sizeof(uint16_t);
  arke_plan *plan = NULL;
  matrix m[3];
  for (int i = 0; i < 3; i++) matrix_init(&m[i], NULL, TUNED, device);
  if (plan_matmul(ctx, m, &plan, err) != ARKE_OK) return 1;
  print_plan("4096 x 4096 x 4096, planned only", plan);
  arke_plan_destroy(plan);

  for (int i = 0; i < 3; i++) {
    void *data = place(gpu, host[i], bytes);
    if (data == NULL) return 1;
    matrix_init(&m[i], data, SIZE, device);
  }
  if (plan_matmul(ctx, m, &plan, err) != ARKE_OK) return 1;
  print_plan("256 x 256 x 256, run", plan);
  void *workspace = NULL;
  size_t workspace_bytes = arke_workspace_bytes(plan);
  if (workspace_bytes > 0)
    workspace = gpu == NULL ? aligned_alloc(256, (workspace_bytes + 255) / 256 * 256)
                            : gpu_memory_alloc(gpu, workspace_bytes);
  const DLTensor *tensors[] = {&m[0].tensor, &m[1].tensor, &m[2].tensor};
  arke_status status = arke_run(plan, tensors, 3, NULL, workspace, err);
  arke_plan_destroy(plan);
  if (gpu == NULL) free(workspace);
  if (status != ARKE_OK) return 1;
  if (gpu != NULL && gpu_memory_read(gpu, host[2], m[2].tensor.data, bytes) != 0) return 1;
  return check(host[0], host[1], host[2]) != 0;
}

int main(int argc, char **argv) {
  int cuda = argc == 4 && strcmp(argv[2], "--device") == 0 && strcmp(argv[3], "cuda") == 0;
  int emulator =
      argc == 2 || (argc == 4 && strcmp(argv[2], "--device") == 0 && strcmp(argv[3], "emulator") == 0);
  if (!cuda && !emulator) {
    fprintf(stderr, "usage: %s CACHE [--device emulator|cuda]\n", argv[0]);
    return 2;
  }
  arke_options options = {
      .cache_path = argv[1],
      .device = cuda ? ARKE_DEVICE_CUDA : ARKE_DEVICE_EMULATOR,
      .allow_modelled = 1, /* tuned without a GPU, there is nothing else */
  };
  arke_error err = ARKE_ERROR_INIT;
  arke_context *ctx;
  if (arke_open(&options, &ctx, &err) != ARKE_OK) {
    fprintf(stderr, "%s: %s\n", arke_status_name(err.code), err.text);
    return 1;
  }
  print_device(ctx, argc == 4);
  gpu_memory *gpu = cuda ? gpu_memory_open(0) : NULL;
  uint16_t *host[3];
  for (int i = 0; i < 3; i++) {
    host[i] = aligned_alloc(256, (size_t)SIZE * SIZE * sizeof(uint16_t));
    for (int k = 0; host[i] != NULL && k < SIZE * SIZE; k++)
      host[i][k] = to_bf16((float)((k * (7 + i) / 3) % 5 - 2));
  }
  int failed = (cuda && gpu == NULL) || host[0] == NULL || host[1] == NULL || host[2] == NULL;
  if (!failed) failed = run(ctx, gpu, host, &err);
  if (err.code != ARKE_OK)
    fprintf(stderr, "%s: %s\n", arke_status_name(err.code), err.text);
  else if (failed)
    fprintf(stderr, "out of memory, or a wrong result\n");
  for (int i = 0; i < 3; i++) free(host[i]);
  gpu_memory_close(gpu);
  arke_close(ctx);
  return failed;
}
