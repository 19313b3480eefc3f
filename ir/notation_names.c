#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/notation.h"

static const struct {
  const char *name;
  int arity;
} FUNCTIONS[IR_FN_COUNT] = {
#define X(NAME, name, arity, reference, meaning) {#name, arity},
    IR_FUNCTIONS(X)
#undef X
};

static const char *const REDUCTIONS[IR_RED_COUNT] = {
#define X(NAME, name, meaning) #name,
    IR_REDUCTIONS(X)
#undef X
};

static const struct {
  const char *text;
  int arity, precedence;
} OPERATORS[IR_OP_COUNT] = {
#define X(NAME, text, arity, precedence) {text, arity, precedence},
    IR_OPERATORS(X)
#undef X
};

static const struct {
  const char *name;
  bool is_integer;
  int64_t integer;
  double number;
} CONSTANTS[] = {
    {"inf", false, 0, INFINITY}, {"nan", false, 0, NAN}, {"true", true, 1, 0}, {"false", true, 0, 0}};

static const char *const KEYWORDS[] = {"cast", "else", "topk"};

bool notation_function(const char *name, ir_function *f) {
  for (int i = 0; i < IR_FN_COUNT; i++)
    if (strcmp(FUNCTIONS[i].name, name) == 0) {
      *f = (ir_function)i;
      return true;
    }
  return false;
}

int notation_function_arity(ir_function f) {
  return FUNCTIONS[f].arity;
}

const char *notation_function_name(ir_function f) {
  return FUNCTIONS[f].name;
}

bool notation_reduction(const char *name, ir_reduction *r) {
  for (int i = 0; i < IR_RED_COUNT; i++)
    if (strcmp(REDUCTIONS[i], name) == 0) {
      *r = (ir_reduction)i;
      return true;
    }
  return false;
}

const char *notation_reduction_name(ir_reduction r) {
  return REDUCTIONS[r];
}

int notation_reduction_reach(ir_reduction r) {
  return OPERATORS[r == IR_RED_ANY || r == IR_RED_ALL ? IR_OP_EQ : IR_OP_MUL].precedence;
}

const char *notation_operator_text(ir_operator o) {
  return OPERATORS[o].text;
}

int notation_operator_precedence(ir_operator o) {
  return OPERATORS[o].precedence;
}

int notation_operator_arity(ir_operator o) {
  return OPERATORS[o].arity;
}

bool notation_constant(const char *name, bool *is_integer, int64_t *integer, double *number) {
  for (size_t i = 0; i < COUNT_OF(CONSTANTS); i++)
    if (strcmp(CONSTANTS[i].name, name) == 0) {
      *is_integer = CONSTANTS[i].is_integer;
      *integer = CONSTANTS[i].integer;
      *number = CONSTANTS[i].number;
      return true;
    }
  return false;
}

bool notation_reserved(const char *name) {
  ir_function f;
  ir_reduction r;
  dtype t;
  for (size_t i = 0; i < COUNT_OF(CONSTANTS); i++)
    if (strcmp(CONSTANTS[i].name, name) == 0) return true;
  for (size_t i = 0; i < COUNT_OF(KEYWORDS); i++)
    if (strcmp(KEYWORDS[i], name) == 0) return true;
  return notation_function(name, &f) || notation_reduction(name, &r) || dtype_from_name(name, &t);
}

const char *notation_nearest_function(const char *name) {
  const char *candidates[(int)IR_FN_COUNT + (int)IR_RED_COUNT + (int)COUNT_OF(KEYWORDS)];
  size_t n = 0;
  for (int i = 0; i < IR_FN_COUNT; i++) candidates[n++] = FUNCTIONS[i].name;
  for (int i = 0; i < IR_RED_COUNT; i++) candidates[n++] = REDUCTIONS[i];
  for (size_t i = 0; i < COUNT_OF(KEYWORDS); i++) candidates[n++] = KEYWORDS[i];
  return text_nearest(name, candidates, n);
}

void notation_print_number(double value, strbuf *out) {
  if (isnan(value)) {
    strbuf_add(out, "nan");
    return;
  }
  if (isinf(value)) {
    strbuf_add(out, value < 0 ? "-inf" : "inf");
    return;
  }
  char digits[64] = "";
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    int exponent = (int)strtol(strrchr(digits, 'e') + 1, NULL, 10);
    int decimals = precision - 1 - exponent;
    if (exponent >= -4 && exponent < 15)
      snprintf(digits, sizeof digits, "%.*f", decimals > 0 ? decimals : 0, value);
    for (char *c = digits; *c != '\0'; c++) /* a locale's decimal comma */
      if (strchr("+-0123456789e.", *c) == NULL) *c = '.';
    double back;
    if (text_to_f64(digits, &back) && back == value) break;
  }
  strbuf_add(out, digits);
  if (strpbrk(digits, ".e") == NULL) strbuf_add(out, ".0");
}
