/* gemm_dump OPERATOR BINDINGS CONFIG [ir|recipe|assemble]: prints what the gemm template makes of one
 * configuration, for reading: PTX by default, or the optimised LLVM IR, the launch recipe, or what the
 * assembler says. gemm_dump matmul 'T=bf16 M=4096 N=4096 K=4096' 'BLOCK_M=128,BLOCK_N=256' | less */
#include <stdio.h>
#include <string.h>

#include "generator/assemble.h"
#include "templates/template.h"

static arke_status print_result(const lowered *l, const char *what, const target *t, arke_error *err) {
  strbuf text = STRBUF_INIT;
  arke_status status = ARKE_OK;
  if (strcmp(what, "ptx") == 0) {
    strbuf_add(&text, l->ptx);
  } else if (strcmp(what, "ir") == 0) {
    strbuf_add(&text, l->llvm_ir);
  } else if (strcmp(what, "recipe") == 0) {
    status = recipe_print(&l->recipe, &text, err);
  } else if (strcmp(what, "assemble") == 0) {
    assembled a;
    status = assemble_ptx(assembler_find(), l->ptx, t->name, &a, err);
    if (status == ARKE_OK) {
      strbuf_addf(&text, "registers %d, spill bytes %d, cubin bytes %zu\n%s", a.registers, a.spill_bytes,
                  a.cubin_bytes, a.log);
      assembled_free(&a);
    }
  } else {
    status = error_set(err, ARKE_ERR_ARGUMENT, "dump", "'%s' is none of ptx, ir, recipe, assemble", what);
  }
  if (status == ARKE_OK && strbuf_failed(&text)) status = error_memory(err, "dump");
  if (status == ARKE_OK) puts(strbuf_text(&text));
  strbuf_free(&text);
  return status;
}

static arke_status dump(const char *name, const char *bindings, const char *config_text, const char *what,
                        arena *a, arke_error *err) {
  const ir_catalogue_entry *entry = ir_catalogue_find(name, NULL);
  if (!entry && !strchr(name, '(')) return error_set(err, ARKE_ERR_NOT_FOUND, "dump", "no operator %s", name);
  const target *t = target_find("sm_90a", NULL);
  const kernel_template *gemm = template_find("gemm");
  const ir_op *op;
  ir_problem p;
  config defaults, c;
  TRY(ir_op_parse(a, entry ? entry->text : name, &op, err));
  TRY(ir_problem_bind(op, bindings, &p, err));
  gemm->defaults(&p, t, &defaults);
  TRY(config_parse(gemm->space(t), config_text, &defaults, &c, err));
  template_reason reason = template_feasible(gemm, &p, t, &c);
  if (reason != TEMPLATE_OK) {
    fprintf(stderr, "gemm_dump: %s\n", template_reason_text(reason));
  } else {
    fprintf(stderr, "gemm_dump: modelled %.0f ns\n", template_cost_ns(gemm, &p, t, &t->rates, &c));
  }
  lower_options options = {.keep_llvm_ir = strcmp(what, "ir") == 0};
  lowered l;
  TRY(gemm->lower(&p, t, &c, &options, a, &l, err));
  return print_result(&l, what, t, err);
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: gemm_dump OPERATOR BINDINGS CONFIG [ptx|ir|recipe|assemble]\n");
    return 2;
  }
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = dump(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : "ptx", &a, &err);
  if (status != ARKE_OK) fprintf(stderr, "gemm_dump: %s\n", err.text);
  arena_release(&a);
  return status == ARKE_OK ? 0 : 1;
}
