#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "emulator/emu_machine.h"

enum { LONG_TURN = 512, POLLS_BEFORE_SWITCH = 20000 };

static void describe_wait(const emu_warp *w, char *out, size_t out_bytes) {
  const emu_named_barrier *b = &w->cta->barriers[w->wait_barrier];
  const emu_mbarrier *m;
  switch (w->wait) {
  case EMU_WAIT_MBARRIER:
    m = emu_mbarrier_find(w->cta, w->wait_mbarrier);
    if (m != NULL) emu_mbarrier_describe(w->cta, m, out, out_bytes);
    break;
  case EMU_WAIT_BARRIER:
    snprintf(out, out_bytes, "bar.sync %u (%u of %u threads arrived)", w->wait_barrier, b->arrived,
             b->all ? w->cta->live_warps * PTX_LANES : b->expected);
    break;
  case EMU_WAIT_CLUSTER:
    snprintf(out, out_bytes, "barrier.cluster (%u of %u warps arrived)", w->cluster->barrier_arrived,
             w->cluster->live_warps);
    break;
  case EMU_WAIT_REGISTERS:
    snprintf(out, out_bytes, "setmaxnreg to %u (%u registers in the pool)", w->wait_registers,
             w->cta->register_pool);
    break;
  case EMU_WAIT_WARPGROUP:
    snprintf(out, out_bytes, "a wgmma that not all warps of its warp group issue");
    break;
  case EMU_WAIT_NONE:
  case EMU_WAIT_DONE: snprintf(out, out_bytes, "nothing"); break;
  }
}

static bool same_wait(const emu_warp *a, const emu_warp *b) {
  return a->cta == b->cta && a->pc == b->pc && a->wait == b->wait && a->wait_mbarrier == b->wait_mbarrier &&
         a->wait_barrier == b->wait_barrier;
}

/* Names everything that waits, neighbours that wait for the same together. */
static bool deadlock(emu_cluster *c) {
  strbuf text = STRBUF_INIT;
  const emu_warp *first = NULL;
  for (uint32_t j = 0; j < c->n_warps; j++) {
    const emu_warp *w = c->warps[j];
    if (w->wait == EMU_WAIT_DONE) continue;
    uint32_t last = j;
    while (last + 1 < c->n_warps && same_wait(w, c->warps[last + 1])) last++;
    char what[320];
    describe_wait(w, what, sizeof what);
    strbuf_addf(&text, "%s%s", first == NULL ? "" : "; ", last > j ? "warps " : "warp ");
    strbuf_addf(&text, last > j ? "%u-%u" : "%u", w->index, c->warps[last]->index);
    if (c->n_ctas > 1) strbuf_addf(&text, " of CTA rank %u", w->cta->rank);
    strbuf_addf(&text, " at line %d: %s", c->launch->kernel->instructions[w->pc].line, what);
    if (first == NULL) first = w;
    j = last;
  }
  bool failed = strbuf_failed(&text);
  if (failed)
    emu_no_memory(c->launch);
  else
    emu_fail(first, EMU_FAULT_DEADLOCK, -1, "nothing can go on: %s", strbuf_text(&text));
  strbuf_free(&text);
  return false;
}

/* Lets waits on mbarriers give up, as the hardware's do after a while: code may look elsewhere then. False
 * when they did so before and nothing happened since. */
static bool time_out(emu_cluster *c) {
  bool any = false;
  for (uint32_t j = 0; j < c->n_warps; j++) {
    emu_warp *w = c->warps[j];
    if (w->wait != EMU_WAIT_MBARRIER || w->timeout_events == c->events + 1) continue;
    w->timeout_events = c->events + 1;
    w->timed_out = true;
    w->wait = EMU_WAIT_NONE;
    any = true;
  }
  return any;
}

static bool finish_copies(emu_cluster *c) {
  while (c->n_pending > 0) {
    if (!emu_copies_progress(c, true)) return false;
  }
  return true;
}

bool emu_cluster_run(emu_cluster *c, bool *finished) {
  emu_launch *l = c->launch;
  *finished = false;
  c->polls = 0;
  while (c->live_warps > 0) {
    bool ran = false;
    uint32_t start = (uint32_t)(emu_draw(l) % c->n_warps);
    for (uint32_t j = 0; j < c->n_warps; j++) {
      emu_warp *w = c->warps[(start + j) % c->n_warps];
      if (w->wait != EMU_WAIT_NONE) continue;
      ran = true;
      uint32_t turn = 1 + (uint32_t)(emu_draw(l) % LONG_TURN);
      if (!emu_warp_run(w, turn)) return false;
      if (c->n_pending > 0 && l->seed % 3 != 0 && !emu_copies_progress(c, false)) return false;
    }
    uint64_t executed = 0;
    for (uint32_t j = 0; j < c->n_warps; j++) executed += c->warps[j]->executed;
    if (executed > l->instruction_limit * c->n_ctas)
      return emu_fail(c->warps[start], EMU_FAULT_LIMIT, -1, "%llu warp instructions and still running",
                      (unsigned long long)executed);
    if (c->polls > POLLS_BEFORE_SWITCH) return true;
    if (ran || c->live_warps == 0) continue;
    if (c->n_pending > 0) {
      if (!emu_copies_progress(c, true)) return false;
    } else if (!time_out(c)) {
      return deadlock(c);
    }
  }
  *finished = true;
  return finish_copies(c);
}
