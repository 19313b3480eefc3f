#include "tuner/cli_workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "tuner/cli_output.h"
#include "tuner/cli_workload_read.h"

enum { MOST_BYTES = 16 << 20, MOST_PROBLEMS = 100000 };

/* X(name): the fields of a problem. `note` is for others that read the file. */
#define PROBLEM_FIELDS(X)                                                                                    \
  X(op)                                                                                                      \
  X(define)                                                                                                  \
  X(dtypes)                                                                                                  \
  X(sizes)                                                                                                   \
  X(attrs)                                                                                                   \
  X(bucket)                                                                                                  \
  X(weight)                                                                                                  \
  X(note)

static const char *const problem_fields[] = {
#define X(name) #name,
    PROBLEM_FIELDS(X)
#undef X
};

static const char *const file_fields[] = {"description", "problems"};

/* --- one problem --------------------------------------------------------------------------------------- */

static json_t *required(workload_reader *r, json_t *object, const char *name, arke_error *err) {
  json_t *value = json_object_get(object, name);
  if (value == NULL) workload_fault(r, err, "the field %s is missing", name);
  return value;
}

/* A problem as written: every list of values, before the cross product. */
typedef struct problem_text {
  const cli_operator *spec;
  workload_types types[COUNT_OF(((ir_problem *)0)->types)];
  workload_sizes sizes[LIMIT_AXES + 1]; /* by spec->axes */
  int n_attrs;
  workload_attr attrs[LIMIT_ATTRS];
  const char *bucket;
  double weight;
} problem_text;

static arke_status add_problem(workload_reader *r, const problem_text *t, const cli_problem *p,
                               arke_error *err) {
  strbuf name = STRBUF_INIT;
  strbuf_addf(&name, "%s ", t->spec->text);
  ir_problem_print_bindings(&p->problem, &name);
  bool repeated = json_object_get(r->seen, strbuf_text(&name)) != NULL;
  int failed = strbuf_failed(&name) || json_object_set_new(r->seen, strbuf_text(&name), json_true()) != 0;
  strbuf_free(&name);
  if (failed) return error_memory(err, "workload");
  if (repeated) {
    r->out->repeated++;
    return ARKE_OK;
  }
  if (r->out->n_problems == r->capacity) {
    int capacity = r->capacity == 0 ? 16 : 2 * r->capacity;
    cli_problem *grown = arena_array(r->memory, (size_t)capacity, sizeof *grown);
    if (grown == NULL) return error_memory(err, "workload");
    if (r->out->n_problems > 0) memcpy(grown, r->out->problems, (size_t)r->out->n_problems * sizeof *grown);
    r->out->problems = grown;
    r->capacity = capacity;
  }
  cli_problem *added = &r->out->problems[r->out->n_problems++];
  *added = *p;
  added->bucket = t->bucket;
  added->weight = t->weight;
  return ARKE_OK;
}

static int count_lists(const problem_text *t) {
  return t->spec->op->n_types + t->spec->n_axes + t->n_attrs;
}

/* Values of the i-th list: types, then sizes, then attributes. */
static size_t list_values(const problem_text *t, int i) {
  int n_types = t->spec->op->n_types, n_axes = t->spec->n_axes;
  if (i < n_types) return t->types[i].n;
  return i < n_types + n_axes ? t->sizes[i - n_types].n : t->attrs[i - n_types - n_axes].n;
}

/* Counted before expanding: even combinations that repeat each other take their time. */
static arke_status count_combinations(workload_reader *r, const problem_text *t, arke_error *err) {
  size_t n = 1;
  bool many = false;
  for (int i = 0; i < count_lists(t); i++) many |= __builtin_mul_overflow(n, list_values(t, i), &n);
  many |= __builtin_add_overflow(r->combinations, n, &r->combinations);
  if (!many && r->combinations <= MOST_PROBLEMS) return ARKE_OK;
  return workload_fault(
      r, err,
      "its lists expand to more than the %d problems that one file may have, repeated ones included; "
      "split it",
      MOST_PROBLEMS);
}

/* The values that the places `at` in the lists pick. */
static arke_status pick(workload_reader *r, const problem_text *t, const size_t *at, cli_values *v,
                        arke_error *err) {
  int n_types = t->spec->op->n_types, n_axes = t->spec->n_axes;
  *v = (cli_values){.attrs = ""};
  for (int i = 0; i < n_types; i++) v->types[i] = t->types[i].values[at[i]];
  for (int i = 0; i < n_axes; i++) {
    const workload_size *value = &t->sizes[i].values[at[n_types + i]];
    v->sizes[i] = value->size;
    if (value->leading != NULL) TRY(cli_values_leading(r->memory, value->leading, v, err));
  }
  for (int i = 0; i < t->n_attrs; i++) {
    v->attrs = arena_printf(r->memory, "%s%s%s=%s", v->attrs, i == 0 ? "" : ",", t->attrs[i].name,
                            t->attrs[i].values[at[n_types + n_axes + i]]);
    if (v->attrs == NULL) return error_memory(err, "workload");
  }
  return ARKE_OK;
}

/* What is wrong with one combination: with its attributes, if it would be right without them. */
static arke_status refuse_combination(workload_reader *r, const problem_text *t, cli_values v,
                                      const arke_error *inner, arke_error *err) {
  cli_problem p;
  bool attrs = v.attrs[0] != '\0';
  v.attrs = "";
  workload_enter_key(r, attrs && cli_problem_bind(r->memory, t->spec, &v, &p, NULL) == ARKE_OK ? "attrs"
                                                                                               : "sizes");
  return workload_fault(r, err, "%s", inner->text);
}

/* Every combination, the last list fastest: attributes, then axes, the first type variable slowest. */
static arke_status expand(workload_reader *r, const problem_text *t, arke_error *err) {
  size_t at[COUNT_OF(t->types) + LIMIT_AXES + 1 + LIMIT_ATTRS] = {0};
  for (;;) {
    cli_values v;
    cli_problem p;
    arke_error inner = ARKE_ERROR_INIT;
    TRY(pick(r, t, at, &v, err));
    arke_status status = cli_problem_bind(r->memory, t->spec, &v, &p, &inner);
    if (status == ARKE_ERR_ARGUMENT) return refuse_combination(r, t, v, &inner, err);
    if (status != ARKE_OK) return error_set(err, status, inner.stage, "%s", inner.text);
    if (t->bucket[0] != '\0' && cli_bucket_check(r->memory, &p.problem, t->bucket, &inner) != ARKE_OK) {
      workload_enter_key(r, "bucket");
      return workload_fault(r, err, "%s", inner.text);
    }
    TRY(add_problem(r, t, &p, err));
    int i = count_lists(t) - 1;
    for (; i >= 0; i--) {
      if (++at[i] < list_values(t, i)) break;
      at[i] = 0;
    }
    if (i < 0) return ARKE_OK;
  }
}

static arke_status read_axis(workload_reader *r, json_t *sizes, const char *axis, workload_sizes *list,
                             arke_error *err) {
  json_t *value = required(r, sizes, axis, err);
  if (value == NULL) return ARKE_ERR_ARGUMENT;
  workload_enter_key(r, axis);
  return workload_read_sizes(r, value, strcmp(axis, CLI_LEADING) == 0, list, err);
}

static arke_status read_problem_sizes(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  const cli_operator *o = t->spec;
  json_t *sizes = json_object_get(object, "sizes");
  if (sizes == NULL && o->n_axes == 0) return ARKE_OK;
  sizes = required(r, object, "sizes", err);
  if (sizes == NULL) return ARKE_ERR_ARGUMENT;
  workload_enter_key(r, "sizes");
  if (!json_is_object(sizes))
    return workload_fault(r, err, "found %s; accepted: an object with the axes as its fields",
                          workload_kind(sizes));
  TRY(workload_check_fields(r, sizes, o->axes, (size_t)o->n_axes, err));
  arke_status all = ARKE_OK;
  size_t depth = r->depth;
  for (int i = 0; i < o->n_axes; i++)
    if (!workload_go_on(r, depth, &all, read_axis(r, sizes, o->axes[i], &t->sizes[i], err))) return all;
  workload_leave(r);
  return all;
}

/* One list where there is one type variable, or an object with a list for each. */
static arke_status read_problem_types(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  const ir_op *op = t->spec->op;
  json_t *types = json_object_get(object, "dtypes");
  if (types == NULL && op->n_types == 0) return ARKE_OK;
  types = required(r, object, "dtypes", err);
  if (types == NULL) return ARKE_ERR_ARGUMENT;
  workload_enter_key(r, "dtypes");
  if (!json_is_object(types) && op->n_types != 1) {
    strbuf names = STRBUF_INIT;
    cli_operator_print_types(t->spec, &names);
    arke_status status =
        op->n_types == 0
            ? workload_fault(r, err, "%s has no type variables; leave the field out", t->spec->name)
            : workload_fault(r, err, "%s has several type variables; accepted: an object with the fields %s",
                             t->spec->name, strbuf_text(&names));
    strbuf_free(&names);
    return status;
  }
  if (json_is_object(types)) TRY(workload_check_fields(r, types, op->type_vars, (size_t)op->n_types, err));
  for (int i = 0; i < op->n_types; i++) {
    json_t *value = json_is_object(types) ? required(r, types, op->type_vars[i], err) : types;
    if (value == NULL) return ARKE_ERR_ARGUMENT;
    if (json_is_object(types)) workload_enter_key(r, op->type_vars[i]);
    TRY(workload_read_types(r, value, t->spec, i, &t->types[i], err));
    if (json_is_object(types)) workload_leave(r);
  }
  workload_leave(r);
  return ARKE_OK;
}

static arke_status read_problem_attrs(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  const ir_op *op = t->spec->op;
  json_t *attrs = json_object_get(object, "attrs");
  const char *names[LIMIT_ATTRS];
  if (attrs == NULL) return ARKE_OK;
  workload_enter_key(r, "attrs");
  if (!json_is_object(attrs))
    return workload_fault(r, err, "found %s; accepted: an object with the attributes as its fields",
                          workload_kind(attrs));
  for (int i = 0; i < op->n_attrs; i++) names[i] = op->attrs[i].name;
  TRY(workload_check_fields(r, attrs, names, (size_t)op->n_attrs, err));
  for (int i = 0; i < op->n_attrs; i++) {
    json_t *value = json_object_get(attrs, names[i]);
    if (value == NULL) continue;
    workload_attr *list = &t->attrs[t->n_attrs++];
    list->name = names[i];
    workload_enter_key(r, names[i]);
    TRY(workload_read_attr(r, value, list, err));
    workload_leave(r);
  }
  workload_leave(r);
  return ARKE_OK;
}

static arke_status read_operator(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  json_t *define = json_object_get(object, "define");
  if (define != NULL && json_object_get(object, "op") != NULL)
    return workload_fault(r, err, "op and define both name the operator; give one");
  const char *field = define != NULL ? "define" : "op";
  json_t *value = required(r, object, field, err);
  cli_operator *o = ARENA_NEW(r->memory, cli_operator);
  if (value == NULL) return ARKE_ERR_ARGUMENT;
  if (o == NULL) return error_memory(err, "workload");
  workload_enter_key(r, field);
  if (!json_is_string(value))
    return workload_fault(r, err, "found %s; accepted: %s", workload_kind(value),
                          define != NULL ? "an operator in the notation, as text"
                                         : "the name of an operator");
  arke_error inner = ARKE_ERROR_INIT;
  const char *text = json_string_value(value);
  arke_status status = define != NULL ? cli_operator_defined(r->memory, text, o, &inner)
                                      : cli_operator_named(r->memory, text, o, &inner);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, "workload");
  if (status != ARKE_OK) return workload_fault(r, err, "%s", inner.text);
  workload_leave(r);
  t->spec = o;
  return ARKE_OK;
}

static arke_status read_bucket(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  json_t *bucket = json_object_get(object, "bucket");
  if (bucket == NULL) return ARKE_OK;
  workload_enter_key(r, "bucket");
  if (!json_is_string(bucket))
    return workload_fault(r, err, "found %s; accepted: ranges like \"M=1..128\"", workload_kind(bucket));
  t->bucket = arena_strdup(r->memory, json_string_value(bucket));
  return t->bucket == NULL ? error_memory(err, "workload") : ARKE_OK;
}

static arke_status read_weight(workload_reader *r, json_t *object, problem_text *t, arke_error *err) {
  json_t *weight = json_object_get(object, "weight");
  if (weight == NULL) return ARKE_OK;
  workload_enter_key(r, "weight");
  t->weight = json_number_value(weight);
  if (json_is_number(weight) && t->weight > 0) return ARKE_OK;
  return workload_fault(r, err, "accepted: a number above 0");
}

static arke_status read_problem(workload_reader *r, json_t *object, arke_error *err) {
  problem_text t = {.bucket = "", .weight = 1};
  if (!json_is_object(object))
    return workload_fault(r, err, "found %s; accepted: an object", workload_kind(object));
  TRY(workload_check_fields(r, object, problem_fields, COUNT_OF(problem_fields), err));
  arke_status all = ARKE_OK;
  size_t depth = r->depth;
  if (!workload_go_on(r, depth, &all, read_operator(r, object, &t, err))) return all;
  if (all == ARKE_OK) /* else its types and axes are not known */
    if (!workload_go_on(r, depth, &all, read_problem_types(r, object, &t, err)) ||
        !workload_go_on(r, depth, &all, read_problem_sizes(r, object, &t, err)) ||
        !workload_go_on(r, depth, &all, read_problem_attrs(r, object, &t, err)))
      return all;
  if (!workload_go_on(r, depth, &all, read_bucket(r, object, &t, err)) ||
      !workload_go_on(r, depth, &all, read_weight(r, object, &t, err)))
    return all;
  TRY(all);
  TRY(count_combinations(r, &t, err));
  return expand(r, &t, err);
}

static arke_status read_file_object(workload_reader *r, json_t *root, arke_error *err) {
  if (!json_is_object(root))
    return workload_fault(r, err, "found %s; accepted: an object with the list \"problems\"",
                          workload_kind(root));
  TRY(workload_check_fields(r, root, file_fields, COUNT_OF(file_fields), err));
  json_t *problems = required(r, root, "problems", err);
  if (problems == NULL) return ARKE_ERR_ARGUMENT;
  workload_enter_key(r, "problems");
  if (!json_is_array(problems))
    return workload_fault(r, err, "found %s; accepted: a list of problems", workload_kind(problems));
  if (json_array_size(problems) == 0) return workload_fault(r, err, "the list of problems is empty");
  arke_status all = ARKE_OK;
  size_t depth = r->depth;
  for (size_t i = 0; i < json_array_size(problems); i++) {
    workload_enter_index(r, i);
    arke_status status = read_problem(r, json_array_get(problems, i), err);
    if (!workload_go_on(r, depth, &all, status)) return all;
  }
  return all;
}

arke_status cli_workload_parse(arena *a, const char *path, const char *text, size_t length, cli_workload *w,
                               arke_error *err) {
  *w = (cli_workload){0};
  json_error_t where;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
  if (root == NULL) {
    if (json_error_code(&where) == json_error_out_of_memory) return error_memory(err, "workload");
    return cli_usage(err, "%s:%d:%d: not valid JSON: %s", cli_printable(a, path), where.line, where.column,
                     where.text);
  }
  workload_reader r = {.memory = a, .path = path, .text = text, .out = w, .seen = json_object()};
  arke_status status = r.seen == NULL ? error_memory(err, "workload") : read_file_object(&r, root, err);
  json_decref(r.seen);
  json_decref(root);
  return status;
}

/* One sentence a line, the last of them as the error. */
static arke_status tell_faults(const char *name, const cli_workload *w, arke_status status,
                               const arke_error *first, arke_error *err) {
  if (w->n_faults < 2 || status != ARKE_ERR_ARGUMENT)
    return error_set(err, status, first->stage, "%s", first->text);
  bool more = w->n_faults > CLI_WORKLOAD_FAULTS;
  int told = more ? CLI_WORKLOAD_FAULTS : w->n_faults - 1;
  for (int i = 0; i < told; i++) cli_complain("%s", w->faults[i]);
  if (!more) return cli_usage(err, "%s", w->faults[told]);
  int rest = w->n_faults - told;
  return cli_usage(err, "%s: %d more %s not shown", name, rest, text_plural(rest, "fault is", "faults are"));
}

arke_status cli_workload_read(arena *a, const char *path, cli_workload *w, arke_error *err) {
  struct stat st;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  arke_status status = ARKE_OK;
  const char *name = cli_printable(a, path);
  if (file < 0 || fstat(file, &st) != 0) {
    status = cli_usage(err, "cannot read the workload file %s: %s", name, strerror(errno));
    goto done;
  }
  if (!S_ISREG(st.st_mode)) {
    status = cli_usage(err, "the workload file %s is not a regular file", name);
    goto done;
  }
  if (st.st_size > MOST_BYTES) {
    status = cli_usage(err, "the workload file %s has %s; accepted: at most %s", name,
                       cli_bytes_text(a, (double)st.st_size), cli_bytes_text(a, MOST_BYTES));
    goto done;
  }
  char *text = arena_alloc(a, (size_t)st.st_size + 1);
  if (text == NULL) {
    status = error_memory(err, "workload");
    goto done;
  }
  size_t length = 0;
  for (ssize_t n; length < (size_t)st.st_size; length += (size_t)n) {
    n = read(file, text + length, (size_t)st.st_size - length);
    if (n < 0) {
      status = error_set(err, ARKE_ERR_IO, "workload", "reading %s failed: %s", name, strerror(errno));
      goto done;
    }
    if (n == 0) break;
  }
  arke_error first = ARKE_ERROR_INIT;
  status = cli_workload_parse(a, path, text, length, w, &first);
  if (status != ARKE_OK) status = tell_faults(name, w, status, &first, err);
done:
  if (file >= 0) close(file);
  return status;
}
