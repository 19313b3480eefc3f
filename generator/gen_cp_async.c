#include "generator/gen_cp_async.h"

#include <stdio.h>

#include "generator/gen_internal.h"

void gen_cp_async(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value available) {
  gen_cp_async_cached(b, shared, global, bytes, available, GEN_CACHE_DEFAULT);
}

void gen_cp_async_cached(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value available,
                         gen_cache cache) {
  if (bytes != 4 && bytes != 8 && bytes != 16) gen_misuse(b, "a copy of %d bytes", bytes);
  static const char *const constraints[2][2] = {{"r,l", "r,l,l"}, {"r,l,r", "r,l,r,l"}};
  gen_value policy = gen_l2_policy(b, cache), args[4] = {shared, global};
  char text[112];
  int n = 2;
  if (available) args[n++] = available;
  if (policy) args[n++] = policy;
  snprintf(text, sizeof text, "cp.async.%s.shared.global%s [$0], [$1], %d%s%s;", bytes == 16 ? "cg" : "ca",
           policy ? ".L2::cache_hint" : "", bytes, n > 2 ? ", $2" : "", n > 3 ? ", $3" : "");
  gen_asm(b, b->none, text, constraints[available != NULL][policy != NULL], args, n, GEN_ASM_MEMORY);
}

void gen_cp_async_commit(gen_builder *b) {
  gen_asm(b, b->none, "cp.async.commit_group;", "", NULL, 0, GEN_ASM_MEMORY);
}

void gen_cp_async_arrive(gen_builder *b, gen_value mbarrier) {
  gen_asm(b, b->none, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r", &mbarrier, 1,
          GEN_ASM_MEMORY);
}

void gen_cp_async_wait(gen_builder *b, int pending) {
  char text[40];
  snprintf(text, sizeof text, "cp.async.wait_group %d;", pending);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_MEMORY);
}
