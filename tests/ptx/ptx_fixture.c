#include "tests/ptx/ptx_fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

static void give_special(void *machine, ptx_special which, uint64_t out[PTX_LANES]) {
  (void)machine;
  for (uint64_t l = 0; l < PTX_LANES; l++) {
    switch (which) {
    case PTX_SPECIAL_TID_X:
    case PTX_SPECIAL_LANEID: out[l] = l; break;
    case PTX_SPECIAL_NTID_X: out[l] = PTX_LANES; break;
    case PTX_SPECIAL_CLOCK64: out[l] = 0x123456789abcdef0; break;
    case PTX_SPECIAL_IS_EXPLICIT_CLUSTER: out[l] = 1; break;
    default: out[l] = 7; break;
    }
  }
}

one_warp *one_warp_new(const char *statements) {
  strbuf text = STRBUF_INIT;
  strbuf_addf(&text,
              ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 16 .b8 smem[64];\n"
              ".visible .entry test(.param .align 16 .b8 param[16])\n{\n"
              ".reg .pred %%p<8>; .reg .b8 %%b<4>; .reg .b16 %%h<8>; .reg .b32 %%r<8>; .reg .b64 %%d<8>;\n"
              ".reg .b128 %%q<4>;\n%s\n}\n",
              statements);
  one_warp *w = calloc(1, sizeof *w);
  arke_error err = ARKE_ERROR_INIT;
  /* ck_assert marks a point even when it holds, which ptx_speed, outside Check, cannot do. */
  if (w == NULL) ck_abort_msg("out of memory");
  arke_status status = ptx_parse(strbuf_text(&text), text.length, &w->module, &err);
  if (status != ARKE_OK) ck_abort_msg("%s: %s", statements, err.text);
  strbuf_free(&text);
  w->kernel = &w->module->kernels[0];
  w->warp.registers = (ptx_registers){
      .value = calloc(w->kernel->n_slots, sizeof *w->warp.registers.value),
      .written = calloc(w->kernel->n_slots, sizeof(uint32_t)),
      .part_written = calloc(w->kernel->n_slots, sizeof *w->warp.registers.part_written),
      .predicate = calloc(w->kernel->n_predicates, sizeof(uint32_t)),
      .predicate_written = calloc(w->kernel->n_predicates, sizeof(uint32_t)),
  };
  static const uint64_t symbols[] = {0x400};
  w->warp.symbol_address = symbols;
  w->warp.window_base[PTX_SPACE_SHARED] = w->warp.window_base[PTX_SPACE_SHARED_CLUSTER] = 0x7000000000000000;
  w->warp.window_bytes[PTX_SPACE_SHARED] = 1 << 18;
  w->warp.window_bytes[PTX_SPACE_SHARED_CLUSTER] = 1 << 28;
  w->warp.window_base[PTX_SPACE_LOCAL] = 0x7100000000000000;
  w->warp.window_bytes[PTX_SPACE_LOCAL] = 1 << 20;
  w->warp.window_base[PTX_SPACE_PARAM] = 0x7200000000000000;
  w->warp.window_bytes[PTX_SPACE_PARAM] = 4096;
  w->warp.special = give_special;
  return w;
}

void one_warp_free(one_warp *w) {
  free(w->warp.registers.value);
  free(w->warp.registers.written);
  free(w->warp.registers.part_written);
  free(w->warp.registers.predicate);
  free(w->warp.registers.predicate_written);
  ptx_module_free(w->module);
  free(w);
}

uint32_t one_warp_slot(const one_warp *w, const char *name) {
  for (uint32_t f = 0; f < w->kernel->n_families; f++) {
    const ptx_register_family *family = &w->kernel->families[f];
    size_t length = strlen(family->prefix);
    if (strncmp(name, family->prefix, length) != 0) continue;
    uint32_t slot = family->first_slot + (uint32_t)atoi(name + length) * family->slots_each;
    return family->type == PTX_TYPE_PRED ? slot | PTX_USE_PREDICATE : slot;
  }
  ck_abort_msg("no register %s", name);
}

uint64_t *one_warp_value(one_warp *w, const char *name) {
  uint32_t slot = one_warp_slot(w, name);
  w->warp.registers.written[slot] = PTX_FULL_MASK;
  if (name[1] == 'q') w->warp.registers.written[slot + 1] = PTX_FULL_MASK;
  return w->warp.registers.value[slot];
}

void one_warp_set_predicate(one_warp *w, const char *name, uint32_t lanes) {
  uint32_t slot = one_warp_slot(w, name) & ~PTX_USE_PREDICATE;
  w->warp.registers.predicate[slot] = lanes;
  w->warp.registers.predicate_written[slot] = PTX_FULL_MASK;
}

uint32_t one_warp_predicate(const one_warp *w, const char *name) {
  return w->warp.registers.predicate[one_warp_slot(w, name) & ~PTX_USE_PREDICATE];
}

bool one_warp_run(one_warp *w, uint32_t active, alu_fault *fault) {
  for (uint32_t k = 0; k < w->kernel->n_instructions; k++) {
    const ptx_instruction *i = &w->kernel->instructions[k];
    if (i->opcode == PTX_RET) return true;
    ck_assert_int_eq(i->unit, PTX_UNIT_ALU);
    uint32_t lanes = alu_guard(i, &w->warp.registers, active);
    if (!alu_execute(w->kernel, i, &w->warp, lanes, fault)) return false;
  }
  return true;
}

void one_warp_must_run(one_warp *w, uint32_t active) {
  alu_fault fault = {.fault = EMU_FAULT_NONE};
  bool ok = one_warp_run(w, active, &fault);
  ck_assert_msg(ok, "%s: %s", w->kernel->instructions[0].text, fault.text);
}

char *read_text(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  if (f == NULL) return NULL;
  strbuf text = STRBUF_INIT;
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) strbuf_add_bytes(&text, part, n);
  fclose(f);
  *bytes = text.length;
  return strbuf_take(&text);
}

uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15); /* splitmix64 */
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
