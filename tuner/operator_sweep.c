#include "tuner/operator_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "generator/gen_context.h"
#include "tuner/operator_list.h"

#define STAGE "operator"

enum { MOST_KERNELS = 64, MOST_TYPES = 16, RANDOM_TRIES = 300 };

/* A kernel that was made for some sizes and serves others of the same configuration. */
typedef struct made_kernel {
  const kernel_template *template;
  config config;
  lowered lowered;
} made_kernel;

typedef struct sweep {
  const operator_sweep *options;
  gen_context *context;
  const ir_catalogue_entry *entry;
  const operator_shapes *shapes;
  const ir_op *op;
  arena *arena;                   /* of one operator with one choice of dtypes */
  const char *types, *attributes; /* attributes: NULL: defaults */
  int n_kernels;
  made_kernel kernels[MOST_KERNELS];
  uint64_t counter;
  arke_error *err;
} sweep;

/* --- telling --- */

static arke_status tell(sweep *s, operator_result *r) {
  r->operator= s->entry->name;
  r->types = s->types;
  if (r->text == NULL) r->text = "";
  if (r->template_name == NULL) r->template_name = "";
  if (r->config == NULL) r->config = "";
  if (s->options->tell(s->options->user, r)) return ARKE_OK;
  return error_set(s->err, ARKE_ERR_INTERRUPTED, STAGE, "ended");
}

/* --- problems --- */

/* "T=bf16 M=3 N=7" from "3x7"; the sizes of "[...]" are all that are left. */
static arke_status bind(sweep *s, const char *shape, ir_problem *p, strbuf *bindings) {
  strbuf_clear(bindings);
  strbuf_add(bindings, s->types);
  const char *size = shape;
  for (const char *axis = s->entry->shape_axes; *axis != '\0';) {
    size_t name = strcspn(axis, ","), length = strcspn(size, "x");
    bool all = strncmp(axis, "...", 3) == 0;
    if (all) length = strlen(size);
    strbuf_addf(bindings, " %.*s=%.*s", (int)name, axis, (int)length, size);
    axis += name + (axis[name] == ',');
    size += length + (size[length] == 'x');
  }
  if (s->attributes != NULL) strbuf_addf(bindings, " %s", s->attributes);
  if (strbuf_failed(bindings)) return error_memory(s->err, STAGE);
  return ir_problem_bind(s->op, strbuf_text(bindings), p, s->err);
}

/* Whether a size is there for one thing, how large it is ("66000x2"): that is seen in one run of a template.
 */
static bool is_large(const char *shape) {
  enum { LARGE = 1 << 14 };
  for (const char *size = shape; *size != '\0'; size += strspn(size, "x")) {
    char *end;
    if (strtoll(size, &end, 10) > LARGE) return true;
    size = end;
  }
  return false;
}

/* --- kernels --- */

/* `whole`: with the ways for other views; another serves tensors without gaps. */
static const made_kernel *find_kernel(const sweep *s, const kernel_template *k, const config *c, bool whole) {
  for (int i = 0; i < s->n_kernels; i++) {
    const made_kernel *made = &s->kernels[i];
    if (made->template == k && (!whole || made->lowered.ways_left_out == 0) &&
        (c == NULL || config_equal(k->space(s->options->target), &made->config, c)))
      return made;
  }
  return NULL;
}

/* Lowers, unless a kernel of the configuration is there. NULL after a failure, in `err`. */
static const made_kernel *make_kernel(sweep *s, const kernel_template *k, const config *c,
                                      const ir_problem *p, bool whole, arke_error *err) {
  const made_kernel *made = find_kernel(s, k, c, whole);
  if (made != NULL) return made;
  if (s->n_kernels == MOST_KERNELS) s->n_kernels = 0; /* the memory goes with the arena */
  made_kernel *new = &s->kernels[s->n_kernels];
  lower_options options = {.context = s->context, .first_way_only = !whole};
  *new = (made_kernel){.template = k, .config = *c};
  if (k->lower(p, s->options->target, c, &options, s->arena, &new->lowered, err) != ARKE_OK) return NULL;
  s->n_kernels++;
  return new;
}

/* --- runs --- */

/* What a launch does not take, as against what comes out wrong. */
static bool is_refusal(const arke_error *err) {
  bool by_launch =
      err->code == ARKE_ERR_SHAPE || err->code == ARKE_ERR_ARGUMENT || err->code == ARKE_ERR_UNSUPPORTED;
  return by_launch && strcmp(err->stage, "reference") != 0;
}

/* The first way is tried alone, as a search does; what it leaves to the others takes all of them. */
static arke_status run_ways(sweep *s, const operator_call *call, const made_kernel *made, int64_t *compared,
                            arke_error *err) {
  arke_status status = operator_run(call, &made->lowered, compared, err);
  if (made->lowered.ways_left_out == 0 || status == ARKE_OK || !is_refusal(err)) return status;
  const config c = made->config;
  error_clear(err);
  made = make_kernel(s, made->template, &c, call->problem, true, err);
  return made == NULL ? err->code : operator_run(call, &made->lowered, compared, err);
}

/* A GPU on which a kernel has faulted refuses everything from then on: that is no fault of what follows. */
static arke_status check_device(sweep *s) {
  device *dev = s->options->dev;
  arke_error err = ARKE_ERROR_INIT;
  device_ptr memory;
  if (dev->ops->mem_alloc(dev, 16, "probe", &memory, &err) != ARKE_OK)
    return error_set(s->err, ARKE_ERR_DEVICE, STAGE, "the device takes nothing after the last run: %s",
                     err.text);
  dev->ops->mem_free(dev, memory);
  return ARKE_OK;
}

static arke_status run_one(sweep *s, const made_kernel *made, const ir_problem *p, const char *bindings,
                           operator_view view, operator_values values) {
  const operator_sweep *o = s->options;
  operator_range ranges[LIMIT_TENSORS];
  for (int i = 0; i < p->op->n_inputs; i++) ranges[i] = operator_case_range(p, s->entry, i);
  operator_call call = {.dev = o->dev,
                        .sm_count = o->sm_count,
                        .problem = p,
                        .view = view,
                        .values = values,
                        .seed = o->seed + s->counter++,
                        .ranges = ranges,
                        .sample = o->sample};
  strbuf point = STRBUF_INIT;
  config_print(made->template->space(o->target), &made->config, &point);
  arke_error err = ARKE_ERROR_INIT;
  operator_result r = {.bindings = bindings,
                       .template_name = made->template->name,
                       .config = strbuf_text(&point),
                       .view = view,
                       .values = values};
  arke_status status = run_ways(s, &call, made, &r.compared, &err);
  r.verdict = status == ARKE_OK ? OPERATOR_RIGHT : is_refusal(&err) ? OPERATOR_REFUSED : OPERATOR_WRONG;
  r.text = err.text;
  status = status == ARKE_ERR_MEMORY ? error_memory(s->err, STAGE) : tell(s, &r);
  strbuf_free(&point);
  return status == ARKE_OK && r.verdict == OPERATOR_WRONG ? check_device(s) : status;
}

static arke_status failed(sweep *s, const kernel_template *k, const config *c, const char *bindings,
                          const char *text) {
  strbuf point = STRBUF_INIT;
  config_print(k->space(s->options->target), c, &point);
  arke_status status = tell(s, &(operator_result){.verdict = OPERATOR_WRONG,
                                                  .bindings = bindings,
                                                  .template_name = k->name,
                                                  .config = strbuf_text(&point),
                                                  .text = text});
  strbuf_free(&point);
  return status;
}

/* A template, and a problem that it fits. */
typedef struct template_at {
  const kernel_template *k;
  const ir_problem *p;
  const void *prepared;
} template_at;

static template_reason judge(const sweep *s, const template_at *at, const config *c) {
  double ns;
  return at->k->judge(at->prepared, s->options->target, &s->options->target->rates, c, &ns);
}

/* A random feasible configuration; false if none was found. */
static bool draw(sweep *s, const template_at *at, config *c) {
  const space *points = at->k->space(s->options->target);
  for (int i = 0; i < RANDOM_TRIES; i++) {
    for (int j = 0; j < points->n_params; j++) {
      const space_param *param = &points->params[j];
      c->values[j] = param->values[random_u64(s->options->seed, s->counter++) % (uint64_t)param->n_values];
    }
    if (judge(s, at, c) == TEMPLATE_OK) return true;
  }
  return false;
}

typedef struct views_of_problem {
  unsigned views, values; /* bits: which to run; dense and normal are one run */
} views_of_problem;

static arke_status run_views(sweep *s, const made_kernel *made, const ir_problem *p, const char *bindings,
                             views_of_problem what) {
  TRY(run_one(s, made, p, bindings, OPERATOR_DENSE, OPERATOR_NORMAL));
  for (int v = 1; v < OPERATOR_VIEW_COUNT; v++)
    if (what.views >> v & 1) TRY(run_one(s, made, p, bindings, (operator_view)v, OPERATOR_NORMAL));
  for (int v = 1; v < OPERATOR_VALUES_COUNT; v++)
    if (what.values >> v & 1) TRY(run_one(s, made, p, bindings, OPERATOR_DENSE, (operator_values)v));
  return ARKE_OK;
}

/* Lowering is most of the time: where random configurations are one, it is for what a search compiles, and a
 * part of the rest is left out (docs/testing.md). */
static bool is_brief(const sweep *s) {
  return !s->options->full && s->options->configurations <= 1;
}

static arke_status run_configurations(sweep *s, const template_at *at, const char *bindings,
                                      views_of_problem what, int configurations) {
  const kernel_template *k = at->k;
  const ir_problem *p = at->p;
  config c;
  k->defaults(p, s->options->target, &c);
  for (int i = 0; i <= configurations; i++) {
    if (i > 0 && !draw(s, at, &c)) break;
    arke_error err = ARKE_ERROR_INIT;
    template_reason reason = judge(s, at, &c);
    if (!template_is_built(reason)) {
      TRY(failed(s, k, &c, bindings,
                 arena_printf(s->arena, "its defaults are not feasible: %s", template_reason_text(reason))));
      continue;
    }
    if (i > 0 && is_brief(s)) what.views = 0;
    const made_kernel *made = make_kernel(s, k, &c, p, what.views != 0, &err);
    if (made == NULL)
      TRY(err.code == ARKE_ERR_MEMORY ? error_memory(s->err, STAGE) : failed(s, k, &c, bindings, err.text));
    else
      TRY(run_views(s, made, p, bindings, what));
  }
  return ARKE_OK;
}

static arke_status run_template(sweep *s, const kernel_template *k, const ir_problem *p, const char *bindings,
                                views_of_problem what, int configurations) {
  arena a = ARENA_INIT;
  template_at at = {k, p, k->prepare(p, s->options->target, &a)};
  arke_status status = at.prepared == NULL ? error_memory(s->err, STAGE)
                                           : run_configurations(s, &at, bindings, what, configurations);
  arena_release(&a);
  return status;
}

static arke_status run_problem(sweep *s, const char *shape, views_of_problem what, int configurations) {
  ir_problem p;
  strbuf bindings = STRBUF_INIT, reasons = STRBUF_INIT;
  arke_status status = bind(s, shape, &p, &bindings);
  bool taken = false;
  for (int i = 0; i < template_count() && status == ARKE_OK; i++) {
    const kernel_template *k = template_get(i);
    strbuf detail = STRBUF_INIT;
    template_reason reason = k->fits(&p, s->options->target, &detail);
    /* Empty axes are served by kernels for others, as the runtime does. */
    const made_kernel *other = reason == TEMPLATE_SIZE ? find_kernel(s, k, NULL, true) : NULL;
    if (reason == TEMPLATE_OK)
      status = run_template(s, k, &p, strbuf_text(&bindings), what, configurations);
    else if (other != NULL)
      status = run_one(s, other, &p, strbuf_text(&bindings), OPERATOR_DENSE, OPERATOR_NORMAL);
    else
      strbuf_addf(&reasons, "%s%s: %s", strbuf_text(&reasons)[0] == '\0' ? "" : "; ", k->name,
                  strbuf_text(&detail));
    taken = taken || reason == TEMPLATE_OK || other != NULL;
    strbuf_free(&detail);
  }
  if (status == ARKE_OK && !taken)
    status = tell(s, &(operator_result){.verdict = OPERATOR_UNTAKEN,
                                        .bindings = strbuf_text(&bindings),
                                        .text = strbuf_text(&reasons)});
  strbuf_free(&bindings);
  strbuf_free(&reasons);
  return status;
}

/* --- dtypes --- */

/* The i-th name of the variable's group in "f32 f16|i8 e4m3"; false past the last. */
static bool group_type(const char *groups, int variable, int i, char name[LIMIT_NAME_BYTES]) {
  for (; variable > 0; variable--) {
    groups = strchr(groups, '|');
    if (groups == NULL) return false;
    groups++;
  }
  const char *end = groups + strcspn(groups, "|");
  for (;; i--) {
    groups += strspn(groups, " ");
    size_t length = strcspn(groups, " |");
    if (groups >= end) return false;
    if (i == 0) {
      snprintf(name, LIMIT_NAME_BYTES, "%.*s", (int)length, groups);
      return true;
    }
    groups += length;
  }
}

static int group_count(const char *groups, int variable) {
  char name[LIMIT_NAME_BYTES];
  int n = 0;
  while (group_type(groups, variable, n, name)) n++;
  return n;
}

/* Choices of dtypes: every one of each variable at least once, or with `full` every combination. */
static int choice_count(const sweep *s) {
  int most = 1, all = 1;
  for (int v = 0; v < s->op->n_types; v++) {
    int n = group_count(s->entry->dtypes, v);
    all *= n;
    if (n > most) most = n;
  }
  if (s->options->full) return all;
  return s->op->n_types > 1 && most < all ? 2 * most : most;
}

/* "T=bf16 U=i8"; the second round pairs others than the first. */
static const char *choice(const sweep *s, int number, strbuf *out) {
  int rest = number;
  strbuf_clear(out);
  for (int v = 0; v < s->op->n_types; v++) {
    char name[LIMIT_NAME_BYTES];
    int n = group_count(s->entry->dtypes, v);
    int i = s->options->full ? rest % n : (number + (v > 0 ? 1 + 3 * (number / n) : 0)) % n;
    rest /= n;
    if (!group_type(s->entry->dtypes, v, i, name)) return NULL;
    strbuf_addf(out, v == 0 ? "%s=%s" : " %s=%s", s->op->type_vars[v], name);
  }
  return strbuf_failed(out) ? NULL : strbuf_text(out);
}

/* The choice that is run at every size, with every view: f32 where that is one. */
static bool is_chief(const sweep *s, int number) {
  char name[LIMIT_NAME_BYTES];
  int n = s->op->n_types == 0 ? 0 : group_count(s->entry->dtypes, 0), chief = 0;
  for (int i = 0; i < n; i++)
    if (group_type(s->entry->dtypes, 0, i, name) && strcmp(name, "f32") == 0) chief = i;
  return number == chief;
}

static arke_status run_choice(sweep *s, int number) {
  static const views_of_problem ALL = {(1u << OPERATOR_VIEW_COUNT) - 1, (1u << OPERATOR_VALUES_COUNT) - 1};
  const operator_sweep *o = s->options;
  bool chief = o->full || is_chief(s, number);
  int n = 0;
  while (n < OPERATOR_MOST_SHAPES && s->shapes->list[n] != NULL) n++;
  /* One view with each of the other dtypes, in turn. */
  views_of_problem one = {1u << (1 + number % (OPERATOR_VIEW_COUNT - 1)), ALL.values};
  TRY(run_problem(s, s->shapes->view, chief ? ALL : one, chief ? o->configurations : 0));
  for (int i = 0; i < n; i++) {
    bool large = is_large(s->shapes->list[i]);
    if (large && o->brief) continue;
    /* In brief, random configurations are drawn at every fourth size, and other dtypes are run at one size
     * instead of two. */
    bool brief = is_brief(s);
    bool turn = !large && (i == number % n || (!brief && i == (number + n / 2) % n));
    bool random = chief && (!brief || (!large && i % 4 == 0));
    if (chief || turn)
      TRY(run_problem(s, s->shapes->list[i], (views_of_problem){0, 0}, random ? o->configurations : 0));
  }
  /* A kernel is made for its attributes. Those of attention are masks, under which NaN or infinity in V at a
   * key that a tile sees in part reaches all of it (docs/attention.md). */
  views_of_problem with_attributes = {0, strcmp(s->entry->family, "attention") == 0 ? 0 : ALL.values};
  for (int i = 0; chief && operator_case_attributes(s->entry, i) != NULL; i++) {
    s->n_kernels = 0;
    s->attributes = operator_case_attributes(s->entry, i);
    arke_status status = run_problem(s, s->shapes->view, with_attributes, 0);
    s->attributes = NULL;
    TRY(status);
  }
  return ARKE_OK;
}

/* --- operators --- */

static arke_status run_operator(sweep *s, const char *name) {
  arena op_arena = ARENA_INIT;
  strbuf types = STRBUF_INIT;
  arke_status status = ir_operator_find(&op_arena, name, &s->entry, s->err);
  if (status == ARKE_OK) status = ir_op_parse(&op_arena, s->entry->text, &s->op, s->err);
  if (status == ARKE_OK) {
    s->shapes = operator_case_shapes(s->entry);
    if (s->shapes == NULL)
      status = error_set(s->err, ARKE_ERR_NOT_FOUND, STAGE, "no sizes to test %s at", name);
  }
  for (int i = 0; status == ARKE_OK && i < choice_count(s); i++) {
    if (s->options->brief && !is_chief(s, i)) continue;
    arena a = ARENA_INIT;
    s->arena = &a;
    s->n_kernels = 0;
    s->types = choice(s, i, &types);
    status = s->types == NULL ? error_memory(s->err, STAGE) : run_choice(s, i);
    arena_release(&a);
  }
  strbuf_free(&types);
  arena_release(&op_arena);
  return status;
}

static bool is_wanted(const operator_sweep *o, const char *name, int number) {
  if (o->only != NULL) {
    size_t length = strlen(o->only);
    return strncmp(name, o->only, length) == 0 && (name[length] == '\0' || name[length] == ':');
  }
  return o->parts <= 1 || number % o->parts == o->part;
}

arke_status operator_sweep_run(const operator_sweep *o, arke_error *err) {
  sweep s = {.options = o, .err = err};
  arke_status status = gen_context_create(&s.context, err);
  for (int i = 0; status == ARKE_OK && i < operator_case_count(); i++)
    if (is_wanted(o, operator_case_name(i), i)) status = run_operator(&s, operator_case_name(i));
  gen_context_destroy(s.context);
  return status;
}
