#include "generator/gen_memory.h"

#include <stdio.h>
#include <string.h>

#include "generator/gen_internal.h"
#include "generator/gen_words.h"

static gen_value shared_address(gen_builder *b, LLVMValueRef object) {
  return LLVMBuildPtrToInt(b->ir, object, b->types[GEN_I32], "");
}

gen_value gen_shared_dynamic(gen_builder *b) {
  static const char name[] = "dynamic_smem";
  LLVMValueRef object = LLVMGetNamedGlobal(b->module, name);
  if (!object) {
    object =
        LLVMAddGlobalInAddressSpace(b->module, LLVMArrayType2(b->types[GEN_I8], 0), name, GEN_SPACE_SHARED);
    LLVMSetLinkage(object, LLVMExternalLinkage);
    LLVMSetAlignment(object, 1024);
  }
  return shared_address(b, object);
}

gen_value gen_shared_static(gen_builder *b, const char *name, int bytes, int alignment) {
  /* Globals are the module's: those of later kernels carry the kernel's name. */
  char own[128];
  size_t length;
  if (b->n_kernels > 1) {
    int n = snprintf(own, sizeof own, "%s$%s", LLVMGetValueName2(b->function, &length), name);
    if (n >= (int)sizeof own) gen_misuse(b, "a shared object with too long a name: %s", name);
    name = own;
  }
  if (LLVMGetNamedGlobal(b->module, name)) gen_misuse(b, "two shared objects named %s", name);
  LLVMTypeRef type = LLVMArrayType2(b->types[GEN_I8], (uint64_t)bytes);
  LLVMValueRef object = LLVMAddGlobalInAddressSpace(b->module, type, name, GEN_SPACE_SHARED);
  LLVMSetLinkage(object, LLVMInternalLinkage);
  LLVMSetInitializer(object, LLVMGetPoison(type));
  LLVMSetAlignment(object, (unsigned)alignment);
  return shared_address(b, object);
}

static unsigned value_bytes(gen_builder *b, gen_value value) {
  LLVMTypeRef type = LLVMTypeOf(value);
  unsigned lanes = 1;
  if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
    lanes = LLVMGetVectorSize(type);
    type = LLVMGetElementType(type);
  }
  static const unsigned bits[] = {
#define X(NAME, bits) bits,
      GEN_TYPES(X)
#undef X
  };
  for (int t = 0; t < GEN_TYPE_COUNT; t++) {
    if (b->types[t] == type) return lanes * ((bits[t] + 7) / 8);
  }
  return 1;
}

static gen_value load(gen_builder *b, gen_type type, int lanes, gen_value address, unsigned space,
                      bool constant) {
  LLVMTypeRef whole = lanes == 1 ? b->types[type] : LLVMVectorType(b->types[type], (unsigned)lanes);
  gen_value pointer = LLVMBuildIntToPtr(b->ir, address, b->pointers[space], "");
  gen_value v = LLVMBuildLoad2(b->ir, whole, pointer, "");
  LLVMSetAlignment(v, value_bytes(b, v));
  if (constant) {
    static const char kind[] = "invariant.load";
    LLVMMetadataRef empty = LLVMMDNodeInContext2(b->llvm, NULL, 0);
    LLVMSetMetadata(v, LLVMGetMDKindIDInContext(b->llvm, kind, (unsigned)strlen(kind)),
                    LLVMMetadataAsValue(b->llvm, empty));
  }
  return v;
}

static void store(gen_builder *b, gen_value value, gen_value address, unsigned space) {
  gen_value pointer = LLVMBuildIntToPtr(b->ir, address, b->pointers[space], "");
  LLVMSetAlignment(LLVMBuildStore(b->ir, value, pointer), value_bytes(b, value));
}

gen_value gen_load_global(gen_builder *b, gen_type type, int lanes, gen_value address, bool constant) {
  return load(b, type, lanes, address, GEN_SPACE_GLOBAL, constant);
}

void gen_store_global(gen_builder *b, gen_value value, gen_value address) {
  store(b, value, address, GEN_SPACE_GLOBAL);
}

static const struct {
  const char *loads, *stores, *policy;
} caches[] = {
#define X(NAME, loads, stores, policy) {loads, stores, policy},
    GEN_CACHES(X)
#undef X
};

gen_value gen_l2_policy(gen_builder *b, gen_cache cache) {
  if (!caches[cache].policy) return NULL;
  char text[96];
  snprintf(text, sizeof text, "createpolicy.fractional.L2::%s.b64 $0;", caches[cache].policy);
  return gen_asm(b, b->types[GEN_I64], text, "=l", NULL, 0, GEN_ASM_PURE);
}

static void check_width(gen_builder *b, unsigned bytes) {
  if (bytes > (b->target->has.access_32 ? 32u : 16u))
    gen_misuse(b, "an access of %u bytes on %s", bytes, b->target->name);
}

gen_value gen_load_global_cached(gen_builder *b, gen_type type, int lanes, gen_value address, bool constant,
                                 gen_cache cache) {
  LLVMTypeRef whole = lanes == 1 ? b->types[type] : LLVMVectorType(b->types[type], (unsigned)lanes);
  unsigned bytes = value_bytes(b, LLVMGetPoison(whole));
  check_width(b, bytes);
  if (cache == GEN_CACHE_DEFAULT && bytes <= 16) return gen_load_global(b, type, lanes, address, constant);
  char instruction[64];
  snprintf(instruction, sizeof instruction, "ld.global%s%s", constant ? ".nc" : "", caches[cache].loads);
  /* What nothing writes may move, but not above the launch's wait: so it is not pure. */
  return gen_words_load(b, instruction, "l", type, lanes, address, gen_l2_policy(b, cache),
                        constant ? GEN_ASM_READ : GEN_ASM_MEMORY);
}

void gen_store_global_cached(gen_builder *b, gen_value value, gen_value address, gen_cache cache) {
  unsigned bytes = value_bytes(b, value);
  check_width(b, bytes);
  if (cache == GEN_CACHE_DEFAULT && bytes <= 16) {
    gen_store_global(b, value, address);
    return;
  }
  char instruction[64];
  snprintf(instruction, sizeof instruction, "st.global%s", caches[cache].stores);
  gen_words_store(b, instruction, "l", value, address, gen_l2_policy(b, cache));
}

void gen_store_global_relaxed(gen_builder *b, gen_value value, gen_value address) {
  unsigned bytes = value_bytes(b, value);
  if (bytes > 16) gen_misuse(b, "a relaxed store of %u bytes", bytes);
  gen_words_store(b, "st.relaxed.gpu.global", "l", value, address, NULL);
}

void gen_load_words(gen_builder *b, int bytes, gen_value address, bool constant, gen_cache cache,
                    gen_value *words) {
  if (bytes < 4) {
    gen_value v = gen_load_global_cached(b, bytes == 1 ? GEN_I8 : GEN_I16, 1, address, constant, cache);
    words[0] = gen_zext(b, v, GEN_I32);
    return;
  }
  int n = bytes / 4;
  gen_value v = gen_load_global_cached(b, GEN_I32, n, address, constant, cache);
  for (int i = 0; i < n; i++) words[i] = n == 1 ? v : gen_lane(b, v, i);
}

void gen_store_words(gen_builder *b, int bytes, const gen_value *words, gen_value address, gen_cache cache) {
  gen_value v = bytes < 4   ? gen_trunc(b, words[0], bytes == 1 ? GEN_I8 : GEN_I16)
                : bytes > 4 ? gen_vector(b, words, bytes / 4)
                            : words[0];
  gen_store_global_cached(b, v, address, cache);
}

gen_value gen_load_shared(gen_builder *b, gen_type type, int lanes, gen_value address) {
  return load(b, type, lanes, address, GEN_SPACE_SHARED, false);
}

void gen_store_shared(gen_builder *b, gen_value value, gen_value address) {
  store(b, value, address, GEN_SPACE_SHARED);
}

void gen_prefetch_l2(gen_builder *b, gen_value address) {
  gen_asm(b, b->none, "prefetch.global.L2 [$0];", "l", &address, 1, GEN_ASM_EFFECT);
}

gen_value gen_pack_halves(gen_builder *b, dtype type, gen_value low, gen_value high) {
  /* The instruction puts its first source into the upper half. */
  const char *text = type == DTYPE_BF16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
  if (type != DTYPE_BF16 && type != DTYPE_F16) gen_misuse(b, "packing %s", dtype_name(type));
  return gen_asm(b, b->types[GEN_I32], text, "=r,f,f", (gen_value[]){high, low}, 2, GEN_ASM_PURE);
}

static void store_matrices(gen_builder *b, const char *text, gen_value address,
                           const gen_value fragments[4]) {
  gen_value args[] = {address, fragments[0], fragments[1], fragments[2], fragments[3]};
  gen_asm(b, b->none, text, "r,r,r,r,r", args, 5, GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
}

void gen_stmatrix_x4(gen_builder *b, gen_value address, const gen_value fragments[4]) {
  store_matrices(b, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", address, fragments);
}

void gen_stmatrix_x4_transposed(gen_builder *b, gen_value address, const gen_value fragments[4]) {
  store_matrices(b, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$0], {$1, $2, $3, $4};", address,
                 fragments);
}
