#include "tests/ir/reference_call.h"

#include <check.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/random.h"

void reference_call_open(reference_call *k, const char *text, const char *bindings, double scale) {
  *k = (reference_call){.a = ARENA_INIT};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ir_op_parse(&k->a, text, &k->op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(k->op, bindings, &k->p, &err) == ARKE_OK, "%s", err.text);
  for (int t = 0; t < k->op->n_args; t++) {
    int64_t stride = 1, n = ir_tensor_elements(&k->p, t);
    dtype type = ir_tensor_dtype(&k->p, t);
    k->rank[t] = ir_tensor_shape(&k->p, t, k->shape[t]);
    for (int i = k->rank[t] - 1; i >= 0; i--) {
      k->data[t].strides[i] = stride;
      stride *= k->shape[t][i];
    }
    k->data[t].data = k->memory[t] = calloc(1, (size_t)dtype_bytes(type, n) + 8);
    ck_assert_ptr_nonnull(k->memory[t]);
    for (int64_t i = 0; t < k->op->n_inputs && i < n; i++)
      dtype_store(type, k->memory[t], i, scale * random_normal((uint64_t)t + 1, (uint64_t)i));
  }
}

void reference_call_close(reference_call *k) {
  for (int t = 0; t < k->op->n_args; t++) free(k->memory[t]);
  arena_release(&k->a);
}

ir_evaluator *reference_call_evaluator(const reference_call *k) {
  arke_error err = ARKE_ERROR_INIT;
  ir_evaluator *ev;
  ck_assert_msg(ir_evaluator_create(&k->p, k->data, &ev, &err) == ARKE_OK, "%s", err.text);
  return ev;
}
