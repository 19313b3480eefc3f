/* Inside libarke: a plan is everything arke_run needs, worked out beforehand for one problem. */
#ifndef ARKE_RUNTIME_PLAN_H
#define ARKE_RUNTIME_PLAN_H

#include "recipe/recipe.h"
#include "runtime/context.h"
#include "runtime/entry_match.h"

/* What a tensor of a call must be, in DLPack's terms, so that checking is comparing integers. */
typedef struct plan_tensor {
  const char *name;
  DLDataType type;
  DLDevice device;
  int rank;
  bool compact, empty;
  bool written_only; /* an output that is no input too */
  uint32_t strided;  /* bit i: axis i has more than one element, so its stride counts */
  uint64_t alignment_mask;
  size_t span_bytes;
  int64_t shape[LIMIT_RANK], stride[LIMIT_RANK];
} plan_tensor;

typedef struct plan_param {
  recipe_param_kind kind;
  int tensor;                  /* POINTER, TENSORMAP */
  uint64_t value;              /* I32, I64, F32: the bytes passed; others: offset into tensor or workspace */
  const device_tensormap *map; /* TENSORMAP, WORKSPACE_MAP: for `address` */
  uint64_t address;
  int address_word; /* which 64-bit word of the map is the address; -1: only the device knows */
} plan_param;

typedef struct plan_launch {
  device_kernel *kernel;
  device_launch launch; /* args, stream: filled at each run */
  plan_param *params;
} plan_launch;

struct arke_plan {
  arke_context *ctx;
  device *device;
  /* The device's own operations; on a GPU those for a context that the whole run has entered. */
  arke_status (*set_address)(device *d, device_tensormap *map, device_ptr address, arke_error *err);
  arke_status (*launch)(device *d, device_kernel *k, const device_launch *l, arke_error *err);
  loaded_module *module;
  arena memory; /* of everything below */
  char *op;
  int n_tensors, n_launches;
  plan_tensor *tensors;
  plan_launch *launches; /* repeated ones each time; none when every output is empty */
  size_t workspace_bytes;
  arke_plan_info info;
};

/* Builds the plan that serves `c` with a candidate, whose kernel it loads from the cache. ARKE_ERR_SHAPE,
 * ARKE_ERR_ARGUMENT or ARKE_ERR_UNSUPPORTED: the kernel's assumptions do not hold here. The lock is held. */
arke_status plan_build(arke_context *ctx, const call *c, const match_candidate *candidate, arke_plan **plan,
                       arke_error *err);
void plan_free(arke_plan *plan); /* the lock is held */

enum { PLAN_WORKSPACE_ALIGNMENT = 256 };

/* Why a call's tensors, workspace or count are not those planned; ARKE_OK if they are. Slow: for the message.
 */
arke_status plan_explain(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors,
                         const void *workspace, arke_error *err);
/* The arguments of one launch, on the stack of who launches. */
typedef struct launch_frame {
  void *args[LIMIT_KERNEL_ARGS];
  uint64_t values[LIMIT_KERNEL_ARGS];
  device_tensormap maps[LIMIT_KERNEL_ARGS];
} launch_frame;

/* The tensors' addresses, if the call is what was planned. */
bool plan_accepts(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors, const void *workspace,
                  uint64_t *addresses);
/* On a GPU, this and plan_launch_all want its context entered. */
arke_status plan_fill_frame(const arke_plan *plan, const plan_launch *l, const uint64_t *addresses,
                            uint64_t workspace, launch_frame *frame, arke_error *err);
/* Launches everything. `addresses` are those of the tensors, checked already. */
arke_status plan_launch_all(const arke_plan *plan, const uint64_t *addresses, void *stream,
                            uint64_t workspace, arke_error *err);
/* The same on the emulator: tells it of the tensors' memory first, and waits for its turn. */
arke_status plan_emulate(const arke_plan *plan, const uint64_t *addresses, uint64_t workspace,
                         arke_error *err);

#endif
