/* Faults planted in kernels that the gemm template generates, one line at a time: every schedule, with and
 * without clusters, is broken in each way and must stop with that fault on every seed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "emulator/emulator.h"
#include "tests/templates/gemm_classes.h"
#include "tests/templates/run_lowered.h"

enum { SMS = 2, STREAM_SMS = 4, SEEDS = 3 };
#define BIT(NAME) (1u << EMU_FAULT_##NAME)

/* Finds the line with `after` (NULL: the start), then edits the line with `line` in it, or every such line.
 */
typedef struct plant {
  const char *name;
  const char *after, *line;
  bool every;
  const char *from, *to; /* within the line; from NULL: the whole line */
  unsigned faults;       /* several where the order of events decides what shows first */
} plant;

static const plant plants[] = {
    {"no proxy fence before the tensor store", "stmatrix", "fence.proxy.async", true, NULL, "",
     BIT(PROXY_FENCE)},
    {"no barrier between stmatrix and the tensor store", "stmatrix", "bar.sync", false, NULL, "",
     BIT(RACE) | BIT(UNINITIALISED)},
    {"consumers do not wait for a full stage", "setmaxnreg.inc", "bra wait_", true, NULL, "",
     BIT(IN_FLIGHT) | BIT(UNINITIALISED) | BIT(RACE)},
    {"the producer does not wait for an empty stage", "setmaxnreg.dec", "bra wait_", false, NULL, "",
     BIT(RACE) | BIT(BARRIER)},
    {"a stage is released under its wgmma", NULL, "wgmma.wait_group.sync.aligned 1;", true, "1;", "2;",
     BIT(RACE)},
    {"results are read under their wgmma", NULL, "wgmma.wait_group.sync.aligned 0;", true, NULL, "",
     BIT(WGMMA_REGISTER)},
    {"no wgmma.fence", NULL, "wgmma.fence", true, NULL, "", BIT(WGMMA_FENCE)},
    {"the epilogue's buffer is reused at once", "stmatrix", "wait_group.read", true, NULL, "",
     BIT(IN_FLIGHT) | BIT(EXIT)},
    {"ten times the bytes expected", NULL, "mbarrier.arrive.expect_tx", true, ";", "0;", BIT(DEADLOCK)},
    {"a tile is stored that nothing wrote", NULL, "stmatrix", true, NULL, "", BIT(UNINITIALISED)},
    {"memory is touched while the launches before may run", NULL, "griddepcontrol.wait", true, NULL, "",
     BIT(EARLY)},
    {"a tile lands 64 bytes off", NULL, "complete_tx::bytes [%r", false, "],", "+64],", BIT(MISALIGNED)},
    {"a tile lands past the end", NULL, "complete_tx::bytes [%r", false, "],", "+262144],",
     BIT(OUT_OF_BOUNDS)},
    {"stages are never released", "setmaxnreg.inc", "mbarrier.arrive", true, NULL, "", BIT(DEADLOCK)},
    {"no stage is ever announced", "setmaxnreg.dec", "mbarrier.arrive.expect_tx", true, NULL, "",
     BIT(DEADLOCK) | BIT(BARRIER)},
    {"one warp leaves early", "setmaxnreg.inc", "wgmma.fence", false, NULL,
     ".reg .pred gone; .reg .b32 id;\nmov.u32 id, %tid.x; and.b32 id, id, 96; setp.eq.u32 gone, id, "
     "32;\n@gone exit;\n"
     "wgmma.fence.sync.aligned;",
     BIT(DEADLOCK) | BIT(EXIT)},
};

/* Copies the text, with the plant in it. */
static char *apply(const char *text, const plant *p) {
  strbuf out = STRBUF_INIT;
  const char *at = p->after == NULL ? text : strstr(text, p->after);
  ck_assert_msg(at != NULL, "%s: no \"%s\"", p->name, p->after);
  strbuf_add_bytes(&out, text, (size_t)(at - text));
  int edits = 0;
  while (*at != '\0') {
    size_t n = strcspn(at, "\n"), step = at[n] == '\n' ? n + 1 : n;
    char *line = strndup(at, n);
    ck_assert(line != NULL);
    bool here = (edits == 0 || p->every) && strstr(line, p->line) != NULL;
    char *part = here && p->from != NULL ? strstr(line, p->from) : NULL;
    if (here) edits++;
    if (!here)
      strbuf_add(&out, line);
    else if (p->from == NULL)
      strbuf_add(&out, p->to);
    else {
      ck_assert_msg(part != NULL, "%s: no \"%s\" in \"%s\"", p->name, p->from, line);
      strbuf_addf(&out, "%.*s%s%s", (int)(part - line), line, p->to, part + strlen(p->from));
    }
    strbuf_add(&out, "\n");
    free(line);
    at += step;
  }
  ck_assert_msg(edits > 0, "%s: no \"%s\"", p->name, p->line);
  ck_assert(!strbuf_failed(&out));
  return strbuf_take(&out);
}

/* Warp-specialised classes by schedule, cluster and depth of K. */
static const gemm_class classes[] = {
    {GEMM_NN, "bf16", "BLOCK_M=128,CONSUMERS=2"},
    {GEMM_NT, "f16", "BLOCK_M=128,CONSUMERS=2,BLOCK_N=96,BLOCK_K=128,STAGES=2"},
    {GEMM_NN, "bf16", "SCHEDULE=1,CONSUMERS=2,BLOCK_M=128"},
    {GEMM_NT, "bf16", "CLUSTER_M=2,BLOCK_M=128,CONSUMERS=2"},
    {GEMM_NN, "bf16", "CLUSTER_N=2,SCHEDULE=1,CONSUMERS=2"},
    {GEMM_NN, "bf16", "STREAM_K=1,BLOCK_M=128,CONSUMERS=2"},
};

/* And of STREAM_K, whose CTAs leave sums to one another. */
static const gemm_class stream_class = {GEMM_NT, "bf16", "STREAM_K=1,SCHEDULE=2,BLOCK_M=128,CONSUMERS=2"};
static const plant stream_plants[] = {
    {"flags are not cleared", ".entry gemm_clear_flags", "st.global", false, NULL, "", BIT(UNINITIALISED)},
    {"flags are cleared too early", ".entry gemm_clear_flags", "griddepcontrol.wait", false, NULL, "",
     BIT(EARLY)},
    {"CTAs do not wait for the sums of others", ".entry gemm_clear_flags", "st.global", false, ", 0;", ", 1;",
     BIT(UNINITIALISED)},
    {"sums are announced and not left", NULL, "st.global.v4", true, NULL, "", BIT(UNINITIALISED)},
    {"sums are added before they have arrived", "st.release", "bra wait_", false, NULL, "",
     BIT(IN_FLIGHT) | BIT(UNINITIALISED) | BIT(RACE) | BIT(DEADLOCK)},
};

static run_outcome run(const gemm_setup *s, const lowered *l, const char *ptx, int sm_count, uint64_t seed,
                       emu_report *report) {
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  lowered with = *l;
  with.ptx = ptx;
  with.ptx_bytes = strlen(ptx);
  ck_assert_msg(device_open_emulator(s->t->name, seed, &d, &err) == ARKE_OK, "%s", err.text);
  emu_set_sm_count(d, sm_count);
  run_outcome o = run_lowered(d, &s->p, &with, sm_count, 0, seed, 200);
  *report = *emu_last_report(d);
  d->ops->close(d);
  return o;
}

START_TEST(an_unknown_instruction_is_named) {
  static const plant unknown = {
      .name = "unknown", .line = "wgmma.fence.sync", .every = true, .from = "fence", .to = "fance"};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  lowered l;
  emu_report report;
  gemm_setup s = gemm_class_bind(&a, &classes[0], 256, 256, 256);
  ck_assert_msg(s.gemm->lower(&s.p, s.t, &s.c, NULL, &a, &l, &err) == ARKE_OK, "%s", err.text);
  char *bad = apply(l.ptx, &unknown);
  run_outcome o = run(&s, &l, bad, SMS, 0, &report);
  ck_assert_int_ne(o.status, ARKE_OK);
  ck_assert_ptr_nonnull(strstr(o.err.text, "wgmma.fance"));
  free(bad);
  arena_release(&a);
}
END_TEST

static const char *fault_of(const plant *p, const run_outcome *o, const emu_report *report) {
  if (o->status == ARKE_OK) return NULL;
  bool expected = o->status == ARKE_ERR_FAULT && (p->faults >> report->fault & 1) != 0;
  ck_assert_msg(expected, "%s: %s", p->name, o->status == ARKE_ERR_FAULT ? report->text : o->err.text);
  return report->text;
}

/* The sound kernel passes, and each plant is found in `found` of SEEDS orders of events at least. */
static void expect_found(const gemm_class *class, int sm_count, const plant *list, size_t n, int found) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  lowered l;
  emu_report report;
  gemm_setup s = gemm_class_bind(&a, class, 4096, 4096, 4096);
  s.gemm->reduced_problem(&s.p, s.t, &s.c, sm_count, &s.p);
  ck_assert_msg(s.gemm->lower(&s.p, s.t, &s.c, NULL, &a, &l, &err) == ARKE_OK, "%s", err.text);
  run_outcome o = run(&s, &l, l.ptx, sm_count, 0, &report);
  ck_assert_msg(o.status == ARKE_OK && o.wrong == 0, "%s", o.err.text);
  for (size_t i = 0; i < n; i++) {
    char *bad = apply(l.ptx, &list[i]);
    int times = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      o = run(&s, &l, bad, sm_count, seed, &report);
      times += fault_of(&list[i], &o, &report) != NULL;
    }
    ck_assert_msg(times >= found, "%s, %s: found in %d of %d orders", class->config, list[i].name, times,
                  SEEDS);
    free(bad);
  }
  arena_release(&a);
}

START_TEST(planted_faults_stop_generated_kernels) {
  expect_found(&classes[_i], SMS, plants, COUNT_OF(plants), SEEDS);
}
END_TEST

/* Which CTA runs first is drawn: what one leaves to another is there by chance in some orders. */
START_TEST(planted_faults_between_ctas_are_found) {
  expect_found(&stream_class, STREAM_SMS, stream_plants, COUNT_OF(stream_plants), 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("planted faults");
  TCase *c = tcase_create("gemm");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, planted_faults_stop_generated_kernels, 0, (int)COUNT_OF(classes));
  tcase_add_test(c, planted_faults_between_ctas_are_found);
  tcase_add_test(c, an_unknown_instruction_is_named);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
