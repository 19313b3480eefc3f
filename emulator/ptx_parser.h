/* Inside the PTX front end: the state that its parts share while one text is parsed. */
#ifndef ARKE_EMULATOR_PTX_PARSER_H
#define ARKE_EMULATOR_PTX_PARSER_H

#include "base/arena.h"
#include "emulator/ptx_forms.h"
#include "emulator/ptx_lex.h"
#include "emulator/ptx_names.h"
#include "emulator/ptx_program.h"

/* Kinds of ptx_name in ptx_parser.names; the index counts within the kind. */
enum {
  PTX_NAME_REGISTER, /* a single register: index of its family */
  PTX_NAME_FAMILY,   /* the prefix of numbered registers */
  PTX_NAME_SYMBOL,
  PTX_NAME_PARAM,
  PTX_NAME_LABEL, /* instruction index, or PTX_TABLE_LABEL | number of a .branchtargets list */
};
#define PTX_TABLE_LABEL 0x80000000u

enum {
  PTX_MAX_OPERANDS = 16,
  PTX_MAX_MODIFIERS = 24,
  PTX_MAX_ELEMENTS = 256, /* of one {…}: wgmma has up to 128, tcgen05.ld as many */
  PTX_MAX_SCOPE_DEPTH = 64,
  PTX_MAX_SLOTS = 1 << 20, /* registers of one kernel; the machine multiplies this by its warps */
};

/* A growing array in scratch memory: `p->NAME = ptx_grow(…)` before each append. */
typedef struct ptx_array {
  void *items;
  uint32_t n, capacity;
} ptx_array;

/* An operand as read, before its instruction is known to accept it. */
typedef struct ptx_parsed_operand {
  ptx_operand operand; /* names resolved; immediates raw in .value */
  ptx_token token;     /* where it starts */
  uint64_t raw;        /* immediates: the value as written */
  uint8_t number;      /* ptx_token_kind of an immediate */
  bool minus;          /* the immediate had a minus sign */
  bool pair;           /* written after `|` */
  uint8_t type;        /* registers: declared type */
  uint32_t param;      /* PARAM, or MEMORY on one: its index */
  struct ptx_parsed_operand *elements;
} ptx_parsed_operand;

/* A use of a label that may be defined later. */
typedef struct ptx_label_use {
  ptx_token name;
  uint32_t instruction;
  ptx_operand *operands; /* of that instruction, still writable */
} ptx_label_use;

/* `name: .branchtargets A, B;` */
typedef struct ptx_branch_table {
  const ptx_token *targets;
  uint32_t n;
} ptx_branch_table;

typedef struct ptx_parser {
  arena *out;     /* the module's memory */
  arena *scratch; /* released when parsing ends */
  arke_error *err;
  ptx_lexer lexer;
  ptx_token token; /* the one to be looked at next */
  ptx_vocabulary vocabulary;
  ptx_names names;
  ptx_module *module;
  ptx_array symbols, kernels;

  /* The kernel being read. */
  ptx_kernel *kernel;
  ptx_array params, families, instructions, label_uses, tables;
  uint32_t end_label;                      /* the last label's instruction, to see one at the very end */
  ptx_array uses;                          /* registers of the instruction at hand */
  ptx_array slot_stamps, predicate_stamps; /* by slot: which list had it last, so that none has it twice */
} ptx_parser;

/* Room for one more item of `size` bytes; returns it zeroed, or NULL (memory). */
void *ptx_append(ptx_parser *p, ptx_array *a, size_t size);

/* "line L:C: …" with the place of `t`. */
arke_status ptx_fail(ptx_parser *p, arke_status code, const ptx_token *t, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
arke_status ptx_out_of_memory(ptx_parser *p);
void ptx_advance(ptx_parser *p);
bool ptx_is_punct(const ptx_token *t, char c);
bool ptx_is_word(const ptx_token *t, const char *text);
/* Consumes the punctuation or fails, saying what it stands after. */
arke_status ptx_expect(ptx_parser *p, char c, const char *after);

/* ptx_operands.c: one operand of an instruction, from the current token on; appends the second of `a|b` too.
 */
arke_status ptx_parse_operands(ptx_parser *p, ptx_parsed_operand *operands, uint32_t *n);

/* Just a register name; ERR_INVALID when it is not one. */
arke_status ptx_parse_register(ptx_parser *p, ptx_operand *o);

/* ptx_match.c. Why the best form so far did not fit: the further along the operands, the better the message.
 */
typedef struct ptx_mismatch {
  uint32_t progress; /* twice the operand's number, plus one if at least its place is right */
  bool set;
  ptx_token token;
  char text[160];
} ptx_mismatch;
/* Pattern letters of the operands, in order, in `letters` when the form fits. */
bool ptx_match_operands(const ptx_form *form, ptx_parsed_operand *o, uint32_t n, const ptx_instruction *i,
                        const ptx_token *name, char letters[PTX_MAX_OPERANDS], ptx_mismatch *why);

/* ptx_decode.c: one instruction from its name on, up to and with the `;`. */
arke_status ptx_parse_instruction(ptx_parser *p, uint32_t guard, bool guard_negated);

/* ptx_check.c: what no pattern can say: vector lengths, shapes, ranges of constants. */
arke_status ptx_check_instruction(ptx_parser *p, const ptx_instruction *i, const ptx_parsed_operand *operands,
                                  const ptx_token *name);

/* ptx_target.c: whether the module's target has the instruction, whose form asks for `least_sm`. */
arke_status ptx_check_target(ptx_parser *p, const ptx_instruction *i, int least_sm, const ptx_token *name);

/* The same of a special register, and of a directive of clusters. */
arke_status ptx_check_special(ptx_parser *p, ptx_special special, const ptx_token *name);
arke_status ptx_check_cluster_directive(ptx_parser *p, const ptx_token *name);

/* ptx_body.c: from `{` to `}` of a kernel: declarations, labels, instructions. */
arke_status ptx_parse_body(ptx_parser *p);
/* A variable of `space` after its space token, up to and with the `;`. */
arke_status ptx_parse_variable(ptx_parser *p, ptx_space space, bool is_extern, int kernel);
/* .align n, .b8 x[3][4] and the like: a type with optional alignment, name and dimensions. */
typedef struct ptx_declaration {
  ptx_token name;
  ptx_type type;
  uint32_t align;
  uint64_t bytes;
  bool is_array, unsized;
} ptx_declaration;
arke_status ptx_parse_declaration(ptx_parser *p, ptx_declaration *d);
arke_status ptx_parse_integer(ptx_parser *p, const char *what, uint64_t min, uint64_t max, uint64_t *value);

/* ptx_flow.c: fills `reconverge` of every branch of a finished kernel. */
arke_status ptx_find_reconvergence(ptx_parser *p, ptx_instruction *instructions, uint32_t n);

#endif
