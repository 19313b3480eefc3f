/* Device memory for the example alone, through libcuda.so.1: a real program has its tensors already. */
#ifndef ARKE_EXAMPLES_GPU_MEMORY_H
#define ARKE_EXAMPLES_GPU_MEMORY_H

#include <stddef.h>

typedef struct gpu_memory gpu_memory;

/* Each returns NULL (or a non-zero number) when the driver refuses. */
gpu_memory *gpu_memory_open(int device_index);
void gpu_memory_close(gpu_memory *g); /* frees what was allocated */
void *gpu_memory_alloc(gpu_memory *g, size_t bytes);
int gpu_memory_write(gpu_memory *g, void *to, const void *from, size_t bytes);
int gpu_memory_read(gpu_memory *g, void *to, const void *from, size_t bytes); /* waits for kernels */

#endif
