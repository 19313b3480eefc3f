/* Loads and stores as inline assembly, for what LLVM has no spelling for (hints, other windows): the value
 * travels as words. Private to gen_*.c. */
#ifndef ARKE_GENERATOR_GEN_WORDS_H
#define ARKE_GENERATOR_GEN_WORDS_H

#include "generator/gen_internal.h"

/* `instruction` up to the vector and the type ("ld.global.cs"). `address` has the constraint
 * `address_register`; `policy` (i64) is an L2 policy, NULL: none. 1, 2, 4, 8, 16 or 32 bytes. */
gen_value gen_words_load(gen_builder *b, const char *instruction, const char *address_register, gen_type type,
                         int lanes, gen_value address, gen_value policy, unsigned flags);
void gen_words_store(gen_builder *b, const char *instruction, const char *address_register, gen_value value,
                     gen_value address, gen_value policy);

#endif
