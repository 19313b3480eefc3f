/* Arke runtime: opens a tuned cache and launches the kernels it holds.
 *
 *   arke_context *ctx;  arke_plan *plan;  arke_error err = ARKE_ERROR_INIT;
 *   arke_open(&(arke_options){.cache_path = "tuned.arke"}, &ctx, &err);
 *   arke_plan_create(ctx, "matmul", tensors, 3, NULL, 0, &plan, &err);
 *   arke_run(plan, tensors, 3, stream, workspace, &err);
 *
 * Nothing here compiles, writes a file, exits or prints. Every fallible function returns an arke_status
 * (0, or a negative code) and, when it fails, fills the arke_error it was given (NULL is allowed).
 * Tensors are DLPack's DLTensor: in the order of the operator's signature, inputs first, then outputs. One
 * that is written in place ("-> (D)") is passed once, as the input. */
#ifndef ARKE_ARKE_H
#define ARKE_ARKE_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(ARKE_BUILD_SHARED)
#define ARKE_API __attribute__((visibility("default")))
#else
#define ARKE_API
#endif
#define ARKE_MUST_CHECK __attribute__((warn_unused_result))

#define ARKE_VERSION "0.1.0"

/* The one list of statuses: enumerator, code, what it means. */
#define ARKE_STATUS_MAP(X)                                                                                   \
  X(OK, 0, "success")                                                                                        \
  X(ERR_MEMORY, -1, "out of memory")                                                                         \
  X(ERR_ARGUMENT, -2, "an argument is missing or out of range")                                              \
  X(ERR_DTYPE, -3, "a dtype does not fit the operator")                                                      \
  X(ERR_SHAPE, -4, "a shape, rank or stride does not fit the operator")                                      \
  X(ERR_DEVICE, -5, "a device is missing or does not match")                                                 \
  X(ERR_SYNTAX, -6, "text that does not follow its notation")                                                \
  X(ERR_INVALID, -7, "text or data that parses but makes no sense")                                          \
  X(ERR_NOT_FOUND, -8, "no such operator, entry or file")                                                    \
  X(ERR_NOT_TUNED, -9, "the cache holds no kernel for this problem")                                         \
  X(ERR_UNSUPPORTED, -10, "valid, but nothing here can do it")                                               \
  X(ERR_IO, -11, "reading or writing failed")                                                                \
  X(ERR_CORRUPT, -12, "a file is damaged or not one of ours")                                                \
  X(ERR_CODEGEN, -13, "lowering a kernel failed")                                                            \
  X(ERR_ASSEMBLE, -14, "the assembler refused the PTX")                                                      \
  X(ERR_DRIVER, -15, "the CUDA driver returned an error")                                                    \
  X(ERR_FAULT, -16, "a kernel broke a rule of the machine")                                                  \
  X(ERR_MISMATCH, -17, "a kernel computed a wrong result")                                                   \
  X(ERR_TIMEOUT, -18, "the time limit passed")                                                               \
  X(ERR_BUSY, -19, "another process holds what is needed")                                                   \
  X(ERR_INTERRUPTED, -20, "interrupted")                                                                     \
  X(ERR_INTERNAL, -21, "a broken invariant inside Arke")

typedef enum arke_status {
#define X(name, code, text) ARKE_##name = (code),
  ARKE_STATUS_MAP(X)
#undef X
} arke_status;

/* What went wrong. The first error recorded wins: later ones do not overwrite it. */
typedef struct arke_error {
  arke_status code;
  char stage[32];   /* part of Arke that found it: "parse", "plan", "launch", "emulator", ... */
  char op[64];      /* operator concerned, or "" */
  char config[256]; /* configuration concerned, or "" */
  char text[2048];  /* one sentence for a person: what, where, what is accepted */
} arke_error;

#define ARKE_ERROR_INIT                                                                                      \
  { ARKE_OK, "", "", "", "" }

/* Name ("ARKE_ERR_SHAPE") and meaning of a status; for any value, never NULL. Static storage. */
ARKE_API const char *arke_status_name(arke_status status);
ARKE_API const char *arke_status_text(arke_status status);
ARKE_API const char *arke_version(void);

typedef struct arke_context arke_context; /* open caches + one device; safe to share between threads */
typedef struct arke_plan arke_plan;       /* launches for one problem; immutable, safe to share */

typedef enum arke_device_kind {
  ARKE_DEVICE_AUTO = 0, /* CUDA if a usable GPU is there, else the emulator */
  ARKE_DEVICE_CUDA,
  ARKE_DEVICE_EMULATOR, /* PTX interpreted on the CPU: for tests, thousands of times slower */
} arke_device_kind;

typedef struct arke_options {
  const char *cache_path;   /* the user's cache file; NULL: none */
  const char *shipped_path; /* consulted after cache_path; NULL: none. At least one of the two */
  arke_device_kind device;
  int device_index;   /* CUDA ordinal */
  int strict;         /* anything but an exact hit is ARKE_ERR_NOT_TUNED */
  int allow_modelled; /* serve entries that were never measured on a GPU; off by default */
  int fast_math;      /* entries tuned with --math fast may serve, and come first; off by default */
  int check_indices;  /* operators that take subscripts from tensors: only entries tuned with --check-indices
                       */
} arke_options;

/* Opens caches read-only and the device. For CUDA, uses the device's primary context (as PyTorch does);
 * it needs no current context. *ctx is owned by the caller until arke_close; on failure it is NULL. */
ARKE_API ARKE_MUST_CHECK arke_status arke_open(const arke_options *options, arke_context **ctx,
                                               arke_error *err);

/* The device in use, never ARKE_DEVICE_AUTO but for NULL: what AUTO chose, and so where tensors must be:
 * kDLCUDA with the context's device index, or kDLCPU for the emulator. */
ARKE_API arke_device_kind arke_context_device(const arke_context *ctx);

/* Destroys the context. Every plan must have been destroyed first. NULL is allowed. */
ARKE_API void arke_close(arke_context *ctx);

/* An attribute of an operator ("eps" = 1e-6; a bool is 0 or 1, a dtype ARKE_DTYPE(code, bits) of DLPack's
 * numbers). Those not given take their defaults, which may follow from sizes; one given twice is refused. */
#define ARKE_DTYPE(code, bits) (256.0 * (code) + (bits))
typedef struct arke_attr {
  const char *name;
  double value;
} arke_attr;

typedef enum arke_match {
  ARKE_MATCH_EXACT = 0, /* tuned for these sizes */
  ARKE_MATCH_BUCKET,    /* tuned for a declared range that holds these sizes */
  ARKE_MATCH_DEFAULT,   /* the nearest tuned sizes whose kernel's assumptions hold here */
} arke_match;

typedef struct arke_plan_info {
  arke_match match;
  int modelled;       /* 1: ranked by the cost model, never measured */
  double time_ns;     /* median when tuned (or the model's estimate) at the tuned sizes */
  const char *key;    /* key of the entry that serves; these strings live as long as the plan */
  const char *config; /* "BLOCK_M=128,BLOCK_N=256,..." */
  const char *cache_path;
  int launches;
} arke_plan_info;

/* Finds and loads the kernels for `op` on tensors like these: shapes, dtypes, strides, alignment and device
 * are read, the data is not. ARKE_ERR_NOT_TUNED names the nearest key, the fields that differ and the command
 * that would tune it. Where kernels exist and none takes these tensors (strides, alignment), the status and
 * the sentence say what they want. Where no output has elements the plan launches nothing. An output whose
 * elements could overlap is ARKE_ERR_SHAPE. */
ARKE_API ARKE_MUST_CHECK arke_status arke_plan_create(arke_context *ctx, const char *op,
                                                      const DLTensor *const *tensors, int n_tensors,
                                                      const arke_attr *attrs, int n_attrs, arke_plan **plan,
                                                      arke_error *err);
ARKE_API void arke_plan_destroy(arke_plan *plan);
ARKE_API arke_plan_info arke_plan_describe(const arke_plan *plan);

/* Bytes of device memory arke_run needs as workspace, 256-byte aligned; often 0. 0 for NULL. */
ARKE_API size_t arke_workspace_bytes(const arke_plan *plan);

/* Launches the plan on `stream` (a CUstream; NULL is the legacy default stream). Tensors must agree with the
 * planned ones in shape, dtype, strides, device and alignment; data pointers may differ. No allocation, no
 * synchronisation, capturable into a CUDA graph. On the emulator it returns when the kernel has run. */
ARKE_API ARKE_MUST_CHECK arke_status arke_run(const arke_plan *plan, const DLTensor *const *tensors,
                                              int n_tensors, void *stream, void *workspace, arke_error *err);

#ifdef __cplusplus
}
#endif
#endif
