/* Reconvergence points of hand-drawn control flow, and of random graphs against a slow definition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

/* Each instruction is one line `pmevent N;` with N its own index; branches count too. `expected` lists branch
 * index : meeting point, with n for the end. */
static const struct {
  const char *name, *body, *expected;
} SHAPES[] = {
    {"if without else", "@%p bra J; pmevent 1; J: pmevent 2;", "0:2"},
    {"if and else", "@%p bra E; pmevent 1; bra J; E: pmevent 3; J: pmevent 4;", "0:4 2:4"},
    {"loop", "pmevent 0; L: pmevent 1; @%p bra L; pmevent 3;", "2:3"},
    {"loop with a break", "L: pmevent 0; @%p bra B; pmevent 2; @%q bra L; B: pmevent 4;", "1:4 3:4"},
    {"spin", "L: @%p bra L; pmevent 1;", "0:1"},
    {"nested ifs", "@%p bra J; pmevent 1; @%q bra I; pmevent 3; I: pmevent 4; J: pmevent 5;", "0:5 2:4"},
    {"both sides leave", "@%p bra E; pmevent 1; ret; E: pmevent 3; ret;", "0:n"},
    {"early return in one side", "@%p bra E; pmevent 1; ret; E: pmevent 3; pmevent 4;", "0:n"},
    {"guarded return on one side", "@%p bra J; pmevent 1; @%q ret; pmevent 3; J: pmevent 4;", "0:4"},
    {"a side that may return before the join",
     "@%p bra J; @%q bra OUT; pmevent 2; J: pmevent 3; ret; OUT: ret;", "0:3 1:n"},
    {"return inside nested ifs",
     "@%p bra J; @%q bra OUT; pmevent 2; bra J; OUT: pmevent 4; ret; J: pmevent 6;", "0:6 1:n 3:6"},
    {"trap on one side", "@%p bra T; pmevent 1; J: pmevent 2; ret; T: trap;", "0:1"},
    {"infinite loop", "L: pmevent 0; bra L;", "1:n"},
    {"infinite loop with an if", "L: pmevent 0; @%p bra J; pmevent 2; J: pmevent 3; bra L;", "1:3 4:n"},
    {"unreachable code", "pmevent 0; bra J; pmevent 2; @%p bra J; pmevent 4; J: pmevent 5;", "1:5 3:5"},
    {"two roles, each with a loop",
     "@%p bra C; P: pmevent 1; @%q bra P; bra J; C: pmevent 4; @%r bra C; J: pmevent 6;", "0:6 2:3 3:6 5:6"},
    {"continue", "L: pmevent 0; @%p bra N; pmevent 2; N: pmevent 3; @%q bra L; pmevent 5;", "1:3 4:5"},
    {"jump into the other side",
     "@%p bra B; pmevent 1; @%q bra B2; bra J; B: pmevent 4; B2: pmevent 5; J: pmevent 6;", "0:6 2:6 3:6"},
    {"branch table",
     "T: .branchtargets A, B, J; brx.idx %i, T; A: pmevent 1; bra J; B: pmevent 3; J: pmevent 4;", "0:4 2:4"},
    {"guarded branch table",
     "T: .branchtargets A, J; @%p brx.idx %i, T; pmevent 1; bra J; A: pmevent 3; J: pmevent 4;", "0:4 2:4"},
    {"branch to the next", "@%p bra J; J: pmevent 1;", "0:1"},
    {"exit like ret", "@%p bra J; pmevent 1; @%q exit; J: pmevent 3;", "0:3"},
};

static ptx_module *parse_body(const char *body) {
  strbuf text = STRBUF_INIT;
  ptx_module *m = NULL;
  arke_error err = ARKE_ERROR_INIT;
  strbuf_addf(&text,
              ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() { .reg .pred %%p, %%q, %%r; .reg "
              ".b32 %%i;\n"
              "%s }",
              body);
  arke_status status = ptx_parse(strbuf_text(&text), text.length, &m, &err);
  ck_assert_msg(status == ARKE_OK, "%s: %s", body, err.text);
  strbuf_free(&text);
  return m;
}

static void check_shape(int row) {
  ptx_module *m = parse_body(SHAPES[row].body);
  const ptx_kernel *k = &m->kernels[0];
  strbuf got = STRBUF_INIT;
  for (uint32_t i = 0; i < k->n_instructions; i++) {
    const ptx_instruction *x = &k->instructions[i];
    if (x->opcode != PTX_BRA && x->opcode != PTX_BRX) continue;
    if (got.length != 0) strbuf_add(&got, " ");
    if (x->reconverge == k->n_instructions)
      strbuf_addf(&got, "%u:n", i);
    else
      strbuf_addf(&got, "%u:%u", i, x->reconverge);
  }
  ck_assert_msg(strcmp(strbuf_text(&got), SHAPES[row].expected) == 0, "%s: %s, expected %s", SHAPES[row].name,
                strbuf_text(&got), SHAPES[row].expected);
  strbuf_free(&got);
  ptx_module_free(m);
}

START_TEST(shapes_meet_where_they_should) {
  for (int row = 0; row < (int)COUNT_OF(SHAPES); row++) check_shape(row);
}
END_TEST

/* Instructions that `from` reaches without passing `avoid`; true if one of them is a ret. */
static bool leaves_without(const ptx_kernel *k, uint32_t from, uint32_t avoid, uint8_t *seen) {
  uint32_t stack[512], depth = 0;
  bool leaves = false;
  memset(seen, 0, k->n_instructions);
  if (from == avoid) return false;
  stack[depth++] = from;
  seen[from] = 1;
  while (depth > 0) {
    const ptx_instruction *i = &k->instructions[stack[--depth]];
    uint32_t at = (uint32_t)(i - k->instructions), to[2], n = 0;
    if (i->opcode == PTX_RET) leaves = true;
    if (i->opcode == PTX_BRA) to[n++] = i->target;
    if (i->opcode != PTX_RET && (i->opcode != PTX_BRA || i->guard != PTX_NOWHERE)) to[n++] = at + 1;
    for (uint32_t s = 0; s < n; s++)
      if (to[s] != avoid && !seen[to[s]]) {
        seen[to[s]] = 1;
        stack[depth++] = to[s];
      }
  }
  return leaves;
}

/* With a single ret, the meeting point is the nearest instruction that no path from the branch to the ret
 * avoids. */
static void check_random_graph(int row) {
  uint64_t state = 41 + (uint64_t)row;
  strbuf body = STRBUF_INIT;
  int n = 5 + (int)(next_random(&state) % 60);
  for (int k = 0; k < n; k++) {
    uint64_t r = next_random(&state);
    strbuf_addf(&body, "L%d: ", k);
    if (r % 3 == 0)
      strbuf_addf(&body, "%sbra L%d;\n", r % 4 == 0 ? "" : "@%p ",
                  (int)(next_random(&state) % (uint64_t)(n + 1)));
    else
      strbuf_addf(&body, "pmevent %d;\n", k);
  }
  strbuf_addf(&body, "L%d: ret;\n", n);
  ptx_module *m = parse_body(strbuf_text(&body));
  const ptx_kernel *k = &m->kernels[0];
  uint8_t seen[512], ignored[512];
  for (uint32_t i = 0; i < k->n_instructions; i++) {
    const ptx_instruction *x = &k->instructions[i];
    if (x->opcode != PTX_BRA || x->guard == PTX_NOWHERE) continue;
    if (!leaves_without(k, i, PTX_NOWHERE, seen)) continue; /* no way out: nothing to meet at */
    uint32_t meet = x->reconverge;
    if (meet == k->n_instructions) ck_abort_msg("line %d never meets\n%s", x->line, strbuf_text(&body));
    bool unavoidable = !leaves_without(k, x->target, meet, seen) && !leaves_without(k, i + 1, meet, seen);
    if (!unavoidable) ck_abort_msg("line %d can avoid %u\n%s", x->line, meet, strbuf_text(&body));
    /* Nothing nearer: every other unavoidable instruction is one that the meeting point cannot avoid either.
     */
    for (uint32_t other = 0; other < k->n_instructions; other++) {
      if (other == meet) continue;
      bool also = !leaves_without(k, x->target, other, seen) && !leaves_without(k, i + 1, other, seen);
      if (also && leaves_without(k, meet, other, ignored))
        ck_abort_msg("line %d meets at %u, but %u is nearer\n%s", x->line, meet, other, strbuf_text(&body));
    }
  }
  strbuf_free(&body);
  ptx_module_free(m);
}

START_TEST(random_graphs_meet_at_the_post_dominator) {
  for (int row = 0; row < 40; row++) check_random_graph(row);
}
END_TEST

/* A hundred thousand instructions, half of them branches: the analysis must stay near linear. */
START_TEST(long_kernels_are_analysed_quickly) {
  strbuf body = STRBUF_INIT;
  enum { BLOCKS = 50000 };
  for (int k = 0; k < BLOCKS; k++)
    strbuf_addf(&body, "L%d: pmevent 1;\n@%%p bra L%d;\n", k, k % 2 == 0 ? BLOCKS : k / 2);
  strbuf_addf(&body, "L%d: ret;\n", BLOCKS);
  ptx_module *m = parse_body(strbuf_text(&body));
  ck_assert_uint_eq(m->kernels[0].n_instructions, 2 * BLOCKS + 1);
  ptx_module_free(m);
  strbuf_free(&body);
}
END_TEST

Suite *ptx_flow_suite(void) {
  Suite *s = suite_create("ptx_flow");
  TCase *t = tcase_create("reconvergence");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, shapes_meet_where_they_should);
  tcase_add_test(t, random_graphs_meet_at_the_post_dominator);
  tcase_add_test(t, long_kernels_are_analysed_quickly);
  suite_add_tcase(s, t);
  return s;
}
