/* Terms with factors beside the two elements, sum(k) (A[m,k] * s[m,k/128]) * (B[n,k] * t[n/128,k/128]): where
 * these are the same for blocks of consecutive terms, they multiply the sums of blocks. */
#include "templates/gemm.h"

static int64_t common(int64_t x, int64_t y) {
  while (y != 0) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

static bool by_blocks(const ir_form *form, const ir_expr *e, int loop, int64_t *block);

static bool arguments_by_blocks(const ir_form *form, const ir_expr *e, int loop, int64_t *block) {
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    for (int s = 0; s < x->n; s++)
      if (!by_blocks(form, x->subscripts[s].e, loop, block)) return false;
    return !x->other || by_blocks(form, x->other, loop, block);
  }
  for (int i = 0; i < e->n_args; i++)
    if (!by_blocks(form, e->args[i], loop, block)) return false;
  return e->node != IR_REDUCE;
}

/* Whether the expression depends on the loop through quotients by constants alone. *block becomes the largest
 * block in which it does not change, where there is any. */
static bool by_blocks(const ir_form *form, const ir_expr *e, int loop, int64_t *block) {
  if (!(ir_form_free(form, e) >> loop & 1)) return true;
  if (e->node == IR_INDEX) return false;
  bool quotient = e->node == IR_OPERATOR && e->id == IR_OP_DIV && e->args[0]->node == IR_INDEX &&
                  e->args[1]->node == IR_INT && e->args[1]->integer > 0;
  if (!quotient) return arguments_by_blocks(form, e, loop, block);
  *block = common(*block, e->args[1]->integer);
  return true;
}

int gemm_element_factor(const contraction *c, int operand) {
  const contraction_operand *o = &c->operands[operand];
  int found = -1;
  for (int i = 0; i < o->n_factors; i++) {
    int64_t block = 0;
    if (by_blocks(&c->form, o->factors[i], c->k.loops[0], &block)) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Blocks of the loop in which the scales of an operand do not change. */
static bool take_blocks(const gemm_match *match, int operand, int loop, int64_t *block) {
  const contraction_operand *o = &match->c->operands[operand];
  int element = gemm_element_factor(match->c, operand);
  for (int i = 0; i < o->n_factors; i++)
    if (i != element && !by_blocks(&match->c->form, o->factors[i], loop, block)) return false;
  return true;
}

template_reason gemm_find_blocks(gemm_match *match, strbuf *detail) {
  bool known = take_blocks(match, match->operand_a, match->k, &match->block);
  for (int i = 0; i < match->n_sums; i++)
    known = known && take_blocks(match, match->operand_b[i], match->k, &match->block) &&
            take_blocks(match, match->operand_b[i], match->n, &match->block_n);
  if (known) return TEMPLATE_OK;
  if (detail)
    strbuf_add(detail,
               "scales within a sum are those of blocks of terms, and of rows on one side and blocks of "
               "columns on the other");
  return TEMPLATE_OPERATOR;
}
