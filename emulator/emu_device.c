#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "emulator/emu_machine.h"

enum { DEFAULT_SM_COUNT = 4, MAX_THREADS = 1024, MAX_REGISTERS = 255 };
#define DEFAULT_INSTRUCTION_LIMIT (1ull << 33)

typedef struct emulator {
  device base; /* first: a device * is an emulator * */
  emu_memory memory;
  char target[16];
  int cc_major, cc_minor, sm_count;
  uint64_t seed, instruction_limit;
  emu_report report;
  pthread_mutex_t lock; /* launches may come from several threads, and meet memory calls of another */
} emulator;

struct device_kernel {
  device_kernel *next;
  device_module *module;
  const ptx_kernel *kernel;
  uint32_t smem_bytes; /* most dynamic shared memory asked for */
  uint32_t static_bytes, local_bytes;
  uint64_t *symbol_address;
  uint8_t *wgmma_slot, *touches_wgmma;
};

struct device_module {
  ptx_module *program;
  device_kernel *kernels;
  uint64_t *symbol_address; /* of global and const symbols */
};

static emulator *emulator_of(device *d) {
  return (emulator *)d;
}

static void emulator_close(device *d) {
  if (d == NULL) return;
  emulator *e = emulator_of(d);
  emu_memory_release(&e->memory);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static arke_status emulator_info(device *d, device_info *info, arke_error *err) {
  (void)err;
  const emulator *e = emulator_of(d);
  memset(info, 0, sizeof *info);
  info->kind = ARKE_DEVICE_EMULATOR;
  snprintf(info->name, sizeof info->name, "emulator");
  info->cc_major = e->cc_major;
  info->cc_minor = e->cc_minor;
  info->sm_count = e->sm_count;
  info->smem_per_block_bytes = EMU_SMEM_MAX;
  info->l2_bytes = 50 << 20;
  info->memory_bytes = 1ll << 34;
  return ARKE_OK;
}

static arke_status mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  emulator *e = emulator_of(d);
  emu_allocation *a = NULL;
  pthread_mutex_lock(&e->lock);
  arke_status status = emu_memory_alloc(&e->memory, bytes, name, &a, err);
  *p = status == ARKE_OK ? a->address : 0;
  pthread_mutex_unlock(&e->lock);
  return status;
}

static void mem_free(device *d, device_ptr p) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  emu_memory_free(&e->memory, p);
  pthread_mutex_unlock(&e->lock);
}

/* Moves bytes in or out, or fills, once the range is known to be ours. */
typedef enum host_access { HOST_WRITE, HOST_READ, HOST_FILL } host_access;

static arke_status access_memory(device *d, host_access what, device_ptr p, void *to, const void *from,
                                 int byte, size_t bytes, arke_error *err) {
  static const char *const verbs[] = {"write", "read", "fill"};
  emulator *e = emulator_of(d);
  if (bytes == 0) return ARKE_OK;
  pthread_mutex_lock(&e->lock);
  emu_allocation *a = emu_memory_range(&e->memory, p, bytes);
  char where[160] = "";
  if (a == NULL)
    emu_memory_describe(&e->memory, p, where, sizeof where);
  else if (what == HOST_READ)
    memcpy(to, (const void *)(uintptr_t)p, bytes);
  else if (what == HOST_WRITE)
    memcpy((void *)(uintptr_t)p, from, bytes);
  else
    memset((void *)(uintptr_t)p, byte, bytes);
  if (a != NULL && what != HOST_READ) emu_memory_mark(a, p, bytes);
  pthread_mutex_unlock(&e->lock);
  if (a != NULL) return ARKE_OK;
  return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "cannot %s %zu bytes at %s", verbs[what], bytes,
                   where);
}

static arke_status copy_in(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_WRITE, to, NULL, from, 0, bytes, err);
}

static arke_status copy_out(device *d, void *to, device_ptr from, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_READ, from, to, NULL, 0, bytes, err);
}

static arke_status copy(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err) {
  emulator *e = emulator_of(d);
  if (bytes == 0) return ARKE_OK;
  pthread_mutex_lock(&e->lock);
  emu_allocation *a = emu_memory_range(&e->memory, to, bytes);
  char where[160] = "";
  if (a == NULL || emu_memory_range(&e->memory, from, bytes) == NULL) {
    emu_memory_describe(&e->memory, a == NULL ? to : from, where, sizeof where);
  } else {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    emu_memory_mark(a, to, bytes);
  }
  pthread_mutex_unlock(&e->lock);
  if (where[0] == '\0') return ARKE_OK;
  return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "cannot copy %zu bytes %s %s", bytes,
                   a == NULL ? "to" : "from", where);
}

static arke_status fill(device *d, device_ptr p, int byte, size_t bytes, arke_error *err) {
  return access_memory(d, HOST_FILL, p, NULL, NULL, byte, bytes, err);
}

static arke_status mem_import(device *d, device_ptr p, size_t bytes, const char *name,
                              device_memory_state state, arke_error *err) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  arke_status status = emu_memory_import(&e->memory, p, bytes, name, state == DEVICE_MEMORY_INITIALISED, err);
  pthread_mutex_unlock(&e->lock);
  return status;
}

static void free_kernel(device_kernel *k) {
  free(k->symbol_address);
  free(k->wgmma_slot);
  free(k->touches_wgmma);
  free(k);
}

static void module_unload(device *d, device_module *m) {
  if (m == NULL) return;
  for (device_kernel *k = m->kernels, *next; k != NULL; k = next) {
    next = k->next;
    free_kernel(k);
  }
  for (uint32_t i = 0; m->symbol_address != NULL && i < m->program->n_symbols; i++) {
    if (m->symbol_address[i] != 0) mem_free(d, m->symbol_address[i]);
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

static arke_status module_load(device *d, const void *image, size_t bytes, device_module **out,
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
    module_unload(d, m);
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
static arke_status place_symbols(device_kernel *k, arke_error *err) {
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
  if (k->static_bytes > EMU_SMEM_MAX || k->smem_bytes > EMU_SMEM_MAX - k->static_bytes)
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator",
                     "kernel %s asks for %u bytes of static and %u of dynamic shared memory; a CTA has %d",
                     k->kernel->name, k->static_bytes, k->smem_bytes, EMU_SMEM_MAX);
  return ARKE_OK;
}

static arke_status kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                              device_kernel **out, arke_error *err) {
  (void)d;
  *out = NULL;
  const ptx_kernel *p = ptx_find_kernel(m->program, name);
  if (p == NULL)
    return error_set(err, ARKE_ERR_NOT_FOUND, "emulator", "the module has no kernel \"%s\"", name);
  device_kernel *k = calloc(1, sizeof *k);
  if (k == NULL) return error_memory(err, "emulator");
  k->module = m;
  k->kernel = p;
  k->smem_bytes = smem_bytes;
  arke_status status = place_symbols(k, err);
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

/* What ptxas may give a thread: an equal share of the register file, or the kernel's own bound. */
static uint32_t registers_per_thread(const ptx_kernel *p, uint32_t threads) {
  uint32_t ctas = p->minnctapersm > 0 ? p->minnctapersm : 1;
  uint32_t n = EMU_REGISTERS_PER_SM / (threads * ctas) / 8 * 8;
  if (p->maxnreg > 0 && p->maxnreg < n) n = p->maxnreg;
  return n > MAX_REGISTERS ? MAX_REGISTERS : n;
}

static uint32_t product(const uint32_t v[3]) {
  return v[0] * v[1] * v[2];
}

static arke_status kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err) {
  (void)d;
  (void)err;
  const ptx_kernel *p = k->kernel;
  uint32_t threads = p->reqntid[0] > 0   ? product(p->reqntid)
                     : p->maxntid[0] > 0 ? product(p->maxntid)
                                         : MAX_THREADS;
  info->registers = (int)registers_per_thread(p, threads);
  info->local_bytes = (int)k->local_bytes;
  info->static_smem_bytes = (int)k->static_bytes;
  info->max_threads = (int)threads;
  return ARKE_OK;
}

static arke_status tensormap_encode(device *d, const device_tensormap_desc *desc, device_tensormap *map,
                                    arke_error *err) {
  (void)d;
  return emu_tensormap_encode(desc, map, err);
}

static arke_status tensormap_set_address(device *d, device_tensormap *map, device_ptr address,
                                         arke_error *err) {
  (void)d;
  return emu_tensormap_set_address(map, address, err);
}

static arke_status refuse_launch(emulator *e, const ptx_kernel *p, arke_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static arke_status refuse_launch(emulator *e, const ptx_kernel *p, arke_error *err, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char why[512];
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  e->report.fault = EMU_FAULT_LAUNCH;
  snprintf(e->report.kernel, sizeof e->report.kernel, "%s", p->name);
  snprintf(e->report.text, sizeof e->report.text, "%s: kernel %s: %s", emu_fault_text(EMU_FAULT_LAUNCH),
           p->name, why);
  return error_set(err, ARKE_ERR_FAULT, "emulator", "%s", e->report.text);
}

static arke_status check_launch(emulator *e, const device_kernel *k, const device_launch *in, emu_launch *l,
                                arke_error *err) {
  const ptx_kernel *p = k->kernel;
  static const char axis[] = "xyz";
  static const uint32_t most_grid[3] = {0x7FFFFFFF, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  bool explicit_cluster = p->reqnctapercluster[0] > 0,
       asked = in->cluster[0] * in->cluster[1] * in->cluster[2] > 1;
  for (int i = 0; i < 3; i++) {
    l->grid[i] = in->grid[i];
    l->block[i] = in->block[i];
    l->cluster_dim[i] = asked ? in->cluster[i] : explicit_cluster ? p->reqnctapercluster[i] : 1;
    if (l->cluster_dim[i] == 0) l->cluster_dim[i] = 1;
    if (in->grid[i] < 1 || in->grid[i] > most_grid[i])
      return refuse_launch(e, p, err, "grid.%c is %u, not in 1..%u", axis[i], in->grid[i], most_grid[i]);
    if (in->block[i] < 1 || in->block[i] > most_block[i])
      return refuse_launch(e, p, err, "block.%c is %u, not in 1..%u", axis[i], in->block[i], most_block[i]);
    if (p->reqntid[0] > 0 && in->block[i] != p->reqntid[i])
      return refuse_launch(e, p, err, "block.%c is %u, but .reqntid asks for %u", axis[i], in->block[i],
                           p->reqntid[i]);
    if (asked && explicit_cluster && in->cluster[i] != p->reqnctapercluster[i])
      return refuse_launch(e, p, err, "cluster.%c is %u, but .reqnctapercluster asks for %u", axis[i],
                           in->cluster[i], p->reqnctapercluster[i]);
    if (in->grid[i] % l->cluster_dim[i] != 0)
      return refuse_launch(e, p, err, "grid.%c is %u, not a multiple of the cluster's %u", axis[i],
                           in->grid[i], l->cluster_dim[i]);
  }
  uint64_t threads = (uint64_t)in->block[0] * in->block[1] * in->block[2];
  uint64_t most = p->maxntid[0] > 0 ? product(p->maxntid) : MAX_THREADS;
  if (threads > MAX_THREADS || threads > most)
    return refuse_launch(e, p, err, "%llu threads a CTA, more than %llu", (unsigned long long)threads,
                         (unsigned long long)(most < MAX_THREADS ? most : MAX_THREADS));
  if (product(l->cluster_dim) > EMU_MAX_CLUSTER)
    return refuse_launch(e, p, err, "a cluster of %u CTAs, more than %d", product(l->cluster_dim),
                         EMU_MAX_CLUSTER);
  if (in->smem_bytes > k->smem_bytes)
    return refuse_launch(e, p, err, "%u bytes of dynamic shared memory, but the kernel was prepared for %u",
                         in->smem_bytes, k->smem_bytes);
  if (in->n_args < 0 || (uint32_t)in->n_args != p->n_params)
    return refuse_launch(e, p, err, "%d arguments for %u parameters", in->n_args, p->n_params);
  for (int i = 0; i < in->n_args; i++) {
    if (in->args == NULL || in->args[i] == NULL) return refuse_launch(e, p, err, "argument %d is missing", i);
  }
  l->threads = (uint32_t)threads;
  return ARKE_OK;
}

static arke_status launch_locked(emulator *e, device_kernel *k, const device_launch *in, arke_error *err) {
  const ptx_kernel *p = k->kernel;
  emu_launch l;
  memset(&l, 0, sizeof l);
  memset(&e->report, 0, sizeof e->report);
  TRY(check_launch(e, k, in, &l, err));
  uint8_t *params = calloc(1, p->param_bytes + 64);
  if (params == NULL) return error_memory(err, "emulator");
  for (uint32_t i = 0; i < p->n_params; i++)
    memcpy(params + p->params[i].offset, in->args[i], p->params[i].bytes);
  l.module = k->module->program;
  l.kernel = p;
  l.memory = &e->memory;
  l.symbol_address = k->symbol_address;
  l.params = params;
  l.smem_dynamic = in->smem_bytes;
  l.early_start = in->early_start;
  l.smem_window = EMU_SMEM_RESERVED + k->static_bytes + in->smem_bytes;
  l.local_bytes = k->local_bytes;
  l.registers_per_thread = registers_per_thread(p, l.threads);
  l.wgmma_slot = k->wgmma_slot;
  l.touches_wgmma = k->touches_wgmma;
  l.instruction_limit = e->instruction_limit;
  l.seed = e->seed;
  l.sm_count = e->sm_count;
  l.report = &e->report;
  arke_status status = emu_run(&l, err);
  free(params);
  const emu_allocation *damaged = emu_memory_damaged(&e->memory);
  if (damaged != NULL)
    return error_set(err, ARKE_ERR_INTERNAL, "emulator", "memory around %s was overwritten unnoticed",
                     damaged->name);
  return status;
}

static arke_status emulator_launch(device *d, device_kernel *k, const device_launch *in, arke_error *err) {
  emulator *e = emulator_of(d);
  pthread_mutex_lock(&e->lock);
  arke_status status = launch_locked(e, k, in, err);
  pthread_mutex_unlock(&e->lock);
  return status;
}

static arke_status synchronize(device *d, arke_error *err) {
  (void)d;
  (void)err;
  return ARKE_OK; /* launches have ended, and reported, when they return */
}

static const device_ops emulator_ops = {
    .close = emulator_close,
    .info = emulator_info,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .fill = fill,
    .mem_import = mem_import,
    .mem_release = mem_free,
    .module_load = module_load,
    .module_unload = module_unload,
    .kernel_get = kernel_get,
    .kernel_info = kernel_info,
    .tensormap_encode = tensormap_encode,
    .tensormap_set_address = tensormap_set_address,
    .launch = emulator_launch,
    .synchronize = synchronize,
};

/* "sm_90a" is 9.0: the last digit is the minor version. */
static bool parse_target(const char *target, int *major, int *minor) {
  int64_t number;
  size_t n = target == NULL ? 0 : strlen(target);
  if (n < 5 || n > 8 || strncmp(target, "sm_", 3) != 0) return false;
  size_t digits = n - 3;
  if (target[n - 1] == 'a' || target[n - 1] == 'f') digits--;
  if (!text_to_i64(target + 3, digits, 10, 999, &number)) return false;
  *major = (int)number / 10;
  *minor = (int)number % 10;
  return true;
}

arke_status device_open_emulator(const char *target, uint64_t seed, device **d, arke_error *err) {
  *d = NULL;
  emulator *e = calloc(1, sizeof *e);
  if (e == NULL) return error_memory(err, "emulator");
  if (!parse_target(target, &e->cc_major, &e->cc_minor)) {
    free(e);
    return error_set(err, ARKE_ERR_ARGUMENT, "emulator", "target \"%s\" is not of the form sm_90a",
                     target == NULL ? "" : target);
  }
  e->base.ops = &emulator_ops;
  snprintf(e->target, sizeof e->target, "%s", target);
  e->seed = seed;
  e->sm_count = DEFAULT_SM_COUNT;
  e->instruction_limit = DEFAULT_INSTRUCTION_LIMIT;
  pthread_mutex_init(&e->lock, NULL);
  *d = &e->base;
  return ARKE_OK;
}

const emu_report *emu_last_report(const device *d) {
  return &((const emulator *)d)->report;
}

void emu_set_instruction_limit(device *d, uint64_t limit) {
  emulator_of(d)->instruction_limit = limit;
}

void emu_set_sm_count(device *d, int sm_count) {
  emulator_of(d)->sm_count = sm_count < 1 ? 1 : sm_count;
}
