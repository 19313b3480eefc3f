#include "generator/gen_context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <llvm-c/Support.h>
#include <llvm-c/Target.h>

#include "generator/gen_internal.h"

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT;

/* LLVM's registry of back ends is process-wide and its initialisation is not reentrant. */
static void initialise_llvm(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  /* The pass takes wide loads apart where every element is used, and loses that nothing writes them. */
  static const char *const options[] = {"arke", "-disable-vector-combine"};
  LLVMParseCommandLineOptions((int)COUNT_OF(options), options, "");
}

void gen_llvm_version(char text[32]) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  snprintf(text, 32, "%u.%u.%u", major, minor, patch);
}

arke_status gen_context_create(gen_context **ctx, arke_error *err) {
  pthread_once(&llvm_once, initialise_llvm);
  *ctx = calloc(1, sizeof **ctx);
  return *ctx ? ARKE_OK : error_memory(err, "generate");
}

void gen_context_destroy(gen_context *ctx) {
  if (!ctx) return;
  for (int i = 0; i < ctx->n_machines; i++) LLVMDisposeTargetMachine(ctx->machines[i]);
  free(ctx);
}

arke_status gen_context_machine(gen_context *ctx, const target *t, LLVMTargetMachineRef *machine,
                                arke_error *err) {
  if (ctx->dead) {
    return error_set(err, ARKE_ERR_CODEGEN, "generate",
                     "LLVM stopped with a fatal error earlier in this process; start a new one");
  }
  for (int i = 0; i < ctx->n_machines; i++) {
    if (ctx->targets[i] == t) {
      *machine = ctx->machines[i];
      return ARKE_OK;
    }
  }
  if (ctx->n_machines == GEN_MAX_TARGETS) {
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "more than %d targets in one context",
                     GEN_MAX_TARGETS);
  }
  static const char triple[] = "nvptx64-nvidia-cuda";
  LLVMTargetRef back_end;
  char *text = NULL;
  if (LLVMGetTargetFromTriple(triple, &back_end, &text)) {
    error_set(err, ARKE_ERR_CODEGEN, "generate", "this LLVM has no NVPTX back end: %s", text ? text : "");
    LLVMDisposeMessage(text);
    return ARKE_ERR_CODEGEN;
  }
  *machine = LLVMCreateTargetMachine(back_end, triple, t->name, t->llvm_features, LLVMCodeGenLevelAggressive,
                                     LLVMRelocDefault, LLVMCodeModelDefault);
  if (!*machine) {
    return error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM makes no target machine for %s", t->name);
  }
  ctx->targets[ctx->n_machines] = t;
  ctx->machines[ctx->n_machines++] = *machine;
  return ARKE_OK;
}
