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

typedef struct element {
  dtype type;
  const char *name;
  bool integer, transposable;
} element;

static const element elements[] = {
    {DTYPE_F16, "f16", false, true},    {DTYPE_BF16, "bf16", false, true},  {DTYPE_F32, "tf32", false, false},
    {DTYPE_E4M3, "e4m3", false, false}, {DTYPE_E5M2, "e5m2", false, false}, {DTYPE_I8, "s8", true, false},
    {DTYPE_U8, "u8", true, false},
};

static const element *element_of(dtype type) {
  for (size_t i = 0; i < COUNT_OF(elements); i++)
    if (elements[i].type == type) return &elements[i];
  return NULL;
}

int gen_wgmma_k(dtype type) {
  return 256 / dtype_bits(type);
}

gen_type gen_wgmma_sum(dtype type) {
  const element *e = element_of(type);
  return e && e->integer ? GEN_I32 : GEN_F32;
}

/* "=f,=f,…,<inputs>,0,1,…": n results, `inputs` in between, and the accumulators tied to the results. */
static void tied_constraints(strbuf *out, gen_type type, int n, const char *inputs) {
  const char *result = type == GEN_I32 ? "=r" : "=f";
  for (int i = 0; i < n; i++) strbuf_addf(out, i ? ",%s" : "%s", result);
  strbuf_add(out, inputs);
  for (int i = 0; i < n; i++) strbuf_addf(out, ",%d", i);
}

enum { MOST_WORDS = GEN_WGMMA_MAX_STEPS * 4 * 4, MOST_INPUTS = MOST_WORDS + 4 };

/* Runs an asm block over accumulators tied to its results; `extra` inputs come first. */
static void tied_block(gen_builder *b, strbuf *text, gen_type type, const char *inputs,
                       const gen_value *extra, int n_extra, gen_value *acc, int n) {
  if (n > GEN_WGMMA_MAX_ACCUMULATORS) {
    gen_misuse(b, "%d accumulators a thread", n);
    return;
  }
  strbuf constraints = STRBUF_INIT;
  tied_constraints(&constraints, type, n, inputs);
  gen_value args[GEN_WGMMA_MAX_ACCUMULATORS + MOST_INPUTS];
  LLVMTypeRef fields[GEN_WGMMA_MAX_ACCUMULATORS];
  for (int i = 0; i < n_extra; i++) args[i] = extra[i];
  for (int i = 0; i < n; i++) {
    args[n_extra + i] = acc[i];
    fields[i] = b->types[type];
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

/* A block in the making. Its operands behind the accumulators: A's descriptor or words, B's descriptor, the
 * accumulate flag. */
typedef struct group {
  const gen_wgmma *w;
  bool registers; /* A's words instead of its descriptor */
  strbuf text;
} group;

static int words_of(const gen_wgmma *w) {
  return w->tiles * w->k_steps * 4;
}

/* One product of k-step `step` for row tile `tile`. */
static void add_product(group *g, int step, int tile) {
  const gen_wgmma *w = g->w;
  const element *a = element_of(w->type), *b = element_of(w->b_type);
  strbuf *text = &g->text;
  int per_tile = w->n / 2, n_acc = per_tile * w->tiles, flag = n_acc + (g->registers ? words_of(w) : 1) + 1;
  if (!g->registers) {
    int a_offset = w->a.step_offset[step] + tile * w->a.tile_offset;
    strbuf_addf(text, "add.s64 a, $%d, %d;\n", n_acc, a_offset >> 4);
  }
  if (tile == 0) strbuf_addf(text, "add.s64 b, $%d, %d;\n", flag - 1, w->b.step_offset[step] >> 4);
  strbuf_addf(text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {", w->n, gen_wgmma_k(w->type),
              a->integer ? "s32" : "f32", a->name, b->name);
  for (int i = 0; i < per_tile; i++) strbuf_addf(text, i ? ",$%d" : "$%d", tile * per_tile + i);
  if (g->registers) {
    int first = n_acc + (tile * w->k_steps + step) * 4;
    strbuf_addf(text, "}, {$%d,$%d,$%d,$%d}, b, ", first, first + 1, first + 2, first + 3);
  } else {
    strbuf_add(text, "}, a, b, ");
  }
  if (step == 0) {
    strbuf_addf(text, "$%d", flag);
  } else {
    strbuf_add(text, "1");
  }
  if (!a->integer) strbuf_add(text, ", 1, 1");
  if (a->transposable && !g->registers) strbuf_addf(text, ", %d", w->a.transposed);
  if (a->transposable) strbuf_addf(text, ", %d", w->b.transposed);
  strbuf_add(text, ";\n");
}

/* Whether there is such an instruction. */
static bool known(gen_builder *b, const gen_wgmma *w) {
  const element *x = element_of(w->type), *y = element_of(w->b_type);
  bool mix = x && y && dtype_bits(w->type) == 8 && dtype_bits(w->b_type) == 8 && x->integer == y->integer;
  if (!x || (w->type != w->b_type && !mix)) {
    gen_misuse(b, "wgmma of %s and %s", dtype_name(w->type), dtype_name(w->b_type));
    return false;
  }
  bool n_known = w->n >= 8 && w->n <= 256 && w->n % (x->integer && w->n > 32 ? 16 : 8) == 0;
  if (!n_known || w->k_steps > GEN_WGMMA_MAX_STEPS || w->tiles > 4) {
    gen_misuse(b, "wgmma with n %d, %d steps", w->n, w->k_steps);
    return false;
  }
  if (!x->transposable && (w->a.transposed || w->b.transposed)) {
    gen_misuse(b, "wgmma of transposed %s", x->name);
    return false;
  }
  return true;
}

static void issue(gen_builder *b, group *g, const gen_value *a, gen_value b_descriptor, gen_value accumulate,
                  gen_value *acc) {
  const gen_wgmma *w = g->w;
  if (!known(b, w)) return;
  gen_value inputs[MOST_INPUTS];
  int n = 0, n_a = g->registers ? words_of(w) : 1;
  strbuf constraints = STRBUF_INIT;
  strbuf_add(&g->text, "{\n.reg .b64 a, b;\nwgmma.fence.sync.aligned;\n");
  for (int step = 0; step < w->k_steps; step++) {
    for (int tile = 0; tile < w->tiles; tile++) add_product(g, step, tile);
  }
  strbuf_add(&g->text, "wgmma.commit_group.sync.aligned;\n}");
  for (int i = 0; i < n_a; i++) {
    strbuf_add(&constraints, g->registers ? ",r" : ",l");
    inputs[n++] = a[i];
  }
  strbuf_add(&constraints, ",l,b");
  inputs[n++] = b_descriptor;
  inputs[n++] = accumulate;
  if (strbuf_failed(&constraints)) {
    error_memory(&b->misuse, "generate");
  } else {
    tied_block(b, &g->text, gen_wgmma_sum(w->type), strbuf_text(&constraints), inputs, n, acc,
               w->tiles * w->n / 2);
  }
  strbuf_free(&constraints);
  strbuf_free(&g->text);
}

void gen_wgmma_issue(gen_builder *b, const gen_wgmma *w, gen_value a_descriptor, gen_value b_descriptor,
                     gen_value accumulate, gen_value *acc) {
  group g = {.w = w, .text = STRBUF_INIT};
  issue(b, &g, &a_descriptor, b_descriptor, accumulate, acc);
}

void gen_wgmma_issue_registers(gen_builder *b, const gen_wgmma *w, const gen_value *a_words,
                               gen_value b_descriptor, gen_value accumulate, gen_value *acc) {
  group g = {.w = w, .registers = true, .text = STRBUF_INIT};
  issue(b, &g, a_words, b_descriptor, accumulate, acc);
}

void gen_wgmma_wait(gen_builder *b, int pending, gen_value *acc, int n) {
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text, "wgmma.wait_group.sync.aligned %d;", pending);
  tied_block(b, &text, n > 0 && !gen_is_float(b, acc[0]) ? GEN_I32 : GEN_F32, "", NULL, 0, acc, n);
  strbuf_free(&text);
}
