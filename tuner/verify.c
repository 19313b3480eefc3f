#include "tuner/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/compare.h"
#include "tuner/sample_places.h"

#define STAGE "verify"

static void print_place(const tune_tensors *t, int tensor, int64_t offset, strbuf *out) {
  const tune_tensor *x = &t->list[tensor];
  strbuf_addf(out, "%s[", t->problem->op->tensors[tensor].name);
  for (int i = 0; i < x->rank; i++)
    strbuf_addf(out, "%s%lld", i ? "," : "", (long long)(offset / x->strides[i] % x->shape[i]));
  strbuf_add(out, "]");
}

/* --- the reference -------------------------------------------------------------------------------------- */

static void describe_data(const tune_tensors *t, ir_data data[LIMIT_TENSORS]) {
  for (int i = 0; i < t->n; i++) {
    data[i] = (ir_data){.data = t->list[i].host};
    memcpy(data[i].strides, t->list[i].strides, sizeof data[i].strides);
  }
}

static arke_status evaluate(const tune_tensors *t, ir_evaluator *ev, int output, int n, double most_work,
                            uint64_t seed, tune_expected *e, arke_error *err) {
  const tune_tensor *x = &t->list[output];
  bool whole = x->elements <= n;
  if (whole) n = (int)x->elements + (1 << x->rank);
  double squares = 0, moved;
  int finite = 0, evaluated = 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t coords[LIMIT_RANK];
    if (!tune_sample_place(x, whole, seed, k, coords)) continue;
    if (evaluated >= TUNE_PLACES_LEAST && (double)ir_evaluator_work(ev) > most_work) break;
    tune_sample *s = &e->samples[e->n];
    s->output = output;
    s->offset = 0;
    for (int i = 0; i < x->rank; i++) s->offset += coords[i] * x->strides[i];
    TRY(ir_evaluator_eval(ev, output, coords, &s->value, &s->magnitude, err));
    TRY(ir_evaluator_casts(ev, output, coords, &moved, err));
    s->magnitude = tune_tolerance_with_casts(&e->tolerance[output], s->magnitude, moved);
    e->n++;
    evaluated++;
    if (isfinite(s->value)) squares += s->value * s->value, finite++;
    if (isfinite(s->magnitude)) e->magnitude[output] = fmax(e->magnitude[output], s->magnitude);
  }
  e->scale[output] = finite && squares > 0 ? sqrt(squares / finite) : 1;
  return ARKE_OK;
}

/* Of the evaluator, on one core. Long products: what is converted on its way takes longer. */
#define FLOPS_PER_S 1.5e8
#define WORK_PER_S  3e8 /* of ir_evaluator_work: attention, whose steps are the slowest */

double tune_reference_s(const ir_problem *p) {
  int64_t least = INT64_MAX;
  for (int i = p->op->n_inputs; i < p->op->n_args; i++) {
    int64_t elements = ir_tensor_elements(p, i);
    if (elements > 0 && elements < least) least = elements;
  }
  return least == INT64_MAX ? 0 : ir_flops(p) / (double)least / FLOPS_PER_S;
}

static arke_status evaluate_outputs(const tune_tensors *t, const tune_reference *r, int outputs,
                                    uint64_t seed, tune_expected *e, arke_error *err) {
  int each = r->samples / outputs, corners = 1 << LIMIT_RANK;
  if (each < corners) each = corners;
  e->samples = calloc((size_t)((each + corners) * outputs), sizeof *e->samples);
  if (!e->samples) return error_memory(err, STAGE);
  ir_data data[LIMIT_TENSORS];
  ir_evaluator *ev;
  describe_data(t, data);
  TRY(ir_evaluator_create(t->problem, data, &ev, err));
  for (int i = 0; i < t->n; i++)
    if (!t->list[i].output && t->list[i].host_elements < t->list[i].elements)
      ir_evaluator_repeat(ev, i, t->list[i].host_elements);
  arke_status status = ARKE_OK;
  for (int i = 0, done = 0; i < t->n && status == ARKE_OK; i++) {
    if (!t->list[i].output || t->list[i].elements == 0) continue;
    double most_work = r->limit_s * WORK_PER_S * ++done / outputs; /* what one leaves is the next one's */
    status = evaluate(t, ev, i, each, most_work, random_u64(seed, (uint64_t)i), e, err);
  }
  ir_evaluator_destroy(ev);
  return status;
}

arke_status tune_expected_compute(const tune_tensors *t, const tune_reference *r, uint64_t seed,
                                  tune_expected *e, arke_error *err) {
  *e = (tune_expected){0};
  int outputs = 0;
  for (int i = 0; i < t->n; i++) {
    if (!t->list[i].output || t->list[i].elements == 0) continue;
    e->tolerance[i] = tune_tolerance_for(t->problem, i, r->fast_math);
    e->scale[i] = 1;
    outputs++;
  }
  if (outputs == 0 || r->samples == 0) return ARKE_OK;
  arke_status status = evaluate_outputs(t, r, outputs, seed, e, err);
  if (status != ARKE_OK) tune_expected_release(e);
  return status;
}

void tune_expected_release(tune_expected *e) {
  free(e->samples);
  for (int i = 0; i < LIMIT_TENSORS; i++) free(e->baseline[i]);
  *e = (tune_expected){0};
}

/* --- checks --------------------------------------------------------------------------------------------- */

static bool is_poison(dtype t, tune_element e) {
  int bytes = dtype_bits(t) / 8;
  if (bytes == 0) return false; /* a half byte may hold any value */
  const unsigned char *at = (const unsigned char *)e.data + e.at * bytes;
  for (int i = 0; i < bytes; i++)
    if (at[i] != TUNE_POISON) return false;
  return true;
}

arke_status tune_expected_mismatch(const tune_tensors *t, int tensor, int64_t offset, tune_element got,
                                   double want, double allowed, const char *against, arke_error *err) {
  strbuf where = STRBUF_INIT;
  dtype type = t->list[tensor].type;
  print_place(t, tensor, offset, &where);
  if (is_poison(type, got) && dtype_class_of(type) == DTYPE_CLASS_FLOAT)
    error_set(err, ARKE_ERR_MISMATCH, STAGE, "%s was not written; %s is %.9g", strbuf_text(&where), against,
              want);
  else
    error_set(err, ARKE_ERR_MISMATCH, STAGE, "%s is %.9g, %s is %.9g, allowed error %.3g",
              strbuf_text(&where), dtype_load(type, got.data, got.at), against, want, allowed);
  strbuf_free(&where);
  return ARKE_ERR_MISMATCH;
}

arke_status tune_expected_check_samples(const tune_expected *e, const tune_tensors *t,
                                        const tune_element *elements, tune_check *check, arke_error *err) {
  double worst = -1;
  for (int k = 0; k < e->n; k++) {
    const tune_sample *s = &e->samples[k];
    const tune_tensor *x = &t->list[s->output];
    const tune_tolerance *tolerance = &e->tolerance[s->output];
    tune_element at = elements ? elements[k] : (tune_element){x->host, s->offset};
    double got = dtype_load(x->type, at.data, at.at), error;
    double allowed = tune_tolerance_allowed(tolerance, s->value, s->magnitude);
    if (!tune_tolerance_agrees(tolerance, got, s->value, s->magnitude, &error))
      return tune_expected_mismatch(t, s->output, s->offset, at, s->value, allowed, "the reference", err);
    if (!isfinite(error) || !isfinite(allowed) || error <= worst * allowed) continue;
    worst = allowed > 0 ? error / allowed : 0;
    *check = (tune_check){error / e->scale[s->output], allowed / e->scale[s->output]};
  }
  return ARKE_OK;
}

void tune_expected_between(const tune_expected *e, int tensor, double *relative, double *absolute) {
  tune_tolerance_between(&e->tolerance[tensor], e->magnitude[tensor], relative, absolute);
}

arke_status tune_expected_differs(const tune_expected *e, const tune_tensors *t, int tensor, int64_t offset,
                                  tune_element got, tune_element want, arke_error *err) {
  double relative, absolute, value = dtype_load(t->list[tensor].type, want.data, want.at);
  tune_expected_between(e, tensor, &relative, &absolute);
  return tune_expected_mismatch(t, tensor, offset, got, value, relative * fabs(value) + absolute,
                                "the first verified kernel's", err);
}

static arke_status check_baseline(const tune_expected *e, const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (!e->baseline[i]) continue;
    double relative, absolute;
    tune_expected_between(e, i, &relative, &absolute);
    int64_t at = tune_compare(x->type, x->host, e->baseline[i], x->elements, relative, absolute);
    if (at >= 0)
      return tune_expected_differs(e, t, i, at, (tune_element){x->host, at},
                                   (tune_element){e->baseline[i], at}, err);
  }
  return ARKE_OK;
}

double tune_largest(dtype t, const void *values, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(dtype_load(t, values, i));
    if (isfinite(v) && v > most) most = v;
  }
  return most;
}

#define TELLING 1000 /* samples among which one of a hundred is not missed */

bool tune_expected_knows_magnitude(const tune_expected *e, const tune_tensors *t, int tensor) {
  int64_t n = 0;
  for (int i = 0; i < e->n; i++) n += e->samples[i].output == tensor;
  return n >= TELLING || n >= t->list[tensor].elements;
}

void tune_expected_guess_magnitude(tune_expected *e, int tensor, double largest) {
  double guess = tune_tolerance_guess_magnitude(&e->tolerance[tensor], largest);
  e->magnitude[tensor] = fmax(e->magnitude[tensor], guess);
}

static void keep_baseline(tune_expected *e, const tune_tensors *t) {
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (!x->output || e->baseline[i] || x->bytes == 0) continue;
    e->baseline[i] = malloc(x->bytes); /* without memory for it the samples still stand */
    if (!e->baseline[i]) continue;
    memcpy(e->baseline[i], x->host, x->bytes);
    if (!tune_expected_knows_magnitude(e, t, i))
      tune_expected_guess_magnitude(e, i, tune_largest(x->type, x->host, x->elements));
  }
}

arke_status tune_expected_check(tune_expected *e, const tune_tensors *t, tune_check *check, arke_error *err) {
  *check = (tune_check){0};
  TRY(tune_expected_check_samples(e, t, NULL, check, err));
  TRY(check_baseline(e, t, err));
  keep_baseline(e, t);
  return ARKE_OK;
}
