#include <stdlib.h>
#include <string.h>

#include "emulator/emu_machine.h"

static bool open_warp(emu_cluster *c, emu_cta *cta, emu_warp *w, uint32_t index) {
  const emu_launch *l = c->launch;
  const ptx_kernel *k = l->kernel;
  uint32_t slots = k->n_slots + 2, predicates = k->n_predicates + 1, n = c->warps_per_cta;
  w->cta = cta;
  w->cluster = c;
  w->index = index;
  w->agent = cta->rank * n + index;
  uint32_t first = index * PTX_LANES, lanes = l->threads - first < PTX_LANES ? l->threads - first : PTX_LANES;
  w->live = lanes == PTX_LANES ? PTX_FULL_MASK : (1u << lanes) - 1;
  w->active = w->live;
  w->reconverge = k->n_instructions;
  w->registers = l->registers_per_thread;
  w->clock = 1;
  alu_warp *a = &w->alu;
  a->registers.value = calloc(slots, sizeof *a->registers.value);
  a->registers.written = calloc(slots, sizeof *a->registers.written);
  a->registers.part_written = calloc(slots, sizeof *a->registers.part_written);
  a->registers.predicate = calloc(predicates, sizeof *a->registers.predicate);
  a->registers.predicate_written = calloc(predicates, sizeof *a->registers.predicate_written);
  w->register_written = calloc(slots, sizeof *w->register_written);
  w->register_pending = calloc(slots, sizeof *w->register_pending);
  w->register_read = calloc(slots, sizeof *w->register_read);
  w->view = emu_view_new(&c->order);
  if (l->local_bytes > 0) w->local = calloc(PTX_LANES, l->local_bytes);
  if (a->registers.value == NULL || a->registers.written == NULL || a->registers.part_written == NULL ||
      a->registers.predicate == NULL || a->registers.predicate_written == NULL ||
      w->register_written == NULL || w->register_pending == NULL || w->register_read == NULL ||
      w->view == NULL || (l->local_bytes > 0 && w->local == NULL))
    return false;
  *emu_view_clock_of(&c->order, w->view, w->agent) = w->clock;
  a->exited = ~w->live;
  a->symbol_address = cta->symbol_address;
  a->special = emu_special;
  a->machine = w;
  a->window_base[PTX_SPACE_SHARED] = EMU_WINDOW_SHARED;
  a->window_bytes[PTX_SPACE_SHARED] = (uint64_t)EMU_MAX_CLUSTER << 24;
  a->window_base[PTX_SPACE_SHARED_CLUSTER] = EMU_WINDOW_SHARED;
  a->window_bytes[PTX_SPACE_SHARED_CLUSTER] = (uint64_t)EMU_MAX_CLUSTER << 24;
  a->window_base[PTX_SPACE_LOCAL] = EMU_WINDOW_LOCAL;
  a->window_bytes[PTX_SPACE_LOCAL] = 1ull << 32;
  a->window_base[PTX_SPACE_PARAM] = EMU_WINDOW_PARAM;
  a->window_bytes[PTX_SPACE_PARAM] = 1ull << 32;
  return true;
}

static bool open_cta(emu_cluster *c, uint32_t rank) {
  const emu_launch *l = c->launch;
  emu_cta *cta = &c->ctas[rank];
  uint32_t n = c->warps_per_cta;
  cta->cluster = c;
  cta->rank = rank;
  uint32_t clusters[3], at[3] = {0, 0, 0}, in[3];
  for (int i = 0; i < 3; i++) clusters[i] = l->grid[i] / l->cluster_dim[i];
  at[0] = c->id % clusters[0];
  at[1] = c->id / clusters[0] % clusters[1];
  at[2] = c->id / (clusters[0] * clusters[1]);
  in[0] = rank % l->cluster_dim[0];
  in[1] = rank / l->cluster_dim[0] % l->cluster_dim[1];
  in[2] = rank / (l->cluster_dim[0] * l->cluster_dim[1]);
  for (int i = 0; i < 3; i++) cta->id[i] = at[i] * l->cluster_dim[i] + in[i];
  cta->smem = malloc(l->smem_window);
  cta->shadow = emu_shadow_new(l->smem_window);
  cta->mbarrier_at = calloc(l->smem_window / 8 + 1, sizeof *cta->mbarrier_at);
  cta->symbol_address = malloc((l->module->n_symbols + 1) * sizeof *cta->symbol_address);
  cta->n_groups = (n + EMU_WARPGROUP_WARPS - 1) / EMU_WARPGROUP_WARPS;
  cta->groups = calloc(cta->n_groups, sizeof *cta->groups);
  cta->warps = calloc(n, sizeof *cta->warps);
  if (cta->smem == NULL || cta->shadow == NULL || cta->mbarrier_at == NULL || cta->symbol_address == NULL ||
      cta->groups == NULL || cta->warps == NULL)
    return false;
  memset(cta->smem, 0xFF, l->smem_window);
  for (uint32_t i = 0; i < l->module->n_symbols; i++) {
    bool shared = l->module->symbols[i].space == PTX_SPACE_SHARED;
    cta->symbol_address[i] = l->symbol_address[i] + (shared ? (uint64_t)rank << 24 : 0);
  }
  for (uint32_t i = 0; i < cta->n_groups; i++) {
    cta->groups[i].cta = cta;
    cta->groups[i].index = i;
    cta->groups[i].agent = c->n_warps + rank * cta->n_groups + i;
    cta->groups[i].first = 1;
  }
  for (uint32_t i = 0; i < EMU_NAMED_BARRIERS; i++) {
    cta->barriers[i].gathered = emu_view_new(&c->order);
    if (cta->barriers[i].gathered == NULL) return false;
  }
  cta->live_warps = n; /* and its register pool is empty: the warps hold all that the launch allots */
  for (uint32_t i = 0; i < n; i++) {
    c->warps[rank * n + i] = &cta->warps[i];
    if (!open_warp(c, cta, &cta->warps[i], i)) return false;
  }
  return true;
}

arke_status emu_cluster_open(emu_launch *l, uint32_t id, emu_cluster **out) {
  *out = NULL;
  emu_cluster *c = calloc(1, sizeof *c);
  if (c == NULL) return ARKE_ERR_MEMORY;
  c->launch = l;
  c->id = id;
  c->n_ctas = l->cluster_dim[0] * l->cluster_dim[1] * l->cluster_dim[2];
  c->warps_per_cta = (l->threads + PTX_LANES - 1) / PTX_LANES;
  c->n_warps = c->live_warps = c->n_ctas * c->warps_per_cta;
  c->order.n_warps = c->n_warps;
  c->order.n_groups = c->n_ctas * ((c->warps_per_cta + EMU_WARPGROUP_WARPS - 1) / EMU_WARPGROUP_WARPS);
  c->ctas = calloc(c->n_ctas, sizeof *c->ctas);
  c->warps = calloc(c->n_warps, sizeof(emu_warp *));
  c->barrier_gathered = emu_view_new(&c->order);
  c->barrier_completed = emu_view_new(&c->order);
  bool ok =
      c->ctas != NULL && c->warps != NULL && c->barrier_gathered != NULL && c->barrier_completed != NULL;
  for (uint32_t i = 0; ok && i < c->n_ctas; i++) ok = open_cta(c, i);
  if (!ok) {
    emu_cluster_close(c);
    return ARKE_ERR_MEMORY;
  }
  *out = c;
  return ARKE_OK;
}

/* Shared memory is gone with its CTA: what others do there has to be ordered before some warp's end. An
 * arrival without release orders no reads that are still under way. */
bool emu_cluster_cta_exit(emu_cta *cta, emu_warp *last) {
  emu_cluster *c = cta->cluster;
  if (c->n_ctas == 1) return true;
  emu_view *view = emu_view_new(&c->order);
  if (view == NULL) return emu_no_memory(c->launch);
  for (uint32_t i = 0; i < c->warps_per_cta; i++) emu_view_join(&c->order, view, cta->warps[i].view);
  emu_conflict conflict;
  bool quiet =
      emu_shadow_quiet(cta->shadow, &c->order, view, cta->warps[0].agent, c->warps_per_cta, &conflict);
  free(view);
  if (quiet) return true;
  const emu_warp *other = c->warps[emu_epoch_agent(conflict.earlier)];
  char where[96];
  emu_describe_shared(cta, conflict.address, where, sizeof where);
  return emu_fail(last, EMU_FAULT_EXIT, -1, "ends while %s may still be %s by CTA rank %u (line %d)", where,
                  conflict.kind == EMU_CONFLICT_WRITE ? "written" : "read", other->cta->rank,
                  c->launch->kernel->instructions[emu_epoch_pc(conflict.earlier)].line);
}

static void close_warp(emu_warp *w) {
  free(w->alu.registers.value);
  free(w->alu.registers.written);
  free(w->alu.registers.part_written);
  free(w->alu.registers.predicate);
  free(w->alu.registers.predicate_written);
  free(w->register_written);
  free(w->register_pending);
  free(w->register_read);
  free(w->view);
  free(w->local);
  free(w->stack);
}

static void close_cta(emu_cluster *c, emu_cta *cta) {
  for (uint32_t i = 0; cta->warps != NULL && i < c->warps_per_cta; i++) close_warp(&cta->warps[i]);
  for (uint32_t i = 0; cta->groups != NULL && i < cta->n_groups; i++) emu_warpgroup_release(&cta->groups[i]);
  for (uint32_t i = 0; i < EMU_NAMED_BARRIERS; i++) free(cta->barriers[i].gathered);
  for (uint32_t i = 0; i < cta->n_flags; i++) free(cta->flags[i].view);
  free(cta->flags);
  emu_mbarrier_release(cta);
  emu_shadow_free(cta->shadow);
  free(cta->warps);
  free(cta->groups);
  free(cta->symbol_address);
  free(cta->smem);
}

void emu_cluster_close(emu_cluster *c) {
  if (c == NULL) return;
  for (uint32_t i = 0; c->ctas != NULL && i < c->n_ctas; i++) close_cta(c, &c->ctas[i]);
  for (uint32_t i = 0; i < c->n_copies; i++) emu_copy_free(c->copies[i]);
  free(c->copies);
  free(c->ctas);
  free(c->warps);
  free(c->barrier_gathered);
  free(c->barrier_completed);
  free(c);
}
