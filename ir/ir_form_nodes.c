/* Nodes of a form: equal ones are one (hash-consing), each with its free loops and type. */
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir_form_build.h"
#include "ir/ir_functions.h"

enum { FIRST_BUCKETS = 256 };

bool form_builder_init(form_builder *b, const ir_problem *p, arena *a, ir_form *form, arke_error *err) {
  *form = (ir_form){.problem = p, .min_bytes = ir_min_bytes(p)};
  *b = (form_builder){.p = p, .a = a, .form = form, .err = err, .leading = -1};
  size_t n_tensors = (size_t)p->op->n_tensors;
  b->buckets = ARENA_NEW_N(a, form_node *, FIRST_BUCKETS);
  b->n_buckets = FIRST_BUCKETS;
  b->depends = ARENA_NEW_N(a, unsigned, n_tensors);
  b->depends_known = ARENA_NEW_N(a, bool, n_tensors);
  form->accesses = ARENA_NEW_N(a, ir_access, FORM_MOST_ACCESSES);
  form->outputs = ARENA_NEW_N(a, ir_form_output, (size_t)p->op->n_definitions);
  if (b->buckets != NULL && b->depends != NULL && b->depends_known != NULL && form->accesses != NULL &&
      form->outputs != NULL)
    return true;
  form_fail_memory(b);
  return false;
}

const ir_expr *form_fail(form_builder *b, arke_status status, const char *format, ...) {
  if (b->status != ARKE_OK) return NULL;
  va_list args;
  va_start(args, format);
  b->status = error_vset(b->err, status, "form", format, args);
  va_end(args);
  return NULL;
}

const ir_expr *form_fail_memory(form_builder *b) {
  if (b->status == ARKE_OK) b->status = error_memory(b->err, "form");
  return NULL;
}

/* --- hash-consing --- */

static size_t mix(size_t hash, uint64_t value) {
  uint64_t h = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return (size_t)(h ^ h >> 29);
}

static size_t hash_of(const ir_expr *e) {
  uint64_t number;
  memcpy(&number, &e->number, sizeof number);
  size_t hash = mix(mix(mix(mix(7, (uint64_t)e->node), (uint64_t)e->id), (uint64_t)e->index), number);
  hash = mix(hash, (uint64_t)e->integer);
  for (int i = 0; i < e->n_args; i++) hash = mix(hash, (uint64_t)(uintptr_t)e->args[i]);
  return hash;
}

static bool is_same(const ir_expr *x, const ir_expr *y) {
  if (x->node != y->node || x->id != y->id || x->index != y->index || x->n_args != y->n_args ||
      x->integer != y->integer || memcmp(&x->number, &y->number, sizeof x->number) != 0)
    return false;
  for (int i = 0; i < x->n_args; i++)
    if (x->args[i] != y->args[i]) return false;
  return true;
}

/* Failing to grow is no failure: buckets only get longer. */
static void grow(form_builder *b) {
  size_t n = 4 * b->n_buckets;
  form_node **buckets = ARENA_NEW_N(b->a, form_node *, n);
  if (buckets == NULL) return;
  for (size_t i = 0; i < b->n_buckets; i++)
    for (form_node *node = b->buckets[i], *next; node != NULL; node = next) {
      next = node->next;
      form_node **bucket = &buckets[hash_of(&node->e) % n];
      node->next = *bucket;
      *bucket = node;
    }
  b->buckets = buckets;
  b->n_buckets = n;
}

static unsigned free_loops(const form_builder *b, const ir_expr *e) {
  if (e->node == IR_INDEX) return 1u << e->id;
  unsigned free = 0;
  for (int i = 0; i < e->n_args; i++) free |= form_of(e->args[i])->free;
  if (e->node == IR_REDUCE) return free & ~(1u << e->index);
  if (e->node != IR_READ || e->id < 0) return free;
  const ir_access *access = &b->form->accesses[e->id];
  for (int i = 0; i < access->n; i++) free |= form_of(access->subscripts[i].e)->free;
  return access->other == NULL ? free : free | form_of(access->other)->free;
}

/* Type variables are bound here, so a node's type is a level and nothing more. */
static ir_level level_of(const form_builder *b, const ir_expr *e) {
  if (e->node == IR_READ) {
    if (e->id < 0) return LEVEL_WEAK;
    const ir_access *access = &b->form->accesses[e->id];
    ir_level l = ir_level_of(ir_tensor_dtype(b->p, access->tensor));
    return access->other != NULL && form_of(access->other)->level > l ? form_of(access->other)->level : l;
  }
  ir_kind args[LIMIT_RANK + 1];
  for (int i = 0; i < e->n_args; i++) args[i] = (ir_kind){form_of(e->args[i])->level, 0};
  return ir_node_kind(b->p->op, e, args).least;
}

const ir_expr *form_intern(form_builder *b, const ir_expr *key) {
  if (b->status != ARKE_OK) return NULL;
  for (int i = 0; i < key->n_args; i++)
    if (key->args[i] == NULL) return NULL;
  if ((size_t)b->n_nodes > 2 * b->n_buckets) grow(b);
  form_node **bucket = &b->buckets[hash_of(key) % b->n_buckets];
  for (form_node *n = *bucket; n != NULL; n = n->next)
    if (is_same(&n->e, key)) return &n->e;
  if (b->n_nodes == FORM_MOST_NODES)
    return form_fail(b, ARKE_ERR_UNSUPPORTED, "more than %d different expressions", FORM_MOST_NODES);
  form_node *n = ARENA_NEW(b->a, form_node);
  ir_expr **args = key->n_args == 0 ? NULL : ARENA_NEW_N(b->a, ir_expr *, (size_t)key->n_args);
  if (n == NULL || (key->n_args > 0 && args == NULL)) return form_fail_memory(b);
  *n = (form_node){.e = *key, .free = free_loops(b, key), .number = -1, .level = level_of(b, key)};
  n->e.args = args;
  n->e.depth = 1;
  for (int i = 0; i < key->n_args; i++) {
    args[i] = key->args[i];
    if (args[i]->depth >= n->e.depth) n->e.depth = args[i]->depth + 1;
  }
  n->next = *bucket;
  *bucket = n;
  b->n_nodes++;
  return &n->e;
}

/* --- shorthands --- */

const ir_expr *form_int(form_builder *b, int64_t value) {
  return form_intern(b, &(ir_expr){.node = IR_INT, .integer = value});
}

const ir_expr *form_index(form_builder *b, int loop) {
  return form_intern(b, &(ir_expr){.node = IR_INDEX, .id = loop});
}

const ir_expr *form_operator(form_builder *b, ir_operator o, const ir_expr *x, const ir_expr *y) {
  ir_expr *args[2] = {(ir_expr *)x, (ir_expr *)y};
  return form_intern(b, &(ir_expr){.node = IR_OPERATOR, .id = (int)o, .n_args = y == NULL ? 1 : 2, args});
}

const ir_expr *form_select(form_builder *b, const ir_expr *c, const ir_expr *x, const ir_expr *y) {
  ir_expr *args[3] = {(ir_expr *)c, (ir_expr *)x, (ir_expr *)y};
  return form_intern(b, &(ir_expr){.node = IR_OPERATOR, .id = IR_OP_SELECT, .n_args = 3, .args = args});
}

const ir_expr *form_bool(form_builder *b, bool value) {
  return form_operator(b, IR_OP_NOT, form_int(b, !value), NULL);
}

const ir_expr *form_dim(form_builder *b, ir_dim d) {
  if (d.axis < 0) return form_int(b, d.factor);
  const ir_expr *size = form_intern(b, &(ir_expr){.node = IR_SIZE, .id = d.axis});
  if (d.factor != 1) size = form_operator(b, IR_OP_MUL, form_int(b, d.factor), size);
  if (d.by >= 0)
    size = form_operator(b, IR_OP_MUL, size, form_intern(b, &(ir_expr){.node = IR_SIZE, .id = d.by}));
  return d.more == 0 ? size : form_operator(b, IR_OP_ADD, size, form_int(b, d.more));
}

const ir_expr *form_and(form_builder *b, const ir_expr *x, const ir_expr *y) {
  if (x == NULL || y == NULL || x == y) return x == NULL ? y : x;
  return form_operator(b, IR_OP_AND, x, y);
}

static bool is_int(const ir_expr *e, int64_t value) {
  return e->node == IR_INT && e->integer == value;
}

/* e as base + constant; e itself + 0 where it is no such sum. */
static const ir_expr *base_of(const ir_expr *e, int64_t *constant) {
  *constant = 0;
  bool sum = e->node == IR_OPERATOR && (e->id == IR_OP_ADD || e->id == IR_OP_SUB) && e->n_args == 2;
  if (!sum || e->args[1]->node != IR_INT || e->args[1]->integer == INT64_MIN) return e;
  *constant = e->id == IR_OP_ADD ? e->args[1]->integer : -e->args[1]->integer;
  return e->args[0];
}

/* x + more: constants gather at the right end of a sum. */
static const ir_expr *fold_sum(form_builder *b, const ir_expr *x, int64_t more) {
  int64_t constant, total;
  const ir_expr *base = base_of(x, &constant);
  if (__builtin_add_overflow(constant, more, &total) || total == INT64_MIN) return NULL;
  if (total == 0) return base;
  if (base->node == IR_INT) return NULL;
  return total > 0 ? form_operator(b, IR_OP_ADD, base, form_int(b, total))
                   : form_operator(b, IR_OP_SUB, base, form_int(b, -total));
}

const ir_expr *form_fold(form_builder *b, const ir_expr *key) {
  if (key->node != IR_OPERATOR || key->n_args != 2 || key->args[0] == NULL || key->args[1] == NULL)
    return form_intern(b, key);
  const ir_expr *x = key->args[0], *y = key->args[1], *folded = NULL;
  int64_t value;
  bool both = x->node == IR_INT && y->node == IR_INT;
  switch ((ir_operator)key->id) {
  case IR_OP_ADD:
    if (both && !__builtin_add_overflow(x->integer, y->integer, &value)) return form_int(b, value);
    if (x->node == IR_INT) folded = fold_sum(b, y, x->integer);
    if (y->node == IR_INT) folded = fold_sum(b, x, y->integer);
    if (folded != NULL) return folded;
    if (form_of(x)->free == 0 && form_of(y)->free != 0) return form_operator(b, IR_OP_ADD, y, x);
    break;
  case IR_OP_SUB:
    if (both && !__builtin_sub_overflow(x->integer, y->integer, &value)) return form_int(b, value);
    if (y->node == IR_INT && y->integer != INT64_MIN) folded = fold_sum(b, x, -y->integer);
    if (folded != NULL) return folded;
    break;
  case IR_OP_MUL:
    if (is_int(y, 1)) return x;
    if (is_int(x, 1)) return y;
    if (both && !__builtin_mul_overflow(x->integer, y->integer, &value)) return form_int(b, value);
    break;
  case IR_OP_DIV:
    if (is_int(y, 1)) return x;
    if (both && y->integer != 0) return form_int(b, ir_floor_div(x->integer, y->integer));
    break;
  case IR_OP_MOD:
    if (both && y->integer != 0) return form_int(b, ir_floor_mod(x->integer, y->integer));
    break;
  default: break;
  }
  return form_intern(b, key);
}

/* --- constants --- */

/* Only values that no conversion between the notation's types changes. */
static bool constant(const form_builder *b, const ir_expr *e, double *v) {
  double x[2] = {0, 0};
  if (e->node == IR_OPERATOR && e->n_args <= 2)
    for (int i = 0; i < e->n_args; i++)
      if (!constant(b, e->args[i], &x[i])) return false;
  switch (e->node) {
  case IR_FLOAT: *v = e->number; return *v == (double)(float)*v;
  case IR_INT: *v = (double)e->integer; return *v == (double)(float)*v;
  case IR_ATTR: *v = b->p->attrs[e->id]; return *v == (double)(float)*v;
  case IR_OPERATOR: break;
  default: return false;
  }
  switch ((ir_operator)e->id) {
  case IR_OP_LT: *v = x[0] < x[1]; return true;
  case IR_OP_LE: *v = x[0] <= x[1]; return true;
  case IR_OP_GT: *v = x[0] > x[1]; return true;
  case IR_OP_GE: *v = x[0] >= x[1]; return true;
  case IR_OP_EQ: *v = x[0] == x[1]; return true;
  case IR_OP_NE: *v = x[0] != x[1]; return true;
  case IR_OP_NOT: *v = x[0] == 0; return true;
  case IR_OP_NEG: *v = -x[0]; return true;
  default: return false;
  }
}

int form_truth(const form_builder *b, const ir_expr *e) {
  double v;
  return constant(b, e, &v) ? v != 0 : -1;
}

/* --- accesses --- */

int form_access(form_builder *b, const ir_access *key) {
  ir_form *form = b->form;
  for (int i = 0; i < form->n_accesses; i++) {
    ir_access *x = &form->accesses[i];
    bool same = x->tensor == key->tensor && x->n == key->n && x->other == key->other;
    for (int s = 0; same && s < key->n; s++)
      same = x->subscripts[s].e == key->subscripts[s].e &&
             x->subscripts[s].first == key->subscripts[s].first &&
             x->subscripts[s].count == key->subscripts[s].count;
    if (!same) continue;
    x->conditional |= key->conditional;
    return i;
  }
  if (form->n_accesses == FORM_MOST_ACCESSES) {
    form_fail(b, ARKE_ERR_UNSUPPORTED, "more than %d different reads and writes", FORM_MOST_ACCESSES);
    return -1;
  }
  form->accesses[form->n_accesses] = *key;
  return form->n_accesses++;
}

/* --- walking --- */

bool form_walk(const ir_form *form, const ir_expr *e, uint64_t *seen,
               bool (*visit)(void *user, const ir_expr *e), void *user) {
  int number = form_of(e)->number;
  if (number >= 0 && (seen[number / 64] >> (number % 64) & 1)) return true;
  for (int i = 0; i < e->n_args; i++)
    if (!form_walk(form, e->args[i], seen, visit, user)) return false;
  if (e->node == IR_READ) {
    const ir_access *access = &form->accesses[e->id];
    for (int i = 0; i < access->n; i++)
      if (!form_walk(form, access->subscripts[i].e, seen, visit, user)) return false;
    if (access->other != NULL && !form_walk(form, access->other, seen, visit, user)) return false;
  }
  if (number >= 0) seen[number / 64] |= 1ull << (number % 64);
  return visit(user, e);
}

static void number_nodes(ir_form *form, const ir_expr *e) {
  form_node *n = (form_node *)e;
  if (n->number >= 0) return;
  for (int i = 0; i < e->n_args; i++) number_nodes(form, e->args[i]);
  if (e->node == IR_READ) {
    const ir_access *access = &form->accesses[e->id];
    for (int i = 0; i < access->n; i++) number_nodes(form, access->subscripts[i].e);
    if (access->other != NULL) number_nodes(form, access->other);
  }
  n->number = form->n_nodes++;
}

void form_number_nodes(form_builder *b) {
  ir_form *form = b->form;
  for (int i = 0; i < form->n_accesses; i++)
    for (int s = 0; s < form->accesses[i].n; s++) number_nodes(form, form->accesses[i].subscripts[s].e);
  for (int i = 0; i < form->n_outputs; i++) number_nodes(form, form->outputs[i].value);
  for (int i = 0; i < form->n_accesses; i++) /* of accesses that no value reads */
    if (form->accesses[i].other != NULL) number_nodes(form, form->accesses[i].other);
}
