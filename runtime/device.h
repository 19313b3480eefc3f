/* The device interface: what the CUDA driver and the emulator have in common. The tuner, the tests and the
 * runtime see only this. A device is used from several threads for launching; opening, loading and memory
 * calls are made by one thread at a time. Functions return a status and fill `err` with the driver's or the
 * emulator's own text. */
#ifndef ARKE_RUNTIME_DEVICE_H
#define ARKE_RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

typedef struct device device;
typedef struct device_module device_module;
typedef struct device_kernel device_kernel;
typedef uint64_t device_ptr; /* a device address; on the emulator a host address */

typedef struct device_info {
  arke_device_kind kind;
  int index;
  char name[128];         /* "NVIDIA H200" or "emulator" */
  int cc_major, cc_minor; /* the emulator takes those of the target it was opened for */
  int sm_count;
  int smem_per_block_bytes; /* opt-in maximum of dynamic shared memory */
  int64_t l2_bytes, memory_bytes;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  int driver_version;   /* 13000 for CUDA 13.0; 0 on the emulator */
  char driver_text[64]; /* "580.159.04" where known */
  char pci_bus[32];     /* "0000:1b:00.0"; empty on the emulator */
  bool can_measure;     /* times mean something */
} device_info;

/* Arguments of cuTensorMapEncodeTiled (interleave none, element strides 1, zero fill). */
typedef struct device_tensormap_desc {
  dtype type;
  int rank; /* 1..5 */
  device_ptr address;
  uint64_t dim[5];
  uint64_t stride_bytes[5]; /* [0] unused */
  uint32_t box[5];
  int swizzle, l2_promotion;
} device_tensormap_desc;

typedef struct device_tensormap {
  _Alignas(64) uint8_t opaque[128];
} device_tensormap;

typedef struct device_launch {
  uint32_t grid[3], block[3], cluster[3]; /* cluster 0 or 1 everywhere: none */
  uint32_t smem_bytes;
  void **args; /* one pointer per kernel parameter, to its value */
  int n_args;
  void *stream; /* CUstream */
  /* The kernel itself waits for what runs before it (griddepcontrol.wait): it may start while that ends. */
  bool early_start;
} device_launch;

typedef struct device_kernel_info {
  int registers, local_bytes, static_smem_bytes, max_threads;
} device_kernel_info;

typedef enum device_memory_state { DEVICE_MEMORY_POISONED, DEVICE_MEMORY_INITIALISED } device_memory_state;

/* The operations of one kind of device. Opaque handles are the implementation's. */
typedef struct device_ops {
  void (*close)(device *d);
  arke_status (*info)(device *d, device_info *info, arke_error *err);

  /* Memory, 256-byte aligned; `name` is how faults refer to it ("A"). It starts poisoned on the emulator. */
  arke_status (*mem_alloc)(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err);
  void (*mem_free)(device *d, device_ptr p);
  arke_status (*copy_in)(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err);
  arke_status (*copy_out)(device *d, void *to, device_ptr from, size_t bytes, arke_error *err);
  /* From one place of the device's memory to another; they do not overlap. */
  arke_status (*copy)(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err);
  arke_status (*fill)(device *d, device_ptr p, int byte, size_t bytes, arke_error *err);
  /* Tells the device of memory the caller owns, so that the emulator can check accesses to it. No-op on CUDA.
   */
  arke_status (*mem_import)(device *d, device_ptr p, size_t bytes, const char *name,
                            device_memory_state state, arke_error *err);
  void (*mem_release)(device *d, device_ptr p);

  /* image: PTX text (NUL-terminated, size without the NUL) or a cubin. The emulator takes PTX only. */
  arke_status (*module_load)(device *d, const void *image, size_t bytes, device_module **m, arke_error *err);
  void (*module_unload)(device *d, device_module *m);
  /* The kernel lives as long as its module. smem_bytes: the most dynamic shared memory a launch will ask for.
   */
  arke_status (*kernel_get)(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                            device_kernel **k, arke_error *err);
  arke_status (*kernel_info)(device *d, device_kernel *k, device_kernel_info *info, arke_error *err);

  arke_status (*tensormap_encode)(device *d, const device_tensormap_desc *desc, device_tensormap *map,
                                  arke_error *err);
  arke_status (*tensormap_set_address)(device *d, device_tensormap *map, device_ptr address, arke_error *err);

  /* Asynchronous on CUDA; on the emulator it returns the kernel's fault, if any (ARKE_ERR_FAULT). */
  arke_status (*launch)(device *d, device_kernel *k, const device_launch *l, arke_error *err);
  arke_status (*synchronize)(device *d,
                             arke_error *err); /* whole context; returns a fault of earlier launches */

  /* Streams, events and graphs: NULL where can_measure is false. */
  arke_status (*stream_create)(device *d, void **stream, arke_error *err);
  void (*stream_destroy)(device *d, void *stream);
  /* Fills in the stream's order; the host does not wait. */
  arke_status (*stream_fill)(device *d, device_ptr p, int byte, size_t bytes, void *stream, arke_error *err);
  arke_status (*event_create)(device *d, void **event, arke_error *err);
  void (*event_destroy)(device *d, void *event);
  arke_status (*event_record)(device *d, void *event, void *stream, arke_error *err);
  /* Waits for `end`; nanoseconds between the two. */
  arke_status (*event_elapsed)(device *d, void *begin, void *end, double *ns, arke_error *err);
  arke_status (*graph_begin)(device *d, void *stream, arke_error *err);
  arke_status (*graph_end)(device *d, void *stream, void **graph_exec, arke_error *err);
  arke_status (*graph_launch)(device *d, void *graph_exec, void *stream, arke_error *err);
  void (*graph_destroy)(device *d, void *graph_exec);

  /* PTX to cubin with the driver's linker (cuLink*); NULL where there is none. *cubin is malloc'ed. */
  arke_status (*assemble)(device *d, const char *ptx, const char *target, void **cubin, size_t *bytes,
                          arke_error *err);
} device_ops;

/* An implementation embeds this as its first member. */
struct device {
  const device_ops *ops;
};

/* CUDA device `index` through its primary context, which it retains. Its operations work on any thread and
 * leave the thread's current context as it was. ARKE_ERR_DEVICE with the reason when there is no driver or no
 * such GPU. */
arke_status device_open_cuda(int index, device **d, arke_error *err);

/* An emulated GPU for a target ("sm_90a"); `seed` varies the order of asynchronous completions. Implemented
 * in emulator/, declared here so that the runtime needs no header of it. */
arke_status device_open_emulator(const char *target, uint64_t seed, device **d, arke_error *err);

#endif
