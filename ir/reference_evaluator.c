/* The evaluator as callers see it: made for a problem and its data, asked for elements, ended. */
#include <stdlib.h>

#include "ir/reference.h"

static arke_status check_data(const ir_problem *p, const ir_data *tensors, arke_error *err) {
  for (int i = 0; i < p->op->n_inputs; i++)
    if (tensors[i].data == NULL && ir_tensor_elements(p, i) > 0)
      return error_set(err, ARKE_ERR_ARGUMENT, "reference", "input %s has no data", p->op->tensors[i].name);
  return ARKE_OK;
}

arke_status ir_evaluator_create(const ir_problem *p, const ir_data *tensors, ir_evaluator **ev,
                                arke_error *err) {
  *ev = NULL;
  TRY(check_data(p, tensors, err));
  arena a = ARENA_INIT;
  ir_evaluator *s = ARENA_NEW(&a, ir_evaluator);
  if (s == NULL) return error_memory(err, "reference");
  s->arena = a; /* which holds the evaluator too */
  s->p = p;
  s->tensors = tensors;
  for (int t = 0; t < p->op->n_tensors; t++) ir_tensor_shape(p, t, s->shapes[t]);
  if (!ref_compile(s)) {
    ir_evaluator_destroy(s);
    return error_memory(err, "reference");
  }
  *ev = s;
  return ARKE_OK;
}

void ir_evaluator_repeat(ir_evaluator *ev, int tensor, int64_t period) {
  ev->periods[tensor] = period;
}

int64_t ir_evaluator_work(const ir_evaluator *ev) {
  return ev->work;
}

void ir_evaluator_destroy(ir_evaluator *ev) {
  if (ev == NULL) return;
  for (int i = 0; ev->definitions != NULL && i < ev->p->op->n_definitions; i++)
    free(ev->definitions[i].sorted);
  arena a = ev->arena;
  arena_release(&a);
}

static arke_status evaluate(ir_evaluator *ev, int output, const int64_t *coords, ref_extra extra,
                            double *value, double *m, arke_error *err) {
  const ir_op *op = ev->p->op;
  if (output < op->n_inputs || output >= op->n_args)
    return error_set(err, ARKE_ERR_ARGUMENT, "reference",
                     "tensor %d is no output of %s; outputs are %d to %d", output, op->name, op->n_inputs,
                     op->n_args - 1);
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(ev->p, output, shape);
  for (int i = 0; i < rank; i++)
    if (coords[i] < 0 || coords[i] >= shape[i])
      return error_set(err, ARKE_ERR_ARGUMENT, "reference",
                       "%s has no element %lld in dimension %d of size %lld", op->tensors[output].name,
                       (long long)coords[i], i, (long long)shape[i]);
  arke_error own = ARKE_ERROR_INIT;
  ev->err = &own;
  ev->want_m = extra;
  ref_lane v;
  bool integer;
  bool ok = ref_element(ev, output, coords, &v, &integer, m);
  ev->err = NULL;
  if (!ok) {
    error_context(&own, op->name, NULL);
    if (err != NULL && err->code == ARKE_OK) *err = own;
    return own.code;
  }
  *value = integer ? (double)v.i : v.f;
  return ARKE_OK;
}

arke_status ir_evaluator_eval(ir_evaluator *ev, int output, const int64_t *coords, double *value,
                              double *magnitude, arke_error *err) {
  double none;
  return evaluate(ev, output, coords, magnitude != NULL ? REF_MAGNITUDES : REF_VALUES, value,
                  magnitude != NULL ? magnitude : &none, err);
}

arke_status ir_evaluator_casts(ir_evaluator *ev, int output, const int64_t *coords, double *moved,
                               arke_error *err) {
  double value;
  *moved = 0;
  if (!ev->casts_inside) return ARKE_OK;
  return evaluate(ev, output, coords, REF_CASTS, &value, moved, err);
}

arke_status ir_eval(const ir_problem *p, const ir_data *tensors, int output, const int64_t *coords,
                    double *value, double *magnitude, arke_error *err) {
  ir_evaluator *ev;
  TRY(ir_evaluator_create(p, tensors, &ev, err));
  arke_status status = ir_evaluator_eval(ev, output, coords, value, magnitude, err);
  ir_evaluator_destroy(ev);
  return status;
}
