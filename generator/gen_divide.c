/* Several quotients by one divisor. A quotient of its own costs an approximation and a dozen instructions
 * around it; here the divisor's reciprocal is rounded once, and a quotient is a product and two corrections.
 *
 * Let r be 1 / y rounded, and q = x r rounded: off by at most 1.5 units in the last place. A correction adds
 * r (x - y q), where the remainder is exact once q is within a unit: the first brings q within a little more
 * than half a unit, the second rounds correctly. For what is left before the second's rounding is
 * (x / y - q)(1 - y r), less than half a unit times y 2^-25 where y's significand is in [1, 2), while x / y
 * lies no closer to the middle of two numbers than half a unit times 2^-23 / y. That needs y^2 to be less
 * than 4 by more than the quotient's excess, which the largest significand is not. Nothing may leave the
 * normal numbers on the way. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_math.h"

/* Divisors and dividends for which that holds: a remainder's last place is at least 2^-147. */
enum { DIVISOR_EXPONENT = 20, DIVIDEND_EXPONENT = 100, EXPONENT_BIAS = 127, SIGNIFICAND_BITS = 23 };

static int64_t bits_of_power(int exponent) {
  return (int64_t)(EXPONENT_BIAS + exponent) << SIGNIFICAND_BITS;
}

/* Positive: a zero's sign comes out of the corrections as it was. */
static gen_value is_safe_divisor(gen_builder *b, gen_value y) {
  gen_value bits = gen_bitcast(b, y, GEN_I32, 1), significand = gen_i32(b, (1 << SIGNIFICAND_BITS) - 1);
  int64_t least = bits_of_power(-DIVISOR_EXPONENT), most = bits_of_power(DIVISOR_EXPONENT);
  gen_value inside = gen_compare_imm(b, GEN_ULT, gen_add_imm(b, bits, -least), most - least);
  return gen_and(b, inside, gen_compare(b, GEN_NE, gen_and(b, bits, significand), significand));
}

/* Zeros, and what is neither too small nor too large nor a NaN. Twice a number's bits have no sign; less 1,
 * those of zero are the largest. Not by float maxima: a reduction of the dividends has some of those already,
 * and would keep them in registers for this. */
static gen_value are_safe_dividends(gen_builder *b, const gen_value *x, int n) {
  gen_value largest = NULL, least = NULL;
  for (int i = 0; i < n; i++) {
    gen_value bits = gen_bitcast(b, x[i], GEN_I32, 1), twice = gen_add(b, bits, bits);
    gen_value less = gen_add_imm(b, twice, -1);
    largest = largest ? gen_umax(b, largest, twice) : twice;
    least = least ? gen_umin(b, least, less) : less;
  }
  gen_value most = gen_i32(b, (int32_t)(2 * bits_of_power(DIVIDEND_EXPONENT)));
  gen_value first = gen_i32(b, (int32_t)(2 * bits_of_power(-DIVIDEND_EXPONENT) - 1));
  return gen_and(b, gen_compare(b, GEN_ULE, largest, most), gen_compare(b, GEN_UGE, least, first));
}

static gen_value corrected(gen_builder *b, gen_value x, gen_value y, gen_value negative_recip, gen_value q) {
  return gen_fma(b, gen_fma(b, q, y, gen_fneg(b, x)), negative_recip, q);
}

void gen_divide_all(gen_builder *b, const gen_value *x, int n, gen_value y, gen_value *quotients) {
  gen_value recip = gen_fdiv(b, gen_f32(b, 1), y), negative = gen_fneg(b, recip);
  gen_value safe = gen_and(b, is_safe_divisor(b, y), are_safe_dividends(b, x, n));
  gen_branch branch;
  for (int i = 0; i < n; i++) quotients[i] = x[i];
  gen_if(b, &branch, safe, quotients, n);
  for (int i = 0; i < n; i++) {
    gen_value q = corrected(b, x[i], y, negative, gen_fmul(b, x[i], recip));
    quotients[i] = corrected(b, x[i], y, negative, q);
  }
  gen_else(b, &branch);
  for (int i = 0; i < n; i++) quotients[i] = gen_fdiv(b, x[i], y);
  gen_if_end(b, &branch);
}
