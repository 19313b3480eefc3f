/* Random expression trees: printing and parsing one gives the same tree, and the same text again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"

/* Every dimension is N, so that any index may stand anywhere. */
static const char FRAME[] =
    "f(X: T[N,N], V: f32[N], P: i64[N], s: f32[]) -> (Y: f32[N,N]) a: int = 2, b: float = 0.5 "
    "{ Y[i,j] = V[i] }";
enum { X, V, P, S, MOST_INDICES = 64 };

typedef struct maker {
  arena *a;
  uint64_t seed, counter;
  ir_index indices[MOST_INDICES];
  int n_indices;
  int visible[MOST_INDICES], n_visible;
} maker;

static int pick(maker *m, int n) {
  return (int)(random_u64(m->seed, m->counter++) % (uint64_t)n);
}

static ir_expr *node(maker *m, ir_node kind, int id, int n_args) {
  ir_expr *e = ARENA_NEW(m->a, ir_expr);
  ck_assert_ptr_nonnull(e);
  e->node = kind;
  e->id = id;
  e->n_args = n_args;
  e->args = ARENA_NEW_N(m->a, ir_expr *, (size_t)n_args);
  ck_assert_ptr_nonnull(e->args);
  return e;
}

static ir_expr *integer(maker *m, int depth);
static ir_expr *any(maker *m, int depth);

static ir_expr *index_or_number(maker *m) {
  switch (pick(m, 4)) {
  case 0: {
    ir_expr *e = node(m, IR_INT, 0, 0);
    e->integer = pick(m, 2) ? pick(m, 10) : INT64_MAX - pick(m, 10);
    return e;
  }
  case 1: return node(m, IR_SIZE, 0, 0);
  case 2: return node(m, IR_ATTR, 0, 0);
  default: return node(m, IR_INDEX, m->visible[pick(m, m->n_visible)], 0);
  }
}

static ir_expr *arithmetic(maker *m, int depth, ir_expr *(*operand)(maker *, int)) {
  static const ir_operator OPERATORS[] = {IR_OP_ADD, IR_OP_SUB, IR_OP_MUL, IR_OP_DIV, IR_OP_MOD, IR_OP_NEG};
  ir_operator o = OPERATORS[pick(m, 6)];
  ir_expr *e = node(m, IR_OPERATOR, (int)o, o == IR_OP_NEG ? 1 : 2);
  for (int i = 0; i < e->n_args; i++) e->args[i] = operand(m, depth - 1);
  return e;
}

static ir_expr *read(maker *m, int tensor, int depth) {
  static const int RANKS[] = {[X] = 2, [V] = 1, [P] = 1, [S] = 0};
  int rank = RANKS[tensor];
  bool has_else = rank > 0 && pick(m, 3) == 0;
  ir_expr *e = node(m, IR_READ, tensor, rank + has_else);
  e->has_else = has_else;
  for (int i = 0; i < rank; i++) e->args[i] = integer(m, depth - 1);
  if (has_else) e->args[rank] = tensor == P ? integer(m, depth - 1) : any(m, depth - 1);
  return e;
}

static ir_expr *integer(maker *m, int depth) {
  if (depth <= 0) return index_or_number(m);
  switch (pick(m, 4)) {
  case 0: return arithmetic(m, depth, integer);
  case 1: return read(m, P, depth);
  default: return index_or_number(m);
  }
}

/* V[k] * body, whose read of V bounds the new index whatever the body is. */
static ir_expr *reduce(maker *m, int depth) {
  if (m->n_indices == MOST_INDICES) return index_or_number(m);
  ir_expr *e = node(m, IR_REDUCE, pick(m, IR_RED_COUNT), 1 + pick(m, 2));
  e->index = m->n_indices++;
  char *name = arena_printf(m->a, "k%d", e->index);
  ck_assert_ptr_nonnull(name);
  m->indices[e->index] = (ir_index){.name = name, .reduced = true};
  m->visible[m->n_visible++] = e->index;
  ir_expr *bounding = node(m, IR_READ, V, 1), *index = node(m, IR_INDEX, e->index, 0);
  bounding->args[0] = index;
  e->args[0] = node(m, IR_OPERATOR, pick(m, 2) ? IR_OP_MUL : IR_OP_SUB, 2);
  bool first = pick(m, 2) == 0;
  e->args[0]->args[first ? 0 : 1] = bounding;
  e->args[0]->args[first ? 1 : 0] = any(m, depth - 1);
  if (e->n_args == 2) e->args[1] = any(m, depth - 1);
  m->n_visible--;
  return e;
}

static ir_expr *any(maker *m, int depth) {
  if (depth <= 0) {
    if (pick(m, 3) > 0) return index_or_number(m);
    ir_expr *e = node(m, pick(m, 2) ? IR_FLOAT : IR_ATTR, 1, 0);
    if (e->node == IR_FLOAT) e->id = 0, e->number = random_uniform(m->seed, m->counter++) * 1e3;
    return e;
  }
  switch (pick(m, 7)) {
  case 0: return arithmetic(m, depth, any);
  case 1: return read(m, pick(m, 4), depth);
  case 2: return reduce(m, depth);
  case 3: {
    static const ir_function FUNCTIONS[] = {IR_FN_EXP, IR_FN_GELU, IR_FN_SIGN,
                                            IR_FN_POW, IR_FN_MAX,  IR_FN_WHERE};
    static const int ARITIES[] = {1, 1, 1, 2, 2, 3};
    int f = pick(m, 6);
    ir_expr *e = node(m, IR_CALL, (int)FUNCTIONS[f], ARITIES[f]);
    for (int i = 0; i < e->n_args; i++) e->args[i] = any(m, depth - 1);
    return e;
  }
  case 4: {
    static const int TYPES[] = {DTYPE_BF16, DTYPE_I8, -1};
    ir_expr *e = node(m, IR_CAST, TYPES[pick(m, 3)], 1);
    e->args[0] = any(m, depth - 1);
    return e;
  }
  default: {
    static const ir_operator OPERATORS[] = {IR_OP_LT, IR_OP_LE,  IR_OP_GT, IR_OP_GE,  IR_OP_EQ,
                                            IR_OP_NE, IR_OP_AND, IR_OP_OR, IR_OP_NOT, IR_OP_SELECT};
    ir_operator o = OPERATORS[pick(m, 10)];
    ir_expr *e = node(m, IR_OPERATOR, (int)o, o == IR_OP_NOT ? 1 : o == IR_OP_SELECT ? 3 : 2);
    for (int i = 0; i < e->n_args; i++) e->args[i] = any(m, depth - 1);
    return e;
  }
  }
}

static bool same(const ir_expr *a, const ir_index *in_a, const ir_expr *b, const ir_index *in_b) {
  if (a->node != b->node || a->n_args != b->n_args || a->has_else != b->has_else) return false;
  if (a->node == IR_INDEX) return strcmp(in_a[a->id].name, in_b[b->id].name) == 0;
  if (a->node == IR_INT) return a->integer == b->integer;
  if (a->node == IR_FLOAT) return a->number == b->number;
  if (a->id != b->id) return false;
  if (a->node == IR_REDUCE && strcmp(in_a[a->index].name, in_b[b->index].name) != 0) return false;
  for (int i = 0; i < a->n_args; i++)
    if (!same(a->args[i], in_a, b->args[i], in_b)) return false;
  return true;
}

START_TEST(round_trip) {
  for (uint64_t seed = (uint64_t)_i * 250; seed < (uint64_t)(_i + 1) * 250; seed++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *frame, *parsed;
    ck_assert_msg(ir_op_parse(&a, FRAME, &frame, &err) == ARKE_OK, "%s", err.text);
    maker m = {.a = &a, .seed = seed, .n_indices = 2, .n_visible = 2, .visible = {0, 1}};
    m.indices[0] = frame->definitions[0].indices[0];
    m.indices[1] = frame->definitions[0].indices[1];
    ir_definition d = frame->definitions[0];
    d.value = any(&m, 1 + pick(&m, 6));
    d.indices = m.indices;
    d.n_indices = m.n_indices;
    ir_op op = *frame;
    op.definitions = &d;
    strbuf text = STRBUF_INIT, again = STRBUF_INIT;
    ir_op_print(&op, &text);
    ck_assert_msg(ir_op_parse(&a, strbuf_text(&text), &parsed, &err) == ARKE_OK, "seed %llu: %s\n%s",
                  (unsigned long long)seed, err.text, strbuf_text(&text));
    const ir_definition *p = &parsed->definitions[0];
    ck_assert_msg(same(d.value, d.indices, p->value, p->indices), "seed %llu: another tree: %s",
                  (unsigned long long)seed, strbuf_text(&text));
    ir_op_print(parsed, &again);
    ck_assert_str_eq(strbuf_text(&again), strbuf_text(&text));
    strbuf_free(&text);
    strbuf_free(&again);
    arena_release(&a);
  }
}
END_TEST

/* Any pair of parentheses taken away changes the tree (or the text no longer parses). */
START_TEST(parentheses_are_needed) {
  int removed = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *frame, *parsed;
    ck_assert_int_eq(ir_op_parse(&a, FRAME, &frame, &err), ARKE_OK);
    maker m = {.a = &a, .seed = seed, .n_indices = 2, .n_visible = 2, .visible = {0, 1}};
    m.indices[0] = frame->definitions[0].indices[0];
    m.indices[1] = frame->definitions[0].indices[1];
    ir_definition d = frame->definitions[0];
    d.value = any(&m, 4);
    d.indices = m.indices;
    d.n_indices = m.n_indices;
    ir_op op = *frame;
    op.definitions = &d;
    strbuf text = STRBUF_INIT;
    ir_op_print(&op, &text);
    char *copy = strdup(strbuf_text(&text));
    ck_assert_ptr_nonnull(copy);
    char *open = strstr(copy, "Y[i,j] =");
    for (open = strchr(open, '('); open != NULL; open = strchr(open + 1, '(')) {
      bool grouping = strchr(" (!-[,", open[-1]) != NULL || (open[-1] == ')' && open[-2] == ' ');
      int depth = 0;
      char *close = open;
      do depth += *close == '(' ? 1 : *close == ')' ? -1 : 0;
      while (depth > 0 && *++close != '\0');
      if (!grouping || *close == '\0') continue;
      *open = *close = ' ';
      removed++;
      arke_error ignored = ARKE_ERROR_INIT;
      if (ir_op_parse(&a, copy, &parsed, &ignored) == ARKE_OK)
        ck_assert_msg(!same(d.value, d.indices, parsed->definitions[0].value, parsed->definitions[0].indices),
                      "needless parentheses at %ld: %s", (long)(open - copy), strbuf_text(&text));
      *open = '(';
      *close = ')';
    }
    free(copy);
    strbuf_free(&text);
    arena_release(&a);
  }
  ck_assert_int_gt(removed, 100);
}
END_TEST

Suite *notation_random_suite(void) {
  Suite *s = suite_create("notation random");
  TCase *t = tcase_create("trees");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, round_trip, 0, 8);
  tcase_add_test(t, parentheses_are_needed);
  suite_add_tcase(s, t);
  return s;
}
