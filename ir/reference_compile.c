/* Definitions for the evaluator: the indices that are searched, the value, and the levels of its reductions.
 */
#include "ir/reference_compile.h"
#include "ir/ir_types.h"

/* Which left indices the plain subscripts bind; the rest of a scattering definition is searched. */
static bool find_free(ref_compiler *c, ref_definition *d) {
  const ir_definition *def = c->def;
  d->free_slots = ARENA_NEW_N(&c->s->arena, int, (size_t)def->n_indices);
  if (d->free_slots == NULL) return false;
  d->plain = true;
  for (int i = 0; i < def->n_subscripts; i++) {
    if (def->subscripts[i]->node != IR_INDEX) d->plain = false;
    for (int j = 0; j < i; j++)
      if (def->subscripts[i]->node == IR_INDEX && def->subscripts[j]->node == IR_INDEX &&
          def->subscripts[i]->id == def->subscripts[j]->id)
        d->plain = false;
  }
  for (int x = 0; x < def->n_indices; x++) {
    bool bound = def->indices[x].reduced;
    for (int i = 0; i < def->n_subscripts; i++)
      bound = bound || (def->subscripts[i]->node == IR_INDEX && def->subscripts[i]->id == x);
    if (!bound) d->free_slots[d->n_free++] = x;
    if (def->indices[x].ranged) d->range[x] = ir_dim_size(c->s->p, def->indices[x].range);
  }
  return true;
}

/* A cast to what the output is stored as is the store's own rounding, which an element's value is before: a
 * result that lies between two representable ones is then told from one that does not. */
static const ir_expr *before_store(const ref_compiler *c, const ir_definition *def) {
  const ir_problem *p = c->s->p;
  const ir_expr *e = def->value;
  bool stores = def->update == IR_ASSIGN && p->op->tensors[def->tensor].role == IR_OUTPUT;
  while (stores && e->node == IR_CAST && ir_cast_dtype(p, e) == ir_tensor_dtype(p, def->tensor))
    e = e->args[0];
  return e;
}

static bool compile_definition(ref_compiler *c, ref_definition *d) {
  arena *a = &c->s->arena;
  const ir_definition *def = c->def;
  size_t n = (size_t)def->n_indices;
  int scope = c->line >= 0;
  d->source = def;
  d->index = ARENA_NEW_N(a, int64_t, n);
  d->range = ARENA_NEW_N(a, int64_t, n);
  d->subs = ARENA_NEW_N(a, ref_node *, (size_t)def->n_subscripts);
  c->level_of = ARENA_NEW_N(a, int, n);
  if (d->index == NULL || d->range == NULL || d->subs == NULL || c->level_of == NULL || !find_free(c, d))
    return false;
  for (int i = 0; i < def->n_subscripts; i++)
    if ((d->subs[i] = ref_compile_expr(c, def->subscripts[i], 0, true)) == NULL) return false;
  if (scope > 0) c->level_of[c->line] = c->deepest = scope;
  ref_node *value = ref_compile_expr(c, before_store(c, def), scope, false);
  if (value == NULL) return false;
  d->value = value;
  d->levels = ARENA_NEW_N(a, ref_level, (size_t)c->deepest + 1);
  if (d->levels == NULL) return false;
  if (scope > 0 && (d->lanes = ARENA_NEW_N(a, int16_t, REF_LANES)) == NULL) return false;
  for (int i = 1; i <= c->deepest; i++) {
    d->levels[i].k = ARENA_NEW_N(a, int64_t, REF_LANES);
    d->levels[i].dead = ARENA_NEW_N(a, uint8_t, REF_LANES);
    if (d->levels[i].k == NULL || d->levels[i].dead == NULL) return false;
  }
  return true;
}

static bool add_table(ref_machine *s, dtype t) {
  if (ir_level_of(t) < LEVEL_F32 || dtype_bits(t) > 8 || s->tables[t] != NULL) return true;
  int n = 1 << dtype_bits(t);
  s->tables[t] = ARENA_NEW_N(&s->arena, double, (size_t)n);
  if (s->tables[t] == NULL) return false;
  for (int i = 0; i < n; i++) {
    uint8_t byte = (uint8_t)i;
    s->tables[t][i] = dtype_load(t, &byte, 0);
  }
  return true;
}

ref_definition *ref_compile_line(ref_machine *s, const ir_definition *def) {
  ref_compiler c = {.s = s, .def = def, .line = def->subscripts[def->n_subscripts - 1]->id};
  ref_definition *line = ARENA_NEW(&s->arena, ref_definition);
  return line != NULL && compile_definition(&c, line) ? line : NULL;
}

static void note_casts(ref_machine *s) {
  ref_compiler c = {.s = s, .line = -1};
  for (int i = 0; i < s->p->op->n_definitions; i++) {
    const ref_definition *d = &s->definitions[i];
    bool casts = d->source->update != IR_ASSIGN || d->source->tensor2 >= 0 || ref_has_casts(&c, d->value);
    s->casts_in[d->source->tensor] = s->casts_in[d->source->tensor] || casts;
    if (d->source->tensor2 >= 0) s->casts_in[d->source->tensor2] = true;
  }
}

bool ref_compile(ref_machine *s) {
  const ir_op *op = s->p->op;
  for (int i = 0; i < op->n_inputs; i++)
    if (!add_table(s, ir_tensor_dtype(s->p, i))) return false;
  s->definitions = ARENA_NEW_N(&s->arena, ref_definition, (size_t)op->n_definitions);
  if (s->definitions == NULL) return false;
  for (int i = 0; i < op->n_definitions; i++) {
    ref_compiler c = {.s = s, .def = &op->definitions[i], .line = -1};
    if (!compile_definition(&c, &s->definitions[i])) return false;
  }
  note_casts(s);
  return ref_compile_lines(s);
}
