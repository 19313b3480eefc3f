/* Heads of queries with the same keys and values, side by side in one tile: where queries are few, or see few
 * keys, a tile of one head would multiply much that nobody sees. */
#include "templates/attention.h"

/* A loop that Q and O have as a plain subscript: what a box can run along. */
static bool is_plain(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  bool plain = false;
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    bool itself = e->node == IR_INDEX && e->id == loop;
    if (!itself && (ir_form_free(form, e) >> loop & 1)) return false;
    plain = plain || itself;
  }
  return plain;
}

/* Heads of a group in this problem. */
static int64_t heads_of(const ir_form *form, const attention_pack *pack) {
  int64_t all = ir_form_extent(form, pack->loop);
  if (!pack->shared) return all;
  int64_t groups = form->problem->sizes[pack->groups.axis];
  return groups > 0 ? all / groups : all;
}

bool attention_pack_make(const attention_match *m, int heads, int spread, attention_pack *pack) {
  int all = heads * spread;
  *pack = (attention_pack){.heads = heads, .spread = spread, .loop = -1};
  if (all == 1) return true;
  attention_packing can = attention_packing_of(m);
  pack->shared = can.shared >= 0;
  pack->loop = can.shared;
  pack->of = can.heads;
  pack->groups = can.groups;
  for (int i = 0; i < m->batch.n && !pack->shared; i++)
    if (can.loops >> m->batch.loops[i] & 1) pack->loop = m->batch.loops[i];
  if (pack->loop < 0 || (attention_bound_loops(m) >> pack->loop & 1)) return false;
  for (int i = 0; i < m->n_parts; i++)
    if (!is_plain(&m->form, m->parts[i].q, pack->loop)) return false;
  if (!is_plain(&m->form, m->o, pack->loop)) return false;
  int64_t each = heads_of(&m->form, pack);
  pack->whole = each % all == 0;
  return all < 2 * each; /* at least half of a pack is there */
}

int attention_along(const attention_plan *p) {
  return p->cluster / p->pack.spread;
}

static int all_heads(const attention_plan *p) {
  return p->pack.heads * p->pack.spread;
}

int64_t attention_units(const attention_plan *p, int loop) {
  const ir_form *form = &p->match->form;
  int64_t all = ir_form_extent(form, loop);
  if (loop != p->pack.loop) return all;
  int64_t each = heads_of(form, &p->pack), packs = (each + all_heads(p) - 1) / all_heads(p);
  return all / each * packs;
}

int64_t attention_all_units(const attention_plan *p) {
  const contraction_loops *batch = &p->match->batch;
  int64_t n = 1;
  for (int i = 0; i < batch->n; i++) n *= attention_units(p, batch->loops[i]);
  return n;
}

const recipe_expr *attention_pack_heads(const attention_plan *p, arena *a) {
  const recipe_expr *all = kernel_extent(&p->match->form, p->pack.loop, a);
  if (!p->pack.shared) return all;
  return recipe_binary(a, RECIPE_DIV, all, kernel_dim(p->match->form.problem->op, p->pack.groups, a));
}

const recipe_expr *attention_units_recipe(const attention_plan *p, int loop, arena *a) {
  const ir_form *form = &p->match->form;
  if (loop != p->pack.loop) return kernel_extent(form, loop, a);
  const recipe_expr *packs =
      recipe_binary(a, RECIPE_CEILDIV, attention_pack_heads(p, a), recipe_const(a, all_heads(p)));
  if (!p->pack.shared) return packs;
  return recipe_binary(a, RECIPE_MUL, kernel_dim(form->problem->op, p->pack.groups, a), packs);
}

void attention_pack_require(const attention_plan *p, recipe *rules, arena *a) {
  if (p->pack.loop >= 0 && p->pack.whole)
    kernel_require(rules, a, attention_pack_heads(p, a), all_heads(p), 0,
                   "the kernel is made for groups of another number of heads");
}

int attention_map_dimension(const attention_plan *p, int access, int s) {
  const attention_match *m = p->match;
  const ir_access *x = &m->form.accesses[access];
  int last = x->n - 1, head = -1, query = -1, to = 3;
  bool packs = access == m->o;
  for (int i = 0; i < m->n_parts; i++) packs = packs || access == m->parts[i].q;
  if (p->pack.heads == 1 || !packs) return last - s;
  for (int i = 0; i < last; i++) {
    const ir_expr *e = x->subscripts[i].e;
    if (e->node == IR_INDEX && e->id == p->pack.loop) head = i;
    if (e->node == IR_INDEX && e->id == m->query) query = i;
  }
  if (s == last) return 0;
  if (s == head) return 1;
  if (s == query) return 2;
  for (int i = last - 1; i > s; i--)
    if (i != head && i != query) to++;
  return to;
}
