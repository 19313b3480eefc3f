#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir.h"
#include "tests/ir/form_cases.h"
#include "tests/ir/ir_suites.h"
#include "tests/ir/operator_cases.h"

static char **names;
static int n_names;

static void check_text(const operator_case *c, const char *what, const char *got, const char *expected) {
  ck_assert_msg(strcmp(got, expected) == 0, "%s: %s\n  got:      %s\n  expected: %s", c->path, what, got,
                expected);
}

/* --- prints: and printing what that parses to gives the same text again. */
static void check_prints(const operator_case *c, const case_section *s, const ir_op *op) {
  ck_assert_msg(s->n_lines == 1, "%s: one line of canonical text", c->path);
  arena a = ARENA_INIT;
  strbuf out = STRBUF_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ir_op_print(op, &out);
  check_text(c, "canonical form", strbuf_text(&out), s->lines[0]);
  const ir_op *again;
  ck_assert_msg(ir_op_parse(&a, s->lines[0], &again, &err) == ARKE_OK, "%s: %s", c->path, err.text);
  strbuf_clear(&out);
  ir_op_print(again, &out);
  check_text(c, "printed again", strbuf_text(&out), s->lines[0]);
  strbuf_free(&out);
  arena_release(&a);
}

static bool is_place(const char *line) {
  size_t digits = strspn(line, "0123456789");
  return digits > 0 && line[digits] == ':' && strspn(line + digits + 1, "0123456789") > 0;
}

static void check_faults(const operator_case *c, const case_section *s, const arke_error *err) {
  char text[sizeof err->text];
  memcpy(text, err->text, sizeof text);
  int n = 0;
  for (char *rest, *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    if (!is_place(line)) continue;
    ck_assert_msg(n < s->n_lines, "%s: unexpected fault: %s", c->path, line);
    check_text(c, "fault", line, s->lines[n++]);
  }
  ck_assert_msg(n == s->n_lines, "%s: fault not found: %s\nthe text is:\n%s", c->path,
                n < s->n_lines ? s->lines[n] : "", err->text);
}

static void check_whole_text(const operator_case *c, const case_section *s, const arke_error *err) {
  strbuf expected = STRBUF_INIT;
  for (int i = 0; i < s->n_lines; i++) strbuf_addf(&expected, i == 0 ? "%s" : "\n%s", s->lines[i]);
  check_text(c, "error text", err->text, strbuf_text(&expected));
  strbuf_free(&expected);
}

static int find_tensor(const operator_case *c, const ir_op *op, const char *name, size_t length) {
  for (int i = op->n_tensors - 1; i >= 0; i--)
    if (strncmp(op->tensors[i].name, name, length) == 0 && op->tensors[i].name[length] == '\0') return i;
  ck_abort_msg("%s: no tensor %.*s", c->path, (int)length, name);
}

static void check_bind_line(const operator_case *c, const ir_problem *p, char *line) {
  char *word = strtok(line, " "), *first = strtok(NULL, " "), *second = strtok(NULL, "");
  ck_assert_msg(word != NULL && first != NULL, "%s: an incomplete line", c->path);
  strbuf out = STRBUF_INIT;
  if (strcmp(word, "flops") == 0) {
    strbuf_addf(&out, "%.17g", ir_flops(p));
    check_text(c, "flops", strbuf_text(&out), first);
  } else if (strcmp(word, "bytes") == 0) {
    strbuf_addf(&out, "%.17g", ir_min_bytes(p));
    check_text(c, "bytes", strbuf_text(&out), first);
  } else {
    ck_assert_msg(second != NULL, "%s: %s needs a tensor and a value", c->path, word);
    int t = find_tensor(c, p->op, first, strlen(first));
    if (strcmp(word, "reduction") == 0) {
      strbuf_addf(&out, "%lld", (long long)ir_reduction_length(p, t));
    } else if (strcmp(word, "shape") == 0) {
      int64_t shape[LIMIT_RANK];
      int rank = ir_tensor_shape(p, t, shape);
      if (rank == 0) strbuf_add(&out, "scalar");
      for (int i = 0; i < rank; i++) strbuf_addf(&out, i == 0 ? "%lld" : "x%lld", (long long)shape[i]);
    } else if (strcmp(word, "dtype") == 0) {
      strbuf_add(&out, dtype_name(ir_tensor_dtype(p, t)));
    } else {
      ck_abort_msg("%s: unknown line %s", c->path, word);
    }
    check_text(c, word, strbuf_text(&out), second);
  }
  strbuf_free(&out);
}

static void check_bind(const operator_case *c, const case_section *s, const ir_op *op) {
  ir_problem p;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = ir_problem_bind(op, s->argument, &p, &err);
  for (int i = 0; i < s->n_lines; i++) {
    if (strncmp(s->lines[i], "error ", 6) == 0) {
      ck_assert_msg(status != ARKE_OK, "%s: %s binds", c->path, s->argument);
      check_text(c, "binding error", err.text, s->lines[i] + 6);
      continue;
    }
    ck_assert_msg(status == ARKE_OK, "%s: %s: %s", c->path, s->argument, err.text);
    if (strncmp(s->lines[i], "prints ", 7) == 0) {
      strbuf out = STRBUF_INIT;
      ir_problem_print_bindings(&p, &out);
      check_text(c, "bindings", strbuf_text(&out), s->lines[i] + 7);
      strbuf_free(&out);
    } else {
      check_bind_line(c, &p, s->lines[i]);
    }
  }
}

/* --- eval: tensors are contiguous, row after row. */

typedef struct call {
  ir_problem p;
  ir_data data[LIMIT_TENSORS];
  void *memory[LIMIT_TENSORS];
} call;

static double read_value(const operator_case *c, const char *word) {
  double v;
  if (strcmp(word, "inf") == 0) return INFINITY;
  if (strcmp(word, "-inf") == 0) return -INFINITY;
  if (strcmp(word, "nan") == 0) return NAN;
  ck_assert_msg(text_to_f64(word, &v), "%s: %s is no number", c->path, word);
  return v;
}

static void fill(const operator_case *c, call *k, int t, char *values) {
  int64_t n = 0, elements = ir_tensor_elements(&k->p, t);
  for (char *word = strtok(values, " "); word != NULL; word = strtok(NULL, " ")) {
    ck_assert_msg(n < elements, "%s: more than %lld values", c->path, (long long)elements);
    dtype_store(ir_tensor_dtype(&k->p, t), k->memory[t], n++, read_value(c, word));
  }
  ck_assert_msg(n == elements, "%s: %lld values, not %lld", c->path, (long long)n, (long long)elements);
}

static bool close_to(double got, double expected) {
  if (isnan(expected)) return isnan(got);
  if (isinf(expected)) return got == expected;
  return fabs(got - expected) <= 1e-9 * fmax(1, fabs(expected));
}

static void compare(const operator_case *c, call *k, int t, char *values) {
  int64_t shape[LIMIT_RANK], coords[LIMIT_RANK] = {0};
  int rank = ir_tensor_shape(&k->p, t, shape);
  int64_t n = 0;
  arke_error err = ARKE_ERROR_INIT;
  for (char *word = strtok(values, " "); word != NULL; word = strtok(NULL, " "), n++) {
    double value, magnitude, alone;
    ck_assert_msg(ir_eval(&k->p, k->data, t, coords, &value, &magnitude, &err) == ARKE_OK, "%s: %s", c->path,
                  err.text);
    bool right = close_to(value, read_value(c, word)) ||
                 close_to(dtype_round(ir_tensor_dtype(&k->p, t), value), read_value(c, word)); /* as stored */
    ck_assert_msg(right, "%s: element %lld of %s is %.17g, expected %s", c->path, (long long)n,
                  k->p.op->tensors[t].name, value, word);
    ck_assert_msg(!(magnitude < fabs(value) * (1 - 1e-9)), "%s: element %lld of %s: magnitude %g of value %g",
                  c->path, (long long)n, k->p.op->tensors[t].name, magnitude, value);
    ck_assert_int_eq(ir_eval(&k->p, k->data, t, coords, &alone, NULL, &err), ARKE_OK);
    ck_assert_msg(alone == value || (isnan(alone) && isnan(value)), "%s: magnitude changes the value",
                  c->path);
    for (int i = rank - 1; i >= 0 && ++coords[i] == shape[i]; i--) coords[i] = 0;
  }
  ck_assert_msg(n == ir_tensor_elements(&k->p, t), "%s: %lld values expected of %s", c->path,
                (long long)ir_tensor_elements(&k->p, t), k->p.op->tensors[t].name);
}

static void check_eval(const operator_case *c, const case_section *s, const ir_op *op) {
  call k;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ir_problem_bind(op, s->argument, &k.p, &err) == ARKE_OK, "%s: %s", c->path, err.text);
  for (int t = 0; t < op->n_args; t++) {
    int64_t shape[LIMIT_RANK], stride = 1;
    for (int i = ir_tensor_shape(&k.p, t, shape) - 1; i >= 0; i--) {
      k.data[t].strides[i] = stride;
      stride *= shape[i];
    }
    k.memory[t] = calloc(1, (size_t)dtype_bytes(ir_tensor_dtype(&k.p, t), ir_tensor_elements(&k.p, t)) + 1);
    ck_assert_ptr_nonnull(k.memory[t]);
    k.data[t].data = k.memory[t];
  }
  int n_inputs = 0;
  for (int i = 0; i < s->n_lines; i++) {
    char *equals = strstr(s->lines[i], " =");
    if (equals == NULL) {
      ck_assert_msg(strncmp(s->lines[i], "error ", 6) == 0, "%s: %s", c->path, s->lines[i]);
      double value;
      int64_t coords[LIMIT_RANK] = {0};
      arke_status status = ARKE_OK;
      int64_t shape[LIMIT_RANK];
      int rank = ir_tensor_shape(&k.p, op->n_inputs, shape);
      for (int64_t e = ir_tensor_elements(&k.p, op->n_inputs); e > 0 && status == ARKE_OK; e--) {
        status = ir_eval(&k.p, k.data, op->n_inputs, coords, &value, NULL, &err);
        for (int d = rank - 1; d >= 0 && ++coords[d] == shape[d]; d--) coords[d] = 0;
      }
      ck_assert_msg(status != ARKE_OK, "%s: evaluates to %g", c->path, value);
      check_text(c, "evaluation error", err.text, s->lines[i] + 6);
      continue;
    }
    int t = find_tensor(c, op, s->lines[i], (size_t)(equals - s->lines[i]));
    if (op->tensors[t].alias >= 0 && n_inputs < op->n_inputs)
      t = op->tensors[t].alias; /* first as the input */
    if (t < op->n_inputs) {
      fill(c, &k, t, equals + 2);
      n_inputs++;
    } else {
      compare(c, &k, t, equals + 2);
    }
  }
  ck_assert_msg(n_inputs == op->n_inputs, "%s: %d inputs given of %d", c->path, n_inputs, op->n_inputs);
  for (int t = 0; t < op->n_args; t++) free(k.memory[t]);
}

START_TEST(case_file) {
  operator_case c;
  ck_assert(operator_case_read(names[_i], &c));
  ck_assert_msg(c.n_sections > 0, "%s: no section says what to expect", c.path);
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  arke_status status = ir_op_parse(&a, c.text, &op, &err);
  for (int i = 0; i < c.n_sections; i++) {
    const case_section *s = &c.sections[i];
    bool about_faults = strcmp(s->kind, "faults") == 0 || strcmp(s->kind, "text") == 0;
    ck_assert_msg((status == ARKE_OK) != about_faults, "%s: %s\n%s", c.path,
                  status == ARKE_OK ? "parses, with no fault" : "does not parse:", err.text);
    if (strcmp(s->kind, "prints") == 0)
      check_prints(&c, s, op);
    else if (strcmp(s->kind, "faults") == 0)
      check_faults(&c, s, &err);
    else if (strcmp(s->kind, "text") == 0)
      check_whole_text(&c, s, &err);
    else if (strcmp(s->kind, "bind") == 0)
      check_bind(&c, s, op);
    else if (strcmp(s->kind, "eval") == 0)
      check_eval(&c, s, op);
    else if (strcmp(s->kind, "form") == 0)
      check_form_section(&c, s, op);
    else
      ck_abort_msg("%s: unknown section %s", c.path, s->kind);
  }
  arena_release(&a);
  operator_case_free(&c);
}
END_TEST

START_TEST(cases_are_found) {
  ck_assert_int_gt(n_names, 40);
}
END_TEST

Suite *notation_cases_suite(void) {
  n_names = operator_cases_list(&names);
  Suite *s = suite_create("notation cases");
  TCase *t = tcase_create("files");
  tcase_add_test(t, cases_are_found);
  tcase_add_loop_test(t, case_file, 0, n_names);
  suite_add_tcase(s, t);
  return s;
}
