#include "generator/gen_atomic.h"

#include <stdio.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_internal.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"

static const char *order_name(gen_builder *b, gen_order order, bool load, bool store) {
  switch (order) {
  case GEN_RELAXED: return "relaxed";
  case GEN_ACQUIRE:
    if (load) return "acquire";
    break;
  case GEN_RELEASE:
    if (store) return "release";
    break;
  case GEN_ACQ_REL:
    if (load && store) return "acq_rel";
    break;
  }
  gen_misuse(b, "an access with an order it cannot have");
  return "relaxed";
}

/* Register constraint of a plain type. */
static const char *constraint(gen_type type) {
  switch (type) {
  case GEN_F32: return "f";
  case GEN_F64: return "d";
  case GEN_I64: return "l";
  case GEN_I16: return "h";
  default: return "r";
  }
}

/* --- updates --- */

/* PTX type of a value that an update instruction takes; NULL if there is none. */
static const char *update_type(gen_builder *b, gen_update update, gen_value value) {
  bool vector = LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
  gen_type type = vector ? gen_type_of(b, gen_lane(b, value, 0)) : gen_type_of(b, value);
  if (vector && LLVMGetVectorSize(LLVMTypeOf(value)) != 2) return NULL;
  bool bits = update == GEN_UPDATE_AND || update == GEN_UPDATE_OR || update == GEN_UPDATE_XOR ||
              update == GEN_UPDATE_EXCHANGE;
  bool is_signed = update == GEN_UPDATE_MIN || update == GEN_UPDATE_MAX;
  switch (type) {
  case GEN_I32: return vector ? NULL : bits ? "b32" : is_signed ? "s32" : "u32";
  case GEN_I64: return vector ? NULL : bits ? "b64" : is_signed ? "s64" : "u64";
  case GEN_F32: return !vector && update == GEN_UPDATE_ADD ? "f32" : NULL;
  case GEN_F64: return !vector && update == GEN_UPDATE_ADD ? "f64" : NULL;
  case GEN_F16: return update == GEN_UPDATE_ADD ? (vector ? "f16x2" : "f16") : NULL;
  case GEN_BF16:
    return update == GEN_UPDATE_ADD && b->target->has.bf16_arithmetic ? (vector ? "bf16x2" : "bf16") : NULL;
  default: return NULL;
  }
}

static const char *operation_name(gen_update update) {
  switch (update) {
#define X(NAME, operation, floats)                                                                           \
  case GEN_UPDATE_##NAME: return operation;
    GEN_UPDATES(X)
#undef X
  }
  return "add";
}

static bool takes_floats(gen_update update) {
  switch (update) {
#define X(NAME, operation, floats)                                                                           \
  case GEN_UPDATE_##NAME: return floats;
    GEN_UPDATES(X)
#undef X
  }
  return false;
}

typedef struct updating {
  gen_update update;
  gen_value value;
} updating;

/* Rounded once: sums of two 16-bit floats are exact in f32 or round there to odd bits that do not matter
 * (f32 has more than twice their digits and two). */
static gen_value updated(gen_builder *b, void *user, gen_value old) {
  const updating *u = user;
  gen_type type = gen_type_of(b, old);
  bool narrow = type == GEN_F16 || type == GEN_BF16;
  gen_value x = narrow ? gen_float_cast(b, old, GEN_F32) : old;
  gen_value y = narrow ? gen_float_cast(b, u->value, GEN_F32) : u->value;
  gen_value args[] = {x, y}, result = x;
  switch (u->update) {
  case GEN_UPDATE_ADD: result = gen_fadd(b, x, y); break;
  case GEN_UPDATE_MIN: result = gen_minimum(b, args[0], args[1]); break;
  case GEN_UPDATE_MAX: result = gen_maximum(b, args[0], args[1]); break;
  default: gen_misuse(b, "an update of floats that is none"); break;
  }
  return narrow ? gen_float_cast(b, result, type) : result;
}

void gen_update_global(gen_builder *b, gen_update update, gen_value address, gen_value value) {
  const char *type = update_type(b, update, value);
  bool vector = LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
  if (type) {
    int bits = gen_bits_of(b, value);
    bool halves = bits == 16 || vector;
    gen_value word = halves ? gen_bitcast(b, value, bits == 16 ? GEN_I16 : GEN_I32, 1) : value;
    char text[96], constraints[16];
    if (update == GEN_UPDATE_EXCHANGE) { /* without a look at the old value, it is a store */
      gen_store_ordered(b, GEN_RELAXED, value, address);
      return;
    }
    snprintf(text, sizeof text, "red.relaxed.gpu.global.%s%s.%s [$0], $1;", operation_name(update),
             halves ? ".noftz" : "", type);
    snprintf(constraints, sizeof constraints, "l,%s", constraint(gen_type_of(b, word)));
    gen_asm(b, b->none, text, constraints, (gen_value[]){address, word}, 2, GEN_ASM_MEMORY);
    return;
  }
  if (vector) {
    int n = (int)LLVMGetVectorSize(LLVMTypeOf(value));
    gen_value first = gen_lane(b, value, 0);
    for (int i = 0; i < n; i++)
      gen_update_global(b, update, gen_add_imm(b, address, i * gen_bits_of(b, first) / 8),
                        gen_lane(b, value, i));
    return;
  }
  updating u = {update, value};
  if (!gen_is_float(b, value) || !takes_floats(update)) gen_misuse(b, "an update that is not there");
  gen_update_global_by(b, gen_type_of(b, value), address, updated, &u);
}

gen_value gen_fetch_update_global(gen_builder *b, gen_update update, gen_order order, gen_value address,
                                  gen_value value) {
  const char *type = update_type(b, update, value);
  gen_type t = gen_type_of(b, value);
  if (!type || t == GEN_TYPE_COUNT || t == GEN_F16 || t == GEN_BF16) {
    gen_misuse(b, "an atomic update that is not there");
    return value;
  }
  char text[96], constraints[16];
  snprintf(text, sizeof text, "atom.%s.gpu.global.%s.%s $0, [$1], $2;", order_name(b, order, true, true),
           operation_name(update), type);
  snprintf(constraints, sizeof constraints, "=%s,l,%s", constraint(t), constraint(t));
  return gen_asm(b, b->types[t], text, constraints, (gen_value[]){address, value}, 2, GEN_ASM_MEMORY);
}

/* PTX type of an update in shared memory; NULL after a misuse. */
static const char *shared_update_type(gen_builder *b, gen_update update, gen_value value) {
  gen_type t = gen_type_of(b, value);
  bool sum = t == GEN_F32 && update == GEN_UPDATE_ADD;
  if (t == GEN_I32 || t == GEN_I64 || sum) return update_type(b, update, value);
  gen_misuse(b, "an update in shared memory that is not there");
  return NULL;
}

void gen_update_shared(gen_builder *b, gen_update update, gen_value address, gen_value value) {
  const char *type = shared_update_type(b, update, value);
  char text[96], constraints[16];
  if (!type) return;
  if (update == GEN_UPDATE_EXCHANGE) gen_misuse(b, "an exchange whose old value nobody wants");
  snprintf(text, sizeof text, "red.relaxed.cta.shared::cta.%s.%s [$0], $1;", operation_name(update), type);
  snprintf(constraints, sizeof constraints, "r,%s", constraint(gen_type_of(b, value)));
  gen_asm(b, b->none, text, constraints, (gen_value[]){address, value}, 2, GEN_ASM_MEMORY);
}

gen_value gen_fetch_update_shared(gen_builder *b, gen_update update, gen_value address, gen_value value) {
  const char *type = shared_update_type(b, update, value);
  gen_type t = gen_type_of(b, value);
  char text[96], constraints[16];
  if (!type) return value;
  snprintf(text, sizeof text, "atom.relaxed.cta.shared::cta.%s.%s $0, [$1], $2;", operation_name(update),
           type);
  snprintf(constraints, sizeof constraints, "=%s,r,%s", constraint(t), constraint(t));
  return gen_asm(b, b->types[t], text, constraints, (gen_value[]){address, value}, 2, GEN_ASM_MEMORY);
}

gen_value gen_compare_and_swap(gen_builder *b, gen_order order, gen_value address, gen_value expected,
                               gen_value value) {
  gen_type t = gen_type_of(b, value);
  if (t != GEN_I16 && t != GEN_I32 && t != GEN_I64) {
    gen_misuse(b, "a compare and swap of another type");
    return value;
  }
  char text[96], constraints[16];
  snprintf(text, sizeof text, "atom.%s.gpu.global.cas.b%d $0, [$1], $2, $3;",
           order_name(b, order, true, true), gen_bits_of(b, value));
  const char *c = constraint(t);
  snprintf(constraints, sizeof constraints, "=%s,l,%s,%s", c, c, c);
  return gen_asm(b, b->types[t], text, constraints, (gen_value[]){address, expected, value}, 3,
                 GEN_ASM_MEMORY);
}

void gen_update_global_by(gen_builder *b, gen_type type, gen_value address, gen_change change, void *user) {
  int bits = gen_bits_of(b, gen_undefined(b, type));
  gen_type word = bits == 16 ? GEN_I16 : bits == 32 ? GEN_I32 : GEN_I64;
  gen_value seen[1];
  if (bits == 16) {
    gen_value r = gen_asm(b, b->types[GEN_I16], "ld.relaxed.gpu.global.b16 $0, [$1];", "=h,l", &address, 1,
                          GEN_ASM_MEMORY);
    seen[0] = r;
  } else {
    seen[0] = gen_load_ordered(b, GEN_RELAXED, word, address);
  }
  gen_loop loop;
  gen_loop_begin(b, &loop, seen, 1);
  gen_value expected = seen[0];
  gen_value desired = gen_bitcast(b, change(b, user, gen_bitcast(b, expected, type, 1)), word, 1);
  seen[0] = gen_compare_and_swap(b, GEN_RELAXED, address, expected, desired);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_NE, seen[0], expected));
}

/* --- ordered accesses --- */

gen_value gen_load_ordered(gen_builder *b, gen_order order, gen_type type, gen_value address) {
  char text[64], constraints[16];
  int bits = gen_bits_of(b, gen_undefined(b, type));
  if (bits != 32 && bits != 64) gen_misuse(b, "an ordered load of %d bits", bits);
  bool floats = type == GEN_F32 || type == GEN_F64;
  snprintf(text, sizeof text, "ld.%s.gpu.global.%c%d $0, [$1];", order_name(b, order, true, false),
           floats ? 'f' : 'b', bits);
  snprintf(constraints, sizeof constraints, "=%s,l", constraint(type));
  return gen_asm(b, b->types[type], text, constraints, &address, 1, GEN_ASM_MEMORY);
}

void gen_store_ordered(gen_builder *b, gen_order order, gen_value value, gen_value address) {
  char text[64], constraints[16];
  gen_type type = gen_type_of(b, value);
  int bits = gen_bits_of(b, value);
  if (bits != 32 && bits != 64) gen_misuse(b, "an ordered store of %d bits", bits);
  bool floats = type == GEN_F32 || type == GEN_F64;
  snprintf(text, sizeof text, "st.%s.gpu.global.%c%d [$0], $1;", order_name(b, order, false, true),
           floats ? 'f' : 'b', bits);
  snprintf(constraints, sizeof constraints, "l,%s", constraint(type));
  gen_asm(b, b->none, text, constraints, (gen_value[]){address, value}, 2, GEN_ASM_MEMORY);
}

void gen_load_pair_ordered(gen_builder *b, gen_order order, gen_value address, gen_value pair[2]) {
  char text[160];
  LLVMTypeRef types[] = {b->types[GEN_I64], b->types[GEN_I64]};
  snprintf(text, sizeof text,
           "{\n.reg .b128 pair;\nld.%s.gpu.global.b128 pair, [$2];\nmov.b128 {$0, $1}, pair;\n}",
           order_name(b, order, true, false));
  gen_value both =
      gen_asm(b, LLVMStructTypeInContext(b->llvm, types, 2, 0), text, "=l,=l,l", &address, 1, GEN_ASM_MEMORY);
  for (unsigned i = 0; i < 2; i++) pair[i] = LLVMBuildExtractValue(b->ir, both, i, "");
}

void gen_store_pair_ordered(gen_builder *b, gen_order order, const gen_value pair[2], gen_value address) {
  char text[160];
  snprintf(text, sizeof text,
           "{\n.reg .b128 pair;\nmov.b128 pair, {$1, $2};\nst.%s.gpu.global.b128 [$0], pair;\n}",
           order_name(b, order, false, true));
  gen_asm(b, b->none, text, "l,l,l", (gen_value[]){address, pair[0], pair[1]}, 3, GEN_ASM_MEMORY);
}

void gen_fence_gpu(gen_builder *b) {
  gen_asm(b, b->none, "fence.acq_rel.gpu;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_fence_cta(gen_builder *b) {
  gen_asm(b, b->none, "fence.acq_rel.cta;", "", NULL, 0, GEN_ASM_MEMORY);
}

gen_value gen_last_cta(gen_builder *b, gen_value counter, gen_value count, gen_value scratch) {
  /* The barrier gathers what all threads wrote; the one that counts releases it, and acquires what the CTAs
   * before it had released. Counting wraps to 0 after the last one (atom.inc), ready for the next launch. */
  gen_cta_sync(b);
  gen_branch one;
  gen_if(b, &one, gen_compare_imm(b, GEN_EQ, gen_tid_x(b), 0), NULL, 0);
  gen_value most = gen_add_imm(b, count, -1);
  gen_value before = gen_asm(b, b->types[GEN_I32], "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r",
                             (gen_value[]){counter, most}, 2, GEN_ASM_MEMORY);
  gen_store_shared(b, gen_zext(b, gen_compare(b, GEN_EQ, before, most), GEN_I32), scratch);
  gen_if_end(b, &one);
  gen_cta_sync(b);
  return gen_compare_imm(b, GEN_NE, gen_load_shared(b, GEN_I32, 1, scratch), 0);
}
