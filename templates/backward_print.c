/* Attention's gradients in words, for tests and messages. */
#include "templates/backward.h"

void backward_print(const backward_match *m, strbuf *out) {
  const ir_form *form = &m->form;
  const ir_op *op = form->problem->op;
  strbuf_add(out, "batch");
  for (int i = 0; i < m->batch[BACKWARD_QUERIES].n; i++)
    strbuf_addf(out, " %s", form->loops[m->batch[BACKWARD_QUERIES].loops[i]].name);
  if (m->head >= 0) strbuf_addf(out, "; %s of %s", form->loops[m->head].name, form->loops[m->share].name);
  strbuf_addf(out, "; query %s; key %s; depth %s; wide %s", form->loops[m->query].name,
              form->loops[m->key].name, form->loops[m->depth].name, form->loops[m->wide].name);
  const int reads[] = {m->q, m->k, m->v, m->d_o}, outputs[] = {m->dq, m->dk, m->dv};
  for (int i = 0; i < 4; i++) strbuf_addf(out, "; %s", op->tensors[form->accesses[reads[i]].tensor].name);
  for (int i = 0; i < 3; i++)
    strbuf_addf(out, "; %s", op->tensors[form->accesses[form->outputs[outputs[i]].access].tensor].name);
  strbuf_addf(out, "; %s", dtype_name(m->type));
  if (m->plain || m->capped) strbuf_addf(out, "; scale %g", m->scale);
  if (m->capped) strbuf_addf(out, "; cap %g", m->cap);
  strbuf_addf(out, "%s; %d bounds", m->base2 ? "; base 2" : "", m->seen[BACKWARD_QUERIES].n);
  if (m->seen[0].n_conditions > 0) strbuf_addf(out, "; %d conditions", m->seen[0].n_conditions);
  if (m->groups[BACKWARD_QUERIES].of) strbuf_add(out, "; requests of queries");
  if (m->groups[BACKWARD_KEYS].of) strbuf_add(out, "; requests of keys");
}
