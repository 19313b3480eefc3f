#include "generator/gen_wgmma.h"

#include "generator/gen_internal.h"

static uint64_t swizzle_code(gen_swizzle swizzle) {
  switch (swizzle) {
  case GEN_SWIZZLE_NONE: return 0;
  case GEN_SWIZZLE_128: return 1;
  case GEN_SWIZZLE_64: return 2;
  case GEN_SWIZZLE_32: return 3;
  }
  return 0;
}

int64_t gen_wgmma_descriptor_bits(gen_swizzle swizzle, int leading_bytes, int stride_bytes) {
  uint64_t leading = (uint64_t)leading_bytes >> 4, stride = (uint64_t)stride_bytes >> 4;
  return (int64_t)((leading & 0x3FFF) << 16 | (stride & 0x3FFF) << 32 | swizzle_code(swizzle) << 62);
}

gen_value gen_wgmma_descriptor(gen_builder *b, gen_value shared, int64_t bits) {
  /* The start address field has 14 bits; a CTA of a cluster has its rank above them. */
  gen_value field = gen_lshr(b, gen_and(b, shared, gen_i32(b, 0x3FFFF)), gen_i32(b, 4));
  return gen_or(b, gen_zext(b, field, GEN_I64), gen_i64(b, bits));
}

/* "=f,=f,…,<inputs>,0,1,…": n results, `inputs` in between, and the accumulators tied to the results. */
static void tied_constraints(strbuf *out, int n, const char *inputs) {
  for (int i = 0; i < n; i++) strbuf_add(out, i ? ",=f" : "=f");
  strbuf_add(out, inputs);
  for (int i = 0; i < n; i++) strbuf_addf(out, ",%d", i);
}

/* Runs an asm block over accumulators tied to its results; `extra` inputs come first. */
static void tied_block(gen_builder *b, strbuf *text, const char *inputs, const gen_value *extra, int n_extra,
                       gen_value *acc, int n) {
  if (n > GEN_WGMMA_MAX_ACCUMULATORS) {
    gen_misuse(b, "%d accumulators a thread", n);
    return;
  }
  strbuf constraints = STRBUF_INIT;
  tied_constraints(&constraints, n, inputs);
  gen_value args[GEN_WGMMA_MAX_ACCUMULATORS + 4];
  LLVMTypeRef fields[GEN_WGMMA_MAX_ACCUMULATORS];
  for (int i = 0; i < n_extra; i++) args[i] = extra[i];
  for (int i = 0; i < n; i++) {
    args[n_extra + i] = acc[i];
    fields[i] = b->types[GEN_F32];
  }
  if (strbuf_failed(text) || strbuf_failed(&constraints)) {
    error_memory(&b->misuse, "generate");
  } else {
    LLVMTypeRef result = LLVMStructTypeInContext(b->llvm, fields, (unsigned)n, 0);
    gen_value all = gen_asm(b, result, strbuf_text(text), strbuf_text(&constraints), args, n_extra + n,
                            GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
    for (int i = 0; i < n; i++) acc[i] = LLVMBuildExtractValue(b->ir, all, (unsigned)i, "");
  }
  strbuf_free(&constraints);
}

/* One product of k-step `step` for row tile `tile`; operands n_acc .. n_acc + 2 of the block are the
 * descriptors and the accumulate flag. */
static void add_product(strbuf *text, const gen_wgmma *w, int step, int tile) {
  const char *name = dtype_name(w->type);
  int per_tile = w->n / 2, n_acc = per_tile * w->tiles;
  int a_offset = w->a.step_offset[step] + tile * w->a.tile_offset;
  strbuf_addf(text, "add.s64 a, $%d, %d;\n", n_acc, a_offset >> 4);
  if (tile == 0) strbuf_addf(text, "add.s64 b, $%d, %d;\n", n_acc + 1, w->b.step_offset[step] >> 4);
  strbuf_addf(text, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {", w->n, name, name);
  for (int i = 0; i < per_tile; i++) strbuf_addf(text, i ? ",$%d" : "$%d", tile * per_tile + i);
  strbuf_add(text, "}, a, b, ");
  if (step == 0) {
    strbuf_addf(text, "$%d", n_acc + 2);
  } else {
    strbuf_add(text, "1");
  }
  strbuf_addf(text, ", 1, 1, %d, %d;\n", w->a.transposed, w->b.transposed);
}

void gen_wgmma_issue(gen_builder *b, const gen_wgmma *w, gen_value a_descriptor, gen_value b_descriptor,
                     gen_value accumulate, gen_value *acc) {
  if (w->type != DTYPE_F16 && w->type != DTYPE_BF16) gen_misuse(b, "wgmma of %s", dtype_name(w->type));
  if (w->n < 8 || w->n > 256 || w->n % 8 || w->k_steps > GEN_WGMMA_MAX_STEPS) {
    gen_misuse(b, "wgmma with n %d, %d steps", w->n, w->k_steps);
    return;
  }
  strbuf text = STRBUF_INIT;
  strbuf_add(&text, "{\n.reg .b64 a, b;\nwgmma.fence.sync.aligned;\n");
  for (int step = 0; step < w->k_steps; step++) {
    for (int tile = 0; tile < w->tiles; tile++) add_product(&text, w, step, tile);
  }
  strbuf_add(&text, "wgmma.commit_group.sync.aligned;\n}");
  gen_value inputs[] = {a_descriptor, b_descriptor, accumulate};
  tied_block(b, &text, ",l,l,b", inputs, 3, acc, w->tiles * w->n / 2);
  strbuf_free(&text);
}

void gen_wgmma_wait(gen_builder *b, int pending, gen_value *acc, int n) {
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text, "wgmma.wait_group.sync.aligned %d;", pending);
  tied_block(b, &text, "", NULL, 0, acc, n);
  strbuf_free(&text);
}
