/* How K and V are read: by keys as they lie, by pages, or at any places; and who can share them. */
#include "templates/attention_match.h"

/* key / page (DIV) or key % page (MOD): the page, else NULL. */
static const ir_expr *page_in(const ir_form *form, const ir_expr *e, ir_operator o, int key) {
  e = lanes_without_index_casts(form, e);
  if (e->node != IR_OPERATOR || e->id != (int)o) return NULL;
  const ir_expr *index = lanes_without_index_casts(form, e->args[0]),
                *page = lanes_without_index_casts(form, e->args[1]);
  bool is_page = page->node == IR_SIZE || (page->node == IR_INT && page->integer > 0);
  return index->node == IR_INDEX && index->id == key && is_page ? page : NULL;
}

/* The access of table[…, key / page, …], whose other subscripts do not depend on the key; else -1. */
static int table_of(const ir_form *form, const ir_expr *e, int key, const ir_expr **page) {
  *page = NULL;
  while (e->node == IR_CAST) e = e->args[0];
  if (e->node != IR_READ) return -1;
  const ir_access *x = &form->accesses[e->id];
  for (int s = 0; s < x->n; s++) {
    const ir_expr *sub = x->subscripts[s].e;
    if (!(ir_form_free(form, sub) >> key & 1)) continue;
    const ir_expr *of = *page ? NULL : page_in(form, sub, IR_OP_DIV, key);
    if (!of) {
      *page = NULL;
      return -1;
    }
    *page = of;
  }
  if (*page && !x->other) return e->id;
  *page = NULL;
  return -1;
}

static bool match_pages(const ir_form *form, const ir_access *x, const int *moving, int key,
                        attention_read *r) {
  for (int i = 0; i < 2; i++) {
    const ir_expr *place = page_in(form, x->subscripts[moving[i]].e, IR_OP_MOD, key),
                  *number = x->subscripts[moving[1 - i]].e, *page = page_in(form, number, IR_OP_DIV, key);
    int table = page ? -1 : table_of(form, number, key, &page);
    if (!place || !page || place != page) continue;
    r->keys = ATTENTION_KEYS_PAGED;
    r->row = moving[i];
    r->page_of = moving[1 - i];
    r->table = table;
    r->page = page;
    return true;
  }
  return false;
}

bool attention_match_read(const ir_form *form, const contraction_groups *groups, const ir_expr *read,
                          int query, int key, int along, attention_read *r, strbuf *detail) {
  const ir_access *x = &form->accesses[read->id];
  const char *name = form->problem->op->tensors[x->tensor].name;
  int moving[LIMIT_RANK + 1], n = 0;
  *r =
      (attention_read){.access = read->id, .keys = ATTENTION_KEYS_ANY, .row = -1, .page_of = -1, .table = -1};
  if (x->other) return template_say(detail, "%s has values outside itself", name);
  if (contraction_loops_without_group(form, groups, read) >> query & 1)
    return template_say(detail, "%s differs from query to query", name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (x->subscripts[s].leading) return template_say(detail, "%s has leading axes", name);
    unsigned free = ir_form_free(form, e);
    bool is_last = s == x->n - 1, is_along = e->node == IR_INDEX && e->id == along;
    if (is_last != (free >> along & 1) || is_last != is_along)
      return template_say(detail, "rows of %s do not run along the axis that is summed or stored", name);
    if (free >> key & 1) moving[n++] = s;
  }
  if (n == 0) return template_say(detail, "%s is the same for all keys", name);
  const ir_expr *first = x->subscripts[moving[0]].e;
  if (n == 1 && first->node == IR_INDEX) {
    r->keys = ATTENTION_KEYS_PLAIN;
    r->row = moving[0];
  } else if (n == 2) {
    match_pages(form, x, moving, key, r);
  }
  return true;
}

static const ir_expr *page_number(const attention_match *m, const attention_read *r) {
  return r->page_of < 0 ? NULL : m->form.accesses[r->access].subscripts[r->page_of].e;
}

bool attention_same_pages(const attention_match *m) {
  const ir_expr *number = page_number(m, &m->v);
  for (int i = 0; i < m->n_parts; i++)
    if (page_number(m, &m->parts[i].k) != number) return false;
  return number != NULL;
}

bool attention_has_values(const attention_match *m, const attention_part *part) {
  const ir_access *k = &m->form.accesses[part->k.access], *v = &m->form.accesses[m->v.access];
  if (k->tensor != v->tensor || k->n != v->n) return false;
  for (int s = 0; s < k->n; s++) {
    const ir_expr *e = k->subscripts[s].e, *f = v->subscripts[s].e;
    bool inner = e->node == IR_INDEX && e->id == part->depth && f->node == IR_INDEX && f->id == m->wide;
    if (e != f && !inner) return false;
  }
  return true;
}

/* --- packing --- */

/* Takes into account that a read depends on loops of the batch: `all` of them, and those that it has as
 * h / (H / G) alone. */
static void note_loops(const attention_match *m, int access, unsigned *all, attention_packing *p) {
  const ir_form *form = &m->form;
  const ir_access *x = &form->accesses[access];
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    ir_dim shares[2];
    int loop;
    unsigned loops = contraction_loops_without_group(form, &m->groups, e);
    if (!attention_is_share(form, e, &loop, shares)) {
      *all |= loops;
    } else if (p->shared < 0) {
      p->shared = loop;
      p->heads = shares[0];
      p->groups = shares[1];
    } else if (p->shared != loop || p->heads.axis != shares[0].axis || p->groups.axis != shares[1].axis) {
      *all |= loops;
    }
  }
}

attention_packing attention_packing_of(const attention_match *m) {
  attention_packing p = {.shared = -1};
  unsigned all = 0;
  for (int i = 0; i < m->n_parts; i++) note_loops(m, m->parts[i].k.access, &all, &p);
  note_loops(m, m->v.access, &all, &p);
  p.loops = (m->batch.set | 1u << m->query) & ~all;
  if (p.shared >= 0) {
    p.loops &= ~(1u << p.shared);
    if (all >> p.shared & 1 || !(m->batch.set >> p.shared & 1)) p.shared = -1;
  }
  return p;
}

unsigned attention_bound_loops(const attention_match *m) {
  unsigned loops = 0;
  for (int i = 0; i < m->bounds.n; i++) {
    const lanes_sum *rest = &m->bounds.list[i].rest;
    for (int k = 0; k < rest->n; k++)
      loops |= contraction_loops_without_group(&m->form, &m->groups, rest->terms[k].e);
  }
  for (int i = 0; i < m->bounds.n_conditions; i++)
    loops |= contraction_loops_without_group(&m->form, &m->groups, m->bounds.conditions[i]);
  return loops & m->batch.set;
}

/* Pages for so many keys, and a pool with a few more than three requests take. */
static void set_pages(const attention_match *m, const attention_read *r, int64_t keys, ir_problem *p) {
  const ir_form *form = &m->form;
  const ir_tensor *tensors = form->problem->op->tensors;
  const ir_access *x = &form->accesses[r->access],
                  *table = &form->accesses[r->table < 0 ? r->access : r->table];
  int64_t size = r->page->node == IR_INT ? r->page->integer : p->sizes[r->page->id];
  int64_t pages = size > 0 ? (keys + size - 1) / size : 1;
  for (int s = 0; s < table->n; s++) {
    int axis = tensors[table->tensor].dims[table->subscripts[s].first].axis;
    bool is_row = table == x && s == r->row;
    if ((ir_form_free(form, table->subscripts[s].e) >> m->key & 1) && axis >= 0 && !is_row)
      p->sizes[axis] = pages;
  }
  if (r->table < 0) return;
  int pool = tensors[x->tensor].dims[x->subscripts[r->page_of].first].axis;
  if (pool >= 0) p->sizes[pool] = 3 * pages + 2;
}

void attention_set_keys(const attention_match *m, int64_t keys, ir_problem *p) {
  if (m->v.keys != ATTENTION_KEYS_PAGED) {
    ir_form_set_extent(&m->form, m->key, keys, p);
    return;
  }
  set_pages(m, &m->v, keys, p);
  for (int i = 0; i < m->n_parts; i++)
    if (m->parts[i].k.keys == ATTENTION_KEYS_PAGED) set_pages(m, &m->parts[i].k, keys, p);
}
