#include <stdio.h>
#include <string.h>

#include "emulator/emu_machine.h"

const char *emu_fault_text(emu_fault fault) {
  switch (fault) {
#define X(NAME, text)                                                                                        \
  case EMU_FAULT_##NAME: return text;
    EMU_FAULTS(X)
#undef X
  }
  return "unknown fault";
}

static void vrecord(const emu_warp *w, const ptx_instruction *i, emu_fault fault, int lane,
                    const char *format, va_list args) {
  emu_launch *l = w->cluster->launch;
  if (l->status != ARKE_OK) return;
  l->status = ARKE_ERR_FAULT;
  emu_report *r = l->report;
  uint32_t thread = w->index * PTX_LANES + (lane < 0 ? 0 : (uint32_t)lane);
  r->fault = fault;
  snprintf(r->kernel, sizeof r->kernel, "%s", l->kernel->name);
  memcpy(r->cta, w->cta->id, sizeof r->cta);
  r->thread = thread;
  r->ptx_line = i->line;
  int n =
      snprintf(r->text, sizeof r->text,
               "%s: kernel %s, CTA (%u,%u,%u), thread %u (warp %u), PTX line %d, %s: ", emu_fault_text(fault),
               r->kernel, r->cta[0], r->cta[1], r->cta[2], thread, w->index, i->line, i->text);
  if (n > 0 && (size_t)n < sizeof r->text) vsnprintf(r->text + n, sizeof r->text - (size_t)n, format, args);
}

bool emu_fail(const emu_warp *w, emu_fault fault, int lane, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vrecord(w, &w->cluster->launch->kernel->instructions[w->pc], fault, lane, format, args);
  va_end(args);
  return false;
}

bool emu_fail_copy(const emu_copy *c, emu_fault fault, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vrecord(c->warp, c->instruction, fault, (int)c->lane, format, args);
  va_end(args);
  return false;
}

bool emu_no_memory(emu_launch *l) {
  if (l->status == ARKE_OK) l->status = ARKE_ERR_MEMORY;
  return false;
}

/* "smem + 4096" or, outside every symbol, "shared memory + 0x400". */
void emu_describe_shared(const emu_cta *cta, uint32_t offset, char *out, size_t out_bytes) {
  const emu_launch *l = cta->cluster->launch;
  const ptx_symbol *best = NULL;
  for (uint32_t i = 0; i < l->module->n_symbols; i++) {
    const ptx_symbol *s = &l->module->symbols[i];
    if (s->space != PTX_SPACE_SHARED || (s->kernel >= 0 && s->kernel != l->kernel->index)) continue;
    uint32_t base = (uint32_t)cta->symbol_address[i] & 0xFFFFFF;
    uint64_t bytes = s->bytes != 0 ? s->bytes : l->smem_dynamic;
    if (offset >= base && offset - base < bytes) best = s;
  }
  char rank[32] = "";
  if (cta->cluster->n_ctas > 1) snprintf(rank, sizeof rank, " of CTA rank %u", cta->rank);
  if (best == NULL)
    snprintf(out, out_bytes, "shared memory + 0x%x%s", offset, rank);
  else
    snprintf(out, out_bytes, "%s + %u%s", best->name,
             offset - ((uint32_t)cta->symbol_address[best->index] & 0xFFFFFF), rank);
}

static void describe_epoch(const emu_cluster *c, emu_epoch e, bool write, char *out, size_t out_bytes) {
  uint32_t agent = emu_epoch_agent(e), pc = emu_epoch_pc(e);
  const ptx_kernel *k = c->launch->kernel;
  const ptx_instruction *i = &k->instructions[pc < k->n_instructions ? pc : 0];
  if (emu_agent_is_warp(&c->order, agent)) {
    const emu_warp *w = c->warps[agent];
    snprintf(out, out_bytes, "%s by warp %u%s at line %d (%s)", write ? "written" : "read", w->index,
             c->n_ctas > 1 && w->cta->rank > 0 ? " of another CTA" : "", i->line, i->text);
  } else if (emu_agent_is_group(&c->order, agent)) {
    snprintf(out, out_bytes, "read by the wgmma of line %d", i->line);
  } else {
    snprintf(out, out_bytes, "%s by the copy of line %d (%s)", write ? "written" : "read", i->line, i->text);
  }
}

bool emu_fail_conflict(const emu_warp *w, int lane, const emu_cta *cta, const char *what, bool write,
                       bool async, const emu_conflict *conflict) {
  char where[128], earlier[192];
  if (conflict->kind == EMU_CONFLICT_MEMORY) return emu_no_memory(w->cluster->launch);
  emu_describe_shared(cta, conflict->address, where, sizeof where);
  if (conflict->kind == EMU_CONFLICT_UNINITIALISED)
    return emu_fail(w, EMU_FAULT_UNINITIALISED, lane, "%s reads %s, which nothing wrote", what, where);
  bool earlier_write = conflict->kind != EMU_CONFLICT_READ;
  describe_epoch(w->cluster, conflict->earlier, earlier_write, earlier, sizeof earlier);
  if (conflict->kind == EMU_CONFLICT_PROXY)
    return emu_fail(
        w, EMU_FAULT_PROXY_FENCE, lane,
        "%s uses %s, %s, with no fence.proxy.async by the writer followed by a barrier in between", what,
        where, earlier);
  /* A copy that lands where others may still be at work is an ordering mistake; touching what a copy or the
   * matrix unit still uses is a missing wait. */
  bool by_async = !emu_agent_is_warp(&w->cluster->order, emu_epoch_agent(conflict->earlier));
  bool in_flight = by_async && !(async && write);
  return emu_fail(w, in_flight ? EMU_FAULT_IN_FLIGHT : EMU_FAULT_RACE, lane,
                  "%s %s %s, %s, with no %s in between", what, write ? "writes" : "reads", where, earlier,
                  in_flight ? "wait for its completion" : "synchronisation");
}
