/* Finding entries of the caches for a call: exactly its sizes, a declared bucket that holds them, or tuned
 * sizes nearby. Nothing here loads a kernel; strings and lists are the arena's given in. */
#ifndef ARKE_RUNTIME_ENTRY_MATCH_H
#define ARKE_RUNTIME_ENTRY_MATCH_H

#include "runtime/call.h"
#include "runtime/entry_index.h"
#include "runtime/usable_targets.h"

typedef struct match_query {
  const call *call;
  cache *const *caches; /* consulted in this order */
  int n_caches;
  const usable_target *targets; /* best first */
  int n_targets;
  bool modelled_too;
  bool fast_math, check_indices; /* as in arke_options */
  entry_index *index;
} match_query;

/* One signature of one target in one cache that the call fits. */
typedef struct match_route {
  cache *cache;
  int cache_rank;
  const usable_target *target;
  const char *example; /* bindings of some entry: the order of names */
  bound_call bound;
} match_route;

typedef struct match_candidate {
  const match_route *route;
  arke_match match;
  double distance;          /* sum over the axes of |log2(asked / tuned)| */
  int variant;              /* rank of the entry's variant: lower is preferred */
  const cache_entry *entry; /* of a list that outlives the call, or the arena's; its kernel is not loaded */
} match_candidate;

/* The entry nearest to the call, served or not, for the message of a miss. */
typedef struct match_miss {
  bool found;
  const match_route *route;
  cache_entry entry;
  int n_other;   /* dtypes and attributes that differ */
  bool modelled; /* left out because it was never measured */
  bool variant;  /* left out because of what it was tuned with */
  double distance;
  int damaged_rows; /* skipped */
} match_miss;

/* ARKE_ERR_NOT_TUNED when the caches hold nothing for the operator on these targets; the first signature's
 * own error when the call fits none. */
arke_status match_routes(const match_query *q, arena *a, match_route **routes, int *n, arke_error *err);
/* The exact entries, in the order they are to be tried: by cache, then target. One indexed look-up each. */
arke_status match_exact(const match_query *q, const match_route *routes, int n, arena *a,
                        match_candidate **list, int *n_list, arke_error *err);
/* Buckets (by cache, then target), then neighbours (by target, then distance; measured before modelled). Also
 * finds exact entries whose bindings text is written differently. Walks every entry of the operator. */
arke_status match_others(const match_query *q, const match_route *routes, int n, arena *a,
                         match_candidate **list, int *n_list, match_miss *miss, arke_error *err);
/* "the nearest is KEY, where M is 4096 and not 512, …; tune it with: arke-tune …" */
/* `empty`: the outputs have no elements. */
void match_print_miss(const match_query *q, const match_miss *miss, const match_route *asked, bool empty,
                      strbuf *out);

#endif
