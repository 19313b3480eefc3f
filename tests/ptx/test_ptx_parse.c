/* Decoding: whole files, and what single instructions become. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/ptx_forms.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"
#include "tests/support/failing_alloc.h"

#define CASES "tests/ptx/cases/"

/* File, kernel, its instructions (a ret that was added counts), registers, predicates. */
static const struct {
  const char *file, *kernel;
  uint32_t instructions, slots, predicates, params, threads;
} FILES[] = {
    {"01_kernel_abi.ptx", "k", 17, 15, 0, 3, 384},
    {"02_mbarrier.ptx", "k", 20, 11, 3, 2, 128},
    {"03_tma_sm90.ptx", "k", 28, 16, 0, 5, 128},
    {"04_wgmma_inline_asm.ptx", "k", 25, 17, 2, 5, 128},
    {"05_warp_specialisation.ptx", "k", 21, 9, 4, 1, 384},
    {"06_convert_math_sm90.ptx", "k", 34, 22, 0, 4, 0},
    {"06b_convert_sm100.ptx", "k", 25, 19, 0, 7, 0},
    {"07_mma_ldmatrix_stmatrix.ptx", "k", 19, 21, 0, 2, 0},
    {"08_memory_atomics.ptx", "k", 39, 37, 2, 4, 0},
    {"09_cluster_pdl.ptx", "k", 21, 14, 0, 1, 256},
    {"10_tcgen05_f16.ptx", "k", 52, 52, 8, 4, 128},
    {"11_tcgen05_all_kinds.ptx", "k", 33, 30, 2, 10, 128},
    {"11b_tcgen05_cta_group2.ptx", "k", 36, 31, 2, 10, 128},
    {"12_cluster_launch_control.ptx", "k", 17, 20, 2, 2, 128},
    {"13_fast_math.ptx", "strict", 16, 12, 0, 4, 0},
    {"13_fast_math.ptx", "fast", 15, 11, 0, 4, 0},
    {"14_ws_gemm_skeleton.ptx", "k", 146, 94, 13, 5, 384},
    {"gemm_128x128.ptx", "gemm", 342, 249, 20, 6, 384},
    {"attention_d128.ptx", "attn", 1223, 1031, 21, 6, 384},
    {"by_hand.ptx", "first", 29, 13, 4, 4, 0},
    {"by_hand.ptx", "second", 1, 0, 0, 0, 0},
};

static ptx_module *parse_file(const char *name) {
  char path[256];
  size_t bytes;
  arke_error err = ARKE_ERROR_INIT;
  ptx_module *module = NULL;
  snprintf(path, sizeof path, CASES "%s", name);
  char *text = read_text(path, &bytes);
  ck_assert_msg(text != NULL, "cannot read %s", path);
  arke_status status = ptx_parse(text, bytes, &module, &err);
  ck_assert_msg(status == ARKE_OK, "%s: %s", path, err.text);
  free(text);
  return module;
}

/* Rules that every decoded program keeps, whatever it says. */
static void check_invariants(const ptx_kernel *k) {
  ck_assert_uint_gt(k->n_instructions, 0);
  int line = 0;
  for (uint32_t n = 0; n < k->n_instructions; n++) {
    const ptx_instruction *i = &k->instructions[n];
    ck_assert_int_ge(i->line, line);
    line = i->line;
    ck_assert_int_ne(i->unit, PTX_UNIT_NONE);
    bool branch = i->opcode == PTX_BRA || i->opcode == PTX_BRX;
    if (i->opcode == PTX_BRA) ck_assert_uint_lt(i->target, k->n_instructions);
    if (branch) ck_assert_uint_le(i->reconverge, k->n_instructions);
    for (uint32_t u = 0; u < (uint32_t)i->n_reads + i->n_writes; u++) {
      bool predicate = (i->uses[u] & PTX_USE_PREDICATE) != 0;
      uint32_t slot = i->uses[u] & ~PTX_USE_PREDICATE;
      if (slot >= (predicate ? k->n_predicates : k->n_slots)) ck_abort_msg("line %d: slot %u", i->line, slot);
      uint32_t from = u < i->n_reads ? 0 : i->n_reads;
      for (uint32_t v = from; v < u; v++)
        if (i->uses[v] == i->uses[u]) ck_abort_msg("line %d lists a register twice", i->line);
    }
  }
  uint16_t last = k->instructions[k->n_instructions - 1].opcode;
  ck_assert(last == PTX_RET || last == PTX_EXIT || last == PTX_BRA || last == PTX_BRX || last == PTX_TRAP);
}

START_TEST(files_decode) {
  ptx_module *m = parse_file(FILES[_i].file);
  const ptx_kernel *k = ptx_find_kernel(m, FILES[_i].kernel);
  ck_assert_ptr_nonnull(k);
  check_invariants(k);
  ck_assert_uint_eq(k->n_instructions, FILES[_i].instructions);
  ck_assert_uint_eq(k->n_slots, FILES[_i].slots);
  ck_assert_uint_eq(k->n_predicates, FILES[_i].predicates);
  ck_assert_uint_eq(k->n_params, FILES[_i].params);
  ck_assert_uint_eq(k->reqntid[0], FILES[_i].threads);
  ptx_module_free(m);
}
END_TEST

START_TEST(module_and_kernel_attributes) {
  ptx_module *m = parse_file("by_hand.ptx");
  const ptx_kernel *k = &m->kernels[0];
  ck_assert_int_eq(m->version_major, 8);
  ck_assert_int_eq(m->version_minor, 6);
  ck_assert_str_eq(m->target, "sm_90a");
  ck_assert_int_eq(m->sm, 90);
  ck_assert_uint_eq(m->n_kernels, 2);
  ck_assert_uint_eq(k->maxntid[0], 256);
  ck_assert_uint_eq(k->maxntid[1], 2);
  ck_assert_uint_eq(k->maxntid[2], 1);
  ck_assert_uint_eq(k->minnctapersm, 2);
  ck_assert_uint_eq(k->maxnreg, 64);
  ck_assert_uint_eq(k->maxclusterrank, 8);
  static const struct {
    const char *name;
    uint32_t offset, bytes, align;
  } params[] = {{"small", 0, 1, 1}, {"map", 64, 128, 64}, {"out", 192, 8, 8}, {"n", 200, 4, 4}};
  for (int p = 0; p < (int)COUNT_OF(params); p++) {
    ck_assert_str_eq(k->params[p].name, params[p].name);
    ck_assert_uint_eq(k->params[p].offset, params[p].offset);
    ck_assert_uint_eq(k->params[p].bytes, params[p].bytes);
    ck_assert_uint_eq(k->params[p].align, params[p].align);
  }
  ck_assert_uint_eq(k->param_bytes, 204);
  static const struct {
    const char *name;
    ptx_space space;
    uint64_t bytes;
    uint32_t align;
    int kernel;
    bool is_extern;
  } symbols[] = {
      {"scale", PTX_SPACE_CONST, 12, 4, -1, false},   {"table", PTX_SPACE_GLOBAL, 8, 8, -1, false},
      {"counter", PTX_SPACE_GLOBAL, 8, 8, -1, false}, {"dynamic", PTX_SPACE_SHARED, 0, 1024, -1, true},
      {"words", PTX_SPACE_SHARED, 32, 16, -1, false}, {"frame", PTX_SPACE_LOCAL, 16, 8, 0, false},
      {"slot", PTX_SPACE_SHARED, 4, 4, 0, false}};
  ck_assert_uint_eq(m->n_symbols, (int)COUNT_OF(symbols));
  for (int s = 0; s < (int)COUNT_OF(symbols); s++) {
    const ptx_symbol *x = &m->symbols[s];
    ck_assert_str_eq(x->name, symbols[s].name);
    ck_assert_int_eq(x->space, symbols[s].space);
    ck_assert_uint_eq(x->bytes, symbols[s].bytes);
    ck_assert_uint_eq(x->align, symbols[s].align);
    ck_assert_int_eq(x->kernel, symbols[s].kernel);
    ck_assert_int_eq(x->is_extern, symbols[s].is_extern);
    ck_assert_uint_eq(x->index, (uint32_t)s);
  }
  static const uint8_t scale[12] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0};
  static const uint8_t table[8] = {1, 2, 3, 4, 5, 6, 255, 16};
  ck_assert_mem_eq(m->symbols[0].initial, scale, sizeof scale);
  ck_assert_mem_eq(m->symbols[1].initial, table, sizeof table);
  ck_assert_ptr_null(m->symbols[2].initial);
  ptx_module_free(m);
}
END_TEST

START_TEST(labels_belong_to_their_scope) {
  ptx_module *m = parse_file("by_hand.ptx");
  const ptx_kernel *k = &m->kernels[0];
  uint32_t targets[8], sources[8], n = 0;
  for (uint32_t i = 0; i < k->n_instructions; i++)
    if (k->instructions[i].opcode == PTX_BRA) sources[n] = i, targets[n++] = k->instructions[i].target;
  ck_assert_uint_eq(n, 5);
  ck_assert_uint_eq(targets[0], k->n_instructions - 1); /* $done, at the added ret */
  ck_assert_uint_eq(targets[1], sources[1] + 1);
  ck_assert_uint_eq(targets[2], sources[2] - 2); /* the outer loop: */
  ck_assert_uint_eq(targets[3], sources[3] - 1); /* the inner one */
  ck_assert_uint_eq(targets[4], sources[4] + 1);
  const ptx_instruction *table = NULL;
  for (uint32_t i = 0; i < k->n_instructions; i++)
    if (k->instructions[i].opcode == PTX_BRX) table = &k->instructions[i];
  ck_assert_ptr_nonnull(table);
  ck_assert_int_eq(table->operands[1].kind, PTX_OPERAND_VECTOR);
  ck_assert_uint_eq(table->operands[1].n, 3);
  ck_assert_uint_eq(table->operands[1].elements[0].slot, targets[1]);
  ck_assert_uint_eq(table->operands[1].elements[2].slot, k->n_instructions - 1);
  ptx_module_free(m);
}
END_TEST

/* The only instruction of a kernel on sm_90a with the fixture's registers. */
typedef struct single {
  ptx_module *module;
  const ptx_instruction *i;
} single;

static single decode(const char *statement) {
  char text[4096];
  single s = {NULL, NULL};
  arke_error err = ARKE_ERROR_INIT;
  int n = snprintf(
      text, sizeof text,
      ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 8 .b64 bar;\n"
      ".entry k(.param .align 64 .b8 map[128], .param .u64 out) { .reg .pred %%p<4>; .reg .b16 %%h<8>;"
      " .reg .b32 %%r<140>; .reg .b64 %%d<8>; %s }",
      statement);
  ck_assert_int_lt(n, (int)sizeof text);
  arke_status status = ptx_parse(text, (size_t)n, &s.module, &err);
  ck_assert_msg(status == ARKE_OK, "%s: %s", statement, err.text);
  s.i = &s.module->kernels[0].instructions[0];
  return s;
}

START_TEST(wgmma_decodes) {
  single s =
      decode("@!%p1 wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7},"
             " %d0, %d1, %p2, 1, -1, 0, 1;");
  ck_assert_int_eq(s.i->opcode, PTX_WGMMA);
  ck_assert_int_eq(s.i->unit, PTX_UNIT_MATRIX);
  ck_assert_int_eq(s.i->m, 64);
  ck_assert_int_eq(s.i->n, 16);
  ck_assert_int_eq(s.i->k, 16);
  ck_assert_int_eq(s.i->type[0], PTX_TYPE_F32);
  ck_assert_int_eq(s.i->type[1], PTX_TYPE_BF16);
  ck_assert_int_eq(s.i->n_types, 3);
  ck_assert_uint_eq(s.i->guard, 1);
  ck_assert(s.i->guard_negated);
  ck_assert_int_eq(s.i->n_operands, 8);
  ck_assert_uint_eq(s.i->operands[0].n, 8);
  ck_assert_ptr_nonnull(s.i->operands[0].slots);
  ck_assert_uint_eq(s.i->operands[0].slots[5], 8 + 5); /* after the eight %h */
  ck_assert_int_eq(s.i->operands[3].kind, PTX_OPERAND_PREDICATE);
  ck_assert_uint_eq(s.i->operands[5].value, UINT64_MAX);
  ck_assert_uint_eq(s.i->operands[7].value, 1);
  ck_assert_int_eq(s.i->n_reads, 4); /* guard, two descriptors, scale-d */
  ck_assert_int_eq(s.i->n_writes, 8);
  ck_assert_uint_eq(s.i->uses[0], 1 | PTX_USE_PREDICATE);
  ptx_module_free(s.module);
}
END_TEST

START_TEST(tensor_copy_decodes) {
  single s = decode("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                    ".multicast::cluster.L2::cache_hint [%r0], [%d1, {%r2, -3}], [bar+8], %h1, %d2;");
  ck_assert_int_eq(s.i->opcode, PTX_BULK_TENSOR);
  ck_assert_int_eq(s.i->dim, 2);
  ck_assert_int_eq(s.i->n_spaces, 2);
  ck_assert_int_eq(s.i->space[0], PTX_SPACE_SHARED_CLUSTER);
  ck_assert_int_eq(s.i->space[1], PTX_SPACE_GLOBAL);
  ck_assert_int_eq(s.i->tiling, PTX_TILING_TILE);
  ck_assert_uint_eq(s.i->flags, PTX_FLAG_COMPLETE_TX | PTX_FLAG_MULTICAST | PTX_FLAG_CACHE_HINT);
  ck_assert_int_eq(s.i->operands[0].kind, PTX_OPERAND_MEMORY);
  ck_assert_int_eq(s.i->operands[0].base, PTX_OPERAND_REGISTER);
  ck_assert_int_eq(s.i->operands[0].bytes, 4);
  const ptx_operand *t = &s.i->operands[1];
  ck_assert_int_eq(t->kind, PTX_OPERAND_TENSOR);
  ck_assert_int_eq(t->elements[0].kind, PTX_OPERAND_MEMORY);
  ck_assert_int_eq(t->elements[1].kind, PTX_OPERAND_VECTOR);
  ck_assert_uint_eq(t->elements[1].n, 2);
  ck_assert_uint_eq(t->elements[1].elements[1].value, 0xfffffffd);
  ck_assert_int_eq(s.i->operands[2].base, PTX_OPERAND_SYMBOL);
  ck_assert_uint_eq(s.i->operands[2].value, 8);
  ck_assert_int_eq(s.i->n_operands, 5);
  ck_assert_int_eq(s.i->n_reads, 5);
  ck_assert_int_eq(s.i->n_writes, 0);
  ptx_module_free(s.module);
}
END_TEST

START_TEST(loads_and_atomics_decode) {
  single s = decode("ld.acquire.gpu.global.v2.b32 {%r0, %r1}, [%d1+16];");
  ck_assert_int_eq(s.i->semantics, PTX_SEM_ACQUIRE);
  ck_assert_int_eq(s.i->scope, PTX_SCOPE_GPU);
  ck_assert_int_eq(s.i->vector, 2);
  ck_assert_int_eq(s.i->n_writes, 2);
  ptx_module_free(s.module);
  s = decode("ld.param.s32 %d1, [map+4];");
  ck_assert_int_eq(s.i->space[0], PTX_SPACE_PARAM);
  ck_assert_int_eq(s.i->operands[0].bytes, 8);
  ck_assert_int_eq(s.i->operands[1].base, PTX_OPERAND_PARAM);
  ck_assert_uint_eq(s.i->operands[1].value, 4);
  ptx_module_free(s.module);
  s = decode("ld.param.u64 %d1, [out];");
  ck_assert_uint_eq(s.i->operands[1].value, 128);
  ptx_module_free(s.module);
  s = decode("atom.acq_rel.gpu.global.cas.b32 %r0, [%d0], 0, %r1;");
  ck_assert_int_eq(s.i->operation, PTX_OP_CAS);
  ck_assert_int_eq(s.i->semantics, PTX_SEM_ACQ_REL);
  ck_assert_int_eq(s.i->type[0], PTX_TYPE_B32);
  ptx_module_free(s.module);
  s = decode("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%d0], {%r0, %r1, %r2, %r3};");
  ck_assert_int_eq(s.i->vector, 4);
  ck_assert_uint_eq(s.i->flags, PTX_FLAG_NOFTZ);
  ck_assert_int_eq(s.i->n_reads, 5);
  ptx_module_free(s.module);
  s = decode("cp.async.cg.shared.global.L2::128B [%r0], [%d0], 16, %r1;");
  ck_assert_int_eq(s.i->space[0], PTX_SPACE_SHARED);
  ck_assert_int_eq(s.i->n_operands, 4);
  ptx_module_free(s.module);
}
END_TEST

START_TEST(barriers_decode) {
  single s = decode("bar.sync 1, 384;");
  ck_assert_int_eq(s.i->opcode, PTX_BAR_SYNC);
  ck_assert_uint_eq(s.i->flags, PTX_FLAG_ALIGNED);
  ptx_module_free(s.module);
  s = decode("barrier.sync %r1;");
  ck_assert_int_eq(s.i->opcode, PTX_BAR_SYNC);
  ck_assert_uint_eq(s.i->flags, 0);
  ptx_module_free(s.module);
  s = decode("bar.red.or.pred %p1, 0, !%p2;");
  ck_assert_int_eq(s.i->operation, PTX_OP_OR);
  ck_assert(s.i->operands[2].negated);
  ptx_module_free(s.module);
  s = decode("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r0], 128;");
  ck_assert_int_eq(s.i->opcode, PTX_MBARRIER_ARRIVE_EXPECT_TX);
  ck_assert_int_eq(s.i->scope, PTX_SCOPE_CLUSTER);
  ck_assert_int_eq(s.i->operands[0].kind, PTX_OPERAND_SINK);
  ptx_module_free(s.module);
  s = decode("mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, %r1;");
  ck_assert_int_eq(s.i->opcode, PTX_MBARRIER_TRY_WAIT_PARITY);
  ck_assert_int_eq(s.i->n_operands, 4);
  ptx_module_free(s.module);
  s = decode("fence.proxy.async.shared::cta;");
  ck_assert_int_eq(s.i->opcode, PTX_FENCE_PROXY);
  ck_assert_int_eq(s.i->proxy, PTX_PROXY_ASYNC);
  ck_assert_int_eq(s.i->space[0], PTX_SPACE_SHARED);
  ptx_module_free(s.module);
  s = decode("setmaxnreg.inc.sync.aligned.u32 232;");
  ck_assert_int_eq(s.i->mode, PTX_MODE_INC);
  ptx_module_free(s.module);
}
END_TEST

START_TEST(names_of_slots) {
  char name[32];
  ptx_module *m = parse_file("by_hand.ptx");
  const ptx_kernel *k = &m->kernels[0];
  ptx_slot_name(k, 0 | PTX_USE_PREDICATE, name, sizeof name);
  ck_assert_str_eq(name, "p");
  ptx_slot_name(k, 2 | PTX_USE_PREDICATE, name, sizeof name);
  ck_assert_str_eq(name, "q1");
  ptx_slot_name(k, 7, name, sizeof name);
  ck_assert_str_eq(name, "%addr1");
  ptx_slot_name(k, 10, name, sizeof name); /* the upper half of a .b128 */
  ck_assert_str_eq(name, "wide");
  ptx_module_free(m);
}
END_TEST

/* Every opcode that can run has a form, and its forms are found. */
START_TEST(every_opcode_has_a_form) {
  size_t n;
  for (int op = 0; op < PTX_OPCODE_COUNT; op++) {
    const ptx_form *forms = ptx_forms_of((ptx_opcode)op, &n);
    ck_assert_msg(n > 0 || ptx_opcode_unit((ptx_opcode)op) == PTX_UNIT_NONE, "%s has no form",
                  ptx_opcode_text((ptx_opcode)op));
    for (size_t f = 0; f < n; f++) ck_assert_int_eq(forms[f].opcode, op);
  }
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  size_t bytes;
  char *text = read_text(CASES "by_hand.ptx", &bytes);
  int n = 0;
  for (;; n++) {
    ptx_module *m = NULL;
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = ptx_parse(text, bytes, &m, &err);
    if (!failing_alloc_disarm()) {
      ck_assert_int_eq(status, ARKE_OK);
      ptx_module_free(m);
      break;
    }
    ck_assert_int_eq(status, ARKE_ERR_MEMORY);
    ck_assert_ptr_null(m);
  }
  ck_assert_int_gt(n, 5);
  free(text);
}
END_TEST

#ifdef LLC
/* The same IR as the stored PTX was made from, through the LLVM that is installed. */
static const struct {
  const char *name, *target;
} IR[] = {{"01_kernel_abi", "-mcpu=sm_90a -mattr=+ptx86"},
          {"02_mbarrier", "-mcpu=sm_90a -mattr=+ptx86"},
          {"03_tma_sm90", "-mcpu=sm_90a -mattr=+ptx86"},
          {"04_wgmma_inline_asm", "-mcpu=sm_90a -mattr=+ptx86"},
          {"05_warp_specialisation", "-mcpu=sm_90a -mattr=+ptx86"},
          {"06_convert_math_sm90", "-mcpu=sm_90a -mattr=+ptx86"},
          {"06b_convert_sm100", "-mcpu=sm_100a -mattr=+ptx88"},
          {"07_mma_ldmatrix_stmatrix", "-mcpu=sm_90a -mattr=+ptx86"},
          {"08_memory_atomics", "-mcpu=sm_90a -mattr=+ptx86"},
          {"09_cluster_pdl", "-mcpu=sm_90a -mattr=+ptx86"},
          {"10_tcgen05_f16", "-mcpu=sm_100a -mattr=+ptx88"},
          {"11_tcgen05_all_kinds", "-mcpu=sm_100a -mattr=+ptx88"},
          {"11b_tcgen05_cta_group2", "-mcpu=sm_100a -mattr=+ptx88"},
          {"12_cluster_launch_control", "-mcpu=sm_100a -mattr=+ptx88"},
          {"13_fast_math", "-mcpu=sm_90a -mattr=+ptx86"},
          {"14_ws_gemm_skeleton", "-mcpu=sm_90a -mattr=+ptx86"},
          {"15_scalar", "-mcpu=sm_90a -mattr=+ptx86"},
          {"15_scalar", "-mcpu=sm_80 -mattr=+ptx70"},
          {"16_half", "-mcpu=sm_90a -mattr=+ptx86"}};

START_TEST(what_llvm_prints_decodes) {
  static const char *const levels[] = {"-O0", "-O3"};
  char command[512];
  for (int level = 0; level < 2; level++) {
    arke_error err = ARKE_ERROR_INIT;
    ptx_module *m = NULL;
    char *text = calloc(1, 1 << 20);
    snprintf(command, sizeof command, LLC " %s %s tests/ptx/ir/%s.ll -o -", levels[level], IR[_i].target,
             IR[_i].name);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t bytes = fread(text, 1, 1 << 20, pipe);
    ck_assert_msg(pclose(pipe) == 0 && bytes > 0, "%s", command);
    arke_status status = ptx_parse(text, bytes, &m, &err);
    ck_assert_msg(status == ARKE_OK, "%s: %s", command, err.text);
    for (uint32_t k = 0; k < m->n_kernels; k++) check_invariants(&m->kernels[k]);
    ptx_module_free(m);
    free(text);
  }
}
END_TEST
#endif

Suite *ptx_parse_suite(void) {
  Suite *s = suite_create("ptx_parse");
  TCase *t = tcase_create("decoding");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, files_decode, 0, (int)COUNT_OF(FILES));
  tcase_add_test(t, module_and_kernel_attributes);
  tcase_add_test(t, labels_belong_to_their_scope);
  tcase_add_test(t, wgmma_decodes);
  tcase_add_test(t, tensor_copy_decodes);
  tcase_add_test(t, loads_and_atomics_decode);
  tcase_add_test(t, barriers_decode);
  tcase_add_test(t, names_of_slots);
  tcase_add_test(t, every_opcode_has_a_form);
  tcase_add_test(t, out_of_memory_is_reported);
#ifdef LLC
  tcase_add_loop_test(t, what_llvm_prints_decodes, 0, (int)COUNT_OF(IR));
#endif
  suite_add_tcase(s, t);
  return s;
}
