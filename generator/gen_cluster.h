/* Shared memory of the other CTAs of a cluster, and the cluster's barrier in two halves (PTX ISA, mapa,
 * barrier.cluster). A CTA must not end while others may access its shared memory: arrive after the last
 * access, with release (loads under way are not over with any other arrival), and wait before the end, or
 * gen_cluster_sync. */
#ifndef ARKE_GENERATOR_GEN_CLUSTER_H
#define ARKE_GENERATOR_GEN_CLUSTER_H

#include "generator/gen_kernel.h"

/* Address, in the window of the cluster, of the same object in CTA `rank` (i32). */
gen_value gen_cluster_map(gen_builder *b, gen_value shared, gen_value rank);
/* Of up to 16 bytes, aligned to their size; the address is of gen_cluster_map. */
gen_value gen_load_cluster(gen_builder *b, gen_type type, int lanes, gen_value address);
void gen_store_cluster(gen_builder *b, gen_value value, gen_value address);

/* What was written before an arrival, by any thread of the cluster, is seen after the wait. */
void gen_cluster_arrive(gen_builder *b);
/* An arrival that orders no memory, reads neither: for "this CTA has started". */
void gen_cluster_arrive_relaxed(gen_builder *b);
void gen_cluster_wait(gen_builder *b);

#endif
