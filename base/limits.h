/* Every fixed limit of Arke, with its reason. */
#ifndef ARKE_BASE_LIMITS_H
#define ARKE_BASE_LIMITS_H

#define LIMIT_RANK           8  /* DLPack callers use up to 6; index arithmetic stays on the stack */
#define LIMIT_TENSORS        16 /* tensors of one operator call */
#define LIMIT_AXES           16 /* size symbols of one operator */
#define LIMIT_ATTRS          16
#define LIMIT_PARAMS         24 /* tuning parameters of one template */
#define LIMIT_PARAM_VALUES   32
#define LIMIT_NAME_BYTES     64          /* identifiers, NUL included; arke_error.op has this size */
#define LIMIT_CONFIG_BYTES   256         /* printed configuration; arke_error.config has this size */
#define LIMIT_OPERATOR_BYTES 65536       /* operator text; a larger one is a mistake or an attack */
#define LIMIT_EXPR_DEPTH     200         /* nesting in the notation; bounds the parser's stack */
#define LIMIT_AXIS_SIZE      (1ll << 40) /* one axis; products are checked separately */
#define LIMIT_KERNEL_ARGS    128         /* 16 tensors of any strides, each with up to 6 numbers */
#define LIMIT_LAUNCHES       16          /* kernels in one plan */
#define LIMIT_TURNS          2048        /* launches of one run, repeated ones each time */
#define LIMIT_KERNEL_BYTES   (64 << 20)  /* PTX or cubin of one cache row */

#endif
