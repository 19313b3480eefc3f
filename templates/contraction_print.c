/* A contraction in words, for tests and messages. */
#include "templates/contraction.h"

static void print_loops(const contraction *c, const char *kind, const contraction_loops *loops, strbuf *out) {
  strbuf_add(out, kind);
  for (int i = 0; i < loops->n; i++) strbuf_addf(out, " %s", c->form.loops[loops->loops[i]].name);
  strbuf_add(out, "; ");
}

static void print_accesses(const contraction *c, uint64_t accesses, strbuf *out) {
  const ir_form *form = &c->form;
  for (int i = 0; i < form->n_accesses; i++)
    if (accesses >> i & 1) strbuf_addf(out, " %s", form->problem->op->tensors[form->accesses[i].tensor].name);
}

void contraction_print(const contraction *c, strbuf *out) {
  print_loops(c, "batch", &c->batch, out);
  print_loops(c, "m", &c->m, out);
  print_loops(c, "n", &c->n, out);
  print_loops(c, "k", &c->k, out);
  for (int i = 0; i < c->n_operands; i++) {
    const contraction_operand *o = &c->operands[i];
    strbuf_addf(out, "%s:", o->side == CONTRACTION_A ? "A" : "B");
    print_accesses(c, o->accesses, out);
    const char *how = o->access >= 0 ? "" : o->element >= 0 ? " as" : " computed";
    strbuf_addf(out, "%s %s; ", how, o->tf32 ? "tf32" : dtype_name(o->type));
  }
  for (int i = 0; i < c->n_sums; i++) {
    const contraction_sum *s = &c->sums[i];
    strbuf_addf(out, "sum %d*%d", s->a, s->b);
    if (s->n_scales > 0) strbuf_addf(out, " of %d scales", s->n_scales);
    if (s->n_conditions > 0) strbuf_addf(out, " under %d conditions", s->n_conditions);
    strbuf_addf(out, " %s; ", dtype_name(s->type));
  }
  strbuf_add(out, "epilogue:");
  print_accesses(c, c->epilogue, out);
  if (c->groups.of) {
    const ir_tensor *ends = &c->form.problem->op->tensors[c->form.accesses[c->groups.ends].tensor];
    strbuf_addf(out, "; groups by %s", ends->name);
  }
}
