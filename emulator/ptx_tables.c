#include <stdio.h>

#include "emulator/ptx_program.h"

typedef struct type_record {
  const char *text;
  uint8_t bits, kind;
} type_record;

static const type_record types[PTX_TYPE_COUNT] = {[PTX_TYPE_NONE] = {"", 0, PTX_KIND_OF_BITS},
#define X(NAME, text, bits, kind) [PTX_TYPE_##NAME] = {text, bits, PTX_KIND_OF_##kind},
                                                  PTX_TYPES(X)
#undef X
};

static const char *const opcodes[PTX_OPCODE_COUNT] = {
#define X(NAME, text, unit) [PTX_##NAME] = text,
    PTX_OPCODES(X)
#undef X
};

static const uint8_t units[PTX_OPCODE_COUNT] = {
#define X(NAME, text, unit) [PTX_##NAME] = PTX_UNIT_##unit,
    PTX_OPCODES(X)
#undef X
};

static const uint8_t special_bits[PTX_SPECIAL_COUNT] = {
#define X(NAME, text, bits, least_sm) [PTX_SPECIAL_##NAME] = bits,
    PTX_SPECIALS(X)
#undef X
};

int ptx_type_bits(ptx_type type) {
  return (unsigned)type < PTX_TYPE_COUNT ? types[type].bits : 0;
}

ptx_type_reading ptx_type_kind(ptx_type type) {
  return (unsigned)type < PTX_TYPE_COUNT ? (ptx_type_reading)types[type].kind : PTX_KIND_OF_BITS;
}

const char *ptx_type_text(ptx_type type) {
  return (unsigned)type < PTX_TYPE_COUNT ? types[type].text : "?";
}

const char *ptx_opcode_text(ptx_opcode opcode) {
  return (unsigned)opcode < PTX_OPCODE_COUNT ? opcodes[opcode] : "?";
}

ptx_unit ptx_opcode_unit(ptx_opcode opcode) {
  return (unsigned)opcode < PTX_OPCODE_COUNT ? (ptx_unit)units[opcode] : PTX_UNIT_NONE;
}

int ptx_special_bits(ptx_special special) {
  return (unsigned)special < PTX_SPECIAL_COUNT ? special_bits[special] : 0;
}

void ptx_slot_name(const ptx_kernel *kernel, uint32_t use, char *out, size_t out_bytes) {
  bool predicate = (use & PTX_USE_PREDICATE) != 0;
  uint32_t slot = use & ~PTX_USE_PREDICATE;
  for (uint32_t f = 0; f < kernel->n_families; f++) {
    const ptx_register_family *family = &kernel->families[f];
    uint32_t n = family->count == 0 ? 1 : family->count;
    if ((family->type == PTX_TYPE_PRED) != predicate || slot < family->first_slot ||
        (slot - family->first_slot) / family->slots_each >= n)
      continue;
    if (family->count == 0)
      snprintf(out, out_bytes, "%s", family->prefix);
    else
      snprintf(out, out_bytes, "%s%u", family->prefix, (slot - family->first_slot) / family->slots_each);
    return;
  }
  snprintf(out, out_bytes, "%s %u", predicate ? "predicate" : "register", slot);
}
