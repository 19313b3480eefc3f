/* What lowering jobs of one process share: LLVM's NVPTX back end and one target machine per target. Making a
 * target machine costs more than building a small kernel, so keep one context per process. Used by one thread
 * at a time. */
#ifndef ARKE_GENERATOR_GEN_CONTEXT_H
#define ARKE_GENERATOR_GEN_CONTEXT_H

#include "base/error.h"

typedef struct gen_context gen_context;

/* Initialises LLVM on the first call of the process. *ctx is the caller's; NULL on failure. */
arke_status gen_context_create(gen_context **ctx, arke_error *err);
/* Every builder made from it must be gone. NULL is allowed. */
void gen_context_destroy(gen_context *ctx);
/* "22.1.8": the LLVM linked at run time. Part of the cache's environment. */
void gen_llvm_version(char text[32]);

#endif
