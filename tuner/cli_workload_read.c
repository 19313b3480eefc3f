#include "tuner/cli_workload_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void workload_enter_key(workload_reader *r, const char *key) {
  if (r->depth < WORKLOAD_DEEPEST) r->steps[r->depth++] = (json_step){.key = key};
}

void workload_enter_index(workload_reader *r, size_t index) {
  if (r->depth < WORKLOAD_DEEPEST) r->steps[r->depth++] = (json_step){.index = index};
}

void workload_leave(workload_reader *r) {
  r->depth--;
}

bool workload_go_on(workload_reader *r, size_t depth, arke_status *all, arke_status part) {
  r->depth = depth;
  if (part != ARKE_OK) *all = part;
  return part == ARKE_OK || part == ARKE_ERR_ARGUMENT;
}

arke_status workload_fault(workload_reader *r, arke_error *err, const char *format, ...) {
  char sentence[1800]; /* an operator's faults have many lines */
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
  arke_error fault = ARKE_ERROR_INIT;
  cli_usage(&fault, "%s:%d: %s%s%s", cli_printable(r->memory, r->path),
            json_place_line(r->text, r->steps, r->depth), strbuf_text(&place), place.length == 0 ? "" : ": ",
            sentence);
  strbuf_free(&place);
  cli_workload *w = r->out;
  if (w->n_faults < CLI_WORKLOAD_FAULTS &&
      (w->faults[w->n_faults] = arena_strdup(r->memory, fault.text)) == NULL)
    return error_memory(err, "workload");
  w->n_faults++;
  return cli_usage(err, "%s", fault.text); /* the first one stays */
}

const char *workload_kind(const json_t *value) {
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

arke_status workload_check_fields(workload_reader *r, json_t *object, const char *const *fields, size_t n,
                                  arke_error *err) {
  const char *key;
  json_t *value;
  arke_status status = ARKE_OK;
  json_object_foreach(object, key, value) {
    bool known = false;
    for (size_t i = 0; i < n; i++) known |= strcmp(key, fields[i]) == 0;
    if (known) continue;
    const char *list = "", *nearest = text_nearest(key, fields, n);
    for (size_t i = 0; i < n && list != NULL; i++)
      list = arena_printf(r->memory, "%s%s%s", list, i == 0 ? "" : ", ", fields[i]);
    workload_enter_key(r, key);
    status =
        workload_fault(r, err, "unknown field;%s%s%s accepted: %s", nearest == NULL ? "" : " did you mean ",
                       nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?",
                       list == NULL ? ""
                       : n == 0     ? "none"
                                    : list);
    workload_leave(r);
    if (status != ARKE_ERR_ARGUMENT) break;
  }
  return status;
}

/* --- values -------------------------------------------------------------------------------------------- */

/* A scalar stands for a list of one. */
static size_t list_length(const json_t *value) {
  return json_is_array(value) ? json_array_size(value) : 1;
}

static json_t *list_get(json_t *value, size_t i) {
  return json_is_array(value) ? json_array_get(value, i) : value;
}

static arke_status read_size(workload_reader *r, const json_t *item, workload_size *value, arke_error *err) {
  if (!json_is_integer(item))
    return workload_fault(r, err, "found %s; a size is a whole number from 0 to %lld", workload_kind(item),
                          LIMIT_AXIS_SIZE);
  value->size = json_integer_value(item);
  if (value->size >= 0 && value->size <= LIMIT_AXIS_SIZE) return ARKE_OK;
  return workload_fault(r, err, "found %lld; a size is a whole number from 0 to %lld", (long long)value->size,
                        LIMIT_AXIS_SIZE);
}

/* Sizes for "...": a whole number, or text like "4x128". */
static arke_status read_leading(workload_reader *r, const json_t *item, workload_size *value,
                                arke_error *err) {
  cli_values v;
  arke_error inner = ARKE_ERROR_INIT;
  if (json_is_integer(item)) {
    TRY(read_size(r, item, value, err));
    value->leading = arena_printf(r->memory, "%lld", (long long)value->size);
  } else if (json_is_string(item)) {
    value->leading = arena_strdup(r->memory, json_string_value(item));
    if (value->leading != NULL && cli_values_leading(r->memory, value->leading, &v, &inner) != ARKE_OK)
      return workload_fault(r, err, "%s", inner.text);
  } else {
    return workload_fault(r, err, "found %s; accepted: sizes like \"4x128\", or a whole number",
                          workload_kind(item));
  }
  return value->leading == NULL ? error_memory(err, "workload") : ARKE_OK;
}

arke_status workload_read_sizes(workload_reader *r, json_t *value, bool leading, workload_sizes *list,
                                arke_error *err) {
  list->n = list_length(value);
  if (list->n == 0) return workload_fault(r, err, "the list of sizes is empty");
  list->values = arena_array(r->memory, list->n, sizeof *list->values);
  if (list->values == NULL) return error_memory(err, "workload");
  for (size_t i = 0; i < list->n; i++) {
    json_t *item = list_get(value, i);
    if (json_is_array(value)) workload_enter_index(r, i);
    list->values[i] = (workload_size){0};
    TRY(leading ? read_leading(r, item, &list->values[i], err) : read_size(r, item, &list->values[i], err));
    if (json_is_array(value)) workload_leave(r);
  }
  return ARKE_OK;
}

static arke_status read_word(workload_reader *r, const json_t *item, const char **text, arke_error *err) {
  if (json_is_integer(item))
    *text = arena_printf(r->memory, "%lld", (long long)json_integer_value(item));
  else if (json_is_real(item))
    *text = arena_printf(r->memory, "%.17g", json_real_value(item));
  else if (json_is_boolean(item))
    *text = json_is_true(item) ? "true" : "false";
  else if (json_is_string(item) && strpbrk(json_string_value(item), " ,=") == NULL)
    *text = arena_strdup(r->memory, json_string_value(item));
  else
    return workload_fault(r, err,
                          "found %s; accepted: a number, true, false, or a word like \"inf\" or \"bf16\"",
                          json_is_string(item) ? "a text that is no word" : workload_kind(item));
  return *text == NULL ? error_memory(err, "workload") : ARKE_OK;
}

arke_status workload_read_attr(workload_reader *r, json_t *value, workload_attr *list, arke_error *err) {
  list->n = list_length(value);
  if (list->n == 0) return workload_fault(r, err, "the list of values is empty");
  list->values = arena_array(r->memory, list->n, sizeof *list->values);
  if (list->values == NULL) return error_memory(err, "workload");
  for (size_t i = 0; i < list->n; i++) {
    if (json_is_array(value)) workload_enter_index(r, i);
    TRY(read_word(r, list_get(value, i), &list->values[i], err));
    if (json_is_array(value)) workload_leave(r);
  }
  return ARKE_OK;
}

arke_status workload_read_types(workload_reader *r, json_t *value, const cli_operator *o, int variable,
                                workload_types *list, arke_error *err) {
  list->n = list_length(value);
  if (list->n == 0) return workload_fault(r, err, "the list of element types is empty");
  list->values = arena_array(r->memory, list->n, sizeof *list->values);
  if (list->values == NULL) return error_memory(err, "workload");
  for (size_t i = 0; i < list->n; i++) {
    json_t *item = list_get(value, i);
    if (json_is_array(value)) workload_enter_index(r, i);
    if (!json_is_string(item))
      return workload_fault(r, err, "found %s; an element type is a string like \"bf16\"",
                            workload_kind(item));
    arke_error inner = ARKE_ERROR_INIT;
    arke_status status =
        cli_values_type(r->memory, o, variable, json_string_value(item), &list->values[i], &inner);
    if (status == ARKE_ERR_MEMORY) return error_memory(err, "workload");
    if (status != ARKE_OK) return workload_fault(r, err, "%s", inner.text);
    if (json_is_array(value)) workload_leave(r);
  }
  return ARKE_OK;
}
