/* Which spellings of each opcode exist: modifiers in order, and operands. The one place that says what the
 * emulator accepts; docs/add-an-instruction.md shows how to add a form.
 *
 * A modifier pattern is a list of elements, each one modifier: alternatives joined by `|`, with `?` if it may
 * be missing, with `*` if it may be repeated. A word stands for the modifier of that text; `field:word` picks
 * between the two meanings that a few texts have (mul.lo, setp.lo), `field:*` stands for every text of a
 * field. #v  .v2 .v4 .v8        #dim   .1d … .5d          #count  .x1 … .x128     #mnk  .mMnNkK #layout .row
 * .col      #group .cta_group::1, ::2  #hint  cache and prefetch hints #collector .collector::X::usage
 *
 * An operand pattern is a list of elements, a letter and a size:
 *   d destination register    s source: register or immediate    a as s, or an address or special register
 *   D, S as d, s, or the vector that .v2/.v4/.v8 asks for        v destination {…}   u source {…}
 *   P predicate written       q predicate read                   p second destination, written d|p
 *   m [address]   t [tensor map, {coordinates}]   A [address] or a 64-bit register   i integer or float
 * constant l label Sizes: 0…3 that of the instruction's n-th type; 0+ at least that; W twice type 0; h, w, l,
 * x: 16, 32, 64, 128 bits; nothing: any. A trailing `?` makes an operand and all after it optional; `^c`,
 * `^m`, `^k`, `^o` make it present exactly when L2::cache_hint, multicast::cluster, cp_mask or an im2col
 * tiling is. */
#ifndef ARKE_EMULATOR_PTX_FORMS_H
#define ARKE_EMULATOR_PTX_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "emulator/ptx_names.h"
#include "emulator/ptx_program.h"

typedef struct ptx_form {
  uint16_t opcode;
  const char *modifiers, *operands;
  uint8_t least_sm; /* 90: from sm_90 on; sm_80 is the oldest target here */
} ptx_form;

/* The forms of an opcode, n of them, most usual first. */
const ptx_form *ptx_forms_of(ptx_opcode opcode, size_t *n);

/* Every opcode and modifier text, for look-up while parsing. */
typedef struct ptx_vocabulary {
  ptx_names opcodes, modifiers;
} ptx_vocabulary;

bool ptx_vocabulary_init(ptx_vocabulary *v, arena *memory);

/* One modifier as written, without its dot. */
typedef struct ptx_modifier {
  const char *text;
  size_t length;
  const ptx_name *meanings; /* NULL if no table has it */
} ptx_modifier;

void ptx_modifier_find(const ptx_vocabulary *v, ptx_modifier *m);

/* Sets the fields of *i that the modifiers select when all of them fit the form; else returns false with
 * *matched the number of modifiers that did. Fields outside the form's are left alone: start from a zeroed
 * instruction. */
bool ptx_form_match(const ptx_form *form, const ptx_modifier *modifiers, size_t n, ptx_instruction *i,
                    size_t *matched);

#endif
