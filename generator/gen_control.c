#include "generator/gen_control.h"

#include <stdio.h>

#include "generator/gen_internal.h"

static int bounded(gen_builder *b, int n) {
  if (n <= GEN_MAX_CARRIED) return n;
  gen_misuse(b, "%d carried values, more than %d", n, GEN_MAX_CARRIED);
  return GEN_MAX_CARRIED;
}

void gen_loop_begin(gen_builder *b, gen_loop *loop, gen_value *carried, int n) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(b->ir);
  loop->head = gen_block(b, "loop");
  loop->exit = gen_block(b, "after");
  loop->carried = carried;
  loop->n = bounded(b, n);
  loop->tested = false;
  LLVMBuildBr(b->ir, loop->head);
  LLVMPositionBuilderAtEnd(b->ir, loop->head);
  for (int i = 0; i < loop->n; i++) {
    loop->phis[i] = LLVMBuildPhi(b->ir, LLVMTypeOf(carried[i]), "");
    LLVMAddIncoming(loop->phis[i], &carried[i], &from, 1);
    carried[i] = loop->phis[i];
  }
  b->open_blocks++;
}

void gen_loop_while(gen_builder *b, gen_loop *loop, gen_value condition) {
  if (loop->tested) gen_misuse(b, "a loop with two exits");
  loop->tested = true;
  LLVMBasicBlockRef body = gen_block(b, "body");
  LLVMBuildCondBr(b->ir, condition, body, loop->exit);
  LLVMPositionBuilderAtEnd(b->ir, body);
}

/* The values the next iteration starts from. */
static void close_phis(gen_builder *b, gen_loop *loop) {
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(b->ir);
  for (int i = 0; i < loop->n; i++) {
    if (LLVMTypeOf(loop->carried[i]) != LLVMTypeOf(loop->phis[i]))
      gen_misuse(b, "carried value %d changes type", i);
    LLVMAddIncoming(loop->phis[i], &loop->carried[i], &latch, 1);
  }
}

void gen_loop_end(gen_builder *b, gen_loop *loop) {
  if (!loop->tested) gen_misuse(b, "a loop without an exit");
  close_phis(b, loop);
  LLVMBuildBr(b->ir, loop->head);
  LLVMPositionBuilderAtEnd(b->ir, loop->exit);
  for (int i = 0; i < loop->n; i++) loop->carried[i] = loop->phis[i];
  b->open_blocks--;
}

void gen_loop_end_while(gen_builder *b, gen_loop *loop, gen_value condition) {
  if (loop->tested) gen_misuse(b, "a loop with two exits");
  close_phis(b, loop);
  LLVMBuildCondBr(b->ir, condition, loop->head, loop->exit);
  LLVMMoveBasicBlockAfter(loop->exit, LLVMGetInsertBlock(b->ir));
  LLVMPositionBuilderAtEnd(b->ir, loop->exit);
  b->open_blocks--;
}

void gen_if(gen_builder *b, gen_branch *branch, gen_value condition, gen_value *carried, int n) {
  LLVMBasicBlockRef then = gen_block(b, "then");
  branch->from = LLVMGetInsertBlock(b->ir);
  branch->other = gen_block(b, "else");
  branch->join = gen_block(b, "join");
  branch->carried = carried;
  branch->n = bounded(b, n);
  branch->has_else = false;
  for (int i = 0; i < branch->n; i++) branch->before[i] = carried[i];
  LLVMBuildCondBr(b->ir, condition, then, branch->other);
  LLVMPositionBuilderAtEnd(b->ir, then);
  b->open_blocks++;
}

static void end_side(gen_builder *b, gen_branch *branch) {
  LLVMBuildBr(b->ir, branch->join);
}

void gen_else(gen_builder *b, gen_branch *branch) {
  if (branch->has_else) gen_misuse(b, "a branch with two else sides");
  branch->has_else = true;
  branch->then_end = LLVMGetInsertBlock(b->ir);
  for (int i = 0; i < branch->n; i++) {
    branch->then_values[i] = branch->carried[i];
    branch->carried[i] = branch->before[i];
  }
  end_side(b, branch);
  LLVMPositionBuilderAtEnd(b->ir, branch->other);
}

void gen_if_end(gen_builder *b, gen_branch *branch) {
  if (!branch->has_else) gen_else(b, branch);
  LLVMBasicBlockRef else_end = LLVMGetInsertBlock(b->ir);
  end_side(b, branch);
  LLVMMoveBasicBlockAfter(branch->join, else_end);
  LLVMPositionBuilderAtEnd(b->ir, branch->join);
  for (int i = 0; i < branch->n; i++) {
    if (branch->then_values[i] == branch->carried[i]) continue;
    gen_value phi = LLVMBuildPhi(b->ir, LLVMTypeOf(branch->carried[i]), "");
    LLVMAddIncoming(phi, &branch->then_values[i], &branch->then_end, 1);
    LLVMAddIncoming(phi, &branch->carried[i], &else_end, 1);
    branch->carried[i] = phi;
  }
  b->open_blocks--;
}

void gen_keep_apart(gen_builder *b, int number) {
  char text[32];
  snprintf(text, sizeof text, "// %d", number);
  gen_asm(b, b->none, text, "", NULL, 0, GEN_ASM_EFFECT);
}
