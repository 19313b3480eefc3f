#include "generator/gen_cp_async.h"

#include <stdio.h>

#include "generator/gen_internal.h"

void gen_cp_async(gen_builder *b, gen_value shared, gen_value global, int bytes, gen_value available) {
  if (bytes != 4 && bytes != 8 && bytes != 16) gen_misuse(b, "a copy of %d bytes", bytes);
  char text[80];
  snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %d%s;", bytes == 16 ? "cg" : "ca", bytes,
           available ? ", $2" : "");
  gen_value args[] = {shared, global, available};
  gen_asm(b, b->none, text, available ? "r,l,r" : "r,l", args, available ? 3 : 2, GEN_ASM_MEMORY);
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
