#include "tuner/cli_workload.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "tuner/cli_json_place.h"

enum { MOST_BYTES = 16 << 20, MOST_PROBLEMS = 100000, DEEPEST = 8 };

/* X(name): the fields of a problem. */
#define PROBLEM_FIELDS(X)                                                                                    \
  X(op)                                                                                                      \
  X(dtypes)                                                                                                  \
  X(sizes)                                                                                                   \
  X(bucket)                                                                                                  \
  X(weight)

static const char *const problem_fields[] = {
#define X(name) #name,
    PROBLEM_FIELDS(X)
#undef X
};

static const char *const file_fields[] = {"description", "problems"};

/* One reading: where it is in the file, for the sentences, and what it has collected. */
typedef struct reader {
  arena *memory;
  const char *path, *text;
  json_step steps[DEEPEST];
  size_t depth;
  cli_workload *out;
  int capacity;
  size_t combinations; /* of the lists of all problems up to here */
  json_t *seen;        /* printed problems, to drop repeated ones */
} reader;

static void enter_key(reader *r, const char *key) {
  if (r->depth < DEEPEST) r->steps[r->depth++] = (json_step){.key = key};
}

static void enter_index(reader *r, size_t index) {
  if (r->depth < DEEPEST) r->steps[r->depth++] = (json_step){.index = index};
}

static void leave(reader *r) {
  r->depth--;
}

/* "FILE:LINE: problems[2].sizes.M: sentence". */
static arke_status fault(reader *r, arke_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static arke_status fault(reader *r, arke_error *err, const char *format, ...) {
  char sentence[512];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  strbuf place = STRBUF_INIT;
  for (size_t i = 0; i < r->depth; i++) {
    if (r->steps[i].key != NULL)
      strbuf_addf(&place, "%s%s", i == 0 ? "" : ".", cli_printable(r->memory, r->steps[i].key));
    else
      strbuf_addf(&place, "[%zu]", r->steps[i].index);
  }
  arke_status status = cli_usage(err, "%s:%d: %s%s%s", cli_printable(r->memory, r->path),
                                 json_place_line(r->text, r->steps, r->depth), strbuf_text(&place),
                                 place.length == 0 ? "" : ": ", sentence);
  strbuf_free(&place);
  return status;
}

static const char *kind_of(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "a list";
  case JSON_STRING: return "a string";
  case JSON_INTEGER:
  case JSON_REAL: return "a number";
  case JSON_TRUE:
  case JSON_FALSE: return "true or false";
  case JSON_NULL: return "null";
  }
  return "nothing";
}

static arke_status check_fields(reader *r, json_t *object, const char *const *fields, size_t n,
                                arke_error *err) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    bool known = false;
    for (size_t i = 0; i < n; i++) known |= strcmp(key, fields[i]) == 0;
    if (known) continue;
    const char *list = "", *nearest = text_nearest(key, fields, n);
    for (size_t i = 0; i < n && list != NULL; i++)
      list = arena_printf(r->memory, "%s%s%s", list, i == 0 ? "" : ", ", fields[i]);
    enter_key(r, key);
    return fault(r, err, "unknown field;%s%s%s accepted: %s", nearest == NULL ? "" : " did you mean ",
                 nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?", list == NULL ? "" : list);
  }
  return ARKE_OK;
}

/* --- values -------------------------------------------------------------------------------------------- */

/* A scalar stands for a list of one. */
static size_t list_length(const json_t *value) {
  return json_is_array(value) ? json_array_size(value) : 1;
}

static json_t *list_get(json_t *value, size_t i) {
  return json_is_array(value) ? json_array_get(value, i) : value;
}

typedef struct size_list {
  size_t n;
  int64_t *values;
} size_list;

static arke_status read_sizes(reader *r, json_t *value, size_list *list, arke_error *err) {
  list->n = list_length(value);
  if (list->n == 0) return fault(r, err, "the list of sizes is empty");
  list->values = arena_array(r->memory, list->n, sizeof *list->values);
  if (list->values == NULL) return error_memory(err, "workload");
  for (size_t i = 0; i < list->n; i++) {
    json_t *item = list_get(value, i);
    if (json_is_array(value)) enter_index(r, i);
    if (!json_is_integer(item))
      return fault(r, err, "found %s; a size is a whole number from 1 to %lld", kind_of(item),
                   LIMIT_AXIS_SIZE);
    list->values[i] = json_integer_value(item);
    if (list->values[i] < 1 || list->values[i] > LIMIT_AXIS_SIZE)
      return fault(r, err, "found %lld; a size is a whole number from 1 to %lld", (long long)list->values[i],
                   LIMIT_AXIS_SIZE);
    if (json_is_array(value)) leave(r);
  }
  return ARKE_OK;
}

typedef struct type_list {
  size_t n;
  dtype *values;
} type_list;

static arke_status read_types(reader *r, json_t *value, type_list *list, arke_error *err) {
  list->n = list_length(value);
  if (list->n == 0) return fault(r, err, "the list of element types is empty");
  list->values = arena_array(r->memory, list->n, sizeof *list->values);
  if (list->values == NULL) return error_memory(err, "workload");
  for (size_t i = 0; i < list->n; i++) {
    json_t *item = list_get(value, i);
    if (json_is_array(value)) enter_index(r, i);
    if (!json_is_string(item))
      return fault(r, err, "found %s; an element type is a string like \"bf16\"", kind_of(item));
    if (!dtype_from_name(json_string_value(item), &list->values[i])) {
      const char *names[DTYPE_COUNT], *all = "";
      for (int t = 0; t < DTYPE_COUNT && all != NULL; t++) {
        names[t] = dtype_name((dtype)t);
        all = arena_printf(r->memory, "%s%s%s", all, t == 0 ? "" : ", ", names[t]);
      }
      return fault(r, err, "unknown element type %s; accepted: %s",
                   cli_printable(r->memory, json_string_value(item)), all == NULL ? "" : all);
    }
    if (json_is_array(value)) leave(r);
  }
  return ARKE_OK;
}

/* --- one problem --------------------------------------------------------------------------------------- */

static json_t *required(reader *r, json_t *object, const char *name, arke_error *err) {
  json_t *value = json_object_get(object, name);
  if (value == NULL) fault(r, err, "the field %s is missing", name);
  return value;
}

/* A problem as written: every list of values, before the cross product. */
typedef struct problem_text {
  const ir_catalogue_entry *entry;
  const ir_op *op;
  int n_axes;
  const char *axes[LIMIT_AXES];
  size_list sizes[LIMIT_AXES];
  type_list types[COUNT_OF(((ir_problem *)0)->types)];
  const char *bucket;
  double weight;
} problem_text;

static arke_status add_problem(reader *r, const problem_text *t, const cli_problem *p, arke_error *err) {
  strbuf name = STRBUF_INIT;
  strbuf_addf(&name, "%s ", t->entry->name);
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

/* Counted before expanding: even combinations that repeat each other take their time. */
static arke_status count_combinations(reader *r, const problem_text *t, arke_error *err) {
  size_t n = 1;
  bool many = false;
  for (int i = 0; i < t->op->n_types; i++) many |= __builtin_mul_overflow(n, t->types[i].n, &n);
  for (int i = 0; i < t->n_axes; i++) many |= __builtin_mul_overflow(n, t->sizes[i].n, &n);
  many |= __builtin_add_overflow(r->combinations, n, &r->combinations);
  if (!many && r->combinations <= MOST_PROBLEMS) return ARKE_OK;
  return fault(
      r, err,
      "its lists expand to more than the %d problems that one file may have, repeated ones included; "
      "split it",
      MOST_PROBLEMS);
}

/* Every combination, the last axis fastest, the first type variable slowest. */
static arke_status expand(reader *r, const problem_text *t, arke_error *err) {
  int n_lists = t->op->n_types + t->n_axes;
  size_t at[COUNT_OF(t->types) + LIMIT_AXES] = {0};
  for (;;) {
    dtype types[COUNT_OF(t->types)];
    int64_t sizes[LIMIT_AXES];
    cli_problem p;
    arke_error inner = ARKE_ERROR_INIT;
    for (int i = 0; i < t->op->n_types; i++) types[i] = t->types[i].values[at[i]];
    for (int i = 0; i < t->n_axes; i++) sizes[i] = t->sizes[i].values[at[t->op->n_types + i]];
    arke_status status = cli_problem_bind(r->memory, t->entry, t->op, types, sizes, &p, &inner);
    if (status == ARKE_ERR_ARGUMENT) {
      enter_key(r, "sizes");
      return fault(r, err, "%s", inner.text);
    }
    if (status != ARKE_OK) return error_set(err, status, inner.stage, "%s", inner.text);
    if (t->bucket[0] != '\0' && cli_bucket_check(r->memory, &p.problem, t->bucket, &inner) != ARKE_OK) {
      enter_key(r, "bucket");
      return fault(r, err, "%s", inner.text);
    }
    TRY(add_problem(r, t, &p, err));
    int i = n_lists - 1;
    for (; i >= 0; i--) {
      size_t n = i < t->op->n_types ? t->types[i].n : t->sizes[i - t->op->n_types].n;
      if (++at[i] < n) break;
      at[i] = 0;
    }
    if (i < 0) return ARKE_OK;
  }
}

static arke_status read_problem_sizes(reader *r, json_t *object, problem_text *t, arke_error *err) {
  json_t *sizes = required(r, object, "sizes", err);
  if (sizes == NULL) return ARKE_ERR_ARGUMENT;
  enter_key(r, "sizes");
  if (!json_is_object(sizes))
    return fault(r, err, "found %s; accepted: an object with the axes as its fields", kind_of(sizes));
  t->n_axes = cli_shape_axes(r->memory, t->entry, t->axes);
  TRY(check_fields(r, sizes, t->axes, (size_t)t->n_axes, err));
  for (int i = 0; i < t->n_axes; i++) {
    json_t *value = required(r, sizes, t->axes[i], err);
    if (value == NULL) return ARKE_ERR_ARGUMENT;
    enter_key(r, t->axes[i]);
    TRY(read_sizes(r, value, &t->sizes[i], err));
    leave(r);
  }
  leave(r);
  return ARKE_OK;
}

/* One list for all type variables, or an object with a list for each. */
static arke_status read_problem_types(reader *r, json_t *object, problem_text *t, arke_error *err) {
  json_t *types = required(r, object, "dtypes", err);
  if (types == NULL) return ARKE_ERR_ARGUMENT;
  enter_key(r, "dtypes");
  if (json_is_object(types)) TRY(check_fields(r, types, t->op->type_vars, (size_t)t->op->n_types, err));
  for (int i = 0; i < t->op->n_types; i++) {
    json_t *value = json_is_object(types) ? required(r, types, t->op->type_vars[i], err) : types;
    if (value == NULL) return ARKE_ERR_ARGUMENT;
    if (json_is_object(types)) enter_key(r, t->op->type_vars[i]);
    TRY(read_types(r, value, &t->types[i], err));
    if (json_is_object(types)) leave(r);
  }
  leave(r);
  return ARKE_OK;
}

static arke_status read_problem(reader *r, json_t *object, arke_error *err) {
  problem_text t = {.bucket = "", .weight = 1};
  if (!json_is_object(object)) return fault(r, err, "found %s; accepted: an object", kind_of(object));
  TRY(check_fields(r, object, problem_fields, COUNT_OF(problem_fields), err));
  json_t *op = required(r, object, "op", err);
  if (op == NULL) return ARKE_ERR_ARGUMENT;
  enter_key(r, "op");
  if (!json_is_string(op)) return fault(r, err, "found %s; accepted: the name of an operator", kind_of(op));
  arke_error inner = ARKE_ERROR_INIT;
  if (cli_operator_find(r->memory, json_string_value(op), &t.entry, &inner) != ARKE_OK)
    return fault(r, err, "%s", inner.text);
  TRY(ir_op_parse(r->memory, t.entry->text, &t.op, err));
  leave(r);
  TRY(read_problem_types(r, object, &t, err));
  TRY(read_problem_sizes(r, object, &t, err));
  json_t *bucket = json_object_get(object, "bucket"), *weight = json_object_get(object, "weight");
  if (bucket != NULL) {
    enter_key(r, "bucket");
    if (!json_is_string(bucket))
      return fault(r, err, "found %s; accepted: ranges like \"M=1..128\"", kind_of(bucket));
    t.bucket = arena_strdup(r->memory, json_string_value(bucket));
    if (t.bucket == NULL) return error_memory(err, "workload");
    leave(r);
  }
  if (weight != NULL) {
    enter_key(r, "weight");
    t.weight = json_number_value(weight);
    if (!json_is_number(weight) || t.weight <= 0) return fault(r, err, "accepted: a number above 0");
    leave(r);
  }
  TRY(count_combinations(r, &t, err));
  return expand(r, &t, err);
}

static arke_status read_file_object(reader *r, json_t *root, arke_error *err) {
  if (!json_is_object(root))
    return fault(r, err, "found %s; accepted: an object with the list \"problems\"", kind_of(root));
  TRY(check_fields(r, root, file_fields, COUNT_OF(file_fields), err));
  json_t *problems = required(r, root, "problems", err);
  if (problems == NULL) return ARKE_ERR_ARGUMENT;
  enter_key(r, "problems");
  if (!json_is_array(problems))
    return fault(r, err, "found %s; accepted: a list of problems", kind_of(problems));
  if (json_array_size(problems) == 0) return fault(r, err, "the list of problems is empty");
  for (size_t i = 0; i < json_array_size(problems); i++) {
    enter_index(r, i);
    TRY(read_problem(r, json_array_get(problems, i), err));
    leave(r);
  }
  return ARKE_OK;
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
  reader r = {.memory = a, .path = path, .text = text, .out = w, .seen = json_object()};
  arke_status status = r.seen == NULL ? error_memory(err, "workload") : read_file_object(&r, root, err);
  json_decref(r.seen);
  json_decref(root);
  return status;
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
  status = cli_workload_parse(a, path, text, length, w, err);
done:
  if (file >= 0) close(file);
  return status;
}
