#include "generator/gen_barrier.h"

#include <stdio.h>

#include "generator/gen_internal.h"

#define SYNC (GEN_ASM_MEMORY | GEN_ASM_CONVERGENT)

void gen_cta_sync(gen_builder *b) {
  gen_asm(b, b->none, "bar.sync 0;", "", NULL, 0, SYNC);
}

void gen_named_sync(gen_builder *b, gen_value id, int threads) {
  char text[64];
  snprintf(text, sizeof text, "bar.sync $0, %d;", threads);
  gen_asm(b, b->none, text, "r", &id, 1, SYNC);
}

void gen_named_arrive(gen_builder *b, gen_value id, int threads) {
  char text[64];
  snprintf(text, sizeof text, "bar.arrive $0, %d;", threads);
  gen_asm(b, b->none, text, "r", &id, 1, SYNC);
}

void gen_cluster_sync(gen_builder *b) {
  gen_asm(b, b->none, "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;", "", NULL, 0, SYNC);
}

void gen_launches_wait(gen_builder *b) {
  if (!b->target->has.early_start) return;
  gen_asm(b, b->none, "griddepcontrol.wait;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_launches_release(gen_builder *b) {
  if (!b->target->has.early_start) return;
  gen_asm(b, b->none, "griddepcontrol.launch_dependents;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_fence_async_shared(gen_builder *b) {
  gen_asm(b, b->none, "fence.proxy.async.shared::cta;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_fence_async(gen_builder *b) {
  gen_asm(b, b->none, "fence.proxy.async;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_mbarrier_init(gen_builder *b, gen_value barrier, int arrivals) {
  char text[64];
  snprintf(text, sizeof text, "mbarrier.init.shared::cta.b64 [$0], %d;", arrivals);
  gen_asm(b, b->none, text, "r", &barrier, 1, GEN_ASM_MEMORY);
}

void gen_mbarrier_init_fence(gen_builder *b) {
  /* The first is for threads that wait, of the whole cluster; the second for the copies that complete on it.
   */
  gen_asm(b, b->none, "fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;", "", NULL, 0,
          GEN_ASM_MEMORY);
}

void gen_mbarrier_arrive(gen_builder *b, gen_value barrier, gen_value predicate) {
  if (!predicate) {
    gen_asm(b, b->none, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", &barrier, 1, GEN_ASM_MEMORY);
    return;
  }
  gen_asm(b, b->none, "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b",
          (gen_value[]){barrier, predicate}, 2, GEN_ASM_MEMORY);
}

/* The arrival says that a stage was read, by products that were waited for: it publishes no memory. A cluster
 * scope (.release.cluster here, .acquire.cluster at the wait) would flush and invalidate caches each time:
 * measured 22 % of a product's time. */
void gen_mbarrier_arrive_remote(gen_builder *b, gen_value barrier, gen_value rank, gen_value predicate) {
  static const char text[] = "{\n.reg .b32 remote;\n"
                             "@$2 mapa.shared::cluster.u32 remote, $0, $1;\n"
                             "@$2 mbarrier.arrive.shared::cluster.b64 _, [remote];\n}";
  if (!predicate) predicate = gen_bool(b, true);
  gen_asm(b, b->none, text, "r,r,b", (gen_value[]){barrier, rank, predicate}, 3, GEN_ASM_MEMORY);
}

void gen_mbarrier_arrive_expect(gen_builder *b, gen_value barrier, int bytes) {
  char text[96];
  snprintf(text, sizeof text, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], %d;", bytes);
  gen_asm(b, b->none, text, "r", &barrier, 1, GEN_ASM_MEMORY);
}

void gen_mbarrier_arrive_expect_some(gen_builder *b, gen_value barrier, gen_value bytes) {
  gen_asm(b, b->none, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r",
          (gen_value[]){barrier, bytes}, 2, GEN_ASM_MEMORY);
}

void gen_mbarrier_wait(gen_builder *b, gen_value barrier, gen_value parity) {
  /* One block, loop included: a try that fails leaves nothing for LLVM to schedule around. */
  static const char text[] = "{\n.reg .pred done;\n"
                             "wait_${:uid}:\n"
                             "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
                             "@!done bra wait_${:uid};\n}";
  gen_asm(b, b->none, text, "r,r", (gen_value[]){barrier, parity}, 2, GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
}
