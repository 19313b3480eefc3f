/* Any text: it parses or gives a fault; what parses prints, and that prints the same again; it binds small
 * sizes or says why not; one element evaluates or says why not. Crashes, leaks and sanitizers do the rest. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void fail(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n", what, text);
  abort();
}

static void bindings(const ir_op *op, strbuf *out) {
  bool lead = false;
  for (int i = 0; i < op->n_types; i++) strbuf_addf(out, "%s=%s ", op->type_vars[i], i == 0 ? "f32" : "i8");
  for (int i = 0; i < op->n_axes; i++) strbuf_addf(out, "%s=%d ", op->axes[i], 1 + i % 3);
  for (int i = 0; i < op->n_tensors; i++) lead = lead || op->tensors[i].any_rank;
  if (lead) strbuf_add(out, "...=2 ");
  for (int i = 0; i < op->n_attrs; i++)
    if (!op->attrs[i].has_default)
      strbuf_addf(out, "%s=%s ", op->attrs[i].name, op->attrs[i].kind == IR_ATTR_DTYPE ? "f16" : "1");
}

/* Whether evaluating stays small: sizes are, but factors, conditions and chains of temporaries need not be.
 */
static bool is_small(const ir_problem *p) {
  if (p->op->n_tensors > p->op->n_args + 6 || ir_flops(p) > 1e5) return false;
  for (int i = 0; i < p->op->n_tensors; i++)
    if (ir_tensor_elements(p, i) > 4096) return false;
  for (int i = 0; i < p->op->n_definitions; i++)
    for (int x = 0; x < p->op->definitions[i].n_indices; x++)
      if (p->op->definitions[i].indices[x].reduced && !p->op->definitions[i].indices[x].ranged) return false;
  return true;
}

static void evaluate(const ir_problem *p) {
  static const char MEMORY[4096 * 8 + 8];
  ir_data data[LIMIT_TENSORS] = {{NULL, {0}}};
  for (int t = 0; t < p->op->n_args; t++) {
    int64_t shape[LIMIT_RANK], stride = 1;
    for (int i = ir_tensor_shape(p, t, shape) - 1; i >= 0; i--) {
      data[t].strides[i] = stride;
      stride *= shape[i];
    }
    data[t].data = MEMORY;
  }
  int64_t coords[LIMIT_RANK] = {0};
  double value, magnitude;
  for (int t = p->op->n_inputs; t < p->op->n_args; t++) {
    arke_error err = ARKE_ERROR_INIT;
    arke_status status = ir_eval(p, data, t, coords, &value, &magnitude, &err);
    if (status != ARKE_OK && err.text[0] == '\0') fail("an error without a sentence", p->op->text);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, bytes, size);
  text[size] = '\0';
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  strbuf once = STRBUF_INIT, twice = STRBUF_INIT, bound = STRBUF_INIT;
  const ir_op *op, *again;
  ir_problem p;
  if (ir_op_parse(&a, text, &op, &err) != ARKE_OK) {
    if (err.text[0] == '\0') fail("a fault without a sentence", text);
    goto done;
  }
  ir_op_print(op, &once);
  if (ir_op_parse(&a, strbuf_text(&once), &again, &err) != ARKE_OK) {
    if (once.length <= LIMIT_OPERATOR_BYTES) fail(err.text, strbuf_text(&once));
    goto done;
  }
  ir_op_print(again, &twice);
  if (strcmp(strbuf_text(&once), strbuf_text(&twice)) != 0) fail("prints differently", strbuf_text(&once));
  bindings(op, &bound);
  if (ir_problem_bind(op, strbuf_text(&bound), &p, &err) != ARKE_OK) goto done;
  ir_flops(&p);
  ir_min_bytes(&p);
  if (is_small(&p)) evaluate(&p);

done:
  strbuf_free(&once);
  strbuf_free(&twice);
  strbuf_free(&bound);
  arena_release(&a);
  free(text);
  return 0;
}
