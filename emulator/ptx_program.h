/* A decoded PTX module: what ptx_parse makes of a text, and what the machine and alu_execute run. Immutable
 * once parsed, so one module can be executed by several threads.
 *
 * Registers. Every register of a kernel, in whatever scope it was declared, has a slot: data registers are
 * numbered 0..n_slots-1, predicates 0..n_predicates-1. A .b128 register takes two data slots, low half first.
 * Values are kept zero-extended to 64 bits; a .b8 or .b16 register uses the low bits.
 *
 * Addresses. A symbol stands for an address that the machine chooses when it launches: ptx_symbol.index
 * numbers all symbols of a module, so a table of bases by that index resolves them. Parameters are addresses
 * in the parameter space: their offset within the kernel's parameter block. */
#ifndef ARKE_EMULATOR_PTX_PROGRAM_H
#define ARKE_EMULATOR_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "emulator/ptx_tables.h"

enum { PTX_LANES = 32 };
#define PTX_FULL_MASK 0xffffffffu

#define X(NAME, ...) PTX_UNIT_##NAME,
typedef enum ptx_unit { PTX_UNITS(X) } ptx_unit;
#undef X
#define X(NAME, ...) PTX_##NAME,
typedef enum ptx_opcode { PTX_OPCODES(X) PTX_OPCODE_COUNT } ptx_opcode;
#undef X
#define X(NAME, ...) PTX_TYPE_##NAME,
typedef enum ptx_type { PTX_TYPE_NONE, PTX_TYPES(X) PTX_TYPE_COUNT } ptx_type;
#undef X
#define X(NAME, ...) PTX_SPECIAL_##NAME,
typedef enum ptx_special { PTX_SPECIALS(X) PTX_SPECIAL_COUNT } ptx_special;
#undef X
#define X(NAME, ...) PTX_SPACE_##NAME,
typedef enum ptx_space { PTX_SPACES(X) PTX_SPACE_COUNT } ptx_space;
#undef X
#define X(NAME, ...) PTX_ROUND_##NAME,
typedef enum ptx_rounding { PTX_ROUNDINGS(X) PTX_ROUND_COUNT } ptx_rounding;
#undef X
#define X(NAME, ...) PTX_SEM_##NAME,
typedef enum ptx_semantics { PTX_SEMANTICS(X) PTX_SEM_COUNT } ptx_semantics;
#undef X
#define X(NAME, ...) PTX_SCOPE_##NAME,
typedef enum ptx_scope { PTX_SCOPES(X) PTX_SCOPE_COUNT } ptx_scope;
#undef X
#define X(NAME, ...) PTX_CMP_##NAME,
typedef enum ptx_compare { PTX_COMPARES(X) PTX_CMP_COUNT } ptx_compare;
#undef X
#define X(NAME, ...) PTX_OP_##NAME,
typedef enum ptx_operation { PTX_OPERATIONS(X) PTX_OP_COUNT } ptx_operation;
#undef X
#define X(NAME, ...) PTX_MODE_##NAME,
typedef enum ptx_mode { PTX_MODES(X) PTX_MODE_COUNT } ptx_mode;
#undef X
#define X(NAME, ...) PTX_PROXY_##NAME,
typedef enum ptx_proxy { PTX_PROXIES(X) PTX_PROXY_COUNT } ptx_proxy;
#undef X
#define X(NAME, ...) PTX_TILING_##NAME,
typedef enum ptx_tiling { PTX_TILINGS(X) PTX_TILING_COUNT } ptx_tiling;
#undef X
#define X(NAME, ...) PTX_KIND_##NAME,
typedef enum ptx_kind { PTX_KINDS(X) PTX_KIND_COUNT } ptx_kind;
#undef X
#define X(NAME, ...) PTX_SHAPE_##NAME,
typedef enum ptx_shape { PTX_SHAPES(X) PTX_SHAPE_COUNT } ptx_shape;
#undef X
#define X(NAME, ...) PTX_REPLICATE_##NAME,
typedef enum ptx_replication { PTX_REPLICATIONS(X) PTX_REPLICATE_COUNT } ptx_replication;
#undef X
#define X(NAME, ...) PTX_COLLECTOR_##NAME,
typedef enum ptx_collector { PTX_COLLECTORS(X) PTX_COLLECTOR_COUNT } ptx_collector;
#undef X
#define X(NAME, ...) PTX_SCALE_##NAME,
typedef enum ptx_scale_block { PTX_SCALE_BLOCKS(X) PTX_SCALE_COUNT } ptx_scale_block;
#undef X
#define X(NAME, ...) PTX_FLAG_BIT_##NAME,
enum { PTX_FLAGS(X) PTX_FLAG_COUNT };
#undef X
#define X(NAME, ...) PTX_FLAG_##NAME = 1ull << PTX_FLAG_BIT_##NAME,
enum ptx_flag { PTX_FLAGS(X) };
#undef X

typedef enum ptx_layout { PTX_LAYOUT_NONE, PTX_LAYOUT_ROW, PTX_LAYOUT_COL } ptx_layout;

typedef struct ptx_symbol {
  const char *name;
  ptx_space space; /* SHARED, GLOBAL, CONST or LOCAL */
  uint32_t index;  /* position in ptx_module.symbols */
  uint64_t bytes;  /* 0 for an extern array without size: dynamic shared memory */
  uint32_t align;
  int kernel; /* index of the kernel it is local to, -1 for module scope */
  bool is_extern;
  const uint8_t *initial; /* `bytes` bytes, or NULL: zero for global and const, uninitialised elsewhere */
  int line;
} ptx_symbol;

typedef enum ptx_operand_kind {
  PTX_OPERAND_SINK,      /* `_`: result not wanted */
  PTX_OPERAND_REGISTER,  /* data register `slot` */
  PTX_OPERAND_PREDICATE, /* predicate `slot`; `negated` for !p */
  PTX_OPERAND_IMMEDIATE, /* `value`: bits as the instruction's type wants them, zero-extended to 64 */
  PTX_OPERAND_SPECIAL,   /* special register: ptx_special in `slot` */
  PTX_OPERAND_SYMBOL,    /* address of symbol number `slot`, plus `value`; not dereferenced */
  PTX_OPERAND_PARAM,     /* address in the parameter space: `value` already holds the parameter's offset */
  PTX_OPERAND_MEMORY,    /* [base + value], base of kind `base` in `slot` */
  PTX_OPERAND_VECTOR,    /* {a, b, …}: `elements`, n of them */
  PTX_OPERAND_LABEL,     /* instruction index in `slot` */
  PTX_OPERAND_TENSOR,    /* [map, {x, y}]: elements[0] is the map as MEMORY, elements[1] the coordinates as
                            VECTOR */
} ptx_operand_kind;

typedef struct ptx_operand {
  uint8_t kind;
  uint8_t base; /* MEMORY: kind of the base: REGISTER, SYMBOL, PARAM or IMMEDIATE (absolute address) */
  bool negated; /* PREDICATE */
  uint8_t
      bytes; /* REGISTER, and MEMORY with a register base: size of the register as declared: 1, 2, 4, 8, 16 */
  uint32_t slot;
  uint64_t value; /* immediate, or signed byte offset as two's complement; REGISTER: what to add to it
                   * (tcgen05 descriptors only, else 0) */
  uint32_t n;     /* VECTOR, TENSOR: number of elements */
  const struct ptx_operand *elements;
  const uint32_t *slots; /* VECTOR whose elements are all data registers: their slots, n of them; else NULL */
} ptx_operand;

/* In ptx_instruction.uses: set for predicates, clear for data slots. */
#define PTX_USE_PREDICATE 0x80000000u
#define PTX_NOWHERE       UINT32_MAX

typedef struct ptx_instruction {
  uint16_t opcode; /* ptx_opcode */
  uint8_t unit;    /* ptx_unit */
  uint8_t n_types;
  uint8_t type[4];  /* in the order written: cvt: destination, source; wgmma: d, a, b; mma: d, a, b, c */
  uint8_t space[2]; /* in the order written: copies: destination, source */
  uint8_t n_spaces;
  uint8_t vector; /* .v2/.v4/.v8; 1 otherwise */
  uint8_t rounding, semantics, scope, compare, operation, mode, proxy, tiling, kind, shape, replication,
      collector, scale_block;
  uint8_t dim;       /* .1d…5d, 0 when not written */
  uint8_t cta_group; /* 1, 2; 0 when not written */
  uint8_t count;     /* .x1 … .x128; 0 when not written */
  uint16_t m, n, k;  /* .mMnNkK of mma and wgmma */
  uint64_t flags;    /* PTX_FLAG_* */
  uint32_t guard;    /* predicate slot, or PTX_NOWHERE */
  bool guard_negated;
  uint8_t a_layout, b_layout; /* mma: ptx_layout */
  uint8_t n_operands;
  const ptx_operand *operands; /* as written, destination first; `p|q` pairs are two operands */
  /* Registers read (with the guard and address bases), then written; duplicates removed. wgmma's and
   * tcgen05's accumulators count as written only: whether they are read depends on scale-d. A vector's slots
   * and both slots of a .b128 are all listed. */
  const uint32_t *uses;
  uint16_t n_reads, n_writes;
  uint32_t target; /* bra: instruction index */
  uint32_t
      reconverge;   /* bra, brx: where diverged lanes meet again; kernel->n_instructions if only at the end */
  int line, column; /* 1-based */
  const char *text; /* the name as written ("add.rn.f32"), for messages */
} ptx_instruction;

typedef struct ptx_param {
  const char *name;
  uint32_t offset, bytes, align; /* offset within the kernel's parameter block (C struct rules) */
} ptx_param;

/* One `.reg` declaration: names[first slot …]. */
typedef struct ptx_register_family {
  const char *prefix;
  uint32_t count; /* registers prefix0…; 0: a single register called `prefix` */
  uint32_t first_slot;
  uint8_t type;       /* ptx_type as declared */
  uint8_t slots_each; /* 2 for .b128 */
} ptx_register_family;

typedef struct ptx_kernel {
  const char *name;
  int index;
  const ptx_param *params;
  uint32_t n_params, param_bytes;
  uint32_t reqntid[3], maxntid[3], reqnctapercluster[3]; /* 0 when not given; missing dimensions are 1 */
  bool explicit_cluster;
  uint32_t minnctapersm, maxnreg, maxclusterrank; /* 0 when not given */
  uint32_t n_slots, n_predicates;
  const ptx_register_family *families;
  uint32_t n_families;
  const ptx_instruction *instructions; /* ends with a ret or exit, explicit or added */
  uint32_t n_instructions;
  int line;
} ptx_kernel;

typedef struct ptx_module {
  int version_major, version_minor; /* .version 8.6 */
  char target[16];                  /* "sm_90a" */
  int sm;                           /* 90 */
  const ptx_symbol *symbols;        /* of module scope and of all kernels */
  uint32_t n_symbols;
  const ptx_kernel *kernels;
  uint32_t n_kernels;
} ptx_module;

/* Parses and decodes a whole module. The text need not be NUL-terminated and is not kept. Errors name line
 * and column: ERR_SYNTAX for text that is not PTX, ERR_UNSUPPORTED for an instruction or form that the
 * emulator does not know or cannot run, ERR_INVALID for what PTX forbids (undeclared register, wrong operand
 * size, …). */
arke_status ptx_parse(const char *text, size_t bytes, ptx_module **module, arke_error *err);
void ptx_module_free(ptx_module *module); /* NULL allowed */

const ptx_kernel *ptx_find_kernel(const ptx_module *module, const char *name); /* NULL if there is none */
/* "%r12" for a slot (with PTX_USE_PREDICATE for predicates), written to out. */
void ptx_slot_name(const ptx_kernel *kernel, uint32_t use, char *out, size_t out_bytes);

int ptx_type_bits(ptx_type type);
/* How one element of a type is read. */
typedef enum ptx_type_reading {
  PTX_KIND_OF_BITS,
  PTX_KIND_OF_UNSIGNED,
  PTX_KIND_OF_SIGNED,
  PTX_KIND_OF_FLOAT
} ptx_type_reading;
ptx_type_reading ptx_type_kind(ptx_type type);
const char *ptx_type_text(ptx_type type);
const char *ptx_opcode_text(ptx_opcode opcode);
ptx_unit ptx_opcode_unit(ptx_opcode opcode);
int ptx_special_bits(ptx_special special);

/* Run-time registers of one warp, structure of arrays; the machine owns the memory. */
enum { PTX_PARTS = 4 };

typedef struct ptx_registers {
  uint64_t (*value)[PTX_LANES]; /* [n_slots] */
  uint32_t *written;            /* [n_slots]: lanes that hold a value; reading others is a fault */
  /* [n_slots]: lanes whose 16-bit parts hold a value where the whole may not (alu_parts.c) */
  uint32_t (*part_written)[PTX_PARTS];
  uint32_t *predicate;         /* [n_predicates]: lanes where it is true */
  uint32_t *predicate_written; /* [n_predicates] */
} ptx_registers;

#endif
