/* Elements of accesses: which are wanted, by which loads they come, and what they are. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_expression.h"
#include "templates/lanes_internal.h"

#define STAGE "generate"

static dtype line_type(const lanes *l, const lanes_line *line) {
  return ir_tensor_dtype(l->form->problem, line->tensor);
}

/* --- wanting --- */

static arke_status grow(lanes *l, lanes_line *line, arke_error *err) {
  int capacity = line->capacity > 0 ? 2 * line->capacity : LANES_MAX;
  lanes_element *more = ARENA_NEW_N(l->a, lanes_element, (size_t)capacity);
  if (!more) return error_memory(err, STAGE);
  for (int i = 0; i < line->n; i++) more[i] = line->elements[i];
  line->elements = more;
  line->capacity = capacity;
  return ARKE_OK;
}

/* The element of a line, which is kept in ascending order. */
static arke_status element_at(lanes *l, lanes_line *line, int64_t at, lanes_element **element,
                              arke_error *err) {
  int i = 0;
  while (i < line->n && line->elements[i].at < at) i++;
  if (i == line->n || line->elements[i].at != at) {
    if (line->n == line->capacity) TRY(grow(l, line, err));
    for (int k = line->n++; k > i; k--) line->elements[k] = line->elements[k - 1];
    line->elements[i] = (lanes_element){.at = at};
  }
  *element = &line->elements[i];
  return ARKE_OK;
}

static arke_status want(lanes *l, int access, int lane, arke_error *err) {
  lanes_reference to;
  lanes_element *element;
  TRY(lanes_find(l, access, lane, &to, err));
  TRY(element_at(l, to.line, to.at, &element, err));
  if (!element->wanted) {
    element->wanted = true;
    element->always = false;
    element->access = access;
    element->lane = lane;
  }
  element->always = element->always || !lanes_is_tested(l->form, &l->o, access);
  return ARKE_OK;
}

/* --- loading --- */

static gen_value zero(lanes *l, gen_type type) {
  gen_builder *b = l->b;
  switch (type) {
  case GEN_I1: return gen_bool(b, false);
  case GEN_I8:
  case GEN_I16: return gen_trunc(b, gen_i32(b, 0), type);
  case GEN_I64: return gen_i64(b, 0);
  case GEN_F16:
  case GEN_BF16:
  case GEN_F64: return gen_float_cast(b, gen_f32(b, 0), type);
  case GEN_F32: return gen_f32(b, 0);
  default: return gen_i32(b, 0);
  }
}

static gen_value zeros(lanes *l, gen_type type, int n) {
  gen_value all[2 * LANES_MAX];
  for (int i = 0; i < n; i++) all[i] = zero(l, type);
  return n == 1 ? all[0] : gen_vector(l->b, all, n);
}

/* Nothing writes an input while the kernel runs unless an output lies in its memory. */
static bool is_constant(const lanes *l, int tensor) {
  const ir_op *op = l->form->problem->op;
  if (tensor >= op->n_inputs) return false;
  for (int t = op->n_inputs; t < op->n_args; t++) {
    if (op->tensors[t].alias == tensor) return false;
  }
  return true;
}

static gen_value load(lanes *l, const lanes_line *line, gen_type type, int n, gen_value address) {
  gen_cache cache = line->streamed ? l->o.loads : GEN_CACHE_DEFAULT;
  return gen_load_global_cached(l->b, type, n, address, is_constant(l, line->tensor), cache);
}

/* Half bytes: a vector of bytes, or one element out of its byte. */
static gen_value load_nibbles(lanes *l, const lanes_line *line, int64_t at, int n) {
  gen_builder *b = l->b;
  gen_value base = gen_param(b, l->slots->pointer[line->tensor]);
  gen_value offset = gen_add_imm(b, line->offset, at);
  gen_value address = gen_add(b, base, gen_ashr(b, offset, gen_i64(b, 1)));
  if (n == 4) { /* of two bytes LLVM makes words with undefined upper halves, and permutes those */
    gen_value both = load(l, line, GEN_I16, 1, address);
    gen_value high = gen_trunc(b, gen_lshr(b, gen_zext(b, both, GEN_I32), gen_i32(b, 8)), GEN_I8);
    return gen_vector(b, (gen_value[]){gen_trunc(b, both, GEN_I8), high}, 2);
  }
  if (n > 1) return load(l, line, GEN_I8, n / 2, address);
  gen_value word = gen_zext(b, load(l, line, GEN_I8, 1, address), GEN_I32);
  gen_value index = gen_trunc(b, gen_and(b, offset, gen_i64(b, 1)), GEN_I32);
  return gen_nibble(b, word, index);
}

/* `first` and the elements behind it by one load, where they lie inside. */
static arke_status load_piece(lanes *l, lanes_line *line, int first, int n, arke_error *err) {
  gen_builder *b = l->b;
  lanes_element *element = &line->elements[first];
  dtype type = line_type(l, line);
  bool nibbles = dtype_bits(type) < 8;
  lanes_piece *piece = ARENA_NEW(l->a, lanes_piece);
  if (!piece) return error_memory(err, STAGE);
  *piece = (lanes_piece){.type = type, .n = n};
  gen_value inside = NULL;
  if (!element->always) TRY(lanes_inside(l, element->access, element->lane, &inside, err));
  gen_branch branch;
  gen_value loaded = NULL;
  if (inside) {
    loaded = zeros(l, gen_storage_type(type), nibbles && n > 1 ? n / 2 : n);
    gen_if(b, &branch, inside, &loaded, 1);
  }
  loaded = nibbles ? load_nibbles(l, line, element->at, n)
                   : load(l, line, gen_storage_type(type), n, lanes_element_address(l, line, element->at));
  if (inside) gen_if_end(b, &branch);
  piece->vector = loaded;
  for (int i = 0; i < n; i++) {
    line->elements[first + i].piece = piece;
    line->elements[first + i].position = i;
  }
  return ARKE_OK;
}

/* Whether element `other` can come with `first`: it is wanted, too, and inside whenever that is. */
static bool comes_with(lanes *l, const lanes_element *first, const lanes_element *other) {
  if (!other->wanted || other->piece || other->always != first->always) return false;
  if (first->always) return true;
  if (first->access != other->access) return false;
  lanes_place x, y;
  lanes_place_of(&l->scope, first->access, first->lane, &x);
  lanes_place_of(&l->scope, other->access, other->lane, &y);
  return lanes_inside_together(&l->scope, first->access, &x, &y);
}

/* The most neighbours from `first` on that one aligned load brings and that all are wanted. */
static int piece_size(lanes *l, const lanes_line *line, int first) {
  const lanes_element *e = &line->elements[first];
  int n = 1, most = (int)line->alignment;
  while (n < most && first + n < line->n && line->elements[first + n].at == e->at + n &&
         comes_with(l, e, &line->elements[first + n]))
    n++;
  int size = 1;
  while (2 * size <= n && e->at % (2 * size) == 0) size *= 2;
  return size;
}

static arke_status load_line(lanes *l, lanes_line *line, arke_error *err) {
  for (int i = 0; i < line->n; i++) {
    if (!line->elements[i].wanted || line->elements[i].piece) continue;
    TRY(lanes_line_address(l, line, err));
    TRY(load_piece(l, line, i, piece_size(l, line, i), err));
  }
  return ARKE_OK;
}

/* --- elements --- */

static int packed_bits(const lanes_piece *piece) {
  return piece->n * dtype_bits(piece->type);
}

static void unpack(lanes *l, lanes_piece *piece) {
  gen_builder *b = l->b;
  if (piece->unpacked) return;
  piece->unpacked = true;
  if (piece->n == 1) {
    piece->values[0] = gen_widen(b, piece->type, piece->vector);
    return;
  }
  gen_value words[2 * LANES_MAX];
  int bits = packed_bits(piece);
  if (bits <= 16) {
    words[0] = gen_zext(b, gen_bitcast(b, piece->vector, bits == 8 ? GEN_I8 : GEN_I16, 1), GEN_I32);
  } else {
    gen_value all = gen_bitcast(b, piece->vector, GEN_I32, bits / 32);
    for (int i = 0; i < bits / 32; i++) words[i] = bits == 32 ? all : gen_lane(b, all, i);
  }
  gen_unpack(b, piece->type, words, piece->n, piece->values);
}

/* Elements of less than a register as words that the compiler cannot tell to be those which it has widened
 * already: it would keep the wide ones. */
static void narrow(lanes *l, lanes_piece *piece) {
  gen_builder *b = l->b;
  gen_value words[2 * LANES_MAX];
  int bits = packed_bits(piece), n = bits / 32;
  if (!piece->unpacked || bits % 32 != 0 || dtype_bits(piece->type) >= 32) return;
  piece->unpacked = false;
  gen_value all = gen_bitcast(b, piece->vector, GEN_I32, n);
  for (int i = 0; i < n; i++) words[i] = gen_unknown(b, n == 1 ? all : gen_lane(b, all, i));
  gen_type storage = gen_storage_type(piece->type);
  int elements = dtype_bits(piece->type) < 8 ? piece->n / 2 : piece->n;
  piece->vector = gen_bitcast(b, n == 1 ? words[0] : gen_vector(b, words, n), storage, elements);
}

void lanes_narrow(lanes *l) {
  for (int i = 0; i <= l->form->n_nodes; i++) {
    for (int lane = 0; l->memo[i] && lane < LANES_MAX; lane++) l->memo[i]->values[lane] = NULL;
  }
  for (int i = 0; i < l->n_lines; i++) {
    for (int k = 0; k < l->lines[i]->n; k++)
      if (l->lines[i]->elements[k].piece) narrow(l, l->lines[i]->elements[k].piece);
  }
  for (int i = 0; i < l->form->n_accesses * LANES_MAX; i++) l->given[i] = NULL;
}

static gen_value storage_of(lanes *l, const lanes_element *e) {
  gen_builder *b = l->b;
  const lanes_piece *piece = e->piece;
  if (piece->n == 1) return piece->vector;
  if (dtype_bits(piece->type) >= 8) return gen_lane(b, piece->vector, e->position);
  gen_value byte = piece->n == 2 ? piece->vector : gen_lane(b, piece->vector, e->position / 2);
  return gen_nibble(b, gen_zext(b, byte, GEN_I32), gen_i32(b, e->position % 2));
}

/* What the template supplies: all lanes at once. */
static arke_status given(lanes *l, int access, int lane, gen_value *storage, arke_error *err) {
  gen_value *all = &l->given[access * LANES_MAX];
  bool is_moving = false;
  const ir_access *x = &l->form->accesses[access];
  for (int i = 0; i < x->n; i++) is_moving = is_moving || lanes_moves(&l->scope, x->subscripts[i].e);
  if (!all[0]) TRY(l->o.read(l->o.user, access, all, err));
  *storage = all[is_moving ? lane : 0];
  return ARKE_OK;
}

arke_status lanes_element_of(lanes *l, int access, int lane, bool storage, gen_value *value,
                             arke_error *err) {
  if (l->o.given >> access & 1) {
    TRY(given(l, access, lane, value, err));
    dtype type = ir_tensor_dtype(l->form->problem, l->form->accesses[access].tensor);
    if (!storage) *value = gen_widen(l->b, type, *value);
    return ARKE_OK;
  }
  lanes_reference to;
  lanes_element *element;
  TRY(lanes_find(l, access, lane, &to, err));
  TRY(element_at(l, to.line, to.at, &element, err));
  if (!element->piece) {
    TRY(want(l, access, lane, err));
    TRY(load_line(l, to.line, err));
    TRY(element_at(l, to.line, to.at, &element, err));
  }
  if (storage) {
    *value = storage_of(l, element);
    return ARKE_OK;
  }
  unpack(l, element->piece);
  *value = element->piece->values[element->position];
  return ARKE_OK;
}

/* --- loading ahead --- */

static arke_status visit(lanes *l, const ir_expr *e, int lane, arke_error *err);

static arke_status visit_read(lanes *l, int access, int lane, arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  if (x->other) TRY(visit(l, x->other, lane, err));
  if (l->o.given >> access & 1) return ARKE_OK;
  for (int i = 0; i < x->n; i++) TRY(visit(l, x->subscripts[i].e, lane, err));
  return want(l, access, lane, err);
}

/* Wants what the evaluation will read. Reductions are the template's. */
static arke_status visit(lanes *l, const ir_expr *e, int lane, arke_error *err) {
  if (lanes_is_outer(l, e)) return visit(l->o.outer, e, lane, err);
  if (!lanes_moves(&l->scope, e)) lane = 0;
  unsigned *mark = &l->visited[ir_form_number(l->form, e) * LANES_MAX + lane];
  if (*mark == l->visit) return ARKE_OK;
  *mark = l->visit;
  if (e->node == IR_REDUCE) return ARKE_OK;
  if (e->node == IR_READ) return visit_read(l, e->id, lane, err);
  int first = 0, last = e->n_args;
  if (e->node == IR_OPERATOR && e->id == IR_OP_SELECT) {
    int truth = lanes_truth(&l->scope, e->args[0], lane);
    if (truth >= 0) {
      first = truth ? 1 : 2;
      last = first + 1;
    }
  } else if (lanes_truth(&l->scope, e, lane) >= 0) {
    return ARKE_OK;
  }
  for (int i = first; i < last; i++) TRY(visit(l, e->args[i], lane, err));
  return ARKE_OK;
}

/* Lines whose subscripts are read come last: those reads are in flight by then. */
static arke_status load_wanted(lanes *l, arke_error *err) {
  if (l->o.outer) TRY(load_wanted(l->o.outer, err));
  for (int gathered = 0; gathered < 2; gathered++) {
    for (int i = 0; i < l->n_lines; i++) {
      if (l->lines[i]->gathered == (bool)gathered) TRY(load_line(l, l->lines[i], err));
    }
  }
  return ARKE_OK;
}

static void start_visit(lanes *l) {
  for (; l; l = l->o.outer) l->visit++;
}

arke_status lanes_load(lanes *l, const ir_expr *e, arke_error *err) {
  start_visit(l);
  for (int lane = 0; lane < (lanes_moves(&l->scope, e) ? l->o.width : 1); lane++) TRY(visit(l, e, lane, err));
  return load_wanted(l, err);
}

arke_status lanes_elements(lanes *l, int access, gen_value *elements, int *n, arke_error *err) {
  const ir_access *x = &l->form->accesses[access];
  *n = 1;
  for (int i = 0; i < x->n; i++) {
    if (lanes_moves(&l->scope, x->subscripts[i].e)) *n = l->o.width;
  }
  start_visit(l);
  for (int lane = 0; lane < *n; lane++) TRY(visit_read(l, access, lane, err));
  TRY(load_wanted(l, err));
  for (int lane = 0; lane < *n; lane++) TRY(lanes_element_of(l, access, lane, true, &elements[lane], err));
  return ARKE_OK;
}
