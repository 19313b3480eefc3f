#include "generator/gen_tma.h"

#include <stdio.h>

#include "generator/gen_internal.h"

void gen_tma_prefetch_map(gen_builder *b, gen_value map) {
  gen_asm(b, b->none, "prefetch.tensormap [$0];", "l", &map, 1, GEN_ASM_EFFECT);
}

/* "{$2, $3}": coordinates, which are operands from `first` on. */
static void add_coordinates(strbuf *text, int first, int rank) {
  for (int i = 0; i < rank; i++) strbuf_addf(text, i == 0 ? "{$%d" : ", $%d", first + i);
  strbuf_add(text, "}");
}

static bool known_rank(gen_builder *b, int rank) {
  if (rank < 1 || rank > GEN_TMA_MAX_RANK) gen_misuse(b, "a tensor copy of rank %d", rank);
  return rank >= 1 && rank <= GEN_TMA_MAX_RANK;
}

static void emit(gen_builder *b, const strbuf *text, const strbuf *constraints, const gen_value *args,
                 int n) {
  if (strbuf_failed(text) || strbuf_failed(constraints))
    error_memory(&b->misuse, "generate");
  else
    gen_asm(b, b->none, strbuf_text(text), strbuf_text(constraints), args, n, GEN_ASM_MEMORY);
}

/* `policy` (NULL: none) is how the L2 cache is to treat what is read. */
static void load(gen_builder *b, gen_value shared, gen_value map, const gen_value *at, int rank,
                 gen_value mbarrier, unsigned cta_mask, gen_value policy) {
  gen_value args[GEN_TMA_MAX_RANK + 5] = {shared, map};
  int n = 2;
  if (!known_rank(b, rank)) return;
  strbuf text = STRBUF_INIT, constraints = STRBUF_INIT;
  strbuf_addf(&text, "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
              rank);
  if (cta_mask) strbuf_add(&text, ".multicast::cluster");
  if (policy) strbuf_add(&text, ".L2::cache_hint");
  strbuf_add(&text, " [$0], [$1, ");
  add_coordinates(&text, n, rank);
  strbuf_addf(&text, "], [$%d]", 2 + rank);
  strbuf_add(&constraints, "r,l");
  for (int i = 0; i <= rank; i++) strbuf_add(&constraints, ",r");
  for (int i = 0; i < rank; i++) args[n++] = at[i];
  args[n++] = mbarrier;
  if (cta_mask) {
    strbuf_addf(&text, ", $%d", n);
    strbuf_add(&constraints, ",h");
    args[n++] = LLVMConstInt(b->types[GEN_I16], cta_mask, 0);
  }
  if (policy) {
    strbuf_addf(&text, ", $%d", n);
    strbuf_add(&constraints, ",l");
    args[n++] = policy;
  }
  strbuf_add(&text, ";");
  emit(b, &text, &constraints, args, n);
  strbuf_free(&text);
  strbuf_free(&constraints);
}

void gen_tma_load(gen_builder *b, gen_value shared, gen_value map, const gen_value *at, int rank,
                  gen_value mbarrier, unsigned cta_mask) {
  load(b, shared, map, at, rank, mbarrier, cta_mask, NULL);
}

void gen_tma_load_2d_cached(gen_builder *b, gen_value shared, gen_value map, gen_value x, gen_value y,
                            gen_value mbarrier, gen_cache cache) {
  load(b, shared, map, (gen_value[]){x, y}, 2, mbarrier, 0, gen_l2_policy(b, cache));
}

void gen_tma_prefetch(gen_builder *b, gen_value map, const gen_value *at, int rank) {
  gen_value args[GEN_TMA_MAX_RANK + 1] = {map};
  if (!known_rank(b, rank)) return;
  strbuf text = STRBUF_INIT, constraints = STRBUF_INIT;
  strbuf_addf(&text, "cp.async.bulk.prefetch.tensor.%dd.L2.global.tile [$0, ", rank);
  add_coordinates(&text, 1, rank);
  strbuf_add(&text, "];");
  strbuf_add(&constraints, "l");
  for (int i = 0; i < rank; i++) {
    strbuf_add(&constraints, ",r");
    args[1 + i] = at[i];
  }
  emit(b, &text, &constraints, args, 1 + rank);
  strbuf_free(&text);
  strbuf_free(&constraints);
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

void gen_tma_store(gen_builder *b, gen_value map, const gen_value *at, int rank, gen_value shared) {
  gen_value args[GEN_TMA_MAX_RANK + 2] = {map};
  if (!known_rank(b, rank)) return;
  strbuf text = STRBUF_INIT, constraints = STRBUF_INIT;
  strbuf_addf(&text, "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group [$0, ", rank);
  add_coordinates(&text, 1, rank);
  strbuf_addf(&text, "], [$%d];", 1 + rank);
  strbuf_add(&constraints, "l");
  for (int i = 0; i <= rank; i++) strbuf_add(&constraints, ",r");
  for (int i = 0; i < rank; i++) args[1 + i] = at[i];
  args[1 + rank] = shared;
  emit(b, &text, &constraints, args, 2 + rank);
  strbuf_free(&text);
  strbuf_free(&constraints);
}

void gen_bulk_add(gen_builder *b, gen_value global, gen_value shared, int bytes) {
  char text[128];
  snprintf(text, sizeof text, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], %d;",
           bytes);
  gen_asm(b, b->none, text, "l,r", (gen_value[]){global, shared}, 2, GEN_ASM_MEMORY);
}

void gen_tma_store_commit(gen_builder *b) {
  gen_asm(b, b->none, "cp.async.bulk.commit_group;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_tma_store_wait_read(gen_builder *b, int pending) {
  char text[64];
  snprintf(text, sizeof text, "cp.async.bulk.wait_group.read %d;", pending);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_tma_store_wait(gen_builder *b, int pending) {
  char text[64];
  snprintf(text, sizeof text, "cp.async.bulk.wait_group %d;", pending);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_MEMORY);
}
