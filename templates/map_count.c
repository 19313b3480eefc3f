/* The number of a row's group, counted by looking for it: ends do not decrease (contraction_groups.h). */
#include "generator/gen_control.h"
#include "templates/contraction_value.h"
#include "templates/map.h"

/* ends[at] <= row */
static arke_status is_passed(const map_count *c, gen_value at, gen_value *passed, arke_error *err) {
  gen_builder *b = c->b;
  const lanes_options *from = &c->k->plan->lanes;
  lanes_options o = {.loop = -1, .width = 1, .dense = from->dense, .wide_offsets = from->wide_offsets};
  const contraction_groups *g = &c->k->m->groups_of;
  lanes *l;
  gen_value end, row = c->row;
  int n;
  TRY(lanes_create(b, &c->k->m->form, &o, &c->k->slots, c->k->a, &l, err));
  lanes_set(l, g->loop, at);
  TRY(lanes_elements(l, g->ends, &end, &n, err));
  if (gen_type_of(b, end) != gen_type_of(b, row)) {
    if (gen_type_of(b, end) == GEN_I32) end = gen_sext(b, end, GEN_I64);
    if (gen_type_of(b, row) == GEN_I32) row = gen_zext(b, row, GEN_I64);
  }
  *passed = gen_compare(b, GEN_SLE, end, row);
  return ARKE_OK;
}

arke_status map_count_find(map_count *c, arke_error *err) {
  enum { FROM, TO, N };
  gen_builder *b = c->b;
  const map_match *m = c->k->m;
  lanes_options o = {
      .loop = -1, .width = 1, .dense = m->dense, .wide_offsets = c->k->plan->lanes.wide_offsets};
  lanes *l;
  gen_loop loop;
  gen_value range[N], passed;
  TRY(lanes_create(b, &m->form, &o, &c->k->slots, c->k->a, &l, err));
  range[TO] = lanes_extent(l, m->groups_of.loop);
  bool wide = gen_type_of(b, range[TO]) == GEN_I64;
  range[FROM] = wide ? gen_i64(b, 0) : gen_i32(b, 0);
  gen_loop_begin(b, &loop, range, N);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, range[FROM], range[TO]));
  gen_value middle = gen_lshr(b, gen_add(b, range[FROM], range[TO]), wide ? gen_i64(b, 1) : gen_i32(b, 1));
  arke_status status = is_passed(c, middle, &passed, err);
  if (status == ARKE_OK) {
    range[FROM] = gen_select(b, passed, gen_add_imm(b, middle, 1), range[FROM]);
    range[TO] = gen_select(b, passed, range[TO], middle);
  }
  gen_loop_end(b, &loop);
  TRY(status);
  gen_value group = wide ? gen_trunc(b, range[FROM], GEN_I32) : range[FROM];
  c->group = contraction_value_as(b, group, ir_form_type(&m->form, m->groups_of.of));
  return ARKE_OK;
}

arke_status map_count_value(void *user, const ir_expr *e, gen_value *values, arke_error *err) {
  map_count *c = user;
  if (e != c->k->m->groups_of.of)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the map template did not match");
  if (!c->group) TRY(map_count_find(c, err));
  values[0] = c->group;
  return ARKE_OK;
}
