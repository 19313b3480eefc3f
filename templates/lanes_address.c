/* Values of index arithmetic, range tests and addresses. */
#include "generator/gen_control.h"
#include "templates/lanes_internal.h"

#define STAGE "generate"

/* --- values --- */

gen_value lanes_constant(lanes *l, gen_type type, int64_t value) {
  return type == GEN_I64 ? gen_i64(l->b, value) : gen_i32(l->b, value);
}

gen_value lanes_slot_value(lanes *l, lanes_slot slot) {
  return slot.param < 0 ? lanes_constant(l, l->index_type, slot.value) : gen_param(l->b, slot.param);
}

static gen_value as_index(lanes *l, gen_value v, gen_type type) {
  gen_type from = gen_type_of(l->b, v);
  if (from == type) return v;
  if (from == GEN_I64) return gen_trunc(l->b, v, type);
  return from == GEN_I1 ? gen_zext(l->b, v, type) : gen_sext(l->b, v, type);
}

/* An I64 that fits I32, as that, by both of its halves: of a vector of which every other word is unused, the
 * assembler makes loads of one word each. */
static gen_value whole_as_i32(gen_builder *b, gen_value v) {
  gen_value low = gen_trunc(b, v, GEN_I32), high = gen_trunc(b, gen_lshr(b, v, gen_i64(b, 32)), GEN_I32);
  return gen_add(b, low, gen_sub(b, high, gen_ashr(b, low, gen_i32(b, 31))));
}

static int log2_of(int64_t v) {
  int bits = 0;
  while (INT64_C(1) << bits < v) bits++;
  return bits;
}

/* What a term stands for, its coefficient left out. */
static arke_status atom_value(lanes *l, const lanes_term *t, gen_type type, gen_value *value,
                              arke_error *err) {
  gen_builder *b = l->b;
  if (t->quotient) {
    lanes_sum inner = lanes_sum_of(&l->scope, t->e->args[0], t->lane),
              by = lanes_sum_of(&l->scope, t->e->args[1], t->lane);
    TRY(lanes_sum_value(l, &inner, false, type, value, err));
    *value = gen_ashr(b, *value, lanes_constant(l, type, log2_of(by.constant)));
    return ARKE_OK;
  }
  switch (t->e->node) {
  case IR_INDEX:
    *value = l->loops[t->e->id];
    if (!*value) {
      gen_misuse(b, "loop %d of the form has no value", t->e->id);
      *value = lanes_constant(l, type, 0);
    }
    break;
  case IR_SIZE: *value = lanes_slot_value(l, l->slots->size[t->e->id]); break;
  default: TRY(lanes_value(l, t->e, t->lane, value, err));
  }
  bool is_wide = t->e->node == IR_READ && (l->o.wide >> t->e->id & 1);
  if (is_wide && type == GEN_I32 && gen_type_of(b, *value) == GEN_I64) *value = whole_as_i32(b, *value);
  *value = as_index(l, *value, type);
  return ARKE_OK;
}

arke_status lanes_sum_value(lanes *l, const lanes_sum *sum, bool with_constant, gen_type type,
                            gen_value *value, arke_error *err) {
  gen_builder *b = l->b;
  gen_value total = NULL;
  for (int i = 0; i < sum->n; i++) {
    const lanes_term *t = &sum->terms[i];
    gen_value v;
    TRY(atom_value(l, t, type, &v, err));
    if (!total) {
      total = gen_mul_imm(b, v, t->coefficient);
    } else if (t->coefficient < 0) {
      total = gen_sub(b, total, gen_mul_imm(b, v, -t->coefficient));
    } else {
      total = gen_add(b, total, gen_mul_imm(b, v, t->coefficient));
    }
  }
  int64_t constant = with_constant ? sum->constant : 0;
  *value = total ? gen_add_imm(b, total, constant) : lanes_constant(l, type, constant);
  return ARKE_OK;
}

/* --- range tests --- */

arke_status lanes_inside(lanes *l, int access, int lane, gen_value *inside, arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  const ir_tensor *t = &l->form->problem->op->tensors[x->tensor];
  gen_builder *b = l->b;
  lanes_place place;
  *inside = NULL;
  lanes_place_of(&l->scope, access, lane, &place);
  for (int i = 0; i < x->n; i++) {
    if (lanes_in_range(l->form, x, i)) continue;
    const lanes_sum *sum = &place.subscripts[i];
    ir_dim dim = t->dims[x->subscripts[i].first];
    bool large = sum->constant > INT32_MAX / 2 || sum->constant < -INT32_MAX / 2;
    gen_type type = large || lanes_sum_reads(l->form, sum) ? GEN_I64 : l->index_type;
    gen_value at, size = lanes_constant(l, type, dim.factor);
    TRY(lanes_sum_value(l, sum, true, type, &at, err));
    if (dim.axis >= 0) {
      gen_value axis = as_index(l, lanes_slot_value(l, l->slots->size[dim.axis]), type);
      size = gen_mul_imm(b, axis, dim.factor);
      if (dim.more) size = gen_add(b, size, lanes_constant(l, type, dim.more));
    }
    gen_value here = gen_compare(b, GEN_ULT, at, size); /* negative ones are large */
    *inside = *inside ? gen_and(b, *inside, here) : here;
  }
  if (!*inside) *inside = gen_bool(b, true);
  return ARKE_OK;
}

/* --- lines --- */

static bool line_has(const lanes_line *line, int tensor, const lanes_place *place) {
  if (line->tensor != tensor || line->place.n != place->n) return false;
  for (int i = 0; i < place->n; i++) {
    if (!lanes_same_terms(&line->place.subscripts[i], &place->subscripts[i])) return false;
    if (i + 1 < place->n && line->place.subscripts[i].constant != place->subscripts[i].constant) return false;
  }
  return true;
}

static arke_status add_line(lanes *l, int access, const lanes_place *place, lanes_line **line,
                            arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  if (l->n_lines == l->lines_capacity) {
    int capacity = l->lines_capacity > 0 ? 2 * l->lines_capacity : 16;
    lanes_line **more = ARENA_NEW_N(l->a, lanes_line *, (size_t)capacity);
    if (!more) return error_memory(err, STAGE);
    for (int i = 0; i < l->n_lines; i++) more[i] = l->lines[i];
    l->lines = more;
    l->lines_capacity = capacity;
  }
  *line = ARENA_NEW(l->a, lanes_line);
  if (!*line) return error_memory(err, STAGE);
  l->lines[l->n_lines++] = *line;
  (*line)->tensor = x->tensor;
  (*line)->place = *place;
  (*line)->alignment = 1;
  (*line)->leading = x->n > 0 && x->subscripts[x->n - 1].leading;
  if (place->n > 0) (*line)->place.subscripts[place->n - 1].constant = 0;
  for (int i = 0; i < x->n; i++) {
    (*line)->loops |= ir_form_free(l->form, x->subscripts[i].e);
    (*line)->gathered = (*line)->gathered || lanes_sum_reads(l->form, &place->subscripts[i]);
  }
  return ARKE_OK;
}

arke_status lanes_find(lanes *l, int access, int lane, lanes_reference *reference, arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  lanes_reference *known = &l->references[access * LANES_MAX + lane];
  if (!known->line) {
    lanes_place place;
    lanes_line *line = NULL;
    lanes_place_of(&l->scope, access, lane, &place);
    for (int i = 0; i < l->n_lines && !line; i++) {
      if (line_has(l->lines[i], x->tensor, &place)) line = l->lines[i];
    }
    if (!line) TRY(add_line(l, access, &place, &line, err));
    if (l->o.wide >> access & 1) {
      int64_t alignment = lanes_divisor(&l->scope, &line->place.subscripts[place.n - 1]);
      int unit = lanes_unit(l->form, &l->o, access);
      if (alignment > unit) alignment = unit;
      if (line->alignment < alignment) line->alignment = alignment;
    }
    line->streamed = line->streamed || (l->o.streamed >> access & 1);
    *known = (lanes_reference){line, place.n > 0 ? place.subscripts[place.n - 1].constant : 0};
  }
  *reference = *known;
  return ARKE_OK;
}

/* --- addresses --- */

static lanes_slot stride_slot(const lanes *l, const lanes_line *line, const ir_access *x, int i) {
  const ir_subscript *sub = &x->subscripts[i];
  if (sub->leading && !l->o.dense) return l->slots->lead_stride[line->tensor][0];
  return l->slots->stride[line->tensor][sub->first + sub->count];
}

static bool is_one(lanes_slot slot) {
  return slot.param < 0 && slot.value == 1;
}

/* The stride between elements of a line: 1 where it is known to be that. */
static lanes_slot step_of(const lanes *l, const lanes_line *line, const ir_access *x) {
  if (x->n == 0 || line->alignment > 1) return (lanes_slot){-1, 1};
  return stride_slot(l, line, x, x->n - 1);
}

/* Some access of the line: all have its subscripts' dimensions. */
static const ir_access *access_of(const lanes *l, const lanes_line *line) {
  for (int i = 0; i < l->form->n_accesses * LANES_MAX; i++) {
    if (l->references[i].line == line) return &l->form->accesses[i / LANES_MAX];
  }
  return NULL;
}

/* Elements from the tensor's first to where subscript i, without the line's own step, leads. */
static arke_status subscript_offset(lanes *l, const lanes_line *line, const ir_access *x, int i,
                                    gen_value *offset, arke_error *err) {
  gen_builder *b = l->b;
  const lanes_sum *sum = &line->place.subscripts[i];
  *offset = NULL;
  if (x->subscripts[i].leading && !l->o.dense) {
    for (int axis = 0; axis < LANES_LEAD; axis++) {
      gen_value at = l->lead[axis];
      if (!at) {
        gen_misuse(b, "the leading loop has no value");
        at = lanes_constant(l, l->index_type, 0);
      }
      gen_value stride = lanes_slot_value(l, l->slots->lead_stride[line->tensor][axis]);
      bool contiguous = axis == 0 && i + 1 == x->n && line->alignment > 1;
      gen_value step = contiguous ? at : gen_mul(b, at, stride);
      *offset = *offset ? gen_add(b, *offset, step) : step;
    }
    return ARKE_OK;
  }
  if (sum->n == 0 && sum->constant == 0) return ARKE_OK;
  TRY(lanes_sum_value(l, sum, true, l->index_type, offset, err));
  lanes_slot slot = i + 1 == x->n ? step_of(l, line, x) : stride_slot(l, line, x, i);
  if (!is_one(slot)) *offset = gen_mul(b, *offset, lanes_slot_value(l, slot));
  return ARKE_OK;
}

/* Whether a subscript moves with the lane loop: its part of the address is added last, so that the other one
 * is the same from one step of that loop to the next. */
static bool moves(const lanes *l, const ir_access *x, int i) {
  return lanes_moves(&l->scope, x->subscripts[i].e);
}

arke_status lanes_line_address(lanes *l, lanes_line *line, arke_error *err) {
  if (line->address) return ARKE_OK;
  gen_builder *b = l->b;
  const ir_access *x = access_of(l, line);
  int bits = dtype_bits(ir_tensor_dtype(l->form->problem, line->tensor));
  gen_value address = gen_param(b, l->slots->pointer[line->tensor]), whole = NULL;
  for (int moving = 0; moving < 2; moving++) {
    gen_value offset = NULL;
    for (int i = 0; i < x->n; i++) {
      gen_value part;
      if (moves(l, x, i) != (bool)moving) continue;
      TRY(subscript_offset(l, line, x, i, &part, err));
      if (part) offset = offset ? gen_add(b, offset, part) : part;
    }
    if (!offset) continue;
    offset = as_index(l, offset, GEN_I64);
    whole = whole ? gen_add(b, whole, offset) : offset;
    if (bits >= 8) address = gen_add(b, address, gen_mul_imm(b, offset, bits / 8));
  }
  line->address = address;
  line->offset = whole ? whole : gen_i64(b, 0);
  return ARKE_OK;
}

gen_value lanes_element_address(lanes *l, const lanes_line *line, int64_t at) {
  gen_builder *b = l->b;
  int bytes = dtype_bits(ir_tensor_dtype(l->form->problem, line->tensor)) / 8;
  lanes_slot step = step_of(l, line, access_of(l, line));
  if (step.param < 0) return gen_add_imm(b, line->address, at * step.value * bytes);
  gen_value stride = as_index(l, lanes_slot_value(l, step), GEN_I64);
  return at == 0 ? line->address : gen_add(b, line->address, gen_mul_imm(b, stride, at * bytes));
}
