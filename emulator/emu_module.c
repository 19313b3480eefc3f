/* Modules and their kernels: PTX that is parsed once, variables that have their places, and which registers
 * wgmmas use. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "emulator/emu_device.h"

enum { MAX_REGISTERS = 255 };

static void free_kernel(device_kernel *k) {
  free(k->symbol_address);
  free(k->wgmma_slot);
  free(k->touches_wgmma);
  free(k);
}

void emu_module_unload(device *d, device_module *m) {
  if (m == NULL) return;
  for (device_kernel *k = m->kernels, *next; k != NULL; k = next) {
    next = k->next;
    free_kernel(k);
  }
  for (uint32_t i = 0; m->symbol_address != NULL && i < m->program->n_symbols; i++) {
    if (m->symbol_address[i] != 0) emu_device_free(d, m->symbol_address[i]);
  }
  free(m->symbol_address);
  ptx_module_free(m->program);
  free(m);
}

/* Code for one architecture's own features (the `a`) runs on exactly that one; other code on it and newer
 * ones. */
static arke_status check_target(const emulator *e, const ptx_module *p, arke_error *err) {
  size_t n = strlen(p->target);
  int own = e->cc_major * 10 + e->cc_minor;
  bool exact = n > 0 && p->target[n - 1] == 'a';
  if (exact ? strcmp(p->target, e->target) == 0 : p->sm <= own) return ARKE_OK;
  return error_set(err, ARKE_ERR_DEVICE, "emulator", "PTX for %s does not run on an emulated %s", p->target,
                   e->target);
}

static arke_status place_globals(emulator *e, device_module *m, arke_error *err) {
  const ptx_module *p = m->program;
  m->symbol_address = calloc(p->n_symbols + 1, sizeof *m->symbol_address);
  if (m->symbol_address == NULL) return error_memory(err, "emulator");
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ptx_symbol *s = &p->symbols[i];
    if (s->space != PTX_SPACE_GLOBAL && s->space != PTX_SPACE_CONST) continue;
    if (s->is_extern)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "emulator",
                       "line %d: extern variable %s is defined nowhere", s->line, s->name);
    emu_allocation *a;
    pthread_mutex_lock(&e->lock);
    arke_status status = emu_memory_alloc(&e->memory, s->bytes, s->name, &a, err);
    pthread_mutex_unlock(&e->lock);
    TRY(status);
    m->symbol_address[i] = a->address;
    if (s->initial != NULL)
      memcpy((void *)(uintptr_t)a->address, s->initial, s->bytes);
    else
      memset((void *)(uintptr_t)a->address, 0, s->bytes);
    emu_memory_mark(a, a->address, s->bytes);
    a->read_only = s->space == PTX_SPACE_CONST;
  }
  return ARKE_OK;
}

arke_status emu_module_load(device *d, const void *image, size_t bytes, device_module **out,
                            arke_error *err) {
  emulator *e = emulator_of(d);
  *out = NULL;
  if (image == NULL || bytes == 0 || bytes > LIMIT_KERNEL_BYTES)
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "a module must have 1..%d bytes of PTX",
                     LIMIT_KERNEL_BYTES);
  if (bytes >= 4 && memcmp(image, "\177ELF", 4) == 0)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "emulator", "the emulator runs PTX text, not cubins");
  device_module *m = calloc(1, sizeof *m);
  if (m == NULL) return error_memory(err, "emulator");
  arke_status status = ptx_parse(image, bytes, &m->program, err);
  if (status == ARKE_OK) status = check_target(e, m->program, err);
  if (status == ARKE_OK) status = place_globals(e, m, err);
  if (status != ARKE_OK) {
    emu_module_unload(d, m);
    return status;
  }
  *out = m;
  return ARKE_OK;
}

/* Which registers wgmmas use, and which other instructions touch those: only these need checks while it runs.
 */
static arke_status mark_wgmma_registers(device_kernel *k, arke_error *err) {
  const ptx_kernel *p = k->kernel;
  k->wgmma_slot = calloc(p->n_slots + 2, 1);
  k->touches_wgmma = calloc(p->n_instructions + 1, 1);
  if (k->wgmma_slot == NULL || k->touches_wgmma == NULL) return error_memory(err, "emulator");
  for (uint32_t j = 0; j < p->n_instructions; j++) {
    const ptx_instruction *i = &p->instructions[j];
    if (i->opcode != PTX_WGMMA) continue;
    for (uint32_t e = 0; e < i->operands[0].n; e++)
      k->wgmma_slot[i->operands[0].elements[e].slot] |= EMU_WGMMA_D;
    if (i->operands[1].kind != PTX_OPERAND_VECTOR) continue;
    for (uint32_t e = 0; e < i->operands[1].n; e++)
      k->wgmma_slot[i->operands[1].elements[e].slot] |= EMU_WGMMA_A;
  }
  for (uint32_t j = 0; j < p->n_instructions; j++) {
    const ptx_instruction *i = &p->instructions[j];
    if (i->opcode == PTX_WGMMA) continue;
    for (uint32_t u = 0; u < (uint32_t)i->n_reads + i->n_writes; u++) {
      bool predicate = (i->uses[u] & PTX_USE_PREDICATE) != 0;
      if (!predicate && k->wgmma_slot[i->uses[u]] != 0) k->touches_wgmma[j] = 1;
    }
  }
  return ARKE_OK;
}

static uint32_t align_up(uint32_t v, uint32_t align) {
  return align <= 1 ? v : (v + align - 1) / align * align;
}

/* Shared memory as the driver lays it out: static variables from 0x400 on, then the dynamic array at its
 * alignment. */
static arke_status place_symbols(const emulator *e, device_kernel *k, arke_error *err) {
  const ptx_module *p = k->module->program;
  k->symbol_address = calloc(p->n_symbols + 1, sizeof *k->symbol_address);
  if (k->symbol_address == NULL) return error_memory(err, "emulator");
  uint32_t shared = EMU_SMEM_RESERVED, dynamic_align = 16;
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ptx_symbol *s = &p->symbols[i];
    bool ours = s->kernel < 0 || s->kernel == k->kernel->index;
    k->symbol_address[i] = k->module->symbol_address[i];
    if (!ours || s->bytes > 1u << 28) continue;
    if (s->space == PTX_SPACE_LOCAL) {
      k->symbol_address[i] = align_up(k->local_bytes, s->align);
      k->local_bytes = (uint32_t)k->symbol_address[i] + (uint32_t)s->bytes;
    } else if (s->space == PTX_SPACE_SHARED && s->bytes > 0) {
      k->symbol_address[i] = align_up(shared, s->align);
      shared = (uint32_t)k->symbol_address[i] + (uint32_t)s->bytes;
    } else if (s->space == PTX_SPACE_SHARED && s->align > dynamic_align) {
      dynamic_align = s->align;
    }
  }
  k->local_bytes = align_up(k->local_bytes, 16);
  shared = align_up(shared, dynamic_align);
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    if (p->symbols[i].space == PTX_SPACE_SHARED && p->symbols[i].bytes == 0) k->symbol_address[i] = shared;
  }
  k->static_bytes = shared - EMU_SMEM_RESERVED;
  uint32_t most = (uint32_t)emu_smem_bytes(e->cc_major, e->cc_minor);
  if (k->static_bytes > most || k->smem_bytes > most - k->static_bytes)
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator",
                     "kernel %s asks for %u bytes of static and %u of dynamic shared memory; a CTA has %u",
                     k->kernel->name, k->static_bytes, k->smem_bytes, most);
  return ARKE_OK;
}

arke_status emu_kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                           device_kernel **out, arke_error *err) {
  *out = NULL;
  const ptx_kernel *p = ptx_find_kernel(m->program, name);
  if (p == NULL)
    return error_set(err, ARKE_ERR_NOT_FOUND, "emulator", "the module has no kernel \"%s\"", name);
  device_kernel *k = calloc(1, sizeof *k);
  if (k == NULL) return error_memory(err, "emulator");
  k->module = m;
  k->kernel = p;
  k->smem_bytes = smem_bytes;
  arke_status status = place_symbols(emulator_of(d), k, err);
  if (status == ARKE_OK) status = mark_wgmma_registers(k, err);
  if (status != ARKE_OK) {
    free_kernel(k);
    return status;
  }
  k->next = m->kernels;
  m->kernels = k;
  *out = k;
  return ARKE_OK;
}

uint32_t emu_registers_per_thread(const ptx_kernel *p, uint32_t threads) {
  uint32_t ctas = p->minnctapersm > 0 ? p->minnctapersm : 1;
  uint32_t n = EMU_REGISTERS_PER_SM / (threads * ctas) / 8 * 8;
  if (p->maxnreg > 0 && p->maxnreg < n) n = p->maxnreg;
  return n > MAX_REGISTERS ? MAX_REGISTERS : n;
}

arke_status emu_kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err) {
  (void)d;
  (void)err;
  const ptx_kernel *p = k->kernel;
  uint32_t threads = p->reqntid[0] > 0   ? emu_product(p->reqntid)
                     : p->maxntid[0] > 0 ? emu_product(p->maxntid)
                                         : EMU_MAX_THREADS;
  info->registers = (int)emu_registers_per_thread(p, threads);
  info->local_bytes = (int)k->local_bytes;
  info->static_smem_bytes = (int)k->static_bytes;
  info->max_threads = (int)threads;
  return ARKE_OK;
}
