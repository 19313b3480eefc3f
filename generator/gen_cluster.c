#include "generator/gen_cluster.h"

#include "generator/gen_internal.h"
#include "generator/gen_words.h"

#define SYNC (GEN_ASM_MEMORY | GEN_ASM_CONVERGENT)

gen_value gen_cluster_map(gen_builder *b, gen_value shared, gen_value rank) {
  return gen_asm(b, b->types[GEN_I32], "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                 (gen_value[]){shared, rank}, 2, GEN_ASM_PURE);
}

gen_value gen_load_cluster(gen_builder *b, gen_type type, int lanes, gen_value address) {
  return gen_words_load(b, "ld.shared::cluster", "r", type, lanes, address, NULL, GEN_ASM_MEMORY);
}

void gen_store_cluster(gen_builder *b, gen_value value, gen_value address) {
  gen_words_store(b, "st.shared::cluster", "r", value, address, NULL);
}

void gen_cluster_arrive(gen_builder *b) {
  gen_asm(b, b->none, "barrier.cluster.arrive.release;", "", NULL, 0, SYNC);
}

void gen_cluster_arrive_relaxed(gen_builder *b) {
  gen_asm(b, b->none, "barrier.cluster.arrive.relaxed;", "", NULL, 0, SYNC);
}

void gen_cluster_wait(gen_builder *b) {
  gen_asm(b, b->none, "barrier.cluster.wait.acquire;", "", NULL, 0, SYNC);
}
