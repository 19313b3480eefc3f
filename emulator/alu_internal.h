/* Inside the scalar unit: one instruction under way, and what its parts compute. */
#ifndef ARKE_EMULATOR_ALU_INTERNAL_H
#define ARKE_EMULATOR_ALU_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emulator/alu_execute.h"

typedef struct alu_call {
  const ptx_instruction *i;
  alu_warp *warp;
  uint32_t active;
  alu_fault *fault;
  const uint64_t *in[4];                          /* sources, all lanes; inactive lanes hold anything */
  uint64_t scratch[4][PTX_LANES], out[PTX_LANES]; /* out: zero-extended results of all lanes */
} alu_call;

/* Each computes c->out from c->in for the instruction's type; false if it has no such operation. */
bool alu_integer(alu_call *c);
bool alu_integer_packed(alu_call *c); /* u16x2, s16x2 */
bool alu_f32(alu_call *c);
bool alu_f32x2(alu_call *c);
bool alu_f64(alu_call *c);
/* .approx and .full of f32: v[l] becomes the result for v[l] (and y[l]) in the active lanes. */
bool alu_approximate(ptx_opcode op, bool full, uint32_t active, float v[PTX_LANES], const float y[PTX_LANES]);
bool alu_half(alu_call *c); /* f16, bf16, f16x2, bf16x2 */
bool alu_cvt(alu_call *c);
bool alu_cvt_pack(alu_call *c);

/* Whole instructions, operands included. */
bool alu_mov(alu_call *c);
bool alu_compare(alu_call *c); /* setp, set */
bool alu_shfl(alu_call *c);
bool alu_vote(alu_call *c);
bool alu_match(alu_call *c);
bool alu_redux(alu_call *c);
bool alu_elect(alu_call *c);

/* Which 16-bit parts of an instruction's source hold a value, by lane. */
typedef struct alu_parts {
  uint32_t has[PTX_PARTS];
} alu_parts;
/* Whether the instruction hands on parts of its source as they are, in *parts then: it may run where some of
 * them hold no value. alu_keep_parts, after it has run, says which of its results do. */
bool alu_hands_on_parts(const ptx_instruction *i, const ptx_registers *r, alu_parts *parts);
void alu_keep_parts(const ptx_instruction *i, ptx_registers *r, const alu_parts *parts, uint32_t active);

/* Fills *fault and returns false. */
bool alu_fail(alu_fault *fault, emu_fault kind, int lane, uint32_t use, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Lanes where `a compare b` holds, for values of a type. */
uint32_t alu_compare_lanes(ptx_compare compare, ptx_type type, bool ftz, const uint64_t *a,
                           const uint64_t *b);

static inline uint64_t alu_mask(int bits) {
  return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

static inline int64_t alu_sign_extend(uint64_t v, int bits) {
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static inline float alu_as_f32(uint64_t v) {
  uint32_t word = (uint32_t)v;
  float f;
  memcpy(&f, &word, sizeof f);
  return f;
}

static inline uint64_t alu_of_f32(float f) {
  uint32_t word;
  memcpy(&word, &f, sizeof word);
  return word;
}

static inline double alu_as_f64(uint64_t v) {
  double d;
  memcpy(&d, &v, sizeof d);
  return d;
}

static inline uint64_t alu_of_f64(double d) {
  uint64_t v;
  memcpy(&v, &d, sizeof v);
  return v;
}

#endif
