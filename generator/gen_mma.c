#include "generator/gen_mma.h"

#include <stdio.h>

#include "generator/gen_internal.h"

typedef struct operand_type {
  const char *name;
  int bits;
  gen_type sum;
} operand_type;

static const operand_type types[] = {
#define X(NAME, name, bits, sum) {name, bits, GEN_##sum},
    GEN_MMA_TYPES(X)
#undef X
};

void gen_mma(gen_builder *b, gen_mma_type a_type, gen_mma_type b_type, const gen_value a[4],
             const gen_value b_words[2], gen_value d[4]) {
  const operand_type *x = &types[a_type], *y = &types[b_type];
  if (a_type != b_type && (x->bits != 8 || y->bits != 8 || x->sum != y->sum))
    gen_misuse(b, "a product of %s and %s", x->name, y->name);
  const char *sum = x->sum == GEN_F32 ? "f32" : "s32";
  char text[160];
  snprintf(text, sizeof text,
           "mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, "
           "{$10,$11,$12,$13};",
           8 * GEN_MMA_K_BYTES / x->bits, sum, x->name, y->name, sum);
  const char *constraints =
      x->sum == GEN_F32 ? "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3" : "=r,=r,=r,=r,r,r,r,r,r,r,0,1,2,3";
  gen_value args[] = {a[0], a[1], a[2], a[3], b_words[0], b_words[1], d[0], d[1], d[2], d[3]};
  LLVMTypeRef fields[4];
  for (int i = 0; i < 4; i++) fields[i] = b->types[x->sum];
  LLVMTypeRef result = LLVMStructTypeInContext(b->llvm, fields, 4, 0);
  gen_value all = gen_asm(b, result, text, constraints, args, 10, GEN_ASM_PURE | GEN_ASM_CONVERGENT);
  for (unsigned i = 0; i < 4; i++) d[i] = LLVMBuildExtractValue(b->ir, all, i, "");
}

void gen_ldmatrix_x4(gen_builder *b, bool transposed, gen_value address, gen_value words[4]) {
  const char *text = transposed ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0,$1,$2,$3}, [$4];"
                                : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];";
  LLVMTypeRef fields[4];
  for (int i = 0; i < 4; i++) fields[i] = b->types[GEN_I32];
  LLVMTypeRef result = LLVMStructTypeInContext(b->llvm, fields, 4, 0);
  gen_value all = gen_asm(b, result, text, "=r,=r,=r,=r,r", &address, 1, GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
  for (unsigned i = 0; i < 4; i++) words[i] = LLVMBuildExtractValue(b->ir, all, i, "");
}
