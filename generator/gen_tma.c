#include "generator/gen_tma.h"

#include <stdio.h>

#include "generator/gen_internal.h"

void gen_tma_prefetch_map(gen_builder *b, gen_value map) {
  gen_asm(b, b->none, "prefetch.tensormap [$0];", "l", &map, 1, GEN_ASM_EFFECT);
}

void gen_tma_load_2d(gen_builder *b, gen_value shared, gen_value map, gen_value x, gen_value y,
                     gen_value mbarrier, unsigned cta_mask) {
  gen_value args[] = {shared, map, x, y, mbarrier, LLVMConstInt(b->types[GEN_I16], cta_mask, 0)};
  if (cta_mask == 0) {
    gen_asm(b, b->none,
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[$0], [$1, {$2, $3}], [$4];",
            "r,l,r,r,r", args, 5, GEN_ASM_MEMORY);
  } else {
    gen_asm(
        b, b->none,
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[$0], [$1, {$2, $3}], [$4], $5;",
        "r,l,r,r,r,h", args, 6, GEN_ASM_MEMORY);
  }
}

void gen_tma_load_2d_cached(gen_builder *b, gen_value shared, gen_value map, gen_value x, gen_value y,
                            gen_value mbarrier, gen_cache cache) {
  gen_value policy = gen_l2_policy(b, cache);
  if (!policy) {
    gen_tma_load_2d(b, shared, map, x, y, mbarrier, 0);
    return;
  }
  gen_asm(b, b->none,
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[$0], [$1, {$2, $3}], [$4], $5;",
          "r,l,r,r,r,l", (gen_value[]){shared, map, x, y, mbarrier, policy}, 6, GEN_ASM_MEMORY);
}

void gen_bulk_load(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value mbarrier) {
  gen_bulk_load_cached(b, shared, global, bytes, mbarrier, GEN_CACHE_DEFAULT);
}

void gen_bulk_load_cached(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value mbarrier,
                          gen_cache cache) {
  char text[160];
  gen_value policy = gen_l2_policy(b, cache);
  snprintf(text, sizeof text,
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes%s [$0], [$1], %d, [$2]%s;",
           policy ? ".L2::cache_hint" : "", bytes, policy ? ", $3" : "");
  gen_asm(b, b->none, text, policy ? "r,l,r,l" : "r,l,r", (gen_value[]){shared, global, mbarrier, policy},
          policy ? 4 : 3, GEN_ASM_MEMORY);
}

void gen_tma_store_2d(gen_builder *b, gen_value map, gen_value x, gen_value y, gen_value shared) {
  gen_asm(b, b->none, "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$0, {$1, $2}], [$3];",
          "l,r,r,r", (gen_value[]){map, x, y, shared}, 4, GEN_ASM_MEMORY);
}

void gen_tma_store_commit(gen_builder *b) {
  gen_asm(b, b->none, "cp.async.bulk.commit_group;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_tma_store_wait_read(gen_builder *b, int pending) {
  char text[64];
  snprintf(text, sizeof text, "cp.async.bulk.wait_group.read %d;", pending);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_MEMORY);
}
