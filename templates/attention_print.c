/* An attention match as text, for tests and messages. */
#include "templates/attention_match.h"

static void print_term(const attention_match *m, const ir_expr *e, strbuf *out) {
  const ir_problem *p = m->form.problem;
  if (e->node == IR_SIZE)
    strbuf_addf(out, " %s", p->op->axes[e->id]);
  else if (e->node == IR_INDEX)
    strbuf_addf(out, " %s", m->form.loops[e->id].name);
  else if (e->node == IR_READ)
    strbuf_addf(out, " %s", p->op->tensors[m->form.accesses[e->id].tensor].name);
  else
    strbuf_add(out, " read");
}

static void print_sum(const attention_match *m, const lanes_sum *sum, strbuf *out) {
  for (int i = 0; i < sum->n; i++) {
    strbuf_addf(out, " %+lld", (long long)sum->terms[i].coefficient);
    print_term(m, sum->terms[i].e, out);
  }
  strbuf_addf(out, " %+lld", (long long)sum->constant);
}

static const char *tensor_name(const attention_match *m, int access) {
  return m->form.problem->op->tensors[m->form.accesses[access].tensor].name;
}

static void print_read(const attention_match *m, const char *part, const attention_read *r, strbuf *out) {
  strbuf_addf(out, "; %s %s", part, tensor_name(m, r->access));
  if (r->keys == ATTENTION_KEYS_ANY) strbuf_add(out, " anywhere");
  if (r->keys != ATTENTION_KEYS_PAGED) return;
  strbuf_addf(out, " by pages of");
  if (r->page->node == IR_INT)
    strbuf_addf(out, " %lld", (long long)r->page->integer);
  else
    print_term(m, r->page, out);
  if (r->table >= 0) strbuf_addf(out, " of %s", tensor_name(m, r->table));
}

static void print_bounds(const attention_match *m, strbuf *out) {
  const ir_op *op = m->form.problem->op;
  for (int i = 0; i < m->bounds.n; i++) {
    const attention_bound *b = &m->bounds.list[i];
    strbuf_addf(out, "; %s", b->upper ? "below" : "from");
    if (b->query) strbuf_addf(out, " %+lld %s", (long long)b->query, m->form.loops[m->query].name);
    print_sum(m, &b->rest, out);
    if (b->times) strbuf_addf(out, " times %s", op->axes[b->times->id]);
  }
  if (m->bounds.n_conditions > 0) strbuf_addf(out, "; %d conditions", m->bounds.n_conditions);
  for (int i = 0; i < m->bounds.n_shares; i++)
    strbuf_addf(out, "; %s divides %s", op->axes[m->bounds.shares[i][1].axis],
                op->axes[m->bounds.shares[i][0].axis]);
}

static void print_packing(const attention_match *m, strbuf *out) {
  attention_packing p = attention_packing_of(m);
  strbuf_add(out, "; packs");
  for (int i = 0; i < m->form.n_loops; i++)
    if (p.loops >> i & 1) strbuf_addf(out, " %s", m->form.loops[i].name);
  if (p.shared >= 0) strbuf_addf(out, " some %s", m->form.loops[p.shared].name);
}

void attention_print(const attention_match *m, strbuf *out) {
  const ir_form *form = &m->form;
  strbuf_add(out, "batch");
  for (int i = 0; i < m->batch.n; i++) strbuf_addf(out, " %s", form->loops[m->batch.loops[i]].name);
  strbuf_addf(out, "; query %s; key %s; wide %s", form->loops[m->query].name, form->loops[m->key].name,
              form->loops[m->wide].name);
  for (int i = 0; i < m->n_parts; i++) {
    const attention_part *part = &m->parts[i];
    strbuf_addf(out, "; depth %s; Q %s", form->loops[part->depth].name, tensor_name(m, part->q));
    if (part->made) strbuf_addf(out, " computed by %d", part->blocks->n_outputs);
    print_read(m, "K", &part->k, out);
  }
  print_read(m, "V", &m->v, out);
  strbuf_addf(out, "; O %s; %s; scale %g", tensor_name(m, m->o), dtype_name(m->type), m->scale);
  if (m->body != m->product && m->by_row)
    strbuf_addf(out, " times %d factors of rows", m->n_row_factors);
  else if (m->body != m->product)
    strbuf_add(out, " of an expression");
  if (m->n_scales > 0) strbuf_addf(out, "; %d factors of values", m->n_scales);
  if (m->base2) strbuf_add(out, "; base 2");
  if (m->guarded) strbuf_add(out, "; guarded");
  if (m->groups.of) strbuf_addf(out, "; requests by %s", tensor_name(m, m->groups.ends));
  print_bounds(m, out);
  print_packing(m, out);
}
