#include "tuner/cli_planted.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/cli_problem.h"

#define STAGE "planted"

const cli_fault_row cli_fault_table[CLI_FAULT_COUNT] = {
#define X(NAME, outcome, meaning) {CACHE_##outcome, meaning},
    CLI_FAULTS(X)
#undef X
};

static const space_param params[] = {{.name = "FAULT",
                                      .meaning = "what is wrong with the kernel; 0 is nothing",
                                      .n_values = CLI_FAULT_COUNT,
                                      .values = {
#define X(NAME, outcome, meaning) CLI_FAULT_##NAME,
                                          CLI_FAULTS(X)
#undef X
                                      }}};
static const space planted_space = {.template_name = "planted", .n_params = 1, .params = params};

static const kernel_template *sound(const target *t) {
  return template_find(cli_products_of(t));
}

static void sound_config(const ir_problem *p, const target *t, config *c) {
  sound(t)->defaults(p, t, c);
}

static template_reason planted_fits(const ir_problem *p, const target *t, strbuf *detail) {
  return sound(t)->fits(p, t, detail);
}

static const space *planted_space_of(const target *t) {
  (void)t;
  return &planted_space;
}

static void planted_defaults(const ir_problem *p, const target *t, config *c) {
  (void)p, (void)t;
  *c = (config){{CLI_FAULT_NONE}};
}

typedef struct planted_prepared {
  const void *sound;
  config inner;
} planted_prepared;

static const void *planted_prepare(const ir_problem *p, const target *t, arena *a) {
  planted_prepared *made = ARENA_NEW(a, planted_prepared);
  if (made == NULL) return NULL;
  sound_config(p, t, &made->inner);
  made->sound = sound(t)->prepare(p, t, a);
  return made->sound == NULL ? NULL : made;
}

/* Faulty ones claim to be faster, so that they are tried. */
static template_reason planted_judge(const void *prepared, const target *t, const target_rates *rates,
                                     const config *c, double *ns) {
  const planted_prepared *made = prepared;
  template_reason reason = sound(t)->judge(made->sound, t, rates, &made->inner, ns);
  if (template_is_built(reason)) *ns /= 1 + c->values[0];
  return reason;
}

static void planted_reduced(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced) {
  (void)c;
  config inner = {{0}};
  sound_config(p, t, &inner);
  sound(t)->reduced_problem(p, t, &inner, sm_count, reduced);
}

/* Instructions that go before the kernel's own. */
static const char *prologue(cli_fault fault) {
  switch (fault) {
  case CLI_FAULT_WRITE:
    return "\t.reg .b64 \t%planted_address;\n\t.reg .b32 \t%planted_value;\n"
           "\tmov.b64 \t%planted_address, 64;\n\tmov.b32 \t%planted_value, 1;\n"
           "\tst.global.b32 \t[%planted_address], %planted_value;\n";
  case CLI_FAULT_HANG: return "planted_loop:\n\tbra.uni \tplanted_loop;\n";
  case CLI_FAULT_WRONG: return "\tret;\n";
  case CLI_FAULT_SYNTAX: return "\tplanted.nonsense \t%r0;\n";
  case CLI_FAULT_NONE:
  case CLI_FAULT_ABORT:
  case CLI_FAULT_COUNT: break;
  }
  return "";
}

/* After the brace that opens the first kernel's body. */
static const char *insert(arena *a, const char *ptx, const char *text) {
  const char *entry = strstr(ptx, ".entry"), *brace = entry == NULL ? NULL : strstr(entry, "\n{");
  if (brace == NULL) return NULL;
  brace += 2;
  return arena_printf(a, "%.*s\n%s%s", (int)(brace - ptx), ptx, text, brace);
}

static arke_status planted_lower(const ir_problem *p, const target *t, const config *c,
                                 const lower_options *options, arena *a, lowered *out, arke_error *err) {
  cli_fault fault = (cli_fault)c->values[0];
  config inner = {{0}};
  sound_config(p, t, &inner);
  if (fault == CLI_FAULT_ABORT)
    abort(); /* runs in a compile worker: what LLVM does when an assertion fails */
  TRY(sound(t)->lower(p, t, &inner, options, a, out, err));
  out->ptx = insert(a, out->ptx, prologue(fault));
  if (out->ptx == NULL)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the sound kernel has no entry to edit");
  out->ptx_bytes = strlen(out->ptx);
  return ARKE_OK;
}

const kernel_template cli_planted_template = {
    .name = "planted",
    .meaning = "kernels that do wrong on purpose",
    .fits = planted_fits,
    .space = planted_space_of,
    .defaults = planted_defaults,
    .prepare = planted_prepare,
    .judge = planted_judge,
    .lower = planted_lower,
    .reduced_problem = planted_reduced,
};

static const kernel_template *const list[] = {&cli_planted_template};
const tune_templates cli_planted_templates = {.count = 1, .list = list};
