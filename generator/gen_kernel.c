#include "generator/gen_kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

#include "generator/gen_internal.h"

void gen_misuse(gen_builder *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  error_vset(&b->misuse, ARKE_ERR_INTERNAL, "generate", format, args);
  va_end(args);
}

/* --- module and function --- */

/* LLVM reports errors such as an impossible asm constraint here instead of failing a call. */
static void collect_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  strbuf *out = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  if (out->length) strbuf_add(out, "; ");
  strbuf_add(out, text);
  LLVMDisposeMessage(text);
}

/* Of value 0, which for "memory" says that none is touched. */
static LLVMAttributeRef enum_attribute(LLVMContextRef c, const char *name) {
  return LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
}

static void string_attribute(gen_builder *b, LLVMAttributeIndex at, const char *name, const char *value) {
  LLVMAttributeRef a =
      LLVMCreateStringAttribute(b->llvm, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(b->function, at, a);
}

static void make_types(gen_builder *b) {
  LLVMContextRef c = b->llvm;
  b->none = LLVMVoidTypeInContext(c);
  b->types[GEN_I1] = LLVMInt1TypeInContext(c);
  b->types[GEN_I8] = LLVMInt8TypeInContext(c);
  b->types[GEN_I16] = LLVMInt16TypeInContext(c);
  b->types[GEN_I32] = LLVMInt32TypeInContext(c);
  b->types[GEN_I64] = LLVMInt64TypeInContext(c);
  b->types[GEN_F16] = LLVMHalfTypeInContext(c);
  b->types[GEN_BF16] = LLVMBFloatTypeInContext(c);
  b->types[GEN_F32] = LLVMFloatTypeInContext(c);
  b->types[GEN_F64] = LLVMDoubleTypeInContext(c);
  for (unsigned space = 0; space < COUNT_OF(b->pointers); space++) {
    b->pointers[space] = LLVMPointerTypeInContext(c, space);
  }
}

static LLVMTypeRef param_type(gen_builder *b, gen_param_kind kind) {
  switch (kind) {
  case GEN_PARAM_TENSORMAP: return b->pointers[0];
  case GEN_PARAM_POINTER: return b->pointers[GEN_SPACE_GLOBAL];
  case GEN_PARAM_I32: return b->types[GEN_I32];
  case GEN_PARAM_I64: return b->types[GEN_I64];
  case GEN_PARAM_F32: return b->types[GEN_F32];
  }
  return b->types[GEN_I32];
}

/* A TMA descriptor must stay in parameter space: without grid_constant LLVM copies it to local memory, where
 * the copy unit cannot read it. */
static void mark_tensormap(gen_builder *b, LLVMAttributeIndex at) {
  LLVMTypeRef bytes = LLVMArrayType2(b->types[GEN_I8], 128);
  unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5),
           align = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddAttributeAtIndex(b->function, at, LLVMCreateTypeAttribute(b->llvm, byval, bytes));
  LLVMAddAttributeAtIndex(b->function, at, LLVMCreateEnumAttribute(b->llvm, align, 64));
  string_attribute(b, at, "nvvm.grid_constant", "");
}

static arke_status make_function(gen_builder *b, const gen_kernel *k, arke_error *err) {
  if (k->n_params > (int)COUNT_OF(b->params)) {
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "kernel of %d parameters", k->n_params);
  }
  if (LLVMGetNamedFunction(b->module, k->name)) {
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "two kernels named %s", k->name);
  }
  LLVMTypeRef types[COUNT_OF(b->params)];
  for (int i = 0; i < k->n_params; i++) types[i] = param_type(b, k->params[i]);
  LLVMTypeRef type = LLVMFunctionType(b->none, types, (unsigned)k->n_params, 0);
  b->function = LLVMAddFunction(b->module, k->name, type);
  LLVMSetFunctionCallConv(b->function, LLVMPTXKernelCallConv);
  LLVMAddAttributeAtIndex(b->function, GEN_AT_FUNCTION, b->nounwind);
  char text[64];
  snprintf(text, sizeof text, "%d", k->threads);
  string_attribute(b, GEN_AT_FUNCTION, "nvvm.reqntid", text);
  snprintf(text, sizeof text, "%d", k->min_ctas_per_sm);
  string_attribute(b, GEN_AT_FUNCTION, "nvvm.minctasm", text);
  if (k->cluster[0] * k->cluster[1] * k->cluster[2] > 1) {
    snprintf(text, sizeof text, "%d,%d,%d", k->cluster[0], k->cluster[1], k->cluster[2]);
    string_attribute(b, GEN_AT_FUNCTION, "nvvm.cluster_dim", text);
  }
  /* An indirect branch costs more than the few compares it replaces. */
  string_attribute(b, GEN_AT_FUNCTION, "no-jump-tables", "true");
  LLVMPositionBuilderAtEnd(b->ir, gen_block(b, "entry"));
  for (int i = 0; i < k->n_params; i++) {
    gen_value v = LLVMGetParam(b->function, (unsigned)i);
    if (k->params[i] == GEN_PARAM_TENSORMAP) mark_tensormap(b, (LLVMAttributeIndex)(i + 1));
    bool address = k->params[i] == GEN_PARAM_TENSORMAP || k->params[i] == GEN_PARAM_POINTER;
    b->params[i] = address ? LLVMBuildPtrToInt(b->ir, v, b->types[GEN_I64], "") : v;
  }
  b->n_params = k->n_params;
  b->cluster_x = k->cluster[0];
  b->n_kernels++;
  return ARKE_OK;
}

arke_status gen_builder_create(gen_context *ctx, const target *t, const gen_kernel *k, gen_builder **out,
                               arke_error *err) {
  *out = NULL;
  LLVMTargetMachineRef machine;
  TRY(gen_context_machine(ctx, t, &machine, err));
  gen_builder *b = calloc(1, sizeof *b);
  if (!b) return error_memory(err, "generate");
  b->context = ctx;
  b->target = t;
  b->machine = machine;
  b->llvm = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(b->llvm, collect_diagnostic, &b->diagnostics);
  LLVMContextSetDiscardValueNames(b->llvm, 1);
  b->module = LLVMModuleCreateWithNameInContext(k->name, b->llvm);
  b->ir = LLVMCreateBuilderInContext(b->llvm);
  LLVMSetTarget(b->module, "nvptx64-nvidia-cuda");
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(b->module, layout);
  LLVMDisposeTargetData(layout);
  make_types(b);
  b->nounwind = enum_attribute(b->llvm, "nounwind");
  b->convergent = enum_attribute(b->llvm, "convergent");
  b->willreturn = enum_attribute(b->llvm, "willreturn");
  b->no_memory = enum_attribute(b->llvm, "memory");
  arke_status status = make_function(b, k, err);
  if (status != ARKE_OK) {
    gen_builder_destroy(b);
    return status;
  }
  *out = b;
  return ARKE_OK;
}

arke_status gen_end_kernel(gen_builder *b, arke_error *err) {
  if (b->open_blocks) gen_misuse(b, "%d loops or branches not ended", b->open_blocks);
  if (b->misuse.code) return error_set(err, b->misuse.code, b->misuse.stage, "%s", b->misuse.text);
  LLVMBuildRetVoid(b->ir);
  return ARKE_OK;
}

arke_status gen_builder_next_kernel(gen_builder *b, const gen_kernel *k, arke_error *err) {
  TRY(gen_end_kernel(b, err));
  return make_function(b, k, err);
}

void gen_builder_destroy(gen_builder *b) {
  if (!b) return;
  LLVMDisposeBuilder(b->ir);
  LLVMDisposeModule(b->module);
  LLVMContextDispose(b->llvm);
  strbuf_free(&b->diagnostics);
  free(b);
}

gen_value gen_param(gen_builder *b, int i) {
  if (i >= 0 && i < b->n_params) return b->params[i];
  gen_misuse(b, "parameter %d of %d", i, b->n_params);
  return gen_i32(b, 0);
}

LLVMBasicBlockRef gen_block(gen_builder *b, const char *name) {
  return LLVMAppendBasicBlockInContext(b->llvm, b->function, name);
}

/* --- calls --- */

gen_value gen_intrinsic(gen_builder *b, const char *name, LLVMTypeRef result, const gen_value *args, int n) {
  LLVMTypeRef types[8];
  gen_value operands[8];
  if (n > (int)COUNT_OF(types)) {
    gen_misuse(b, "%s with %d arguments", name, n);
    n = (int)COUNT_OF(types);
  }
  for (int i = 0; i < n; i++) {
    operands[i] = args[i];
    types[i] = LLVMTypeOf(args[i]);
  }
  LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
  LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
  if (!function) function = LLVMAddFunction(b->module, name, type);
  return LLVMBuildCall2(b->ir, type, function, operands, (unsigned)n, "");
}

gen_value gen_asm(gen_builder *b, LLVMTypeRef result, const char *text, const char *constraints,
                  const gen_value *args, int n, unsigned flags) {
  LLVMTypeRef types[GEN_MAX_OPERANDS];
  gen_value operands[GEN_MAX_OPERANDS];
  if (n > GEN_MAX_OPERANDS) {
    gen_misuse(b, "asm block with %d operands", n);
    n = GEN_MAX_OPERANDS;
  }
  for (int i = 0; i < n; i++) {
    operands[i] = args[i];
    types[i] = LLVMTypeOf(args[i]);
  }
  strbuf all = STRBUF_INIT;
  strbuf_add(&all, constraints);
  if (flags & GEN_ASM_MEMORY) strbuf_add(&all, *constraints ? ",~{memory}" : "~{memory}");
  if (strbuf_failed(&all)) error_memory(&b->misuse, "generate");
  LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
  bool effect = flags & (GEN_ASM_EFFECT | GEN_ASM_MEMORY);
  LLVMValueRef block = LLVMGetInlineAsm(type, text, strlen(text), strbuf_text(&all),
                                        strlen(strbuf_text(&all)), effect, 0, LLVMInlineAsmDialectATT, 0);
  strbuf_free(&all);
  gen_value call = LLVMBuildCall2(b->ir, type, block, operands, (unsigned)n, "");
  LLVMAddCallSiteAttribute(call, GEN_AT_FUNCTION, b->nounwind);
  if (flags & GEN_ASM_CONVERGENT) LLVMAddCallSiteAttribute(call, GEN_AT_FUNCTION, b->convergent);
  if (flags == GEN_ASM_PURE) {
    LLVMAddCallSiteAttribute(call, GEN_AT_FUNCTION, b->willreturn);
    LLVMAddCallSiteAttribute(call, GEN_AT_FUNCTION, b->no_memory);
  }
  return call;
}

/* --- threads --- */

#define X(name, sreg)                                                                                        \
  gen_value gen_##name(gen_builder *b) {                                                                     \
    return gen_intrinsic(b, "llvm.nvvm.read.ptx.sreg." sreg, b->types[GEN_I32], NULL, 0);                    \
  }
GEN_SREGS(X)
#undef X

gen_value gen_clusterid_x(gen_builder *b) {
  return gen_udiv(b, gen_ctaid_x(b), gen_i32(b, b->cluster_x));
}

gen_value gen_nclusterid_x(gen_builder *b) {
  return gen_udiv(b, gen_nctaid_x(b), gen_i32(b, b->cluster_x));
}

gen_value gen_warp_index(gen_builder *b) {
  return gen_warp_uniform(b, gen_lshr(b, gen_tid_x(b), gen_i32(b, 5)));
}

gen_value gen_warp_uniform(gen_builder *b, gen_value x) {
  return gen_asm(b, b->types[GEN_I32], "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", &x, 1,
                 GEN_ASM_EFFECT | GEN_ASM_CONVERGENT);
}

gen_value gen_pin(gen_builder *b, gen_value x) {
  bool is_float = gen_type_of(b, x) == GEN_F32;
  return gen_asm(b, b->types[is_float ? GEN_F32 : GEN_I32], "", is_float ? "=f,0" : "=r,0", &x, 1,
                 GEN_ASM_EFFECT);
}

static void set_registers(gen_builder *b, const char *way, int registers) {
  if (registers < 24 || registers > 256 || registers % 8) gen_misuse(b, "setmaxnreg %d", registers);
  char text[64];
  snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %d;", way, registers);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_EFFECT | GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
}

void gen_registers_grow(gen_builder *b, int registers) {
  set_registers(b, "inc", registers);
}

void gen_registers_shrink(gen_builder *b, int registers) {
  set_registers(b, "dec", registers);
}
