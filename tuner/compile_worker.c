/* Lowers and assembles one candidate a request:
 *   {"do": "compile", "op", "bindings", "target", "template", "config", "keep_llvm_ir", "fast_math",
 *    "check_indices", "first_way_only"}
 * Answer: {"lower_ms", "assemble_ms", "registers", "spill_bytes", "log", "unassembled", "ways_left_out",
 * "ptx", "recipe", "cubin", "llvm_ir"}, the last four being blob numbers, -1 where there is none;
 * "unassembled" says why an assembler that is there could not do its work, which is no fault of the
 * candidate's. Without a cubin the device compiles the PTX when it loads it. The driver's linker is not asked
 * for one: like nvJitLink it compiles inputs as relocatable code, where setmaxnreg is ignored; its loader
 * does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "generator/assemble.h"
#include "generator/gen_context.h"
#include "tuner/templates_in_use.h"
#include "tuner/worker.h"

#define STAGE    "compile"
#define NICENESS 10

typedef struct compile_state {
  const tune_hooks *hooks;
  assembler_kind assembler;
  gen_context *context; /* none before the first request, nor after a failure: who knows in what state */
} compile_state;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static arke_status compile_open(const tune_hooks *hooks, void **state, arke_error *err) {
  compile_state *s = calloc(1, sizeof *s);
  if (!s) return error_memory(err, STAGE);
  s->hooks = hooks;
  s->assembler = hooks->no_assembler ? ASSEMBLER_NONE : assembler_find();
  /* There is one of these a core: whoever times a kernel must not wait for them. What it starts inherits it.
   */
  setpriority(PRIO_PROCESS, 0, NICENESS);
  *state = s;
  return ARKE_OK;
}

static void compile_close(void *state) {
  compile_state *s = state;
  gen_context_destroy(s->context);
  free(s);
}

/* What a request names, looked up. */
typedef struct compile_job {
  ir_problem problem;
  const target *target;
  const kernel_template *template;
  config config;
} compile_job;

static arke_status lower(compile_state *s, const compile_job *job, const json_t *body, arena *a,
                         lowered *code, arke_error *err) {
  if (!s->context) TRY(gen_context_create(&s->context, err));
  lower_options options = {.keep_llvm_ir = json_is_true(json_object_get(body, "keep_llvm_ir")),
                           .fast_math = json_is_true(json_object_get(body, "fast_math")),
                           .check_indices = json_is_true(json_object_get(body, "check_indices")),
                           .first_way_only = json_is_true(json_object_get(body, "first_way_only")),
                           .context = s->context};
  arke_status status = job->template->lower(&job->problem, job->target, &job->config, &options, a, code, err);
  if (status != ARKE_OK) {
    gen_context_destroy(s->context);
    s->context = NULL;
  }
  return status;
}

/* Assembles if anything here can; *out stays empty otherwise. Only what the assembler says of the PTX is a
 * failure: that it could not run (no memory, no program any more) goes into `unassembled`. */
static arke_status assemble(const compile_state *s, const char *ptx, const char *target_name, assembled *out,
                            arke_error *unassembled, arke_error *err) {
  *out = (assembled){.registers = -1, .spill_bytes = -1};
  if (s->assembler == ASSEMBLER_NONE) return ARKE_OK;
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status = assemble_ptx(s->assembler, ptx, target_name, out, &failure);
  if (status == ARKE_ERR_ASSEMBLE || status == ARKE_ERR_TIMEOUT)
    return error_set(err, status, failure.stage, "%s", failure.text);
  if (status != ARKE_OK) *unassembled = failure;
  return ARKE_OK;
}

static arke_status resolve(const compile_state *s, const json_t *body, arena *a, compile_job *job,
                           arke_error *err) {
  const ir_op *op;
  TRY(ir_op_parse(a, tune_message_text(body, "op", ""), &op, err));
  TRY(ir_problem_bind(op, tune_message_text(body, "bindings", ""), &job->problem, err));
  const char *target_name = tune_message_text(body, "target", "");
  job->target = target_find(target_name, NULL);
  if (!job->target) return error_set(err, ARKE_ERR_INTERNAL, STAGE, "unknown target %s", target_name);
  const char *name = tune_message_text(body, "template", "");
  job->template = tune_templates_find(s->hooks->templates, name);
  if (!job->template) return error_set(err, ARKE_ERR_INTERNAL, STAGE, "unknown template %s", name);
  config defaults;
  job->template->defaults(&job->problem, job->target, &defaults);
  return config_parse(job->template->space(job->target), tune_message_text(body, "config", ""), &defaults,
                      &job->config, err);
}

static arke_status add_blob(tune_message *reply, const char *name, const void *data, size_t bytes,
                            arke_error *err) {
  int blob = -1;
  if (data) {
    blob = tune_message_add_blob(reply, data, bytes);
    if (blob < 0) return error_memory(err, STAGE);
  }
  json_object_set_new(reply->body, name, json_integer(blob));
  return ARKE_OK;
}

static arke_status compile(compile_state *s, const json_t *body, arena *a, tune_message *reply,
                           assembled *out, strbuf *recipe_text, arke_error *err) {
  compile_job job;
  TRY(resolve(s, body, a, &job, err));
  lowered code = {0};
  tune_worker_stage("lower");
  double begin = now_ms();
  TRY(lower(s, &job, body, a, &code, err));
  double lowered_at = now_ms();
  tune_worker_stage("assemble");
  arke_error unassembled = ARKE_ERROR_INIT;
  TRY(assemble(s, code.ptx, job.target->name, out, &unassembled, err));
  double assembled_at = now_ms();
  TRY(recipe_print(&code.recipe, recipe_text, err));

  json_t *b = reply->body;
  json_object_set_new(b, "lower_ms", json_real(lowered_at - begin));
  json_object_set_new(b, "assemble_ms", json_real(assembled_at - lowered_at));
  json_object_set_new(b, "ways_left_out", json_integer(code.ways_left_out));
  json_object_set_new(b, "registers", json_integer(out->registers));
  json_object_set_new(b, "spill_bytes", json_integer(out->spill_bytes));
  json_t *log = json_string(out->log);
  if (log) json_object_set_new(b, "log", log);
  if (unassembled.code != ARKE_OK) {
    json_t *why = json_string(unassembled.text);
    json_object_set_new(b, "unassembled", why ? why : json_string("the assembler could not run"));
  }
  TRY(add_blob(reply, "ptx", code.ptx, code.ptx_bytes, err));
  TRY(add_blob(reply, "recipe", strbuf_text(recipe_text), recipe_text->length, err));
  TRY(add_blob(reply, "cubin", out->cubin, out->cubin_bytes, err));
  return add_blob(reply, "llvm_ir", code.llvm_ir, code.llvm_ir ? strlen(code.llvm_ir) : 0, err);
}

static arke_status compile_handle(void *state, tune_message *request, tune_message *reply, arke_error *err) {
  arena a = ARENA_INIT;
  strbuf recipe_text = STRBUF_INIT;
  assembled out = {0};
  arke_status status = compile(state, request->body, &a, reply, &out, &recipe_text, err);
  assembled_free(&out);
  strbuf_free(&recipe_text);
  arena_release(&a);
  return status;
}

const tune_worker_role tune_compile_role = {"compile", compile_open, compile_close, compile_handle};
