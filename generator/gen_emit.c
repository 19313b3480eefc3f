#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "generator/gen_internal.h"

/* LLVM's fatal errors ("Cannot select …") call a handler that has no user pointer and must not return. The
 * jump leaves LLVM's frames without unwinding them: the module leaks and the context is given up. */
typedef struct fatal_trap {
  jmp_buf back;
  char reason[512];
} fatal_trap;
static _Thread_local fatal_trap *active_trap;

static void on_fatal_error(const char *reason) {
  fatal_trap *trap = active_trap;
  if (!trap) return; /* not ours: LLVM ends the process */
  snprintf(trap->reason, sizeof trap->reason, "%s", reason);
  longjmp(trap->back, 1);
}

static arke_status verify(gen_builder *b, arke_error *err) {
  char *text = NULL;
  arke_status status = ARKE_OK;
  if (LLVMVerifyModule(b->module, LLVMReturnStatusAction, &text)) {
    status = error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM's verifier: %s", text);
  }
  LLVMDisposeMessage(text);
  return status;
}

static arke_status optimise(gen_builder *b, arke_error *err) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef failure = LLVMRunPasses(b->module, "default<O3>", b->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!failure) return ARKE_OK;
  char *text = LLVMGetErrorMessage(failure);
  error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM's optimiser: %s", text);
  LLVMDisposeErrorMessage(text);
  return ARKE_ERR_CODEGEN;
}

static arke_status print_ir(gen_builder *b, arena *a, gen_output *out, arke_error *err) {
  char *text = LLVMPrintModuleToString(b->module);
  out->llvm_ir = arena_strdup(a, text);
  LLVMDisposeMessage(text);
  return out->llvm_ir ? ARKE_OK : error_memory(err, "generate");
}

static arke_status print_ptx(gen_builder *b, arena *a, gen_output *out, arke_error *err) {
  char *text = NULL;
  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(b->machine, b->module, LLVMAssemblyFile, &text, &buffer)) {
    error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM's code generator: %s", text ? text : "");
    LLVMDisposeMessage(text);
    return ARKE_ERR_CODEGEN;
  }
  out->ptx_bytes = LLVMGetBufferSize(buffer);
  out->ptx = arena_strndup(a, LLVMGetBufferStart(buffer), out->ptx_bytes);
  LLVMDisposeMemoryBuffer(buffer);
  return out->ptx ? ARKE_OK : error_memory(err, "generate");
}

static arke_status run_passes(gen_builder *b, bool keep_llvm_ir, arena *a, gen_output *out, arke_error *err) {
  TRY(verify(b, err));
  TRY(optimise(b, err));
  if (keep_llvm_ir) TRY(print_ir(b, a, out, err));
  TRY(print_ptx(b, a, out, err));
  if (strbuf_failed(&b->diagnostics)) return error_memory(err, "generate");
  if (b->diagnostics.length) {
    return error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM: %s", strbuf_text(&b->diagnostics));
  }
  return ARKE_OK;
}

arke_status gen_builder_finish(gen_builder *b, bool keep_llvm_ir, arena *a, gen_output *out,
                               arke_error *err) {
  *out = (gen_output){0};
  TRY(gen_end_kernel(b, err));
  fatal_trap trap;
  arke_status status;
  LLVMResetFatalErrorHandler();
  LLVMInstallFatalErrorHandler(on_fatal_error);
  active_trap = &trap;
  if (setjmp(trap.back) == 0) {
    status = run_passes(b, keep_llvm_ir, a, out, err);
  } else {
    b->context->dead = true;
    status = error_set(err, ARKE_ERR_CODEGEN, "generate", "LLVM stopped: %s", trap.reason);
  }
  active_trap = NULL;
  if (status != ARKE_OK) *out = (gen_output){0};
  return status;
}
