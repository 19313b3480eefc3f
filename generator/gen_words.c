#include "generator/gen_words.h"

#include <stdio.h>

#include "generator/gen_bits.h"

enum { MOST_WORDS = 8 };

/* How many bytes travel: n registers of `bits`. Bytes need a 16-bit register. */
typedef struct shape {
  int n, bits;
  const char *type, *constraint;
  gen_type word;
} shape;

static bool shape_of(gen_builder *b, int bits, shape *s) {
  switch (bits) {
  case 8: *s = (shape){1, 8, "b8", "h", GEN_I16}; return true;
  case 16: *s = (shape){1, 16, "b16", "h", GEN_I16}; return true;
  case 32:
  case 64:
  case 128:
  case 256: *s = (shape){bits / 32, 32, "b32", "r", GEN_I32}; return true;
  default: gen_misuse(b, "an access of %d bits", bits); return false;
  }
}

/* "$first" or "{$first, …}". */
static void list_registers(strbuf *text, int first, int n) {
  if (n > 1) strbuf_add(text, "{");
  for (int i = 0; i < n; i++) strbuf_addf(text, "%s$%d", i ? ", " : "", first + i);
  if (n > 1) strbuf_add(text, "}");
}

static void name_instruction(strbuf *text, const char *instruction, const shape *s, bool policy) {
  strbuf_add(text, instruction);
  if (policy) strbuf_add(text, ".L2::cache_hint");
  if (s->n > 1) strbuf_addf(text, ".v%d", s->n);
  strbuf_addf(text, ".%s ", s->type);
}

gen_value gen_words_load(gen_builder *b, const char *instruction, const char *address_register, gen_type type,
                         int lanes, gen_value address, gen_value policy, unsigned flags) {
  LLVMTypeRef whole = lanes == 1 ? b->types[type] : LLVMVectorType(b->types[type], (unsigned)lanes);
  gen_value like = LLVMGetPoison(whole);
  shape s;
  if (!shape_of(b, gen_bits_of(b, like), &s)) return like;
  strbuf text = STRBUF_INIT, constraints = STRBUF_INIT;
  name_instruction(&text, instruction, &s, policy != NULL);
  list_registers(&text, 0, s.n);
  strbuf_addf(&text, ", [$%d]", s.n);
  if (policy) strbuf_addf(&text, ", $%d", s.n + 1);
  strbuf_add(&text, ";");
  for (int i = 0; i < s.n; i++) strbuf_addf(&constraints, "=%s,", s.constraint);
  strbuf_addf(&constraints, "%s%s", address_register, policy ? ",l" : "");
  if (strbuf_failed(&text) || strbuf_failed(&constraints)) error_memory(&b->misuse, "generate");
  LLVMTypeRef types[MOST_WORDS], result = b->types[s.word];
  for (int i = 0; i < s.n; i++) types[i] = b->types[s.word];
  if (s.n > 1) result = LLVMStructTypeInContext(b->llvm, types, (unsigned)s.n, 0);
  gen_value words = gen_asm(b, result, strbuf_text(&text), strbuf_text(&constraints),
                            (gen_value[]){address, policy}, policy ? 2 : 1, flags);
  strbuf_free(&text);
  strbuf_free(&constraints);
  if (s.bits == 8) return gen_trunc(b, words, GEN_I8);
  if (s.n > 1) {
    gen_value all[MOST_WORDS];
    for (int i = 0; i < s.n; i++) all[i] = LLVMBuildExtractValue(b->ir, words, (unsigned)i, "");
    words = gen_vector(b, all, s.n);
  }
  return LLVMTypeOf(words) == whole ? words : LLVMBuildBitCast(b->ir, words, whole, "");
}

void gen_words_store(gen_builder *b, const char *instruction, const char *address_register, gen_value value,
                     gen_value address, gen_value policy) {
  shape s;
  if (!shape_of(b, gen_bits_of(b, value), &s)) return;
  strbuf text = STRBUF_INIT, constraints = STRBUF_INIT;
  name_instruction(&text, instruction, &s, policy != NULL);
  strbuf_add(&text, "[$0], ");
  list_registers(&text, 1, s.n);
  if (policy) strbuf_addf(&text, ", $%d", s.n + 1);
  strbuf_add(&text, ";");
  strbuf_add(&constraints, address_register);
  for (int i = 0; i < s.n; i++) strbuf_addf(&constraints, ",%s", s.constraint);
  if (policy) strbuf_add(&constraints, ",l");
  if (strbuf_failed(&text) || strbuf_failed(&constraints)) error_memory(&b->misuse, "generate");
  gen_value args[MOST_WORDS + 2] = {address};
  if (s.bits == 8) {
    args[1] = gen_zext(b, gen_bitcast(b, value, GEN_I8, 1), GEN_I16);
  } else {
    gen_value words = gen_bitcast(b, value, s.word, s.n);
    for (int i = 0; i < s.n; i++) args[1 + i] = s.n > 1 ? gen_lane(b, words, i) : words;
  }
  args[1 + s.n] = policy;
  gen_asm(b, b->none, strbuf_text(&text), strbuf_text(&constraints), args, s.n + (policy ? 2 : 1),
          GEN_ASM_MEMORY);
  strbuf_free(&text);
  strbuf_free(&constraints);
}
