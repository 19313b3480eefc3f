/* --check-indices where keys lie in pages: a table that names pages outside of the pool, inside of a
 * request's length, reads zeros for them and nothing outside; so do gathers and writes of caches. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "template_cases.h"

/* The operator where `what` is replaced throughout. */
static const char *replaced(arena *a, const char *text, const char *what, const char *by) {
  strbuf out = STRBUF_INIT;
  for (const char *at; (at = strstr(text, what)) != NULL; text = at + strlen(what)) {
    strbuf_add_bytes(&out, text, (size_t)(at - text));
    strbuf_add(&out, by);
  }
  strbuf_add(&out, text);
  const char *kept = arena_strdup(a, strbuf_text(&out));
  strbuf_free(&out);
  return kept;
}

static const double table[] = {2, 1000000, -1, 0, 3, 1}, lens[] = {40, 48}, offsets[] = {0, 3, 7},
                    starts[] = {5, 0};

static const struct {
  const char *k, *op, *bindings, *what, *by;
} CASES[] = {
    {"attention", "paged_attention", "T=f16 B=2 S=3 H=4 G=2 D=64 E=64 P=4 Z=16 W=3", "% Z,h / (H / G),d]",
     "% Z,h / (H / G),d] else 0"},
    {"attend", "paged_attention", "T=f16 B=2 S=3 H=4 G=2 D=64 E=64 P=4 Z=16 W=3 causal=true",
     "% Z,h / (H / G),d]", "% Z,h / (H / G),d] else 0"},
    {"attention", "paged_varlen_attention", "T=bf16 N=8 H=4 G=2 D=64 E=64 P=4 Z=16 B=2 W=3",
     "% Z,h / (H / G),d]", "% Z,h / (H / G),d] else 0"},
    {"attend", "paged_varlen_attention", "T=bf16 N=8 H=4 G=2 D=64 E=64 P=4 Z=16 B=2 W=3 causal=true",
     "% Z,h / (H / G),d]", "% Z,h / (H / G),d] else 0"},
    {"attend", "paged_latent_attention", "T=bf16 B=2 S=1 H=4 C=64 E=32 P=4 Z=16 W=3", "% Z,c]",
     "% Z,c] else 0"},
    {"map", "cache_gather", "T=f16 U=f16 N=7 P=4 Z=2 D=24 B=2 W=3", "% Z,d]", "% Z,d] else 0"},
};

START_TEST(pages_outside_are_zeros) {
  const char *text = ir_catalogue_find(CASES[_i].op, NULL)->text;
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  template_case c = template_case_bind(&a, template_find(CASES[_i].k), text, CASES[_i].bindings, "");
  const ir_op *op;
  ir_problem reference;
  const char *meant = replaced(&a, text, CASES[_i].what, CASES[_i].by);
  meant = replaced(&a, meant, "% Z,h / (H / G),e]", "% Z,h / (H / G),e] else 0");
  meant = replaced(&a, meant, "Kr[table[b,k / Z],k % Z,e]", "Kr[table[b,k / Z],k % Z,e] else 0");
  ck_assert_msg(ir_op_parse(&a, meant, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, CASES[_i].bindings, &reference, &err) == ARKE_OK, "%s", err.text);
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < c.p.op->n_inputs; i++) {
    const char *name = c.p.op->tensors[i].name;
    if (strcmp(name, "table") == 0) views[i] = (run_view){.values = table, .n_values = 6};
    if (strcmp(name, "lens") == 0) views[i] = (run_view){.values = lens, .n_values = 2};
    if (strcmp(name, "starts") == 0) views[i] = (run_view){.values = starts, .n_values = 2};
    if (strncmp(name, "cu", 2) == 0) views[i] = (run_view){.values = offsets, .n_values = 3};
  }
  lower_options options = {.check_indices = true};
  lowered l;
  device *d;
  ck_assert_msg(c.k->lower(&c.p, c.t, &c.c, &options, &a, &l, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(device_open_emulator(c.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views_against(d, &c.p, &reference, &l, 2, views, 7, 0);
  ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact, "%s%s", r.err.text, r.first);
  ck_assert_int_gt(r.elements, 100);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("checked pages");
  tcase_add_loop_test(tests, pages_outside_are_zeros, 0, (int)COUNT_OF(CASES));
  return template_tests_run("checked pages", tests);
}
